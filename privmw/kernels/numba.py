"""The kernels as plain loops compiled by numba: for machines with numba and no compiler.

Bit for bit what the compiled ones return: sums are integers, and floats are only multiplied and rounded,
without fastmath. Arguments were checked in privmw.kernels. `threads` is taken and not used. Where a loop
brings nothing, the function is the one of `numpy`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.kernels.compiled import compiled
from privmw.kernels.least_squares_numba import Tallies
from privmw.kernels.numpy import (
    IN_SCALE,
    LEAST_TOTAL,
    LIGHTEST_WEIGHT,
    MASS_BITS,
    MOST_TOTAL,
    NOT_FINITE,
    OTHER_TOTAL,
    OUT_OF_RANGE,
    Codes,
    Columns,
    Int64s,
    Rows,
    Weights,
    distinct_rows,
    fits_in_range,
    incidence_of_groups,
    matches,
    matching_bitmap,
    matching_rows,
    powers_of_two,
)
from privmw.kernels.projection_numba import Incidence, tilt

__all__ = [
    "Columns",
    "Incidence",
    "Marginals",
    "Tallies",
    "distinct_rows",
    "groups_alike",
    "incidence_of_groups",
    "matching_bitmap",
    "matching_rows",
    "multiply",
    "rescale",
    "tilt",
    "to_masses",
]

_BLOCK = 2**14  # rows: their cell numbers stay in cache from one column to the next
_SCALE = 2.0**MASS_BITS
_LOW = 2**31 - 1
_NONE = np.uint32(2**32 - 1)


@compiled
def _append(cells: Int64s, codes: Codes, size: int) -> None:
    for i in range(len(codes)):
        cells[i] = cells[i] * size + codes[i]


@compiled
def _append_rows(cells: Int64s, codes: Codes, rows: Rows, size: int) -> None:
    for i in range(len(rows)):
        cells[i] = cells[i] * size + codes[rows[i]]


@compiled
def _scatter(cells: Int64s, masses: Int64s, sums: Int64s) -> None:
    for i in range(len(masses)):
        sums[cells[i]] += masses[i]


@compiled
def _gather(cells: Int64s, values: Weights, potentials: Weights) -> None:
    for i in range(len(potentials)):
        potentials[i] += values[cells[i]]


class Marginals:
    """The cells of a workload, marginal after marginal in C order."""

    def __init__(
        self, columns: Columns, attributes: npt.NDArray[np.int32], starts: Int64s, threads: int
    ) -> None:
        self._columns = columns
        self._marginals: list[tuple[list[int], int, int]] = []  # attributes, first cell, end
        first = 0
        for start, end in itertools.pairwise(starts.tolist()):
            marginal = attributes[start:end].tolist()
            cells = 1
            for attribute in marginal:
                cells *= columns.sizes[attribute]
            self._marginals.append((marginal, first, first + cells))
            first += cells

    def sums(self, masses: Int64s, out: Int64s, threads: int) -> None:
        """Writes the sum of the masses of each cell's rows to out."""
        out[:] = 0
        for block, cells, begin, end in self._cells(len(masses)):
            _scatter(cells, masses[block], out[begin:end])

    def potentials(self, values: Weights, out: Weights, threads: int) -> None:
        """Writes the sum of the values of each row's cells to out."""
        out[:] = 0
        for block, cells, begin, end in self._cells(len(out)):
            _gather(cells, values[begin:end], out[block])

    def _cells(self, rows: int) -> Iterator[tuple[slice, Int64s, int, int]]:
        """A block of rows, its cells within a marginal, and where these begin and end; block after block."""
        columns, sizes = self._columns.columns, self._columns.sizes
        cells = np.empty(min(_BLOCK, rows), np.int64)
        for first in range(0, rows, _BLOCK):
            block = slice(first, first + _BLOCK)
            codes = [column[block] for column in columns]
            for marginal, begin, end in self._marginals:
                cells[:] = 0
                for attribute in marginal:
                    _append(cells, codes[attribute], sizes[attribute])
                yield block, cells, begin, end

    def add_changes(self, rows: Rows, changes: Int64s, sums: Int64s, threads: int) -> None:
        """Adds to sums what some rows gained."""
        columns, sizes = self._columns.columns, self._columns.sizes
        cells = np.empty(len(rows), np.int64)
        for marginal, begin, end in self._marginals:
            cells[:] = 0
            for attribute in marginal:
                _append_rows(cells, columns[attribute], rows, sizes[attribute])
            _scatter(cells, changes, sums[begin:end])

    def ways(self) -> dict[str, int]:
        """How many marginals are evaluated in which way."""
        return {"numba": len(self._marginals)}

    def nbytes(self) -> int:
        """Bytes held."""
        return 0


@compiled
def _split(groups: Rows, found: npt.NDArray[np.bool_], numbers: Rows) -> int:
    """Numbers the pairs (group, found) in the order of their first rows; numbers: room for two a group."""
    numbers[:] = _NONE
    count = 0
    for row in range(len(groups)):
        pair = np.int64(groups[row]) * 2 + np.int64(found[row])
        if numbers[pair] == _NONE:
            numbers[pair] = count
            count += 1
        groups[row] = numbers[pair]
    return count


def groups_alike(
    columns: Columns, attributes: npt.NDArray[np.int32], values: npt.NDArray[np.uint32], starts: Int64s
) -> tuple[npt.NDArray[np.uint32], int]:
    """A number for each row, equal where every query answers alike, in the order of first rows; how many."""
    groups = np.zeros(len(columns.columns[0]), np.uint32)
    count = 1
    for a, b in itertools.pairwise(starts.tolist()):
        found = matches(columns, attributes[a:b].tolist(), values[a:b].tolist())
        count = _split(groups, found, np.empty(2 * count, np.uint32))
    return groups, count


@compiled
def _mass(weight: float) -> Any:
    return np.int64(np.rint(weight * _SCALE))


# Totals come as halves, 2^31 * high + low: they may exceed 64 bits.


@compiled
def _halves(weights: Weights, first: float, second: float) -> tuple[int, int]:
    high = low = 0
    for row in range(len(weights)):
        mass = _mass(weights[row] * first * second)
        high += mass >> 31
        low += mass & _LOW
    return high, low


def _total(halves: tuple[int, int]) -> int:
    return int(halves[0]) * 2**31 + int(halves[1])


@compiled
def _heaviest(weights: Weights) -> float:
    """The largest weight, or NaN if one is negative, infinite or not a number."""
    heaviest = 0.0
    for row in range(len(weights)):
        if not (weights[row] >= 0 and weights[row] < np.inf):
            return np.nan
        heaviest = max(heaviest, weights[row])
    return heaviest


@compiled
def _lifted(before: float, now: float) -> float:
    # A product that has underflowed to zero is lifted too.
    return LIGHTEST_WEIGHT if before > 0 and now < LIGHTEST_WEIGHT else now


@compiled
def _times(weights: Weights, first: float, second: float) -> None:
    for row in range(len(weights)):
        weights[row] = _lifted(weights[row], weights[row] * first * second)


@compiled
def _to_masses(weights: Weights, masses: Int64s) -> None:
    for row in range(len(weights)):
        masses[row] = _mass(weights[row])


@compiled
def _multiply(weights: Weights, rows: Rows, factor: float, changes: Int64s, fits: bool) -> int:
    gained = 0
    for i in range(len(rows)):
        before = weights[rows[i]]
        after = _lifted(before, before * factor)
        if fits:
            changes[i] = _mass(after) - _mass(before)
            gained += changes[i]
        weights[rows[i]] = after
    return gained


def to_masses(weights: Weights, threads: int) -> tuple[Int64s, int]:
    """The masses of rescaled weights, and their total."""
    if not _heaviest(weights) <= 4:
        raise ValueError(IN_SCALE)
    total = _total(_halves(weights, 1.0, 1.0))
    if not LEAST_TOTAL <= total <= MOST_TOTAL:
        raise ValueError(OUT_OF_RANGE)
    masses = np.empty(len(weights), np.int64)
    _to_masses(weights, masses)
    return masses, total


def rescale(weights: Weights, threads: int) -> int:
    """Multiplies weights in place by the power of two that brings the total near 2^60; returns the total."""
    heaviest = _heaviest(weights)
    if not heaviest > 0:
        raise ValueError(NOT_FINITE)
    exponent = -int(np.frexp(heaviest)[1])
    total = _total(_halves(weights, *powers_of_two(exponent)))
    while True:
        exponent += MASS_BITS + 1 - total.bit_length()
        powers = powers_of_two(exponent)
        total = _total(_halves(weights, *powers))
        if LEAST_TOTAL <= total <= MOST_TOTAL:
            break
    _times(weights, *powers)
    return _total(_halves(weights, 1.0, 1.0))


def multiply(
    weights: Weights, rows: Rows, factor: float, total: int, threads: int
) -> tuple[Int64s, int, bool]:
    """Multiplies the weights of some rows in place: their masses' gains, the new total, whether rescaled."""
    before = weights[rows]
    if not _heaviest(before) <= 4:
        raise ValueError(IN_SCALE)
    matching = _total(_halves(before, 1.0, 1.0))
    if matching > total:
        raise ValueError(OTHER_TOTAL)
    changes = np.zeros(len(rows), np.int64)
    fits = fits_in_range(matching, len(rows), factor, total)
    after = total + int(_multiply(weights, rows, factor, changes, fits))
    if fits and LEAST_TOTAL <= after <= MOST_TOTAL:
        return changes, after, False
    changes[:] = 0
    return changes, rescale(weights, threads), True
