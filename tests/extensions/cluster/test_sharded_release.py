"""A release on several ranks has the bits of a release on one, whatever the algorithm."""

import itertools
from functools import cache

import numpy as np
import pytest

import privmw as pmw
from extensions.cluster.sharded_cases import ALGORITHMS, DOMAIN, PRIVATE, SUPPORT, WORKLOAD
from extensions.cluster.thread_ranks import run_ranks
from marks.slow import slow
from privmw.extensions.cluster import ShardedRecords, ShardedSupport
from privmw.models import query_matrix
from privmw.ranks import RankError


def released(algorithm, private, support, **options):
    return algorithm.calibrate(rho=0.3)(private, support, WORKLOAD, rng=5, **options)


@cache
def released_alone(name):
    return released(ALGORITHMS[name], PRIVATE, SUPPORT)


@pytest.mark.parametrize("size", [1, 3, *slow(2, 4)])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_any_number_of_ranks_releases_the_same_bits(name, size):
    algorithm, alone = ALGORITHMS[name], released_alone(name)

    def program(comm):
        support = ShardedSupport.of(SUPPORT, comm)
        release = released(algorithm, PRIVATE if comm.rank == 0 else None, support, threads=1)
        return release.answers(), release.answer(["sex"], [1]), release.ledger, release.gathered()

    everywhere = run_ranks(size, program)
    for answers, answer, ledger, _ in everywhere:
        assert np.array_equal(answers, alone.answers())
        assert answer == alone.answer(["sex"], [1])
        assert ledger == alone.ledger
    assert everywhere[0][3] == alone
    assert all(other[3] is None for other in everywhere[1:])


@pytest.mark.parametrize("size", [2, 3])
def test_the_recommended_release_is_the_same_on_ranks(size):
    options = {"epsilon": 1.0, "delta": 1e-6, "rng": 3}
    alone = pmw.release_auto(PRIVATE, SUPPORT, WORKLOAD, **options)

    def program(comm):
        support = ShardedSupport.of(SUPPORT, comm)
        private = PRIVATE if comm.rank == 0 else None
        return pmw.release_auto(private, support, WORKLOAD, **options).gathered()

    assert run_ranks(size, program)[0] == alone


@pytest.mark.parametrize("name", ["pep", "pep of all pairs", "release_auto"])
def test_ranks_that_solve_together_release_the_same_bits_in_more_calls(name, monkeypatch):
    """As where there are too many rows for each rank to solve over all of them."""
    alone = recommended(SUPPORT, PRIVATE) if name == "release_auto" else released_alone(name)

    def program(comm):
        support, private = ShardedSupport.of(SUPPORT, comm), PRIVATE if comm.rank == 0 else None
        if name == "release_auto":
            release = recommended(support, private, threads=1)
        else:
            release = released(ALGORITHMS[name], private, support, threads=1)
        return release.gathered(), len(comm.reduced)

    few = run_ranks(2, program)[0]
    monkeypatch.setattr(query_matrix, "are_few", lambda rows, cells: False)
    many = run_ranks(2, program)[0]
    assert few[0] == many[0] == alone
    assert many[1] > 2 * few[1]


def recommended(support, private, **options):
    return pmw.release_auto(private, support, WORKLOAD, epsilon=1.0, delta=1e-6, rng=3, **options)


def test_private_records_on_several_ranks_release_the_same_bits():
    alone = released(pmw.MWPub(rounds=3), PRIVATE, SUPPORT)
    parts = np.array_split(PRIVATE.codes(), 3)

    def program(comm):
        own = pmw.Table.from_codes(parts[comm.rank], DOMAIN, private=True)
        private = ShardedRecords(own, comm)
        return released(pmw.MWPub(rounds=3), private, ShardedSupport.of(SUPPORT, comm)).gathered()

    assert run_ranks(3, program)[0] == alone


def test_a_round_adds_up_the_answers_once():
    def program(comm):
        support = ShardedSupport.of(SUPPORT, comm)
        ends = []
        released(
            pmw.MWPub(rounds=4),
            PRIVATE if comm.rank == 0 else None,
            support,
            progress=lambda entry: ends.append(len(comm.reduced)),
        )
        return comm.reduced, ends

    reduced, ends = run_ranks(2, program)[0]
    for begin, end in itertools.pairwise(ends):
        large = [size for size in reduced[begin:end] if size >= 8 * WORKLOAD.cells]
        assert large == [8 * (WORKLOAD.cells + 3)]
        assert sum(reduced[begin:end]) - large[0] < 1000


def test_a_plan_says_the_bytes_of_a_round():
    def program(comm):
        support = ShardedSupport.of(SUPPORT, comm)
        return [
            algorithm.calibrate(rho=1).plan(support, WORKLOAD)
            for algorithm in (pmw.MWPub(rounds=4), pmw.PEP(rounds=4))
        ]

    mw, pep = run_ranks(2, program)[1]
    assert mw.traffic == 8 * WORKLOAD.cells
    assert pep.traffic > mw.traffic
    assert mw.rows == SUPPORT.size
    assert "MB added up over the ranks a round" in str(mw)
    assert all(plan.traffic == 0 for plan in run_ranks(1, program)[0])


def test_ranks_that_ask_for_different_things_are_refused_everywhere():
    def program(comm):
        support = ShardedSupport.of(SUPPORT, comm)
        workload = pmw.Workload.all(DOMAIN, k=2 + (comm.rank == 1))
        pmw.MWPub(rounds=2).calibrate(rho=1)(PRIVATE, support, workload)

    for error in run_ranks(3, program, errors=True):
        assert isinstance(error, ValueError)
        assert "must be the same on every rank: rank 1 has another than rank 0" in str(error)


def test_what_rank_0_refuses_ends_every_rank():
    def program(comm):
        pmw.MWPub(rounds=2).calibrate(rho=1)(None, ShardedSupport.of(SUPPORT, comm), WORKLOAD)

    found = run_ranks(3, program, errors=True)
    assert [type(error) for error in found] == [TypeError, RankError, RankError]
    assert str(found[1]) == "rank 0 failed: see its own error message"


@pytest.mark.parametrize("sharded", [{0}, {1, 2}, {0, 1}])
def test_private_records_lie_on_rank_0_or_on_all_ranks(sharded):
    def program(comm):
        whole = ShardedRecords(PRIVATE if comm.rank == 0 else None, comm)
        private = whole if comm.rank in sharded else (PRIVATE if comm.rank == 0 else None)
        released(pmw.MWPub(rounds=1), private, ShardedSupport.of(SUPPORT, comm))

    for error in run_ranks(3, program, errors=True):
        assert "whether private records lie on rank 0 or on all must be the same" in str(error)


def test_what_another_rank_gives_as_private_must_be_a_table():
    def program(comm):
        private = PRIVATE if comm.rank == 0 else "people.parquet"
        released(pmw.MWPub(rounds=1), private, ShardedSupport.of(SUPPORT, comm))

    found = run_ranks(2, program, errors=True)
    assert [type(error) for error in found] == [RankError, TypeError]


def test_a_release_in_parts_must_be_gathered_to_be_sampled_judged_or_saved(tmp_path):
    def program(comm):
        release = released(pmw.MWPub(rounds=1), PRIVATE, ShardedSupport.of(SUPPORT, comm))
        uses = (release.sample, release.expected_errors, release.intervals)
        for use in (*uses, lambda: release.save(tmp_path / "release.npz")):
            with pytest.raises(ValueError, match="must be gathered first"):
                use()
        assert repr(release).startswith(f"Release(MWPub, {SUPPORT.size} rows")

    run_ranks(2, program)
    assert not list(tmp_path.iterdir())
