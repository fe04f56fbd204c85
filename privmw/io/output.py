"""Tables become frames and files: the implementation of `Table.to_frame` and `Table.write`.

Only public and synthetic records pass here; a private table is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from privmw.data.table import Table
from privmw.io.extras import need
from privmw.io.files import ABOUT, SEEDED, check_names
from privmw.io.public_source import PublicSource
from privmw.io.tally import Tally
from privmw.io.whole_file import Progress, check_name, format_of, table_file
from privmw.random import sampling_stream
from privmw.secrecy import shown

if TYPE_CHECKING:
    from privmw.io.decode import Decoder

OUTPUT_BATCH_ROWS = 2**18  # of a batch


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
        raise ValueError(f"kind ({shown(kind)}) must be 'pyarrow', 'pandas' or 'polars'")
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
        words = {d.attribute.name: d.words for d in decoders if pa.types.is_dictionary(d.type)}
        return library.from_arrow(frame).cast({name: library.Enum(labels) for name, labels in words.items()})
    return frame


def write(
    table: Table,
    path: str | os.PathLike[str],
    values: Mapping[str, Any],
    *,
    overwrite: bool,
    raw: bool,
    progress: Progress | None,
) -> None:
    """Write a table to a .parquet, .csv or .feather file; see `Table.write`. values: of `_decoders`."""
    name = check_name(path, "records", for_release=table.for_release)
    pa = need("pyarrow", "write files", "io")
    decoders = _decoders(table, **values)
    fields = [(decoder.attribute.name, decoder.type) for decoder in decoders]
    labelled: list[list[int]] = [[] for _ in decoders]
    if format_of(name) == "csv":
        labelled = [_labelled_codes(decoder, table) for decoder in decoders]
        fields = [
            (name, pa.string() if codes else kind)
            for (name, kind), codes in zip(fields, labelled, strict=True)
        ]
    schema = pa.schema(fields, _mark(table))
    with table_file(name, schema, overwrite=overwrite, raw=raw, progress=progress) as write_next:
        for start in range(0, table.n, OUTPUT_BATCH_ROWS):
            batch = table.take(np.arange(start, min(start + OUTPUT_BATCH_ROWS, table.n)))
            write_next(_with_labels(_arrow(batch, decoders), batch, labelled, schema))


def _with_labels(arrow: Any, batch: Table, labelled: list[list[int]], schema: Any) -> Any:
    """The same columns, with nulls of these codes as their labels: csv has one kind of null only."""
    pa, compute = need("pyarrow", "write files", "io"), need("pyarrow.compute", "write files", "io")
    columns = []
    for attribute, codes, field in zip(batch.domain.attributes, labelled, schema, strict=True):
        column = arrow.column(attribute.name).cast(field.type)
        for code in codes:
            label = str(attribute.label(code))
            column = compute.if_else(pa.array(batch.column(attribute.name) == code), label, column)
        columns.append(column)
    return pa.table(columns, schema=schema)


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
    from privmw.io.decode import Decoder, Pool

    if table.private:
        raise ValueError("a private table must not be written")
    if bins not in ("label", "midpoint", "draw"):
        raise ValueError(f"bins ({shown(bins)}) must be 'label', 'midpoint' or 'draw'")
    if (public is not None) != (bins == "draw"):
        raise ValueError("public must be given to draw the values of bins, and only then")
    if bins != "draw":
        return [Decoder(attribute, numbers=bins == "midpoint") for attribute in table.domain.attributes]
    given = public if isinstance(public, list) else [public]
    sources = [PublicSource(one, table.domain.syntax) for one in given]
    tallies = _tallies(sources, [attribute.name for attribute in table.domain.attributes if attribute.edges])
    streams = sampling_stream(seed).spawn(len(table.domain))
    return [
        Decoder(
            a,
            numbers=True,
            pool=Pool(a, tallies[a.name], stream) if a.edges else None,
            like=sources[0].type_of(a.name) if sources else None,
        )
        for a, stream in zip(table.domain.attributes, streams, strict=True)
    ]


def _tallies(sources: list[PublicSource], names: list[str]) -> dict[str, Tally]:
    tallies = {name: Tally() for name in names}
    for source in sources:
        check_names("public", source.names, names, private=False)
        for batch in source.batches(names) if names else ():
            for name, array in batch.items():
                tallies[name].add(array)
    return tallies
