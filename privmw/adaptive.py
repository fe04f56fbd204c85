"""The loop that every algorithm runs: select what the model answers worst, measure it, update the model.

Algorithm 1 ("Adaptive Measurements") of "Iterative methods for private synthetic data", 2021. Before the
rounds, or instead of them, a first shot measures a fixed set of marginals at once. The private table goes
from here into the Curator and nowhere else; the model, the history and `progress` see released values only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.accounting import Budget, DiscreteGaussian, DiscreteLaplace
from privmw.curator import Curator
from privmw.history import Round
from privmw.measurements import Measurement
from privmw.question import Question
from privmw.random import Rng
from privmw.records import Records
from privmw.schedule import Schedule
from privmw.workload import Workload

Vector: TypeAlias = npt.NDArray[np.float64]
Progress: TypeAlias = Callable[[Round], None]


class Model(Protocol):
    """What the loop improves."""

    def answers(self) -> Vector:
        """The answers to what is asked; the array may be refilled by the next call."""

    def update(self, measurements: Sequence[Measurement], *, last: bool) -> Mapping[str, float]:
        """Take in a round's measurements, the last ones or not; say how that went."""

    def result(self) -> Vector:
        """The weights to release."""


def open_curator(private: Records, question: Question, budget: Budget, rng: Rng) -> Curator:
    """The door of one run."""
    return Curator(private, question.measured, budget, rng=rng)


def adapt(
    curator: Curator, model: Model, question: Question, schedule: Schedule, progress: Progress | None = None
) -> tuple[tuple[Measurement, ...], tuple[Round, ...]]:
    """Spend the curator's whole budget as the schedule says; returns all that was released on the way."""
    shares = schedule.shares(curator.ledger.budget)
    measurements: list[Measurement] = []
    history: list[Round] = []
    answers = model.answers()

    def measure(share: Fraction, **what: npt.ArrayLike) -> npt.NDArray[np.int64]:
        cost = {"rho": share} if shares.gaussian else {"epsilon": share}
        return curator.measure(**what, **cost)  # type: ignore[arg-type]

    def learn(number: int, chosen: tuple[int, ...], released: list[Measurement]) -> None:
        nonlocal answers
        before = _discrepancy(released, answers, curator.n)
        details = model.update(released, last=number == schedule.rounds)
        answers = model.answers()
        after = _discrepancy(released, answers, curator.n)
        measurements.extend(released)
        history.append(Round(number, chosen, before, after, curator.ledger.rho, details))
        if progress is not None:
            progress(history[-1])

    if shares.shot is not None:
        noisy = measure(shares.shot, marginals=question.shot)
        learn(0, (), [_measurement(curator, _cells(question.measured, question.shot), noisy, 0)])
    if shares.select is None or shares.measure is None:
        return tuple(measurements), tuple(history)
    for number in range(1, schedule.rounds + 1):
        chosen = curator.select(
            answers,
            epsilon=shares.select,
            mechanism=schedule.select or "exponential",
            among=question.unit,
            k=schedule.per_round,
            candidates=len(question.asked),
        )
        released = []
        for choice in chosen:
            if question.unit == "cell":
                cells, noisy = np.array([choice]), measure(shares.measure, queries=[choice])
            else:
                cells = _cells(question.measured, np.array([choice]))
                noisy = measure(shares.measure, marginals=[choice])
            released.append(_measurement(curator, cells, noisy, number))
        learn(number, chosen, released)
    return tuple(measurements), tuple(history)


def _measurement(
    curator: Curator, cells: npt.NDArray[np.int64], noisy: npt.NDArray[np.int64], number: int
) -> Measurement:
    event = curator.ledger.events[-1]
    if isinstance(event, DiscreteGaussian):
        return Measurement(cells, noisy, event.kind, float(event.sigma), number)
    assert isinstance(event, DiscreteLaplace)
    return Measurement(cells, noisy, event.kind, float(event.scale), number)


def _cells(workload: Workload, marginals: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Every cell of these marginals, marginal after marginal: the order in which they are measured."""
    offsets = workload.offsets
    sizes = (offsets[1:] - offsets[:-1])[marginals]
    ends = np.cumsum(sizes)
    cells: npt.NDArray[np.int64] = np.arange(ends[-1]) + np.repeat(offsets[marginals] - (ends - sizes), sizes)
    return cells


def _discrepancy(released: Sequence[Measurement], answers: Vector, n: int) -> float:
    """The largest |noisy answer - model answer| among the measured cells that are asked; NaN without any."""
    largest = []
    for measurement in released:
        asked = measurement.cells < len(answers)
        cells, counts = measurement.cells[asked], measurement.noisy_counts[asked]
        if len(cells):
            largest.append(float(np.abs(counts / n - answers[cells]).max()))
    return max(largest, default=float("nan"))
