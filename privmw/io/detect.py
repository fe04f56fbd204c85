"""Detects the syntax of a public text file; refuses ambiguous files.

Never used on private files, where one record would decide how all others are read. The domain stores the
result (`Domain.syntax`), and private files are read with it.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from privmw.data.attribute import unguarded
from privmw.data.syntax import ORDERS, THOUSANDS, Syntax
from privmw.io.extras import need
from privmw.io.forms import DATES, matching, number
from privmw.io.lines import raw_blocks
from privmw.secrecy import shown

SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
SAMPLE = 2**18  # bytes used to detect the separator and the header
DETECT = Syntax()
_BOMS = {  # UTF-32 first: its mark begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_COMMAS_IN_NUMBERS = re.compile("[^,]*[0-9],[0-9][^,]*|[^,]*")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,' \u00a0\u202f]*(e[+-]?[0-9]+)?", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([ T].*)?")
_NAME_LIKE = re.compile(rf"[0-9]{{1,4}}|{_DATE.pattern}")  # columns of years, days or places


def layout(file: str, given: Syntax = DETECT, names: Collection[str] = ()) -> Syntax:
    r"""Detect the syntax of a csv file, except of numbers and dates; given settings are kept.

    names: expected columns, which help to detect the header and the separator.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name;age\nAnna;31,5\n")
    ...     layout(str(path)).to_dict()
    {'separator': ';', 'encoding': 'utf-8', 'header': True, 'skip': 0}
    """
    encoding = given.encoding or _encoding(file)
    first = next(raw_blocks(file), b"")[:SAMPLE]
    text = codecs.getincrementaldecoder(encoding)("replace").decode(first).lstrip("\ufeff")
    lines = list(io.StringIO(text, None))
    lines = lines[:-1] if len(first) == SAMPLE else lines  # the last line may be incomplete
    skip, separator = given.skip or 0, given.separator
    told = re.fullmatch('"?sep=([,;\t|])"?', "".join(lines[skip : skip + 1]).rstrip("\r\n"), re.IGNORECASE)
    if told is not None:  # the line "sep=;", a hint to Excel
        skip, separator = skip + 1, separator or told[1]
    rows = {mark: _rows(lines[skip:], mark) for mark in ([separator] if separator else SEPARATORS)}
    known = {
        mark: set(names) & set(clean_names(found[0])) if found else set() for mark, found in rows.items()
    }
    best = max(known, key=lambda mark: len(known[mark]))
    by_names = given.header is not False and 2 * len(known[best]) >= len(set(names)) > 0
    separator = best if by_names else _separator(file, rows)
    header, of_file = has_header(file, rows[separator], given, names), None
    if not header:
        of_file = names_without_header(file, given, len(rows[separator][0]))
    return replace(given, separator=separator, encoding=encoding, header=header, names=of_file, skip=skip)


def names_without_header(file: str, syntax: Syntax, width: int) -> tuple[str, ...]:
    """The column names of a file without a header: as given, or by position."""
    if syntax.names is None:
        return tuple(f"column {place}" for place in range(1, width + 1))
    if len(syntax.names) != width:
        raise ValueError(f"{file} must have {len(syntax.names)} columns, one for each name")
    return tuple(syntax.names)


def clean_names(raw: Sequence[str]) -> list[str]:
    """Clean the names of a header: strips blanks and quotes, and names nameless columns.

    >>> clean_names(["", " age", ' "sex"'])
    ['column 1', 'age', 'sex']
    """
    names = [unguarded(re.sub(r'^"(.*)"$', r"\1", name.strip("\ufeff \t"))) for name in raw]
    return [name or f"column {place}" for place, name in enumerate(names, 1)]


def marked_encoding(first: bytes) -> str | None:
    """The encoding shown by a byte order mark or by zero bytes at the start of a file; None without these."""
    for bom, encoding in _BOMS.items():
        if first.startswith(bom):
            return encoding
    odd, even = first[1:4096:2].count(0), first[0:4096:2].count(0)
    if max(odd, even) * 3 > len(first[:4096]) / 2:
        return "utf-16-le" if odd > even else "utf-16-be"
    return None


def _encoding(file: str) -> str:
    if (marked := marked_encoding(next(raw_blocks(file), b""))) is not None:
        return marked
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for block in raw_blocks(file):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return _one_byte_encoding(file)
    return "utf-8"


def _one_byte_encoding(file: str) -> str:
    high: set[int] = set()
    runs = pairs = False
    for block in raw_blocks(file):
        high |= {byte for byte in set(block) if byte >= 0x80}
        runs = runs or re.search(rb"[\x80-\xff]{3}", block) is not None
        pairs = pairs or re.search(rb"[\xc3-\xdf][\x80-\xbf]", block) is not None
    if pairs:
        raise ValueError(
            f"{file} must be in one encoding: some of it is UTF-8 and some is not; --syntax "
            "encoding=latin-1 reads its bytes as they are"
        )
    low = {byte for byte in high if byte < 0xA0}
    if runs or low - {0x80, 0x85, *range(0x91, 0x98), 0x99}:
        others = "gb18030, shift_jis, cp1251" if runs else "cp1252, mac_roman, cp850"
        raise ValueError(
            f"{file} (not UTF-8) must be read with its encoding: --syntax encoding=latin-1, or another "
            f"({others})"
        )
    return "cp1252" if low else "latin-1"


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    """Split the lines into rows at a separator."""
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator != " ")
    rows: list[list[str]] = []
    try:
        rows += (row for row in reader if row)
    except csv.Error:  # such as a field of more than 2^17 characters: pyarrow reads or refuses the file
        return rows
    return rows


def _separator(file: str, rows: dict[str, list[list[str]]]) -> str:
    """The only separator that splits all rows into the same number of columns."""
    widths = {mark: {len(row) for row in found} for mark, found in rows.items()}
    if len(rows) == 1 or not all(widths.values()):
        return next(iter(rows))
    even = [mark for mark, found in widths.items() if len(found) == 1 and max(found) > 1]
    if "\t" in even and file.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    if even[:1] == [","] and len(even) == 2 and max(widths[even[1]]) > max(widths[","]):
        cells = (cell for row in rows[even[1]] for cell in row)
        even = even[1:] if all(map(_COMMAS_IN_NUMBERS.fullmatch, cells)) else even
    if len(even) > 1:
        ways = " or ".join(f"separator={SEPARATORS[m]} ({max(widths[m])} columns)" for m in even[:2])
        raise ValueError(f"{file} must be read with its separator, and its lines allow two: --syntax {ways}")
    if even:
        return even[0]
    if all(found == {1} for found in widths.values()):
        _check_single_column(file, [row[0] for row in rows[","]])
        return ","
    return max(rows, key=lambda mark: (len(rows[mark][0]), mark == ","))


def _check_single_column(file: str, lines: list[str]) -> None:
    """Refuse a single column that a rare separator would split into several columns."""
    for mark in " :~^" if len(lines) > 1 else "":
        widths = {len(line.split(mark)) for line in lines}
        if len(widths) == 1 and max(widths) > 1:
            raise ValueError(
                f"{file} must be read with its separator, and its lines allow two: "
                f"--syntax separator={shown(mark)} ({max(widths)} columns) or separator=',' (1 column)"
            )
    widths = {len(line.split()) for line in lines}
    if len(lines) > 1 and len(widths) == 1 and max(widths) > 1:
        raise ValueError(
            f"{file} must have one mark between its columns, not runs of blanks; if it has a single column, "
            "say --syntax separator=','"
        )


def has_header(file: str, rows: list[list[str]], given: Syntax, names: Collection[str] = ()) -> bool:
    """True if the first row names the columns; refuses unclear cases.

    Words above numbers are names; numbers above numbers are values, unless they look like years or positions;
    a word that occurs again in its column is a value.
    """
    if given.header is not None:
        return given.header
    if names and all(re.fullmatch("column [0-9]+", name) for name in names):
        return False
    if len(rows) < 2 or set(names) & set(clean_names(rows[0])):
        return True
    first = [cell.strip() for cell in rows[0]]
    below = [[row[place].strip() for row in rows[1:] if place < len(row)] for place in range(len(first))]
    if sum(map(bool, first)) == 1 and first[0] and any(map(any, below[1:])):
        raise ValueError(
            f"{file} must begin with the names of its columns, and its first line has one alone, as a title "
            "does: --syntax skip=1 leaves it out, --syntax header=yes takes it as it is"
        )
    named = valued = False
    for cell, column in zip(first, below, strict=True):
        filled = [text for text in column if text]
        numbers = sum(map(_is_value, filled))
        if not cell or not filled:
            continue
        if _is_value(cell):
            valued |= numbers == len(filled) and not _NAME_LIKE.fullmatch(cell)
        else:
            valued |= cell in filled
            named |= cell not in filled and 2 * numbers > len(filled)
    if named != valued:
        return named
    values = [cell for cell in first if _is_value(cell)]
    if not named and not values:
        return True  # words above words, none of which occurs again: names
    if not named and len(set(values)) < len(values):
        return False
    raise ValueError(
        f"{file} must be read with --syntax header=yes, if its first line names the columns, or with "
        "header=no, if that is a record: it can be either"
    )


def _is_value(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) or cell.lower() in ("true", "false"))


def forms(numbers: Mapping[str, Any], dates: Mapping[str, Any], given: Syntax, *, commas: bool) -> Syntax:
    """The syntax of numbers and dates: as given, or as detected from the texts of all such columns.

    numbers, dates: the distinct texts of the columns of each kind, by name. commas: True if commas separate
    the columns; ambiguous numbers then have decimal points.
    """
    decimal, order, marks = given.decimal, given.dates, given.thousands
    if decimal is None:
        either = {mark: number(mark, THOUSANDS.replace(mark, "")) for mark in ".,"}
        decimal = (
            _told(numbers, either, "" if commas else "[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}", _DECIMALS) or "."
        )
    if order is None:
        both = {order: DATES[order] for order in ("dmy", "mdy")}
        order = _told(dates, both, f"({both['dmy']})", _ORDERS, certain=DATES["ymd"]) or "ymd"
    if marks is None:
        possible = THOUSANDS.replace(decimal, "")
        found: set[str] = set()
        for texts in numbers.values():
            grouped = texts.filter(_only(texts, number(decimal, possible), number(decimal, "")))
            found |= set("".join(grouped.to_pylist())) & set(possible)
        marks = "".join(sorted(found))
    return replace(given, decimal=decimal, dates=order, thousands=marks)


_DECIMALS = (
    "--syntax decimal=. reads 1.234 as a little more than one, decimal=, reads it as more than a thousand"
)
_ORDERS = "--syntax dates=dmy reads 03/04/2020 as the 3rd of April, dates=mdy as the 4th of March"


def _told(
    columns: Mapping[str, Any], forms: dict[str, str], unsure: str, ways: str, certain: str = ""
) -> str | None:
    """Decide between two forms by texts that have only one; refuses contradictions and ambiguous texts.

    unsure: the pattern of texts that have both forms with different values, unless `certain`.
    """
    (one, of_one), (two, of_two) = forms.items()
    ones = [name for name, texts in columns.items() if _any(_only(texts, of_one, of_two))]
    twos = [name for name, texts in columns.items() if _any(_only(texts, of_two, of_one))]
    if ones and twos:
        raise ValueError(f"column {shown(twos[0])} is written in two ways, and must be in one: {ways}")
    for name, texts in columns.items() if unsure and not ones and not twos else ():
        if _any(_only(texts, unsure, certain) if certain else matching(texts, unsure)):
            raise ValueError(
                f"column {shown(name)} is written so that it does not tell how to read it: {ways}"
            )
    return one if ones else two if twos else None


def _only(texts: Any, pattern: str, other: str) -> Any:
    return need("pyarrow.compute", "read files", "io").and_not(
        matching(texts, pattern), matching(texts, other)
    )


def _any(matches: Any) -> bool:
    return bool(need("pyarrow.compute", "read files", "io").any(matches).as_py())


def in_words(syntax: Syntax) -> list[str]:
    """Describe deviations from plain csv, for the user's notice."""
    words = []
    if syntax.separator not in (None, ","):
        words.append(f"{SEPARATORS.get(syntax.separator, repr(syntax.separator))} between columns")
    words += [syntax.encoding] if syntax.encoding not in (None, "utf-8") else []
    words += ["no header line"] if syntax.header is False else []
    words += ["decimal comma"] if syntax.decimal == "," else []
    words += ["thousands marks"] if syntax.thousands else []
    return words if syntax.dates in (None, "ymd") else [*words, f"dates {ORDERS[syntax.dates]}"]
