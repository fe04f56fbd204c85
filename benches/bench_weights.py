"""An update in place of a long support: the rows matching a query times a number, renormalised."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from baselines import numpy_matching, numpy_update
from race import Case, Line, Ratio, each_line
from shapes import millions

import privmw as pmw

NUMPY = "numpy (mask, multiply, divide)"
ROWS = "numpy (mask, flatnonzero)"
BITMAP = "numpy (mask, packbits)"
LINES = (
    "privmw",
    "privmw, two threads",
    "privmw, matching rows",
    "privmw, matching bitmap",
    NUMPY,
    ROWS,
    BITMAP,
)
FACTOR = 1.25


@lru_cache(maxsize=1)
def long_support(rows: int) -> pmw.Support:
    return pmw.Support.from_table(millions(rows))


def query_of_a_tenth(support: pmw.Support, order: int) -> tuple[list[int], list[int]]:
    """Of random queries, the one that matches nearest to 10 % of the rows."""
    workload = pmw.Workload.sample(support.domain, k=order, size=min(40, len(support.domain)), seed=1)
    matches = support.marginals(workload).sums(np.ones(support.size, np.int64))
    names, values = workload.query(int(np.abs(matches - support.size / 10).argmin()))
    return [support.domain.index(name) for name in names], list(values)


def update_case(order: int) -> Callable[[bool], Case]:
    def build(smoke: bool) -> Case:
        support = long_support(50_000 if smoke else 5_000_000)
        columns, codes = support.columns, support.table.columns
        places, values = query_of_a_tenth(support, order)
        theirs = support.start()
        ours = {threads: support.start() for threads in (1, 2)}
        totals = {threads: pmw.kernels.rescale(weights) for threads, weights in ours.items()}
        factors = {1: FACTOR, 2: FACTOR, 0: FACTOR}

        def turn(which: int) -> float:
            factors[which] = 1 / factors[which]  # forth and back: the total stays in range
            return factors[which]

        def update(threads: int) -> Callable[[], None]:
            def run() -> None:
                rows, factor = pmw.kernels.matching_rows(columns, places, values), turn(threads)
                gains = pmw.kernels.multiply(ours[threads], rows, factor, threads=threads)
                after = pmw.kernels.total_after(
                    totals[threads], gains.before, len(rows), factor, gains.gained
                )
                assert after is not None
                totals[threads] = after

            return run

        def update_numpy() -> None:
            numpy_update(theirs, codes, places, values, turn(0))

        rows = pmw.kernels.matching_rows(columns, places, values)

        def check() -> None:
            assert np.array_equal(rows, np.flatnonzero(numpy_matching(codes, places, values)))
            bits = pmw.kernels.matching_bitmap(columns, places, values).view(np.uint8)
            assert np.array_equal(np.flatnonzero(np.unpackbits(bits, bitorder="little")), rows)
            before, _ = pmw.kernels.to_masses(ours[1])
            gains = pmw.kernels.multiply(ours[1].copy(), rows, 1 / FACTOR)
            total = totals[1] + gains.gained
            update(1)()
            update(2)()
            update_numpy()
            after, exact = pmw.kernels.to_masses(ours[1])
            assert exact == total == totals[1] == totals[2]
            assert np.array_equal(after[rows] - before[rows], gains.changes)
            assert np.array_equal(ours[1], ours[2])
            np.testing.assert_allclose(ours[1] / ours[1].sum(), theirs, rtol=1e-12)

        return Case(
            {
                "privmw": Line(update(1)),
                "privmw, two threads": Line(update(2)),
                "privmw, matching rows": Line(lambda: pmw.kernels.matching_rows(columns, places, values)),
                "privmw, matching bitmap": Line(lambda: pmw.kernels.matching_bitmap(columns, places, values)),
                NUMPY: Line(update_numpy),
                ROWS: Line(lambda: np.flatnonzero(numpy_matching(codes, places, values))),
                BITMAP: Line(lambda: np.packbits(numpy_matching(codes, places, values), bitorder="little")),
            },
            [
                Ratio("privmw", NUMPY, 5),
                Ratio("privmw, two threads", "privmw"),
                Ratio("privmw, matching rows", ROWS),
                Ratio("privmw, matching bitmap", BITMAP),
            ],
            check,
            f"{order}-way query matching {100 * len(rows) / support.size:.1f} % of {support.size:,} rows",
        )

    return build


CASES = {
    "millions, three-way query": (update_case(3), LINES),
    "millions, one-way query": (update_case(1), LINES),
}


@pytest.mark.parametrize(("case", "line"), each_line(CASES))
def test_update(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, CASES[case][0])
