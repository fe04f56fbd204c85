"""How much may be spent, and in which notion: zCDP, pure DP, or advanced composition of pure costs.

Whether events fit is decided on exact rationals, without a tolerance: a mechanism calibrated to use the
budget up is accepted, and one that passes it by the last bit is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from privmw.secrecy import shown

from .composition import Composition, delta_left
from .conversion import epsilon_from_rho, rho_from_epsilon
from .events import Cost, Event, SelectionEvent
from .noise import PAID_IN, NoiseFamily
from .rounding import Real, finite, positive, probability


class BudgetError(ValueError):
    """Something asked for more privacy budget than there is; nothing was looked at and nothing was spent.

    >>> issubclass(BudgetError, ValueError)
    True
    """


# Which numbers each notion comes with.
_FIELDS = {
    "zCDP": ({"rho"}, {"rho", "epsilon", "delta"}),
    "pure": ({"epsilon"},),
    "advanced": ({"epsilon", "delta"},),
}


@dataclass(frozen=True, slots=True, repr=False)
class Budget:
    """The most that may be spent. Make one with Budget.zcdp, Budget.approximate or Budget.pure.

    notion is "zCDP" (rho; epsilon and delta too if they were the goal), "pure" (epsilon) or "advanced"
    (epsilon, delta, and only events with a pure cost). event_delta: what the deltas of events may add up to,
    where events have one of their own; it is set aside from delta beforehand, so that a budget is a filter
    too. With composition="advanced" it may be all of delta: then the costs of (epsilon, delta)-DP simply add.

    >>> Budget.approximate(1.0, 1e-9).notion
    'zCDP'
    """

    _public_repr: ClassVar[bool] = True

    notion: str
    rho: Real | None = None
    epsilon: Real | None = None
    delta: float | None = None
    event_delta: Real = 0

    def __post_init__(self) -> None:
        """Refuse budgets that mean nothing, or whose rho is more than their epsilon and delta allow."""
        given = {name for name in ("rho", "epsilon", "delta") if getattr(self, name) is not None}
        if self.notion not in _FIELDS:
            raise ValueError(f"notion ({shown(self.notion)}) must be one of {', '.join(_FIELDS)}")
        if given not in _FIELDS[self.notion]:
            raise ValueError(
                f"notion ({shown(self.notion)}) must come with its own numbers, not {sorted(given)}"
            )
        for name in given - {"delta"}:
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        if self.delta is not None:
            object.__setattr__(self, "delta", probability("delta", self.delta))
        self._check_event_delta()
        if self.rho is None or self.epsilon is None or self.delta is None:
            return
        if epsilon_from_rho(self.rho, self._delta_left) > self.epsilon:
            raise ValueError(f"rho ({self.rho}) must imply epsilon {self.epsilon} at delta {self.delta}")

    def _check_event_delta(self) -> None:
        aside = finite("event_delta", self.event_delta)
        object.__setattr__(self, "event_delta", aside)
        if not 0 <= aside < 1:
            raise ValueError(f"event_delta ({aside}) must be at least 0 and below 1")
        if aside and self.notion == "pure":
            raise ValueError(f"event_delta ({aside}) must be 0: pure differential privacy has no delta")
        if self.delta is None:
            return
        if self.notion == "zCDP" and self._delta_left == 0:
            raise ValueError(f"event_delta ({aside}) must be below delta ({self.delta})")
        if Fraction(aside) > Fraction(self.delta):
            raise ValueError(f"event_delta ({aside}) must be at most delta ({self.delta})")

    @property
    def _delta_left(self) -> float:
        """What zCDP or advanced composition has of delta."""
        return delta_left(self.delta or 0.0, Fraction(self.event_delta))

    @classmethod
    def zcdp(cls, rho: Real, *, event_delta: Real = 0) -> "Budget":
        """Return a budget of rho-zCDP; of event_delta-approximate rho-zCDP where that is not 0.

        >>> Budget.zcdp(0.5).limit
        Fraction(1, 2)
        """
        return cls("zCDP", rho=positive("rho", rho), event_delta=event_delta)

    @classmethod
    def approximate(
        cls, epsilon: Real, delta: Real, composition: str = "zCDP", *, event_delta: Real = 0
    ) -> "Budget":
        """Return a budget of (epsilon, delta)-DP, counted in zCDP or by "advanced" composition of pure costs.

        >>> Budget.approximate(1.0, 1e-9).rho < 0.01498
        True
        >>> Budget.approximate(1.0, 1e-9, composition="advanced").notion
        'advanced'
        """
        epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
        if composition == "advanced":
            return cls("advanced", epsilon=epsilon, delta=delta, event_delta=event_delta)
        if composition != "zCDP":
            raise ValueError(f"composition ({shown(composition)}) must be 'zCDP' or 'advanced'")
        left = delta_left(delta, Fraction(finite("event_delta", event_delta)))
        # An event_delta that leaves nothing is refused by name as the budget is made.
        rho = rho_from_epsilon(epsilon, left or delta)
        return cls("zCDP", rho=rho, epsilon=epsilon, delta=delta, event_delta=event_delta)

    @classmethod
    def pure(cls, epsilon: Real) -> "Budget":
        """Return a budget of epsilon-DP, with no delta at all.

        >>> Budget.pure(1)
        Budget.pure(1)
        """
        return cls("pure", epsilon=positive("epsilon", epsilon))

    @property
    def unit(self) -> Literal["rho", "epsilon"]:
        """What this budget counts in: "rho" or "epsilon"."""
        return "rho" if self.notion == "zCDP" else "epsilon"

    @property
    def limit(self) -> Fraction:
        """The whole budget, exactly, in its unit."""
        limit = self.rho if self.notion == "zCDP" else self.epsilon
        assert limit is not None  # by __post_init__
        return Fraction(limit)

    @property
    def is_pure(self) -> bool:
        """Whether this is pure differential privacy: no delta, and no noise without a pure cost."""
        return self.notion == "pure"

    @property
    def adds_up(self) -> bool:
        """Whether costs in this budget's unit simply add up, as they do not in advanced composition."""
        return self.notion != "advanced"

    @property
    def noise(self) -> NoiseFamily:
        """The noise of counts that is paid from this budget.

        >>> Budget.pure(1).noise.name
        'discrete-laplace'
        """
        return PAID_IN[self.unit]

    def selection_epsilon(self, share: Fraction, selection: type[SelectionEvent]) -> Fraction:
        """Return the largest epsilon at which a share pays for one selection.

        >>> from privmw.accounting import ExponentialMechanism
        >>> Budget.zcdp(1).selection_epsilon(Fraction(1, 2), ExponentialMechanism)
        Fraction(2, 1)
        """
        return Fraction(selection.epsilon_for_rho(share)) if self.notion == "zCDP" else share

    def spent(self, total: Composition) -> Fraction | None:
        """Return what total costs in this budget's unit; None if it has no cost there (as Gaussian noise).

        Exact for zCDP and pure DP, an upper bound within 1e-25 for advanced composition. The delta of
        total is counted apart, against event_delta.

        >>> from privmw.accounting import PermuteAndFlip
        >>> Budget.zcdp(1).spent(Composition.of([PermuteAndFlip(1, candidates=3)]))
        Fraction(1, 2)
        """
        if self.notion == "zCDP":
            return total.rho
        return total.epsilon if self.delta is None else total.epsilon_advanced(self._delta_left)

    def share(self, cost: Cost) -> Fraction | None:
        """Return a cost in this budget's unit where costs there simply add up; None where they do not.

        >>> from privmw.accounting import PermuteAndFlip
        >>> Budget.pure(1).share(PermuteAndFlip(1, candidates=3).cost)
        Fraction(1, 1)
        """
        if self.notion == "zCDP":
            return cost.rho
        return cost.epsilon if self.delta is None else None

    def allows(self, total: Composition) -> bool:
        """Return whether total is within the budget, its delta included, to the last bit.

        >>> from privmw.accounting import PermuteAndFlip
        >>> Budget.zcdp(1).allows(Composition.of([PermuteAndFlip(1, candidates=3, count=2)]))
        True
        """
        spent = self.spent(total)
        return spent is not None and spent <= self.limit and total.delta <= Fraction(self.event_delta)

    def fits(self, events: Iterable[Event]) -> bool:
        """Return whether all events together are within the budget.

        >>> from privmw.accounting import PermuteAndFlip
        >>> Budget.zcdp(1).fits([PermuteAndFlip(1, candidates=3)] * 3)
        False
        """
        return self.allows(Composition.of(events))

    def __repr__(self) -> str:
        """Show the call that makes this budget."""
        if self.notion == "pure":
            return f"Budget.pure({self.epsilon!r})"
        aside = f", event_delta={self.event_delta!r}" if self.event_delta else ""
        if self.epsilon is None:
            return f"Budget.zcdp({self.rho!r}{aside})"
        how = ", composition='advanced'" if self.notion == "advanced" else ""
        return f"Budget.approximate({self.epsilon!r}, {self.delta!r}{how}{aside})"
