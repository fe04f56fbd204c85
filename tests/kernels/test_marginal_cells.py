"""Some cells of marginals over some rows: the sums and potentials of all of them, on every backend."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cases import (
    NAMES,
    THREADS,
    Case,
    all_of,
    case,
    door_of,
    drawn_cases,
    installed,
    masses_of,
    uniform,
)
from privmw import kernels
from privmw.kernels import choice, marginals
from privmw.ranks import ALONE


def some(table, backend, seed, most_bytes):
    """Places, rows, and the cells of these places on a backend."""
    rng = np.random.default_rng(seed)
    cells = len(table.truth(np.zeros(table.rows, np.int64)))
    places = np.flatnonzero(rng.random(cells) < rng.choice([0.3, 1.0]))
    rows = np.flatnonzero(rng.random(table.rows) < rng.choice([0.3, 1.0])).astype(np.uint32)
    return places, rows, backend.MarginalCells(table.plan(backend), places, most_bytes)


def check(table, backend, threads, seed=3, most_bytes=2**28):
    places, rows, cells = some(table, backend, seed, most_bytes)
    rng = np.random.default_rng(4)
    masses = masses_of(table.rows, 1)[1][rows] >> 2
    sums = np.full(len(places), -7, np.int64)
    cells.sums(rows, masses, sums, threads)
    assert np.array_equal(sums, table.truth(masses, rows)[places])

    # A row's potential is the sum over the cells of its own mass: what the truth says of each row.
    values = rng.integers(-(2**50), 2**50, len(places))
    potentials = np.full(len(rows), -7.0)
    cells.potentials(rows, values, -3, potentials, threads)
    for i in rng.choice(len(rows), min(len(rows), 4), replace=False).tolist():
        own = table.truth(np.ones(1, np.int64), rows[i : i + 1])[places]
        assert potentials[i] == float(own @ values) / 8

    prices = rng.choice([0.0, 0.5, 3.0], len(places))
    spread, again = np.empty(len(rows)), np.empty(len(rows))
    backend.GramProduct(cells, prices).spread(rows, masses, 20, -5, spread, threads)
    cells.potentials(rows, np.rint(sums * prices * 2.0**-20).astype(np.int64), -5, again, threads)
    assert np.array_equal(spread, again)

    kept = np.flatnonzero(rng.random(len(places)) < 0.5)
    cells.keep(kept)
    few = np.full(len(kept), -7, np.int64)
    cells.sums(rows, masses, few, threads)
    assert np.array_equal(few, sums[kept])
    cells.potentials(rows, values[kept], -3, potentials, threads)
    backend.MarginalCells(table.plan(backend), places[kept], most_bytes).potentials(
        rows, values[kept], -3, again, threads
    )
    assert np.array_equal(potentials, again)


@pytest.mark.parametrize("name", NAMES)
def test_cells_and_rows_of_marginals_have_their_sums_and_potentials(name, backend):
    check(case(name), backend, 1)


@pytest.mark.parametrize("threads", THREADS)
def test_threads_leave_cells_as_they_are(threads, backend):
    check(case("mixed orders, skewed"), backend, threads)
    check(case("every triple, skewed"), backend, threads, seed=5)


@given(drawn_cases(), st.integers(0, 2**32))
@settings(max_examples=40)
def test_drawn_cells_and_rows(table, seed):
    for backend in installed():
        check(table, backend, 2, seed)


def test_cells_without_lists_of_effects_are_evaluated_whole(backend):
    for most_bytes in (0, 2**17):  # no table of effects, and lists that would be too long
        check(case("every pair, skewed"), backend, 2, most_bytes=most_bytes)


def test_effects_may_be_more_than_two_bytes_number(backend):
    check(Case(uniform(2_000, [15] * 9, 0), [15] * 9, all_of(9, 3)), backend, 2)


def test_every_backend_and_two_ranks_spread_alike():
    table = case("mixed orders, skewed")
    masses = masses_of(table.rows, 1)[1] >> 2
    prices = np.random.default_rng(0).random(len(table.truth(masses)))
    found = []
    for backend in installed():
        with door_of(backend):
            columns = kernels.Columns(table.columns, table.sizes)
            cells = kernels.Marginals(columns, *table.workload()).among(np.arange(len(prices)))
            gram_product = cells.gram_product(prices)
            found += [gram_product.spread(masses, -40), gram_product.spread(masses, -40, comm=Two())]
            assert choice.kernels is backend
    for other in found[1:]:
        assert np.array_equal(other, found[0])
    with pytest.raises(ValueError, match="prices must be finite, none negative"):
        cells.gram_product(-prices)


def test_lists_of_a_few_rows_made_anew_answer_alike(backend, monkeypatch):
    table = case("mixed orders, skewed")
    rng = np.random.default_rng(1)
    rows = np.flatnonzero(rng.random(table.rows) < 0.3).astype(np.uint32)
    masses = masses_of(table.rows, 1)[1][rows] >> 2
    with door_of(backend):
        columns = kernels.Columns(table.columns, table.sizes)
        cells = kernels.Marginals(columns, *table.workload()).among(np.arange(len(table.truth(masses, rows))))
        cells.keep(np.flatnonzero(rng.random(cells.count) < 0.7))
        values = rng.random(cells.count)
        among_all = cells.over(rows)
        monkeypatch.setattr(marginals, "ROWS_APART", 2)
        apart = cells.over(rows)
        assert (among_all.columns.rows, apart.columns.rows) == (table.rows, len(rows))
        assert np.array_equal(apart.sums(masses), among_all.sums(masses))
        assert np.array_equal(apart.potentials(values), among_all.potentials(values))
        spread = [some.gram_product(values).spread(masses, -40) for some in (apart, among_all)]
        assert np.array_equal(*spread)
        assert cells.over(np.arange(table.rows - 1, dtype=np.uint32)).columns is columns
        none = cells.over(rows[:0])  # as of a rank whose rows are all light
        assert not none.sums(masses[:0]).any()
        assert len(none.potentials(values)) == 0


class Two(type(ALONE)):
    """A rank that says it has another beside it, which has no rows."""

    size = 2

    def allreduce(self, array):
        pass
