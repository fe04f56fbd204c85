"""Patterns of numbers and dates in columns of text, and their plain forms. pyarrow is imported late.

A value is read by the settings of a `Syntax` alone, without looking at other values.
"""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from typing import Any

from privmw.data.attribute import BLANKS
from privmw.data.syntax import Syntax
from privmw.io.extras import need

UNREADABLE = "\ufffd"  # replaces damaged bytes, and all values of a record of the wrong length
NBSPS = " \u00a0\u202f"


@lru_cache(maxsize=64)
def number(decimal: str, thousands: str, whole: str = "[0-9]+") -> str:
    """The pattern of numbers with these marks; whole: the pattern of digits before the decimal mark."""
    groups = f"|[1-9][0-9]{{0,2}}([{re.escape(thousands)}][0-9]{{3}})+" if thousands else ""
    fraction = f"[{decimal}][0-9]"
    finite = f"({whole}{groups})({fraction}*)?|{fraction}+"
    return f"(?i:[+-]?(({finite})(e[+-]?[0-9]+)?|inf(inity)?)|nan)"


_TIME = "([T ]+[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?( ?(?i:[ap]m))? ?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
_DAY, _MONTH, _YEAR = "(0?[1-9]|[12][0-9]|3[01])", "(0?[1-9]|1[0-2])", "[0-9]{4}"
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = f"(?i:{'|'.join(_NAMES)})[a-z]*"


def _ordered(*parts: str, marks: str) -> str:
    return "|".join(f"[{mark}]".join(parts) for mark in marks)


_CERTAIN = (
    f"{_ordered(_YEAR, _MONTH, _DAY, marks='-/.')}|{_DAY}[- ]{_NAME}[- ]{_YEAR}|{_NAME} {_DAY},? {_YEAR}"
)
DATES = {  # by order; dates with the year first, or the month as a word, are valid in every order
    "ymd": f"({_CERTAIN}){_TIME}",
    "dmy": f"({_CERTAIN}|{_ordered(_DAY, _MONTH, _YEAR, marks='-/.')}){_TIME}",
    "mdy": f"({_CERTAIN}|{_ordered(_MONTH, _DAY, _YEAR, marks='-/')}){_TIME}",
}
SHORT_YEARS = f"{_ordered('[0-9]{1,2}', '[0-9]{1,2}', '[0-9]{2}', marks='-/.')}"


def trimmed(array: Any) -> Any:
    """Texts without surrounding blanks, and without quotes that were kept because of a blank before them."""
    pa, pc = need("pyarrow", "read files", "io"), need("pyarrow.compute", "read files", "io")
    array = pc.ascii_trim(array.cast(pa.large_string()), BLANKS)  # not utf8_trim: texts may be invalid UTF-8
    if pc.any(pc.starts_with(array, '"')).as_py():
        array = pc.replace_substring_regex(array, r'^"(.*)"$', r"\1")
    return array


def matching(texts: Any, pattern: str) -> Any:
    """A mask of the texts that a pattern matches completely."""
    pc = need("pyarrow.compute", "read files", "io")
    return pc.match_substring_regex(texts, f"^({pattern})$")


def without_measure(texts: Any, measured_in: str | None) -> Any:
    """Texts without the unit of measurement beside a number."""
    pc = need("pyarrow.compute", "read files", "io")
    if measured_in is None:
        return texts
    word = re.escape(measured_in)
    return pc.replace_substring_regex(texts, rf"^{word}[ \x{{a0}}]?|[ \x{{a0}}]?{word}$", "")


def plain_numbers(texts: Any, syntax: Syntax) -> Any:
    """Numbers with a decimal point and without thousands separators; null for all other texts."""
    pa, pc = need("pyarrow", "read files", "io"), need("pyarrow.compute", "read files", "io")
    decimal, thousands = syntax.decimal or ".", syntax.thousands or ""
    fits = matching(texts, number(decimal, thousands))
    if thousands:
        texts = pc.replace_substring_regex(texts, f"[{re.escape(thousands)}]", "")
    if decimal == ",":
        texts = pc.replace_substring(texts, ",", ".")
    return pc.if_else(fits, texts, pa.scalar(None, texts.type))


def time_of_date(text: str) -> tuple[str, str]:
    """The day and the time of a date's text; the time begins with the blank or T before it.

    >>> time_of_date("31.12.1999 23:59"), time_of_date("2020-01-01")
    (('31.12.1999', ' 23:59'), ('2020-01-01', ''))
    """
    day = re.sub(rf"{_TIME}$", "", text)
    return day, text[len(day) :]


def plain_date(text: str, order: str | None) -> datetime.date | None:
    """The day of a text; None if it is not a date of this order, or there is no such day.

    >>> plain_date("31.12.1999 23:59", "dmy"), plain_date("4 Mar 2020", None), plain_date("30/2/2020", "dmy")
    (datetime.date(1999, 12, 31), datetime.date(2020, 3, 4), None)
    """
    if not re.fullmatch(DATES[order or "ymd"], text, re.ASCII):
        return None
    text = time_of_date(text)[0]
    name = re.search(f"({'|'.join(_NAMES)})[a-z]*", text.lower())
    numbers = [int(digits) for digits in re.findall("[0-9]+", text)]
    if name:
        year, month, day = numbers[1], _NAMES.index(name[1]) + 1, numbers[0]
    elif re.match("[0-9]{4}", text):
        year, month, day = numbers
    else:
        year = numbers[2]
        day, month = numbers[:2] if order == "dmy" else numbers[1::-1]
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None
