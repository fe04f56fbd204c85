"""Rows in numpy alone: the twins of csrc/core/rows.hpp."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from privmw.kernels.arrays import Bools, Codes, Int32s, Int64s, UInt32s
from privmw.kernels.numpy_.columns import Columns


def distinct_rows(columns: Sequence[Codes], sizes: Sequence[int], threads: int) -> tuple[UInt32s, Int64s]:
    """The first occurrence of each distinct row, ascending by codes, and their counts."""
    order = np.lexsort(list(columns)[::-1])  # stable; the last key is the primary one
    new = np.zeros(len(order), bool)
    new[0] = True
    for column in columns:
        new[1:] |= np.diff(column[order].astype(np.int64)) != 0
    first = np.flatnonzero(new)
    return order[first].astype(np.uint32), np.diff([*first.tolist(), len(order)]).astype(np.int64)


def _matches(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> Bools:
    """Whether each row has these values."""
    matching = np.ones(len(columns.columns[0]), bool)
    for attribute, value in zip(attributes, values, strict=True):
        matching &= columns.columns[attribute] == value
    return matching


def matches_of_queries(
    columns: Columns, attributes: Int32s, values: UInt32s, starts: Int64s
) -> Iterator[Bools]:
    """For one query after the other, whether each row matches it."""
    for a, b in itertools.pairwise(starts.tolist()):
        yield _matches(columns, attributes[a:b].tolist(), values[a:b].tolist())


def matching_rows(columns: Columns, attributes: Sequence[int], values: Sequence[int]) -> UInt32s:
    """Ascending rows where every attribute has its value."""
    return np.flatnonzero(_matches(columns, attributes, values)).astype(np.uint32)


def matching_bitmap(
    columns: Columns, attributes: Sequence[int], values: Sequence[int]
) -> npt.NDArray[np.uint64]:
    """The same as bits: row r is bit r % 64 of word r // 64."""
    matching = _matches(columns, attributes, values)
    packed = np.packbits(np.pad(matching, (0, -len(matching) % 64)), bitorder="little")
    return packed.view("<u8").astype(np.uint64)


def groups_alike(
    columns: Columns, attributes: Int32s, values: UInt32s, starts: Int64s
) -> tuple[UInt32s, int]:
    """The group of each row, numbered in the order of first rows, and the number of groups."""
    groups = np.zeros(len(columns.columns[0]), np.int64)
    for matching in matches_of_queries(columns, attributes, values, starts):
        groups = np.unique(groups * 2 + matching, return_inverse=True)[1].ravel()
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))
    return number[inverse.ravel()].astype(np.uint32), len(first)


def incidence_of_groups(
    columns: Columns, rows: UInt32s, attributes: Int32s, values: UInt32s, starts: Int64s, threads: int
) -> tuple[Int64s, UInt32s]:
    """The queries that each of the rows matches, ascending: where they start, and which."""
    taken = Columns([column[rows] for column in columns.columns], columns.sizes, threads)
    by_query = [
        np.flatnonzero(matching) for matching in matches_of_queries(taken, attributes, values, starts)
    ]
    matching_rows = np.concatenate([np.empty(0, np.int64), *by_query])
    queries = np.repeat(np.arange(len(by_query)), [len(matching) for matching in by_query])
    row_starts = np.concatenate([[0], np.cumsum(np.bincount(matching_rows, minlength=len(rows)))])
    order = np.argsort(matching_rows, kind="stable")
    return row_starts.astype(np.int64), queries[order].astype(np.uint32)
