"""Problems for the projection, and the same dual solved by scipy and by the authors' coordinate steps.

A problem is a matrix, a prior and measured answers, over groups of rows for cells and over rows for whole
marginals. Everything is seeded, and noise is plain Gaussian: for benches only, not private.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.sparse
from round_shapes import RoundShape

import privmw as pmw
from privmw.models.groups import Groups
from privmw.models.projection.solver import Slack
from privmw.models.query_matrix import CellMatrix, MarginalMatrix

TOLERANCE = 1e-9
Array = np.ndarray


@dataclass
class Problem:
    """true: the private table's answers. fair: those of a distribution on the same rows, so consistent."""

    matrix: CellMatrix | MarginalMatrix
    prior: Array
    true: Array
    fair: Array
    held: scipy.sparse.csr_array  # rows x queries, for scipy

    def noisy(self, noise: float, seed: int = 5) -> Array:
        return self.true + noise * np.random.default_rng(seed).standard_normal(len(self.true))

    def slack(self, noise: float, prior_weight: float) -> Slack:
        return Slack(w=np.full(len(self.true), 1 / noise**2 / prior_weight))


def cells_problem(shape: RoundShape, count: int, largest: bool = True) -> Problem:
    """Single cells: those that the public rows answer worst, as rounds would choose, or any."""
    support, workload = shape.support, shape.workload
    true = shape.private.counts(workload) / shape.private.n
    if largest:
        chosen = np.argsort(np.abs(true - support.answers(workload)))[::-1][:count]
    else:
        chosen = np.random.default_rng(6).choice(workload.cells, count, replace=False)
    groups = Groups(support.size)
    for cell in chosen.tolist():
        groups.add(support.matching_rows(*workload.query(cell)))
    starts, queries = groups.incidence()
    prior = support.start("public")
    held = scipy.sparse.csr_array((np.ones(len(queries)), queries.astype(np.int32), starts))[groups.of_row]
    matrix = CellMatrix(chosen, groups, threads=1)
    return Problem(matrix, prior, true[chosen], matrix.sums(_other(prior)), held)


def whole_problem(shape: RoundShape, marginals: int, for_scipy: bool = True) -> Problem:
    """Whole marginals, the first so many of a random order."""
    support, everything = shape.support, shape.workload
    chosen = np.random.default_rng(7).permutation(len(everything))[:marginals]
    workload = everything.select(np.sort(chosen))
    kernel = pmw.kernels.Marginals(support.columns, workload.attributes, workload.starts)
    cells = np.arange(workload.cells)
    matrix = MarginalMatrix(cells, kernel.among(cells), threads=1)
    true, prior = shape.private.counts(workload) / shape.private.n, support.start("public")
    return Problem(matrix, prior, true, matrix.sums(_other(prior)), _held(support, workload, for_scipy))


def _other(prior: Array) -> Array:
    """Another distribution on the same rows, zero on a tenth of them."""
    rng = np.random.default_rng(8)
    weights = prior * rng.exponential(size=len(prior)) * (rng.random(len(prior)) < 0.9)
    return np.asarray(weights / weights.sum())


def _held(support: pmw.Support, workload: pmw.Workload, wanted: bool) -> scipy.sparse.csr_array:
    if not wanted:
        return scipy.sparse.csr_array((0, 0))
    cells = []
    for j in range(len(workload)):
        places = workload.attributes[workload.starts[j] : workload.starts[j + 1]]
        sizes = [support.domain.sizes[a] for a in places]
        index = np.ravel_multi_index([support.table.columns[a] for a in places], sizes)
        cells.append(index + workload.offsets[j])
    ends = np.arange(support.size + 1) * len(workload)
    flat = np.stack(cells, axis=1).ravel().astype(np.int32)
    return scipy.sparse.csr_array((np.ones(len(flat)), flat, ends), shape=(support.size, workload.cells))


def scipy_l2(problem: Problem, answers: Array, w: Array, tolerance: float = TOLERANCE) -> tuple[Array, float]:
    """L-BFGS-B on the same dual, with sparse products, stopped at the same gap: multipliers and their gap."""
    held, prior = problem.held, problem.prior
    across = held.T.tocsr()
    gap = np.inf

    def dual(multipliers: Array) -> tuple[float, Array]:
        nonlocal gap
        potentials = held @ multipliers
        most = potentials.max()
        weights = prior * np.exp(potentials - most)
        total = weights.sum()
        slope = across @ (weights / total) - answers + multipliers / w
        gap = float((w * slope * slope).sum() / 2)
        value = most + np.log(total) - multipliers @ answers + (multipliers**2 / w).sum() / 2
        return float(value), slope

    def stop(_: Array) -> None:
        if gap <= tolerance:
            raise StopIteration

    found = scipy.optimize.minimize(
        dual,
        np.zeros(len(answers)),
        jac=True,
        method="L-BFGS-B",
        callback=stop,
        options={"ftol": 0, "gtol": 0, "maxiter": 20_000, "maxfun": 40_000, "maxcor": 20},
    )
    dual(found.x)
    return found.x, gap


def coordinate_steps(problem: Problem, answers: Array, steps: int) -> tuple[Array, Array]:
    """The authors' way: the worst query's multiplier is set exactly, again and again. gamma is 0.

    Returns the multipliers and the answers that they fit.
    """
    across = problem.held.T.tocsr()
    weights, multipliers = problem.prior.copy(), np.zeros(len(answers))
    for _ in range(steps):
        fitted = across @ weights
        worst = int(np.abs(fitted - answers).argmax())
        a, p = np.clip([answers[worst], fitted[worst]], 1e-6, 1 - 1e-6)
        odds = a * (1 - p) / ((1 - a) * p)
        multipliers[worst] += np.log(odds)
        weights[across.indices[across.indptr[worst] : across.indptr[worst + 1]]] *= odds
        weights /= weights.sum()
    return multipliers, np.asarray(across @ weights)


def dual_value(problem: Problem, answers: Array, multipliers: Array) -> float:
    """With gamma 0."""
    potentials = problem.matrix.potentials(multipliers)
    return float(pmw.kernels.tilt(problem.prior, potentials)[1] - multipliers @ answers)
