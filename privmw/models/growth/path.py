"""Growth: down a path of prior weights, particles move to where the fit lacks rows; thinning ends the path.

1. The released values are thinned into a part to fit and a part to judge by (problem.py).
2. The prior is the start on the public rows and, with SHARE of its mass, particles (particles.py).
3. From a heavy prior weight to lighter ones: fit, let the particles follow the multipliers, fit again. A cell
   that no row holds has a multiplier too, which draws particles into it.
4. The weight that the public rows choose for themselves is the one to beat: another, not heavier than it or
   FREE, is taken if its fit errs less on the judging part than chance explains. So a good public table is
   left as it is, and its particles carry what they carried in the prior. Where little noise meets few rows,
   particles may lose their way before: a fit that surely errs more than the one before it ends the path, and
   the best until then is taken.

Fits chase the noise of the part that was fitted, and particles do too, but the other part does not share it.
Released values, public rows and the sampling stream only.
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
from privmw.models.growth.particles import Particles
from privmw.models.growth.problem import Problem
from privmw.models.projection.prior_weight import LEAST_SHARE, LIGHTEST, STEP, choose_prior_weight
from privmw.models.projection.solver import Slack, project
from privmw.models.query_matrix import MarginalMatrix, RowMatrix, matrix_of
from privmw.ranks import Communicator, allgather

SHARE = 0.025  # of the prior, which the particles have together
HEAVIEST = 10**4.5  # that the rows may choose, in records; the path of completed rows starts there
STEEPEST = 3.0  # pull, in nats, of a cell missed by all records: a steeper one leaves few particles
OF_COMPLETED = 10**3.0  # the weight of completed rows
FREE = 10**3.5  # a weight up to this may be taken whatever the public rows choose
SURELY = 5.0  # in standard deviations: a fit that errs so much more than the one before it ends the path
# The gaps of fits on the way, in units of the squared noise that errors are counted in: of one that is
# judged, and of one that particles follow, whose own chance is far larger.
GAP, ROUGH_GAP = 1.0, 10.0
UNIFORM = 0.025  # of a base distribution, so that every value can be drawn
ROUNDING = 1.001  # a weight so far from a bound is still at it


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """The particles of the weight that was chosen. Multipliers are one for each cell of the problem."""

    records: UInt32s
    log_prior: Float64s  # of each particle; together they are one
    weight: float
    multipliers: Float64s
    answers: Float64s  # to the part that was fitted


class Path:
    """Particles that move as the prior weight of a problem falls, and the fits on the way.

    start: the weights of the support's rows; count: how many particles there are.
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
        self._precision = float(problem.precision.max())
        self._fits = _Fits(support, start, problem, threads)
        self._particles = Particles(parents, base, problem.workload, support.constraints, stream, threads)

    def down_to_fixed(self) -> Grown:
        """Go to a fixed weight: rows that released values completed know all of their noise already."""
        return next(grown for grown in self.down_from(HEAVIEST) if grown.weight <= OF_COMPLETED * ROUNDING)

    def judged(self, whole: Problem, judge: Problem) -> Grown:
        """Go to the weight that is best by the judging part of the whole problem."""
        chosen = self._fits.weight_of_rows(whole)
        heaviest = max(chosen, FREE)
        passed: list[Grown] = []
        settled: Grown | None = None
        for grown in self.down_from(heaviest):
            gain, chance = _gain(judge, grown.answers, passed[-1].answers) if passed else (math.inf, 0.0)
            if settled is None and gain < -SURELY * chance:
                # The particles have lost their way before the weight that the rows alone choose.
                settled, heaviest = passed[-1], math.inf
                break
            passed.append(grown)
            if settled is not None and gain < -chance:
                break
            if settled is None and grown.weight <= chosen * ROUNDING:
                settled = grown  # at the weight that the rows alone choose
        assert settled is not None
        best, most = settled, 0.0
        for grown in passed:
            gain, chance = _gain(judge, grown.answers, settled.answers)
            if grown.weight <= heaviest * ROUNDING and gain > max(most, chance):
                best, most = grown, gain
        return best

    def down_from(self, weight: float) -> Iterator[Grown]:
        """What has grown at each weight, from this one (or from where that is not too steep) to lighter."""
        particles = self._particles
        while weight * STEEPEST < self._precision:
            weight *= STEP
        multipliers: Float64s | None = None
        while weight >= LIGHTEST:
            multipliers, _ = self._fits.fit(particles, weight, multipliers, ROUGH_GAP)
            particles.follow(multipliers)
            multipliers, fitted = self._fits.fit(particles, weight, multipliers, GAP)
            yield Grown(particles.records, particles.log_prior(), weight, multipliers, fitted)
            weight /= STEP


def _gain(judge: Problem, one: Float64s, other: Float64s) -> tuple[float, float]:
    """How much less one fit errs than another by the judging part, and the standard deviation of that.

    The sum over cells of w ((other - a)^2 - (one - a)^2) / variance, w the mean of both answers: heavy cells
    have the largest errors, and cells of almost nothing are many. Linear in a, so that its noise is known.
    """
    apart = (one + other) / 2 * (one - other)
    gain = float(np.einsum("i,i,i->", apart, 2 * judge.answers - one - other, judge.precision))
    return gain, 2 * math.sqrt(float(np.einsum("i,i,i->", apart, apart, judge.precision)))


class _Fits:
    """Fits of a problem on the public rows and particles."""

    def __init__(self, support: Support, start: Float64s, problem: Problem, threads: int | None) -> None:
        self._problem, self._threads, self._comm = problem, threads, support.comm
        self._start, self._sizes = start, support.domain.sizes
        self.public = self._marginals(support.columns)
        self._made: tuple[UInt32s, MarginalMatrix | RowMatrix] | None = None  # of which particles
        self._share = LEAST_SHARE  # of the rows, for Newton's steps

    def weight_of_rows(self, problem: Problem) -> float:
        """The prior weight that the rows of the support alone choose for a problem."""
        matrix = matrix_of(problem.workload, problem.precision, self.public, self._threads, self._comm)
        answers, precision = problem.answers[matrix.cells], problem.precision[matrix.cells]
        start, threads = self._start, self._threads
        weight, _ = choose_prior_weight(matrix, start, answers, precision, threads, heaviest=HEAVIEST)
        return weight

    def fit(
        self, particles: Particles, weight: float, multipliers: Float64s | None, gap: float
    ) -> tuple[Float64s, Float64s]:
        """The multipliers of all cells at a prior weight, and the answers, from earlier multipliers."""
        problem, own = self._problem, _own(len(particles.records), self._comm)
        records = particles.records[own]
        matrix = self._matrix(particles.records)
        prior, _ = kernels.tilt(
            np.concatenate([(1 - SHARE) * self._start, np.full(len(records), SHARE)]),
            np.concatenate([np.zeros(len(self._start)), particles.log_prior()[own]]),
            threads=self._threads,
            comm=self._comm,
        )
        answers, precision = problem.answers[matrix.cells], problem.precision[matrix.cells]
        fit = project(
            matrix,
            prior,
            answers,
            Slack(w=precision / weight),
            multipliers=None if multipliers is None else multipliers[matrix.cells],
            tolerance=gap / weight,
            threads=self._threads,
            share=self._share,
        )
        self._share = fit.share
        fitted = np.zeros(len(problem.answers))
        fitted[matrix.cells] = fit.answers
        # A cell that no row holds is answered by 0, and its multiplier is what would be best there.
        found = (problem.answers - fitted) * problem.precision / weight
        found[matrix.cells] = fit.multipliers
        return found, fitted

    def _matrix(self, records: UInt32s) -> MarginalMatrix | RowMatrix:
        """The measured cells over the public rows and these particles; made once while those stay."""
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
    """The weights of rows as integers: any number of ranks has the same."""
    scaled = start.copy()
    kernels.rescale(scaled, comm=support.comm)
    masses, _ = kernels.to_masses(scaled, comm=support.comm)
    return masses


def _draw_rows(support: Support, masses: Int64s, words: Int64s) -> UInt32s:
    """A row of the support for each word, in proportion to masses; the same whatever ranks hold the rows.

    words: below 2^62, and so is the total of the masses.
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

    The start's, half and half with what was measured where that is above its noise; and a little of each
    value, so that none is out of reach.
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
        base.append((1 - UNIFORM) * shares + UNIFORM / len(shares))
    return base
