"""Cells as rows of a file: attributes, labels, and answers or noisy counts.

A cell of k attributes fills columns attribute_1, value_1, ..., attribute_k, value_k; the other such columns
are empty. Values are written as `Attribute.label` returns them. Released values only.
`privmw.extensions.postprocess.read_noisy_marginals` reads measurements back. Needs pyarrow (extra `io`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.accounting.noise import MEASURED
from privmw.data.domain import Domain
from privmw.data.workload import Queries, Workload
from privmw.io.extras import need
from privmw.io.files import ABOUT, SEEDED
from privmw.io.whole_file import Progress, check_name, table_file
from privmw.kernels.arrays import Int64s
from privmw.release.errors import FittedIntervals
from privmw.release.release import Release
from privmw.secrecy import shown

WRITTEN_CELLS = 2**18  # per batch, to bound memory


def write_answers(
    release: Release,
    path: str | os.PathLike[str],
    *,
    intervals: FittedIntervals | None = None,
    raw: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write the answer (a fraction) of every cell of the release's workload; columns as above, and answer.

    The file is .parquet, .csv or .feather. intervals: of the same release, for the columns low, high and
    represented; the file's metadata (not in csv) give their level. raw: see `Table.write`. progress: called
    with the number of cells written so far.

    >>> from privmw.release.cells import write_answers
    >>> write_answers(release, "answers.parquet")  # doctest: +SKIP
    """
    columns = {"answer": release.answers()}
    about: dict[str, Any] = {}
    if intervals is not None:
        if intervals.workload != release.workload:
            raise ValueError("intervals must be those of the release's workload")
        columns |= intervals.columns()
        about = {"level": intervals.level, "refits": intervals.refits, "not_offered": intervals.reason}
    cells = np.arange(release.workload.cells)
    table = _release_table(
        release,
        release.workload,
        cells,
        lambda part: {name: column[part] for name, column in columns.items()},
        about,
    )
    for_release = release.ledger.for_release
    write_cells(path, table, len(cells), for_release=for_release, raw=raw, progress=progress)


def write_measurements(release: Release, path: str | os.PathLike[str], *, raw: bool = False) -> None:
    """Write every released noisy count; columns as above, and noisy_count, noise, scale and round.

    raw: see `Table.write`.

    >>> from privmw.release.cells import write_measurements
    >>> write_measurements(release, "measurements.parquet")  # doctest: +SKIP
    """
    import pyarrow as pa

    measurements, noises = release.measurements, list(MEASURED)
    words = pa.array(noises, pa.string())
    cells = np.concatenate([np.empty(0, np.int64), *(m.cells for m in measurements)])
    counts = np.concatenate([np.empty(0, np.int64), *(m.noisy_counts for m in measurements)])
    which = np.repeat(np.arange(len(measurements)), [len(m) for m in measurements])
    noise = np.array([noises.index(m.noise) for m in measurements], np.int64)
    scale = np.array([m.scale for m in measurements], np.float64)
    number = np.array([m.round for m in measurements], np.int32)
    table = _release_table(
        release,
        release.measured,
        cells,
        lambda part: {
            "noisy_count": counts[part],
            "noise": _words(noise[which[part]], words),
            "scale": scale[which[part]],
            "round": number[which[part]],
        },
    )
    write_cells(path, table, len(cells), for_release=release.ledger.for_release, raw=raw)


def _release_table(
    release: Release,
    workload: Workload,
    cells: Int64s,
    columns: Callable[[slice], dict[str, Any]],
    further: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[slice], Any]:
    about = {
        **further,
        "n": release.n,
        "domain": workload.domain.fingerprint(),
        "neighbors": release.ledger.neighbors.value,
        "for_release": release.ledger.for_release,
        **({} if release.ledger.for_release else SEEDED),
    }
    order = int(np.diff(workload.starts).max(initial=1))

    def queries(part: slice) -> Queries:
        return workload.queries(cells[part])

    return table_maker(workload.domain, workload.attributes, order, queries, columns, about)


def write_cells(
    path: str | os.PathLike[str],
    table: Callable[[slice], Any],
    count: int,
    *,
    for_release: bool = True,
    raw: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write `count` cells to a file, atomically; table: a function that `table_maker` returned."""
    name = check_name(path, "answers", for_release=for_release)
    with table_file(name, table(slice(0, 0)).schema, raw=raw, progress=progress) as write_next:
        for start in range(0, count, WRITTEN_CELLS):
            write_next(table(slice(start, start + WRITTEN_CELLS)))


def table_maker(
    domain: Domain,
    attributes: npt.NDArray[np.int32],
    order: int,
    queries: Callable[[slice], Queries],
    columns: Callable[[slice], dict[str, Any]],
    about: Mapping[str, Any],
) -> Callable[[slice], Any]:
    """Return a function that makes the Arrow table of a slice of cells: attributes, labels and `columns`.

    order: the number of attribute columns; attributes: all attributes that any cell has.
    """
    pa = need("pyarrow", "make frames", "io")
    used = set(attributes.tolist())
    sizes = [size if a in used else 0 for a, size in enumerate(domain.sizes)]
    labels = [str(domain.attributes[a].label(code)) for a, size in enumerate(sizes) for code in range(size)]
    first = np.cumsum([0, *sizes[:-1]])  # each attribute's first label
    # Attributes share labels, and a dictionary with repeated words is slow to write.
    word = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    word_of = np.array([word[label] for label in labels], np.int32)
    names, words = pa.array(domain.names, pa.string()), pa.array(list(word), pa.string())

    def table(part: slice) -> Any:
        cells = queries(part)
        orders = np.diff(cells.starts)
        named: dict[str, Any] = {}
        for place in range(max(order, 1)):
            absent = orders <= place
            none = bool(absent.any())
            entry = cells.starts[:-1] + place
            entry = entry[~absent] if none else entry
            attribute = cells.attributes[entry]
            value = word_of[first[attribute] + cells.values[entry]]
            if none:
                every = np.zeros((2, len(orders)), np.int32)
                every[0, ~absent], every[1, ~absent] = attribute, value
                attribute, value = every
            named[f"attribute_{place + 1}"] = _words(attribute, names, absent if none else None)
            named[f"value_{place + 1}"] = _words(value, words, absent if none else None)
        return pa.table({**named, **columns(part)}).replace_schema_metadata({ABOUT: json.dumps(about)})

    return table


def cells_frame(workload: Workload, columns: Mapping[str, Any], kind: str) -> Any:
    """Every cell of a workload as a frame: columns as above, then `columns`; kind: see `Table.to_frame`."""
    make = table_maker(
        workload.domain,
        workload.attributes,
        int(np.diff(workload.starts).max(initial=1)),
        lambda part: workload.queries(np.arange(workload.cells)[part]),
        lambda _: dict(columns),
        {},
    )
    return as_kind(make(slice(None)).replace_schema_metadata(None), kind)


def marginals_frame(workload: Workload, columns: Mapping[str, Any], kind: str) -> Any:
    """Every marginal of a workload as a frame: attribute_1, attribute_2, ..., then `columns`."""
    pa = need("pyarrow", "make frames", "io")
    orders, names = np.diff(workload.starts), pa.array(workload.domain.names, pa.string())
    named = {}
    for place in range(int(orders.max(initial=1))):
        absent = orders <= place
        attribute = np.zeros(len(workload), np.int64)
        attribute[~absent] = workload.attributes[(workload.starts[:-1] + place)[~absent]]
        named[f"attribute_{place + 1}"] = _words(attribute, names, absent)
    return as_kind(pa.table({**named, **columns}), kind)


def as_kind(frame: Any, kind: str) -> Any:
    """Convert an Arrow table to a frame of this kind."""
    if kind not in ("pyarrow", "pandas", "polars"):
        raise ValueError(f"kind ({shown(kind)}) must be 'pyarrow', 'pandas' or 'polars'")
    library = need(kind, "make such frames", "io")
    if kind == "pandas":
        return frame.to_pandas()
    return library.from_arrow(frame) if kind == "polars" else frame


def _words(where: npt.NDArray[Any], words: Any, absent: npt.NDArray[np.bool_] | None = None) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(where.astype(np.int32), mask=absent), words)
