"""One shot without a model: a strategy spreads the budget over marginals, and answers are unbiased.

The private table goes from here into the Curator and nowhere else. What a run costs is known before: the
budget; what each look costs, how it is noisy and how well it answers, as soon as the workload is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from privmw.accounting import Budget, ResidualGaussian
from privmw.accounting.looks import Look
from privmw.accounting.noise import RESIDUAL_GAUSSIAN
from privmw.accounting.rounding import Real, positive_integer
from privmw.algorithms.configuration import make_budget
from privmw.algorithms.mechanism import Calibrated
from privmw.algorithms.options import AccountedRun, AccountPath, lists_options
from privmw.algorithms.task import check_is_workload
from privmw.curator.on_ranks import AnyCurator, open_curator
from privmw.data.memory import available_memory
from privmw.data.records import Records, check_is_private
from privmw.data.workload import Workload
from privmw.extensions.unbiased import UnbiasedAnswers
from privmw.extensions.unbiased.strategies import Residual, Shot, Strategy, hdmm, residual
from privmw.kernels.arrays import Float64s, Int64s
from privmw.random import Rng
from privmw.ranks import check_same, on_root
from privmw.secrecy import expect, shown

ARRAYS_OF_SHOT_CELLS = 8  # counts, noisy values, interactions and their sums, answers, errors, intervals
EVENT_DELTA = 2.0**-20  # of delta: what residual noise may take for its lattice term, which is far smaller
LEAST_DELTA = 1e-12  # stands for delta where a budget of rho has none


@dataclass(frozen=True, kw_only=True)
class OneShot:
    """Measure once, by a strategy, and release unbiased answers with their standard errors.

    strategy: `strategies.residual(...)`, `equal()` or `hdmm()`.

    >>> mechanism = OneShot().calibrate(epsilon=1, delta=1e-9)
    >>> mechanism.epsilon(1e-9) <= 1, mechanism.events[0].step
    (True, 'shot')
    """

    strategy: Strategy = field(default_factory=residual)

    def __post_init__(self) -> None:
        expect("strategy", self.strategy, Strategy, "one of privmw.strategies")

    def calibrate(
        self,
        epsilon: Real | None = None,
        delta: Real | None = None,
        *,
        rho: Real | None = None,
        n: int | None = None,
    ) -> OneShotMechanism:
        """The mechanism that spends (epsilon, delta), or rho of zCDP.

        A delta above 0 is spent by zCDP, with Gaussian noise; a delta of 0 is pure differential privacy, with
        Laplace noise, which residual strategies do not have. Without a delta it is 1 / n^2.
        """
        budget = make_budget(epsilon, delta, rho=rho, n=n)
        if isinstance(self.strategy, Residual):
            if budget.is_pure:
                raise ValueError(
                    "delta (0) must be above 0: residual noise is Gaussian; equal and hdmm have Laplace noise"
                )
            aside = (budget.delta or LEAST_DELTA) * EVENT_DELTA
            if budget.epsilon is None:
                assert budget.rho is not None
                budget = Budget.zcdp(budget.rho, event_delta=aside)
            else:
                assert budget.delta is not None
                budget = Budget.approximate(budget.epsilon, budget.delta, event_delta=aside)
        return OneShotMechanism(self, budget)

    @lists_options
    def release(
        self,
        private: Records,
        workload: Workload,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        rng: Rng = None,
        account: AccountPath = None,
    ) -> UnbiasedAnswers:
        """Calibrate to a budget and measure: short for `calibrate(...)(private, workload, ...)`.

        Parameters
        ----------
        private : Table
            The private records; the only argument that is secret. Their number is public.
        workload : Workload
            The marginals to answer, on the domain of the private records.
        epsilon, delta : number, optional
            The budget, above 0. delta is below 1, by default 1 / n^2 for n private records; a delta of 0
            asks for pure differential privacy, with Laplace noise, which residual strategies do not have.
        rho : number, optional
            The budget in zCDP, instead of epsilon and delta.
        rng : None, int or numpy Generator, default None
            The randomness that protects. None is the operating system's, and the only one for a real
            release; a seed repeats an experiment, and marks the answers as not for release.
        account : Account or path, optional
            The account of the private table. The cost of the run is reserved there before the table is looked
            at; if it exceeds the account's limit, a BudgetError is raised.

        Returns
        -------
        UnbiasedAnswers
            The answers with their standard errors, and a ledger of what was spent.

        Examples
        --------
        >>> from privmw import HDMM, Domain, Table
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> private = Table.from_codes([[2, 0], [0, 1], [2, 0]] * 500, domain, private=True)
        >>> workload = Workload.all(domain, k=1)
        >>> HDMM().release(private, workload, epsilon=1.0, rng=1).standard_errors().shape
        (5,)

        """
        expect("private", private, Records, "a Table", quote=False)
        mechanism = self.calibrate(epsilon, delta, rho=rho, n=private.n or None)
        return mechanism(private, workload, rng=rng, account=account)

    if not TYPE_CHECKING:  # a call is a type error too

        def __call__(self, *_: object, **__: object) -> NoReturn:
            """Refuse a call: a configuration has no budget to spend."""
            name = type(self).__name__
            raise TypeError(
                f"{name} has no budget: calibrate it first, as in {name}().calibrate(1.0, 1e-9)(...)"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(strategy={self.strategy!r})"


@dataclass(frozen=True, kw_only=True, repr=False)
class HDMM(OneShot):
    """The matrix mechanism of weighted marginals (OPT_M), up to 13 attributes: the papers' baseline.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[2, 0], [0, 1], [2, 0]] * 500, domain, private=True)
    >>> answers = HDMM().calibrate(epsilon=1.0, delta=0)(private, Workload.all(domain, k=2))
    >>> answers.shot.noise, len(answers.answers())
    ('discrete-laplace', 6)
    """

    strategy: Strategy = field(default_factory=hdmm)


@dataclass(frozen=True, eq=False)
class ShotPlan:
    """What a run will do and how well it will answer, from public sizes alone.

    shot: every look with its noise and event. bytes: of memory, about. deviations: the standard deviation of
    a cell, in records, for each marginal of the workload; fractions: the same as a fraction of n, if given.
    """

    shot: Shot
    bytes: int
    deviations: Float64s
    fractions: Float64s | None

    def __str__(self) -> str:
        cells = f"{self.shot.workload.cells:,} cells of {len(self.shot.workload):,} marginals"
        noise = f"standard deviations from {self.deviations.min():.4g} to {self.deviations.max():.4g} records"
        if self.fractions is not None:
            noise += f" (at most {self.fractions.max():.3%})"
        looks = f"{len(self.shot.looks):,} looks at {self.shot.kind}"
        return f"{looks} answer {cells}; {noise}; about {self.bytes / 1e6:,.0f} MB"


@dataclass(frozen=True)
class OneShotMechanism(Calibrated):
    """A one-shot algorithm with a budget. Its cost is known before it is called on a private table."""

    algorithm: OneShot

    @property
    def events(self) -> tuple[Look, ...]:
        """The one look with its largest cost, before any size is known."""
        limit, own = self.budget.limit, Fraction(self.budget.event_delta)
        return (Look("shot", RESIDUAL_GAUSSIAN if own else self.budget.noise, limit, own_delta=own),)

    def statement(self, unit: str = "record") -> str:
        """What a run costs and does, in plain words, before any data; every figure is rounded up."""
        (event,) = self.events
        return f"{self._spends(unit)}\nshot: {event.mechanism}, once, by {self.algorithm.strategy!r}."

    def settings(self) -> dict[str, object]:
        """The algorithm's name and its strategy, as plain values."""
        return {"algorithm": type(self.algorithm).__name__, "strategy": repr(self.algorithm.strategy)}

    def plan(self, workload: Workload, n: int | None = None, at_most: int = 1) -> ShotPlan:
        """What a run will measure and how well it will answer; nothing private is needed.

        n gives deviations as fractions; at_most: how many records of a unit enter.

        >>> from privmw import Domain
        >>> plan = OneShot().calibrate(rho=0.01).plan(Workload.all(Domain({"a": 2, "b": 3}), k=2), n=1000)
        >>> plan.deviations.round(1).tolist(), plan.shot.kind
        ([9.1], 'residuals')
        """
        check_is_workload(workload)
        shot = self.algorithm.strategy.calibrate(workload, self.budget, positive_integer("at_most", at_most))
        needed = 8 * ARRAYS_OF_SHOT_CELLS * (shot.workload.cells + shot.measured.cells)
        if needed > available_memory():
            raise ValueError(
                f"workload ({shot.measured.cells:,} cells) must fit in memory, and needs at least "
                f"{needed / 1e9:,.1f} GB: sample it, or ask for smaller marginals"
            )
        deviations = np.sqrt(shot.variances())
        fractions = None if n is None else deviations / positive_integer("n", n)
        return ShotPlan(shot, needed, deviations, fractions)

    def __call__(
        self,
        private: Records,
        workload: Workload,
        *,
        rng: Rng = None,
        account: AccountPath = None,
        run: str | None = None,
        keep: Callable[[UnbiasedAnswers], object] | None = None,
    ) -> UnbiasedAnswers:
        """Measure, and return the answers. rng: None for a release; a seed for experiments marks the ledger.

        account: the `Account` of the private table, or its file. The cost is reserved there before the table
        is looked at, and refused with a BudgetError if the account's limit does not cover it. run: the
        identifier of the reservation, to give again where a run is repeated that released nothing; one that
        is settled has released, and is refused. keep: called with the answers before the run is settled, to
        store them.

        An exception that ends a run early carries the ledger as its attribute `ledger`.
        """
        expect("private", private, Records, "a Table", quote=False)
        check_is_private(private)
        if private.n == 0:
            raise ValueError("private (0 records) must have at least one record")
        check_is_workload(workload)
        if workload.domain != private.domain:
            raise ValueError(f"workload ({shown(workload)}) must be on the domain of the private table")
        shot = self.plan(workload, at_most=private.at_most).shot
        comm = private.comm
        check_same(comm, "the strategy, its budget and the workload", f"{self!r} {workload.fingerprint()}")
        accounted = AccountedRun(account, run, comm)
        with open_curator(private, shot.measured, self.budget, rng, comm) as curator:
            try:
                # Another draw under the reservation of a run that has released would be free.
                finished = f"run ({run}) must not be one that the account says is finished: it has released"
                accounted.reserve(
                    self.events,
                    f"{self.algorithm!r}, {self.budget!r}",
                    curator.ledger,
                    only_unfinished=finished,
                )
                noisy = measure_shot(curator, shot)
                answers = UnbiasedAnswers(
                    shot,
                    noisy,
                    ledger=curator.ledger,
                    settings=self.settings(),
                    frame_kind=private.frame_kind,
                )
                if keep is not None:
                    on_root(comm, lambda: keep(answers))
                accounted.settle(curator.ledger)
                return answers
            except BaseException as error:
                # An attribute, since the error must stay itself for the caller's `except` clauses.
                error.ledger = curator.ledger  # type: ignore[attr-defined]
                raise


def measure_shot(curator: AnyCurator, shot: Shot) -> tuple[Int64s, ...]:
    """The noisy values of every look of a shot, as `Shot.residuals` takes them.

    The curator must have been made with the workload `shot.measured`, and charges the shot's events.

    >>> from privmw import Budget, Domain, Table, Workload, strategies

    >>> from privmw.curator import Curator
    >>> table = Table.from_codes([[2, 0], [0, 1], [2, 0]], Domain({"age": 3, "sex": 2}), private=True)
    >>> budget = Budget.approximate(1.0, 1e-6, event_delta=1e-12)
    >>> shot = strategies.residual().calibrate(Workload.all(table.domain, k=2), budget)
    >>> with Curator(table, shot.measured, budget) as curator:
    ...     noisy = measure_shot(curator, shot)
    >>> shot.reconstruct(shot.residuals(noisy), table.n, ["age", "sex"]).shape
    (6,)
    """
    if shot.kind == "residuals":
        (event,) = shot.events
        assert isinstance(event, ResidualGaussian)
        return curator.measure_residuals(event)
    return tuple(
        curator.measure(marginals=[j], **shot.family.argument(look.share))
        for j, look in enumerate(shot.looks)
    )
