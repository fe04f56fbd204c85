"""Tables become frames and files: the implementation of `Table.to_frame` and `Table.write`.

Only public and synthetic records pass here; a private table is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from reprlib import repr as _short
from typing import TYPE_CHECKING, Any

import numpy as np

from privmw.data.table import Table
from privmw.io.extras import need
from privmw.io.files import ABOUT, SEEDED, check_names
from privmw.io.public_source import PublicSource
from privmw.io.tally import Tally
from privmw.io.whole_file import whole_file
from privmw.random import sampling_stream

if TYPE_CHECKING:
    from privmw.io.decode import Decoder

ROWS = 2**18  # of a batch


def to_frame(table: Table, kind: str, *, bins: str, public: Any, seed: int | None) -> Any:
    """The frame of a table; see `Table.to_frame`.

    >>> from privmw.data.domain import Domain
    >>> domain = Domain({"sex": ["F", "M"], "age": {"edges": [0, 18, 65], "missing": "N"}})
    >>> table = Table.from_codes([[1, 0], [0, 2]], domain, private=False)
    >>> table.to_frame().to_pylist()
    [{'sex': 'M', 'age': '[0, 18)'}, {'sex': 'F', 'age': None}]
    >>> table.to_frame("pandas", bins="midpoint")
      sex  age
    0   M  9.0
    1   F  NaN
    """
    if kind not in ("pyarrow", "pandas", "polars"):
        raise ValueError(f"kind ({_short(kind)}) must be 'pyarrow', 'pandas' or 'polars'")
    pa = need("pyarrow", "make frames", "io")
    library = need(kind, "make such frames", "io")
    decoders = _decoders(table, bins, public, seed)
    frame = _arrow(table, decoders)
    if kind == "pandas":
        pandas_frame = frame.to_pandas(date_as_object=False)
        for decoder in decoders:  # integers stay integers where some are missing
            name = decoder.attribute.name
            if decoder.nulls and pa.types.is_integer(decoder.type):
                integers = frame.column(name).to_pandas(types_mapper=lambda _: library.Int64Dtype())
                pandas_frame[name] = integers
        return pandas_frame
    if kind == "polars":
        words = {decoder.attribute.name: decoder.words for decoder in decoders if decoder.words is not None}
        return library.from_arrow(frame).cast({name: library.Enum(labels) for name, labels in words.items()})
    return frame


def write(
    table: Table, path: str | os.PathLike[str], *, bins: str, public: Any, seed: int | None, overwrite: bool
) -> None:
    """Write a table to a .parquet or .csv file; see `Table.write`."""
    file_name = os.fsdecode(path)
    if not file_name.lower().endswith((".parquet", ".csv")):
        raise ValueError(f"path ({file_name}) must end in .parquet or .csv")
    name = os.path.basename(file_name).lower()
    if not table.for_release and name.endswith(".csv") and "seeded" not in name:
        raise ValueError(
            f"path ({file_name}) must have 'seeded' in its name: these records are not for release, and csv "
            "has no other place to say so"
        )
    need("pyarrow", "write files", "io")
    decoders = _decoders(table, bins, public, seed)
    starts = range(0, table.n, ROWS)
    batches = (table.take(np.arange(start, min(start + ROWS, table.n))) for start in starts)
    with whole_file(file_name, overwrite=overwrite) as file:
        if file_name.lower().endswith(".csv"):
            _write_csv(file, table, batches, decoders)
        else:
            parquet = need("pyarrow.parquet", "write files", "io")
            pa = need("pyarrow", "write files", "io")
            fields = [(decoder.attribute.name, decoder.type) for decoder in decoders]
            schema = pa.schema(fields, _mark(table))
            with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
                for batch in batches:
                    writer.write_table(_arrow(batch, decoders), row_group_size=ROWS)


def _write_csv(file: Any, table: Table, batches: Iterator[Table], decoders: list[Decoder]) -> None:
    pa, csv = need("pyarrow", "write files", "io"), need("pyarrow.csv", "write files", "io")
    compute = need("pyarrow.compute", "write files", "io")
    labelled = [_labelled_codes(decoder, table) for decoder in decoders]
    fields = [
        (decoder.attribute.name, pa.string() if decoder.words is not None or codes else decoder.type)
        for decoder, codes in zip(decoders, labelled, strict=True)
    ]
    schema = pa.schema(fields)
    with csv.CSVWriter(file, schema) as writer:
        for batch in batches:
            arrow = _arrow(batch, decoders)
            columns = []
            for name, kind in fields:
                column, codes = arrow.column(name).cast(kind), labelled[table.domain.index(name)]
                for code in codes:
                    label = str(table.domain[name].label(code))
                    column = compute.if_else(pa.array(batch.column(name) == code), label, column)
                columns.append(column)
            writer.write_table(pa.table(columns, schema=schema))


def _labelled_codes(decoder: Decoder, table: Table) -> list[int]:
    """The null codes of a column to write as their label: an empty field would be read back as another."""
    name, single = decoder.attribute.name, len(table.domain) == 1  # an empty field would be an empty line
    empty = None if single else decoder.attribute.texts.get("")
    return [code for code in decoder.nulls if code != empty and (table.column(name) == code).any()]


def _arrow(table: Table, decoders: list[Decoder]) -> Any:
    pa = need("pyarrow", "make frames", "io")
    columns = [decoder.values(codes) for decoder, codes in zip(decoders, table.columns, strict=True)]
    return pa.table(columns, names=list(table.domain.names), metadata=_mark(table))


def _mark(table: Table) -> dict[str, str] | None:
    """The metadata of records that are not for release."""
    return None if table.for_release else {ABOUT: json.dumps(SEEDED)}


def _decoders(table: Table, bins: str, public: Any, seed: int | None) -> list[Decoder]:
    """One decoder for each attribute; those that draw have pools, with independent random streams."""
    from privmw.io.decode import Decoder
    from privmw.io.pool import Pool

    if table.private:
        raise ValueError("a private table must not be written")
    if bins not in ("label", "midpoint", "draw"):
        raise ValueError(f"bins ({_short(bins)}) must be 'label', 'midpoint' or 'draw'")
    if (public is not None) != (bins == "draw"):
        raise ValueError("public must be given to draw the values of bins, and only then")
    if bins != "draw":
        return [Decoder(attribute, numbers=bins == "midpoint") for attribute in table.domain.attributes]
    tallies = _tallies(public, [attribute.name for attribute in table.domain.attributes if attribute.edges])
    streams = sampling_stream(seed).spawn(len(table.domain))
    return [
        Decoder(a, numbers=True, pool=Pool(a, tallies[a.name], stream) if a.edges else None)
        for a, stream in zip(table.domain.attributes, streams, strict=True)
    ]


def _tallies(public: Any, names: list[str]) -> dict[str, Tally]:
    tallies = {name: Tally() for name in names}
    for one in public if isinstance(public, list) else [public]:
        source = PublicSource(one)
        check_names("public", source.names, names, private=False)
        for batch in source.batches(names) if names else ():
            for name, array in batch.items():
                tallies[name].add(array)
    return tallies
