"""Google's dp_accounting: a ledger's events as DpEvents, and what its two accountants make of them.

`event.to_dp_event()` and `ledger.to_dp_event()` call this file. Parameters only: nothing here has seen data.

Every event becomes a ZCDpEvent, even where dp_accounting has an event of a like name:

- Its RDP accountant ignored how often an exponential mechanism is composed with itself (100 runs of 0.1
  were reported as one), and its PLD accountant ignores the same of randomized response. It multiplies the
  costs of ZCDpEvents by their counts. tests/extensions/adapters/test_dp_accounting.py checks this, and the
  second bug.
- GaussianDpEvent and LaplaceDpEvent are of continuous noise. Our noise is discrete, and for some deltas it
  needs a larger epsilon: rho is proved for it, a continuous privacy loss is not. `pld_epsilon` builds the
  discrete one.
"""

from fractions import Fraction
from functools import reduce
from typing import Any

import dp_accounting
from dp_accounting.pld import common, privacy_loss_distribution

from privmw.accounting.composition import Sequential, count_costs, delta_left
from privmw.accounting.events import Cost, Event, Neighbors
from privmw.accounting.ledger import Ledger
from privmw.accounting.noise import DiscreteGaussian
from privmw.accounting.rounding import Real, float_up, probability
from privmw.secrecy import expect, shown

_RELATIONS = {
    Neighbors.REPLACE_ONE: dp_accounting.NeighboringRelation.REPLACE_ONE,
    Neighbors.ADD_REMOVE_ONE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
}
# The squared sensitivity below which every integer difference is of ones: then as many cells differ by one.
_ONLY_ONES = 4


def to_dp_event(spent: Event | Ledger) -> Any:
    """Return an event, or all events of a ledger, as a DpEvent that an RDP accountant composes.

    An event with a delta of its own is refused, since no DpEvent states one: `rdp_epsilon` takes it off.

    >>> from privmw.accounting import ExponentialMechanism
    >>> to_dp_event(ExponentialMechanism(1, candidates=9, count=3))
    SelfComposedDpEvent(event=ZCDpEvent(rho=0.125, xi=0.0), count=3)
    """
    expect("spent", spent, Event | Ledger, "an Event or a Ledger")
    spent_by = list(spent.events) if isinstance(spent, Ledger) else [spent]
    for event in spent_by:
        if event.delta > 0:
            raise ValueError(
                f"event ({shown(event)}) must have no delta of its own, which no DpEvent states: see "
                "rdp_epsilon"
            )
    composed = _zcdp(count_costs(spent_by))
    return composed[0] if isinstance(spent, Event) else dp_accounting.ComposedDpEvent(composed)


def rdp_epsilon(ledger: Ledger, delta: Real) -> float:
    """Return the epsilon at delta by dp_accounting's RDP accountant. Deltas of events are taken off first.

    It tries a list of orders, and `ledger.epsilon` every order and pure costs too, so this is not below it.

    >>> from privmw.accounting import Budget, ExponentialMechanism
    >>> ledger = Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=1000)
    >>> ledger.charge(ExponentialMechanism(0.5, candidates=9, count=10))
    >>> ledger.epsilon(1e-9) <= rdp_epsilon(ledger, 1e-9) < ledger.epsilon(1e-9) + 0.01
    True
    """
    left = delta_left(probability("delta", delta), ledger.total.delta)
    accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=_RELATIONS[ledger.neighbors])
    accountant.compose(dp_accounting.ComposedDpEvent(_zcdp(count_costs(ledger.events))))
    return float(accountant.get_epsilon(left))


def pld_epsilon(ledger: Ledger, delta: Real) -> float:
    """Return the epsilon at delta by dp_accounting's privacy loss distributions, rounded up by 1e-4 an event.

    Discrete Gaussian noise has its own distribution where the squared sensitivity is an integer below 4: the
    counts then differ by 1 in that many cells. An event with a pure cost is represented by the worst
    mechanism of its epsilon and delta. Other events are refused.

    >>> from privmw.accounting import Budget, DiscreteGaussian
    >>> ledger = Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=1000)
    >>> ledger.charge(DiscreteGaussian(10, l2_sensitivity_squared=2, size=6, count=5))
    >>> 1.5 < pld_epsilon(ledger, 1e-9) < ledger.epsilon(1e-9) < 2.5
    True
    """
    wanted = probability("delta", delta)
    losses = [_loss(event, count) for event, count in _parts(ledger.events, 1)]
    total = reduce(lambda one, other: one.compose(other), losses, privacy_loss_distribution.identity())
    return float(total.get_epsilon_for_delta(wanted))


def _zcdp(costs: dict[Cost, int]) -> list[Any]:
    return [
        dp_accounting.SelfComposedDpEvent(dp_accounting.ZCDpEvent(float_up(cost.rho)), count)
        for cost, count in costs.items()
    ]


def _parts(events: tuple[Event, ...], times: int) -> list[tuple[Event, int]]:
    """Each event and how often it was run, with sequences taken apart and equal events counted together."""
    counts: dict[Event, int] = {}
    for event in events:
        inside = (
            _parts(event.events, times * event.count)
            if isinstance(event, Sequential)
            else [(event, times * event.count)]
        )
        for part, count in inside:
            counts[part] = counts.get(part, 0) + count
    return list(counts.items())


def _loss(event: Event, count: int) -> Any:
    """The privacy loss of count runs of an event, whatever its own count."""
    if isinstance(event, DiscreteGaussian):
        square = Fraction(event.l2_sensitivity_squared)
        if square < _ONLY_ONES:
            cells = max(int(square), 1)
            one = privacy_loss_distribution.from_discrete_gaussian_mechanism(float(event.sigma), 1)
            return one.self_compose(cells * count)
    cost = event.cost_of_one
    if cost.epsilon is None:
        raise ValueError(
            f"event ({shown(event)}) must have a pure cost, or be discrete Gaussian noise whose squared "
            f"sensitivity is below {_ONLY_ONES}: no privacy loss distribution is known of it"
        )
    worst = common.DifferentialPrivacyParameters(float_up(cost.epsilon), float_up(cost.delta))
    return privacy_loss_distribution.from_privacy_parameters(worst).self_compose(count)
