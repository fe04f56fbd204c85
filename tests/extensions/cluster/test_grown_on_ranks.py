"""Supports that grow on several ranks: the rows of a support on one, and where they lie."""

from functools import cache

import numpy as np
import pytest

import privmw as pmw
from algorithms.cases import EndedError
from extensions.cluster.thread_ranks import run_ranks
from marks.slow import slow, slow_among
from models.grown_cases import (
    ALGORITHMS,
    PRIVATE,
    RULES,
    drawn,
    fewer,
    lacking,
    released,
    table,
)
from privmw.extensions.cluster import ShardedSupport
from privmw.models import query_matrix
from privmw.models.growth import start


@cache
def alone(algorithm, rules):
    return released(lacking(RULES if rules else None), algorithm)


def on_ranks(size, algorithm, rules=False, **options):
    def program(comm):
        support = ShardedSupport.of(lacking(RULES if rules else None), comm)
        private = PRIVATE if comm.rank == 0 else None
        release = released(support, algorithm, private=private, **options)
        return release.gathered(), release.answers(), release.history[-1].details, release.support.whole_size

    return run_ranks(size, program)


@pytest.mark.parametrize("size", [3, *slow(1, 2, 4)])
@pytest.mark.parametrize("rules", [True, *slow(False)])
@pytest.mark.parametrize("algorithm", slow_among(ALGORITHMS, ["a shot and rounds", "cells"]))
def test_any_number_of_ranks_grows_the_same_bits(algorithm, rules, size):
    one = alone(algorithm, rules)
    everywhere = on_ranks(size, algorithm, rules)
    whole, *others = [found[0] for found in everywhere]
    assert whole.support.rows.tolist() == one.support.rows.tolist()
    assert whole.weights.tobytes() == one.weights.tobytes()
    assert whole.measurements == one.measurements
    assert whole == one
    assert others == [None] * (size - 1)
    for _, answers, details, rows in everywhere:
        assert answers.tolist() == one.answers().tolist()
        assert details == one.history[-1].details
        assert rows == one.support.size


@pytest.mark.parametrize("size", [2, *slow(3)])
def test_ranks_that_widen_nothing_grow_the_same_bits(size, monkeypatch):
    monkeypatch.setattr(start, "LARGEST_WIDENED", 0)
    assert on_ranks(size, "a shot and rounds")[0][0] == released(lacking(), "a shot and rounds")


@pytest.mark.parametrize("size", [3, *slow(2)])
def test_rows_that_list_their_cells_grow_the_same_bits_on_ranks(size, monkeypatch):
    monkeypatch.setattr(query_matrix, "FEW_PER_CELL", 0)
    assert on_ranks(size, "a shot and rounds")[0][0] == released(lacking(), "a shot and rounds")


@pytest.mark.parametrize("sizes", [(2, 3), *slow((1, 2), (3, 1))])
@pytest.mark.parametrize("widened", [False, *slow(True)])
def test_a_run_on_some_ranks_is_resumed_on_others(sizes, widened, tmp_path, monkeypatch):
    if not widened:
        monkeypatch.setattr(start, "LARGEST_WIDENED", 0)
    whole = on_ranks(sizes[0], "a shot and rounds", checkpoint=tmp_path / "run", every=1)[0][0]
    assert on_ranks(sizes[1], "a shot and rounds", checkpoint=tmp_path / "run", every=1)[0][0] == whole

    def end(entry):
        if entry.round == 1:
            raise EndedError

    found = []
    for every in (1, None):
        folder = tmp_path / f"every {every}"
        with pytest.raises(EndedError):
            on_ranks(sizes[0], "a shot and rounds", checkpoint=folder, every=every, progress=end)
        found.append(on_ranks(sizes[1], "a shot and rounds", checkpoint=folder, every=every)[0][0])
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 40])
def test_a_sharded_support_with_further_rows_is_that_of_one_rank(size, rows):
    support, added = lacking(), drawn(rows, 7).astype(np.uint32)
    one = support.with_rows(added)

    def program(comm):
        shard = ShardedSupport.of(support, comm)
        wider = shard.with_rows(added)
        assert type(wider.support) is ShardedSupport
        assert wider.support.rows[wider.places].tolist() == shard.rows.tolist()
        here = wider.added >= 0
        assert wider.support.rows[wider.added[here]].tolist() == added[here].tolist()
        return (
            wider.support.gathered(),
            here,
            wider.support.grown,
            wider.support.records,
            wider.support.fingerprint(),
        )

    everywhere = run_ranks(size, program)
    assert everywhere[0][0][0] == one.support
    # Every row lies on one rank.
    assert (sum(found[1].astype(int) for found in everywhere) == 1).all()
    for _, _, grown, records, fingerprint in everywhere:
        assert (grown, records) == (one.support.grown, one.support.records)
        assert fingerprint == one.support.fingerprint()


def test_rows_added_twice_lie_where_the_first_lie():
    added = drawn(60, 8).astype(np.uint32)

    def program(comm):
        once = ShardedSupport.of(lacking(), comm).with_rows(added[:40]).support
        return once.with_rows(added).support.gathered()

    assert run_ranks(3, program)[0][0] == lacking().with_rows(added).support


def test_rows_that_break_a_rule_are_refused_on_every_rank():
    def program(comm):
        ShardedSupport.of(lacking(RULES), comm).with_rows([[0, 0, 0, 0, 2]])

    for error in run_ranks(2, program, errors=True):
        assert "rows must keep the constraints of the support" in str(error)


def test_missing_columns_are_refused_on_ranks_before_anything_is_spent():
    def program(comm):
        ShardedSupport.of(fewer(), comm)

    for error in run_ranks(2, program, errors=True):
        assert "must have every attribute of the domain" in str(error)


def test_no_public_table_on_ranks_is_refused_where_there_is_no_private_table():
    """Without a support there are no ranks: each process would release on its own."""

    def program(comm):
        released(None, private=PRIVATE if comm.rank == 0 else None)

    found = run_ranks(2, program, errors=True)
    assert found[0] is None
    assert "private (NoneType) must be a Table" in str(found[1])


def test_particles_that_differ_are_refused_everywhere():
    def program(comm):
        support = ShardedSupport.of(lacking(), comm)
        released(support, pmw.PEP(rounds=1, particles=100 + comm.rank), private=PRIVATE)

    for error in run_ranks(2, program, errors=True):
        assert "must be the same on every rank" in str(error)


def test_a_row_on_each_rank_is_enough():
    few = pmw.Support.from_table(table(drawn(200, 1)[:2]))

    def program(comm):
        return released(ShardedSupport.of(few, comm), private=PRIVATE if comm.rank == 0 else None).gathered()

    found = run_ranks(few.whole_size + 1, program, errors=True)
    assert all("at least one row for each" in str(error) for error in found)
    assert run_ranks(few.whole_size, program)[0] == released(few)
