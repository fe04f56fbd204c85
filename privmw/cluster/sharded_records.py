"""Records on several ranks: each rank counts its part, and only rank 0 receives the sums.

Counts of private records are sent from each rank to rank 0 and to no other, as exact integers, and are erased
on their way. Only public values are broadcast or compared: paths, footers, domains, the number of records.
This room does not decide who may count; it draws nothing and releases nothing.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from reprlib import repr as _short

import numpy as np

from privmw.data.domain import Domain
from privmw.data.records import Records, check_domain_and_privacy
from privmw.data.table import Table
from privmw.data.workload import Workload, check_workload
from privmw.io import files
from privmw.io.scan import Scan
from privmw.kernels.arrays import Int64s
from privmw.ranks import Communicator, allgather, check_same, on_every_rank, on_root, sum_over_ranks
from privmw.secrecy import erased_on_failure, erasing, sealed

Path = str | os.PathLike[str]
Group = tuple[str, int, int]  # a file, the index of a row group in it, its number of rows

BLOCK = 2**20  # cells of one gather, whose counts rank 0 holds from every rank


class ShardedRecords(Records):
    """The records of all ranks, made by all of them together: `part` has this rank's, or is None.

    >>> from privmw.ranks import ALONE
    >>> domain = Domain({"age": 10, "sex": ["F", "M"]})
    >>> table = Table.from_codes([[3, 0], [9, 1], [3, 1]], domain, private=True)
    >>> records = ShardedRecords(table, ALONE)
    >>> records
    ShardedRecords(3 rows x 2 attributes on 1 rank, private)
    >>> records.counts(Workload(domain, [("sex",)]))
    array([1, 2])
    """

    __slots__ = ("__weakref__", "_comm", "_domain", "_n", "_part", "_private")

    @sealed
    def __init__(self, part: Records | None, comm: Communicator) -> None:
        on_every_rank(comm, lambda: _check_part(part))
        holders = np.flatnonzero(allgather(comm, np.int64(part is not None)))
        if len(holders) == 0:
            raise ValueError("records (none) must lie on at least one rank")
        header = "" if part is None else json.dumps([part.domain.to_json(), part.private])
        domain, private = json.loads(_from_rank(comm, int(holders[0]), header))
        check_same(comm, "domain", domain if part is None else part.domain.to_json())
        check_same(comm, "private", str(private if part is None else part.private))
        self._domain = Domain.from_json(domain) if part is None else part.domain
        self._private: bool = private
        self._part = part
        self._comm = comm
        self._n = sum_over_ranks(comm, 0 if part is None else part.n)

    @classmethod
    @sealed
    def from_parquet(
        cls, paths: Path | Sequence[Path], domain: Domain, comm: Communicator, *, private: bool = False
    ) -> ShardedRecords:
        """The records of a parquet file, of a folder of them, or of several such paths.

        Each rank reads some of the row groups, about equally many rows on each, once now to check every
        value, as `scan_table` does.
        """
        checked_paths = on_every_rank(comm, lambda: _check_arguments(paths, domain, private))
        check_same(comm, "paths", json.dumps(checked_paths))
        check_same(comm, "domain", domain.to_json())
        check_same(comm, "private", str(private))
        groups = on_root(comm, lambda: _row_groups(checked_paths, private))
        share = _share(groups, comm.rank, comm.size)
        if not groups and comm.rank == 0:  # then rank 0 has an empty table, and the others none
            return cls(on_every_rank(comm, lambda: _empty(domain, private)), comm)
        return cls(on_every_rank(comm, lambda: _scan(share, domain, private)), comm)

    @property
    def comm(self) -> Communicator:
        """The ranks that hold the records."""
        return self._comm

    @property
    def domain(self) -> Domain:
        """The domain that every code lies in."""
        return self._domain

    @property
    def n(self) -> int:
        """The number of records on all ranks. Neighbouring tables replace one record, so this is public."""
        return self._n

    @property
    def private(self) -> bool:
        """Whether the records are private: then nothing about their values is shown."""
        return self._private

    def batches(self) -> Iterator[Table]:
        """The records of this rank in order."""
        if self._part is not None:
            yield from self._part.batches()

    @sealed
    def counts(self, workload: Workload) -> Int64s:
        """On rank 0, the exact counts over all ranks of a workload's cells; zeros elsewhere.

        A collective call: all ranks make it. The counts of a rank are erased once they are sent.
        """
        on_every_rank(self._comm, lambda: check_workload(workload, self._domain, "records"))
        check_same(self._comm, "workload", workload.fingerprint())
        total = np.zeros(workload.cells, np.int64)
        part = self._part
        with erased_on_failure(total), erasing() as erased:
            counts_here = erased(np.zeros_like(total))
            on_every_rank(
                self._comm, lambda: None if part is None else _move(part.counts(workload), counts_here)
            )
            for start in range(0, workload.cells, BLOCK):
                for counts in self._comm.gather(counts_here[start : start + BLOCK]) or ():
                    _move(counts, total[start : start + BLOCK])
        return total

    def send_counts(self, workload: Workload) -> None:
        """On a rank other than 0, while rank 0 calls `counts`: send it this rank's counts, and erase them."""
        self.counts(workload)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("records of several ranks must not be pickled")

    def __repr__(self) -> str:
        kind = "private" if self._private else "public"
        ranks = "1 rank" if self._comm.size == 1 else f"{self._comm.size} ranks"
        return f"ShardedRecords({self._n} rows x {len(self._domain)} attributes on {ranks}, {kind})"


def _move(counts: Int64s, total: Int64s) -> None:
    """Add counts to a total and erase them: freed memory can reappear in an np.empty."""
    total += counts
    counts.fill(0)


def _check_part(part: object) -> None:
    if part is not None and not isinstance(part, Records):
        raise TypeError(f"part ({type(part).__name__}) must be a Table, or None where a rank has no records")
    if part is not None and part.comm.size > 1:
        raise ValueError("part must be the records of one rank: these are sharded already")


def _from_rank(comm: Communicator, rank: int, text: str) -> str:
    """A broadcast from any rank: its public text, on every rank."""
    sent = np.frombuffer(text.encode(), np.uint8) if comm.rank == rank else np.empty(0, np.uint8)
    return comm.alltoallv(np.tile(sent, comm.size), [len(sent)] * comm.size).tobytes().decode()


def _check_arguments(paths: object, domain: object, private: object) -> list[str]:
    """The paths as a list; each must exist on this rank."""
    check_domain_and_privacy(domain, private)
    if not isinstance(paths, str | os.PathLike | Sequence) or isinstance(paths, bytes):
        raise TypeError(f"paths ({_short(paths)}) must be a path or a list of paths")
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    if len(listed) == 0:
        raise ValueError("paths (none) must name at least one parquet file")
    return [files.checked_path(path) for path in listed]


def _row_groups(paths: list[str], private: bool) -> list[Group]:
    """Every row group that has rows, in the order of the files."""
    names = [file for path in paths for file in files.files_of(path)]
    if repeated := [file for file, times in Counter(names).items() if times > 1]:
        raise ValueError(f"{repeated[0]} must be named only once")
    groups = [
        (file, group, rows)
        for file in names
        for group, rows in enumerate(files.rows_of_groups(file, private=private))
        if rows
    ]
    if not groups and not private:
        raise ValueError(f"{paths[0]}: a table must have at least one row")
    return groups


def _share(groups: list[Group], rank: int, size: int) -> list[Group]:
    """The row groups of one rank: those whose middle row lies in the rank's part of all rows."""
    ends = list(accumulate(rows for _, _, rows in groups))
    owners = [(2 * end - group[2]) * size // (2 * ends[-1]) for end, group in zip(ends, groups, strict=True)]
    return [group for group, owner in zip(groups, owners, strict=True) if owner == rank]


def _empty(domain: Domain, private: bool) -> Table:
    return Table(dict.fromkeys(domain.names, ()), domain, private=private)


def _scan(share: list[Group], domain: Domain, private: bool) -> Scan | None:
    """The scan of a rank's row groups."""
    if not share:
        return None
    groups: dict[str, list[int]] = {}
    for file, group, _ in share:
        groups.setdefault(file, []).append(group)
    scan = Scan.of_groups(list(groups.items()), domain, private=private)
    if scan.n != sum(rows for _, _, rows in share):
        raise ValueError(f"{scan.path} must hold the rows that rank 0 finds in it")
    return scan
