"""Parquet and csv files as Arrow record batches. This room knows neither domains nor codes.

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
from typing import Any

from privmw.io.extras import need

ROWS = 2**18  # of a batch of parquet
ABOUT = "privmw"  # the schema key of privmw's metadata, in JSON
SEEDED = {"for_release": False, "why": "seeded: not for release"}  # in the metadata of what seeded noise made
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
        raise TypeError(f"path ({_short(path)}) must be a path")
    text = os.fsdecode(path)
    if not os.path.exists(text):
        raise FileNotFoundError(f"{text} must exist")
    if not os.path.isdir(text) and not text.lower().endswith((".parquet", ".csv", ".csv.gz")):
        raise ValueError(f"{text} must be a .parquet, .csv or .csv.gz file, or a folder of parquet files")
    return text


def files_of(path: str) -> list[str]:
    """The file itself, or the parquet files of a folder, sorted by name."""
    if not os.path.isdir(path):
        return [path]
    names = [name for name in os.listdir(path) if name.endswith(".parquet") and not name.startswith(".")]
    if not names:
        raise ValueError(f"{path} (a folder) must hold parquet files")
    return [os.path.join(path, name) for name in sorted(names)]


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


def is_csv(path: str) -> bool:
    """Whether the file is csv, in which every value is text."""
    return not os.path.isdir(path) and not path.lower().endswith(".parquet")


def columns_of(file: str, *, private: bool) -> tuple[list[str], list[Any]]:
    """The names and types of a file's columns; the types of csv are pyarrow's guesses, not to be used."""
    need("pyarrow", "read files", "io")
    if os.path.getsize(file) == 0:
        raise ValueError(f"{file} (0 bytes) must not be empty")
    try:
        schema = _csv(file).schema if is_csv(file) else _parquet(file).schema_arrow
        return list(schema.names), list(schema.types)
    except _errors() as error:
        refusal = _refusal(error, file, private)
    raise refusal


def about(file: str) -> Mapping[str, Any]:
    """The metadata of a parquet file under the schema key ABOUT; empty if there is none."""
    if is_csv(file):
        return {}
    columns_of(file, private=False)  # refuses what is no parquet file
    text = (_parquet(file).schema_arrow.metadata or {}).get(ABOUT.encode(), b"{}")
    try:
        metadata = json.loads(text)
    except ValueError:  # not written by privmw
        return {}
    return metadata if isinstance(metadata, dict) else {}


def rows_of_groups(file: str, *, private: bool) -> list[int]:
    """The number of rows of each row group of a parquet file, from its footer."""
    if is_csv(file):
        raise ValueError(f"{file} must be a parquet file: only these have row groups to distribute")
    columns_of(file, private=private)  # refuses what is no parquet file
    footer = _parquet(file).metadata
    return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


def batches(
    file: str, names: Sequence[str], *, private: bool, groups: Sequence[int] | None = None
) -> Iterator[Any]:
    """The columns of these names as record batches; the columns of csv are text.

    groups: the row groups of a parquet file to read; None for all.
    """
    check_names(file, columns_of(file, private=private)[0], names, private=private)
    try:
        if is_csv(file):
            yield from _csv(file, names)
        else:
            parquet = _parquet(file, names)
            for group in range(parquet.num_row_groups) if groups is None else groups:
                # One group at a time: pyarrow keeps the groups of one iterator in memory.
                yield from parquet.iter_batches(ROWS, row_groups=[group], columns=list(names))
        return
    except _errors() as error:
        refusal = _refusal(error, file, private)
    raise refusal


def check_names(where: str, columns: Sequence[object], names: Iterable[str], *, private: bool) -> None:
    """Refuse a column that is missing, or there twice; other columns are allowed.

    The columns of a private table are not shown: without a header they are the values of a record.
    """
    for name in names:
        if name not in columns:
            import difflib  # here: only this message needs it

            known = [column for column in columns if isinstance(column, str) and not private]
            near = difflib.get_close_matches(name[:100], known, n=1)
            hint = f"; did you mean {_short(near[0])}?" if near else ""
            if not near and where.lower().endswith((".csv", ".csv.gz")):
                hint = ": the first line must name the columns, with commas between them"
            raise ValueError(f"{where}: column {_short(name)} is missing{hint}")
        if columns.count(name) > 1:
            raise ValueError(f"{where}: column {_short(name)} must be there only once")


def _parquet(file: str, names: Sequence[str] = ()) -> Any:
    parquet = need("pyarrow.parquet", "read files", "io")
    opened = parquet.ParquetFile(file)
    kinds = {name: str(opened.schema_arrow.field(name).type) for name in names}
    texts = [name for name, kind in kinds.items() if kind in ("string", "large_string")]
    # Texts as dictionaries: each distinct text is then looked up once a batch.
    return parquet.ParquetFile(file, read_dictionary=texts) if texts else opened


def _csv(file: str, names: Sequence[str] = ()) -> Any:
    pa, csv = need("pyarrow", "read files", "io"), need("pyarrow.csv", "read files", "io")
    # All columns as text: a type inferred from the first block would change values ("01" is not 1).
    return csv.open_csv(
        file,
        csv.ReadOptions(block_size=BLOCK),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(include_columns=list(names), column_types=dict.fromkeys(names, pa.string())),
    )


def _refusal(error: Exception, file: str, private: bool) -> Exception:
    """The error for a file that cannot be read, in one line.

    Raise it outside of the `except` block: inside, the old error would be its context, and can quote cells.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, os.strerror(error.errno), file)
    csv = "a csv file in UTF-8, each row as long as the header"
    rule = csv if is_csv(file) else "a whole parquet file"
    reason = "" if private else f" ({' '.join(str(error).split())[:200]})"
    return ValueError(f"{file} must be {rule}{reason}")


def _errors() -> tuple[type[Exception], ...]:
    """The errors that reading a file can raise."""
    return need("pyarrow", "read files", "io").ArrowException, OSError, ValueError, KeyError
