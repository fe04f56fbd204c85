"""Marginals as plain loops compiled by numba: the twin of csrc/core/marginals/marginals.hpp."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privmw.kernels.arrays import Codes, Int64s, UInt32s
from privmw.kernels.numba_.compiled import compiled
from privmw.kernels.numpy_ import marginals

_ROWS_IN_CACHE = 2**14  # whose cell numbers stay in cache from column to column


@compiled
def _append(cells: Int64s, codes: Codes, size: int) -> None:
    for i in range(len(codes)):
        cells[i] = cells[i] * size + codes[i]


@compiled
def _append_rows(cells: Int64s, codes: Codes, rows: UInt32s, size: int) -> None:
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


class Marginals(marginals.Marginals):
    """The cells of a workload, marginal after marginal in C order."""

    way = "numba"

    def sums(self, masses: Int64s, out: Int64s, threads: int) -> None:
        """Writes the sum of the masses of each cell's rows to out."""
        out[:] = 0
        for block, cells, place in self._blocks(len(masses)):
            _scatter(cells, masses[block], out[place])

    def add_changes(self, rows: UInt32s, changes: Int64s, sums: Int64s, threads: int) -> None:
        """Adds the changes of the masses of some rows to sums."""
        columns, sizes = self._columns.columns, self._columns.sizes
        cells = np.empty(len(rows), np.int64)
        for marginal, place in self._marginals:
            cells[:] = 0
            for attribute in marginal:
                _append_rows(cells, columns[attribute], rows, sizes[attribute])
            _scatter(cells, changes, sums[place])

    def _value_sums(self, values: Int64s, rows: int) -> Int64s:
        sums = np.zeros(rows, np.int64)
        for block, cells, place in self._blocks(rows):
            _gather(cells, values[place], sums[block])
        return sums

    def _blocks(self, rows: int) -> Iterator[tuple[slice, Int64s, slice]]:
        """For each block of rows and each marginal: the block, its cells within the marginal, the place of
        these.
        """
        columns, sizes = self._columns.columns, self._columns.sizes
        cells = np.empty(min(_ROWS_IN_CACHE, rows), np.int64)
        for first in range(0, rows, _ROWS_IN_CACHE):
            block = slice(first, first + _ROWS_IN_CACHE)
            codes = [column[block] for column in columns]
            for marginal, place in self._marginals:
                cells[:] = 0
                for attribute in marginal:
                    _append(cells, codes[attribute], sizes[attribute])
                yield block, cells, place
