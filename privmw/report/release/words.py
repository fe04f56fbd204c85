"""A release in words: its privacy guarantee, its algorithm and its settings.

The figures of the promise are rounded up as in privmw.accounting.statement. (epsilon, delta)-privacy bounds
what any test can achieve, and so the chance of a right guess; it does not bound single beliefs, so the report
shows none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privmw.accounting import Ledger, Neighbors
from privmw.accounting.statement import protected, show, usual_delta
from privmw.algorithms.configuration import ALGORITHMS
from privmw.data.domain import plain

FALSE_ALARMS = 0.05
SLACK = 1 + 1e-12  # the library's exp errs by less
MOST_SETTINGS = 40
OF_ROUNDS = ("rounds", "per_round", "split", "warm_up", "replay", "output")  # what only rounds use

STRENGTHS = (  # by the chance of a right guess, in words that promise no more than it
    (0.55, "hardly better than tossing a coin"),
    (0.75, "better than tossing a coin, and far from certain"),
    (0.9, "much better than tossing a coin, and not certain"),
    (0.99, "nearly certain, so that this promise protects little"),
    (math.inf, "as good as certain, so that this promise protects next to nothing"),
)
SETTINGS = {  # of all algorithms; each says what its own mean
    "algorithm": "how the rows were weighed",
    "rounds": "how often the weights were improved",
    "select": "how a round chose what to measure; “all” chooses nothing and measures everything once",
    "measure": "what was measured at a time: single cells or whole marginals",
    "per_round": "how many of them a round measured",
    "split": "the part of a round's budget that went into choosing",
    "warm_up": "the part of the budget spent on a first look at every marginal",
    "order": "how many attributes the marginals of the first look had, if not those of the workload",
}


@dataclass(frozen=True)
class Promise:
    """The privacy of a release, as text. chance: delta as 1 in a number.

    guess: the maximum percentage of right guesses; strength: a word for it. hits: the maximum percentage of
    true cases that a test with `alarms` percent false alarms finds. twice: the epsilon for two units
    together. protected: the unit, with its maximum number of records if there may be several; counted: what n
    counts.
    """

    epsilon: str
    delta: str
    chance: str
    bounded: bool
    pure: bool
    n: str
    unit: str
    protected: str
    counted: str
    neighbors: str
    doubt: str
    factor: str
    guess: str
    strength: str
    alarms: str
    hits: str
    twice: str


def promise(ledger: Ledger) -> Promise:
    """The guarantee of a ledger, at its budget's delta or the usual one.

    >>> from privmw.accounting import Budget, DiscreteLaplace
    >>> ledger = Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9)
    >>> ledger.charge(DiscreteLaplace(scale=1, l1_sensitivity=1))
    >>> figures = promise(ledger)
    >>> figures.epsilon, figures.factor, figures.guess, figures.hits
    ('1', '2.71829', '73.2', '13.6')
    """
    delta = usual_delta(ledger)
    epsilon = ledger.epsilon(delta)
    bounded = math.isfinite(epsilon)
    odds = math.exp(min(epsilon, 700)) * SLACK
    replaced = ledger.neighbors is Neighbors.REPLACE_ONE
    twice = ledger.epsilon(delta, group=2)
    unit, change, counted = protected(ledger)
    return Promise(
        epsilon=show(epsilon) if bounded else "unbounded",
        delta=show(delta).replace("e-0", "e-"),
        chance=f"1 in {_floor(1 / delta):,}" if delta > 1e-15 else show(delta),
        bounded=bounded,
        pure=delta == 0,
        n=f"{'' if replaced else 'about '}{ledger.n:,}",
        unit=unit,
        protected=ledger.unit,
        counted=counted,
        neighbors=f"{change} by any other{'' if unit == ledger.unit else 's'}" if replaced else change,
        doubt=f"which of two versions of one {unit} is in the table"
        if replaced
        else f"whether one {unit} is in the table at all",
        factor=show(odds) if epsilon < 700 else f"e^{show(epsilon)}",
        # Of two equally likely tables, the right one is guessed with probability (1 + total variation) / 2.
        guess=_hundredths((odds + delta) / (odds + 1)),
        strength=next(words for most, words in STRENGTHS if (odds + delta) / (odds + 1) <= most),
        alarms=f"{100 * FALSE_ALARMS:g}",
        # The power of any test of level a: at most e^epsilon a + delta, and 1 - e^-epsilon (1 - a - delta).
        hits=_hundredths(
            min(odds * FALSE_ALARMS + delta, 1 - (1 - FALSE_ALARMS - delta) / odds if delta < 0.9 else 1)
        ),
        twice=show(twice) if math.isfinite(twice) else "unbounded",
    )


def _hundredths(probability: float) -> str:
    """A probability in percent, rounded up to a tenth."""
    return f"{min(math.ceil(1000 * min(probability, 1) - 1e-9) / 10, 100):g}"


def _floor(value: float) -> int:
    """Round down to three digits, so that the probability 1 / number is rounded up."""
    unit = int(10 ** max(math.floor(math.log10(value)) - 2, 0))
    return int(value * (1 + 1e-12)) // unit * unit


def algorithm(settings: Mapping[str, Any]) -> str:
    """A short description of the algorithm of a release."""
    name = settings.get("algorithm")
    if not isinstance(name, str):
        return "no algorithm is named"
    return ALGORITHMS[name].about if name in ALGORITHMS else f"an algorithm named {plain(name)}"


def settings_in_words(settings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each setting that had an effect, known settings first.

    >>> settings_in_words({"rounds": 3000, "more": [1], "gamma": None})
    [('rounds', '3,000', 'how often the weights were improved'), ('more', '[1]', '')]
    >>> [name for name, *_ in settings_in_words({"select": "all", "rounds": 1, "split": 0.5, "slack": "l2"})]
    ['select', 'slack']
    """
    kind = ALGORITHMS.get(str(settings.get("algorithm")))
    meanings = {**SETTINGS, **(kind.meanings if kind else {})}
    meant = {
        name: value
        for name, value in settings.items()
        if _means_something(name, value, settings, meanings.get(name, ""))
    }
    names = [name for name in meanings if name in meant]
    names += sorted(name for name in meant if name not in meanings)
    table = []
    for name in names[:MOST_SETTINGS]:
        value = meant[name]
        shown = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
        if isinstance(value, int) and not isinstance(value, bool) and name != "seed":
            shown = f"{value:,}"
        table.append((plain(name), plain(shown, 120), meanings.get(name, "")))
    return table


def _means_something(name: str, value: Any, settings: Mapping[str, Any], meaning: str) -> bool:
    """True if a setting has an effect: unset ones have none, nor have options of rounds without rounds."""
    if value is None:
        return "; none: " in meaning and (name != "prior_weight" or settings.get("slack") == "l2")
    if name in OF_ROUNDS and settings.get("select") == "all":
        return False
    if name in ("warm_up", "order"):
        return bool(settings.get("warm_up")) or (name == "order" and settings.get("select") == "all")
    return True
