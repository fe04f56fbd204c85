"""Codes become Arrow columns again: labels, bins, or numbers inside them. It loads pyarrow: import it late.

The mirror of `encode`, for public and synthetic records: `Attribute.code` makes the same code of what
is made of a code here. `Table.to_frame` tells the one exception.
"""

from __future__ import annotations

import datetime
import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from privmw.data.attribute import Attribute
from privmw.io.pool import Pool

Codes = npt.NDArray[np.integer[Any]]
_EPOCH = datetime.date(1970, 1, 1).toordinal()


class Decoder:
    """The values of one attribute's codes, column after column.

    numbers: bins become numbers or dates, their middles, instead of bin labels; with a pool of public values,
    one of those that lie in the bin.

    >>> rooms = Attribute.declare("rooms", {"labels": [1, 2, 5], "missing": "N"})
    >>> Decoder(rooms).values(np.array([2, 3, 0])).to_pylist()
    [5, None, 1]
    >>> age = Attribute.declare("age", {"edges": [0, 18, 65]})
    >>> Decoder(age).values(np.array([1, 0])).to_pylist()
    ['[18, 65]', '[0, 18)']
    >>> Decoder(age, numbers=True).values(np.array([1, 0])).to_pylist()
    [41.5, 9.0]
    """

    def __init__(self, attribute: Attribute, *, numbers: bool = False, pool: Pool | None = None) -> None:
        self.attribute = attribute
        self.pool = pool
        first: object = (attribute.edges or attribute.labels or (0,))[0]
        self.words: tuple[str, ...] | None = None  # by code: a column of text; codes beyond are null
        self._values: list[Any] | None = None  # by code, None for null
        if isinstance(first, str) or (attribute.edges and not numbers):
            every = [
                attribute.label(code) for code in range(attribute.size - (attribute.missing is not None))
            ]
            self.words = tuple(word for word in every if isinstance(word, str))
        elif attribute.edges:
            whole = pool is not None and pool.whole
            self._values = self._middles(whole)
            if whole and None in self._values[: len(attribute.edges) - 1]:
                self._values = self._middles(False)
        elif attribute.labels:
            self._values = [*attribute.labels, *self._extras()]
        self.type = self._type(first)

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
        if self.words is not None:
            codes = codes.astype(self.type.index_type.to_pandas_dtype())
            indices = pa.array(codes, mask=codes >= len(self.words))
            return pa.DictionaryArray.from_arrays(indices, pa.array(self.words, pa.string()))
        if self._values is None:
            return pa.array(codes.astype(np.int64))
        null = np.array([value is None for value in self._values])
        known = [0 if value is None else value for value in self._values]
        dtype = np.float64 if pa.types.is_floating(self.type) else np.int64
        found = np.array(known, dtype)[codes]
        if self.pool is not None:
            self.pool.draw(codes, found)
        if pa.types.is_date(self.type):
            return pa.array((found - _EPOCH).astype(np.int32), mask=null[codes]).cast(self.type)
        return pa.array(found, self.type, mask=null[codes])

    def _extras(self) -> list[Any]:
        """The values of other and missing in a column of numbers: null for missing, and for a word."""
        attribute = self.attribute
        other = attribute.other if isinstance(attribute.other, int) else None
        return [other] * (attribute.other is not None) + [None] * (attribute.missing is not None)

    def _middles(self, whole: bool) -> list[Any]:
        """A number in the middle of each bin, a whole one if asked, or the day."""
        attribute = self.attribute
        edges: Any = attribute.edges
        dates = isinstance(edges[0], datetime.date)
        made: list[Any] = []
        for code, (low, high) in enumerate(pairwise(edges)):
            if dates:
                made.append((low.toordinal() + high.toordinal()) // 2)
                continue
            middle = low / 2 + high / 2
            tries: tuple[Any, ...] = (middle, low / 2 + middle / 2, middle / 2 + high / 2, float(low))
            if whole:
                tries = (math.floor(middle), math.ceil(middle), math.ceil(low), math.floor(low) + 1)
            made.append(
                next(
                    (value for value in tries if low <= value <= high and attribute.code(value) == code), None
                )
            )
        extras = [None if dates else extra for extra in self._extras()]
        if made and isinstance(made[0], float):
            extras = [None if extra is None else float(extra) for extra in extras]
        return made + extras
