"""Newton's method on the dual of a least squares problem, in Python: the twin of csrc/core/least_squares.cpp.

The problem: weights x of rows within bounds, near `centre`, whose sums A x are near `answers`, also within
bounds. With one multiplier per query, x = clip(centre - variance * A' multipliers), and the targets of the
sums are y = clip(answers + spread * multipliers). The dual is convex, and its gradient y - A x is piecewise
linear: Newton steps with an exact line search end at its root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privmw.kernels.arrays import Bools, Float64s
from privmw.kernels.conjugate_gradients import conjugate_gradients


@dataclass(frozen=True, slots=True)
class LeastSquaresSettings:
    """Constants of the solver, those of csrc/core, chosen by benches/bench_least_squares.py."""

    most_exact: int = 500  # unknowns; beyond, conjugate gradients
    most_inner: int = 400  # conjugate gradient steps
    ridge: float = 1e-10  # share of a query's curvature that is added: exact queries may be redundant
    most_idle: int = 20  # steps without gain
    slope_left: float = 0.1  # share of the first slope at which the line search ends


LEAST_SQUARES = LeastSquaresSettings()


class TalliesCore(Protocol):
    """The `Tallies` of a backend: a `QueryMatrix` as kernels have it, which write to arrays of the caller."""

    count: int

    def sums(self, weights: Float64s, out: Float64s) -> None:
        """For each query the sum of the weights of its rows."""

    def potentials(self, values: Float64s, out: Float64s) -> None:
        """For each row the sum of the values of its queries."""

    def gram(self, weights: Float64s) -> Float64s:
        """For each pair of queries the weight of the rows that match both."""


@dataclass(slots=True, eq=False)
class Ray:
    """Clipped numbers along a direction, and their coefficients."""

    start: Float64s
    change: Float64s
    lower: Float64s
    upper: Float64s
    coefficients: Float64s

    def at(self, t: float) -> float:
        """The sum of the clipped numbers times their coefficients, at a distance."""
        return float(self.coefficients @ np.clip(self.start + t * self.change, self.lower, self.upper))


def newton(
    core: TalliesCore,
    centre: Float64s,
    variance: Float64s,
    lower: Float64s,
    upper: Float64s,
    answers: Float64s,
    spread: Float64s,
    least: Float64s,
    most: Float64s,
    start: Float64s,
    tolerance: float,
    steps: int,
    limit: float,
) -> tuple[Float64s, Float64s, float, float, int]:
    """Weights, multipliers, the largest |y - A x|, the dual value and the number of steps.

    Bounds and variances are one number or one for each. A query of infinite spread is ignored, one of spread
    zero is met exactly. Ends at the tolerance, after `steps` steps or `most_idle` without gain, or when the
    value exceeds the limit: no weights within bounds cost less.
    """
    rows, count = len(centre), core.count
    spread = np.broadcast_to(spread, count)
    used = spread < np.inf
    ridge = np.where(used, spread, 0.0)
    multipliers = np.where(used, start, 0.0)
    extra = _sums(core, np.broadcast_to(variance, rows).astype(np.float64))
    extra = np.where(used, LEAST_SQUARES.ridge * np.maximum(extra, extra.max(initial=0.0) * 1e-6), 1.0)
    potentials = _potentials(core, multipliers, rows)
    fresh, step, idle, worst, best = True, 0, 0, 0.0, np.inf
    while True:
        free = centre - variance * potentials
        weights = np.clip(free, lower, upper)
        inner = np.where((free > lower) & (free < upper), variance, 0.0)
        wanted = answers + ridge * multipliers
        fitted = np.clip(wanted, least, most)
        missing = np.where(used, _sums(core, weights) - fitted, 0.0)
        left = float(np.abs(missing).max(initial=0.0))
        # The dual value: a lower bound of half the squared distances over the variances of a feasible fit.
        far = np.divide((fitted - answers) ** 2, 2 * ridge, where=ridge > 0, out=np.zeros(count))
        far -= np.where(multipliers != 0, multipliers * fitted, 0.0)
        near = (weights - centre) ** 2 / (2 * variance) + potentials * weights
        value = float(far.sum() + near.sum())
        worst = max(worst, left)
        best, idle = (left, 0) if left < best else (best, idle + 1)
        if left <= tolerance and not fresh:  # steps accumulate rounding errors
            potentials, fresh = _potentials(core, multipliers, rows), True
            continue
        if left <= tolerance or step == steps or idle == LEAST_SQUARES.most_idle or value > limit:
            return weights, multipliers, left, value, step
        curved = np.where((wanted > least) & (wanted < most), ridge, 0.0) + extra
        if count <= LEAST_SQUARES.most_exact:
            direction = _exact(core, inner, curved, missing, used)
        else:
            accuracy = max(left / worst, tolerance / left)
            direction = _conjugate(core, inner, curved, missing, used, accuracy)
        along = _potentials(core, direction, rows)

        queries_ray = Ray(wanted, ridge * direction, least, most, np.where(used, direction, 0.0))
        rows_ray = Ray(free, -variance * along, lower, upper, along)
        length = line_search(queries_ray, rows_ray, -float(direction @ missing))
        if length == 0:
            return weights, multipliers, left, value, step
        multipliers = multipliers + length * direction
        potentials = potentials + length * along
        fresh, step = False, step + 1


def line_search(queries_ray: Ray, rows_ray: Ray, first: float) -> float:
    """The length of a step: the slope, `first` at 0, increases along it, and little of it is left at the end.

    0 if the slope is not negative at 0.
    """

    def slope(t: float) -> float:
        return queries_ray.at(t) - rows_ray.at(t)

    if not first < 0:
        return 0.0
    low, at_low, high, at_high = 0.0, first, 1.0, slope(1.0)
    while at_high < first / 2 and high < 2.0**30:
        low, at_low, high = high, at_high, 2 * high
        at_high = slope(high)
    if at_high <= -LEAST_SQUARES.slope_left * first:
        return high
    side = 0
    for _ in range(60):  # regula falsi, halving the end that stays (Illinois)
        length = low + (high - low) * (at_low / (at_low - at_high))
        here = slope(length)
        if abs(here) <= -LEAST_SQUARES.slope_left * first or not low < length < high:
            return length
        if here < 0:
            low, at_low = length, here
            at_high, side = (at_high / 2 if side < 0 else at_high), -1
        else:
            high, at_high = length, here
            at_low, side = (at_low / 2 if side > 0 else at_low), 1
    return low


def _exact(core: TalliesCore, inner: Float64s, curved: Float64s, right: Float64s, used: Bools) -> Float64s:
    hessian = core.gram(inner)
    hessian[~used] = 0.0
    hessian[:, ~used] = 0.0
    hessian[np.diag_indices(len(curved))] += curved
    return np.asarray(np.linalg.solve(hessian, right), np.float64)


def _conjugate(
    core: TalliesCore, inner: Float64s, curved: Float64s, right: Float64s, used: Bools, accuracy: float
) -> Float64s:
    """The Newton step by conjugate gradients, to one hundredth at first and then ever more exactly."""
    scaling = used / (_sums(core, inner) + curved)
    solution = np.zeros(len(right))

    def product(direction: Float64s) -> Float64s:
        sums = _sums(core, inner * _potentials(core, direction, len(inner)))
        return np.asarray(used * sums + curved * direction, np.float64)

    conjugate_gradients(
        product,
        right.copy(),
        solution,
        scaling,
        dot=lambda a, b: float(a @ b),
        enough=min(0.01, accuracy / 10),
        most_steps=LEAST_SQUARES.most_inner,
    )
    return solution


def _sums(core: TalliesCore, weights: Float64s) -> Float64s:
    out = np.empty(core.count)
    core.sums(weights, out)
    return out


def _potentials(core: TalliesCore, values: Float64s, rows: int) -> Float64s:
    out = np.empty(rows)
    core.potentials(values, out)
    return out
