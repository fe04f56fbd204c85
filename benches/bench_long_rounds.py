"""MW-Pub on a 5,000,000 x 67 support and 1,000 marginals, in a fresh process with two threads. Linux only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from race import Figures

HERE = Path(__file__).parent
GB = 1e9


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize("replay", ["none", "paper"])
def test_long_rounds(replay: str, benchmark: BenchmarkFixture, report: Figures, smoke: bool) -> None:
    rows = 20_000 if smoke else 5_000_000

    def run() -> str:
        done = subprocess.run(
            [sys.executable, HERE / "long_rounds.py", str(rows), replay, "2"],
            env={**os.environ, "PYTHONPATH": str(HERE)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    benchmark.group = "millions, rounds"
    figures = json.loads(benchmark.pedantic(run, rounds=1))
    case = f"{figures['rows']:,} x 67, replay {replay}"
    rounds = np.array(figures["rounds"])

    def add(what: str, target: str, reached: str, holds: bool | None = None) -> None:
        report.add("bench_long_rounds.py", case, what, target, reached, holds)

    peak = figures["peak"] / GB
    add("peak of the process", "<= 4 GB", f"{peak:.2f} GB", peak <= 4)
    add("a round, two threads", "", f"{np.median(rounds):.2f} s ({rounds.min():.2f} to {rounds.max():.2f})")
    add("set-up and first round", "", f"{figures['first']:.1f} s")
    add("the whole release, 20 rounds", "", f"{figures['whole']:.1f} s")
    report.note("bench_long_rounds.py", f"1,000 three-way marginals, {figures['cells']:,} cells")
