"""Intervals for the truth from the measurements alone: quick, for every algorithm, wider than fitted ones.

Sums over a fully measured marginal give unbiased noisy shares of the cells of every marginal inside it. Those
from all containing marginals are averaged by inverse variance. The interval does not depend on the released
answer; the error of that answer is at most its distance to the farther end. Released values only;
deterministic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, freeze
from privmw.kernels.checks import check_number
from privmw.release.chance import quantile
from privmw.release.errors.response import fully_measured
from privmw.release.measurements import combine

if TYPE_CHECKING:
    from privmw.release.release import Release


@dataclass(frozen=True, eq=False)
class MeasuredIntervals:
    """An interval of the truth for each cell of a workload, as fractions; NaN where nothing was measured.

    noisy: each cell's averaged noisy share, which may lie outside 0 to 1; deviations: the standard deviation
    of its noise. The noise of two cells of one marginal is independent: they share no measured cell.
    """

    workload: Workload
    level: float
    low: Float64s
    high: Float64s
    noisy: Float64s
    deviations: Float64s

    @property
    def offered(self) -> Bools:
        """True for each cell with an interval."""
        return ~np.isnan(self.low)


def measured_intervals_of(
    release: Release, level: float = 0.95, workload: Workload | None = None
) -> MeasuredIntervals:
    """Intervals of a workload's cells (default: the release's workload).

    >>> from privmw import Domain, PEP, Support, Table, Workload
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> target, support = Workload.all(domain, k=2), Support.full(domain)
    >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, target, rng=0)
    >>> intervals = measured_intervals_of(release, 0.99, Workload(domain, [("sex",)]))
    >>> bool(intervals.low[0] < 1 / 3 < intervals.high[0]), bool(intervals.low[1] < 2 / 3 < intervals.high[1])
    (True, True)
    """
    level = check_number("level", level)
    if not 0 < level < 1:
        raise ValueError(f"level ({level}) must be above 0 and below 1")
    target = release.workload if workload is None else workload
    release.support.marginals(target)  # checks the workload and its domain
    noisy, precisions = np.zeros(target.cells), np.zeros(target.cells)
    _gather(release, target, noisy, precisions)
    measured = precisions > 0
    deviations = np.full(target.cells, math.nan)
    deviations[measured] = 1 / np.sqrt(precisions[measured])
    # The truth lies in [0, 1], so clipping the middle never increases its error.
    shares = noisy * np.square(deviations)
    middle = np.clip(shares, 0.0, 1.0)
    reach = quantile_of(release, level) * deviations
    low, high = np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)
    return MeasuredIntervals(target, level, freeze(low), freeze(high), freeze(shares), freeze(deviations))


def _gather(release: Release, target: Workload, noisy: Float64s, precisions: Float64s) -> None:
    """Add up each cell's noisy shares, times their precisions, and the precisions (inverse variances)."""
    measured, domain = release.measured, release.support.domain
    if not release.measurements or not len(measured):
        return
    combined = combine(release.measurements, release.n)
    indices = np.flatnonzero(fully_measured(release))
    begins = np.searchsorted(combined.cells, measured.offsets[indices])
    slices = {_positions(target, j): slice(*target.offsets[j : j + 2].tolist()) for j in range(len(target))}
    orders = sorted({len(positions) for positions in slices})
    for j, begin in zip(indices.tolist(), begins.tolist(), strict=True):
        positions = _positions(measured, j)
        inside = [
            (names, slices[names])
            for order in orders
            for names in combinations(positions, order)
            if names in slices
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
    """Standard deviation of a cell's noise, for each pair of attributes inside a measured marginal.

    Equals `deviations` of `measured_intervals_of`, but from sizes alone: quick for thousands of marginals. If
    the cells of a marginal carry different noise, their mean variance is used.
    """
    measured = release.measured
    if not release.measurements or not len(measured):
        return {}
    combined = combine(release.measurements, release.n)
    variances = np.zeros(measured.cells)
    variances[combined.cells] = combined.variances
    full = fully_measured(release)
    totals = np.add.reduceat(variances, measured.offsets[:-1])
    precisions: dict[tuple[int, int], float] = {}
    sizes = release.support.domain.sizes
    for j in np.flatnonzero(full).tolist():
        for a, b in combinations(_positions(measured, j), 2):
            precisions[a, b] = precisions.get((a, b), 0.0) + sizes[a] * sizes[b] / float(totals[j])
    return {pair: 1 / math.sqrt(precision) for pair, precision in sorted(precisions.items())}


def _positions(workload: Workload, j: int) -> tuple[int, ...]:
    return tuple(workload.attributes[workload.starts[j] : workload.starts[j + 1]].tolist())


def quantile_of(release: Release, level: float) -> float:
    """Two-sided quantile of the noise, in deviations; exact for one draw, as sums have lighter tails."""
    families = {measurement.distribution.family for measurement in release.measurements}
    return quantile(level, heavy_tailed=any(family.heavy_tailed for family in families))
