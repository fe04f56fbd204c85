"""Engines with partitioned frames: each partition is counted on its worker, and the counts are added.

A partition sends its non-zero blocks of counts, the engine adds blocks of the same number, and the driver
receives each once. Values are checked on the worker; errors name columns and rules, never values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from privmw.data.table import Table
from privmw.data.unit import checked_unit
from privmw.data.workload import Workload
from privmw.extensions.engines.counts import Counts
from privmw.io.extras import need
from privmw.io.files import check_names
from privmw.kernels.arrays import Int64s
from privmw.secrecy import expect, sealed

CELLS_PER_BLOCK = 2**14  # 128 KB
CODEC = "zstd"  # of blocks that are sent
RECORD_COUNT_BLOCK = -1  # the number of the block with the number of records that entered


def spark(
    dataframe: Any, workload: Workload, *, unit: str | None = None, at_most: int | None = None
) -> Counts:
    """The counts of a Spark data frame (classic or Connect, Spark 4): mapInArrow, then one addition.

    unit, at_most: as for `read_table`; records of a unit are brought together first. The executors need
    privmw with its extra io.
    """
    need("pyspark", "count in Spark", "spark")
    names = _check(workload, unit, at_most)
    _check_frame(dataframe, "mapInArrow", "a Spark data frame")
    check_names("dataframe", list(dataframe.columns), names, private=True)
    # Numbered names: mapInArrow does not accept dots or backticks.
    numbered = [_column(name).alias(f"c{place}") for place, name in enumerate(names)]
    chosen = dataframe.select(*numbered)
    if unit:
        chosen = chosen.repartition(f"c{len(names) - 1}")

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        partition = list(batches)
        if partition:
            named = pa.Table.from_batches(partition).rename_columns(names)
            blocks = _blocks(named, workload, unit, at_most)
            yield pa.RecordBatch.from_pydict(_as_columns(blocks), schema=_schema())

    def add(blocks: Any) -> Any:
        import pyarrow as pa

        return pa.Table.from_pydict(_as_columns(_added(_of_columns(blocks))), schema=_schema())

    kind = "block long, cells long, counts binary"
    parts = chosen.mapInArrow(count, kind).groupBy("block").applyInArrow(add, kind)
    return _counts(_of_columns(parts.toArrow()), workload, unit, at_most)


def dask(
    dataframe: Any, workload: Workload, *, unit: str | None = None, at_most: int | None = None
) -> Counts:
    """The counts of a Dask data frame: one task per partition, added in a tree."""
    delayed = need("dask", "count in Dask", "dask").delayed
    names = _check(workload, unit, at_most)
    _check_frame(dataframe, "to_delayed", "a Dask data frame")
    check_names("dataframe", list(dataframe.columns), names, private=True)
    chosen = dataframe[names]
    if unit:
        chosen = chosen.shuffle(on=unit)
    parts = [delayed(_blocks)(part, workload, unit, at_most) for part in chosen.to_delayed()]
    while len(parts) > 1:
        parts = [delayed(_all_added)(parts[i : i + 8]) for i in range(0, len(parts), 8)]
    return _counts(parts[0].compute().items(), workload, unit, at_most)


def ray(dataset: Any, workload: Workload) -> Counts:
    """The counts of a Ray dataset: map_batches, then one addition by block.

    Ray cannot group the records of a unit: cap units with Spark, Dask or SQL.
    """
    names = _check(workload, None, None)
    _check_frame(dataset, "map_batches", "a Ray dataset")
    check_names("dataset", list(dataset.columns()), names, private=True)
    kind = {"batch_format": "pyarrow", "batch_size": None}

    def count(part: Any) -> Any:
        import pyarrow as pa

        return pa.Table.from_pydict(_as_columns(_blocks(part, workload, None, None)), schema=_schema())

    parts = dataset.select_columns(names).map_batches(count, **kind)
    blocks = (pair for part in parts.iter_batches(**kind) for pair in _of_columns(part))
    return _counts(blocks, workload, None, None)


def _check(workload: Any, unit: str | None, at_most: int | None) -> list[str]:
    """The names of the columns that are needed."""
    expect("workload", workload, Workload, "a Workload")
    checked_unit(unit, at_most, workload.domain, True)
    return [*workload.domain.names, *([] if unit is None else [unit])]


def _check_frame(frame: object, method: str, kind: str) -> None:
    expect("dataframe", frame, callable(getattr(frame, method, None)), f"{kind}", quote=False)


def _column(name: str) -> Any:
    functions = need("pyspark.sql.functions", "count in Spark", "spark")
    return functions.col("`" + name.replace("`", "``") + "`")


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("block", pa.int64()), ("cells", pa.int64()), ("counts", pa.binary())])


@sealed
def _blocks(frame: Any, workload: Workload, unit: str | None, at_most: int | None) -> dict[int, Int64s]:
    """On a worker: the counts of one partition, in blocks; zero blocks are left out."""
    table = Table.from_frame(frame, workload.domain, private=True, unit=unit, at_most=at_most)
    counts = table.counts(workload)
    blocks = {RECORD_COUNT_BLOCK: np.array([table.n], np.int64)}
    for number, start in enumerate(range(0, len(counts), CELLS_PER_BLOCK)):
        block = counts[start : start + CELLS_PER_BLOCK]
        if block.any():
            blocks[number] = block
    return blocks


def _as_columns(blocks: dict[int, Int64s]) -> dict[str, list[Any]]:
    """Compressed to a ninth of the bytes for a survey's counts, which are mostly zeros and small."""
    import pyarrow as pa

    return {
        "block": list(blocks),
        "cells": [len(block) for block in blocks.values()],
        "counts": [
            pa.compress(block.astype("<i8").tobytes(), codec=CODEC, asbytes=True) for block in blocks.values()
        ],
    }


def _of_columns(table: Any) -> Iterator[tuple[int, Int64s]]:
    import pyarrow as pa

    columns = (table[name].to_pylist() for name in ("block", "cells", "counts"))
    for number, cells, packed in zip(*columns, strict=True):
        content = pa.decompress(packed, 8 * cells, codec=CODEC, asbytes=True)
        yield number, np.frombuffer(content, "<i8").astype(np.int64)


def _added(blocks: Iterable[tuple[int, Int64s]]) -> dict[int, Int64s]:
    total: dict[int, Int64s] = {}
    for number, block in blocks:
        total[number] = total[number] + block if number in total else block
    return total


def _all_added(parts: Iterable[dict[int, Int64s]]) -> dict[int, Int64s]:
    return _added(pair for part in parts for pair in part.items())


@sealed
def _counts(
    blocks: Iterable[tuple[int, Int64s]], workload: Workload, unit: str | None, at_most: int | None
) -> Counts:
    total = _added(blocks)
    counts = np.zeros(workload.cells, np.int64)
    n = int(total.pop(RECORD_COUNT_BLOCK, np.zeros(1, np.int64))[0])
    for number, block in total.items():
        counts[number * CELLS_PER_BLOCK : number * CELLS_PER_BLOCK + len(block)] = block
    return Counts(workload, counts, n=n, unit=unit, at_most=at_most)
