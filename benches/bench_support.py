"""Distinct rows with counts, against numpy.unique(axis=0); and what it costs to make a support ready."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from baselines import numpy_distinct
from race import Case, Line, Ratio, each_line
from shapes import acs67, acs67_real

import privmw as pmw

UNIQUE = "numpy.unique(axis=0)"
LINES = ("privmw", "privmw, two threads", "Support.from_table", UNIQUE)


def distinct_case(table: pmw.Table, targets: dict[str, float]) -> Case:
    columns, sizes = table.columns, table.domain.sizes
    codes = table.codes()

    def check() -> None:
        rows, counts = numpy_distinct(codes)
        for threads in (1, 2):
            first, ours = pmw.kernels.distinct_rows(columns, sizes, threads=threads)
            assert np.array_equal(codes[first], rows)
            assert np.array_equal(ours, counts)
        support = pmw.Support.from_table(table)
        assert np.array_equal(support.rows, rows)
        assert np.array_equal(support.counts, counts)

    return Case(
        {
            "privmw": Line(lambda: pmw.kernels.distinct_rows(columns, sizes, threads=1)),
            "privmw, two threads": Line(lambda: pmw.kernels.distinct_rows(columns, sizes, threads=2)),
            "Support.from_table": Line(lambda: pmw.Support.from_table(table)),
            UNIQUE: Line(lambda: numpy_distinct(codes)),
        },
        [
            Ratio("privmw", UNIQUE, targets.get(UNIQUE)),
            Ratio("Support.from_table", UNIQUE),
            Ratio("privmw, two threads", "privmw"),
        ],
        check,
        f"{table.n:,} rows of {len(sizes)} attributes",
    )


def generated(smoke: bool) -> Case:
    return distinct_case(acs67(20_000 if smoke else 1_000_000), {UNIQUE: 10})


def repeated(smoke: bool) -> Case:
    """Each row five times, in no order."""
    table = acs67(4_000 if smoke else 40_000)
    return distinct_case(
        table.take(np.random.default_rng(0).permutation(np.repeat(np.arange(table.n), 5))), {}
    )


def real(smoke: bool) -> Case:
    table = acs67_real()
    if isinstance(table, str):
        pytest.skip(table)
    return distinct_case(table.take(np.arange(5_000)) if smoke else table, {})


CASES = {
    "acs67, 1,000,000 rows": (generated, LINES),
    "acs67, 40,000 rows five times": (repeated, LINES),
    "acs67_real": (real, LINES),
}


@pytest.mark.parametrize(("case", "line"), each_line(CASES))
def test_distinct_rows(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, CASES[case][0], fewest=2)
