"""A release over two MPI ranks of one thread each, against one rank of one and of two threads: the same bits,
the time of a round, the bytes added up in it, the memory of a rank."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from race import Figures

HERE = Path(__file__).parent
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
LAYOUTS = {"1 x 1": (1, 1), "1 x 2": (1, 2), "2 x 1": (2, 1)}  # ranks x threads


def program(*arguments: object, ranks: int | None = None) -> str:
    launch = [] if ranks is None else [MPIEXEC, "-n", str(ranks)]
    command = [*launch, sys.executable, str(HERE / "cluster_rounds.py"), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(MPIEXEC is None, reason="needs mpiexec: pip install mpich mpi4py")
def test_rounds_over_ranks(benchmark: BenchmarkFixture, report: Figures, smoke: bool, tmp_path: Path) -> None:
    rows, marginals, rounds = (20_000, 50, 3) if smoke else (10_000_000, 1000, 6)
    file = tmp_path / "public.parquet"
    program("make", file, rows)

    def run() -> dict[str, dict[str, Any]]:
        return {
            name: json.loads(program("run", file, threads, marginals, rounds, ranks=ranks))
            for name, (ranks, threads) in LAYOUTS.items()
        }

    benchmark.group = "rounds over ranks"
    figures = benchmark.pedantic(run, rounds=1)
    assert len({each["digest"] for each in figures.values()}) == 1
    case = f"{figures['2 x 1']['rows']:,} x 67, {marginals:,} three-way marginals"

    def add(what: str, reached: str, target: str = "", holds: bool | None = None) -> None:
        report.add("bench_cluster.py", case, what, target, reached, holds)

    for algorithm in figures["2 x 1"]["rounds"]:
        seconds = {
            name: statistics.median(step[0] for step in each["rounds"][algorithm])
            for name, each in figures.items()
        }
        _, summed, collectives = figures["2 x 1"]["rounds"][algorithm][-1]
        for name in ("1 x 2", "2 x 1"):
            efficiency = seconds["1 x 1"] / seconds[name] / 2
            aimed = algorithm == "MW-Pub" and name == "2 x 1"
            add(
                f"{algorithm}: efficiency of {name} (ranks x threads) over 1 x 1",
                f"{efficiency:.2f}",
                ">= 0.85" if aimed else "",
                efficiency >= 0.85 if aimed else None,
            )
        add(f"{algorithm}: a round on 1 x 1, of this machine", f"{seconds['1 x 1']:.3g} s")
        add(f"{algorithm}: added up in a round", f"{summed / 1e6:.2f} MB in {collectives} collectives")
    add("the plan's word on MW-Pub", f"{figures['2 x 1']['plan'] / 1e6:.2f} MB a round")
    for name, each in figures.items():
        peaks = ", ".join(f"{peak / 1e9:.2f}" for peak in each["peaks"])
        add(f"peak of a rank, {name}", f"{peaks} GB")
        add(f"reading, {name}", f"{each['reading'] / figures['1 x 1']['reading']:.2f} of 1 x 1's time")
