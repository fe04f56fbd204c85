"""The answers of a workload, and their change: against ravel + bincount and against a plain numba loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from baselines import (
    cells_of,
    numba_sums,
    numpy_changes,
    numpy_indices,
    numpy_prebuilt_sums,
    numpy_sums,
    subset,
)
from race import Case, Line, Ratio, each_line
from shapes import acs67, acs67_real, dense, sparsity, wide

import privmw as pmw

NUMPY = "numpy (ravel + bincount)"
PREBUILT = "numpy (bincount, prebuilt index)"
NUMBA = "numba loop"
FULL_LINES = ("privmw", "privmw, two threads", NUMPY, PREBUILT, NUMBA)
CHANGE = "numpy (bincount of changed rows)"


def masses_of(support: pmw.Support) -> np.ndarray:
    """Weights in the middle of a release: no two alike."""
    weights = support.start() * np.random.default_rng(5).lognormal(0.0, 1.0, support.size)
    pmw.kernels.rescale(weights)
    return pmw.kernels.to_masses(weights)[0]


def real() -> pmw.Table:
    table = acs67_real()
    if isinstance(table, str):
        pytest.skip(table)
    return table


def full_case(
    table: pmw.Table,
    workload: pmw.Workload,
    numpy_marginals: int,
    targets: dict[str, float],
    numba_marginals: int = 0,
) -> Case:
    support = pmw.Support.from_table(table)
    columns, masses = support.table.columns, masses_of(support)
    weights = masses / 2.0**60
    marginals = support.marginals(workload)
    out = np.empty(workload.cells, np.int64)
    few = subset(workload, numpy_marginals)
    more = subset(workload, numba_marginals or 4 * numpy_marginals, seed=2)
    indices = numpy_indices(columns, workload, few)
    lines = {
        "privmw": Line(lambda: marginals.sums(masses, out, threads=1)),
        "privmw, two threads": Line(lambda: marginals.sums(masses, out, threads=2)),
        NUMPY: Line(lambda: numpy_sums(columns, workload, few, weights), len(few) / len(workload)),
        PREBUILT: Line(lambda: numpy_prebuilt_sums(indices, weights), len(few) / len(workload)),
        NUMBA: Line(lambda: numba_sums(columns, workload, more, masses), len(more) / len(workload)),
    }

    def check() -> None:
        one = marginals.sums(masses, threads=1)
        assert np.array_equal(one, marginals.sums(masses, threads=2))
        assert (np.add.reduceat(one, workload.offsets[:-1]) == masses.sum()).all()
        for ours, exact in zip(
            cells_of(workload, more, one), numba_sums(columns, workload, more, masses), strict=True
        ):
            assert np.array_equal(ours, exact)
        for ours, near in zip(
            cells_of(workload, few, one), numpy_sums(columns, workload, few, weights), strict=True
        ):
            np.testing.assert_allclose(ours / 2.0**60, near, rtol=1e-9, atol=1e-15)

    return Case(
        lines,
        [Ratio("privmw", against, targets.get(against)) for against in (NUMPY, NUMBA, PREBUILT)]
        + [Ratio("privmw, two threads", "privmw", 1.7)],
        check,
        f"{len(workload):,} marginals: {sparsity(support)}; plan {marginals.ways()}; "
        f"numpy timed on {len(few)} and numba on {len(more)} random marginals, scaled",
    )


def all_three_way(table: Callable[[int], pmw.Table]) -> Callable[[bool], Case]:
    def build(smoke: bool) -> Case:
        made = table(3_000 if smoke else 150_000)
        return full_case(
            made,
            pmw.Workload.all(made.domain, k=3),
            8 if smoke else 64,
            {NUMPY: 150, NUMBA: 30},
            20 if smoke else 512,
        )

    return build


def random_three_way(table: Callable[[int], pmw.Table]) -> Callable[[bool], Case]:
    def build(smoke: bool) -> Case:
        made = table(3_000 if smoke else 150_000)
        sampled = pmw.Workload.sample(made.domain, k=3, size=256 if smoke else 4096, seed=0)
        return full_case(made, sampled, 8 if smoke else 64, {NUMPY: 80})

    return build


def dense_case(smoke: bool) -> Case:
    table = dense(20_000 if smoke else 1_000_000)
    sampled = pmw.Workload.sample(table.domain, k=3, size=200, seed=0)
    return full_case(table, sampled, 8 if smoke else 16, {NUMPY: 8, NUMBA: 1.5})


def wide_case(smoke: bool) -> Case:
    table = wide(2_000 if smoke else 50_000)
    return full_case(table, pmw.Workload.sample(table.domain, k=3, size=4096, seed=0), 8 if smoke else 64, {})


def change_case(table: Callable[[int], pmw.Table]) -> Callable[[bool], Case]:
    def build(smoke: bool) -> Case:
        made = table(3_000 if smoke else 150_000)
        support = pmw.Support.from_table(made)
        workload = pmw.Workload.all(made.domain, k=3)
        if smoke:
            workload = workload.select(subset(workload, 4096))
        marginals, masses = support.marginals(workload), masses_of(support)
        # As an update would: the rows of the query that is nearest to a tenth of all.
        matches = marginals.sums(np.ones(support.size, np.int64))
        query = workload.query(int(np.abs(matches - support.size / 10).argmin()))
        changed = {
            "query": support.matching_rows(*query),
            "random": np.flatnonzero(np.random.default_rng(3).random(support.size) < 0.1).astype(np.uint32),
        }
        gained = {name: masses[rows] // 7 for name, rows in changed.items()}
        sums, out = marginals.sums(masses), np.empty(workload.cells, np.int64)
        few = subset(workload, 8 if smoke else 64)

        def change(name: str) -> Callable[[], None]:
            def run() -> None:
                gained[name] = -gained[name]  # forth and back: the sums stay in range
                marginals.add_changes(changed[name], gained[name], sums, threads=1)

            return run

        columns, weights = support.table.columns, gained["query"] / 2.0**60
        lines = {
            "privmw, full": Line(lambda: marginals.sums(masses, out, threads=1)),
            "privmw, changed by a query": Line(change("query")),
            "privmw, changed at random": Line(change("random")),
            CHANGE: Line(
                lambda: numpy_changes(columns, workload, few, changed["query"], weights),
                len(few) / len(workload),
            ),
        }

        def check() -> None:
            for name, rows in changed.items():
                after = masses.copy()
                after[rows] += gained[name]
                updated = marginals.sums(masses)
                marginals.add_changes(rows, gained[name], updated)
                assert np.array_equal(updated, marginals.sums(after))
            updated = marginals.sums(masses)
            marginals.add_changes(changed["query"], gained["query"], updated)
            near = numpy_changes(columns, workload, few, changed["query"], weights)
            for ours, theirs in zip(
                cells_of(workload, few, updated - marginals.sums(masses)), near, strict=True
            ):
                np.testing.assert_allclose(ours / 2.0**60, theirs, rtol=1e-9, atol=1e-15)

        shares = {name: f"{100 * len(rows) / support.size:.1f} %" for name, rows in changed.items()}
        return Case(
            lines,
            [
                Ratio("privmw, changed by a query", "privmw, full", 4),
                Ratio("privmw, changed at random", "privmw, full", 4),
                Ratio("privmw, changed by a query", CHANGE),
            ],
            check,
            f"{len(workload):,} marginals of {support.size:,} rows, changed: {shares}; "
            f"numpy timed on {len(few)} random marginals, scaled",
        )

    return build


CHANGE_LINES = ("privmw, full", "privmw, changed by a query", "privmw, changed at random", CHANGE)
CASES = {
    "acs67, all three-way": (all_three_way(acs67), FULL_LINES),
    "acs67_real, all three-way": (all_three_way(lambda _: real()), FULL_LINES),
    "acs67, 4096 three-way": (random_three_way(acs67), FULL_LINES),
    "acs67_real, 4096 three-way": (random_three_way(lambda _: real()), FULL_LINES),
    "dense, 200 three-way": (dense_case, FULL_LINES),
    "wide, 4096 three-way": (wide_case, FULL_LINES),
    "acs67, change of answers": (change_case(acs67), CHANGE_LINES),
    "acs67_real, change of answers": (change_case(lambda _: real()), CHANGE_LINES),
}


@pytest.mark.parametrize(("case", "line"), each_line(CASES))
def test_marginals(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, CASES[case][0])
