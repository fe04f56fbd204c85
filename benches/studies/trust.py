"""Ends a release at every write, and kills it at random times: what was paid for must never be lost.

    python benches/study.py trust ends               # 240 faults at writes, on a release of the demo's size
    python benches/study.py trust kills              # 300 x kill -9 at random times, account and checkpoint
    python benches/study.py trust ends --trials 20   # fewer

Each trial runs `privmw release` in a process of its own, ends it, and goes on as the error message says: with
`privmw finish` where release.npz exists, else with the same command. Counted at the end: releases that were
paid for and are not there; rounds that were stored and are not those of the release; costs that the account
has twice. Seeds are fixed; the noise is not.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as parquet

import privmw as pmw
from privmw.extensions.population import draw_values, population_domain

# Runs a command, with a fault at one of its writes below the current folder: number `place`, or none.
FAULTY = """
import os, sys, signal, errno
kind, place, counted = sys.argv[1], int(sys.argv[2]), 0
del sys.argv[1:3]
root = os.getcwd()

def fault():
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    if kind == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if kind == "memory":
        raise MemoryError

def watched(real):
    def call(*arguments, **options):
        global counted
        first = arguments[0]
        try:
            path = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else os.fspath(first)
        except OSError:
            path = ""
        flags = arguments[1] if real is real_open and len(arguments) > 1 else os.O_CREAT
        path = os.fsdecode(path)
        if flags & os.O_CREAT and (not path.startswith("/") or path.startswith(root)):
            counted += 1
            if counted == place:
                fault()
        return real(*arguments, **options)
    return call

from privmw.cli import main
real_open = os.open
for name in ("open", "fsync", "link", "replace", "rename", "unlink", "mkdir", "rmdir"):
    setattr(os, name, watched(getattr(os, name)))
try:
    code = main()
finally:
    if kind == "count":
        print(counted, file=sys.stderr)
sys.exit(code)
"""
ONE_RUN = ["--epsilon", "1", "--delta", "1e-9"]
GOOD = (0, 3)  # 3: written, and it says that it disagrees with what was measured


class Outcome(NamedTuple):
    """What came of one trial."""

    kind: str
    ended: str  # "before it was paid", "with rounds", "with a release", "whole"
    lost: bool
    differing: bool
    twice: bool


def write_files(folder: Path, n: int, attributes: int) -> None:
    population_domain(attributes).write(folder / "domain.json")
    for name, shift, seed in (("public", 0.0, 2015), ("private", 1.0, 2018)):
        values = draw_values(n, attributes=attributes, shift=shift, seed=seed)
        parquet.write_table(pa.table(values), folder / f"{name}.parquet", compression="zstd")


def release_line(folder: Path, marginals: int, more: list[str]) -> list[str]:
    given = {"private": "private.parquet", "public": "public.parquet", "domain": "domain.json"}
    words = [
        "release",
        "--marginals",
        str(marginals),
        "--account",
        "account.json",
        *ONE_RUN,
        "-o",
        "out",
        *more,
    ]
    for name, file in given.items():
        words += [f"--{name}", str(folder / file)]
    return [*words, *more]


def run(line: list[str], place: Path, kind: str = "none", at: int = 0, before: str = "") -> int:
    command = [sys.executable, "-c", FAULTY, kind, str(at), *line]
    if before:
        command = ["sh", "-c", f'{before} && exec "$@"', "sh", *command]
    return subprocess.run(command, cwd=place, capture_output=True, timeout=600).returncode


def noisy_counts(out: Path) -> dict[str, bytes]:
    """The noisy counts of every stored round, as the bytes of their member."""
    rounds = out / "unfinished" / "checkpoint" / "rounds"
    stored = {}
    for path in sorted(rounds.glob("[0-9]*.zip")) if rounds.is_dir() else ():
        with zipfile.ZipFile(path) as archive:
            stored[path.stem] = archive.read("measurements/noisy_counts.npy")[128:]
    return stored


def recover(place: Path, line: list[str], kind: str) -> Outcome:
    """Go on as the messages say, and look at what is there in the end."""
    out, file = place / "out", place / "out" / "release.npz"
    stored, release = noisy_counts(out), file.read_bytes() if file.exists() else None
    whole = release is not None and not (out / "unfinished").exists()
    ended = "whole" if whole else "with a release" if release else "with rounds" if stored else "unpaid"
    if not whole:
        code = run(["finish", "out"] if release else line, place)
        if code not in GOOD:
            return Outcome(kind, ended, bool(release or stored), False, False)
    made = pmw.load_release(file)
    differing = release is not None and file.read_bytes() != release
    by_round: dict[str, bytes] = {}
    for measurement in made.measurements:
        name = f"{measurement.round:06}"
        by_round[name] = by_round.get(name, b"") + measurement.noisy_counts.tobytes()
    differing |= any(by_round.get(name) != counts for name, counts in stored.items())
    account = pmw.Account(place / "account.json")
    return Outcome(kind, ended, False, differing, account.rho > Fraction(made.ledger.rho))


def new_place(root: Path) -> Path:
    place = Path(tempfile.mkdtemp(dir=root))
    assert run(["account", "new", "account.json", "--epsilon", "9", "--delta", "1e-9"], place) == 0
    return place


def ends(trials: int, seed: int) -> list[Outcome]:
    """A fault at some of all writes, of each kind; and files that may not grow beyond some size."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_files(root, 20_000, 14)
        line = release_line(root, 3, [])
        place = new_place(root)
        counted = subprocess.run(
            [sys.executable, "-c", FAULTY, "count", "0", *line], cwd=place, capture_output=True, text=True
        )
        writes = int(counted.stderr.split()[-1])
        print(f"{writes} writes in a whole release")
        rng = random.Random(seed)
        kinds = ("kill", "term", "full", "memory")
        everywhere = [(kind, at, "") for kind in kinds for at in range(1, writes + 1)]
        plan = rng.sample(everywhere, min(trials - trials // 6, len(everywhere)))
        for _ in range(trials // 6):
            plan.append(("limit", 0, f"ulimit -f {rng.randrange(2, 8000)}"))

        def trial(planned: tuple[str, int, str]) -> Outcome:
            kind, at, before = planned
            place = new_place(root)
            run(line, place, kind, at, before)
            outcome = recover(place, line, kind)
            shutil.rmtree(place)
            return outcome

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(trial, plan))


def kills(trials: int, seed: int) -> list[Outcome]:
    """kill -9 at random times, again and again until the release is there; then the next one."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_files(root, 2_000, 8)
        line = release_line(root, 2, ["--method", "mw-pub", "--rounds", "60"])
        place = new_place(root)
        began = time.monotonic()
        assert run(line, place) in GOOD
        usual = time.monotonic() - began

        def trial(number: int) -> list[Outcome]:
            rng = random.Random(seed + number)
            place, outcomes = new_place(root), []
            while len(outcomes) < 6:
                command = [sys.executable, "-m", "privmw", *line]
                process = subprocess.Popen(
                    command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                time.sleep(rng.uniform(0.4, 0.9) * usual)
                process.send_signal(signal.SIGKILL)
                process.wait()
                twin = Path(tempfile.mkdtemp(dir=root)) / "copy"  # go on with a copy; kill the original again
                shutil.copytree(place, twin)
                outcomes.append(recover(twin, line, "kill"))
                shutil.rmtree(twin.parent)
                if outcomes[-1].ended in ("whole", "with a release"):
                    shutil.rmtree(place)
                    place = new_place(root)
            shutil.rmtree(place)
            return outcomes

        with ThreadPoolExecutor(2) as pool:
            return [outcome for found in pool.map(trial, range(-(-trials // 6))) for outcome in found][
                :trials
            ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("ends", "kills"))
    parser.add_argument("--trials", type=int)
    parser.add_argument("--seed", type=int, default=14)
    options = parser.parse_args()
    if options.what == "ends":
        outcomes = ends(options.trials or 240, options.seed)
    else:
        outcomes = kills(options.trials or 300, options.seed)
    print(f"{'fault':8} {'trials':>6} {'unpaid':>7} {'rounds':>7} {'release':>8} {'whole':>6} "
          f"{'lost':>5} {'differing':>10} {'spent twice':>12}")  # fmt: skip
    for kind in dict.fromkeys(outcome.kind for outcome in outcomes):
        those = [outcome for outcome in outcomes if outcome.kind == kind]
        ended = Counter(outcome.ended for outcome in those)
        print(
            f"{kind:8} {len(those):6} {ended['unpaid']:7} {ended['with rounds']:7} "
            f"{ended['with a release']:8} {ended['whole']:6} {sum(o.lost for o in those):5} "
            f"{sum(o.differing for o in those):10} {sum(o.twice for o in those):12}"
        )


if __name__ == "__main__":
    main()
