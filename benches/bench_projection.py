"""PEP's dual solve against `scipy.optimize`'s L-BFGS-B on the same dual, both until the gap is 1e-9.

The dual, the groups of rows alike and the cells are the same; scipy's lines evaluate it with scipy.sparse and
numpy, and stop at the first point whose gap is small enough. They are given privmw's own reductions: rows
alike as one, cells without a row left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest
import round_shapes
from race import Case, Line, Ratio, each_line

import privmw as pm
from privmw import kernels
from privmw.models.groups import Groups
from privmw.models.projected import Cells, WholeMarginals
from privmw.projection import Projection, Slack, project

sparse = pytest.importorskip("scipy.sparse")
optimize = pytest.importorskip("scipy.optimize")

OURS, SCIPY = "privmw", "scipy L-BFGS-B"
TOLERANCE = 1e-9
MILD, TIGHT = 2e2, 2e4  # the price of a squared miss: a heavy prior; measurements nearly exact


class FoundError(Exception):
    """The gap is small enough."""


def lbfgs(matrix: sparse.csr_matrix, prior: np.ndarray, answers: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The weights where L-BFGS-B reaches the gap, or gives up, as it does on the hardest case."""
    transposed, logs = matrix.T.tocsr(), np.log(prior)
    kept = [prior]

    def dual(at: np.ndarray) -> tuple[float, np.ndarray]:
        heights = logs + matrix @ at
        top = heights.max()
        weights = np.exp(heights - top)
        total = weights.sum()
        weights /= total
        gradient = transposed @ weights - answers + at / w
        kept[0] = weights
        if (w * gradient * gradient).sum() / 2 <= TOLERANCE:
            raise FoundError
        return top + np.log(total) - at @ answers + (at * at / w).sum() / 2, gradient

    limits = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 0.0, "maxcor": 20}
    with contextlib.suppress(FoundError):
        optimize.minimize(dual, np.zeros(len(answers)), jac=True, method="L-BFGS-B", options=limits)
    return kept[0]


def case(shape: round_shapes.RoundShape, price: float, cells: int, marginals: int) -> Case:
    support, workload, n = shape.support, shape.workload, shape.private.n
    counts, rng = shape.private.counts(workload), np.random.default_rng(0)
    prior = support.start()
    if cells:
        asked = np.argsort(-np.abs(counts / n - support.answers(workload)))[:cells].astype(np.int64)
        groups = Groups(support.size)
        for cell in asked.tolist():
            groups.add(support.matching_rows(*workload.query(cell)))
        starts, queries = groups.incidence()
        operator: Cells | WholeMarginals = Cells(asked, kernels.Incidence(starts, queries, cells))
        prior = groups.sums(prior)
        matrix = sparse.csr_matrix((np.ones(len(queries)), queries, starts), shape=(groups.count, cells))
    else:
        chosen = workload.select(rng.choice(len(workload), marginals, replace=False))
        counts = shape.private.counts(chosen)
        plan = kernels.Marginals(support.columns, chosen.attributes, chosen.starts)
        asked = np.flatnonzero(plan.sums(np.ones(support.size, np.int64)))
        operator = WholeMarginals(asked, asked, plan, 1)
        columns = np.stack([cell_of(support, chosen, j) for j in range(len(chosen))], axis=1)
        places = np.searchsorted(asked, columns)
        starts = np.arange(support.size + 1) * marginals
        matrix = sparse.csr_matrix(
            (np.ones(places.size), places.ravel(), starts), shape=(support.size, len(asked))
        )
    answers = counts[asked] / n + 0.002 * rng.standard_normal(len(asked))
    w = np.full(len(asked), price)

    def ours() -> Projection:
        return project(operator, prior, answers, Slack(w=w), tolerance=TOLERANCE, threads=1)

    def check() -> None:
        fit = ours()
        assert fit.converged
        theirs = lbfgs(matrix, prior, answers, w)
        # A gap bounds the relative entropy from the solution, and that the distance: for both, or nearly.
        assert np.abs(fit.weights - theirs).sum() <= 1e-3
        rest = matrix.T @ fit.weights - answers + fit.multipliers / w
        np.testing.assert_allclose(fit.gap, (w * rest * rest).sum() / 2, rtol=1e-3, atol=1e-13)

    lines = {OURS: Line(ours), SCIPY: Line(lambda: lbfgs(matrix, prior, answers, w))}
    return Case(lines, [Ratio(OURS, SCIPY, 10)], check, note=f"{matrix.shape[0]} rows or groups")


def cell_of(support: pm.Support, workload: pm.Workload, marginal: int) -> np.ndarray:
    """For each row its cell among all cells of the workload."""
    cells = np.zeros(support.size, np.int64)
    for name in workload.marginal(marginal):
        place = support.domain.index(name)
        cells = cells * support.domain.sizes[place] + support.table.columns[place]
    return cells + workload.offsets[marginal]


SIZES = {
    "100 cells": (100, 0),
    "1,000 cells": (1_000, 0),
    "25 whole marginals": (0, 25),
    "286 whole marginals": (0, 286),
}


def maker(price: float, cells: int, marginals: int) -> Callable[[bool], Case]:
    def make(smoke: bool) -> Case:
        few = (min(cells, 20), min(marginals, 3)) if smoke else (cells, marginals)
        return case(round_shapes.adult(), price, *few)

    return make


CASES = {
    f"adult, {size}, {name}": maker(price, *numbers)
    for size, numbers in SIZES.items()
    for name, price in (("mild", MILD), ("tight", TIGHT))
}


@pytest.mark.parametrize(
    ("name", "line"), each_line({name: (make, (OURS, SCIPY)) for name, make in CASES.items()})
)
def test_projections(name: str, line: str, bench: Callable[..., None]) -> None:
    bench(name, line, CASES[name], fewest=1)
