"""Memory of a 5,000,000 x 67 support in a fresh process: steady, and the peak of building it. Linux only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from race import Figures

HERE = Path(__file__).parent
GB = 1e9


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_memory(benchmark: BenchmarkFixture, report: Figures, smoke: bool) -> None:
    rows = 50_000 if smoke else 5_000_000

    def run() -> str:
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        done = subprocess.run(
            [sys.executable, HERE / "footprint.py", str(rows)],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    benchmark.group = "millions, memory"
    figures = json.loads(benchmark.pedantic(run, rounds=1))
    case = f"{figures['rows']:,} x 67"

    def add(what: str, size: float, most: float | None) -> None:
        holds = None if most is None else size <= most * GB
        reached = f"{size / GB:.3f} GB"
        report.add("bench_memory.py", case, what, f"<= {most:g} GB" if most else "", reached, holds)

    add("steady: process with the support, before any plan", figures["steady_of_support"], 1.5)
    add("steady: process, ready for 1,000 marginals", figures["steady_1000"], 1.5)
    add("steady: process, ready for all 47,905 marginals", figures["steady_all"], 1.5)
    add("steady: Support.nbytes, ready for 1,000 marginals", figures["nbytes_1000"], 1.5)
    add("peak: from the table to the support", figures["peak_of_support"], 3)
    add("peak: planning and evaluating 1,000 marginals", figures["peak_1000"], 3)
    add("peak: planning and evaluating all 47,905 marginals", figures["peak_all"], 3)
    add("the table before, with interpreter and libraries", figures["table"], None)
    for name in ("1000", "2000", "all"):
        add(f"the plan alone, {name} marginals", figures[f"plan_{name}"], None)
    # One byte for each row of each further marginal would show here.
    grown = figures["plan_2000"] - figures["plan_1000"]
    share = grown / (figures["rows"] * 1000)
    report.add(
        "bench_memory.py",
        case,
        "bytes per row for each further marginal",
        "< 0.1",
        f"{share:.3f}",
        share < 0.1,
    )
