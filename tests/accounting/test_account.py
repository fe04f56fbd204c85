"""An account counts everything ever spent on a table, exactly, whatever ends the process that writes it."""

import json
import os
import stat
import subprocess
import sys
from fractions import Fraction

import pytest

import privmw.accounting.chained_file as chained_file
from privmw.accounting import (
    Account,
    Budget,
    BudgetError,
    DiscreteGaussian,
    DiscreteLaplace,
    Ledger,
    Neighbors,
    PermuteAndFlip,
    epsilon_from_rho,
    rho_from_epsilon,
)

ONE = PermuteAndFlip(1, candidates=9)  # pure epsilon 1, rho 1/2


@pytest.fixture
def path(tmp_path):
    return tmp_path / "account.jsonl"


def ledger(*events, budget=None, **terms):
    made = Ledger(budget or Budget.zcdp(100), Neighbors.REPLACE_ONE, n=9, **terms)
    for event in events:
        made.charge(event)
    return made


def two_runs(path):
    """One settled below what it reserved, one never settled."""
    account = Account.create(path, Budget.zcdp(2))
    account.reserve("first", [ONE, ONE], "two choices")
    account.settle("first", ledger(ONE))
    account.reserve("second", [ONE], "one choice")
    return account


def test_an_account_adds_up_what_was_spent_and_what_is_still_reserved(path):
    account = two_runs(path)
    assert account.total.rho == 1
    assert account.total.epsilon == 2
    assert (account.rho, account.remaining) == (1.0, 1.0)
    assert account.epsilon(1e-9) == min(2.0, epsilon_from_rho(1.0, 1e-9))
    first, second = account.runs
    assert (first.run, first.what, first.finished) == ("first", "two choices", True)
    assert (first.total.rho, second.total.rho, second.finished) == (Fraction(1, 2), Fraction(1, 2), False)
    again = Account(str(path))
    assert (again.limit, again.neighbors, again.unit) == (Budget.zcdp(2), Neighbors.REPLACE_ONE, "record")
    assert again.runs == account.runs
    assert repr(again) == f"Account({str(path)!r}, Budget.zcdp(2))"


def test_four_releases_at_epsilon_1_are_2_07_together(path):
    account = Account.create(path, Budget.approximate(2.07, 1e-9))
    rho = rho_from_epsilon(1.0, 1e-9)
    sigma = DiscreteGaussian(1, 1).sigma
    for run in range(4):
        event = DiscreteGaussian(sigma, Fraction(rho) * 2)
        assert event.cost.rho == rho
        account.reserve(str(run), [event], "a release at epsilon 1")
    assert f"{account.epsilon(1e-9):.2f}" == "2.07"
    assert "epsilon = 2.06968 and delta = 1e-09" in account.statement()
    with pytest.raises(BudgetError, match=r"must fit the account: rho would be 0.0748"):
        account.reserve("fifth", [event], "a release at epsilon 1")
    assert len(account.runs) == 4


def test_a_limit_is_used_up_to_the_last_bit_and_no_further(path):
    account = Account.create(path, Budget.pure(2))
    third = DiscreteLaplace(scale=3, l1_sensitivity=1)  # epsilon 1/3, which no float is
    for run in range(6):
        account.reserve(str(run), [third], "a count")
    assert account.remaining == 0.0
    with pytest.raises(BudgetError, match=r"epsilon would be 2\.\d+ of 2.0, 2.0 spent before"):
        account.reserve("more", [PermuteAndFlip(Fraction(1, 10**30), candidates=2)], "the least choice")


def test_a_pure_limit_refuses_what_has_no_pure_cost(path):
    account = Account.create(path, Budget.pure(2))
    with pytest.raises(BudgetError, match="must have a pure cost"):
        account.reserve("run", [DiscreteGaussian(100, 1)], "a count")
    assert account.runs == ()


def test_a_run_that_is_resumed_reserves_nothing_twice(path):
    account = two_runs(path)
    before = path.read_bytes()
    account.reserve("second", [ONE], "one choice")
    account.reserve("first", [PermuteAndFlip(1, candidates=9, count=2)], "a settled one, of equal cost")
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="must cost what it reserved before"):
        account.reserve("second", [ONE, ONE], "one choice")


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (
            {"neighbors": Neighbors.ADD_REMOVE_ONE},
            "neighbors .ADD_REMOVE_ONE. must be the account's REPLACE_ONE",
        ),
        ({"unit": "household"}, "unit .'household'. must be the account's 'record'"),
        ({"what": "two\nlines"}, "what .* must be one line of printable text"),
    ],
)
def test_a_run_on_other_terms_is_refused(path, terms, message):
    account = two_runs(path)
    with pytest.raises(ValueError, match=message):
        account.reserve("third", **{"events": [ONE], "what": "a choice", **terms})
    assert len(account.runs) == 2


@pytest.mark.parametrize(
    ("run", "spent", "message"),
    [
        ("second", ledger(ONE, ONE), "must spend at most what it reserved"),
        ("second", ledger(DiscreteGaussian(1, 1)), "must spend at most what it reserved"),
        ("third", ledger(ONE), "must have reserved its cost before"),
        ("first", ledger(), "must spend what it settled before"),
        ("second", ledger(ONE, unit="person"), "must be the account's 'record'"),
    ],
)
def test_a_settlement_that_cannot_be_is_refused(path, run, spent, message):
    account = two_runs(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        account.settle(run, spent)
    account.settle("first", ledger(ONE))  # again, and the same: nothing
    assert path.read_bytes() == before


def test_an_account_is_its_owners_and_never_written_over(path):
    two_runs(path)
    before = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError, match="must not exist"):
        Account.create(path, Budget.pure(1))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_file_that_was_never_finished_blocks_nobody(path, monkeypatch):
    def kill(*paths):
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(os, "link", kill)
        killed.setattr(os, "unlink", lambda path: None)
        with pytest.raises(KeyboardInterrupt):
            Account.create(path, Budget.pure(1))
    assert [name for name in os.listdir(path.parent) if name.endswith(".unfinished")]
    assert Account.create(path, Budget.pure(1)).remaining == 1.0


def test_without_links_an_account_is_still_made_whole(path, monkeypatch):
    def no_links(source, target):
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", no_links)
    assert Account.create(path, Budget.pure(1)).runs == ()
    with pytest.raises(FileExistsError):
        Account.create(path, Budget.pure(1))


@pytest.mark.parametrize("limit", [1, None, "1"])
def test_a_limit_must_be_a_budget(path, limit):
    with pytest.raises(TypeError, match=r"limit .* must be a Budget"):
        Account.create(path, limit)
    assert not path.exists()


TINY = PermuteAndFlip(Fraction(1, 10**70), candidates=9)  # its cost is written with more digits than a digest


def test_a_line_cut_at_any_byte_was_never_there(path):
    account = Account.create(path, Budget.zcdp(2))
    account.reserve("first", [ONE], "a choice")
    account.reserve("second", [TINY], 'a "digest": "' + 66 * "a" + '"}')
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert account.rho == 0.5
        assert [run.run for run in account.runs] == ["first"]
        account.reserve("third", [ONE], "another")
        assert path.read_bytes()[:start] == whole[:start]
        assert [run.run for run in account.runs] == ["first", "third"]


def test_a_line_that_lacks_only_its_newline_counts(path):
    account = two_runs(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # as an editor may leave it
    assert account.rho == 1.0
    account.reserve("third", [ONE], "another")
    assert path.read_bytes().startswith(whole)
    assert account.rho == 1.5


@pytest.mark.parametrize("tail", [b"\x00" * 4096, b"{", b"\xff\xfe"])
def test_a_tail_without_a_newline_is_ignored(path, tail):
    account = two_runs(path)
    path.write_bytes(path.read_bytes() + tail)
    assert account.rho == 1.0
    account.reserve("third", [ONE], "another")
    assert account.rho == 1.5


@pytest.mark.parametrize("newline", [b"\n", b""])
def test_no_flipped_bit_loses_a_charge_or_changes_the_file(path, newline):
    """Every bit of the last line and of the newline before it, also where the last newline is missing."""
    account = Account.create(path, Budget.zcdp(2))
    account.reserve("first", [TINY], 'a "digest": "\\')
    whole = path.read_bytes()[:-1] + newline
    path.write_bytes(whole)
    assert len(account.runs) == 1
    for place in range(whole.rindex(b"\n", 0, -1), len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match="must be a whole, unchanged account: line"):
                account.reserve("second", [ONE], "another")
            assert path.read_bytes() == damaged


def test_any_byte_changed_is_refused(path):
    account = two_runs(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="must be a whole, unchanged account: line"):
            account.reserve("third", [ONE], "another")


def test_a_missing_repeated_or_moved_line_is_refused(path):
    two_runs(path)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    edits = [lines[:place] + lines[place + 1 :] for place in range(3)]
    edits += [[*lines, lines[-1]], [lines[0], lines[2], lines[1], lines[3]], lines[1:], [b"\n", *lines], []]
    for edited in edits:
        path.write_bytes(b"".join(edited))
        with pytest.raises(ValueError, match=r"must be a whole, unchanged account: (line|it has no line)"):
            Account(path)


@pytest.mark.parametrize(
    ("place", "changes", "message"),
    [
        (0, {"version": 2}, "format 'privmw account' and version 1"),
        (0, {"more": 1}, "terms must be an object with the keys"),
        (0, {"unit": ""}, "unit .* must be one line"),
        (0, {"limit": {}}, "budget must be an object"),
        (1, {"kind": "spend"}, "settlement must be an object|must be reserved, and settled once"),
        (1, {"costs": [{"rho": 0.5, "epsilon": None, "count": 1}]}, "must be of exact fractions"),
        (1, {"costs": [{"rho": "1/2", "epsilon": None, "count": 0}]}, "count .0. must be positive"),
        (2, {"run": "unknown"}, "must be reserved, and settled once"),
        (3, {"run": "first"}, "must not be reserved twice"),
    ],
)
def test_a_line_with_its_digests_mended_is_still_checked(path, place, changes, message):
    two_runs(path)
    entries = chained_file.read_file(str(path))
    entries[place] |= changes
    path.unlink()
    chained_file.create_file(str(path), entries[0])
    with chained_file.locked_file(str(path)) as (_, append):
        for entry in entries[1:]:
            append(entry)
    with pytest.raises(ValueError, match=rf"line {place + 1}: .*({message})"):
        Account(path)


def test_a_write_that_fails_is_taken_back(path, monkeypatch):
    account = two_runs(path)
    before = path.read_bytes()

    def full(file):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            account.reserve("third", [ONE], "another")
    assert path.read_bytes() == before


def test_an_account_can_be_read_while_another_holds_its_lock(path):
    account = two_runs(path)
    with chained_file.locked_file(str(path)) as (_, append):
        assert account.rho == 1.0
        append({"kind": "settle"} | dict.fromkeys(("run", "when", "for_release", "costs")))
        with pytest.raises(ValueError, match="line 5"):
            account.total  # noqa: B018


def test_a_file_that_was_replaced_meanwhile_is_refused(path, monkeypatch):
    account = two_runs(path)
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    with pytest.raises(ValueError, match="must not be replaced while it is used"):
        account.reserve("third", [ONE], "another")


def test_where_there_are_no_locks_there_are_no_accounts(path, monkeypatch):
    account = two_runs(path)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(RuntimeError, match="file locks"):
        account.reserve("third", [ONE], "another")
    with pytest.raises(RuntimeError, match="file locks"):
        Account.create(path.with_name("other"), Budget.pure(1))
    assert account.rho == 1.0


RACING = """
import sys, time, pathlib
from privmw.accounting import Account, BudgetError, PermuteAndFlip
name, folder, trials = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
for trial in range(trials):
    (folder / f"ready {trial} {name}").touch()
    while len(list(folder.glob(f"ready {trial} *"))) < 2:
        pass
    try:
        Account(folder / str(trial)).reserve(name, [PermuteAndFlip(1, candidates=9)], "the last choice")
        print(trial, flush=True)
    except BudgetError:
        pass
"""


def test_of_processes_that_race_for_the_last_budget_exactly_one_wins(tmp_path):
    trials = 20
    for trial in range(trials):
        account = Account.create(tmp_path / str(trial), Budget.pure(2.5))
        account.reserve("before", [ONE], "a choice")
    racing = [
        subprocess.Popen(
            [sys.executable, "-c", RACING, name, str(tmp_path), str(trials)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    won = [each.communicate(timeout=120)[0].split() for each in racing]
    assert [each.returncode for each in racing] == [0, 0]
    assert sorted(int(trial) for trials_won in won for trial in trials_won) == list(range(trials))
    for trial in range(trials):
        assert Account(tmp_path / str(trial)).total.epsilon == 2


def test_a_statement_says_what_is_unfinished_and_what_was_seeded(path):
    account = two_runs(path)
    account.reserve("third", [ONE], "seeded", for_release=False)
    told = account.statement()
    assert "Spent by 3 runs: zero-concentrated differential privacy (zCDP) with rho = 1.5 of a limit" in told
    assert "Unfinished: 2 of the runs; what they reserved counts in full." in told
    assert "NOT FOR RELEASE" in told
    assert "epsilon" not in told  # a limit of rho has no delta
    assert "epsilon = 3 and delta = 1e-09" in account.statement(1e-9)


def test_a_settlement_marks_a_seeded_run(path):
    account = Account.create(path, Budget.pure(2))
    account.reserve("run", [ONE], "a choice")
    assert account.runs[0].for_release
    seeded = ledger(ONE)
    seeded.mark_seeded("seed 0")
    account.settle("run", seeded)
    assert not account.runs[0].for_release


@pytest.mark.parametrize(("spent", "left"), [(0, 2.07), (1, 1.78), (4, 0.03056)])
def test_what_is_left_is_an_epsilon_that_one_more_run_may_have(path, spent, left):
    account = Account.create(path, Budget.approximate(2.07, 1e-9))
    rho = Fraction(rho_from_epsilon(1.0, 1e-9))
    for run in range(spent):
        account.reserve(str(run), [DiscreteGaussian(1, 2 * rho)], "a release at epsilon 1")
    assert account.epsilon_left(1e-9) == pytest.approx(left, rel=0.01)
    more = Budget.approximate(account.epsilon_left(1e-9), 1e-9)
    account.reserve("more", [DiscreteGaussian(1, 2 * more.limit)], "all that is left")
    assert account.epsilon(1e-9) <= 2.07


def test_nothing_is_left_where_nothing_is(path):
    account = Account.create(path, Budget.pure(1))
    assert account.epsilon_left(0) == 1.0
    account.reserve("run", [ONE], "a choice")
    assert account.epsilon_left(0) == 0.0
    assert json.loads(path.read_text().splitlines()[0])["format"] == "privmw account"
