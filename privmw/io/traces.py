"""Traces: 16-bit hashes of raw values that the codes do not determine, to compare complete records.

A code does not determine the number inside a bin or the value of "other", and columns outside the domain have
no codes. Equal values have equal traces however they are stored: numbers by value, dates as days, text
stripped and in lower case. Computing a trace never fails: a value that cannot be hashed has the trace 0, like
a missing one. Only privmw/curator/overlap.py compares traces. pyarrow is imported late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.data.attribute import BLANKS, MISSING_WORDS, NUMBER
from privmw.data.domain import Domain
from privmw.data.records import Traces
from privmw.data.row_hash import Hashes, mixed
from privmw.io.extras import need
from privmw.kernels.arrays import Float64s

Traced: TypeAlias = Mapping[str, tuple[str, ...]]  # the key of each trace, with its columns

GROUPS = 32  # groups of columns outside the domain, one trace each
_VALUES_PER_BLOCK = 2**14  # texts or numbers hashed at once: intermediate arrays stay in the cache
_BASE, _INVERSE = 0x9E3779B97F4A7C15, pow(0x9E3779B97F4A7C15, -1, 2**64)  # of the polynomial hash of texts
_ABSENT = frozenset(word.lower() for word in MISSING_WORDS) | {"", "nan"}


def traced_columns(domain: Domain, columns: Sequence[object], unit: str) -> Traced:
    """The columns of each trace: those of the domain with bins or "other", and GROUPS groups of all others.

    The hash of a column's name decides its group, and a group's key depends on its columns: two files that
    differ in one column share the traces of all other groups. Unit ids have no traces.

    >>> traced = traced_columns(Domain({"age": {"edges": [0, 18, 65]}, "sex": 2}), ["sex", "age", "name"], "")
    >>> list(traced.values())
    [('age',), ('name',)]
    """
    known = [a.name for a in domain.attributes if a.edges is not None or a.other is not None]
    groups: dict[int, list[str]] = {}
    for name in sorted({name for name in columns if isinstance(name, str)}):
        if name not in domain and name != unit and columns.count(name) == 1:
            groups.setdefault(_number(name) % GROUPS, []).append(name)
    others = {f"\0{_number(repr(names)):x}": tuple(names) for names in groups.values()}
    return {**{name: (name,) for name in known if name in columns}, **others}


def traces_of(traced: Traced, chunks: Callable[[str], Sequence[Any] | None]) -> Traces:
    """The trace of each record in each group of columns, by the group's key.

    chunks: returns the Arrow arrays of a column, or None if it cannot be read; its group then has no traces.

    >>> import pyarrow as pa
    >>> csv, parquet = pa.array([" 31", "31.0", "", "4"]), pa.array([31.0, 31.0, None, 4.0])
    >>> first, second = (traces_of({"age": ("age",)}, lambda _: [age])["age"] for age in (csv, parquet))
    >>> bool((first == second).all()), bool(first[0] == first[3])
    (True, False)
    """
    traces: dict[str, npt.NDArray[np.uint16]] = {}
    for key, names in traced.items():
        total: Hashes | None = None
        for name in names:
            arrays = chunks(name)
            if arrays is None:
                break
            hashes = np.concatenate([np.zeros(0, np.uint64), *map(_safe_hashes, arrays)])
            total = hashes if total is None else total + mixed(hashes + np.uint64(_number(name)))
        else:
            assert total is not None
            traces[key] = (total >> np.uint64(48)).astype(np.uint16)
    return traces


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _safe_hashes(column: Any) -> Hashes:
    errors = (need("pyarrow", "read files", "io").ArrowException, ValueError, OverflowError)
    with suppress(*errors):
        return _hashes(column)
    return np.zeros(len(column), np.uint64)


def _hashes(column: Any) -> Hashes:
    pa = need("pyarrow", "read files", "io")
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        from privmw.io.encode import check_indices  # here: it imports pyarrow

        check_indices(column)
        if len(column.dictionary) > len(column):
            return _hashes(column.dictionary_decode())
        return _of_entries(_hashes(column.dictionary), column.indices)
    if types.is_null(kind):
        return np.zeros(len(column), np.uint64)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = column.cast(pa.float64(), safe=False) if types.is_decimal(kind) else column
        return _of_numbers(numbers.to_numpy(zero_copy_only=False).astype(np.float64, copy=False))
    entries = column.dictionary_encode() if not types.is_boolean(kind) else None
    texts = column if entries is None else entries.dictionary
    if types.is_date(kind) or types.is_timestamp(kind):
        texts = texts.cast(pa.date32(), safe=False)
    hashes = _of_texts(texts.cast(pa.large_string()))
    return hashes if entries is None else _of_entries(hashes, entries.indices)


def _of_entries(hashes: Hashes, indices: Any) -> Hashes:
    hashes = np.append(hashes, np.uint64(0))
    column: Hashes = hashes[indices.cast("int64").fill_null(len(hashes) - 1).to_numpy()]
    return column


def _of_numbers(numbers: Float64s) -> Hashes:
    hashes = np.empty(len(numbers), np.uint64)
    for start in range(0, len(numbers), _VALUES_PER_BLOCK):
        block = numbers[start : start + _VALUES_PER_BLOCK] + 0.0  # a copy in which -0.0 is 0.0
        part = mixed(block.view(np.uint64))
        part[np.isnan(numbers[start : start + _VALUES_PER_BLOCK])] = 0
        hashes[start : start + _VALUES_PER_BLOCK] = part
    return hashes


def _of_texts(texts: Any) -> Hashes:
    pa, pc = need("pyarrow", "read files", "io"), need("pyarrow.compute", "read files", "io")
    texts = pc.ascii_lower(pc.ascii_trim(texts, BLANKS)).fill_null("")
    parts = [
        _of_bytes(texts.slice(start, _VALUES_PER_BLOCK)) for start in range(0, len(texts), _VALUES_PER_BLOCK)
    ]
    hashes = np.concatenate([np.zeros(0, np.uint64), *parts])
    is_number = pc.match_substring_regex(texts, f"^({NUMBER})$")
    where = np.flatnonzero(is_number.to_numpy(zero_copy_only=False))
    hashes[where] = _of_numbers(texts.filter(is_number).cast(pa.float64()).to_numpy())
    absent = pc.is_in(texts, pa.array(sorted(_ABSENT), pa.large_string()))
    hashes[absent.to_numpy(zero_copy_only=False)] = 0
    return hashes


def _of_bytes(texts: Any) -> Hashes:
    """Hash each text: sum of (byte + 1) * BASE^position, modulo 2^64, with its bits mixed."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(ends[0]), int(ends[-1])
    letters = np.frombuffer(data, np.uint8)[first:last] if last > first else np.zeros(0, np.uint8)
    ends = ends - first
    sums = np.zeros(len(letters) + 1, np.uint64)
    np.cumsum((letters + np.uint64(1)) * _powers(_BASE, len(letters)), out=sums[1:])
    return mixed((sums[ends[1:]] - sums[ends[:-1]]) * _powers(_INVERSE, len(letters) + 1)[ends[:-1]])


def _powers(base: int, count: int) -> Hashes:
    powers = np.full(count, base, np.uint64)
    powers[:1] = 1
    return np.cumprod(powers, dtype=np.uint64)
