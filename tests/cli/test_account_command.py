"""`privmw account` makes the account of a table and shows what was spent on it."""

import json

import pytest

from privmw.accounting import Account, Budget, DiscreteGaussian, Neighbors
from privmw.cli import main


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "account.jsonl"


def ran(capsys, *words):
    code = main(["account", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["--epsilon", "3", "--delta", "1e-9"], Budget.approximate(3.0, 1e-9)),
        (["--epsilon", "3", "--delta", "0"], Budget.pure(3.0)),
    ],
)
def test_a_new_account_has_the_limit_that_was_given(path, capsys, words, limit):
    code, out, _ = ran(capsys, "new", "account.jsonl", *words)
    assert code == 0
    assert "Spent by 0 runs" in out
    account = Account(path)
    assert (account.limit, account.unit, account.neighbors) == (limit, "record", Neighbors.REPLACE_ONE)


def test_show_prints_the_total_what_is_left_and_every_run(path, capsys):
    assert ran(capsys, "new", "account.jsonl", "--epsilon", "3", "--delta", "1e-9")[0] == 0
    account = Account(path)
    event = DiscreteGaussian(1, 2 * Budget.approximate(1, 1e-9).limit)
    for run in range(4):
        account.reserve(str(run), [event], f"release {run}", for_release=run != 3)
    code, out, _ = ran(capsys, "show", "account.jsonl")
    assert code == 0
    assert "epsilon = 2.06968 and delta = 1e-09" in out
    assert f"enough for one more release with epsilon = {account.epsilon_left(1e-9)} at delta = 1e-09." in out
    assert out.count("reserved, not finished: counts in full") == 4
    assert out.count("(seeded: not for release)") == 1
    told = json.loads(ran(capsys, "show", "account.jsonl", "--json")[1])
    assert told["spent"] == {"rho": account.rho, "epsilon": account.epsilon(1e-9), "delta": 1e-9}
    assert [entry["what"] for entry in told["runs"]] == [f"release {run}" for run in range(4)]
    assert [entry["epsilon"] for entry in told["runs"]] == pytest.approx([1.0] * 4, rel=1e-6)
    other = json.loads(ran(capsys, "show", "account.jsonl", "--delta", "0", "--json")[1])
    assert other["spent"]["epsilon"] is None  # Gaussian noise has no pure epsilon


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["new", "account.jsonl", "--epsilon", "1"], "--epsilon and --delta must be given"),
        (["new", "account.jsonl", "--delta", "1e-9"], "such as --epsilon 3 --delta 1e-9"),
        (["new", "account.jsonl", "--epsilon", "0", "--delta", "0"], "--epsilon (0) must be positive"),
        (
            ["new", "account.jsonl", "--epsilon", "1", "--delta", "1"],
            "--delta (1) must be below 1",
        ),
        (["new", "none/account.jsonl", "--epsilon", "1", "--delta", "0"], "No such file or directory"),
        (["show", "account.jsonl"], "FILE (account.jsonl) must exist"),
        (["show", "account.jsonl", "--epsilon", "1"], "must come with new"),
        (["show", "account.jsonl", "--setting", "event-delta=0"], "must come with new"),
        (["shwo", "account.jsonl"], "action (shwo) must be new or show; did you mean show?"),
        (
            ("new", "account.jsonl", "--epsilon", "1", "--delta", "0", "--setting", "event-delta=1e-9"),
            "--setting event-delta must come with a --delta above 0",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(path, capsys, words, message):
    code, out, err = ran(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert list(path.parent.iterdir()) == []


def test_an_account_is_never_replaced_and_an_edited_one_is_named(path, capsys):
    assert ran(capsys, "new", "account.jsonl", "--epsilon", "1", "--delta", "0", "--quiet") == (0, "", "")
    before = path.read_bytes()
    code, _, err = ran(capsys, "new", "account.jsonl", "--epsilon", "2", "--delta", "0")
    assert (code, path.read_bytes()) == (2, before)
    assert "must not exist" in err
    path.write_bytes(before.replace(b'"epsilon": 1', b'"epsilon": 9'))
    code, _, err = ran(capsys, "show", "account.jsonl")
    assert code == 2
    assert "line 1: its digest differs" in err
