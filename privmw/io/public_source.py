"""The public source: a frame or a file of public data as Arrow columns, batch by batch.

The kinds of csv columns, which are text, are inferred here from all rows, so a csv file is read twice. Never
for private data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from reprlib import repr as _short
from typing import Any

from privmw.data.attribute import MISSING_WORDS
from privmw.io import files
from privmw.io.extras import need
from privmw.io.forms import (
    DATES,
    MEASURED,
    QUANTITIES,
    SHORT_YEARS,
    THOUSANDS,
    Forms,
    Tells,
    decide,
    matching,
    plain_date,
    plain_numbers,
    trimmed,
    without_measure,
)
from privmw.io.frames import arrow_chunks, take_frame
from privmw.io.syntax import DETECT, Syntax

_WORD = "[^0-9]{1,20}"  # that can mark a missing number: N, none
# The forms of text, the narrowest first; "numbers" and "dates" are those of any mark and order.
_FORMS = {
    "boolean": "(?i:true|false)",
    "whole": "-?(0|[1-9][0-9]{0,17})",
    **QUANTITIES,
    "numbers": "|".join(QUANTITIES.values()),
    **DATES,
    "dates": "|".join(DATES.values()),
    "short years": SHORT_YEARS,
}


class PublicSource:
    """Columns of public data: their `names`, and batches of Arrow arrays.

    >>> import pyarrow
    >>> source = PublicSource(pyarrow.table({"age": [3, 9], "sex": ["F", "M"]}))
    >>> source.names, [list(batch) for batch in source.batches(["age"])]
    (['age', 'sex'], [['age']])
    """

    def __init__(self, source: Any, syntax: Syntax = DETECT) -> None:
        self._path: str | None = None
        self._syntax = syntax
        self.types: dict[str, Any] = {}  # of files that have types: known before rows are read
        if isinstance(source, str | os.PathLike):
            self._path = files.checked_path(source)
            first = files.files_of(self._path)[0]
            self.names, types = files.columns_of(first, private=False, syntax=syntax)
            if not files.is_text(self._path):
                self.types = dict(zip(self.names, types, strict=True))
        else:
            self._taken = take_frame(source, private=False)
            self.names = list(self._taken.columns)

    def batches(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Arrow arrays by name; a frame's columns one at a time, one of mixed kinds as an empty union."""
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
        text = files.is_text(self._path)
        for file in files.files_of(self._path):
            for batch in files.batches(file, names, private=False, syntax=self._syntax):
                columns = {name: batch.column(batch.schema.get_field_index(name)) for name in names}
                if text:
                    columns = {n: self._texts[n].read(a, self._forms) for n, a in columns.items()}
                yield columns

    def type_of(self, name: str) -> Any:
        """The Arrow type of a column; None if there is no such column, or none of one type."""
        pa = need("pyarrow", "read files", "io")
        if name not in self.names:
            return None
        if self._path is None:
            chunks = next(iter(self.batches([name])), {})
            return chunks[name].type if name in chunks else None
        if not self._is_text:
            return self.types[name]
        kinds = {"boolean": pa.bool_(), "whole": pa.int64(), None: pa.string()}
        form = self._texts[name].form(self._forms)
        return pa.date32() if form in DATES else kinds.get(form, pa.float64())

    def missing_word(self, name: str) -> str | None:
        """The commonest word that marks a missing number or date in a column of text, if there is one."""
        return self._texts[name].word(self._forms) if self._is_text else None

    def measured_in(self, name: str) -> str | None:
        """The word that stands beside every number of a column of text, if there is one."""
        return self._texts[name].measured_in(self._forms) if self._is_text else None

    @property
    def syntax_note(self) -> str | None:
        """How a text file is written, where it is not as most are, in one line."""
        if not self._is_text:
            return None
        words = [*self._laid_out.words, *self._forms.words()]
        numbers = {n: t for n, t in self._texts.items() if t.form(self._forms) in (".", ",")}
        decimal = self._forms.decimal or "."
        words += ["thousands marks"] if any(decimal in t.thousands for t in numbers.values()) else []
        words += [
            f"{n!r} in {word}" for n, t in numbers.items() if (word := t.measured_in(self._forms)) is not None
        ]
        missing = {word for t in self._texts.values() for word in (*t.words, t.word(self._forms)) if word}
        words += [f"{', '.join(map(_short, sorted(missing)))} taken as missing"] if missing else []
        kept = {n: why for n, t in self._texts.items() if (why := t.why_text(self._forms)) is not None}
        words += [f"{_short(name)} kept as text: {why}" for name, why in kept.items()]
        return f"{self._path}: {', '.join(words)}" if words else None

    @property
    def _is_text(self) -> bool:
        return self._path is not None and files.is_text(self._path)

    @cached_property
    def _forms(self) -> Forms:
        """How the numbers and dates of a text file are written, as the columns of such values tell."""
        tells = [tell for texts in self._texts.values() if (tell := texts.tells()) is not None]
        with files.naming(str(self._path)):
            return decide(tells, self._syntax.decimal, self._syntax.dates, commas=self._laid_out.commas)

    @cached_property
    def _laid_out(self) -> files.Layouts:
        return files.layouts_of(str(self._path), self._syntax, (), private=False)

    @cached_property
    def _texts(self) -> dict[str, _Texts]:
        """The form of each column of a text file, from all rows."""
        texts = {name: _Texts(name) for name in self.names}
        for file in files.files_of(str(self._path)):
            for batch in files.batches(file, self.names, private=False, syntax=self._syntax):
                for name in self.names:
                    texts[name].add(batch.column(batch.schema.get_field_index(name)))
        return texts


class _Texts:
    """The texts of one column: which forms all of them have, except perhaps one word, and missing ones."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.words: dict[str, int] = {}  # for missing values, with their counts
        self.thousands: set[str] = set()  # decimal marks with which some number has marks between thousands
        self._strange: dict[str, set[str]] = {form: set() for form in _FORMS}  # up to two of other forms
        self._known: set[str] = set()  # the forms of some text
        self._no_day: set[str] = set()  # orders in which some date does not exist
        self._measures: set[str] = set()  # up to three words beside numbers; "" for none
        self._unmeasured: dict[str, bool] = dict.fromkeys(QUANTITIES, False)  # beside it is no such number
        self._tells, self._measured_tells = Tells(name), Tells(name, dates=False)
        self._most: str | None = None  # the form of most of the first texts, "numbers" or "dates"; "" if none

    def add(self, array: Any) -> None:
        pc, pa = need("pyarrow.compute", "read files", "io"), need("pyarrow", "read files", "io")
        array = trimmed(array)
        counted = pc.value_counts(array)
        for text, count in zip(*(counted.field(n).to_pylist() for n in (0, 1)), strict=True):
            if text in MISSING_WORDS:
                self.words[text] = self.words.get(text, 0) + count
        missing = pc.is_in(array, value_set=pa.array(["", *MISSING_WORDS], array.type))
        array = array.filter(pc.invert(missing)).drop_null()
        texts = pc.unique(array)
        for form, strange in self._strange.items():
            if len(strange) < 2:
                of_form = matching(texts, _FORMS[form])
                self._known |= {form} if pc.any(of_form).as_py() else set()
                strange.update(texts.filter(pc.invert(of_form))[:2].to_pylist())
        for order in DATES:
            if order not in self._no_day and order in self._known and len(self._strange[order]) < 2:
                dates = texts.filter(matching(texts, DATES[order])).to_pylist()
                if any(plain_date(text, order) is None for text in dates):
                    self._no_day.add(order)
        self.thousands |= {
            mark for mark, pattern in THOUSANDS.items() if pc.any(matching(texts, pattern)).as_py()
        }
        if self._most is None and len(texts):
            halves = {
                form: pc.sum(matching(texts, _FORMS[form])).as_py() * 2 for form in ("numbers", "dates")
            }
            self._most = next((form for form, twice in halves.items() if twice >= len(texts)), "")
        if len(self._strange["numbers"]) < 2 or len(self._strange["dates"]) < 2:
            self._tells.add(array)
        if self._strange["numbers"] and len(self._measures) < 3:
            self._add_measured(texts)

    def _add_measured(self, texts: Any) -> None:
        """Look for a word beside numbers, such as the h of 40 h."""
        pa, pc = need("pyarrow", "read files", "io"), need("pyarrow.compute", "read files", "io")
        parts = pc.extract_regex(texts, f"^{MEASURED}$")
        if parts.null_count:
            self._measures |= {"", "no", "number"}
            return
        *words, number = (parts.field(name) for name in ("before", "word", "after", "number"))
        one = pc.binary_join_element_wise(*words, pa.scalar("", number.type))
        self._measures |= set(pc.unique(one)[:3].to_pylist())
        self._measured_tells.add(number)
        for mark, pattern in QUANTITIES.items():
            self._unmeasured[mark] |= not pc.all(matching(number, pattern)).as_py()

    def is_all(self, form: str) -> bool:
        """Whether all texts have a form."""
        return form in self._known and not self._strange[form]

    def _but_one_word(self, form: str) -> bool:
        """Whether all texts but one word have a form."""
        word = sorted(self._strange[form])
        return form in self._known and len(word) == 1 and re.fullmatch(_WORD, word[0]) is not None

    def tells(self) -> Tells | None:
        """What a column of numbers or dates tells about its file; None of any other column."""
        for form in ("numbers", "dates"):
            if (self.is_all(form) or self._but_one_word(form)) and not self.is_all("whole"):
                return self._tells
        return self._measured_tells if self._one_measure() is not None else None

    def _one_measure(self) -> str | None:
        word = next(iter(self._measures)) if len(self._measures) == 1 else None
        return word if word and not all(self._unmeasured.values()) else None

    def form(self, forms: Forms) -> str | None:
        """The narrowest form that all texts have, or all but one word: a key of _FORMS, or None for text."""
        decimal, order = forms.decimal or ".", forms.dates or "ymd"
        for matches in (self.is_all, self._but_one_word):
            for form in ("boolean", "whole", decimal, "ymd", order):
                possible = form not in self._no_day and (form != "boolean" or matches == self.is_all)
                if possible and matches(form):
                    return form
        return decimal if self.measured_in(forms) is not None else None

    def measured_in(self, forms: Forms) -> str | None:
        """The word beside every number; None if there is none."""
        decimal = forms.decimal or "."
        if any(
            self.is_all(f) or self._but_one_word(f) for f in ("whole", decimal, "ymd", forms.dates or "ymd")
        ):
            return None
        return None if self._unmeasured[decimal] else self._one_measure()

    def why_text(self, forms: Forms) -> str | None:
        """Why a column stays text although its values are numbers or dates, at least most of them."""
        if self.form(forms) is not None:
            return None
        if self.is_all("short years"):
            return "its years need four digits"
        if self.is_all("numbers"):
            return f"its decimal mark is not {forms.decimal!r}"
        if self.is_all("dates"):
            return "some of its days do not exist"
        strange = sorted(text for text in self._strange.get(self._most or "", ()) if not text.isdigit())
        return f"{_short(strange[0])} is no {(self._most or '')[:-1]}" if strange else None

    def word(self, forms: Forms) -> str | None:
        """The word for a missing value: the odd one among numbers or dates, or the commonest known one."""
        form = self.form(forms)
        if form is None or form == "boolean":
            return None
        odd = sorted(self._strange[form]) if self.measured_in(forms) is None else []
        said = {word: count for word, count in self.words.items() if word.lower() != "nan"}
        return next(iter(odd), None) or max(said, key=said.__getitem__, default=None)

    def read(self, array: Any, forms: Forms) -> Any:
        """The texts as values of their form; empty ones, and words for missing numbers, are null."""
        pa, pc = need("pyarrow", "read files", "io"), need("pyarrow.compute", "read files", "io")
        array, form = trimmed(array).cast(pa.string()), self.form(forms)
        empty = [
            "",
            *(MISSING_WORDS if form else ()),
            *([word] if form and (word := self.word(forms)) else []),
        ]
        missing = pc.is_in(array, value_set=pa.array(empty))
        array = pc.if_else(missing, pa.scalar(None, pa.string()), array)
        if form is None:
            return array
        if form == "boolean":
            return pc.equal(pc.utf8_lower(array), "true")
        if form in DATES:
            entries = array.dictionary_encode()
            days = [
                None if text is None else plain_date(text, form) for text in entries.dictionary.to_pylist()
            ]
            return pa.array(days, pa.date32()).take(entries.indices)
        if form == "whole":
            return array.cast(pa.int64())
        return plain_numbers(without_measure(array, self.measured_in(forms)), form).cast(pa.float64())
