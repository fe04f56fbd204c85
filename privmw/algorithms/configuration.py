"""The configuration of an algorithm: frozen, validated options. Calibration makes it a mechanism."""

from __future__ import annotations

import dataclasses
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, get_args

from privmw.accounting import Budget
from privmw.accounting.looks import Look
from privmw.accounting.rounding import Real, positive_integer
from privmw.algorithms.loop import Model, Progress
from privmw.algorithms.mechanism import Mechanism
from privmw.algorithms.options import AccountPath, RunOptions, check_options, lists_options
from privmw.algorithms.plan import Effort
from privmw.algorithms.schedule import Schedule
from privmw.algorithms.task import Granularity, Task, check_inputs, check_is_workload, make_task
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.checks import check_number
from privmw.models.inputs import ModelInputs
from privmw.random import Rng
from privmw.release import Release
from privmw.secrecy import shown

Select = Literal["permute-and-flip", "exponential", "all"]


if TYPE_CHECKING:
    from typing_extensions import Self


class _SignatureOfInit:
    """The signature of a class: that of its __init__."""

    def __get__(self, instance: object, owner: type[Any]) -> inspect.Signature:
        of_init = inspect.signature(owner.__init__)
        return of_init.replace(parameters=list(of_init.parameters.values())[1:])


ALGORITHMS: dict[str, type[Configuration]] = {}  # by class name, of the core and of extensions


@dataclass(frozen=True, kw_only=True, repr=False)
class Configuration(ABC):
    """Base class of all algorithms: frozen options; `calibrate` makes a mechanism.

    Subclasses with a `method` are available on the command line and described in reports.
    """

    rounds: int | None = None

    method: ClassVar[str] = ""  # the name for --method
    about: ClassVar[str] = ""  # its description in a report
    meanings: ClassVar[Mapping[str, str]] = {}  # descriptions of its own options in a report, in order
    takes_no_public: ClassVar[str] = ""  # the reason, if it takes no public file
    effort: ClassVar[Effort] = Effort(shot=2, round=2)
    advanced: ClassVar[bool] = False  # True if calibrate uses advanced composition of pure costs

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "method" in vars(cls):
            ALGORITHMS[cls.__name__] = cls

    def __post_init__(self) -> None:
        if self.rounds is not None:
            self._positive_integer("rounds")

    @property
    def fills_missing_columns(self) -> bool:
        """Whether the model fills columns that the public table lacks, or needs no public table."""
        return False

    def public_rows(self, support: Support | None, workload: Workload) -> Support:
        """Return the support of a run. None means no public table, which some algorithms refuse."""
        if support is not None:
            return support
        if not self.fills_missing_columns:
            raise ValueError(
                f"support (None) must be a Support: {type(self).__name__} re-weights public rows; "
                f"release_auto does without, and PEP with particles"
            )
        check_is_workload(workload)
        return Support.without_public(workload.domain)

    @property
    def seconds_of_response(self) -> float:
        """The approximate time of the best responses of a round."""
        return 0.0

    def added_rows(self, support: Support) -> int:
        """An upper bound of the number of rows that the model adds to the support."""
        return 0

    def most_rows(self, support: Support) -> int:
        """An upper bound of the number of rows of a release from this support."""
        return min(support.whole_size + self.added_rows(support), support.domain.size)

    @abstractmethod
    def model(self, inputs: ModelInputs) -> Model:
        """The model that the loop improves."""

    def calibrate(
        self,
        epsilon: Real | None = None,
        delta: Real | None = None,
        *,
        rho: Real | None = None,
        n: int | None = None,
        at_most: int = 1,
    ) -> Mechanism:
        """Return the mechanism that spends (epsilon, delta), or rho of zCDP.

        A positive delta is accounted in zCDP; a delta of 0 means pure differential privacy, with Laplace
        noise. The default delta is 1 / n^2, where n is the number of private records. at_most: the maximum
        number of records of a unit. If the number of rounds is not set, some algorithms derive it from these
        numbers.

        >>> from privmw import MWPub
        >>> MWPub(rounds=10).calibrate(epsilon=1, n=1000).budget.delta
        1e-06
        >>> MWPub(rounds=10).calibrate(rho=0.5).rho
        0.5
        """
        budget = make_budget(epsilon, delta, rho=rho, n=n, advanced=self.advanced)
        return Mechanism(self.for_budget(budget, n, positive_integer("at_most", at_most)), budget)

    @lists_options
    def release(
        self,
        private: Records | None,
        support: Support | None,
        workload: Workload,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        rng: Rng = None,
        threads: int | None = None,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int | None = 10,
        account: AccountPath = None,
        public_is_public: bool = False,
    ) -> Release:
        """Calibrate to a budget and run: short for `calibrate(...)(private, support, workload, ...)`.

        Parameters
        ----------
        private : Table
            The private records, the only secret argument. Their number is public.
        support : Support or None
            The public rows. None means that there is no public table: MWEM then takes every row of the
            domain; PEP with particles, RAP, GEM, DualQuery and FEM make their own rows; others refuse it.
        workload : Workload
            The marginals to answer, on the domain of the private records.
        epsilon, delta : number, optional
            The budget, above 0. delta is below 1, by default 1 / n^2 for n private records; a delta of 0
            asks for pure differential privacy, with Laplace noise.
        rho : number, optional
            The budget in zCDP, instead of epsilon and delta.
        rng : None, int or numpy Generator, default None
            The source of the privacy noise. None uses the operating system, and is the only choice for a real
            release; a seed makes an experiment repeatable, and marks the release as not for release.
        threads : int, optional
            Number of threads of the kernels, by default all available ones. Results do not depend on it.
        progress : callable, optional
            Called after each round with a `Round`, which holds released values only.
        checkpoint : path, optional
            A folder that stores the released values of every round. The same call resumes from there and
            spends nothing twice. Give the same private table: nothing private is stored.
        every : int or None, default 10
            With a checkpoint, the weights are stored every `every` rounds; None stores only released values.
        account : Account or path, optional
            The account of the private table. The cost of the run is reserved there before the table is read;
            if it exceeds the account's limit, a BudgetError is raised. A resumed run reserves nothing twice.
        public_is_public : bool, default False
            Accept a public table with many records that equal private ones; they will be published. By
            default such a table is refused, before anything is spent.

        Returns
        -------
        Release
            Weighted rows, with the measurements and the ledger.

        Notes
        -----
        An exception that ends a run early, such as Ctrl-C or an error of `progress`, has the ledger as its
        attribute `ledger`: the events in it stay spent.

        If the support is sharded over several ranks, all of them call this. Only rank 0 needs rng, progress,
        account and the private table (None on the others); or all pass the same `ShardedRecords`. If `every`
        is None, only rank 0 needs access to the checkpoint.

        Examples
        --------
        >>> from privmw import PEP, Domain, Support, Table, Workload
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
        >>> public = Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain, private=False)
        >>> support, workload = Support.from_table(public), Workload.all(domain, k=2)
        >>> release = PEP(rounds=1).release(private, support, workload, epsilon=1.0, delta=1e-9)
        >>> release.ledger.epsilon(1e-9) <= 1.0
        True

        """
        rows = self.public_rows(support, workload)
        size = check_inputs(private, rows, workload, fills_missing_columns=self.fills_missing_columns)
        mechanism = self.calibrate(epsilon, delta, rho=rho, n=size.n, at_most=size.at_most)
        options = RunOptions(
            rng=rng,
            threads=threads,
            progress=progress,
            checkpoint=checkpoint,
            every=every,
            account=account,
            public_is_public=public_is_public,
        )
        return mechanism.run_checked(size, private, rows, workload, options)

    def for_budget(self, budget: Budget, n: int | None, at_most: int = 1) -> Configuration:
        """Return the configuration with all options that depend on the budget and public sizes filled in.

        n: the number of private records; at_most: the maximum number per unit.
        """
        return self

    @abstractmethod
    def task(self, workload: Workload) -> Task:
        """Return what is measured or drawn for a workload."""

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """How often the private table is looked at, and how a budget is split."""

    def looks(self, budget: Budget, task: Task | None = None) -> tuple[Look, ...]:
        """List the looks at the private table that spend a budget, before any data.

        task: provides the sizes of the looks.
        """
        return self.schedule.looks(budget, task)

    if not TYPE_CHECKING:  # type checkers know the options, and that a call is an error

        def __new__(cls, *_: object, **options: object) -> Self:
            """Refuse unknown options, listing the known ones."""
            check_options(options, [field.name for field in dataclasses.fields(cls)])
            return super().__new__(cls)

        __signature__ = _SignatureOfInit()  # help shows the options, not the arguments of __new__

        def __call__(self, *_: object, **__: object) -> NoReturn:
            """Refuse a call: a configuration has no budget to spend."""
            name = type(self).__name__
            raise TypeError(
                f"{name} has no budget: calibrate it first, as in {name}().calibrate(1.0, 1e-9)(...)"
            )

    def __repr__(self) -> str:
        """Return the constructor call, with the options that differ from the defaults."""
        options = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        )
        return f"{type(self).__name__}({', '.join(options)})"

    def _one_of(self, name: str, kind: object) -> None:
        value = getattr(self, name)
        if not isinstance(value, str) or value not in get_args(kind):
            allowed = ", ".join(map(repr, get_args(kind)))
            raise ValueError(f"{name} ({shown(value)}) must be one of {allowed}")

    def _positive_integer(self, name: str) -> None:
        # Convert to int: numpy integers could overflow when a budget is split.
        object.__setattr__(self, name, positive_integer(name, getattr(self, name)))

    def _number(self, name: str) -> float:
        value = check_number(name, getattr(self, name))
        object.__setattr__(self, name, value)
        return value

    def _between(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if not low < self._number(name) < high:
            raise ValueError(f"{name} ({shown(value)}) must be above {low} and below {high}")


@dataclass(frozen=True, kw_only=True, repr=False)
class Algorithm(Configuration):
    """Options of all algorithms that measure; each subclass documents them with its own defaults."""

    select: Select = "permute-and-flip"
    measure: Granularity = "cell"
    per_round: int = 1
    split: float = 0.5
    warm_up: float = 0.0
    order: int | None = None

    usual_rounds: ClassVar[int] = 50
    repeats: ClassVar[bool] = True  # True if a choice may repeat before all others were made

    def __post_init__(self) -> None:
        super().__post_init__()
        self._one_of("select", Select)
        self._one_of("measure", Granularity)
        if self.rounds is not None and self.select == "all":
            raise ValueError(f"rounds ({shown(self.rounds)}) must not be given with select='all'")
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

    def task(self, workload: Workload) -> Task:
        """Return what is measured: the workload's marginals, or those of another order in the first shot."""
        return make_task(workload, self.order, self.measure)

    @property
    def schedule(self) -> Schedule:
        """How often the private table is looked at, and how a budget is split."""
        if self.select == "all":
            return Schedule(0, 0, None, self.split, 0)
        rounds = self.usual_rounds if self.rounds is None else self.rounds
        return Schedule(rounds, self.per_round, self.select, self.split, self.warm_up, self.repeats)


def make_budget(
    epsilon: Real | None = None,
    delta: Real | None = None,
    *,
    rho: Real | None = None,
    n: int | None = None,
    advanced: bool = False,
) -> Budget:
    """Return the budget of epsilon and delta, or of rho. The default delta is 1 / n^2, as in the papers.

    advanced: compose pure costs by advanced composition instead of zCDP.

    >>> make_budget(epsilon=1, n=1000).delta
    1e-06
    """
    if (epsilon is None) == (rho is None):
        raise TypeError(
            f"exactly one of epsilon and rho (epsilon {shown(epsilon)}, rho {shown(rho)}) must be given"
        )
    if n is not None:
        n = positive_integer("n", n)
    if rho is not None:
        if delta is not None:
            raise TypeError(f"delta ({shown(delta)}) must come with epsilon: rho needs none")
        return Budget.zcdp(rho)
    assert epsilon is not None
    if delta is None:
        if n is None:
            raise TypeError("delta (None) must be given, or n: without a delta it is 1 / n^2")
        delta = float(Fraction(1, n**2))
        if not 0 < delta < 1:
            records = "one record" if n == 1 else f"{shown(n)} records"
            raise ValueError(f"delta must be given for a private table of {records}")
    elif delta == 0 and not isinstance(delta, bool):
        return Budget.pure(epsilon)
    return Budget.approximate(epsilon, delta, "advanced" if advanced else "zCDP")
