"""Intervals for the truth by what was measured alone: quick, for every algorithm, and wider than fitted ones.

A marginal that was measured whole gives an unbiased noisy share of each cell of a marginal inside it, by
sums. All marginals that contain the asked one are combined by inverse variances. So an interval says what the
noisy counts know of a cell, whatever the release made of them; how far a released answer may be off is its
distance to the farther end. Released values only, and nothing is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, freeze
from privmw.kernels.checks import check_number
from privmw.release.errors.response import whole_marginals
from privmw.release.measurements import combine

if TYPE_CHECKING:
    from privmw.release.release import Release


@dataclass(frozen=True, eq=False)
class MeasuredIntervals:
    """An interval of the truth for each cell of a workload, as fractions; NaN where none was measured.

    noisy: each cell's combined noisy share, which may lie outside 0 to 1; deviations: of the noise in it. The
    noise of two cells of one marginal is independent: no measured cell lies in both.
    """

    workload: Workload
    level: float
    low: Float64s
    high: Float64s
    noisy: Float64s
    deviations: Float64s

    @property
    def offered(self) -> Bools:
        """Whether each cell has an interval."""
        return ~np.isnan(self.low)


def measured_intervals_of(
    release: Release, level: float = 0.95, workload: Workload | None = None
) -> MeasuredIntervals:
    """The intervals of a workload's cells, by default of the release's workload.

    >>> from privmw import Domain, PEP, Support, Table, Workload
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> asked, support = Workload.all(domain, k=2), Support.full(domain)
    >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, asked, rng=0)
    >>> found = measured_intervals_of(release, 0.99, Workload(domain, [("sex",)]))
    >>> bool(found.low[0] < 1 / 3 < found.high[0]), bool(found.low[1] < 2 / 3 < found.high[1])
    (True, True)
    """
    level = check_number("level", level)
    if not 0 < level < 1:
        raise ValueError(f"level ({level}) must be above 0 and below 1")
    asked = release.workload if workload is None else workload
    release.support.marginals(asked)  # refuses what is no workload, or of another domain
    noisy, precisions = np.zeros(asked.cells), np.zeros(asked.cells)
    _gather(release, asked, noisy, precisions)
    known = precisions > 0
    deviations = np.full(asked.cells, math.nan)
    deviations[known] = 1 / np.sqrt(precisions[known])
    # The truth lies between 0 and 1: moving the middle there never takes it farther from the truth.
    shares = noisy * np.square(deviations)
    middle = np.clip(shares, 0.0, 1.0)
    reach = quantile_of(release, level) * deviations
    low, high = np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)
    return MeasuredIntervals(asked, level, freeze(low), freeze(high), freeze(shares), freeze(deviations))


def _gather(release: Release, asked: Workload, noisy: Float64s, precisions: Float64s) -> None:
    """Add to each cell of `asked` its noisy shares, each over its variance, and the inverse variances."""
    measured, domain = release.measured, release.support.domain
    if not release.measurements or not len(measured):
        return
    combined = combine(release.measurements, release.n)
    whole = np.flatnonzero(whole_marginals(release))
    begins = np.searchsorted(combined.cells, measured.offsets[whole])
    wanted = {_positions(asked, j): slice(*asked.offsets[j : j + 2].tolist()) for j in range(len(asked))}
    orders = sorted({len(positions) for positions in wanted})
    for j, begin in zip(whole.tolist(), begins.tolist(), strict=True):
        positions = _positions(measured, j)
        inside = [
            (names, wanted[names])
            for order in orders
            for names in combinations(positions, order)
            if names in wanted
        ]
        if not inside:
            continue
        shape = [domain.sizes[a] for a in positions]
        part = slice(begin, begin + math.prod(shape))
        answers, variances = (array[part].reshape(shape) for array in (combined.answers, combined.variances))
        alike = variances.flat[0] if np.ptp(variances) == 0 else None
        for names, cells in inside:
            summed = tuple(axis for axis, a in enumerate(positions) if a not in names)
            shares = answers.sum(axis=summed).ravel()
            if alike is not None:
                precision = len(shares) / (alike * answers.size)
            else:
                precision = 1 / variances.sum(axis=summed).ravel()
            noisy[cells] += precision * shares
            precisions[cells] += precision


def pair_deviations(release: Release) -> dict[tuple[int, int], float]:
    """The deviation of the noise in a cell of each pair of attributes that some measured marginal has.

    The same as that of `measured_intervals_of`, from the sizes alone: quick for thousands of marginals. Where
    the cells of a marginal carry different noise it is that of their mean variance.
    """
    measured = release.measured
    if not release.measurements or not len(measured):
        return {}
    combined = combine(release.measurements, release.n)
    variances = np.zeros(measured.cells)
    variances[combined.cells] = combined.variances
    whole = whole_marginals(release)
    totals = np.add.reduceat(variances, measured.offsets[:-1])
    precisions: dict[tuple[int, int], float] = {}
    sizes = release.support.domain.sizes
    for j in np.flatnonzero(whole).tolist():
        for a, b in combinations(_positions(measured, j), 2):
            precisions[a, b] = precisions.get((a, b), 0.0) + sizes[a] * sizes[b] / float(totals[j])
    return {pair: 1 / math.sqrt(precision) for pair, precision in sorted(precisions.items())}


def _positions(workload: Workload, j: int) -> tuple[int, ...]:
    return tuple(workload.attributes[workload.starts[j] : workload.starts[j + 1]].tolist())


def quantile_of(release: Release, level: float) -> float:
    """How many deviations hold the noise with this probability: sums of Laplace noise have lighter tails."""
    normal = NormalDist().inv_cdf((1 + level) / 2)
    laplace = any("laplace" in measurement.noise for measurement in release.measurements)
    return max(normal, -math.log(1 - level) / math.sqrt(2)) if laplace else normal
