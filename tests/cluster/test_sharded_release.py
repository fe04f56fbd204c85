"""A release on several ranks has the bits of a release on one, whatever the algorithm."""

import itertools

import numpy as np
import pytest

import privmw as pm
from privmw.ranks import RankError
from cluster.thread_ranks import run_ranks

DOMAIN = pm.Domain({"age": 7, "sex": 2, "race": 5, "zip": 11, "own": 3})


def made(rows, seed, private=False):
    rng = np.random.default_rng(seed)
    skewed = [np.minimum(rng.geometric(0.4, rows) - 1, size - 1) for size in DOMAIN.sizes]
    return pm.Table.from_codes(DOMAIN, np.stack(skewed, axis=1), private=private)


PUBLIC, PRIVATE = made(3000, 1), made(2000, 2, private=True)
SUPPORT = pm.Support.from_table(PUBLIC)
WORKLOAD = pm.Workload.all(DOMAIN, k=3)

ALGORITHMS = {
    "mw-pub": pm.MWPub(rounds=6),
    "mw-pub by changes": pm.MWPub(rounds=6, replay="none"),
    "mw-pub afresh": pm.MWPub(rounds=6, replay="fresh"),
    "mw-pub averaged": pm.MWPub(rounds=4, output="average", start="uniform"),
    "mw-pub on marginals": pm.MWPub(rounds=4, measure="marginal"),
    "mw-pub on marginals, once each": pm.MWPub(rounds=4, measure="marginal", replay="none"),
    "mw-pub on marginals afresh": pm.MWPub(rounds=3, measure="marginal", replay="fresh", per_round=2),
    "mw-pub after a shot": pm.MWPub(rounds=3, warm_up=0.3, order=2),
    "mwem+pub": pm.MWEMPub(rounds=5),
    "pep": pm.PEP(rounds=5),
    "pep on cells": pm.PEP(rounds=5, measure="cell"),
    "pep within gamma": pm.PEP(rounds=4, slack="l1"),
    "pep within gamma on cells": pm.PEP(rounds=5, slack="l1", measure="cell", gamma=0.02),
    "pep of all": pm.PEP(select="all"),
    "pep of all pairs": pm.PEP(select="all", order=2, start="uniform"),
}


def released(algorithm, private, support, **options):
    return algorithm.configure(rho=0.3)(private, support, WORKLOAD, rng=5, **options)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_any_number_of_ranks_releases_the_same_bits(name, size):
    algorithm = ALGORITHMS[name]
    alone = released(algorithm, PRIVATE, SUPPORT)

    def program(comm):
        support = pm.ShardedSupport.of(SUPPORT, comm)
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
    alone = pm.release_auto(PRIVATE, SUPPORT, WORKLOAD, **options)

    def program(comm):
        support = pm.ShardedSupport.of(SUPPORT, comm)
        private = PRIVATE if comm.rank == 0 else None
        return pm.release_auto(private, support, WORKLOAD, **options).gathered()

    assert run_ranks(size, program)[0] == alone


def test_private_records_on_several_ranks_release_the_same_bits():
    alone = released(pm.MWPub(rounds=3), PRIVATE, SUPPORT)
    parts = np.array_split(PRIVATE.codes(), 3)

    def program(comm):
        own = pm.Table.from_codes(DOMAIN, parts[comm.rank], private=True)
        private = pm.ShardedRecords(own, comm)
        return released(pm.MWPub(rounds=3), private, pm.ShardedSupport.of(SUPPORT, comm)).gathered()

    assert run_ranks(3, program)[0] == alone


def test_a_round_adds_up_the_answers_once():
    def program(comm):
        support = pm.ShardedSupport.of(SUPPORT, comm)
        ends = []
        released(
            pm.MWPub(rounds=4),
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
        support = pm.ShardedSupport.of(SUPPORT, comm)
        return [
            algorithm.configure(rho=1).plan(support, WORKLOAD)
            for algorithm in (pm.MWPub(rounds=4), pm.PEP(rounds=4))
        ]

    mw, pep = run_ranks(2, program)[1]
    assert mw.traffic == 8 * WORKLOAD.cells
    assert pep.traffic > mw.traffic
    assert mw.rows == SUPPORT.size
    assert "MB added up over the ranks a round" in str(mw)
    assert all(plan.traffic == 0 for plan in run_ranks(1, program)[0])


def test_ranks_that_ask_for_different_things_are_refused_everywhere():
    def program(comm):
        support = pm.ShardedSupport.of(SUPPORT, comm)
        workload = pm.Workload.all(DOMAIN, k=2 + (comm.rank == 1))
        pm.MWPub(rounds=2).configure(rho=1)(PRIVATE, support, workload)

    for error in run_ranks(3, program, errors=True):
        assert isinstance(error, ValueError)
        assert "must be the same on every rank: rank 1 has another than rank 0" in str(error)


def test_what_rank_0_refuses_ends_every_rank():
    def program(comm):
        pm.MWPub(rounds=2).configure(rho=1)(None, pm.ShardedSupport.of(SUPPORT, comm), WORKLOAD)

    found = run_ranks(3, program, errors=True)
    assert [type(error) for error in found] == [TypeError, RankError, RankError]
    assert str(found[1]) == "rank 0 could not go on: it says why"


@pytest.mark.parametrize("sharded", [{0}, {1, 2}, {0, 1}])
def test_private_records_lie_on_rank_0_or_on_all_ranks(sharded):
    def program(comm):
        whole = pm.ShardedRecords(PRIVATE if comm.rank == 0 else None, comm)
        private = whole if comm.rank in sharded else (PRIVATE if comm.rank == 0 else None)
        released(pm.MWPub(rounds=1), private, pm.ShardedSupport.of(SUPPORT, comm))

    for error in run_ranks(3, program, errors=True):
        assert "whether private records lie on rank 0 or on all must be the same" in str(error)


def test_what_another_rank_gives_as_private_must_be_a_table():
    def program(comm):
        private = PRIVATE if comm.rank == 0 else "people.parquet"
        released(pm.MWPub(rounds=1), private, pm.ShardedSupport.of(SUPPORT, comm))

    found = run_ranks(2, program, errors=True)
    assert [type(error) for error in found] == [RankError, TypeError]


def test_a_release_in_parts_must_be_gathered_to_be_sampled_or_saved(tmp_path):
    def program(comm):
        release = released(pm.MWPub(rounds=1), PRIVATE, pm.ShardedSupport.of(SUPPORT, comm))
        for use in (release.sample, lambda: release.save(tmp_path / "release.npz")):
            with pytest.raises(ValueError, match="must be gathered first"):
                use()
        assert repr(release).startswith(f"Release(MWPub, {SUPPORT.size} rows")

    run_ranks(2, program)
    assert not list(tmp_path.iterdir())
