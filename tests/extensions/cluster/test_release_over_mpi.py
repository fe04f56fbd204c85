"""Releases over the ranks of MPI, as processes: one rank's bits, counts on rank 0 alone, ends, goings-on."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import privmw as pmw
from extensions.cluster.cases import ALGORITHMS, MASK, workload_of
from extensions.cluster.mpi_jobs import ended, needs_mpi, run_job, start_job
from marks.slow import slow, slow_among
from privmw.cli.refusal import EXIT_DISAGREES
from privmw.release.file import load_release

GOOD = (0, EXIT_DISAGREES)

pytestmark = needs_mpi
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
DOMAIN = pmw.Domain({"age": 9, "sex": 2, "race": 5, "zip": 13, "own": 3, "job": 7})
KEPT = 12  # counts that are looked for


def records(n, seed):
    rng = np.random.default_rng(seed)
    return np.stack([np.minimum(rng.geometric(0.35, n) - 1, size - 1) for size in DOMAIN.sizes], axis=1)


def write(path, codes, groups):
    table = pa.table({name: codes[:, a].astype(np.uint8) for a, name in enumerate(DOMAIN.names)})
    parquet.write_table(table, path, row_group_size=-(-len(codes) // groups))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    DOMAIN.write(folder / "domain.json")
    (folder / "public").mkdir()
    public = records(3000, 1)
    write(folder / "public" / "1.parquet", public[:1000], 2)
    write(folder / "public" / "2.parquet", public[1000:], 1)
    write(folder / "all.parquet", public, 3)
    write(folder / "private.parquet", records(30_000, 2), 3)
    counts = private(folder).counts(workload_of(DOMAIN))
    place = int(np.argmax(counts))  # the largest counts: nothing else looks like them
    np.save(folder / "hidden.npy", counts[place : place + KEPT] ^ MASK)
    return folder


def private(folder):
    return pmw.read_table(folder / "private.parquet", DOMAIN, private=True)


def alone(folder, kind, **options):
    support = pmw.Support.from_table(pmw.read_table(folder / "public", DOMAIN, private=False))
    mechanism = ALGORITHMS[kind].calibrate(rho=0.5)
    return mechanism(private(folder), support, workload_of(DOMAIN), rng=7, **options)


def said_once(done, words):
    assert done.stderr.count(words) == 1, done.stderr
    assert done.returncode != 0


@pytest.mark.parametrize("size", [2, *slow(1, 3, 4)])
def test_any_number_of_ranks_makes_the_releases_of_one_process(folder, tmp_path, size):
    kinds = ["mw-pub", "sharded mw-pub", "pep that grows"]
    if size != 2:  # slow; test_sharded_release.py has all of them on ranks that are threads
        kinds += ["mw-pub by changes", "pep"]
    done = run_job(size, "release", folder, ",".join(kinds), tmp_path, seconds=180)
    assert (done.returncode, done.stderr) == (0, "")
    for kind in kinds:
        assert load_release(tmp_path / f"{kind}.npz") == alone(folder, kind.removeprefix("sharded "))
        # Private counts are in the memory of rank 0, which shows that they can be found, and of no other.
        found = [(tmp_path / f"{kind}.{rank}").read_text() for rank in range(size)]
        assert found == ["True", *["False"] * (size - 1)], kind


@pytest.mark.parametrize(
    ("before", "after", "who"), [(3, 2, 1), pytest.param(2, 4, 0, marks=pytest.mark.slow)]
)
def test_a_run_whose_rank_was_killed_goes_on_with_other_ranks(folder, tmp_path, before, after, who):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    for output in (first, second, third):
        output.mkdir()
    checkpoint = tmp_path / "kept"
    done = run_job(before, "release", folder, "mw-pub", first, checkpoint, who, 4)
    assert done.returncode != 0
    assert not list(first.iterdir())
    kept = sorted(path.stem for path in (checkpoint / "rounds").glob("*.zip"))
    assert kept == ["000001", "000002", "000003", "000004"][: len(kept)]
    assert len(kept) >= 3
    done = run_job(after, "release", folder, "mw-pub", second, checkpoint, seconds=60)
    assert (done.returncode, done.stderr) == (0, "")
    whole, resumed = alone(folder, "mw-pub"), load_release(second / "mw-pub.npz")
    assert resumed.ledger == whole.ledger
    assert resumed.measurements[: len(kept)] == whole.measurements[: len(kept)]
    assert resumed.history[: len(kept)] == whole.history[: len(kept)]
    # The same again is the same release: everything is read back, nothing drawn.
    assert run_job(1, "release", folder, "mw-pub", third, checkpoint).returncode == 0
    assert load_release(third / "mw-pub.npz") == resumed


def command(folder, output, **options):
    given = {
        "private": folder / "private.parquet",
        "public": folder / "public",
        "domain": folder / "domain.json",
        "method": "mw-pub",
        "rounds": 6,
        "marginals": 3,
        "epsilon": 1,
        "seed": 7,
        "cluster": "mpi",
        "output": output,
        **options,
    }
    words = [f"--{name}={value}" for name, value in given.items() if value is not None]
    return ["-m", "privmw", "release", *words]


@pytest.mark.parametrize("size", [2, *slow(3)])
def test_the_command_line_writes_the_same_on_ranks(folder, tmp_path, size):
    done = run_job(size, *command(folder, tmp_path / "ranks", json=None), seconds=120)
    assert done.returncode in GOOD, done.stderr
    progress = done.stderr.splitlines()
    assert progress.count("releasing with MWPub(rounds=6)") == 1
    assert done.stderr.count("round 6 of 6") == done.stdout.count("Written:") == 1
    single = run_job(1, *command(folder, tmp_path / "one", cluster=None), seconds=120)
    assert single.returncode == done.returncode, single.stderr
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert sorted(path.name for path in (tmp_path / "ranks").iterdir()) == names
    for name in ("release.npz", "privacy.json"):
        assert (tmp_path / "ranks" / name).read_bytes() == (tmp_path / "one" / name).read_bytes(), name
    for name in ("answers.parquet", "measurements.parquet", "synthetic.parquet"):
        tables = [parquet.read_table(tmp_path / folder / name) for folder in ("ranks", "one")]
        assert tables[0].equals(tables[1]), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "ranks"]


def ranks_of(output):
    """The processes whose command line names the output, but for the launcher's own."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"--output={output}".encode() in words and b"-m" in words[:3]:
            found.append(int(path.name))
    return sorted(found)


@pytest.mark.parametrize("place", [0, *slow(-1)])
def test_a_killed_rank_leaves_an_unfinished_output_of_the_command_line(folder, tmp_path, place):
    output, checkpoint = tmp_path / "out", tmp_path / "kept"
    job = start_job(3, *command(folder, output, rounds=3000, checkpoint=checkpoint))
    try:
        until = time.monotonic() + 60
        while not (checkpoint / "rounds" / "000005.zip").exists():
            assert time.monotonic() < until, job.poll()
            time.sleep(0.05)
        os.kill(ranks_of(output)[place], signal.SIGKILL)
        done = ended(job)
    finally:
        job.kill()
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "out"]
    assert [path.name for path in output.iterdir()] == ["unfinished"]
    assert not [path for path in checkpoint.rglob("*") if path.name.endswith("npz")]
    until = time.monotonic() + 10
    while ranks_of(output):
        assert time.monotonic() < until
        time.sleep(0.1)


BAD = {
    "no public file": ({"public": "none.parquet"}, "--public (none.parquet) must exist"),
    "no private file": ({"private": "none.parquet"}, "--private (none.parquet) must exist"),
    "no domain": ({"domain": "none.json"}, "--domain (none.json) must exist"),
    "an epsilon of 0": ({"epsilon": 0}, "must be positive"),
    "an output that is there": ({"output": "."}, "exists"),
    "another cluster": ({"cluster": "spark"}, "--cluster (spark) must be mpi"),
}


@pytest.mark.parametrize("name", slow_among(BAD, ["no domain", "no public file", "another cluster"]))
def test_what_a_command_refuses_is_said_once(folder, tmp_path, name):
    options, words = BAD[name]
    done = run_job(3, *command(folder, **{"output": tmp_path / "out", **options}), folder=tmp_path)
    said_once(done, words)
    assert done.returncode == 2
    assert done.stderr.count("privmw release:") == 1
    assert not list(tmp_path.iterdir())


ONE_RANK = {
    "no public file": ({"public": None}, "--cluster must come with --public"),
    "several": ({"more": "all.parquet"}, "--cluster must come with one public file"),
    "fewer columns": ({"public": "fewer.parquet"}, "fewer.parquet lacks the column 'sex'"),
}


@pytest.mark.parametrize("name", slow_among(ONE_RANK, ["no public file", "several"]))
def test_public_files_that_one_rank_must_read_are_refused_on_several(folder, tmp_path, name):
    options, words = ONE_RANK[name]
    table = parquet.read_table(folder / "all.parquet")
    parquet.write_table(table.drop_columns([DOMAIN.names[1]]), folder / "fewer.parquet")
    given = {key: folder / value if value else None for key, value in options.items()}
    more = given.pop("more", None)
    line = command(folder, tmp_path / "out", method="auto", rounds=None, **given)
    done = run_job(2, *line, *([] if more is None else [f"--public={more}"]), folder=tmp_path)
    said_once(done, words)
    assert done.returncode == 2
    assert not list(tmp_path.iterdir())


def test_ranks_that_were_started_without_being_meant_are_refused(folder, tmp_path):
    done = run_job(2, *command(folder, tmp_path / "out", cluster=None))
    assert done.returncode == 2
    assert "2 ranks were started (add --cluster mpi" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_signal_to_another_rank_does_not_end_rank_0_while_it_writes(tmp_path):
    program = tmp_path / "write.py"
    program.write_text(
        "import os, pathlib, sys, time\n"
        "from privmw.extensions.cluster import mpi\n"
        "comm = mpi()\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "(folder / f'pid{comm.rank}').write_text(str(os.getpid()))\n"
        "if comm.rank == 0:\n"
        "    time.sleep(4)\n"
        "    (folder / 'written').touch()\n"
    )
    job = start_job(2, str(program), tmp_path)
    until = time.monotonic() + 20
    while not (tmp_path / "pid1").exists():
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(1)
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(int((tmp_path / "pid1").read_text()), number)
    done = ended(job)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "written").exists()


def test_an_interrupted_command_says_how_it_goes_on(folder, tmp_path):
    output, checkpoint = tmp_path / "out", tmp_path / "kept"
    job = start_job(2, *command(folder, output, rounds=3000, checkpoint=checkpoint))
    until = time.monotonic() + 60
    while not (checkpoint / "rounds" / "000005.zip").exists():
        assert time.monotonic() < until, job.poll()
        time.sleep(0.05)
    job.send_signal(signal.SIGINT)
    done = ended(job)
    assert done.returncode != 0
    assert done.stderr.count("privmw release:") == 1
    assert f"{checkpoint} keeps the run (the same command resumes it" in done.stderr
    assert [path.name for path in output.iterdir()] == ["unfinished"]


def test_a_csv_file_is_no_file_for_ranks(folder, tmp_path):
    path = tmp_path / "public.csv"
    path.write_text(",".join(DOMAIN.names) + "\n0,0,0,0,0,0\n")
    done = run_job(2, *command(folder, tmp_path / "out", public=path))
    said_once(done, "must be a parquet file")


@pytest.mark.slow  # three commands; in one process test_checkpoint.py tells the same quickly
def test_a_checkpoint_of_another_run_is_refused_once(folder, tmp_path):
    checkpoint = tmp_path / "kept"
    assert (
        run_job(2, *command(folder, tmp_path / "one", checkpoint=checkpoint), seconds=60).returncode in GOOD
    )
    done = run_job(2, *command(folder, tmp_path / "two", checkpoint=checkpoint, epsilon=2))
    said_once(done, "must be of this run")
    assert not (tmp_path / "two").exists()
    again = run_job(3, *command(folder, tmp_path / "again", checkpoint=checkpoint), seconds=60)
    assert again.returncode in GOOD, again.stderr
    ledgers = [
        json.loads((tmp_path / name / "privacy.json").read_text())["ledger"] for name in ("one", "again")
    ]
    assert ledgers[0] == ledgers[1]
