"""`privmw measure`: files, refusals before anything is spent, and nothing lost whatever ends it."""

import json

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the command line needs privmw[app]")

import pyarrow.parquet as parquet

import privmw as pmw
from cli.cases import names_in, write_pair
from privmw.cli import main
from privmw.extensions.unbiased import command as measure
from privmw.extensions.unbiased import load_unbiased_answers

LINE = ["measure", "--private", "private.parquet", "--domain", "domain.json", "--marginals", "2"]
FILES = ["answers.npz", "answers.parquet", "privacy.json", "report.html"]


@pytest.fixture
def pair(tmp_path, monkeypatch, blank_pictures):
    write_pair(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(*words, epsilon="1", output="out"):
    return [*LINE, "--epsilon", epsilon, *words, "-o", output]


@pytest.mark.parametrize("strategy", ["largest", "equal", "hdmm"])
def test_a_private_file_becomes_answers_with_errors_a_statement_and_a_report(pair, strategy, capsys):
    assert main(line("--method", strategy, "--json")) == 0
    facts = json.loads(capsys.readouterr().out)
    assert names_in(pair / "out") == facts["files"] == FILES
    assert facts["epsilon"] <= 1
    assert facts["for_release"] is True
    answers = load_unbiased_answers(pair / "out" / "answers.npz")
    assert facts["standard_errors"]["largest"] == pytest.approx(answers.standard_errors().max())
    frame = parquet.read_table(pair / "out" / "answers.parquet")
    np.testing.assert_allclose(frame["answer"].to_numpy(), answers.answers())
    assert {"standard_error", "low", "high"} <= set(frame.column_names)
    page = (pair / "out" / "report.html").read_text("utf-8")
    assert "Report of unbiased answers" in page
    assert "NOT FOR RELEASE" not in page
    assert json.loads((pair / "out" / "privacy.json").read_text())["statement"] == answers.statement()


def test_seeded_answers_are_marked_everywhere(pair, capsys):
    more = ["--setting", "simultaneous=yes", "--delta", "0", "--method", "equal"]
    assert main(line("--seed", "3", "--format", "csv", *more)) == 0
    assert "answers.seeded.csv" in names_in(pair / "out")
    assert "NOT FOR RELEASE" in (pair / "out" / "report.html").read_text("utf-8")
    assert "NOT FOR RELEASE" in capsys.readouterr().out
    assert load_unbiased_answers(pair / "out" / "answers.npz").shot.noise == "discrete-laplace"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--intervals", "1"], "--intervals"),
        (["--unit", "household"], "--unit (household) must come with --at-most"),
        (["--delta", "0"], "must be above 0: residual noise"),
        (["--marginals", "9"], "marginals"),
        (["--method", "best"], "method"),
        (["--private", "none.parquet"], "none.parquet"),
        (["--account", "none.jsonl"], "none.jsonl"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(pair, words, message, capsys):
    assert main(line(*words)) == 2
    assert message in capsys.readouterr().err
    assert not (pair / "out").exists()


def test_a_budget_that_the_account_does_not_cover_is_refused(pair, capsys):
    new = [
        "account",
        "new",
        "account",
        "--epsilon",
        "0.5",
        "--delta",
        "1e-5",
        "--setting",
        "event-delta=1e-9",
    ]
    assert main(new) == 0
    assert pmw.Account(pair / "account").limit.event_delta == 1e-9
    assert main(line("--delta", "1e-5", "--account", "account")) == 2
    assert "must fit the account" in capsys.readouterr().err
    assert not (pair / "out").exists()


def test_what_was_paid_for_stays_and_the_same_command_writes_the_rest(pair, monkeypatch, capsys):
    pmw.Account.create(pair / "account", pmw.Budget.approximate(1.001, 1e-5, event_delta=1e-8))
    words = line("--delta", "1e-5", "--account", "account")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(measure, "write_unbiased_report", full)
        assert main(words) == 2
    assert (
        "answers.npz is written (free some space; then the same command writes the rest)"
        in capsys.readouterr().err
    )
    before = (pair / "out" / "answers.npz").read_bytes()
    assert main([*words[:-4], "--seed", "1", *words[-4:]]) == 2  # other options are another run
    assert main(words) == 0
    assert (pair / "out" / "answers.npz").read_bytes() == before
    assert names_in(pair / "out") == FILES
    assert len(pmw.Account(pair / "account").runs) == 1


def test_a_run_that_ended_before_it_released_is_repeated_under_one_reservation(pair, monkeypatch, capsys):
    pmw.Account.create(pair / "account", pmw.Budget.approximate(1.001, 1e-5, event_delta=1e-8))
    words = line("--delta", "1e-5", "--account", "account")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("privmw.extensions.unbiased.one_shot.measure_shot", interrupted)
        assert main(words) == 130
    assert (pair / "out" / "unfinished").is_dir()
    assert main(words) == 0
    (run,) = pmw.Account(pair / "account").runs
    assert run.finished


def test_an_existing_folder_is_left_alone(pair):
    (pair / "out").mkdir()
    (pair / "out" / "mine.txt").write_text("mine")
    assert main(line()) == 2
    assert names_in(pair / "out") == ["mine.txt"]
