"""The kernels: arrays in, arrays out, no global state but a default number of threads; the GIL is released.

This is the one door where arguments are checked; `native` (C++), `numba` and `numpy` behind it offer the
same names and trust what they get. PRIVMW_BACKEND=native|numba|numpy forces a backend; otherwise it is the
compiled one, or, where the extension was not built, the best of the others, with one warning. Sums over rows
are integers (csrc/core/weights.hpp): every backend, number of threads and split of the rows over ranks gives
the same bits. What an Incidence adds up in floats does not depend on the number of threads either; backends
may round it apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.kernels.checks import (
    check_apart,
    check_array,
    check_columns,
    check_integer,
    check_length,
    check_masses,
    check_starts,
    check_within,
    check_writable,
)
from privmw.kernels.choice import BACKENDS, backend, set_threads, threads, threads_of
from privmw.kernels.choice import kernels as _kernels
from privmw.kernels.columns import Columns
from privmw.kernels.least_squares import Solution, Tallies, Wanted
from privmw.kernels.projection import Incidence, solve_positive, tilt
from privmw.kernels.scale import MASS_BITS, powers_of_two
from privmw.kernels.weights import LARGEST_FACTOR, Gains, multiply, rescale, to_masses, total_after

__all__ = [
    "BACKENDS",
    "LARGEST_FACTOR",
    "MASS_BITS",
    "Columns",
    "Gains",
    "Incidence",
    "Marginals",
    "Solution",
    "Tallies",
    "Wanted",
    "backend",
    "distinct_rows",
    "groups_alike",
    "incidence_of_groups",
    "matching_bitmap",
    "matching_rows",
    "multiply",
    "rescale",
    "set_threads",
    "solve_positive",
    "threads",
    "tilt",
    "to_masses",
    "total_after",
]

Int64s = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint32]
Weights = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger[Any]]

LARGEST_ORDER = 6
LARGEST_MARGINAL = 2**40  # cells


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
        self,
        columns: Columns,
        attributes: npt.NDArray[np.int32],
        starts: Int64s,
        *,
        threads: int | None = None,
    ) -> None:
        _check_columns(columns)
        attributes = check_array("attributes", attributes, np.int32)
        starts = check_starts(starts, len(attributes))
        orders = np.diff(starts)
        if len(orders) and (orders.min() < 1 or orders.max() > LARGEST_ORDER):
            raise ValueError(f"starts must give every marginal 1 to {LARGEST_ORDER} attributes")
        check_within("attributes", attributes, len(columns.sizes))
        within = np.ones(len(attributes), bool)
        within[starts[:-1]] = False
        if (np.diff(attributes)[within[1:]] <= 0).any():
            raise ValueError("attributes must ascend within each marginal")
        self.cells = 0
        self._first = np.zeros(0, np.int64)  # cell of each marginal
        if len(orders):
            # Exact in doubles up to 2^53, and over the limit beyond.
            cells = np.multiply.reduceat(np.array(columns.sizes, np.float64)[attributes], starts[:-1])
            if cells.max() > LARGEST_MARGINAL or cells.sum() > 2**48:
                raise ValueError("marginals must have at most 2^40 cells each and 2^48 together")
            self.cells = int(cells.sum())
            self._first = (np.cumsum(cells) - cells).astype(np.int64)
        self.columns = columns
        self._core = _kernels.Marginals(columns._core, attributes, starts, threads_of(threads))

    def sums(self, masses: Int64s, out: Int64s | None = None, *, threads: int | None = None) -> Int64s:
        """The sum of the masses of each cell's rows, exactly; written to `out` where one is given."""
        check_masses("masses", masses, self.columns.rows)
        if out is None:
            out = np.empty(self.cells, np.int64)
        check_writable("out", out, np.int64, self.cells)
        check_apart("out", out, masses=masses)
        self._core.sums(masses, out, threads_of(threads))
        return out

    def add_changes(self, rows: Rows, changes: Int64s, sums: Int64s, *, threads: int | None = None) -> None:
        """Adds to `sums` what `rows` gained; the same bits as a new evaluation.

        >>> columns = Columns([np.array([0, 1, 1], np.uint8)], [2])
        >>> marginals = Marginals(columns, np.array([0], np.int32), np.array([0, 1]))
        >>> sums = marginals.sums(np.array([5, 7, 1]))
        >>> marginals.add_changes(np.array([2], np.uint32), np.array([100]), sums)
        >>> sums
        array([  5, 108])
        """
        rows = check_array("rows", rows, np.uint32)
        check_within("rows", rows, self.columns.rows)
        check_masses("changes", changes, len(rows))
        check_writable("sums", sums, np.int64, self.cells)
        check_apart("sums", sums, rows=rows, changes=changes)
        self._core.add_changes(rows, changes, sums, threads_of(threads))

    def potentials(
        self, values: Weights, out: Weights | None = None, *, threads: int | None = None
    ) -> Weights:
        """The adjoint of `sums`: for each row the sum of the values of the cells it lies in, one a marginal.

        Values are rounded to integers on one scale, on which the largest of each marginal total near 2^60;
        their sums are exact. So a row has the same bits whatever rows are beside it, on every backend.

        >>> columns = Columns([np.array([0, 1, 1], np.uint8), np.array([0, 2, 1], np.uint8)], [2, 3])
        >>> marginals = Marginals(columns, np.array([0, 1], np.int32), np.array([0, 1, 2]))
        >>> marginals.potentials(np.array([0.5, 1.0, 10.0, 20.0, 30.0]))
        array([10.5, 31. , 21. ])
        """
        check_array("values", values, np.float64)
        check_length("values", values, self.cells)
        if out is None:
            out = np.empty(self.columns.rows, np.float64)
        check_writable("out", out, np.float64, self.columns.rows)
        check_apart("out", out, values=values)
        integers, exponent = self._to_integers(values)
        self._core.potentials(integers, exponent, out, threads_of(threads))
        return out

    def _to_integers(self, values: Weights) -> tuple[Int64s, int]:
        """Integers that no row can bring beyond 2^61 in total, half a unit for rounding aside; their unit."""
        most = np.maximum.reduceat(np.abs(values), self._first) if len(values) else np.zeros(1)
        largest = float(most.max())
        if not largest < np.inf:
            raise ValueError("values must be finite")
        if largest == 0:
            return np.zeros(len(values), np.int64), 0
        # The bound, largest * sum(most / largest), may overflow as one number; below a product of powers of
        # two it does not.
        exponent = math.frexp(largest)[1] + math.frexp(float((most / largest).sum()))[1] - 61
        first, second = powers_of_two(-exponent)
        return np.rint(values * first * second).astype(np.int64), exponent

    def ways(self) -> dict[str, int]:
        """How many marginals the plan evaluates in which way; `parents` were added to help others."""
        return dict(self._core.ways())

    @property
    def nbytes(self) -> int:
        """Bytes held beside the columns."""
        return int(self._core.nbytes())

    def __repr__(self) -> str:
        return f"Marginals({self.cells} cells over {self.columns.rows} rows, {backend()})"


def distinct_rows(
    columns: Sequence[Codes], sizes: Sequence[int], *, threads: int | None = None
) -> tuple[Rows, Int64s]:
    """The first row of each kind, kinds in ascending order of their codes, and how many rows are of it.

    >>> distinct_rows([np.array([3, 1, 3], np.uint8)], [10])
    (array([1, 0], dtype=uint32), array([1, 2]))
    """
    checked, checked_sizes = check_columns(columns, sizes, copy=False)
    first, counts = _kernels.distinct_rows(checked, checked_sizes, threads_of(threads))
    return first, counts


def matching_rows(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> Rows:
    """Ascending rows where every attribute has its value.

    >>> matching_rows(Columns([np.array([3, 1, 3], np.uint8)], [10]), [0], [3])
    array([0, 2], dtype=uint32)
    """
    places, codes = _query(columns, attributes, values)
    rows: Rows = _kernels.matching_rows(columns._core, places, codes)
    return rows


def matching_bitmap(
    columns: Columns, attributes: Sequence[int], values: Sequence[int]
) -> npt.NDArray[np.uint64]:
    """The same as bits: row r is bit r % 64 of word r // 64; bits behind the last row are 0.

    >>> matching_bitmap(Columns([np.array([3, 1, 3], np.uint8)], [10]), [0], [3])
    array([5], dtype=uint64)
    """
    places, codes = _query(columns, attributes, values)
    words: npt.NDArray[np.uint64] = _kernels.matching_bitmap(columns._core, places, codes)
    return words


def groups_alike(
    columns: Columns, attributes: npt.NDArray[np.int32], values: npt.NDArray[np.uint32], starts: Int64s
) -> tuple[npt.NDArray[np.uint32], int]:
    """A number for each row, shared if and only if every query answers the rows alike; and how many.

    Query i asks attributes[k] == values[k] for k in starts[i]:starts[i + 1]. Numbers follow the groups' first
    rows.

    >>> columns = Columns([np.array([3, 1, 3], np.uint8)], [10])
    >>> groups_alike(columns, np.array([0], np.int32), np.array([1], np.uint32), np.array([0, 1]))
    (array([0, 1, 0], dtype=uint32), 2)
    """
    _check_queries(columns, attributes, values, starts)
    groups, count = _kernels.groups_alike(columns._core, attributes, values, starts)
    return groups, int(count)


def incidence_of_groups(
    columns: Columns,
    rows: Rows,
    attributes: npt.NDArray[np.int32],
    values: npt.NDArray[np.uint32],
    starts: Int64s,
    *,
    threads: int | None = None,
) -> tuple[Int64s, npt.NDArray[np.uint32]]:
    """The queries (as in `groups_alike`) that each of `rows` matches, ascending: where they start, and which.

    With one row of each group, `Incidence(*incidence_of_groups(...), queries)` says what the groups answer.

    >>> columns = Columns([np.array([3, 1, 3], np.uint8)], [10])
    >>> queries = np.array([0, 0], np.int32), np.array([1, 3], np.uint32), np.array([0, 1, 2])
    >>> incidence_of_groups(columns, np.array([0, 1], np.uint32), *queries)
    (array([0, 1, 2]), array([1, 0], dtype=uint32))
    """
    _check_queries(columns, attributes, values, starts)
    rows = check_array("rows", rows, np.uint32)
    check_within("rows", rows, columns.rows)
    found = _kernels.incidence_of_groups(columns._core, rows, attributes, values, starts, threads_of(threads))
    matched: tuple[Int64s, npt.NDArray[np.uint32]] = found
    return matched


def _check_columns(columns: object) -> None:
    if not isinstance(columns, Columns):
        raise TypeError(f"columns ({type(columns).__name__}) must be Columns")


def _check_queries(columns: Columns, attributes: object, values: object, starts: object) -> None:
    _check_columns(columns)
    places = check_array("attributes", attributes, np.int32)
    codes = check_array("values", values, np.uint32)
    if len(codes) != len(places):
        raise ValueError(f"values ({len(codes)}) must be as many as attributes ({len(places)})")
    check_starts(starts, len(places))
    check_within("attributes", places, len(columns.sizes))
    if len(codes) and (codes >= np.array(columns.sizes, np.uint64)[places]).any():
        raise ValueError("values must be below their attributes' sizes")


def _query(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> tuple[list[int], list[int]]:
    _check_columns(columns)
    for name, given in (("attributes", attributes), ("values", values)):
        if not isinstance(given, Sequence | np.ndarray) or np.ndim(given) != 1:
            raise TypeError(f"{name} ({type(given).__name__}) must be a list of integers")
    if len(attributes) != len(values):
        raise ValueError(f"values ({len(values)}) must be as many as attributes ({len(attributes)})")
    places = [check_integer("attribute", a, 0, len(columns.sizes) - 1) for a in attributes]
    codes = [check_integer("value", v, 0, columns.sizes[a] - 1) for a, v in zip(places, values, strict=True)]
    return places, codes
