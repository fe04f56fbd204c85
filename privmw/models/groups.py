"""Groups of rows that are alike on every measured query: they move together, so sums are computed per group.

Groups only split: a new query cuts those that it holds in part. They may cover this rank's rows, or those of
all ranks: then every rank has the same groups, and knows its own rows in them. This room knows rows by number
only.
"""

from __future__ import annotations

import numpy as np

from privmw import kernels
from privmw.kernels.arrays import Float64s, Int64s, UInt32s, freeze
from privmw.ranks import ALONE, Communicator, sum_over_ranks

_PART = 21  # bits


class Groups:
    """The groups of `rows` rows and those of the other ranks, and which groups each query holds.

    >>> groups = Groups(4)
    >>> groups.add(np.array([0, 1], np.uint32)), groups.add(np.array([1], np.uint32))
    (0, 1)
    >>> groups.of_row.tolist(), [held.tolist() for held in groups.held]
    ([1, 2, 0, 0], [[1, 2], [2]])
    """

    __slots__ = ("_comm", "_held", "_listed", "_lists", "_sizes", "_splits", "of_row")

    def __init__(self, rows: int, comm: Communicator = ALONE) -> None:
        self._comm = comm
        self.of_row: Int64s = np.zeros(rows, np.int64)
        self._sizes: Int64s = np.array([sum_over_ranks(comm, rows)], np.int64)
        # For each query the groups that it held entirely, those that it cut, and the parts it cut off. A part
        # is held by the queries that held its group before: this determines `held`, and is much smaller.
        self._splits: list[tuple[Int64s, Int64s, Int64s]] = []
        self._held: list[Int64s] = []
        self._lists = freeze(np.zeros(2, np.int64)), freeze(np.empty(0, np.uint32))
        self._listed = 0  # queries in the lists

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self._sizes)

    @property
    def queries(self) -> int:
        """How many queries were added."""
        return len(self._splits)

    @property
    def held(self) -> list[Int64s]:
        """For each query its groups, ascending; computed when they are read."""
        for entire, parents, parts in self._splits[len(self._held) :]:
            if len(parents):
                part_of = np.full(int(parts[0]), -1, np.int64)
                part_of[parents] = parts
                for query, groups in enumerate(self._held):
                    new_parts = part_of[groups]
                    self._held[query] = np.concatenate([groups, new_parts[new_parts >= 0]])
            self._held.append(np.concatenate([entire, parts]))
        return self._held

    def add(self, rows: UInt32s) -> int:
        """Add the query that holds these rows, distinct; returns its number."""
        groups = self.of_row[rows]
        inside = np.bincount(groups, minlength=self.count)
        self._comm.allreduce(inside)
        entire = np.flatnonzero((inside > 0) & (inside == self._sizes))
        parents = np.flatnonzero((inside > 0) & (inside < self._sizes))
        parts = self.count + np.arange(len(parents))
        self._splits.append((entire, parents, parts))
        if len(parents):
            new = np.arange(self.count)
            new[parents] = parts
            self.of_row[rows] = new[groups]
            self._sizes[parents] -= inside[parents]
            self._sizes = np.concatenate([self._sizes, inside[parents]])
        return len(self._splits) - 1

    def potentials(self, values: Float64s) -> Float64s:
        """For each group the sum of its queries' values.

        >>> groups = Groups(4)
        >>> groups.add(np.array([0, 1], np.uint32)), groups.add(np.array([1], np.uint32))
        (0, 1)
        >>> groups.potentials(np.array([0.5, 2.0]))
        array([0. , 0.5, 2.5])
        """
        potentials = np.zeros(self.count)
        for (entire, parents, parts), value in zip(self._splits, values.tolist(), strict=True):
            potentials[entire] += value
            potentials[parts] = potentials[parents] + value
        return potentials

    def sums(self, masses: Int64s) -> Int64s:
        """For each group the sum of its rows' masses, none negative and below 2^63 in all: exact.

        >>> Groups(3).sums(np.array([2**60, 1, 2**60])) == 2**61 + 1
        array([ True])
        """
        sums = np.zeros(self.count, np.int64)
        for shift in (0, _PART, 2 * _PART):  # bincount adds in doubles: few bits at a time, of 2^32 rows
            part = masses >> shift & (2**_PART - 1)
            sums += np.bincount(self.of_row, part, self.count).astype(np.int64) << shift
        self._comm.allreduce(sums)
        return sums

    def incidence(self) -> tuple[Int64s, UInt32s]:
        """For each group where its queries start, and the queries, ascending within a group: read-only."""
        added = self._splits[self._listed :]
        if added:
            self._lists = kernels.split_lists(
                *self._lists, self._listed, [entire for entire, _, _ in added], [cut for _, cut, _ in added]
            )
            self._listed = self.queries
        return self._lists
