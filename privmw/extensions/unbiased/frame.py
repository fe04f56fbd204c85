"""Unbiased answers as rows: the attributes and labels of a cell, its answer, standard error and interval.

Columns as in the files of a release (privmw/release/cells.py). Needs pyarrow (extra `io`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from privmw.data.workload import Workload
from privmw.extensions.unbiased.answers import UnbiasedAnswers
from privmw.io.extras import need
from privmw.io.files import SEEDED
from privmw.io.whole_file import Progress, check_name, plain_schema
from privmw.release.cells import as_kind, table_maker, write_cells


def to_frame(
    answers: UnbiasedAnswers, kind: str, workload: Workload, level: float, simultaneous: bool
) -> Any:
    """The frame of a workload's cells; see `UnbiasedAnswers.to_frame`."""
    frame = _tables(answers, workload, level, simultaneous)(slice(0, workload.cells))
    return as_kind(frame.cast(plain_schema(frame.schema)), kind)


def write(
    answers: UnbiasedAnswers,
    path: str | os.PathLike[str],
    workload: Workload,
    level: float,
    simultaneous: bool,
    raw: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write the frame to a file; see `UnbiasedAnswers.write`."""
    for_release = answers.ledger.for_release
    check_name(path, "answers", for_release=for_release)
    need("pyarrow", "write files", "io")
    table = _tables(answers, workload, level, simultaneous)
    write_cells(path, table, workload.cells, for_release=for_release, raw=raw, progress=progress)


def _tables(
    answers: UnbiasedAnswers, workload: Workload, level: float, simultaneous: bool
) -> Callable[[slice], Any]:
    estimates = answers.answers(workload)
    low, high = answers._around(estimates, workload, level, simultaneous)
    columns = {
        "answer": estimates,
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
