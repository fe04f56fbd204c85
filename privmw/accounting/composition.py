"""Events put together: one after another on the same records, or side by side on disjoint ones.

A ledger is itself a sequence; these are for the parts inside it. `Composition` is the running total.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from privmw.secrecy import expect

from .conversion import advanced_bound, epsilon_bound
from .events import Cost, Event, Neighbors
from .rounding import float_down, positive_integer


@dataclass(frozen=True, slots=True, repr=False)
class Sequential(Event):
    """Events one after another on the same records, count times over: costs add up.

    >>> from privmw.accounting import PermuteAndFlip, DiscreteGaussian
    >>> Sequential((PermuteAndFlip(1, candidates=9), DiscreteGaussian(1, 1)), count=3).rho
    3.0
    """

    events: tuple[Event, ...]
    count: int = 1

    kind: ClassVar[str] = "sequential"

    def __post_init__(self) -> None:
        """Refuse what are not events."""
        self._set(events=_events(self.events), count=positive_integer("count", self.count))

    @property
    def cost_of_one(self) -> Cost:
        """The exact cost of one run of every event."""
        return _sum(event.cost for event in self.events)

    def parts(self) -> Iterator[Event]:
        """Yield this event and every event inside it."""
        yield self
        for event in self.events:
            yield from event.parts()


@dataclass(frozen=True, slots=True, repr=False)
class Parallel(Event):
    """Events side by side, each on its own part of the records: disjoint parts, fixed by a public rule.

    Adding or removing a record touches one part: the cost is the largest. Replacing a record may move it from
    one part to another, which touches two: the cost is the sum of the two largest. Each event's sensitivity
    must therefore hold for a record added to, removed from or (under replace-one) replaced within its part; a
    part's size is not public.

    >>> from privmw.accounting import DiscreteGaussian
    >>> parts = (DiscreteGaussian(1, 1), DiscreteGaussian(2, 1), DiscreteGaussian(2, 1))
    >>> Parallel(parts, Neighbors.ADD_REMOVE_ONE).rho, Parallel(parts, Neighbors.REPLACE_ONE).rho
    (0.5, 0.625)
    """

    events: tuple[Event, ...]
    neighbors: Neighbors = Neighbors.REPLACE_ONE
    count: int = 1

    kind: ClassVar[str] = "parallel"

    def __post_init__(self) -> None:
        """Refuse what are not events."""
        expect("neighbors", self.neighbors, Neighbors, "a Neighbors")
        self._set(events=_events(self.events), count=positive_integer("count", self.count))

    @property
    def cost_of_one(self) -> Cost:
        """The exact cost of one run of every part."""
        touched = 2 if self.neighbors is Neighbors.REPLACE_ONE else 1
        costs = [event.cost for event in self.events]
        epsilons = [cost.epsilon for cost in costs if cost.epsilon is not None]
        rho = sum(sorted((cost.rho for cost in costs), reverse=True)[:touched], Fraction(0))
        delta = sum(sorted((cost.delta for cost in costs), reverse=True)[:touched], Fraction(0))
        if len(epsilons) < len(costs):
            return Cost(rho, None, delta)
        return Cost(rho, sum(sorted(epsilons, reverse=True)[:touched], Fraction(0)), delta)

    def parts(self) -> Iterator[Event]:
        """Yield this event and every event inside it."""
        yield self
        for event in self.events:
            yield from event.parts()


@dataclass(frozen=True, slots=True)
class Composition:
    """The exact total of events run one after another.

    Each may look at earlier results, and a budget bounds the total however they are chosen. A total below the
    budget is a guarantee by itself only where number and size of the events did not depend on results.

    >>> from privmw.accounting import PermuteAndFlip
    >>> Composition.of([PermuteAndFlip(1, candidates=9, count=2)]).rho
    Fraction(1, 1)
    """

    rho: Fraction = Fraction(0)
    epsilon: Fraction | None = Fraction(0)
    delta: Fraction = Fraction(0)  # that rho and epsilon come with: see Cost
    # How many runs there were of each pure epsilon, for advanced composition. Empty once epsilon is None.
    runs: Mapping[Fraction, int] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Composition":
        """Return the total of events."""
        return cls().plus(*events)

    def plus(self, *events: Event) -> "Composition":
        """Return the total with these events more. Equal costs are counted, and only different ones added."""
        return self.plus_costs(count_costs(events))

    def plus_costs(self, counts: Mapping[Cost, int]) -> "Composition":
        """Return the total with each of these costs more, as many times as counted."""
        rho = _tree_sum([self.rho, *(count * cost.rho for cost, count in counts.items())])
        delta = _tree_sum([self.delta, *(count * cost.delta for cost, count in counts.items())])
        shares, runs = [self.epsilon], dict(self.runs)
        for cost, count in counts.items():
            shares.append(None if cost.epsilon is None else count * cost.epsilon)
            if cost.epsilon is not None:
                runs[cost.epsilon] = runs.get(cost.epsilon, 0) + count
        pure = [share for share in shares if share is not None]
        if len(pure) < len(shares):
            return Composition(rho, None, delta)
        return Composition(rho, _tree_sum(pure), delta, runs)

    def epsilon_advanced(self, delta: float) -> Fraction | None:
        """Return an upper bound of epsilon at delta from pure costs: plain or advanced, the smaller.

        delta: what is left for it, beside the costs' own deltas.
        """
        if self.epsilon is None or delta == 0:
            return self.epsilon
        advanced = advanced_bound(self.runs, delta)
        return self.epsilon if advanced is None else min(self.epsilon, advanced)

    def epsilon_at(self, delta: float) -> Fraction | None:
        """Return the smallest upper bound of epsilon at delta that any notion gives; None without one.

        Of two mixtures whose kept parts are (epsilon, left)-indistinguishable, the laws themselves are
        (epsilon, left + own)-indistinguishable, where own is the delta of the costs.
        """
        if Fraction(delta) < self.delta:
            return None
        left = delta_left(delta, self.delta)
        bounds = [] if left == 0 else [epsilon_bound(self.rho, left)]
        pure = self.epsilon_advanced(left)
        return min(bounds if pure is None else [*bounds, pure], default=None)

    def for_group(self, size: int) -> "Composition":
        """Return the total for a group of size records: rho grows with size squared, epsilon with size.

        A cost with a delta says nothing of groups: each pair of neighbours has mixtures of its own. A delta
        of 1 then stands for no guarantee; group_approximate gives what (epsilon, delta)-DP implies.
        """
        delta = self.delta if size == 1 or self.delta == 0 else Fraction(1)
        if self.epsilon is None:
            return Composition(self.rho * size**2, None, delta)
        runs = {e * size: count for e, count in self.runs.items()}
        return Composition(self.rho * size**2, self.epsilon * size, delta, runs)


def delta_left(delta: float, own: Fraction) -> float:
    """Return what a delta leaves beside the costs' own, rounded down, at least 0.

    >>> delta_left(1e-9, Fraction(1, 10**12))
    9.99e-10
    """
    return delta if own == 0 else float_down(max(Fraction(delta) - own, Fraction(0)))


def count_costs(events: Iterable[Event]) -> dict[Cost, int]:
    """Return how often the events have each cost: what their total depends on.

    >>> from privmw.accounting import PermuteAndFlip
    >>> list(count_costs([PermuteAndFlip(1, candidates=9), PermuteAndFlip(1, candidates=5)]).values())
    [2]
    """
    counts: dict[Cost, int] = {}
    for event in events:
        one = event.known_cost_of_one
        counts[one] = counts.get(one, 0) + event.count
    return counts


def _events(events: Any) -> tuple[Event, ...]:
    expect("events", events, list | tuple, "a tuple of events")
    for place, event in enumerate(events):
        expect(f"events[{place}]", event, Event, "an Event", quote=False)
    if not events:
        raise ValueError("events (()) must not be empty")
    return tuple(events)


def _tree_sum(values: list[Fraction]) -> Fraction:
    """Add in pairs of like length: one after another, the longest number would be copied every time."""
    while len(values) > 1:
        paired = [left + right for left, right in zip(values[::2], values[1::2], strict=False)]
        values = paired + values[2 * len(paired) :]
    return values[0]


def _sum(costs: Iterable[Cost]) -> Cost:
    rho, epsilon, delta = Fraction(0), Fraction(0), Fraction(0)
    pure = True
    for cost in costs:
        rho += cost.rho
        delta += cost.delta
        pure = pure and cost.epsilon is not None
        epsilon += cost.epsilon or 0
    return Cost(rho, epsilon if pure else None, delta)
