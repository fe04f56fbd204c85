"""PEP (Liu, Vietri and Wu, "Iterative methods for private synthetic data", 2021): project, do not step.

After each round the model is the distribution nearest to the start, in relative entropy, that fits every
measurement so far. The paper starts uniform and asks for a fit within gamma (l1); the default here starts at
the public frequencies and weighs misfit by its noise against prior_weight records of prior (l2), which never
contradicts itself. privmw.models.projection.solver solves both and says how exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from privmw.algorithms.algorithm import Algorithm, Select
from privmw.algorithms.loop import Model
from privmw.algorithms.plan import Effort
from privmw.algorithms.question import Question, Unit
from privmw.algorithms.shorthand import release_by
from privmw.data.records import Records
from privmw.data.support import Start, Support
from privmw.data.workload import Workload
from privmw.models import ProjectedSupport
from privmw.models.projected import Kind
from privmw.release import Release

LIGHTEST, HEAVIEST = 1e-3, 1e12  # records: beyond, the start is no prior, or there is no fit


@dataclass(frozen=True, kw_only=True, repr=False)
class PEP(Algorithm):
    """Projection onto all measurements, from a public or uniform start, on a public support or a full one.

    gamma (l1): how far an answer may be missed, as a fraction; None takes each measurement's standard
    deviation. Where no distribution on the support is that near, or hardly one, gamma is doubled until one
    is, and the history says so. prior_weight (l2): how many records the start is worth; None lets the
    measurements choose, at no cost.

    >>> PEP(rounds=25, measure="marginal", prior_weight=300).configure(rho=0.01).rho
    0.01
    """

    select: Select = "exponential"
    measure: Unit = "marginal"
    start: Start = "public"
    slack: Kind = "l2"
    gamma: float | None = None
    prior_weight: float | None = None

    # A projection takes some tens of passes, and a chosen prior weight several projections.
    effort: ClassVar[Effort] = Effort(shot=500, round=12, passes=60)

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        super().__post_init__()
        self._one_of("start", Start)
        self._one_of("slack", Kind)
        if self.prior_weight is not None:
            self._between("prior_weight", LIGHTEST, HEAVIEST)
        if self.gamma is not None:
            if self.slack == "l2":
                raise ValueError(f"gamma ({self.gamma}) must come with slack='l1'")
            if self._number("gamma") != 0:
                self._between("gamma", 0, 1)

    def model(self, support: Support, question: Question, n: int, threads: int | None) -> Model:
        """A support that is projected anew after each round."""
        return ProjectedSupport(
            support,
            question.asked,
            question.measured,
            n,
            start=self.start,
            slack=self.slack,
            gamma=self.gamma,
            prior_weight=self.prior_weight,
            threads=threads,
        )


def release_pep(private: Records | None, support: Support, workload: Workload, **options: Any) -> Release:
    """Release by PEP. Takes epsilon and delta (or rho), rng, threads, progress and PEP's options.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> support = Support.from_table(Table.from_codes([[0, 0], [0, 1], [2, 1], [1, 0]], domain))
    >>> release = release_pep(private, support, Workload.all(domain, k=2), epsilon=1.0, rounds=1)
    >>> release.history[-1].details["gap"] < 1e-9
    True
    """
    return release_by(PEP, private, support, workload, options)
