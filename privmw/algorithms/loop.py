"""The loop of every algorithm: select queries with large errors of the model, measure them, update the model.

Algorithm 1 ("Adaptive Measurements") of "Iterative methods for private synthetic data", 2021. Before the
rounds, or instead of them, a first shot measures a fixed set of marginals at once. If a model answers with
records, a round draws signed cells on which they err and measures nothing, and the model responds. The
private table is passed to the Curator and nowhere else; the model, the history and `progress` see released
values only. If the support is sharded over several ranks, every rank runs this loop on the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from privmw.accounting import ExponentialMechanism, Ledger
from privmw.accounting.looks import Look, Step, looks_of_rounds
from privmw.accounting.noise import noise_of_event
from privmw.algorithms.schedule import Schedule
from privmw.algorithms.task import Task
from privmw.curator.on_ranks import AnyCurator
from privmw.data.support import Support
from privmw.kernels.arrays import Float64s, Int64s
from privmw.models.inputs import State
from privmw.release.history import Round
from privmw.release.measurements import Measurement

Progress: TypeAlias = Callable[[Round], None]


class Model(Protocol):
    """The interface of a model, which the loop updates."""

    def answers(self) -> Float64s:
        """The answers to the workload; the next call may overwrite the array."""

    def update(self, measurements: Sequence[Measurement], *, last: bool) -> Mapping[str, float]:
        """Learn from a round's measurements; returns details, such as a solver's duality gap."""

    def result(self) -> tuple[Support, Float64s]:
        """The rows to release, from the support or made by the model, and their weights."""

    def state(self) -> State | None:
        """Everything that later updates depend on besides the measurements; arrays are not copied.

        None if the state cannot be stored; a resumed run then replays every round.
        """

    def restore(self, measurements: Sequence[Measurement], state: State) -> None:
        """Restore the state reached after these measurements."""


class RespondingModel(Model, Protocol):
    """A model that learns from drawn cells only, and answers with a bag (multiset) of records."""

    def bag(self) -> tuple[Int64s, int]:
        """The number of the bag's records in each cell (read-only), and the size of the bag."""

    def respond(self, drawn: Sequence[int], *, last: bool) -> Mapping[str, float]:
        """Learn from the signed cells that a round drew (`Curator.draw` numbers them); returns details."""


@dataclass(frozen=True, slots=True)
class Released:
    """The released values of one round, before the model is updated; rho: total spent so far."""

    round: int
    chosen: tuple[int, ...]
    measurements: tuple[Measurement, ...]
    rho: float


class Journal(Protocol):
    """Stores a run, so that it can be resumed (privmw/algorithms/checkpoint.py)."""

    @property
    def released(self) -> Sequence[Released]:
        """The rounds that earlier attempts released, validated: the first ones of the schedule."""

    def restore(self, model: Model) -> list[Round]:
        """Restore the model's last stored state; returns the history up to there."""

    def store_round(self, released: Released, ledger: Ledger) -> None:
        """Store the released values of a round, before anything else sees them."""

    def store_state(self, history: Sequence[Round], model: Model) -> None:
        """Called after the model has learnt from the last round of the history."""


def run_rounds(
    curator: AnyCurator,
    model: Model,
    task: Task,
    schedule: Schedule,
    progress: Progress | None = None,
    journal: Journal | None = None,
) -> tuple[tuple[Measurement, ...], tuple[Round, ...]]:
    """Spend the whole budget as the schedule says; returns all measurements and the history."""
    looks = schedule.looks(curator.ledger.budget, task)
    by_round = looks_of_rounds(looks)
    rounds = [] if journal is None else list(journal.released)
    history = [] if journal is None else journal.restore(model)
    answers, n = model.answers(), curator.ledger.n
    for place, number in list(enumerate(by_round))[len(history) :]:
        if place == len(rounds):
            now = by_round[number]
            if "draw" in now:
                rounds.append(_draw_round(curator, _responding(model), now["draw"], number))
            elif "shot" in now:
                rounds.append(_measure_shot(curator, task, now["shot"]))
            else:
                since = schedule.not_since(number, task.candidates)
                before = [c for released in rounds if released.round >= since for c in released.chosen]
                rounds.append(_measure_round(curator, task, now, number, answers, before))
            if journal is not None:
                journal.store_round(rounds[-1], curator.ledger)
        released = rounds[place]
        discrepancy = _discrepancy(released.measurements, answers, n)
        last = number == schedule.rounds
        if schedule.draws is not None:
            details = _responding(model).respond(released.chosen, last=last)
        else:
            details = model.update(released.measurements, last=last)
        answers = model.answers()
        after = _discrepancy(released.measurements, answers, n)
        history.append(Round(number, released.chosen, discrepancy, after, released.rho, details))
        if journal is not None:
            journal.store_state(history, model)
        if progress is not None:
            progress(history[-1])
    return tuple(measurement for released in rounds for measurement in released.measurements), tuple(history)


def _responding(model: Model) -> RespondingModel:
    return cast(RespondingModel, model)


def _draw_round(curator: AnyCurator, model: RespondingModel, look: Look, number: int) -> Released:
    """Draw signed cells on which the model's bag errs."""
    cell_counts, records = model.bag()
    drawn = curator.draw(cell_counts, records=records, epsilon=look.share, k=look.per_round)
    return Released(number, drawn, (), curator.ledger.rho)


def _measure_shot(curator: AnyCurator, task: Task, look: Look) -> Released:
    """Measure a fixed set of marginals at once."""
    noisy = curator.measure(marginals=task.shot, **look.argument())
    measurement = _measurement(curator, task.measured.cells_of(task.shot), noisy, 0)
    return Released(0, (), (measurement,), curator.ledger.rho)


def _measure_round(
    curator: AnyCurator,
    task: Task,
    looks: Mapping[Step, Look],
    number: int,
    answers: Float64s,
    exclude: Sequence[int],
) -> Released:
    """Choose and measure cells or marginals with large errors; exclude: earlier choices not to repeat."""
    select, measure = looks["select"], looks["measure"]
    chosen = curator.select(
        answers,
        epsilon=select.share,
        mechanism="exponential" if select.how is ExponentialMechanism else "permute-and-flip",
        among=task.granularity,
        k=select.per_round,
        exclude=exclude,
        candidates=len(task.workload),
    )
    measurements = []
    for choice in chosen:
        which: dict[str, Any] = {"queries" if task.granularity == "cell" else "marginals": [choice]}
        noisy = curator.measure(**which, **measure.argument())
        measurements.append(_measurement(curator, task.cells_of(choice), noisy, number))
    return Released(number, chosen, tuple(measurements), curator.ledger.rho)


def _measurement(curator: AnyCurator, cells: Int64s, noisy: Int64s, number: int) -> Measurement:
    noise = noise_of_event(curator.ledger.events[-1])
    return Measurement(cells, noisy, noise.name, noise.scale, number)


def _discrepancy(measurements: Sequence[Measurement], answers: Float64s, n: int) -> float:
    """The largest |noisy answer - model answer| among measured cells of the workload; NaN without any."""
    largest = []
    for measurement in measurements:
        answered = measurement.cells < len(answers)
        cells, counts = measurement.cells[answered], measurement.noisy_counts[answered]
        if len(cells):
            largest.append(float(np.abs(counts / n - answers[cells]).max()))
    return max(largest, default=float("nan"))
