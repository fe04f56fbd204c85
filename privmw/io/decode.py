"""Codes become Arrow columns: labels, bins, numbers in bins, or values of a pool of public ones.

This module imports pyarrow: import it late.

The inverse of `encode`, for public and synthetic records: `Attribute.code` maps a decoded value back to its
code. `Table.to_frame` describes the one exception.
"""

from __future__ import annotations

import datetime
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from privmw.data.attribute import Attribute
from privmw.io.tally import EPOCH_DAY, Tally
from privmw.kernels.arrays import Array, Codes
from privmw.secrecy import shown


class Pool:
    """The values of each bin, weighted by their public counts.

    >>> import pyarrow
    >>> tally = Tally()
    >>> tally.add(pyarrow.array([5, 5, 50]))
    >>> pool = Pool(Attribute.declare("age", {"edges": [0, 18, 65, 90]}), tally, np.random.default_rng(0))
    >>> drawn = np.zeros(3)
    >>> pool.draw(np.array([0, 1, 2]), drawn)
    >>> drawn.tolist()
    [5.0, 50.0, 0.0]
    """

    def __init__(self, attribute: Attribute, tally: Tally, rng: np.random.Generator) -> None:
        edges: Any = attribute.edges
        dates = isinstance(edges[0], datetime.date)
        kinds = ("date",) if dates else ("whole", "number")
        if tally.kind is not None and tally.kind not in kinds:
            needed = "dates" if dates else "numbers"
            raise TypeError(f"public column {shown(attribute.name)} ({tally.kind}) must hold {needed}")
        self.whole = tally.values.dtype.kind == "i"
        self._rng = rng
        last = len(edges) - 1
        codes = np.array([_code(attribute, value, dates) for value in tally.values.tolist()], np.int64)
        inside = (codes >= 0) & (codes < last)
        order = np.argsort(codes[inside], kind="stable")
        self._values = tally.values[inside][order]
        self._cumulative = np.cumsum(tally.counts[inside][order])
        self._records = np.bincount(codes[inside], tally.counts[inside], last).astype(np.int64)
        self._before = np.cumsum(self._records) - self._records

    def draw(self, codes: Codes, values: Array) -> None:
        """Write a drawn value for each code whose bin has public records to `values`; keep the others."""
        place = self._rng.random(len(codes))  # one for each record, so that batches do not change the draws
        bins = np.minimum(codes, len(self._records) - 1).astype(np.int64)
        drawn = (codes < len(self._records)) & (self._records[bins] > 0)
        bins, place = bins[drawn], place[drawn]
        record = self._before[bins] + (place * self._records[bins]).astype(np.int64)
        values[drawn] = self._values[np.searchsorted(self._cumulative, record, "right")]


def _code(attribute: Attribute, value: Any, dates: bool) -> int:
    try:
        return attribute.code(datetime.date.fromordinal(value) if dates else value)
    except ValueError:  # outside of the bins
        return -1


class Decoder:
    """The values of one attribute's codes, column after column.

    numbers: a bin becomes a number or date, its midpoint, instead of its label; with a pool of public values,
    one of those in the bin. like: the Arrow type of the public column, which is kept where it holds every
    value. The labels "true" and "false" alone are booleans.

    >>> rooms = Attribute.declare("rooms", {"labels": [1, 2, 5], "missing": "N"})
    >>> Decoder(rooms).values(np.array([2, 3, 0])).to_pylist()
    [5, None, 1]
    >>> age = Attribute.declare("age", {"edges": [0, 18, 65]})
    >>> Decoder(age).values(np.array([1, 0])).to_pylist()
    ['[18, 65]', '[0, 18)']
    >>> Decoder(age, numbers=True).values(np.array([1, 0])).to_pylist()
    [41.5, 9.0]
    """

    def __init__(
        self, attribute: Attribute, *, numbers: bool = False, pool: Pool | None = None, like: Any = None
    ) -> None:
        self.attribute = attribute
        self.pool = pool
        first: object = (attribute.edges or attribute.labels or (0,))[0]
        self.words: tuple[str, ...] | None = None  # by code: a column of text; codes beyond are null
        self._values: list[Any] | None = None  # by code, None for null
        if isinstance(first, str) or (attribute.edges and not numbers):
            labels = map(attribute.label, range(attribute.size - (attribute.missing is not None)))
            self.words = tuple(label for label in labels if isinstance(label, str))
        elif attribute.edges:
            whole = pool is not None and pool.whole
            self._values = self._middles(whole)
            if whole and None in self._values[: len(attribute.edges) - 1]:
                self._values = self._middles(False)
        elif attribute.labels:
            self._values = [*attribute.labels, *self._extras()]
        self._made = self._type(first)
        self.type = self._kept(like) if like is not None else self._made
        if like is None and self.words is not None and set(self.words) == {"true", "false"}:
            self.type = pa.bool_()

    def _kept(self, like: Any) -> Any:
        """The public type if it holds every value of the domain, or the usual one."""
        made = self._made
        if self.words is not None:
            boolean = pa.types.is_boolean(like) and set(self.words) == {"true", "false"}
            return like if boolean or str(like) in ("string", "large_string") else made
        if pa.types.is_integer(like) and pa.types.is_integer(made):
            known = [v for v in self._values or (0, self.attribute.size - 1) if v is not None]
            limits = np.iinfo(_dtype(like))
            return like if all(limits.min <= value <= limits.max for value in known) else made
        floats = pa.types.is_floating(like) and pa.types.is_floating(made)
        dates = pa.types.is_timestamp(like) and like.tz is None and pa.types.is_date(made)
        return like if floats or dates else made

    def _type(self, first: object) -> Any:
        if self.words is not None:
            index = next(t for t in (np.int8, np.int16, np.int32) if len(self.words) <= np.iinfo(t).max)
            return pa.dictionary(pa.from_numpy_dtype(index), pa.string())
        if isinstance(first, datetime.date):
            return pa.date32()
        return pa.float64() if any(isinstance(value, float) for value in self._values or ()) else pa.int64()

    @property
    def nulls(self) -> tuple[int, ...]:
        """The codes that become null."""
        if self.words is not None:
            return tuple(range(len(self.words), self.attribute.size))
        return tuple(code for code, value in enumerate(self._values or ()) if value is None)

    def values(self, codes: Codes) -> Any:
        """The Arrow array of these codes, of this decoder's type."""
        values = self._made_values(codes)
        return values if self.type == self._made else self._cast(values)

    def _cast(self, values: Any) -> Any:
        if pa.types.is_dictionary(self._made):
            values = values.cast(pa.string())
        return values.cast(self.type)

    def _made_values(self, codes: Codes) -> Any:
        if self.words is not None:
            codes = codes.astype(_dtype(self._made.index_type))
            indices = pa.array(codes, mask=codes >= len(self.words))
            return pa.DictionaryArray.from_arrays(indices, pa.array(self.words, pa.string()))
        if self._values is None:
            return pa.array(codes.astype(np.int64))
        null = np.array([value is None for value in self._values])
        known = [0 if value is None else value for value in self._values]
        dtype = np.float64 if pa.types.is_floating(self._made) else np.int64
        values = np.array(known, dtype)[codes]
        if self.pool is not None:
            self.pool.draw(codes, values)
        if pa.types.is_date(self._made):
            return pa.array((values - EPOCH_DAY).astype(np.int32), mask=null[codes]).cast(self._made)
        return pa.array(values, self._made, mask=null[codes])

    def _extras(self) -> list[Any]:
        """The values of other and missing in a column of numbers: null for missing, and for other as text."""
        attribute = self.attribute
        other = attribute.other if isinstance(attribute.other, int) else None
        return [other] * (attribute.other is not None) + [None] * (attribute.missing is not None)

    def _middles(self, whole: bool) -> list[Any]:
        """The number in the middle of each bin, whole if required, or the day; None if there is none."""
        attribute = self.attribute
        edges: Any = attribute.edges
        dates = isinstance(edges[0], datetime.date)
        middles: list[Any] = []
        for code, (low, high) in enumerate(pairwise(edges)):
            if dates:
                middles.append((low.toordinal() + high.toordinal()) // 2)
                continue
            middle = low / 2 + high / 2
            tries: tuple[Any, ...] = (middle, low / 2 + middle / 2, middle / 2 + high / 2, float(low))
            if whole:
                tries = (math.floor(middle), math.ceil(middle), math.ceil(low), math.floor(low) + 1)
            fitting = (value for value in tries if low <= value <= high and attribute.code(value) == code)
            middles.append(next(fitting, None))
        extras = [None if dates else extra for extra in self._extras()]
        if middles and isinstance(middles[0], float):
            extras = [None if extra is None else float(extra) for extra in extras]
        return middles + extras


def _dtype(integers: Any) -> np.dtype[Any]:
    """The numpy dtype of an Arrow integer type: to_pandas_dtype needs pandas in pyarrow 17 to 25."""
    return np.dtype(f"{'i' if pa.types.is_signed_integer(integers) else 'u'}{integers.bit_width // 8}")
