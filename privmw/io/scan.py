"""Tables in files: parquet, csv, or a folder of parquet files, read batch by batch.

A scan reads its whole file once when it is opened, so that every value is known to be good and nothing fails
later because of one. Messages name the file; about a private one they say the column and the rule, and
nothing that pyarrow said, which quotes cells.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from reprlib import repr as _short
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain
from privmw.data.records import Records
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.io import files
from privmw.io.extras import need
from privmw.kernels.arrays import freeze

if TYPE_CHECKING:
    from privmw.io.lookup import Codes

BATCH = 2**18  # rows of a table, about


class Scan(Records):
    """A table that stays in its file, for one larger than memory: `scan_table` opens it.

    What was checked must stay: a file that changes later is refused.
    """

    __slots__ = ("__weakref__", "_domain", "_n", "_path", "_private", "_reads", "_stamps")

    def __init__(self, path: str | os.PathLike[str], domain: Domain, *, private: bool = False) -> None:
        self._open([(files.checked_path(path), None)], domain, private)

    @classmethod
    def of_groups(
        cls, groups: Sequence[tuple[str, Sequence[int]]], domain: Domain, *, private: bool = False
    ) -> Scan:
        """Some row groups of some parquet files, file by file: one rank's share of a table."""
        return object.__new__(cls)._open(groups, domain, private)

    def _open(self, reads: Sequence[tuple[str, Sequence[int] | None]], domain: Domain, private: bool) -> Scan:
        _check_options(domain, private)
        self._path = reads[0][0]
        self._reads = tuple(reads)
        self._domain = domain
        self._private = private
        self._stamps = [files.stamp(path) for path, _ in reads]
        self._n = sum(len(codes[0]) for codes in self._codes())
        self._check_unchanged()
        return self

    def _codes(self) -> Iterator[list[Codes]]:
        for path, groups in self._reads:
            yield from _codes(path, self._domain, self._private, groups)

    @property
    def path(self) -> str:
        """The file, or folder, as it was named; of several files, the first."""
        return self._path

    @property
    def domain(self) -> Domain:
        """The domain that every code lies in."""
        return self._domain

    @property
    def n(self) -> int:
        """How many rows there are. Neighbouring tables replace one record, so this is public."""
        return self._n

    @property
    def private(self) -> bool:
        """Whether the records are private: then nothing about their values is shown."""
        return self._private

    def batches(self) -> Iterator[Table]:
        """All rows in order, as tables of about 2^18 rows."""
        self._check_unchanged()
        held: list[list[Codes]] = []
        rows = 0
        try:
            for codes in self._codes():
                held.append(codes)
                rows += len(codes[0])
                if rows >= BATCH:
                    yield _table(held, self._domain, self._private)
                    held, rows = [], 0
        except (TypeError, ValueError, OSError):
            self._check_unchanged()
            raise
        self._check_unchanged()
        if held:
            yield _table(held, self._domain, self._private)

    def counts(self, workload: Workload) -> npt.NDArray[np.int64]:
        """The exact counts of a workload's cells, in workload order; those of a private table are private."""
        if not isinstance(workload, Workload):
            raise TypeError(f"workload ({_short(workload)}) must be a Workload")
        total = np.zeros(workload.cells, np.int64)
        for batch in self.batches():
            part = batch.counts(workload)
            total += part
            part.fill(0)  # private, and freed memory returns in someone's np.empty
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


def scan_table(path: str | os.PathLike[str], domain: Domain, *, private: bool = False) -> Scan:
    r"""Open a table that is too large for memory: counted, or made into a support, batch by batch.

    Takes what `read_table` takes. The file is read once now, to check every value, and again whenever it is
    counted.

    >>> import pathlib, tempfile
    >>> domain = Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,sex,age\nAnna,F,31\nBo,M,4\n")
    ...     scan_table(path, domain).counts(Workload(domain, [("sex",)]))
    array([1, 1])
    """
    return Scan(path, domain, private=private)


def read_table(path: str | os.PathLike[str], domain: Domain, *, private: bool = False) -> Table:
    r"""The table in a .parquet, .csv or .csv.gz file, or in the parquet files of a folder.

    Each attribute of the domain is read from the column of its name; other columns are ignored. A value
    becomes its code by `Attribute.code`; in csv, where everything is text, by `Attribute.parse`.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,sex,age\nAnna,F,31\nBo,M,4\n")
    ...     read_table(path, Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"]})).codes().tolist()
    [[1, 0], [0, 1]]
    """
    path = files.checked_path(path)
    _check_options(domain, private)
    return _table(list(_codes(path, domain, private)), domain, private)


def _table(held: list[list[Codes]], domain: Domain, private: bool) -> Table:
    """One table of several batches, which are let go column by column."""
    columns = {}
    for name in domain.names:
        parts = [codes.pop(0) for codes in held]
        columns[name] = freeze(parts[0] if len(parts) == 1 else np.concatenate(parts))
    return Table(columns, domain, private=private)


def _codes(
    path: str, domain: Domain, private: bool, groups: Sequence[int] | None = None
) -> Iterator[list[Codes]]:
    """The codes of every batch; at the end, what was refused in all that was read is an error."""
    need("pyarrow", "read files", "io")
    from privmw.io.encode import Encoder

    text = files.is_csv(path)
    encoders = [Encoder(attribute, private=private, text=text) for attribute in domain.attributes]
    for file in files.files_of(path):
        for batch in files.batches(file, domain.names, private=private, groups=groups):
            if batch.num_rows:
                with _naming(file):
                    codes = [encoder.codes(batch.column(encoder.attribute.name)) for encoder in encoders]
                yield codes
    # Of a private table, not even where a bad value is.
    some = groups is not None and not private
    with _naming(f"{path}, row groups {groups[0]} to {groups[-1]}" if some and groups else path):
        for encoder in encoders:
            encoder.check()
        if encoders[0].rows == 0:
            raise ValueError("a table must have at least one row")


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{path}: {error}") from None


def _check_options(domain: Domain, private: bool) -> None:
    if not isinstance(domain, Domain):
        raise TypeError(f"domain ({type(domain).__name__}) must be a Domain")
    if not isinstance(private, bool):
        raise TypeError("private must be True or False")
