"""PEP's projection: the distribution nearest to a prior that answers measured queries as they were measured.

With prior A0, measured answers a_i and D_l(x) ~ A0(x) exp(sum_i l_i q_i(x)), the nearest distribution is the
D_l whose multipliers l minimise the dual

    f(l) = log sum_x A0(x) exp(sum_i l_i (q_i(x) - a_i)) + slack(l)

l1: slack = sum gamma_i |l_i|, the dual of  min KL(D || A0)  subject to |q_i(D) - a_i| <= gamma_i.
l2: slack = sum l_i^2 / (2 w_i), the dual of  min KL(D || A0) + sum w_i (q_i(D) - a_i)^2 / 2.

Newton's method on the multipliers that are free to move, each step exact (Cholesky of the covariance of the
queries) for few of them and by conjugate gradients for many. Coordinate steps, the paper's way, took hundreds
of passes where this takes a dozen (benches/bench_projection.py). The loop stands here and its passes over
rows are compiled (csrc/core/projection): they are all that a support spread over processes would do in parts.

This room knows numbers only: no support, no noise, nothing private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw import kernels

Vector: TypeAlias = npt.NDArray[np.float64]

MOST_EXACT = 1200  # free multipliers: beyond, factoring costs more than conjugate gradients
MOST_INNER = 500  # conjugate gradients for one step
_ARMIJO = 1e-4
_SHORTEST = 2.0**-30


class Operator(Protocol):
    """The 0/1 matrix of rows x queries, never written out."""

    @property
    def count(self) -> int:
        """How many queries there are."""

    def potentials(self, values: Vector) -> Vector:
        """For each row the sum of the values of the queries that hold it."""

    def sums(self, weights: Vector) -> Vector:
        """For each query the sum of the weights, of either sign, of the rows that it holds."""

    def gram(self, weights: Vector) -> Vector | None:
        """For each pair of queries the weight of the rows that both hold; None where that is too large."""


@dataclass(frozen=True, slots=True, eq=False)
class Slack:
    """How measured answers may be missed: within gamma (l1), or at a price of w / 2 a square (l2)."""

    gamma: Vector | None = None
    w: Vector | None = None

    def value(self, multipliers: Vector) -> float:
        """What the dual pays for these multipliers."""
        if self.gamma is not None:
            return _dot(self.gamma, np.abs(multipliers))
        assert self.w is not None
        return float((multipliers * multipliers / self.w).sum()) / 2

    def gradient(self, multipliers: Vector, smooth: Vector) -> Vector:
        """The dual's gradient; for l1 its smallest subgradient, 0 where a multiplier of 0 should stay."""
        if self.w is not None:
            return smooth + multipliers / self.w
        assert self.gamma is not None
        at_rest = np.sign(smooth) * np.maximum(np.abs(smooth) - self.gamma, 0)
        return np.where(multipliers != 0, smooth + self.gamma * np.sign(multipliers), at_rest)

    def gap(self, multipliers: Vector, smooth: Vector) -> float:
        """KL (and the l2 penalty) of the distribution at hand, less what the dual proves to be needed."""
        if self.w is not None:
            missed = smooth + multipliers / self.w
            return float((self.w * missed * missed).sum()) / 2
        assert self.gamma is not None
        return float(np.abs(multipliers * smooth + self.gamma * np.abs(multipliers)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """What `project` found, with the certificate that it is right.

    gap: duality gap; kkt: the largest violation of a constraint or of stationarity, as a fraction. feasible
    is False only if multipliers were found that prove that no distribution on these rows is within gamma.
    """

    weights: Vector
    multipliers: Vector
    gap: float
    kkt: float
    steps: int
    passes: int
    converged: bool
    feasible: bool


def project(
    operator: Operator,
    prior: Vector,
    answers: Vector,
    slack: Slack,
    *,
    multipliers: Vector | None = None,
    tolerance: float = 1e-9,
    most_steps: int = 200,
    threads: int | None = None,
) -> Projection:
    """Project a prior (weights with sum 1) onto measured answers; starts from earlier multipliers if given.

    Finishes when the gap, and with l1 the KKT residual too, is at most the tolerance.
    """
    free_sign = slack.gamma is not None
    at = np.zeros(operator.count) if multipliers is None else multipliers.copy()
    potentials = operator.potentials(at) if at.any() else np.zeros(len(prior))
    weights, log_total = kernels.tilt(prior, potentials, threads=threads)
    value = log_total - _dot(at, answers) + slack.value(at)
    radius, passes, steps = 4.0, 0, 0
    feasible = True
    while True:
        fitted = operator.sums(weights)
        passes += 1
        smooth = fitted - answers
        gradient = slack.gradient(at, smooth)
        gap, kkt = slack.gap(at, smooth), float(np.abs(gradient).max(initial=0.0))
        # With l2 the gap alone bounds the distance from the solution; l1 may violate constraints too.
        done = gap <= tolerance and (not free_sign or kkt <= tolerance)
        if done or steps >= most_steps:
            break
        if free_sign and _proves_infeasible(slack, at, answers, potentials, prior):
            feasible = False
            break
        step, moved, inner = _newton_step(operator, weights, fitted, at, gradient, slack, kkt, tolerance)
        passes += inner
        # A step may not multiply any row's odds by more than e^radius: far steps of a quadratic model are
        # worthless, and an infeasible problem has nothing but far steps.
        reach = float(np.abs(moved - _dot(weights, moved)).max(initial=0.0))
        scale = 1.0 if reach <= radius else radius / reach
        improved = False
        while scale > _SHORTEST:
            trial = at + scale * step
            trial_potentials = potentials + scale * moved
            if slack.gamma is not None:
                crossed = (slack.gamma > 0) & (np.where(at != 0, at, -gradient) * trial < 0)
                if crossed.any():
                    trial[crossed] = 0.0
                    trial_potentials = operator.potentials(trial)
                    passes += 1
            trial_weights, trial_log = kernels.tilt(prior, trial_potentials, threads=threads)
            trial_value = trial_log - _dot(trial, answers) + slack.value(trial)
            # Near the solution the decrease is lost in rounding: a step that is then no worse is taken.
            needed = _ARMIJO * _dot(gradient, trial - at)
            if trial_value <= value + needed + 4e-16 * (abs(value) + abs(trial_log) + 1):
                improved = True
                break
            scale /= 2
        if not improved:
            break
        radius = (
            min(radius * 2, 1e6) if scale >= min(1.0, radius / max(reach, 1e-300)) else max(radius / 2, 1.0)
        )
        at, potentials, weights, value = trial, trial_potentials, trial_weights, trial_value
        steps += 1
    converged = done and feasible
    return Projection(weights, at, gap, kkt, steps, passes, converged, feasible)


def _proves_infeasible(slack: Slack, at: Vector, answers: Vector, potentials: Vector, prior: Vector) -> bool:
    """Whether sum_i l_i (q_i(x) - a_i) + gamma |l| < 0 on every row: then it is so for every distribution.

    A distribution within gamma of all answers would make that sum at least 0.
    """
    largest = float(potentials[prior > 0].max()) - _dot(at, answers) + slack.value(at)
    return largest < -1e-9 * (1 + float(np.abs(at).sum()))


def _newton_step(
    operator: Operator,
    weights: Vector,
    fitted: Vector,
    at: Vector,
    gradient: Vector,
    slack: Slack,
    kkt: float,
    tolerance: float,
) -> tuple[Vector, Vector, int]:
    """The step, what it adds to the rows' potentials, and the passes over rows that it took."""
    # l2 is curved by itself. l1 is as flat as the queries are redundant: a little damping, gone at the end.
    diagonal = np.maximum(fitted * (1 - fitted), 1e-300)
    ridge = 1 / slack.w if slack.w is not None else (1e-10 + min(1e-3, kkt)) * diagonal + 1e-14
    free = np.ones(len(at), bool) if slack.w is not None else (at != 0) | (gradient != 0)
    where = np.flatnonzero(free)
    if len(where) <= MOST_EXACT:
        gram = operator.gram(weights)
        if gram is not None:
            hessian = gram[np.ix_(where, where)] - np.outer(fitted[where], fitted[where])
            hessian[np.diag_indices(len(where))] += ridge[where]
            step = np.zeros(len(at))
            step[where] = _solve(hessian, -gradient[where])
            return step, operator.potentials(step), 2
    return _conjugate_gradients(operator, weights, diagonal, ridge, free, gradient, tolerance)


def _solve(hessian: Vector, right: Vector) -> Vector:
    solved: Vector = np.linalg.solve(hessian, right).astype(np.float64)
    return solved


def _conjugate_gradients(
    operator: Operator,
    weights: Vector,
    diagonal: Vector,
    ridge: Vector,
    free: npt.NDArray[np.bool_],
    gradient: Vector,
    tolerance: float,
) -> tuple[Vector, Vector, int]:
    """Newton's equation on the free multipliers, as exactly as its distance from the solution deserves."""
    preconditioner = free / (diagonal + ridge)
    residual = np.where(free, -gradient, 0.0)
    step, moved = np.zeros(len(gradient)), np.zeros(len(weights))
    scaled = preconditioner * residual
    direction = scaled.copy()
    size = first = _dot(residual, scaled)
    forcing = min(0.1, math.sqrt(first)) ** 2
    passes = 0
    for _ in range(MOST_INNER):
        passes += 2
        along = operator.potentials(direction)
        curved = operator.sums(weights * (along - _dot(weights, along))) + ridge * direction
        curved *= free
        bend = _dot(direction, curved)
        if bend <= 0:  # rounding: the direction is flat
            break
        length = size / bend
        step += length * direction
        moved += length * along
        residual -= length * curved
        scaled = preconditioner * residual
        before, size = size, _dot(residual, scaled)
        # What is left of the gradient is the gap of the quadratic model: far below the tolerance is wasted.
        if size <= forcing * first or float((residual * residual / ridge).sum()) <= 0.5 * tolerance:
            break
        direction = scaled + size / before * direction
    return step, moved, passes


def _dot(a: Vector, b: Vector) -> float:
    """Not by BLAS, whose threads cost more than such products, and whose sums depend on their number."""
    return float(np.einsum("i,i->", a, b))
