"""How much may be spent, and in which notion: zCDP, pure DP, or advanced composition of pure costs.

Whether events fit is decided on exact rationals, without a tolerance: a mechanism calibrated to use the
budget up is accepted, and one that passes it by the last bit is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from .composition import Composition
from .conversion import epsilon_from_rho, rho_from_epsilon
from .events import Cost, Event
from .rounding import Real, positive, probability


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
    (epsilon, delta, and only events with a pure cost).

    >>> Budget.approximate(1.0, 1e-9).notion
    'zCDP'
    """

    notion: str
    rho: Real | None = None
    epsilon: Real | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        """Refuse budgets that mean nothing, or whose rho is more than their epsilon and delta allow."""
        given = {name for name in ("rho", "epsilon", "delta") if getattr(self, name) is not None}
        if self.notion not in _FIELDS:
            raise ValueError(f"notion ({self.notion!r}) must be one of {', '.join(_FIELDS)}")
        if given not in _FIELDS[self.notion]:
            raise ValueError(f"notion ({self.notion!r}) must come with its own numbers, not {sorted(given)}")
        for name in given - {"delta"}:
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        if self.delta is not None:
            object.__setattr__(self, "delta", probability("delta", self.delta))
        if self.rho is None or self.epsilon is None or self.delta is None:
            return
        if epsilon_from_rho(self.rho, self.delta) > self.epsilon:
            raise ValueError(f"rho ({self.rho}) must imply epsilon {self.epsilon} at delta {self.delta}")

    @classmethod
    def zcdp(cls, rho: Real) -> "Budget":
        """Return a budget of rho-zCDP.

        >>> Budget.zcdp(0.5).limit
        Fraction(1, 2)
        """
        return cls("zCDP", rho=positive("rho", rho))

    @classmethod
    def approximate(cls, epsilon: Real, delta: Real, composition: str = "zCDP") -> "Budget":
        """Return a budget of (epsilon, delta)-DP, counted in zCDP or by "advanced" composition of pure costs.

        >>> Budget.approximate(1.0, 1e-9).rho < 0.01498
        True
        >>> Budget.approximate(1.0, 1e-9, composition="advanced").notion
        'advanced'
        """
        epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
        if composition == "advanced":
            return cls("advanced", epsilon=epsilon, delta=delta)
        if composition != "zCDP":
            raise ValueError(f"composition ({composition!r}) must be 'zCDP' or 'advanced'")
        return cls("zCDP", rho=rho_from_epsilon(epsilon, delta), epsilon=epsilon, delta=delta)

    @classmethod
    def pure(cls, epsilon: Real) -> "Budget":
        """Return a budget of epsilon-DP, with no delta at all.

        >>> Budget.pure(1)
        Budget.pure(1)
        """
        return cls("pure", epsilon=positive("epsilon", epsilon))

    @property
    def unit(self) -> str:
        """What this budget counts in: "rho" or "epsilon"."""
        return "rho" if self.notion == "zCDP" else "epsilon"

    @property
    def limit(self) -> Fraction:
        """The whole budget, exactly, in its unit."""
        limit = self.rho if self.notion == "zCDP" else self.epsilon
        assert limit is not None  # by __post_init__
        return Fraction(limit)

    def spent(self, total: Composition) -> Fraction | None:
        """Return what total costs in this budget's unit; None if it has no cost there (as Gaussian noise).

        Exact for zCDP and pure DP, an upper bound within 1e-25 for advanced composition.

        >>> from privmw.accounting import PermuteAndFlip
        >>> Budget.zcdp(1).spent(Composition.of([PermuteAndFlip(1, candidates=3)]))
        Fraction(1, 2)
        """
        if self.notion == "zCDP":
            return total.rho
        return total.epsilon if self.delta is None else total.epsilon_advanced(self.delta)

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
        """Return whether total is within the budget, to the last bit.

        >>> from privmw.accounting import PermuteAndFlip
        >>> Budget.zcdp(1).allows(Composition.of([PermuteAndFlip(1, candidates=3, count=2)]))
        True
        """
        spent = self.spent(total)
        return spent is not None and spent <= self.limit

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
        if self.epsilon is None:
            return f"Budget.zcdp({self.rho!r})"
        how = ", composition='advanced'" if self.notion == "advanced" else ""
        return f"Budget.approximate({self.epsilon!r}, {self.delta!r}{how})"
