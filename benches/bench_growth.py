"""How cost grows with rows, fitted from 10^5 to 10^7; and shapes at the edge of what is allowed."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from baselines import cells_of, numpy_sums, subset
from pytest_benchmark.fixture import BenchmarkFixture
from race import Case, Figures, Line, Ratio, each_line
from shapes import acs67

import privmw as pmw

NUMPY = "numpy (ravel + bincount)"
STEPS = ("distinct rows", "plan of 200 marginals", "evaluation", NUMPY)


def seconds(run: Callable[[], object], rounds: int) -> float:
    """The least processor time of one thread: other programs hardly bend it."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def fit(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The slope of a straight line and its R^2."""
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(1 - np.var(y - slope * x - intercept) / np.var(y))


def test_cost_grows_linearly_in_rows(benchmark: BenchmarkFixture, report: Figures, smoke: bool) -> None:
    rows = [1_000, 3_000, 10_000] if smoke else [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000]
    longest = acs67(rows[-1])
    workload = pmw.Workload.sample(longest.domain, k=3, size=200, seed=0)
    few = subset(workload, 2)
    taken: dict[str, list[float]] = {step: [] for step in STEPS}
    marginals: pmw.kernels.Marginals | None = None
    masses = np.empty(0, np.int64)
    for n in rows:
        part = {name: longest.column(name)[:n] for name in longest.domain.names}
        table = pmw.Table(part, longest.domain, private=False)
        rounds = 1 if smoke or n > 1_000_000 else 3
        taken["distinct rows"].append(
            seconds(lambda table=table: pmw.kernels.distinct_rows(table.columns, table.domain.sizes), rounds)
        )
        support = pmw.Support.from_table(table)
        taken["plan of 200 marginals"].append(seconds(lambda support=support: support.marginals(workload), 1))
        marginals = support.marginals(workload)
        masses, _ = pmw.kernels.to_masses(rescaled(support))
        weights, columns = masses / 2.0**60, support.table.columns
        sums = marginals.sums(masses)
        taken["evaluation"].append(
            seconds(lambda plan=marginals, masses=masses, out=sums: plan.sums(masses, out), 1 if smoke else 5)
        )
        taken[NUMPY].append(seconds(lambda c=columns, w=weights: numpy_sums(c, workload, few, w), rounds))
        near = numpy_sums(columns, workload, few, weights)
        for ours, theirs in zip(cells_of(workload, few, sums), near, strict=True):
            np.testing.assert_allclose(ours / 2.0**60, theirs, rtol=1e-9, atol=1e-15)
    for step, times in taken.items():
        x, y = np.array(rows, float), np.array(times)
        exponent, fits = fit(np.log(x), np.log(np.maximum(y, 1e-9)))
        _, straight = fit(x, y)
        each = ", ".join(f"{cost:.2g}" for cost in (y / x) / (y[0] / x[0]))
        report.add(
            "bench_growth.py",
            f"acs67, {rows[0]:,} to {rows[-1]:,} rows",
            step,
            "exponent <= 1.1" if step != NUMPY else "",
            f"exponent {exponent:.2f} (R^2 {fits:.4f}; straight line R^2 {straight:.4f}), "
            f"cost of a row {each}",
            exponent <= 1.1 if step != NUMPY else None,
        )
    benchmark.group = "growth"
    benchmark.pedantic(lambda: marginals.sums(masses), rounds=1)


def rescaled(support: pmw.Support) -> np.ndarray:
    weights = support.start()
    pmw.kernels.rescale(weights)
    return weights


def edge_case(sizes: list[int], rows: int, marginals: list[tuple[str, ...]]) -> Callable[[bool], Case]:
    def build(smoke: bool) -> Case:
        n = min(rows, 5_000) if smoke else rows
        rng = np.random.default_rng(9)
        domain = pmw.Domain({"abcdef"[a]: size for a, size in enumerate(sizes)})
        table = pmw.Table(
            {name: rng.integers(0, domain[name].size, n) for name in domain.names}, domain, private=False
        )
        workload = pmw.Workload(domain, marginals)
        columns = pmw.kernels.Columns(table.columns, domain.sizes)
        plan = pmw.kernels.Marginals(columns, workload.attributes, workload.starts)
        masses = rng.integers(0, 2**20, n)  # small enough to be exact in numpy's doubles
        every = range(len(workload))

        def check() -> None:
            sums = plan.sums(masses)
            assert len(sums) == workload.cells
            theirs = numpy_sums(table.columns, workload, every, masses)
            for ours, exact in zip(cells_of(workload, every, sums), theirs, strict=True):
                assert np.array_equal(ours, exact.astype(np.int64))
            plan.add_changes(np.array([n - 1], np.uint32), -masses[-1:], sums)
            assert np.array_equal(sums, plan.sums(np.append(masses[:-1], 0)))
            assert np.array_equal(table.counts(workload), plan.sums(np.ones(n, np.int64)))
            support = pmw.Support.from_table(table)
            assert support.counts.sum() == n
            for answers in cells_of(workload, every, support.answers(workload)):
                np.testing.assert_allclose(answers.sum(), 1.0)

        lines = {
            "privmw": Line(lambda: plan.sums(masses)),
            NUMPY: Line(lambda: numpy_sums(table.columns, workload, every, masses)),
        }
        # Where there is next to nothing to do, a ratio says nothing: the check is the figure.
        ratios = [Ratio("privmw", NUMPY)] if workload.cells > 100 else []
        return Case(lines, ratios, check, f"{n:,} rows of {sizes}: {workload}: the same answers as numpy")

    return build


EDGE_LINES = ("privmw", NUMPY)
EDGES = {
    "empty workload": (edge_case([10, 2], 100_000, []), EDGE_LINES),
    "one row": (edge_case([10, 2, 3], 1, [("a",), ("a", "b", "c")]), EDGE_LINES),
    "one attribute of one value": (edge_case([1], 100_000, [("a",)]), EDGE_LINES),
    "an attribute of 60,000 values": (
        edge_case([60_000, 2, 5], 1_000_000, [("a",), ("a", "b"), ("a", "b", "c")]),
        EDGE_LINES,
    ),
    "a marginal of 5,000,000 cells": (
        edge_case([250, 200, 100, 3], 1_000_000, [("a", "b", "c"), ("a", "d")]),
        EDGE_LINES,
    ),
}


@pytest.mark.parametrize(("case", "line"), each_line(EDGES))
def test_edges(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, EDGES[case][0], seconds=1.0)
