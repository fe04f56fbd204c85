"""Files of every kind as Arrow record batches. This room knows neither domains nor codes.

Parquet, Arrow's feather and JSON lines keep their types; in csv and its relatives, and in the sheets of a
workbook, every value is text. `syntax` detects how text is written.

Every error about a file is one line that names it. It includes pyarrow's message, which can quote cells, for
public files only.
"""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from reprlib import repr as _short
from typing import Any, NamedTuple

from privmw.io.extras import need
from privmw.io.syntax import (
    DETECT,
    Layout,
    Syntax,
    check_quotes,
    clean_names,
    has_header,
    is_utf8,
    layout,
    names_without_header,
)
from privmw.io.workbook import first_sheet, sheets_of
from privmw.secrecy import shown

SUFFIXES = {  # of files, with the kind of each
    ".parquet": "parquet",
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".tab", ".txt", ".txt.gz"), "text"),
    **dict.fromkeys((".data", ".test"), "text"),  # as UCI's archive names them
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "feather"),
    **dict.fromkeys((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), "json"),
    **dict.fromkeys((".xlsx", ".xls", ".xlsb", ".ods"), "sheet"),
}
_RULES = {
    "parquet": "a whole parquet file",
    "text": "a csv file in its encoding, each row as long as the header",
    "feather": "a whole Arrow or feather file",
    "json": "JSON lines, one object a line, each key with values of one kind",
    "sheet": "a workbook whose first sheet is one table",
}
ROWS = 2**18  # of a batch of parquet
ABOUT = "privmw"  # the schema key of privmw's metadata, in JSON
SEEDED = {"for_release": False, "why": "seeded: not for release"}  # in the metadata of what seeded noise made
SEEDED_CSV = ".seeded.csv"  # ends the name of a csv file of a seeded release: csv has no metadata
BLOCK = 2**24  # bytes of csv that are read at once: no row may be longer


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
    """The file itself, or the files of a folder, sorted by name: all of one kind, and no folders inside."""
    if not os.path.isdir(path):
        return [path]
    listed = sorted(name for name in os.listdir(path) if not name.startswith((".", "_")))
    inner = [name for name in listed if os.path.isdir(os.path.join(path, name))]
    if inner:
        raise ValueError(
            f"{path} (a folder) must hold files alone: {_short(inner[0])} is a folder, and would be left out"
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
    """Whether two paths share a file: by its name, as a link, or as a copy of its bytes.

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
    """Whether every value in the file, or in the files of a folder, is text."""
    return kind_of_file(files_of(path)[0]) in ("text", "sheet")


def columns_of(
    file: str, *, private: bool, syntax: Syntax = DETECT, names: Sequence[str] = ()
) -> tuple[list[str], list[Any]]:
    """The names and types of a file's columns; those of text are string.

    names: columns that it should have, which tell the header of a text file.
    """
    need("pyarrow", "read files", "io")
    if os.path.getsize(file) == 0:
        raise ValueError(f"{file} (0 bytes) must not be empty")
    try:
        schema = _open(file, private=private, syntax=syntax, names=names)[0]
        return list(schema.names), list(schema.types)
    except _errors() as error:
        refusal = _refusal(error, file, private)
    raise refusal


def about(file: str) -> Mapping[str, Any]:
    """The metadata of a parquet or feather file under the schema key ABOUT; empty if there is none.

    Of csv that a seeded release wrote, what its name says.
    """
    if kind_of_file(file) == "text":
        return SEEDED if file.lower().endswith(SEEDED_CSV) else {}
    if kind_of_file(file) not in ("parquet", "feather"):
        return {}
    columns_of(file, private=False)  # refuses what is no such file
    schema = _open(file, private=False, syntax=DETECT, names=())[0]
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
    columns_of(file, private=private)  # refuses what is no parquet file
    footer = _parquet(file).metadata
    return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


def batches(
    file: str,
    names: Sequence[str],
    *,
    private: bool,
    groups: Sequence[int] | None = None,
    syntax: Syntax = DETECT,
) -> Iterator[Any]:
    """The columns of these names as record batches.

    groups: the row groups of a parquet file to read; None for all.
    """
    columns = columns_of(file, private=private, syntax=syntax, names=names)[0]
    check_names(file, columns, names, private=private)
    try:
        if kind_of_file(file) == "parquet":
            parquet = _parquet(file, names)
            for group in range(parquet.num_row_groups) if groups is None else groups:
                # One group at a time: pyarrow keeps the groups of one iterator in memory.
                yield from parquet.iter_batches(ROWS, row_groups=[group], columns=list(names))
        else:
            yield from _open(file, private=private, syntax=syntax, names=names, wanted=names)[1]
        return
    except _errors() as error:
        refusal = _refusal(error, file, private)
    raise refusal


class Layouts(NamedTuple):
    """How the text files of a table are laid out: what is said of them, and whether all have commas."""

    words: list[str]
    commas: bool


def layouts_of(path: str, syntax: Syntax, names: Sequence[str], *, private: bool) -> Layouts:
    """How text files are laid out, or workbooks; what is not as in most files is said once."""
    found = files_of(path)
    words: list[str] = []
    commas = True
    for file in found:
        if kind_of_file(file) == "text":
            laid_out = layout(file, syntax, names, private=private)
            words += laid_out.words(private=private)
            commas = commas and laid_out.separator == ","
        elif (sheets := sheets_of(file)) > 1:
            words.append(f"the first of {sheets} sheets")
    return Layouts(list(dict.fromkeys(words)), commas)


def left_out(where: str, columns: int, named: int) -> list[str]:
    """The line on how many columns of a private table are not read: not which, as names may be values."""
    left = columns - named
    plural = "s" * (left > 1)
    return [f"{where}: left out: {left} column{plural} that the domain does not name"] if left else []


def check_names(where: str, columns: Sequence[object], names: Iterable[str], *, private: bool) -> None:
    """Refuse columns that are missing, or there twice; other columns are allowed.

    The columns of a private table are not shown: without a header they are the values of a record. That one
    of them is a name of the domain but for blanks and capitals shows nothing more than that name.
    """
    missing, twice = [], []
    for name in dict.fromkeys(names):
        if name not in columns:
            missing.append(f"column {_short(name)} is missing{_near(name, columns, private)}")
        elif columns.count(name) > 1:
            twice.append(f"column {_short(name)} must be there only once")
    if missing and not any("did you mean" in line for line in missing) and kind_of_file(where) == "text":
        missing[-1] += ": the first line must name the columns, as the domain does"
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
    return f"; did you mean {_short(by_plain[near[0]])}?" if near else ""


def _parquet(file: str, names: Sequence[str] = ()) -> Any:
    parquet = need("pyarrow.parquet", "read files", "io")
    opened = parquet.ParquetFile(file)
    kinds = {name: str(opened.schema_arrow.field(name).type) for name in names}
    texts = [name for name, kind in kinds.items() if kind in ("string", "large_string")]
    # Texts as dictionaries: each distinct text is then looked up once a batch.
    return parquet.ParquetFile(file, read_dictionary=texts) if texts else opened


def _open(
    file: str, *, private: bool, syntax: Syntax, names: Sequence[str], wanted: Sequence[str] = ()
) -> tuple[Any, Iterator[Any]]:
    """The schema of a file, and the batches of the wanted columns."""
    kind = kind_of_file(file)
    if kind == "parquet":
        return _parquet(file).schema_arrow, iter(())
    pa = need("pyarrow", "read files", "io")
    if kind == "text":
        return _text(file, layout(file, syntax, names, private=private), wanted)
    if kind == "sheet":
        table = _sheet(file, syntax, names, private)
    elif kind == "json":
        if not is_utf8(file):  # pyarrow does not check it
            raise ValueError(f"{file} must be UTF-8, as JSON is")
        table = need("pyarrow.json", "read files", "io").read_json(file)
    else:
        opened = pa.ipc.open_file(pa.memory_map(file))
        order = [opened.schema.names.index(name) for name in wanted]
        batches = (opened.get_batch(place) for place in range(opened.num_record_batches))
        return opened.schema, (batch.select(order) for batch in batches)
    return table.schema, iter(table.select(list(wanted)).to_batches(ROWS) if wanted else ())


def _text(file: str, found: Layout, wanted: Sequence[str]) -> tuple[Any, Iterator[Any]]:
    pa, csv = need("pyarrow", "read files", "io"), need("pyarrow.csv", "read files", "io")

    def opened(columns: Sequence[str]) -> Any:
        # All columns as text: a type inferred from the first block would change values ("01" is not 1).
        return csv.open_csv(
            file,
            csv.ReadOptions(
                block_size=BLOCK, encoding=found.encoding, column_names=found.names, skip_rows=found.skip
            ),
            csv.ParseOptions(delimiter=found.separator, newlines_in_values=True),
            csv.ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, pa.string())),
        )

    raw = opened([]).schema.names
    names = clean_names(raw)
    schema = pa.schema([(name, pa.string()) for name in names])
    if not wanted:
        return schema, iter(())
    chosen = opened([raw[names.index(name)] for name in wanted])

    def batches() -> Iterator[Any]:
        rows = 0
        for batch in chosen:
            rows += batch.num_rows
            yield pa.RecordBatch.from_arrays(batch.columns, list(wanted))
        check_quotes(file, found, rows)

    return schema, batches()


def _sheet(file: str, syntax: Syntax, names: Sequence[str], private: bool) -> Any:
    """The first sheet of a workbook, every cell as text in plain form."""
    pa = need("pyarrow", "read files", "io")
    rows = [row for row in first_sheet(file, syntax.decimal)[syntax.skip :] if any(row)]
    if not rows:
        raise ValueError("no rows")
    header = has_header(file, rows, syntax, names, private=private)
    columns = clean_names(rows.pop(0)) if header else names_without_header(file, syntax, len(rows[0]))
    arrays = [pa.array([row[place] for row in rows], pa.string()) for place in range(len(columns))]
    return pa.table(arrays, names=columns)


def _refusal(error: Exception, file: str, private: bool) -> Exception:
    """The error for a file that cannot be read, in one line.

    Raise it outside of the `except` block: inside, the old error would be its context, and can quote cells.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, os.strerror(error.errno), file)
    if isinstance(error, ValueError) and str(error).startswith(file):  # of `syntax`, which quotes no cell
        return ValueError(str(error))
    rule = _RULES[str(kind_of_file(file))]
    reason = "" if private else f" ({' '.join(str(error).split())[:200]})"
    remedy = "; --skip leaves out lines at its top" if kind_of_file(file) == "text" else ""
    return ValueError(f"{file} must be {rule}{reason}{remedy}")


def _errors() -> tuple[type[Exception], ...]:
    """The errors that reading a file can raise."""
    return need("pyarrow", "read files", "io").ArrowException, OSError, ValueError, KeyError
