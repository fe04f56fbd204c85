"""The kernels in numpy alone: slow and short. What they return, the compiled ones return bit for bit.

Arguments were checked in privmw.kernels. `threads` is taken and not used.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.kernels.least_squares_numpy import Tallies
from privmw.kernels.projection_numpy import (
    Incidence,
    matches_by_row,
    most_potential,
    normalise,
    solve_positive,
    tilt,
)
from privmw.kernels.scale import powers_of_two
from privmw.kernels.weights_numpy import heaviest, multiply, shift, to_masses, total_mass

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

Int64s = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint32]
Weights = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

_BLOCK = 2**22  # rows: sums of 31-bit numbers over so many are exact in doubles


class Columns:
    """Codes, one array per attribute."""

    def __init__(self, columns: Sequence[Codes], sizes: Sequence[int], threads: int) -> None:
        self.columns = list(columns)
        self.sizes = list(sizes)

    def nbytes(self) -> int:
        """Bytes held beside the caller's codes."""
        return 0


def add_masses(cells: Int64s, masses: Int64s, sums: Int64s) -> None:
    """Adds masses to sums at the given cells, exactly: in halves of 31 bits, each exact in doubles."""
    for first in range(0, len(cells), _BLOCK):
        at, mass = cells[first : first + _BLOCK], masses[first : first + _BLOCK]
        low = np.bincount(at, mass & (2**31 - 1), len(sums)).astype(np.int64)
        high = np.bincount(at, mass >> 31, len(sums)).astype(np.int64)
        sums += (high << 31) + low


class Marginals:
    """The cells of a workload, marginal after marginal in C order."""

    def __init__(
        self, columns: Columns, attributes: npt.NDArray[np.int32], starts: Int64s, threads: int
    ) -> None:
        self._columns = columns
        self._marginals = [attributes[a:b].tolist() for a, b in itertools.pairwise(starts.tolist())]
        self._shapes = [tuple(columns.sizes[a] for a in marginal) for marginal in self._marginals]
        cells = [int(np.prod(shape, dtype=np.int64)) for shape in self._shapes]
        self._offsets = np.cumsum([0, *cells])

    def sums(self, masses: Int64s, out: Int64s, threads: int) -> None:
        """Writes the sum of the masses of each cell's rows to out."""
        out[:] = 0
        self._add(slice(None), masses, out)

    def add_changes(self, rows: Rows, changes: Int64s, sums: Int64s, threads: int) -> None:
        """Adds to sums what some rows gained."""
        self._add(rows, changes, sums)

    def _add(self, rows: Rows | slice, masses: Int64s, sums: Int64s) -> None:
        for j, (marginal, shape) in enumerate(zip(self._marginals, self._shapes, strict=True)):
            codes = tuple(self._columns.columns[a][rows] for a in marginal)
            cells = np.ravel_multi_index(codes, shape)
            add_masses(cells, masses, sums[self._offsets[j] : self._offsets[j + 1]])

    def potentials(self, values: Int64s, exponent: int, out: Weights, threads: int) -> None:
        """Writes the sum of the values of each row's cells, times 2^exponent, to out."""
        sums = np.zeros(len(out), np.int64)
        for j, (marginal, shape) in enumerate(zip(self._marginals, self._shapes, strict=True)):
            codes = tuple(self._columns.columns[a] for a in marginal)
            cells = np.ravel_multi_index(codes, shape)
            sums += values[self._offsets[j] : self._offsets[j + 1]][cells]
        first, second = powers_of_two(exponent)
        out[:] = sums.astype(np.float64) * first * second

    def ways(self) -> dict[str, int]:
        """How many marginals are evaluated in which way."""
        return {"numpy": len(self._marginals)}

    def nbytes(self) -> int:
        """Bytes held."""
        return 0


def distinct_rows(columns: Sequence[Codes], sizes: Sequence[int], threads: int) -> tuple[Rows, Int64s]:
    """The first row of each kind, kinds in ascending order of codes, and how many rows are of it."""
    order = np.lexsort(list(columns)[::-1])  # the last key is the first to count; stable
    new = np.zeros(len(order), bool)
    new[0] = True
    for column in columns:
        new[1:] |= np.diff(column[order].astype(np.int64)) != 0
    first = np.flatnonzero(new)
    return order[first].astype(np.uint32), np.diff([*first.tolist(), len(order)]).astype(np.int64)


def matches(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Whether each row has these values."""
    found = np.ones(len(columns.columns[0]), bool)
    for attribute, value in zip(attributes, values, strict=True):
        found &= columns.columns[attribute] == value
    return found


def matching_rows(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> Rows:
    """Ascending rows where every attribute has its value."""
    return np.flatnonzero(matches(columns, attributes, values)).astype(np.uint32)


def matching_bitmap(
    columns: Columns, attributes: Sequence[int], values: Sequence[int]
) -> npt.NDArray[np.uint64]:
    """The same as bits: row r is bit r % 64 of word r // 64."""
    found = matches(columns, attributes, values)
    packed = np.packbits(np.pad(found, (0, -len(found) % 64)), bitorder="little")
    return packed.view("<u8").astype(np.uint64)


def groups_alike(
    columns: Columns, attributes: npt.NDArray[np.int32], values: npt.NDArray[np.uint32], starts: Int64s
) -> tuple[npt.NDArray[np.uint32], int]:
    """A number for each row, equal where every query answers alike, in the order of first rows; how many."""
    groups = np.zeros(len(columns.columns[0]), np.int64)
    for a, b in itertools.pairwise(starts.tolist()):
        split = groups * 2 + matches(columns, attributes[a:b].tolist(), values[a:b].tolist())
        groups = np.unique(split, return_inverse=True)[1].ravel()
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))
    return number[inverse.ravel()].astype(np.uint32), len(first)


def incidence_of_groups(
    columns: Columns,
    rows: Rows,
    attributes: npt.NDArray[np.int32],
    values: npt.NDArray[np.uint32],
    starts: Int64s,
    threads: int,
) -> tuple[Int64s, npt.NDArray[np.uint32]]:
    """The queries that each of the given rows matches, ascending: where they start, and which."""
    taken = Columns([column[rows] for column in columns.columns], columns.sizes, threads)
    matching = [
        np.flatnonzero(matches(taken, attributes[a:b].tolist(), values[a:b].tolist()))
        for a, b in itertools.pairwise(starts.tolist())
    ]
    return matches_by_row(matching, len(rows))
