"""Rows as plain loops compiled by numba: the twins of csrc/core/rows.hpp that are faster than numpy's."""

from __future__ import annotations

import numpy as np

from privmw.kernels.arrays import Bools, Int32s, Int64s, UInt32s
from privmw.kernels.numba_.compiled import compiled
from privmw.kernels.numpy_.columns import Columns
from privmw.kernels.numpy_.rows import matches_of_queries

_NO_GROUP = np.uint32(2**32 - 1)


@compiled
def _split(groups: UInt32s, matching: Bools, numbers: UInt32s) -> int:
    """Numbers the pairs (group, matching) in the order of their first rows; numbers: holds two per group."""
    numbers[:] = _NO_GROUP
    count = 0
    for row in range(len(groups)):
        pair = np.int64(groups[row]) * 2 + np.int64(matching[row])
        if numbers[pair] == _NO_GROUP:
            numbers[pair] = count
            count += 1
        groups[row] = numbers[pair]
    return count


def groups_alike(
    columns: Columns, attributes: Int32s, values: UInt32s, starts: Int64s
) -> tuple[UInt32s, int]:
    """The group of each row, numbered in the order of first rows, and the number of groups."""
    groups = np.zeros(len(columns.columns[0]), np.uint32)
    count = 1
    for matching in matches_of_queries(columns, attributes, values, starts):
        count = _split(groups, matching, np.empty(2 * count, np.uint32))
    return groups, count
