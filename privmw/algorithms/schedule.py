"""Schedules: how a budget is split over the looks at the private table, before any data.

Arithmetic on an algorithm's options, a budget and, if known, the sizes of a task: no data.

A round chooses k queries and measures each. Under zCDP its share r of rho is split so that selection costs r
alpha^2 / (alpha^2 + (1 - alpha)^2) and measurement the rest ("Iterative methods", section 4: selection at
alpha epsilon0, noise at (1 - alpha) epsilon0). For pure costs, epsilon is split in the ratio alpha : 1 -
alpha.

A round may also draw signed cells and measure nothing. Its epsilon is then constant, or proportional to the
round's number: a draw of round t runs at t epsilon_1, like multiplicative weights of a fixed rate, and the k
T draws of T rounds cost k epsilon_1^2 / 8 (1 + 4 + ... + T^2), which is set equal to the budget.

`ExpectedRounds` has what every round must charge and measure, except for which queries are chosen: a
checkpoint's rounds are checked against it and need not be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from privmw.accounting import Budget, Composition, Event, ExponentialMechanism, PermuteAndFlip
from privmw.accounting.events import SelectionEvent
from privmw.accounting.looks import Look, Step, looks_of_rounds
from privmw.accounting.noise import NoiseEvent, noise_of_event
from privmw.accounting.rounding import Real, largest_float
from privmw.algorithms.task import Task
from privmw.data.workload import CELLS_CHANGED_PER_MARGINAL
from privmw.kernels.arrays import Int64s
from privmw.secrecy import shown

if TYPE_CHECKING:
    from privmw.algorithms.loop import Released

_SELECTIONS: dict[str, type[SelectionEvent]] = {
    "permute-and-flip": PermuteAndFlip,
    "exponential": ExponentialMechanism,
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """The number of looks of an algorithm at the private table, and its split of a budget.

    select: the mechanism that chooses; None measures everything in one shot and chooses nothing. repeats: if
    True, a round may repeat earlier choices before all others were made. draws: a round draws per_round
    signed cells, with replacement, and measures nothing; "growing" draws of round t have t times the epsilon
    of the first round.
    """

    rounds: int
    per_round: int
    select: Literal["permute-and-flip", "exponential"] | None
    split: Real
    warm_up: Real
    repeats: bool = True
    draws: Literal["even", "growing"] | None = None

    def looks(self, budget: Budget, task: Task | None = None) -> tuple[Look, ...]:
        """Split a budget into looks, with the sizes of a task if given, else with their least noise.

        >>> [look.step for look in Schedule(4, 1, "exponential", 0.5, 0.25).looks(Budget.zcdp(1))]
        ['shot', 'select', 'measure']
        """
        looks = tuple(self._looks(budget))
        return looks if task is None else tuple(task.with_sizes(look) for look in looks)

    def _looks(self, budget: Budget) -> Iterator[Look]:
        if self.draws is not None:
            yield from self._draws(budget)
            return
        if self.select is None:
            if not budget.adds_up:
                raise ValueError("select ('all') must not be used with advanced composition: use zCDP")
            yield Look("shot", budget.noise, budget.limit, changed=CELLS_CHANGED_PER_MARGINAL)
            return
        select, choices = _SELECTIONS[self.select], self.rounds * self.per_round
        shot = Fraction(self.warm_up) * budget.limit
        if shot:
            if not budget.adds_up:
                raise ValueError("warm_up must be 0 with advanced composition: use zCDP")
            yield Look("shot", budget.noise, shot, changed=CELLS_CHANGED_PER_MARGINAL)
        per_choice = (budget.limit - shot) / choices if budget.adds_up else self._advanced_share(budget)
        chosen = per_choice * self._part_of_selection(budget)
        rounds = range(1, self.rounds + 1)
        yield Look("select", select, budget.selection_epsilon(chosen, select), rounds, self.per_round)
        yield Look(
            "measure",
            budget.noise,
            per_choice - chosen,
            rounds,
            self.per_round,
            changed=CELLS_CHANGED_PER_MARGINAL,
        )

    def _part_of_selection(self, budget: Budget) -> Fraction:
        """The fraction of a share for selection: alpha for pure DP; from the squares of epsilons for zCDP."""
        alpha = Fraction(self.split)
        return alpha**2 / (alpha**2 + (1 - alpha) ** 2) if budget.unit == "rho" else alpha

    def _draws(self, budget: Budget) -> Iterator[Look]:
        first, kind = self._share_of_draw(budget), ExponentialMechanism
        if self.draws == "even":
            yield Look("draw", kind, first, range(1, self.rounds + 1), self.per_round)
            return
        for number in range(1, self.rounds + 1):
            epsilon = self._epsilon_over_first(number) * first
            yield Look("draw", kind, epsilon, range(number, number + 1), self.per_round)

    def _epsilon_over_first(self, number: int) -> int:
        """The factor by which the epsilon of a round's draws exceeds that of the first round's."""
        return number if self.draws == "growing" else 1

    def _share_of_draw(self, budget: Budget) -> Fraction:
        """The epsilon of a draw of the first round such that all draws together spend the budget.

        zCDP: k sum of (c_t epsilon)^2 / 8 = rho; pure: k sum of c_t epsilon = total epsilon.
        """
        if not budget.adds_up:
            raise ValueError("budget (advanced composition) must be zCDP or pure where rounds only draw")
        power = 2 if budget.unit == "rho" else 1
        total = sum(self._epsilon_over_first(number) ** power for number in range(1, self.rounds + 1))
        return budget.selection_epsilon(budget.limit / (self.per_round * total), ExponentialMechanism)

    def not_since(self, number: int, candidates: int) -> int:
        """The first round whose choices this one must not repeat; its own number if it may repeat all.

        >>> once = Schedule(9, 2, "exponential", 0.5, 0, repeats=False)
        >>> [once.not_since(number, candidates=7) for number in range(1, 8)]
        [1, 1, 1, 4, 4, 4, 7]
        """
        return number if self.repeats else number - (number - 1) % (candidates // self.per_round)

    def _advanced_share(self, budget: Budget) -> Fraction:
        """The largest epsilon per choice and measurement whose composition stays within the budget."""
        alpha, choices = Fraction(self.split), self.rounds * self.per_round

        def fits(per_choice: float) -> bool:
            parts = (alpha * Fraction(per_choice), (1 - alpha) * Fraction(per_choice))
            looks = [Look("select", PermuteAndFlip, part, range(choices)) for part in parts]
            return budget.allows(Composition.of(looks))

        # Basic composition is valid too, and allows more for few rounds.
        plain = float(budget.limit / choices)
        return Fraction(largest_float(fits, plain * (1 - 2**-50), max(float(budget.limit), 2 * plain)))


@dataclass(frozen=True)
class ExpectedRounds:
    """The rounds of a run. at_most: the maximum number of records of a unit, a factor of sensitivities."""

    schedule: Schedule
    budget: Budget
    task: Task
    at_most: int = 1

    @cached_property
    def looks(self) -> dict[int, dict[Step, Look]]:
        """The looks of every round, with the sizes of the task."""
        return looks_of_rounds(self.schedule.looks(self.budget, self.task))

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of all rounds, in order."""
        return range(min(self.looks), max(self.looks) + 1)

    def cells(self, number: int, chosen: Sequence[int]) -> list[Int64s]:
        """The cells of each measurement of a round."""
        if self.schedule.draws is not None:
            return []
        if number == 0:
            return [self.task.measured.cells_of(self.task.shot)]
        return [self.task.cells_of(choice) for choice in chosen]

    def events(self, number: int, chosen: Sequence[int]) -> list[Event]:
        """The events of a round: the selection, then one per chosen query; or the shot, or the draws."""
        task, events = self.task, list[Event]()
        for look in self.looks[number].values():
            if look.step == "measure":
                events += [
                    look.of_size(len(task.cells_of(choice)), task.sensitivity_of(choice)).event(self.at_most)
                    for choice in chosen
                ]
            elif look.step == "select":
                earlier = number - self.schedule.not_since(number, task.candidates)
                events.append(look.of_size(look.size - look.per_round * earlier).event())
            else:
                events.append(look.event(self.at_most))
        return events

    def check(
        self, released: Released, events: Sequence[Event], number: int, before: Sequence[Released] = ()
    ) -> None:
        """Refuse released values or events that round `number` of this run cannot have, with the reason.

        before: the rounds before it.
        """
        if released.round != number or number not in self.numbers:
            last = self.numbers[-1]
            raise ValueError(f"round ({released.round}) must be {number}, and at most {last}, the last")
        chosen, task = released.chosen, self.task
        count = self.schedule.per_round if number else 0
        draws = self.schedule.draws is not None  # of signed cells, with replacement
        candidates = task.candidates * (2 if draws else 1)
        repeated = not draws and len(set(chosen)) != len(chosen)
        if repeated or len(chosen) != count or max(chosen, default=0) >= candidates:
            kind = "signed cells" if draws else f"different {task.granularity}s"
            raise ValueError(f"chosen {chosen} of round {number} must be {count} {kind} below {candidates}")
        since = self.schedule.not_since(number, task.candidates) if number else 0
        excluded = {choice for earlier in before if earlier.round >= since for choice in earlier.chosen}
        if not self.schedule.repeats and excluded & set(chosen):
            raise ValueError(f"chosen {chosen} of round {number} must not be what an earlier round chose")
        expected = self.events(number, chosen)
        if list(events) != expected:
            raise ValueError(
                f"events of round {number} must be those of its schedule, {expected}, not {list(events)}"
            )
        measuring = [event for event in expected if isinstance(event, NoiseEvent)]
        if len(released.measurements) != len(measuring):
            raise ValueError(f"measurements of round {number} must be {len(measuring)}")
        for measurement, event, cells in zip(
            released.measurements, measuring, self.cells(number, chosen), strict=True
        ):
            if measurement.round != number or measurement.distribution != noise_of_event(event):
                raise ValueError(
                    f"{shown(measurement)} must be of round {number}, with the noise of its {shown(event)}"
                )
            if not np.array_equal(measurement.cells, cells):
                raise ValueError(f"cells of {shown(measurement)} must be those that were chosen")
