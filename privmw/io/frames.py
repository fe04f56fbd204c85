"""Converts data frames to tables: any frame that narwhals supports, through Arrow. Both are imported late.

Messages about a private frame give the column and the rule, never another library's message, which could
quote values.
"""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from privmw.data.domain import Domain
from privmw.data.records import FrameKind, check_domain_and_privacy, known_part
from privmw.data.table import Table
from privmw.data.unit import RECORD, checked_unit, entering
from privmw.io.extras import need
from privmw.io.files import check_names, left_out
from privmw.io.traces import traced_columns, traces_of
from privmw.kernels.arrays import freeze
from privmw.secrecy import sealed, shown


@sealed
def from_frame(
    frame: Any,
    domain: Domain,
    *,
    private: bool,
    unit: str | None = None,
    at_most: int | None = None,
    missing_ok: bool = False,
    on_note: Callable[[str], None] | None = None,
) -> Table:
    """Make the table of a frame; see `Table.from_frame`.

    >>> import pandas
    >>> frame = pandas.DataFrame({"sex": ["M", "F", "M"], "age": [31, 4, 65], "name": ["x", "y", "z"]})
    >>> domain = Domain({"age": {"edges": [0, 18, 120]}, "sex": ["F", "M"]})
    >>> Table.from_frame(frame, domain, private=False).codes()
    array([[1, 1],
           [0, 0],
           [1, 1]], dtype=uint8)
    """
    check_domain_and_privacy(domain, private)
    frame = _read_out(frame)
    if missing_ok:
        domain = known_part("frame", domain, take_frame(frame, private=private).columns, private=private)
    name, most = checked_unit(unit, at_most, domain, private)
    from privmw.io.encode import Encoder, check_all
    from privmw.io.unit_ids import UnitIds

    names = domain.names if name == RECORD else (*domain.names, name)
    traced = traced_columns(domain, _columns(frame), name)
    taken = take_frame(
        frame,
        list(dict.fromkeys([*names, *(column for group in traced.values() for column in group)])),
        private=private,
    )
    columns, encoders = [], []
    for attribute in domain.attributes:
        encoder = Encoder(attribute, private=private)
        parts = [encoder.codes(chunk) for chunk in arrow_chunks(taken, attribute.name)]
        parts = parts or [np.empty(0, np.uint8)]
        encoders.append(encoder)
        if encoder.rows == 0 and not private:
            raise ValueError("a table must have at least one row")
        # A view of Arrow's memory does not count as frozen, so the table copies it: Arrow and polars may
        # share memory with numpy and pandas, which can write to it later.
        columns.append((attribute.name, freeze(np.concatenate(parts) if len(parts) > 1 else parts[0])))
    check_all(encoders)
    if on_note is not None and private:
        for line in left_out("frame", len(take_frame(frame, private=private).columns), len(names)):
            on_note(line)
    table = Table(columns, domain, private=private).with_frame_kind(_kind(taken))
    table = table.with_traces(traces_of(traced, lambda column: _quietly(lambda: arrow_chunks(taken, column))))
    if name == RECORD:
        return table
    ids = UnitIds(name)
    chunks = (ids.hashes(chunk) for chunk in arrow_chunks(taken, name))
    hashes = np.concatenate([np.empty(0, np.uint64), *chunks])
    ids.check()
    return table._entering(entering(hashes, most), name, most)


def _read_out(frame: Any) -> Any:
    """Read a stream of Arrow batches into a table, since it can be read once; return other frames as is."""
    pa = need("pyarrow", "take frames", "io")
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if not isinstance(frame, pa.RecordBatchReader):
        return frame
    table = _quietly(frame.read_all)
    if table is None:
        raise ValueError("frame (RecordBatchReader) must be one that can be read")
    return table


def take_frame(frame: Any, names: Sequence[str] | None = None, *, private: bool) -> Any:
    """Return a narwhals frame in memory; of a lazy frame only the named columns, if `names` is given."""
    narwhals = need("narwhals", "take frames", "io")
    try:
        taken = narwhals.from_native(frame)
    except ValueError:
        raise ValueError("frame: every column must have a name of its own") from None
    except TypeError:
        raise TypeError(f"frame ({type(frame).__name__}) must be a pandas, polars or pyarrow frame") from None
    lazy = isinstance(taken, narwhals.LazyFrame)
    columns = _quietly(lambda: taken.collect_schema().names())
    if columns is not None:
        check_names("frame", columns, names or (), private=private)
    if lazy and columns is not None:
        taken = _quietly(lambda: (taken.select(*names) if names else taken).collect())
    if columns is None or taken is None:
        raise ValueError(f"frame{' (lazy)' if lazy else ''} must be one that can be collected")
    return taken


def _columns(frame: Any) -> list[object]:
    narwhals = need("narwhals", "take frames", "io")
    return _quietly(lambda: list(narwhals.from_native(frame).collect_schema().names())) or []


def _kind(taken: Any) -> FrameKind:
    """The frame kind: pandas, polars, or pyarrow for all other libraries."""
    implementation = taken.implementation
    return "pandas" if implementation.is_pandas() else "polars" if implementation.is_polars() else "pyarrow"


def arrow_chunks(taken: Any, name: str) -> list[Any]:
    """One column of a narwhals frame as Arrow arrays."""
    pa = need("pyarrow", "take frames", "io")
    series = _quietly(lambda: taken.get_column(name).to_native())
    objects = getattr(getattr(series, "dtype", None), "categories", series)
    if str(getattr(objects, "dtype", "")).lower() == "object":  # Arrow would choose a type for all values
        kinds = _quietly(lambda: set(map(_kind_of_object, objects)) - {""})
        if "time with a zone" in (kinds or ()):
            raise TypeError(
                f"column {shown(name)} must be one of dates or times, not of objects with time zones"
            )
        if kinds is None or len(kinds) > 1:
            raise TypeError(f"column {shown(name)} must hold values of one kind")
    column = _quietly(lambda: taken.get_column(name).to_arrow())
    if column is None:
        raise TypeError(f"column {shown(name)} must hold values of one kind")
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _kind_of_object(value: Any) -> str:
    """The kind of a Python object in a frame; "" for a missing value.

    A column must hold one kind: Arrow makes numbers into times, or durations into numbers, beside others.
    """
    if isinstance(value, str):
        return "text"
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, datetime.date):
        return "time with a zone" if getattr(value, "tzinfo", None) is not None else "date"
    if isinstance(value, bool | np.bool_ | datetime.time | np.datetime64):
        return type(value).__name__
    if isinstance(value, datetime.timedelta | np.timedelta64):
        return "duration"
    if isinstance(value, numbers.Number):
        return "number" if value == value else ""
    return type(value).__name__


def _quietly(make: Callable[[], Any]) -> Any:
    """Call another library; None after an error, which could quote values and must not become a context."""
    try:
        return make()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of polars is not an Exception
        return None
