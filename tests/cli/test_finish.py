"""Once the budget is spent, the release exists: whatever ends the command, and at whichever file."""

import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow as pa
import pyarrow.parquet as parquet

import privmw as pmw
import privmw.cli.outputs
import privmw.cli.release
import privmw.io.whole_file
from cli.cases import FILES, RELEASED, N, names_in, release_line, write_pair
from marks.slow import slow_among
from privmw.cli import main
from privmw.cli.run_folder import RunFolder

ROUNDS = {"method": "mw-pub", "rounds": 6}


@pytest.fixture
def here(tmp_path, monkeypatch, blank_pictures):
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    return tmp_path


class NoSecondLookError(AssertionError):
    """The private table was looked at once more."""


@pytest.fixture
def no_door(monkeypatch):
    """From here on the door stays shut."""

    def refuse(*_, **__):
        raise NoSecondLookError

    def shut():
        monkeypatch.setattr("privmw.algorithms.mechanism.open_curator", refuse)

    return shut


def fail(error, *_, **__):
    raise error


def failing(monkeypatch, name, error):
    """Let the writing of one file fail, half-way, once."""
    real = privmw.io.whole_file.os.fsync
    failed = []

    def fsync(descriptor):
        target = os.readlink(f"/proc/self/fd/{descriptor}")
        if f"/.{name}." in target and not failed:
            failed.append(name)
            raise error
        real(descriptor)

    monkeypatch.setattr(privmw.io.whole_file.os, "fsync", fsync)
    return failed


ORDER = [
    "domain.json",
    "privacy.json",
    "quality.json",
    "public-values.parquet",
    "measurements.parquet",
    "answers.parquet",
    "synthetic.parquet",
    "report.html",
]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        *((name, OSError(28, "No space left on device")) for name in ORDER),
        ("answers.parquet", KeyboardInterrupt()),
        ("report.html", MemoryError()),
    ],
)
def test_whatever_fails_after_the_release_is_written_finish_writes_the_rest(
    name, error, here, monkeypatch, no_door, capsys
):
    failed = failing(monkeypatch, name, error)
    assert main(release_line()) == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert failed == [name]
    said = capsys.readouterr().err
    assert "out/release.npz is written" in said
    assert "privmw finish out writes the rest" in said
    assert set(names_in(here / "out")) == {"release.npz", "unfinished", *ORDER[: ORDER.index(name)]}
    release = pmw.load_release("out/release.npz")
    no_door()
    assert main(["finish", "out"]) in RELEASED
    assert capsys.readouterr().out.startswith("Protected: one record of 400")
    assert set(names_in(here / "out")) == FILES
    assert pmw.load_release("out/release.npz") == release


def test_the_same_command_finishes_too(here, monkeypatch, no_door, capsys):
    failing(monkeypatch, "answers.parquet", OSError(28, "No space left on device"))
    assert main(release_line(records=7)) == 2
    no_door()
    assert main(release_line(records=7)) in RELEASED
    assert parquet.read_table("out/synthetic.parquet").num_rows == 7


def test_finish_takes_the_options_of_the_run_unless_told_otherwise(here, monkeypatch, capsys):
    for output, words, count in (("a", [], 9), ("b", ["--records", "5"], 5)):
        with monkeypatch.context() as patch:
            failing(patch, "synthetic.parquet", MemoryError())
            assert main(release_line(records=9, bins="draw", seed=3, output=output)) == 2
        assert main(["finish", output, *words]) == 0
        assert parquet.read_table(f"{output}/synthetic.parquet").num_rows == count
    assert main(release_line(records=9, bins="draw", seed=3, output="c")) == 0
    assert parquet.read_table("a/synthetic.parquet") == parquet.read_table("c/synthetic.parquet")


def test_finish_writes_again_what_somebody_removed(released, no_door, capsys):
    (released / "out" / "report.html").unlink()
    no_door()
    assert main(["finish", "out", "--quiet"]) == 0
    assert set(names_in(released / "out")) == FILES


def test_the_report_has_the_heading_that_was_given_and_links_to_the_files(released, capsys):
    (released / "out" / "report.html").unlink()
    assert main(["finish", "out", "--quiet", "--title", "Living conditions"]) == 0
    page = (released / "out" / "report.html").read_text("utf-8")
    assert "<h1>Living conditions</h1>" in page
    for name in FILES - {"report.html"}:
        assert f'<a href="{name}">' in page


def test_finish_needs_a_release(here, capsys):
    (here / "empty").mkdir()
    assert main(["finish", "empty"]) == 2
    assert "FOLDER (empty) must hold release.npz" in capsys.readouterr().err
    assert main(["finish", "nowhere"]) == 2
    assert names_in(here) == ["domain.json", "empty", "private.parquet", "public.parquet"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_the_same_command_goes_on_where_the_release_itself_could_not_be_written(
    error, here, monkeypatch, no_door, capsys
):
    failing(monkeypatch, "release.npz", error)
    assert main(release_line(**ROUNDS)) in (2, 130)
    said = capsys.readouterr().err
    assert "out/unfinished/checkpoint keeps the run" in said
    assert "the same command resumes it" in said
    rounds = here / "out" / "unfinished" / "checkpoint" / "rounds"
    stored = {path.name: path.read_bytes() for path in rounds.iterdir()}
    assert len(stored) == 6
    assert main(["finish", "out"]) == 2
    assert "repeat the command that began it" in capsys.readouterr().err
    kept = []
    monkeypatch.setattr(
        "privmw.algorithms.checkpoint.Checkpoint.store_round",
        lambda *_: kept.append("a round was drawn again"),
    )
    assert main(release_line(**ROUNDS)) in RELEASED
    assert kept == []
    assert len(pmw.load_release("out/release.npz").history) == 6
    assert set(names_in(here / "out")) == FILES


def test_a_run_with_other_options_does_not_go_on_with_it(here, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        failing(patch, "release.npz", KeyboardInterrupt())
        assert main(release_line(**ROUNDS)) == 130
    capsys.readouterr()
    assert main(release_line(**ROUNDS, delta="1e-7")) == 2
    said = capsys.readouterr().err
    assert "out holds an unfinished release with other options (delta)" in said
    assert main(release_line(**ROUNDS)) in RELEASED


def test_what_ended_before_anything_was_paid_leaves_nothing_behind(here, monkeypatch, capsys):
    before = names_in(here)
    monkeypatch.setattr(privmw.cli.release, "check_disk_space", partial(fail, MemoryError()))
    assert main(release_line()) == 2
    assert names_in(here) == before


def test_two_runs_into_one_folder_one_is_refused_before_it_spends(here, no_door, capsys):
    with RunFolder.reserve("out", {}):
        no_door()
        assert main(release_line()) == 2
    assert "another process is writing out" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["jinja2", "matplotlib", "pyarrow"])
def test_a_missing_package_is_said_before_anything_is_spent(package, here, monkeypatch, no_door, capsys):
    no_door()
    monkeypatch.setitem(sys.modules, package, None)
    before = names_in(here)
    assert main(release_line()) == 2
    assert f"{package} must be installed" in capsys.readouterr().err
    assert names_in(here) == before


def test_values_that_cannot_be_drawn_are_refused_before_anything_is_spent(here, no_door, capsys):
    no_door()
    domain = pmw.Domain.read("domain.json")
    public = pmw.read_table("public.parquet", domain, private=False)
    public.write("labels.parquet", bins="label")
    before = names_in(here)
    assert main(release_line(public="labels.parquet", bins="draw")) == 2
    assert "must hold numbers" in capsys.readouterr().err
    assert main(release_line(method="mwem", public=None, rounds=2, bins="draw")) == 2
    assert "--bins (draw) must come with a public file" in capsys.readouterr().err
    assert names_in(here) == before


def test_records_beyond_memory_are_refused_before_anything_is_spent(here, no_door, monkeypatch, capsys):
    no_door()
    monkeypatch.setattr(privmw.cli.outputs, "available_memory", lambda: 2**20)
    for records, text in ((200_000_000, "200,000,000"), (None, None)):
        if records is None:
            monkeypatch.setattr(privmw.cli.outputs, "available_memory", lambda: 10 * N)
        assert main(release_line(records=records)) == 2
        said = capsys.readouterr().err
        assert f"{text or N} synthetic records must fit in memory" in said
    assert "out" not in names_in(here)


def test_the_space_kept_on_the_disk_is_enough_for_the_release(here, monkeypatch, capsys):
    kept = []
    real = RunFolder.keep_space
    monkeypatch.setattr(RunFolder, "keep_space", lambda folder, size: (kept.append(size), real(folder, size)))
    for number, options in enumerate(({}, ROUNDS, {"method": "pep", "rounds": 9, "marginals": "1,2,3"})):
        assert main([*release_line(**options, output=f"out{number}"), "--quiet"]) in RELEASED
        size = (here / f"out{number}" / "release.npz").stat().st_size
        assert size <= kept[number] <= 20 * size


def test_evaluation_is_readable_by_its_owner_only(released, capsys):
    assert main(["evaluate", "out", "--private", "private.parquet", "--quiet"]) == 0
    folder = released / "out-not-private"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def test_what_is_stored_of_a_run_is_readable_by_its_owner_only(here, monkeypatch, capsys):
    failing(monkeypatch, "release.npz", KeyboardInterrupt())
    assert main(release_line(**ROUNDS)) == 130
    unfinished = here / "out" / "unfinished"
    for path in (unfinished, *unfinished.rglob("*")):
        if path.name != "space":
            assert path.stat().st_mode & 0o077 == 0, path


MOMENTS = ["release.npz", *ORDER]


@pytest.mark.parametrize("moment", slow_among(MOMENTS, MOMENTS[1:6]))
@pytest.mark.parametrize("number", slow_among([signal.SIGKILL, signal.SIGTERM], [signal.SIGTERM]))
def test_a_signal_at_any_file_loses_nothing(moment, number, here):
    program = f"""
import os, signal, sys, time
import privmw.io.whole_file as files
real = os.fsync
def fsync(descriptor):
    if "/.{moment}." in os.readlink(f"/proc/self/fd/{{descriptor}}"):
        os.kill(os.getpid(), {int(number)})
        time.sleep(5)
    real(descriptor)
files.os.fsync = fsync
from privmw.cli import main
sys.exit(main())
"""
    line = [sys.executable, "-c", program, *release_line(**ROUNDS)]
    assert subprocess.run(line, cwd=here, capture_output=True).returncode in (-9, 130)
    out = here / "out"
    stored = {}
    if moment == "release.npz":
        rounds = out / "unfinished" / "checkpoint" / "rounds"
        stored = {path.name: path.read_bytes() for path in rounds.iterdir()}
        assert len(stored) == 6
        command = release_line(**ROUNDS)
    else:
        release = pmw.load_release(out / "release.npz")
        command = ["finish", "out"]
    assert main(command) in RELEASED
    assert set(names_in(out)) == FILES
    if moment != "release.npz":
        assert pmw.load_release(out / "release.npz") == release


STEPS = {  # of `RunFolder.finished`, and the word that the same command then says
    "the last file is written": ("privmw.cli.run_folder.RunFolder.finished", "Written:"),
    "the folder is renamed": ("privmw.cli.run_folder.RunFolder._tidy", "(out) exists and is finished"),
    "a part of it is removed": ("shutil.rmtree", "(out) exists and is finished"),
}


@pytest.mark.parametrize("step", slow_among(STEPS, list(STEPS)[:2]))
def test_a_kill_after_the_last_file_leaves_no_trace_of_the_private_file(step, here):
    os.rename("private.parquet", "patients.parquet")
    where, said = STEPS[step]
    program = f"""
import os, pkgutil, shutil, signal, sys
from privmw.cli import main
real = shutil.rmtree
def die(path, *given, **options):
    if {where!r} == "shutil.rmtree":
        if "/.unfinished." not in str(path):
            return real(path, *given, **options)
        real(path / "checkpoint")
    os.kill(os.getpid(), signal.SIGKILL)
owner, _, name = {where!r}.rpartition(".")
setattr(pkgutil.resolve_name(owner), name, die)
sys.exit(main())
"""
    line = release_line(**ROUNDS, private="patients.parquet")
    command = [sys.executable, "-c", program, *line]
    assert subprocess.run(command, cwd=here, capture_output=True).returncode == -9
    out = here / "out"
    assert set(names_in(out)) > FILES
    file = here / "patients.parquet"
    told = [str(word).encode() for word in (file.name, file.stat().st_size, file.stat().st_mtime_ns)]
    left = [
        path for path in out.rglob("*") if path.is_file() and path.relative_to(out).as_posix() not in FILES
    ]
    assert left
    for path in left:
        assert not any(word in path.read_bytes() for word in told), path
    again = subprocess.run([sys.executable, "-m", "privmw", *line], cwd=here, capture_output=True, text=True)
    assert said in again.stdout + again.stderr
    assert set(names_in(out)) == FILES


def test_options_that_a_kill_left_unwritten_do_not_matter(here, capsys):
    with RunFolder.reserve("out", {"epsilon": 9}) as folder:
        (folder.unfinished / "options.json").unlink()
    assert main(release_line()) in RELEASED
    with RunFolder.reserve("other", {"epsilon": 9}):
        pass
    assert main(release_line(output="other")) in RELEASED  # nothing was paid for there


def test_a_lock_ends_with_its_process(here):
    program = "import time, sys; from privmw.cli.run_folder import RunFolder\n"
    program += "folder = RunFolder.reserve('out', {}); print('locked', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", program], cwd=here, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "locked\n"
    assert main([*release_line(), "--quiet"]) == 2
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert main([*release_line(), "--quiet"]) in RELEASED


def test_json_and_config_say_what_was_asked(here, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        failing(patch, "report.html", KeyboardInterrupt())
        assert main(release_line()) == 130
    capsys.readouterr()
    assert main(["finish", "out", "--json"]) in RELEASED
    told = json.loads(capsys.readouterr().out)
    assert set(told["files"]) == FILES
    assert told["for_release"] is True


def test_an_account_is_charged_once_for_a_run_that_went_on(here, monkeypatch, capsys):
    assert main(["account", "new", "spent.json", "--epsilon", "1.2", "--delta", "1e-6", "--quiet"]) == 0
    options = {**ROUNDS, "account": "spent.json", "delta": "1e-6"}
    for name in ("000004.zip", "release.npz", "answers.parquet"):
        with monkeypatch.context() as patch:
            failing(patch, name, KeyboardInterrupt())
            assert main(release_line(**options)) == 130
        assert [run.finished for run in pmw.Account("spent.json").runs] == [name != "000004.zip"]
    assert main(release_line(**options)) in RELEASED
    release = pmw.load_release("out/release.npz")
    assert pmw.Account("spent.json").rho == release.ledger.rho
    capsys.readouterr()
    before = names_in(here)
    assert main(release_line(**{**options, "output": "again"})) == 2
    assert "must fit the account" in capsys.readouterr().err
    assert names_in(here) == before


def test_a_run_that_an_account_has_reserved_is_not_forgotten(here, monkeypatch, capsys):
    assert main(["account", "new", "spent.json", "--epsilon", "1", "--delta", "1e-6", "--quiet"]) == 0
    options = {**ROUNDS, "account": "spent.json", "delta": "1e-6"}
    with monkeypatch.context() as patch:
        patch.setattr("privmw.algorithms.mechanism.open_curator", partial(fail, MemoryError()))
        assert main(release_line(**options)) == 2
    assert "the same command resumes" in capsys.readouterr().err
    assert main(release_line(**options)) in RELEASED  # though the account has room for one run only


def test_another_private_file_under_the_same_name_does_not_go_on_with_a_run(here, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        failing(patch, "release.npz", KeyboardInterrupt())
        assert main(release_line(**ROUNDS)) == 130
    table = parquet.read_table("private.parquet")
    parquet.write_table(table.take(pa.array(range(table.num_rows)[::-1])), "private.parquet")
    capsys.readouterr()
    assert main(release_line(**ROUNDS)) == 2
    assert "other options (private)" in capsys.readouterr().err


def test_a_run_that_goes_on_says_so(here, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        failing(patch, "000004.zip", KeyboardInterrupt())
        assert main(release_line(**ROUNDS)) == 130
    capsys.readouterr()
    assert main(release_line(**ROUNDS)) in RELEASED
    assert "checkpoint: 3 rounds were released before" in capsys.readouterr().err


@pytest.mark.parametrize("spoilt", [None, '{"rec', "[]"])
def test_lost_or_damaged_options_lock_nobody_out(here, monkeypatch, capsys, spoilt):
    for name in ("release.npz", "answers.parquet"):
        with monkeypatch.context() as patch:
            failing(patch, name, KeyboardInterrupt())
            assert main(release_line(**ROUNDS)) == 130
        options = here / "out" / "unfinished" / "options.json"
        options.unlink(missing_ok=True) if spoilt is None else options.write_text(spoilt)
        assert main(release_line(**ROUNDS, epsilon=2)) == 2  # refused by the checkpoint, or for the release
    assert "out holds a release (privmw finish out writes the files that it lacks)" in capsys.readouterr().err
    assert main(["finish", "out"]) in RELEASED
    assert set(names_in(here / "out")) == FILES


def test_a_finish_that_is_refused_leaves_a_finished_folder_alone(released, capsys):
    before = names_in(released / "out")
    assert main(["finish", "out", "--records", "5"]) == 2
    assert "out/synthetic.parquet exists (remove it to write another)" in capsys.readouterr().err
    for name in ("synthetic.parquet", "public-values.parquet"):
        (released / "out" / name).unlink()
    assert main(["finish", "out", "--bins", "draw"]) == 2
    assert "--bins (draw) must come with a public file" in capsys.readouterr().err
    assert sorted([*names_in(released / "out"), "public-values.parquet", "synthetic.parquet"]) == before


def test_records_are_drawn_again_from_the_public_values_in_the_folder(released, no_door):
    (released / "public.parquet").unlink()
    before = (released / "out" / "synthetic.parquet").read_bytes()
    (released / "out" / "synthetic.parquet").unlink()
    no_door()
    assert main(["finish", "out", "--quiet", "--seed", "1"]) == 0
    assert (released / "out" / "synthetic.parquet").read_bytes() == before


def test_a_closed_pipe_does_not_hide_that_a_release_disagrees(here):
    line = [sys.executable, "-m", "privmw", *release_line(method="mw-pub", rounds=1, epsilon=50, seed=1)]
    codes = []
    for output, more in (("closed", []), ("quiet", ["--quiet"])):
        process = subprocess.Popen(
            [*line, *more, "-o", output], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if output == "closed":
            process.stdout.close()
        else:
            process.stdout.read()
        said = process.stderr.read()
        codes.append(process.wait(timeout=60))
        process.stderr.close()
        process.stdout.close()
    assert codes == [3, 3]
    assert "DISAGREES" in said
