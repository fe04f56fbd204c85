"""What the ledger of a release promises, in figures that somebody who is not an expert can follow.

Every figure is rounded up as in privmw.accounting.statement. (epsilon, delta)-privacy bounds what any test
can achieve, and so the chance of a right guess; it does not bound single beliefs, so none are shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privmw.accounting import Ledger, Neighbors
from privmw.accounting.statement import show, usual_delta

FALSE_ALARMS = 0.05
SLACK = 1 + 1e-12  # the library's exp errs by less


@dataclass(frozen=True)
class Promise:
    """The privacy of a release, as text. chance: delta as one in so many.

    guess: how often in a hundred a guess can be right at most. alarms: how many of a hundred false alarms are
    allowed; hits: the right ones that this buys at most. twice: the epsilon for two records together.
    """

    epsilon: str
    delta: str
    chance: str
    bounded: bool
    pure: bool
    n: str
    unit: str
    neighbors: str
    doubt: str
    factor: str
    guess: str
    alarms: str
    hits: str
    twice: str


def promise(ledger: Ledger) -> Promise:
    """Read the figures from a ledger, at its budget's delta or the usual one.

    >>> from privmw.accounting import Budget, DiscreteLaplace
    >>> ledger = Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9)
    >>> ledger.charge(DiscreteLaplace(scale=1, l1_sensitivity=1))
    >>> found = promise(ledger)
    >>> found.epsilon, found.factor, found.guess, found.hits
    ('1', '2.71829', '73.2', '13.6')
    """
    delta = usual_delta(ledger)
    epsilon = ledger.epsilon(delta)
    bounded = math.isfinite(epsilon)
    odds = math.exp(min(epsilon, 700)) * SLACK
    replaced = ledger.neighbors is Neighbors.REPLACE_ONE
    twice = ledger.epsilon(delta, group=2)
    return Promise(
        epsilon=show(epsilon) if bounded else "unbounded",
        delta=show(delta).replace("e-0", "e-"),
        chance=f"1 in {_floor(1 / delta):,}" if delta > 1e-15 else show(delta),
        bounded=bounded,
        pure=delta == 0,
        n=f"{'' if replaced else 'about '}{ledger.n:,}",
        unit=ledger.unit,
        neighbors=f"replacing one {ledger.unit} by any other"
        if replaced
        else f"adding or removing one {ledger.unit}",
        doubt=f"which of two versions of one {ledger.unit} is in the table"
        if replaced
        else f"whether one {ledger.unit} is in the table at all",
        factor=show(odds) if epsilon < 700 else f"e^{show(epsilon)}",
        # Of two that are equally likely, the right one: (1 + total variation) / 2.
        guess=_hundredths((odds + delta) / (odds + 1)),
        alarms=f"{100 * FALSE_ALARMS:g}",
        # The power of any test: at most e^epsilon a + delta, and 1 - e^-epsilon (1 - a - delta).
        hits=_hundredths(
            min(odds * FALSE_ALARMS + delta, 1 - (1 - FALSE_ALARMS - delta) / odds if delta < 0.9 else 1)
        ),
        twice=show(twice) if math.isfinite(twice) else "unbounded",
    )


def _hundredths(probability: float) -> str:
    """In a hundred, rounded up to a tenth."""
    return f"{min(math.ceil(1000 * min(probability, 1) - 1e-9) / 10, 100):g}"


def _floor(value: float) -> int:
    """Rounded down to three digits, so that a chance of one in so many is rounded up."""
    unit = int(10 ** max(math.floor(math.log10(value)) - 2, 0))
    return int(value * (1 + 1e-12)) // unit * unit
