"""PEP's projection: the distribution nearest to a prior that answers measured queries as they were measured.

With prior A0, measured answers a_i and D_l(x) ~ A0(x) exp(sum_i l_i q_i(x)), the nearest distribution is the
D_l whose multipliers l minimise the dual

    f(l) = log sum_x A0(x) exp(sum_i l_i (q_i(x) - a_i)) + slack(l)

l1: slack = sum gamma_i |l_i|, the dual of  min KL(D || A0)  subject to |q_i(D) - a_i| <= gamma_i.
l2: slack = sum l_i^2 / (2 w_i), the dual of  min KL(D || A0) + sum w_i (q_i(D) - a_i)^2 / 2.

Newton's method (privmw/newton.py). l1 has kinks, and is flat where queries are redundant: there each goal is
f and a pull to an anchor, (l - anchor)^2, whose primal is smooth (an augmented Lagrangian, solved by
semismooth Newton steps); anchors follow the solutions, ever more loosely. Coordinate steps, the paper's way,
took hundreds of passes where this takes a dozen (benches/bench_projection.py). The loop stands here and its
passes over rows are compiled (csrc/core/projection).

This room knows numbers only: no support, no noise, nothing private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privmw import kernels
from privmw.newton import Operator, Step, Vector, dot, newton_step

__all__ = ["Operator", "Projection", "Slack", "project"]

_FAR = 4.0  # how much a step may raise the logarithm of the total over its tangent
_SHORTEST = 2.0**-30
_MOST_AT_ANCHOR = 30  # steps
_FLOOR = 1e-6  # an answer's variance that scales its pull is at least this


@dataclass(frozen=True, slots=True, eq=False)
class Slack:
    """How measured answers may be missed: within gamma (l1), or at a price of w / 2 a square (l2)."""

    gamma: Vector | None = None
    w: Vector | None = None

    def value(self, multipliers: Vector) -> float:
        """What the dual pays for these multipliers."""
        if self.gamma is not None:
            return dot(self.gamma, np.abs(multipliers))
        assert self.w is not None
        return float((multipliers * multipliers / self.w).sum()) / 2

    def gradient(self, multipliers: Vector, missed: Vector) -> Vector:
        """The dual's gradient; for l1 its smallest subgradient, 0 where a multiplier of 0 should stay."""
        if self.w is not None:
            return missed + multipliers / self.w
        assert self.gamma is not None
        at_rest = np.sign(missed) * np.maximum(np.abs(missed) - self.gamma, 0)
        return np.where(multipliers != 0, missed + self.gamma * np.sign(multipliers), at_rest)

    def gap(self, multipliers: Vector, missed: Vector) -> float:
        """KL (and the l2 penalty) of the distribution at hand, less what the dual proves to be needed."""
        if self.w is not None:
            rest = missed + multipliers / self.w
            return float(np.einsum("i,i,i->", self.w, rest, rest)) / 2
        assert self.gamma is not None
        return float(np.abs(multipliers * missed + self.gamma * np.abs(multipliers)).sum())


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


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Multipliers, their distribution, and by how much its answers differ from the measured ones."""

    multipliers: Vector
    potentials: Vector
    weights: Vector
    log_total: float
    missed: Vector

    @property
    def divergence(self) -> float:
        """KL from the prior."""
        return dot(self.potentials, self.weights) - self.log_total


@dataclass(frozen=True, slots=True, eq=False)
class _Goal:
    """The slack, and a pull to an anchor: pull_i (l_i - anchor_i)^2 / 2 more for multipliers l."""

    gamma: Vector | float
    curve: Vector | float
    anchor: Vector
    pull: Vector

    def best(self, missed: Vector) -> Vector:
        """The multipliers that these misses ask for: they minimise l missed + slack(l) + pull."""
        wanted = self.anchor * self.pull - missed
        if isinstance(self.gamma, np.ndarray):
            wanted = np.sign(wanted) * np.maximum(np.abs(wanted) - self.gamma, 0.0)
        return wanted / (self.curve + self.pull)

    def paid(self, multipliers: Vector, missed: Vector) -> float:
        """What `best` minimises; less KL it is the primal's negative value, where `best` is attained."""
        away = multipliers - self.anchor
        each = multipliers * missed + self.gamma * np.abs(multipliers)
        each += self.curve * multipliers * multipliers / 2 + self.pull * away * away / 2
        return float(each.sum())

    def moved(self, best: Vector) -> float:
        """What the pull to the anchor is worth."""
        away = best - self.anchor
        return float(np.einsum("i,i,i->", self.pull, away, away)) / 2


class _Search:
    """A projection under way: the problem, and the passes over rows that it took."""

    def __init__(
        self, operator: Operator, prior: Vector, answers: Vector, slack: Slack, threads: int | None
    ) -> None:
        self.operator, self.prior, self.answers, self.slack = operator, prior, answers, slack
        self.threads, self.passes = threads, 0

    def place(self, multipliers: Vector, potentials: Vector | None = None) -> _Place:
        if potentials is None:
            potentials = self.operator.potentials(multipliers)
            self.passes += 1
        weights, log_total = kernels.tilt(self.prior, potentials, threads=self.threads)
        self.passes += 1
        missed = self.operator.sums(weights)
        missed -= self.answers
        return _Place(multipliers, potentials, weights, log_total, missed)

    def goal(self, at: _Place, looseness: float) -> _Goal:
        gamma, w = self.slack.gamma, self.slack.w
        fitted = at.missed + self.answers
        pull = (np.maximum(fitted * (1 - fitted), 0.0) + _FLOOR) / looseness
        return _Goal(0.0 if gamma is None else gamma, 0.0 if w is None else 1 / w, at.multipliers, pull)

    def certificate(self, at: _Place) -> tuple[float, float]:
        kkt = float(np.abs(self.slack.gradient(at.multipliers, at.missed)).max(initial=0.0))
        return self.slack.gap(at.multipliers, at.missed), kkt

    def proves_infeasible(self, at: _Place, tolerance: float) -> bool:
        """Whether sum_i l_i (q_i(x) - a_i) + gamma |l| < 0 on every row: then it is so for every distribution.

        A distribution within gamma of all answers, by the tolerance, would make it at least -tolerance |l|.
        """
        if self.slack.gamma is None:
            return False
        largest = float(at.potentials.max(initial=-math.inf, where=self.prior > 0))
        largest += self.slack.value(at.multipliers) - dot(at.multipliers, self.answers)
        return largest < -tolerance * float(np.abs(at.multipliers).sum())

    def step(self, at: _Place, goal: _Goal, best: Vector, short: float, tolerance: float) -> Step:
        free = best != 0 if self.slack.gamma is not None else np.ones(len(best), bool)
        fitted, ridge = at.missed + self.answers, goal.curve + goal.pull
        accuracy = min(0.1, math.sqrt(max(short, 1e-10)))
        wanted = best - at.multipliers
        step = newton_step(self.operator, at.weights, fitted, wanted, ridge, free, accuracy, 0.5 * tolerance)
        self.passes += step.passes
        return step

    def advance(self, at: _Place, goal: _Goal, best: Vector, step: Step, short: float) -> _Place | None:
        """As far along a step as lowers the goal's primal value; None where nothing does."""
        value = at.divergence - goal.paid(best, at.missed)
        scale, rise = 1.0, dot(at.weights, step.potentials)
        while scale > _SHORTEST:
            potentials = at.potentials + scale * step.potentials
            # Before any pass over the queries: a step that tears weight from most rows is too long.
            total = kernels.tilt(self.prior, potentials, threads=self.threads)[1]
            if total - at.log_total - scale * rise <= _FAR:
                trial = self.place(at.multipliers + scale * step.multipliers, potentials)
                trial_value = trial.divergence - goal.paid(goal.best(trial.missed), trial.missed)
                # Near the solution the decrease is lost in rounding: a step that is no worse is taken.
                if trial_value <= value - 1e-6 * scale * short + 1e-14 * (abs(value) + 1):
                    return trial
            scale /= 2
        return None


def project(
    operator: Operator,
    prior: Vector,
    answers: Vector,
    slack: Slack,
    *,
    multipliers: Vector | None = None,
    tolerance: float = 1e-9,
    most_steps: int = 300,
    most_passes: int = 20_000,
    threads: int | None = None,
) -> Projection:
    """Project a prior (weights with sum 1) onto measured answers; starts from earlier multipliers if given.

    Finishes when the gap, and with l1 the KKT residual too, is at most the tolerance.
    """
    search = _Search(operator, prior, answers, slack, threads)
    start = np.zeros(operator.count) if multipliers is None else multipliers.copy()
    at = search.place(start, None if start.any() else np.zeros(len(prior)))
    looseness = math.inf if slack.gamma is None else 1.0
    goal, since, steps, feasible, stuck = search.goal(at, looseness), 0, 0, True, False
    while True:
        gap, kkt = search.certificate(at)
        # With l2 the gap alone bounds the distance from the solution; l1 may violate constraints too.
        done = gap <= tolerance and (slack.gamma is None or kkt <= tolerance)
        if done or steps >= most_steps or search.passes >= most_passes:
            break
        if search.proves_infeasible(at, tolerance):
            feasible = False
            break
        best = goal.best(at.missed)
        short = goal.paid(at.multipliers, at.missed) - goal.paid(best, at.missed)
        if stuck or (since and short <= max(1e-2 * goal.moved(best), 1e-16)) or since >= _MOST_AT_ANCHOR:
            looseness *= 10.0 if since <= 4 and not stuck else 0.5 if since > 10 else 1.0
            goal, since = search.goal(at, looseness), 0
            best = goal.best(at.missed)
            short = goal.paid(at.multipliers, at.missed) - goal.paid(best, at.missed)
        step = search.step(at, goal, best, short, tolerance)
        reached = search.advance(at, goal, best, step, short)
        if reached is None and stuck:
            break
        stuck = reached is None
        at = at if reached is None else reached
        steps, since = steps + 1, since + 1
    return Projection(at.weights, at.multipliers, gap, kkt, steps, search.passes, done and feasible, feasible)
