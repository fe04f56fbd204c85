"""Solves a problem and inspects the solution: Newton's method on the dual, proximal steps where needed.

Where every row was measured itself, one run of Newton's method suffices. Otherwise the problem is solved in
steps, each near the weights of the last one: the proximal point method, whose steps are problems of the first
kind and whose limit solves the original one. Very many queries are left to coordinate descent. This package
knows numbers only.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from privmw.extensions.postprocess.descent import descend
from privmw.extensions.postprocess.fit import Stage
from privmw.extensions.postprocess.problem import Problem
from privmw.kernels import FitTargets
from privmw.kernels.arrays import Bools, Float64s
from privmw.kernels.query_matrix import QueryMatrix

TOLERANCE = 1e-11  # of the largest count: the |y - A x| at which Newton's method ends
KKT_TOLERANCE = 1e-10  # of the largest count: the KKT residual at which proximal steps may end
STILL = 1e-9  # of the largest count: the move at which they do
MOST_QUERIES_OF_PROXIMAL_STEPS = (
    2500  # for proximal steps where coordinate descent is another way: it takes over beyond
)
MOST_PROXIMAL = 100
MOST_IDLE = 5  # proximal steps without gain: rounding is all that is left
LOOSE = 1e3  # a proximal step's variance over what the queries leave a row: more magnifies rounding
LOOSER = 1e5  # times that, at most


def number(value: float) -> Float64s:
    """One bound for all."""
    return np.array([value])


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Of rows and of queries: one number for all, or one for each."""

    lower: Float64s = field(default_factory=lambda: number(0.0))
    upper: Float64s = field(default_factory=lambda: number(np.inf))
    least: Float64s = field(default_factory=lambda: number(-np.inf))
    most: Float64s = field(default_factory=lambda: number(np.inf))

    @property
    def given(self) -> bool:
        """Whether there are bounds other than that no row is negative."""
        return any((bound != usual).any() for bound, usual in zip(_of(self), _of(Bounds()), strict=True))


def _of(bounds: Bounds) -> tuple[Float64s, ...]:
    return bounds.lower, bounds.upper, bounds.least, bounds.most


@dataclass(frozen=True, eq=False)
class Solved:
    """Weights, the queries' multipliers and the dual value; sums and the stage once they are asked for."""

    problem: Problem
    name: str
    bounds: Bounds
    weights: Float64s
    multipliers: Float64s
    value: float
    steps: int

    @cached_property
    def sums(self) -> Float64s:
        """The sum of the weights of each query's rows."""
        return self.problem.tallies.sums(self.weights)

    @cached_property
    def stage(self) -> Stage:
        """How far each row would still move, and how far held counts are off."""
        return _inspect(self)


def solve(
    problem: Problem,
    name: str,
    bounds: Bounds,
    *,
    near: Float64s | None = None,
    limit: float = np.inf,
) -> Solved:
    """The best weights within bounds. `near`: where rows that were not measured start from.

    Ends early, with weights of no use, where none within the bounds have an objective below the limit.
    """
    queries = FitTargets(problem.counts, problem.variances, bounds.least, bounds.most)
    tolerance = TOLERANCE * problem.scale
    if problem.whole:
        rows = FitTargets(problem.centre, 1 / problem.precisions, bounds.lower, bounds.upper)
        solution = problem.tallies.newton(rows, queries, tolerance=tolerance, limit=limit)
        return Solved(
            problem, name, bounds, solution.weights, solution.multipliers, solution.value, solution.steps
        )
    free = not bounds.given and (problem.variances > 0).all() and not problem.precisions.any()
    if problem.tallies.count > MOST_QUERIES_OF_PROXIMAL_STEPS and free:
        weights, passes = descend(problem)
        return Solved(problem, name, bounds, weights, np.zeros(problem.tallies.count), 0.0, passes)
    return _solve_by_steps(problem, name, bounds, queries, tolerance, near, limit)


def _solve_by_steps(
    problem: Problem,
    name: str,
    bounds: Bounds,
    queries: FitTargets,
    tolerance: float,
    near: Float64s | None,
    limit: float,
) -> Solved:
    """Proximal steps, each solved exactly: looser where they gain little, tighter where rounding shows."""
    usual = float(curvatures(problem.tallies, problem.precisions, problem.fitted).mean()) / LOOSE
    pull, before = usual, np.inf
    best: Solved | None = None
    now = problem.start() if near is None else near
    multipliers, steps, idle = np.zeros(problem.tallies.count), 0, 0
    largest = _largest_total(problem, bounds) ** 2 if limit < np.inf else 0.0
    for _ in range(MOST_PROXIMAL):
        precisions = problem.precisions + pull
        centre = (problem.precisions * problem.centre + pull * now) / precisions
        rows = FitTargets(centre, 1 / precisions, bounds.lower, bounds.upper)
        # |x - now|^2 <= 2 |x|^2 + 2 |now|^2, and |x| is at most the total: so moving costs no more.
        most = limit + pull * (largest + float(now @ now))
        solution = problem.tallies.newton(rows, queries, multipliers, tolerance=tolerance, limit=most)
        moved = float(np.abs(solution.weights - now).max()) / problem.scale
        now, multipliers, steps = solution.weights, solution.multipliers, steps + solution.steps
        solved = Solved(problem, name, bounds, now, multipliers, solution.value, steps)
        idle = 0 if best is None or solved.stage.kkt < best.stage.kkt / 2 else idle + 1
        if best is None or solved.stage.kkt < best.stage.kkt:
            best = solved
        if (best.stage.kkt <= KKT_TOLERANCE and moved <= STILL) or idle == MOST_IDLE or solution.value > most:
            break
        if solution.left > tolerance:
            pull = min(10 * pull, usual)
        elif moved > before / 10:
            pull = max(pull / 10, usual / LOOSER)
        before = moved
    assert best is not None
    return best


def _inspect(solved: Solved) -> Stage:
    problem, bounds, multipliers = solved.problem, solved.bounds, solved.multipliers
    weights, sums, fitted = solved.weights, solved.sums, problem.fitted
    pulls = fitted * (sums - problem.counts)
    held = problem.variances == 0
    bounded = held | (bounds.least > -np.inf) | (bounds.most < np.inf)
    off = 0.0
    if bounded.any():
        pulls[bounded] = multipliers[bounded]
        measured = bounded & (problem.variances < np.inf)
        wanted = problem.counts[measured] + problem.variances[measured] * multipliers[measured]
        within = np.clip(wanted, _at(bounds.least, measured), _at(bounds.most, measured))
        off = float(np.abs(sums[measured] - within).max(initial=0.0))
    slope = problem.precisions * (weights - problem.centre) + problem.tallies.potentials(pulls)
    bend = curvatures(problem.tallies, problem.precisions, fitted)
    np.maximum(bend, float(bend.max(initial=0.0)) * 1e-6 or 1.0, out=bend)
    moves = weights - np.clip(weights - slope / bend, bounds.lower, bounds.upper)
    violation = max(
        float(np.abs(sums - problem.counts)[held].max(initial=0.0)),
        float((sums - bounds.most).max(initial=0.0)),
        float((bounds.least - sums).max(initial=0.0)),
    )
    return Stage(
        solved.name,
        max(float(np.abs(moves).max(initial=0.0)), off) / problem.scale,
        violation / problem.scale,
        problem.objective(weights, sums),
        solved.steps,
    )


def curvatures(matrix: QueryMatrix, row_precisions: Float64s, query_precisions: Float64s) -> Float64s:
    """For each row the second derivative of the objective along its weight."""
    return row_precisions + matrix.potentials(query_precisions)


def _largest_total(problem: Problem, bounds: Bounds) -> float:
    """The largest total of weights within bounds: that of the cells of any marginal, if they are bounded."""
    most = np.maximum(np.broadcast_to(bounds.most, problem.tallies.count), 0.0)
    offsets = problem.tallies.offsets
    return min((float(most[a:b].sum()) for a, b in itertools.pairwise(offsets)), default=np.inf)


def _at(bound: Float64s, where: Bools) -> Float64s:
    return bound if len(bound) == 1 else bound[where]
