"""Growth: as the prior weight falls, particles move to where the fit lacks rows.

1. The released values are split into a part to fit and a part to judge by (problem.py).
2. The prior is the start on the public rows and, with `share` of its mass, particles (particles.py).
3. From a heavy prior weight to lighter ones: fit, let the particles follow the multipliers, fit again. A cell
   without rows has a multiplier too, which attracts particles; it is largest before any is there, so that
   a move which would leave few effective particles is made in part, and then fitted to again.
4. The baseline is the weight chosen by the public rows alone. Another weight, at most that one or `free`, is
   taken if its fit has a significantly smaller error on the judging part. So a good public table is left as
   it is, and its particles keep their prior mass. With little noise and few rows the particles may fail
   before: a significantly larger error than at the last weight ends the path, and the best fit so far is
   taken.

Fits and particles overfit the noise of the fitted part, but the judging part has independent noise. Released
values, public rows and the sampling stream only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privmw import kernels
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s, UInt32s
from privmw.models.growth.particles import Particles, effective_number
from privmw.models.growth.problem import Problem
from privmw.models.projection.prior_weight import FIRST_SHARE, LIGHTEST_PRIOR, PRIOR_STEP, choose_prior_weight
from privmw.models.projection.solver import Slack, project
from privmw.models.query_matrix import MarginalMatrix, RowMatrix, matrix_of
from privmw.ranks import Communicator, allgather

COMPLETED_WEIGHT = 10**3.0  # the prior weight of completed rows


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Constants of a path, chosen by benches/studies/growth.py. Weights are in records."""

    share: float = 0.025  # of the prior, for all particles together
    heaviest: float = 10**4.5  # that the public rows may choose; the path of completed rows starts here
    effective: float = 0.5  # share of the particles: a first weight that leaves fewer is too light
    most_moves: int = 5  # at a weight, each after a fit; a move leaves enough effective particles
    free: float = 10**3.5  # weights up to this may be taken whatever the public rows choose
    failed: float = 5.0  # standard deviations by which a larger error ends the path
    # The tolerated gap, in units of the squared noise, of a fit that is judged and of one that particles
    # follow, whose own randomness is far larger.
    gap: float = 1.0
    rough_gap: float = 10.0
    uniform: float = 0.025  # share of a base distribution, so that every value can be drawn
    rounding: float = 1.001  # relative difference within which two weights are equal


PATH = PathSettings()


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """The particles at the chosen weight. Multipliers: one per cell of the problem."""

    records: UInt32s
    log_prior: Float64s  # of each particle; normalised to sum to one
    weight: float
    multipliers: Float64s
    answers: Float64s  # fitted


class Path:
    """Particles that move as the prior weight of a problem falls, and the fits on the way.

    start: the weights of the support's rows; count: of particles.
    """

    def __init__(
        self,
        support: Support,
        start: Float64s,
        problem: Problem,
        one_ways: Problem,
        count: int,
        stream: np.random.Generator,
        threads: int | None,
    ) -> None:
        masses = _masses(support, start)
        parents = _draw_rows(support, masses, stream.integers(0, 2**62, count))
        base = _base(support, masses, one_ways, threads)
        self._fits = _Fits(support, start, problem, threads)
        self._particles = Particles(parents, base, problem.workload, support.constraints, stream, threads)

    def down_to_fixed(self) -> Grown:
        """Stop at a fixed prior weight: completed rows were fitted to the same noise, so there is no held-out
        part to judge by.
        """
        return next(
            grown
            for grown in self.down_from(PATH.heaviest)
            if grown.weight <= COMPLETED_WEIGHT * PATH.rounding
        )

    def best_by_holdout(self, problem: Problem, judge: Problem) -> Grown:
        """The fit of smallest error on the judging part of the problem."""
        chosen = self._fits.weight_of_rows(problem)
        heaviest = max(chosen, PATH.free)
        passed: list[Grown] = []
        baseline: Grown | None = None
        for grown in self.down_from(heaviest):
            gain, chance = _gain(judge, grown.answers, passed[-1].answers) if passed else (math.inf, 0.0)
            if baseline is None and gain < -PATH.failed * chance:
                # The fit got significantly worse before reaching the rows' own prior weight.
                baseline, heaviest = passed[-1], math.inf
                break
            passed.append(grown)
            if baseline is not None and gain < -chance:
                break
            if baseline is None and grown.weight <= chosen * PATH.rounding:
                baseline = grown  # at the rows' own prior weight
        assert baseline is not None
        best, best_gain = baseline, 0.0
        for grown in passed:
            gain, chance = _gain(judge, grown.answers, baseline.answers)
            if grown.weight <= heaviest * PATH.rounding and gain > max(best_gain, chance):
                best, best_gain = grown, gain
        return best

    def down_from(self, weight: float) -> Iterator[Grown]:
        """The fit and particles at each weight, from this one (or a heavier one) down."""
        particles = self._particles
        weight = self._first_weight(weight)
        multipliers: Float64s | None = None
        while weight >= LIGHTEST_PRIOR:
            for _ in range(PATH.most_moves):
                multipliers, _ = self._fits.fit(particles, weight, multipliers, PATH.rough_gap)
                if particles.follow(multipliers):
                    break
            multipliers, fitted = self._fits.fit(particles, weight, multipliers, PATH.gap)
            yield Grown(particles.records, particles.log_prior(), weight, multipliers, fitted)
            weight /= PRIOR_STEP

    def _first_weight(self, weight: float) -> float:
        """Return the weight, or the first of heavier ones at which the particles can follow the fit.

        A record is in one cell of every marginal, so that small multipliers add up; and those of cells
        without rows are larger than any fit with rows would leave them. At a heavy weight the fit is near
        the prior, and a multiplier is the prior's error times precision / weight.
        """
        change = self._particles.change(self._fits.prior_errors(self._particles))
        while effective_number(change / weight) < PATH.effective * len(change):
            weight *= PRIOR_STEP
        return weight


def _gain(judge: Problem, one: Float64s, other: Float64s) -> tuple[float, float]:
    """The error of `other` less that of `one` on the judging part, and its standard deviation.

    The sum over cells of w ((other - a)^2 - (one - a)^2) / variance, where the weight w, the mean of both
    answers, keeps the many nearly empty cells from dominating. Linear in a, so that its noise is known.
    """
    difference = (one + other) / 2 * (one - other)
    gain = float(np.einsum("i,i,i->", difference, 2 * judge.answers - one - other, judge.precision))
    return gain, 2 * math.sqrt(float(np.einsum("i,i,i->", difference, difference, judge.precision)))


class _Fits:
    """Fits of a problem on the public rows and particles."""

    def __init__(self, support: Support, start: Float64s, problem: Problem, threads: int | None) -> None:
        self._problem, self._threads, self._comm = problem, threads, support.comm
        self._start, self._sizes = start, support.domain.sizes
        self.public = self._marginals(support.columns)
        self._made: tuple[UInt32s, MarginalMatrix | RowMatrix] | None = None  # for which particles
        self._share = FIRST_SHARE  # of the rows, in Newton's steps

    def weight_of_rows(self, problem: Problem) -> float:
        """The prior weight chosen for a problem with the rows of the support alone."""
        matrix = matrix_of(problem.workload, problem.precision, self.public, self._threads, self._comm)
        answers, precision = problem.answers[matrix.cells], problem.precision[matrix.cells]
        weight, _ = choose_prior_weight(matrix, self._start, answers, precision, heaviest=PATH.heaviest)
        return weight

    def fit(
        self, particles: Particles, weight: float, multipliers: Float64s | None, gap: float
    ) -> tuple[Float64s, Float64s]:
        """The multipliers and fitted answers of all cells at a prior weight, starting from `multipliers`."""
        problem, matrix = self._problem, self._matrix(particles.records)
        prior = self._prior(particles)
        answers, precision = problem.answers[matrix.cells], problem.precision[matrix.cells]
        fit = project(
            matrix,
            prior,
            answers,
            Slack(w=precision / weight),
            multipliers=None if multipliers is None else multipliers[matrix.cells],
            tolerance=gap / weight,
            share=self._share,
        )
        self._share = fit.share
        fitted = np.zeros(len(problem.answers))
        fitted[matrix.cells] = fit.answers
        # A cell without rows answers 0; its multiplier is optimal at that error.
        all_multipliers = (problem.answers - fitted) * problem.precision / weight
        all_multipliers[matrix.cells] = fit.multipliers
        return all_multipliers, fitted

    def prior_errors(self, particles: Particles) -> Float64s:
        """The measured answers less those of the prior, times their precision."""
        matrix, fitted = self._matrix(particles.records), np.zeros(len(self._problem.answers))
        fitted[matrix.cells] = matrix.sums(self._prior(particles))
        return (self._problem.answers - fitted) * self._problem.precision

    def _prior(self, particles: Particles) -> Float64s:
        """The prior weights of the public rows and of this rank's particles."""
        own = _own(len(particles.records), self._comm)
        prior, _ = kernels.tilt(
            np.concatenate([(1 - PATH.share) * self._start, np.full(own.stop - own.start, PATH.share)]),
            np.concatenate([np.zeros(len(self._start)), particles.log_prior()[own]]),
            threads=self._threads,
            comm=self._comm,
        )
        return prior

    def _matrix(self, records: UInt32s) -> MarginalMatrix | RowMatrix:
        """The measured cells over the public rows and these particles; kept until the particles change."""
        if self._made is None or self._made[0] is not records:
            problem, own = self._problem, records[_own(len(records), self._comm)]
            public = self.public.columns.columns
            codes = [np.concatenate([c, own[:, a].astype(c.dtype)]) for a, c in enumerate(public)]
            marginals = self.public.over(kernels.Columns(codes, self._sizes), threads=self._threads)
            matrix = matrix_of(problem.workload, problem.precision, marginals, self._threads, self._comm)
            self._made = records, matrix
        return self._made[1]

    def _marginals(self, columns: kernels.Columns) -> kernels.Marginals:
        workload = self._problem.workload
        return kernels.Marginals(columns, workload.attributes, workload.starts, threads=self._threads)


def _own(count: int, comm: Communicator) -> slice:
    """The particles whose weights this rank fits."""
    return slice(count * comm.rank // comm.size, count * (comm.rank + 1) // comm.size)


def _masses(support: Support, start: Float64s) -> Int64s:
    """The weights of rows as integers, the same on any number of ranks."""
    scaled = start.copy()
    kernels.rescale(scaled, comm=support.comm)
    masses, _ = kernels.to_masses(scaled, comm=support.comm)
    return masses


def _draw_rows(support: Support, masses: Int64s, words: Int64s) -> UInt32s:
    """A row of the support for each word, in proportion to masses; the same whatever ranks hold the rows.

    words: below 2^62, as is the total of the masses.
    """
    order = support.hash_order()
    ends = np.cumsum(masses[order])
    totals = allgather(support.comm, ends[-1:])[:, 0].tolist()
    before, total = sum(totals[: support.comm.rank]), sum(totals)
    points = (words.astype(object) * total >> 62).astype(np.int64) - before
    places = np.searchsorted(ends, points, "right")
    here = (points >= 0) & (places < len(ends))
    codes = np.zeros((len(words), len(support.domain)), np.int64)
    rows = order[places[here]]
    for a, column in enumerate(support.table.columns):
        codes[here, a] = column[rows]
    support.comm.allreduce(codes.reshape(-1))
    return codes.astype(np.uint32)


def _base(support: Support, masses: Int64s, one_ways: Problem, threads: int | None) -> list[Float64s]:
    """For each attribute the distribution of values that a particle does not take from its parent.

    The mean of the start's and of the measured shares above their noise, mixed with a little of the uniform
    distribution.
    """
    workload = Workload.all(support.domain, k=1)
    marginals = kernels.Marginals(support.columns, workload.attributes, workload.starts, threads=threads)
    sums = marginals.sums(masses, threads=threads)
    support.comm.allreduce(sums)
    measured = dict(zip(one_ways.workload, range(len(one_ways.workload)), strict=True))
    base = []
    for a, name in enumerate(support.domain.names):
        begun = sums[workload.offsets[a] : workload.offsets[a + 1]]
        shares = begun / begun.sum()
        if (name,) in measured:
            cells = one_ways.workload.cells_of([measured[name,]])
            answers, precision = one_ways.answers[cells], one_ways.precision[cells]
            seen = np.where(answers * np.sqrt(precision) > 1, answers, 0.0)
            if seen.any():
                shares = (shares + seen / seen.sum()) / 2
        base.append((1 - PATH.uniform) * shares + PATH.uniform / len(shares))
    return base
