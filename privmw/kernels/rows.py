"""Rows: distinct rows, rows that match a query, and groups of rows that match the same queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privmw.kernels import choice
from privmw.kernels.arrays import Codes, Int32s, Int64s, UInt32s
from privmw.kernels.checks import check_array, check_columns, check_integer, check_starts, check_within
from privmw.kernels.choice import threads_of
from privmw.kernels.columns import Columns, check_are_columns
from privmw.secrecy import expect


def distinct_rows(
    columns: Sequence[Codes], sizes: Sequence[int], *, threads: int | None = None
) -> tuple[UInt32s, Int64s]:
    """The first occurrence of each distinct row, ascending by codes, and their counts.

    >>> distinct_rows([np.array([3, 1, 3], np.uint8)], [10])
    (array([1, 0], dtype=uint32), array([1, 2]))
    """
    checked, checked_sizes = check_columns(columns, sizes, copy=False)
    return choice.kernels.distinct_rows(checked, checked_sizes, threads_of(threads))


def matching_rows(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> UInt32s:
    """Ascending rows where every attribute has its value.

    >>> matching_rows(Columns([np.array([3, 1, 3], np.uint8)], [10]), [0], [3])
    array([0, 2], dtype=uint32)
    """
    checked_attributes, codes = _check_query(columns, attributes, values)
    return choice.kernels.matching_rows(columns._core, checked_attributes, codes)


def matching_bitmap(
    columns: Columns, attributes: Sequence[int], values: Sequence[int]
) -> npt.NDArray[np.uint64]:
    """The matching rows as bits: row r is bit r % 64 of word r // 64; bits after the last row are 0.

    >>> matching_bitmap(Columns([np.array([3, 1, 3], np.uint8)], [10]), [0], [3])
    array([5], dtype=uint64)
    """
    checked_attributes, codes = _check_query(columns, attributes, values)
    return choice.kernels.matching_bitmap(columns._core, checked_attributes, codes)


def groups_alike(
    columns: Columns, attributes: Int32s, values: UInt32s, starts: Int64s
) -> tuple[UInt32s, int]:
    """The group of each row, and the number of groups; the rows of a group match the same queries.

    Query i is attributes[k] == values[k] for all k in starts[i]:starts[i + 1]. Groups are numbered in the
    order of their first rows.

    >>> columns = Columns([np.array([3, 1, 3], np.uint8)], [10])
    >>> groups_alike(columns, np.array([0], np.int32), np.array([1], np.uint32), np.array([0, 1]))
    (array([0, 1, 0], dtype=uint32), 2)
    """
    _check_queries(columns, attributes, values, starts)
    return choice.kernels.groups_alike(columns._core, attributes, values, starts)


def incidence_of_groups(
    columns: Columns,
    rows: UInt32s,
    attributes: Int32s,
    values: UInt32s,
    starts: Int64s,
    *,
    threads: int | None = None,
) -> tuple[Int64s, UInt32s]:
    """The queries (as in `groups_alike`) that each of `rows` matches, as starts and ascending indices.

    With one row of each group, `Incidence(*incidence_of_groups(...), queries)` is the incidence of groups.

    >>> columns = Columns([np.array([3, 1, 3], np.uint8)], [10])
    >>> queries = np.array([0, 0], np.int32), np.array([1, 3], np.uint32), np.array([0, 1, 2])
    >>> incidence_of_groups(columns, np.array([0, 1], np.uint32), *queries)
    (array([0, 1, 2]), array([1, 0], dtype=uint32))
    """
    _check_queries(columns, attributes, values, starts)
    rows = check_array("rows", rows, np.uint32)
    check_within("rows", rows, columns.rows)
    return choice.kernels.incidence_of_groups(
        columns._core, rows, attributes, values, starts, threads_of(threads)
    )


def _check_queries(columns: Columns, attributes: object, values: object, starts: object) -> None:
    check_are_columns(columns)
    checked_attributes = check_array("attributes", attributes, np.int32)
    codes = check_array("values", values, np.uint32)
    _check_as_many(codes, checked_attributes)
    check_starts(starts, len(checked_attributes))
    check_within("attributes", checked_attributes, len(columns.sizes))
    if len(codes) and (codes >= np.array(columns.sizes, np.uint64)[checked_attributes]).any():
        raise ValueError("values must be below their attributes' sizes")


def _check_query(
    columns: Columns, attributes: Sequence[int], values: Sequence[int]
) -> tuple[list[int], list[int]]:
    check_are_columns(columns)
    for name, integers in (("attributes", attributes), ("values", values)):
        right = isinstance(integers, Sequence | np.ndarray) and np.ndim(integers) == 1
        expect(name, integers, right, "a list of integers")
    _check_as_many(values, attributes)
    checked_attributes = [
        check_integer(f"attributes[{place}]", a, 0, len(columns.sizes) - 1, quote=False)
        for place, a in enumerate(attributes)
    ]
    sizes = [columns.sizes[a] for a in checked_attributes]
    codes = [
        check_integer(f"values[{place}]", value, 0, size - 1, quote=False)
        for place, (value, size) in enumerate(zip(values, sizes, strict=True))
    ]
    return checked_attributes, codes


def _check_as_many(values: Sequence[int] | UInt32s, attributes: Sequence[int] | Int32s) -> None:
    if len(values) != len(attributes):
        raise ValueError(f"values ({len(values)}) must be as many as attributes ({len(attributes)})")
