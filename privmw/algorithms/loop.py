"""The loop that every algorithm runs: select what the model answers worst, measure it, update the model.

Algorithm 1 ("Adaptive Measurements") of "Iterative methods for private synthetic data", 2021. Before the
rounds, or instead of them, a first shot measures a fixed set of marginals at once. The private table goes
into the Curator and nowhere else; the model, the history and `progress` see released values only.
Where the support lies on several ranks, every rank runs this loop, and sees the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.accounting import DiscreteGaussian, DiscreteLaplace, Ledger
from privmw.algorithms.question import Question
from privmw.algorithms.schedule import Schedule, Shares
from privmw.curator.on_ranks import Door
from privmw.data.support import Support
from privmw.release.history import Round
from privmw.release.measurements import Measurement

Vector: TypeAlias = npt.NDArray[np.float64]
Progress: TypeAlias = Callable[[Round], None]
# Of a model: arrays of one number per row of this rank's support (none where the model weighs rows of its
# own), and others that are the same on every rank; all are one-dimensional, of float64.
State: TypeAlias = tuple[Mapping[str, Vector], Mapping[str, Vector]]


class Model(Protocol):
    """What the loop improves."""

    def answers(self) -> Vector:
        """The answers to what is asked; the array may be refilled by the next call."""

    def update(self, measurements: Sequence[Measurement], *, last: bool) -> Mapping[str, float]:
        """Take in a round's measurements, the last ones or not; say how that went."""

    def result(self) -> tuple[Support, Vector]:
        """The rows to release, those of the support given or the model's own, and their weights."""

    def state(self) -> State:
        """All that later updates depend on beside the measurements; the arrays may be the model's own."""

    def restore(self, measurements: Sequence[Measurement], state: State) -> None:
        """Be as after the updates with these measurements, which ended in this state."""


@dataclass(frozen=True, slots=True)
class Released:
    """What a round let out, before the model has learnt of it; rho: spent by then."""

    round: int
    chosen: tuple[int, ...]
    measurements: tuple[Measurement, ...]
    rho: float


class Journal(Protocol):
    """What keeps a run, so that another can go on where it ended (privmw/algorithms/checkpoint.py)."""

    @property
    def released(self) -> Sequence[Released]:
        """The rounds of the run that this one goes on with, in order."""

    def restore(self, model: Model) -> list[Round]:
        """Bring the model as far as it was kept; returns the history up to there."""

    def keep(self, released: Released, ledger: Ledger) -> None:
        """Keep what a round let out, before anybody sees it."""

    def learnt(self, history: Sequence[Round], model: Model) -> None:
        """Take note that the model has learnt from its last round."""


def adapt(
    door: Door,
    model: Model,
    question: Question,
    schedule: Schedule,
    progress: Progress | None = None,
    journal: Journal | None = None,
) -> tuple[tuple[Measurement, ...], tuple[Round, ...]]:
    """Spend the whole budget as the schedule says; returns all that was released on the way."""
    shares = schedule.shares(door.ledger.budget)
    numbers = range(0 if shares.shot is not None else 1, schedule.rounds + 1)
    rounds = [] if journal is None else list(journal.released)
    if [entry.round for entry in rounds] != list(numbers[: len(rounds)]):
        raise ValueError("checkpoint must hold every round up to its last")
    history = [] if journal is None else journal.restore(model)
    answers = model.answers()
    for place, number in list(enumerate(numbers))[len(history) :]:
        if place == len(rounds):
            if number == 0:
                rounds.append(_shoot(door, question, shares))
            else:
                rounds.append(_look(door, question, schedule, shares, number, answers))
            if journal is not None:
                journal.keep(rounds[-1], door.ledger)
        now = rounds[place]
        before = _discrepancy(now.measurements, answers, door.ledger.n)
        details = model.update(now.measurements, last=number == schedule.rounds)
        answers = model.answers()
        after = _discrepancy(now.measurements, answers, door.ledger.n)
        history.append(Round(number, now.chosen, before, after, now.rho, details))
        if journal is not None:
            journal.learnt(history, model)
        if progress is not None:
            progress(history[-1])
    return tuple(measurement for entry in rounds for measurement in entry.measurements), tuple(history)


def _shoot(door: Door, question: Question, shares: Shares) -> Released:
    """Measure a fixed set of marginals at once."""
    assert shares.shot is not None
    noisy = door.measure(marginals=question.shot, **_cost(shares, shares.shot))
    measurement = _measurement(door, question.measured.cells_of(question.shot), noisy, 0)
    return Released(0, (), (measurement,), door.ledger.rho)


def _look(
    door: Door, question: Question, schedule: Schedule, shares: Shares, number: int, answers: Vector
) -> Released:
    """Choose where the model errs most, and measure that."""
    assert shares.select is not None
    assert shares.measure is not None
    chosen = door.select(
        answers,
        epsilon=shares.select,
        mechanism=schedule.select or "exponential",
        among=question.unit,
        k=schedule.per_round,
        candidates=len(question.asked),
    )
    measurements = []
    for choice in chosen:
        cost = _cost(shares, shares.measure)
        if question.unit == "cell":
            cells, noisy = np.array([choice]), door.measure(queries=[choice], **cost)
        else:
            cells = question.measured.cells_of([choice])
            noisy = door.measure(marginals=[choice], **cost)
        measurements.append(_measurement(door, cells, noisy, number))
    return Released(number, chosen, tuple(measurements), door.ledger.rho)


def _cost(shares: Shares, share: Fraction) -> dict[str, Fraction]:
    return {"rho": share} if shares.gaussian else {"epsilon": share}


def _measurement(
    door: Door, cells: npt.NDArray[np.int64], noisy: npt.NDArray[np.int64], number: int
) -> Measurement:
    event = door.ledger.events[-1]
    if isinstance(event, DiscreteGaussian):
        return Measurement(cells, noisy, event.kind, float(event.sigma), number)
    assert isinstance(event, DiscreteLaplace)
    return Measurement(cells, noisy, event.kind, float(event.scale), number)


def _discrepancy(released: Sequence[Measurement], answers: Vector, n: int) -> float:
    """The largest |noisy answer - model answer| among the measured cells that are asked; NaN without any."""
    largest = []
    for measurement in released:
        asked = measurement.cells < len(answers)
        cells, counts = measurement.cells[asked], measurement.noisy_counts[asked]
        if len(cells):
            largest.append(float(np.abs(counts / n - answers[cells]).max()))
    return max(largest, default=float("nan"))
