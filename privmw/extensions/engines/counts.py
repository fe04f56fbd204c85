"""Counts: the exact counts of a workload's cells, computed where the private records are.

Accepted in place of a private table: a curator copies them, and erases its copy. They are private: no repr,
message or pickle shows a count, and files are readable by their owner only (mode 0600).
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain
from privmw.data.records import Records
from privmw.data.unit import MOST_RECORDS, RECORD, checked_unit
from privmw.data.workload import Workload, check_workload
from privmw.kernels.arrays import Int64s
from privmw.kernels.checks import check_integer
from privmw.release.file import explained, read_archive, read_array, write_archive, write_array
from privmw.secrecy import erased_on_failure, expect, sealed

if TYPE_CHECKING:
    from privmw.data.table import Table
    from privmw.extensions.engines.statements import Connection, Statements

FORM, VERSION = "privmw private counts", 1


class Counts(Records):
    """The counts of every cell of a workload, in its order, of n records on its domain.

    counts: non-negative integers that add up to n in each marginal. unit, at_most: the unit of protection, if
    not a record, and the largest number of records counted per unit, which the engine has ensured.

    >>> from privmw import Domain, Workload
    >>> workload = Workload(Domain({"age": 3, "sex": 2}), [("age", "sex")])
    >>> Counts(workload, [4, 0, 1, 2, 0, 3], n=10)
    Counts(10 records, 6 cells of 1 marginal, private)
    >>> Counts(workload, [4, 0, 1, 2, 0, 3], n=11)
    Traceback (most recent call last):
    ValueError: counts must add up to n in each marginal; in ('age', 'sex') they do not
    """

    __slots__ = ("__counts", "__weakref__", "_at_most", "_n", "_unit", "_workload")

    @sealed
    def __init__(
        self,
        workload: Workload,
        counts: npt.ArrayLike,
        *,
        n: int,
        unit: str | None = None,
        at_most: int | None = None,
    ) -> None:
        expect("workload", workload, Workload, "a Workload")
        self._workload = workload
        self._n = check_integer("n", n, 0, MOST_RECORDS)
        self._unit, self._at_most = checked_unit(unit, at_most, workload.domain, True)
        array = np.asarray(counts)
        right = array.ndim == 1 and array.dtype.kind in "iu"
        expect("counts", array, right, "a 1-D array of integers", quote=False)
        if len(array) != workload.cells:
            raise ValueError(f"counts ({len(array)}) must be one for each of the {workload.cells} cells")
        self.__counts: Int64s = array.astype(np.int64)
        if len(array) and int(self.__counts.min()) < 0:
            raise ValueError("counts must not be negative")
        if len(workload):
            sums = np.add.reduceat(self.__counts, workload.offsets[:-1])
            wrong = np.flatnonzero(sums != self._n)
            if len(wrong):
                marginal = workload.marginal(int(wrong[0]))
                raise ValueError(f"counts must add up to n in each marginal; in {marginal} they do not")

    @classmethod
    @sealed
    def from_records(cls, records: Records, workload: Workload) -> Counts:
        """The counts of private records in memory or in a file.

        >>> from privmw import Domain, Table, Workload
        >>> table = Table.from_codes([[2, 0], [0, 1], [2, 0]], Domain({"age": 3, "sex": 2}), private=True)
        >>> Counts.from_records(table, Workload.all(table.domain, k=1))
        Counts(3 records, 5 cells of 2 marginals, private)
        """
        expect("records", records, Records, "a Table or a Scan", quote=False)
        unit, at_most = (None, None) if records.unit == RECORD else (records.unit, records.at_most)
        return cls(workload, records.counts(workload), n=records.n, unit=unit, at_most=at_most)

    @classmethod
    def from_sql(cls, connection: Connection, statements: Statements) -> Counts:
        """Run the statements of `engines.sql` on a DB-API cursor or a DuckDB connection, and read the counts.

        Raises for values outside the domain, naming the columns but no value. The table must not change
        meanwhile: run in one transaction if others write to it.
        """
        from privmw.extensions.engines.statements import counted  # which imports this module

        return counted(connection, statements)

    @property
    def domain(self) -> Domain:
        """The domain that the records were encoded on."""
        return self._workload.domain

    @property
    def workload(self) -> Workload:
        """The workload whose cells were counted."""
        return self._workload

    @property
    def private(self) -> bool:
        """Always True."""
        return True

    @property
    def has_records(self) -> bool:
        """False: there are counts only."""
        return False

    def check_counted(self, workload: Workload) -> None:
        """Raise unless every marginal of a workload was counted or lies inside one that was.

        >>> from privmw import Domain, Workload
        >>> domain = Domain({"age": 2, "sex": 2})
        >>> counts = Counts(Workload.all(domain, k=1), [1, 2, 0, 3], n=3)
        >>> counts.check_counted(Workload.all(domain, k=2))
        Traceback (most recent call last):
        ValueError: workload must lie in what was counted; marginal ('age', 'sex') does not
        """
        check_workload(workload, self.domain, "counts")
        if workload != self._workload:
            _hosts(self._workload, workload)

    def batches(self) -> Iterator[Table]:
        """Raises TypeError: there are counts only."""
        raise TypeError("counts must not be asked for records: they stayed where they were counted")

    @sealed
    def counts(self, workload: Workload) -> Int64s:
        """The counts of a workload's cells: of marginals that were counted, or lie inside one that was."""
        check_workload(workload, self.domain, "counts")
        counted, result = self._workload, np.empty(workload.cells, np.int64)
        if workload == counted:
            result[:] = self.__counts
            return result
        hosts = _hosts(counted, workload)
        with erased_on_failure(result):
            for j, host in enumerate(hosts):
                names = counted.marginal(host)
                summed = tuple(a for a, name in enumerate(names) if name not in workload.marginal(j))
                cells = self.__counts[counted.offsets[host] : counted.offsets[host + 1]]
                cells = cells.reshape(counted.shape(host))
                out = result[workload.offsets[j] : workload.offsets[j + 1]].reshape(workload.shape(j))
                cells.sum(axis=summed, out=out)
        return result

    @sealed
    def __add__(self, other: object) -> Counts:
        """The counts of two tables' records together, on one workload.

        >>> from privmw import Domain, Workload
        >>> workload = Workload(Domain({"sex": 2}), [("sex",)])
        >>> Counts(workload, [4, 1], n=5) + Counts(workload, [0, 3], n=3)
        Counts(8 records, 2 cells of 1 marginal, private)
        """
        if not isinstance(other, Counts):
            return NotImplemented
        if other._workload != self._workload:
            raise ValueError("counts must be of one workload to be added")
        if self._unit != RECORD or other._unit != RECORD:
            raise ValueError("counts must be added before they are capped: a unit may lie in several tables")
        return Counts(self._workload, self.__counts + other.__counts, n=self._n + other._n)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a file that `load` reads, whole or not at all. It is private: only its owner may read it."""
        about = {
            "domain": json.loads(self.domain.to_json()),
            "domain_sha256": self.domain.fingerprint(),
            "workload_sha256": self._workload.fingerprint(),
            "n": self._n,
            "unit": None if self._unit == RECORD else self._unit,
            "at_most": None if self._unit == RECORD else self._at_most,
        }
        members = [
            ("about.json", json.dumps(about, indent=2).encode()),
            ("attributes.npy", write_array(self._workload.attributes)),
            ("starts.npy", write_array(self._workload.starts)),
            ("counts.npy", write_array(self.__counts)),
        ]
        write_archive(path, members, form=FORM, version=VERSION, overwrite=overwrite, mode=0o600)

    @classmethod
    @sealed
    def load(cls, path: str | os.PathLike[str]) -> Counts:
        """Read a file that `save` wrote; raises if it is damaged, or readable by others."""
        if os.name == "posix" and isinstance(path, str | os.PathLike):
            mode = stat.S_IMODE(os.stat(path).st_mode)
            if mode & 0o077:
                name = os.fspath(path)
                raise ValueError(f"'{name}' (mode {mode:03o}) must be its owner's alone: chmod 600 {name}")
        members = read_archive(path, form=FORM, version=VERSION)
        with explained(path, FORM):
            about = json.loads(members["about.json"])
            domain = Domain.from_json(json.dumps(about["domain"]))
            flat = read_array(members["attributes.npy"], np.int32).tolist()
            starts = read_array(members["starts.npy"], np.int64).tolist()
            rows = [flat[start:end] for start, end in pairwise(starts)]
            workload = Workload(domain, [tuple(domain.names[a] for a in row) for row in rows])
            prints = (domain.fingerprint(), workload.fingerprint())
            if prints != (about["domain_sha256"], about["workload_sha256"]):
                raise ValueError("domain and workload must be those counted")
            counts = read_array(members["counts.npy"], np.int64)
            return cls(workload, counts, n=about["n"], unit=about["unit"], at_most=about["at_most"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        same = (self._workload, self._n, self._unit, self._at_most) == (
            other._workload,
            other._n,
            other._unit,
            other._at_most,
        )
        return same and np.array_equal(self.__counts, other.__counts)

    __hash__ = None  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("private counts must not be pickled or copied: save them")

    def __repr__(self) -> str:
        marginals = len(self._workload)
        return (
            f"Counts({self._n} records, {self._workload.cells} cells of {marginals} "
            f"marginal{'s' * (marginals != 1)}, {self._kind})"
        )


def _hosts(counted: Workload, workload: Workload) -> list[int]:
    """For each marginal of the workload, the smallest counted one that contains it."""
    sets = [frozenset(marginal) for marginal in counted]
    exact = {marginal: j for j, marginal in enumerate(sets)}
    cells = np.diff(counted.offsets)
    by_name: dict[str, set[int]] = {}
    for j, marginal in enumerate(sets):
        for name in marginal:
            by_name.setdefault(name, set()).add(j)
    hosts = []
    for names in workload:
        host = exact.get(frozenset(names))
        if host is None:
            containing = set.intersection(*(by_name.get(name, set()) for name in names))
            if not containing:
                raise ValueError(f"workload must lie in what was counted; marginal {names} does not")
            host = min(containing, key=lambda j: (int(cells[j]), j))
        hosts.append(host)
    return hosts
