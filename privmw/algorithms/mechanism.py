"""A mechanism: an algorithm with a budget. It states its cost before it sees data; calling it releases."""

from __future__ import annotations

import dataclasses
import math
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from reprlib import repr as _short
from typing import TYPE_CHECKING

from privmw.accounting import Budget, Composition
from privmw.accounting.rounding import Real, float_up, positive_integer, probability
from privmw.accounting.statement import show
from privmw.algorithms.checkpoint import Checkpoint
from privmw.algorithms.loop import Progress, adapt
from privmw.algorithms.plan import Plan, check_memory, make_plan
from privmw.algorithms.question import Question, check_inputs, check_public, make_question
from privmw.algorithms.schedule import Planned
from privmw.curator.on_ranks import open_curator
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import MOVED, Workload
from privmw.random import Rng
from privmw.ranks import check_same, on_every_rank
from privmw.release import Release
from privmw.release.noises import MeasuredNoise
from privmw.version import __version__

if TYPE_CHECKING:
    from privmw.algorithms.configuration import Algorithm

LARGEST_SCALE = 2.0**40  # of noise that the mechanisms draw


@dataclass(frozen=True)
class Mechanism:
    """An algorithm with a budget. Its cost is known before it is called on private tables.

    >>> from privmw import MWPub
    >>> mechanism = MWPub(rounds=10).calibrate(rho=0.5)
    >>> mechanism.rho, [(event.step, event.count) for event in mechanism.events]
    (0.5, [('select', 10), ('measure', 10)])
    """

    algorithm: Algorithm
    budget: Budget

    def __post_init__(self) -> None:
        """Refuse a budget that is too small for the noise of one look, or whose rho is no finite float."""
        shares = self.algorithm.schedule.shares(self.budget)
        for share in (shares.shot, shares.measure):
            if share is not None:
                _check_scale(shares.noise, share, MOVED)
        if math.isinf(self.rho):
            raise ValueError(f"budget ({self.budget!r}) must be less: its rho is beyond any float")

    @property
    def events(self) -> tuple[Planned, ...]:
        """Every look at the private table with its largest cost, before any size is known."""
        return self.algorithm.schedule.events(self.budget)

    @property
    def rho(self) -> float:
        """The zCDP cost of a run."""
        return float_up(Composition.of(self.events).rho)

    def epsilon(self, delta: Real) -> float:
        """The epsilon of a run at a delta; infinite at a delta of 0 where the noise is Gaussian."""
        bound = Composition.of(self.events).epsilon_at(probability("delta", delta, zero=True))
        return math.inf if bound is None else float_up(bound)

    def statement(self) -> str:
        """What a run costs and does, in plain words, before any data; every figure is rounded up."""
        name = type(self.algorithm).__name__
        budget = f"{self.budget.unit} = {show(float_up(self.budget.limit))}"
        if self.budget.delta is not None:
            epsilon = show(float_up(Fraction(self.budget.epsilon or 0)))
            budget += f" (epsilon = {epsilon} at delta = {show(self.budget.delta)})"
        lines = [f"{name}: a run spends at most {budget}; neighbouring tables replace one record."]
        for event in self.events:
            cost = event.cost_of_one
            price = f"rho = {show(float_up(cost.rho))}"
            if cost.epsilon is not None:
                price += f", epsilon = {show(float_up(cost.epsilon))}"
            lines.append(f"{event.step}: {event.mechanism}, {event.count} times, each {price}.")
        return "\n".join(lines)

    def settings(self) -> dict[str, object]:
        """The algorithm's name and options, as plain values."""
        return {"algorithm": type(self.algorithm).__name__, **dataclasses.asdict(self.algorithm)}

    def plan(self, support: Support, workload: Workload, n: int | None = None) -> Plan:
        """What a run will need: bytes, noise and seconds, from public sizes; n gives noise as a fraction.

        Seconds are estimated from one evaluation of the workload, which this runs.
        """
        check_public(support, workload)
        question = self._question(support, workload)
        if n is not None:
            n = positive_integer("n", n)
        return make_plan(self.algorithm.schedule, self.budget, support, question, n, self.algorithm.effort)

    def __call__(
        self,
        private: Records | None,
        support: Support,
        workload: Workload,
        *,
        rng: Rng = None,
        threads: int | None = None,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 10,
    ) -> Release:
        """Make a release. rng: None for a release; a seed for experiments, which marks the ledger.

        progress is called after each round with a `Round`. An exception that ends a run early, such as Ctrl-C
        or an error of `progress`, carries the ledger as its attribute `ledger`: what was spent stays spent.

        checkpoint: a folder that stores every round's released values, and the weights every `every` rounds.
        The same call resumes from there and spends nothing twice; the caller must give the same private
        table, since nothing private is stored. Where the support is sharded over several ranks, all of them
        call this. Only rank 0 needs rng, progress and the private table, for which the others give None; or
        all give the same `ShardedRecords`.
        """
        n = check_inputs(private, support, workload)
        return self.run_checked(n, private, support, workload, rng, threads, progress, checkpoint, every)

    def run_checked(
        self,
        n: int,
        private: Records | None,
        support: Support,
        workload: Workload,
        rng: Rng,
        threads: int | None,
        progress: Progress | None,
        checkpoint: str | os.PathLike[str] | None,
        every: int,
    ) -> Release:
        """Make a release from inputs that `check_inputs` has checked, of n private records."""
        question, comm = self._question(support, workload), support.comm
        identity = f"privmw {__version__} {self.algorithm!r} {self.budget!r} {workload.fingerprint()}"
        check_same(comm, "the algorithm, its budget and the workload", identity)
        check_same(comm, "checkpoint and every", f"{checkpoint} {every}")
        if progress is not None and not callable(progress):
            raise TypeError(f"progress ({_short(progress)}) must be callable")
        journal = None
        if checkpoint is not None:
            journal = Checkpoint(checkpoint, f"{n} {identity}", support, every=every)
            rng = on_every_rank(comm, partial(journal.rng, rng))
        model = self.algorithm.model(support, question, n, threads)
        spent = None if journal is None else journal.ledger
        with open_curator(private, question.measured, self.budget, rng, comm, spent) as curator:
            try:
                watcher = progress if comm.rank == 0 else None
                schedule = self.algorithm.schedule
                measurements, history = adapt(curator, model, question, schedule, watcher, journal)
                rows, weights = model.result()
                return Release(
                    rows,
                    workload,
                    weights,
                    measured=question.measured,
                    measurements=measurements,
                    ledger=curator.ledger,
                    settings=self.settings(),
                    history=history,
                )
            except BaseException as error:
                if comm.rank == 0:
                    error.ledger = curator.ledger  # type: ignore[attr-defined]
                raise

    def _question(self, support: Support, workload: Workload) -> Question:
        """The question of a run; refuses what this algorithm or this machine cannot do with it."""
        algorithm, shares = self.algorithm, self.algorithm.schedule.shares(self.budget)
        if shares.select is not None:
            candidates = workload.cells if algorithm.measure == "cell" else len(workload)
            if algorithm.per_round > candidates:
                raise ValueError(
                    f"per_round ({algorithm.per_round}) must be at most the number of "
                    f"{algorithm.measure}s, {candidates}"
                )
        question = make_question(workload, algorithm.order, algorithm.measure)
        check_memory(support, question, shot=shares.shot is not None)
        if shares.shot is not None:
            _check_scale(shares.noise, shares.shot, question.measured.sensitivity(question.shot))
        return question


def _check_scale(noise: type[MeasuredNoise], share: Fraction, sensitivity: int) -> None:
    """Refuse a share whose noise is more than can be drawn."""
    scale = noise.scale_for(share, sensitivity)
    if scale > LARGEST_SCALE:
        raise ValueError(f"budget must be enough for one round: noise of scale {scale:.3g} drowns any count")
