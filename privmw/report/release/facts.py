"""The figures of a release: its noise, its agreement with what was measured, its budget and its weights.

They come from released values and public rows alone. Everything is arithmetic on whole arrays, so that
millions of cells take seconds. This file draws no picture and writes no page.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from privmw.accounting import Event, Ledger
from privmw.accounting.noise import MEASURED
from privmw.accounting.rounding import float_up
from privmw.data.domain import Domain, plain
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.release import Agreement, ExpectedErrors, Growth, Release
from privmw.release.by_attribute import AttributeAgreement
from privmw.release.errors import MeasuredIntervals, measured_intervals_of, pair_deviations, quantile_of
from privmw.release.measurements import Measurement
from privmw.report.formats import cell_name

PURPOSES = {
    "permute-and-flip": "choosing",
    "exponential-mechanism": "choosing",
    "report-noisy-max": "choosing",
    **dict.fromkeys(MEASURED, "measuring"),
}

MOST_COSTS = 8  # of one kind that are listed one by one
LEVEL_OF_INTERVALS = 0.95  # of intervals
MOST_SIZE = 100_000  # values of an attribute with intervals
MOST_VALUES_OF_PAIR = 100  # values of an attribute of a pair


@dataclass(frozen=True)
class NoiseSummary:
    """The counts with noise of one kind and scale. deviation: in records; share: deviation / n."""

    kind: str
    counts: int
    deviation: float
    share: float


def noise_levels(release: Release) -> list[NoiseSummary]:
    """The kinds and scales of noise in a release, those on most counts first."""
    groups: dict[tuple[str, float], list[Measurement]] = {}
    for measurement in release.measurements:
        groups.setdefault((measurement.noise, measurement.scale), []).append(measurement)
    levels = []
    for (kind, _), group in groups.items():
        deviation = math.sqrt(group[0].variance)
        levels.append(NoiseSummary(kind, sum(map(len, group)), deviation, deviation / release.n))
    return sorted(levels, key=lambda level: -level.counts)


@dataclass(frozen=True)
class FarCell:
    """A measured cell beyond chance: its share of the records by the noisy count, and as released."""

    name: str
    noisy: float
    released: float
    deviations: float
    reached: bool


def cells_beyond(release: Release, agreement: Agreement, most: int) -> list[FarCell]:
    """The measured cells whose gaps chance does not explain (corrected for their number), largest first."""
    cells = []
    for place in agreement.beyond[:most].tolist():
        names, values = release.measured.query(int(agreement.cells[place]))
        cells.append(
            FarCell(
                cell_name(release.support.domain, names, values),
                float(agreement.noisy[place]),
                float(agreement.fitted[place]),
                float(abs(agreement.z[place])),
                bool(agreement.reached[place]),
            )
        )
    return cells


def by_attribute(agreement: Agreement) -> list[AttributeAgreement]:
    """The attributes, by the size of the gaps of their values or cells, largest first."""

    def farthest(attribute: AttributeAgreement) -> tuple[float, float]:
        value = abs(attribute.values[0].z) if attribute.values else 0.0
        return -value, attribute.within[1] - attribute.expected[1]

    return sorted(agreement.attributes, key=farthest)


@dataclass(frozen=True)
class FarAttribute:
    """The expected error of cells of an attribute's marginals, and of the worst of these marginals."""

    name: str
    error: float
    worst: float
    marginal: str


@dataclass(frozen=True)
class FarOff:
    """A summary of expected errors: how many marginals have them, and by attribute, largest first."""

    marginals: int
    asked: int
    attributes: list[FarAttribute]
    more: int


def far_off(errors: ExpectedErrors, most: int) -> FarOff:
    """The attributes with the largest expected errors of their marginals, at most `most`."""
    workload, of_marginals = errors.workload, np.nan_to_num(errors.marginals, nan=-1.0)
    marginal = np.repeat(np.arange(len(workload)), np.diff(workload.starts))
    attributes = []
    for a, (name, error) in enumerate(errors.attributes.items()):
        if math.isfinite(error):
            those = marginal[workload.attributes == a]
            worst = int(those[of_marginals[those].argmax()])
            names = " × ".join(plain(other, 30) for other in workload.marginal(worst))
            attributes.append(FarAttribute(name, error, float(of_marginals[worst]), names))
    attributes.sort(key=lambda attribute: -attribute.error)
    count = int(errors.offered.sum())
    return FarOff(count, len(workload), attributes[:most], len(attributes) - most)


@dataclass(frozen=True, eq=False)
class RowWeights:
    """The weights of the rows before (the public frequencies; grown rows have none) and after.

    effective rows: how many rows of equal weight would be as concentrated, 1 / sum of squared weights.
    empty: how many rows lost their weight; moved: the share of the weight that moved to other rows.
    """

    before: Float64s
    after: Float64s
    effective_before: float
    effective_after: float
    empty: int
    moved: float


def row_weights(release: Release) -> RowWeights | None:
    """How a release moved the weights of its rows; None if no public record is among them."""
    if not release.support.records:
        return None
    before, after = release.support.start(), release.weights
    return RowWeights(
        before,
        after,
        float(1 / np.square(before).sum()),
        float(1 / np.square(after).sum()),
        int(np.count_nonzero((after == 0) & (before > 0))),
        float(np.abs(after - before).sum() / 2),
    )


def new_values(growth: Growth, domain: Domain) -> list[tuple[str, float]]:
    """The values that grown rows have and no public row has, with their shares, the largest first."""
    values = [
        (cell_name(domain, (attribute.name,), (new.value,)), new.mass)
        for attribute in growth.attributes
        for new in attribute.new_values
    ]
    return sorted(values, key=lambda value: -value[1])


@dataclass(frozen=True, eq=False)
class Distribution:
    """How one attribute is distributed among the public rows and in the release, over the codes that occur.

    moved: the total variation, the share of records that changed their value. low, high: the interval of the
    truth from the noisy counts; NaN without one.
    """

    name: str
    size: int
    codes: Int64s
    before: Float64s
    after: Float64s
    moved: float
    low: Float64s
    high: Float64s


def distributions(release: Release, noisy_intervals: NoisyIntervals | None = None) -> list[Distribution]:
    """Every attribute's distribution before and after, largest change first.

    Without a public record there is no distribution before the release to compare with.
    """
    if not release.support.records:
        return []
    noisy_intervals = noisy_intervals_of(release) if noisy_intervals is None else noisy_intervals
    support, start = release.support, release.support.start()
    attributes = []
    for attribute, column in zip(support.domain.attributes, support.table.columns, strict=True):
        codes, places = np.unique(column, return_inverse=True)
        before, after = (
            np.bincount(places, weights, len(codes)).astype(np.float64)
            for weights in (start, release.weights)
        )
        moved = float(np.abs(after - before).sum() / 2)
        low, high = noisy_intervals.of_attribute(attribute.name, codes.astype(np.int64))
        attributes.append(
            Distribution(
                attribute.name, attribute.size, codes.astype(np.int64), before, after, moved, low, high
            )
        )
    return sorted(attributes, key=lambda attribute: -attribute.moved)


@dataclass(frozen=True, eq=False)
class NoisyIntervals:
    """Intervals of the truth from the noisy counts. intervals: of every attribute that is not too large.

    deviations: of the noise in a cell of each pair of attributes (by position) that a measured marginal has.
    """

    intervals: MeasuredIntervals
    deviations: Mapping[tuple[int, int], float]
    quantile: float

    def of_attribute(self, name: str, codes: Int64s) -> tuple[Float64s, Float64s]:
        """The ends of the intervals of these values of an attribute; NaN where there are none."""
        workload = self.intervals.workload
        if (name,) not in self.places:
            nothing = np.full(len(codes), math.nan)
            return nothing, nothing
        cells = workload.offsets[self.places[(name,)]] + codes
        return self.intervals.low[cells], self.intervals.high[cells]

    @cached_property
    def places(self) -> dict[tuple[str, ...], int]:
        """The place of each marginal with intervals."""
        return {marginal: j for j, marginal in enumerate(self.intervals.workload)}


def noisy_intervals_of(release: Release) -> NoisyIntervals:
    """Compute the noisy intervals of a release."""
    domain = release.support.domain
    small = [(name,) for name, size in zip(domain.names, domain.sizes, strict=True) if size <= MOST_SIZE]
    intervals = measured_intervals_of(release, LEVEL_OF_INTERVALS, Workload(domain, small))
    return NoisyIntervals(intervals, pair_deviations(release), quantile_of(release, LEVEL_OF_INTERVALS))


@dataclass(frozen=True)
class Precision:
    """How precisely the shares of a marginal's cells are known, at LEVEL_OF_INTERVALS; NaN if not measured.

    measured: the half-width of the intervals; released: the maximum distance of a released share from the
    farther end of its interval.
    """

    name: str
    cells: int
    measured: float
    released: float = math.nan


def attribute_precisions(release: Release, noisy_intervals: NoisyIntervals) -> list[Precision]:
    """Each attribute, the most precise first, those without a measured marginal last."""
    workload = noisy_intervals.intervals.workload
    answers = release.answers(workload)
    off = np.maximum(answers - noisy_intervals.intervals.low, noisy_intervals.intervals.high - answers)
    found = []
    for attribute in release.support.domain.attributes:
        measured = released = math.nan
        if (attribute.name,) in noisy_intervals.places:
            j = noisy_intervals.places[(attribute.name,)]
            here = slice(*workload.offsets[j : j + 2].tolist())
            measured = noisy_intervals.quantile * float(noisy_intervals.intervals.deviations[here].max())
            released = float(off[here].max())
        found.append(Precision(attribute.name, attribute.size, measured, released))
    return sorted(found, key=lambda precision: (math.isnan(precision.released), precision.released))


def pair_precisions(release: Release, noisy_intervals: NoisyIntervals) -> list[Precision]:
    """Each pair of attributes that was measured together, the most precise first."""
    domain = release.support.domain
    found = [
        Precision(
            " × ".join(plain(domain.names[a], 30) for a in pair),
            domain.sizes[pair[0]] * domain.sizes[pair[1]],
            noisy_intervals.quantile * deviation,
        )
        for pair, deviation in noisy_intervals.deviations.items()
    ]
    return sorted(found, key=lambda precision: precision.measured)


@dataclass(frozen=True, eq=False)
class ChangedPair:
    """Two attributes whose joint distribution moved, as matrices: first attribute down, second across.

    before, after: shares; low, high: intervals of the truth, NaN if no measured marginal has both.
    """

    names: tuple[str, str]
    before: Float64s
    after: Float64s
    low: Float64s
    high: Float64s
    moved: float


def changed_pairs(release: Release, most: int) -> list[ChangedPair]:
    """The pairs of attributes that moved most, each attribute in at most two of them."""
    domain = release.support.domain
    small = [
        name for name, size in zip(domain.names, domain.sizes, strict=True) if 1 < size <= MOST_VALUES_OF_PAIR
    ]
    if not release.support.records or len(small) < 2:
        return []
    workload = Workload(domain, combinations(small, 2))
    before, after = release.support.answers(workload, release.support.start()), release.answers(workload)
    moved = np.add.reduceat(np.abs(after - before), workload.offsets[:-1]) / 2
    used: Counter[str] = Counter()
    chosen: list[int] = []
    for j in np.argsort(-moved, kind="stable").tolist():
        if len(chosen) < most and all(used[name] < 2 for name in workload.marginal(j)):
            chosen.append(j)
            used.update(workload.marginal(j))
    shown = workload.select(chosen)
    intervals = measured_intervals_of(release, LEVEL_OF_INTERVALS, shown)
    found = []
    for place, j in enumerate(chosen):
        first, second = workload.marginal(j)
        shape = domain[first].size, domain[second].size
        here = slice(*shown.offsets[place : place + 2].tolist())
        there = slice(*workload.offsets[j : j + 2].tolist())
        found.append(
            ChangedPair(
                (first, second),
                before[there].reshape(shape),
                after[there].reshape(shape),
                intervals.low[here].reshape(shape),
                intervals.high[here].reshape(shape),
                float(moved[j]),
            )
        )
    return found


@dataclass(frozen=True)
class Looks:
    """Looks at the private table of one kind: their purpose, number, cost, and share of the total cost.

    several: True if their costs differ; then `each` is the largest.
    """

    purpose: str
    kind: str
    times: int
    each: float
    total: float
    share: float
    several: bool = False


@dataclass(frozen=True, eq=False)
class Spending:
    """The cost spent, in rho or epsilon: by kinds of looks, and as a running sum for each purpose."""

    unit: str
    limit: float
    total: float
    looks: list[Looks]
    running: dict[str, Float64s]


def _looks(kind: str, costs: dict[Fraction, int], total: Fraction) -> Looks:
    """Looks of one kind, of one cost or of several."""
    spent = sum((each * times for each, times in costs.items()), Fraction(0))
    return Looks(
        PURPOSES.get(kind, "other"),
        kind,
        sum(costs.values()),
        float_up(max(costs)),
        float_up(spent),
        float(spent / total),
        several=len(costs) > 1,
    )


def spending(ledger: Ledger) -> Spending:
    """The ledger's events by purpose. Advanced composition is shown in rho, as its epsilons do not add up."""
    unit = "epsilon" if ledger.budget.is_pure else "rho"

    def cost(event: Event) -> Fraction:
        one = event.known_cost_of_one
        return one.rho if unit == "rho" or one.epsilon is None else one.epsilon

    groups: dict[tuple[str, Fraction], int] = {}
    for event in ledger.events:
        key = event.kind, cost(event)
        groups[key] = groups.get(key, 0) + event.count
    total = sum((each * times for (_, each), times in groups.items()), Fraction(0))
    looks = []
    for kind in dict.fromkeys(kind for kind, _ in groups):
        costs_of_kind = {each: times for (other, each), times in groups.items() if other == kind}
        if len(costs_of_kind) > MOST_COSTS:
            looks.append(_looks(kind, costs_of_kind, total))
        else:
            looks += [_looks(kind, {each: times}, total) for each, times in costs_of_kind.items()]
    costs = np.array([float(cost(event) * event.count) for event in ledger.events])
    purposes = np.array([PURPOSES.get(event.kind, "other") for event in ledger.events])
    return Spending(
        unit,
        float_up(ledger.budget.limit) if ledger.budget.adds_up else float_up(total),
        float_up(total),
        looks,
        {name: np.cumsum(costs * (purposes == name)) for name in dict.fromkeys(purposes.tolist())},
    )
