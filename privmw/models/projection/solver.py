"""PEP's projection: the distribution nearest to a prior that answers measured queries as they were measured.

With prior A0, measured answers a_i and D_l(x) ~ A0(x) exp(sum_i l_i q_i(x)), the nearest distribution is the
D_l whose multipliers l minimise the dual

    f(l) = log sum_x A0(x) exp(sum_i l_i (q_i(x) - a_i)) + slack(l)

l1: slack = sum gamma_i |l_i|, the dual of  min KL(D || A0)  subject to |q_i(D) - a_i| <= gamma_i.
l2: slack = sum l_i^2 / (2 w_i), the dual of  min KL(D || A0) + sum w_i (q_i(D) - a_i)^2 / 2.

Newton's method (newton.py). l1 has kinks, and is flat where queries are redundant: there each goal is f and
a pull to an anchor, (l - anchor)^2, whose primal is smooth (an augmented Lagrangian, solved by
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
from privmw.kernels.query_matrix import QueryMatrix
from privmw.models.projection.newton import Step, Vector, covariances, dot, newton_step
from privmw.models.projection.slack import Goal, Place, Slack
from privmw.ranks import max_over_ranks

__all__ = ["Projection", "Slack", "project"]

_FAR = 4.0  # how much a step may raise the logarithm of the total over its tangent
_SHORTEST = 2.0**-30
_MOST_CARE = 1e-9
_MOST_AT_ANCHOR = 30  # steps
_FLOOR = 1e-6  # an answer's variance that scales its pull is at least this


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


class _Search:
    """A projection under way: the problem, the goal at hand, and the passes over rows that it took."""

    def __init__(
        self,
        matrix: QueryMatrix,
        prior: Vector,
        answers: Vector,
        slack: Slack,
        tolerance: float,
        threads: int | None,
    ) -> None:
        self.matrix, self.prior, self.answers, self.slack = matrix, prior, answers, slack
        self.tolerance, self.threads, self.passes = tolerance, threads, 0
        self.kinked = slack.gamma is not None and bool(slack.gamma.any())
        self.looseness, self.since, self.kkt = 1.0, 0, math.inf  # of the anchor; steps at it; the last
        self.care = 1.0  # with which steps are solved: less where steps prove to be bad

    def place(self, multipliers: Vector, potentials: Vector, most: float = math.inf) -> Place | None:
        """None, and no pass over the queries, where the logarithm of the total is above `most`."""
        comm = self.matrix.comm
        weights, log_total = kernels.tilt(self.prior, potentials, threads=self.threads, comm=comm)
        if log_total > most:
            return None
        missed = self.matrix.sums(weights)
        missed -= self.answers
        self.passes += 1
        return Place(multipliers, potentials, weights, log_total, missed)

    def certificate(self, at: Place) -> tuple[float, float]:
        """Duality gap and KKT residual."""
        kkt = float(np.abs(self.slack.gradient(at.multipliers, at.missed)).max(initial=0.0))
        return self.slack.gap(at.multipliers, at.missed), kkt

    def proves_infeasible(self, at: Place) -> bool:
        """Whether sum_i l_i (q_i(x) - a_i) + gamma |l| < 0 on every row: then it is so for all distributions.

        One within gamma of all answers, but for the tolerance, would make it at least -tolerance |l|.
        """
        if self.slack.gamma is None:
            return False
        own = float(at.potentials.max(initial=-math.inf, where=self.prior > 0))
        most = max_over_ranks(self.matrix.comm, own)
        most += self.slack.value(at.multipliers) - dot(at.multipliers, self.answers)
        return most < -self.tolerance * float(np.abs(at.multipliers).sum())

    def next_goal(self, at: Place, goal: Goal | None, kkt: float) -> Goal:
        """Anchored here once the goal at hand is reached, or taken too long; without kinks at every step."""
        if not self.kinked:
            # l2 is curved by itself. gamma 0 is as flat as queries are redundant: a little, gone at the end,
            # or where it holds up multipliers on their way to a proof that there is no solution.
            slow, self.kkt = kkt > 0.9 * self.kkt, kkt
            least = math.inf if self.slack.w is not None else 1 / (1e-10 + min(1e-3, kkt))
            self.looseness = max(least, min(10 * self.looseness, 1e10) if slow else 0.0)
        elif goal is not None:
            enough = max(1e-2 * goal.moved(goal.best(at.missed)), 1e-16)
            if self.since < _MOST_AT_ANCHOR and (self.since == 0 or goal.short(at) > enough):
                return goal
            self.looseness *= 10.0 if self.since <= 4 else 0.5 if self.since > 10 else 1.0
        self.since = 0
        fitted = at.missed + self.answers
        pull = (np.maximum(fitted * (1 - fitted), 0.0) + _FLOOR) / self.looseness
        curve = 0.0 if self.slack.w is None else 1 / self.slack.w
        return Goal(self.slack.gamma if self.kinked else None, curve, at.multipliers, pull)

    def step(self, at: Place, goal: Goal) -> Step:
        """Newton's: reaches the goal if answers were linear in multipliers."""
        best = goal.best(at.missed)
        free = best != 0 if self.kinked else np.ones(len(best), bool)
        accuracy = self.care * min(0.03 if self.kinked else 0.1, math.sqrt(max(goal.short(at), 1e-10)))
        lasting = self.slack.w is not None
        enough = 0.5 * self.tolerance if lasting else 0.0
        ridge, fitted = goal.curve + goal.pull, at.missed + self.answers
        wanted = best - at.multipliers
        step = newton_step(self.matrix, at.weights, fitted, wanted, ridge, free, accuracy, enough, lasting)
        self.passes += step.passes
        return step

    def advance(self, at: Place, goal: Goal, step: Step) -> Place | None:
        """As far along a step as lowers the dual, or with kinks the goal's primal; None: nothing does."""
        value, scale = self._merit(at, goal), 1.0
        rise = dot(at.missed + self.answers, step.multipliers)
        if self.kinked:
            # The primal sees the distribution only: redundant multipliers move on while it rests.
            away = at.multipliers - goal.best(at.missed)
            slope = min(0.0, dot(away, covariances(self.matrix, at.weights, step.potentials, rise)))
            self.passes += 1
        else:
            slope = dot(at.missed + goal.curve * at.multipliers, step.multipliers)
        while scale > _SHORTEST:
            trial = self.place(
                at.multipliers + scale * step.multipliers,
                at.potentials + scale * step.potentials,
                at.log_total + scale * rise + _FAR,
            )
            # Near the solution the decrease is lost in rounding: a step that is no worse is taken.
            rounding = 1e-15 * (abs(value) + abs(at.log_total) + 1)
            if trial is not None and self._merit(trial, goal) <= value + 1e-4 * scale * slope + rounding:
                self.since += 1
                good = scale > 0.2 or not self.kinked
                self.care = min(1.0, 10 * self.care) if good else max(_MOST_CARE, self.care / 10)
                return trial
            scale /= 2
        return None

    def _merit(self, at: Place, goal: Goal) -> float:
        if not self.kinked:
            return at.log_total - dot(at.multipliers, self.answers) + self.slack.value(at.multipliers)
        divergence = dot(at.multipliers, at.missed + self.answers) - at.log_total
        return divergence - goal.paid(goal.best(at.missed), at.missed)


def project(
    matrix: QueryMatrix,
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

    Finishes when the gap, and with l1 the KKT residual too, is at most the tolerance; or after so many steps
    or passes over rows, or where rounding ends all progress, with the gap reached.
    """
    search = _Search(matrix, prior, answers, slack, tolerance, threads)
    start = np.zeros(matrix.count) if multipliers is None else multipliers.copy()
    at = search.place(start, matrix.potentials(start))
    assert at is not None
    goal: Goal | None = None
    steps, feasible = 0, True
    while True:
        gap, kkt = search.certificate(at)
        # With l2 the gap alone bounds the distance from the solution; l1 may violate constraints too.
        done = gap <= tolerance and (slack.gamma is None or kkt <= tolerance)
        feasible = done or not search.proves_infeasible(at)
        if done or not feasible or steps >= most_steps or search.passes >= most_passes:
            break
        goal = search.next_goal(at, goal, kkt)
        reached = search.advance(at, goal, search.step(at, goal))
        if reached is not None:
            at, steps = reached, steps + 1
        elif search.care > _MOST_CARE:
            search.care = max(_MOST_CARE, search.care / 1000)
        else:
            break
    return Projection(at.weights, at.multipliers, gap, kkt, steps, search.passes, done, feasible)
