"""Counts of a release by some attributes, among the rows that satisfy conditions, with their joint errors.

The errors of each refit (errors/intervals.py) are kept for every cell, so that the error of a sum, a share or
a mean of cells follows with the cells' covariance. Released values and the sampling stream only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from privmw.data.conditions import Condition
from privmw.data.workload import LARGEST_ORDER, Workload
from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.kernels.cells import LARGEST_MARGINAL
from privmw.release.errors.expected import NOT_MEASURED
from privmw.release.errors.intervals import REFITS, quantile, refits_of
from privmw.release.errors.response import Response, covering_marginals
from privmw.release.release import Release

MOST_CELLS = 2**18  # of a crosstab: 100 MB of errors
REFIT_SEED = 0  # of the refits, as the default of `Release.intervals`


@dataclass(frozen=True, eq=False)
class Crosstab:
    """Shares of all records by cell, and their errors: refits x cells; None if not offered, with the reason.

    highest: an upper bound for the sum of all cells from the noisy counts alone, for sums below one record.
    """

    answers: Float64s
    errors: Float64s | None
    reason: str
    highest: float


def crosstab_of(
    release: Release, names: Sequence[str], where: Mapping[str, Condition], level: float | None
) -> Crosstab:
    """Count by the attributes `names` (C order, by code) among the rows that satisfy `where`.

    level: of intervals; None: without errors, which take time.
    """
    domain, support = release.support.domain, release.support
    cells = math.prod(domain[name].size for name in names)
    if cells > MOST_CELLS:
        raise ValueError(f"{', '.join(names)} ({cells:,} cells) must have at most {MOST_CELLS:,} cells")
    cell = np.zeros(support.size, np.int64)
    for name in names:
        cell = cell * domain[name].size + support.rows[:, domain.index(name)]
    chosen = np.ones(support.size, bool)
    for name, condition in where.items():
        chosen &= condition.codes[support.rows[:, domain.index(name)]]
    rows = np.flatnonzero(chosen)

    def count(masses: Float64s) -> Float64s:
        return np.bincount(cell[rows], masses[rows], cells).astype(np.float64)

    answers = count(release.weights)
    if level is None:
        return Crosstab(answers, None, "", math.nan)
    limiting = [name for name, condition in where.items() if not condition.codes.all()]
    used = tuple(dict.fromkeys([*names, *limiting]))
    if not used:
        return Crosstab(answers, np.zeros((REFITS, 1)), "", 1.0)
    refits = refits_of(release, REFITS, REFIT_SEED)
    reason, response = refits.reason, refits.response
    cover = -1
    if response is not None and not reason:
        cover = _cover(release, response, used)
        reason = "" if cover >= 0 else f"of {', '.join(used)}, {NOT_MEASURED}"
    if response is None or reason:
        return Crosstab(answers, None, reason, math.nan)
    errors = [count(response.row_errors(start, potentials)) for start, potentials in refits.draws()]
    return Crosstab(answers, np.array(errors), "", _highest(response, cover, where, level))


def standard_errors(errors: Float64s | None, like: Float64s) -> Float64s:
    """The root mean squares of errors by refit, in the shape of `like`; NaN if errors are not offered."""
    if errors is None:
        return np.full(like.shape, math.nan)
    roots: Float64s = np.sqrt(np.square(errors).mean(axis=0))
    return roots


def half_widths(errors: Float64s, level: float) -> Float64s:
    """Half of the widths of intervals with these standard errors."""
    return quantile(level, REFITS) * errors


def _cover(release: Release, response: Response, names: Sequence[str]) -> int:
    """The index of a fully measured marginal with all of these attributes; -1 if none."""
    domain = release.support.domain
    if len(names) > LARGEST_ORDER or math.prod(domain[n].size for n in names) > LARGEST_MARGINAL:
        return -1
    return int(covering_marginals(Workload(domain, [tuple(names)]), response.measured)[0])


def _highest(response: Response, cover: int, where: Mapping[str, Condition], level: float) -> float:
    """The noisy sum of the cells that satisfy the conditions, plus its deviations."""
    first, end = response.measured.offsets[cover : cover + 2].tolist()
    chosen: Bools = np.ones(1, bool)
    for name in response.measured.marginal(cover):
        codes = where[name].codes if name in where else np.ones(response.measured.domain[name].size, bool)
        chosen = np.logical_and.outer(chosen, codes).ravel()
    among: Int64s = first + np.flatnonzero(chosen)
    assert among[-1] < end
    deviation = math.sqrt(float(response.variances[among].sum()))
    noisy = float(response.noisy[among].sum()) + NormalDist().inv_cdf((1 + level) / 2) * deviation
    return min(max(noisy, 0.0), 1.0)
