"""Tables in files: parquet, csv, or a folder of parquet files, read batch by batch.

A scan reads its file once when it is opened, to check every value, so that nothing fails later because of a
value. Messages name the file; about a private file they give the column and the rule, and never pyarrow's
message, which can quote cells.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from reprlib import repr as _short
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from privmw.data.domain import Domain
from privmw.data.records import Records, check_domain_and_privacy
from privmw.data.table import Table
from privmw.data.workload import Workload, check_workload
from privmw.io import files
from privmw.io.extras import need
from privmw.kernels.arrays import Int64s, freeze
from privmw.secrecy import erased_on_failure, erasing, sealed

if TYPE_CHECKING:
    from privmw.io.lookup import SignedCodes

Read: TypeAlias = "tuple[str, Sequence[int] | None]"  # a path, and its row groups to read; None for all

BATCH = 2**18  # rows of a table, about


class Scan(Records):
    """A table that stays in its file, if it is larger than memory: `scan_table` opens it.

    A file that changes after it was checked is refused.
    """

    __slots__ = ("__weakref__", "_domain", "_n", "_path", "_private", "_reads", "_stamps")

    @sealed
    def __init__(self, path: str | os.PathLike[str], domain: Domain, *, private: bool = False) -> None:
        self._open([(files.checked_path(path), None)], domain, private)

    @classmethod
    @sealed
    def of_groups(
        cls, groups: Sequence[tuple[str, Sequence[int]]], domain: Domain, *, private: bool = False
    ) -> Scan:
        """The scan of some row groups of some parquet files: one rank's share of a table."""
        return object.__new__(cls)._open(groups, domain, private)

    def _open(self, reads: Sequence[Read], domain: Domain, private: bool) -> Scan:
        check_domain_and_privacy(domain, private)
        self._path = reads[0][0]
        self._reads = tuple(reads)
        self._domain = domain
        self._private = private
        self._stamps = [files.stamp(path) for path, _ in reads]
        self._n = sum(len(codes[0]) for codes in _codes(self._reads, domain, private))
        self._check_unchanged()
        return self

    @property
    def path(self) -> str:
        """The path of the file or folder; of several files, the first."""
        return self._path

    @property
    def domain(self) -> Domain:
        """The domain that every code lies in."""
        return self._domain

    @property
    def n(self) -> int:
        """The number of rows. Neighbouring tables replace one record, so this is public."""
        return self._n

    @property
    def private(self) -> bool:
        """Whether the records are private: then nothing about their values is shown."""
        return self._private

    @sealed
    def batches(self) -> Iterator[Table]:
        """All rows in order, as tables of about 2^18 rows."""
        self._check_unchanged()
        pending: list[list[SignedCodes]] = []
        rows = 0
        try:
            for codes in _codes(self._reads, self._domain, self._private):
                pending.append(codes)
                rows += len(codes[0])
                if rows >= BATCH:
                    yield _table(pending, self._domain, self._private)
                    pending, rows = [], 0
        except (TypeError, ValueError, OSError):
            self._check_unchanged()
            raise
        self._check_unchanged()
        if pending:
            yield _table(pending, self._domain, self._private)

    @sealed
    def counts(self, workload: Workload) -> Int64s:
        """The exact counts of a workload's cells, in workload order; those of a private table are private."""
        check_workload(workload, self._domain, "table")
        total = np.zeros(workload.cells, np.int64)
        with erased_on_failure(total):
            for batch in self.batches():
                with erasing() as erased:
                    total += erased(batch.counts(workload))
        return total

    def _check_unchanged(self) -> None:
        for (path, _), stamp in zip(self._reads, self._stamps, strict=True):
            if files.stamp(path) != stamp:
                raise ValueError(f"{path} (changed since it was opened) must stay as it is")

    def __reduce__(self) -> tuple[object, ...]:
        if self._private:
            raise TypeError("a private table must not be pickled")
        if self._reads[0][1] is None:
            return Scan, (self._path, self._domain)
        return Scan.of_groups, (self._reads, self._domain)

    def __repr__(self) -> str:
        kind = "private" if self._private else "public"
        return f"Scan({self._n} rows x {len(self._domain)} attributes of {_short(self._path)}, {kind})"


@sealed
def scan_table(path: str | os.PathLike[str], domain: Domain, *, private: bool = False) -> Scan:
    r"""Open a table that is too large for memory, to be counted or made into a support batch by batch.

    The arguments are those of `read_table`. The file is read once now, to check every value, and again for
    every count.

    >>> import pathlib, tempfile
    >>> domain = Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,sex,age\nAnna,F,31\nBo,M,4\n")
    ...     scan_table(path, domain).counts(Workload(domain, [("sex",)]))
    array([1, 1])
    """
    return Scan(path, domain, private=private)


@sealed
def read_table(path: str | os.PathLike[str], domain: Domain, *, private: bool = False) -> Table:
    r"""The table in a .parquet, .csv or .csv.gz file, or in the parquet files of a folder.

    Each attribute of the domain is read from the column of its name; other columns are ignored. A value
    becomes its code by `Attribute.code`; in csv, where everything is text, by `Attribute.parse`. Parquet
    files whose metadata say that they are not for release make a table that says so.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,sex,age\nAnna,F,31\nBo,M,4\n")
    ...     read_table(path, Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"]})).codes().tolist()
    [[1, 0], [0, 1]]
    """
    path = files.checked_path(path)
    check_domain_and_privacy(domain, private)
    table = _table(list(_codes([(path, None)], domain, private)), domain, private)
    marks = () if private else (files.about(file).get("for_release") for file in files.files_of(path))
    return table.not_for_release() if any(mark is False for mark in marks) else table


def _table(batches: list[list[SignedCodes]], domain: Domain, private: bool) -> Table:
    """One table of several batches, which are emptied column by column to free memory."""
    columns = {}
    for name in domain.names:
        parts = [codes.pop(0) for codes in batches] or [np.empty(0, np.uint8)]
        columns[name] = freeze(parts[0] if len(parts) == 1 else np.concatenate(parts))
    return Table(columns, domain, private=private)


def _codes(reads: Sequence[Read], domain: Domain, private: bool) -> Iterator[list[SignedCodes]]:
    """The codes of every batch; at the end of a path, an error about all its values that were refused."""
    need("pyarrow", "read files", "io")
    from privmw.io.encode import Encoder

    for path, groups in reads:
        text = files.is_csv(path)
        encoders = [Encoder(attribute, private=private, text=text) for attribute in domain.attributes]
        for file in files.files_of(path):
            for batch in files.batches(file, domain.names, private=private, groups=groups):
                if batch.num_rows:
                    with files.naming(file):
                        codes = [encoder.codes(batch.column(encoder.attribute.name)) for encoder in encoders]
                    yield codes
        # For a private table, not even the row groups of a bad value are named.
        some = f", row groups {groups[0]} to {groups[-1]}" if groups and not private else ""
        with files.naming(f"{path}{some}"):
            for encoder in encoders:
                encoder.check()
            if encoders[0].rows == 0 and not private:
                raise ValueError("a table must have at least one row")
