"""The kernels as plain loops compiled by numba: for machines with numba and no compiler.

Bit for bit what the compiled ones return: sums are integers, and floats are only multiplied and rounded,
without fastmath. Arguments were checked in privmw.kernels. `threads` is taken and not used. Where a loop
brings nothing, the function is the one of `numpy`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from privmw.kernels.compiled import compiled
from privmw.kernels.least_squares_numba import Tallies
from privmw.kernels.numpy import (
    Codes,
    Columns,
    Int64s,
    Rows,
    Weights,
    distinct_rows,
    incidence_of_groups,
    matches,
    matching_bitmap,
    matching_rows,
)
from privmw.kernels.projection_numba import Incidence, most_potential, normalise, solve_positive, tilt
from privmw.kernels.scale import powers_of_two
from privmw.kernels.weights_numba import heaviest, multiply, shift, to_masses, total_mass

__all__ = [
    "Columns",
    "Incidence",
    "Marginals",
    "Tallies",
    "distinct_rows",
    "groups_alike",
    "heaviest",
    "incidence_of_groups",
    "matching_bitmap",
    "matching_rows",
    "most_potential",
    "multiply",
    "normalise",
    "shift",
    "solve_positive",
    "tilt",
    "to_masses",
    "total_mass",
]

_BLOCK = 2**14  # rows: their cell numbers stay in cache from one column to the next
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
def _gather(cells: Int64s, values: Int64s, sums: Int64s) -> None:
    for i in range(len(sums)):
        sums[i] += values[cells[i]]


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

    def potentials(self, values: Int64s, exponent: int, out: Weights, threads: int) -> None:
        """Writes the sum of the values of each row's cells, times 2^exponent, to out."""
        sums = np.zeros(len(out), np.int64)
        for block, cells, begin, end in self._cells(len(out)):
            _gather(cells, values[begin:end], sums[block])
        first, second = powers_of_two(exponent)
        out[:] = sums.astype(np.float64) * first * second

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
