"""The command as a process of its own: signals, pipes, terminals, full disks."""

import contextlib
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import privmw.cli.outputs
from cli.cases import FILES, RELEASED, N, names_in, release_line, write_pair
from marks.slow import slow
from privmw.cli import main

ENDLESS = {"method": "mw-pub", "rounds": 1_000_000, "force": True}  # ends only by a signal


@pytest.fixture
def here(tmp_path):
    write_pair(tmp_path)
    return tmp_path


def start(arguments, folder, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "privmw", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def watched(arguments, folder):
    """Start a command whose standard error is a terminal; returns it and our end of the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "privmw", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150"},
    )
    os.close(theirs)
    return process, ours


def read_until(terminal, wanted=None):
    """What a terminal shows, until a word is seen or it closes."""
    seen = b""
    with contextlib.suppress(OSError):  # what Linux says when the other end is closed
        while (wanted is None or wanted not in seen) and (part := os.read(terminal, 4096)):
            seen += part
    return seen


@pytest.mark.parametrize("number", [signal.SIGINT, *slow(signal.SIGTERM)])
def test_an_interrupted_release_keeps_what_it_paid_for_and_says_how_to_go_on(number, here):
    before = names_in(here)
    process, terminal = watched(release_line(**ENDLESS, config="run.toml"), here)
    assert b"rho" in read_until(terminal, b"rho")
    process.send_signal(number)
    said = read_until(terminal)
    os.close(terminal)
    assert process.wait(timeout=60) == 130
    said = b" ".join(said.split())  # the terminal breaks lines
    assert re.search(
        rb"interrupted; rho [0-9.e-]+ was spent and stays spent; out/unfinished/checkpoint keeps", said
    )
    assert b"the same command resumes" in said
    assert b"Traceback" not in said
    assert names_in(here) == sorted([*before, "out"])
    assert names_in(here / "out") == ["unfinished"]
    assert names_in(here / "out" / "unfinished" / "checkpoint" / "rounds")


@pytest.mark.parametrize("number", [signal.SIGTERM, *slow(signal.SIGINT, signal.SIGHUP)])
def test_an_impatient_second_signal_does_not_stop_the_tidying_up(number, here):
    before = names_in(here)
    process, terminal = watched(release_line(**ENDLESS, config="run.toml"), here)
    read_until(terminal, b"rho")
    for _ in range(20):
        process.send_signal(number)
        time.sleep(0.002)
    said = read_until(terminal)
    os.close(terminal)
    assert process.wait(timeout=60) == 130
    assert b"Traceback" not in said
    assert names_in(here) == sorted([*before, "out"])
    assert names_in(here / "out") == ["unfinished"]


def test_an_interruption_that_a_library_made_an_error_of_is_one(here, monkeypatch, capsys):
    def load(*_, **__):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            raise ImportError("half imported") from None

    monkeypatch.chdir(here)
    monkeypatch.setattr(privmw.cli.outputs, "write_report", load)
    assert main(release_line()) == 130
    said = capsys.readouterr().err
    assert "interrupted; out/release.npz is written (privmw finish out writes the rest)" in said


@pytest.mark.parametrize("closed", [">&- 2>&-", *slow(">&-", "2>&-", "<&-")])
def test_closed_streams_do_not_matter(closed, here):
    line = shlex.join([sys.executable, "-m", "privmw", *release_line()])
    assert (
        subprocess.run(["sh", "-c", f"{line} {closed}"], cwd=here, capture_output=True).returncode in RELEASED
    )
    assert set(names_in(here / "out")) == FILES
    assert subprocess.run(["sh", "-c", f"{line} {closed}"], cwd=here, capture_output=True).returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_output_that_cannot_be_printed_is_no_reason_to_release_again(here):
    line = shlex.join([sys.executable, "-m", "privmw", *release_line()])
    done = subprocess.run(["sh", "-c", f"{line} >/dev/full"], cwd=here, capture_output=True, text=True)
    assert done.returncode == 2
    assert "standard output cannot be written: No space left on device" in done.stderr
    assert "do not repeat" in done.stderr
    assert "finish" not in done.stderr
    assert set(names_in(here / "out")) == FILES
    assert subprocess.run(["sh", "-c", f"{line} 2>/dev/full"], cwd=here, capture_output=True).returncode == 2


@pytest.mark.parametrize("speech", [[], *slow(["--json"])])
def test_a_folder_may_have_a_name_that_is_no_text(speech, here):
    try:
        (here / os.fsdecode(b"\xff")).mkdir()
    except OSError:
        pytest.skip("a file system of text names")
    line = [*release_line(output=os.fsdecode(b"\xff/caf\xe9")), *speech]
    process = start(line, here, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    out, err = process.communicate(timeout=60)
    assert process.returncode in RELEASED, err
    assert "caf" in out
    assert set(names_in(here / os.fsdecode(b"\xff/caf\xe9"))) == FILES


def test_a_folder_that_is_gone_is_named_as_it_was_asked_for(here):
    (here / "gone").mkdir()
    line = shlex.join([sys.executable, "-m", "privmw", "demo", "-o", "mine"])
    gone = ["sh", "-c", f"cd gone && rmdir ../gone && {line}"]
    done = subprocess.run(gone, cwd=here, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "privmw demo: mine: No such file or directory\n")


def test_a_reader_that_goes_away_is_no_error(here):
    process = start(["domain", "public.parquet"], here)
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()


def test_a_terminal_sees_rounds_and_time_left(here):
    process, terminal = watched(release_line(method="mw-pub", rounds=30), here)
    seen = read_until(terminal)
    os.close(terminal)
    assert process.wait(timeout=60) in RELEASED
    assert b"30/30" in seen
    assert b"rho" in seen
    assert b"0:00:00" in seen


def refused_on_full_disk(process, folder, before):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert out == ""
    assert "Traceback" not in err
    assert names_in(folder) == before
    return err.splitlines()[-1]


def test_files_that_may_not_grow_leave_nothing(here):
    # In blocks of 512 bytes; a preexec_fn would fork this process, which has threads, and Python warns of it.
    line = "ulimit -f 6 && exec " + shlex.join([sys.executable, "-m", "privmw", *release_line()])
    before = names_in(here)
    process = subprocess.Popen(
        ["sh", "-c", line], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said = refused_on_full_disk(process, here, before)
    assert "File too large" in said


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk can only be mounted as root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_leaves_nothing(here, small_disk):
    said = refused_on_full_disk(start(release_line(output="disk/out"), here), small_disk, [])
    assert "disk/out: No space left on device (free some space" in said
    assert "spent" not in said


def test_an_unwritable_folder_is_refused(here):
    if os.geteuid() == 0:
        folder = "/proc/out"  # where even root can make nothing
    else:
        (here / "locked").mkdir(mode=0o500)
        folder = "locked/out"
    before = names_in(here)
    process = start(release_line(output=folder), here)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert names_in(here) == before


def test_the_installed_command_is_there(here):
    command = os.path.join(os.path.dirname(sys.executable), "privmw")
    done = subprocess.run([command, *release_line()], cwd=here, capture_output=True, text=True)
    assert done.returncode in RELEASED, done.stderr
    assert set(names_in(here / "out")) == FILES
    assert f"one record of {N}" in done.stdout
