"""Parquet and csv files as Arrow record batches. It knows neither domains nor codes.

Whatever is wrong with a file is one line that names it. pyarrow's own words, which can quote cells, are
passed on for public files only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from reprlib import repr as _short
from typing import Any

from privmw.io.extras import need

ROWS = 2**18  # of a batch of parquet
ABOUT = "privmw"  # the schema key of what a file says of itself, in JSON
BLOCK = 2**24  # bytes of csv that are read at once: no row may be longer


def checked_path(path: str | os.PathLike[str]) -> str:
    """The path as text, if it names a file that can be one of ours, or a folder."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path ({_short(path)}) must be a path")
    named = os.fsdecode(path)
    if not os.path.exists(named):
        raise FileNotFoundError(f"{named} must exist")
    if not os.path.isdir(named) and not named.lower().endswith((".parquet", ".csv", ".csv.gz")):
        raise ValueError(f"{named} must be a .parquet, .csv or .csv.gz file, or a folder of parquet files")
    return named


def files_of(path: str) -> list[str]:
    """The file itself, or the parquet files of a folder by name."""
    if not os.path.isdir(path):
        return [path]
    names = [name for name in os.listdir(path) if name.endswith(".parquet") and not name.startswith(".")]
    if not names:
        raise ValueError(f"{path} (a folder) must hold parquet files")
    return [os.path.join(path, name) for name in sorted(names)]


def stamp(path: str) -> tuple[tuple[str, int, int], ...]:
    """What a change of the files would change: names, sizes and times."""
    found = ((file, os.stat(file)) for file in files_of(path))
    return tuple((file, known.st_size, known.st_mtime_ns) for file, known in found)


def is_csv(path: str) -> bool:
    """Whether every value is written as text."""
    return not os.path.isdir(path) and not path.lower().endswith(".parquet")


def columns_of(file: str, *, private: bool) -> tuple[list[str], list[Any]]:
    """The names and types of a file's columns; the types of csv are guesses that nobody should trust."""
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
    """What a parquet file of privmw says of itself under the schema key ABOUT; nothing if it says nothing."""
    if is_csv(file):
        return {}
    columns_of(file, private=False)  # refuses what is no parquet file
    said = (_parquet(file).schema_arrow.metadata or {}).get(ABOUT.encode(), b"{}")
    try:
        found = json.loads(said)
    except ValueError:  # somebody else's
        return {}
    return found if isinstance(found, dict) else {}


def rows_of_groups(file: str, *, private: bool) -> list[int]:
    """How many rows each row group of a parquet file has, as its footer says."""
    if is_csv(file):
        raise ValueError(f"{file} must be a parquet file: only these have row groups to share out")
    columns_of(file, private=private)  # refuses what is no parquet file
    footer = _parquet(file).metadata
    return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


def batches(
    file: str, names: Sequence[str], *, private: bool, groups: Sequence[int] | None = None
) -> Iterator[Any]:
    """The columns of these names as record batches; those of csv are all text.

    groups: which row groups of a parquet file to read; without it, all.
    """
    check_names(file, columns_of(file, private=private)[0], names, private=private)
    try:
        if is_csv(file):
            yield from _csv(file, names)
        else:
            parquet = _parquet(file, names)
            chosen = range(parquet.num_row_groups) if groups is None else groups
            for group in chosen:  # one at a time: together they stay in memory
                yield from parquet.iter_batches(ROWS, row_groups=[group], columns=list(names))
        return
    except _errors() as error:
        refusal = _refusal(error, file, private)
    raise refusal


def check_names(where: str, columns: Sequence[object], names: Iterable[str], *, private: bool) -> None:
    """Refuse a column that is missing, or there twice; others may be there.

    What a private table calls columns is not shown: without a header they are the values of a record.
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
    # Texts as dictionaries: each distinct one is then looked up once a batch.
    return parquet.ParquetFile(file, read_dictionary=texts) if texts else opened


def _csv(file: str, names: Sequence[str] = ()) -> Any:
    pa, csv = need("pyarrow", "read files", "io"), need("pyarrow.csv", "read files", "io")
    # All as text: a type that is inferred from the first block would change values ("01" is not 1).
    return csv.open_csv(
        file,
        csv.ReadOptions(block_size=BLOCK),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(include_columns=list(names), column_types=dict.fromkeys(names, pa.string())),
    )


def _refusal(error: Exception, file: str, private: bool) -> Exception:
    """What is wrong with a file, in one line.

    To be raised where the error is not handled any more: it would stay with the new one as its context.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, os.strerror(error.errno), file)
    csv = "a csv file in UTF-8, each row as long as the header"
    what = csv if is_csv(file) else "a whole parquet file"
    said = "" if private else f" ({' '.join(str(error).split())[:200]})"
    return ValueError(f"{file} must be {what}{said}")


def _errors() -> tuple[type[Exception], ...]:
    """What reading can raise."""
    return need("pyarrow", "read files", "io").ArrowException, OSError, ValueError, KeyError
