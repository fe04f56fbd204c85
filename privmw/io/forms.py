"""How numbers and dates are written in columns of text, and what they are in plain form; pyarrow comes late.

A number has a decimal point or a decimal comma, and perhaps thousands marks; 1.234 can be either. A date has
the year, the day or the month first; 03/04/2020 can be either. One file is written in one way: `decide` tells
it from all columns, or refuses.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from privmw.data.attribute import BLANKS
from privmw.io.extras import need

_BLANKS = " \u00a0\u202f"


def _number(decimal: str, whole: str = "[0-9]+") -> str:
    groups = "|".join(
        f"[1-9][0-9]{{0,2}}({mark}[0-9]{{3}})+"
        for mark in ("[.]" if decimal == "," else ",", f"[{_BLANKS}]", "['’]")
    )
    fraction = f"[{decimal}][0-9]"
    finite = f"({whole}|{groups})({fraction}*)?|{fraction}+"
    return f"(?i:[+-]?(({finite})(e[+-]?[0-9]+)?|inf(inity)?)|nan)"


NUMBERS = {decimal: _number(decimal) for decimal in (".", ",")}
# Public columns of numbers: one with a leading zero is a code, and stays text.
QUANTITIES = {decimal: _number(decimal, "(0|[1-9][0-9]*)") for decimal in (".", ",")}
THOUSANDS = {  # numbers with marks between their thousands, by decimal mark
    decimal: f"[+-]?[0-9]{{1,3}}([{_BLANKS}{mark}'’][0-9]{{3}})+([{decimal}][0-9]*)?"
    for decimal, mark in ((".", ","), (",", "."))
}
_EITHER = "[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}"  # a number in both, but not the same

_TIME = "([T ]+[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?( ?(?i:[ap]m))? ?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
_DAY, _MONTH, _YEAR = "(0?[1-9]|[12][0-9]|3[01])", "(0?[1-9]|1[0-2])", "[0-9]{4}"
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = f"(?i:{'|'.join(_NAMES)})[a-z]*"


def _ordered(*parts: str, marks: str) -> str:
    return "|".join(f"[{mark}]".join(parts) for mark in marks)


_CERTAIN = (
    f"{_ordered(_YEAR, _MONTH, _DAY, marks='-/.')}|{_DAY}[- ]{_NAME}[- ]{_YEAR}|{_NAME} {_DAY},? {_YEAR}"
)
DATES = {
    "ymd": f"({_CERTAIN}){_TIME}",
    "dmy": f"({_CERTAIN}|{_ordered(_DAY, _MONTH, _YEAR, marks='-/.')}){_TIME}",
    "mdy": f"({_CERTAIN}|{_ordered(_MONTH, _DAY, _YEAR, marks='-/')}){_TIME}",
}
SHORT_YEARS = f"{_ordered('[0-9]{1,2}', '[0-9]{1,2}', '[0-9]{2}', marks='-/.')}"
# A number with a word beside it: 40 h, 12%, $5, EUR 5. Letters right before it make a code: Q1.
_SIGN = "[^0-9 .,+'’\u00a0\u202f-]"
_SYMBOL = rf"[^\pL{_SIGN[2:]}"
MEASURED = (
    rf"(?:(?P<before>{_SIGN}{{0,2}}{_SYMBOL}) ?|(?P<word>\pL{{1,3}})[{_BLANKS}])?"
    f"(?P<number>[+-]?[0-9].*?)[{_BLANKS}]?(?P<after>{_SIGN}{{1,12}})?"
)


class Forms(NamedTuple):
    """How the numbers and dates of one file are written; None: nothing tells, and nothing unsure is read."""

    decimal: str | None = "."
    dates: str | None = "ymd"

    def words(self) -> list[str]:
        """What is not as in most files."""
        from privmw.io.syntax import ORDERS

        words = ["decimal comma"] if self.decimal == "," else []
        return words if self.dates in (None, "ymd") else [*words, f"dates {ORDERS[self.dates]}"]


PLAIN = Forms()


class Tells:
    """What the cells of one column of numbers or dates tell about the forms of their file.

    >>> import pyarrow
    >>> tells = Tells("weight")
    >>> tells.add(pyarrow.array(["1,5", "12", "1.200"]))
    >>> tells.decimal, tells.unsure_number
    ({'.': 0, ',': 1}, True)
    """

    def __init__(self, name: str, *, numbers: bool = True, dates: bool = True) -> None:
        self.name = name
        self.decimal = {".": 0, ",": 0}  # records that only this mark can explain
        self.dates = {"dmy": 0, "mdy": 0}
        self.unsure_number = self.unsure_date = False
        self._numbers, self._dates = numbers, dates

    def add(self, array: Any, measured_in: str | None = None) -> None:
        """Count the records of an Arrow array of text that tell something."""
        pc = need("pyarrow.compute", "read files", "io")
        counted = pc.value_counts(trimmed(array))
        texts, counts = counted.field(0).drop_null(), counted.field(1)
        if len(texts) < len(counts):
            counts = counts.filter(pc.is_valid(counted.field(0)))

        def records(matches: Any) -> int:
            return int(pc.sum(counts.filter(matches)).as_py() or 0)

        if self._numbers:
            plain = without_measure(texts, measured_in)
            point, comma = (matching(plain, NUMBERS[mark]) for mark in ".,")
            self.decimal["."] += records(pc.and_not(point, comma))
            self.decimal[","] += records(pc.and_not(comma, point))
            self.unsure_number |= bool(pc.any(matching(plain, _EITHER)).as_py())
        if self._dates:
            certain, day, month = (matching(texts, DATES[order]) for order in ("ymd", "dmy", "mdy"))
            self.dates["dmy"] += records(pc.and_not(day, month))
            self.dates["mdy"] += records(pc.and_not(month, day))
            self.unsure_date |= bool(pc.any(pc.and_not(pc.and_(day, month), certain)).as_py())


def decide(
    columns: list[Tells], decimal: str | None, dates: str | None, *, commas: bool, others: int = 0
) -> Forms:
    """The forms of a file, from what its columns tell; ValueError where they tell both, or nothing for sure.

    decimal, dates: as given, or None. commas: there are commas between the columns, so a number that can be
    either has a decimal point. others: how many records a neighbouring private file may have different.

    Privacy: a point, and the day first, are taken if any record tells them and none tells the opposite; a
    comma, and the month first, only if more than `others` records tell them and none the opposite. From a
    file read in one way to one read in the other, more than `others` records have to change.
    """
    if decimal is None:
        decimal = _told(columns, "decimal", others)
        if decimal is None and any(column.unsure_number for column in columns) and not commas:
            unsure = next(column.name for column in columns if column.unsure_number)
            raise ValueError(_two("decimal", unsure))
        if decimal is None and (commas or not any(column.unsure_number for column in columns)):
            decimal = "." if commas else None
    if dates is None:
        dates = _told(columns, "dates", others)
        if dates is None and any(column.unsure_date for column in columns):
            raise ValueError(_two("dates", next(column.name for column in columns if column.unsure_date)))
    return Forms(decimal, dates)


def _told(columns: list[Tells], what: str, others: int) -> str | None:
    usual, rare = (".", ",") if what == "decimal" else ("dmy", "mdy")
    told: Mapping[str, int] = {
        form: sum(getattr(column, what)[form] for column in columns) for form in (usual, rare)
    }
    if told[rare] and (told[usual] or told[rare] <= others):
        name = next(column.name for column in columns if getattr(column, what)[rare])
        raise ValueError(_two(what, name, mixed=bool(told[usual])))
    return rare if told[rare] else usual if told[usual] else None


def _two(what: str, name: str, *, mixed: bool = False) -> str:
    """The refusal with the two readings. Its example is made up, so that a private file may have it too."""
    from reprlib import repr as short

    how = "in two ways, and must be in one" if mixed else "so that it does not tell how to read it"
    if what == "decimal":
        return (
            f"column {short(name)} is written {how}: --decimal . reads 1.234 as a little more than one, "
            "--decimal , reads it as more than a thousand"
        )
    return (
        f"column {short(name)} is written {how}: --dates dmy reads 03/04/2020 as the 3rd of April, "
        "--dates mdy as the 4th of March"
    )


def trimmed(array: Any) -> Any:
    """Texts without blanks around them, and without the quotes that a blank before them has kept."""
    pa, pc = need("pyarrow", "read files", "io"), need("pyarrow.compute", "read files", "io")
    array = pc.ascii_trim(array.cast(pa.large_string()), BLANKS)  # not utf8_trim: text may be damaged
    if pc.any(pc.starts_with(array, '"')).as_py():
        array = pc.replace_substring_regex(array, r'^"(.*)"$', r"\1")
    return array


def matching(texts: Any, pattern: str) -> Any:
    """Which texts are of a form."""
    pc = need("pyarrow.compute", "read files", "io")
    return pc.match_substring_regex(texts, f"^({pattern})$")


def without_measure(texts: Any, measured_in: str | None) -> Any:
    """Texts without the word that may stand beside a number."""
    pc = need("pyarrow.compute", "read files", "io")
    if measured_in is None:
        return texts
    word = re.escape(measured_in)
    return pc.replace_substring_regex(texts, rf"^{word}[ \x{{a0}}]?|[ \x{{a0}}]?{word}$", "")


def plain_numbers(texts: Any, decimal: str | None) -> Any:
    """Numbers with a decimal point and without thousands marks; other texts as they are."""
    pc = need("pyarrow.compute", "read files", "io")
    good = matching(texts, NUMBERS[decimal or "."])
    if decimal is None:
        good = pc.and_not(pc.and_(good, matching(texts, NUMBERS[","])), matching(texts, _EITHER))
    bare = pc.replace_substring_regex(texts, f"[{_BLANKS}'’{',' if decimal != ',' else '.'}]", "")
    return pc.if_else(good, pc.replace_substring(bare, ",", "."), texts)


def plain_date(text: str, order: str | None) -> datetime.date | None:
    """The day that a text of a certain form means; None if there is no such day.

    >>> plain_date("31.12.1999 23:59", "dmy"), plain_date("4 Mar 2020", None), plain_date("30/2/2020", "dmy")
    (datetime.date(1999, 12, 31), datetime.date(2020, 3, 4), None)
    """
    if not re.fullmatch(DATES[order or "ymd"], text):
        return None
    text = re.sub(rf"{_TIME}$", "", text)
    name = re.search(f"({'|'.join(_NAMES)})[a-z]*", text.lower())
    numbers = [int(number) for number in re.findall("[0-9]+", text)]
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
