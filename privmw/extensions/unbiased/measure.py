"""Measuring a set of marginals once, without a loop: the budget is split over them.

This is what a statistical agency does before post-processing: the total, margins and the histogram itself,
each with its own noise. The private table goes from here into the Curator and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple, overload

import numpy as np

from privmw.accounting import Budget, Event, Ledger, Neighbors, ThresholdedLaplace
from privmw.accounting.looks import Look
from privmw.accounting.noise import DISCRETE_LAPLACE, LARGEST_DRAWN_SCALE, noise_for, noise_of_event
from privmw.accounting.rounding import Real, positive, probability
from privmw.algorithms.options import AccountedRun, AccountPath
from privmw.curator.on_ranks import open_curator
from privmw.data.domain import Domain
from privmw.data.records import Records
from privmw.data.workload import CELLS_CHANGED_PER_MARGINAL, Workload
from privmw.extensions.unbiased import UnbiasedAnswers
from privmw.extensions.unbiased.one_shot import OneShot
from privmw.extensions.unbiased.strategies import Strategy
from privmw.kernels.arrays import Int64s
from privmw.random import Rng
from privmw.ranks import check_same
from privmw.release.noisy_marginals import NoisyMarginals
from privmw.secrecy import expect, shown


class Measured(NamedTuple):
    """The noisy marginals, and the ledger of their cost."""

    marginals: NoisyMarginals
    ledger: Ledger


@overload
def measure_marginals(
    private: Records,
    marginals: Iterable[Sequence[str]],
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    strategy: None = None,
    threshold: bool = False,
    shares: Iterable[Real] | None = None,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
    public_n: int | None = None,
    rng: Rng = None,
    account: AccountPath = None,
) -> Measured: ...
@overload
def measure_marginals(
    private: Records,
    marginals: Iterable[Sequence[str]],
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    strategy: Strategy,
    rng: Rng = None,
    account: AccountPath = None,
) -> UnbiasedAnswers: ...
def measure_marginals(
    private: Records,
    marginals: Iterable[Sequence[str]],
    *,
    epsilon: Real | None = None,
    delta: Real | None = None,
    rho: Real | None = None,
    strategy: Strategy | None = None,
    threshold: bool = False,
    shares: Iterable[Real] | None = None,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
    public_n: int | None = None,
    rng: Rng = None,
    account: AccountPath = None,
) -> Measured | UnbiasedAnswers:
    """Count every cell of some marginals, with discrete Laplace (epsilon) or discrete Gaussian noise (rho).

    epsilon or rho is the cost of all of them; each marginal gets an equal share, or its part of `shares`.
    Under ADD_REMOVE_ONE the total, (), can be measured too, and public_n is the number of records that the
    statement shows. A marginal has at most six attributes. rng: None for a release; a seed for experiments
    marks the ledger. account: the account of the private table, or its file, where the cost is reserved
    before the table is looked at.

    threshold: with epsilon and delta, noisy counts below a threshold vanish, and so does every cell without a
    record; the total does not. In a fit, a cell that vanished is 0 with the threshold as its deviation.

    strategy: one of privmw.strategies spreads (epsilon, delta), or rho, over the marginals, and the result is
    `UnbiasedAnswers` with their standard errors; delta is 1 / n^2 unless given, and 0 for Laplace noise.

    >>> from privmw import Domain, Table
    >>> table = Table.from_codes([[2, 0], [0, 1], [2, 0]], Domain({"age": 3, "sex": 2}), private=True)
    >>> measured, ledger = measure_marginals(table, [("age",), ("sex",), ("age", "sex")], epsilon=1)
    >>> measured, ledger.epsilon(0)
    (NoisyMarginals(3 marginals, 11 of 11 cells measured), 1.0)
    >>> sparse, ledger = measure_marginals(table, [("age", "sex")], epsilon=1, delta=1e-9, threshold=True)
    >>> sparse.noisy_counts.tolist(), ledger.events[0].threshold
    ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 42)
    >>> from privmw import strategies
    >>> measure_marginals(table, [("age", "sex")], rho=0.01, strategy=strategies.residual())
    UnbiasedAnswers(Residual, 1 marginal, 6 cells, rho 0.01, n 3)
    """
    expect("private", private, Records, "a Table", quote=False)
    if strategy is not None:
        if threshold or shares is not None or public_n is not None or neighbors is not Neighbors.REPLACE_ONE:
            raise TypeError("strategy must not come with threshold, shares, public_n or other neighbors")
        mechanism = OneShot(strategy=strategy).calibrate(epsilon, delta, rho=rho, n=private.n or None)
        return mechanism(private, Workload(private.domain, marginals), rng=rng, account=account)
    if (rho is None) == (epsilon is None):
        raise TypeError("exactly one of rho and epsilon must be given")
    if threshold is not (delta is not None):
        raise TypeError(f"delta ({shown(delta)}) must come with threshold=True, and the reverse")
    if threshold and epsilon is None:
        raise TypeError("threshold must come with epsilon and delta")
    right = isinstance(marginals, Iterable) and not isinstance(marginals, str)
    expect("marginals", marginals, right, "a list of tuples of attribute names")
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
    budget = _budget(epsilon, delta, rho)
    costs = _split(budget.limit, shares, len(requested))
    # The deltas of all that can vanish add up to delta, in the proportions of their costs.
    vanishing = sum((cost for names, cost in zip(requested, costs, strict=True) if names != ()), Fraction(0))
    deltas = [Fraction(budget.event_delta) * cost / (vanishing or 1) for cost in costs]
    moved = CELLS_CHANGED_PER_MARGINAL if neighbors is Neighbors.REPLACE_ONE else 1
    noise, _ = noise_for(rho=rho, epsilon=epsilon)
    for names, cost, own in zip(requested, costs, deltas, strict=True):
        changed = workload.sensitivity([workload.index(names)], moved) if names else 1
        scale = noise.scale(cost, noise.sensitivity(changed, private.at_most))
        _check_look(scale, own if threshold and names else None)
    comm, measured = private.comm, []
    check_same(comm, "marginals, shares and budget", f"{requested} {costs} {deltas} {budget!r} {neighbors}")
    accounted = AccountedRun(account, comm=comm)
    with open_curator(
        private, workload, budget, rng, comm, neighbors=neighbors, public_n=public_n
    ) as curator:
        # Here: the curator has checked everything, and has released nothing.
        events = [
            Look("measure", noise, cost, own_delta=own if names else Fraction(0))
            for names, cost, own in zip(requested, costs, deltas, strict=True)
        ]
        accounted.reserve(events, f"measure_marginals, {len(requested)} of them, {budget!r}", curator.ledger)
        for names, cost, own in zip(requested, costs, deltas, strict=True):
            if names == ():
                noisy = curator.measure(total=True, **noise.argument(cost))
            else:
                names = workload.marginal(j := workload.index(names))
                if threshold:
                    noisy = curator.measure_thresholded(j, epsilon=cost, delta=own)
                else:
                    noisy = curator.measure(marginals=[j], **noise.argument(cost))
            measured.append(_Noisy(names, noisy, curator.ledger.events[-1]))
        released = Measured(_noisy_marginals(measured, private.domain), curator.ledger)
        accounted.settle(curator.ledger)
        return released


def _check_look(scale: float, delta: Fraction | None) -> None:
    """Refuse a look that the curator would refuse: after the first, something would be spent."""
    if scale > LARGEST_DRAWN_SCALE:
        raise ValueError(f"scale ({scale}) must be at most 2^40: the share of the budget is too small")
    if delta is not None:
        probability("delta", delta)


class _Noisy(NamedTuple):
    """What one look released: the attributes, a noisy count for each cell, and the event that it cost."""

    names: tuple[str, ...]
    counts: Int64s
    event: Event


def _noisy_marginals(looks: list[_Noisy], domain: Domain) -> NoisyMarginals:
    noises: dict[tuple[str, float], int] = {}
    noise_of = []
    for look in looks:
        if isinstance(look.event, ThresholdedLaplace):
            shown = noises.setdefault((DISCRETE_LAPLACE.name, float(look.event.scale)), len(noises))
            vanished = noises.setdefault(("gaussian", float(look.event.threshold)), len(noises))
            noise_of.append(np.where(look.counts != 0, shown, vanished))
        else:
            added = noise_of_event(look.event)
            number = noises.setdefault((added.name, added.scale), len(noises))
            noise_of.append(np.full(len(look.counts), number))
    return NoisyMarginals.of_cells(
        domain,
        [look.names for look in looks],
        noises,
        marginal_of=np.repeat(np.arange(len(looks)), [len(look.counts) for look in looks]),
        cells=np.concatenate([np.arange(len(look.counts)) for look in looks]),
        noisy_counts=np.concatenate([look.counts for look in looks]),
        noise_of=np.concatenate(noise_of),
    )


def _budget(epsilon: Real | None, delta: Real | None, rho: Real | None) -> Budget:
    """The budget of all looks; with a delta, both epsilons and deltas simply add up."""
    if rho is not None:
        return Budget.zcdp(rho)
    assert epsilon is not None
    if delta is None:
        return Budget.pure(epsilon)
    delta = probability("delta", delta)  # a fraction is rounded down, here and as what is set aside
    return Budget.approximate(epsilon, delta, composition="advanced", event_delta=delta)


def _split(limit: Fraction, shares: Iterable[Real] | None, count: int) -> list[Fraction]:
    """The budget in parts that add up to it exactly."""
    if shares is None:
        return [limit / count] * count
    parts = [Fraction(positive("share", share)) for share in shares]
    if len(parts) != count:
        raise ValueError(f"shares ({len(parts)}) must be as many as marginals ({count})")
    return [limit * part / sum(parts) for part in parts]
