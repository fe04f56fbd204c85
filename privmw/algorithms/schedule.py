"""How a budget is split over the looks at the private table, before any data is touched.

Arithmetic on an algorithm's options and a budget alone: no data, no support, no sizes.

A round chooses k queries and measures each. Under zCDP its share r of rho is cut so that selection costs
r alpha^2 / (alpha^2 + (1 - alpha)^2) and measurement the rest ("Iterative methods", section 4: selection at
alpha epsilon0, noise at (1 - alpha) epsilon0). Where pure costs add up, epsilon is cut in alpha : 1 - alpha.

A round may also draw signed cells and measure nothing. Its epsilon is then the same in every round, or grows
with it: a draw of round t runs at t epsilon_1, as multiplicative weights of a fixed rate do, and the k T
draws of T rounds cost k epsilon_1^2 / 8 (1 + 4 + ... + T^2), which is set to the budget.
"""

from __future__ import annotations

from collections import Counter
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
from privmw.accounting.noise import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, NoiseFamily
from privmw.accounting.rounding import Real, largest_float

Step = Literal["shot", "select", "measure", "draw"]


@dataclass(frozen=True, slots=True, repr=False)
class Planned(Event):
    """A look at the private table that will happen `count` times, with its largest cost; sizes are not known.

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
    """What each look may spend, in the unit of the noise; None where there is no such look.

    The share of a selection is the epsilon it runs at; that of a draw, the epsilon of one in the first round.
    """

    noise: NoiseFamily
    shot: Fraction | None
    select: Fraction | None
    measure: Fraction | None
    draw: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often an algorithm looks at the private table, and how it splits a budget.

    select: the mechanism that chooses; None measures everything in one shot and chooses nothing.
    repeats: whether a round may choose again what an earlier one chose, before everything else was chosen.
    draws: a round draws per_round signed cells, with replacement, and measures nothing; "growing" ones run at
    t times the epsilon of the first round's.
    """

    rounds: int
    per_round: int
    select: Literal["permute-and-flip", "exponential"] | None
    split: Real
    warm_up: Real
    repeats: bool = True
    draws: Literal["even", "growing"] | None = None

    def shares(self, budget: Budget) -> Shares:
        """Split a budget into the shares of single looks.

        >>> Schedule(4, 1, "exponential", 0.5, 0).shares(Budget.zcdp(1)).select
        Fraction(1, 1)
        """
        noise = DISCRETE_GAUSSIAN if budget.notion == "zCDP" else DISCRETE_LAPLACE
        if self.draws is not None:
            return Shares(noise, None, None, None, self._share_of_draw(budget))
        if self.select is None:
            if budget.notion == "advanced":
                raise ValueError("select ('all') must not be used with advanced composition: use zCDP")
            return Shares(noise, budget.limit, None, None)
        alpha, choices = Fraction(self.split), self.rounds * self.per_round
        shot = Fraction(self.warm_up) * budget.limit or None
        per_choice = (budget.limit - (shot or 0)) / choices
        if budget.notion == "zCDP":
            chosen = per_choice * alpha**2 / (alpha**2 + (1 - alpha) ** 2)
            calibrate = (
                epsilon_for_rho_exponential
                if self.select == "exponential"
                else epsilon_for_rho_permute_and_flip
            )
            return Shares(noise, shot, Fraction(calibrate(chosen)), per_choice - chosen)
        if budget.notion == "advanced":
            if shot is not None:
                raise ValueError("warm_up must be 0 with advanced composition: use zCDP")
            per_choice = self._advanced_share(budget)
        return Shares(noise, shot, alpha * per_choice, (1 - alpha) * per_choice)

    def times_first(self, number: int) -> int:
        """How many times the epsilon of the first round's draws those of a round run at."""
        return number if self.draws == "growing" else 1

    def _share_of_draw(self, budget: Budget) -> Fraction:
        """The epsilon of a draw of the first round with which all draws spend the budget.

        zCDP: k sum of (c_t epsilon)^2 / 8 = rho; pure: k sum of c_t epsilon = epsilon in all.
        """
        if budget.notion == "advanced":
            raise ValueError("budget (advanced composition) must be zCDP or pure where rounds only draw")
        times = [self.times_first(number) for number in range(1, self.rounds + 1)]
        if budget.notion == "zCDP":
            total = self.per_round * sum(c**2 for c in times)
            return Fraction(epsilon_for_rho_exponential(budget.limit / total))
        return budget.limit / (self.per_round * sum(times))

    def numbers(self, shares: Shares) -> range:
        """The numbers of all rounds: from 0 if there is a shot, else from 1.

        >>> schedule = Schedule(4, 1, "exponential", 0.5, 0.25)
        >>> schedule.numbers(schedule.shares(Budget.zcdp(1)))
        range(0, 5)
        """
        return range(0 if shares.shot is not None else 1, self.rounds + 1)

    def not_since(self, number: int, candidates: int) -> int:
        """The first round whose choices this one may not make again: itself, if it may make any.

        >>> once = Schedule(9, 2, "exponential", 0.5, 0, repeats=False)
        >>> [once.not_since(number, candidates=7) for number in range(1, 8)]
        [1, 1, 1, 4, 4, 4, 7]
        """
        return number if self.repeats else number - (number - 1) % (candidates // self.per_round)

    def _advanced_share(self, budget: Budget) -> Fraction:
        """The largest epsilon of a choice with its measurement that advanced composition of all allows."""
        alpha, choices = Fraction(self.split), self.rounds * self.per_round

        def fits(per_choice: float) -> bool:
            parts = (alpha * Fraction(per_choice), (1 - alpha) * Fraction(per_choice))
            looks = [Planned("select", "any", Cost(part**2 / 2, part), count=choices) for part in parts]
            return budget.allows(Composition.of(looks))

        # Plain composition is allowed too, and larger where rounds are few.
        plain = float(budget.limit / choices)
        return Fraction(largest_float(fits, plain * (1 - 2**-50), max(float(budget.limit), 2 * plain)))

    def events(self, budget: Budget) -> tuple[Planned, ...]:
        """Every look with its largest cost, before any size is known.

        >>> [event.step for event in Schedule(4, 1, "exponential", 0.5, 0.25).events(Budget.zcdp(1))]
        ['shot', 'select', 'measure']
        """
        shares = self.shares(budget)
        noise, looks = shares.noise, []
        if shares.draw is not None:
            costs = [self.times_first(number) * shares.draw for number in range(1, self.rounds + 1)]
            for epsilon, rounds in Counter(costs).items():
                cost, count = Cost(epsilon**2 / 8, epsilon), rounds * self.per_round
                looks.append(Planned("draw", "exponential-mechanism", cost, count=count))
        if shares.shot is not None:
            looks.append(Planned("shot", noise.name, noise.cost(shares.shot)))
        if shares.select is not None and shares.measure is not None:
            choices = self.rounds * self.per_round
            over = 8 if self.select == "exponential" else 2
            kind = "exponential-mechanism" if self.select == "exponential" else "permute-and-flip"
            chosen = Cost(shares.select**2 / over, shares.select)
            looks.append(Planned("select", kind, chosen, count=choices))
            looks.append(Planned("measure", noise.name, noise.cost(shares.measure), count=choices))
        return tuple(looks)
