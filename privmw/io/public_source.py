"""Public sources: a frame or a file of public data as Arrow columns, batch by batch.

For text files, the kinds of columns and the syntax are inferred from all rows, so such a file is read twice.
Never for private data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from privmw.data.attribute import MISSING_WORDS
from privmw.data.syntax import THOUSANDS, Syntax
from privmw.io import detect, files
from privmw.io.extras import need
from privmw.io.forms import (
    DATES,
    NBSPS,
    SHORT_YEARS,
    matching,
    number,
    plain_date,
    plain_numbers,
    trimmed,
    without_measure,
)
from privmw.io.frames import arrow_chunks, take_frame
from privmw.secrecy import shown

MOST_TEXTS_OF_KIND = 2**16  # distinct texts used to infer a kind; later texts of another kind are missing
_DIGITS = "(0|[1-9][0-9]*)"  # a number with a leading zero is a code, and stays text
_ANY_NUMBER = "|".join(number(mark, THOUSANDS.replace(mark, ""), _DIGITS) for mark in ".,")
_ANY_DATE = "|".join(DATES.values())
_WHOLE = "-?(0|[1-9][0-9]{0,17})"
_MISSING_WORD = "[^0-9]{1,20}"  # a mark of a missing number, such as N or none
# A number with a unit: 40 h, 12%, $5, EUR 5. Letters immediately before it make it a code: Q1.
_SIGN = "[^0-9 .,+'’\u00a0\u202f-]"
_MEASURED = (
    rf"(?:(?P<before>{_SIGN}{{0,2}}[^\pL{_SIGN[2:]}) ?|(?P<word>\pL{{1,3}})[{NBSPS}])?"
    f"(?P<number>[+-]?[0-9].*?)[{NBSPS}]?(?P<after>{_SIGN}{{1,12}})?"
)


class PublicSource:
    """Columns of public data: their `names`, and batches of Arrow arrays.

    syntax: the given settings of a text file. columns: the columns to use; None for all.

    >>> import pyarrow
    >>> source = PublicSource(pyarrow.table({"age": [3, 9], "sex": ["F", "M"]}))
    >>> source.names, [list(batch) for batch in source.batches(["age"])]
    (['age', 'sex'], [['age']])
    """

    def __init__(
        self, source: Any, syntax: Syntax | None = None, columns: Sequence[str] | None = None
    ) -> None:
        self._path: str | None = None
        self.is_text = False
        self.types: dict[str, Any] = {}  # for files with types: known before rows are read
        if isinstance(source, str | os.PathLike):
            self._path = files.checked_path(source)
            first = files.files_of(self._path)[0]
            self.is_text = files.is_text(self._path) or bool(files.about(first).get("texts"))
            self._layout = files.public_layout(self._path, syntax or detect.DETECT, columns or ())
            self.names, types = files.columns_of(
                files.files_of(self._path)[0], private=False, syntax=self._layout
            )
            if not self.is_text:
                self.types = dict(zip(self.names, types, strict=True))
        else:
            self._taken = take_frame(source, private=False)
            self.names = list(self._taken.columns)
        self._columns = self.names if columns is None else [n for n in self.names if n in columns]

    @property
    def where(self) -> str:
        """The path of the file, or "public": for messages."""
        return self._path or "public"

    def batches(self, names: Sequence[str], *, raw: bool = False) -> Iterator[dict[str, Any]]:
        """Yield Arrow arrays by name; columns of a frame one at a time, a column of mixed kinds as an empty
        union.

        raw: unconverted texts of a text file, for `values`.
        """
        if self._path is None:
            for name in names:
                try:
                    yield from ({name: chunk} for chunk in arrow_chunks(self._taken, name))
                except TypeError:
                    pa = need("pyarrow", "take frames", "io")
                    yield {
                        name: pa.UnionArray.from_sparse(pa.array([], pa.int8()), [pa.array([], pa.int8())])
                    }
            return
        for file in files.files_of(self._path):
            for batch in files.batches(file, names, private=False, syntax=self._layout):
                columns = {name: batch.column(batch.schema.get_field_index(name)) for name in names}
                yield columns if raw else {n: self.values(n, array) for n, array in columns.items()}

    def type_of(self, name: str) -> Any:
        """The Arrow type of a column; None if there is no such column, or it has mixed types."""
        pa = need("pyarrow", "read files", "io")
        if name not in self.names:
            return None
        if self._path is None:
            chunks = next(iter(self.batches([name])), {})
            return chunks[name].type if name in chunks else None
        if not self.is_text:
            return self.types[name]
        kinds = {"boolean": pa.bool_(), "whole": pa.int64(), "number": pa.float64(), "date": pa.date32()}
        return kinds.get(self._kinds[name].kind or "", pa.string())

    def missing_word(self, name: str) -> str | None:
        """The most common word that marks a missing number or date in a column of text, if any."""
        return self._kinds[name].word if self.is_text else None

    def measured_in(self, name: str) -> str | None:
        """The unit of measurement beside every number of a column of text, if any."""
        return self._kinds[name].measured_in if self.is_text else None

    @cached_property
    def syntax(self) -> Syntax:
        """The syntax of the text file."""
        known = self._layout
        if None not in (known.decimal, known.thousands, known.dates):
            return known
        numbers: dict[str, Any] = {}
        dates: dict[str, Any] = {}
        for name, texts in self._texts.items():
            distinct = texts.distinct
            if _but_one_word(distinct, _ANY_NUMBER) is not None and not _all(distinct, _WHOLE):
                numbers[name] = distinct.filter(matching(distinct, _ANY_NUMBER))
            elif _but_one_word(distinct, _ANY_DATE) is not None:
                dates[name] = distinct
            elif (measured := _measured(distinct)) is not None:
                numbers[name] = measured[1]
        with files.naming(str(self._path)):
            return detect.forms(numbers, dates, known, commas=known.separator in (None, ","))

    @property
    def syntax_note(self) -> str | None:
        """A one-line description of how the file deviates from plain csv."""
        if not self.is_text:
            return None
        words = [*files.sheets_in_words(str(self._path)), *detect.in_words(self.syntax)]
        kinds = self._kinds
        words += [f"{shown(n)} in {k.measured_in}" for n, k in kinds.items() if k.measured_in is not None]
        missing = {word for name in kinds for word in (*self._texts[name].missing, kinds[name].word) if word}
        words += [f"{', '.join(map(shown, sorted(missing)))} taken as missing"] if missing else []
        words += [
            f"{shown(n)} kept as text: {k.why_text}" for n, k in kinds.items() if k.why_text is not None
        ]
        return f"{self._path}: {', '.join(words)}" if words else None

    @cached_property
    def _kinds(self) -> dict[str, _Kind]:
        return {name: _kind(texts, self.syntax) for name, texts in self._texts.items()}

    @cached_property
    def _texts(self) -> dict[str, _Texts]:
        texts = {name: _Texts() for name in self._columns}
        for file in files.files_of(str(self._path)) if texts else ():
            for batch in files.batches(file, self._columns, private=False, syntax=self._layout):
                for name in self._columns:
                    texts[name].add(batch.column(batch.schema.get_field_index(name)))
        return texts

    def values(self, name: str, array: Any) -> Any:
        """Convert a raw array: texts to their kind; empty, missing and other texts to null."""
        if not self.is_text:
            return array
        pa, pc = need("pyarrow", "read files", "io"), need("pyarrow.compute", "read files", "io")
        column, array = self._kinds[name], trimmed(array).cast(pa.string())
        words = ["", *(MISSING_WORDS if column.kind else ()), *([column.word] if column.word else [])]
        null = pa.scalar(None, pa.string())
        array = pc.if_else(pc.is_in(array, value_set=pa.array(words)), null, array)
        if column.kind is None:
            return array
        if column.kind == "boolean":
            return pc.equal(pc.utf8_lower(array), "true")
        if column.kind == "whole":
            return pc.if_else(matching(array, _WHOLE), array, null).cast(pa.int64())
        if column.kind == "number":
            return plain_numbers(without_measure(array, column.measured_in), self.syntax).cast(pa.float64())
        order, entries = self.syntax.dates, array.dictionary_encode()
        days = [None if text is None else plain_date(text, order) for text in entries.dictionary.to_pylist()]
        return pa.array(days, pa.date32()).take(entries.indices)


class _Texts:
    """Up to MOST_TEXTS_OF_KIND distinct texts of one column, and how often each missing word occurs."""

    def __init__(self) -> None:
        self.missing: dict[str, int] = {}
        self.distinct = need("pyarrow", "read files", "io").array([], "large_string")

    def add(self, array: Any) -> None:
        pc, pa = need("pyarrow.compute", "read files", "io"), need("pyarrow", "read files", "io")
        counted = pc.value_counts(trimmed(array))
        texts = counted.field(0)
        missing = pc.is_in(texts, value_set=pa.array(["", *MISSING_WORDS], texts.type))
        for word, count in zip(
            *(part.filter(missing).to_pylist() for part in counted.flatten()), strict=True
        ):
            if word:
                self.missing[word] = self.missing.get(word, 0) + count
        if len(self.distinct) < MOST_TEXTS_OF_KIND:
            new = texts.filter(pc.invert(missing)).drop_null()
            self.distinct = pc.unique(pa.concat_arrays([self.distinct, new]))[:MOST_TEXTS_OF_KIND]


class _Kind(NamedTuple):
    """The kind of a column of texts: "boolean", "whole", "number", "date", or None for text."""

    kind: str | None
    word: str | None = None  # marks missing values: the only word among numbers, or the most common known one
    measured_in: str | None = None  # the unit beside every number
    why_text: str | None = None  # the reason, if most texts are numbers or dates


def _kind(texts: _Texts, syntax: Syntax) -> _Kind:
    """The narrowest kind of all texts of a column, ignoring at most one distinct word."""
    distinct = texts.distinct
    numbers = number(syntax.decimal or ".", syntax.thousands or "", _DIGITS)
    words = {word: count for word, count in texts.missing.items() if word.lower() != "nan"}
    word = max(words, key=words.__getitem__, default=None)
    if _all(distinct, "(?i:true|false)"):
        return _Kind("boolean")
    patterns = {"whole": _WHOLE, "number": numbers, "date": DATES[syntax.dates or "ymd"]}
    for kind, pattern in patterns.items():
        if _all(distinct, pattern) and (kind != "date" or _are_days(distinct, syntax)):
            return _Kind(kind, word)
    for kind, pattern in patterns.items():
        if (odd := _but_one_word(distinct, pattern)) and (kind != "date" or _are_days(distinct, syntax, odd)):
            return _Kind(kind, odd)
    measured = _measured(distinct)
    if measured is not None and _all(measured[1], numbers):
        return _Kind("number", word, measured[0])
    return _Kind(None, why_text=_why_text(distinct, syntax))


def _why_text(texts: Any, syntax: Syntax) -> str | None:
    if _all(texts, SHORT_YEARS):
        return "its years need four digits"
    if _all(texts, _ANY_NUMBER):
        return f"its decimal mark is not {shown(syntax.decimal)}"
    if _all(texts, _ANY_DATE):
        return "some of its days do not exist"
    for what, pattern in (("number", _ANY_NUMBER), ("date", _ANY_DATE)):
        strange = _strange(texts, pattern)
        if 0 < len(strange) * 2 <= len(texts):
            odd = sorted(text for text in strange[:2].to_pylist() if not text.isdigit())
            return f"{shown(odd[0])} is no {what}" if odd else None
    return None


def _strange(texts: Any, pattern: str) -> Any:
    pc = need("pyarrow.compute", "read files", "io")
    return texts.filter(pc.invert(matching(texts, pattern)))


def _all(texts: Any, pattern: str) -> bool:
    return len(texts) > 0 and len(_strange(texts, pattern)) == 0


def _but_one_word(texts: Any, pattern: str) -> str | None:
    """The only other word among texts of a pattern, "" without one; None if there are several."""
    strange = _strange(texts, pattern)
    if len(strange) >= min(2, len(texts)):
        return None
    word = "".join(strange.to_pylist())
    return word if not word or re.fullmatch(_MISSING_WORD, word) else None


def _are_days(texts: Any, syntax: Syntax, word: str = "") -> bool:
    return all(plain_date(text, syntax.dates) is not None for text in texts.to_pylist() if text != word)


def _measured(texts: Any) -> tuple[str, Any] | None:
    """The unit beside all numbers, such as h in 40 h, and the numbers; None without a common unit."""
    pc, pa = need("pyarrow.compute", "read files", "io"), need("pyarrow", "read files", "io")
    parts = pc.extract_regex(texts, f"^{_MEASURED}$")
    if not len(texts) or parts.null_count:
        return None
    *beside, numbers = (parts.field(name) for name in ("before", "word", "after", "number"))
    words = pc.unique(pc.binary_join_element_wise(*beside, pa.scalar("", numbers.type))).to_pylist()
    return (words[0], numbers) if len(words) == 1 and words[0] else None
