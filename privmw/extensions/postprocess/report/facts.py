"""The figures of a fit: its agreement with the noisy answers, marginal by marginal, and what it cost.

They come from released values and public rows alone. Everything is arithmetic on whole arrays, so that
millions of cells take seconds. This file draws no picture and writes no page.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmw.data.domain import plain
from privmw.extensions.postprocess import Fit, ols
from privmw.kernels.arrays import Float64s
from privmw.release.agreement import Agreement, compare
from privmw.release.by_attribute import ComparedCells
from privmw.report.formats import cell_name, mechanism, number, plural

MOST_COMPARED_ROWS = 2**20  # more rows are not compared with ordinary least squares
MOST_COMPARED_QUERIES = 2500  # the same for queries, where single rows were not measured
SOLVED, NEARLY = 1e-8, 1e-6

METHOD_DESCRIPTIONS = {
    "ols": "ordinary least squares: of all weights, negative ones too, those that fit best",
    "nnls": "non-negative least squares (NNLS): of all weights that are not negative, those that fit best",
    "max_fit": "MaxFit: the least largest gap in units of the noise, and within it the best fit",
    "sequential": "sequential fitting: marginals in order of priority, each as the earlier ones allow",
    "reweight": "ReWeight: non-negative least squares where low answers count together rather than alone",
}


def agreement(fit: Fit) -> Agreement:
    """Fitted answers beside noisy ones, in counts, for the cells that were measured."""
    measured = fit.measured
    cells = np.flatnonzero(np.isfinite(measured.variances))
    heavy_tailed = np.array([noise is None or noise.family.heavy_tailed for noise in measured.noises])
    cells_of = np.diff(np.searchsorted(cells, measured.offsets))
    compared = ComparedCells(
        cells,
        measured.noisy_counts[cells],
        fit.fitted_counts()[cells],
        np.sqrt(measured.variances[cells]),
        np.repeat(heavy_tailed, cells_of),
        several=np.repeat([noise is None for noise in measured.noises], cells_of),
    )
    return compare(compared)


@dataclass(frozen=True)
class MarginalGaps:
    """One marginal: how many of its cells were measured, with what noise, and how far the fit misses them."""

    name: str
    cells: int
    noise: str
    deviation: float
    largest: float
    root_mean_square: float
    where: str


def marginal_gaps(fit: Fit, most: int) -> list[MarginalGaps]:
    """The marginals that the fit misses most, in units of the noise, the worst first."""
    measured, missed = fit.measured, np.abs(fit.residuals())
    starts = np.array(measured.offsets[:-1])
    largest = np.maximum.reduceat(missed, starts)
    known = np.isfinite(measured.variances)
    counts = np.add.reduceat(known, starts, dtype=np.int64)
    squares = np.add.reduceat(missed**2, starts) / counts
    gaps = []
    for j in np.argsort(-largest, kind="stable")[:most].tolist():
        cells = slice(measured.offsets[j], measured.offsets[j + 1])
        noise = measured.noises[j]
        gaps.append(
            MarginalGaps(
                " × ".join(plain(name, 30) for name in measured.marginals[j]) or "total",
                int(counts[j]),
                "several kinds" if noise is None else mechanism(noise.name).removesuffix(" noise"),
                float(np.sqrt(np.median(measured.variances[cells][known[cells]]))),
                float(largest[j]),
                float(np.sqrt(squares[j])),
                name_of(fit, measured.offsets[j] + int(missed[cells].argmax())),
            )
        )
    return gaps


@dataclass(frozen=True)
class UnreachedCell:
    """A cell that no row lies in, its noisy answer, and how many deviations that is from 0."""

    name: str
    noisy: float
    missed: float


def unreached(fit: Fit, most: int) -> tuple[int, list[UnreachedCell]]:
    """How many measured cells no row of the support lies in, and those with the largest gaps."""
    cells = np.flatnonzero(fit.unreachable() & np.isfinite(fit.measured.variances))
    missed = np.abs(fit.residuals()[cells])
    worst = np.argsort(-missed, kind="stable")[:most]
    return len(cells), [
        UnreachedCell(
            name_of(fit, int(cells[i])), float(fit.measured.noisy_counts[cells[i]]), float(missed[i])
        )
        for i in worst.tolist()
    ]


@dataclass(frozen=True, eq=False)
class ChangeFromOLS:
    """How a fit differs from ordinary least squares, which know no constraint.

    free: the answers of ordinary least squares to the measured cells; changes: how much more the fit answers,
    in deviations of the noise.
    """

    free: Float64s
    changes: Float64s
    total_before: float
    total_after: float

    @property
    def largest(self) -> float:
        """The largest change of any answer."""
        return float(np.abs(self.changes).max())

    @property
    def root_mean_square(self) -> float:
        """The root mean square of all changes."""
        return float(np.sqrt(np.square(self.changes).mean()))


def change_from_ols(fit: Fit) -> ChangeFromOLS | None:
    """Compare a fit with ordinary least squares to the same answers; None where that would take too long."""
    all_places = tuple(range(len(fit.domain)))
    queries = sum(
        b - a
        for places, a, b in zip(
            fit.measured.places, fit.measured.offsets, fit.measured.offsets[1:], strict=False
        )
        if places != all_places
    )
    if len(fit.weights) > MOST_COMPARED_ROWS or not (
        fit.certificate.unique or queries <= MOST_COMPARED_QUERIES
    ):
        return None
    free = ols(fit.measured, fit.support)
    if free.certificate.kkt > NEARLY:
        return None
    known = np.isfinite(fit.measured.variances)
    before = free.fitted_counts()[known]
    changes = (fit.fitted_counts()[known] - before) / np.sqrt(fit.measured.variances[known])
    return ChangeFromOLS(before, changes, float(free.weights.sum()), float(fit.weights.sum()))


def certificate_in_words(fit: Fit) -> list[str]:
    """What was fitted and how well, in a few sentences.

    >>> from privmw import Domain
    >>> from privmw.extensions.postprocess import NoisyMarginal, NoisyMarginals, nnls
    >>> histogram = NoisyMarginal(("sex",), [4.0, -1.0], noise="laplace", scale=2.0)
    >>> print(certificate_in_words(nnls(NoisyMarginals([histogram], Domain({"sex": 2}))))[0])
    2 rows, all that the domain has, weigh 4 records. They fit 2 noisy answers to 1 marginal.
    """
    certificate, measured = fit.certificate, int(np.isfinite(fit.measured.variances).sum())
    rows = plural(len(fit.weights), "row")
    which = "all that the domain has" if fit.support is None else "those of the support"
    solved = "NOT SOLVED"
    if certificate.kkt <= NEARLY:
        solved = "Solved" if certificate.kkt <= SOLVED else "Nearly solved"
    lines = [
        f"{rows}, {which}, weigh {number(fit.weights.sum())} records. They fit "
        f"{plural(measured, 'noisy answer')} to {plural(len(fit.measured), 'marginal')}.",
        f"{solved}: the largest move that a row would still make is {certificate.kkt:.1e} of the "
        f"largest answer"
        + (
            f", and fixed answers are off by at most {certificate.violation:.1e} of it."
            if certificate.violation
            else "."
        ),
    ]
    bounds = [stage.bound for stage in certificate.stages if stage.bound is not None]
    if bounds:
        lines.append(
            f"Of all weights, the least largest gap is about {number(bounds[0])} standard deviations."
        )
    farthest = name_of(fit, int(np.abs(fit.residuals()).argmax()))
    lines.append(
        f"The largest gap between a noisy answer and the fitted one is {number(certificate.misfit)} standard "
        f"deviations of the noise ({farthest})."
    )
    count = unreached(fit, 0)[0]
    if count:
        lines.append(
            f"No row of the support lies in {plural(count, 'measured cell')}: what was measured there is "
            f"missed, by up to {number(certificate.unreached)} standard deviations."
        )
    lines.append(
        "No other weights fit as well."
        if certificate.unique
        else "Other weights fit as well, with the same fitted answers: what was not measured rests on "
        + ("equal weights." if fit.support is None else "the public frequencies.")
    )
    negative = int(np.count_nonzero(fit.weights < 0))
    if negative:
        below = number(fit.weights[fit.weights < 0].sum())
        lines.append(f"{plural(negative, 'weight')} below 0 (together {below}): no records can have these.")
    return lines


def name_of(fit: Fit, cell: int) -> str:
    """The name of a cell of the measured marginals."""
    measured = fit.measured
    j = int(np.searchsorted(measured.offsets, cell, "right")) - 1
    shape = [fit.domain.sizes[place] for place in measured.places[j]]
    values = [int(value) for value in np.unravel_index(cell - measured.offsets[j], shape)] if shape else []
    return cell_name(fit.domain, measured.marginals[j], values) or "the total"
