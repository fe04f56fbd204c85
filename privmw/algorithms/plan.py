"""Plans: the bytes, noise and seconds that a run needs, from public sizes, before any private data.

Seconds are the time of one evaluation of the workload on this machine, times the number of evaluations that
an algorithm usually takes; they are accurate to a small factor. Bytes are sums of array sizes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privmw.accounting import Budget
from privmw.algorithms.schedule import Schedule
from privmw.algorithms.task import Granularity, Task
from privmw.data.memory import available_memory
from privmw.data.support import Support

if TYPE_CHECKING:
    from privmw.algorithms.configuration import Configuration

# Arrays with one number per cell: counts, sums, answers, scores, targets and their precisions; and with one
# per row: weights, masses, a prior and two temporary ones.
ARRAYS_OF_CELLS = 6
ARRAYS_OF_ROWS = 5
FEWEST_ARRAYS_OF_CELLS = 3  # the minimum of any run
ARRAYS_OF_SHOT = 6  # for each cell of a first shot: number, noisy count, target, precision, their order
# Texts in a release's file: settings and domain; a round, and a choice, in its history and ledger.
BYTES_OF_TEXTS, BYTES_OF_ROUND, BYTES_OF_CHOICE = 2**16, 2**10, 2**9
# Memory of growth per particle: the record, its parent, copies of both during resampling, columns.
BYTES_OF_CODE, BYTES_OF_PARTICLE = 24, 200
# Memory per value of an attribute: its shares and scores; 100 products more while rows are completed.
BYTES_OF_VALUE, BYTES_OF_FITTED_VALUE = 200, 8000
SECONDS_PER_CELL = 1e-8  # scoring and drawing run at memory speed: no measurement needed


@dataclass(frozen=True)
class NoiseLevel:
    """What a step measures, and the noise on each count: its scale, also as a fraction of n.

    granularity: single cells or whole marginals, of the orders listed, `count` of them over the whole run.
    deviation: the standard deviation of the noise, in records (not the scale of a Laplace distribution).
    """

    step: str
    scale: float
    fraction: float | None
    deviation: float
    granularity: Granularity
    count: int
    orders: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The estimated needs of a run.

    bytes: memory per rank, including the support and the workload. evaluation: measured seconds of one
    evaluation. seconds: estimated time of the whole run. traffic: approximate bytes per round that a rank
    reduces with the others; 0 on a single rank.
    """

    rounds: int
    rows: int
    marginals: int
    cells: int
    bytes: int
    noise: tuple[NoiseLevel, ...]
    evaluation: float
    seconds: float
    traffic: int = 0

    def __str__(self) -> str:
        noise = "; ".join(
            f"{level.step}: noise of scale {level.scale:.4g}"
            + ("" if level.fraction is None else f" ({level.fraction:.2%} of the records)")
            for level in self.noise
        )
        noise = noise or "nothing is measured"
        return (
            f"{self.rounds} rounds over {self.rows:,} rows and {self.cells:,} cells of {self.marginals:,} "
            f"marginals; {noise}; about {self.bytes / 1e6:,.0f} MB and {self.seconds:.3g} seconds"
            + (f"; {self.traffic / 1e6:,.1f} MB added up over the ranks a round" if self.traffic else "")
        )

    def _repr_html_(self) -> str | None:
        from privmw.report import panel  # here: only a notebook needs it

        return panel(self)


@dataclass(frozen=True)
class Effort:
    """The time of a first shot and of a round, in evaluations, as measured (benches/journal).

    passes: the number of times a round reduces the measured cells over the ranks.
    """

    shot: float
    round: float
    passes: int = 0


def check_memory(support: Support, task: Task, *, shot: bool, added: int = 0) -> None:
    """Refuse a run that does not fit in memory: the system could kill it after its budget was spent.

    added: the maximum number of rows that the model adds to the support.
    """
    cells = task.measured.cells
    arrays = FEWEST_ARRAYS_OF_CELLS * cells + (ARRAYS_OF_SHOT * task.cells_of_shot if shot else 0)
    least = support.nbytes + 8 * (arrays + support.size)
    particles = max(added, 0) * (BYTES_OF_CODE * len(support.domain) + BYTES_OF_PARTICLE)
    values = sum(support.domain.sizes) if added > 0 else 0
    of_values = values * (BYTES_OF_FITTED_VALUE if support.missing else BYTES_OF_VALUE)
    if least + particles + of_values > available_memory() >= least:
        raise ValueError(
            f"particles must fit in memory, and {added:,} rows need about {particles / 1e9:,.1f} GB, "
            f"{values:,} values of attributes {of_values / 1e9:,.1f} GB: take fewer"
        )
    if least > available_memory():
        raise ValueError(
            f"workload ({cells:,} cells) must fit in memory, and needs at least {least / 1e9:,.1f} GB: "
            f"sample it, or ask for smaller marginals"
        )


def bytes_of_release(schedule: Schedule, support: Support, task: Task, *, rows: int) -> int:
    """An upper bound of a release's file in bytes: rows, weights, counts, noisy counts and history."""
    widths = sum(np.min_scalar_type(size - 1).itemsize for size in support.domain.sizes)
    largest = 1 if task.granularity == "cell" else int(np.diff(task.measured.offsets).max())
    measured = 0
    if schedule.draws is None:
        measured = task.cells_of_shot + schedule.rounds * schedule.per_round * largest
    workloads = 8 * (len(task.workload.starts) + len(task.workload.attributes))
    texts = BYTES_OF_TEXTS + schedule.rounds * (BYTES_OF_ROUND + BYTES_OF_CHOICE * schedule.per_round)
    return rows * (widths + 16) + 16 * measured + 2 * workloads + texts


def noise_of_steps(
    schedule: Schedule, budget: Budget, task: Task, n: int | None, at_most: int
) -> tuple[NoiseLevel, ...]:
    """Return what each step of a run measures, and its noise, from public sizes; nothing is timed."""
    orders, levels = np.diff(task.measured.starts), []
    for look in schedule.looks(budget, task):
        if look.noise is None:
            continue
        noise = look.distribution(at_most)
        fraction = None if n is None else noise.scale / n
        granularity: Granularity
        if look.step == "shot":
            of, granularity, count = orders[task.shot], "marginal", len(task.shot)
        else:
            of, granularity, count = orders[: len(task.workload)], task.granularity, look.count
        kinds, deviation = tuple(np.unique(of).tolist()), math.sqrt(noise.variance)
        levels.append(NoiseLevel(look.step, noise.scale, fraction, deviation, granularity, count, kinds))
    return tuple(levels)


def make_plan(
    algorithm: Configuration,
    budget: Budget,
    support: Support,
    task: Task,
    n: int | None,
    at_most: int,
) -> Plan:
    """Estimate a plan from sizes and one timed evaluation (skipped for algorithms that draw)."""
    schedule, effort = algorithm.schedule, algorithm.effort
    levels = noise_of_steps(schedule, budget, task, n, at_most)
    has_shot = any(level.step == "shot" for level in levels)
    evaluation = _evaluation(support, task) if schedule.draws is None else 0.0
    cells = task.measured.cells
    needed = support.nbytes + 8 * (ARRAYS_OF_CELLS * cells + ARRAYS_OF_ROWS * support.size)
    traffic = 0 if support.comm.size == 1 else _traffic(task, schedule, has_shot, effort)
    if has_shot:
        needed += 8 * ARRAYS_OF_SHOT * task.cells_of_shot
    looked_at = schedule.per_round if schedule.draws is None else 2  # draws: both signs of each cell
    scoring = SECONDS_PER_CELL * task.workload.cells * looked_at + algorithm.seconds_of_response
    shot = 0.0
    if has_shot:
        shot = evaluation * effort.shot * len(task.shot) / len(task.workload)
    return Plan(
        schedule.rounds,
        0 if schedule.draws is not None and support.missing else support.whole_size,
        len(task.measured),
        cells,
        needed,
        levels,
        evaluation,
        evaluation + shot + (evaluation * effort.round + scoring) * schedule.rounds,
        traffic,
    )


def _evaluation(support: Support, task: Task) -> float:
    """The seconds of one evaluation of the workload."""
    weights = support.start("uniform")  # uniform: generated rows have no frequencies
    support.answers(task.workload, weights)  # the first call also plans the kernels: not timed
    began = time.perf_counter()
    support.answers(task.workload, weights)
    return time.perf_counter() - began


def _traffic(task: Task, schedule: Schedule, shot: bool, effort: Effort) -> int:
    """Bytes of the answers once, and per pass of the measured cells of marginals, on average half of them."""
    measured = task.cells_of_shot if shot else 0.0
    if task.granularity == "marginal":
        choices = schedule.per_round * schedule.rounds / 2
        measured += min(choices / len(task.measured), 1.0) * task.measured.cells
    return round(8 * (task.workload.cells + effort.passes * measured))
