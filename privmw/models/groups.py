"""Rows alike on every measured query: they move together, so solvers work on these groups, not on rows.

Groups only ever split: a new query cuts those that it holds in part. This room knows rows by number only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint32]


class Groups:
    """The groups of `rows` rows, and which groups each query holds.

    >>> groups = Groups(4)
    >>> groups.add(np.array([0, 1], np.uint32)), groups.add(np.array([1], np.uint32))
    (0, 1)
    >>> groups.of_row.tolist(), [held.tolist() for held in groups.held]
    ([1, 2, 0, 0], [[1, 2], [2]])
    """

    __slots__ = ("_sizes", "held", "of_row")

    def __init__(self, rows: int) -> None:
        self.of_row: Int64s = np.zeros(rows, np.int64)
        self._sizes: Int64s = np.array([rows], np.int64)
        self.held: list[Int64s] = []  # for each query its groups, ascending

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self._sizes)

    def add(self, rows: Rows) -> int:
        """Add the query that holds these rows, distinct; returns its number."""
        of_held = self.of_row[rows]
        inside = np.bincount(of_held, minlength=self.count)
        whole = np.flatnonzero((inside > 0) & (inside == self._sizes))
        parents = np.flatnonzero((inside > 0) & (inside < self._sizes))
        newborn = self.count + np.arange(len(parents))
        if len(parents):
            children = np.full(self.count, -1, np.int64)
            children[parents] = newborn
            born = children[of_held]
            moving = born >= 0
            self.of_row[rows[moving]] = born[moving]
            self._sizes[parents] -= inside[parents]
            self._sizes = np.concatenate([self._sizes, inside[parents]])
            for query, held in enumerate(self.held):
                more = children[held]
                self.held[query] = np.concatenate([held, more[more >= 0]])
        self.held.append(np.concatenate([whole, newborn]))
        return len(self.held) - 1

    def sums(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """For each group the sum of its rows' values."""
        sums: npt.NDArray[np.float64] = np.bincount(self.of_row, values, self.count).astype(np.float64)
        return sums

    def incidence(self) -> tuple[Int64s, npt.NDArray[np.uint32]]:
        """For each group where its queries start, and the queries, ascending within a group."""
        sizes = [len(held) for held in self.held]
        group = np.concatenate([*self.held, np.zeros(0, np.int64)])
        query = np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)
        order = np.argsort(group, kind="stable")
        starts = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(group, minlength=self.count), out=starts[1:])
        return starts, query[order]
