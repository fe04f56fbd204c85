"""Records on several ranks: each rank counts its part, and only rank 0 receives the sums.

Counts of private records are sent from each rank to rank 0 only, as exact integers, and erased after sending.
With units, each hash of an id is sent to the rank that owns it, among those with private records, which
decides which of the records enter. Only public values are broadcast or compared: paths, footers, domains, the
number of records. Nothing is drawn or released here.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain
from privmw.data.records import Records, check_domain_and_privacy
from privmw.data.row_hash import Hashes
from privmw.data.table import Table
from privmw.data.unit import RECORD, checked_unit, entering, id_hashes
from privmw.data.workload import Workload, check_workload
from privmw.io import files
from privmw.io.scan import Scan
from privmw.kernels.arrays import Bools, Int64s
from privmw.ranks import Communicator, allgather, check_same, on_every_rank, on_root, sum_over_ranks
from privmw.secrecy import erased_on_failure, erasing, expect, sealed

Path = str | os.PathLike[str]
Group = tuple[str, int, int]  # a file, the index of a row group in it, its number of rows

CELLS_PER_GATHER = 2**20  # whose counts rank 0 receives from every rank at once


class ShardedRecords(Records):
    """The records of all ranks; `part` has this rank's, or is None. Creating one is collective.

    >>> from privmw.ranks import ALONE
    >>> domain = Domain({"age": 10, "sex": ["F", "M"]})
    >>> table = Table.from_codes([[3, 0], [9, 1], [3, 1]], domain, private=True)
    >>> records = ShardedRecords(table, ALONE)
    >>> records
    ShardedRecords(3 rows x 2 attributes on 1 rank, private)
    >>> records.counts(Workload(domain, [("sex",)]))
    array([1, 2])
    """

    __slots__ = ("__weakref__", "_at_most", "_comm", "_domain", "_n", "_part", "_private", "_unit")

    @sealed
    def __init__(self, part: Records | None, comm: Communicator) -> None:
        on_every_rank(comm, lambda: _check_part(part, comm.size))
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
        self._unit, self._at_most = (RECORD, 1) if part is None else (part.unit, part.at_most)
        self._n = sum_over_ranks(comm, 0 if part is None else part.n)

    @classmethod
    @sealed
    def from_parquet(
        cls,
        paths: Path | Sequence[Path],
        domain: Domain,
        comm: Communicator,
        *,
        private: bool,
        unit: str | None = None,
        at_most: int | None = None,
    ) -> ShardedRecords:
        """The records of a parquet file, of a folder of them, or of several such paths.

        Each rank reads some of the row groups, about equally many rows on each, once now to check every
        value, as `scan_table` does. unit and at_most: as for `read_table`, and the same records enter; each
        rank needs 20 to 50 bytes a record for it.
        """
        checked_paths = on_every_rank(comm, lambda: _check_arguments(paths, domain, private))
        name, most = on_every_rank(comm, lambda: checked_unit(unit, at_most, domain, private))
        check_same(comm, "paths", json.dumps(checked_paths))
        check_same(comm, "domain", domain.to_json())
        check_same(comm, "private", str(private))
        check_same(comm, "unit and at_most", f"{name} {most}")
        groups = on_root(comm, lambda: _row_groups(checked_paths, private))
        share = _share(groups, comm.rank, comm.size)

        def read() -> tuple[Records | None, Hashes]:
            if not groups and comm.rank == 0:  # then rank 0 has an empty table, and the others none
                return _empty(domain, private), np.zeros(0, np.uint64)
            return _scan(share, domain, private, name, comm.size)

        part, hashes = on_every_rank(comm, read)
        records = cls(part, comm)
        return records if name == RECORD else records._cap(hashes, name, most)

    @sealed
    def capped(self, ids: npt.ArrayLike, *, unit: str, at_most: int) -> ShardedRecords:
        """Keep at most `at_most` records of each unit: `Table.capped` over all ranks. Collective.

        ids: one for each record of this rank, none on a rank without records. The records count as one
        table, those of rank 0 first.

        >>> from privmw.ranks import ALONE
        >>> table = Table.from_codes([[3], [9], [3]], Domain({"age": 10}), private=True)
        >>> ShardedRecords(table, ALONE).capped([1, 1, 1], unit="household", at_most=2)
        ShardedRecords(2 rows x 1 attributes on 1 rank, private, at most 2 of a household)
        """
        name, most = on_every_rank(
            self._comm, lambda: checked_unit(unit, at_most, self._domain, self._private)
        )
        check_same(self._comm, "unit and at_most", f"{name} {most}")
        hashes = on_every_rank(self._comm, lambda: self._hashes(ids, name))
        copy = object.__new__(ShardedRecords)
        for slot in ("_comm", "_domain", "_n", "_part", "_private"):
            setattr(copy, slot, getattr(self, slot))
        return copy._cap(hashes, name, most)

    def _hashes(self, ids: npt.ArrayLike, unit: str) -> Hashes:
        """The checked ids of this rank's records."""
        if unit == RECORD:
            raise TypeError("unit and at_most must be given")
        if self._unit != RECORD:
            raise ValueError(f"records (at most {self._at_most} of a {self._unit}) must be capped only once")
        if self._part is None:
            return np.zeros(0, np.uint64)
        expect(
            "part", self._part, Table, "a Table: ShardedRecords.from_parquet takes a unit itself", quote=False
        )
        hashes = id_hashes(ids)
        if len(hashes) != self._part.n:
            raise ValueError(
                f"ids ({len(hashes)}) must be one for each of this rank's {self._part.n} records"
            )
        return hashes

    def _cap(self, hashes: Hashes, unit: str, at_most: int) -> ShardedRecords:
        """Cap the records of each unit, given the hashes of this rank's units."""
        enters = _entering_over_ranks(hashes, at_most, self._comm)
        if isinstance(self._part, Scan):
            self._part.cap(enters, unit, at_most)
        elif isinstance(self._part, Table):
            self._part = self._part._entering(enters, unit, at_most) if enters.any() else None
        self._unit, self._at_most = unit, at_most
        self._n = sum_over_ranks(self._comm, 0 if self._part is None else self._part.n)
        return self

    def batches(self) -> Iterator[Table]:
        """The records of this rank in order."""
        if self._part is not None:
            yield from self._part.batches()

    @property
    def trace_names(self) -> tuple[str, ...]:
        """The columns whose traces this rank's records have."""
        return () if self._part is None else self._part.trace_names

    def batches_with_traces(self) -> Iterator[Table]:
        """The records of this rank in order, with traces of their raw values."""
        if self._part is not None:
            yield from self._part.batches_with_traces()

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
            for start in range(0, workload.cells, CELLS_PER_GATHER):
                for counts in self._comm.gather(counts_here[start : start + CELLS_PER_GATHER]) or ():
                    _move(counts, total[start : start + CELLS_PER_GATHER])
        return total

    def send_counts(self, workload: Workload) -> None:
        """On a rank other than 0, while rank 0 calls `counts`: send it this rank's counts, and erase them."""
        self.counts(workload)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("records of several ranks must not be pickled")

    def __repr__(self) -> str:
        ranks = "1 rank" if self._comm.size == 1 else f"{self._comm.size} ranks"
        return f"ShardedRecords({self._n} rows x {len(self._domain)} attributes on {ranks}, {self._kind})"


def _move(counts: Int64s, total: Int64s) -> None:
    """Add counts to a total and erase them: freed memory can reappear in an np.empty."""
    total += counts
    counts.fill(0)


def _entering_over_ranks(hashes: Hashes, at_most: int, comm: Communicator) -> Bools:
    """Which of this rank's records enter, as if those of all ranks were one table in rank order.

    One rank owns a hash, and receives it from every rank in the order of the table. Only ranks that have
    records own any.
    """
    holders = np.flatnonzero(allgather(comm, np.int64(len(hashes) > 0))[:, 0])
    # Bits that `entering` does not sort by.
    owners = holders[((hashes >> np.uint64(24)) % np.uint64(len(holders))).astype(np.intp)]
    order = np.argsort(owners, kind="stable")
    sent = np.bincount(owners, minlength=comm.size).tolist()
    received = comm.alltoallv(np.array(sent, np.int64), [1] * comm.size).tolist()
    owned = comm.alltoallv(hashes[order].view(np.int64), sent)
    answers = entering(owned.view(np.uint64), at_most)
    owned.fill(0)
    enters = np.empty(len(hashes), bool)
    enters[order] = comm.alltoallv(answers.view(np.uint8), received).view(bool)
    return enters


def _check_part(part: Any, ranks: int) -> None:
    expect("part", part, Records | None, "a Table, or None where a rank has no records", quote=False)
    if part is not None and part.comm.size > 1:
        raise ValueError("part must be the records of one rank: these are sharded already")
    if part is not None and part.unit != RECORD and ranks > 1:
        raise ValueError(
            f"part must not be capped: records of one {part.unit} may lie on several ranks. "
            "ShardedRecords.capped limits all of them together"
        )


def _from_rank(comm: Communicator, rank: int, text: str) -> str:
    """A broadcast from any rank: its public text, on every rank."""
    sent = np.frombuffer(text.encode(), np.uint8) if comm.rank == rank else np.empty(0, np.uint8)
    return comm.alltoallv(np.tile(sent, comm.size), [len(sent)] * comm.size).tobytes().decode()


def _check_arguments(paths: Any, domain: object, private: object) -> list[str]:
    """The paths as a list; each must exist on this rank."""
    check_domain_and_privacy(domain, private)
    expect(
        "paths",
        paths,
        isinstance(paths, str | os.PathLike | Sequence) and not isinstance(paths, bytes),
        "a path or a list of paths",
    )
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    if len(listed) == 0:
        raise ValueError("paths (none) must name at least one parquet file")
    return [files.checked_path(path) for path in listed]


def _row_groups(paths: list[str], private: bool) -> list[Group]:
    """Every non-empty row group, in the order of the files."""
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


def _scan(
    share: list[Group], domain: Domain, private: bool, unit: str, ranks: int
) -> tuple[Scan | None, Hashes]:
    """The scan of a rank's row groups, and the hashes of their records' units."""
    if not share:
        return None, np.zeros(0, np.uint64)
    groups: dict[str, list[int]] = {}
    for file, group, _ in share:
        groups.setdefault(file, []).append(group)
    scan, hashes = Scan.of_units(list(groups.items()), domain, private=private, unit=unit, ranks=ranks)
    if scan.n != sum(rows for _, _, rows in share):
        raise ValueError(f"{scan.path} must hold the rows that rank 0 finds in it")
    return scan, hashes
