"""Reads files of all formats as Arrow record batches. This module knows neither domains nor codes.

Columns of parquet and Arrow's feather have types; in csv and its relatives, JSON lines and workbooks, every
value is text. A `Syntax` describes how text is written. `public_layout` detects missing settings of public
files; a private file is read by given settings only, each record separately (`lines`).

Every error about a file is one line that names the file. Only for public files does it include pyarrow's
message, which can quote cells.
"""

from __future__ import annotations

import csv
import filecmp
import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import dropwhile
from typing import Any

from privmw.data.syntax import PLAIN, Syntax
from privmw.io import detect, lines
from privmw.io.extras import need
from privmw.io.workbook import first_sheet, sheets_of
from privmw.secrecy import shown

SUFFIXES = {  # of files, with the kind of each
    ".parquet": "parquet",
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".tab", ".txt", ".txt.gz"), "text"),
    **dict.fromkeys((".data", ".test"), "text"),  # as in UCI's archive
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "feather"),
    **dict.fromkeys((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), "json"),
    **dict.fromkeys((".xlsx", ".xls", ".xlsb", ".ods"), "sheet"),
}
_RULES = {
    "parquet": "a whole parquet file",
    "text": "a csv file in its encoding, each row as long as the header",
    "feather": "a whole Arrow or feather file",
    "json": "JSON lines in UTF-8, one object a line",
    "sheet": "a workbook whose first sheet is one table",
}
PARQUET_BATCH_ROWS = 2**18  # of a batch of parquet
ABOUT = "privmw"  # the schema key of privmw's metadata, in JSON
SEEDED = {"for_release": False, "why": "seeded: not for release"}  # metadata of files made with seeded noise
SEEDED_CSV = ".seeded.csv"  # suffix of csv files of a seeded release, since csv has no metadata
_NO_TEXT = {  # first bytes of other file formats, and advice
    b"\x1f\x8b": "it is packed: let its name end in .gz",
    b"PK\x03\x04": "it is a workbook, whose name ends in .xlsx, or a zip file to unpack",
    b"PAR1": "it is parquet: let its name end in .parquet",
    b"ARROW1": "it is an Arrow file: let its name end in .feather",
}


@contextmanager
def naming(file: str | os.PathLike[str]) -> Iterator[None]:
    """Prefix the message of a TypeError or ValueError with the name of the file."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{os.fspath(file)}: {error}") from None


def checked_path(path: str | os.PathLike[str]) -> str:
    """The path as text; it must name an existing file with a known suffix, or a folder."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path ({shown(path)}) must be a path")
    text = os.fsdecode(path)
    if not os.path.exists(text):
        raise FileNotFoundError(f"{text} must exist")
    if not os.path.isdir(text) and kind_of_file(text) is None:
        raise ValueError(
            f"{text} must be a .parquet, .csv, .tsv, .feather, .jsonl or .xlsx file, or a folder of one "
            "kind; rename a file of another name"
        )
    return text


def kind_of_file(file: str) -> str | None:
    """The kind of a file, by its suffix: parquet, text, feather, json or sheet.

    >>> kind_of_file("people.CSV.gz"), kind_of_file("people.doc")
    ('text', None)
    """
    return next((kind for suffix, kind in SUFFIXES.items() if file.lower().endswith(suffix)), None)


def files_of(path: str) -> list[str]:
    """The file itself, or the files of a folder, sorted by name: all of one kind, without subfolders."""
    if not os.path.isdir(path):
        return [path]
    listed = sorted(name for name in os.listdir(path) if not name.startswith((".", "_")))
    inner = [name for name in listed if os.path.isdir(os.path.join(path, name))]
    if inner:
        raise ValueError(
            f"{path} (a folder) must hold files alone: {shown(inner[0])} is a folder, and would be left out"
        )
    names = [name for name in listed if kind_of_file(name)]
    kinds = sorted({str(kind_of_file(name)) for name in names})
    if not names:
        raise ValueError(
            f"{path} (a folder) must hold parquet files, or others of one kind: csv, feather, jsonl"
        )
    if len(kinds) > 1:
        raise ValueError(f"{path} (a folder) must hold files of one kind, not {' and '.join(kinds)}")
    return [os.path.join(path, name) for name in names]


def stamp(path: str) -> tuple[tuple[str, int, int, int], ...]:
    """Names, sizes, modification times and inodes of the files, to detect a change."""
    states = ((file, os.stat(file)) for file in files_of(path))
    return tuple((file, state.st_size, state.st_mtime_ns, state.st_ino) for file, state in states)


def same_contents(path: str, other: str) -> bool:
    """True if two paths share a file: the same path, a link, or equal bytes.

    >>> same_contents(__file__, __file__), same_contents(__file__, "nowhere")
    (True, False)
    """
    if not (os.path.exists(path) and os.path.exists(other)):
        return False
    return any(
        os.path.samefile(one, two)
        or (os.path.getsize(one) == os.path.getsize(two) and filecmp.cmp(one, two, shallow=False))
        for one in files_of(path)
        for two in files_of(other)
    )


def is_text(path: str) -> bool:
    """True if every value in the file, or in the files of a folder, is text."""
    return kind_of_file(files_of(path)[0]) in ("text", "sheet", "json")


def public_layout(path: str, given: Syntax, names: Sequence[str] = ()) -> Syntax:
    """Detect the syntax of a public file, except of numbers and dates; of a folder, that of its first file.

    given: settings that are not detected. names: expected columns, which help to recognise the header.
    """
    file = files_of(path)[0]
    kind = kind_of_file(file)
    _check_size(file)
    try:
        if kind == "text":
            _check_is_text(file)
            return detect.layout(file, given, names)
        if kind == "sheet":
            rows = _sheet_rows(file, replace(given, header=True, names=None))
            header = detect.has_header(file, [row for row in rows if any(row)], given, names)
            if not header:
                given = replace(given, names=detect.names_without_header(file, given, len(rows[0])))
            return replace(given, header=header, skip=given.skip or 0)
        return given
    except _errors() as error:
        refusal = _refusal(error, file, False)
    raise refusal


def columns_of(file: str, *, private: bool, syntax: Syntax = PLAIN) -> tuple[list[str], list[Any]]:
    """The names and types of a file's columns; the type of text is string.

    For private JSON lines, whose names are in the records, the result is empty.
    """
    pa = need("pyarrow", "read files", "io")
    _check_size(file)
    try:
        names = _text_columns(file, private, syntax)
        if names is not None:
            return names, [pa.string()] * len(names)
        schema = _typed(file)[0]
        return list(schema.names), list(schema.types)
    except _errors() as error:
        refusal = _refusal(error, file, private)
    raise refusal


def _check_size(file: str) -> None:
    if os.path.getsize(file) == 0:
        raise ValueError(f"{file} (0 bytes) must not be empty")


def _check_is_text(file: str) -> None:
    first = lines.head(file, 8)
    for magic, remedy in _NO_TEXT.items():
        if first.startswith(magic):
            raise ValueError(f"{file} must be text: {remedy}")


def about(file: str) -> Mapping[str, Any]:
    """The metadata of a parquet or feather file under the schema key ABOUT; empty if there is none.

    For csv of a seeded release, it is derived from the file name.
    """
    if kind_of_file(file) == "text":
        return SEEDED if file.lower().endswith(SEEDED_CSV) else {}
    if kind_of_file(file) not in ("parquet", "feather"):
        return {}
    columns_of(file, private=False)  # validates the file
    schema = _typed(file)[0]
    text = (schema.metadata or {}).get(ABOUT.encode(), b"{}")
    try:
        metadata = json.loads(text)
    except ValueError:  # not written by privmw
        return {}
    return metadata if isinstance(metadata, dict) else {}


def rows_of_groups(file: str, *, private: bool) -> list[int]:
    """The number of rows of each row group of a parquet file, from its footer."""
    if kind_of_file(file) != "parquet":
        raise ValueError(f"{file} must be a parquet file: only these have row groups to distribute")
    columns_of(file, private=private)  # validates the file
    footer = _parquet(file).metadata
    return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


def batches(
    file: str,
    names: Sequence[str],
    *,
    private: bool,
    groups: Sequence[int] | None = None,
    syntax: Syntax = PLAIN,
) -> Iterator[Any]:
    """The columns of these names as record batches.

    groups: the row groups of a parquet file to read; None for all.
    """
    columns = columns_of(file, private=private, syntax=syntax)[0]
    if not (private and kind_of_file(file) == "json"):
        lacking = [name for name in names if name not in columns] if private else []
        hint = _other_syntax(file, syntax, lacking) if lacking else ""
        check_names(file, columns, names, private=private, hint=hint)
    try:
        if kind_of_file(file) == "parquet":
            parquet = _parquet(file, names)
            for group in range(parquet.num_row_groups) if groups is None else groups:
                # One group at a time: pyarrow keeps the groups of one iterator in memory.
                yield from parquet.iter_batches(PARQUET_BATCH_ROWS, row_groups=[group], columns=list(names))
        elif kind_of_file(file) == "feather":
            yield from _typed(file, names)[1]
        else:
            yield from _text_batches(file, names, columns, private, syntax)
        return
    except _errors() as error:
        refusal = _refusal(error, file, private)
    raise refusal


def sheets_in_words(path: str) -> list[str]:
    """A note about workbooks with several sheets."""
    sheets = [sheets_of(file) for file in files_of(path) if kind_of_file(file) == "sheet"]
    return [f"the first of {max(sheets)} sheets"] if sheets and max(sheets) > 1 else []


def left_out(where: str, columns: int, named: int) -> list[str]:
    """A note with the number of unread columns of a private table; not their names, which may be values."""
    left = columns - named
    plural = "s" * (left > 1)
    return [f"{where}: left out: {left} column{plural} that the domain does not name"] if left else []


def check_names(
    where: str, columns: Sequence[object], names: Iterable[str], *, private: bool, hint: str = ""
) -> None:
    """Refuse missing or repeated columns; other columns are allowed.

    hint: advice if columns are missing.

    The columns of a private table are not shown: without a header they are the values of a record. If one of
    them equals a name of the domain except for blanks and capitals, that name is shown and reveals nothing
    else.
    """
    missing, twice = [], []
    for name in dict.fromkeys(names):
        if name not in columns:
            missing.append(f"column {shown(name)} is missing{_near(name, columns, private)}")
        elif columns.count(name) > 1:
            twice.append(f"column {shown(name)} must be there only once")
    if missing and not any("did you mean" in line for line in missing) and kind_of_file(where) == "text":
        missing[-1] += hint or ": the first line must name the columns, as the domain does"
    if missing or twice:
        raise ValueError(f"{where}: {'; '.join([*missing, *twice])}")


def _near(name: str, columns: Sequence[object], private: bool) -> str:
    known = [column for column in columns if isinstance(column, str)]
    if private:
        alike = [column for column in known if column.strip().lower() == name.strip().lower()]
        return "; did you mean one that differs by blanks or capitals? Rename it" if alike else ""
    import difflib  # here: only this message needs it

    by_plain = {column.strip().lower(): column for column in known}
    near = difflib.get_close_matches(name[:100].strip().lower(), by_plain, n=1)
    return f"; did you mean {shown(by_plain[near[0]])}?" if near else ""


def _parquet(file: str, names: Sequence[str] = ()) -> Any:
    parquet = need("pyarrow.parquet", "read files", "io")
    opened = parquet.ParquetFile(file)
    kinds = {name: str(opened.schema_arrow.field(name).type) for name in names}
    texts = [name for name, kind in kinds.items() if kind in ("string", "large_string")]
    # Texts as dictionaries: each distinct text is then looked up once per batch.
    return parquet.ParquetFile(file, read_dictionary=texts) if texts else opened


def _typed(file: str, wanted: Sequence[str] = ()) -> tuple[Any, Iterator[Any]]:
    """The schema of a parquet or feather file; of feather, the batches of the wanted columns too."""
    if kind_of_file(file) == "parquet":
        return _parquet(file).schema_arrow, iter(())
    pa = need("pyarrow", "read files", "io")
    opened = pa.ipc.open_file(pa.memory_map(file))
    order = [opened.schema.names.index(name) for name in wanted]

    def checked(place: int) -> Any:
        batch = opened.get_batch(place).select(order)
        for column in batch.columns:  # a damaged offset would lead out of the file
            # Text as bytes: invalid UTF-8 is a bad value of its record only.
            raw = {"string": pa.binary(), "large_string": pa.large_binary()}.get(str(column.type))
            (column.view(raw) if raw else column).validate(full=not pa.types.is_primitive(column.type))
        return batch

    return opened.schema, map(checked, range(opened.num_record_batches))


def _text_columns(file: str, private: bool, syntax: Syntax) -> list[str] | None:
    """The names of the columns of a text file; None for a file with types."""
    kind = kind_of_file(file)
    if kind == "json":
        return [] if private else lines.json_names(file)
    if kind not in ("text", "sheet"):
        return None
    if kind == "text":
        _check_is_text(file)
    if not syntax.header:
        if syntax.names is None:
            raise ValueError(
                f"{file} must be read with the names of its columns, which has no header: how many there are "
                'must not hang on a record. "$syntax": {"names": [...]} in the domain lists them'
            )
        return list(syntax.names)
    if kind == "sheet":
        cells = _sheet_rows(file, syntax)[0]
        while cells and not cells[-1]:  # cells up to the longest record
            cells.pop()
        return detect.clean_names(cells)
    cells = lines.header_cells(file, syntax) if private else _open_csv(file, syntax, []).schema.names
    return detect.clean_names(cells)


def _text_batches(
    file: str, names: Sequence[str], columns: list[str], private: bool, syntax: Syntax
) -> Iterator[Any]:
    """Yield the columns of these names of a text file, in batches."""
    pa = need("pyarrow", "read files", "io")
    kind, places = kind_of_file(file), [columns.index(name) for name in names if name in columns]
    made: Iterator[Any]
    if kind == "json":
        made = lines.read_json_lines(file, names, syntax.decimal or ".", private=private)
    elif kind == "sheet":
        rows = _sheet_rows(file, syntax)[bool(syntax.header) :]
        kept = rows if private else [row for row in rows if any(row)]
        made = iter([[["".join(row[place : place + 1]) for row in kept] for place in places]])
    elif private:
        made = lines.read_lines(file, syntax, len(columns), places)
    else:
        made = _public_csv(file, syntax, places)
    for part in made:
        arrays = [array if isinstance(array, pa.Array) else pa.array(array, pa.string()) for array in part]
        yield pa.RecordBatch.from_arrays(arrays, list(names))


def _open_csv(file: str, syntax: Syntax, columns: Sequence[str]) -> Any:
    """Open a public csv file; its quoted values may have line breaks."""
    pa, arrow_csv = need("pyarrow", "read files", "io"), need("pyarrow.csv", "read files", "io")
    how = {"encoding": syntax.encoding, "column_names": syntax.names, "skip_rows": syntax.skip or 0}
    # All columns as text: types inferred from the first block would change values ("01" is not 1).
    return arrow_csv.open_csv(
        file,
        arrow_csv.ReadOptions(block_size=lines.BLOCK, **how),
        arrow_csv.ParseOptions(delimiter=syntax.separator, newlines_in_values=True),
        arrow_csv.ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, pa.string())),
    )


def _public_csv(file: str, syntax: Syntax, places: Sequence[int]) -> Iterator[Any]:
    """Yield the columns at these positions of a public csv file."""
    raw, rows = _open_csv(file, syntax, []).schema.names, 0
    for batch in _open_csv(file, syntax, [raw[place] for place in places]):
        rows += batch.num_rows
        yield batch.columns
    _check_quotes(file, syntax, rows)


def _check_quotes(file: str, syntax: Syntax, rows: int) -> None:
    """Refuse a public file with an unclosed quote; rows: the number that pyarrow has read.

    pyarrow silently takes everything from such a quote to the next one as one value. A file with as many
    lines as rows has no unclosed quote, unless a backslash before a quote is meant to escape it.
    """
    breaks, quoted, escaped = -(syntax.skip or 0), False, False
    for block in lines.raw_blocks(file):
        breaks += block.count(b"\n")
        quoted, escaped = quoted or b'"' in block, escaped or b'\\"' in block
    if not quoted or (breaks <= rows + bool(syntax.header) and not escaped):
        return
    open_file = gzip.open if file.lower().endswith(".gz") else open
    closed = True
    with open_file(file, "rt", encoding=syntax.encoding, errors="replace", newline="") as text:
        for _ in range(syntax.skip or 0):
            text.readline()
        limit = csv.field_size_limit(2**31 - 1)  # of characters in a value: pyarrow has none
        try:
            for _ in csv.reader(text, delimiter=syntax.separator or ",", strict=True):
                pass
        except csv.Error:
            closed = False
        finally:
            csv.field_size_limit(limit)
    if not closed:
        raise ValueError(
            f"{file} must have its quotes in pairs around whole values: one is not closed at the end of its "
            "value, or stands inside of a quoted one (there it must be doubled)"
        )


def _sheet_rows(file: str, syntax: Syntax) -> list[list[str]]:
    """The rows of the first sheet of a workbook from the header on, every cell as text in plain form."""
    rows = first_sheet(file, syntax.decimal)
    if syntax.header:  # blank rows above the header, or above rows to skip, are not records
        rows = list(dropwhile(_is_blank, rows))
    rows = rows[syntax.skip or 0 :]
    if syntax.header:
        rows = list(dropwhile(_is_blank, rows))
    if not rows:
        raise ValueError("no rows")
    return rows


def _is_blank(row: list[str]) -> bool:
    return not any(row)


def _other_syntax(file: str, syntax: Syntax, names: Sequence[str]) -> str:
    """A syntax option with which the header of a private file has these columns; "" if none is found.

    Only the first line is read, never a record: without a header the result is "".
    """
    if kind_of_file(file) != "text":
        return ""
    if not syntax.header:
        return ': "names" of the file without a header must list it'
    marked = detect.marked_encoding(lines.head(file, lines.BLOCK).partition(b"\n")[0])
    encodings = [syntax.encoding, *([marked] if marked else []), "utf-8", "latin-1"]
    for encoding in dict.fromkeys(encodings):
        for separator in dict.fromkeys([syntax.separator, *detect.SEPARATORS]):
            for skip in dict.fromkeys([syntax.skip, 0]):
                other = replace(syntax, encoding=encoding, separator=separator, skip=skip)
                try:
                    found = detect.clean_names(lines.header_cells(file, other))
                except ValueError:
                    continue
                if set(names) <= set(found):
                    options = [f"--syntax encoding={encoding}"] if encoding != syntax.encoding else []
                    if separator != syntax.separator:
                        options.append(f"--syntax separator={detect.SEPARATORS[str(separator)]}")
                    options += [f"--syntax skip={skip}"] if skip != syntax.skip else []
                    return f"; say {' '.join(options)} for this file" if options else ""
    return ""


def _refusal(error: Exception, file: str, private: bool) -> Exception:
    """The error for a file that cannot be read, in one line.

    Raise it outside the `except` block: inside, the original error, which can quote cells, would be its
    context.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, os.strerror(error.errno), file)
    if isinstance(error, ValueError) and str(error).startswith(file):  # an error of `syntax`: quotes no cells
        return ValueError(str(error))
    rule = _RULES[str(kind_of_file(file))]
    reason = "" if private else f" ({' '.join(str(error).split())[:200]})"
    remedy = "; --syntax skip=N leaves out lines at its top" if kind_of_file(file) == "text" else ""
    return ValueError(f"{file} must be {rule}{reason}{remedy}")


def _errors() -> tuple[type[Exception], ...]:
    """The errors that reading a file can raise."""
    return need("pyarrow", "read files", "io").ArrowException, OSError, ValueError, KeyError
