"""Rows to begin with where public rows lack attributes, or where there is no public table at all.

A mixture of products (models/products.py) is fitted to released marginals. Public records are drawn, and what
they lack is drawn from the mixture given what they have; without a public table all is. Rows that break a
constraint are left out. Released values, public rows and the sampling stream only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privmw.data.support import Support
from privmw.kernels.arrays import Float64s, UInt32s
from privmw.models.growth.problem import Problem
from privmw.models.products import fit_products
from privmw.random import sampling_stream

COMPLETED = 20_000  # records drawn; equal ones become one row
MOST_RECORDS = 1000  # that the public rows are worth while the mixture is fitted
MOST_DRAWS = 20  # until rows keep the constraints


def completed_evenly(support: Support, seed: int = 0) -> Support:
    """Before anything is measured: what is lacking is drawn evenly over the domain."""
    stream = sampling_stream(seed)
    sizes, missing = support.domain.sizes, _missing(support)

    def draw(rows: UInt32s) -> UInt32s:
        for a in missing:
            rows[:, a] = stream.integers(0, sizes[a], len(rows))
        return rows

    rows = _drawn(support, draw, stream)
    if not len(rows):
        raise ValueError("constraints must allow a row: none of many that were drawn keeps them")
    return support.with_rows(rows).support


def completed(support: Support, problem: Problem, seed: int, otherwise: Support) -> tuple[Support, Float64s]:
    """The rows that a mixture fitted to the problem completes, and the frequency of each among the draws.

    otherwise: rows to take, evenly, where the constraints allow none of those.
    """
    missing = set(_missing(support))
    known = [a for a in range(len(support.domain)) if a not in missing]
    products = fit_products(
        problem.workload,
        problem.answers,
        problem.precision,
        seed=seed,
        rows=support.rows if known else None,
        row_weights=support.counts.astype(np.float64),
        known=known,
        row_weight=min(support.records, MOST_RECORDS),
    )
    stream = sampling_stream(seed)
    rows = _drawn(support, lambda rows: products.complete(rows, known, stream), stream)
    if not len(rows):
        return otherwise, otherwise.start("uniform")
    wider = support.with_rows(rows)
    times = np.bincount(wider.added, minlength=wider.support.size)
    return wider.support, times / len(rows)


def _missing(support: Support) -> list[int]:
    return [support.domain.index(name) for name in support.missing]


def _drawn(support: Support, complete: Callable[[UInt32s], UInt32s], stream: np.random.Generator) -> UInt32s:
    """Public records, completed, that keep the constraints: COMPLETED of them, or as many as are found."""
    rows = np.zeros((0, len(support.domain)), np.uint32)
    ends = np.cumsum(np.maximum(support.counts, 1 if support.records == 0 else 0))
    codes = support.rows.astype(np.uint32)
    for _ in range(MOST_DRAWS):
        # Evenly spaced points: every row that stands for enough records is there.
        points = (np.arange(COMPLETED) + stream.random()) * (ends[-1] / COMPLETED)
        drawn = complete(codes[np.searchsorted(ends, points, "right").clip(0, len(codes) - 1)])
        if support.constraints is not None:
            drawn = drawn[support.constraints.allows(drawn)]
        rows = np.concatenate([rows, drawn])[:COMPLETED]
        if len(rows) == COMPLETED:
            break
    return rows
