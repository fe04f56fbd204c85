"""privmw synthesize: one command from two files, or one, to synthetic records; it asks, and loses nothing."""

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet

import privmw as pmw
import privmw.cli.release
import privmw.io.whole_file
from cli.cases import FILES, RELEASED, N, names_in, write_pair
from privmw.cli import main
from privmw.cli.console import Console
from privmw.cli.outputs import PUBLIC_VALUES
from privmw.extensions.population import draw_values, population_domain

LINE = ["synthesize", "private.csv", "public.csv", "--epsilon", "1", "--marginals", "2"]
RECORDS = ["-o", "out.csv", "--yes"]


@pytest.fixture
def here(tmp_path, monkeypatch, blank_pictures):
    """Two csv files, as a person has them, and nothing else."""
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    for name in ("public", "private"):
        csv.write_csv(parquet.read_table(f"{name}.parquet"), f"{name}.csv")
        os.unlink(f"{name}.parquet")
    os.unlink("domain.json")
    return tmp_path


def test_two_csv_files_become_synthetic_csv_by_one_command(here, capsys):
    assert main([*LINE, *RECORDS]) in RELEASED
    said = capsys.readouterr()
    records, public = csv.read_csv("out.csv"), csv.read_csv("public.csv")
    assert records.num_rows == N
    assert records.schema == public.schema  # numbers are numbers, of public values
    folder = here / "out-release"
    assert set(names_in(folder)) == {
        name if name == PUBLIC_VALUES else name.replace(".parquet", ".csv") for name in FILES
    }
    assert (folder / "synthetic.csv").read_bytes() == Path("out.csv").read_bytes()
    domain = pmw.Domain.read(folder / "domain.json")
    assert domain == pmw.load_release(folder / "release.npz").support.domain
    shown = said.err
    assert domain.to_json().rstrip("\n") in shown
    assert "Plan: " in shown
    assert shown.index("In plain words: replacing one record") > shown.index("Plan: ")
    assert "epsilon = 1 " in said.out
    assert "Written:\n  out.csv\n  out-release/answers.csv" in said.out


@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_the_name_says_the_format_and_json_says_where(form, here, capsys):
    assert main([*LINE, "-o", f"out.{form}", "--yes", "--json", "--records", "7"]) in RELEASED
    told = json.loads(capsys.readouterr().out)
    assert told["records"] == f"out.{form}"
    read = {"parquet": parquet.read_table, "feather": feather.read_table}[form]
    assert read(f"out.{form}").num_rows == 7


def test_without_a_public_file_a_domain_must_be_given(here, capsys):
    line = [LINE[0], LINE[1], *LINE[3:], *RECORDS]
    assert main(line) == 2
    said = capsys.readouterr().err
    assert "PUBLIC or --domain must be given: nothing may be learned from the private file" in said
    assert names_in(here) == ["private.csv", "public.csv"]
    population_domain(4).write("domain.json")
    assert main([*line, "--domain", "domain.json", "--quiet"]) in RELEASED
    ages = csv.read_csv("out.csv")["age"].to_pylist()
    assert all(isinstance(age, float | int) for age in ages)  # midpoints, not the names of bins


def test_a_table_of_two_columns_needs_no_word_about_marginals(here):
    for name, shift in (("public", 0.0), ("private", 1.0)):
        values = draw_values(N, attributes=4, shift=shift, seed=len(name))
        csv.write_csv(_table(values, ["age", "sex"]), f"{name}.csv")
    assert main([*LINE[:5], *RECORDS, "--quiet"]) in RELEASED
    assert len(pmw.load_release("out-release/release.npz").workload) == 1


def _table(values, names):
    import pyarrow as pa

    return pa.table({name: values[name] for name in names})


def ask(line, folder, answer):
    """Run a command on a terminal and answer its question; returns the exit code and what was seen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "privmw", *line],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "200"},
    )
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # what Linux says when the other end is closed
        while part := os.read(ours, 4096):
            seen += part
            if b"[y/N]" in seen and answer is not None:
                os.write(ours, answer)
                answer = None
    os.close(ours)
    return process.wait(), seen.decode()


def test_a_no_spends_nothing(here):
    code, seen = ask([*LINE, "-o", "out.csv"], here, b"n\n")
    assert code == 2
    assert "Spend this on private.csv, and write out.csv? [y/N]" in seen
    assert "not agreed: nothing was spent, and nothing is written" in seen
    assert names_in(here) == ["private.csv", "public.csv"]


@pytest.mark.parametrize(
    ("answer", "agreed"), [("y\n", True), ("YES\n", True), ("\n", False), ("yikes\n", False), ("", False)]
)
def test_only_a_clear_yes_is_one(answer, agreed, monkeypatch, capsys):
    monkeypatch.setattr(Console, "can_ask", lambda _: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert Console().ask("Spend?") is agreed
    assert capsys.readouterr().err == "Spend? [y/N] "


def test_a_yes_releases(here):
    code, seen = ask([*LINE, "-o", "out.csv"], here, b"y\n")
    assert code in RELEASED, seen
    assert csv.read_csv("out.csv").num_rows == N


def test_without_a_terminal_it_does_not_spend_unasked(here, capsys):
    assert main([*LINE, "-o", "out.csv"]) == 2
    assert "no terminal to ask on before the budget is spent (--yes agrees to it)" in capsys.readouterr().err
    assert names_in(here) == ["private.csv", "public.csv"]


def failing(monkeypatch, name):
    """Let the writing of one file fail, half-way, once."""
    real, failed = privmw.io.whole_file.os.fsync, []

    def fsync(descriptor):
        if f"/.{name}." in os.readlink(f"/proc/self/fd/{descriptor}") and not failed:
            failed.append(name)
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(privmw.io.whole_file.os, "fsync", fsync)


def no_mechanism(*given, **options):
    raise AssertionError("the budget was paid already")


@pytest.mark.parametrize("command", ["the same", "finish"])
@pytest.mark.parametrize("name", ["answers.csv", "synthetic.csv", "out.csv"])
def test_what_was_paid_for_is_finished_and_paid_once(command, name, here, monkeypatch, capsys):
    failing(monkeypatch, name)
    assert main([*LINE, *RECORDS]) == 2
    said = capsys.readouterr().err
    assert "out-release/release.npz is written" in said
    assert "privmw finish out-release writes the rest" in said
    release = pmw.load_release("out-release/release.npz")
    monkeypatch.setattr(privmw.cli.release, "make_release", no_mechanism)
    line = ["finish", "out-release", "--quiet"] if command == "finish" else [*LINE, *RECORDS, "--quiet"]
    assert main(line) in RELEASED
    assert Path("out.csv").read_bytes() == (here / "out-release" / "synthetic.csv").read_bytes()
    assert pmw.load_release("out-release/release.npz") == release
    assert not (here / "out-release" / "unfinished").exists()


def test_a_run_that_ended_in_its_rounds_goes_on_unasked_with_its_domain(here, monkeypatch, capsys):
    real, seen = privmw.cli.release.Console.rounds, []

    def interrupt(self, doing, rounds, **options):
        @contextlib.contextmanager
        def shown():
            with real(self, doing, rounds, **options):

                def stop(entry):
                    seen.append(entry.round)
                    if entry.round == 3:
                        raise KeyboardInterrupt

                yield stop

        return shown()

    line = [*LINE, "-o", "out.csv", "--method", "mw-pub", "--rounds", "6"]
    with monkeypatch.context() as patch:
        patch.setattr(privmw.cli.release.Console, "rounds", interrupt)
        assert main([*line, "--yes"]) == 130
    assert "the same command resumes it" in capsys.readouterr().err
    assert seen[-1] == 3
    monkeypatch.setattr(privmw.cli.synthesize, "propose", no_mechanism)
    monkeypatch.setattr(privmw.cli.synthesize, "_agree", no_mechanism)
    assert main([*line, "--yes"]) in RELEASED
    assert "goes on with out-release/unfinished/checkpoint" in capsys.readouterr().err
    assert pmw.load_release("out-release/release.npz").ledger.remaining < 1e-12


def test_nothing_is_overwritten(here, monkeypatch, capsys):
    Path("out.csv").write_text("mine")
    assert main([*LINE, *RECORDS]) == 2
    assert "--output (out.csv) exists (name another file: nothing is ever over" in capsys.readouterr().err
    os.unlink("out.csv")
    failing(monkeypatch, "synthetic.csv")
    assert main([*LINE, *RECORDS]) == 2
    Path("out.csv").write_text("mine")  # meanwhile
    capsys.readouterr()
    assert main([*LINE, *RECORDS]) == 2
    said = capsys.readouterr().err
    assert "out.csv exists; out-release/release.npz is written (move it away" in said
    assert "then privmw finish out-release writes the rest" in said
    assert Path("out.csv").read_text() == "mine"
    os.unlink("out.csv")
    assert main([*LINE, *RECORDS, "--quiet"]) in RELEASED
    assert main([*LINE, *RECORDS]) == 2
    assert "and out-release exists and is finished (name another file" in capsys.readouterr().err


def test_a_run_that_began_with_other_options_is_not_mixed_up(here, monkeypatch, capsys):
    failing(monkeypatch, "synthetic.csv")
    assert main([*LINE, *RECORDS]) == 2
    assert main([*LINE, *RECORDS, "--epsilon", "2"]) == 2
    assert "holds an unfinished release with other options (epsilon)" in capsys.readouterr().err


def test_a_seeded_csv_says_so_in_its_name(here, capsys):
    assert main([*LINE, *RECORDS, "--seed", "1"]) == 2
    assert "--output (out.csv) must have 'seeded' in its name with --seed" in capsys.readouterr().err
    assert main([*LINE, "-o", "out.seeded.csv", "--yes", "--seed", "1", "--quiet"]) == 0
    assert (here / "out.seeded-release" / "synthetic.seeded.csv").exists()


def test_an_account_is_charged_once(here, capsys):
    assert main(["account", "new", "account.jsonl", "--epsilon", "1.2", "--delta", "1e-5", "--quiet"]) == 0
    line = [*LINE, "--yes", "--account", "account.jsonl", "--quiet"]
    assert main([*line, "-o", "one.csv"]) in RELEASED
    assert main([*line, "-o", "two.csv"]) == 2
    assert "account" in capsys.readouterr().err
    assert names_in(here) == ["account.jsonl", "one-release", "one.csv", "private.csv", "public.csv"]
