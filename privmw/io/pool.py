"""The pool: the original public values of a binned attribute, from which synthetic values are drawn.

It knows public data and the sampling stream; it draws for public or synthetic codes only.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from privmw.data.attribute import Attribute
from privmw.io.tally import Tally
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
