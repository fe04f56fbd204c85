"""Solves a problem, and inspects what was found: Newton's method on the dual, proximal steps where needed.

Where every row was measured itself one Newton run is the answer. Otherwise the problem is solved in steps,
each near the weights of the last one: the proximal point method, whose steps are problems of the first kind
and whose limit solves the original one. This room knows numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.kernels import Wanted
from privmw.postprocess.fit import Stage
from privmw.postprocess.problem import Problem

Vector: TypeAlias = npt.NDArray[np.float64]

TOLERANCE = 1e-11  # of the largest answer: what Newton's method leaves of |y - A x|
ENOUGH = 1e-10  # of the largest answer: the KKT residual at which proximal steps end
MOST_PROXIMAL = 100
LOOSE = 1e5  # a proximal step's variance over what all queries of a row leave it


def number(value: float) -> Vector:
    """One bound for all."""
    return np.array([value])


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Of rows and of queries: one number for all, or one for each."""

    lower: Vector = field(default_factory=lambda: number(0.0))
    upper: Vector = field(default_factory=lambda: number(np.inf))
    least: Vector = field(default_factory=lambda: number(-np.inf))
    most: Vector = field(default_factory=lambda: number(np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Weights, their sums, the queries' multipliers, the dual value, and what an inspection says."""

    weights: Vector
    sums: Vector
    multipliers: Vector
    value: float
    stage: Stage


def solve(
    problem: Problem,
    name: str,
    bounds: Bounds,
    *,
    near: Vector | None = None,
    limit: float = np.inf,
) -> Solved:
    """The best weights within bounds. `near`: where rows that were not measured start from.

    Ends early, with weights of no use, where none within the bounds cost less than the limit.
    """
    queries = Wanted(problem.answers, problem.variances, bounds.least, bounds.most)
    tolerance = TOLERANCE * problem.scale
    if problem.whole:
        rows = Wanted(problem.centre, 1 / problem.precisions, bounds.lower, bounds.upper)
        found = problem.tallies.newton(rows, queries, tolerance=tolerance, limit=limit)
        return inspect(problem, name, bounds, found.weights, found.multipliers, found.value, found.steps)
    bend = problem.precisions + problem.tallies.potentials(problem.fitted)
    pull = float(bend.mean()) / LOOSE  # of a proximal step
    precisions = problem.precisions + pull
    best: Solved | None = None
    now = np.zeros(problem.tallies.rows) if near is None else near
    multipliers, steps = np.zeros(problem.tallies.count), 0
    for _ in range(MOST_PROXIMAL):
        centre = (problem.precisions * problem.centre + pull * now) / precisions
        rows = Wanted(centre, 1 / precisions, bounds.lower, bounds.upper)
        found = problem.tallies.newton(rows, queries, multipliers, tolerance=tolerance, limit=limit)
        now, multipliers, steps = found.weights, found.multipliers, steps + found.steps
        solved = inspect(problem, name, bounds, now, multipliers, found.value, steps)
        if best is None or solved.stage.kkt < best.stage.kkt:
            best = solved
        if best.stage.kkt <= ENOUGH or found.value > limit:
            break
    assert best is not None
    return best


def inspect(
    problem: Problem,
    name: str,
    bounds: Bounds,
    weights: Vector,
    multipliers: Vector,
    value: float,
    steps: int,
) -> Solved:
    """How far each row would still move, and how far held answers are off, whoever found the weights."""
    sums = problem.tallies.sums(weights)
    fitted = problem.fitted
    pulls = fitted * (sums - problem.answers)
    held = problem.variances == 0
    bounded = held | (bounds.least > -np.inf) | (bounds.most < np.inf)
    off = 0.0
    if bounded.any():
        pulls[bounded] = multipliers[bounded]
        asked = bounded & (problem.variances < np.inf)
        wanted = problem.answers[asked] + problem.variances[asked] * multipliers[asked]
        within = np.clip(wanted, _each(bounds.least, asked), _each(bounds.most, asked))
        off = float(np.abs(sums[asked] - within).max(initial=0.0))
    slope = problem.precisions * (weights - problem.centre) + problem.tallies.potentials(pulls)
    bend = problem.precisions + problem.tallies.potentials(fitted)
    np.maximum(bend, float(bend.max(initial=0.0)) * 1e-6 or 1.0, out=bend)
    moves = weights - np.clip(weights - slope / bend, bounds.lower, bounds.upper)
    violation = max(
        float(np.abs(sums - problem.answers)[held].max(initial=0.0)),
        float((sums - bounds.most).max(initial=0.0)),
        float((bounds.least - sums).max(initial=0.0)),
    )
    stage = Stage(
        name,
        max(float(np.abs(moves).max(initial=0.0)), off) / problem.scale,
        violation / problem.scale,
        problem.objective(weights, sums),
        steps,
    )
    return Solved(weights, sums, multipliers, value, stage)


def _each(bound: Vector, where: npt.NDArray[np.bool_]) -> Vector:
    return bound if len(bound) == 1 else bound[where]
