"""How a text file is written: separator, encoding, header, decimal mark, order of dates. Given, or detected.

`layout` looks at bytes, lines and widths; `privmw.io.forms` looks at how numbers and dates are written. Both
read how something is written and never what it says, and where two readings are possible they refuse.

Privacy: public and private files come through the same detection. What it finds about a private file decides
how every record is read, so it must not hang on one record. The separator and the header of a private file
follow from its first line and the names in the domain, which is public. How its numbers and dates are written
is decided so that two files that differ in one record (or in all records of one unit) are never read in two
ways: `forms.decide` says how, and one of the two may be refused, as for any value that the domain does not
have. An encoding of one byte a letter leaves records of plain letters as they are. What is said about a
private file is how it is written, by the program that wrote all of its records: never a value or a word.
Where no names tell, as in a file without a header, every line must have one separator alone.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from reprlib import repr as _short

SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}
ORDERS = {"ymd": "year first", "dmy": "day first", "mdy": "month first"}
SAMPLE = 2**18  # bytes from which the separator and the header are told
UTF8 = "utf-8"
_BOMS = {  # that of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: UTF8,
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NO_TEXT = {  # the first bytes of files of other kinds, and what to do with them
    b"\x1f\x8b": "it is packed: let its name end in .gz",
    b"PK\x03\x04": "it is a workbook, whose name ends in .xlsx, or a zip file to unpack",
    b"PAR1": "it is parquet: let its name end in .parquet",
    b"ARROW1": "it is an Arrow file: let its name end in .feather",
}
_COMMAS_IN_NUMBERS = re.compile("[^,]*[0-9],[0-9][^,]*|[^,]*")
_OTHER_MARKS = " :~^"  # that are taken as separators only where they are given


@dataclass(frozen=True)
class Syntax:
    r"""How a text file is written; what is None is detected, and refused where two readings are possible.

    separator: between columns, one letter such as ";" or "\t". encoding: "utf-8", "latin-1", "utf-16" or
    another that Python knows. header: whether the first line names the columns; without one they are
    "column 1", "column 2", ..., or `names`, all of them in order. decimal: "." or ",". dates: "dmy"
    (31/12/1999), "mdy" (12/31/1999) or "ymd". A date with the year first is read in any case. skip: how many
    lines at the top are no part of the table.

    >>> Syntax(separator=";", decimal=",")
    Syntax(separator=';', encoding=None, header=None, decimal=',', dates=None, names=None, skip=0)
    >>> Syntax(dates="dd/mm/yyyy")
    Traceback (most recent call last):
    ValueError: dates ('dd/mm/yyyy') must be 'ymd', 'dmy' or 'mdy'
    """

    separator: str | None = None
    encoding: str | None = None
    header: bool | None = None
    decimal: str | None = None
    dates: str | None = None
    names: Sequence[str] | None = None
    skip: int = 0

    def __post_init__(self) -> None:
        for name in ("separator", "encoding", "decimal", "dates"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} ({_short(value)}) must be a string")
        if self.header is not None and not isinstance(self.header, bool):
            raise TypeError(f"header ({_short(self.header)}) must be True or False")
        if self.separator is not None and not re.fullmatch(r"[\t -~]", self.separator):
            raise ValueError(f"separator ({_short(self.separator)}) must be one letter, such as ';' or a tab")
        if self.separator is not None and (self.separator.isalnum() or self.separator in "\"'.+-"):
            raise ValueError(f"separator ({_short(self.separator)}) must not be a part of values")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal ({_short(self.decimal)}) must be '.' or ','")
        if self.dates is not None and self.dates not in ORDERS:
            raise ValueError(f"dates ({_short(self.dates)}) must be 'ymd', 'dmy' or 'mdy'")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except (LookupError, ValueError):
                raise ValueError(
                    f"encoding ({_short(self.encoding)}) must be one that Python knows, such as 'utf-8', "
                    "'latin-1' or 'utf-16'"
                ) from None
        if self.names is not None:
            self._take_names(self.names)
        if isinstance(self.skip, bool) or not isinstance(self.skip, int):
            raise TypeError(f"skip ({_short(self.skip)}) must be an integer")
        if self.skip < 0:
            raise ValueError(f"skip ({self.skip}) must not be negative")

    def _take_names(self, names: Sequence[str]) -> None:
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"names ({_short(names)}) must be a list of strings")
        if not names or len(set(names)) < len(names):
            raise ValueError(f"names ({_short(names)}) must be at least one, each only once")
        if self.header:
            raise ValueError(f"names ({_short(names)}) must be for a file without a header")
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "header", False)


DETECT = Syntax()


@dataclass(frozen=True)
class Layout:
    """The separator, encoding and header of one text file, and what is said about them."""

    separator: str
    encoding: str
    header: bool
    names: tuple[str, ...] | None  # of a file without a header
    skip: int
    marked: bool  # the encoding is told by the first bytes, or was given

    def words(self, *, private: bool) -> list[str]:
        """What is not as in most csv files."""
        shown = SEPARATORS.get(self.separator, repr(self.separator))
        words = [] if self.separator == "," else [f"{shown} between columns"]
        if self.encoding != UTF8 and (self.marked or not private):
            words.append(self.encoding)
        return words if self.header else [*words, "no header line"]


def layout(file: str, given: Syntax, names: Collection[str] = (), *, private: bool) -> Layout:
    r"""The layout of a text file, as given or detected; a file that can be read in two ways is refused.

    names: columns that it should have. They tell the header and the separator; of a private file nothing
    else does, unless the domain has the names of a file without a header.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("name;age\nAnna;31,5\n")
    ...     layout(str(path), DETECT, private=False).separator
    ';'
    """
    return _layout(_stamp(file), given, tuple(names), private)


@lru_cache(maxsize=64)  # by size and time: a file is opened several times before it is read
def _layout(stamp: tuple[str, int, int, int], given: Syntax, names: tuple[str, ...], private: bool) -> Layout:
    file = stamp[0]
    encoding, marked = (given.encoding, True) if given.encoding else _encoding(*stamp)
    given = _with_told_separator(file, encoding, given)
    rows = {
        mark: _rows(file, encoding, mark, given.skip)
        for mark in ([given.separator] if given.separator else SEPARATORS)
    }
    separator, header = _by_names(rows, names, given.header)
    if separator is None:
        separator = _by_widths(file, rows, private, given.header is not False and not _numbered(names))
    if header is None:
        header = has_header(file, rows[separator], given, names, private=private)
    first = rows[separator][0] if rows[separator] else []
    names_of = None if header else names_without_header(file, given, len(first))
    return Layout(separator, encoding, header, names_of, given.skip, marked)


def _with_told_separator(file: str, encoding: str, given: Syntax) -> Syntax:
    """The syntax of a file whose first line says its separator to Excel, as sep=; does."""
    lines = _sample(file, encoding, given.skip, 4096)
    told = re.fullmatch('"?sep=([,;\t|])"?', lines.readline().rstrip("\r\n"), re.IGNORECASE)
    if told is None:
        return given
    return replace(given, separator=given.separator or told[1], skip=given.skip + 1)


def names_without_header(file: str, given: Syntax, columns: int) -> tuple[str, ...]:
    """The names of so many columns that have no header: as given, or by their places."""
    if given.names is None:
        return tuple(f"column {place}" for place in range(1, columns + 1))
    if len(given.names) != columns:
        raise ValueError(f"{file} must have {len(given.names)} columns, one for each name")
    return tuple(given.names)


def head(file: str) -> bytes:
    """The first bytes of a file, 2^22 at most, unpacked if it is packed."""
    return next(_blocks(file), b"")


def clean_names(raw: Sequence[str]) -> list[str]:
    """The names of a header: without blanks and quotes around them, and a name for a column without one.

    >>> clean_names(["", " age", ' "sex"'])
    ['column 1', 'age', 'sex']
    """
    names = [re.sub(r'^"(.*)"$', r"\1", name.strip("\ufeff \t")) for name in raw]
    return [name or f"column {place}" for place, name in enumerate(names, 1)]


def _stamp(file: str) -> tuple[str, int, int, int]:
    state = os.stat(file)
    return file, state.st_size, state.st_mtime_ns, state.st_ino


def _blocks(file: str) -> Iterator[bytes]:
    open_file = gzip.open if file.lower().endswith(".gz") else open
    try:
        with open_file(file, "rb") as opened:
            while block := opened.read(2**22):
                yield block
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        broken = True
    else:
        broken = False
    if broken:
        raise ValueError(f"{file} must be a whole gzip file")


@lru_cache(maxsize=64)  # by size and time: the whole file is read for it
def _encoding(file: str, size: int, modified: int, inode: int) -> tuple[str, bool]:
    """The encoding, and whether the first bytes tell it."""
    first = head(file)
    for magic, remedy in _NO_TEXT.items():
        if first.startswith(magic):
            raise ValueError(f"{file} must be text: {remedy}")
    for bom, encoding in _BOMS.items():
        if first.startswith(bom):
            return encoding, True
    odd, even = first[1:4096:2].count(0), first[0:4096:2].count(0)
    if max(odd, even) * 3 > len(first[:4096]) / 2:
        return ("utf-16-le" if odd > even else "utf-16-be"), True
    if is_utf8(file):
        return UTF8, False
    high = set()
    runs = pairs = False
    for block in _blocks(file):
        high |= {byte for byte in set(block) if byte >= 0x80}
        runs = runs or re.search(rb"[\x80-\xff]{3}", block) is not None
        pairs = pairs or re.search(rb"[\xc3-\xdf][\x80-\xbf]", block) is not None
    if pairs:
        raise ValueError(
            f"{file} must be in one encoding: some of it is UTF-8 and some is not; --encoding latin-1 reads "
            "its bytes as they are"
        )
    low = {byte for byte in high if byte < 0xA0}
    if runs or low - {0x80, 0x85, *range(0x91, 0x98), 0x99}:
        others = "gb18030, shift_jis, cp1251" if runs else "cp1252, mac_roman, cp850"
        raise ValueError(
            f"{file} (not UTF-8) must be read with its encoding: --encoding latin-1, or another ({others})"
        )
    return ("cp1252" if low else "latin-1"), False


def is_utf8(file: str) -> bool:
    """Whether all of a file, unpacked if it is packed, is UTF-8."""
    decoder = codecs.getincrementaldecoder(UTF8)()
    try:
        for block in _blocks(file):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _rows(file: str, encoding: str, separator: str, skip: int) -> list[list[str]]:
    """The first rows, as this separator splits them; the last one may be cut, and is left out."""
    lines = _sample(file, encoding, skip, SAMPLE)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator != " ")
    rows: list[list[str]] = []
    try:
        rows += (row for row in reader if row)
    except csv.Error:  # such as a field of more than 2^17 letters: pyarrow reads or refuses the file
        return rows
    return rows[:-1] if len(head(file)) > SAMPLE else rows


def _sample(file: str, encoding: str, skip: int, size: int) -> io.StringIO:
    """The first bytes of a file as text, after so many lines."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head(file)[:size]).lstrip("\ufeff")
    lines = io.StringIO(text, newline="")
    for _ in range(skip):
        lines.readline()
    return lines


def check_quotes(file: str, found: Layout, rows: int) -> None:
    """Refuse a file, of which pyarrow has read so many rows, if a quote in it is not closed.

    pyarrow takes everything from such a quote to the next one as a single value, and says nothing. A file
    with a line for each row has none, unless a backslash stands before a quote and is meant to escape it.
    """
    lines, quoted, escaped = -found.skip, False, False
    for block in _blocks(file):
        lines += block.count(b"\n")
        quoted, escaped = quoted or b'"' in block, escaped or b'\\"' in block
    if not quoted or (lines <= rows + found.header and not escaped):
        return
    open_file = gzip.open if file.lower().endswith(".gz") else open
    closed = True
    with open_file(file, "rt", encoding=found.encoding, errors="replace", newline="") as text:
        for _ in range(found.skip):
            text.readline()
        limit = csv.field_size_limit(2**31 - 1)  # of letters in a value: pyarrow has none
        try:
            for _ in csv.reader(text, delimiter=found.separator, strict=True):
                pass
        except csv.Error:  # it must not become a context: it may tell of a value
            closed = False
        finally:
            csv.field_size_limit(limit)
    if not closed:
        raise ValueError(
            f"{file} must have its quotes in pairs around whole values: one is not closed at the end of its "
            "value, or stands inside of a quoted one (there it must be doubled)"
        )


def _numbered(names: Collection[str]) -> bool:
    """Whether all names, if any, are those of a file without a header."""
    return all(re.fullmatch("column [0-9]+", name) for name in names)


def _by_names(
    rows: dict[str, list[list[str]]], names: Collection[str], header: bool | None
) -> tuple[str | None, bool | None]:
    """The separator that splits the first line into most of the names, if any does: that line is a header."""
    if header is False or not names:
        return None, None
    known = {
        mark: len(set(names) & set(clean_names(found[0]))) if found else 0 for mark, found in rows.items()
    }
    best = max(known, key=known.__getitem__)
    if known[best] == 0 or _numbered(names):
        return None, None
    if known[best] < len(names) and known[best] * 2 < len(names):
        return None, None
    return best, True


def _by_widths(file: str, rows: dict[str, list[list[str]]], private: bool, named: bool) -> str:
    """The separator that splits every row into as many columns; of a private file with names, the first row.

    Privacy: of a private file without names, every row must have one separator alone, but for commas in
    numbers; else it is refused, so that no single record decides between two.
    """
    first_line = private and named
    widths = {
        mark: {len(row) for row in (found[:1] if first_line else found)} for mark, found in rows.items()
    }
    if len(rows) == 1 or not any(widths.values()):
        return next(iter(rows))
    even = [mark for mark, found in widths.items() if len(found) == 1 and max(found) > 1]
    if first_line:  # any of them: names are missing, and that is refused
        return max(widths, key=lambda mark: max(widths[mark], default=0))
    if "\t" in even and file.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    possible = [mark for mark, found in widths.items() if max(found, default=1) > 1] if private else even
    if len(possible) == 2 and possible[0] == "," and possible[1] in even:
        other = possible[1]
        wider = max(widths[other]) > max(widths[","])
        if wider and all(_COMMAS_IN_NUMBERS.fullmatch(cell) for row in rows[other] for cell in row):
            return other
    if private and len(possible) > 1:
        raise ValueError(f"{file} must be read with its separator: --separator , or another says which it is")
    if len(even) == 1:
        return even[0]
    if not even:
        if all(found == {1} for found in widths.values()):
            _check_single_column(file, [row[0] for row in rows[","]])
            return ","
        return max(rows, key=lambda mark: (len(rows[mark][0]), mark == ",")) if all(rows.values()) else ","
    ways = " or ".join(f"--separator {SEPARATORS[mark]} ({max(widths[mark])} columns)" for mark in even[:2])
    raise ValueError(f"{file} must be read with its separator, and its lines allow two: {ways}")


def _check_single_column(file: str, lines: list[str]) -> None:
    """Refuse lines that a rare separator splits into several columns, all alike."""
    for mark in _OTHER_MARKS if len(lines) > 1 else "":
        widths = {len(line.split(mark)) for line in lines}
        if len(widths) == 1 and max(widths) > 1:
            raise ValueError(
                f"{file} must be read with its separator, and its lines allow two: "
                f"--separator {mark!r} ({max(widths)} columns) or --separator ',' (1 column)"
            )
    widths = {len(line.split()) for line in lines}
    if len(lines) > 1 and len(widths) == 1 and max(widths) > 1:
        raise ValueError(
            f"{file} must have one mark between its columns, not runs of blanks; if it has a single column, "
            "say --separator ','"
        )


_NUMBER = re.compile(r"[+-]?[0-9][0-9.,' \u00a0\u202f]*(e[+-]?[0-9]+)?", re.IGNORECASE)
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([ T].*)?")
_NAME_LIKE = re.compile(rf"[0-9]{{1,4}}|{_DATE.pattern}")  # columns of years, days or places


def has_header(
    file: str, rows: list[list[str]], given: Syntax, names: Collection[str], *, private: bool
) -> bool:
    """Whether the first row names the columns; refused where that is not clear.

    A private file has a header unless the domain has the names of a file without one. In a public file, words
    over numbers are names; numbers over numbers are values, unless they look like years or places; a word
    that its column has again below is a value.
    """
    if given.header is not None:
        return given.header
    if names and _numbered(names):
        return False
    if private or (rows and set(names) & set(clean_names(rows[0]))):
        return True
    if len(rows) < 2:
        return True
    first = [cell.strip() for cell in rows[0]]
    below = [[row[place].strip() for row in rows[1:] if place < len(row)] for place in range(len(first))]
    if sum(map(bool, first)) == 1 and first[0] and any(map(any, below[1:])):
        raise ValueError(
            f"{file} must begin with the names of its columns, and its first line has one alone, as a title "
            "does: --skip 1 leaves it out, --header takes it as it is"
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
    shown = [cell for cell in first if _is_value(cell)]
    if not named and not shown:
        return True  # words over words, and none of them comes again: names
    if not named and len(set(shown)) < len(shown):
        return False
    raise ValueError(
        f"{file} must be read with --header, if its first line names the columns, or with --no-header, if "
        "that is a record: it can be either"
    )


def _is_value(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell) or cell.lower() in ("true", "false"))
