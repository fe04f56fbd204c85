"""What the operator of a cluster meets: hosts that fail, messages between ranks, networks that are slow.

    python benches/study.py cluster                # every part
    python benches/study.py cluster faults         # cut off, stopped, killed, terminated; three hosts
    python benches/study.py cluster messages       # collectives and bytes of releases over three ranks
    python benches/study.py cluster delay          # a round of PEP when messages take 20 ms

Hosts are network namespaces of this machine, with TCP between them. Where it may not make them, those parts
are skipped with the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hosts import MPIEXEC, Hosts, missing
from shapes import acs67

import privmw as pmw
from privmw.algorithms.auto import recommend
from privmw.extensions.cluster import ShardedSupport, mpi

RANKS, WAIT = 3, 10
STUDY = str(Path(__file__).parents[1] / "study.py")
FAULTS = ("cut off", "stopped", "SIGKILL", "SIGTERM")
STAGES = {"measuring": "rounds/000001.zip", "fitting": "rounds/000010.zip", "writing": "release.npz"}
MARGINALS, ROUNDS, DELAY = 1024, 4, 0.02


def table(*heads: str) -> None:
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)


def line(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def write_files(folder: Path, rows: int) -> list[str]:
    """The files of a release, and the command that makes it on ranks."""
    import pyarrow as pa
    from pyarrow import parquet

    made = acs67(2 * rows)
    names = made.domain.names[:8]
    sizes = dict(zip(names, made.domain.sizes, strict=False))
    pmw.Domain(sizes).write(folder / "domain.json")
    codes = made.codes()[:, : len(names)]
    for name, part in (("private", codes[:rows]), ("public", codes[rows:])):
        columns = {column: part[:, place] for place, column in enumerate(names)}
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=rows // 4)
    files = [f"--{name}={folder / name}.parquet" for name in ("private", "public")]
    fixed = ["--marginals=3", "--epsilon=1", "--method=mw-pub", "--rounds=60", "--seed=1", "--cluster=mpi"]
    return ["-m", "privmw", "release", *files, f"--domain={folder / 'domain.json'}", *fixed]


def process_of(output: Path, host: int) -> int:
    """The process of the rank on a host that makes the release of an output folder."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"--output={output}".encode() in words and words[1:2] == [b"-m"]:
            inside = ["nsenter", f"--uts=/proc/{path.name}/ns/uts", "hostname"]
            name = subprocess.run(inside, capture_output=True, text=True, check=False).stdout.strip()
            if name == f"host{host}":
                return int(path.name)
    raise RuntimeError(f"no rank runs on host {host}")


def fault(hosts: Hosts, command: list[str], folder: Path, kind: str, stage: str) -> None:
    """One fault of the last host in a stage; then the same command again."""
    name = f"{kind} {stage}".replace(" ", "-")
    output, checkpoint = folder / name, folder / f"{name}-run"
    words = [*command, f"--wait={WAIT}", f"--checkpoint={checkpoint}", f"--output={output}"]
    job = hosts.start(*words)
    seen = [checkpoint / STAGES[stage], output / STAGES[stage], output / "unfinished" / STAGES[stage]]
    until = time.monotonic() + 60
    while job.poll() is None and time.monotonic() < until and not any(path.exists() for path in seen):
        time.sleep(0.01)
    began, number = time.monotonic(), None
    if job.poll() is None:
        if kind == "cut off":
            hosts.cut(RANKS)
        else:
            number = process_of(output, RANKS)
            os.kill(number, getattr(signal, "SIGSTOP" if kind == "stopped" else kind))
    try:
        _, errors = job.communicate(timeout=5 * WAIT)
        ended = f"{time.monotonic() - began:.1f} s"
    except subprocess.TimeoutExpired:
        job.kill()
        _, errors = job.communicate()
        ended = "never"
    hosts.connect(RANKS)
    if kind == "stopped" and number is not None:
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)
    named = {text[:6] for text in errors.splitlines() if text.startswith("rank ") and "(the limit is" in text}
    last = [text for text in errors.strip().splitlines() if not text.startswith("[")][-1:] or ["the launcher"]
    said = f"{len(named)} ranks name it" if named else last[0][:70]
    paid = {path.name: path.read_bytes() for path in checkpoint.glob("rounds/[0-9]*.zip")}
    time.sleep(1)
    again = hosts.start(*words)
    again.communicate(timeout=240)
    kept = {path.name: path.read_bytes() for path in checkpoint.glob("rounds/[0-9]*.zip")}
    lost = sum(kept.get(name) != content for name, content in paid.items())
    resumed = "yes" if (output / "privacy.json").exists() else "no"
    line(kind, stage, job.returncode, ended, said, len(paid), resumed, lost)


def faults() -> None:
    """Every fault in every stage of a release over three hosts."""
    print(f"\nA release over {RANKS} hosts, --wait {WAIT}; the last host fails, then the same command again.")
    with tempfile.TemporaryDirectory() as made, Hosts(RANKS) as hosts:
        command = write_files(Path(made), 4000)
        table("fault", "while", "exit", "ended after", "said", "looks paid before", "resumed", "looks lost")
        for kind in FAULTS:
            for stage in STAGES:
                fault(hosts, command, Path(made), kind, stage)


def releases(kind: str, rows: int, marginals: int) -> None:
    """A program for ranks: a release from `rows` public records, and what it took beyond reading them."""
    pmw.kernels.set_threads(1)
    comm, made = mpi(), acs67(2 * rows)
    codes, domain = made.codes(), made.domain
    support = ShardedSupport.of(
        pmw.Support.from_table(pmw.Table.from_codes(codes[:rows], domain, private=False)), comm
    )
    workload = pmw.Workload.sample(domain, k=3, size=marginals, seed=0)
    private = pmw.Table.from_codes(codes[rows:], domain, private=True) if comm.rank == 0 else None
    mechanism = (
        pmw.PEP(rounds=ROUNDS).calibrate(epsilon=1.0, delta=1e-9)
        if kind == "PEP"
        else recommend(rows, support, workload, epsilon=1.0, delta=1e-9)
    )
    planned = mechanism.plan(support, workload).traffic * max(1, mechanism.algorithm.schedule.rounds)
    before, began = (comm.collectives, comm.bytes_reduced, comm.bytes_sent), time.perf_counter()
    release = mechanism(private, support, workload, rng=1, public_is_public=True)
    collectives, sent = comm.collectives - before[0], comm.bytes_reduced + comm.bytes_sent - sum(before[1:])
    answers = release.answers()  # on all ranks
    if comm.rank == 0:
        figures = {
            "rounds": mechanism.algorithm.schedule.rounds, "collectives": collectives,
            "bytes": sent,
            "planned": planned, "seconds": time.perf_counter() - began,
            "digest": hashlib.sha256(answers.tobytes()).hexdigest()[:8],
        }  # fmt: skip
        sys.stdout.write(json.dumps(figures) + "\n")


def on_ranks(ranks: int, *arguments: object) -> dict[str, Any]:
    command = [str(MPIEXEC), "-n", str(ranks), sys.executable, STUDY, "cluster", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def messages() -> None:
    """Collectives and bytes of releases over three ranks, and that one rank has the same bits."""
    table("release", "public rows", "collectives", "MB", "MB planned", "as one rank")
    for kind, rows in (("release_auto", 5000), ("release_auto", 100_000), ("PEP", 20_000)):
        three, one = (on_ranks(ranks, "releases", kind, rows, MARGINALS) for ranks in (RANKS, 1))
        same = "same bits" if three["digest"] == one["digest"] else "OTHER BITS"
        mega = (f"{three[key] / 1e6:.1f}" for key in ("bytes", "planned"))
        line(f"{kind}, {three['rounds']} rounds", rows, three["collectives"], *mega, same)


def delay() -> None:
    """A round of PEP on three hosts, with messages that take 20 ms and without."""
    table("a round of PEP on three hosts", "seconds", "collectives", "over no delay")
    seconds = []
    with Hosts(RANKS) as hosts:
        for late in (0.0, DELAY):
            if not hosts.delay(late):
                print(f"a delay of {late * 1e3:.0f} ms: skipped, this kernel has no netem")
                return
            job = hosts.start(STUDY, "cluster", "releases", "PEP", 20_000, MARGINALS)
            out, errors = job.communicate()
            assert job.returncode == 0, errors
            found = json.loads(out)
            seconds.append(found["seconds"] / found["rounds"])
            line(
                f"{late * 1e3:.0f} ms", f"{seconds[-1]:.2f}", found["collectives"] // found["rounds"],
                f"{seconds[-1] / seconds[0]:.1f}",
            )  # fmt: skip


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    for name in chosen:
        if name in ("faults", "delay") and (reason := missing()):
            print(f"\n{name}: skipped, for want of {reason}")
        else:
            PARTS[name]()


PARTS = {"faults": faults, "messages": messages, "delay": delay}

if __name__ == "__main__":
    if sys.argv[1:2] == ["releases"]:
        releases(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
