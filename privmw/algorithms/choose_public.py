"""A private choice among public tables, before a run: the one whose marginals are closest to the private
ones.

Proposed by "Leveraging public data for practical private query release" (Liu et al. 2021). The private table
is passed to the Curator and nowhere else; the public ones are reduced to answers to a workload.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from privmw.accounting import Budget, ExponentialMechanism, Ledger, epsilon_for_rho_exponential
from privmw.accounting.rounding import Real, positive
from privmw.algorithms.options import AccountedRun, AccountPath
from privmw.curator.on_ranks import open_curator
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s
from privmw.random import Rng
from privmw.ranks import check_same
from privmw.secrecy import expect, shown


@dataclass(frozen=True, slots=True)
class Chosen:
    """The index of the chosen table, its support, and the ledger of the choice."""

    index: int
    support: Support
    ledger: Ledger


def choose_public(
    private: Records,
    tables: Sequence[Records | Support],
    workload: Workload,
    *,
    epsilon: Real | None = None,
    rho: Real | None = None,
    score: Literal["largest", "mean"] = "largest",
    rng: Rng = None,
    account: AccountPath = None,
) -> Chosen:
    """Choose the public table, or support, whose answers to a workload are close to the private ones.

    Uses the exponential mechanism; the distance is the largest error over all cells, or the mean over the
    marginals of the L1 distance. epsilon or rho is the cost; a release from the chosen support has its own
    cost in addition. A table may lack columns that the workload does not use. rng: None for a release; a seed
    for experiments marks the ledger. account: the account of the private table, or its file, where the cost
    is reserved before anything is released.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"sex": ["F", "M"]})
    >>> private = Table.from_codes([[0], [1]] * 500, domain, private=True)
    >>> tables = [Table.from_codes(rows, domain, private=False) for rows in ([[0]], [[0], [1]])]
    >>> chosen = choose_public(private, tables, Workload.all(domain, k=1), epsilon=0.5)
    >>> chosen.index, chosen.support, chosen.ledger.epsilon(0)
    (1, Support(2 distinct rows x 1 attributes of 2 public records), 0.5)
    """
    expect("private", private, Records, "a Table", quote=False)
    if (rho is None) == (epsilon is None):
        raise TypeError("exactly one of rho and epsilon must be given")
    if score not in ("largest", "mean"):
        raise ValueError(f"score ({shown(score)}) must be 'largest' or 'mean'")
    expect("workload", workload, Workload, "a Workload")
    budget = Budget.zcdp(rho) if rho is not None else Budget.pure(positive("epsilon", epsilon or 0))
    supports = _supports(tables, private)
    answers = [_answers(f"tables[{place}]", support, workload) for place, support in enumerate(supports)]
    pure = budget.limit if rho is None else epsilon_for_rho_exponential(rho)
    comm = private.comm
    check_same(comm, "tables, workload and budget", _digest(answers, workload, budget, score))
    accounted = AccountedRun(account, comm=comm)
    with open_curator(private, workload, budget, rng, comm) as curator:
        # At this point the curator has checked everything and released nothing.
        accounted.reserve(
            [ExponentialMechanism(pure, len(supports))],
            f"choose_public, among {len(supports)} tables, {budget!r}",
            curator.ledger,
        )
        index = curator.choose_public(answers, epsilon=pure, distance=score)
        accounted.settle(curator.ledger)
        return Chosen(index, supports[index], curator.ledger)


def _digest(answers: Sequence[Float64s], workload: Workload, budget: Budget, score: str) -> str:
    """A digest of the inputs that must be equal on all ranks."""
    hashed = hashlib.sha256(b"".join(one.tobytes() for one in answers)).hexdigest()
    return f"{hashed} {workload.fingerprint()} {budget!r} {score}"


def _supports(tables: Sequence[Records | Support], private: Records) -> list[Support]:
    """The support of each table, on the domain of the private one."""
    listed = isinstance(tables, Sequence) and not isinstance(tables, str | Records | Support)
    expect("tables", tables, listed, "a list of public tables")
    if len(tables) < 2:
        raise ValueError(f"tables ({len(tables)}) must be at least two to choose from")
    for place, table in enumerate(tables):
        expect(f"tables[{place}]", table, Records | Support, "a Table or a Support", quote=False)
        if isinstance(table, Records) and table.private:
            raise ValueError(f"tables[{place}] (a private table) must be public: a support shows its rows")
        if table.comm.size > 1:
            raise ValueError(f"tables[{place}] ({shown(table)}) must lie on one rank")
    supports = []
    for place, table in enumerate(tables):
        if isinstance(table, Records):
            try:
                table = Support.from_table(table, domain=private.domain)
            except ValueError as error:
                raise ValueError(f"tables[{place}]: {error}") from None
        elif table.domain != private.domain:
            raise ValueError(f"tables[{place}] ({shown(table)}) must be on the domain of the private table")
        supports.append(table)
    return supports


def _answers(name: str, support: Support, workload: Workload) -> Float64s:
    try:
        return support.answers(workload)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
