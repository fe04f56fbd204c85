"""What every round of a run must have charged and measured, whatever it released: no data, no results.

The schedule, the budget and the sizes of the task fix the events of a round beforehand, up to which
queries were chosen. So what a checkpoint says of a round can be checked without trusting it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privmw.accounting import Budget, Event
from privmw.accounting.looks import Look, Step, looks_of_rounds
from privmw.accounting.noise import NoiseEvent, noise_of_event
from privmw.algorithms.loop import Released
from privmw.algorithms.schedule import Schedule
from privmw.algorithms.task import Task
from privmw.kernels.arrays import Int64s
from privmw.secrecy import shown


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
