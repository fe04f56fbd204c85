"""A 5,000,000 x 67 parquet file becomes a support, in a fresh process: time and peak memory. Linux only.

A shorter file is also read the plain way, pandas and numpy.unique; all ways must find the same support.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from race import Figures

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

HERE = Path(__file__).parent
GB = 1e9


def survey(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, HERE / "survey_file.py", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize("rows", [5_000_000, 500_000])
def test_files(rows: int, tmp_path: Path, benchmark: BenchmarkFixture, report: Figures, smoke: bool) -> None:
    ways = ("scan", "read") if rows == 5_000_000 else ("scan", "read", "plain")
    rows = rows // 100 if smoke else rows
    file = tmp_path / "survey.parquet"
    survey("make", file, rows)

    def run() -> dict[str, dict[str, Any]]:
        return {way: json.loads(survey(way, file)) for way in ways}

    benchmark.group = "files"
    found = benchmark.pedantic(run, rounds=1)
    assert len({(figures["told"], figures["distinct"]) for figures in found.values()}) == 1
    assert {figures["rows"] for figures in found.values()} == {rows}
    case = f"{rows:,} x 67"

    def add(what: str, target: str, reached: str, holds: bool | None) -> None:
        report.add("bench_files.py", case, what, target, reached, holds)

    for way, figures in found.items():
        targets = rows == 5_000_000
        seconds, peak = figures["seconds"], figures["peak"] / GB
        add(
            f"{way}, seconds",
            "<= 60 s" if targets else "",
            f"{seconds:.1f} s",
            seconds <= 60 if targets else None,
        )
        add(f"{way}, peak", "<= 4 GB" if targets else "", f"{peak:.2f} GB", peak <= 4 if targets else None)
        if way != "plain" and "plain" in found:
            ratio = found["plain"]["cpu"] / figures["cpu"]
            wall = found["plain"]["seconds"] / seconds
            add(f"{way} vs pandas and numpy.unique", "", f"{ratio:.3g}x (wall {wall:.3g}x)", None)
    megabytes = file.stat().st_size / 1e6
    report.note("bench_files.py", f"{case}: {megabytes:.0f} MB, {found['scan']['distinct']:,} distinct rows")
