"""An algorithm is a frozen configuration; calibrated to a budget it is a mechanism whose cost is known.

`Algorithm` holds the options that all algorithms share and checks them; each algorithm's own file adds its
model. `Mechanism` states its cost before it sees data, and makes a release when it is called.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from reprlib import repr as _short
from typing import ClassVar, Literal, get_args

from privmw.accounting import Budget, Composition, scale_for_epsilon, sigma_for_rho
from privmw.accounting.rounding import Real, float_up, positive_integer, probability
from privmw.algorithms.checkpoint import Checkpoint
from privmw.algorithms.loop import Model, Progress, adapt
from privmw.algorithms.plan import Effort, Plan, check_memory, make_plan
from privmw.algorithms.question import Question, Unit, check_run, count_records, make_question
from privmw.algorithms.schedule import Planned, Schedule
from privmw.curator.on_ranks import open_door
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.random import Rng
from privmw.ranks import check_same, on_every_rank
from privmw.release import Release
from privmw.version import __version__

Select = Literal["permute-and-flip", "exponential", "all"]

LARGEST_SCALE = 2.0**40  # of noise: what the mechanisms draw


@dataclass(frozen=True, kw_only=True, repr=False)
class Algorithm(ABC):
    """Options that every algorithm has.

    rounds: how often the model is improved. select: how a round chooses; "all" chooses nothing and measures
    every marginal once, with the whole budget. measure: what is chosen and measured, single cells or whole
    marginals. per_round: how many a round chooses. split: alpha, between 0 and 1: the larger, the more of a
    round's budget goes into choosing. warm_up: the share of the budget for a first shot at every marginal
    before the rounds. order: the shot takes all marginals of this order instead of those of the workload.
    """

    rounds: int | None = None
    select: Select = "permute-and-flip"
    measure: Unit = "cell"
    per_round: int = 1
    split: float = 0.5
    warm_up: float = 0.0
    order: int | None = None

    usual_rounds: ClassVar[int] = 50
    effort: ClassVar[Effort] = Effort(shot=2, round=2)
    advanced: ClassVar[bool] = False  # whether calibrate uses advanced composition of pure costs

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        self._one_of("select", Select)
        self._one_of("measure", Unit)
        if self.rounds is not None:
            if self.select == "all":
                raise ValueError(f"rounds ({_short(self.rounds)}) must not be given with select='all'")
            self._positive_integer("rounds")
        self._positive_integer("per_round")
        if self.order is not None:
            self._positive_integer("order")
        self._between("split", 0, 1)
        if self._number("warm_up") != 0:
            self._between("warm_up", 0, 1)
            if self.select == "all":
                raise ValueError(f"warm_up ({self.warm_up}) must be 0 with select='all': it is all there is")
        elif self.order is not None and self.select != "all":
            raise ValueError(f"order ({self.order}) must come with select='all' or a warm_up above 0")

    @abstractmethod
    def model(self, support: Support, question: Question, n: int, threads: int | None) -> Model:
        """The model that the loop improves."""

    def calibrate(self, epsilon: Real, delta: Real) -> Mechanism:
        """The mechanism that spends (epsilon, delta): by zCDP, or pure (Laplace noise) if delta is 0."""
        if delta == 0 and not isinstance(delta, bool):
            return self.spend(Budget.pure(epsilon))
        return self.spend(Budget.approximate(epsilon, delta, "advanced" if self.advanced else "zCDP"))

    def configure(self, rho: Real) -> Mechanism:
        """The mechanism that spends rho of zCDP."""
        return self.spend(Budget.zcdp(rho))

    def spend(self, budget: Budget) -> Mechanism:
        """The mechanism that spends a budget."""
        return Mechanism(self, budget)

    @property
    def schedule(self) -> Schedule:
        """How often is looked, and how a budget is cut."""
        if self.select == "all":
            return Schedule(0, 0, None, self.split, 0)
        rounds = self.usual_rounds if self.rounds is None else self.rounds
        return Schedule(rounds, self.per_round, self.select, self.split, self.warm_up)

    def __repr__(self) -> str:
        """Show the call that makes it: what differs from the defaults."""
        told = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        )
        return f"{type(self).__name__}({', '.join(told)})"

    def _one_of(self, name: str, kind: object) -> None:
        value = getattr(self, name)
        if not isinstance(value, str) or value not in get_args(kind):
            allowed = ", ".join(repr(each) for each in get_args(kind))
            raise ValueError(f"{name} ({_short(value)}) must be one of {allowed}")

    def _positive_integer(self, name: str) -> None:
        # Plain numbers are kept: a numpy integer would overflow where a budget is cut.
        object.__setattr__(self, name, positive_integer(name, getattr(self, name)))

    def _number(self, name: str) -> float:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} ({_short(value)}) must be a number")
        object.__setattr__(self, name, float(value))
        return float(value)

    def _between(self, name: str, low: float, high: float) -> None:
        given = getattr(self, name)
        if not low < self._number(name) < high:
            raise ValueError(f"{name} ({_short(given)}) must be above {low} and below {high}")


@dataclass(frozen=True)
class Mechanism:
    """An algorithm with a budget: what it costs is known, and it may be called on private tables.

    >>> from privmw import MWPub
    >>> mechanism = MWPub(rounds=10).configure(rho=0.5)
    >>> mechanism.rho, [(event.step, event.count) for event in mechanism.events]
    (0.5, [('select', 10), ('measure', 10)])
    """

    algorithm: Algorithm
    budget: Budget

    def __post_init__(self) -> None:
        """Refuse a budget that is too small for what one look would have to draw, or beyond any float."""
        shares = self.algorithm.schedule.shares(self.budget)
        for share in (shares.shot, shares.measure):
            if share is not None:
                _scale(share, 2, shares.gaussian)
        if math.isinf(self.rho):
            raise ValueError(f"budget ({self.budget!r}) must be less: its rho is beyond any float")

    @property
    def events(self) -> tuple[Planned, ...]:
        """Every look at the private table, before any size is known: what each costs at most."""
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
        """What a run will cost and do, in plain words, before any data."""
        name = type(self.algorithm).__name__
        budget = f"{self.budget.unit} = {float_up(self.budget.limit):.6g}"
        if self.budget.delta is not None:
            budget += f" (epsilon = {float(self.budget.epsilon or 0):.6g} at delta = {self.budget.delta:.6g})"
        lines = [f"{name}: a run spends at most {budget}; neighbouring tables replace one record."]
        for event in self.events:
            cost = event.cost_of_one
            each = f"rho = {float_up(cost.rho):.6g}"
            if cost.epsilon is not None:
                each += f", epsilon = {float_up(cost.epsilon):.6g}"
            lines.append(f"{event.step}: {event.mechanism}, {event.count} times, each {each}.")
        return "\n".join(lines)

    def plan(self, support: Support, workload: Workload, n: int | None = None) -> Plan:
        """What a run will need: bytes, noise and seconds; nothing private is needed, and n only for shares.

        Seconds are estimated from one evaluation of the workload, which this runs.
        """
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
        """Make a release. rng: None for a release; a seed for experiments, and the ledger then says so.

        progress is called after each round with a `Round`. Whatever ends a run early, Ctrl-C or an error of
        `progress`, carries the ledger as its attribute `ledger`: what was spent stays spent.

        checkpoint: a folder that keeps every round's released values, and the weights `every` so many rounds.
        The same call goes on from there, and spends nothing twice; that the private table is the same is for
        the caller to know, as nothing private is kept. Where the support lies on several ranks, all of them
        call this. Only rank 0 needs rng, progress and the private table, for which the others give None; or
        all give the same `ShardedRecords`.
        """
        question, comm = self._question(support, workload), support.comm
        check_same(comm, "the algorithm, its budget and the workload", self._identity(workload))
        check_same(comm, "checkpoint and every", f"{checkpoint} {every}")
        n = count_records(private, support)
        if progress is not None and not callable(progress):
            raise TypeError(f"progress ({_short(progress)}) must be callable")
        journal = None
        if checkpoint is not None:
            journal = Checkpoint(checkpoint, f"{n} {self._identity(workload)}", support, every=every)
            rng = on_every_rank(comm, partial(journal.rng, rng))
        model = self.algorithm.model(support, question, n, threads)
        spent = None if journal is None else journal.ledger
        with open_door(private, question.measured, self.budget, rng, comm, spent) as door:
            try:
                told = progress if comm.rank == 0 else None
                measurements, history = adapt(door, model, question, self.algorithm.schedule, told, journal)
                weighted, weights = model.result()
                return Release(
                    weighted,
                    workload,
                    weights,
                    measured=question.measured,
                    measurements=measurements,
                    ledger=door.ledger,
                    settings=self.settings(),
                    history=history,
                )
            except BaseException as error:
                if comm.rank == 0:
                    error.ledger = door.ledger  # type: ignore[attr-defined]
                raise

    def _identity(self, workload: Workload) -> str:
        """What makes two runs the same, but for their rows."""
        return f"privmw {__version__} {self.algorithm!r} {self.budget!r} {workload.fingerprint()}"

    def settings(self) -> dict[str, object]:
        """The algorithm's name and options, as plain values."""
        options = dataclasses.asdict(self.algorithm)
        return {"algorithm": type(self.algorithm).__name__, **options}

    def _question(self, support: Support, workload: Workload) -> Question:
        """What is asked and measured, once everything fits together."""
        check_run(support, workload)
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
            _scale(shares.shot, 2 * len(question.shot), shares.gaussian)
        return question


def _scale(share: Fraction, sensitivity: int, gaussian: bool) -> float:
    """The noise that a share buys, refused where it is more than can be drawn."""
    scale = sigma_for_rho(share, sensitivity) if gaussian else scale_for_epsilon(share, sensitivity)
    if scale > LARGEST_SCALE:
        raise ValueError(f"budget must be enough for one round: noise of scale {scale:.3g} drowns any count")
    return scale
