"""Tables in files: parquet, csv, or a folder of parquet files, read batch by batch.

A scan reads its file once when it is opened, to check every value, so that nothing fails later because of a
value. Messages name the file; about a private file they give the column and the rule, and never pyarrow's
message, which can quote cells.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from reprlib import repr as _short
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from privmw.data.domain import Attribute, Domain
from privmw.data.records import Records, check_domain_and_privacy, known_part
from privmw.data.row_hash import Hashes
from privmw.data.table import Table
from privmw.data.unit import RECORD, checked_unit, entering
from privmw.data.workload import Workload, check_workload
from privmw.io import files
from privmw.io.extras import need
from privmw.io.forms import PLAIN, Forms, Tells, decide
from privmw.io.syntax import DETECT, Syntax
from privmw.kernels.arrays import Bools, Int64s, freeze
from privmw.secrecy import erased_on_failure, erasing, sealed

if TYPE_CHECKING:
    from privmw.io.lookup import SignedCodes

Say: TypeAlias = "Callable[[str], None]"
Read: TypeAlias = "tuple[str, Sequence[int] | None]"  # a path, and its row groups to read; None for all

BATCH = 2**18  # rows of a table, about
SNIFFED = 4  # batches of a text file that tell how its numbers and dates are written


class Scan(Records):
    """A table that stays in its file, if it is larger than memory: `scan_table` opens it.

    A file that changes after it was checked is refused. With a unit it keeps which records enter, a byte
    each, and no id.
    """

    __slots__ = (
        "__weakref__",
        "_at_most",
        "_domain",
        "_enters",
        "_for_release",
        "_forms",
        "_n",
        "_path",
        "_private",
        "_reads",
        "_stamps",
        "_syntax",
        "_unit",
    )

    @sealed
    def __init__(
        self,
        path: str | os.PathLike[str],
        domain: Domain,
        *,
        private: bool,
        unit: str | None = None,
        at_most: int | None = None,
        missing_ok: bool = False,
        syntax: Syntax | None = None,
        say: Say | None = None,
    ) -> None:
        path = files.checked_path(path)
        syntax = _checked_syntax(syntax)
        domain = _domain_of(path, domain, private, missing_ok, syntax)
        name, most = checked_unit(unit, at_most, domain, private)
        hashes = self._open([(path, None)], domain, private, name, syntax, most, say)
        if name != RECORD:
            self.cap(entering(hashes, most), name, most)

    @classmethod
    @sealed
    def of_groups(cls, groups: Sequence[tuple[str, Sequence[int]]], domain: Domain, *, private: bool) -> Scan:
        """The scan of some row groups of some parquet files: one rank's share of a table."""
        return cls.of_units(groups, domain, private=private, unit=RECORD)[0]

    @classmethod
    @sealed
    def of_units(
        cls, groups: Sequence[tuple[str, Sequence[int]]], domain: Domain, *, private: bool, unit: str
    ) -> tuple[Scan, Hashes]:
        """The same, not capped yet, and the hashes of the records' units, with which the ranks choose."""
        check_domain_and_privacy(domain, private)
        scan = object.__new__(cls)
        return scan, scan._open(groups, domain, private, unit)

    def _open(
        self,
        reads: Sequence[Read],
        domain: Domain,
        private: bool,
        unit: str,
        syntax: Syntax = DETECT,
        at_most: int = 1,
        say: Say | None = None,
    ) -> Hashes:
        """Read and check everything once; returns the hashes of the records' units, or none."""
        self._path = reads[0][0]
        self._reads = tuple(reads)
        self._domain = domain
        self._private = private
        self._for_release = private or all(_for_release(path) for path, _ in reads)
        self._stamps = [files.stamp(path) for path, _ in reads]
        self._unit, self._at_most = RECORD, 1
        self._enters: Bools | None = None
        self._n, parts = 0, []
        self._syntax = syntax
        found = [_forms(path, domain, private, unit, syntax, at_most) for path, _ in reads]
        self._forms = [forms for forms, _ in found]
        for codes, hashes in _codes(self._reads, domain, private, unit, syntax, self._forms):
            self._n += len(codes[0])
            parts.append(hashes)
        self._check_unchanged()
        if say is not None:
            for line in (line for _, lines in found for line in lines):
                say(line)
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def cap(self, enters: Bools, unit: str, at_most: int) -> None:
        """Let only the records enter where the mask is True, of which no unit has more than at_most."""
        self._unit, self._at_most = unit, at_most
        self._enters = enters
        self._n = int(np.count_nonzero(enters))

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
        """The number of rows that enter. Neighbouring tables have as many, so this is public."""
        return self._n

    @property
    def private(self) -> bool:
        """Whether the records are private: then nothing about their values is shown."""
        return self._private

    @property
    def unit(self) -> str:
        """What is protected: a record, or what a column such as "household" tells apart."""
        return self._unit

    @property
    def at_most(self) -> int:
        """How many records of a unit enter, at most."""
        return self._at_most

    @sealed
    def batches(self) -> Iterator[Table]:
        """All rows that enter, in order, as tables of about 2^18 rows."""
        self._check_unchanged()
        pending: list[list[SignedCodes]] = []
        rows = 0
        try:
            for codes in self._entering_codes():
                pending.append(codes)
                rows += len(codes[0])
                if rows >= BATCH:
                    yield self._table(pending)
                    pending, rows = [], 0
        except (TypeError, ValueError, OSError):
            self._check_unchanged()
            raise
        self._check_unchanged()
        if pending:
            yield self._table(pending)

    def _entering_codes(self) -> Iterator[list[SignedCodes]]:
        """The codes of the rows that enter, of every batch that has some."""
        first = 0
        reads, domain, private = self._reads, self._domain, self._private
        for codes, _ in _codes(reads, domain, private, syntax=self._syntax, forms=self._forms):
            last = first + len(codes[0])
            if self._enters is not None:
                enters = self._enters[first:last]
                if len(enters) != last - first:  # rows that were not there when units were counted
                    raise ValueError(f"{self._path} (changed since it was opened) must stay as it is")
                codes = _kept(codes, enters)
            first = last
            if len(codes[0]):
                yield codes

    def _table(self, batches: list[list[SignedCodes]]) -> Table:
        table = _table(batches, self._domain, self._private, self._unit, self._at_most)
        return table if self._for_release else table.not_for_release()

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
            return partial(Scan, private=False, syntax=self._syntax), (self._path, self._domain)
        return partial(Scan.of_groups, private=False), (self._reads, self._domain)

    def __repr__(self) -> str:
        return f"Scan({self._n} rows x {len(self._domain)} attributes of {_short(self._path)}, {self._kind})"


@sealed
def scan_table(
    path: str | os.PathLike[str],
    domain: Domain,
    *,
    private: bool,
    unit: str | None = None,
    at_most: int | None = None,
    missing_ok: bool = False,
    syntax: Syntax | None = None,
    say: Say | None = None,
) -> Scan:
    r"""Open a table that is too large for memory, to be counted or made into a support batch by batch.

    The arguments are those of `read_table`. The file is read once now, to check every value, and again for
    every count.

    >>> import pathlib, tempfile
    >>> domain = Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,sex,age\nAnna,F,31\nBo,M,4\n")
    ...     scan_table(path, domain, private=False).counts(Workload(domain, [("sex",)]))
    array([1, 1])
    """
    return Scan(
        path,
        domain,
        private=private,
        unit=unit,
        at_most=at_most,
        missing_ok=missing_ok,
        syntax=syntax,
        say=say,
    )


@sealed
def read_table(
    path: str | os.PathLike[str],
    domain: Domain,
    *,
    private: bool,
    unit: str | None = None,
    at_most: int | None = None,
    missing_ok: bool = False,
    syntax: Syntax | None = None,
    say: Say | None = None,
) -> Table:
    r"""The table in a file (parquet, csv, tsv, feather, JSON lines, xlsx), or in the files of a folder.

    Each attribute of the domain is read from the column of its name; other columns are ignored. A value
    becomes its code by `Attribute.code`; in csv, where everything is text, by `Attribute.parse`. Public
    files of a seeded release, which say that they are not for release, make a table that says so.

    unit: a column that is not in the domain, such as "household"; at most `at_most` of the records with the
    same value there enter, and a release protects them together. Its values are integers or text, none
    missing. Which records enter depends on no other value: see privmw/data/unit.py.

    missing_ok: a public file may lack columns of the domain; its table is then on the domain of those that it
    has, and `Support.from_table(table, domain=domain)` makes a support of it.

    syntax: how a text file is written, where detection should not decide: see `Syntax`. say: a function that
    is told what was detected, and how many columns of a private file are left out, one line each.

    >>> import pathlib, tempfile
    >>> domain = Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,sex,age\nAnna,F,31\nBo,M,4\n")
    ...     read_table(path, domain, private=False).codes().tolist()
    [[1, 0], [0, 1]]
    """
    path = files.checked_path(path)
    syntax = _checked_syntax(syntax)
    domain = _domain_of(path, domain, private, missing_ok, syntax)
    name, most = checked_unit(unit, at_most, domain, private)
    forms, lines = _forms(path, domain, private, name, syntax, most)
    read = list(_codes([(path, None)], domain, private, name, syntax, [forms]))
    batches = [codes for codes, _ in read]
    if name != RECORD and batches:
        hashes = np.concatenate([np.empty(0, np.uint64), *(part for _, part in read)])
        enters = entering(hashes, most)
        ends = np.cumsum([len(codes[0]) for codes in batches])[:-1]
        batches = [_kept(codes, mask) for codes, mask in zip(batches, np.split(enters, ends), strict=True)]
    table = _table(batches, domain, private, name, most)
    if say is not None:
        for line in lines:
            say(line)
    return table if private or _for_release(path) else table.not_for_release()


def _for_release(path: str) -> bool:
    """Whether no public file says that its records are not for release."""
    return all(files.about(file).get("for_release") is not False for file in files.files_of(path))


def _checked_syntax(syntax: Syntax | None) -> Syntax:
    if syntax is not None and not isinstance(syntax, Syntax):
        raise TypeError(f"syntax ({_short(syntax)}) must be a Syntax")
    return syntax or DETECT


def _domain_of(path: str, domain: Domain, private: bool, missing_ok: bool, syntax: Syntax) -> Domain:
    """The domain of a table: the one given, or, with missing_ok, of the columns that every file has."""
    check_domain_and_privacy(domain, private)
    if not missing_ok:
        return domain
    columns: list[set[object]] = [
        set(files.columns_of(file, private=private, syntax=syntax, names=domain.names)[0])
        for file in files.files_of(path)
    ]
    return known_part(path, domain, set.intersection(*columns), private=private)


def _kept(codes: list[SignedCodes], enters: Bools) -> list[SignedCodes]:
    """The codes of the rows that enter."""
    if enters.all():
        return codes
    rows = np.flatnonzero(enters)
    return [column.take(rows) for column in codes]


def _table(batches: list[list[SignedCodes]], domain: Domain, private: bool, unit: str, at_most: int) -> Table:
    """One table of several batches, which are emptied column by column to free memory."""
    columns = {}
    for name in domain.names:
        parts = [codes.pop(0) for codes in batches] or [np.empty(0, np.uint8)]
        columns[name] = freeze(parts[0] if len(parts) == 1 else np.concatenate(parts))
    table = Table(columns, domain, private=private)
    return table if unit == RECORD else table._entering(np.ones(table.n, bool), unit, at_most)


def _forms(
    path: str,
    domain: Domain,
    private: bool,
    unit: str,
    syntax: Syntax,
    at_most: int,
) -> tuple[Forms, list[str]]:
    """How the numbers and dates of a file are written, and lines on what is not as in most files.

    Only the first SNIFFED batches of a file are looked at. What comes later in another form is refused.
    """
    need("pyarrow", "read files", "io")
    names = domain.names if unit == RECORD else (*domain.names, unit)
    found, forms = files.files_of(path), PLAIN
    words: list[str] = []
    if files.is_text(path):
        tells = {
            a.name: Tells(a.name, **kinds) for a in domain.attributes if any((kinds := _kinds(a)).values())
        }
        for file in found if tells else []:
            batches = files.batches(file, list(tells), private=private, syntax=syntax)
            for batch in islice(batches, SNIFFED):
                for name, tell in tells.items():
                    tell.add(batch.column(name), domain[name].measured_in)
        laid_out = files.layouts_of(path, syntax, names, private=private)
        given, others = (syntax.decimal, syntax.dates), at_most if private else 0
        with files.naming(path):
            forms = decide(list(tells.values()), *given, commas=laid_out.commas, others=others)
        words = [*laid_out.words, *forms.words()]
    lines = [f"{path}: {', '.join(words)}"] if words else []
    if private:
        columns = files.columns_of(found[0], private=private, syntax=syntax, names=names)[0]
        lines += files.left_out(path, len(columns), len(set(names) & set(columns)))
    return forms, lines


def _kinds(attribute: Attribute) -> dict[str, bool]:
    """Whether the values of an attribute are numbers or dates, which can be written in several ways."""
    first: object = (attribute.edges or attribute.labels or (0,))[0]
    dates = isinstance(first, datetime.date)
    return {"numbers": not dates and not isinstance(first, str), "dates": dates}


def _codes(
    reads: Sequence[Read],
    domain: Domain,
    private: bool,
    unit: str = RECORD,
    syntax: Syntax = DETECT,
    forms: Sequence[Forms] = (),
) -> Iterator[tuple[list[SignedCodes], Hashes]]:
    """The codes of every batch and the hashes of its units, which are none without a unit.

    At the end of a path, an error about all its values that were refused.
    """
    need("pyarrow", "read files", "io")
    from privmw.io.encode import Encoder, check_all
    from privmw.io.unit_ids import UnitIds

    names = domain.names if unit == RECORD else (*domain.names, unit)
    none = np.zeros(0, np.uint64)
    for place, (path, groups) in enumerate(reads):
        text, written = files.is_text(path), forms[place] if forms else PLAIN
        encoders = [Encoder(a, private=private, text=text, forms=written) for a in domain.attributes]
        ids = None if unit == RECORD else UnitIds(unit)
        for file in files.files_of(path):
            for batch in files.batches(file, names, private=private, groups=groups, syntax=syntax):
                if batch.num_rows:
                    with files.naming(file):
                        codes = [encoder.codes(batch.column(encoder.attribute.name)) for encoder in encoders]
                        hashes = none if ids is None else ids.hashes(batch.column(ids.name))
                    yield codes, hashes
        # For a private table, not even the row groups of a bad value are named.
        some = f", row groups {groups[0]} to {groups[-1]}" if groups and not private else ""
        with files.naming(f"{path}{some}"):
            check_all(encoders)
            if ids is not None:
                ids.check()
            if encoders[0].rows == 0 and not private:
                raise ValueError("a table must have at least one row")
