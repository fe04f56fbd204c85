"""Marginals: sums of masses by cell, planned once and evaluated often, and their adjoint."""

from __future__ import annotations

import copy
import math

import numpy as np

from privmw.kernels import choice
from privmw.kernels.arrays import Float64s, Int32s, Int64s, UInt32s
from privmw.kernels.cells import LEAST_EXPONENT, check_marginals, in_units, to_integers
from privmw.kernels.checks import (
    check_apart,
    check_array,
    check_integer,
    check_length,
    check_masses,
    check_out,
    check_within,
    check_writable,
)
from privmw.kernels.choice import backend, threads_of
from privmw.kernels.columns import Columns, check_are_columns
from privmw.ranks import ALONE, Communicator

MOST_EFFECT_BYTES = 2**28  # of the lists of rows' effects, if the caller does not say
MARGINALS_PER_EFFECT = 2  # with fewer marginals per listed effect, the marginals' plan is faster
# Lists of a few of many rows lie on as many pages of memory: from this number of rows on, lists of at most
# half of them are made anew, side by side (14,044 of 224,711 rows: 21 ms; a product 8.7 -> 1.9 ms).
ROWS_APART = 50_000


class Marginals:
    """The marginals of a workload over columns, planned once and evaluated often.

    Marginal j has the attributes (positions of columns, ascending) attributes[starts[j]:starts[j + 1]]; its
    cells come in C order, the last attribute fastest, and the marginals one after the other.

    >>> columns = Columns([np.array([3, 9, 3], np.uint8), np.array([0, 1, 1], np.uint8)], [10, 2])
    >>> marginals = Marginals(columns, np.array([0, 1], np.int32), np.array([0, 2]))
    >>> marginals.sums(np.array([5, 7, 1])).reshape(10, 2)[[3, 9]]
    array([[5, 1],
           [0, 7]])
    """

    def __init__(
        self, columns: Columns, attributes: Int32s, starts: Int64s, *, threads: int | None = None
    ) -> None:
        check_are_columns(columns)
        attributes, starts, self._first_cells = check_marginals(columns.sizes, attributes, starts)
        self.cells = int(self._first_cells[-1])
        self.columns, self._attributes, self._starts = columns, attributes, starts
        self._core = choice.kernels.Marginals(columns._core, attributes, starts, threads_of(threads))

    def sums(self, masses: Int64s, out: Int64s | None = None, *, threads: int | None = None) -> Int64s:
        """The exact sum of the masses of each cell's rows; out: where to write it."""
        check_masses("masses", masses, self.columns.rows, threads)
        out = check_out(out, np.int64, self.cells, masses=masses)
        self._core.sums(masses, out, threads_of(threads))
        return out

    def add_changes(
        self, rows: UInt32s, changes: Int64s, sums: Int64s, *, threads: int | None = None
    ) -> None:
        """Add the changes of the masses of `rows` to `sums`; the same bits as a new evaluation.

        >>> columns = Columns([np.array([0, 1, 1], np.uint8)], [2])
        >>> marginals = Marginals(columns, np.array([0], np.int32), np.array([0, 1]))
        >>> sums = marginals.sums(np.array([5, 7, 1]))
        >>> marginals.add_changes(np.array([2], np.uint32), np.array([100]), sums)
        >>> sums
        array([  5, 108])
        """
        rows = check_array("rows", rows, np.uint32)
        check_within("rows", rows, self.columns.rows)
        check_masses("changes", changes, len(rows), threads)
        check_writable("sums", sums, np.int64, self.cells)
        check_apart("sums", sums, rows=rows, changes=changes)
        self._core.add_changes(rows, changes, sums, threads_of(threads))

    def potentials(
        self, values: Float64s, out: Float64s | None = None, *, threads: int | None = None
    ) -> Float64s:
        """The adjoint of `sums`: for each row the sum of the values of its cells, one per marginal.

        Values are rounded to integers on one scale, chosen so that the largest values of the marginals total
        near 2^60; sums are exact, and do not depend on the other rows or on the backend.

        >>> columns = Columns([np.array([0, 1, 1], np.uint8), np.array([0, 2, 1], np.uint8)], [2, 3])
        >>> marginals = Marginals(columns, np.array([0, 1], np.int32), np.array([0, 1, 2]))
        >>> marginals.potentials(np.array([0.5, 1.0, 10.0, 20.0, 30.0]))
        array([10.5, 31. , 21. ])
        """
        check_length("values", check_array("values", values, np.float64), self.cells)
        out = check_out(out, np.float64, self.columns.rows, values=values)
        integers, exponent = to_integers(values, self._first_cells)
        self._core.potentials(integers, exponent, out, threads_of(threads))
        return out

    def among(self, places: Int64s, *, most_bytes: int = MOST_EFFECT_BYTES) -> MarginalCells:
        """Some of the cells, by ascending index, for repeated evaluation. most_bytes: see MarginalCells."""
        return MarginalCells(self, places, most_bytes=most_bytes)

    def over(self, columns: Columns, *, threads: int | None = None) -> Marginals:
        """The same marginals over other columns."""
        return Marginals(columns, self._attributes, self._starts, threads=threads)

    def ways(self) -> dict[str, int]:
        """The number of marginals evaluated in each way; `parents`: added to speed up others."""
        return self._core.ways()

    @property
    def nbytes(self) -> int:
        """Bytes allocated beside the columns."""
        return self._core.nbytes()

    def __repr__(self) -> str:
        return f"Marginals({self.cells} cells over {self.columns.rows} rows, {backend()})"


class MarginalCells:
    """Some cells of marginals over some rows, for repeated evaluation.

    The native backend lists for each row the effects of its uncommon values (csrc/core/marginals/effects), in
    at most `most_bytes`; if that is too little, or the lists are too long to be faster, it evaluates all
    cells, to the same bits.

    >>> columns = Columns([np.array([0, 1, 1], np.uint8), np.array([0, 2, 1], np.uint8)], [2, 3])
    >>> marginals = Marginals(columns, np.array([0, 1], np.int32), np.array([0, 1, 2]))
    >>> cells = marginals.among(np.array([1, 4]))
    >>> cells.sums(np.array([5, 7, 1])), cells.potentials(np.array([10.0, 0.5]))
    (array([8, 7]), array([ 0. , 10.5, 10. ]))
    >>> cells.over(np.array([2], np.uint32)).sums(np.array([1]))
    array([1, 0])
    """

    def __init__(self, marginals: Marginals, places: Int64s, *, most_bytes: int = MOST_EFFECT_BYTES) -> None:
        check_within("places", check_array("places", places, np.int64), marginals.cells)
        check_integer("most_bytes", most_bytes, 0)
        self.places, self.rows = places, np.arange(marginals.columns.rows, dtype=np.uint32)
        self.columns, self._first_cells = marginals.columns, marginals._first_cells
        self._marginals, self._most_bytes = marginals, most_bytes
        self._find_first()
        effects = self.columns.rows * (len(marginals._starts) - 1) // MARGINALS_PER_EFFECT + marginals.cells
        self._core = choice.kernels.MarginalCells(marginals._core, places, min(most_bytes, 4 * effects))

    def keep(self, kept: Int64s) -> None:
        """Keep only these cells, by ascending index among the present ones.

        Invalidates earlier results of `over` and `gram_product`.

        >>> columns = Columns([np.array([0, 1, 1], np.uint8)], [2])
        >>> cells = Marginals(columns, np.array([0], np.int32), np.array([0, 1])).among(np.array([0, 1]))
        >>> cells.keep(np.array([1]))
        >>> cells.sums(np.array([5, 7, 1]))
        array([8])
        """
        check_within("kept", check_array("kept", kept, np.int64), self.count)
        if (kept[1:] <= kept[:-1]).any():
            raise ValueError("kept must ascend")
        self._core.keep(kept)
        self.places = self.places[kept]
        self._find_first()

    def over(self, rows: UInt32s) -> MarginalCells:
        """The same cells over some of all rows, ascending."""
        check_within("rows", check_array("rows", rows, np.uint32), self.columns.rows)
        if self.columns.rows >= ROWS_APART and 0 < 2 * len(rows) <= self.columns.rows:
            columns = Columns([codes[rows] for codes in self.columns.columns], self.columns.sizes)
            marginals = Marginals(columns, self._marginals._attributes, self._marginals._starts)
            return marginals.among(self.places, most_bytes=self._most_bytes)
        some = copy.copy(self)
        some.rows = rows
        return some

    def sums(self, masses: Int64s, *, threads: int | None = None) -> Int64s:
        """The exact sum of the masses of each cell's rows."""
        check_masses("masses", masses, len(self.rows))
        out = np.empty(self.count, np.int64)
        self._core.sums(self.rows, masses, out, threads_of(threads))
        return out

    def potentials(self, values: Float64s, *, threads: int | None = None) -> Float64s:
        """For each row the sum of the values of its cells among these; as `Marginals.potentials`."""
        check_length("values", check_array("values", values, np.float64), self.count)
        out = np.empty(len(self.rows))
        integers, exponent = to_integers(values, self._first)
        self._core.potentials(self.rows, integers, exponent, out, threads_of(threads))
        return out

    def _find_first(self) -> None:
        """Set the start of each marginal's cells, without empty marginals, and the end."""
        self.count, self._first = len(self.places), np.unique(np.searchsorted(self.places, self._first_cells))

    def gram_product(self, prices: Float64s) -> GramProduct:
        """The operator Q diag(prices) Q^T of these cells; prices are not negative."""
        return GramProduct(self, prices)

    @property
    def nbytes(self) -> int:
        """Bytes allocated beside the marginals."""
        return self._core.nbytes() + self.rows.nbytes


class GramProduct:
    """The operator Q diag(prices) Q^T on rows, where Q says which cell holds which row.

    >>> columns = Columns([np.array([0, 1, 1], np.uint8)], [2])
    >>> cells = Marginals(columns, np.array([0], np.int32), np.array([0, 1])).among(np.array([0, 1]))
    >>> cells.gram_product(np.array([10.0, 0.5])).spread(np.array([1, 2, 4]) << 55, -55)
    array([10.,  3.,  3.])
    """

    def __init__(self, cells: MarginalCells, prices: Float64s) -> None:
        check_length("prices", check_array("prices", prices, np.float64), cells.count)
        self._cells, self._prices = cells, prices
        largest = float(prices.max(initial=0.0))
        if not (0 <= largest < np.inf and prices.min(initial=0.0) >= 0):
            raise ValueError("prices must be finite, none negative")
        # A sum of masses has up to 62 bits, its product with a price up to 51, their potential up to 61.
        self._unit = max(math.frexp(largest)[1], LEAST_EXPONENT) + 62
        self._unit -= min(51, 61 - len(cells._first).bit_length())
        self._core = choice.kernels.GramProduct(cells._core, prices)

    def spread(
        self,
        masses: Int64s,
        exponent: int = 0,
        *,
        threads: int | None = None,
        comm: Communicator = ALONE,
    ) -> Float64s:
        """Compute Q diag(prices) Q^T masses * 2^exponent, one number per row.

        Masses total near 2^61: prices times sums are rounded on their scale. Sums are over the rows of all
        ranks, and have the same bits on any number of ranks.
        """
        cells, workers = self._cells, threads_of(threads)
        check_masses("masses", masses, len(cells.rows))
        out, power = np.empty(len(cells.rows)), self._unit + exponent
        if comm.size == 1:
            self._core.spread(cells.rows, masses, self._unit, power, out, workers)
        else:
            sums = cells.sums(masses, threads=threads)
            comm.allreduce(sums)
            cells._core.potentials(cells.rows, in_units(sums, self._prices, self._unit), power, out, workers)
        return out
