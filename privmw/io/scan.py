"""Tables in files: parquet, csv, or a folder of parquet files, read batch by batch.

A scan reads and encodes its file when it is opened, which checks every value, so that nothing fails later
because of a value. It keeps the codes if they fit in memory, and otherwise reads the file again for each use.
Messages name the file; about a private file they give the column and the rule, and never pyarrow's message,
which can quote cells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privmw.data.domain import Domain
from privmw.data.memory import available_memory
from privmw.data.records import Records, Traces, check_domain_and_privacy, known_part
from privmw.data.row_hash import Hashes
from privmw.data.syntax import PLAIN, Syntax, plain_for
from privmw.data.table import Table
from privmw.data.unit import RECORD, checked_unit, entering
from privmw.data.workload import Workload, check_workload
from privmw.io import files
from privmw.io.detect import in_words
from privmw.io.extras import need
from privmw.io.public_source import PublicSource
from privmw.io.traces import Traced, traced_columns, traces_of
from privmw.kernels.arrays import Bools, Int64s, freeze
from privmw.secrecy import erased_on_failure, erasing, expect, sealed, shown

if TYPE_CHECKING:
    from privmw.io.encode import SignedCodes

OnNote: TypeAlias = "Callable[[str], None]"
Encoded: TypeAlias = "tuple[list[SignedCodes], Traces]"  # one array of codes per attribute, and traces
Read: TypeAlias = "tuple[str, Sequence[int] | None]"  # a path, and its row groups to read; None for all

BATCH = 2**18  # approximate rows per table
KEPT = 0.25  # the maximum fraction of memory for the codes of scans on all ranks
_NONE: Traced = {}


class Scan(Records):
    """A table in a file that may be larger than memory; `scan_table` opens it.

    The file is read once if its codes fit in a quarter of the memory. This depends on the number of records,
    the columns and the domain, which are public, and on no value. A file that changes after it was checked is
    refused. With a unit, a mask of the records that enter is kept, and no ids.
    """

    __slots__ = (
        "__weakref__",
        "_at_most",
        "_detected",
        "_domain",
        "_enters",
        "_for_release",
        "_kept",
        "_n",
        "_path",
        "_private",
        "_reads",
        "_stamps",
        "_syntax",
        "_traced",
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
    ) -> None:
        path = files.checked_path(path)
        check_domain_and_privacy(domain, private)
        syntax, self._detected = _syntax(path, domain, private, syntax)
        domain = _domain_of(path, domain, private, missing_ok, syntax)
        name, most = checked_unit(unit, at_most, domain, private)
        hashes = self._open([(path, None)], domain, private, name, syntax)
        if name != RECORD:
            self.cap(entering(hashes, most), name, most)

    @classmethod
    @sealed
    def of_groups(cls, groups: Sequence[tuple[str, Sequence[int]]], domain: Domain, *, private: bool) -> Scan:
        """Scan row groups of parquet files: one rank's share of a table."""
        return cls.of_units(groups, domain, private=private, unit=RECORD)[0]

    @classmethod
    @sealed
    def of_units(
        cls,
        groups: Sequence[tuple[str, Sequence[int]]],
        domain: Domain,
        *,
        private: bool,
        unit: str,
        ranks: int = 1,
    ) -> tuple[Scan, Hashes]:
        """As `of_groups`, before capping; also returns unit hashes, which the ranks need to cap jointly.

        ranks: the number of ranks, which may share the memory of one machine.
        """
        check_domain_and_privacy(domain, private)
        scan = object.__new__(cls)
        return scan, scan._open(groups, domain, private, unit, ranks=ranks)

    def _open(
        self,
        reads: Sequence[Read],
        domain: Domain,
        private: bool,
        unit: str,
        syntax: Syntax = PLAIN,
        ranks: int = 1,
    ) -> Hashes:
        """Read and check everything once; returns the hashes of the records' units, if there are units."""
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
        self._traced = _traced([path for path, _ in reads], domain, unit, private=private, syntax=syntax)
        kept: list[Encoded] | None = []
        room = int(KEPT * available_memory()) // ranks
        for codes, hashes, traces in _codes(self._reads, domain, private, unit, syntax, self._traced):
            self._n += len(codes[0])
            parts.append(hashes)
            room -= sum(column.nbytes for column in (*codes, *traces.values()))
            if room < 0:
                kept = None
            if kept is not None:
                kept.append((codes, traces))
        self._kept = kept
        self._check_unchanged()
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def cap(self, enters: Bools, unit: str, at_most: int) -> None:
        """Keep the records selected by the mask `enters` (at most `at_most` per unit)."""
        self._unit, self._at_most = unit, at_most
        self._enters = enters
        self._n = int(np.count_nonzero(enters))

    @property
    def path(self) -> str:
        """The path of the file or folder; the first of several files."""
        return self._path

    @sealed
    def batches(self) -> Iterator[Table]:
        """Yield all rows that enter, in order, as tables of about 2^18 rows."""
        yield from self._batches(_NONE)

    @property
    def trace_names(self) -> tuple[str, ...]:
        """The keys of the traces that `batches_with_traces` has."""
        return tuple(self._traced)

    @sealed
    def batches_with_traces(self) -> Iterator[Table]:
        """Yield all rows that enter, in order, with traces of their raw values."""
        yield from self._batches(self._traced)

    def _batches(self, traced: Traced) -> Iterator[Table]:
        self._check_unchanged()
        pending: list[list[SignedCodes]] = []
        traces: list[Traces] = []
        rows = 0
        try:
            for codes, trace in self._entering_codes(traced):
                pending.append(codes)
                traces.append(trace)
                rows += len(codes[0])
                if rows >= BATCH:
                    yield self._table(pending, traces)
                    pending, traces, rows = [], [], 0
        except (TypeError, ValueError, OSError):
            self._check_unchanged()
            raise
        self._check_unchanged()
        if pending:
            yield self._table(pending, traces)

    def _entering_codes(self, traced: Traced) -> Iterator[tuple[list[SignedCodes], Traces]]:
        """Yield the codes and traces of the rows that enter, for each nonempty batch; kept or read again."""
        batches: Iterable[Encoded]
        if self._kept is None:
            read = _codes(self._reads, self._domain, self._private, syntax=self._syntax, traced=traced)
            batches = ((codes, traces) for codes, _, traces in read)
        else:
            batches = ((list(codes), {key: traces[key] for key in traced}) for codes, traces in self._kept)
        first = 0
        for codes, traces in batches:
            last = first + len(codes[0])
            if self._enters is not None:
                enters = self._enters[first:last]
                if len(enters) != last - first:  # the file has changed since units were counted
                    raise ValueError(f"{self._path} (changed since it was opened) must stay as it is")
                codes, traces = _kept(codes, traces, enters)
            first = last
            if len(codes[0]):
                yield codes, traces

    def _table(self, batches: list[list[SignedCodes]], traces: list[Traces]) -> Table:
        table = _table(batches, traces, self._domain, self._private, self._unit, self._at_most)
        return table if self._for_release else table.not_for_release()

    @sealed
    def counts(self, workload: Workload) -> Int64s:
        """The exact counts of a workload's cells, in workload order; private if the table is."""
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
        return f"Scan({self._n} rows x {len(self._domain)} attributes of {shown(self._path)}, {self._kind})"


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
    on_note: OnNote | None = None,
) -> Scan:
    r"""Open a table that is too large for memory, to be counted or made into a support batch by batch.

    The arguments are those of `read_table`. The file is read now, which checks every value; it is read again
    for each use only if its codes would take more than a quarter of the memory.

    >>> import pathlib, tempfile
    >>> domain = Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,sex,age\nAnna,F,31\nBo,M,4\n")
    ...     scan_table(path, domain, private=False).counts(Workload(domain, [("sex",)]))
    array([1, 1])
    """
    scan = Scan(
        path, domain, private=private, unit=unit, at_most=at_most, missing_ok=missing_ok, syntax=syntax
    )
    _say(on_note, scan._path, scan.domain, private, scan.unit, scan._syntax, scan._detected)
    return scan


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
    on_note: OnNote | None = None,
) -> Table:
    r"""Read the table in a file (parquet, csv, tsv, feather, JSON lines, xlsx), or in the files of a folder.

    Each attribute of the domain is read from the column of its name; other columns are ignored.
    `Attribute.code` converts values to codes, and `Attribute.parse` texts of csv. A table read from public
    files that are marked "not for release" (by a seeded release) has the same mark.

    unit: a column that is not in the domain, such as "household". Of the records with the same value there,
    at most `at_most` enter, and a release protects them together. Its values are integers or text, none
    missing. The choice of records depends on no other value: see privmw/data/unit.py.

    missing_ok: if True, a public file may lack columns of the domain. The table is then on the domain of its
    columns, and `Support.from_table(table, domain=domain)` makes a support of it.

    syntax: the syntax of a text file. Settings of None are taken from the domain (`Domain.syntax`).
    Those that the domain lacks too are detected on a public file, and plain for a private one (UTF-8, commas,
    decimal points, ISO dates): nothing is ever detected on a private file. In a private csv file every line
    is a record, and an unreadable value is `other` or missing if the domain declares these, else refused.

    on_note: called with one line per note: the syntax detected on a public file, and the number of ignored
    columns of a private one.

    >>> import pathlib, tempfile
    >>> domain = Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name,sex,age\nAnna,F,31\nBo,M,4\n")
    ...     read_table(path, domain, private=False).codes().tolist()
    [[1, 0], [0, 1]]
    """
    path = files.checked_path(path)
    check_domain_and_privacy(domain, private)
    syntax, notes = _syntax(path, domain, private, syntax)
    domain = _domain_of(path, domain, private, missing_ok, syntax)
    name, most = checked_unit(unit, at_most, domain, private)
    traced = _traced([path], domain, name, private=private, syntax=syntax)
    read = list(_codes([(path, None)], domain, private, name, syntax, traced))
    batches, traces = [codes for codes, _, _ in read], [trace for _, _, trace in read]
    if name != RECORD and batches:
        hashes = np.concatenate([np.empty(0, np.uint64), *(part for _, part, _ in read)])
        enters = entering(hashes, most)
        ends = np.cumsum([len(codes[0]) for codes in batches])[:-1]
        masks = np.split(enters, ends)
        kept = [_kept(*part) for part in zip(batches, traces, masks, strict=True)]
        batches, traces = [codes for codes, _ in kept], [trace for _, trace in kept]
    del read
    table = _table(batches, traces, domain, private, name, most)
    _say(on_note, path, domain, private, name, syntax, notes)
    return table if private or _for_release(path) else table.not_for_release()


def _for_release(path: str) -> bool:
    """True unless a file is marked "not for release"."""
    return all(files.about(file).get("for_release") is not False for file in files.files_of(path))


def _syntax(path: str, domain: Domain, private: bool, given: Syntax | None) -> tuple[Syntax, list[str]]:
    """The syntax to read a text file with, and a note about what was detected (never on a private file)."""
    expect("syntax", given, Syntax | None, "a Syntax")
    if not files.is_text(path):
        return PLAIN, []
    known = (given or Syntax()).over(domain.syntax or Syntax())
    if private:
        return known.over(plain_for(files.files_of(path)[0])), []
    syntax = PublicSource(path, known, domain.names).syntax
    words = [*files.sheets_in_words(path), *in_words(syntax)]
    return syntax, words if domain.syntax is None else []


def _say(
    on_note: OnNote | None,
    path: str,
    domain: Domain,
    private: bool,
    unit: str,
    syntax: Syntax,
    words: list[str],
) -> None:
    """Call on_note with what was detected on a public file, or the number of ignored private columns."""
    if on_note is None:
        return
    notes = [f"{path}: {', '.join(words)}"] if words else []
    if private:
        columns = files.columns_of(files.files_of(path)[0], private=private, syntax=syntax)[0]
        names = {*domain.names, unit} & set(columns)
        notes += files.left_out(path, len(columns), len(names))
    for note in notes:
        on_note(note)


def _domain_of(path: str, domain: Domain, private: bool, missing_ok: bool, syntax: Syntax) -> Domain:
    """The domain of a table: the given one, or with missing_ok, that of the columns that every file has."""
    if not missing_ok:
        return domain
    columns: list[set[object]] = [
        set(files.columns_of(file, private=private, syntax=syntax)[0]) for file in files.files_of(path)
    ]
    return known_part(path, domain, set.intersection(*columns), private=private)


def _traced(paths: Sequence[str], domain: Domain, unit: str, *, private: bool, syntax: Syntax) -> Traced:
    """The columns to trace that all files have."""
    need("pyarrow", "read files", "io")
    chosen = [
        # Names in the records of private JSON lines are not used.
        traced_columns(
            domain, files.columns_of(file, private=private, syntax=syntax)[0] or domain.names, unit
        )
        for path in paths
        for file in files.files_of(path)
    ]
    return {key: names for key, names in chosen[0].items() if all(key in others for others in chosen)}


def _chunks(batch: Any, name: str) -> list[Any]:
    return [batch.column(name)]


def _kept(codes: list[SignedCodes], traces: Traces, enters: Bools) -> tuple[list[SignedCodes], Traces]:
    """The codes and traces of the rows that enter."""
    if enters.all():
        return codes, traces
    rows = np.flatnonzero(enters)
    return [column.take(rows) for column in codes], {name: part[rows] for name, part in traces.items()}


def _table(
    batches: list[list[SignedCodes]],
    traces: list[Traces],
    domain: Domain,
    private: bool,
    unit: str,
    at_most: int,
) -> Table:
    """Concatenate batches to one table; the batches are emptied column by column to free memory."""
    columns = {}
    for name in domain.names:
        parts = [codes.pop(0) for codes in batches] or [np.empty(0, np.uint8)]
        columns[name] = freeze(parts[0] if len(parts) == 1 else np.concatenate(parts))
    table = Table(columns, domain, private=private)
    if traces:
        table = table.with_traces(
            {name: np.concatenate([part[name] for part in traces]) for name in traces[0]}
        )
    return table if unit == RECORD else table._entering(np.ones(table.n, bool), unit, at_most)


def _codes(
    reads: Sequence[Read],
    domain: Domain,
    private: bool,
    unit: str = RECORD,
    syntax: Syntax = PLAIN,
    traced: Traced = _NONE,
) -> Iterator[tuple[list[SignedCodes], Hashes, Traces]]:
    """Yield the codes, unit hashes (empty without a unit) and traces of every batch.

    traced: the columns to trace, in the domain or not.
    At the end of a path, raises one error about all refused values.
    """
    need("pyarrow", "read files", "io")
    from privmw.io.encode import Encoder, check_all

    names = domain.names if unit == RECORD else (*domain.names, unit)
    names = tuple(dict.fromkeys([*names, *(name for group in traced.values() for name in group)]))
    none = np.zeros(0, np.uint64)
    for path, groups in reads:
        text = files.is_text(path)
        encoders = [Encoder(a, private=private, text=text, syntax=syntax) for a in domain.attributes]
        ids = None
        if unit != RECORD:
            from privmw.io.unit_ids import UnitIds

            ids = UnitIds(unit)
        for file in files.files_of(path):
            for batch in files.batches(file, names, private=private, groups=groups, syntax=syntax):
                if batch.num_rows:
                    with files.naming(file):
                        codes = [encoder.codes(batch.column(encoder.attribute.name)) for encoder in encoders]
                        hashes = none if ids is None else ids.hashes(batch.column(ids.name))
                    yield codes, hashes, traces_of(traced, partial(_chunks, batch))
        # For a private table, even the row groups of a bad value stay private.
        some = f", row groups {groups[0]} to {groups[-1]}" if groups and not private else ""
        with files.naming(f"{path}{some}"):
            check_all(encoders)
            if ids is not None:
                ids.check()
            if encoders[0].rows == 0 and not private:
                raise ValueError("a table must have at least one row")
