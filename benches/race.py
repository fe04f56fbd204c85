"""Ratios on a machine that others use too: the lines of a case run in turn, and share the noise.

The ratio reached is that of the fastest rounds: in processor time, or on the wall where threads are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest


class Spent(NamedTuple):
    """What a run returns where only a part of it counts: seconds on the wall, and of processors."""

    wall: float
    cpu: float


class Line(NamedTuple):
    """One way to do a case's work. `share`: how much of it a run does; times are divided by it."""

    run: Callable[[], object]
    share: float = 1.0


class Ratio(NamedTuple):
    """How many times faster `line` should be than `against`; no target: for information."""

    line: str
    against: str
    target: float | None = None


@dataclass
class Case:
    """A question, the lines that answer it, the ratios wanted, and a check that all answers are the same."""

    lines: dict[str, Line]
    ratios: list[Ratio]
    check: Callable[[], None]
    note: str = ""
    rounds: dict[str, int] = field(default_factory=dict)  # that pytest-benchmark times each line for


@dataclass
class Figures:
    """What is printed at the end: for each bench file its rows, and notes on the shapes."""

    smoke: bool
    rows: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def add(self, file: str, case: str, what: str, target: str, reached: str, holds: bool | None) -> None:
        verdict = {True: "yes", False: "NO", None: ""}[None if self.smoke else holds]
        self.rows.setdefault(file, []).append((case, what, target, reached, verdict))

    def note(self, file: str, text: str) -> None:
        if text and text not in self.notes.setdefault(file, []):
            self.notes[file].append(text)


class Times(NamedTuple):
    """Seconds of a whole run, round by round: on the wall, and of processors without other programs'."""

    wall: np.ndarray
    cpu: np.ndarray


def race(lines: dict[str, Line], seconds: float, fewest: int) -> dict[str, Times]:
    """Runs the lines in turn until the time is up; the first round warms up and does not count."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in lines}
    begin = time.perf_counter()
    rounds = -1 if fewest > 1 else 0
    while rounds < fewest or (rounds < 100 and time.perf_counter() - begin < seconds):
        for name, line in lines.items():
            cpu, wall = time.process_time(), time.perf_counter()
            told = line.run()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if isinstance(told, Spent):
                wall, cpu = told
            if rounds >= 0:
                times[name].append((wall / line.share, cpu / line.share))
        rounds += 1
    return {name: Times(*np.array(taken).T) for name, taken in times.items()}


def add_ratios(figures: Figures, file: str, title: str, case: Case, times: dict[str, Times]) -> None:
    for line, against, target in case.ratios:
        ours, theirs = times[line], times[against]
        wall = theirs.wall.min() / ours.wall.min()
        middle = np.median(theirs.wall) / np.median(ours.wall)
        cpu = theirs.cpu.min() / ours.cpu.min()
        if "two threads" in line:
            # Had both cores been free: no more than twice what the threads' work cost in all.
            reached, text = wall, f"{wall:.3g}x (medians {middle:.3g}x, at most {2 * cpu:.3g}x)"
        else:
            reached, text = cpu, f"{cpu:.3g}x (wall {wall:.3g}x, medians {middle:.3g}x)"
        holds = None if target is None else bool(reached >= target)
        figures.add(file, title, f"{line} vs {against}", f">= {target:g}x" if target else "", text, holds)


def each_line(cases: dict[str, tuple[Any, tuple[str, ...]]]) -> list[Any]:
    """Parameters (case, line), case after case."""
    return [
        pytest.param(case, line, id=f"{case}-{line}") for case, (_, lines) in cases.items() for line in lines
    ]
