"""Unbiased answers as rows: the attributes and labels of a cell, its answer, standard error and interval.

Columns as in the files of a release (privmw/release/cells.py). pyarrow is needed (extra `io`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from reprlib import repr as _short
from typing import Any

import numpy as np

from privmw.data.workload import Workload
from privmw.io.extras import need
from privmw.io.files import SEEDED
from privmw.io.whole_file import whole_file
from privmw.release.cells import CELLS_AT_ONCE, table_maker
from privmw.release.unbiased.answers import UnbiasedAnswers


def to_frame(
    answers: UnbiasedAnswers, kind: str, workload: Workload, level: float, simultaneous: bool
) -> Any:
    """The frame of a workload's cells; see `UnbiasedAnswers.to_frame`."""
    if kind not in ("pyarrow", "pandas", "polars"):
        raise ValueError(f"kind ({_short(kind)}) must be 'pyarrow', 'pandas' or 'polars'")
    need("pyarrow", "make frames", "io")
    library = need(kind, "make such frames", "io")
    frame = _tables(answers, workload, level, simultaneous)(slice(0, workload.cells))
    frame = frame.cast(_plain_schema(frame.schema))
    if kind == "pandas":
        return frame.to_pandas()
    return library.from_arrow(frame) if kind == "polars" else frame


def write(
    answers: UnbiasedAnswers,
    path: str | os.PathLike[str],
    workload: Workload,
    level: float,
    simultaneous: bool,
) -> None:
    """Write the frame to a file; see `UnbiasedAnswers.write`."""
    file_name = os.fsdecode(path)
    if not file_name.lower().endswith((".parquet", ".csv")):
        raise ValueError(f"path ({file_name}) must end in .parquet or .csv")
    csv = file_name.lower().endswith(".csv")
    if csv and not answers.ledger.for_release and "seeded" not in os.path.basename(file_name).lower():
        raise ValueError(
            f"path ({file_name}) must have 'seeded' in its name: these answers are not for release, and csv "
            "has no other place to say so"
        )
    need("pyarrow", "write files", "io")
    table = _tables(answers, workload, level, simultaneous)
    with whole_file(file_name) as file:
        if csv:
            module = need("pyarrow.csv", "write files", "io")
            plain = _plain_schema(table(slice(0, 0)).schema)
            writer = module.CSVWriter(file, plain)
        else:
            parquet = need("pyarrow.parquet", "write files", "io")
            plain = table(slice(0, 0)).schema
            writer = parquet.ParquetWriter(file, plain, compression="zstd")
        with writer:
            for start in range(0, workload.cells, CELLS_AT_ONCE):
                writer.write_table(table(slice(start, start + CELLS_AT_ONCE)).cast(plain))


def _plain_schema(schema: Any) -> Any:
    """The schema with words as texts: csv has no dictionaries, and pandas none that repeat a word."""
    pa = need("pyarrow", "write files", "io")
    types = [pa.string() if pa.types.is_dictionary(field.type) else field.type for field in schema]
    return pa.schema(list(zip(schema.names, types, strict=True)), schema.metadata)


def _tables(
    answers: UnbiasedAnswers, workload: Workload, level: float, simultaneous: bool
) -> Callable[[slice], Any]:
    low, high = answers.intervals(level, simultaneous=simultaneous, workload=workload)
    columns = {
        "answer": answers.answers(workload),
        "standard_error": answers.standard_errors(workload),
        "low": low,
        "high": high,
    }
    ledger = answers.ledger
    about = {
        "n": answers.n,
        "domain": workload.domain.fingerprint(),
        "neighbors": ledger.neighbors.value,
        "level": level,
        "simultaneous": simultaneous,
        "for_release": ledger.for_release,
        **({} if ledger.for_release else SEEDED),
    }
    cells = np.arange(workload.cells)
    order = int(np.diff(workload.starts).max(initial=1))
    return table_maker(
        workload.domain,
        workload.attributes,
        order,
        lambda part: workload.queries(cells[part]),
        lambda part: {name: values[part] for name, values in columns.items()},
        about,
    )
