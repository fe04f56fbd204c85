"""The tally: which values a public column holds and how often each comes, in bounded memory.

It takes Arrow arrays batch by batch. Of a column with very many different values it remembers some: of
numbers and dates enough for quantiles, of texts the commonest. It knows no domain and refuses nothing.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

REMEMBERED = 2**16  # different values of one column
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_LAST = datetime.date.max.toordinal()
_LARGEST = np.finfo(np.float64).max
_OWN = 0.9  # an identifier: this part of the records has a value of its own


def kind_of(arrow_type: Any) -> str | None:
    """What values of an Arrow type are: boolean, text, whole, number or date; None if nothing of these."""
    import pyarrow.types as types

    if types.is_dictionary(arrow_type):
        return kind_of(arrow_type.value_type)
    kinds = {
        "boolean": (types.is_boolean,),
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "whole": (types.is_integer,),
        "number": (types.is_floating, types.is_decimal),
        "date": (types.is_date, types.is_timestamp),
    }
    return next((kind for kind, tests in kinds.items() if any(test(arrow_type) for test in tests)), None)


class Tally:
    """The values of one column and how often each comes, as `add` meets them.

    Dates are numbered as datetime numbers days; numbers are int64 where that holds them, or float64. A
    categorical that says that its order matters gives its `order`.

    >>> import pyarrow
    >>> tally = Tally("whole")
    >>> tally.add(pyarrow.array([3, 1, None, 3]))
    >>> tally.values.tolist(), tally.counts.tolist(), tally.missing
    ([1, 3], [1, 2], 1)
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.missing = 0
        self.infinite = 0  # and dates that Python has not
        self.order: tuple[str, ...] | None = None
        self.texts: dict[str, int] = {}  # booleans and texts
        self.values: npt.NDArray[Any] = np.empty(0, np.float64 if kind == "number" else np.int64)
        self.counts = np.empty(0, np.int64)
        self._forgot: bool | None = None  # whether it looked like an identifier when some were forgotten

    def add(self, array: Any) -> None:
        """Count one Arrow array of this kind."""
        import pyarrow as pa
        import pyarrow.compute as pc

        counted = pc.value_counts(array)
        values, counts = counted.field(0), counted.field(1)
        if pa.types.is_dictionary(array.type):
            self.order = tuple(array.dictionary.to_pylist()) if array.type.ordered else None
            values = values.dictionary_decode()
        present = pc.is_valid(values)
        self.missing += int(counts.filter(pc.invert(present)).to_numpy().sum())
        values, counts = values.filter(present), counts.filter(present).to_numpy()
        if self.kind in ("boolean", "text"):
            for text, count in zip(values.to_pylist(), counts.tolist(), strict=True):
                self.texts[text] = self.texts.get(text, 0) + count
        else:
            self._merge(_numbers(values), counts)
        if len(self) > REMEMBERED:
            self._forget()

    def _merge(self, values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> None:
        nan = np.isnan(values)
        bounds = (1, _LAST) if self.kind == "date" else (-_LARGEST, _LARGEST)
        inside = (values >= bounds[0]) & (values <= bounds[1])
        self.missing += int(counts[nan].sum())
        self.infinite += int(counts[~(inside | nan)].sum())
        values, counts = values[inside], counts[inside]
        counts = np.concatenate([self.counts, counts])
        self.values, places = np.unique(np.concatenate([self.values, values]), return_inverse=True)
        self.counts = np.zeros(len(self.values), np.int64)
        np.add.at(self.counts, places, counts)

    def _forget(self) -> None:
        """Keep half: of texts the commonest, of numbers every so many records one, and the ends."""
        if self._forgot is None:
            self._forgot = self.identifier
        if self.texts:
            kept = sorted(self.texts.items(), key=lambda item: (-item[1], item[0]))[: REMEMBERED // 2]
            self.texts = dict(kept)
            return
        middles = np.cumsum(self.counts) - self.counts / 2
        parts = (middles * (REMEMBERED // 2 - 1) / self.counts.sum()).astype(np.int64)
        parts[-1] = REMEMBERED // 2  # the largest stays by itself
        starts = np.flatnonzero(np.diff(parts, prepend=-1))
        self.values, self.counts = self.values[starts], np.add.reduceat(self.counts, starts)

    @property
    def complete(self) -> bool:
        """Whether every value is still remembered."""
        return self._forgot is None

    @property
    def identifier(self) -> bool:
        """Whether the texts or integers number the records (or households of them) instead of telling of them.

        So they do if nearly every record has one of its own, or if they are consecutive although there are
        too few records for drawn values to leave no gap.
        """
        if self._forgot is not None:
            return self._forgot
        records = sum(self.texts.values()) + int(self.counts.sum())
        if len(self) >= _OWN * records:
            return True
        consecutive = not self.texts and int(self.values[-1]) - int(self.values[0]) == len(self) - 1
        return consecutive and records < len(self) * np.log(len(self))

    def __len__(self) -> int:
        return len(self.texts) or len(self.values)


def _numbers(values: Any) -> npt.NDArray[Any]:
    """Numbers for Arrow's numbers, and for dates and times."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(values.type) and values.type.tz:
        values = pc.local_timestamp(values)
    if kind_of(values.type) == "date":
        days = values.cast(pa.date32(), safe=False).cast(pa.int32()).to_numpy()
        return days.astype(np.int64) + _EPOCH
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    numbers: npt.NDArray[Any] = values.to_numpy()
    whole = numbers.dtype.kind in "iu" and not (numbers > np.iinfo(np.int64).max).any()
    return numbers.astype(np.int64 if whole else np.float64)
