"""Runs reserve their cost in the account of their table before they look at it, once, whatever ends them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import privmw as pmw
from algorithms.cases import WORKLOAD, EndedError, private, support
from extensions.cluster.thread_ranks import run_ranks
from marks.slow import slow
from privmw.algorithms import mechanism as mechanism_module
from privmw.extensions.cluster import ShardedSupport

MECHANISM = pmw.MWPub(rounds=4).calibrate(rho=0.25)


@pytest.fixture
def account(tmp_path):
    return pmw.Account.create(tmp_path / "account.jsonl", pmw.Budget.zcdp(0.6))


def run(account, checkpoint=None, *, until=None, every=10, **options):
    def progress(entry):
        if entry.round == until:
            raise EndedError

    given = {"checkpoint": checkpoint, "every": every, "progress": progress, "account": account, **options}
    return MECHANISM(private(), support(), WORKLOAD, **given)


def test_a_run_reserves_its_cost_and_settles_what_it_spent(account):
    release = run(account)
    (entry,) = account.runs
    assert account.total == release.ledger.total
    assert account.total.rho <= pmw.accounting.Composition.of(MECHANISM.events).rho
    assert entry.finished
    assert entry.for_release
    assert entry.what == "MWPub(rounds=4), Budget.zcdp(0.25)"
    run(account.path)
    assert account.total.rho == 2 * release.ledger.total.rho


def test_a_run_that_the_limit_does_not_cover_is_refused_before_the_table_is_looked_at(account, monkeypatch):
    run(account), run(account)
    before = account.runs
    monkeypatch.setattr(mechanism_module, "open_curator", None)
    with pytest.raises(
        pmw.BudgetError, match=r"run \(MWPub.*\) must fit the account: rho would be 0.75 of 0.6"
    ):
        run(account)
    assert account.runs == before


@pytest.mark.parametrize("release", [pmw.MWPub().release, pmw.release_auto])
def test_a_release_takes_an_account(account, release):
    made = release(private(), support(), WORKLOAD, epsilon=1, delta=1e-6, account=account, rng=1)
    assert account.total == made.ledger.total
    assert not account.runs[0].for_release


@pytest.mark.parametrize("budget", [{"rho": 0.1}, {"epsilon": 0.5}])
def test_measuring_marginals_takes_an_account(account, budget):
    measured = pmw.measure_marginals(
        private(), [("a",), ("a", "b")], shares=[1, 2], account=account, **budget
    )
    assert account.total == measured.ledger.total
    assert account.runs[0].finished
    with pytest.raises(pmw.BudgetError):
        pmw.measure_marginals(private(), [("a",)], rho=0.6, account=account)


def test_measuring_under_other_neighbours_needs_an_account_of_its_own(account, tmp_path):
    options = {"epsilon": 0.5, "neighbors": pmw.accounting.Neighbors.ADD_REMOVE_ONE, "public_n": 2000}
    with pytest.raises(ValueError, match="must be the account's REPLACE_ONE"):
        pmw.measure_marginals(private(), [()], account=account, **options)
    other = pmw.Account.create(
        tmp_path / "other", pmw.Budget.pure(1), neighbors=pmw.accounting.Neighbors.ADD_REMOVE_ONE
    )
    pmw.measure_marginals(private(), [()], account=other, **options)
    assert other.remaining == 0.5


def test_a_run_that_fails_stays_reserved_and_a_resumed_one_reserves_nothing_more(account, tmp_path):
    with pytest.raises(EndedError):
        run(account, tmp_path / "kept", until=2)
    (entry,) = account.runs
    assert not entry.finished
    assert account.rho == 0.25
    release = run(account, tmp_path / "kept")
    assert account.total == release.ledger.total
    assert [entry.finished for entry in account.runs] == [True]
    assert run(account, tmp_path / "kept") == release  # a finished run is made again, and costs nothing
    assert len(account.runs) == 1


def test_without_a_checkpoint_a_run_that_failed_is_spent(account):
    with pytest.raises(EndedError):
        run(account, until=4)
    run(account)
    assert [entry.finished for entry in account.runs] == [False, True]


def test_a_checkpoint_made_without_the_account_is_reserved_in_full(account, tmp_path):
    with pytest.raises(EndedError):
        run(None, tmp_path / "kept", until=3)
    release = run(account, tmp_path / "kept")
    assert account.total == release.ledger.total


def test_an_old_copy_of_a_finished_checkpoint_is_refused(account, tmp_path):
    with pytest.raises(EndedError):
        run(account, tmp_path / "kept", until=2)
    shutil.copytree(tmp_path / "kept", tmp_path / "copy")
    run(account, tmp_path / "kept")
    with pytest.raises(ValueError, match="checkpoint must hold every round of its run"):
        run(account, tmp_path / "copy")


def test_an_account_that_cannot_be_settled_loses_no_release(account, monkeypatch):
    def full(self, run, ledger):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pmw.Account, "settle", full)
    with pytest.warns(RuntimeWarning, match="was not settled, and the run counts for what it reserved"):
        release = run(account)
    assert len(release.history) == 4
    assert account.rho == 0.25


@pytest.mark.parametrize("rng", ["seed", -1, 1.5])
def test_what_is_refused_reserves_nothing(account, tmp_path, rng):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        run(account, rng=rng)
    with pytest.raises(ValueError, match="must be a checkpoint or an empty folder"):
        run(account, tmp_path)  # where the account lies
    with pytest.raises((ValueError, FileNotFoundError)):
        run(tmp_path / "none", tmp_path / "new")
    assert account.runs == ()
    assert not (tmp_path / "new").exists()


def test_over_ranks_rank_0_alone_has_the_account(account, tmp_path):
    def program(comm):
        rows = ShardedSupport.of(support(), comm)
        table, mine = (private(), account) if comm.rank == 0 else (None, None)
        return MECHANISM(table, rows, WORKLOAD, account=mine, checkpoint=tmp_path / "kept").gathered()

    release = run_ranks(3, program)[0]
    assert account.total == release.ledger.total
    run(account)
    for error in run_ranks(
        2,
        lambda comm: MECHANISM(
            private() if comm.rank == 0 else None,
            ShardedSupport.of(support(), comm),
            WORKLOAD,
            account=account if comm.rank == 0 else None,
        ),
        errors=True,
    ):
        assert isinstance(error, pmw.BudgetError | pmw.ranks.RankError)


@pytest.mark.parametrize("kills", [12, *slow(60)])
def test_a_run_killed_at_any_time_spends_once_and_loses_nothing(tmp_path, kills):
    program = Path(__file__).with_name("killed_runs.py")
    done = subprocess.run(
        [sys.executable, program, tmp_path, str(kills), "1"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= kills
    assert (found["lost"], found["changed"], found["spent_twice"]) == (0, 0, 0)
