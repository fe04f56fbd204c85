"""Marginals in numpy alone: the twin of csrc/core/marginals/marginals.hpp."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from privmw.kernels.arrays import Float64s, Int32s, Int64s, UInt32s
from privmw.kernels.cells import in_units, powers_of_two
from privmw.kernels.numpy_.columns import Columns
from privmw.secrecy import erasing

_EXACT_ROWS = 2**22  # sums of this many 31-bit numbers are exact in doubles


def add_masses(cells: Int64s, masses: Int64s, sums: Int64s) -> None:
    """Adds masses to the sums of their cells, exactly: in halves of 31 bits, each exact in doubles."""
    for first in range(0, len(cells), _EXACT_ROWS):
        at, mass = cells[first : first + _EXACT_ROWS], masses[first : first + _EXACT_ROWS]
        for half, bits in ((mass & (2**31 - 1), 0), (mass >> 31, 31)):
            with erasing() as erased:
                in_doubles = erased(np.bincount(at, half, len(sums)))
                counted = erased(in_doubles.astype(np.int64))
                counted <<= bits
                sums += counted


class Marginals:
    """The cells of a workload, marginal after marginal in C order."""

    way = "numpy"

    def __init__(self, columns: Columns, attributes: Int32s, starts: Int64s, threads: int) -> None:
        self._columns = columns
        marginals = [attributes[a:b].tolist() for a, b in itertools.pairwise(starts.tolist())]
        cells = [math.prod(columns.sizes[a] for a in marginal) for marginal in marginals]
        ends = itertools.accumulate(cells, initial=0)
        # The attributes of each marginal, and the place of its cells among all.
        self._marginals = [
            (marginal, slice(begin, end))
            for marginal, (begin, end) in zip(marginals, itertools.pairwise(ends), strict=True)
        ]

    def sums(self, masses: Int64s, out: Int64s, threads: int) -> None:
        """Writes the sum of the masses of each cell's rows to out."""
        out[:] = 0
        for cells, place in self._cells(slice(None)):
            add_masses(cells, masses, out[place])

    def add_changes(self, rows: UInt32s, changes: Int64s, sums: Int64s, threads: int) -> None:
        """Adds the changes of the masses of some rows to sums."""
        for cells, place in self._cells(rows):
            add_masses(cells, changes, sums[place])

    def potentials(self, values: Int64s, exponent: int, out: Float64s, threads: int) -> None:
        """Writes the sum of the values of each row's cells, times 2^exponent, to out."""
        first, second = powers_of_two(exponent)
        out[:] = self._value_sums(values, len(out)).astype(np.float64) * first * second

    def _value_sums(self, values: Int64s, rows: int) -> Int64s:
        sums = np.zeros(rows, np.int64)
        for cells, place in self._cells(slice(None)):
            sums += values[place][cells]
        return sums

    def _cells(self, rows: UInt32s | slice) -> Iterator[tuple[Int64s, slice]]:
        """For each marginal the cells of some rows within it, and its place."""
        for marginal, place in self._marginals:
            codes = tuple(self._columns.columns[a][rows] for a in marginal)
            yield np.ravel_multi_index(codes, tuple(self._columns.sizes[a] for a in marginal)), place

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self._marginals[-1][1].stop if self._marginals else 0

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._columns.columns[0])

    def ways(self) -> dict[str, int]:
        """The number of marginals evaluated in each way."""
        return {self.way: len(self._marginals)}

    def nbytes(self) -> int:
        """Bytes allocated beside the columns."""
        return 0


class MarginalCells:
    """Some cells of marginals: the twin of csrc/core/marginals/marginal_cells.hpp, for numba too."""

    def __init__(self, marginals: Marginals, places: Int64s, most_bytes: int) -> None:
        self._marginals, self._places = marginals, places

    def keep(self, kept: Int64s) -> None:
        """Keeps only these cells, by index among the present ones."""
        self._places = self._places[kept]

    def sums(self, rows: UInt32s, masses: Int64s, out: Int64s, threads: int) -> None:
        """Writes the sum of the masses of each cell's rows, of those given, to out."""
        of_rows, sums = np.zeros(self._marginals.rows, np.int64), np.empty(self._marginals.cells, np.int64)
        of_rows[rows] = masses
        self._marginals.sums(of_rows, sums, threads)
        out[:] = sums[self._places]

    def potentials(self, rows: UInt32s, values: Int64s, exponent: int, out: Float64s, threads: int) -> None:
        """Writes the sum of the values of each given row's cells, times 2^exponent, to out."""
        of_cells, potentials = np.zeros(self._marginals.cells, np.int64), np.empty(self._marginals.rows)
        of_cells[self._places] = values
        self._marginals.potentials(of_cells, exponent, potentials, threads)
        out[:] = potentials[rows]

    def nbytes(self) -> int:
        """Bytes allocated beside the marginals."""
        return 0


class GramProduct:
    """The operator Q diag(prices) Q^T: the twin of csrc/core/marginals/marginal_cells.hpp, for numba too."""

    def __init__(self, cells: MarginalCells, prices: Float64s) -> None:
        self._cells, self._prices = cells, prices

    def spread(
        self, rows: UInt32s, masses: Int64s, unit: int, exponent: int, out: Float64s, threads: int
    ) -> None:
        """Writes the potentials of price * sum, rounded to units of 2^unit, times 2^exponent, to out."""
        sums = np.empty(len(self._prices), np.int64)
        self._cells.sums(rows, masses, sums, threads)
        self._cells.potentials(rows, in_units(sums, self._prices, unit), exponent, out, threads)
