"""Weights in numpy alone: the twins of csrc/core/weights.hpp."""

from __future__ import annotations

import numpy as np

from privmw.kernels.arrays import Float64s, Int64s, UInt32s, UInt64s
from privmw.kernels.cells import LIGHTEST_WEIGHT, MASS_BITS, MOST_TOTAL, MOST_WEIGHT, powers_of_two

# The message of csrc/core/weights.cpp. Checked here, to save a pass.
NOT_IN_SCALE = "weights must be rescaled first: each from 0 to 4, together at most 4"


def _masses(weights: Float64s) -> Int64s:
    return np.rint(weights * 2.0**MASS_BITS).astype(np.int64)


def _total(masses: Int64s | UInt64s) -> int:
    """The sum of masses, none negative, as a Python integer: it may exceed 64 bits."""
    halves = masses.view(np.uint64)
    return int((halves >> 31).sum()) * 2**31 + int((halves & (2**31 - 1)).sum())


def _lift(before: Float64s, now: Float64s) -> Float64s:
    """No row above zero becomes zero; a product that has underflowed to zero is lifted too."""
    now[(before > 0) & (now < LIGHTEST_WEIGHT)] = LIGHTEST_WEIGHT
    return now


def heaviest(weights: Float64s, threads: int) -> float:
    """The largest weight, 0 if there is none; NaN unless all are finite and none is negative."""
    valid = ((weights >= 0) & (weights < np.inf)).all()
    return float(weights.max(initial=0)) if valid else np.nan


def total_mass(weights: Float64s, exponent: int, threads: int) -> int:
    """The total of the masses of weights * 2^exponent."""
    first, second = powers_of_two(exponent)
    return _total(_masses(weights * first * second))


def shift(weights: Float64s, exponent: int, threads: int) -> None:
    """Multiplies weights in place by 2^exponent."""
    first, second = powers_of_two(exponent)
    weights[:] = _lift(weights, weights * first * second)


def to_masses(weights: Float64s, threads: int) -> tuple[Int64s, int]:
    """The masses and their total; a total above MOST_TOTAL if it is, or if a weight is out of scale."""
    if not ((weights >= 0) & (weights <= 4)).all():
        return np.empty(0, np.int64), MOST_TOTAL + 1
    masses = _masses(weights)
    return masses, min(_total(masses), MOST_TOTAL + 1)


def signed_masses(weights: Float64s, values: Float64s, exponent: int, threads: int) -> Int64s:
    """For each row weight * value * 2^exponent, to the nearest integer."""
    first, second = powers_of_two(exponent)
    terms = weights * values
    terms *= first
    terms *= second
    return np.rint(terms, out=terms).astype(np.int64)


def total_magnitude(masses: Int64s, threads: int) -> int:
    """The total of the absolute values of masses."""
    return _total(np.abs(masses).view(np.uint64))  # the least int64 has an absolute value only so


def multiply(weights: Float64s, rows: UInt32s, factor: float, threads: int) -> tuple[Int64s, int, int]:
    """Multiplies the weights of some rows in place: changes of masses, total before, sum of changes."""
    before = weights[rows]
    if not ((before >= 0) & (before <= 4)).all():
        raise ValueError(NOT_IN_SCALE)
    masses = _masses(before)
    total = _total(masses)
    if total > MOST_TOTAL:
        raise ValueError(NOT_IN_SCALE)
    after = _lift(before, before * factor)
    weights[rows] = after
    changes = _masses(np.minimum(after, MOST_WEIGHT)) - masses
    return changes, total, int(changes.sum())
