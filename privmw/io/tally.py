"""Tallies: the distinct values of a public column and their counts, in bounded memory.

A tally takes Arrow arrays batch by batch. If there are too many distinct values, it keeps quantiles of
numbers and dates, and the most common texts. It knows no domain and refuses nothing.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import numpy.typing as npt

REMEMBERED = 2**16  # distinct values of one column
EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_LAST_DAY = datetime.date.max.toordinal()
_LARGEST_NUMBER = np.finfo(np.float64).max
_UNIQUE = 0.9  # of an identifier: distinct values as a fraction of the records


def kind_of(arrow_type: Any) -> str | None:
    """The kind of an Arrow type: boolean, text, whole, number or date; None if it is none of these.

    Durations and times of day are numbers of seconds.
    """
    from pyarrow import types

    if types.is_dictionary(arrow_type):
        return kind_of(arrow_type.value_type)
    kinds = {
        "boolean": (types.is_boolean,),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "whole": (types.is_integer,),
        "number": (types.is_floating, types.is_decimal, types.is_duration, types.is_time),
        "date": (types.is_date, types.is_timestamp),
    }
    return next((kind for kind, tests in kinds.items() if any(test(arrow_type) for test in tests)), None)


class Tally:
    """The distinct values of one column and their counts, of all arrays that were added.

    Dates are datetime ordinals; numbers are int64 if possible, else float64. `order` is the order of an
    ordered categorical.

    >>> import pyarrow
    >>> tally = Tally()
    >>> tally.add(pyarrow.array([3, 1, None, 3]))
    >>> tally.values.tolist(), tally.counts.tolist(), tally.missing
    ([1, 3], [1, 2], 1)
    """

    def __init__(self) -> None:
        self.kind: str | None = None  # None for a null column, too
        self.strange: str | None = None  # name of a type without a kind
        self.rows = 0
        self.missing = 0
        self.infinite = 0  # infinite numbers, and dates out of Python's range
        self.order: tuple[str, ...] | None = None
        self.texts: dict[str, int] = {}  # booleans and texts
        self.values: npt.NDArray[Any] = np.empty(0, np.int64)
        self.counts = np.empty(0, np.int64)
        self.complete = True  # no value was dropped
        self._forgot: str | None = None  # `identifier` at the time when values were first dropped

    def add(self, array: Any) -> None:
        """Count the values of an Arrow array."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.rows += len(array)
        if self.strange or not self.expect(array.type):
            return
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:  # such as invalid UTF-8, which readers of typed files do not check
            self.strange = "damaged"
            return
        if self._forgot and self.texts:  # an identifier: further values add no information
            self.missing += array.null_count
            return
        counted = pc.value_counts(array)
        values, counts = counted.field(0), counted.field(1)
        if pa.types.is_dictionary(array.type):
            if array.type.ordered:
                listed = array.dictionary.drop_null().to_pylist()
                self.order = tuple(dict.fromkeys([*(self.order or ()), *listed]))
            values = values.dictionary_decode()
        present = pc.is_valid(values)
        self.missing += int(counts.filter(pc.invert(present)).to_numpy().sum())
        values, counts = values.filter(present), counts.filter(present).to_numpy()
        if self.kind in ("boolean", "text", None):
            for text, count in zip(values.to_pylist(), counts.tolist(), strict=True):
                self.texts[text] = self.texts.get(text, 0) + count
        else:
            self._merge(numbers_of(values), counts)
        if len(self) > REMEMBERED:
            self._forget()

    def expect(self, arrow_type: Any) -> bool:
        """True if values of an Arrow type can be added to the earlier ones; otherwise sets `strange`."""
        kind = kind_of(arrow_type)
        if {kind, self.kind} == {"whole", "number"}:
            kind = self.kind = "number"
        if str(arrow_type) != "null":
            if kind is None or kind != (self.kind or kind):
                self.strange = "mixed" if self.kind or "union" in str(arrow_type) else _name(arrow_type)
            self.kind = kind
        return self.strange is None

    def _merge(self, values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> None:
        nan = np.isnan(values)
        bounds = (1, _LAST_DAY) if self.kind == "date" else (-_LARGEST_NUMBER, _LARGEST_NUMBER)
        inside = (values >= bounds[0]) & (values <= bounds[1])
        self.missing += int(counts[nan].sum())
        self.infinite += int(counts[~(inside | nan)].sum())
        values, counts = values[inside], counts[inside]
        counts = np.concatenate([self.counts, counts])
        self.values, places = np.unique(np.concatenate([self.values, values]), return_inverse=True)
        self.counts = np.zeros(len(self.values), np.int64)
        np.add.at(self.counts, places, counts)

    def _forget(self) -> None:
        """Keep half of the values: the most common texts, or quantiles and both ends of numbers."""
        self._forgot, self.complete = self.identifier, False
        if self.texts:
            commonest = sorted(self.texts, key=self.texts.__getitem__, reverse=True)[: REMEMBERED // 2]
            self.texts = {text: self.texts[text] for text in commonest}
            return
        cumulative = np.cumsum(self.counts)
        parts = ((cumulative - self.counts / 2) * (REMEMBERED // 2 - 2) / cumulative[-1]).astype(np.int64)
        parts[0], parts[-1] = -1, REMEMBERED  # keep both ends
        starts = np.flatnonzero(np.diff(parts, prepend=-2))
        self.counts = np.add.reduceat(self.counts, starts)
        medians = np.searchsorted(cumulative, np.cumsum(self.counts) - self.counts / 2)
        self.values = self.values[medians]

    @property
    def identifier(self) -> str | None:
        """The reason why values seem to identify records, or households of them; None if they do not.

        Consecutive integers count as record numbers if random integers would have had gaps.
        """
        if not self.complete:
            return self._forgot
        records = self.rows - self.missing - self.infinite
        if len(self) >= _UNIQUE * records:
            return "nearly every record has a value of its own"
        return "it seems to number the records" if self.is_sequence else None

    @property
    def is_sequence(self) -> bool:
        """True if integers are consecutive where random ones would have had gaps."""
        if self.texts or not len(self):
            return False
        records = self.rows - self.missing - self.infinite
        span = int(self.values[-1]) - int(self.values[0]) + 1
        if not self.complete:  # too many values to see gaps
            return self._forgot is not None and span <= 2 * records
        return span == len(self) > 1 and bool(records < span * np.log(span))

    def __len__(self) -> int:
        return len(self.texts) or len(self.values)


def _name(arrow_type: Any) -> str:
    return re.split("[^a-z_]", str(arrow_type))[0]


def numbers_of(values: Any) -> npt.NDArray[Any]:
    """The numbers of an Arrow array; dates and times as ordinals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(values.type) and values.type.tz:
        values = pc.local_timestamp(values)
    if dates := kind_of(values.type) == "date":
        values = values.cast(pa.date32(), safe=False).cast(pa.int32())
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if pa.types.is_duration(values.type) or pa.types.is_time(values.type):
        from privmw.io.durations import seconds

        values = seconds(values)
    numbers: npt.NDArray[Any] = values.to_numpy()
    if dates:
        return numbers.astype(np.int64) + EPOCH_DAY
    whole = numbers.dtype.kind in "iu" and not (numbers > np.iinfo(np.int64).max).any()
    return numbers.astype(np.int64 if whole else np.float64)
