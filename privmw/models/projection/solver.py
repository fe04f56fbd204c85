"""PEP's projection: the distribution nearest to a prior that gives the measured answers.

With prior A0, measured answers a_i and D_l(x) ~ A0(x) exp(sum_i l_i q_i(x)), the nearest distribution is the
D_l whose multipliers l minimise the dual

    f(l) = log sum_x A0(x) exp(sum_i l_i (q_i(x) - a_i)) + slack(l)

l1: slack = sum gamma_i |l_i|, the dual of  min KL(D || A0)  subject to |q_i(D) - a_i| <= gamma_i.
l2: slack = sum l_i^2 / (2 w_i), the dual of  min KL(D || A0) + sum w_i (q_i(D) - a_i)^2 / 2.

Newton's method (newton.py). l1 has kinks, and is flat where queries are redundant: there each goal adds to f
a proximal term, (l - anchor)^2 (an augmented Lagrangian, solved by semismooth Newton steps); anchors follow
the solutions, with ever smaller terms. Coordinate steps, as in the paper, took hundreds of passes over the
rows where this takes a dozen (benches/bench_projection.py). Passes are compiled (csrc/core/projection).

Numbers only: no support, no noise, nothing private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from privmw import kernels
from privmw.kernels.arrays import Float64s
from privmw.models.projection.newton import ALL_ROWS, NewtonSystem, Step, covariances, dot, newton_step
from privmw.models.projection.queries import ProjectedQueries
from privmw.models.projection.slack import Goal, Iterate, Slack
from privmw.ranks import allgather_rows, max_over_ranks, sum_over_ranks

__all__ = ["Projection", "Slack", "project"]


@dataclass(frozen=True, slots=True)
class SolverSettings:
    """Constants of `project`, chosen by benches/bench_projection.py and bench_projection_instances.py."""

    # The pull of a multiplier to its anchor is its answer's variance / looseness. A looser goal needs fewer
    # anchors, and more Newton steps at each.
    least_variance: float = 1e-6  # so that answers without variance are pulled too
    few_steps: int = 4  # a goal reached within these: the next is looser
    looser: float = 10.0
    many_steps: int = 10  # a goal that took more: the next is tighter
    tighter: float = 0.5
    most_steps: int = 300
    most_passes: int = 20_000  # over rows
    most_steps_at_anchor: int = 30  # then the anchor moves although the goal is not reached
    goal_gap: float = 1e-2  # a goal is reached when its gap is below this share of the pull's cost
    rounded_gap: float = 1e-16  # gaps below are rounding
    # Sums in fixed point leave a residual that grows with the rows, from 2e-13 at 10,000 to 2e-10 at 10
    # million. A fit whose residual is below `enough` ends when `stalled` steps in turn have not halved it.
    enough: float = 1e-9
    stalled: int = 2
    # Without kinks the pull only bounds flat directions, and shrinks with the KKT residual.
    largest_pull: float = 1e-3
    least_pull: float = 1e-10
    slow: float = 0.9  # loosen the pull if a step leaves more than this share of the KKT residual
    loosest: float = 1e10

    # Newton's equations are solved to a relative accuracy of sqrt(gap).
    roughest: float = 0.25
    roughest_at_kinks: float = 0.03  # rougher steps change the signs of the wrong multipliers
    least_gap: float = 1e-10  # no more accuracy for smaller gaps
    share_left: float = 0.5  # of the tolerance may be left by a step; the rest is for its nonlinear part
    exacter: float = 10.0  # factor after a step that was shortened
    much_exacter: float = 1000.0  # after a step that failed
    least_exactness: float = 1e-9  # here rounding ends all progress
    # Where a fit may be rough, the equations are over a sample of the rows: `more` times as many after a step
    # that leaves more than `left` of the gap.
    left: float = 0.1
    more: float = 4.0
    few_rows: int = 1000  # never sampled

    # The line search. With l2 slack, lengths are tried until two in turn differ by less than `close`.
    close: float = 0.2
    most_lengths: int = 6
    most_change: float = 8.0  # factor between two lengths in turn
    least_slope: float = 1e-10  # below, lengths cannot be told apart for rounding
    largest_rise: float = 4.0  # of log_total over its tangent: beyond, halve the step without evaluating it
    shortest_step: float = 2.0**-30
    short_step: float = 0.2  # shorter steps show that the equations were solved too roughly
    decrease: float = 1e-4  # of the slope's decrease that a step must attain (Armijo)
    rounding: float = 1e-15  # relative error of the values compared


SOLVER = SolverSettings()


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """The result of `project`, with its certificate.

    answers: of the weights. gap: the duality gap. kkt: the largest violation of a constraint or of
    stationarity, as a fraction. share: the share of the rows in the last Newton step. feasible: False only if
    the multipliers prove that no distribution on these rows is within gamma.
    """

    weights: Float64s
    multipliers: Float64s
    answers: Float64s
    gap: float
    kkt: float
    steps: int
    passes: int
    converged: bool
    feasible: bool
    share: float


class _Search:
    """The state of a running projection: the problem, the goal, and the passes over rows so far."""

    def __init__(
        self,
        matrix: ProjectedQueries,
        prior: Float64s,
        answers: Float64s,
        slack: Slack,
        tolerance: float,
        share: float,
    ) -> None:
        self.matrix, self.prior, self.answers, self.slack = matrix, prior, answers, slack
        self.tolerance, self.share, self.passes = tolerance, share, 0
        self.kinked = slack.gamma is not None and bool(slack.gamma.any())
        self.looseness, self.steps_at_anchor, self.last_kkt = 1.0, 0, math.inf
        self.exactness = 1.0  # factor on the accuracy of steps, lowered after bad steps
        self._least, self._steps_since = math.inf, 0  # the least residual, and steps since it was halved

    def tilted(self, potentials: Float64s) -> tuple[Float64s, float]:
        """The distribution ~ prior * exp(potentials), and the logarithm of its normaliser."""
        return kernels.tilt(self.prior, potentials, threads=self.matrix.threads, comm=self.matrix.comm)

    def iterate(
        self,
        multipliers: Float64s,
        potentials: Float64s,
        log_total_bound: float = math.inf,
        tilted: tuple[Float64s, float] | None = None,
    ) -> Iterate | None:
        """Evaluate multipliers; None, without a pass over queries, if log_total exceeds the bound.

        tilted: the result of `tilted(potentials)`, if already computed.
        """
        weights, log_total = tilted or self.tilted(potentials)
        if log_total > log_total_bound:
            return None
        errors = self.matrix.sums(weights)
        errors -= self.answers
        self.passes += 1
        return Iterate(multipliers, potentials, weights, log_total, errors)

    def certificate(self, at: Iterate) -> tuple[float, float]:
        """Duality gap and KKT residual."""
        kkt = float(np.abs(self.slack.gradient(at.multipliers, at.errors)).max(initial=0.0))
        return self.slack.gap(at.multipliers, at.errors), kkt

    def stalls(self, residual: float) -> bool:
        """Whether rounding ends all progress: called once per iterate."""
        if residual <= self._least / 2:
            self._least, self._steps_since = residual, 0
            return False
        self._steps_since += 1
        return (
            self._least <= SOLVER.enough and residual <= SOLVER.enough and self._steps_since >= SOLVER.stalled
        )

    def proves_infeasible(self, at: Iterate) -> bool:
        """Whether sum_i l_i (q_i(x) - a_i) + gamma |l| < -tolerance |l| on every row x.

        A distribution within gamma + tolerance of all answers would have at least -tolerance |l|.
        """
        if self.slack.gamma is None:
            return False
        largest = float(at.potentials.max(initial=-math.inf, where=self.prior > 0))
        bound = max_over_ranks(self.matrix.comm, largest)
        bound += self.slack.value(at.multipliers) - dot(at.multipliers, self.answers)
        return bound < -self.tolerance * float(np.abs(at.multipliers).sum())

    def next_goal(self, at: Iterate, goal: Goal | None, kkt: float) -> Goal:
        """The goal anchored here, or the last one until it is reached; without kinks, a new one each step."""
        steps = self.steps_at_anchor
        if not self.kinked:
            # l2 is strictly convex and needs no pull. gamma 0 is flat where queries are redundant: a small
            # pull that vanishes at the solution, or where it delays a proof of infeasibility.
            slow, self.last_kkt = kkt > SOLVER.slow * self.last_kkt, kkt
            least = (
                math.inf
                if self.slack.w is not None
                else 1 / (SOLVER.least_pull + min(SOLVER.largest_pull, kkt))
            )
            self.looseness = max(least, min(SOLVER.looser * self.looseness, SOLVER.loosest) if slow else 0.0)
        elif goal is not None:
            gap_allowed = max(SOLVER.goal_gap * goal.pull_cost(goal.best(at.errors)), SOLVER.rounded_gap)
            if steps < SOLVER.most_steps_at_anchor and (steps == 0 or goal.gap(at) > gap_allowed):
                return goal
            self.looseness *= (
                SOLVER.looser
                if steps <= SOLVER.few_steps
                else SOLVER.tighter
                if steps > SOLVER.many_steps
                else 1.0
            )
        self.steps_at_anchor = 0
        fitted = at.errors + self.answers
        pull = (np.maximum(fitted * (1 - fitted), 0.0) + SOLVER.least_variance) / self.looseness
        curve = 0.0 if self.slack.w is None else 1 / self.slack.w
        return Goal(self.slack.gamma if self.kinked else None, curve, at.multipliers, pull)

    def step(self, at: Iterate, goal: Goal, gap: float) -> Step:
        """Newton's step towards the goal's optimum; gap: of the dual, with l2 slack also the goal's."""
        best = goal.best(at.errors)
        free = best != 0 if self.kinked else np.ones(len(best), bool)
        roughest = SOLVER.roughest_at_kinks if self.kinked else SOLVER.roughest
        l2 = self.slack.w is not None
        goal_gap, gap_allowed = (gap, SOLVER.share_left * self.tolerance) if l2 else (goal.gap(at), 0.0)
        accuracy = self.exactness * min(roughest, math.sqrt(max(goal_gap, SOLVER.least_gap)))
        ridge, fitted = goal.curve + goal.pull, at.errors + self.answers
        target = best - at.multipliers
        system = NewtonSystem(self.matrix, at.weights, fitted, ridge, free)
        step = newton_step(system, target, accuracy, gap_allowed, self.share)
        self.passes += step.passes
        return step

    def advance(self, at: Iterate, goal: Goal, step: Step) -> Iterate | None:
        """Line search on the dual (with kinks: the goal's primal); None if no length lowers it."""
        value, scale, tilted = self._merit(at, goal), 1.0, None
        rise = dot(at.errors + self.answers, step.multipliers)
        if self.kinked:
            # The primal depends on the distribution only: redundant multipliers may move while it stays.
            distance = at.multipliers - goal.best(at.errors)
            slope = min(0.0, dot(distance, covariances(self.matrix, at.weights, step.potentials, rise)))
            self.passes += 1
        else:
            slope = dot(at.errors + goal.curve * at.multipliers, step.multipliers)
            scale, tilted = self._length(at, step, slope)
        while scale > SOLVER.shortest_step:
            trial = self.iterate(
                at.multipliers + scale * step.multipliers,
                at.potentials + scale * step.potentials,
                at.log_total + scale * rise + SOLVER.largest_rise,
                tilted,
            )
            # Near the solution the decrease is lost in rounding.
            rounding = SOLVER.rounding * (abs(value) + abs(at.log_total) + 1)
            if (
                trial is not None
                and self._merit(trial, goal) <= value + SOLVER.decrease * scale * slope + rounding
            ):
                self.steps_at_anchor += 1
                if scale > SOLVER.short_step or not self.kinked:
                    self.exactness = min(1.0, SOLVER.exacter * self.exactness)
                else:
                    self.solve_more_exactly(SOLVER.exacter)
                return trial
            scale, tilted = scale / 2, None
        return None

    def _length(self, at: Iterate, step: Step, slope: float) -> tuple[float, tuple[Float64s, float] | None]:
        """Approximately the best length of a step with l2 slack, and the distribution there.

        Fits parabolas to the slope at 0 and the value at the last length; takes no pass over queries.
        """
        if self.slack.w is None or slope > -SOLVER.least_slope:
            return 1.0, None
        scaled = step.multipliers / self.slack.w
        linear = dot(at.multipliers, scaled) - dot(self.answers, step.multipliers)
        quadratic = dot(step.multipliers, scaled) / 2
        length, least = 1.0, math.inf
        best: tuple[float, tuple[Float64s, float] | None] = length, None
        for _ in range(SOLVER.most_lengths):
            tilted = self.tilted(at.potentials + length * step.potentials)
            value = tilted[1] - at.log_total + length * linear + length**2 * quadratic
            if value < least:
                best, least = (length, tilted), value
            bend = value - length * slope
            following = -slope * length**2 / (2 * bend) if bend > 0 else length
            if abs(following - length) <= SOLVER.close * length:
                break
            length = min(max(following, length / SOLVER.most_change), length * SOLVER.most_change)
        return best

    def solve_more_exactly(self, factor: float) -> bool:
        """Divide the accuracy of further steps by a factor; False if it is at its least."""
        possible = self.exactness > SOLVER.least_exactness
        self.exactness = max(SOLVER.least_exactness, self.exactness / factor)
        return possible

    def _merit(self, at: Iterate, goal: Goal) -> float:
        if not self.kinked:
            return at.log_total - dot(at.multipliers, self.answers) + self.slack.value(at.multipliers)
        divergence = dot(at.multipliers, at.errors + self.answers) - at.log_total
        return divergence - goal.cost(goal.best(at.errors), at.errors)


def project(
    matrix: ProjectedQueries,
    prior: Float64s,
    answers: Float64s,
    slack: Slack,
    *,
    multipliers: Float64s | None = None,
    tolerance: float = 1e-9,
    share: float = ALL_ROWS,
) -> Projection:
    """Project a prior (weights with sum 1) onto measured answers.

    multipliers: where to start (default: zeros). share: the share of the rows, sampled by weight, that the
    first Newton step uses; faster where the tolerance is large.

    Ends when the gap, and with l1 the KKT residual too, is at most the tolerance; after SOLVER.most_steps
    steps or SOLVER.most_passes passes over rows; or when rounding ends all progress.
    """
    if matrix.comm.size > 1 and (everywhere := matrix.everywhere) is not None:
        (priors,) = allgather_rows(matrix.comm, [prior])
        fit = project(
            everywhere.matrix,
            priors,
            answers,
            slack,
            multipliers=multipliers,
            tolerance=tolerance,
            share=share,
        )
        return replace(fit, weights=fit.weights[everywhere.own].copy())
    if share * sum_over_ranks(matrix.comm, len(prior)) < SOLVER.few_rows:
        share = ALL_ROWS
    search = _Search(matrix, prior, answers, slack, tolerance, share)
    start = np.zeros(matrix.count) if multipliers is None else multipliers.copy()
    at = search.iterate(start, matrix.potentials(start))
    assert at is not None
    goal: Goal | None = None
    steps, feasible, gap = 0, True, math.inf
    while True:
        before, (gap, kkt) = gap, search.certificate(at)
        # With l2 the gap alone bounds the distance from the solution; l1 may violate constraints too.
        done = gap <= tolerance and (slack.gamma is None or kkt <= tolerance)
        feasible = done or not search.proves_infeasible(at)
        stalled = search.stalls(max(gap, 0.0 if slack.gamma is None else kkt))
        if (
            done
            or stalled
            or not feasible
            or steps >= SOLVER.most_steps
            or search.passes >= SOLVER.most_passes
        ):
            break
        if gap > SOLVER.left * before:
            search.share = SOLVER.more * search.share if search.share < 1 else ALL_ROWS
        goal = search.next_goal(at, goal, kkt)
        reached = search.advance(at, goal, search.step(at, goal, gap))
        if reached is not None:
            at, steps = reached, steps + 1
        elif not search.solve_more_exactly(SOLVER.much_exacter):
            break
    fitted = at.errors + answers
    return Projection(
        at.weights,
        at.multipliers,
        fitted,
        gap,
        kkt,
        steps,
        search.passes,
        done,
        feasible,
        search.share,
    )
