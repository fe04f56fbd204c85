"""The public source: a frame or a file of public data as Arrow columns, batch by batch.

The kinds of csv columns, which are text, are inferred here from all rows, so a csv file is read twice. Never
for private data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from privmw.io import files
from privmw.io.extras import need
from privmw.io.frames import arrow_chunks, take_frame

# The forms of text in csv, the narrowest first. A number with a leading zero is a code, and stays text.
_FORMS = {
    "boolean": "(?i:true|false)",
    "whole": "-?(0|[1-9][0-9]{0,17})",
    "number": "(?i:[+-]?((0|[1-9][0-9]*)([.][0-9]*)?|[.][0-9]+)(e[+-]?[0-9]+)?|nan|[+-]?inf(inity)?)",
    "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
}
_WORD = "[^0-9]{1,20}"  # that can mark a missing number: NA, N, ?


class PublicSource:
    """Columns of public data: their `names`, and batches of Arrow arrays.

    >>> import pyarrow
    >>> source = PublicSource(pyarrow.table({"age": [3, 9], "sex": ["F", "M"]}))
    >>> source.names, [list(batch) for batch in source.batches(["age"])]
    (['age', 'sex'], [['age']])
    """

    def __init__(self, source: Any) -> None:
        self._path: str | None = None
        self.types: dict[str, Any] = {}  # of parquet: known before rows are read
        if isinstance(source, str | os.PathLike):
            self._path = files.checked_path(source)
            self.names, types = files.columns_of(files.files_of(self._path)[0], private=False)
            if not files.is_csv(self._path):
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
        csv = files.is_csv(self._path)
        for file in files.files_of(self._path):
            for batch in files.batches(file, names, private=False):
                columns = {name: batch.column(batch.schema.get_field_index(name)) for name in names}
                yield {n: self._texts[n].read(a) for n, a in columns.items()} if csv else columns

    def missing_word(self, name: str) -> str | None:
        """The word that marks a missing number or date in a csv column, if there is one."""
        csv = self._path is not None and files.is_csv(self._path)
        return self._texts[name].word if csv else None

    @cached_property
    def _texts(self) -> dict[str, _Texts]:
        """The form of each column of a csv file, from all rows."""
        texts = {name: _Texts() for name in self.names}
        for batch in files.batches(str(self._path), self.names, private=False):
            for name in self.names:
                texts[name].add(batch.column(batch.schema.get_field_index(name)))
        return texts


class _Texts:
    """The texts of one column: which forms all of them have, except perhaps one word."""

    def __init__(self) -> None:
        self._strange: dict[str, set[str]] = {form: set() for form in _FORMS}  # up to two of other forms
        self._known: set[str] = set()  # the forms of some text

    def add(self, array: Any) -> None:
        pc = need("pyarrow.compute", "read files", "io")
        texts = pc.unique(array).drop_null()
        texts = texts.filter(pc.not_equal(texts, ""))
        for form, strange in self._strange.items():
            if len(strange) < 2:
                of_form = self._matches(texts, form)
                self._known |= {form} if pc.any(of_form).as_py() else set()
                strange.update(texts.filter(pc.invert(of_form))[:2].to_pylist())

    @staticmethod
    def _matches(texts: Any, form: str) -> Any:
        pa, pc = need("pyarrow", "read files", "io"), need("pyarrow.compute", "read files", "io")
        matches = pc.match_substring_regex(texts, f"^({_FORMS[form]})$")
        if form == "date":
            try:
                texts.filter(matches).cast(pa.date32())
            except pa.ArrowInvalid:  # such as 30 February
                return pa.repeat(pa.scalar(False), len(texts))
        return matches

    @cached_property
    def form(self) -> str | None:
        """The narrowest form that all texts have, or all but one word."""
        pc, pa = need("pyarrow.compute", "read files", "io"), need("pyarrow", "read files", "io")
        for form, strange in self._strange.items():
            if form in self._known and not strange:
                return form
        for form in ("whole", "number", "date"):
            word = pa.array(sorted(self._strange[form]), pa.string())
            odd = pc.match_substring_regex(word, f"^({_WORD})$").to_pylist()
            if form in self._known and odd == [True]:
                return form
        return None

    @property
    def word(self) -> str | None:
        return next(iter(self._strange[self.form]), None) if self.form else None

    def read(self, array: Any) -> Any:
        """The texts as values of their form; empty texts are missing."""
        pa, pc = need("pyarrow", "read files", "io"), need("pyarrow.compute", "read files", "io")
        array = array.cast(pa.string())
        empty = pc.is_in(array, value_set=pa.array(["", *([self.word] if self.word else [])]))
        array = pc.if_else(empty, pa.scalar(None, pa.string()), array)
        if self.form == "boolean":
            return pc.equal(pc.utf8_lower(array), "true")
        kinds = {"whole": pa.int64(), "number": pa.float64(), "date": pa.date32()}
        return array.cast(kinds[self.form]) if self.form else array
