"""Numbers in privacy guarantees: exact rationals, and floats rounded in a stated direction.

Every int, float and Fraction is a rational number, so costs are added and compared exactly, as Fractions.
Floats are used for output only: costs are rounded up, parameters towards more privacy. This module knows no
budget, event or ledger.
"""

import math
import numbers
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from privmw.secrecy import expect

Real: TypeAlias = int | float | Fraction

LARGEST_FLOAT = math.nextafter(math.inf, 0.0)
SMALLEST_FLOAT = math.nextafter(0.0, 1.0)


def finite(name: str, value: Any) -> Real:
    """Return value as a plain int, float or Fraction of equal value; refuse anything but a finite number.

    >>> finite("epsilon", 0.5)
    0.5
    """
    if type(value) is float and math.isfinite(value):
        return value  # the usual case; the checks below take microseconds
    # A bool is an int to Python; as an epsilon it is a mistake. numpy integers would overflow in a Fraction.
    expect(name, value, isinstance(value, numbers.Real) and not isinstance(value, bool), "a number")
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} ({number}) must be finite")
    return number


def positive(name: str, value: object) -> Real:
    """Return value as a plain number above zero.

    >>> positive("rho", 0)
    Traceback (most recent call last):
    ValueError: rho (0) must be positive and finite
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} ({float(value)}) must be positive and finite")
    number = finite(name, value)
    if number <= 0:
        raise ValueError(f"{name} ({number}) must be positive and finite")
    return number


def positive_integer(name: str, value: Any) -> int:
    """Return value as a plain int of at least 1.

    >>> positive_integer("count", 3)
    3
    """
    whole = type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))
    expect(name, value, whole, "an integer")
    if value < 1:
        raise ValueError(f"{name} ({value}) must be positive")
    return int(value)


def probability(name: str, value: object, *, zero: bool = False) -> float:
    """Return value as a float in (0, 1), or [0, 1) if zero is allowed; a Fraction is rounded down.

    A smaller delta is a stronger requirement, so rounding down is safe for a requested delta.

    >>> probability("delta", 1)
    Traceback (most recent call last):
    ValueError: delta (1) must be above 0 and below 1
    """
    rule = f"must be {'at least' if zero else 'above'} 0 and below 1"
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} ({float(value)}) {rule}")
    number = finite(name, value)
    rounded = float_down(Fraction(number)) if number >= 0 else -1.0
    if not 0 <= rounded < 1 or (rounded == 0 and not (zero and number == 0)):
        raise ValueError(f"{name} ({number}) {rule}")
    return rounded


def float_up(value: Fraction) -> float:
    """Return the smallest float at least value (infinity above the largest float).

    >>> float_up(Fraction(1, 3)) > Fraction(1, 3) > float_down(Fraction(1, 3))
    True
    """
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -LARGEST_FLOAT
    return math.nextafter(nearest, math.inf) if nearest < value else nearest


def float_down(value: Fraction) -> float:
    """Return the largest float at most value.

    >>> float_down(Fraction(1, 2))
    0.5
    """
    return 0.0 - float_up(-value)  # not -0.0


def sqrt_down(value: Fraction) -> float:
    """Return the largest float whose exact square is at most value.

    >>> Fraction(sqrt_down(Fraction(2))) ** 2 <= 2 < Fraction(sqrt_up(Fraction(2))) ** 2
    True
    """
    # floor(sqrt(value) 2^shift), with at least 64 bits, so at most one float away from the answer
    shift = max(0, 64 + (value.denominator.bit_length() - value.numerator.bit_length()) // 2)
    floor = math.isqrt((value.numerator << (2 * shift)) // value.denominator)
    root = float_down(Fraction(floor, 1 << shift))
    above = math.nextafter(root, math.inf)
    return above if math.isfinite(above) and Fraction(above) ** 2 <= value else root


def sqrt_up(value: Fraction) -> float:
    """Return the smallest float whose exact square is at least value.

    >>> sqrt_up(Fraction(9, 4))
    1.5
    """
    root = sqrt_down(value)
    return root if Fraction(root) ** 2 >= value else math.nextafter(root, math.inf)


def largest_float(
    holds: Callable[[float], bool], low: float, high: float, guess: float | None = None
) -> float:
    """Return the largest float in [low, high] for which `holds` is true; it must turn false only once.

    Positive floats are ordered as their bit patterns, so at most 64 halvings decide, or, from a good guess, a
    few steps of doubled length. low is returned without calling `holds` on it.

    >>> largest_float(lambda x: x * x <= 2.0, 1.0, 2.0)
    1.414213562373095
    >>> largest_float(lambda x: x * x <= 2.0, 1.0, 2.0, guess=1.5)
    1.414213562373095
    """
    yes, no = _bits(low), _bits(high) + 1
    if guess is not None and low < guess < high:
        step, middle, up = 1, _bits(guess), holds(guess)
        while True:
            yes, no = (middle, no) if up else (yes, middle)
            middle, step = middle + (step if up else -step), 2 * step
            if not yes < middle < no:
                break
            if holds(_from_bits(middle)) is not up:
                yes, no = (yes, middle) if up else (middle, no)
                break
    while no - yes > 1:
        middle = (yes + no) // 2
        if holds(_from_bits(middle)):
            yes = middle
        else:
            no = middle
    return _from_bits(yes)


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack(">d", value), "big")


def _from_bits(bits: int) -> float:
    return float(struct.unpack(">d", bits.to_bytes(8, "big"))[0])
