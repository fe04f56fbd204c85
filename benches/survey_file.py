"""A survey in a parquet file becomes a support, in a process of its own; bench_files.py runs it.

    python survey_file.py make FILE ROWS       writes the file, 67 columns, and its domain beside it
    python survey_file.py WAY FILE             prints seconds, memory and what was found as JSON

A way is scan (batch by batch), read (all in memory), or plain: pandas and numpy.unique. The columns are
codes, texts, integer labels and numbers in bins, in turn; some of the numbers are missing.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from baselines import numpy_distinct
from footprint import memory, reset_peak, settle
from shapes import ACS_SIZES, acs67

import privmw as pmw

GROUP = 2**19  # rows of a row group


def declared(a: int, size: int) -> object:
    if a % 4 == 1:
        return [f"value {code}" for code in range(size)]
    if a % 4 == 2:
        return [100 + 7 * code for code in range(size)]
    if a % 8 == 3 and size > 2:
        return {"edges": list(range(size)), "missing": "N"}
    return {"edges": list(range(size + 1))} if a % 4 == 3 else size


def written(attribute: pmw.data.attribute.Attribute, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
    if attribute.edges is not None:
        numbers = codes + rng.random(len(codes))
        return pa.array(np.where(codes < len(attribute.edges) - 1, numbers, np.nan))
    if attribute.labels is None:
        return pa.array(codes)
    labels = pa.array(attribute.labels).take(pa.array(codes))
    return labels if isinstance(attribute.labels[0], str) else labels.cast(pa.int32())


def make(file: Path, rows: int) -> None:
    domain = pmw.Domain({f"a{a:03d}": declared(a, size) for a, size in enumerate(ACS_SIZES)})
    domain.write(file.with_suffix(".json"))
    columns = acs67(rows).columns
    rng = np.random.Generator(np.random.SFC64(5))
    writer = None
    for start in range(0, rows, GROUP):
        part = (column[start : start + GROUP] for column in columns)
        arrays = [written(a, codes, rng) for a, codes in zip(domain.attributes, part, strict=True)]
        batch = pa.table(arrays, names=list(domain.names))
        writer = writer or pq.ParquetWriter(file, batch.schema)
        writer.write_table(batch)
    assert writer is not None
    writer.close()


def plain(file: Path, domain: pmw.Domain) -> tuple[np.ndarray, np.ndarray]:
    """What one would write without privmw."""
    frame = pq.read_table(file).to_pandas()
    codes = np.empty((len(frame), len(domain)), np.uint8)
    for a, attribute in enumerate(domain.attributes):
        column = frame.pop(attribute.name)
        if attribute.edges is not None:
            bins = np.digitize(column.to_numpy(), attribute.edges) - 1
            codes[:, a] = np.where(column.isna(), attribute.size - 1, bins)
        elif attribute.labels is not None:
            codes[:, a] = column.map({label: code for code, label in enumerate(attribute.labels)})
        else:
            codes[:, a] = column
    return numpy_distinct(codes)


def main(way: str, file: Path) -> None:
    domain = pmw.Domain.read(file.with_suffix(".json"))
    settle()
    reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    if way == "plain":
        rows, counts = plain(file, domain)
    else:
        public: pmw.Table | pmw.io.scan.Scan = {"scan": pmw.scan_table, "read": pmw.read_table}[way](
            file, domain, private=False
        )
        found = pmw.Support.from_table(public)
        rows, counts = found.table, found.counts
    figures = {
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak": memory("VmHWM"),
        "rows": int(counts.sum()),
        "distinct": len(counts),
    }
    codes = rows.codes() if isinstance(rows, pmw.Table) else rows
    told = hashlib.sha256(codes.tobytes() + counts.astype(np.int64).tobytes()).hexdigest()
    print(json.dumps({**figures, "told": told}))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main(sys.argv[1], Path(sys.argv[2]))
