"""The ranks of MPI, as processes: they meet as ranks must, and one that cannot go on ends the job."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from extensions.cluster.mpi_jobs import PROGRAMS, ended, needs_mpi, run_job, start_job
from marks.slow import slow
from privmw.extensions import cluster


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=PROGRAMS,  # not where the sources are: what is installed is tested
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def last_words(done):
    return done.stderr.strip().splitlines()[-1]


@needs_mpi
@pytest.mark.parametrize("size", [1, 2, *slow(3, 4)])
def test_ranks_meet_in_every_way(size):
    done = run_job(size, "meet")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == [f"rank {rank} of {size} met" for rank in range(size)]


@needs_mpi
def test_the_examples_of_the_ranks_run():
    program = "import doctest, importlib; module = importlib.import_module('privmw.extensions.cluster.mpi')"
    done = run(f"{program}; print(doctest.testmod(module))")
    assert "failed=0" in done.stdout
    assert "attempted=0" not in done.stdout


@needs_mpi
def test_without_a_launcher_there_is_one_rank():
    done = run("from privmw.extensions import cluster; print(cluster.mpi()); raise ValueError('as usual')")
    assert done.stdout == "Mpi(rank 0 of 1)\n"
    assert done.stderr.startswith("Traceback")
    assert done.returncode == 1


@needs_mpi
@pytest.mark.parametrize("who", [2, *slow(0)])
def test_an_error_of_one_rank_ends_the_job_and_is_told_once(who):
    done = run_job(3, "fail", "raise", who)
    assert done.returncode == 1
    assert done.stderr.startswith(f"rank {who} of 3: Traceback (most recent call last):\n")
    assert last_words(done) == "ValueError: the cause of it all"
    assert done.stderr.count("Traceback") == 1
    assert done.stdout == ""


@needs_mpi
@pytest.mark.parametrize(
    ("how", "teller"), [("everyone", "0"), pytest.param("others", "[123]", marks=pytest.mark.slow)]
)
def test_an_error_of_many_ranks_is_told_by_one_of_them(how, teller):
    done = run_job(4, "fail", how, 0)
    assert done.returncode == 1
    assert re.match(f"rank {teller} of 4: Traceback", done.stderr)
    assert done.stderr.count("Traceback") == 1


@needs_mpi
@pytest.mark.parametrize("who", [1, *slow(0)])
def test_only_the_rank_that_failed_reports_the_error(who):
    done = run_job(3, "fail", "together", who)
    assert done.returncode == 1
    assert done.stderr.startswith(f"rank {who} of 3: Traceback")
    assert last_words(done) == "FileNotFoundError: people.parquet must exist"
    assert done.stderr.count("Traceback") == 1


@needs_mpi
@pytest.mark.parametrize(("how", "who"), [pytest.param("exit", 0, marks=pytest.mark.slow), ("end", 1)])
def test_a_rank_that_ends_before_the_others_is_missed(how, who):
    done = run_job(3, "fail", how, who)
    assert done.returncode == 1
    assert re.match(r"rank \d of 3: Traceback", done.stderr)
    assert last_words(done).endswith(f"rank {who} must not exit before the others: they wait for it")
    assert done.stderr.count("Traceback") == 1


@needs_mpi
@pytest.mark.parametrize(("how", "code"), [("exits", 3), pytest.param("late", 0, marks=pytest.mark.slow)])
def test_ranks_that_all_end_need_not_end_at_once(how, code):
    done = run_job(3, "fail", how, 1)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@needs_mpi
def test_a_collective_call_that_a_rank_left_is_an_error_at_its_exit():
    done = run_job(2, "fail", "catch", 0)
    assert done.returncode == 1
    assert last_words(done).endswith("every collective call must be completed: this rank left one unfinished")


@needs_mpi
@pytest.mark.parametrize("name", ["SIGKILL", *slow("SIGTERM", "SIGSEGV")])
def test_a_rank_that_dies_ends_the_job_and_the_launcher_tells(name):
    done = run_job(3, "fail", name, 1)
    assert done.returncode != 0
    output = done.stdout + done.stderr  # MPICH's launcher reports it on standard output
    assert len(re.findall(rf"signal {getattr(signal, name).value}\b", output)) == 1
    assert "Traceback" not in output
    assert "met" not in output.split()


@needs_mpi
@pytest.mark.parametrize(("how", "code"), [("_exit", 5), ("abort", 7)])
def test_a_rank_may_end_the_job_without_a_message_of_ours(how, code):
    done = run_job(3, "fail", how, 1)
    assert done.returncode != 0
    assert how != "abort" or (done.returncode, done.stderr) == (code, "")
    assert "Traceback" not in done.stderr


@needs_mpi
@pytest.mark.parametrize("who", [1, *slow(0)])
def test_every_rank_that_waits_names_one_that_was_stopped(who):
    done = run_job(3, "fail", "STOP", who)
    assert done.returncode != 0
    for rank in {0, 1, 2} - {who}:
        (line,) = [line for line in done.stderr.splitlines() if line.startswith(f"rank {rank} of 3: rank")]
        assert re.match(
            rf"rank {rank} of 3: rank {who} \(\S+\) is silent for \d+ s \(the limit is 3 s\): ", line
        )
        assert "is stopped (SIGSTOP)" in line
        assert line.endswith("The run ends; the same command resumes it from its checkpoint")
    assert "Traceback" not in done.stderr
    assert "met" not in done.stdout


@needs_mpi
def test_a_slow_rank_is_waited_for_beyond_the_limit():
    done = run_job(2, "fail", "slow", 1)
    assert (done.returncode, done.stdout, done.stderr) == (0, "met\n" * 2, "")


@needs_mpi
@pytest.mark.slow
def test_an_mpi_without_threads_sets_no_limit_of_its_own():
    done = run_job(2, "fail", "threadless", 1)
    assert (done.returncode, done.stdout, done.stderr) == (0, "met\n" * 2, "")


@needs_mpi
def test_a_job_without_a_limit_ends_well():
    done = run_job(2, "fail", "patient", 0)
    assert (done.returncode, done.stdout, done.stderr) == (0, "met\n" * 2, "")


@needs_mpi
def test_an_interrupted_job_ends_though_a_rank_waits_for_another():
    job = start_job(3, "fail", "wait", 1)
    assert job.stdout.readline() == "waiting\n"
    time.sleep(0.5)
    job.send_signal(signal.SIGINT)
    done = ended(job)
    assert done.returncode == 130
    assert done.stderr.startswith("rank 0 of 3: Traceback")
    assert last_words(done) == "KeyboardInterrupt"
    assert done.stderr.count("Traceback") == 1


@needs_mpi
def test_ranks_that_round_differently_are_refused():
    done = run_job(3, "fail", "arithmetic", 1)
    assert done.returncode == 1
    assert last_words(done).endswith(
        "the arithmetic of the machines must be the same on every rank: rank 1 has another than rank 0"
    )


@needs_mpi
def test_ranks_of_different_versions_are_refused():
    done = run_job(3, "fail", "version", 2)
    assert done.returncode == 1
    assert re.fullmatch(
        r"ValueError: the version of privmw \(\S+\) must be the same on every rank: "
        "rank 2 has another than rank 0",
        last_words(done),
    )
    assert done.stderr.count("Traceback") == 1


@needs_mpi
def test_ranks_that_do_not_find_each_other_are_refused():
    done = run("from privmw.extensions import cluster; cluster.mpi()", OMPI_COMM_WORLD_SIZE="4")
    assert "it started 4 ranks, and none of them finds another" in last_words(done)


@needs_mpi
def test_a_missing_mpi_is_said_to_be_installed():
    done = run("from privmw.extensions import cluster; cluster.mpi()", MPI4PY_LIBMPI="/nowhere/libmpi.so")
    assert last_words(done) == (
        "ImportError: an MPI must be installed to run on a cluster (cannot load MPI library): "
        "load the cluster's own, or pip install mpich"
    )


def test_a_missing_mpi4py_is_said_to_be_installed():
    done = run(
        "import sys; sys.modules['mpi4py'] = None; from privmw.extensions import cluster; cluster.mpi()"
    )
    assert last_words(done) == (
        "ModuleNotFoundError: mpi4py must be installed to run on a cluster: pip install 'privmw[cluster]'"
    )


def test_a_limit_must_be_positive():
    with pytest.raises(ValueError, match=r"wait \(0\) must be positive"):
        cluster.Mpi.wait.fset(None, 0)


def test_outside_of_a_job_nothing_waits_and_nothing_is_aborted():
    cluster.wait_to_report(ValueError("alone"))
    cluster.abort_job(1)
