"""Measuring a set of marginals once, without a loop: the budget is split over them.

This is what a statistical agency does before post-processing: the total, margins and the histogram itself,
each with its own noise. The private table goes from here into the Curator and nowhere else.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from fractions import Fraction
from reprlib import repr as _short
from typing import NamedTuple

import numpy as np

from privmw.accounting import Budget, Ledger, Neighbors
from privmw.accounting.rounding import Real, positive
from privmw.algorithms.accounted import AccountPath, open_account, settle
from privmw.algorithms.schedule import Planned
from privmw.curator import Curator
from privmw.data.records import Records
from privmw.data.workload import Workload
from privmw.postprocess import NoisyMarginal, NoisyMarginals
from privmw.random import Rng
from privmw.release.noises import DiscreteGaussianNoise, DiscreteLaplaceNoise, noise_of_event


class Measured(NamedTuple):
    """The noisy marginals, and the ledger of their cost."""

    marginals: NoisyMarginals
    ledger: Ledger


def measure_marginals(
    private: Records,
    marginals: Iterable[Sequence[str]],
    *,
    epsilon: Real | None = None,
    rho: Real | None = None,
    shares: Iterable[Real] | None = None,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
    public_n: int | None = None,
    rng: Rng = None,
    account: AccountPath = None,
) -> Measured:
    """Count every cell of some marginals, with discrete Laplace (epsilon) or discrete Gaussian noise (rho).

    epsilon or rho is the cost of all of them; each marginal gets an equal share, or its part of `shares`.
    Under ADD_REMOVE_ONE the total, (), can be measured too, and public_n is the number of records that the
    statement shows. A marginal has at most six attributes. rng: None for a release; a seed for experiments
    marks the ledger. account: the account of the private table, or its file, where the cost is reserved
    before the table is looked at.

    >>> from privmw import Domain, Table
    >>> table = Table.from_codes([[2, 0], [0, 1], [2, 0]], Domain({"age": 3, "sex": 2}), private=True)
    >>> measured, ledger = measure_marginals(table, [("age",), ("sex",), ("age", "sex")], epsilon=1)
    >>> measured, ledger.epsilon(0)
    (NoisyMarginals(3 marginals, 11 of 11 cells measured), 1.0)
    """
    if not isinstance(private, Records):
        raise TypeError(f"private ({type(private).__name__}) must be a Table")
    if (rho is None) == (epsilon is None):
        raise TypeError("exactly one of rho and epsilon must be given")
    if isinstance(marginals, str) or not isinstance(marginals, Iterable):
        raise TypeError(f"marginals ({_short(marginals)}) must be a list of tuples of attribute names")
    requested = [tuple(names) if isinstance(names, list | tuple) else names for names in marginals]
    if not requested:
        raise ValueError("marginals (none) must be at least one")
    if requested.count(()) > 1:
        raise ValueError("marginal () must be given only once")
    if () in requested and neighbors is Neighbors.REPLACE_ONE:
        raise ValueError("marginal () must not be measured under REPLACE_ONE: the total is public")
    # The curator needs a workload even where only the total is measured.
    workload = Workload(
        private.domain, [names for names in requested if names != ()] or [private.domain.names[:1]]
    )
    budget = Budget.zcdp(rho) if rho is not None else Budget.pure(epsilon or 0)
    costs = _split(budget.limit, shares, len(requested))
    opened, run, measured = open_account(account), secrets.token_hex(16), []
    with Curator(private, workload, budget, rng=rng, neighbors=neighbors, public_n=public_n) as curator:
        if opened is not None:  # here: the curator has checked everything, and has released nothing
            noise = DiscreteGaussianNoise if rho is not None else DiscreteLaplaceNoise
            events = [Planned("measure", noise.name, noise.cost(cost)) for cost in costs]
            what = f"measure_marginals, {len(requested)} of them, {budget!r}"
            opened.reserve(
                run,
                events,
                what,
                neighbors=neighbors,
                unit=curator.ledger.unit,
                for_release=curator.ledger.for_release,
            )
        for names, cost in zip(requested, costs, strict=True):
            pure, zcdp = (None, cost) if rho is not None else (cost, None)
            if names == ():
                noisy = curator.measure(total=True, epsilon=pure, rho=zcdp)
            else:
                names = workload.marginal(j := workload.index(names))
                noisy = curator.measure(marginals=[j], epsilon=pure, rho=zcdp)
            added = noise_of_event(curator.ledger.events[-1])
            measured.append(NoisyMarginal(names, noisy.astype(np.float64), added.name, added.scale))
        released = Measured(NoisyMarginals(measured, private.domain), curator.ledger)
        if opened is not None:
            settle(opened, run, curator.ledger)
        return released


def _split(limit: Fraction, shares: Iterable[Real] | None, count: int) -> list[Fraction]:
    """The budget in parts that add up to it exactly."""
    if shares is None:
        return [limit / count] * count
    parts = [Fraction(positive("share", share)) for share in shares]
    if len(parts) != count:
        raise ValueError(f"shares ({len(parts)}) must be as many as marginals ({count})")
    return [limit * part / sum(parts) for part in parts]
