"""Decodes codes to Arrow columns: labels, bins, numbers in bins, or values of public records. This module
imports pyarrow: import it late.

The inverse of `encode`, for public and synthetic records: `Attribute.code` maps a decoded value back to its
code. `Table.to_frame` describes the one exception.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from privmw.data.attribute import Attribute
from privmw.io.durations import from_seconds, is_duration, seconds
from privmw.io.encode import STRINGS
from privmw.io.public_records import NO_ROW, Rows
from privmw.io.tally import EPOCH_DAY
from privmw.kernels.arrays import Array, Codes

_MOST_DECIMALS = 9  # of a random number in a bin

NULL_TEXT = -2  # for a public record without a text


class PublicColumn(NamedTuple):
    """The values of public records for one attribute, an Arrow array, and their codes.

    They are of the kind of the attribute's labels or edges.
    """

    values: Any
    codes: Codes


class Decoder:
    """The values of one attribute's codes, column after column.

    numbers: a bin becomes a number or date (its midpoint) instead of its label; with `spread` a random one of
    the bin, with no more decimals than the edges. public: raw values for the records. like: the Arrow type of
    the public column, which is used if it can hold every value. Attributes with just the labels "true" and
    "false" become booleans.

    >>> rooms = Attribute.declare("rooms", {"labels": [1, 2, 5], "missing": "N"})
    >>> Decoder(rooms).values(np.array([2, 3, 0])).to_pylist()
    [5, None, 1]
    >>> age = Attribute.declare("age", {"edges": [0, 18, 65]})
    >>> Decoder(age).values(np.array([1, 0])).to_pylist()
    ['[18, 65]', '[0, 18)']
    >>> Decoder(age, numbers=True).values(np.array([1, 0])).to_pylist()
    [41.5, 9.0]
    >>> ages = PublicColumn(pa.array([31, 4]), np.array([1, 0]))
    >>> Decoder(age, numbers=True, public=ages).values(np.array([1, 0]), np.array([0, 1])).to_pylist()
    [31, 4]
    """

    def __init__(
        self,
        attribute: Attribute,
        *,
        numbers: bool = False,
        spread: np.random.Generator | None = None,
        public: PublicColumn | None = None,
        like: Any = None,
    ) -> None:
        self.attribute = attribute
        self._public = public
        self._rng = spread
        self._known = frozenset(() if public is None else np.unique(public.codes).tolist())
        self._whole = public is not None and _all_whole(public.values)
        first: object = (attribute.edges or attribute.labels or (0,))[0]
        self.words: tuple[str, ...] | None = None  # by code, for a column of text; further codes are null
        self._values: list[Any] | None = None  # by code, None for null
        if isinstance(first, str) or (attribute.edges and not numbers):
            labels = map(attribute.label, range(attribute.size - (attribute.missing is not None)))
            self.words = tuple(label for label in labels if isinstance(label, str))
        elif attribute.edges:
            self._whole = self._whole or (spread is not None and all(map(_is_whole, attribute.edges)))
            self._values = self._middles(self._whole)
            if self._whole and any(
                value is None and code not in self._known
                for code, value in enumerate(self._values[: len(attribute.edges) - 1])
            ):
                self._whole = False
                self._values = self._middles(False)
        elif attribute.labels:
            self._values = [*attribute.labels, *self._extras()]
        self._nulls = tuple(range(len(self.words or ()), attribute.size))  # of words
        self._others: Rows | None = None  # by public record: the index in words of a text that is no label
        if self.words is not None and public is not None:
            self._others, self.words = _with_other_texts(attribute, self.words, public)
        self._made = self._type(first)
        self.like = like
        self.type = self._kept(like) if like is not None else self._made
        if like is None and self.words is not None and set(self.words) == {"true", "false"}:
            self.type = pa.bool_()

    def _kept(self, like: Any) -> Any:
        """The public type if it can hold every value of the domain, else the default one."""
        made = self._made
        if self.words is not None:
            boolean = pa.types.is_boolean(like) and set(self.words) == {"true", "false"}
            if pa.types.is_dictionary(like) and str(like.value_type) in STRINGS:
                return pa.dictionary(made.index_type, made.value_type, ordered=like.ordered)
            return like if boolean or str(like) in STRINGS else made
        if pa.types.is_integer(like) and pa.types.is_integer(made):
            values = self._values or (0, self.attribute.size - 1)
            known = [v for code, v in enumerate(values) if v is not None and code not in self._known]
            limits = np.iinfo(_dtype(like))
            return like if all(limits.min <= value <= limits.max for value in known) else made
        numbers = pa.types.is_floating(like) or pa.types.is_decimal(like)
        floats = numbers and (pa.types.is_floating(made) or pa.types.is_integer(made))
        if is_duration(like) and (pa.types.is_floating(made) or pa.types.is_integer(made)):
            return like
        dates = (pa.types.is_timestamp(like) or pa.types.is_date(like)) and pa.types.is_date(made)
        return like if floats or dates else made

    def _type(self, first: object) -> Any:
        if self.words is not None:
            index = next(t for t in (np.int8, np.int16, np.int32) if len(self.words) <= np.iinfo(t).max)
            return pa.dictionary(pa.from_numpy_dtype(index), pa.string())
        if isinstance(first, datetime.date):
            return pa.date32()
        fractions = any(isinstance(value, float) for value in self._values or ())
        return pa.float64() if fractions else pa.int64()

    @property
    def is_like(self) -> bool:
        """True if the values have the Arrow type of the public column, or the same kind of categories."""
        like = self.like
        if like is None:
            return False
        if pa.types.is_dictionary(like):  # of texts, or of integers
            return self.words is not None or pa.types.is_integer(like.value_type)
        return bool(self.type == like)

    @property
    def nulls(self) -> tuple[int, ...]:
        """The codes that become null unless a public record has them."""
        if self.words is not None:
            return self._nulls
        values = enumerate(self._values or ())
        return tuple(code for code, value in values if value is None and code not in self._known)

    def values(self, codes: Codes, rows: Rows | None = None) -> Any:
        """The Arrow array of these codes; rows: the public records that provide raw values."""
        values = self._numbers(codes) if self.words is None else self._texts(codes, rows)
        values = values if self.type == self._made else self._cast(values)
        if rows is None or self._public is None or self.words is not None:
            return values
        own = rows == NO_ROW
        drawn = _cast(self._public.values.take(pa.array(rows, mask=own)), self.type)
        return pc.if_else(pa.array(own), values, drawn)

    def _cast(self, values: Any) -> Any:
        if pa.types.is_dictionary(self.type):
            return pa.DictionaryArray.from_arrays(
                values.indices, values.dictionary, ordered=self.type.ordered
            )
        if pa.types.is_dictionary(self._made):
            values = values.cast(pa.string())
        return _cast(values, self.type)

    def _texts(self, codes: Codes, rows: Rows | None) -> Any:
        places = codes.astype(np.int64)
        null = places >= self.attribute.size - len(self._nulls)
        if rows is not None and self._others is not None:
            others = np.where(rows == NO_ROW, NO_ROW, self._others[rows])
            null = np.where(others == NO_ROW, null, others == NULL_TEXT)
            places = np.where(others == NO_ROW, places, others)
        indices = np.where(null, 0, places).astype(_dtype(self._made.index_type))
        return pa.DictionaryArray.from_arrays(pa.array(indices, mask=null), pa.array(self.words, pa.string()))

    def _numbers(self, codes: Codes) -> Any:
        if self._values is None:
            return pa.array(codes.astype(np.int64))
        null = np.array([value is None for value in self._values])
        known = [0 if value is None else value for value in self._values]
        dtype = np.float64 if pa.types.is_floating(self._made) else np.int64
        values = np.array(known, dtype)[codes]
        if self._rng is not None and self.attribute.edges:
            values = self._spread(codes, values)
        if pa.types.is_date(self._made):
            return pa.array((values - EPOCH_DAY).astype(np.int32), mask=null[codes]).cast(self._made)
        return pa.array(values, self._made, mask=null[codes])

    def _spread(self, codes: Codes, middles: Array) -> Array:
        """A random number or day in each bin, rounded to a unit; the midpoint if that is outside the bin."""
        assert self._rng is not None
        edges: Any = self.attribute.edges
        dates = isinstance(edges[0], datetime.date)
        bounds = np.array([edge.toordinal() if dates else edge for edge in edges], np.float64)
        unit = 1.0 if dates or self._whole else 10.0 ** -max(map(_decimals, edges))
        bins = np.minimum(codes, len(edges) - 2).astype(np.int64)
        low, high = bounds[:-1], bounds[1:].copy()
        high[-1] += unit  # the last bin is closed
        first = np.ceil(low / unit - 1e-9)
        steps = np.maximum(np.ceil(high / unit - 1e-9) - first, 1)
        numbers = (first[bins] + np.floor(self._rng.random(len(codes)) * steps[bins])) * unit
        if unit < 1:
            numbers = np.round(numbers, max(map(_decimals, edges)))
        inside = np.clip(np.searchsorted(bounds, numbers, "right") - 1, 0, len(edges) - 2) == codes
        inside &= (numbers >= bounds[0]) & (numbers <= bounds[-1])
        for label in (self.attribute.other, self.attribute.missing):
            if isinstance(label, int):
                inside &= numbers != label
        return np.where(inside, numbers, middles).astype(middles.dtype)

    def _extras(self) -> list[Any]:
        """The values of "other" and "missing" in a column of numbers: null unless other is a number."""
        attribute = self.attribute
        other = attribute.other if isinstance(attribute.other, int) else None
        return [other] * (attribute.other is not None) + [None] * (attribute.missing is not None)

    def _middles(self, whole: bool) -> list[Any]:
        """The midpoint of each bin as a number (an integer if required) or a day; None if there is none."""
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


def _with_other_texts(
    attribute: Attribute, words: tuple[str, ...], public: PublicColumn
) -> tuple[Rows, tuple[str, ...]]:
    """For each public record the index of its text in the words, unless it is a label; and the longer words.

    NO_ROW if the text is a label, NULL_TEXT if there is none. Words for missing values, such as ?, are texts.
    """
    labels = attribute.size - (attribute.other is not None) - (attribute.missing is not None)
    places: Rows = np.full(len(public.codes), NO_ROW)
    records = np.flatnonzero((public.codes >= labels) & (public.codes < attribute.size))
    entries = public.values.take(pa.array(records)).cast(pa.string()).dictionary_encode()
    texts = {word: place for place, word in enumerate(words)}
    listed = [texts.setdefault(text, len(texts)) for text in entries.dictionary.to_pylist()]
    indices = entries.indices.fill_null(len(listed)).to_numpy()
    places[records] = np.array([*listed, NULL_TEXT], np.int64)[indices]
    return places, tuple(texts)


def _cast(values: Any, kind: Any) -> Any:
    """Cast values to an Arrow type that can hold them; dates become midnight in the type's time zone."""
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) and kind.tz is not None and pa.types.is_date(values.type):
        plain = values.cast(pa.timestamp(kind.unit))
        return pc.assume_timezone(plain, kind.tz, ambiguous="earliest", nonexistent="latest")
    if is_duration(kind) and not is_duration(values.type):
        return from_seconds(values, kind)
    if is_duration(values.type) and not is_duration(kind):
        return seconds(values).cast(kind, safe=False)
    if pa.types.is_decimal(kind) and not pa.types.is_decimal(values.type):
        unit = Decimal(1).scaleb(-kind.scale)
        rounded = (v if v is None else Decimal(str(v)).quantize(unit) for v in values.to_pylist())
        return pa.array(list(rounded), kind)
    return values.cast(kind, safe=False)


def _all_whole(values: Any) -> bool:
    """True if there are numbers and all are integers."""
    if pa.types.is_integer(values.type):
        return True
    if is_duration(values.type):
        values = seconds(values)
    if not (pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)):
        return False
    numbers: npt.NDArray[np.float64] = values.drop_null().cast(pa.float64()).to_numpy()
    numbers = numbers[np.isfinite(numbers)]
    return len(numbers) > 0 and bool((np.floor(numbers) == numbers).all())


def _is_whole(edge: Any) -> bool:
    return isinstance(edge, int) and not isinstance(edge, bool)


def _decimals(edge: Any) -> int:
    """The number of decimals in the shortest notation of a number.

    >>> _decimals(0.25), _decimals(1e-5), _decimals(10)
    (2, 5, 0)
    """
    exponent = Decimal(str(edge)).normalize().as_tuple().exponent
    return min(max(-int(exponent), 0), _MOST_DECIMALS)


def _dtype(integers: Any) -> np.dtype[Any]:
    """The numpy dtype of an Arrow integer type: to_pandas_dtype needs pandas in pyarrow 17 to 25."""
    return np.dtype(f"{'i' if pa.types.is_signed_integer(integers) else 'u'}{integers.bit_width // 8}")
