"""One attribute: the values that it may take, and their codes.

Imports nothing of privmw but secrecy. The codes number the labels (or bins) first, in the order declared,
then "other" if declared, then "missing" if declared. Bins are half open, [edge, next edge), except the last,
which is closed: edges 0, 10, 100 make [0, 10) and [10, 100]. Open bins take every value: the same
edges make (-inf, 10) and [10, inf), and 0 and 100 only say where most values lie.
"""

from __future__ import annotations

import bisect
import datetime
import math
import numbers
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any

from privmw.secrecy import expect, shown

Label = str | int
Edge = int | float | datetime.date

SHOWN_LABELS = 5  # of an attribute, in a message
LARGEST_SIZE = 2**32 - 1  # a code is at most a uint32
# A number written as text: one grammar for Python and for Arrow.
NUMBER = (
    "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
    "|[nN][aA][nN]|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"
)
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
BLANKS = " \t\r\n"  # that are cut from texts
# Start of a text that a spreadsheet program runs as a formula when it opens csv, unless it is a number; also
# matches the quotes that `guarded` puts before it.
FORMULA = "'*[=+@\t\r\n＝＋－＠-]"
# Words that mean a missing value, in columns of text and of numbers alike, unless they are labels.
MISSING_WORDS = (
    "?",
    "N/A",
    "n/a",
    "#N/A",
    "NA",
    "NaN",
    "nan",
    "null",
    "NULL",
    "unknown",
    "Unknown",
    "UNKNOWN",
)
_KEYS = ("labels", "edges", "open", "measured_in", "other", "missing")
_UNORDERED = (numbers.Real, datetime.date)  # types with a value that is unequal to itself: NaN, pandas' NaT


def guarded(text: str) -> str:
    """Put a quote before a text that a spreadsheet program would run as a formula.

    Numbers are unchanged. Text that looks guarded already gets another quote, so `unguarded` inverts this.

    >>> [guarded(text) for text in ("=1+1", "- none", "-5", "'=1+1", "it's")]
    ["'=1+1", "'- none", '-5', "''=1+1", "it's"]
    """
    return f"'{text}" if re.match(FORMULA, text) and not re.fullmatch(NUMBER, text) else text


def unguarded(text: str) -> str:
    """The inverse of `guarded`.

    >>> unguarded("'=1+1"), unguarded("-5"), unguarded("'quoted'")
    ('=1+1', '-5', "'quoted'")
    """
    return text[1:] if re.match(f"'{FORMULA}", text) else text


@dataclass(frozen=True, repr=False)
class Attribute:
    """One attribute of a domain: it has `labels`, or bin `edges`, or neither (its values are its codes).

    `size` is the number of codes, including those of `other` and `missing`.

    >>> income = Attribute.declare("income", {"edges": [0, 10, 100], "other": "else", "missing": "N"})
    >>> [income.label(code) for code in range(income.size)]
    ['[0, 10)', '[10, 100]', 'else', 'N']
    >>> [income.code(value) for value in (9.99, 10, 100, 101, None, "N")]
    [0, 1, 1, 2, 3, 3]
    >>> hours = Attribute.declare("hours", {"edges": [0, 35, 60], "open": True, "measured_in": "h"})
    >>> [hours.label(code) for code in range(hours.size)], [hours.parse(t) for t in ("34.5 h", "99", "-1")]
    (['(-inf, 35)', '[35, inf)'], [0, 1, 0])
    """

    name: str
    size: int
    labels: tuple[Label, ...] | None = None
    edges: tuple[Edge, ...] | None = None
    other: Label | None = None
    missing: Label | None = None
    open: bool = False  # the first bin has all values below, the last all above
    measured_in: str | None = None  # unit that may follow or precede a number: h, EUR, %

    @classmethod
    def declare(cls, name: str, declared: Any) -> Attribute:
        """Make the attribute that a domain file declares; refuses an invalid declaration."""
        expect("attribute name", name, str, "a string")
        where = f"attribute {shown(name)}"
        name = str(_label(where, "name", name))
        if hasattr(declared, "tolist"):
            declared = declared.tolist()  # numpy's
        if isinstance(declared, list | tuple):
            declared = {"labels": declared}
        if isinstance(declared, Mapping):
            unknown = [key for key in declared if key not in _KEYS]
            if unknown:
                listed = f"{', '.join(_KEYS[:-1])} or {_KEYS[-1]}"
                raise ValueError(f"{where}: keys must be {listed}")
            if ("labels" in declared) == ("edges" in declared):
                raise ValueError(f"{where} must have either labels or edges")
            labels = _labels(where, declared["labels"]) if "labels" in declared else None
            edges = _edges(where, declared["edges"]) if "edges" in declared else None
            other, missing = (
                None if declared.get(key) is None else _label(where, key, declared[key])
                for key in ("other", "missing")
            )
            size = len(labels or (edges or ())[1:]) + (other is not None) + (missing is not None)
            is_open = _open(where, declared.get("open", False), edges)
            measured_in = _measured_in(where, declared.get("measured_in"), labels, edges)
            attribute = cls(name, size, labels, edges, other, missing, is_open, measured_in)
            codes = attribute._codes
            if len(codes) < size:
                values = enumerate(attribute._values)
                repeated = next(code for code, label in values if codes[label] != code)
                raise ValueError(f"{where}: labels[{repeated}] must be given only once")
        elif _kind(declared) == "integer":
            attribute = cls(name, int(declared))
        else:
            expect(
                f"{where}: size", declared, False, "an integer, a list of labels or an object", quote=False
            )
        if not 1 <= attribute.size <= LARGEST_SIZE:
            raise ValueError(f"{where}: size must be from 1 to 2^32 - 1")
        return attribute

    def declaration(self) -> int | list[Label] | dict[str, object]:
        """The declaration of this attribute in a domain file: a size, a list of labels, or an object."""
        extras = {key: getattr(self, key) for key in _KEYS[3:] if getattr(self, key) is not None}
        extras = {"open": True, **extras} if self.open else extras
        if self.edges:
            return {"edges": [str(e) if isinstance(e, datetime.date) else e for e in self.edges], **extras}
        if self.labels:
            return {"labels": list(self.labels), **extras} if extras else list(self.labels)
        return self.size

    def label(self, code: int) -> Label:
        """The value of a code: a label, a bin such as '[0, 10)', or the code itself."""
        expect(f"attribute {shown(self.name)}: code", code, _kind(code) == "integer", "an integer")
        if not 0 <= code < self.size:
            raise ValueError(
                f"attribute {shown(self.name)}: code ({shown(code)}) must be from 0 to {self.size - 1}"
            )
        return self._values[code] if self._values else int(code)

    def code(self, value: object, *, quote: bool = True) -> int:
        """The code of a value: a label as `label` returns it, or a number or date in a bin.

        None, NaN and `MISSING_WORDS` (unless they are labels) are missing, or `other` if no missing value is
        declared. True and False are the labels "true" and "false"; 3.0 is the integer 3; durations and times
        of day are numbers of seconds. A value declared as
        `other` or `missing` has that code, even inside a bin. Any other value is `other` if that is declared,
        else refused; a value of the wrong kind, such as 3.5 among integers, is always refused. Messages quote
        the value, unless quote is False: see `expect`.
        """
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            value = value.item()  # a numpy scalar
        if isinstance(value, datetime.timedelta | datetime.time):
            value = _seconds(value)
        if isinstance(value, Decimal):
            value = int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
        if value is None or (isinstance(value, _UNORDERED) and value != value):
            if not self.takes_missing:
                raise ValueError(
                    f"attribute {shown(self.name)}: value is missing, but none is declared missing"
                )
            return self.size - 1
        if isinstance(value, bool):
            value = self._truth(value) if self.labels else value
        elif isinstance(value, numbers.Real):
            value = _number(value) if self.edges else self._whole(value)
        kind = _kind(value)
        if kind in ("string", "integer") and value in self._codes:
            return self._codes[value]
        if isinstance(value, str) and value in self.words:
            return self.words[value]
        first: object = (self.edges or self.labels or (0,))[0]
        if isinstance(first, datetime.date):
            value = as_date(value)
        kinds = {_kind(first)} | ({"integer", "number"} if self.edges and _kind(first) != "date" else set())
        where = f"attribute {shown(self.name)}: value"
        expect(where, value, _kind(value) in kinds, self.rule, quote=quote)
        code = self._search(value)
        if code is None:
            labels = f": {', '.join(map(repr, self.labels[:SHOWN_LABELS]))}" if self.labels else ""
            labels += ", ..." if self.labels and len(self.labels) > SHOWN_LABELS else ""
            quoted = f" ({shown(value)})" if quote else ""
            raise ValueError(f"{where}{quoted} must be {self.rule}{labels}")
        return code

    def parse(self, text: str) -> int:
        """The code of a value written as text: a label, a number, or a date YYYY-MM-DD.

        Text is stripped unless it is a label as it stands; empty text is missing, unless it is a label. Other
        texts are `other` or refused, as in `code`.

        >>> rooms = Attribute.declare("rooms", {"labels": [1, 2, 3], "other": -1, "missing": "N"})
        >>> [rooms.parse(text) for text in ("2", "02", "2.0", "17", "N", "")]
        [1, 1, 1, 3, 4, 4]
        """
        expect(f"attribute {shown(self.name)}: text", text, str, "a string")
        for known in (text, text := text.strip(BLANKS)):
            if known in self.texts:
                return self.texts[known]
        if self.measured_in is not None and text.count(self.measured_in) == 1:
            text = text.replace(self.measured_in, "").strip(BLANKS)
        value: object = text or None
        first: object = (self.edges or self.labels or (0,))[0]
        if isinstance(first, int | float) and re.fullmatch(NUMBER, text):
            value = _parsed_number(text)
        with suppress(TypeError):
            return self.code(value)
        raise ValueError(f"attribute {shown(self.name)}: value ({shown(text)}) must be {self.rule}")

    def _truth(self, value: bool) -> str | bool:
        """The label that a boolean means; the boolean, which is refused, if several could be meant."""
        labels = [word for word in _spellings(value) if word in self._codes] or [str(value).lower()]
        return labels[0] if len(labels) == 1 else value

    def _whole(self, number: Any) -> Any:
        """A whole number as an integer, unless it may have been rounded from a label or to one.

        pandas makes a column of integers one of floats as soon as a record lacks a value.
        """
        if number != number // 1 or (isinstance(number, float) and number in self.inexact):
            return number
        return int(number)

    def _search(self, value: Any) -> int | None:
        if self.edges and (self.open or self.edges[0] <= value <= self.edges[-1]):
            return max(min(bisect.bisect_right(self.edges, value), len(self.edges) - 1) - 1, 0)
        if not self._values and 0 <= value < self.size:
            return int(value)
        return None if self.other is None else self.size - 1 - (self.missing is not None)

    @property
    def takes_missing(self) -> bool:
        """True if a value may be missing; the last code is then that of missing values."""
        return self.missing is not None or self.other is not None

    @property
    def rule(self) -> str:
        """What a value must be, for messages about private data: quotes no value."""
        if self.edges and self.open:
            return "a date" if isinstance(self.edges[0], datetime.date) else "a number"
        if self.edges:
            return f"from {self.edges[0]} to {self.edges[-1]}"
        return (
            f"one of its {len(self.labels)} labels"
            if self.labels
            else f"an integer from 0 to {self.size - 1}"
        )

    @cached_property
    def _values(self) -> tuple[Label, ...]:  # by code; empty if the values are the codes
        bins = [f"[{low}, {high})" for low, high in pairwise(self.edges or ())]
        bins[-1:] = [last[:-1] + "]" for last in bins[-1:]]
        if self.open:
            bins[0] = f"(-inf,{bins[0].partition(',')[2]}"
            bins[-1] = f"{bins[-1].partition(',')[0]}, inf)"
        return (*(self.labels or bins), *(extra for extra in (self.other, self.missing) if extra is not None))

    @cached_property
    def _codes(self) -> dict[Label, int]:
        return {value: code for code, value in enumerate(self._values)}

    @cached_property
    def texts(self) -> Mapping[str, int]:
        """The codes of the texts that `parse` looks up: labels, bins, other and missing.

        Texts that csv guards are also listed as `guarded` spells them; this comes before an equal label.
        """
        texts: dict[str, int] = {}
        for value, code in self._codes.items():
            texts.setdefault(str(value), code)
        if self.takes_missing:
            texts.setdefault("", self.size - 1)
        for word, code in self.words.items():
            texts.setdefault(word, code)
        return texts | {guarded(text): code for text, code in texts.items()}

    @cached_property
    def words(self) -> Mapping[str, int]:
        """Words that are not labels, with their codes.

        MISSING_WORDS if a value may be missing; and the other spellings of labels such as "true":
        pandas reads a column of such words as booleans, unless a record has another word.
        """
        words = dict.fromkeys(MISSING_WORDS, self.size - 1) if self.takes_missing else {}
        for value in (True, False):
            labels = [word for word in _spellings(value) if self.labels and word in self._codes]
            if labels:
                words |= dict.fromkeys(_spellings(value), self._codes[labels[0]])
        return {word: code for word, code in words.items() if word not in self._codes}

    @cached_property
    def inexact(self) -> frozenset[float]:
        """The floats to which integer labels of 2^53 or more are rounded, as are integers beside them."""
        large = (label for label in self._codes if _kind(label) == "integer" and abs(int(label)) >= 2**53)
        return frozenset(map(float, large)) if not self.edges else frozenset()

    def __repr__(self) -> str:
        return f"Attribute({shown(self.name)}, size={self.size})"


def _labels(where: str, labels: Any) -> tuple[Label, ...]:
    listed = enumerate(_list(where, "labels", labels, 1))
    checked = tuple(_label(where, f"labels[{place}]", label) for place, label in listed)
    alike = len({type(label) for label in checked}) <= 1
    expect(f"{where}: labels", labels, alike, "all strings or all integers")
    return checked


def _label(where: str, what: str, label: Any) -> Label:
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, str):
        if any("\ud800" <= letter <= "\udfff" for letter in label):
            raise ValueError(f"{where}: {what} must be text that UTF-8 can write")
        return str(label)
    expect(f"{where}: {what}", label, _kind(label) == "integer", "a string or an integer", quote=False)
    if not -(2**63) <= label < 2**63:
        raise ValueError(f"{where}: {what} must fit in 64 bits")
    return int(label)


def _edges(where: str, edges: Any) -> tuple[Edge, ...]:
    checked: list[Any] = []
    for place, edge in enumerate(_list(where, "edges", edges, 2)):
        value = as_date(edge) or (_number(edge) if _kind(edge) in ("integer", "number") else None)
        expect(
            f"{where}: edges[{place}]", edge, value is not None, "a number or a date YYYY-MM-DD", quote=False
        )
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{where}: edges[{place}] must be finite")
        checked.append(value)
    alike = len({isinstance(edge, datetime.date) for edge in checked}) <= 1
    expect(f"{where}: edges", edges, alike, "all numbers or all dates")
    if any(not low < high for low, high in pairwise(checked)):
        raise ValueError(f"{where}: edges ({len(checked)}) must increase")
    return tuple(checked)


def _open(where: str, declared: Any, edges: tuple[Edge, ...] | None) -> bool:
    expect(f"{where}: open", declared, bool, "true or false", quote=False)
    if declared and not edges:
        raise ValueError(f"{where}: open (true) must come with edges")
    return bool(declared)


def _measured_in(
    where: str, word: Any, labels: tuple[Label, ...] | None, edges: tuple[Edge, ...] | None
) -> str | None:
    if word is None:
        return None
    first: object = (labels or edges or (None,))[0]
    if not isinstance(first, int | float):
        raise ValueError(f"{where}: measured_in must come with numbers")
    if not isinstance(word, str) or not re.fullmatch(r"[^0-9\s.,+-]+", word):
        raise ValueError(f'{where}: measured_in must be a word without digits, such as "h"')
    return word


def _list(where: str, key: str, listed: Any, least: int) -> list[Any]:
    if hasattr(listed, "tolist"):
        listed = listed.tolist()  # numpy's
    expect(f"{where}: {key}", listed, list | tuple, "a list", quote=False)
    if len(listed) < least:
        raise ValueError(f"{where}: {key} ({len(listed)}) must be at least {least}")
    return list(listed)


def _number(number: Any) -> int | float:
    """The canonical form of a number, so that equal domains have the same fingerprint: 10.0 becomes 10."""
    try:
        number = float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    return int(number) if number.is_integer() and abs(number) <= 2**53 else number


def _spellings(value: bool) -> tuple[str, ...]:
    return str(value).lower(), str(value), str(value).upper()


def _parsed_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # not an integer, or one of thousands of digits
        return float(text)


def _seconds(value: datetime.timedelta | datetime.time) -> float:
    """A duration, or the time since midnight."""
    if isinstance(value, datetime.time):
        value = datetime.datetime.combine(datetime.date.min, value) - datetime.datetime.min
    return value.total_seconds()


def as_date(value: object) -> datetime.date | None:
    """The date of a date, a datetime or a text YYYY-MM-DD; None for anything else."""
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, str) and re.fullmatch(DATE, value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:  # such as 30 February
            return None
    return value if isinstance(value, datetime.date) else None


def _kind(value: object) -> str:
    if isinstance(value, bool):  # first: a boolean is an integer to Python
        return "boolean"
    kinds = {numbers.Integral: "integer", numbers.Real: "number", str: "string", datetime.date: "date"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), type(value).__name__)
