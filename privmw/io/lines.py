"""Reads private text files line by line: a line is a record, and how it is read depends on no other line.

pyarrow reads csv after every line has been made well-formed on its own, so an unclosed quote, a line of the
wrong length or a damaged character affects no other line. Unreadable values of a record become
`forms.UNREADABLE`. JSON lines are read in the same way, public or private. A file is refused as a whole only
if its bytes are not of its encoding (UTF-8 may be damaged), or if a line ends inside quotes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.data.syntax import Syntax
from privmw.io.extras import need
from privmw.io.forms import UNREADABLE
from privmw.secrecy import shown

BLOCK = 2**24  # bytes per read
LONGEST_HEADER = 2**20  # bytes, including the lines above it
_NEWLINE, _QUOTE = 10, 34
_WRONG_ENCODING = "{file} must be in the encoding '{encoding}'; --syntax encoding=... names another"


def raw_blocks(file: str, size: int | None = None) -> Generator[bytes, None, None]:
    """Yield the bytes of a file, decompressed if it is compressed."""
    open_file = gzip.open if file.lower().endswith(".gz") else open
    broken = False
    try:
        with open_file(file, "rb") as opened:
            while block := opened.read(size or BLOCK):
                yield block
    except (EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        broken = True
    if broken:
        raise ValueError(f"{file} must be a whole gzip file")


def head(file: str, size: int) -> bytes:
    """The first bytes of a file, decompressed if it is compressed; leaves no open generator."""
    blocks = raw_blocks(file, size)
    try:
        return next(blocks, b"")
    finally:
        blocks.close()


def is_utf8(encoding: str) -> bool:
    """True if an encoding's name is UTF-8, with or without a byte order mark."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def line_blocks(file: str, encoding: str, skip: int = 0) -> Iterator[bytes]:
    r"""Yield blocks of complete lines in UTF-8, ended by \n, without the first `skip` lines."""
    pending, start = b"", True
    for block in _utf8_blocks(file, encoding):
        pending += block.removeprefix(codecs.BOM_UTF8) if start else block
        start = start and not block
        held = pending.endswith(b"\r")  # perhaps the first half of \r\n
        lines = pending[:-1] if held else pending
        lines, rest = _at_last_line(lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        pending = rest + b"\r" * held
        while skip and lines:
            lines, skip = lines[lines.index(b"\n") + 1 :], skip - 1
        if lines:
            yield lines
    last = pending.replace(b"\r", b"\n")
    if last and not skip:
        yield last if last.endswith(b"\n") else last + b"\n"


def _at_last_line(text: bytes) -> tuple[bytes, bytes]:
    end = text.rfind(b"\n") + 1
    return text[:end], text[end:]


def _utf8_blocks(file: str, encoding: str) -> Iterator[bytes]:
    """Yield the text in UTF-8; bytes invalid in the encoding are refused, unless it is UTF-8 itself."""
    if is_utf8(encoding):
        yield from raw_blocks(file)
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    wrong = False
    try:
        for block in raw_blocks(file):
            yield decoder.decode(block).encode("utf-8")
        yield decoder.decode(b"", final=True).encode("utf-8")
    except UnicodeError:  # must not become a context: it holds the bytes
        wrong = True
    if wrong:
        raise ValueError(_WRONG_ENCODING.format(file=file, encoding=encoding))


def header_cells(file: str, syntax: Syntax) -> list[str]:
    """The cells of the header: the first line that is not blank, after the lines to skip."""
    first, encoding = head(file, LONGEST_HEADER), syntax.encoding or "utf-8"
    try:
        text = codecs.getincrementaldecoder(encoding)("replace").decode(first)
    except UnicodeError:  # UTF-16 without its byte order mark
        text = None
    if text is None:
        raise ValueError(_WRONG_ENCODING.format(file=file, encoding=encoding))
    lines = list(io.StringIO(text.lstrip("\ufeff"), None))[
        syntax.skip or 0 :
    ]  # records among these lines are not used
    line = next((line for line in lines if line != "\n"), "").removesuffix("\n")
    return split_line(line, syntax.separator or ",") or [line]


def split_line(line: str, separator: str) -> list[str] | None:
    """The values of one line; None if its quotes are not in pairs around complete values.

    >>> split_line('1,"a, b",5" wide', ",")
    ['1', 'a, b', '5" wide']
    """
    try:
        return next(csv.reader([line], delimiter=separator, strict=True), [""])
    except csv.Error:
        return None


def read_lines(file: str, syntax: Syntax, width: int, places: Sequence[int]) -> Iterator[list[Any]]:
    """Yield the columns at these positions as Arrow arrays of text, block by block, after the header."""
    pa, arrow_csv = need("pyarrow", "read files", "io"), need("pyarrow.csv", "read files", "io")
    separator = (syntax.separator or ",").encode()
    names = [str(place) for place in range(width)]
    kinds = {names[place]: pa.string() for place in places}
    header = separator.join(name.encode() for name in names) + b"\n"
    named = bool(syntax.header)
    for block in line_blocks(file, syntax.encoding or "utf-8", syntax.skip or 0):
        if named:
            block, named = block.lstrip(b"\n").partition(b"\n")[2], False
        cleaned = clean_lines(block, separator, width)
        if cleaned is None:
            raise ValueError(
                f"{file} must have every record on one line: a line ends inside of quotes. Write it without "
                "line breaks in values, or as parquet"
            )
        # Not autogenerate_column_names: pyarrow would drop a byte order mark that belongs to the first value.
        table = arrow_csv.read_csv(
            pa.BufferReader(header + cleaned),
            arrow_csv.ReadOptions(block_size=BLOCK),
            arrow_csv.ParseOptions(delimiter=separator.decode(), ignore_empty_lines=False),
            arrow_csv.ConvertOptions(include_columns=list(kinds), column_types=kinds, check_utf8=False),
        )
        for batch in table.combine_chunks().to_batches():
            yield list(batch.columns)


def clean_lines(block: bytes, separator: bytes, width: int) -> bytes | None:
    r"""Make every line well-formed with exactly `width` values; None if a line ends inside quotes.

    >>> clean_lines(b'1,2\n\n3,"4"x\n5,6,7\n', b",", 2).decode().split()
    ['1,2', ',', '\ufffd,\ufffd', '\ufffd,\ufffd']
    >>> clean_lines(b'1,2\n3,"4\n5,6\n', b",", 2) is None
    True
    """
    letters = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(letters == _NEWLINE)
    marks = np.flatnonzero(letters == separator[0])
    odd = np.zeros(len(ends), bool)  # lines to parse one by one
    if b'"' in block:
        marks, odd = _outside_quotes(letters, ends, marks, separator[0])
    odd |= np.bincount(np.searchsorted(ends, marks), minlength=len(ends)) != width - 1
    odd |= np.diff(ends, prepend=-1) == 1  # blank
    odd |= _damaged(block, letters, ends)
    if not odd.any():
        return block
    parts, done = [], 0
    for line in np.flatnonzero(odd).tolist():
        start, end = (int(ends[line - 1]) + 1 if line else 0), int(ends[line])
        cleaned = _clean_line(block[start:end].decode("utf-8", "replace"), separator.decode(), width)
        if cleaned is None:
            return None
        parts += [block[done:start], cleaned.encode("utf-8")]
        done = end + 1
    return b"".join([*parts, block[done:]])


def _outside_quotes(
    letters: npt.NDArray[np.uint8], ends: npt.NDArray[np.intp], marks: npt.NDArray[np.intp], separator: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """The separators outside quotes, and the lines whose quotes are not in pairs around complete values.

    In a well-formed line the first, third, ... quote opens a value: it follows a separator, the start of the
    line or another quote (a doubled one). The other quotes close a value, and precede one of these.
    """
    quotes = np.flatnonzero(letters == _QUOTE)
    line = np.searchsorted(ends, quotes)
    first = np.searchsorted(quotes, np.append(-1, ends[:-1]))  # first quote of each line
    opens = (np.arange(len(quotes)) - first[line]) % 2 == 0
    before = np.where(quotes > 0, letters[quotes - 1], _NEWLINE)
    beside = np.where(opens, before, letters[quotes + 1])
    proper = (beside == separator) | (beside == _NEWLINE) | (beside == _QUOTE)
    odd = np.bincount(line, minlength=len(ends)) % 2 == 1
    odd[line[~proper]] = True
    passed = np.searchsorted(quotes, marks) - first[np.searchsorted(ends, marks)]
    return marks[passed % 2 == 0], odd


def _damaged(
    block: bytes, letters: npt.NDArray[np.uint8], ends: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """A mask of the lines that are not valid UTF-8."""
    damaged = np.zeros(len(ends), bool)
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        for line in np.unique(np.searchsorted(ends, np.flatnonzero(letters >= 0x80))).tolist():
            start = int(ends[line - 1]) + 1 if line else 0
            text = block[start : int(ends[line])]
            damaged[line] = text.decode("utf-8", "replace").encode("utf-8") != text
    return damaged


def _clean_line(line: str, separator: str, width: int) -> str | None:
    cells = [""] * width if line == "" else split_line(line, separator)
    if cells is None:
        if _ends_in_quotes(line, separator):
            return None
        cells = []
    written = io.StringIO()
    fitting = cells if len(cells) == width else [UNREADABLE] * width
    csv.writer(written, delimiter=separator, lineterminator="\n").writerow(fitting)
    return written.getvalue()


def _ends_in_quotes(line: str, separator: str) -> bool:
    """True if the last value would continue in the next line."""
    try:
        return len(list(csv.reader([line + "\n", "x"], delimiter=separator))) == 1
    except csv.Error:  # such as a value of more than 2^17 characters
        return False


def json_names(file: str) -> list[str]:
    """The names in the records of public JSON lines, in the order of their first use."""
    names: dict[str, None] = {}
    for block in line_blocks(file, "utf-8"):
        for line in block.split(b"\n")[:-1]:
            names.update(dict.fromkeys(_json_record(line, ".", False) or ()))
    return list(names)


def read_json_lines(
    file: str, names: Sequence[str], decimal: str, *, private: bool
) -> Iterator[list[list[str]]]:
    """Yield the columns of these names as texts, block by block; every line is a record.

    Missing names and null become empty; a name that every record lacks is refused. A line that is not a JSON
    object is refused in a public file, and unreadable in a private one. decimal: the decimal mark to write.
    """
    known: set[str] = set()
    for block in line_blocks(file, "utf-8"):
        columns: list[list[str]] = [[] for _ in names]
        for line in block.split(b"\n")[:-1]:
            record = _json_record(line, decimal, private)
            if record is None and not private:
                raise ValueError(f"{file} must be JSON lines in UTF-8, one object a line")
            known.update(record or ())
            for name, column in zip(names, columns, strict=True):
                column.append(UNREADABLE if record is None else record.get(name, ""))
        yield columns
    for name in names:
        if name not in known:
            raise ValueError(f"{file}: column {shown(name)} is missing")


def _json_record(line: bytes, decimal: str, private: bool) -> dict[str, str] | None:
    if not line.strip():
        return {}

    def written(number: str) -> str:
        return number.replace(".", decimal)

    try:
        text = line.decode("utf-8", "replace" if private else "strict")
        record = json.loads(text, parse_int=str, parse_float=written, parse_constant=str)
        return {k: _json_text(v) for k, v in record.items()} if isinstance(record, dict) else None
    except (ValueError, RecursionError):
        return None


def _json_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")  # surrogates in escapes
