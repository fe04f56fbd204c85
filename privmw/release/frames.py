"""Labelled answers as frames: what `Release.marginal` and `answers_frame` return (questions.py: `answer`).

One row per cell: labels, the answer as a fraction of the records, its standard error and interval. Released
values only. Needs pyarrow (extra `io`), and pandas or polars for their frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from privmw.data.attribute import Attribute
from privmw.data.records import FrameKind
from privmw.data.workload import Workload
from privmw.io.extras import need
from privmw.kernels.arrays import Int64s
from privmw.release.cells import as_kind, cells_frame
from privmw.release.release import Release


def marginal_frame(
    release: Release, names: Sequence[str], level: float | None, kind: FrameKind | None
) -> Any:
    """The frame of one marginal; see `Release.marginal`."""
    workload = Workload(release.support.domain, [tuple(names)])
    columns = figures_of(release, workload, level)
    codes = np.unravel_index(np.arange(workload.cells), workload.shape(0))
    of_names = dict(zip(workload.marginal(0), codes, strict=True))
    return frame_of(release, {name: of_names[name] for name in names}, columns, kind)


def answers_frame(
    release: Release, workload: Workload | None, level: float | None, kind: FrameKind | None
) -> Any:
    """The frame of a workload; see `Release.answers_frame`."""
    asked = release.workload if workload is None else workload
    return cells_frame(asked, figures_of(release, asked, level), kind or release.frame_kind or "pyarrow")


def figures_of(release: Release, workload: Workload, level: float | None) -> dict[str, Any]:
    """Columns of answers, and of their errors and intervals unless level is None."""
    if level is None:
        return {"answer": release.answers(workload)}
    intervals = release.intervals(level, workload=workload)
    return {"answer": intervals.answers, **intervals.columns()}


def frame_of(
    release: Release,
    codes: Mapping[str, Int64s],
    figures: Mapping[str, Any],
    kind: FrameKind | None,
    words: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """A frame of labels and figures; a figure named like an attribute gets a longer name.

    words: columns that hold one text, before the labels.
    """
    pa = need("pyarrow", "make frames", "io")
    columns = {name: pa.array([text]) for name, text in words.items()}
    columns |= {name: _labels(release.support.domain[name], places) for name, places in codes.items()}
    for name, figure in figures.items():
        while name in columns:
            name += "_"
        columns[name] = pa.array(figure)
    return as_kind(pa.table(columns), kind or release.frame_kind or "pyarrow")


def _labels(attribute: Attribute, codes: Int64s) -> Any:
    """The distinct labels of codes: integers, or text in the domain's order."""
    pa = need("pyarrow", "make frames", "io")
    if attribute.labels is None and attribute.edges is None:
        return pa.array(codes.astype(np.int64))
    labels = [attribute.label(code) for code in range(attribute.size)]
    if all(isinstance(label, int) for label in labels):
        return pa.array([labels[code] for code in codes.tolist()], pa.int64())
    words = pa.array([str(label) for label in labels], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), words, ordered=True)
