"""Converts tables to frames and files: the implementation of `Table.to_frame` and `Table.write`.

Only for public and synthetic records; a private table is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from privmw.data.records import Bins
from privmw.data.syntax import Syntax
from privmw.data.table import Table
from privmw.io.extras import need
from privmw.io.files import ABOUT, SEEDED
from privmw.io.public_source import PublicSource
from privmw.io.whole_file import Progress, check_name, format_of, table_file
from privmw.random import sampling_stream
from privmw.secrecy import shown

if TYPE_CHECKING:
    from privmw.io.decode import Decoder
    from privmw.io.own_texts import OwnTexts
    from privmw.io.public_records import Donors

OUTPUT_BATCH_ROWS = 2**18  # of a batch


def to_frame(table: Table, kind: str, *, bins: str, public: Any, seed: int | None) -> Any:
    """Make the frame of a table; see `Table.to_frame`.

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
    from privmw.io.own_types import pandas_frame, polars_frame  # late: it imports pyarrow

    values = _Values(table, bins=bins, public=public, seed=seed)
    decoders = values.decoders
    frame = _arrow(values.table, values)
    own = public[0] if isinstance(public, list) and public else public
    if kind == "pandas":
        return pandas_frame(frame, own, [d.attribute.name for d in decoders if d.is_like])
    if kind == "polars":
        words = {d.attribute.name: d.words for d in decoders if pa.types.is_dictionary(d.type)}
        enums = {name: library.Enum(labels) for name, labels in words.items()}
        return polars_frame(library.from_arrow(frame).cast(enums), own)
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
    """Write a table to a .parquet, .csv or .feather file; see `Table.write`. values: of `_Values`."""
    name = check_name(path, "records", for_release=table.for_release)
    pa = need("pyarrow", "write files", "io")
    made = _Values(table, **values, as_text=format_of(name) == "csv")
    decoders, table = made.decoders, made.table
    fields = [(decoder.attribute.name, decoder.type) for decoder in decoders]
    labelled: list[list[int]] = [[] for _ in decoders]
    syntax = None
    if format_of(name) == "csv":
        syntax = table.domain.syntax
        labelled = [_labelled_codes(decoder, table) for decoder in decoders]
        fields = [
            (name, pa.string() if codes or made.texts is not None or _has_comma(kind, syntax) else kind)
            for (name, kind), codes in zip(fields, labelled, strict=True)
        ]
    schema = pa.schema(fields, _mark(table))
    how: dict[str, Any] = {"overwrite": overwrite, "raw": raw, "progress": progress, "syntax": syntax}
    numbers = [a.name for a in table.domain.attributes if a.edges and made.texts is not None]
    with table_file(name, schema, **how, numbers=numbers) as write_next:
        for start in range(0, table.n, OUTPUT_BATCH_ROWS):
            batch = table.take(np.arange(start, min(start + OUTPUT_BATCH_ROWS, table.n)))
            arrow = _with_commas(_arrow(batch, made, start), syntax)
            write_next(_with_labels(arrow, batch, labelled, schema))


def _has_comma(kind: Any, syntax: Syntax | None) -> bool:
    """True if the numbers of a column are written with a decimal comma."""
    pa = need("pyarrow", "write files", "io")
    numbers = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return numbers and syntax is not None and syntax.decimal == ","


def _with_commas(arrow: Any, syntax: Syntax | None) -> Any:
    """The table with decimal commas in its columns of numbers, if the syntax has them."""
    pa, compute = need("pyarrow", "write files", "io"), need("pyarrow.compute", "write files", "io")
    for place, field in enumerate(arrow.schema):
        if _has_comma(field.type, syntax):
            texts = compute.replace_substring(arrow.column(place).cast(pa.string()), ".", ",")
            arrow = arrow.set_column(place, field.name, texts)
    return arrow


def _with_labels(arrow: Any, batch: Table, labelled: list[list[int]], schema: Any) -> Any:
    """Replace nulls of these codes by their labels: csv has only one kind of null."""
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
    """The null codes to write as their labels, because an empty field would be read as another code."""
    name, single = decoder.attribute.name, len(table.domain) == 1  # an empty field would be an empty line
    empty = None if single else decoder.attribute.texts.get("")
    return [code for code in decoder.nulls if code != empty and (table.column(name) == code).any()]


def _arrow(table: Table, values: _Values, start: int = 0) -> Any:
    pa = need("pyarrow", "make frames", "io")
    names = list(table.domain.names)
    return pa.table(values.arrays(table, start), names=names, metadata=_mark(table))


def _mark(table: Table) -> dict[str, str] | None:
    """The metadata of records that are not for release."""
    return None if table.for_release else {ABOUT: json.dumps(SEEDED)}


class _Values:
    """A decoder for each attribute of a table, and the public records that provide raw values."""

    def __init__(
        self, table: Table, *, bins: str, public: Any, seed: int | None, as_text: bool = False
    ) -> None:
        from privmw.io.decode import Decoder, PublicColumn
        from privmw.io.own_texts import OwnTexts
        from privmw.io.public_records import PublicRecords
        from privmw.io.relations import Column, keep_relations

        if table.private:
            raise ValueError("a private table must not be written")
        if bins not in get_args(Bins):
            raise ValueError(f"bins ({shown(bins)}) must be one of {', '.join(map(repr, get_args(Bins)))}")
        if (public is not None) != (bins == "draw"):
            raise ValueError("public must be given to draw the values of bins, and only then")
        attributes = table.domain.attributes
        self.donors: Donors | None = None
        self.texts: OwnTexts | None = None  # as the public text file writes the values
        streams = sampling_stream(seed).spawn(len(attributes) + 1) if bins in ("spread", "draw") else None
        spread = [None] * len(attributes) if streams is None else streams[1:]
        columns: dict[str, PublicColumn] = {}
        records: PublicRecords | None = None
        types: dict[str, Any] = {}
        if streams is not None and bins == "draw":
            given = public if isinstance(public, list) else [public]
            sources = [PublicSource(one, table.domain.syntax) for one in given]
            records = PublicRecords(sources, table.domain)
            types = {a.name: sources[0].type_of(a.name) for a in attributes} if sources else {}
            columns = {n: PublicColumn(values, records.codes[n]) for n, values in records.values.items()}
            self.donors = records.donors(table, streams[0])
            if as_text and all(source.is_text for source in sources):
                self.texts = OwnTexts(sources, records, sources[0].syntax)
        self.decoders = [
            Decoder(
                a, numbers=bins != "label", spread=rng, public=columns.get(a.name), like=types.get(a.name)
            )
            for a, rng in zip(attributes, spread, strict=True)
        ]
        self.table, self._decided = table, dict[str, Column]()  # of all records, decided by relations
        rules = table.constraints
        if rules is not None and bins != "label" and (rules.relations or not rules.mask(table).all()):
            stream = sampling_stream(seed).spawn(len(attributes) + 2)[-1]
            kept = keep_relations(table, self.decoders, records, self.donors, stream)
            self.table, self.donors, self._decided = kept.table, kept.donors, dict(kept.columns)

    def arrays(self, batch: Table, start: int = 0) -> list[Any]:
        """The Arrow arrays of a batch's columns; start: the position of its first record in the table."""
        columns = zip(self.decoders, batch.columns, strict=True)
        stop = start + batch.n
        arrays = []
        for decoder, codes in columns:
            name = decoder.attribute.name
            rows = None if self.donors is None else self.donors.of(name, start, stop)
            if name in self._decided:
                decided = self._decided[name]
                values, rows = decided.values[start:stop], decided.rows[start:stop]
            else:
                values = decoder.values(codes, rows)
            if self.texts is not None:
                values = self.texts.written(decoder.attribute, codes, values, rows)
            arrays.append(values)
        return arrays
