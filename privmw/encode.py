"""Arrow columns become codes: `Attribute.code`, for whole columns. It loads pyarrow, so it is imported late.

The rule is the attribute's; here it is only made fast, and every kind of column must agree with it value by
value. Which values were refused is kept until `check`, so that a file's message speaks of the whole file; of
private values nothing is kept but that there were some.
"""

from __future__ import annotations

import datetime
from functools import cached_property
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from privmw.attribute import DATE, NUMBER, Attribute

Codes = npt.NDArray[np.integer[Any]]

REFUSED = -1  # in place of a code
WIDEST_TABLE = 2**16  # from the least to the greatest integer label, to be looked up in a table
EXACT = 2**53  # whole numbers up to here are exact as doubles
TICKS_OF_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class Encoder:
    """The codes of one attribute's values, column after column.

    text: the columns hold every value as text (csv), which `Attribute.parse` reads.

    >>> encoder = Encoder(Attribute.declare("sex", ["F", "M"]))
    >>> encoder.codes(pa.array(["M", "F", "X"])).dtype
    dtype('uint8')
    >>> encoder.check()
    Traceback (most recent call last):
    ValueError: column 'sex' has 1 value outside the domain (first: 'X', row 2): must be one of its 2 labels
    """

    def __init__(self, attribute: Attribute, *, private: bool = False, text: bool = False) -> None:
        self.attribute = attribute
        self.private = private
        self.text = text
        self.rows = 0
        self.refused = 0
        self._first: tuple[int, object] | None = None
        self._kind = ""
        self._dtype = np.min_scalar_type(attribute.size - 1)

    def codes(self, column: Any) -> Codes:
        """The codes of an Arrow array, in the least dtype that fits; to be used only after `check`."""
        found = self._codes(column)
        if found.dtype.kind == "i" and len(found) and int(found.min()) < 0:
            self._refuse(column, np.flatnonzero(found < 0))
        self.rows += len(column)
        return found.astype(self._dtype, copy=False)

    def check(self) -> None:
        """Raise if any value so far was refused; of private ones, say the rule alone."""
        if not self.refused:
            return
        attribute, name = self.attribute, _short(self.attribute.name)
        if self.private or self._first is None:
            missing = ", and none missing" if attribute.missing is None else " or missing"
            raise ValueError(
                f"column {name} of kind {self._kind}: every value must be {attribute.rule}{missing}"
            )
        row, value = self._first
        try:
            attribute.parse(value) if self.text else attribute.code(value)  # type: ignore[arg-type]
            error: type[Exception] = ValueError
        except (TypeError, ValueError) as refusal:
            error = type(refusal)
        what = "1 value" if self.refused == 1 else f"{self.refused} values"
        first = "missing" if value is None or value != value else _short(value)
        raise error(
            f"column {name} has {what} outside the domain (first: {first}, row {row}): "
            f"must be {attribute.rule}"
        )

    def _refuse(self, column: Any, rows: npt.NDArray[np.intp]) -> None:
        self._kind = "text" if self.text else _kind(column.type)
        if self._first is None and not self.private:
            self._first = (self.rows + int(rows[0]), _value(column[int(rows[0])]))
        self.refused += len(rows)

    def _codes(self, column: Any) -> Codes:
        kind = column.type
        if pa.types.is_dictionary(kind):
            if len(column.dictionary) > len(column):
                return self._codes(column.dictionary_decode())
            return self._entries(self._codes(column.dictionary), column.indices)
        if pa.types.is_null(kind):
            return np.full(len(column), self._missing)
        if str(kind) in ("string", "large_string", "string_view"):
            return self._with_missing(column, self._strings(column.cast(pa.large_string())))
        if pa.types.is_floating(kind):
            return self._numbers(column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False))
        if pa.types.is_integer(kind):
            whole = column.fill_null(0) if column.null_count else column
            return self._with_missing(column, self._integers(whole.to_numpy()))
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return self._with_missing(column, self._days(column))
        if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
            entries = column.dictionary_encode()
            return self._entries(self._one_by_one(entries.dictionary.to_pylist()), entries.indices)
        raise TypeError(
            f"column {_short(self.attribute.name)} of kind {_kind(kind)} must hold integers, numbers, text, "
            f"booleans or dates"
        )

    def _with_missing(self, column: Any, codes: Codes) -> Codes:
        if column.null_count:
            codes = codes.astype(np.int64)
            codes[column.is_null().to_numpy(zero_copy_only=False)] = self._missing
        return codes

    def _entries(self, codes: Codes, indices: Any) -> Codes:
        if indices.null_count:
            codes = np.append(codes, self._missing)
            indices = indices.cast(pa.int64()).fill_null(len(codes) - 1)
        found: Codes = codes[indices.to_numpy()]
        return found

    def _one_by_one(self, values: list[Any]) -> Codes:
        return np.array([self._code(value) for value in values], np.int64)

    def _code(self, value: Any) -> int:
        try:
            return self.attribute.parse(value) if self.text else self.attribute.code(value)
        except (TypeError, ValueError):
            return REFUSED

    def _strings(self, column: Any) -> Codes:
        known, codes = self._texts
        found = pc.index_in(column, value_set=known).fill_null(len(codes) - 1).to_numpy()
        made: Codes = codes[found]
        if self._of("string"):
            return made  # what is unknown is other, or refused, whatever it is
        rest = np.flatnonzero(found == len(codes) - 1)
        if len(rest) and (self.text or self._of("date")):
            entries = column.take(pa.array(rest)).dictionary_encode()
            made[rest] = self._entries(self._unknown(entries.dictionary), entries.indices)
        return made

    def _unknown(self, texts: Any) -> Codes:
        """The codes of texts that are no labels: numbers and dates."""
        made = np.full(len(texts), REFUSED)
        if self._of("date"):
            where = np.flatnonzero(_matching(texts, DATE))
            made[where] = self._one_by_one(texts.take(pa.array(where)).to_pylist())
            return made
        where = np.flatnonzero(_matching(texts, NUMBER))
        numbers = texts.take(pa.array(where)).cast(pa.float64()).to_numpy()
        made[where] = self._numbers(numbers)
        if not self.attribute.edges:
            inexact = where[np.abs(numbers) >= EXACT]
            made[inexact] = self._one_by_one(texts.take(pa.array(inexact)).to_pylist())
        return made

    def _integers(self, values: npt.NDArray[Any]) -> Codes:
        attribute = self.attribute
        if attribute.edges and not self._of("date"):
            return self._binned(values.astype(np.float64))
        if not attribute.edges and not attribute.labels:
            if len(values) and int(values.min()) >= 0 and int(values.max()) < attribute.size:
                return values  # codes already
            inside = (values >= 0) & (values < attribute.size)
            codes = np.full(len(values), REFUSED)
            codes[inside] = values[inside]
            return codes
        codes = self._labelled(values.astype(np.int64))
        if values.dtype == np.uint64:
            codes[values >= 2**63] = self._unlisted
        return codes

    def _numbers(self, values: npt.NDArray[np.float64]) -> Codes:
        if self.attribute.edges and not self._of("date"):
            return self._binned(values)
        whole = np.isfinite(values) & (np.floor(values) == values)
        fits = whole & (values >= -(2.0**63)) & (values < 2.0**63)
        codes = self._integers(np.where(fits, values, 0).astype(np.int64))
        codes = np.where(fits, codes, np.where(whole, self._unlisted, REFUSED))
        codes[np.isnan(values)] = self._missing
        return codes

    def _labelled(self, values: npt.NDArray[np.int64]) -> Codes:
        """The codes of integer labels."""
        labels, codes = self._listed
        if len(labels) == 0:
            return np.full(len(values), self._unlisted)
        if self._table is not None:
            least = int(labels[0]) - 1
            return self._table[np.clip(values, least, least + len(self._table) - 1) - least]
        near = np.minimum(np.searchsorted(labels, values), len(labels) - 1)
        return np.where(labels[near] == values, codes[near], self._unlisted)

    def _binned(self, values: npt.NDArray[np.float64]) -> Codes:
        codes = self._search(np.array(self.attribute.edges, np.float64), values)
        for label, code in zip(*self._listed, strict=True):
            if abs(int(label)) <= EXACT:
                codes[values == label] = code
        codes[np.isnan(values)] = self._missing
        return codes

    def _days(self, column: Any) -> Codes:
        if not self._of("date"):
            return np.full(len(column), REFUSED)
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            column = pc.local_timestamp(column)
        per_day = 1
        if not pa.types.is_date32(kind):
            per_day = TICKS_OF_A_DAY["ms" if pa.types.is_date64(kind) else kind.unit]
        ticks = column.cast(pa.int32() if per_day == 1 else pa.int64()).fill_null(0).to_numpy()
        edges: Any = self.attribute.edges
        first = datetime.date(1970, 1, 1).toordinal()
        return self._search(np.array([edge.toordinal() - first for edge in edges]), ticks // per_day)

    def _search(self, edges: npt.NDArray[Any], values: npt.NDArray[Any]) -> Codes:
        """The bins, closed at the last edge; outside is other, or refused."""
        bins = np.minimum(np.searchsorted(edges, values, "right"), len(edges) - 1) - 1
        return np.where((values >= edges[0]) & (values <= edges[-1]), bins, self._other)

    def _of(self, kind: str) -> bool:
        """Whether the attribute's own values are strings, or dates."""
        first = (self.attribute.edges or self.attribute.labels or (0,))[0]
        return isinstance(first, str if kind == "string" else datetime.date)

    @property
    def _missing(self) -> int:
        return REFUSED if self.attribute.missing is None else self.attribute.size - 1

    @property
    def _other(self) -> int:
        attribute = self.attribute
        return REFUSED if attribute.other is None else attribute.size - 1 - (attribute.missing is not None)

    @property
    def _unlisted(self) -> int:
        """What an integer that is no label becomes; it is the wrong kind unless labels are integers."""
        return REFUSED if self.attribute.edges or self._of("string") else self._other

    @cached_property
    def _texts(self) -> tuple[Any, Codes]:
        """Texts that stand for a code, their codes, and last what an unknown one becomes."""
        known = dict(self.attribute.texts) if self.text else {}
        if not self.text and (self.attribute.labels or self.attribute.edges):
            labels = (self.attribute.label(code) for code in range(self.attribute.size))
            known = {label: code for code, label in enumerate(labels) if isinstance(label, str)}
        unknown = self._other if self._of("string") else REFUSED
        if self.text and self.attribute.missing is None and "" not in known:
            known[""] = REFUSED
        return pa.array(list(known), pa.large_string()), np.array([*known.values(), unknown], np.int64)

    @cached_property
    def _listed(self) -> tuple[npt.NDArray[np.int64], Codes]:
        """Integer labels in ascending order, and their codes."""
        attribute = self.attribute
        if not attribute.labels and not attribute.edges:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        labels = [attribute.label(code) for code in range(attribute.size)]
        pairs = sorted((label, code) for code, label in enumerate(labels) if isinstance(label, int))
        listed = np.array(pairs, np.int64).reshape(-1, 2)
        return listed[:, 0].copy(), listed[:, 1].copy()

    @cached_property
    def _table(self) -> Codes | None:
        """Codes from one below the least label to one above the greatest, where they lie close together."""
        labels, codes = self._listed
        least, most = int(labels[0]) - 1, int(labels[-1]) + 1
        if most - least > WIDEST_TABLE or least < -(2**62) or most > 2**62:
            return None
        table = np.full(most - least + 1, self._unlisted)
        table[labels - least] = codes
        return table


def _matching(texts: Any, pattern: str) -> npt.NDArray[np.bool_]:
    matching: npt.NDArray[np.bool_] = pc.match_substring_regex(texts, f"^({pattern})$").to_numpy(
        zero_copy_only=False
    )
    return matching


def _kind(kind: Any) -> str:
    """What a message calls an Arrow type: no more than its name, since the rest can tell of values."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    names = {"bool": "boolean", "large_string": "string", "string_view": "string", "null": "missing"}
    name = str(kind).partition("<")[0].partition("[")[0].partition("(")[0]
    return names.get(name, name)


def _value(scalar: Any) -> object:
    """A value to quote: of a date that Python cannot hold, or of broken text, as much as can be said."""
    try:
        if pa.types.is_timestamp(scalar.type):
            scalar = scalar.cast(pa.timestamp("us", scalar.type.tz), safe=False)
        return scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return f"a {_kind(scalar.type)} out of range"
