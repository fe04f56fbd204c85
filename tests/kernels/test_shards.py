"""Rows split over ranks: every kernel gives the bits that it gives on all of them at once."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extensions.cluster.thread_ranks import run_ranks
from kernels.cases import NAMES, Case, case, door_of, drawn_cases, installed
from privmw import kernels
from privmw.ranks import ALONE

drawn = settings(max_examples=40)
RANKS = (1, 2, 3, 4)
LIGHT_AND_HEAVY = {
    "alike": np.full(11, 0.3),
    "denormal": np.full(9, 5e-324),
    "far below one": np.ldexp(np.arange(1.0, 14), -900),
    "one huge": np.append(np.full(12, 1e-300), 1.7e308),
    "one huge among none": np.append(np.zeros(8), 1e308),
    "light ones outweigh the heavy": np.append(np.full(70_000, 2.0**-61), 1.0),
    "every size": np.ldexp(1.0, np.arange(-1074, 1024, 17)),
    "fewer rows than ranks": np.array([1e-310, 3.0]),
}
some_weights = st.lists(
    st.floats(0, 1.7e308) | st.floats(0, 1) | st.sampled_from([0.0, 5e-324, 2.0**-900, 1.0]),
    min_size=1,
    max_size=15,
).filter(any)


def cuts(rows, ranks, seed=0):
    """Where each rank's rows begin and end; some may have none."""
    inner = np.random.default_rng([seed, rows, ranks]).integers(0, rows, ranks - 1, endpoint=True)
    return [0, *sorted(inner.tolist()), rows]


def sharded(ranks, program, *arrays, seed=0, errors=False):
    """What program(comm, *own parts of the arrays) returns on each rank."""
    at = cuts(len(arrays[0]), ranks, seed)

    def run(comm):
        return program(comm, *(array[at[comm.rank] : at[comm.rank + 1]].copy() for array in arrays))

    return run_ranks(ranks, run, errors=errors)


def rescale(comm, weights):
    total = kernels.rescale(weights, threads=1, comm=comm)
    masses, again = kernels.to_masses(weights, threads=1, comm=comm)
    assert again == total
    return weights, masses, total


def check_rescale(weights):
    whole, masses, total = rescale(ALONE, np.array(weights))
    for ranks in RANKS:
        found = sharded(ranks, rescale, np.array(weights))
        assert {each for *_, each in found} == {total}
        assert np.concatenate([own for own, *_ in found]).tobytes() == whole.tobytes()
        assert np.concatenate([own for _, own, _ in found]).tobytes() == masses.tobytes()


@pytest.mark.parametrize("name", LIGHT_AND_HEAVY)
def test_weights_and_masses_are_those_of_all_rows(name, backend):
    with door_of(backend):
        check_rescale(LIGHT_AND_HEAVY[name])


@given(some_weights)
@drawn
def test_weights_of_any_size_are_rescaled_alike_on_any_number_of_ranks(weights):
    check_rescale(weights)


@given(
    some_weights, st.lists(st.tuples(st.sets(st.integers(0, 14)), st.floats(2.0**-32, 2.0**32)), max_size=5)
)
@drawn
def test_updates_are_those_of_all_rows(weights, updates):
    def run(comm, own, numbers):
        total, trace = kernels.rescale(own, comm=comm), []
        for chosen, factor in updates:
            rows = np.flatnonzero(np.isin(numbers, sorted(chosen))).astype(np.uint32)
            gains = kernels.multiply(own, rows, factor)
            sums = np.array([gains.before, gains.gained, len(rows)])
            comm.allreduce(sums)
            before, gained, count = sums.tolist()
            after = kernels.total_after(total, before, count, factor, gained)
            total = kernels.rescale(own, comm=comm) if after is None else after
            trace.append(total)
        return own, trace

    arrays = np.array(weights), np.arange(len(weights))
    whole, trace = run(ALONE, *(array.copy() for array in arrays))
    for ranks in RANKS:
        found = sharded(ranks, run, *arrays)
        assert all(each == trace for _, each in found)
        assert np.concatenate([own for own, _ in found]).tobytes() == whole.tobytes()


def tilt(comm, base, by):
    return kernels.tilt(base, by, threads=1, comm=comm)


def check_tilt(base, by):
    whole, log_total = tilt(ALONE, base, by)
    for ranks in RANKS:
        found = sharded(ranks, tilt, base, by)
        assert {each for _, each in found} == {log_total}
        assert np.concatenate([own for own, _ in found]).tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", LIGHT_AND_HEAVY)
def test_tilts_are_those_of_all_rows(name, backend):
    base = LIGHT_AND_HEAVY[name]
    rng = np.random.default_rng(3)
    with door_of(backend):
        for spread in (0.0, 3.0, 300.0, 1e300):
            check_tilt(base, spread * rng.standard_normal(len(base)))


@given(
    st.lists(
        st.tuples(st.just(0.0) | st.floats(0, 1.7e308), st.floats(-1500, 1500) | st.floats(-1e308, 1e308)),
        min_size=1,
        max_size=30,
    ).filter(lambda rows: any(base for base, _ in rows))
)
@drawn
def test_tilts_of_any_size_are_alike_on_any_number_of_ranks(rows):
    check_tilt(*np.array(rows).T.copy())


def test_a_row_is_tilted_alike_wherever_it_stands(backend):
    rng = np.random.default_rng(4)
    base, by = rng.random(3_000), 200 * rng.standard_normal(3_000)
    by[::7] -= 700
    with door_of(backend):
        whole, _ = kernels.tilt(base, by)
        order = rng.permutation(3_000)
        assert np.array_equal(kernels.tilt(base[order], by[order])[0], whole[order])


def test_bases_too_large_for_a_float_in_total_are_tilted(backend):
    with door_of(backend):
        weights, log_total = kernels.tilt(np.full(4, 1.7e308), np.zeros(4))
    assert weights.tolist() == [0.25] * 4
    assert log_total == pytest.approx(np.log(1.7e308) + np.log(4), abs=1e-12)


def plan(table, first, last):
    columns = kernels.Columns([column[first:last].copy() for column in table.columns], table.sizes)
    return kernels.Marginals(columns, *table.workload())


def check_potentials(table, values, seed=0):
    whole = plan(table, 0, table.rows).potentials(values)
    for ranks in RANKS:
        at = cuts(table.rows, ranks, seed)
        found = [
            plan(table, first, last).potentials(values)
            for first, last in itertools.pairwise(at)
            if first < last
        ]
        assert np.concatenate(found).tobytes() == whole.tobytes()
    return whole


def values_for(table, seed):
    rng = np.random.default_rng(seed)
    cells = sum(int(np.prod([table.sizes[a] for a in marginal])) for marginal in table.marginals)
    return rng.standard_normal(cells) * np.exp(rng.uniform(-9, 9, cells))


@pytest.mark.parametrize("name", NAMES)
def test_potentials_are_those_of_all_rows(name, backend):
    with door_of(backend):
        check_potentials(case(name), values_for(case(name), 5))


@given(drawn_cases(), st.integers(0, 2**32), st.sampled_from([0.0, 1e-320, 1e-300, 1.0, 1e300]))
@drawn
def test_potentials_of_drawn_tables_are_alike_on_every_shard_and_backend(table, seed, size):
    found = []
    for backend in installed():
        with door_of(backend):
            found.append(check_potentials(table, size * values_for(table, seed), seed).tobytes())
    assert len(set(found)) == 1


def test_potentials_of_one_row_alone_are_those_beside_others():
    table = case("mixed orders, skewed")
    values = values_for(table, 6)
    whole = plan(table, 0, table.rows).potentials(values)
    for row in range(0, table.rows, 500):
        assert plan(table, row, row + 1).potentials(values)[0] == whole[row]


def test_the_largest_and_the_smallest_values_have_potentials(backend):
    table = Case([np.array([0, 1], np.uint8)] * 2, [2, 2], [(0,), (1,)])
    with door_of(backend):
        for size in (1.7e308, 5e-324, 2.0**-1030):
            values = np.array([size, size, -size, 0.0])
            assert plan(table, 0, 2).potentials(values).tolist() == [0.0, size]


@pytest.mark.parametrize("ranks", RANKS)
def test_weights_that_one_rank_cannot_take_are_refused_by_all(ranks, backend):
    for program, bad, match in [
        *((kernels.rescale, bad, "weights must be finite") for bad in (np.nan, np.inf, -1.0)),
        *((kernels.to_masses, bad, "weights must be rescaled first") for bad in (np.nan, 5.0, -1.0, 4.0)),
    ]:
        weights = np.append(np.full(7, 0.125), bad)
        with door_of(backend):
            raised = sharded(ranks, lambda comm, own, of=program: of(own, comm=comm), weights, errors=True)
        for error in raised:
            with pytest.raises(ValueError, match=match):
                raise error


@pytest.mark.parametrize("ranks", RANKS)
def test_tilts_that_one_rank_cannot_make_are_refused_by_all(ranks, backend):
    for bad_base, bad_potential, match in [
        *((bad, 0.0, "base must be finite") for bad in (np.nan, np.inf, -1.0)),
        *((1.0, bad, "potentials must be finite") for bad in (np.nan, np.inf, -np.inf)),
        (np.nan, np.nan, "base must be finite"),
    ]:
        base, by = np.append(np.ones(7), bad_base), np.append(np.zeros(7), bad_potential)
        with door_of(backend):
            raised = sharded(ranks, tilt, base, by, errors=True)
        for error in raised:
            with pytest.raises(ValueError, match=match):
                raise error


@pytest.mark.parametrize("ranks", RANKS)
def test_rows_that_are_all_zero_are_refused_on_all_ranks_and_taken_on_some(ranks):
    weights = np.append(np.zeros(9), 2.0)
    check_rescale(weights)
    check_tilt(weights, np.arange(10.0))
    for program in (
        lambda comm, own: kernels.rescale(own, comm=comm),
        lambda comm, own: tilt(comm, own, own),
    ):
        for error in sharded(ranks, program, np.zeros(9), errors=True):
            with pytest.raises(ValueError, match="not all zero"):
                raise error
