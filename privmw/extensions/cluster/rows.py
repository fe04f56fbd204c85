"""Rows with counts, which are hashed, merged and moved to the ranks that own them.

Rows are in the order of (hash, codes), which does not depend on the ranks. New columns replace the old ones
one by one, so that additional memory is that of one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privmw.data.row_hash import Hashes, row_hashes
from privmw.kernels.arrays import Bools, Codes, Int64s
from privmw.ranks import Communicator, allgather


class Rows:
    """Codes by column, with the count and the hash of each row. Its methods change it in place.

    >>> rows = Rows([np.array([3, 9, 3], np.uint8)], np.array([1, 1, 1]))
    >>> rows.merge()
    >>> sorted(zip(rows.columns[0].tolist(), rows.counts.tolist()))
    [(3, 2), (9, 1)]
    """

    __slots__ = ("columns", "counts", "hashes")

    def __init__(self, columns: Sequence[Codes], counts: Int64s, hashes: Hashes | None = None) -> None:
        self.columns = list(columns)
        self.counts = counts
        self.hashes = row_hashes(columns) if hashes is None else hashes

    @classmethod
    def none(cls, sizes: Sequence[int]) -> Rows:
        """No rows of attributes of these sizes."""
        return cls([np.empty(0, np.min_scalar_type(size - 1)) for size in sizes], np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.counts)

    def merge(self, others: Sequence[Rows] = ()) -> None:
        """Add other rows, which become empty; equal rows are merged and their counts summed."""
        parts = [self, *others]
        hashes = np.concatenate([part.hashes for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        order = np.argsort(hashes, kind="stable")
        again = hashes[order[1:]] == hashes[order[:-1]]  # whether the previous row has the same hash
        if again.any() and not _all_equal(parts, order[:-1][again], order[1:][again]):
            order, again = _by_codes(parts, hashes, order, again)
        starts = np.flatnonzero(np.concatenate([np.ones(min(len(order), 1), bool), ~again]))
        distinct = order[starts]
        self.hashes = hashes[distinct]
        self.counts = np.add.reduceat(counts[order], starts) if len(starts) else counts
        del hashes, counts, order, again, starts
        for other in others:
            other.hashes, other.counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        for position in range(len(self.columns)):
            self.columns[position] = _joined(parts, position)[distinct]
            for other in others:
                other.columns[position] = np.empty(0, self.columns[position].dtype)

    def keep(self, mask: Bools) -> None:
        """Keep the rows where the mask is True."""
        self.counts, self.hashes = self.counts[mask], self.hashes[mask]
        for position, column in enumerate(self.columns):
            self.columns[position] = column[mask]

    def move(self, comm: Communicator, counts: Sequence[int]) -> Rows:
        """Send the first counts[0] rows to rank 0, the next to rank 1, and so on; returns those received."""
        columns: list[Codes] = []
        while self.columns:
            columns.append(comm.alltoallv(self.columns.pop(0), counts))
        hashes: Any = comm.alltoallv(self.hashes.view(np.int64), counts)
        return Rows(columns, comm.alltoallv(self.counts, counts), hashes.view(np.uint64))

    def move_to_owners(self, comm: Communicator) -> Rows:
        """Send each row to the rank that owns its hash: ascending ranges of hashes belong to the ranks."""
        owners = (self.hashes >> np.uint64(32)) * np.uint64(comm.size) >> np.uint64(32)
        return self.move(comm, np.bincount(owners.astype(np.int64), minlength=comm.size).tolist())

    def balance(self, comm: Communicator) -> Rows:
        """Move rows so that each rank has as many as the others, or one more; the order does not change."""
        sizes = allgather(comm, np.int64(len(self)))[:, 0].tolist()
        before, total = sum(sizes[: comm.rank]), sum(sizes)
        ends = np.array([total * rank // comm.size - before for rank in range(comm.size + 1)])
        return self.move(comm, np.diff(ends.clip(0, len(self))).tolist())


def _joined(parts: Sequence[Rows], position: int) -> Codes:
    columns = [part.columns[position] for part in parts]
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _all_equal(parts: Sequence[Rows], left: Int64s, right: Int64s) -> bool:
    """Whether each row on the left equals the one on the right."""
    for position in range(len(parts[0].columns)):
        column = _joined(parts, position)
        if not np.array_equal(column[left], column[right]):
            return False
    return True


def _by_codes(parts: Sequence[Rows], hashes: Hashes, order: Int64s, again: Bools) -> tuple[Int64s, Bools]:
    """Sort rows of equal hash by their codes too: different rows share a hash once in 2^64 pairs."""
    shared = np.flatnonzero(np.concatenate([again, [False]]) | np.concatenate([[False], again]))
    rows = order[shared]
    columns = [_joined(parts, position)[rows] for position in range(len(parts[0].columns))]
    sort = np.lexsort([*columns[::-1], hashes[rows]])
    order, again = order.copy(), again.copy()
    order[shared] = rows[sort]
    equal = hashes[rows[sort]][1:] == hashes[rows[sort]][:-1]
    for column in columns:
        equal &= column[sort][1:] == column[sort][:-1]
    # Rows of `shared` that are not adjacent in the order have different hashes.
    beside = np.diff(shared) == 1
    again[shared[:-1][beside]] = equal[beside]
    return order, again
