"""Checks of arguments: numbers that are not booleans; dtypes, lengths and ranges of arrays."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.kernels.arrays import CheckedColumns, Codes, Int64s, frozen
from privmw.secrecy import expect, shown

# Bits of an integer that the exact draws take, as in csrc/bind/draws.cpp; every float has fewer.
LONGEST_INTEGER = 4096


def check_integer(
    name: str, value: Any, low: int | None = None, high: int | None = None, *, quote: bool = True
) -> int:
    """Return the value as an int; raise unless it is an integer from low to high (booleans are not).

    quote: see `expect`.

    >>> check_integer("rounds", np.int64(3), 1)
    3
    """
    right = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    expect(name, value, right, "an integer", quote=quote)
    integer = int(value)
    if (low is not None and integer < low) or (high is not None and integer > high):
        came = f" ({shown(integer)})" if quote else ""
        raise ValueError(f"{name}{came} must be {_range(low, high)}")
    return integer


def _range(low: int | None, high: int | None) -> str:
    if high is not None:
        return f"at most {high}" if low is None else f"from {low} to {high}"
    return {0: "non-negative", 1: "positive"}.get(low or 0, f"at least {low}")


def check_number(name: str, value: Any, *, quote: bool = True) -> float:
    """Return the value as a float; raise unless it is a number (booleans are not).

    quote: see `expect`.

    >>> check_number("split", 1)
    1.0
    """
    right = isinstance(value, numbers.Real) and not isinstance(value, bool)
    expect(name, value, right, "a number", quote=quote)
    try:
        return float(value)
    except OverflowError:
        came = f" ({shown(value)})" if quote else ""
        raise ValueError(f"{name}{came} must be below 2^1024") from None


def check_array(name: str, array: Any, dtype: Any) -> npt.NDArray[Any]:
    """Return the array; raise unless it is one-dimensional, contiguous and of this dtype (no cast).

    Subclasses are refused: a masked array hides values from the checks.
    """
    plain = type(array) in (np.ndarray, np.memmap) and array.dtype == dtype
    if not plain or array.ndim != 1 or not array.flags.c_contiguous or not array.flags.aligned:
        # Only here, as naming a dtype takes longer than the whole check.
        expect("dtype", dtype, type | np.dtype, "a dtype")  # numpy's message would quote a list
        expect(name, array, False, f"a contiguous one-dimensional array of {np.dtype(dtype)}")
    checked: npt.NDArray[Any] = array
    return checked


def check_length(name: str, array: npt.NDArray[Any], length: int) -> None:
    """Raise unless the array has this length."""
    if len(array) != length:
        raise ValueError(f"{name} (length {len(array)}) must have length {length}")


def check_writable(name: str, array: Any, dtype: Any, length: int | None = None) -> None:
    """Raise unless check_array passes and the array is writable."""
    check_array(name, array, dtype)
    if length is not None:
        check_length(name, array, length)
    if not array.flags.writeable:
        raise ValueError(f"{name} must be writable")


def check_apart(name: str, written: npt.NDArray[Any], **read: npt.NDArray[Any]) -> None:
    """Raise if the array to write overlaps an array to read."""
    for other, array in read.items():
        if np.may_share_memory(written, array):
            raise ValueError(f"{name} must not share memory with {other}")


def check_out(out: Any, dtype: Any, length: int, **read: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array for the result: `out`, checked, or a new one."""
    if out is None:
        return np.empty(length, dtype)
    check_writable("out", out, dtype, length)
    check_apart("out", out, **read)
    checked: npt.NDArray[Any] = out
    return checked


def check_within(name: str, array: npt.NDArray[Any], limit: int) -> None:
    """Raise unless all entries are from 0 to limit - 1."""
    if len(array) and not (array.min() >= 0 and array.max() < limit):
        raise ValueError(f"{name} must be from 0 to {limit - 1}")


def check_masses(name: str, masses: Any, length: int, threads: int | None = None) -> None:
    """Raise unless masses are one int64 per row, with absolute values of at most 2^62 in total."""
    from privmw.kernels import choice  # choice imports this module

    check_length(name, check_array(name, masses, np.int64), length)
    # Sums stay exact below 2^63, which leaves room for rounding each row by half a unit.
    if choice.kernels.total_magnitude(masses, choice.threads_of(threads)) > 2.0**62 * (1 + 1e-9):
        raise ValueError(f"{name} must total at most 2^62 in absolute value")


def check_starts(starts: Any, length: int, entries: str = "attributes") -> Int64s:
    """Return the positions where items begin, and the end; raise unless they ascend to `length`."""
    checked: Int64s = check_array("starts", starts, np.int64)
    # Not by differences, which may overflow.
    if not len(starts) or starts[0] != 0 or starts[-1] != length or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"starts must ascend from 0 to the number of {entries} ({length})")
    return checked


def check_columns(
    columns: Sequence[Codes], sizes: Sequence[int], copy: bool = True
) -> tuple[list[Codes], list[int]]:
    """Return columns and sizes; raise unless codes are below their sizes. Copies mutable columns."""
    expect("columns", columns, isinstance(columns, Sequence) and len(columns) > 0, "a list, not empty")
    expect("sizes", sizes, Sequence, "a list")
    if len(columns) != len(sizes):
        raise ValueError(f"sizes ({len(sizes)}) must be as many as columns ({len(columns)})")
    if isinstance(columns, CheckedColumns) and columns.sizes == tuple(sizes) and len(columns[0]) < 2**32:
        return list(columns), list(columns.sizes)
    checked: list[Codes] = []
    for a, (column, size) in enumerate(zip(columns, sizes, strict=True)):
        codes = isinstance(column, np.ndarray) and column.dtype in (np.uint8, np.uint16, np.uint32)
        expect(f"columns[{a}]", column, codes, "an array of uint8, uint16 or uint32", quote=False)
        check_array(f"columns[{a}]", column, column.dtype)
        if not 1 <= len(column) < 2**32:
            raise ValueError(f"columns[{a}] (length {len(column)}) must have from 1 to 2^32 - 1 rows")
        if len(column) != len(columns[0]):
            raise ValueError(f"columns[{a}] (length {len(column)}) must have length {len(columns[0])}")
        if column.max() >= check_integer(f"sizes[{a}]", size, 1, 2**32 - 1, quote=False):
            raise ValueError(f"columns[{a}] must hold codes below its size")
        checked.append(frozen(column) if copy else column)
    return checked, [int(size) for size in sizes]
