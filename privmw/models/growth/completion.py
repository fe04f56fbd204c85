"""Rows to start from if public rows lack attributes, or if there is no public table.

A mixture of products (models/products.py) is fitted to released marginals. Public records are drawn, and
their missing attributes are drawn from the mixture given the others (all attributes without a public table).
Rows that break a constraint are left out. Released values, public rows and the sampling stream only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privmw.data.support import Support
from privmw.kernels.arrays import Float64s, UInt32s
from privmw.models.growth.problem import Problem
from privmw.models.products import DRAW_ATTEMPTS, ProductFit
from privmw.random import sampling_stream

COMPLETED = 20_000  # records drawn; equal ones become one row
MOST_PUBLIC_WEIGHT = 1000  # records that the public rows count as when the mixture is fitted


def completed_evenly(support: Support, seed: int = 0) -> Support:
    """Before any measurement: missing attributes are drawn uniformly."""
    stream = sampling_stream(seed)
    sizes, missing = support.domain.sizes, _missing(support)

    def draw(rows: UInt32s) -> UInt32s:
        for a in missing:
            rows[:, a] = stream.integers(0, sizes[a], len(rows))
        return rows

    rows = _completed_rows(support, draw, stream)
    if not len(rows):
        raise ValueError("constraints must allow a row: none of many random rows keeps them")
    return support.with_rows(rows).support


def completed(support: Support, problem: Problem, seed: int, fallback: Support) -> tuple[Support, Float64s]:
    """Rows completed by a mixture fitted to the problem, and the frequency of each.

    fallback: rows to take, with equal weights, if none keeps the constraints.
    """
    missing = set(_missing(support))
    known = [a for a in range(len(support.domain)) if a not in missing]
    fit = ProductFit(problem.workload, problem.answers, problem.precision, seed=seed)
    if known:
        row_weights = support.counts.astype(np.float64)
        fit.add_rows(support.rows, row_weights, known, min(support.records, MOST_PUBLIC_WEIGHT))
    products = fit.fitted()
    stream = sampling_stream(seed)
    rows = _completed_rows(support, lambda rows: products.complete(rows, known, stream), stream)
    if not len(rows):
        return fallback, fallback.start("uniform")
    wider = support.with_rows(rows)
    times = np.bincount(wider.added, minlength=wider.support.size)
    return wider.support, times / len(rows)


def _missing(support: Support) -> list[int]:
    return [support.domain.index(name) for name in support.missing]


def _completed_rows(
    support: Support, complete: Callable[[UInt32s], UInt32s], stream: np.random.Generator
) -> UInt32s:
    """COMPLETED completed public records that keep the constraints, or fewer if those are rare."""
    rows = np.zeros((0, len(support.domain)), np.uint32)
    ends = np.cumsum(np.maximum(support.counts, 1 if support.records == 0 else 0))
    codes = support.rows.astype(np.uint32)
    for _ in range(DRAW_ATTEMPTS):
        # Evenly spaced points: every row of enough records is drawn.
        points = (np.arange(COMPLETED) + stream.random()) * (ends[-1] / COMPLETED)
        candidates = complete(codes[np.searchsorted(ends, points, "right").clip(0, len(codes) - 1)])
        if support.constraints is not None:
            candidates = candidates[support.constraints.allows(candidates)]
        rows = np.concatenate([rows, candidates])[:COMPLETED]
        if len(rows) == COMPLETED:
            break
    return rows
