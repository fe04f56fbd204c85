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
from privmw.kernels.arrays import Float64s
from privmw.models.projection.newton import ALL, Step, covariances, dot, newton_step
from privmw.models.projection.queries import ProjectedQueries
from privmw.models.projection.slack import Goal, Place, Slack
from privmw.ranks import max_over_ranks, sum_over_ranks

__all__ = ["Projection", "Slack", "project"]

# Anchors. A multiplier's pull to its anchor is its answer's variance over the looseness: looser goals need
# fewer anchors, and more Newton steps at each.
LEAST_VARIANCE = 1e-6  # of an answer of no variance: its multiplier is pulled too
FEW_STEPS, LOOSER = 4, 10.0  # a goal reached in so few steps: the next is looser by this factor
MANY_STEPS, TIGHTER = 10, 0.5  # a goal that took more steps than this: the next is tighter
MOST_STEPS_AT_ANCHOR = 30  # then the anchor moves although its goal is not reached
GOAL_GAP = 1e-2  # a goal is reached when its gap is this share of what its pull is worth
ROUNDED_GAP = 1e-16  # a gap of a goal that is nothing but rounding
# Without kinks the pull only keeps flat directions from running away, and shrinks as the KKT residual does:
LARGEST_PULL, LEAST_PULL = 1e-3, 1e-10  # far from the solution, and at it
SLOW = 0.9  # a step that leaves more than this of the KKT residual: the pull may be what holds it up
LOOSEST = 1e10  # and is loosened so far

# Newton's equations are solved as exactly as the distance from the goal is worth: to the root of its gap.
ROUGHEST, ROUGHEST_AT_KINKS = 0.25, 0.03  # relative; where rough, a step changes the wrong multipliers' signs
LEAST_GAP = 1e-10  # of a goal, below which its root asks for no more
SHARE_LEFT = 0.5  # of the tolerance, which a step may leave of the gap: the rest is for what is not linear
EXACTER, MUCH_EXACTER = 10, 1000  # factors, after a step that went a short way and one that went nowhere
LEAST_EXACTNESS = 1e-9  # the least factor: there rounding ends all progress
# They may be over rows that are drawn, where a fit need not be exact: more of them after a step that left
# more of the gap than this, by this factor; and all after a whole share.
LEFT, MORE = 0.1, 4.0
FEW = 1000  # rows: fewer are not drawn

# The line search. With l2 slack, lengths of a step are tried until the next is so close to the last.
CLOSE, MOST_LENGTHS, MOST_CHANGE = 0.2, 6, 8.0
LEAST_SLOPE = 1e-10  # of the dual along a step: below, rounding says nothing of lengths
LARGEST_RISE = 4.0  # of the logarithm of the total over its tangent: beyond, a step is halved unseen
SHORTEST_STEP = 2.0**-30  # of Newton's: a shorter one changes nothing but rounding
SHORT_STEP = 0.2  # of Newton's: a shorter one shows that the step was solved too roughly
DECREASE = 1e-4  # the share of the slope's decrease that a step must attain: Armijo's rule, as usual
ROUNDING = 1e-15  # of the values compared: near the solution the decrease is lost in it


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """The result of `project`, with its certificate.

    answers: those of the weights; gap: duality gap; kkt: the largest violation of a constraint or of
    stationarity, as a fraction; share: of the rows that the last Newton step was over. feasible is False only
    if the multipliers prove that no distribution on these rows is within gamma.
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
        threads: int | None,
        share: float,
    ) -> None:
        self.matrix, self.prior, self.answers, self.slack = matrix, prior, answers, slack
        self.tolerance, self.threads, self.share, self.passes = tolerance, threads, share, 0
        self.kinked = slack.gamma is not None and bool(slack.gamma.any())
        self.looseness, self.steps_at_anchor, self.last_kkt = 1.0, 0, math.inf
        self.exactness = 1.0  # a factor of the accuracy of steps: less where steps prove to be bad

    def tilted(self, potentials: Float64s) -> tuple[Float64s, float]:
        """The distribution of these potentials, and the logarithm of its total."""
        return kernels.tilt(self.prior, potentials, threads=self.threads, comm=self.matrix.comm)

    def place(
        self,
        multipliers: Float64s,
        potentials: Float64s,
        most: float = math.inf,
        tilted: tuple[Float64s, float] | None = None,
    ) -> Place | None:
        """The place of these multipliers; None, without a pass over queries, if log_total exceeds `most`.

        tilted: those of the potentials, where they are known.
        """
        weights, log_total = tilted or self.tilted(potentials)
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
        """Whether sum_i l_i (q_i(x) - a_i) + gamma |l| < 0 on every row, and so for every distribution.

        For a distribution within gamma of all answers, up to the tolerance, it is at least -tolerance |l|.
        """
        if self.slack.gamma is None:
            return False
        largest = float(at.potentials.max(initial=-math.inf, where=self.prior > 0))
        most = max_over_ranks(self.matrix.comm, largest)
        most += self.slack.value(at.multipliers) - dot(at.multipliers, self.answers)
        return most < -self.tolerance * float(np.abs(at.multipliers).sum())

    def next_goal(self, at: Place, goal: Goal | None, kkt: float) -> Goal:
        """The goal anchored at this place, or the last one while it is not reached and its steps are few.

        Without kinks the anchor moves at every step.
        """
        steps = self.steps_at_anchor
        if not self.kinked:
            # l2 is curved by itself and needs no pull. gamma 0 is flat where queries are redundant: a small
            # pull, gone at the end, or where it holds up multipliers on their way to a proof that there is no
            # solution.
            slow, self.last_kkt = kkt > SLOW * self.last_kkt, kkt
            least = math.inf if self.slack.w is not None else 1 / (LEAST_PULL + min(LARGEST_PULL, kkt))
            self.looseness = max(least, min(LOOSER * self.looseness, LOOSEST) if slow else 0.0)
        elif goal is not None:
            enough = max(GOAL_GAP * goal.moved(goal.best(at.missed)), ROUNDED_GAP)
            if steps < MOST_STEPS_AT_ANCHOR and (steps == 0 or goal.short(at) > enough):
                return goal
            self.looseness *= LOOSER if steps <= FEW_STEPS else TIGHTER if steps > MANY_STEPS else 1.0
        self.steps_at_anchor = 0
        fitted = at.missed + self.answers
        pull = (np.maximum(fitted * (1 - fitted), 0.0) + LEAST_VARIANCE) / self.looseness
        curve = 0.0 if self.slack.w is None else 1 / self.slack.w
        return Goal(self.slack.gamma if self.kinked else None, curve, at.multipliers, pull)

    def step(self, at: Place, goal: Goal, gap: float) -> Step:
        """Newton's step, which would reach the goal if answers were linear in multipliers.

        gap: of the dual, which with l2 slack is the goal's.
        """
        best = goal.best(at.missed)
        free = best != 0 if self.kinked else np.ones(len(best), bool)
        roughest = ROUGHEST_AT_KINKS if self.kinked else ROUGHEST
        l2 = self.slack.w is not None
        short, enough = (gap, SHARE_LEFT * self.tolerance) if l2 else (goal.short(at), 0.0)
        accuracy = self.exactness * min(roughest, math.sqrt(max(short, LEAST_GAP)))
        ridge, fitted = goal.curve + goal.pull, at.missed + self.answers
        wanted = best - at.multipliers
        step = newton_step(self.matrix, at.weights, fitted, wanted, ridge, free, accuracy, enough, self.share)
        self.passes += step.passes
        return step

    def advance(self, at: Place, goal: Goal, step: Step) -> Place | None:
        """Go as far along a step as lowers the dual (with kinks: the goal's primal); None if nothing does."""
        value, scale, tilted = self._merit(at, goal), 1.0, None
        rise = dot(at.missed + self.answers, step.multipliers)
        if self.kinked:
            # The primal depends on the distribution only: redundant multipliers may move while it stays.
            away = at.multipliers - goal.best(at.missed)
            slope = min(0.0, dot(away, covariances(self.matrix, at.weights, step.potentials, rise)))
            self.passes += 1
        else:
            slope = dot(at.missed + goal.curve * at.multipliers, step.multipliers)
            scale, tilted = self._length(at, step, slope)
        while scale > SHORTEST_STEP:
            trial = self.place(
                at.multipliers + scale * step.multipliers,
                at.potentials + scale * step.potentials,
                at.log_total + scale * rise + LARGEST_RISE,
                tilted,
            )
            # Near the solution the decrease is lost in rounding: a step that is no worse is taken.
            rounding = ROUNDING * (abs(value) + abs(at.log_total) + 1)
            if trial is not None and self._merit(trial, goal) <= value + DECREASE * scale * slope + rounding:
                self.steps_at_anchor += 1
                if scale > SHORT_STEP or not self.kinked:
                    self.exactness = min(1.0, EXACTER * self.exactness)
                else:
                    self.solve_more_exactly(EXACTER)
                return trial
            scale, tilted = scale / 2, None
        return None

    def _length(self, at: Place, step: Step, slope: float) -> tuple[float, tuple[Float64s, float] | None]:
        """How far along a step the dual with l2 slack is least, about, and the distribution there.

        By parabolas through the slope at the step's beginning and the last length that was tried: this takes
        no pass over queries.
        """
        if self.slack.w is None or slope > -LEAST_SLOPE:
            return 1.0, None
        scaled = step.multipliers / self.slack.w
        linear = dot(at.multipliers, scaled) - dot(self.answers, step.multipliers)
        quadratic = dot(step.multipliers, scaled) / 2
        length, least = 1.0, math.inf
        best: tuple[float, tuple[Float64s, float] | None] = length, None
        for _ in range(MOST_LENGTHS):
            tilted = self.tilted(at.potentials + length * step.potentials)
            value = tilted[1] - at.log_total + length * linear + length**2 * quadratic
            if value < least:
                best, least = (length, tilted), value
            bend = value - length * slope
            following = -slope * length**2 / (2 * bend) if bend > 0 else length
            if abs(following - length) <= CLOSE * length:
                break
            length = min(max(following, length / MOST_CHANGE), length * MOST_CHANGE)
        return best

    def solve_more_exactly(self, factor: float) -> bool:
        """Divide the accuracy of further steps by a factor; False if there is no more to gain."""
        possible = self.exactness > LEAST_EXACTNESS
        self.exactness = max(LEAST_EXACTNESS, self.exactness / factor)
        return possible

    def _merit(self, at: Place, goal: Goal) -> float:
        if not self.kinked:
            return at.log_total - dot(at.multipliers, self.answers) + self.slack.value(at.multipliers)
        divergence = dot(at.multipliers, at.missed + self.answers) - at.log_total
        return divergence - goal.paid(goal.best(at.missed), at.missed)


def project(
    matrix: ProjectedQueries,
    prior: Float64s,
    answers: Float64s,
    slack: Slack,
    *,
    multipliers: Float64s | None = None,
    tolerance: float = 1e-9,
    most_steps: int = 300,
    most_passes: int = 20_000,
    threads: int | None = None,
    share: float = ALL,
) -> Projection:
    """Project a prior (weights with sum 1) onto measured answers; starts from earlier multipliers if given.

    share: of the rows, drawn by their weights, that the first Newton step is over; a gap that need not be
    small is reached sooner so.

    Ends when the gap, and with l1 the KKT residual too, is at most the tolerance; or after so many steps or
    passes over rows, or where rounding ends all progress, with the gap reached.
    """
    if share * sum_over_ranks(matrix.comm, len(prior)) < FEW:
        share = ALL
    search = _Search(matrix, prior, answers, slack, tolerance, threads, share)
    start = np.zeros(matrix.count) if multipliers is None else multipliers.copy()
    at = search.place(start, matrix.potentials(start))
    assert at is not None
    goal: Goal | None = None
    steps, feasible, gap = 0, True, math.inf
    while True:
        before, (gap, kkt) = gap, search.certificate(at)
        # With l2 the gap alone bounds the distance from the solution; l1 may violate constraints too.
        done = gap <= tolerance and (slack.gamma is None or kkt <= tolerance)
        feasible = done or not search.proves_infeasible(at)
        if done or not feasible or steps >= most_steps or search.passes >= most_passes:
            break
        if gap > LEFT * before:
            search.share = MORE * search.share if search.share < 1 else ALL
        goal = search.next_goal(at, goal, kkt)
        reached = search.advance(at, goal, search.step(at, goal, gap))
        if reached is not None:
            at, steps = reached, steps + 1
        elif not search.solve_more_exactly(MUCH_EXACTER):
            break
    fitted = at.missed + answers
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
