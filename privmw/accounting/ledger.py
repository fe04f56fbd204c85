"""The ledger: every look at the private table, charged before it happens, and their total cost.

It holds parameters and public facts only, never a private value, so it may be printed, saved and published.
"""

import json
import math
import threading
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privmw.secrecy import expect, shown

from . import record
from .budget import Budget, BudgetError
from .composition import Composition, Parallel
from .events import Event, Neighbors
from .rounding import Real, float_down, float_up, positive_integer, probability
from .statement import show, state, usual_delta

_PARTS = 128  # bits: a budget is counted in 2^128 parts


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A sum of shares of a total, enclosed by low and high, in parts of 2^-128.

    >>> Enclosure().plus(Fraction(1, 3), Fraction(1)).within
    True
    >>> Enclosure().plus(Fraction(1, 3), Fraction(1, 4)).within
    False
    """

    low: int = 0
    high: int = 0

    def plus(self, cost: Fraction, whole: Fraction, count: int = 1) -> "Enclosure":
        """Return the sum with one cost more, count times, of a positive whole."""
        above = (count * cost.numerator * whole.denominator) << _PARTS
        below = cost.denominator * whole.numerator
        floor, rest = divmod(above, below)
        return Enclosure(self.low + floor, self.high + floor + (rest > 0))

    @property
    def within(self) -> bool | None:
        """Whether the sum is at most the whole; None if this cannot tell."""
        if self.high <= 1 << _PARTS:
            return True
        return False if self.low > 1 << _PARTS else None


_VERSION = 1
_SEEDED = "seeded: not for release"
_TEXTS = ("unit", "numerics", "generator")
# Two threads must not both pass the check if the budget allows only one charge. All ledgers share one lock: a
# charge takes microseconds, and a ledger with its own lock could be neither copied nor compared. Not
# reentrant: a signal handler that charges in between would undo the charge it interrupted.
_CHARGING = threading.Lock()


class Ledger:
    """What one run spent on one private table, for one release or for several in turn.

    >>> from privmw.accounting import PermuteAndFlip
    >>> ledger = Ledger(Budget.zcdp(0.5), Neighbors.REPLACE_ONE, n=1000)
    >>> ledger.charge(PermuteAndFlip(0.5, candidates=10))
    >>> ledger.rho, ledger.remaining
    (0.125, 0.375)
    """

    __slots__ = (
        "_budget",
        "_events",
        "_generator",
        "_n",
        "_neighbors",
        "_numerics",
        "_seeded",
        "_spent",
        "_totals",
        "_unit",
    )

    def __init__(
        self,
        budget: Budget,
        neighbors: Neighbors,
        *,
        n: int,
        unit: str = "record",
        numerics: str = "exact integer sampling",
        generator: str = "ChaCha20 seeded by the operating system",
    ) -> None:
        expect("budget", budget, Budget, "a Budget")
        expect("neighbors", neighbors, Neighbors, "a Neighbors")
        for name, text in zip(_TEXTS, (unit, numerics, generator), strict=True):
            check_text(name, text)
        if generator.strip().lower().startswith("seeded"):
            raise ValueError(
                f"generator ({shown(generator)}) must not say that it is seeded: use mark_seeded"
            )
        self._budget, self._neighbors, self._n = budget, neighbors, positive_integer("n", n)
        self._unit, self._numerics, self._generator = unit, numerics, generator
        self._seeded: str | None = None
        self._events: list[Event] = []
        self._spent = Enclosure()
        # How many events are summed, and their exact total; later events are added on request.
        self._totals = (0, Composition())

    @property
    def budget(self) -> Budget:
        """The most that may be spent."""
        return self._budget

    @property
    def neighbors(self) -> Neighbors:
        """The neighbouring relation of tables."""
        return self._neighbors

    @property
    def n(self) -> int:
        """The public number of units; of records if units have several (`at_most`) records."""
        return self._n

    @property
    def unit(self) -> str:
        """The unit of privacy: "record", "person", "household of at most 4 records"."""
        return self._unit

    @property
    def numerics(self) -> str:
        """How noise is sampled: exactly or in floats."""
        return self._numerics

    @property
    def generator(self) -> str:
        """The source of randomness; "seeded: not for release" once marked."""
        return self._generator if self._seeded is None else _SEEDED

    @property
    def seeded(self) -> str | None:
        """Why the randomness could be repeated; None if it could not."""
        return self._seeded

    @property
    def for_release(self) -> bool:
        """True if all randomness was unpredictable. Once False it stays False."""
        return self._seeded is None

    @property
    def events(self) -> tuple[Event, ...]:
        """Every event charged, in order."""
        return tuple(self._events)

    @property
    def total(self) -> Composition:
        """The exact total of all events, a copy."""
        return replace(self._total, runs=dict(self._total.runs))

    @property
    def _total(self) -> Composition:
        added, total = self._totals
        events = self._events[added:]
        if events:
            total = total.plus(*events)
            self._totals = added + len(events), total
        return total

    @property
    def rho(self) -> float:
        """The zCDP cost of all events, rounded up."""
        return float_up(self._total.rho)

    @property
    def delta(self) -> float:
        """The delta that rho comes with, rounded up: 0 unless some event has one of its own."""
        return float_up(self._total.delta)

    @property
    def remaining(self) -> float:
        """The unspent budget in its unit, rounded down (advanced compositions are not sums)."""
        spent = self._budget.spent(self._total)
        return 0.0 if spent is None else float_down(max(self._budget.limit - spent, Fraction(0)))

    def epsilon(self, delta: Real, *, group: int = 1) -> float:
        """Return the epsilon at delta of all events for a group of units, by the best notion, rounded up.

        A delta of 0 asks for pure DP: infinity if any event has no pure cost. A positive delta gives the
        guarantee of events that were fixed beforehand; if results decided how much was spent, only the
        budget's guarantee holds. The deltas of events are subtracted first; with them, groups have no
        guarantee.

        >>> from privmw.accounting import DiscreteLaplace
        >>> ledger = Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=1000)
        >>> ledger.charge(DiscreteLaplace(scale=2, l1_sensitivity=1))
        >>> ledger.epsilon(0), ledger.epsilon(0, group=3)
        (0.5, 1.5)
        """
        total = self._total.for_group(positive_integer("group", group))
        bound = total.epsilon_at(probability("delta", delta, zero=True))
        return math.inf if bound is None else float_up(bound)

    def would_exceed(self, *events: Event) -> bool:
        """Return whether charging all these events would exceed the budget; nothing is charged.

        >>> from privmw.accounting import PermuteAndFlip
        >>> Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9).would_exceed(PermuteAndFlip(2, candidates=3))
        True
        """
        return self._spent_with(*events) is None

    def charge(self, event: Event) -> None:
        """Add event to the ledger, or raise BudgetError and leave the ledger as it was.

        >>> from privmw.accounting import PermuteAndFlip
        >>> Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9).charge(PermuteAndFlip(2, candidates=3))
        Traceback (most recent call last):
        privmw.accounting.budget.BudgetError: event (PermuteAndFlip(epsilon=2, candidates=3, count=1)) must \
fit the budget: epsilon would be 2.0 of 1.0, 0.0 spent before
        """
        with _CHARGING:
            after = self._spent_with(event)
            if after is not None:
                # The sum first: after an interrupt between the two lines the ledger states too much, not too
                # little.
                self._spent = after
                self._events.append(event)
                return
            before = self._budget.spent(self._total) or Fraction(0)
            spent = self._budget.spent(self._total.plus(event))
        if spent is None:
            raise BudgetError(
                f"event ({shown(event)}) must have a pure cost: {shown(self._budget)} counts nothing else"
            )
        if spent <= self._budget.limit:
            delta, aside = float_up(self._total.plus(event).delta), self._budget.event_delta
            raise BudgetError(
                f"event ({shown(event)}) must fit the budget: the deltas of events would be {delta} of an "
                f"event_delta of {aside}"
            )
        raise BudgetError(
            f"event ({shown(event)}) must fit the budget: {self._budget.unit} would be {float_up(spent)} of "
            f"{float_down(self._budget.limit)}, {float_up(before)} spent before"
        )

    def mark_seeded(self, reason: str) -> None:
        """Mark, for good, that the randomness could be repeated, and why; the first reason is kept.

        >>> ledger = Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9)
        >>> ledger.mark_seeded("seed 0")
        >>> ledger.generator, ledger.for_release
        ('seeded: not for release', False)
        """
        check_text("reason", reason)
        self._seeded = self._seeded or reason

    def statement(self, delta: Real | None = None) -> str:
        """Return the guarantee in plain words. The default delta is the budget's own, or at most 1/n^2.

        >>> print(Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9).statement().splitlines()[0])
        Protected: one record of 9 (a public number); neighbouring tables differ by replacing one record.
        """
        chosen = usual_delta(self) if delta is None else probability("delta", delta, zero=True)
        return state(self, chosen)

    def to_dp_event(self) -> Any:
        """Return all events as a DpEvent of dp_accounting: see privmw.extensions.adapters."""
        from privmw.extensions.adapters import dp_accounting  # here: few have dp_accounting

        return dp_accounting.to_dp_event(self)

    def to_json(self) -> str:
        """Return the ledger as JSON text: every event exactly, and the totals for readers.

        >>> ledger = Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9)
        >>> Ledger.from_json(ledger.to_json()) == ledger
        True
        """
        return json.dumps(self._record(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Ledger":
        """Read what to_json wrote; refuses anything unknown or missing, and totals that do not add up.

        Totals are recomputed from the events, which catches mistakes and careless edits; it is no signature.

        >>> Ledger.from_json("{}")
        Traceback (most recent call last):
        ValueError: version (None) must be 1
        """
        try:
            return cls._from_record(record.parse(text))
        except (TypeError, RecursionError, BudgetError) as error:
            raise ValueError(f"ledger JSON must describe a valid ledger: {error}") from error

    @classmethod
    def _from_record(cls, values: Any) -> "Ledger":
        version = values.get("version") if isinstance(values, dict) else None
        if type(version) is not int or version != _VERSION:
            raise ValueError(f"version ({shown(version)}) must be {_VERSION}")
        blank = cls(Budget.pure(1), Neighbors.REPLACE_ONE, n=1)
        fields = {"delta": 0.0} | record.require(values, "ledger", set(blank._record()), optional={"delta"})
        ledger = cls(
            record.read_budget(fields["budget"]),
            record.read_neighbors(fields["neighbors"]),
            n=fields["n"],
            **{name: fields[name] for name in _TEXTS},
        )
        if not isinstance(fields["events"], list):
            raise ValueError("events must be a list")
        for event in fields["events"]:
            ledger.charge(record.read_event(event))
        if fields["seeded"] is not None:
            ledger.mark_seeded(fields["seeded"])
        totals = {"delta": 0.0} | ledger._record()
        for name in ("rho", "epsilon", "delta", "for_release"):
            if fields[name] != totals[name] or isinstance(fields[name], bool) != (name == "for_release"):
                raise ValueError(f"{name} ({shown(fields[name])}) must be what the rest of the ledger says")
        return ledger

    def __reduce__(self) -> tuple[object, ...]:
        return Ledger.from_json, (self.to_json(),)

    def __copy__(self) -> "Ledger":
        # A copy is independent. If this ledger is charged meanwhile, the copy must not state less: it copies
        # totals before events, and the spent sum and the seed, which this ledger sets first, after them.
        copied: Ledger = object.__new__(Ledger)
        copied._budget, copied._neighbors, copied._n = self._budget, self._neighbors, self._n
        copied._unit, copied._numerics, copied._generator = self._unit, self._numerics, self._generator
        copied._totals = self._totals
        copied._events = list(self._events)
        copied._spent, copied._seeded = self._spent, self._seeded
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> "Ledger":
        return self.__copy__()

    def _record(self) -> dict[str, Any]:
        pure = self._total.epsilon
        return {
            "version": _VERSION,
            "budget": record.write_budget(self._budget),
            "neighbors": self._neighbors.value,
            "n": self._n,
            "unit": self._unit,
            "numerics": self._numerics,
            "generator": self._generator,
            "seeded": self._seeded,
            "for_release": self.for_release,
            "events": [record.write_event(event) for event in self._events],
            "rho": self.rho,
            "epsilon": None if pure is None else float_up(pure),
            **({"delta": self.delta} if self.delta else {}),  # older files have none
        }

    def _spent_with(self, *events: Event) -> Enclosure | None:
        """Return what is spent after these further events, or None if that exceeds the budget. Exact.

        Integers that enclose the sum decide, in time that does not grow with the number of events. If they
        cannot (a budget used up to the last bit, advanced composition, a delta), the exact total decides.
        """
        spent, adds_up = self._spent, True
        for event in events:
            self._check_kind(event)
            cost = event.known_cost_of_one
            one = self._budget.share(cost)
            adds_up = adds_up and one is not None and cost.delta == 0
            if one is not None:
                spent = spent.plus(one, self._budget.limit, event.count)
        fits = spent.within if adds_up else None
        if fits is None:
            fits = self._budget.allows(self._total.plus(*events))
        return spent if fits else None

    def _check_kind(self, event: Event) -> None:
        """Refuse non-events and events of other neighbours."""
        expect("event", event, Event, "an Event", quote=False)
        for part in event.parts():
            if isinstance(part, Parallel) and part.neighbors is not self._neighbors:
                raise ValueError(
                    f"neighbors ({part.neighbors.name}) must be the ledger's {self._neighbors.name}"
                )
            if part.needs_public_n and self._neighbors is Neighbors.ADD_REMOVE_ONE:
                raise ValueError(f"neighbors ({self._neighbors.name}) must be REPLACE_ONE for {shown(part)}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ledger):
            return NotImplemented
        derived = ("_spent", "_totals")
        return all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__ if name not in derived
        )

    __hash__ = None  # type: ignore[assignment]  # it changes as it is charged

    def __repr__(self) -> str:
        return (
            f"<Ledger of {self._budget!r}: {len(self._events)} events, rho {show(self.rho)}, "
            f"{self._neighbors.name}, n {self._n}, {self.generator}>"
        )

    def _repr_html_(self) -> str | None:
        from privmw.report import panel  # here: only a notebook needs it

        return panel(self)


def check_text(name: str, text: Any) -> None:
    """Refuse anything but one line of printable text.

    >>> check_text("unit", "record")
    """
    expect(name, text, str, "a string")
    if not text.strip() or not text.isprintable():
        raise ValueError(f"{name} ({shown(text)}) must be one line of printable text")
