"""Seeded samples of the combinations of k of n items, as the rows of an array, and an index of some.

Plain numbers in and out: this module knows no domain and no data, and does not check its arguments. Rows are
in the order of itertools.combinations; the rank of a row is its position in that order.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import numpy.typing as npt


def sample_combinations(n: int, k: int, size: int, seed: int) -> npt.NDArray[np.int32]:
    """`size` distinct combinations, every such set equally likely, even if there are too many to list.

    It uses only the bits of Python's Mersenne Twister, which are the same in every version.

    >>> sample_combinations(100, 3, 2, seed=0).tolist()
    [[27, 53, 64], [31, 47, 92]]
    """
    bits = random.Random(seed).getrandbits
    total = math.comb(n, k)
    ranks: set[int] = set()
    for last in range(total - size, total):  # Floyd's sampling without replacement
        rank = bits(last.bit_length())
        while rank > last:
            rank = bits(last.bit_length())
        ranks.add(last if rank in ranks else rank)
    return combinations_at(n, k, sorted(ranks))


def combinations_at(n: int, k: int, ranks: list[int]) -> npt.NDArray[np.int32]:
    """The combinations of given ranks.

    >>> combinations_at(4, 2, [0, 1, 5]).tolist()
    [[0, 1], [0, 2], [2, 3]]
    """
    total = math.comb(n, k)
    exact = np.int64 if total < 2**63 else np.object_  # Python integers where 64 bits are too few
    # Counted from the last combination, a rank is C(m_k, k) + ... + C(m_1, 1) with m_k > ... > m_1, in one
    # way only, found greedily; the row is then n - 1 - m_k, ..., n - 1 - m_1.
    rest: npt.NDArray[Any] = np.array([total - 1 - rank for rank in ranks], exact)
    rows = np.empty((len(ranks), k), np.int32)
    for column in range(k):
        below: npt.NDArray[Any] = np.array([math.comb(m, k - column) for m in range(n)], exact)
        m = np.searchsorted(below, rest, "right") - 1
        rows[:, column] = n - 1 - m
        rest = rest - below[m]
    return rows


class CombinationIndex:
    """An index of combinations of mixed sizes (flat, with their starts), to find one by its items.

    >>> CombinationIndex(np.array([2, 0, 1], np.int32), np.array([0, 2, 3])).find([0, 2])
    0
    """

    __slots__ = ("_columns", "_order")

    def __init__(self, flat: npt.NDArray[np.int32], starts: npt.NDArray[np.int64]) -> None:
        sizes = np.diff(starts)
        rows = np.full((len(sizes), int(sizes.max(initial=0))), -1, np.int32)
        for size in np.unique(sizes).tolist():
            of_size = np.flatnonzero(sizes == size)
            rows[of_size, :size] = np.sort(flat[starts[of_size, None] + np.arange(size)], axis=1)
        self._order = np.lexsort(rows.T[::-1]) if rows.size else np.empty(0, np.int64)
        self._columns = np.ascontiguousarray(rows[self._order].T)

    def find(self, items: list[int]) -> int:
        """The position of the combination of these items (in any order), or -1."""
        if len(items) > len(self._columns):
            return -1
        low, high = 0, len(self._order)
        padding = [-1] * (len(self._columns) - len(items))
        for column, item in zip(self._columns, sorted(items) + padding, strict=True):
            target = np.int32(item)  # of the column's dtype, or searchsorted would convert the column
            left, right = (int(np.searchsorted(column[low:high], target, side)) for side in ("left", "right"))
            low, high = low + left, low + right
        return int(self._order[low]) if low < high else -1
