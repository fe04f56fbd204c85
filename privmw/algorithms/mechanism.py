"""Mechanisms: an algorithm with a budget. Its cost is known before any data; calling it makes a release."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from privmw.accounting import Budget, Composition, Ledger, Neighbors
from privmw.accounting.looks import Look
from privmw.accounting.rounding import Real, float_up, positive_integer, probability
from privmw.accounting.statement import show
from privmw.algorithms.checkpoint import Checkpoint
from privmw.algorithms.loop import Progress, run_rounds
from privmw.algorithms.options import AccountedRun, AccountPath, RunOptions
from privmw.algorithms.plan import NoiseLevel, Plan, bytes_of_release, check_memory, make_plan, noise_of_steps
from privmw.algorithms.schedule import ExpectedRounds
from privmw.algorithms.task import PrivateSize, Task, check_inputs, check_public
from privmw.curator.on_ranks import open_curator
from privmw.curator.overlap import shares_records
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.unit import unit_in_words
from privmw.data.workload import Workload
from privmw.models.growth.completion import completed_evenly
from privmw.models.inputs import ModelInputs
from privmw.random import Rng, is_seeded
from privmw.ranks import check_same, on_every_rank
from privmw.release import Release
from privmw.secrecy import expect, shown
from privmw.version import __version__

if TYPE_CHECKING:
    from privmw.algorithms.configuration import Configuration


@dataclass(frozen=True)
class Calibrated(ABC):
    """An algorithm with a budget. Its cost is known before it is called on a private table."""

    algorithm: Any
    budget: Budget

    def __post_init__(self) -> None:
        """Refuse a budget whose rho is not a finite float."""
        if math.isinf(self.rho):
            raise ValueError(f"budget ({shown(self.budget)}) must be less: its rho is beyond any float")

    @property
    @abstractmethod
    def events(self) -> tuple[Look, ...]:
        """Every look at the private table with its largest cost, before any size is known."""

    @property
    def rho(self) -> float:
        """The zCDP cost of a run."""
        return float_up(Composition.of(self.events).rho)

    def epsilon(self, delta: Real) -> float:
        """The epsilon of a run at a delta; infinite at delta 0 if the noise is Gaussian."""
        bound = Composition.of(self.events).epsilon_at(probability("delta", delta, zero=True))
        return math.inf if bound is None else float_up(bound)

    def _spends(self, unit: str) -> str:
        """The first line of a statement; every figure is rounded up."""
        budget = f"{self.budget.unit} = {show(float_up(self.budget.limit))}"
        if self.budget.delta is not None:
            epsilon = show(float_up(Fraction(self.budget.epsilon or 0)))
            budget += f" (epsilon = {epsilon} at delta = {show(self.budget.delta)})"
        name = type(self.algorithm).__name__
        return f"{name}: a run spends at most {budget}; neighbouring tables replace one {unit}."


@dataclass(frozen=True)
class Mechanism(Calibrated):
    """An algorithm with a budget. Its cost is known before it is called on private tables.

    >>> from privmw import MWPub
    >>> mechanism = MWPub(rounds=10).calibrate(rho=0.5)
    >>> mechanism.rho, [(event.step, event.count) for event in mechanism.events]
    (0.5, [('select', 10), ('measure', 10)])
    """

    algorithm: Configuration

    def __post_init__(self) -> None:
        """Refuse a budget that is too small for the noise of one look, or whose rho is not a finite float."""
        for look in self.events:
            look.check_scale()
        super().__post_init__()

    @property
    def events(self) -> tuple[Look, ...]:
        """Every look at the private table with its largest cost, before any size is known."""
        return self.algorithm.looks(self.budget)

    def statement(self, unit: str = "record") -> str:
        """Describe the cost and the steps of a run in plain words, before any data; figures are rounded up.

        unit: what is protected.
        """
        lines = [self._spends(unit)]
        for _, alike in itertools.groupby(self.events, lambda event: (event.step, event.count)):
            first, *rest = alike
            price = _price(first)
            if rest:
                price += f", growing over {1 + len(rest)} rounds to {_price(rest[-1])}"
            lines.append(f"{first.step}: {first.mechanism}, {first.count} times, each {price}.")
        return "\n".join(lines)

    def settings(self) -> dict[str, object]:
        """The algorithm's name and options, as plain values."""
        return {"algorithm": type(self.algorithm).__name__, **dataclasses.asdict(self.algorithm)}

    def noise(self, workload: Workload, n: int | None = None, at_most: int = 1) -> tuple[NoiseLevel, ...]:
        """Return what each step measures, and the noise of each count; with n also as a fraction of the
        records.

        at_most: how many records of a unit enter; the noise grows with it.

        >>> from privmw import Domain, PEP
        >>> workload = Workload.all(Domain({name: 4 for name in "abcdefgh"}), k=3)
        >>> level, = PEP(select="all", order=1).calibrate(rho=0.02).noise(workload, n=1000)
        >>> level.granularity, level.count, level.orders, level.fraction
        ('marginal', 8, (1,), 0.02)
        """
        task = self.algorithm.task(workload)
        n = None if n is None else positive_integer("n", n)
        at_most = positive_integer("at_most", at_most)
        return noise_of_steps(self.algorithm.schedule, self.budget, task, n, at_most)

    def plan(
        self, support: Support | None, workload: Workload, n: int | None = None, at_most: int = 1
    ) -> Plan:
        """Estimate the bytes, noise and seconds of a run from public sizes; with n, noise also as a fraction.

        at_most: how many records of a unit enter; the noise grows with it.

        Seconds are estimated from one timed evaluation of the workload, or from the number of best responses.
        """
        support = self._public_rows(support, workload)
        at_most = positive_integer("at_most", at_most)
        task = self._task(support, workload, at_most)
        if n is not None:
            n = positive_integer("n", n)
        evaluated = self.algorithm.schedule.draws is None and support.missing
        rows = completed_evenly(support) if evaluated else support
        return make_plan(self.algorithm, self.budget, rows, task, n, at_most)

    def _public_rows(self, support: Support | None, workload: Workload) -> Support:
        rows = self.algorithm.public_rows(support, workload)
        check_public(rows, workload, fills_missing_columns=self.algorithm.fills_missing_columns)
        return rows

    def bytes_of_release(self, support: Support | None, workload: Workload) -> int:
        """An upper bound of the size in bytes of a release's file, without the text of its domain and ledger.

        >>> from privmw import Domain, MWPub
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> mechanism = MWPub(rounds=2).calibrate(rho=0.5)
        >>> mechanism.bytes_of_release(Support.full(domain), Workload.all(domain, k=2))
        68908
        """
        support = self._public_rows(support, workload)
        task = self._task(support, workload, at_most=1)
        return bytes_of_release(
            self.algorithm.schedule, support, task, rows=self.algorithm.most_rows(support)
        )

    def __call__(
        self,
        private: Records | None,
        support: Support | None,
        workload: Workload,
        *,
        rng: Rng = None,
        threads: int | None = None,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int | None = 10,
        account: AccountPath = None,
        public_is_public: bool = False,
    ) -> Release:
        """Make a release; the parameters are those of `Configuration.release`, without the budget."""
        rows = self.algorithm.public_rows(support, workload)
        size = check_inputs(
            private, rows, workload, fills_missing_columns=self.algorithm.fills_missing_columns
        )
        options = RunOptions(
            rng=rng,
            threads=threads,
            progress=progress,
            checkpoint=checkpoint,
            every=every,
            account=account,
            public_is_public=public_is_public,
        )
        return self.run_checked(size, private, rows, workload, options)

    def run_checked(
        self,
        size: PrivateSize,
        private: Records | None,
        support: Support,
        workload: Workload,
        options: RunOptions,
    ) -> Release:
        """Make a release from inputs that `check_inputs` has validated; size: what it returned."""
        rng, checkpoint, every, account = options.rng, options.checkpoint, options.every, options.account
        progress, public_is_public = options.progress, options.public_is_public
        if not isinstance(public_is_public, bool):
            raise TypeError(f"public_is_public ({shown(public_is_public)}) must be True or False")
        n, unit, at_most = size
        task, comm = self._task(support, workload, at_most), support.comm
        identity = f"privmw {__version__} {self.algorithm!r} {self.budget!r} {workload.fingerprint()}"
        check_same(comm, "the algorithm, its budget and the workload", identity)
        check_same(comm, "checkpoint and every", f"{checkpoint} {every}")
        expect("checkpoint", checkpoint, str | os.PathLike | None, "the path of a folder")
        expect("progress", progress, progress is None or callable(progress), "callable")
        on_every_rank(comm, lambda: _check_for_release(support, rng) if comm.rank == 0 else None)
        check_same(comm, "public_is_public", str(public_is_public))
        if not public_is_public:
            _check_not_private(private, support)
        terms = Ledger(self.budget, Neighbors.REPLACE_ONE, n=n, unit=unit_in_words(unit, at_most))
        accounted, journal = AccountedRun(account, comm=comm), None
        if checkpoint is not None:
            expected = ExpectedRounds(self.algorithm.schedule, self.budget, task, at_most)
            about = f"{n} {unit} {at_most} {identity}"
            journal = Checkpoint(checkpoint, about, support, terms=terms, expected=expected, every=every)
            rng, accounted.run = on_every_rank(comm, partial(journal.rng, rng)), journal.run
        model = self.algorithm.model(ModelInputs(support, workload, task.measured, n, options.threads))
        # A checkpoint that was made without this account reserves its whole cost too, since its rounds were
        # spent on the table. A checkpoint with fewer rounds than its settled run released is an old copy:
        # resuming it would spend the missing rounds again.
        unfinished = "checkpoint must hold every round of its run, which the account says is finished"
        accounted.reserve(
            self.events,
            f"{self.algorithm!r}, {self.budget!r}",
            terms,
            for_release=not is_seeded(rng),
            only_unfinished=None if journal is None or journal.finished else unfinished,
        )
        spent = None if journal is None else journal.ledger
        with open_curator(private, task.measured, self.budget, rng, comm, spent=spent) as curator:
            try:
                watcher = progress if comm.rank == 0 else None
                schedule = self.algorithm.schedule
                measurements, history = run_rounds(curator, model, task, schedule, watcher, journal)
                rows, weights = model.result()
                release = Release(
                    rows,
                    workload,
                    weights,
                    measured=task.measured,
                    measurements=measurements,
                    ledger=curator.ledger,
                    settings=self.settings(),
                    history=history,
                    frame_kind=None if private is None else private.frame_kind,
                )
                accounted.settle(curator.ledger)
                return release
            except BaseException as error:
                if comm.rank == 0:
                    # An attribute, since the error must stay itself for the caller's `except` clauses.
                    error.ledger = curator.ledger  # type: ignore[attr-defined]
                raise

    def _task(self, support: Support, workload: Workload, at_most: int) -> Task:
        """Return the task of a run, if the algorithm can run it and it fits in memory."""
        algorithm, task = self.algorithm, self.algorithm.task(workload)
        looks, per_round = algorithm.looks(self.budget, task), algorithm.schedule.per_round
        steps = {look.step for look in looks}
        if "select" in steps and per_round > task.candidates:
            raise ValueError(
                f"per_round ({per_round}) must be at most the number of {task.granularity}s, "
                f"{task.candidates}"
            )
        added = algorithm.added_rows(support)
        check_memory(support, task, shot="shot" in steps, added=added)
        for look in looks:
            look.check_scale(at_most)
        return task

    def _repr_html_(self) -> str | None:
        from privmw.report import panel  # here: only a notebook needs it

        return panel(self)


def _price(event: Look) -> str:
    cost = event.cost_of_one
    price = f"rho = {show(float_up(cost.rho))}"
    return price if cost.epsilon is None else f"{price}, epsilon = {show(float_up(cost.epsilon))}"


def _check_for_release(support: Support, rng: Rng) -> None:
    """Refuse a support made from a seeded release unless this run is seeded too."""
    if not support.table.for_release and not is_seeded(rng):
        raise ValueError(
            f"support ({shown(support)}, of a seeded release: not for release) must come with a seeded rng: "
            f"a release shows its rows and their public frequencies"
        )


def _check_not_private(private: Records | None, support: Support) -> None:
    """Refuse a public table with many records that are private ones. A collective call.

    Private counts without records cannot be compared; then a warning is issued.
    """
    if support.samples == ():
        return
    comm = support.comm
    if not comm.broadcast(private is None or private.has_records):
        if comm.rank == 0:
            warnings.warn(
                f"private ({private!r}) holds no records: they were not compared with the public ones, which "
                "are published as they are; public_is_public=True says that those are no secret",
                UserWarning,
                stacklevel=3,
            )
        return
    if comm.broadcast(shares_records(private, support)):
        raise ValueError(
            "public records must not be private ones, as many of these are: public rows are published as "
            "they are; give other public records, or public_is_public=True if these are no secret"
        )
