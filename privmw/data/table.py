"""Tables: records as codes on a domain, one contiguous column per attribute.

Every code is checked here, once; the kernels rely on it. No message, repr or pickle of a private table shows
a value, a row or a count. Nothing here is random.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain, Immutable, check_domain, positions_of
from privmw.data.records import Bins, FrameKind, Records, Traces, check_domain_and_privacy
from privmw.data.unit import RECORD, checked_unit, entering, id_hashes
from privmw.data.workload import Workload, check_workload
from privmw.kernels.arrays import Array, Bools, CheckedColumns, Codes, Int64s, freeze, is_frozen
from privmw.secrecy import expect, sealed, shown

if TYPE_CHECKING:
    from privmw.data.constraints import Constraints

# What a table of plain codes has besides its columns, its domain and whether it is private.
UNMARKED = MappingProxyType(
    {"unit": RECORD, "at_most": 1, "for_release": True, "frame_kind": None, "constraints": None}
)


class Table(Immutable, Records):
    """Codes on a domain, immutable: `columns` maps each attribute's name to a 1-D array of integer codes.

    A column is stored as uint8, uint16 or uint32, the smallest that fits its attribute's size. It is not
    copied if it has that dtype, is contiguous and read-only (flags.writeable is False for it and for every
    array it is a view of); any other column is copied, since kernels index memory by its codes. A private
    table may be empty: refusing it would reveal that it is.

    >>> domain = Domain({"age": 10, "sex": ["F", "M"]})
    >>> table = Table({"sex": [0, 1, 1], "age": [3, 9, 3]}, domain, private=False)
    >>> table
    Table(3 rows x 2 attributes, public)
    >>> table.column("age")
    array([3, 9, 3], dtype=uint8)
    >>> Table({"sex": [0, 1, 1], "age": [3, 10, 3]}, domain, private=False)
    Traceback (most recent call last):
    ValueError: column 'age' has 1 value outside the domain (first: 10, row 1): must be from 0 to 9
    """

    __slots__ = (
        "__weakref__",
        "at_most",
        "columns",
        "constraints",
        "domain",
        "for_release",
        "frame_kind",
        "private",
        "traces",
        "unit",
    )
    __hash__ = None  # type: ignore[assignment]

    columns: CheckedColumns  # one read-only array of codes per attribute, in domain order
    domain: Domain  # every code lies in it
    private: bool  # True: nothing about the records' values is shown
    unit: str  # the unit of privacy: "record", or a group of records such as "household"
    at_most: int  # records of a unit
    for_release: bool  # False for synthetic records of a seeded release; written files are marked so
    frame_kind: FrameKind | None  # of the frame that the records came from, and default of `to_frame`
    constraints: Constraints | None  # kept by every record that `to_frame` and `write` make of the codes
    traces: Traces  # by column: short hashes of raw values that the codes do not show (privmw/io/traces.py)

    @sealed
    def __init__(
        self,
        columns: Mapping[str, npt.ArrayLike] | Iterable[tuple[str, npt.ArrayLike]],
        domain: Domain,
        *,
        private: bool,
    ) -> None:
        check_domain_and_privacy(domain, private)
        codes = _by_name(columns, domain)
        checked = [_checked_column(a.name, a.size, codes[a.name], private) for a in domain.attributes]
        for name, column in zip(domain.names, checked, strict=True):
            if len(column) != len(checked[0]):
                lengths = "" if private else f" ({len(column)} rows, not {len(checked[0])})"
                raise ValueError(f"column {shown(name)}{lengths} must be as long as the first")
        self._fill(checked, domain, private=private)

    def _fill(
        self,
        columns: Iterable[Codes],
        domain: Domain,
        *,
        private: bool,
        traces: Traces | None = None,
        **marks: Any,
    ) -> Table:
        """Set the attributes, from frozen columns of checked codes; marks: those unlike UNMARKED."""
        checked = CheckedColumns.of(columns, domain.sizes)
        self._set(columns=checked, domain=domain, private=private, traces=traces or {}, **UNMARKED | marks)
        if self.n == 0 and not private:
            raise ValueError("a table must have at least one row")
        return self

    @classmethod
    @sealed
    def from_codes(cls, codes: npt.ArrayLike, domain: Domain, *, private: bool) -> Table:
        """Make a table of a 2-D array of codes, rows x attributes in domain order.

        >>> Table.from_codes([[3, 0], [9, 1]], Domain({"age": 10, "sex": 2}), private=False).columns
        (array([3, 9], dtype=uint8), array([0, 1], dtype=uint8))
        """
        check_domain(domain)
        array = _array("codes", codes)
        if array.ndim != 2:
            raise ValueError(f"codes ({array.ndim}-D) must be a 2-D array, rows x attributes")
        if array.shape[1] != len(domain):
            raise ValueError(f"codes ({array.shape[1]} columns) must have {len(domain)}, one per attribute")
        return cls(zip(domain.names, array.T, strict=True), domain, private=private)

    @classmethod
    @sealed
    def concatenate(cls, tables: Sequence[Table]) -> Table:
        """Concatenate the rows of several tables on one domain; private if any of them is.

        >>> table = Table.from_codes([[3, 0], [9, 1]], Domain({"age": 10, "sex": 2}), private=False)
        >>> Table.concatenate([table, table]).n
        4
        """
        domain = tables[0].domain
        if any(table.domain != domain for table in tables):
            raise ValueError("tables must be on one domain")
        if any(table.unit != RECORD for table in tables):
            raise ValueError("tables must be joined before they are capped: a unit may lie in several")
        columns = (freeze(np.concatenate([table.columns[a] for table in tables])) for a in range(len(domain)))
        private, for_release = any(t.private for t in tables), all(t.for_release for t in tables)
        kind = next((table.frame_kind for table in tables if table.frame_kind is not None), None)
        traces = {
            name: np.concatenate([table.traces[name] for table in tables])
            for name in tables[0].trace_names
            if all(name in table.traces for table in tables)
        }
        joined = object.__new__(Table)
        marks = {"for_release": for_release, "frame_kind": kind}
        return joined._fill(columns, domain, private=private, traces=traces, **marks)

    @classmethod
    @sealed
    def from_frame(
        cls,
        frame: Any,
        domain: Domain,
        *,
        private: bool,
        unit: str | None = None,
        at_most: int | None = None,
        missing_ok: bool = False,
        on_note: Callable[[str], None] | None = None,
    ) -> Table:
        """Read a frame of pandas, polars or pyarrow, a DuckDB relation, or anything that narwhals supports.

        Each attribute of the domain is read from the column of its name; other columns are ignored.
        `Attribute.code` converts values to codes. unit, at_most, missing_ok and on_note: see `read_table`.
        """
        from privmw.io.frames import from_frame  # here: it imports tables

        return from_frame(
            frame, domain, private=private, unit=unit, at_most=at_most, missing_ok=missing_ok, on_note=on_note
        )

    def to_frame(
        self,
        kind: FrameKind | None = None,
        *,
        bins: Bins = "label",
        public: Any = None,
        seed: int | None = None,
    ) -> Any:
        """A frame of public or synthetic records, with codes converted to values; refuses a private table.

        kind: of the frame (default: that of the frame that the records came from, and "pyarrow" for files).
        Synthetic records have the kind of the release's private frame, or else of its public one.

        Codes without labels and integer labels become integers, other labels a categorical (polars: Enum) in
        the domain's order, missing values null. `bins`: a bin becomes its "label" such as '[0, 10)', its
        "midpoint", a random number or date of it ("spread", by `seed`, whole if all edges are), or a public
        value ("draw"). A record then takes its values from one random record of `public` (a frame or the path
        of a file) with the same codes, so that they belong together; "other" is drawn too. Without such a
        record it takes those of a near one, and where no public value has the code, bins are spread.

        Columns whose labels are "true" and "false" become booleans. With `public`, a column has the same type
        as there if that can hold all values of the domain: small integers, timestamps, plain text.
        Constraints of the table (`keeping`) hold in every record.

        >>> import pandas
        >>> public = pandas.DataFrame({"age": [7, 40, 80], "wage": [0, 100, 0]})
        >>> domain = Domain({"age": {"edges": [0, 18, 99]}, "wage": {"edges": [0, 1, 999]}})
        >>> table = Table.from_codes([[1, 1], [1, 0], [0, 0]], domain, private=False)
        >>> table.to_frame("pandas", bins="draw", public=public)
           age  wage
        0   40   100
        1   80     0
        2    7     0

        `Table.from_frame` reads the same table back, except that "other" becomes null in a column of numbers
        (it keeps its label in csv).
        """
        from privmw.io.output import to_frame  # here: it imports tables

        return to_frame(self, kind or self.frame_kind or "pyarrow", bins=bins, public=public, seed=seed)

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        bins: Bins = "label",
        public: Any = None,
        seed: int | None = None,
        overwrite: bool = False,
        raw: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Write public or synthetic records to a .parquet, .csv or .feather file, atomically.

        The columns are those of `to_frame`; `read_table` reads the file. A private table is refused, and an
        existing file unless `overwrite`. Records that are not for release are marked: in the metadata of
        parquet and feather (key privmw); the name of a csv file must contain "seeded". raw: write texts such
        as =1+1 to csv unchanged, although a spreadsheet program runs them as formulas; by default a quote
        precedes them, as in '=1+1, and `read_table` reads the same label. progress: called with the number of
        records written so far.
        """
        from privmw.io.output import write  # here: it imports tables

        values = {"bins": bins, "public": public, "seed": seed}
        write(self, path, values, overwrite=overwrite, raw=raw, progress=progress)

    @property
    def n(self) -> int:
        """The number of rows. Neighbouring tables have the same number, so it is public."""
        return len(self.columns[0])

    def column(self, name: str) -> Codes:
        """The read-only codes of one attribute."""
        return self.columns[self.domain.index(name)]

    @sealed
    def codes(self) -> Codes:
        """A new array of all codes, rows x attributes, in the smallest dtype that fits every column."""
        dtype = max((column.dtype for column in self.columns), key=lambda dtype: dtype.itemsize)
        codes = np.empty((self.n, len(self.columns)), dtype)
        for position, column in enumerate(self.columns):
            codes[:, position] = column
        return codes

    @sealed
    def counts(self, workload: Workload) -> Int64s:
        """The exact counts of a workload's cells, in workload order; private if the table is."""
        from privmw import kernels  # here, so that tables can be made and read before a backend is chosen

        check_workload(workload, self.domain, "table")
        columns = kernels.Columns(self.columns, self.domain.sizes)
        marginals = kernels.Marginals(columns, workload.attributes, workload.starts)
        return marginals.sums(np.ones(self.n, np.int64))

    def project(self, names: Iterable[str]) -> Table:
        """The same rows on some of the attributes, in the given order; columns are not copied."""
        domain = self.domain.project(names)
        columns = [self.column(name) for name in domain.names]
        return self._with(columns, domain, traces=self.traces, constraints=None)

    @sealed
    def take(self, rows: npt.ArrayLike) -> Table:
        """The rows at some positions (in that order, repeats allowed), or where a mask is True.

        A private table refuses to repeat a row: each record counts once.
        """
        positions = _array("rows", rows)
        right = positions.ndim == 1 and positions.dtype.kind in "iub"
        expect("rows", positions, right, "a 1-D array of positions, or a mask", quote=False)
        if positions.dtype.kind == "b":
            if len(positions) != self.n:
                raise ValueError(f"rows (a mask of {len(positions)}) must have {self.n} entries")
        elif len(positions) and not (int(positions.min()) >= 0 and int(positions.max()) < self.n):
            raise ValueError(f"rows must be positions from 0 to {self.n - 1}")
        else:
            positions = positions.astype(np.intp, copy=False)  # once, not for each column
            if self.private and len(positions) and int(np.bincount(positions).max()) > 1:
                raise ValueError("rows must not repeat one: every private record counts once")
        columns = (freeze(column[positions]) for column in self.columns)
        return self._with(columns, self.domain, traces=self._traces_of(positions))

    def _with(self, columns: Iterable[Codes], domain: Domain, **changed: Any) -> Table:
        """A copy with other columns, domain or marks."""
        kept = {name: getattr(self, name) for name in ("private", *UNMARKED)}
        return object.__new__(Table)._fill(columns, domain, **kept | changed)

    def _traces_of(self, rows: npt.NDArray[Any]) -> Traces:
        return {name: trace[rows] for name, trace in self.traces.items()}

    @property
    def trace_names(self) -> tuple[str, ...]:
        """The columns of the file or frame, in the domain or not, with traces of their values."""
        return tuple(self.traces)

    def not_for_release(self) -> Table:
        """The same table, marked as made from seeded noise; columns are not copied.

        >>> Table.from_codes([[3, 0], [9, 1]], Domain({"age": 10, "sex": 2}), private=False).not_for_release()
        Table(2 rows x 2 attributes, public, not for release)
        """
        return self._with(self.columns, self.domain, for_release=False, traces=self.traces)

    def with_frame_kind(self, kind: FrameKind | None) -> Table:
        """The same table with another default kind of `to_frame`; columns are not copied.

        >>> table = Table.from_codes([[3, 0], [9, 1]], Domain({"age": 10, "sex": 2}), private=False)
        >>> table.with_frame_kind("pandas").frame_kind
        'pandas'
        """
        if kind is not None and kind not in get_args(FrameKind):
            raise ValueError(f"kind ({shown(kind)}) must be 'pyarrow', 'pandas' or 'polars'")
        return self._with(self.columns, self.domain, frame_kind=kind, traces=self.traces)

    def keeping(self, constraints: Constraints | None) -> Table:
        """The same public table, whose records will keep constraints when `to_frame` or `write` makes them.

        Values that break a relation, such as wage <= income, are drawn again; a record that cannot keep the
        constraints gives its place to another one. `Release.sample` does this with the release's own.
        """
        if constraints is not None and self.private:
            raise ValueError("constraints must be for a public table: a private one is never checked by them")
        if constraints is not None and constraints.domain != self.domain:
            raise ValueError(f"constraints ({shown(constraints)}) must be on the domain of the table")
        return self._with(self.columns, self.domain, constraints=constraints, traces=self.traces)

    def with_traces(self, traces: Traces) -> Table:
        """The same table with the traces of its records' raw values, one 16-bit hash per record and column.

        >>> table = Table.from_codes([[3, 0], [9, 1]], Domain({"age": 10, "sex": 2}), private=False)
        >>> table.with_traces({"income": np.array([7, 8], np.uint16)}).trace_names
        ('income',)
        """
        return self._with(self.columns, self.domain, traces=traces)

    @sealed
    def capped(self, ids: npt.ArrayLike, *, unit: str, at_most: int) -> Table:
        """Keep at most `at_most` records of each unit, such as 4 of a household; for private tables only.

        A release then protects the unit as a whole. ids: one per record, integers or text, none missing; they
        are not stored. The choice of records depends on the ids and on the order of a unit's own records, not
        on values: see privmw/data/unit.py.

        >>> table = Table.from_codes([[3], [9], [3], [2]], Domain({"age": 10}), private=True)
        >>> table.capped(["a", "a", "a", "b"], unit="household", at_most=2)
        Table(3 rows x 1 attributes, private, at most 2 of a household)
        """
        unit, at_most = checked_unit(unit, at_most, self.domain, self.private)
        if unit == RECORD:
            raise TypeError("unit and at_most must be given")
        if self.unit != RECORD:
            raise ValueError(f"table (at most {self.at_most} of a {self.unit}) must be capped only once")
        hashes = id_hashes(ids)
        if len(hashes) != self.n:
            raise ValueError(f"ids ({len(hashes)}) must be one for each of the {self.n} records")
        return self._entering(entering(hashes, at_most), unit, at_most)

    def _entering(self, enters: Bools, unit: str, at_most: int) -> Table:
        """Keep the records selected by `enters` (at most `at_most` per unit)."""
        rows = np.flatnonzero(enters)
        columns: Iterable[Codes] = self.columns
        traces = self.traces
        if len(rows) < self.n:
            columns = (freeze(column.take(rows)) for column in self.columns)
            traces = self._traces_of(rows)
        return self._with(columns, self.domain, unit=unit, at_most=at_most, traces=traces)

    def batches(self) -> Iterator[Table]:
        """The table itself."""
        yield self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        if (self.domain, self.private, self.unit, self.at_most) != (
            other.domain,
            other.private,
            other.unit,
            other.at_most,
        ):
            return False
        if self.for_release != other.for_release:
            return False
        return all(map(np.array_equal, self.columns, other.columns))

    def __reduce__(self) -> tuple[object, ...]:
        if self.private:
            raise TypeError("a private table must not be pickled")
        columns = dict(zip(self.domain.names, self.columns, strict=True))
        marks = self.for_release, self.frame_kind, self.traces, self.constraints
        return _restored, (columns, self.domain, *marks)

    def __repr__(self) -> str:
        mark = "" if self.for_release else ", not for release"
        return f"Table({self.n} rows x {len(self.columns)} attributes, {self._kind}{mark})"


def _restored(
    columns: Mapping[str, Codes],
    domain: Domain,
    for_release: bool,
    frame_kind: FrameKind | None,
    traces: Traces,
    constraints: Constraints | None,
) -> Table:
    """Unpickle a public table."""
    table = Table(columns, domain, private=False).with_frame_kind(frame_kind).with_traces(traces)
    table = table.keeping(constraints)
    return table if for_release else table.not_for_release()


def _by_name(columns: Any, domain: Domain) -> dict[str, npt.ArrayLike]:
    """The columns by name, exactly one per attribute of the domain; codes are not checked here."""
    listed = isinstance(columns, Iterable) and not isinstance(columns, str | bytes | np.ndarray)
    expect("columns", columns, listed, "a mapping from names to codes", quote=False)
    by_name: dict[str, npt.ArrayLike] = {}
    for place, pair in enumerate(columns.items() if isinstance(columns, Mapping) else columns):
        right = isinstance(pair, tuple | list) and len(pair) == 2
        expect(f"columns[{place}]", pair, right, "a pair of a name and its codes", quote=False)
        name, codes = pair
        expect(f"name of columns[{place}]", name, str, "a string", quote=False)
        if name in by_name:
            raise ValueError(f"columns[{place}] must have a name that is given only once")
        by_name[name] = codes
    positions_of(domain, by_name, "columns")
    for name in domain.names:
        if name not in by_name:
            raise ValueError(f"column {shown(name)} is missing")
    return by_name


def _array(name: str, values: Any) -> Array:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be masked: give missing values a code of their own")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # numpy's message can quote the values
        raise ValueError(f"{name} must be an array of integers") from None


def _checked_column(name: str, size: int, codes: Any, private: bool) -> Codes:
    """Check the codes of one attribute; copies them unless they are read-only."""
    array = _array(f"column {shown(name)}", codes)
    if array.ndim != 1:
        raise ValueError(f"column {shown(name)} ({array.ndim}-D) must be 1-D")
    dtype = np.dtype(np.uint8 if size <= 2**8 else np.uint16 if size <= 2**16 else np.uint32)
    if len(array) == 0:
        if not private:
            raise ValueError(f"column {shown(name)} is empty: a table must have at least one row")
        return freeze(np.empty(0, dtype))
    expect(f"column {shown(name)}", array, array.dtype.kind in "iu", "integer codes")
    if array.dtype == dtype and not (array.flags.c_contiguous and is_frozen(array)):
        array = array.copy()
    if int(array.max()) >= size or (array.dtype.kind == "i" and int(array.min()) < 0):
        if private:
            raise ValueError(f"column {shown(name)} must hold codes from 0 to {size - 1}")
        outside = np.flatnonzero((array < 0) | (array >= size))
        what = "1 value" if len(outside) == 1 else f"{len(outside)} values"
        first = f"first: {array[outside[0]]}, row {outside[0]}"
        raise ValueError(
            f"column {shown(name)} has {what} outside the domain ({first}): must be from 0 to {size - 1}"
        )
    return freeze(np.ascontiguousarray(array, dtype))
