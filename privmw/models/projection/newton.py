"""One Newton step of a projection: exact for few multipliers, by conjugate gradients for many.

With a distribution D, Q its rows x queries and C = diag(D) - D D^T, their covariance is Q^T C Q. A step
d solves  (Q^T C Q + ridge) d = ridge * wanted  on the free multipliers; the others change as wanted. Rows may
lie on several ranks: the matrix adds up over them, and the mean of potentials Q l is computed over queries,
as their answers times l. This room knows numbers only.
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

MOST_EXACT = 1000  # free multipliers: beyond, factoring costs more than conjugate gradients
MOST_INNER = 500  # conjugate gradients for one step
# Rows below so much of the mean weight, times the accuracy of a step, hardly say how answers vary together.
LIGHT = 0.1
WORTH = 0.9  # of the rows: where more are heavy, leaving the others out costs more than it saves
ALL = math.inf  # rows: none is drawn


@dataclass(frozen=True, slots=True, eq=False)
class HeavyRows:
    """Queries over the rows that a step needs, the distribution given those, and its answers.

    held: which of all queries these are; the others have none of these rows.
    """

    matrix: ProjectedQueries
    weights: Float64s
    fitted: Float64s
    held: Int64s | slice


@dataclass(slots=True, eq=False)
class Step:
    """The changes of the multipliers and of the rows' potentials, and the passes over rows that it took."""

    multipliers: Float64s
    potentials: Float64s
    passes: int = 0


def newton_step(
    matrix: ProjectedQueries,
    weights: Float64s,
    fitted: Float64s,
    wanted: Float64s,
    ridge: Float64s,
    free: Bools,
    accuracy: float,
    enough: float,
    share: float = ALL,
) -> Step:
    """The step from the distribution `weights`, whose answers are `fitted`.

    Conjugate gradients end at a relative `accuracy`, or when the residual is worth at most `enough` of a gap.
    share: of the rows that Newton's equations are over, as of `heavy_rows`.
    """
    right = ridge * wanted
    if free.all():
        step = Step(np.zeros(len(wanted)), np.zeros(len(weights)))
    else:
        fixed = np.where(free, 0.0, wanted)
        step = Step(fixed, matrix.potentials(fixed), 2)
        right -= covariances(matrix, weights, step.potentials, dot(fitted, fixed))
        right *= free
    count = int(np.count_nonzero(free))
    gram = matrix.gram(weights) if 0 < count <= MOST_EXACT else None
    if gram is not None:
        _add_exact(matrix, gram, fitted, right, ridge, free, step)
    elif count:
        _add_conjugate(matrix, weights, fitted, right, ridge, free, step, accuracy, enough, share)
    return step


def covariances(matrix: ProjectedQueries, weights: Float64s, potentials: Float64s, mean: float) -> Float64s:
    """The covariance of each query with a function of the rows, given its mean."""
    return matrix.moments(weights, potentials - mean)


def _add_exact(
    matrix: ProjectedQueries,
    gram: Float64s,
    fitted: Float64s,
    right: Float64s,
    ridge: Float64s,
    free: Bools,
    step: Step,
) -> None:
    where = np.flatnonzero(free)
    hessian = gram if len(where) == len(free) else gram[np.ix_(where, where)]
    means = fitted[where]
    hessian -= means[:, None] * means
    hessian[np.diag_indices(len(means))] += ridge[where]
    solution = np.zeros(len(fitted))
    solution[where] = kernels.solve_positive(hessian, right[where])
    step.multipliers += solution
    step.potentials += matrix.potentials(solution)
    step.passes += 2


def _add_conjugate(
    matrix: ProjectedQueries,
    weights: Float64s,
    fitted: Float64s,
    residual: Float64s,
    ridge: Float64s,
    free: Bools,
    step: Step,
    accuracy: float,
    enough: float,
    share: float,
) -> None:
    """Add the solution for the free multipliers; `residual` is the right-hand side.

    The preconditioner is the ridge: many marginals share the directions of large variance, which it leaves
    far apart from the rest and conjugate gradients find first. Taking the one-way parts out, or the variance
    of cells into account, saved no pass (benches/journal/2026-11-fits.md).
    """
    scaling = free / ridge
    most = max(accuracy**2 * float(np.einsum("i,i,i->", residual, residual, scaling)), enough)
    heavy = heavy_rows(matrix, weights, fitted, accuracy, share)
    held = heavy.held
    found = scaling * residual  # as good as exact where a query has none of these rows
    residual, ridge, free = residual[held], ridge[held], free[held]
    scaling = np.where(heavy.fitted > 0, scaling[held], 0.0)
    first = float(np.einsum("i,i,i->", residual, residual, scaling))
    if first > most:  # what is left of a residual is worth half its square over the ridge of a gap
        if sum_over_ranks(matrix.comm, len(heavy.weights)) < len(residual):
            solution = _over_rows(heavy, residual, scaling, first, most, step)
        else:
            solution = _over_queries(heavy, residual, ridge, free, scaling, math.sqrt(most / first), step)
        found[held] = np.where(scaling > 0, solution, found[held])
    step.multipliers += found
    step.potentials += matrix.potentials(found)
    step.passes += 1


def _over_rows(
    heavy: HeavyRows, right: Float64s, prices: Float64s, first: float, most: float, step: Step
) -> Float64s:
    functions = RowFunctions(heavy.matrix, heavy.weights, prices)
    start = functions.centred(heavy.matrix.potentials(prices * right))
    x, h, steps = conjugate_gradients_over_rows(functions, start, first, most, MOST_INNER)
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
        product, residual, solution, scaling, dot=dot, accuracy=accuracy, most_steps=MOST_INNER
    )
    return solution


def heavy_rows(
    matrix: ProjectedQueries, weights: Float64s, fitted: Float64s, accuracy: float, share: float = ALL
) -> HeavyRows:
    """The rows that a step of this accuracy needs; or about `share` of all, drawn by their weights.

    Of those that are drawn, a row of more than 1 / (share x rows) stays as it is; a lighter one stays with
    the chance that keeps its mean, and then weighs that much.
    """
    comm = matrix.comm
    count = sum_over_ranks(comm, len(weights))
    least = 0.0 if share == ALL else 1 / (share * count)
    bounds = LIGHT * accuracy / count if share == ALL else least * matrix.draws
    rows = np.flatnonzero(weights > bounds)
    some = matrix.among(rows) if 0 < sum_over_ranks(comm, len(rows)) <= WORTH * count else None
    if some is None:
        return HeavyRows(matrix, weights, fitted, slice(None))
    among, held = some
    given, _ = kernels.tilt(np.maximum(weights[rows], least), np.zeros(len(rows)), comm=comm)
    return HeavyRows(among, given, among.sums(given), held)


def dot(a: Float64s, b: Float64s) -> float:
    """The inner product, not by BLAS: its threads cost more than such products, and change their sums."""
    return float(np.einsum("i,i->", a, b))
