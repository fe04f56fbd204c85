"""Public functions that take private records: the same bits on every rank, or refused on every rank."""

import warnings
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import privmw as pmw
from extensions.cluster.sharded_cases import DOMAIN, PRIVATE, PUBLIC, SUPPORT, WORKLOAD
from extensions.cluster.thread_ranks import run_ranks
from privmw import strategies
from privmw.accounting import Neighbors
from privmw.curator import Curator
from privmw.extensions.cluster import ShardedRecords, ShardedSupport
from privmw.extensions.engines import Counts
from privmw.extensions.unbiased.one_shot import OneShot
from privmw.ranks import ALONE, RankError

SEEDED = {"epsilon": 1.0, "delta": 1e-6, "rng": 7}
PAIRS = [("age", "sex"), ("race",)]


def configuration(algorithm):
    """What a release from sharded public rows answers and spent."""

    def call(private, support, **options):
        release = algorithm.release(private, support, WORKLOAD, **SEEDED, **options)
        return release.answers().tobytes(), release.ledger

    return call


def shot(algorithm):
    def call(private, support, **options):
        given = {**SEEDED, "delta": 0} if "Laplace" in repr(algorithm) else SEEDED
        answers = algorithm.release(private, WORKLOAD, **given, **options)
        return answers.answers().tobytes(), answers.ledger

    return call


def measured(**given):
    def call(private, support, **options):
        marginals, ledger = pmw.measure_marginals(private, PAIRS, rng=7, **given, **options)
        return marginals.noisy_counts.tobytes(), ledger

    return call


def chosen(private, support, **options):
    other = pmw.Table.from_codes(np.zeros((3, len(DOMAIN)), int), DOMAIN, private=False)
    choice = pmw.choose_public(private, [other, PUBLIC], WORKLOAD, epsilon=1, rng=7, **options)
    return choice.index, choice.ledger


def recommended(private, support, **options):
    release = pmw.release_auto(private, support, WORKLOAD, **SEEDED, **options)
    return release.answers().tobytes(), release.ledger


def from_several(private, support, **options):
    """Rows of two public tables, which the ranks share like those of one."""
    halves = np.array_split(PUBLIC.codes(), 2)
    tables = [pmw.Table.from_codes(half, DOMAIN, private=False) for half in halves]
    rows = pmw.Support.from_tables(tables)
    if support.comm.size > 1:
        rows = ShardedSupport.of(rows, support.comm)
    return recommended(private, rows, **options)


def without_public(private, support, **options):
    """On ranks of sharded records there is no support that could say which ranks there are."""
    return recommended(private, None, **options)


def without_rows(algorithm):
    """It weighs rows of its own."""

    def call(private, support, **options):
        release = algorithm.release(private, None, WORKLOAD, **SEEDED, **options)
        return release.answers().tobytes(), release.ledger

    return call


SAME = {
    "MWPub": configuration(pmw.MWPub(rounds=2)),
    "MWEMPub": configuration(pmw.MWEMPub(rounds=2)),
    "PEP": configuration(pmw.PEP(rounds=2)),
    "release_auto": recommended,
    "OneShot": shot(OneShot()),
    "OneShot of equal shares": shot(OneShot(strategy=strategies.equal())),
    "HDMM": shot(pmw.HDMM()),
    "measure_marginals with Gaussian noise": measured(rho=0.5),
    "measure_marginals with Laplace noise": measured(epsilon=1),
    "measure_marginals with a threshold": measured(epsilon=1, delta=1e-6, threshold=True),
    "measure_marginals by addition": measured(epsilon=1, neighbors=Neighbors.ADD_REMOVE_ONE, public_n=2000),
    "choose_public": chosen,
}
REFUSED = {
    "release_auto, several public tables": from_several,
    "release_auto, no public table": without_public,
    "GEM": configuration(pmw.GEM(rounds=2)),
    "RAP": without_rows(pmw.RAP(rounds=2)),
    "DualQuery": configuration(pmw.DualQuery(rounds=2)),
    "FEM": configuration(pmw.FEM(rounds=2)),
}


@cache
def alone(name):
    return SAME[name](PRIVATE, SUPPORT)


def on_ranks(size, call, errors=False, **options):
    parts = np.array_split(PRIVATE.codes(), size)

    def program(comm):
        own = pmw.Table.from_codes(parts[comm.rank], DOMAIN, private=True)
        return call(ShardedRecords(own, comm), ShardedSupport.of(SUPPORT, comm), **options)

    return run_ranks(size, program, errors=errors)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", SAME)
def test_every_rank_has_the_bits_of_one_process(name, size):
    assert on_ranks(size, SAME[name]) == [alone(name)] * size


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_run_on_ranks_is_refused_on_every_rank(name, size):
    for error in on_ranks(size, REFUSED[name], errors=True):
        assert isinstance(error, ValueError), error
        assert "rank" in str(error) or "of one table to be sharded" in str(error)


def outcome(name, call, ways, private):
    """What comes of a call in another way: the bits of one process, or an error."""
    try:
        with ways, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # counts were not compared with public rows
            return "same bits" if call(private, SUPPORT) == one_process(name) else "OTHER BITS"
    except (TypeError, ValueError):
        return "refused"


@cache
def one_process(name):
    return {**SAME, **REFUSED}[name](PRIVATE, SUPPORT)


@contextmanager
def threads(count):
    before = pmw.kernels.threads()
    pmw.kernels.set_threads(count)
    try:
        yield
    finally:
        pmw.kernels.set_threads(before)


DOCS = Path(__file__).parents[3] / "docs" / "cluster.md"


@pytest.mark.parametrize("name", [*SAME, *REFUSED])
def test_the_table_of_algorithms_and_ways_says_what_they_do(name):
    """Ranks: the tests above. Counts of Spark, Dask and databases are all `Counts`."""
    call = SAME.get(name) or REFUSED[name]
    in_threads = outcome(name, call, threads(2), PRIVATE)
    counted = outcome(name, call, nullcontext(), Counts.from_records(PRIVATE, WORKLOAD))
    ranks = "same bits" if name in SAME else "refused"
    line = f"| {name} | yes | {in_threads} | {ranks} | {counted} |"
    assert line in DOCS.read_text(encoding="utf-8").splitlines()


ONE_RUN = {  # limits that two runs exceed
    "MWPub": pmw.Budget.approximate(1.1, 2e-6),
    "OneShot": pmw.Budget.approximate(1.1, 2e-6, event_delta=1e-6),
    "measure_marginals with Laplace noise": pmw.Budget.zcdp(0.3),
    "choose_public": pmw.Budget.zcdp(0.2),
}


@pytest.mark.parametrize("name", ONE_RUN)
def test_an_account_is_charged_once_by_rank_0(name, tmp_path):
    account = pmw.Account.create(tmp_path / "account", ONE_RUN[name])
    on_ranks(3, SAME[name], account=account)
    (run,) = account.runs
    assert run.finished
    for error in on_ranks(2, SAME[name], account=account, errors=True):
        assert isinstance(error, pmw.BudgetError | RankError), error


def test_a_rank_above_0_has_no_curator():
    """It would add noise to zeros, which protects nobody and tells nothing."""

    def program(comm):
        own = pmw.Table.from_codes(PRIVATE.codes(), DOMAIN, private=True)
        records = ShardedRecords(own, comm)
        if comm.rank > 0:
            Curator(records, WORKLOAD, pmw.Budget.zcdp(1))

    assert "the curator of rank 0" in str(run_ranks(2, program, errors=True)[1])
    assert PRIVATE.comm is ALONE
