"""Rows with counts on their way to the ranks that will hold them: hashed, merged, moved.

Rows are kept in the order of (hash, codes), which does not depend on the ranks. Whatever makes new columns
lets go of the old ones one by one: beside the rows, memory holds a column. It knows no domain and no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.data.row_hash import Codes, Hashes, row_hashes
from privmw.ranks import Communicator, allgather

Int64s = npt.NDArray[np.int64]


class Rows:
    """Codes by column, and for each row its count and its hash. Its methods change it.

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
        """Take in other rows, of which nothing is left: equal ones become one, with the sum of the counts."""
        parts = [self, *others]
        hashes = np.concatenate([part.hashes for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        order = np.argsort(hashes, kind="stable")
        again = hashes[order[1:]] == hashes[order[:-1]]  # the row before has this hash too
        if again.any() and not _all_equal(parts, order[:-1][again], order[1:][again]):
            order, again = _by_codes(parts, hashes, order, again)
        starts = np.flatnonzero(np.concatenate([np.ones(min(len(order), 1), bool), ~again]))
        kept = order[starts]
        self.hashes = hashes[kept]
        self.counts = np.add.reduceat(counts[order], starts) if len(starts) else counts
        del hashes, counts, order, again, starts
        for other in others:
            other.hashes, other.counts = np.empty(0, np.uint64), np.empty(0, np.int64)
        for position in range(len(self.columns)):
            self.columns[position] = _joined(parts, position)[kept]
            for other in others:
                other.columns[position] = np.empty(0, self.columns[position].dtype)

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        """Keep the rows where the mask is True."""
        self.counts, self.hashes = self.counts[mask], self.hashes[mask]
        for position, column in enumerate(self.columns):
            self.columns[position] = column[mask]

    def move(self, comm: Communicator, counts: Sequence[int]) -> Rows:
        """The first counts[0] rows go to rank 0, the next to rank 1, and so on; what came from all ranks."""
        came: list[Codes] = []
        while self.columns:
            came.append(comm.alltoallv(self.columns.pop(0), counts))
        hashes: Any = comm.alltoallv(self.hashes.view(np.int64), counts)
        return Rows(came, comm.alltoallv(self.counts, counts), hashes.view(np.uint64))

    def move_to_owners(self, comm: Communicator) -> Rows:
        """Equal rows go to one rank: its hashes are a range, and those of later ranks are larger."""
        owners = (self.hashes >> np.uint64(32)) * np.uint64(comm.size) >> np.uint64(32)
        return self.move(comm, np.bincount(owners.astype(np.int64), minlength=comm.size).tolist())

    def balance(self, comm: Communicator) -> Rows:
        """As many rows on each rank, or one more, in the same order over the ranks."""
        sizes = allgather(comm, np.int64(len(self)))[:, 0].tolist()
        before, whole = sum(sizes[: comm.rank]), sum(sizes)
        ends = np.array([whole * rank // comm.size - before for rank in range(comm.size + 1)])
        return self.move(comm, np.diff(ends.clip(0, len(self))).tolist())


def _joined(parts: Sequence[Rows], position: int) -> Codes:
    columns = [part.columns[position] for part in parts]
    return columns[0] if len(columns) == 1 else np.concatenate(columns)


def _all_equal(parts: Sequence[Rows], left: Int64s, right: Int64s) -> bool:
    """Whether each row on the left has the codes of the one on the right."""
    for position in range(len(parts[0].columns)):
        column = _joined(parts, position)
        if not np.array_equal(column[left], column[right]):
            return False
    return True


def _by_codes(
    parts: Sequence[Rows], hashes: Hashes, order: Int64s, again: npt.NDArray[np.bool_]
) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """The same order and repetitions for rows that differ and share a hash: one pair in 2^64."""
    shared = np.flatnonzero(np.concatenate([again, [False]]) | np.concatenate([[False], again]))
    rows = order[shared]
    columns = [_joined(parts, position)[rows] for position in range(len(parts[0].columns))]
    sort = np.lexsort([*columns[::-1], hashes[rows]])
    order, again = order.copy(), again.copy()
    order[shared] = rows[sort]
    equal = hashes[rows[sort]][1:] == hashes[rows[sort]][:-1]
    for column in columns:
        equal &= column[sort][1:] == column[sort][:-1]
    # Shared rows that are not side by side in the order have different hashes.
    beside = np.diff(shared) == 1
    again[shared[:-1][beside]] = equal[beside]
    return order, again
