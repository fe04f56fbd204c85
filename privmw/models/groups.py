"""Groups of rows that match the same measured queries: their weights change alike, so sums are per group.

Groups only split: a new query cuts those that it matches in part. They may cover this rank's rows, or those
of all ranks: then every rank has the same groups, and knows its own rows in them. Rows are known by number.
"""

from __future__ import annotations

import numpy as np

from privmw import kernels
from privmw.kernels.arrays import Float64s, Int64s, UInt32s, freeze
from privmw.ranks import ALONE, Communicator, sum_over_ranks


class Groups:
    """The groups of `rows` rows and those of the other ranks, and the groups that each query matches.

    >>> groups = Groups(4)
    >>> groups.add(np.array([0, 1], np.uint32)), groups.add(np.array([1], np.uint32))
    (0, 1)
    >>> groups.of_row.tolist(), [matched.tolist() for matched in groups.of_query]
    ([1, 2, 0, 0], [[1, 2], [2]])
    """

    __slots__ = ("_comm", "_listed", "_lists", "_of_query", "_sizes", "_splits", "of_row")

    def __init__(self, rows: int, comm: Communicator = ALONE) -> None:
        self._comm = comm
        self.of_row: Int64s = np.zeros(rows, np.int64)
        self._sizes: Int64s = np.array([sum_over_ranks(comm, rows)], np.int64)
        # For each query, when it was added: the groups that it matched entirely, those that it cut, and the
        # parts it cut off. Earlier queries match a part if they match its parent, so that this determines
        # `of_query`, and is much smaller.
        self._splits: list[tuple[Int64s, Int64s, Int64s]] = []
        self._of_query: list[Int64s] = []
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
    def of_query(self) -> list[Int64s]:
        """For each query the groups that it matches, ascending; computed on first use."""
        for entire, parents, parts in self._splits[len(self._of_query) :]:
            if len(parents):
                part_of = np.full(int(parts[0]), -1, np.int64)
                part_of[parents] = parts
                for query, groups in enumerate(self._of_query):
                    new_parts = part_of[groups]
                    self._of_query[query] = np.concatenate([groups, new_parts[new_parts >= 0]])
            self._of_query.append(np.concatenate([entire, parts]))
        return self._of_query

    def add(self, rows: UInt32s) -> int:
        """Add the query that matches these rows (distinct); returns its number."""
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
        """For each group the exact sum of its rows' masses, which are not negative and total below 2^63.

        >>> Groups(3).sums(np.array([2**60, 1, 2**60])) == 2**61 + 1
        array([ True])
        """
        sums = np.zeros(self.count, np.int64)
        bits = 21  # bincount adds in doubles: 21 bits of 2^32 rows are exact
        for shift in (0, bits, 2 * bits):
            part = masses >> shift & (2**bits - 1)
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
