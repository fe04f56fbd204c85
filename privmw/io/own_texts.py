"""Writes the values of records to csv as the public text file writes them: units, marks, decimals, dates.

A value that comes from a public record is that record's text; a label is the commonest text of its code.
Other values are written in the form of the column's texts. Public and synthetic values only. This module
imports pyarrow: import it late.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privmw.data.attribute import Attribute
from privmw.data.syntax import PLAIN, Syntax
from privmw.io.forms import time_of_date, trimmed
from privmw.io.public_records import NO_ROW, PublicRecords, Rows
from privmw.io.public_source import PublicSource
from privmw.kernels.arrays import Codes

EXAMPLES = 1000  # texts of a column that its form is taken from


class OwnTexts:
    """The texts of public records by column, and the form of each column's texts."""

    def __init__(self, sources: Sequence[PublicSource], records: PublicRecords, syntax: Syntax) -> None:
        self._codes = records.codes
        parts: dict[str, list[Any]] = {name: [] for name in records.codes}
        for source in sources:
            for batch in source.batches(list(parts), raw=True):
                for name, array in batch.items():
                    parts[name].append(pc.fill_null(trimmed(array).cast(pa.string()), ""))
        self._texts = {name: pa.concat_arrays(arrays) for name, arrays in parts.items() if arrays}
        self._forms = {
            name: form_of(_examples(texts), syntax, dates=_has_dates(records.domain[name]))
            for name, texts in self._texts.items()
            if records.domain[name].edges
        }
        self._of_code = {
            name: _commonest(texts, records.codes[name], records.domain[name].size)
            for name, texts in self._texts.items()
            if not records.domain[name].edges
        }

    def written(self, attribute: Attribute, codes: Codes, values: Any, rows: Rows | None) -> Any:
        """The texts of one column: an Arrow array, or the values as they are if no public text is known.

        rows: the public record that each value comes from, or NO_ROW.
        """
        name = attribute.name
        if name not in self._texts:
            return values
        rows = np.full(len(codes), NO_ROW) if rows is None else rows
        own = (rows != NO_ROW) & (self._codes[name][rows] == codes)
        texts = self._texts[name].take(pa.array(np.where(own, rows, 0)))
        if name in self._of_code:
            others = self._of_code[name].take(pa.array(codes.astype(np.int64)))
            others = pc.coalesce(others, _as_text(values))
        else:
            rest = pc.if_else(pa.array(own), pa.scalar(None, values.type), values)
            others = self._forms[name].written(rest)
        return pc.if_else(pa.array(own), texts, others)


class Form(NamedTuple):
    """The form of a column of numbers or dates: what stands around a number, or the parts of a date."""

    before: str = ""
    after: str = ""
    decimals: int | None = None  # None: as many as the number has
    thousands: str = ""
    decimal: str = "."
    date: str = ""  # such as "{d:02d}.{m:02d}.{y}"

    def written(self, values: Any) -> Any:
        """The texts of numbers or dates, null for missing ones.

        >>> Form(after=" %", decimals=1, decimal=",").written(pa.array([2.25, None])).to_pylist()
        ['2,2 %', None]
        >>> Form(thousands="'").written(pa.array([-1234567])).to_pylist()
        ["-1'234'567"]
        """
        entries = values.dictionary_encode()
        texts = [None if value is None else self._one(value) for value in entries.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(entries.indices)

    def _one(self, value: Any) -> str:
        if isinstance(value, datetime.date):
            months = {"name": value.strftime("%B"), "short": value.strftime("%b")}
            return self.date.format(d=value.day, m=value.month, y=value.year, **months) or str(value)
        number = f"{value:,}" if self.decimals is None else f"{value:,.{self.decimals}f}"
        number = number.replace(",", "\0").replace(".", self.decimal).replace("\0", self.thousands)
        return f"{self.before}{number}{self.after}"


def form_of(texts: Sequence[str], syntax: Syntax, *, dates: bool) -> Form:
    """The commonest form of texts, all of which are numbers or dates of a syntax.

    >>> form_of(["1.234,50 EUR", "7,00 EUR"], Syntax(decimal=",", thousands="."), dates=False)
    Form(before='', after=' EUR', decimals=2, thousands='.', decimal=',', date='')
    >>> form_of(["31/1/1999", "3/12/2001"], Syntax(dates="dmy"), dates=True).date
    '{d}/{m}/{y}'
    >>> form_of(["1.5e-07", "2.5e-06"], Syntax(), dates=False) == Form()
    True
    >>> form_of(["4 Mar 2020 10:30"], Syntax(), dates=True).date
    '{d} {short} {y} 00:00'
    """
    syntax = syntax.over(PLAIN)
    if dates:
        shapes = Counter(_shape_of_date(text, syntax.dates or "ymd") for text in texts)
        padded = any(re.search(r"(?<![0-9])0[0-9](?![0-9])", text.split(":")[0]) for text in texts)
        shape = max(shapes, key=shapes.__getitem__) if shapes else ""
        return Form(date=shape.replace("{d}", "{d:02d}").replace("{m}", "{m:02d}") if padded else shape)
    marks, decimal = syntax.thousands or "", syntax.decimal or "."
    pattern = rf"[+-]?([0-9][0-9{re.escape(marks)}]*)?({re.escape(decimal)}([0-9]*))?"
    beside: Counter[tuple[str, str]] = Counter()
    grouped: Counter[str] = Counter()
    decimals: set[int] = set()
    exponents = [text for text in texts if re.search("[0-9.][eE][+-]?[0-9]", text)]
    for text in texts if not exponents else ():
        found = max(re.finditer(pattern, text), key=lambda match: len(match[0]), default=None)
        if found is None or not found[0]:
            continue
        beside[text[: found.start()], text[found.end() :]] += 1
        decimals.add(len(found[3] or ""))
        whole = found[1] or ""
        if len(whole) > 3:
            grouped["".join(sorted(set(whole) & set(marks)))[:1]] += 1
    before, after = max(beside, key=beside.__getitem__) if beside else ("", "")
    mark = max(grouped, key=grouped.__getitem__) if grouped else ""
    fixed = decimals.pop() if len(decimals) == 1 else None
    return Form(before, after, fixed, mark, decimal)


def _shape_of_date(text: str, order: str) -> str:
    """The format of one date, with its time set to midnight."""
    day, time = time_of_date(text)
    if (name := re.search("[A-Za-z]+", day)) is not None:
        shape = day.replace(name[0], "{short}" if len(name[0]) == 3 else "{name}")
        places = iter("yd" if re.match("[0-9]{4}", day) else "dy")
    else:
        shape, places = day, iter("ymd" if re.match("[0-9]{4}", day) else order)
    shape = re.sub("[0-9]+", lambda _: f"{{{next(places)}}}", shape)
    return shape + re.sub("[0-9]", "0", time)


def _examples(texts: Any) -> list[str]:
    return [text for text in pc.unique(texts)[:EXAMPLES].to_pylist() if re.search("[0-9]", text)]


def _commonest(texts: Any, codes: Codes, size: int) -> Any:
    """The commonest text of each code; null for a code without a public record."""
    table = pa.table({"code": pa.array(codes), "text": texts})
    counted = table.group_by(["code", "text"]).aggregate([([], "count_all")]).sort_by("count_all")
    of_code: list[str | None] = [None] * (size + 1)  # the last one: values outside the domain
    for code, text in zip(counted["code"].to_pylist(), counted["text"].to_pylist(), strict=True):
        of_code[code] = text
    return pa.array(of_code, pa.string())


def _has_dates(attribute: Attribute) -> bool:
    return isinstance((attribute.edges or (0,))[0], datetime.date)


def _as_text(values: Any) -> Any:
    values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    return values.cast(pa.string())
