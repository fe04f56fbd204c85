"""Programs as ranks of MPI: tests/programs/NAME.py under the mpiexec of this environment."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
BESIDE = Path(sys.executable).parent
MPIEXEC = shutil.which("mpiexec", path=BESIDE) or shutil.which("mpiexec")
SECONDS = 30  # in which a job must end, whatever happens to a rank

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or find_spec("mpi4py") is None,
    reason="no mpi4py or no mpiexec: pip install 'privmw[cluster]' mpich",
)


def run_job(ranks, program, *arguments, folder=None, seconds=SECONDS, **environment):
    """How a program (by name; or what else Python may run) ended on so many ranks, in time."""
    return ended(start_job(ranks, program, *arguments, folder=folder, **environment), seconds)


def start_job(ranks, program, *arguments, folder=None, **environment):
    script = PROGRAMS / f"{program}.py"
    command = [sys.executable, str(script) if script.exists() else program, *map(str, arguments)]
    return subprocess.Popen(
        [MPIEXEC, "-n", str(ranks), *command],
        cwd=folder or PROGRAMS,  # not where the sources are: what is installed is tested
        env={**os.environ, "PYTHONPATH": str(PROGRAMS.parents[2]), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(job, seconds=SECONDS):
    try:
        out, err = job.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        job.kill()
        job.communicate()
        pytest.fail(f"the job did not end within {seconds} s")
    return subprocess.CompletedProcess(job.args, job.returncode, out, err)
