"""What a release tells of itself: noise, fit, budget and weights. Released values and public rows alone.

Everything is arithmetic on whole arrays, so that millions of cells take seconds. This room draws no picture
and writes no page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privmw.accounting import Event
from privmw.accounting.rounding import float_up
from privmw.release import Release
from privmw.release.measurements import Measurement, combine

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

CHOICES = {"permute-and-flip", "exponential-mechanism", "report-noisy-max"}
NOISES = {"discrete-gaussian", "discrete-laplace"}


@dataclass(frozen=True)
class Noise:
    """One kind and scale of noise: how many counts carry it, its standard deviation in records and in n."""

    kind: str
    counts: int
    deviation: float
    share: float


def noises(release: Release) -> list[Noise]:
    """The kinds of noise in a release, those on most counts first."""
    found: dict[tuple[str, float], list[Measurement]] = {}
    for measurement in release.measurements:
        found.setdefault((measurement.noise, measurement.scale), []).append(measurement)
    made = [
        Noise(
            kind, sum(map(len, group)), math.sqrt(group[0].variance), math.sqrt(group[0].variance) / release.n
        )
        for (kind, _), group in found.items()
    ]
    return sorted(made, key=lambda noise: -noise.counts)


@dataclass(frozen=True, eq=False)
class Fit:
    """The released answers beside the noisy ones, for each measured cell once; z is their gap in deviations.

    within, expected: the share of cells with |z| at most 1, 2, 3; what noise alone would give. laplace: the
    share of the noisy counts whose noise is Laplace's; that of the others is Gaussian.
    """

    cells: Int64s
    noisy: Float64s
    fitted: Float64s
    deviations: Float64s
    z: Float64s
    within: tuple[float, float, float]
    expected: tuple[float, float, float]
    laplace: float

    @property
    def farthest(self) -> int:
        """Where the gap is largest, in deviations."""
        return int(np.abs(self.z).argmax())

    @property
    def reached(self) -> bool:
        """Whether about as many cells as noise explains lie within two deviations."""
        return self.within[1] >= 0.9 * self.expected[1]

    @property
    def largest_gap(self) -> float:
        """The largest gap, in the unit of the answers."""
        return float(np.abs(self.fitted - self.noisy).max())


def fit(release: Release) -> Fit | None:
    """How the released answers fit what was measured; None if nothing was."""
    together = combine(release.measurements, release.n)
    if len(together.cells) == 0:
        return None
    fitted = release.answers(release.measured)[together.cells]
    laplace = [len(m) for m in release.measurements if m.noise == "discrete-laplace"]
    share = sum(laplace) / sum(map(len, release.measurements))
    return agreement(together.cells, together.answers, fitted, np.sqrt(together.variances), share)


def agreement(cells: Int64s, noisy: Float64s, fitted: Float64s, deviations: Float64s, laplace: float) -> Fit:
    """How fitted answers agree with noisy ones, whatever their unit."""
    z = (fitted - noisy) / deviations
    within, expected = [], []
    for k in (1, 2, 3):
        within.append(float((np.abs(z) <= k).mean()))
        expected.append(laplace * -math.expm1(-k * math.sqrt(2)) + (1 - laplace) * math.erf(k / math.sqrt(2)))
    return Fit(
        cells,
        noisy,
        fitted,
        deviations,
        z,
        (within[0], within[1], within[2]),
        (expected[0], expected[1], expected[2]),
        laplace,
    )


@dataclass(frozen=True, eq=False)
class Weights:
    """The rows before and after: before are the public frequencies.

    effective rows: how many rows of equal weight would be as concentrated, 1 / sum of squared weights.
    """

    before: Float64s
    after: Float64s
    effective_before: float
    effective_after: float
    empty: int
    moved: float


def weights(release: Release) -> Weights:
    """How a release moved the weights of its rows."""
    before, after = release.support.start(), release.weights
    return Weights(
        before,
        after,
        float(1 / np.square(before).sum()),
        float(1 / np.square(after).sum()),
        int(np.count_nonzero(after == 0)),
        float(np.abs(after - before).sum() / 2),
    )


@dataclass(frozen=True, eq=False)
class Attribute:
    """How one attribute is distributed among the public rows and in the release: values that occur."""

    name: str
    size: int
    codes: Int64s
    before: Float64s
    after: Float64s

    @property
    def moved(self) -> float:
        """The total variation: the share of records that changed their value."""
        return float(np.abs(self.after - self.before).sum() / 2)


def one_way(release: Release) -> list[Attribute]:
    """Every attribute's distribution before and after, those that moved most first."""
    support, start = release.support, release.support.start()
    found = []
    for attribute, column in zip(support.domain.attributes, support.table.columns, strict=True):
        codes, places = np.unique(column, return_inverse=True)
        before, after = (
            np.bincount(places, given, len(codes)).astype(np.float64) for given in (start, release.weights)
        )
        found.append(Attribute(attribute.name, attribute.size, codes.astype(np.int64), before, after))
    return sorted(found, key=lambda attribute: -attribute.moved)


@dataclass(frozen=True)
class Looks:
    """Equal looks at the private table: what for, how often, what they cost and which part of it all."""

    purpose: str
    kind: str
    times: int
    each: float
    total: float
    share: float


@dataclass(frozen=True, eq=False)
class Spending:
    """What was spent, in rho or epsilon: by kinds of looks, and the running sum of each purpose."""

    unit: str
    limit: float
    total: float
    looks: list[Looks]
    running: dict[str, Float64s]


def spending(release: Release) -> Spending:
    """The ledger's events by purpose. Advanced composition does not add up: shown in rho, which does."""
    ledger = release.ledger
    unit = "epsilon" if ledger.budget.notion == "pure" else "rho"

    def cost(event: Event) -> Fraction:
        one = event.known_cost_of_one
        return one.rho if unit == "rho" or one.epsilon is None else one.epsilon

    groups: dict[tuple[str, Fraction], int] = {}
    for event in ledger.events:
        key = event.kind, cost(event)
        groups[key] = groups.get(key, 0) + event.count
    total = sum((each * times for (_, each), times in groups.items()), Fraction(0))
    looks = [
        Looks(
            _purpose(kind), kind, times, float_up(each), float_up(each * times), float(each * times / total)
        )
        for (kind, each), times in groups.items()
    ]
    costs = np.array([float(cost(event) * event.count) for event in ledger.events])
    purposes = np.array([_purpose(event.kind) for event in ledger.events])
    return Spending(
        unit,
        float_up(ledger.budget.limit) if ledger.budget.notion != "advanced" else float_up(total),
        float_up(total),
        looks,
        {name: np.cumsum(costs * (purposes == name)) for name in dict.fromkeys(purposes.tolist())},
    )


def _purpose(kind: str) -> str:
    return "choosing" if kind in CHOICES else "measuring" if kind in NOISES else "other"
