"""Numbers and names as a reader sees them. It knows domains and nothing that was measured.

Errors and noise are rounded up, so that no figure claims more accuracy than there is. Names and labels come
from data files: characters that do not print are replaced, and what is too long is cut.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context
from typing import Any

from privmw.data.domain import Domain

LEAST_PERCENT = 1e-6  # below it, a percentage is said to be below
MOST_SETTINGS = 40
NO_BREAK = "\u00a0"

ALGORITHMS = {
    "PEP": "projection (PEP): of all ways to weigh the public rows, the one nearest to the start that fits "
    "the noisy counts",
    "MWPub": "multiplicative weights from a public start (MW-Pub): each noisy count makes the public rows it "
    "concerns heavier or lighter",
    "MWEM": "multiplicative weights over every possible row (MWEM): each noisy count makes the rows it "
    "concerns heavier or lighter",
    "MWEMPub": "multiplicative weights from a public start (MWEM+PUB): each noisy count makes the public "
    "rows it concerns heavier or lighter",
}
MECHANISMS = {
    "discrete-gaussian": "discrete Gaussian noise",
    "discrete-laplace": "discrete Laplace noise",
    "gaussian": "Gaussian noise",
    "laplace": "Laplace noise",
}
SETTINGS = {
    "algorithm": "how the rows were weighed",
    "rounds": "how often the weights were improved",
    "select": "how a round chose what to measure; “all” chooses nothing and measures everything once",
    "measure": "what was measured at a time: single cells or whole marginals",
    "per_round": "how many of them a round measured",
    "split": "the part of a round's budget that went into choosing",
    "warm_up": "the part of the budget spent on a first look at every marginal",
    "order": "how many attributes the marginals of the first look had, if not those asked for",
    "start": "the weights at first: public frequencies, or all rows alike",
    "slack": "how misfit to the noisy counts was allowed",
    "gamma": "how far a noisy count might be missed",
    "prior_weight": "how many records the start was worth; with none, the noisy counts decided",
    "replay": "whether a round repeated earlier measurements",
    "output": "whether the last weights were released, or the average of all rounds",
}


def percent(fraction: float, *, up: bool = False) -> str:
    """A fraction as a percentage of three digits; `up` rounds it up.

    >>> percent(0.25), percent(0.0123412), percent(0.0123412, up=True), percent(3e-12)
    ('25 %', '1.23 %', '1.24 %', 'below 0.000001 %')
    """
    if not math.isfinite(fraction):
        return "unknown"
    value = 100 * float(fraction)
    if 0 < abs(value) < LEAST_PERCENT:
        return f"{'below ' if value > 0 else 'above −'}0.000001 %"
    # Twelve digits first: what binary floats add beyond them is no error to be rounded up.
    exact = Context(prec=12, rounding=ROUND_HALF_EVEN).create_decimal(repr(value))
    short = Context(prec=3, rounding=ROUND_CEILING if up else ROUND_HALF_EVEN).plus(exact)
    return f"{short.normalize():f} %".replace("-", "−")


def quantity(value: float) -> str:
    """A number of records or rows, rounded up to three digits.

    >>> quantity(12.341), quantity(70_210), quantity(0.0)
    ('12.4', '70,300', '0')
    """
    if not math.isfinite(value):
        return "unknown"
    exact = Context(prec=12, rounding=ROUND_HALF_EVEN).create_decimal(repr(float(value)))
    short = Context(prec=3, rounding=ROUND_CEILING).plus(exact).normalize()
    return f"{short:,f}" if abs(short) < 10**15 else f"{short:.3g}"


def number(value: float) -> str:
    """A number of either sign, to four digits, and whole ones as they are.

    >>> number(-1234.0), number(12.3456), number(70_210.4), number(1e-17)
    ('−1,234', '12.35', '70,210', '0')
    """
    if not math.isfinite(value):
        return "unknown"
    rounded = round(value) if abs(value) >= 1000 or value == round(value) else float(f"{value:.4g}")
    shown = f"{rounded:,d}" if isinstance(rounded, int) else f"{rounded:.4g}" if abs(rounded) >= 1e-9 else "0"
    return shown.replace("-", "−")


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "row"), plural(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def plain(text: object, most: int = 60) -> str:
    """A name or label from a data file: on one line, printable, cut where it is too long.

    >>> plain("tab" + chr(9) + "here"), plain("abcdef", most=4), plain("")
    ('tab�here', 'abc…', '(empty)')
    """
    shown = "".join(letter if letter.isprintable() else "�" for letter in str(text)[: 4 * most])
    if not shown.strip():
        return "(empty)"
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def cell_name(domain: Domain, names: Sequence[str], values: Sequence[int], most: int = 40) -> str:
    """What a cell counts; a line breaks between attributes rather than within one.

    >>> cell_name(Domain({"age": 3, "sex": ["F", "M"]}), ("age", "sex"), (2, 1)).replace(NO_BREAK, " ")
    'age = 2, sex = M'
    """
    pairs = zip(names, values, strict=True)
    equals = f"{NO_BREAK}={NO_BREAK}"
    return ", ".join(f"{plain(name, most)}{equals}{plain(domain[name].label(v), most)}" for name, v in pairs)


def mechanism(kind: str) -> str:
    """The name of a mechanism.

    >>> mechanism("discrete-gaussian"), mechanism("exponential-mechanism"), mechanism("permute-and-flip")
    ('discrete Gaussian noise', 'exponential mechanism', 'permute-and-flip')
    """
    return MECHANISMS.get(kind, kind.replace("-mechanism", " mechanism"))


def algorithm(settings: Mapping[str, Any]) -> str:
    """What the algorithm of a release does, in a few words."""
    name = settings.get("algorithm")
    known = ALGORITHMS.get(name) if isinstance(name, str) else None
    return known or (
        f"an algorithm named {plain(name)}" if isinstance(name, str) else "no algorithm is named"
    )


def settings_in_words(settings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each setting, the known ones first.

    >>> settings_in_words({"rounds": 3, "more": [1]})
    [('rounds', '3', 'how often the weights were improved'), ('more', '[1]', '')]
    """
    names = [name for name in SETTINGS if name in settings]
    names += sorted(name for name in settings if name not in SETTINGS)

    def value(given: object) -> str:
        return "none" if given is None else given if isinstance(given, str) else json.dumps(given)

    return [
        (plain(name), plain(value(settings[name]), 120), SETTINGS.get(name, ""))
        for name in names[:MOST_SETTINGS]
    ]
