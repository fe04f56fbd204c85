"""What a run will need, before any private data: bytes, noise and seconds, from public sizes alone.

Seconds are the time of one evaluation of the workload on this machine, times the number of evaluations that
an algorithm usually takes: right to within a factor of a few. Bytes come from array sizes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from privmw.accounting import Budget
from privmw.algorithms.question import Question
from privmw.algorithms.schedule import Schedule
from privmw.data.memory import physical_memory
from privmw.data.support import Support

# Arrays with one number per cell: counts, sums, answers, scores, targets and their precisions; and with one
# per row: weights, masses, a prior and two temporary ones.
ARRAYS_OF_CELLS = 6
ARRAYS_OF_ROWS = 5
FEWEST_ARRAYS_OF_CELLS = 3  # that any run needs at once
ARRAYS_OF_SHOT = 6  # for each cell of a first shot: number, noisy count, target, precision, their order
SECONDS_PER_CELL = 1e-8  # scoring and drawing: memory speed, not worth a measurement


@dataclass(frozen=True)
class NoiseLevel:
    """The noise on each count that a step measures: its scale, and that as a fraction of n."""

    step: str
    scale: float
    fraction: float | None


@dataclass(frozen=True)
class Plan:
    """What a run will need.

    bytes: of a rank's memory, support and workload included. evaluation: measured seconds of one evaluation.
    seconds: of the whole run, estimated from it. traffic: about how many bytes a rank reduces with the others
    in a round; 0 on a single rank.
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
        return (
            f"{self.rounds} rounds over {self.rows:,} rows and {self.cells:,} cells of {self.marginals:,} "
            f"marginals; {noise}; about {self.bytes / 1e6:,.0f} MB and {self.seconds:.3g} seconds"
            + (f"; {self.traffic / 1e6:,.1f} MB added up over the ranks a round" if self.traffic else "")
        )


@dataclass(frozen=True)
class Effort:
    """How many evaluations' time a first shot and a round take, as measured (benches/README.md).

    passes: how often a round reduces the measured cells over the ranks.
    """

    shot: float
    round: float
    passes: int = 0


def check_memory(support: Support, question: Question, *, shot: bool) -> None:
    """Refuse a run that does not fit in memory: the system would kill it after its budget was spent."""
    cells = question.measured.cells
    arrays = FEWEST_ARRAYS_OF_CELLS * cells + (ARRAYS_OF_SHOT * question.cells_of_shot if shot else 0)
    least = support.nbytes + 8 * (arrays + support.size)
    if least > physical_memory():
        raise ValueError(
            f"workload ({cells:,} cells) must fit in memory, and needs at least {least / 1e9:,.1f} GB: "
            f"sample it, or ask for smaller marginals"
        )


def make_plan(
    schedule: Schedule,
    budget: Budget,
    support: Support,
    question: Question,
    n: int | None,
    at_most: int,
    effort: Effort,
) -> Plan:
    """Combine sizes with one timed evaluation."""
    shares = schedule.shares(budget)
    levels = []
    for step, share, sensitivity in (
        ("shot", shares.shot, question.measured.sensitivity(question.shot)),
        ("measure", shares.measure, 1 if question.unit == "cell" else 2),
    ):
        if share is not None:
            scale = shares.noise.scale_for(share, sensitivity, at_most)
            levels.append(NoiseLevel(step, scale, None if n is None else scale / n))
    support.answers(question.workload)  # a run plans the kernels once: not part of an evaluation's time
    began = time.perf_counter()
    support.answers(question.workload)
    evaluation = time.perf_counter() - began
    cells = question.measured.cells
    needed = support.nbytes + 8 * (ARRAYS_OF_CELLS * cells + ARRAYS_OF_ROWS * support.size)
    traffic = 0 if support.comm.size == 1 else _traffic(question, schedule, shares.shot is not None, effort)
    if shares.shot is not None:
        needed += 8 * ARRAYS_OF_SHOT * question.cells_of_shot
    scoring = SECONDS_PER_CELL * question.workload.cells * schedule.per_round
    shot = 0.0
    if shares.shot is not None:
        shot = evaluation * effort.shot * len(question.shot) / len(question.workload)
    return Plan(
        schedule.rounds,
        support.whole_size,
        len(question.measured),
        cells,
        needed,
        tuple(levels),
        evaluation,
        evaluation + shot + (evaluation * effort.round + scoring) * schedule.rounds,
        traffic,
    )


def _traffic(question: Question, schedule: Schedule, shot: bool, effort: Effort) -> int:
    """The answers once, and at every pass the measured cells of whole marginals: on average half of them."""
    measured = question.cells_of_shot if shot else 0.0
    if question.unit == "marginal":
        choices = schedule.per_round * schedule.rounds / 2
        measured += min(choices / len(question.measured), 1.0) * question.measured.cells
    return round(8 * (question.workload.cells + effort.passes * measured))
