"""Restores column types of the public frame that Arrow's types do not express.

pandas has nullable and plain integers, categories of integers, and dates as objects; polars has two kinds of
categories. A column is not converted if the public type cannot hold all of its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from privmw.io.extras import need


def pandas_frame(table: Any, public: Any, same: Sequence[str]) -> Any:
    """A pandas frame of an Arrow table, with the types of `public` if that is a pandas frame.

    same: the columns whose Arrow type is the public column's, or has the same values.

    >>> import pandas
    >>> public = pandas.DataFrame({"rooms": pandas.array([1, None], "Int8")})
    >>> pandas_frame(pa.table({"rooms": pa.array([2, 2], pa.int8())}), public, ["rooms"]).dtypes.tolist()
    [Int8Dtype()]
    """
    pandas = need("pandas", "make such frames", "io")
    frame = table.to_pandas(date_as_object=False)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and pa.types.is_integer(column.type):  # integers stay integers
            width = f"{'Int' if pa.types.is_signed_integer(column.type) else 'UInt'}{column.type.bit_width}"
            nullable = pandas.array([], width).dtype
            frame[name] = column.to_pandas(types_mapper=lambda _, nullable=nullable: nullable)
    if not isinstance(public, pandas.DataFrame):
        return frame
    for name in same:
        if name not in public.columns or frame[name].dtype == (wanted := public[name].dtype):
            continue
        series = _converted(frame[name], wanted, pandas)
        if series is not None:
            frame[name] = series
    return frame


def _converted(series: Any, wanted: Any, pandas: Any) -> Any:
    """The values converted to another type; None if it cannot hold them."""
    if isinstance(wanted, pandas.CategoricalDtype):
        values = series.astype(object)
        known = values.isna() | values.isin(wanted.categories)
        return values.astype(wanted) if known.all() else None
    if str(wanted) == "object":
        return series.dt.date if str(series.dtype).startswith("datetime64") else None
    if str(wanted).startswith(("int", "uint")) and series.isna().any():
        return None
    try:
        return series.astype(wanted)
    except (TypeError, ValueError):
        return None


def polars_frame(frame: Any, public: Any) -> Any:
    """A polars frame of an Arrow table, with the types of `public` if that is a polars frame."""
    polars = need("polars", "make such frames", "io")
    if isinstance(public, polars.LazyFrame):
        public = public.head(0).collect()
    if not isinstance(public, polars.DataFrame):
        return frame
    for name, wanted in public.schema.items():
        if name in frame.columns and frame.schema[name] != wanted:
            try:
                frame = frame.with_columns(frame[name].cast(wanted))
            except polars.exceptions.PolarsError:  # it cannot hold every value
                continue
    return frame
