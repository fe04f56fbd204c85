"""Records that lie on several ranks: each counts its own part, and rank 0 alone learns the sums.

Counts of private records pass from a rank to rank 0 and to nobody else, as exact integers, and are erased
where they came by. What is broadcast or compared is public: paths, footers, domains, how many records there
are. Who may ask for counts, this room does not decide; it draws nothing and releases nothing.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from reprlib import repr as _short

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain
from privmw.data.records import Records
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.io import files
from privmw.io.scan import Scan
from privmw.ranks import Communicator, allgather, check_same, on_every_rank, on_root, sum_over_ranks

Int64s = npt.NDArray[np.int64]
Path = str | os.PathLike[str]
Group = tuple[str, int, int]  # a file, the number of a row group in it, its rows

BLOCK = 2**20  # cells whose counts rank 0 holds at once from every rank


class ShardedRecords(Records):
    """The records of all ranks, which make it together: `own` is this one's part, or None if it has none.

    >>> from privmw.ranks import ALONE
    >>> domain = Domain({"age": 10, "sex": ["F", "M"]})
    >>> table = Table.from_codes([[3, 0], [9, 1], [3, 1]], domain, private=True)
    >>> records = ShardedRecords(table, ALONE)
    >>> records
    ShardedRecords(3 rows x 2 attributes on 1 rank, private)
    >>> records.counts(Workload(domain, [("sex",)]))
    array([1, 2])
    """

    __slots__ = ("__weakref__", "_comm", "_domain", "_n", "_own", "_private")

    def __init__(self, own: Records | None, comm: Communicator) -> None:
        on_every_rank(comm, lambda: _check_own(own))
        holders = np.flatnonzero(allgather(comm, np.int64(own is not None)))
        if len(holders) == 0:
            raise ValueError("records (none) must lie on at least one rank")
        known = "" if own is None else json.dumps([own.domain.to_json(), own.private])
        domain, private = json.loads(_from_rank(comm, int(holders[0]), known))
        check_same(comm, "domain", domain if own is None else own.domain.to_json())
        check_same(comm, "private", str(private if own is None else own.private))
        self._domain = Domain.from_json(domain) if own is None else own.domain
        self._private: bool = private
        self._own = own
        self._comm = comm
        self._n = sum_over_ranks(comm, 0 if own is None else own.n)

    @classmethod
    def from_parquet(
        cls, paths: Path | Sequence[Path], domain: Domain, comm: Communicator, *, private: bool = False
    ) -> ShardedRecords:
        """The records of a parquet file, of a folder of them, or of several such paths.

        Each rank reads row groups of its own, about as many rows on each, and reads them once now to check
        every value, as `scan_table` does.
        """
        named = on_every_rank(comm, lambda: _checked(paths, domain, private))
        check_same(comm, "paths", json.dumps(named))
        check_same(comm, "domain", domain.to_json())
        check_same(comm, "private", str(private))
        groups = on_root(comm, lambda: _listed(named, private))
        share = _share(groups, comm.rank, comm.size)
        return cls(on_every_rank(comm, lambda: _opened(share, domain, private)), comm)

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
        """How many records all ranks have. Neighbouring tables replace one record, so this is public."""
        return self._n

    @property
    def private(self) -> bool:
        """Whether the records are private: then nothing about their values is shown."""
        return self._private

    def batches(self) -> Iterator[Table]:
        """The own records in order."""
        if self._own is not None:
            yield from self._own.batches()

    def counts(self, workload: Workload) -> Int64s:
        """On rank 0, the exact counts over all ranks of a workload's cells; zeros elsewhere.

        All ranks ask together. A rank's own counts are erased once they are sent.
        """
        on_every_rank(self._comm, lambda: _check_workload(workload, self._domain))
        check_same(self._comm, "workload", workload.fingerprint())
        counted = np.zeros(workload.cells, np.int64)
        own = np.zeros_like(counted)
        records = self._own
        try:
            on_every_rank(
                self._comm, lambda: None if records is None else _take(records.counts(workload), own)
            )
            for start in range(0, workload.cells, BLOCK):
                for part in self._comm.gather(own[start : start + BLOCK]) or ():
                    _take(part, counted[start : start + BLOCK])
        finally:
            own.fill(0)
        return counted

    def send_counts(self, workload: Workload) -> None:
        """On a rank other than 0, while rank 0 calls `counts`: send it this rank's counts, and erase them."""
        self.counts(workload)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("records of several ranks must not be pickled")

    def __repr__(self) -> str:
        kind = "private" if self._private else "public"
        ranks = "1 rank" if self._comm.size == 1 else f"{self._comm.size} ranks"
        return f"ShardedRecords({self._n} rows x {len(self._domain)} attributes on {ranks}, {kind})"


def _take(part: Int64s, into: Int64s) -> None:
    into += part
    part.fill(0)  # private, and freed memory returns in someone's np.empty


def _check_own(own: object) -> None:
    if own is not None and not isinstance(own, Records):
        raise TypeError(f"own ({type(own).__name__}) must be a Table, or None where a rank has no records")
    if own is not None and own.comm.size > 1:
        raise ValueError("own must be the records of one rank: these are shared out already")


def _check_workload(workload: object, domain: Domain) -> None:
    if not isinstance(workload, Workload):
        raise TypeError(f"workload ({_short(workload)}) must be a Workload")
    if workload.domain != domain:
        raise ValueError(f"workload ({workload!r}) must be on the domain of the records")


def _from_rank(comm: Communicator, rank: int, text: str) -> str:
    """The public text of one rank, on every rank."""
    sent = np.frombuffer(text.encode(), np.uint8) if comm.rank == rank else np.empty(0, np.uint8)
    return comm.alltoallv(np.tile(sent, comm.size), [len(sent)] * comm.size).tobytes().decode()


def _checked(paths: object, domain: object, private: object) -> list[str]:
    """The paths as a list, each of which names something here."""
    if not isinstance(domain, Domain):
        raise TypeError(f"domain ({type(domain).__name__}) must be a Domain")
    if not isinstance(private, bool):
        raise TypeError("private must be True or False")
    if not isinstance(paths, str | os.PathLike | Sequence) or isinstance(paths, bytes):
        raise TypeError(f"paths ({_short(paths)}) must be a path or a list of paths")
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    if len(given) == 0:
        raise ValueError("paths (none) must name at least one parquet file")
    return [files.checked_path(path) for path in given]


def _listed(paths: list[str], private: bool) -> list[Group]:
    """Every row group that has rows, in the order of the files."""
    found = [file for path in paths for file in files.files_of(path)]
    if twice := [file for file, times in Counter(found).items() if times > 1]:
        raise ValueError(f"{twice[0]} must be named only once")
    groups = [
        (file, group, rows)
        for file in found
        for group, rows in enumerate(files.rows_of_groups(file, private=private))
        if rows
    ]
    if not groups:
        raise ValueError(f"{paths[0]}: a table must have at least one row")
    return groups


def _share(groups: list[Group], rank: int, size: int) -> list[Group]:
    """The groups of one rank: those whose middle lies in its part of all rows."""
    ends = list(accumulate(rows for _, _, rows in groups))
    owners = [(2 * end - group[2]) * size // (2 * ends[-1]) for end, group in zip(ends, groups, strict=True)]
    return [group for group, owner in zip(groups, owners, strict=True) if owner == rank]


def _opened(share: list[Group], domain: Domain, private: bool) -> Scan | None:
    if not share:
        return None
    groups: dict[str, list[int]] = {}
    for file, group, _ in share:
        groups.setdefault(file, []).append(group)
    scan = Scan.of_groups(list(groups.items()), domain, private=private)
    if scan.n != sum(rows for _, _, rows in share):
        raise ValueError(f"{scan.path} must hold the rows that rank 0 finds in it")
    return scan
