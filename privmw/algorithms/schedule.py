"""Who pays what: from an algorithm's options and a budget to every look at the private table, beforehand.

This room is arithmetic on parameters alone. It knows no data and no support; sizes come in only with `steps`,
where a workload says how many candidates and cells there are.

A round chooses k queries and measures each. Under zCDP its share r of rho is cut so that selection costs
r alpha^2 / (alpha^2 + (1 - alpha)^2) and measurement the rest ("Iterative methods", section 4: selection at
alpha epsilon0, noise at (1 - alpha) epsilon0). Where pure costs add up, epsilon is cut in alpha : 1 - alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from privmw.accounting import (
    Budget,
    Composition,
    Cost,
    Event,
    epsilon_for_rho_exponential,
    epsilon_for_rho_permute_and_flip,
)
from privmw.accounting.rounding import Real, largest_float

Step = Literal["shot", "select", "measure"]


@dataclass(frozen=True, slots=True, repr=False)
class Planned(Event):
    """A look at the private table that will happen, count times: what it costs at most, not yet its sizes.

    >>> Planned("measure", "discrete-gaussian", Cost(Fraction(1, 8), None), count=2).rho
    0.25
    """

    step: Step
    mechanism: str
    cost_of_each: Cost
    count: int = 1

    kind: ClassVar[str] = "planned"

    @property
    def cost_of_one(self) -> Cost:
        """The most that one such look costs."""
        return self.cost_of_each


@dataclass(frozen=True, slots=True)
class Shares:
    """What each look may spend: rho under zCDP, epsilon where costs are pure; None where there is none.

    Selections are given as the epsilon they run at.
    """

    gaussian: bool
    shot: Fraction | None
    select: Fraction | None
    measure: Fraction | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often is looked, and how a budget is cut.

    select: the mechanism that chooses; None measures everything in one shot and chooses nothing.
    """

    rounds: int
    per_round: int
    select: Literal["permute-and-flip", "exponential"] | None
    split: Real
    warm_up: Real

    def shares(self, budget: Budget) -> Shares:
        """Cut a budget into the shares of single looks.

        >>> Schedule(4, 1, "exponential", 0.5, 0).shares(Budget.zcdp(1)).select
        Fraction(1, 1)
        """
        if self.select is None:
            if budget.notion == "advanced":
                raise ValueError("select ('all') must not be used with advanced composition: use zCDP")
            return Shares(budget.notion == "zCDP", budget.limit, None, None)
        alpha, choices = Fraction(self.split), self.rounds * self.per_round
        shot = Fraction(self.warm_up) * budget.limit or None
        each = (budget.limit - (shot or 0)) / choices
        if budget.notion == "zCDP":
            chosen = each * alpha**2 / (alpha**2 + (1 - alpha) ** 2)
            calibrate = (
                epsilon_for_rho_exponential
                if self.select == "exponential"
                else epsilon_for_rho_permute_and_flip
            )
            return Shares(True, shot, Fraction(calibrate(chosen)), each - chosen)
        if budget.notion == "advanced":
            if shot is not None:
                raise ValueError("warm_up must be 0 with advanced composition: use zCDP")
            each = self._advanced_share(budget)
        return Shares(False, shot, alpha * each, (1 - alpha) * each)

    def _advanced_share(self, budget: Budget) -> Fraction:
        """The largest epsilon of a choice with its measurement that advanced composition of all allows."""
        alpha, choices = Fraction(self.split), self.rounds * self.per_round

        def fits(each: float) -> bool:
            parts = (alpha * Fraction(each), (1 - alpha) * Fraction(each))
            looks = [Planned("select", "any", Cost(part**2 / 2, part), count=choices) for part in parts]
            return budget.allows(Composition.of(looks))

        # Plain composition is allowed too, and larger where rounds are few.
        plain = float(budget.limit / choices)
        return Fraction(largest_float(fits, plain * (1 - 2**-50), max(float(budget.limit), 2 * plain)))

    def events(self, budget: Budget) -> tuple[Planned, ...]:
        """Every look, before any size is known: what each costs at most.

        >>> [event.step for event in Schedule(4, 1, "exponential", 0.5, 0.25).events(Budget.zcdp(1))]
        ['shot', 'select', 'measure']
        """
        shares = self.shares(budget)
        noise = "discrete-gaussian" if shares.gaussian else "discrete-laplace"

        def noisy(share: Fraction) -> Cost:
            return Cost(share, None) if shares.gaussian else Cost(share**2 / 2, share)

        looks = []
        if shares.shot is not None:
            looks.append(Planned("shot", noise, noisy(shares.shot)))
        if shares.select is not None and shares.measure is not None:
            choices = self.rounds * self.per_round
            over = 8 if self.select == "exponential" else 2
            kind = "exponential-mechanism" if self.select == "exponential" else "permute-and-flip"
            chosen = Cost(shares.select**2 / over, shares.select)
            looks.append(Planned("select", kind, chosen, count=choices))
            looks.append(Planned("measure", noise, noisy(shares.measure), count=choices))
        return tuple(looks)
