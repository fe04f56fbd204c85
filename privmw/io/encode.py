"""Encodes Arrow columns as codes: `Attribute.code`, vectorised. This module imports pyarrow: import it late.

Columns of every type get the same codes as their single values. The encoder remembers refused values until
`check`, so that the message covers the complete file; of private values it remembers only that there were
some.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from privmw.data.attribute import DATE, Attribute
from privmw.data.syntax import ORDERS, PLAIN, Syntax
from privmw.io.durations import is_duration, seconds
from privmw.io.forms import UNREADABLE, plain_date, plain_numbers, trimmed, without_measure
from privmw.kernels.arrays import Array, Float64s, Int64s
from privmw.secrecy import shown

SignedCodes = npt.NDArray[np.integer[Any]]  # codes, or NO_CODE

NO_CODE = -1  # for refused values
WIDEST_TABLE = 2**16  # maximum range of integer labels for a lookup table
EXACT = 2**53  # integers up to this are exact as doubles
TICKS_OF_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
STRINGS = ("string", "large_string", "string_view")
SHOWN = 4  # labels of a declaration in a message
MISFIT = -2  # for texts that are not in the form of their attribute's values


class Encoder:
    """The codes of one attribute's values, column after column.

    text: True if all values are text (csv). They are stripped, numbers and dates in the form of `syntax` are
    converted to plain form, and then parsed as by `Attribute.parse`. A private text in another form is
    `other` or missing if the domain declares these; if most texts are in another form, the column is refused.

    >>> encoder = Encoder(Attribute.declare("sex", ["F", "M"]))
    >>> encoder.codes(pa.array(["M", "F", "X"])).dtype
    dtype('uint8')
    >>> encoder.check()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: column 'sex' has 1 value outside the domain (first: 'X', row 2): must be one of its 2 l...
    """

    def __init__(
        self, attribute: Attribute, *, private: bool = False, text: bool = False, syntax: Syntax = PLAIN
    ) -> None:
        self.attribute = attribute
        self.private = private
        self.text = text
        self.syntax = syntax
        self.rows = 0
        self.refused = 0
        self.misfits = 0  # taken as other or missing
        self._first: tuple[int, str, type[Exception]] | None = None
        self._kind = ""
        self._lookup = lookup = Lookup(attribute)
        self._instead = NO_CODE  # of misfits
        if text and private:
            self._instead = lookup.other if lookup.other != NO_CODE else lookup.missing

    def codes(self, column: Any) -> SignedCodes:
        """The codes of an Arrow array, in the smallest dtype that fits; call `check` before using them."""
        codes = None
        with suppress(pa.ArrowException):  # such as an unknown time zone; its message can quote values
            codes = self._codes(column)
        if codes is None:
            name, kind = shown(self.attribute.name), kind_name(column.type)
            raise ValueError(f"column {name} of kind {kind} must be one that Arrow can read")
        if codes.dtype.kind == "i" and len(codes) and int(codes.min()) < 0:
            misfits = codes == MISFIT
            if misfits.any():
                self.misfits += int(np.count_nonzero(misfits))
                codes = np.where(misfits, self._instead, codes)
            if (refused := np.flatnonzero(codes < 0)).size:
                self._refuse(column, refused)
        self.rows += len(column)
        return codes.astype(np.min_scalar_type(self.attribute.size - 1), copy=False)

    def signed_codes(self, column: Any) -> SignedCodes:
        """The codes of a public Arrow array, NO_CODE for values outside the domain; `check` ignores them."""
        codes = self._codes(column)
        return np.where(codes < 0, NO_CODE, codes)

    def check(self) -> None:
        """Raise if any value so far was refused; for private values the message gives the rule only."""
        check_all([self])

    def refusal(self) -> Exception | None:
        """The error about all values refused so far, with a remedy; None if there are none.

        Privacy: for private values it depends only on the attribute, the type of the column, and whether any
        value was refused.
        """
        most = self._instead != NO_CODE and 2 * self.misfits > self.rows
        if not self.refused and not most:
            return None
        name, rule = shown(self.attribute.name), self.attribute.rule + self._written()
        if not self.refused:
            return ValueError(f"column {name}: most of its values must be {rule}")
        mend = self._mend()
        if self._first is None:
            missing = " or missing" if self.attribute.takes_missing else ", and none missing"
            missing += " (a blank line is a record)" if self.text and not self.attribute.takes_missing else ""
            return ValueError(
                f"column {name} of kind {self._kind}: every value must be {rule}{missing}{mend}"
            )
        row, first, error = self._first
        values = "1 value" if self.refused == 1 else f"{self.refused} values"
        return error(
            f"column {name} has {values} outside the domain (first: {first}, row {row}): must be {rule}{mend}"
        )

    def _written(self) -> str:
        """The required form of numbers and dates in a text file, and the option for other forms."""
        if not self.text or self._lookup.of_strings:
            return ""
        if self._lookup.of_dates:
            return f", written {ORDERS[self.syntax.dates or 'ymd']} (--syntax dates=... says another order)"
        mark = "comma" if self.syntax.decimal == "," else "point"
        return f", written with a decimal {mark} (--syntax decimal=... says another mark)"

    def _mend(self) -> str:
        """The remedy, from the attribute and the type of the column."""
        attribute = self.attribute
        numbers = not self._lookup.of_strings and not self._lookup.of_dates
        fitting = {"text"} | (
            {"integer", "number"} if numbers else {"date", "string"} if self._lookup.of_dates else {"string"}
        )
        if attribute.labels and {"true", "false"} & set(attribute.labels):
            fitting.add("boolean")
        if self._kind not in fitting | {"missing"}:
            kind = "numbers" if numbers else "dates" if self._lookup.of_dates else "text"
            return f"; store the column as {kind}, or take it out of the domain"
        declared = with_room(attribute)
        if declared is not None:
            return f"; declare {json.dumps(attribute.name)}: {declared}"
        kind = "dates" if self._lookup.of_dates else "numbers"
        return (
            f'; correct the file, or, if one word among the {kind} means none, declare "missing": "that word"'
        )

    def _refuse(self, column: Any, rows: npt.NDArray[np.intp]) -> None:
        self._kind = "text" if self.text else kind_name(column.type)
        if self._first is None and not self.private:
            self._first = (self.rows + int(rows[0]), *self._refusal(column[int(rows[0])]))
        self.refused += len(rows)

    def _refusal(self, scalar: Any) -> tuple[str, type[Exception]]:
        """A value as quoted in a message, and the error that `Attribute` raises for it."""
        try:
            if pa.types.is_timestamp(scalar.type):
                scalar = scalar.cast(pa.timestamp("us", scalar.type.tz), safe=False)
            value = scalar.as_py()
        except (
            ValueError,
            OverflowError,
            pa.ArrowException,
        ):  # invalid text, or a date out of Python's range
            return "one that cannot be shown", ValueError
        quoted = "missing" if value is None or value != value else shown(value)
        try:
            self._rule(value)
        except TypeError:
            return quoted, TypeError
        except ValueError:
            pass
        return quoted, ValueError

    @property
    def _rule(self) -> Callable[[Any], int]:
        return self.attribute.parse if self.text else self.attribute.code

    def _codes(self, column: Any) -> SignedCodes:
        kind, lookup = column.type, self._lookup
        if pa.types.is_dictionary(kind):
            check_indices(column)
            if len(column.dictionary) > len(column):
                return self._codes(column.dictionary_decode())
            return self._entries(self._codes(column.dictionary), column.indices)
        if pa.types.is_null(kind):
            return np.full(len(column), lookup.missing)
        if str(kind) in STRINGS:
            return self._with_missing(column, self._strings(column.cast(pa.large_string())))
        if pa.types.is_floating(kind):  # missing values become NaN
            return lookup.numbers(column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False))
        if pa.types.is_integer(kind):
            filled = column.fill_null(0) if column.null_count else column
            return self._with_missing(column, lookup.integers(filled.to_numpy()))
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return self._with_missing(column, lookup.days(_days(column)))
        if is_duration(kind):
            return lookup.numbers(seconds(column).to_numpy(zero_copy_only=False))
        if pa.types.is_decimal(kind):
            if kind.precision <= 15 and 0 <= kind.scale <= 22:
                return lookup.numbers(_short_decimals(column))
            column = column.cast(pa.decimal256(kind.precision, kind.scale))
        if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
            entries = column.dictionary_encode()
            return self._entries(self._one_by_one(entries.dictionary), entries.indices)
        raise TypeError(
            f"column {shown(self.attribute.name)} of kind {kind_name(kind)} must hold integers, numbers, "
            f"text, booleans or dates"
        )

    def _with_missing(self, column: Any, codes: SignedCodes) -> SignedCodes:
        if column.null_count:
            codes = codes.astype(np.int64)
            codes[column.is_null().to_numpy(zero_copy_only=False)] = self._lookup.missing
        return codes

    def _entries(self, codes: SignedCodes, indices: Any) -> SignedCodes:
        """The codes of a column, given the codes of its dictionary's entries."""
        if indices.null_count:
            codes = np.append(codes.astype(np.int64), self._lookup.missing)  # uint64 would become float64
            indices = indices.cast(pa.int64()).fill_null(len(codes) - 1)
        column_codes: SignedCodes = codes[indices.to_numpy()]
        return column_codes

    def _one_by_one(self, values: Any) -> SignedCodes:
        codes = np.full(len(values), NO_CODE)
        for position, value in enumerate(values.to_pylist()):
            with suppress(TypeError, ValueError):
                codes[position] = self._rule(value)
        return codes

    def _strings(self, column: Any) -> SignedCodes:
        known_texts, known_codes = self._texts
        unknown = len(known_codes) - 1
        positions = pc.index_in(column, value_set=known_texts).fill_null(unknown).to_numpy()
        codes: SignedCodes = known_codes[positions]
        if self.text or self._lookup.of_dates:
            rest = np.flatnonzero(positions == unknown)
            entries = column.take(pa.array(rest)).dictionary_encode()
            codes[rest] = self._entries(self._unknown(entries.dictionary), entries.indices)
        return codes

    def _unknown(self, texts: Any) -> SignedCodes:
        """The codes of texts that are not labels: texts to strip, dates, or numbers."""
        if not self.text:
            return self._dates(texts)
        texts, (known_texts, known_codes) = trimmed(texts), self._texts
        positions = pc.index_in(texts, value_set=known_texts).fill_null(len(known_codes) - 1).to_numpy()
        codes: SignedCodes = known_codes[positions]
        rest = np.flatnonzero(positions == len(known_codes) - 1)
        if self._lookup.of_strings:
            damaged = pc.match_substring(texts.take(pa.array(rest)), UNREADABLE).to_numpy(
                zero_copy_only=False
            )
            codes[rest[damaged]] = MISFIT
        else:
            parse = self._dates if self._lookup.of_dates else self._numbers
            codes[rest] = parse(texts.take(pa.array(rest)))
        return codes

    def _dates(self, texts: Any) -> SignedCodes:
        codes = np.full(len(texts), MISFIT if self.text else NO_CODE)
        for position, text in enumerate(_decoded(texts)):
            exact = self.text or re.fullmatch(DATE, text)
            day = plain_date(text, self.syntax.dates) if exact else None
            if day is not None:
                codes[position] = NO_CODE
                with suppress(ValueError):
                    codes[position] = self.attribute.code(day)
        return codes

    def _numbers(self, texts: Any) -> SignedCodes:
        codes = np.full(len(texts), MISFIT)
        texts = plain_numbers(without_measure(texts, self.attribute.measured_in), self.syntax)
        where = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        matching = texts.drop_null()
        numbers = matching.cast(pa.float64()).to_numpy()
        codes[where] = self._lookup.numbers(numbers)
        if self.attribute.labels:
            inexact = np.flatnonzero(np.abs(numbers) >= EXACT)
            codes[where[inexact]] = self._one_by_one(matching.take(pa.array(inexact)))
        return codes

    @cached_property
    def _texts(self) -> tuple[Any, SignedCodes]:
        """The texts with a code, and their codes; the last code is for all other texts."""
        attribute, known = self.attribute, {}
        if self.text:
            known = {"": NO_CODE, **attribute.texts}
        elif attribute.labels or attribute.edges:
            labels = (attribute.label(code) for code in range(attribute.size))
            known = {label: code for code, label in enumerate(labels) if isinstance(label, str)}
            known.update(attribute.words)
        other = self._lookup.other if self._lookup.of_strings else NO_CODE
        return pa.array(list(known), pa.large_string()), np.array([*known.values(), other], np.int64)


def check_all(encoders: Iterable[Encoder]) -> None:
    """Raise one error about all columns with refused values."""
    errors = [error for encoder in encoders if (error := encoder.refusal()) is not None]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        kind = TypeError if all(isinstance(error, TypeError) for error in errors) else ValueError
        listed = "; ".join(f"({number}) {error}" for number, error in enumerate(errors, 1))
        raise kind(f"{len(errors)} columns have values outside the domain: {listed}")


def with_room(attribute: Attribute) -> str | None:
    """A JSON declaration that accepts all values of the kind, and missing ones; None if this one does.

    >>> with_room(Attribute.declare("age", {"edges": [0, 18, 65]}))
    '{"edges": [0, 18, 65], "open": true, "missing": "missing"}'
    """
    declared: Any = attribute.declaration()
    if isinstance(declared, int):
        declared = list(range(min(declared, 10**6)))
    declared = dict(declared) if isinstance(declared, dict) else {"labels": declared}
    before = dict(declared)
    if attribute.edges:
        declared["open"] = True
        extra = "missing" if attribute.other is None else None
    else:
        extra = "other"
    if extra is not None and extra not in declared:
        declared[extra] = extra if extra not in (attribute.labels or ()) else f"{extra} value"
    if declared == before:
        return None
    for key in ("labels", "edges"):
        if len(declared.get(key, ())) > SHOWN + 1 and len(json.dumps(declared)) > 120:
            shown = json.dumps(declared[key][:SHOWN], ensure_ascii=False)[:-1]
            rest = json.dumps({k: v for k, v in declared.items() if k != key}, ensure_ascii=False)
            return f'{{"{key}": {shown}, ... as before], {rest[1:]}'
    return json.dumps(declared, ensure_ascii=False)


def _decoded(texts: Any) -> list[str]:
    """Texts as Python strings; invalid UTF-8 is replaced."""
    return [text.decode("utf-8", "replace") for text in texts.cast(pa.large_binary()).to_pylist()]


def check_indices(column: Any) -> None:
    """Refuse indices beyond the dictionary: a damaged file can have them, and Arrow does not check them."""
    ends = pc.min_max(column.indices).as_py()
    if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < len(column.dictionary):
        raise pa.ArrowInvalid("indices must lie in the dictionary")


def _days(column: Any) -> npt.NDArray[np.integer[Any]]:
    """Days since 1 January 1970, in the column's own time zone."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = pc.local_timestamp(column)
    if pa.types.is_date32(kind):
        days: npt.NDArray[np.int32] = column.cast(pa.int32()).fill_null(0).to_numpy()
        return days
    ticks: npt.NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy()
    return ticks // TICKS_OF_A_DAY["ms" if pa.types.is_date64(kind) else kind.unit]


def _short_decimals(column: Any) -> Float64s:
    """The nearest doubles: 15 digits and powers of ten up to 10^22 are exact, so only one division rounds.

    Decimals of 15 digits are further apart than doubles, so a fraction never becomes an integer.
    """
    kind = column.type
    if len(column) == 0:
        return np.empty(0)
    words = np.frombuffer(column.buffers()[1], np.int32 if kind.bit_width == 32 else np.int64)
    step = max(kind.bit_width // 64, 1)  # the lowest word holds the whole value
    numbers: Float64s = words[column.offset * step :: step][: len(column)] / 10.0**kind.scale
    numbers[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return numbers


def kind_name(kind: Any) -> str:
    """The name of an Arrow type for messages, without its parameters, which can reveal values."""
    if pa.types.is_dictionary(kind):
        return kind_name(kind.value_type)
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or is_duration(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    names = {"bool": "boolean", "null": "missing", **dict.fromkeys(STRINGS, "string")}
    name = str(kind).partition("<")[0].partition("[")[0].partition("(")[0]
    return names.get(name, name)


class Lookup:
    """The codes of one attribute's values in numpy arrays of any numeric type; NO_CODE for other values.

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
        self.missing = attribute.size - 1 if attribute.takes_missing else NO_CODE
        self.other = NO_CODE
        if attribute.other is not None:
            self.other = attribute.size - 1 - (attribute.missing is not None)
        # Unless labels are integers, an integer that is no label is of the wrong kind and refused.
        self._unlisted = NO_CODE if attribute.edges or self.of_strings else self.other

    def integers(self, values: Array) -> SignedCodes:
        """The codes of integers of any width; returns the array itself if its values are the codes."""
        if self.of_numbers:
            return self.numbers(values.astype(np.float64))
        if not self.attribute.labels and not self.attribute.edges:
            size = self.attribute.size
            if len(values) and int(values.min()) >= 0 and int(values.max()) < size:
                return values
            inside = (values >= 0) & (values < size)
            codes = np.full(len(values), NO_CODE)
            codes[inside] = values[inside]
            return codes
        codes = self._labelled(values.astype(np.int64))
        if values.dtype == np.uint64:
            codes[values >= 2**63] = self._unlisted
        return codes

    def numbers(self, values: Float64s) -> SignedCodes:
        """The codes of doubles; NaN is missing, and integral values are treated as integers."""
        if self.of_numbers:
            codes = self._binned(np.array(self.attribute.edges, np.float64), values)
            for label, code in zip(*self._listed, strict=True):
                if abs(int(label)) <= EXACT:
                    codes[values == label] = code
        else:
            whole = np.isfinite(values) & (np.floor(values) == values)
            fits = whole & (values >= -(2.0**63)) & (values < 2.0**63)
            codes = self.integers(np.where(fits, values, 0).astype(np.int64))
            codes = np.where(fits, codes, np.where(whole, self._unlisted, NO_CODE))
            if self.attribute.inexact:
                codes[np.isin(values, list(self.attribute.inexact))] = NO_CODE
        codes[np.isnan(values)] = self.missing
        return codes

    def days(self, values: npt.NDArray[np.integer[Any]]) -> SignedCodes:
        """The codes of dates, given as days since 1 January 1970."""
        if not self.of_dates:
            return np.full(len(values), NO_CODE)
        edges: Any = self.attribute.edges
        first = datetime.date(1970, 1, 1).toordinal()
        return self._binned(np.array([edge.toordinal() - first for edge in edges]), values)

    def _binned(self, edges: Array, values: Array) -> SignedCodes:
        """The bins of values; the last bin is closed. Values outside closed bins are other or refused."""
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
            return self._table[np.clip(values, least, least + len(self._table) - 1) - least]
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
        """A lookup table of the integers from the least label - 1 to the greatest + 1; None if too large."""
        labels, codes = self._listed
        least, most = int(labels[0]) - 1, int(labels[-1]) + 1
        if most - least > WIDEST_TABLE or least < -(2**62) or most > 2**62:
            return None
        table = np.full(most - least + 1, self._unlisted)
        table[labels - least] = codes
        return table
