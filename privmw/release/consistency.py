"""Checks that measurements, history and ledger of a release agree.

They run before a release is written and after it is read, so that a file that lacks a part, or was edited
with matching digests, is refused with the reason. privmw/algorithms/expected.py checks a checkpoint against
the schedule of its algorithm. Released values only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from privmw.accounting import Composition, Event
from privmw.accounting.noise import MEASURED, NoiseEvent, family_of_event, noise_of_event
from privmw.accounting.rounding import float_up
from privmw.accounting.statement import unit_size
from privmw.release.history import Round
from privmw.release.measurements import Measurement
from privmw.release.release import WEIGHT_SUM_TOLERANCE, Release
from privmw.secrecy import shown


def check_release(release: Release) -> None:
    """Refuse a release that contradicts itself.

    Every measurement must match a measuring event of the ledger, in order. A history must account for every
    event and every measurement, round by round. A release without measurements must have rounds that drew
    signed cells.
    """
    measuring = [event for event in release.ledger.events if isinstance(event, NoiseEvent)]
    count = sum(event.count for event in measuring)
    if len(release.measurements) != count:
        raise ValueError(
            f"measurements ({len(release.measurements)}) must be as many as the ledger says, {count}"
        )
    events = (event for event in measuring for _ in range(event.count))
    for place, (measurement, event) in enumerate(zip(release.measurements, events, strict=True)):
        if measurement.distribution != noise_of_event(event) or len(measurement) != event.size:
            raise ValueError(
                f"measurement {place}, {shown(measurement)}, must have noise and size of {shown(event)}"
            )
        _check_unit(event, unit_size(release.ledger.unit))
    if release.history:
        _check_history(release)
    elif isinstance(release.settings.get("algorithm"), str):
        raise ValueError("history (none) must have the rounds of the algorithm")


def _check_unit(event: NoiseEvent, size: int) -> None:
    """Refuse noise for a smaller unit than the ledger's: sensitivities are multiples of its size."""
    if event.sensitivity % family_of_event(event).sensitivity(1, size):
        raise ValueError(f"{shown(event)} must be noise for a unit of {size} records")


def _check_history(release: Release) -> None:
    history, rounds = release.history, [measurement.round for measurement in release.measurements]
    if any(entry.round >= after.round for entry, after in itertools.pairwise(history)):
        raise ValueError("rounds of the history must ascend")
    measures = bool(release.measurements)
    if not measures and "measure" in release.settings:
        raise ValueError("measurements (none) must be those of the rounds: the algorithm measures")
    if measures and (rounds != sorted(rounds) or set(rounds) != {entry.round for entry in history}):
        raise ValueError("rounds of the measurements must be those of the history, in order")
    last = release.settings.get("rounds")
    if type(last) is int and last != history[-1].round:
        raise ValueError(f"last round ({history[-1].round}) must be {last}, as the settings say")
    events, total = iter(release.ledger.events), Composition()
    by_round = {entry.round: [m for m in release.measurements if m.round == entry.round] for entry in history}
    for entry in history:
        measurements = by_round[entry.round]
        total = total.plus(*_events_of(entry, measurements, events))
        if float_up(total.rho) != entry.rho:
            raise ValueError(f"rho of round {entry.round} must be {float_up(total.rho)}, by the ledger")
        if not measures:
            _check_drawn(release, entry)
        elif entry.chosen:
            _check_cells(release, entry, measurements)
    if next(events, None) is not None:
        raise ValueError("the ledger must have no event after the last round")
    _check_grown(release)


def _check_grown(release: Release) -> None:
    """Refuse grown rows whose number or mass is not that of the last round."""
    details, support = release.history[-1].details, release.support
    if "grown_rows" in details and details["grown_rows"] != support.grown:
        raise ValueError(f"grown rows ({support.grown}) must be {details['grown_rows']}, by the history")
    mass = float(release.weights[support.counts == 0].sum())
    if "grown_mass" in details and not abs(details["grown_mass"] - mass) <= WEIGHT_SUM_TOLERANCE:
        raise ValueError(f"mass of grown rows ({mass}) must be {details['grown_mass']}, by the history")


def _events_of(entry: Round, measurements: list[Measurement], events: Iterator[Event]) -> Iterator[Event]:
    """Yield a round's events of the ledger: one selection per chosen candidate, then the measurements."""
    for what, needed in (("choose", len(entry.chosen)), ("measure", len(measurements))):
        while needed > 0:
            event = next(events, None)
            if event is None or (event.kind in MEASURED) != (what == "measure"):
                raise ValueError(f"round {entry.round} must {what} by events of the ledger, in order")
            needed -= event.count
            yield event


def _check_drawn(release: Release, entry: Round) -> None:
    """Refuse rounds that drew nothing, or anything but signed cells."""
    if not entry.chosen or max(entry.chosen) >= 2 * release.measured.cells:
        raise ValueError(
            f"round {entry.round} must measure, or draw signed cells below {2 * release.measured.cells}"
        )


def _check_cells(release: Release, entry: Round, measurements: list[Measurement]) -> None:
    """Refuse measurements of cells or marginals that the round did not choose."""
    measured = release.measured
    expected = []
    for choice in entry.chosen:
        marginal = measured.cells_of([choice]) if choice < len(measured) else np.empty(0, np.int64)
        expected.append((np.array([choice]), marginal))
    if len(measurements) != len(expected) or not all(
        any(np.array_equal(measurement.cells, cells) for cells in either)
        for measurement, either in zip(measurements, expected, strict=False)
    ):
        raise ValueError(f"measurements of round {entry.round} must be of what was chosen")
