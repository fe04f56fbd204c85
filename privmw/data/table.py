"""The table: records as codes on a domain, one contiguous column per attribute.

Every code is checked here, once; the kernels behind trust it. A private table passes through the same door,
but no message, repr or pickle shows a value, a row or a count of it. Nothing here draws or adds noise.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from reprlib import repr as _short
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain
from privmw.data.records import Records
from privmw.data.workload import Workload
from privmw.kernels.arrays import freeze, is_frozen

Column = npt.NDArray[np.unsignedinteger[Any]]


class Table(Records):
    """Codes on a domain, immutable: `columns` maps each attribute's name to a 1-D array of integer codes.

    A column is kept as uint8, uint16 or uint32, the smallest that fits its attribute's size. It is adopted
    without a copy if it has that dtype, is contiguous and cannot be written to (flags.writeable is False
    for it and for all it is a view of); a column that its owner could still change is copied, since kernels
    index memory by its codes.

    >>> domain = Domain({"age": 10, "sex": ["F", "M"]})
    >>> table = Table({"sex": [0, 1, 1], "age": [3, 9, 3]}, domain)
    >>> table
    Table(3 rows x 2 attributes, public)
    >>> table.column("age")
    array([3, 9, 3], dtype=uint8)
    >>> Table({"sex": [0, 1, 1], "age": [3, 10, 3]}, domain)
    Traceback (most recent call last):
    ValueError: column 'age' has 1 value outside the domain (first: 10, row 1)
    """

    __slots__ = ("__weakref__", "_columns", "_domain", "_private")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        columns: Mapping[str, npt.ArrayLike] | Iterable[tuple[str, npt.ArrayLike]],
        domain: Domain,
        *,
        private: bool = False,
    ) -> None:
        if not isinstance(domain, Domain):
            raise TypeError(f"domain ({type(domain).__name__}) must be a Domain")
        if not isinstance(private, bool):
            raise TypeError("private must be True or False")
        given = _by_name(columns, domain)
        made = [_column(a.name, a.size, given[a.name], private) for a in domain.attributes]
        for name, column in zip(domain.names, made, strict=True):
            if len(column) != len(made[0]):
                lengths = "" if private else f" ({len(column)} rows, not {len(made[0])})"
                raise ValueError(f"column {_short(name)}{lengths} must be as long as the first")
        self._fill(tuple(made), domain, private)

    def _fill(self, columns: tuple[Column, ...], domain: Domain, private: bool) -> Table:
        if len(columns[0]) == 0:
            raise ValueError("a table must have at least one row")
        self._domain = domain
        self._columns = columns
        self._private = private
        return self

    @classmethod
    def from_codes(cls, codes: npt.ArrayLike, domain: Domain, *, private: bool = False) -> Table:
        """The table of a 2-D array of codes, rows x attributes in domain order.

        >>> Table.from_codes([[3, 0], [9, 1]], Domain({"age": 10, "sex": 2})).columns
        (array([3, 9], dtype=uint8), array([0, 1], dtype=uint8))
        """
        if not isinstance(domain, Domain):
            raise TypeError(f"domain ({type(domain).__name__}) must be a Domain")
        array = _array("codes", codes)
        if array.ndim != 2:
            raise ValueError(f"codes ({array.ndim}-D) must be a 2-D array, rows x attributes")
        if array.shape[1] != len(domain):
            raise ValueError(f"codes ({array.shape[1]} columns) must have {len(domain)}, one an attribute")
        return cls(zip(domain.names, array.T, strict=True), domain, private=private)

    @classmethod
    def from_frame(cls, frame: Any, domain: Domain, *, private: bool = False) -> Table:
        """The table of a pandas, polars or pyarrow frame, or of any other that narwhals takes.

        Each attribute of the domain is read from the column of its name; other columns are ignored. A value
        becomes its code by `Attribute.code`. Codes are copied: a frame can still be written to.
        """
        from privmw.io.frames import from_frame  # here: it knows tables

        return from_frame(frame, domain, private=private)

    def to_frame(
        self,
        kind: Literal["pyarrow", "pandas", "polars"] = "pyarrow",
        *,
        bins: Literal["label", "midpoint", "draw"] = "label",
        public: Any = None,
        seed: int | None = None,
    ) -> Any:
        """A frame of public or synthetic records with their values restored; a private table is refused.

        Codes without labels and integer labels become integers, other labels a categorical (polars: Enum) in
        the domain's order, missing values null. `bins` says what becomes of a bin: its "label" such as
        '[0, 10)', its "midpoint", or a value that is drawn ("draw") among the original values of the records
        in `public`, a frame or the path of a file, that lie in the same bin: uniformly, repeatably by `seed`,
        and the midpoint where there are none.

        `Table.from_frame` gets the same table back, but for records that are "other" in a column of numbers,
        where the word has no place: they become null. In csv they keep their word.
        """
        from privmw.io.output import to_frame  # here: it knows tables

        return to_frame(self, kind, bins=bins, public=public, seed=seed)

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        bins: Literal["label", "midpoint", "draw"] = "label",
        public: Any = None,
        seed: int | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write public or synthetic records to a .parquet or .csv file, whole or not at all.

        The columns are those of `to_frame`, and `read_table` reads the file. An existing one is kept unless
        `overwrite`; a private table is refused.
        """
        from privmw.io.output import write  # here: it knows tables

        write(self, path, bins=bins, public=public, seed=seed, overwrite=overwrite)

    @property
    def domain(self) -> Domain:
        """The domain that every code lies in."""
        return self._domain

    @property
    def private(self) -> bool:
        """Whether the records are private: then nothing about their values is shown."""
        return self._private

    @property
    def n(self) -> int:
        """How many rows there are. Neighbouring tables replace one record, so this is public."""
        return len(self._columns[0])

    @property
    def columns(self) -> tuple[Column, ...]:
        """One read-only array of codes per attribute, in domain order."""
        return self._columns

    def column(self, name: str) -> Column:
        """The read-only codes of one attribute."""
        return self._columns[self._domain.index(name)]

    def codes(self) -> Column:
        """A fresh array of all codes, rows x attributes, in the smallest dtype that holds every column."""
        dtype = max((column.dtype for column in self._columns), key=lambda dtype: dtype.itemsize)
        codes = np.empty((self.n, len(self._columns)), dtype)
        for position, column in enumerate(self._columns):
            codes[:, position] = column
        return codes

    def counts(self, workload: Workload) -> npt.NDArray[np.int64]:
        """The exact counts of a workload's cells, in workload order; those of a private table are private."""
        from privmw import kernels  # here, so that a table can be made and read before a backend is chosen

        if not isinstance(workload, Workload):
            raise TypeError(f"workload ({_short(workload)}) must be a Workload")
        if workload.domain != self._domain:
            raise ValueError(f"workload ({workload!r}) must be on the domain of the table")
        columns = kernels.Columns(self._columns, self._domain.sizes)
        marginals = kernels.Marginals(columns, workload.attributes, workload.starts)
        counts: npt.NDArray[np.int64] = marginals.sums(np.ones(self.n, np.int64))
        return counts

    def project(self, names: Iterable[str]) -> Table:
        """The same rows on some of the attributes, in the order named; columns are shared, not copied."""
        domain = self._domain.project(names)
        columns = tuple(self.column(name) for name in domain.names)
        return object.__new__(Table)._fill(columns, domain, self._private)

    def take(self, rows: npt.ArrayLike) -> Table:
        """The rows at some positions, in that order and as often as given; or where a mask is True."""
        where = _array("rows", rows)
        if where.ndim != 1 or where.dtype.kind not in "iub":
            raise TypeError(f"rows ({where.dtype.type.__name__}) must be a 1-D array of positions, or a mask")
        if where.dtype.kind == "b":
            if len(where) != self.n:
                raise ValueError(f"rows (a mask of {len(where)}) must have {self.n} entries")
        elif len(where) and not (int(where.min()) >= 0 and int(where.max()) < self.n):
            raise ValueError(f"rows must be positions from 0 to {self.n - 1}")
        else:
            where = where.astype(np.intp, copy=False)  # once, not for each column
        columns = tuple(freeze(column[where]) for column in self._columns)
        return object.__new__(Table)._fill(columns, self._domain, self._private)

    def batches(self) -> Iterator[Table]:
        """The table itself: all of it is in memory."""
        yield self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        if self._domain != other._domain or self._private != other._private:
            return False
        return all(map(np.array_equal, self._columns, other._columns))

    def __reduce__(self) -> tuple[object, ...]:
        if self._private:
            raise TypeError("a private table must not be pickled")
        return Table, (dict(zip(self._domain.names, self._columns, strict=True)), self._domain)

    def __repr__(self) -> str:
        kind = "private" if self._private else "public"
        return f"Table({self.n} rows x {len(self._columns)} attributes, {kind})"


def _by_name(columns: object, domain: Domain) -> dict[str, npt.ArrayLike]:
    """Exactly one column for each attribute of the domain, as the caller gave it."""
    if isinstance(columns, str | bytes | np.ndarray) or not isinstance(columns, Mapping | Iterable):
        raise TypeError(f"columns of kind {type(columns).__name__} must be a mapping from names to codes")
    given: dict[str, npt.ArrayLike] = {}
    for pair in columns.items() if isinstance(columns, Mapping) else columns:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError("columns must be pairs of a name and its codes")
        name, codes = pair
        if not isinstance(name, str):
            raise TypeError(f"column name of kind {type(name).__name__} must be a string")
        if name in given:
            raise ValueError(f"column {_short(name)} must be given only once")
        domain.index(name)
        given[name] = codes
    for name in domain.names:
        if name not in given:
            raise ValueError(f"column {_short(name)} is missing")
    return given


def _array(name: str, values: Any) -> npt.NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be masked: give missing values a code of their own")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # numpy's message would tell of the values
        raise ValueError(f"{name} must be an array of integers") from None


def _column(name: str, size: int, codes: Any, private: bool) -> Column:
    """The checked codes of one attribute: a copy, unless nobody can write to them."""
    array = _array(f"column {_short(name)}", codes)
    if array.ndim != 1:
        raise ValueError(f"column {_short(name)} ({array.ndim}-D) must be 1-D")
    if len(array) == 0:
        raise ValueError(f"column {_short(name)} is empty: a table must have at least one row")
    if array.dtype.kind not in "iu":
        raise TypeError(f"column {_short(name)} ({array.dtype.type.__name__}) must hold integer codes")
    dtype = np.dtype(np.uint8 if size <= 2**8 else np.uint16 if size <= 2**16 else np.uint32)
    if array.dtype == dtype and not (array.flags.c_contiguous and is_frozen(array)):
        array = array.copy()
    if int(array.max()) >= size or (array.dtype.kind == "i" and int(array.min()) < 0):
        if private:
            raise ValueError(f"column {_short(name)} must hold codes from 0 to {size - 1}")
        outside = np.flatnonzero((array < 0) | (array >= size))
        what = "1 value" if len(outside) == 1 else f"{len(outside)} values"
        first = f"first: {array[outside[0]]}, row {outside[0]}"
        raise ValueError(f"column {_short(name)} has {what} outside the domain ({first})")
    column: Column = freeze(np.ascontiguousarray(array, dtype))
    return column
