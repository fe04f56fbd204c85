"""Writes files atomically, and over existing ones only with `overwrite`.

`table_file` writes Arrow tables of records and answers as parquet, csv or feather, by the suffix of the file.
pyarrow is imported late.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import secrets
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, BinaryIO

from privmw.data.attribute import FORMULA, NUMBER, guarded
from privmw.data.syntax import PLAIN, Syntax
from privmw.io.extras import need
from privmw.secrecy import shown

FORMATS = ("parquet", "csv", "feather")

Progress = Callable[[int], None]  # called with the number of rows written so far


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike[str], *, overwrite: bool = False, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """Open a new file for writing; it gets its name only when it is complete.

    An existing file is refused unless `overwrite`. mode: the permissions, before the umask.

    >>> with whole_file(__file__) as file:  # doctest: +ELLIPSIS
    ...     file.write(b"never")
    Traceback (most recent call last):
    FileExistsError: path (...) must not exist: say overwrite=True to replace it
    """
    path = os.fspath(path)
    if not isinstance(path, str):
        raise TypeError(f"path ({shown(path)}) must be a string or a path")
    if not overwrite and os.path.lexists(path):
        raise _taken(path)
    folder, name = os.path.split(os.path.abspath(path))
    unfinished = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.unfinished")
    try:
        try:
            file = open(unfinished, "xb", opener=partial(os.open, mode=mode))  # noqa: SIM115
        except OSError as error:  # its message has the temporary name
            raise type(error)(error.errno, error.strerror, path) from None
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _appear(unfinished, path, overwrite)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
    _sync(folder)


def _appear(unfinished: str, path: str, overwrite: bool) -> None:
    if not overwrite:
        try:
            os.link(unfinished, path)  # unlike os.replace, it fails if the file exists
            return
        except FileExistsError:
            raise _taken(path) from None
        except OSError:  # a file system without links
            if os.path.lexists(path):
                raise _taken(path) from None
    os.replace(unfinished, path)


def _sync(folder: str) -> None:
    """Sync the folder too, if possible, so that the new name survives a crash."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _taken(path: str) -> FileExistsError:
    return FileExistsError(f"path ({path}) must not exist: say overwrite=True to replace it")


def check_name(path: str | os.PathLike[str], what: str, *, for_release: bool) -> str:
    """Check the name of a file to write: a known suffix; for seeded csv the word "seeded".

    >>> check_name("out.feather", "records", for_release=False)
    'out.feather'
    >>> check_name("out.txt", "records", for_release=True)
    Traceback (most recent call last):
    ValueError: path (out.txt) must end in .parquet, .csv or .feather
    """
    name = os.fsdecode(path)
    form = format_of(name)
    if form is None:
        raise ValueError(f"path ({name}) must end in .parquet, .csv or .feather")
    if form == "csv" and not for_release and "seeded" not in os.path.basename(name).lower():
        raise ValueError(
            f"path ({name}) must have 'seeded' in its name: these {what} are not for release, and csv "
            "has no other place to say so"
        )
    return name


def format_of(name: str) -> str | None:
    """The format of a file, by its suffix; None if it is unknown.

    >>> format_of("out/Synthetic.CSV"), format_of("out.txt")
    ('csv', None)
    """
    return next((form for form in FORMATS if name.lower().endswith(f".{form}")), None)


def plain_schema(schema: Any) -> Any:
    """The schema with dictionaries as texts: csv has none, and those of pandas cannot repeat a text."""
    pa = need("pyarrow", "write files", "io")
    types = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema]
    return pa.schema(list(zip(schema.names, types, strict=True)), schema.metadata)


def _guarded_column(column: Any) -> Any:
    """The column with its texts spelt by `guarded`."""
    pa, compute = need("pyarrow", "write files", "io"), need("pyarrow.compute", "write files", "io")
    if pa.types.is_dictionary(column.type):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, _guarded_column(chunk.dictionary))
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, column.type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    runs = compute.and_not(
        compute.match_substring_regex(column, f"^{FORMULA}"),
        compute.match_substring_regex(column, f"^({NUMBER})$"),
    )
    quote, joint = pa.scalar("'", column.type), pa.scalar("", column.type)
    return compute.if_else(runs, compute.binary_join_element_wise(quote, column, joint), column)


@contextlib.contextmanager
def table_file(
    name: str,
    schema: Any,
    *,
    overwrite: bool = False,
    raw: bool = False,
    progress: Progress | None = None,
    syntax: Syntax | None = None,
    numbers: Collection[str] = (),
) -> Iterator[Callable[[Any], None]]:
    """Open a new file for tables of this schema; yields the function that writes the next table.

    Dictionary columns must have the same dictionary in every table. raw: write texts to csv unchanged, even
    if a spreadsheet program would run them as formulas. progress: called after each table. syntax: of csv.
    numbers: columns of texts such as "-5 %", which no program runs.
    """
    form, rows = format_of(name), 0
    # Opened here: pyarrow cannot name a file whose name is not UTF-8.
    with whole_file(name, overwrite=overwrite) as file:
        if form == "csv":
            header = plain_schema(schema)
            if not raw:
                header = header.empty_table().rename_columns([*map(guarded, header.names)]).schema
            csv, layout = need("pyarrow.csv", "write files", "io"), (syntax or PLAIN).over(PLAIN)
            options = csv.WriteOptions(include_header=bool(layout.header), delimiter=layout.separator)
            recoded: Any = file
            if codecs.lookup(layout.encoding or "utf-8").name != "utf-8":
                recoded = codecs.StreamRecoder(  # pyarrow writes UTF-8
                    file,
                    codecs.getencoder("utf-8"),
                    codecs.getdecoder("utf-8"),
                    codecs.getreader("utf-8"),
                    codecs.getwriter(layout.encoding or "utf-8"),
                    "replace",
                )
            recoded.write(b"\n" * (layout.skip or 0))
            writer = csv.CSVWriter(recoded, header, write_options=options)
        elif form == "feather":
            ipc = need("pyarrow.ipc", "write files", "io")
            writer = ipc.new_file(file, schema, options=ipc.IpcWriteOptions(compression="lz4"))
        else:
            pa, parquet = need("pyarrow", "write files", "io"), need("pyarrow.parquet", "write files", "io")
            words = [field.name for field in schema if pa.types.is_dictionary(field.type)]
            numbers = [column for column in schema.names if column not in words]
            # Every row group has nearly every text: statistics are useless to readers, and take time.
            how = {"use_dictionary": words, "write_statistics": numbers, "compression": "zstd"}
            writer = parquet.ParquetWriter(file, schema, **how)

        def write(table: Any) -> None:
            nonlocal rows
            rows += table.num_rows
            if form == "csv":
                columns = [
                    column if raw or name in numbers else _guarded_column(column)
                    for name, column in zip(schema.names, table.columns, strict=True)
                ]
                table = table.from_arrays(columns, header.names).cast(header)
            writer.write_table(table)
            if progress is not None:
                progress(rows)

        with writer:
            yield write
