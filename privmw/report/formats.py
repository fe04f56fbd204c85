"""Formats numbers and names for readers. This module knows domains, and no measurements.

Errors and noise are rounded up, so that no figure claims more accuracy than there is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context

from privmw.accounting.noise import NOISES
from privmw.data.domain import Attribute, Domain, plain

LEAST_PERCENT = 1e-6  # smaller percentages are shown as below it
NO_BREAK = "\u00a0"


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
    # Round to twelve digits first: errors of binary floats beyond them must not be rounded up.
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
    """A number of either sign, to four digits; integers are shown in full.

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


def cell_name(domain: Domain, names: Sequence[str], values: Sequence[int], most: int = 40) -> str:
    """The attributes and values of a cell; a line breaks between attributes, not within one.

    >>> cell_name(Domain({"age": 3, "sex": ["F", "M"]}), ("age", "sex"), (2, 1)).replace(NO_BREAK, " ")
    'age = 2, sex = M'
    """
    pairs = zip(names, values, strict=True)
    return ", ".join(
        f"{plain(name, most)}{NO_BREAK}={NO_BREAK}{value_name(domain[name], value, most)}"
        for name, value in pairs
    )


def value_name(attribute: Attribute, code: int, most: int = 80) -> str:
    """A value of an attribute; numbers of bins have their thousands marked.

    >>> income = Domain({"income": {"edges": [0, 20_000, 1_000_000], "missing": "none"}})["income"]
    >>> [value_name(income, code) for code in range(3)]
    ['[0, 20,000)', '[20,000, 1,000,000]', 'none']
    """
    label = str(attribute.label(code))
    if attribute.edges and code < len(attribute.edges) - 1:
        label = re.sub(r"(?<![\d.])\d{5,}(?!-)", lambda found: f"{int(found[0]):,}", label)
    return plain(label, most)


def mechanism(kind: str) -> str:
    """The name of a mechanism.

    >>> mechanism("discrete-gaussian"), mechanism("exponential-mechanism"), mechanism("permute-and-flip")
    ('discrete Gaussian noise', 'exponential mechanism', 'permute-and-flip')
    """
    shape = kind.removeprefix("thresholded-")
    if shape != kind:
        return f"{NOISES[f'discrete-{shape}'].words} above a threshold"
    return NOISES[kind].words if kind in NOISES else kind.replace("-mechanism", " mechanism")
