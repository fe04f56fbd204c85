"""The fixed runs of track/, one benchmark each: for pytest-codspeed, which takes benchmarks as they stand."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from track.runs import RUNS


@pytest.mark.parametrize("run", RUNS)
def bench_run(run: str, benchmark: BenchmarkFixture) -> None:
    timed = RUNS[run]()
    timed()  # what is remembered after a first run is not measured
    assert benchmark.pedantic(timed, rounds=3) is not None
