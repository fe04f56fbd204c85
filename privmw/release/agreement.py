"""How answers agree with the noisy counts they were fitted to: figures, and a test with a stated level.

Noisy counts show misfit at no further cost of privacy. Answers that follow the noise have smaller gaps than
noise makes around the truth, so every test is one-sided: only gaps that are too large speak against a
release. The noise of different cells is independent. Gaps are not, as the errors of a fit are shared, but
they only lose by it: what a fit explains of the noise leaves each gap, and dependence between gaps comes with
at least as much less of them. benches/studies/quality.py counts false alarms.

All of this is computed from released values and public rows. Pictures are drawn in privmw/report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.release.by_attribute import AttributeAgreement, ValueGap, compare_by_attribute
from privmw.release.chance import ROUNDING, WITHIN, chance_beyond, chance_of_count, outside
from privmw.release.measurements import combine
from privmw.release.misfit import explain

if TYPE_CHECKING:
    from privmw.release.release import Release

ALPHA = 1e-3  # the probability, at most, that noise alone makes a release disagree
PARTS = 3  # single cells, values of attributes and shares of cells: each is tested at ALPHA / PARTS

Shares = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Agreement:
    """Released or fitted answers beside noisy ones, for the cells measured; z: their gaps in deviations.

    within, expected: the share of cells with |z| at most 1, 2, 3, and what noise alone would give. chances:
    the probability, at most, that noise makes a gap as large as each; chance_of_shares: that so few cells
    lie within. laplace: the share of the cells with Laplace noise; that of the others is Gaussian.
    reached: whether a row of the support lies in the cell. reasons: why the answers disagree, and remedy:
    what to do about it; both empty if they agree. attributes: the same by attribute.
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
    laplace: float
    reached: Bools
    attributes: tuple[AttributeAgreement, ...] = ()
    reasons: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether noise may explain all gaps; noise alone makes this False once in 1 / ALPHA releases."""
        return not (len(self.beyond) or self.values_beyond or self.shares_beyond)

    @property
    def beyond(self) -> Int64s:
        """Where the gap is beyond what the number of cells allows by chance, the farthest first."""
        far = np.flatnonzero(self.chances * len(self.cells) <= ALPHA / PARTS)
        return far[np.argsort(-np.abs(self.z[far]), kind="stable")]

    @property
    def values_beyond(self) -> list[ValueGap]:
        """The values of attributes whose share is beyond chance, the farthest first."""
        tested = sum(attribute.tested for attribute in self.attributes)
        found = [gap for attribute in self.attributes for gap in attribute.values]
        return sorted(
            (gap for gap in found if gap.chance * tested <= ALPHA / PARTS), key=lambda gap: -abs(gap.z)
        )

    @property
    def shares_beyond(self) -> list[int]:
        """Of 1, 2 and 3 deviations, those within which fewer cells lie than chance allows."""
        level = ALPHA / PARTS / len(WITHIN)
        return [k for k, chance in zip(WITHIN, self.chance_of_shares, strict=True) if chance <= level]

    @property
    def farthest(self) -> int:
        """Where the gap is largest, in deviations."""
        return int(np.abs(self.z).argmax())

    @property
    def largest_gap(self) -> float:
        """The largest gap, in the unit of the answers."""
        return float(np.abs(self.fitted - self.noisy).max(initial=0.0))

    def __repr__(self) -> str:
        verdict = "agrees" if self.agrees else "DISAGREES"
        within = ", ".join(f"{share:.1%}" for share in self.within)
        return f"Agreement({verdict}: {len(self.cells)} cells, within 1, 2, 3 deviations {within})"


def compare(
    cells: Int64s,
    noisy: Float64s,
    fitted: Float64s,
    deviations: Float64s,
    laplace: Bools,
    *,
    several: Bools | None = None,
    reached: Bools | None = None,
    n: float = 1.0,
) -> Agreement:
    """Compare fitted answers with noisy ones in the same unit; n: how many records an answer of 1 is.

    laplace: whether there is Laplace noise in a cell; several: whether the cell is the mean of several
    noisy counts (by default, none is).

    >>> fitted = np.array([120.0, 250.0])
    >>> found = compare(np.arange(2), np.array([117.0, 280.0]), fitted, np.full(2, 4.0), np.zeros(2, bool))
    >>> found, found.beyond
    (Agreement(DISAGREES: 2 cells, within 1, 2, 3 deviations 50.0%, 50.0%, 50.0%), array([1]))
    """
    count = len(cells)
    gaps = fitted - noisy
    z = gaps / deviations
    within, expected, chances = [], [], []
    for k in WITHIN:
        by_laplace, by_gaussian = (outside(k, laplace=kind) for kind in (True, False))
        alone = float(laplace.mean()) if count else 0.0
        within.append(float((np.abs(z) <= k).mean()) if count else 1.0)
        expected.append(1 - alone * by_laplace - (1 - alone) * by_gaussian)
        # For the test as unlikely as can be: a mean of Laplace counts lies between both distributions.
        bound = chance_beyond(k * deviations * n + ROUNDING, np.square(deviations * n), laplace)
        bound[~laplace] = by_gaussian
        if several is not None:
            bound[several & laplace] = np.maximum(bound[several & laplace], by_gaussian)
        far = int((np.abs(gaps) * n - ROUNDING > k * deviations * n).sum())
        chances.append(chance_of_count(far, count, float(bound.mean())) if count else 1.0)
    return Agreement(
        cells,
        noisy,
        fitted,
        deviations,
        z,
        chance_beyond(gaps * n, np.square(deviations * n), laplace),
        (within[0], within[1], within[2]),
        (expected[0], expected[1], expected[2]),
        (chances[0], chances[1], chances[2]),
        float(laplace.mean()) if count else 0.0,
        np.ones(count, bool) if reached is None else reached,
    )


def agreement_of(release: Release) -> Agreement:
    """How a release agrees with its noisy counts; measurements of the same cell are combined."""
    combined, n, measured = combine(release.measurements, release.n), release.n, release.measured
    if len(combined.cells) == 0:
        nothing = np.empty(0)
        return compare(combined.cells, nothing, nothing, nothing, np.empty(0, bool))
    times, laplace = (np.zeros(len(combined.cells), np.int64) for _ in range(2))
    for measurement in release.measurements:
        entries = np.searchsorted(combined.cells, measurement.cells)
        times[entries] += 1
        laplace[entries] += measurement.distribution.family.order == 1
    # Only the marginals with a measured cell are answered: they may be a few of very many.
    marginals, which = np.unique(measured.marginal_of(combined.cells), return_inverse=True)
    answered = measured if len(marginals) == len(measured) else measured.select(marginals)
    places = combined.cells - measured.offsets[marginals][which] + answered.offsets[which]
    agreement = compare(
        combined.cells,
        combined.answers,
        release.answers(answered)[places],
        np.sqrt(combined.variances),
        laplace > 0,
        several=times > 1,
        reached=release.support.answers(answered, release.support.start("uniform"))[places] > 0,
        n=float(n),
    )
    attributes = compare_by_attribute(
        measured,
        agreement.cells,
        agreement.noisy,
        agreement.fitted,
        np.square(agreement.deviations),
        laplace > 0,
        agreement.reached,
        float(n),
    )
    agreement = replace(agreement, attributes=attributes)
    if agreement.agrees:
        return agreement
    reasons, remedy = explain(agreement, release)
    return replace(agreement, reasons=reasons, remedy=remedy)
