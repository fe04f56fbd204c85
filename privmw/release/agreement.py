"""Goodness of fit: compares released answers with the noisy counts they were fitted to, and tests the gaps.

This costs no privacy. Answers that follow the noise have smaller gaps than independent noise would give, so
every test is one-sided: only gaps that are too large speak against a release. The gaps of a fit depend on
each other, but the fit also absorbs at least as much of the noise, so the tests keep their level;
benches/studies/quality.py counts false alarms.

All of this is computed from released values and public rows. Pictures are drawn in privmw/report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.release.by_attribute import AttributeAgreement, ComparedCells, ValueGap, compare_by_attribute
from privmw.release.chance import ROUNDING, WITHIN, chance_beyond, chance_of_count, outside
from privmw.release.measurements import combine
from privmw.release.misfit import explain

if TYPE_CHECKING:
    from privmw.release.release import Release

ALPHA = 1e-3  # an upper bound on the probability that noise alone makes a release disagree
TESTS = 3  # of single cells, values of attributes and shares of cells: each at level ALPHA / TESTS

Shares = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Agreement:
    """Fitted and noisy answers of the measured cells; z: their gaps in standard deviations.

    within, expected: the observed and expected shares of cells with |z| at most 1, 2, 3. chances: an upper
    bound on each gap's p-value; chance_of_shares: the same for `within`. heavy_tailed: the share of cells
    with Laplace noise (the others are Gaussian). reached: True where some row of the support is in the cell.
    reasons: why the answers disagree; remedy: what to do about it; both are empty if they agree.
    attributes: the same comparison by attribute.
    """

    cells: Int64s
    noisy: Float64s
    fitted: Float64s
    deviations: Float64s
    z: Float64s
    chances: Float64s
    within: Shares
    expected: Shares
    chance_of_shares: Shares
    heavy_tailed: float
    reached: Bools
    attributes: tuple[AttributeAgreement, ...] = ()
    reasons: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """True if noise may explain all gaps; noise alone makes this False with probability ALPHA at most."""
        return not (len(self.beyond) or self.values_beyond or self.shares_beyond)

    @property
    def beyond(self) -> Int64s:
        """Cells whose gap noise does not explain (corrected for the number of cells), largest first."""
        far = np.flatnonzero(self.chances * len(self.cells) <= ALPHA / TESTS)
        return far[np.argsort(-np.abs(self.z[far]), kind="stable")]

    @property
    def values_beyond(self) -> list[ValueGap]:
        """Values of attributes whose share noise does not explain, largest gap first."""
        tested = sum(attribute.tested for attribute in self.attributes)
        found = [gap for attribute in self.attributes for gap in attribute.values]
        return sorted(
            (gap for gap in found if gap.chance * tested <= ALPHA / TESTS), key=lambda gap: -abs(gap.z)
        )

    @property
    def shares_beyond(self) -> list[int]:
        """Those of 1, 2 and 3 deviations within which too few cells lie for noise to explain."""
        level = ALPHA / TESTS / len(WITHIN)
        return [k for k, chance in zip(WITHIN, self.chance_of_shares, strict=True) if chance <= level]

    @property
    def farthest(self) -> int:
        """The index of the largest gap, in deviations."""
        return int(np.abs(self.z).argmax())

    @property
    def largest_gap(self) -> float:
        """The largest gap, in the unit of the answers."""
        return float(np.abs(self.fitted - self.noisy).max(initial=0.0))

    def __repr__(self) -> str:
        verdict = "agrees" if self.agrees else "DISAGREES"
        within = ", ".join(f"{share:.1%}" for share in self.within)
        return f"Agreement({verdict}: {len(self.cells)} cells, within 1, 2, 3 deviations {within})"


def compare(compared: ComparedCells, n: float = 1.0) -> Agreement:
    """Compare fitted answers with noisy ones; n: the number of records for an answer of 1.

    >>> noisy, fitted = np.array([117.0, 280.0]), np.array([120.0, 250.0])
    >>> result = compare(ComparedCells(np.arange(2), noisy, fitted, np.full(2, 4.0), np.zeros(2, bool)))
    >>> result, result.beyond
    (Agreement(DISAGREES: 2 cells, within 1, 2, 3 deviations 50.0%, 50.0%, 50.0%), array([1]))
    """
    deviations, heavy_tailed, count = compared.deviations, compared.heavy_tailed, len(compared.cells)
    gaps = compared.fitted - compared.noisy
    z = gaps / deviations
    within, expected, chances = [], [], []
    for k in WITHIN:
        heavy, light = (outside(k, heavy_tailed=kind) for kind in (True, False))
        alone = float(heavy_tailed.mean()) if count else 0.0
        within.append(float((np.abs(z) <= k).mean()) if count else 1.0)
        expected.append(1 - alone * heavy - (1 - alone) * light)
        # A mean of Laplace counts lies between both distributions: take the one that makes the test strict.
        bound = chance_beyond(k * deviations * n + ROUNDING, np.square(deviations * n), heavy_tailed)
        bound[~heavy_tailed] = light
        if compared.several is not None:
            means = compared.several & heavy_tailed
            bound[means] = np.maximum(bound[means], light)
        far = int((np.abs(gaps) * n - ROUNDING > k * deviations * n).sum())
        chances.append(chance_of_count(far, count, float(bound.mean())) if count else 1.0)
    return Agreement(
        compared.cells,
        compared.noisy,
        compared.fitted,
        deviations,
        z,
        chance_beyond(gaps * n, np.square(deviations * n), heavy_tailed),
        (within[0], within[1], within[2]),
        (expected[0], expected[1], expected[2]),
        (chances[0], chances[1], chances[2]),
        float(heavy_tailed.mean()) if count else 0.0,
        np.ones(count, bool) if compared.reached is None else compared.reached,
    )


def agreement_of(release: Release) -> Agreement:
    """Compare a release with its noisy counts; measurements of the same cell are combined."""
    combined, n, measured = combine(release.measurements, release.n), release.n, release.measured
    if len(combined.cells) == 0:
        nothing = np.empty(0)
        return compare(ComparedCells(combined.cells, nothing, nothing, nothing, np.empty(0, bool)))
    times, heavy_tailed = (np.zeros(len(combined.cells), np.int64) for _ in range(2))
    for measurement in release.measurements:
        entries = np.searchsorted(combined.cells, measurement.cells)
        times[entries] += 1
        heavy_tailed[entries] += measurement.distribution.family.heavy_tailed
    # Answer only the marginals with a measured cell: they may be few of very many.
    marginals, which = np.unique(measured.marginal_of(combined.cells), return_inverse=True)
    answered = measured if len(marginals) == len(measured) else measured.select(marginals)
    places = combined.cells - measured.offsets[marginals][which] + answered.offsets[which]
    compared = ComparedCells(
        combined.cells,
        combined.answers,
        release.answers(answered)[places],
        np.sqrt(combined.variances),
        heavy_tailed > 0,
        several=times > 1,
        reached=release.support.answers(answered, release.support.start("uniform"))[places] > 0,
    )
    agreement, attributes = compare(compared, float(n)), compare_by_attribute(measured, compared, float(n))
    agreement = replace(agreement, attributes=attributes)
    if agreement.agrees:
        return agreement
    reasons, remedy = explain(agreement, release)
    return replace(agreement, reasons=reasons, remedy=remedy)
