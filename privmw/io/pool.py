"""The pool: the original public values of a binned attribute, from which synthetic records draw theirs.

It knows public data and the stream of post-processing; what it draws, it draws for public or synthetic codes.
"""

from __future__ import annotations

import datetime
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.data.attribute import Attribute
from privmw.io.tally import Tally


class Pool:
    """The values of each bin, each as often as public records have it.

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
            what = "dates" if dates else "numbers"
            raise TypeError(f"public column {_short(attribute.name)} ({tally.kind}) must hold {what}")
        self.whole = tally.values.dtype.kind == "i"
        self._rng = rng
        last = len(edges) - 1
        codes = np.array([_code(attribute, value, dates) for value in tally.values.tolist()], np.int64)
        inside = (codes >= 0) & (codes < last)
        order = np.argsort(codes[inside], kind="stable")
        self._values = tally.values[inside][order]
        self._upto = np.cumsum(tally.counts[inside][order])
        self._records = np.bincount(codes[inside], tally.counts[inside], last).astype(np.int64)
        self._before = np.cumsum(self._records) - self._records

    def draw(self, codes: npt.NDArray[np.integer[Any]], found: npt.NDArray[Any]) -> None:
        """Put a value into `found` for each code of a bin that public records have; leave the others."""
        place = self._rng.random(len(codes))  # one for each record: batches do not change what is drawn
        bins = np.minimum(codes, len(self._records) - 1).astype(np.int64)
        drawn = (codes < len(self._records)) & (self._records[bins] > 0)
        bins, place = bins[drawn], place[drawn]
        record = self._before[bins] + (place * self._records[bins]).astype(np.int64)
        found[drawn] = self._values[np.searchsorted(self._upto, record, "right")]


def _code(attribute: Attribute, value: Any, dates: bool) -> int:
    try:
        return attribute.code(datetime.date.fromordinal(value) if dates else value)
    except ValueError:  # outside
        return -1
