"""Weights as plain loops compiled by numba: the twins of csrc/core/weights.hpp."""

from __future__ import annotations

from typing import Any

import numpy as np

from privmw.kernels.arrays import Float64s, Int64s, UInt32s
from privmw.kernels.cells import LIGHTEST_WEIGHT, MASS_BITS, MOST_TOTAL, MOST_WEIGHT, powers_of_two
from privmw.kernels.numba_.compiled import compiled
from privmw.kernels.numpy_.weights import NOT_IN_SCALE

_SCALE = 2.0**MASS_BITS
_LOW = 2**31 - 1


@compiled
def _mass(weight: float) -> Any:
    return np.int64(np.rint(weight * _SCALE))


@compiled
def _lifted(before: float, now: float) -> float:
    # A product that has underflowed to zero is lifted too.
    return LIGHTEST_WEIGHT if before > 0 and now < LIGHTEST_WEIGHT else now


@compiled
def _heaviest(weights: Float64s) -> float:
    heaviest = 0.0
    for row in range(len(weights)):
        if not (weights[row] >= 0 and weights[row] < np.inf):
            return np.nan
        heaviest = max(heaviest, weights[row])
    return heaviest


# Totals come as halves, 2^31 * high + low: they may exceed 64 bits.


@compiled
def _halves(weights: Float64s, first: float, second: float) -> tuple[int, int]:
    high = low = 0
    for row in range(len(weights)):
        mass = _mass(weights[row] * first * second)
        high += mass >> 31
        low += mass & _LOW
    return high, low


def _total(halves: tuple[int, int]) -> int:
    return int(halves[0]) * 2**31 + int(halves[1])


@compiled
def _shift(weights: Float64s, first: float, second: float) -> None:
    for row in range(len(weights)):
        weights[row] = _lifted(weights[row], weights[row] * first * second)


@compiled
def _to_masses(weights: Float64s, masses: Int64s) -> None:
    for row in range(len(weights)):
        masses[row] = _mass(weights[row])


@compiled
def _multiply(weights: Float64s, rows: UInt32s, factor: float, changes: Int64s) -> int:
    gained = 0
    for i in range(len(rows)):
        before = weights[rows[i]]
        after = _lifted(before, before * factor)
        changes[i] = _mass(min(after, MOST_WEIGHT)) - _mass(before)
        gained += changes[i]
        weights[rows[i]] = after
    return gained


@compiled
def _signed_masses(weights: Float64s, values: Float64s, first: float, second: float, masses: Int64s) -> None:
    for row in range(len(weights)):
        masses[row] = np.int64(np.rint(weights[row] * values[row] * first * second))


@compiled
def _halves_of_magnitudes(masses: Int64s) -> tuple[int, int]:
    high = low = 0
    for row in range(len(masses)):
        negative = masses[row] < 0
        # Shifted first: the least int64 has no absolute value.
        high += -(masses[row] >> 31) if negative else masses[row] >> 31
        low += -(masses[row] & _LOW) if negative else masses[row] & _LOW
    return high, low


def heaviest(weights: Float64s, threads: int) -> float:
    """The largest weight, 0 if there is none; NaN unless all are finite and none is negative."""
    return float(_heaviest(weights))


def total_mass(weights: Float64s, exponent: int, threads: int) -> int:
    """The total of the masses of weights * 2^exponent."""
    return _total(_halves(weights, *powers_of_two(exponent)))


def shift(weights: Float64s, exponent: int, threads: int) -> None:
    """Multiplies weights in place by 2^exponent."""
    _shift(weights, *powers_of_two(exponent))


def to_masses(weights: Float64s, threads: int) -> tuple[Int64s, int]:
    """The masses and their total; a total above MOST_TOTAL if it is, or if a weight is out of scale."""
    masses = np.empty(len(weights), np.int64)
    if not _heaviest(weights) <= 4:
        return masses, MOST_TOTAL + 1
    _to_masses(weights, masses)
    return masses, min(total_mass(weights, 0, threads), MOST_TOTAL + 1)


def signed_masses(weights: Float64s, values: Float64s, exponent: int, threads: int) -> Int64s:
    """For each row weight * value * 2^exponent, to the nearest integer."""
    masses = np.empty(len(weights), np.int64)
    _signed_masses(weights, values, *powers_of_two(exponent), masses)
    return masses


def total_magnitude(masses: Int64s, threads: int) -> int:
    """The total of the absolute values of masses."""
    return _total(_halves_of_magnitudes(masses))


def multiply(weights: Float64s, rows: UInt32s, factor: float, threads: int) -> tuple[Int64s, int, int]:
    """Multiplies the weights of some rows in place: changes of masses, total before, sum of changes."""
    before = weights[rows]
    if not _heaviest(before) <= 4:
        raise ValueError(NOT_IN_SCALE)
    total = total_mass(before, 0, threads)
    if total > MOST_TOTAL:
        raise ValueError(NOT_IN_SCALE)
    changes = np.empty(len(rows), np.int64)
    return changes, total, int(_multiply(weights, rows, factor, changes))
