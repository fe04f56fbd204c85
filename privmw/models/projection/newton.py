"""One Newton step of a projection: exact for few multipliers, by conjugate gradients for many.

With a distribution D on the rows, the matrix Q, rows x queries, and C = diag(D) - D D^T, the covariance of
the queries is Q^T C Q. A step d solves  (Q^T C Q + ridge) d = ridge * target  on the free multipliers, and
equals target on the others. Rows may lie on several ranks: the matrix sums over them, and the mean of
potentials Q l is computed from the answers, as their product with l. Numbers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privmw import kernels
from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.kernels.conjugate_gradients import conjugate_gradients
from privmw.models.projection.queries import ProjectedQueries
from privmw.models.projection.rows import RowFunctions, conjugate_gradients_over_rows
from privmw.ranks import sum_over_ranks

ALL_ROWS = math.inf  # as a share of the rows: do not sample


@dataclass(frozen=True, slots=True)
class NewtonSettings:
    """Constants of a step, chosen by benches/bench_projection.py."""

    most_exact: int = 1000  # free multipliers; beyond, factoring costs more than conjugate gradients
    most_inner: int = 500  # conjugate gradient steps
    light: float = 0.1  # rows below light * accuracy * mean weight contribute negligibly to the covariance
    most_heavy: float = (
        0.9  # share of heavy rows beyond which leaving out the others costs more than it saves
    )


NEWTON = NewtonSettings()


@dataclass(frozen=True, slots=True, eq=False)
class HeavyRows:
    """The matrix restricted to the rows that a step needs, with the distribution on them and its answers.

    queries: the indices of its queries; the others match none of these rows.
    """

    matrix: ProjectedQueries
    weights: Float64s
    fitted: Float64s
    queries: Int64s | slice


@dataclass(slots=True, eq=False)
class Step:
    """The changes of the multipliers and of the rows' potentials, and the passes over rows that it took."""

    multipliers: Float64s
    potentials: Float64s
    passes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class NewtonSystem:
    """What a step solves at the distribution `weights`, whose answers are `fitted`.

    ridge: added to the variance of each query. free: the multipliers to solve for.
    """

    matrix: ProjectedQueries
    weights: Float64s
    fitted: Float64s
    ridge: Float64s
    free: Bools


def newton_step(
    system: NewtonSystem, target: Float64s, accuracy: float, gap_allowed: float, share: float = ALL_ROWS
) -> Step:
    """The step to `target`.

    Conjugate gradients end at a relative `accuracy`, or when the residual adds at most `gap_allowed` to the
    gap. share: as in `heavy_rows`.
    """
    matrix, weights, fitted, free = system.matrix, system.weights, system.fitted, system.free
    right = system.ridge * target
    if free.all():
        step = Step(np.zeros(len(target)), np.zeros(len(weights)))
    else:
        fixed = np.where(free, 0.0, target)
        step = Step(fixed, matrix.potentials(fixed), 2)
        right -= covariances(matrix, weights, step.potentials, dot(fitted, fixed))
        right *= free
    count = int(np.count_nonzero(free))
    gram = matrix.gram(weights) if 0 < count <= NEWTON.most_exact else None
    if gram is not None:
        _add_exact(system, gram, right, step)
    elif count:
        _add_conjugate(system, right, step, accuracy, gap_allowed, share)
    return step


def covariances(matrix: ProjectedQueries, weights: Float64s, potentials: Float64s, mean: float) -> Float64s:
    """The covariance of each query with a function of the rows, given its mean."""
    return matrix.moments(weights, potentials - mean)


def _add_exact(system: NewtonSystem, gram: Float64s, right: Float64s, step: Step) -> None:
    where = np.flatnonzero(system.free)
    hessian = gram if len(where) == len(system.free) else gram[np.ix_(where, where)]
    means = system.fitted[where]
    hessian -= means[:, None] * means
    hessian[np.diag_indices(len(means))] += system.ridge[where]
    solution = np.zeros(len(system.fitted))
    solution[where] = kernels.solve_positive(hessian, right[where])
    step.multipliers += solution
    step.potentials += system.matrix.potentials(solution)
    step.passes += 2


def _add_conjugate(
    system: NewtonSystem,
    residual: Float64s,
    step: Step,
    accuracy: float,
    gap_allowed: float,
    share: float,
) -> None:
    """Add the solution for the free multipliers; `residual` is the right-hand side.

    The preconditioner is the ridge: it leaves the few directions of large variance, which many marginals
    share, apart from the others, and conjugate gradients find them first. Projecting out one-way marginals,
    or scaling by the variance of cells, saved no pass (benches/journal/2026-11-fits.md).
    """
    matrix, ridge, free = system.matrix, system.ridge, system.free
    scaling = free / ridge
    allowed = max(accuracy**2 * float(np.einsum("i,i,i->", residual, residual, scaling)), gap_allowed)
    heavy = heavy_rows(matrix, system.weights, system.fitted, accuracy, share)
    queries = heavy.queries
    change = scaling * residual  # nearly exact where a query matches none of these rows
    residual, ridge, free = residual[queries], ridge[queries], free[queries]
    scaling = np.where(heavy.fitted > 0, scaling[queries], 0.0)
    first = float(np.einsum("i,i,i->", residual, residual, scaling))
    if first > allowed:  # a residual adds half its square over the ridge to the gap
        if sum_over_ranks(matrix.comm, len(heavy.weights)) < len(residual):
            solution = _over_rows(heavy, residual, scaling, first, allowed, step)
        else:
            solution = _over_queries(heavy, residual, ridge, free, scaling, math.sqrt(allowed / first), step)
        change[queries] = np.where(scaling > 0, solution, change[queries])
    step.multipliers += change
    step.potentials += matrix.potentials(change)
    step.passes += 1


def _over_rows(
    heavy: HeavyRows, right: Float64s, prices: Float64s, first: float, allowed: float, step: Step
) -> Float64s:
    functions = RowFunctions(heavy.matrix, heavy.weights, prices)
    start = functions.centred(heavy.matrix.potentials(prices * right))
    x, h, steps = conjugate_gradients_over_rows(functions, start, first, allowed, NEWTON.most_inner)
    step.passes += 2 * steps + 2
    solution = heavy.matrix.moments(heavy.weights, h)
    solution += x * right
    solution *= prices
    return solution


def _over_queries(
    heavy: HeavyRows,
    residual: Float64s,
    ridge: Float64s,
    free: Bools,
    scaling: Float64s,
    accuracy: float,
    step: Step,
) -> Float64s:
    solution, change = np.zeros_like(residual), np.empty_like(residual)

    def product(direction: Float64s) -> Float64s:
        mean = dot(heavy.fitted, direction)
        image = covariances(heavy.matrix, heavy.weights, heavy.matrix.potentials(direction), mean)
        image += np.multiply(ridge, direction, out=change)
        image *= free
        step.passes += 2
        return image

    conjugate_gradients(
        product, residual, solution, scaling, dot=dot, enough=accuracy, most_steps=NEWTON.most_inner
    )
    return solution


def heavy_rows(
    matrix: ProjectedQueries, weights: Float64s, fitted: Float64s, accuracy: float, share: float = ALL_ROWS
) -> HeavyRows:
    """The rows that a step of this accuracy needs; or a sample of about `share` of all, by weight.

    In a sample, rows heavier than t = 1 / (share * rows) stay as they are; a lighter row of weight w stays
    with probability w / t, and then weighs t.
    """
    comm = matrix.comm
    count = sum_over_ranks(comm, len(weights))
    least = 0.0 if share == ALL_ROWS else 1 / (share * count)
    bounds = NEWTON.light * accuracy / count if share == ALL_ROWS else least * matrix.draws
    rows = np.flatnonzero(weights > bounds)
    restricted = (
        matrix.over_rows(rows) if 0 < sum_over_ranks(comm, len(rows)) <= NEWTON.most_heavy * count else None
    )
    if restricted is None:
        return HeavyRows(matrix, weights, fitted, slice(None))
    submatrix, queries = restricted
    row_weights, _ = kernels.tilt(np.maximum(weights[rows], least), np.zeros(len(rows)), comm=comm)
    return HeavyRows(submatrix, row_weights, submatrix.sums(row_weights), queries)


def dot(a: Float64s, b: Float64s) -> float:
    """The inner product without BLAS, whose threads cost more than this and change its sums."""
    return float(np.einsum("i,i->", a, b))
