"""Linear queries beyond marginals: ranges, prefixes, sets, sums and matrices of one's own, measured directly.

Groups and their sensitivities are the core's (privmw/data/queries.py). Here they are measured in one shot, or
asked of a release. The private table goes from here into the Curator and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from privmw.accounting import Budget, Ledger, Neighbors
from privmw.accounting.looks import Look
from privmw.accounting.noise import LARGEST_DRAWN_SCALE, NoiseDistribution, noise_for
from privmw.accounting.rounding import Real, positive
from privmw.algorithms.options import AccountedRun, AccountPath
from privmw.curator.on_ranks import open_curator
from privmw.data.domain import Domain
from privmw.data.queries import Queries, QueryGroup, marginal, prefix, queries, ranges, sums, within
from privmw.data.records import Records
from privmw.data.workload import Workload
from privmw.io.extras import need
from privmw.kernels.arrays import Float64s, Int64s
from privmw.random import Rng
from privmw.ranks import check_same
from privmw.release import Release
from privmw.release.cells import as_kind
from privmw.secrecy import expect

__all__ = [
    "MeasuredQueries",
    "Queries",
    "QueryGroup",
    "answers_of",
    "marginal",
    "measure_queries",
    "prefix",
    "queries",
    "ranges",
    "sums",
    "within",
]

Kind = Literal["pyarrow", "pandas", "polars"]


@dataclass(frozen=True, eq=False)
class MeasuredQueries:
    """Noisy answers to groups of queries, with their ledger. All of it may be published.

    noisy: the integers of each group, in its order; noises: the distribution of each group's noise.
    """

    groups: tuple[QueryGroup, ...]
    noisy: tuple[Int64s, ...]
    noises: tuple[NoiseDistribution, ...]
    ledger: Ledger

    def answers(self) -> list[Float64s]:
        """Each group's noisy answers in records, or of sums in units of the attribute."""
        return [
            noisy.astype(np.float64) * group.unit
            for noisy, group in zip(self.noisy, self.groups, strict=True)
        ]

    def standard_errors(self) -> list[float]:
        """The standard deviation of the noise of each group's answers."""
        return [
            float(noise.variance**0.5 * group.unit)
            for noise, group in zip(self.noises, self.groups, strict=True)
        ]

    def to_frame(self, kind: Kind = "pyarrow") -> Any:
        """A frame with one row per query: attribute_1, query_1, ..., answer and standard_error."""
        errors = [
            np.full(g.size, error) for g, error in zip(self.groups, self.standard_errors(), strict=True)
        ]
        return _frame(self.groups, self.answers(), errors, kind)

    def __repr__(self) -> str:
        return f"MeasuredQueries({sum(group.size for group in self.groups)} queries, {self.ledger!r})"


def measure_queries(
    private: Records,
    asked: Iterable[Queries],
    *,
    epsilon: Real | None = None,
    rho: Real | None = None,
    public_n: int | None = None,
    rng: Rng = None,
    account: AccountPath = None,
) -> MeasuredQueries:
    """Measure groups of queries, with discrete Laplace noise (epsilon) or discrete Gaussian noise (rho).

    epsilon or rho is the cost of all groups; each gets an equal share. Its noise is that of its exact
    sensitivity. public_n: neighbours then add or remove a record, and this figure stands in the statement.
    rng: None for a release; a seed for experiments marks the ledger. account: as in `measure_marginals`.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 100, "sex": ["F", "M"]})
    >>> private = Table.from_codes([[40, 0], [70, 1], [12, 1]] * 1000, domain, private=True)
    >>> groups = [within("age", [(18, 64), (65, None)]) * marginal("sex"), sums("age", lower=0, upper=99)]
    >>> measured = measure_queries(private, groups, rho=0.5, rng=1)
    >>> [answers.round(-2).tolist() for answers in measured.answers()]
    [[1000.0, -0.0, 0.0, 1000.0], [122000.0, 3000.0]]
    >>> [round(error, 1) for error in measured.standard_errors()]
    [2.0, 140.0]
    """
    expect("private", private, Records, "a Table", quote=False)
    groups = groups_on(private.domain, asked)
    if (rho is None) == (epsilon is None):
        raise TypeError("exactly one of rho and epsilon must be given")
    neighbors = Neighbors.REPLACE_ONE if public_n is None else Neighbors.ADD_REMOVE_ONE
    budget = Budget.zcdp(rho) if rho is not None else Budget.pure(positive("epsilon", epsilon))
    share: Fraction = budget.limit / len(groups)
    family, _ = noise_for(rho=rho, epsilon=epsilon)
    for group in groups:
        moved = group.moved(family.order, replace=public_n is None)
        scale = family.scale(share, family.sensitivity(moved, private.at_most))
        if scale > LARGEST_DRAWN_SCALE:
            raise ValueError(f"scale ({scale}) must be at most 2^40: the share of the budget is too small")
    workload = Workload(private.domain, dict.fromkeys(group.names for group in groups))
    comm, noisy, noises = private.comm, [], []
    check_same(comm, "queries and budget", f"{groups} {budget!r} {neighbors}")
    accounted = AccountedRun(account, comm=comm)
    with open_curator(
        private, workload, budget, rng, comm, neighbors=neighbors, public_n=public_n
    ) as curator:
        # Here: the curator has checked everything, and has released nothing.
        looks = [Look("measure", family, share) for _ in groups]
        accounted.reserve(looks, f"measure_queries, {len(groups)} groups, {budget!r}", curator.ledger)
        for group in groups:
            noisy.append(curator.measure_queries(group, **family.argument(share)))
            noises.append(NoiseDistribution(family, float(curator.ledger.events[-1].scale)))  # type: ignore[attr-defined]
        measured = MeasuredQueries(groups, tuple(noisy), tuple(noises), curator.ledger)
        accounted.settle(curator.ledger)
        return measured


def answers_of(release: Release, asked: Iterable[Queries]) -> list[Float64s]:
    """A release's answers to groups of queries: fractions of the records, sums per record. Costs nothing.

    >>> from privmw import Domain, PEP, Support, Table
    >>> domain = Domain({"age": 4, "sex": ["F", "M"]})
    >>> private = Table.from_codes([[0, 0], [3, 1], [1, 1], [2, 0]] * 1000, domain, private=True)
    >>> workload, support = Workload.all(domain, k=2), Support.full(domain)
    >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=0)
    >>> answers_of(release, [prefix("age")])[0].round(2).tolist()
    [0.25, 0.5, 0.75, 1.0]
    """
    groups = groups_on(release.support.domain, asked)
    return [
        group.apply(release.answers(Workload(group.domain, [group.names]))).reshape(-1) * group.unit
        for group in groups
    ]


def groups_on(domain: Domain, asked: Iterable[Queries]) -> tuple[QueryGroup, ...]:
    """The groups of queries on a domain."""
    right = isinstance(asked, Iterable) and not isinstance(asked, str)
    expect("asked", asked, right, "a list of queries, such as [prefix('age')]")
    groups = tuple(QueryGroup(domain, each) for each in asked)
    if not groups:
        raise ValueError("asked (none) must be at least one group of queries")
    return groups


def _frame(
    groups: Sequence[QueryGroup], answers: Sequence[Float64s], errors: Sequence[Float64s], kind: Kind
) -> Any:
    pa = need("pyarrow", "make frames", "io")
    columns: dict[str, list[Any]] = {}
    for place in range(max(len(group.names) for group in groups)):
        columns[f"attribute_{place + 1}"] = [
            group.names[place] if place < len(group.names) else None
            for group in groups
            for _ in range(group.size)
        ]
        columns[f"query_{place + 1}"] = [
            group.words(query)[place] if place < len(group.names) else None
            for group in groups
            for query in range(group.size)
        ]
    figures = {"answer": np.concatenate(answers), "standard_error": np.concatenate(errors)}
    return as_kind(pa.table({**columns, **figures}), kind)
