"""What a run will need, before any private data: bytes, noise and seconds, from public sizes alone.

Seconds come from one evaluation of the workload on this machine, timed here, times what an algorithm usually
needs of them: right to within a few times. Bytes come from array sizes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from privmw.accounting import Budget, scale_for_epsilon, sigma_for_rho
from privmw.algorithms.question import Question
from privmw.algorithms.schedule import Schedule
from privmw.data.memory import physical_memory
from privmw.data.support import Support

# Arrays of one number a cell: counts, sums, answers, scores, targets and their precisions; and one a row:
# weights, masses, a prior and two passing by.
ARRAYS_OF_CELLS = 6
ARRAYS_OF_ROWS = 5
FEWEST_ARRAYS_OF_CELLS = 3  # that any run holds at once
ARRAYS_OF_SHOT = 6  # more for each cell of a first shot: number, noisy count, target, precision, their order
SECONDS_PER_CELL = 1e-8  # scoring and drawing: memory speed, not worth a measurement


@dataclass(frozen=True)
class Noise:
    """The noise on each count that one kind of look measures: its scale, and that as a share of n."""

    step: str
    scale: float
    fraction: float | None


@dataclass(frozen=True)
class Plan:
    """What a run will need.

    bytes: held at once by a rank, support and workload included. evaluation: seconds of one evaluation,
    measured. seconds: of the whole run, estimated from it. traffic: bytes that a rank adds up with the others
    in a round, about; 0 alone.
    """

    rounds: int
    rows: int
    marginals: int
    cells: int
    bytes: int
    noise: tuple[Noise, ...]
    evaluation: float
    seconds: float
    traffic: int = 0

    def __str__(self) -> str:
        noise = "; ".join(
            f"{look.step}: noise of scale {look.scale:.4g}"
            + ("" if look.fraction is None else f" ({look.fraction:.2%} of the records)")
            for look in self.noise
        )
        return (
            f"{self.rounds} rounds over {self.rows:,} rows and {self.cells:,} cells of {self.marginals:,} "
            f"marginals; {noise}; about {self.bytes / 1e6:,.0f} MB and {self.seconds:.3g} seconds"
            + (f"; {self.traffic / 1e6:,.1f} MB added up over the ranks a round" if self.traffic else "")
        )


@dataclass(frozen=True)
class Effort:
    """How many evaluations' time a first shot takes, and a round, as measured (benches/README.md).

    passes: how often a round adds up over the ranks what was measured.
    """

    shot: float
    round: float
    passes: int = 0


def check_memory(support: Support, question: Question, *, shot: bool) -> None:
    """Refuse what cannot fit in this machine: it would be ended without a word, its budget spent."""
    cells = question.measured.cells
    arrays = FEWEST_ARRAYS_OF_CELLS * cells + (ARRAYS_OF_SHOT * _cells_of_shot(question) if shot else 0)
    least = support.nbytes + 8 * (arrays + support.size)
    if least > physical_memory():
        raise ValueError(
            f"workload ({cells:,} cells) must fit in memory, and needs at least {least / 1e9:,.1f} GB: "
            f"sample it, or ask for smaller marginals"
        )


def _cells_of_shot(question: Question) -> int:
    offsets = question.measured.offsets
    return int((offsets[1:] - offsets[:-1])[question.shot].sum())


def make_plan(
    schedule: Schedule, budget: Budget, support: Support, question: Question, n: int | None, effort: Effort
) -> Plan:
    """Put sizes and one timed evaluation together."""
    shares = schedule.shares(budget)
    looks = []
    for step, share, sensitivity in (
        ("shot", shares.shot, 2 * len(question.shot)),
        ("measure", shares.measure, 1 if question.unit == "cell" else 2),
    ):
        if share is not None:
            scale = (sigma_for_rho if shares.gaussian else scale_for_epsilon)(share, sensitivity)
            looks.append(Noise(step, scale, None if n is None else scale / n))
    support.answers(question.asked)  # once for the plan of the kernels, which a run makes once
    began = time.perf_counter()
    support.answers(question.asked)
    evaluation = time.perf_counter() - began
    cells = question.measured.cells
    held = support.nbytes + 8 * (ARRAYS_OF_CELLS * cells + ARRAYS_OF_ROWS * support.size)
    traffic = 0 if support.comm.size == 1 else _traffic(question, schedule, shares.shot is not None, effort)
    if shares.shot is not None:
        held += 8 * ARRAYS_OF_SHOT * _cells_of_shot(question)
    scoring = SECONDS_PER_CELL * question.asked.cells * schedule.per_round
    shot = 0.0
    if shares.shot is not None:
        shot = evaluation * effort.shot * len(question.shot) / len(question.asked)
    return Plan(
        schedule.rounds,
        support.whole_size,
        len(question.measured),
        cells,
        held,
        tuple(looks),
        evaluation,
        evaluation + shot + (evaluation * effort.round + scoring) * schedule.rounds,
        traffic,
    )


def _traffic(question: Question, schedule: Schedule, shot: bool, effort: Effort) -> int:
    """The answers once; at every pass what was measured of whole marginals, of rounds to come half of it."""
    measured = _cells_of_shot(question) if shot else 0.0
    if question.unit == "marginal":
        choices = schedule.per_round * schedule.rounds / 2
        measured += min(choices / len(question.measured), 1.0) * question.measured.cells
    return round(8 * (question.asked.cells + effort.passes * measured))
