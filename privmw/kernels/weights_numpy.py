"""Weights in numpy alone: the twins of csrc/core/weights.hpp."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privmw.kernels.scale import LIGHTEST_WEIGHT, MASS_BITS, MOST_TOTAL, MOST_WEIGHT, powers_of_two

Int64s = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint32]
Weights = npt.NDArray[np.float64]

# In the words of csrc/core/weights.cpp: a check at the door would be a pass.
NOT_IN_SCALE = "weights must be rescaled first: each from 0 to 4, together at most 4"


def _masses(weights: Weights) -> Int64s:
    return np.rint(weights * 2.0**MASS_BITS).astype(np.int64)


def _total(masses: Int64s) -> int:
    """The sum as a Python integer: it may exceed 64 bits."""
    return int((masses >> 31).sum()) * 2**31 + int((masses & (2**31 - 1)).sum())


def _lift(before: Weights, now: Weights) -> Weights:
    """No row above zero becomes zero; a product that has underflowed to zero is lifted too."""
    now[(before > 0) & (now < LIGHTEST_WEIGHT)] = LIGHTEST_WEIGHT
    return now


def heaviest(weights: Weights, threads: int) -> float:
    """The largest weight, 0 if there is none; NaN unless all are finite and none is negative."""
    sound = ((weights >= 0) & (weights < np.inf)).all()
    return float(weights.max(initial=0)) if sound else np.nan


def total_mass(weights: Weights, exponent: int, threads: int) -> int:
    """The total of the masses that weights would have times 2^exponent."""
    first, second = powers_of_two(exponent)
    return _total(_masses(weights * first * second))


def shift(weights: Weights, exponent: int, threads: int) -> None:
    """Multiplies weights in place by 2^exponent."""
    first, second = powers_of_two(exponent)
    weights[:] = _lift(weights, weights * first * second)


def to_masses(weights: Weights, threads: int) -> tuple[Int64s, int]:
    """The masses, and their total; or more than the most if that is too much or weights are out of scale."""
    if not ((weights >= 0) & (weights <= 4)).all():
        return np.empty(0, np.int64), MOST_TOTAL + 1
    masses = _masses(weights)
    return masses, min(_total(masses), MOST_TOTAL + 1)


def multiply(weights: Weights, rows: Rows, factor: float, threads: int) -> tuple[Int64s, int, int]:
    """Multiplies the weights of some rows in place: their masses' gains, total before, and sum of gains."""
    before = weights[rows]
    if not ((before >= 0) & (before <= 4)).all():
        raise ValueError(NOT_IN_SCALE)
    masses = _masses(before)
    matching = _total(masses)
    if matching > MOST_TOTAL:
        raise ValueError(NOT_IN_SCALE)
    after = _lift(before, before * factor)
    weights[rows] = after
    changes = _masses(np.minimum(after, MOST_WEIGHT)) - masses
    return changes, matching, int(changes.sum())
