"""Arrays of integers, numbers and days become codes: `Attribute.code`, vectorised for numpy arrays, no Arrow.

A value that the attribute's rule refuses becomes REFUSED.
"""

from __future__ import annotations

import datetime
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.data.attribute import Attribute
from privmw.kernels.arrays import Array, Float64s, Int64s

SignedCodes = npt.NDArray[np.integer[Any]]  # codes, or REFUSED

REFUSED = -1  # in place of a code
WIDEST_TABLE = 2**16  # from the least to the greatest integer label, to be looked up in a table
EXACT = 2**53  # whole numbers up to here are exact as doubles


class Lookup:
    """The codes of one attribute's values, of any numeric kind.

    >>> rooms = Lookup(Attribute.declare("rooms", {"labels": [1, 2, 3], "other": -1}))
    >>> rooms.integers(np.array([3, 17, -1])).tolist(), rooms.numbers(np.array([2.0, 2.5, np.nan])).tolist()
    ([2, 3, 3], [1, -1, 3])
    """

    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute
        first: object = (attribute.edges or attribute.labels or (0,))[0]
        self.of_strings = isinstance(first, str)
        self.of_dates = isinstance(first, datetime.date)
        self.of_numbers = bool(attribute.edges) and not self.of_dates
        self.missing = attribute.size - 1 if attribute.takes_missing else REFUSED
        self.other = REFUSED
        if attribute.other is not None:
            self.other = attribute.size - 1 - (attribute.missing is not None)
        # An integer that is no label is refused, as of the wrong kind, unless labels are integers.
        self._unlisted = REFUSED if attribute.edges or self.of_strings else self.other

    def integers(self, values: Array) -> SignedCodes:
        """The codes of integers of any width; the array itself if its values are the codes."""
        if self.of_numbers:
            return self.numbers(values.astype(np.float64))
        if not self.attribute.labels and not self.attribute.edges:
            size = self.attribute.size
            if len(values) and int(values.min()) >= 0 and int(values.max()) < size:
                return values
            inside = (values >= 0) & (values < size)
            codes = np.full(len(values), REFUSED)
            codes[inside] = values[inside]
            return codes
        codes = self._labelled(values.astype(np.int64))
        if values.dtype == np.uint64:
            codes[values >= 2**63] = self._unlisted
        return codes

    def numbers(self, values: Float64s) -> SignedCodes:
        """The codes of doubles; NaN is missing, and a whole number is an integer."""
        if self.of_numbers:
            codes = self._binned(np.array(self.attribute.edges, np.float64), values)
            for label, code in zip(*self._listed, strict=True):
                if abs(int(label)) <= EXACT:
                    codes[values == label] = code
        else:
            whole = np.isfinite(values) & (np.floor(values) == values)
            fits = whole & (values >= -(2.0**63)) & (values < 2.0**63)
            codes = self.integers(np.where(fits, values, 0).astype(np.int64))
            codes = np.where(fits, codes, np.where(whole, self._unlisted, REFUSED))
            if self.attribute.inexact:
                codes[np.isin(values, list(self.attribute.inexact))] = REFUSED
        codes[np.isnan(values)] = self.missing
        return codes

    def days(self, values: npt.NDArray[np.integer[Any]]) -> SignedCodes:
        """The codes of dates, given as days since 1 January 1970."""
        if not self.of_dates:
            return np.full(len(values), REFUSED)
        edges: Any = self.attribute.edges
        first = datetime.date(1970, 1, 1).toordinal()
        return self._binned(np.array([edge.toordinal() - first for edge in edges]), values)

    def _binned(self, edges: Array, values: Array) -> SignedCodes:
        """The bins, the last one closed; values outside are other, or refused, unless the bins are open."""
        bins = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 2)
        if self.attribute.open:
            return bins
        return np.where((values >= edges[0]) & (values <= edges[-1]), bins, self.other)

    def _labelled(self, values: Int64s) -> SignedCodes:
        labels, codes = self._listed
        if len(labels) == 0:
            return np.full(len(values), self._unlisted)
        if self._table is not None:
            least = int(labels[0]) - 1
            looked_up: SignedCodes = self._table[np.clip(values, least, least + len(self._table) - 1) - least]
            return looked_up
        near = np.minimum(np.searchsorted(labels, values), len(labels) - 1)
        return np.where(labels[near] == values, codes[near], self._unlisted)

    @cached_property
    def _listed(self) -> tuple[Int64s, SignedCodes]:
        """Integer labels in ascending order, and their codes."""
        attribute = self.attribute
        known = [attribute.label(code) for code in range(attribute.size)]
        pairs = sorted((label, code) for code, label in enumerate(known) if isinstance(label, int))
        listed = np.array(pairs, np.int64).reshape(-1, 2)
        return listed[:, 0].copy(), listed[:, 1].copy()

    @cached_property
    def _table(self) -> SignedCodes | None:
        """The codes of the integers from the least label - 1 to the greatest + 1; None if these are many."""
        labels, codes = self._listed
        least, most = int(labels[0]) - 1, int(labels[-1]) + 1
        if most - least > WIDEST_TABLE or least < -(2**62) or most > 2**62:
            return None
        table = np.full(most - least + 1, self._unlisted)
        table[labels - least] = codes
        return table
