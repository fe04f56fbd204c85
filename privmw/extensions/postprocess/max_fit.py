"""MaxFit: the least largest residual that weights can have, and within it the least squares.

The bilevel baseline of "An Uncertainty Principle is a Price of Privacy-Preserving Microdata", 2021. No
weights have residuals below the trivial bound, the most negative noisy count over its standard deviation.
Mostly some attain it; where none do, HiGHS (scipy) finds the least bound.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from privmw.data.support import Support
from privmw.extensions.postprocess.fit import Fit, Stage
from privmw.extensions.postprocess.problem import Problem, make_problem
from privmw.extensions.postprocess.solve import Bounds, Solved, solve
from privmw.kernels.arrays import Float64s
from privmw.kernels.checks import check_number
from privmw.release.noisy_marginals import NoisyMarginals
from privmw.secrecy import shown

CLOSE = 1e-9  # of the largest count: a violation that is rounding


def max_fit(
    measured: NoisyMarginals,
    support: Support | None = None,
    *,
    slack: float = 0.01,
    total: float | None = None,
) -> Fit:
    """Non-negative weights whose largest standardised residual is least, ties broken by least squares.

    slack: by how many standard deviations the bound is loosened for the second stage.

    >>> from privmw import Domain
    >>> from privmw.extensions.postprocess import NoisyMarginal
    >>> histogram = NoisyMarginal(("sex",), [4.0, -1.0], noise="gaussian", scale=1.0)
    >>> measured = NoisyMarginals([histogram, NoisyMarginal((), [5.0], "gaussian", 1.0)], Domain({"sex": 2}))
    >>> max_fit(measured, slack=0.0).certificate.stages[0].bound
    1.0
    """
    if not 0 <= check_number("slack", slack) < np.inf:
        raise ValueError(f"slack ({shown(slack)}) must be finite and not negative")
    problem = make_problem(measured, support, total)
    free = solve(problem, "least squares", Bounds())
    trivial, largest = _trivial(problem), _largest(problem, free)
    if largest <= trivial + slack:  # the best fit of all is within the bound already
        stages = [_bounded(free.stage, max(trivial, largest))]
        return Fit(measured, support, free.weights, "max_fit", lambda: stages, problem.whole)
    bound = trivial if _attained(problem, trivial) else _least_bound(problem, largest)
    solved = solve(problem, "within the bound", _within(problem, bound + slack), near=free.weights)
    if solved.stage.violation > CLOSE:  # rounding of the linear program: the best fit has no such doubt
        solved, bound = free, largest
    stages = [_bounded(solved.stage, bound)]
    return Fit(measured, support, solved.weights, "max_fit", lambda: stages, problem.whole)


def _bounded(stage: Stage, bound: float) -> Stage:
    return Stage(stage.name, stage.kkt, stage.violation, stage.objective, stage.steps, bound)


def _reach(bound: float, precisions: Float64s) -> Float64s:
    """`bound` standard deviations of each count; infinite where nothing was measured."""
    reach = np.full(len(precisions), np.inf)
    np.divide(bound, np.sqrt(precisions), where=precisions > 0, out=reach)
    return reach


def _trivial(problem: Problem) -> float:
    """The residual of every non-negative fit: of negative counts, and of queries without rows."""
    reached = problem.tallies.sums(np.ones(problem.tallies.rows)) > 0
    roots = np.sqrt(problem.fitted)
    missed = np.where(reached, -problem.counts, np.abs(problem.counts)) * roots
    own = -problem.centre * np.sqrt(problem.precisions)
    return max(0.0, float(missed.max(initial=0.0)), float(own.max(initial=0.0)))


def _largest(problem: Problem, solved: Solved) -> float:
    """The largest standardised residual."""
    missed = np.abs(solved.sums - problem.counts) * np.sqrt(problem.fitted)
    own = np.abs(solved.weights - problem.centre) * np.sqrt(problem.precisions)
    return max(float(missed.max(initial=0.0)), float(own.max(initial=0.0)))


def _within(problem: Problem, bound: float) -> Bounds:
    rows, queries = _reach(bound, problem.precisions), _reach(bound, problem.fitted)
    queries[problem.variances == 0] = 0.0
    return Bounds(
        np.maximum(problem.centre - rows, 0.0),
        np.maximum(problem.centre + rows, 0.0),
        problem.counts - queries,
        problem.counts + queries,
    )


def _attained(problem: Problem, bound: float) -> bool:
    """Whether some weights stay within the bound: their objective is at most half its square per count."""
    measured = np.count_nonzero(problem.fitted) + np.count_nonzero(
        np.broadcast_to(problem.precisions, problem.tallies.rows)
    )
    limit = (measured + 1) * (bound + 1e-6) ** 2
    stage = solve(problem, "trivial bound", _within(problem, bound), limit=limit).stage
    return max(stage.kkt, stage.violation) <= CLOSE


def _least_bound(problem: Problem, attained: float) -> float:
    """The least largest standardised residual, by linear programming: rows, and the bound as one more.

    HiGHS gets the numbers as they are first, since its tolerances are absolute, and scaled if they are too
    large for it; if that fails too, the bound is the one attained.
    """
    try:
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix, hstack, identity, vstack
    except ImportError:
        raise ModuleNotFoundError(
            "scipy must be installed for this fit of max_fit: pip install 'privmw[fit]'"
        ) from None
    rows = problem.tallies.rows
    held, fitted = problem.variances == 0, problem.fitted > 0
    queries: Any = _matrix(problem)
    own = np.broadcast_to(np.sqrt(problem.precisions), rows)
    roots = np.concatenate([np.sqrt(problem.fitted[fitted]), own[own > 0]])
    matrix = vstack([queries[fitted], identity(rows, format="csr")[own > 0]]).multiply(roots[:, None])
    counts = np.concatenate([problem.counts[fitted], problem.centre[own > 0]]) * roots
    ones = csr_matrix(np.ones((len(counts), 1)))
    for scale in (1.0, float(np.abs(counts).max())):
        solved = linprog(
            np.append(np.zeros(rows), 1.0),
            A_ub=vstack([hstack([matrix, -ones]), hstack([-matrix, -ones])]).tocsr(),
            b_ub=np.concatenate([counts, -counts]) / scale,
            A_eq=hstack([queries[held], csr_matrix((int(held.sum()), 1))]).tocsr() if held.any() else None,
            b_eq=problem.counts[held] / scale if held.any() else None,
            bounds=(0, None),
            method="highs",
        )
        if solved.x is not None:
            return min(float(solved.x[-1]) * scale, attained)
    return attained


def _matrix(problem: Problem) -> Any:
    """Queries x rows, sparse."""
    from scipy.sparse import csr_matrix

    tallies = problem.tallies
    sizes, attributes, starts = tallies.marginals
    if tallies.columns is None:
        columns = np.unravel_index(np.arange(tallies.rows), sizes)
    else:
        columns = tuple(column.astype(np.int64) for column in tallies.columns.columns)
    rows, cells = np.arange(tallies.rows), []
    for (begin, end), first in zip(itertools.pairwise(starts.tolist()), tallies.offsets, strict=False):
        cell = np.zeros(tallies.rows, np.int64)
        for place in attributes[begin:end].tolist():
            cell = cell * sizes[place] + columns[place]
        cells.append(first + cell)
    where = (np.concatenate([np.empty(0, np.int64), *cells]), np.tile(rows, len(cells)))
    return csr_matrix((np.ones(len(where[0])), where), shape=(tallies.count, tallies.rows))
