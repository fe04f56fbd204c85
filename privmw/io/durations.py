"""Converts durations and times of day to numbers of seconds, and back: Arrow arrays in and out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # of a second


def is_duration(arrow_type: Any) -> bool:
    """True if the type is one of durations or times of day.

    >>> is_duration(pa.duration("s")), is_duration(pa.time32("ms")), is_duration(pa.int64())
    (True, True, False)
    """
    return bool(pa.types.is_duration(arrow_type) or pa.types.is_time(arrow_type))


def seconds(column: Any) -> Any:
    """The values of a column as doubles.

    >>> seconds(pa.array([1500, None], pa.duration("ms"))).to_pylist()
    [1.5, None]
    """
    width = pa.int32() if pa.types.is_time32(column.type) else pa.int64()
    return pc.divide(column.cast(width).cast(pa.float64(), safe=False), TICKS[column.type.unit])


def from_seconds(numbers: Any, arrow_type: Any) -> Any:
    """Numbers of seconds as durations or times, rounded to the unit of the type.

    >>> from_seconds(pa.array([1.5, None]), pa.duration("ms")).to_pylist()
    [datetime.timedelta(seconds=1, microseconds=500000), None]
    """
    width = pa.int32() if pa.types.is_time32(arrow_type) else pa.int64()
    ticks = pc.round(pc.multiply(numbers.cast(pa.float64()), float(TICKS[arrow_type.unit])))
    return ticks.cast(width).cast(arrow_type)
