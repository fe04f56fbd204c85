"""The problem of a fit: which rows get weights, and which counts they and their sums should be near.

Rows are the cells of the full histogram, or a support's. A marginal of all attributes measures each row alone
and is kept apart: `centre`, `precisions`. The others are queries of the kernels' tallies, which never write a
matrix out. This module uses released counts and public rows only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from privmw.data.support import Support
from privmw.kernels import Columns, Tallies
from privmw.kernels.arrays import Float64s
from privmw.kernels.checks import check_number
from privmw.release.noisy_marginals import NoisyMarginals
from privmw.secrecy import expect, shown

MOST_UNKNOWNS = 2**28


@dataclass(frozen=True, eq=False)
class Problem:
    """Weighted least squares over rows; a precision of 0 has no effect, a held query is exact."""

    tallies: Tallies
    centre: Float64s  # one per row: its own noisy count
    precisions: Float64s  # one per row, of its count; or one for all rows
    counts: Float64s  # one per query: noisy, or exact
    variances: Float64s  # one per query; infinite: not measured, 0: exact
    start: Callable[[], Float64s]  # one per row: the weights to start from
    scale: float  # the largest noisy count, or 1 if that is less

    @cached_property
    def whole(self) -> bool:
        """Whether every row was measured itself, so that the fit is unique."""
        return bool((self.precisions > 0).all())

    @cached_property
    def fitted(self) -> Float64s:
        """The precisions of the queries; 0 for those held or not measured."""
        free = (self.variances > 0) & (self.variances < np.inf)
        return np.divide(1.0, self.variances, where=free, out=np.zeros(len(free)))

    def objective(self, weights: Float64s, sums: Float64s) -> float:
        """Half the squared distances from all that was measured, over the variances."""
        near = (self.precisions * (weights - self.centre) ** 2).sum()
        return float(near + (self.fitted * (sums - self.counts) ** 2).sum()) / 2


def make_problem(measured: NoisyMarginals, support: Support | None, total: float | None = None) -> Problem:
    """Least squares to everything measured, over a support or the full histogram; a total is held."""
    expect("measured", measured, NoisyMarginals, "NoisyMarginals")
    rows = _rows(measured, support)
    everything = tuple(range(len(measured.domain)))
    coarse = [j for j, places in enumerate(measured.places) if places != everything]
    cells = [slice(measured.offsets[j], measured.offsets[j + 1]) for j in coarse]
    counts = [measured.noisy_counts[of_marginal] for of_marginal in cells]
    variances = [measured.variances[of_marginal] for of_marginal in cells]
    marginals = tuple(measured.places[j] for j in coarse)
    if total is not None:
        marginals, counts, variances = (
            (*marginals, ()),
            [*counts, np.array([_total(total)])],
            [*variances, np.zeros(1)],
        )
    sizes = measured.domain.sizes
    make = _small if support is None and math.prod(sizes) <= 2**16 else _make
    tallies = make(sizes, marginals, None if support is None else support.columns)
    centre, precisions = np.zeros(rows), np.zeros(1)
    if len(coarse) < len(measured):
        j = measured.places.index(everything)
        cells_of_rows = slice(measured.offsets[j], measured.offsets[j + 1])
        centre, spread = measured.noisy_counts[cells_of_rows], measured.variances[cells_of_rows]
        if support is not None:
            where = np.ravel_multi_index(support.table.columns, measured.domain.sizes)
            centre, spread = centre[where], spread[where]
        same = np.isfinite(spread[0]) and (spread == spread[0]).all()
        precisions = 1 / spread[:1] if same else 1 / spread
    return Problem(
        tallies,
        centre,
        precisions,
        np.concatenate([np.empty(0), *counts]),
        np.concatenate([np.empty(0), *variances]),
        partial(_start, measured, support, rows, total),
        max(1.0, float(np.abs(measured.noisy_counts).max())),
    )


def regroup(problem: Problem, support: Support | None, **changed: Any) -> Problem:
    """The same problem with other arrays; `groups` and `marked` make new tallies."""
    groups, marked = changed.pop("groups", None), changed.pop("marked", None)
    if groups is not None or marked is not None:
        sizes, attributes, starts = problem.tallies.marginals
        columns = None if support is None else support.columns
        changed["tallies"] = Tallies(sizes, attributes, starts, columns=columns, groups=groups, marked=marked)
    return replace(problem, **changed)


def _rows(measured: NoisyMarginals, support: Support | None) -> int:
    if support is None:
        if measured.domain.size > MOST_UNKNOWNS:
            raise ValueError(
                f"domain ({shown(measured.domain)}) must have at most 2^28 cells: give a support"
            )
        return measured.domain.size
    expect("support", support, Support, "a Support")
    if support.domain != measured.domain:
        raise ValueError(f"support ({shown(support)}) must be on the domain of what was measured")
    return support.size


def _start(measured: NoisyMarginals, support: Support | None, rows: int, total: float | None) -> Float64s:
    """The public frequencies, or uniform ones, times the total; a fit that is not unique stays near them.

    The total is that of the marginal whose sum has the least variance.
    """
    if total is None:
        known = [(np.inf, 0.0)]
        for first, end in itertools.pairwise(measured.offsets):
            known.append((measured.variances[first:end].sum(), measured.noisy_counts[first:end].sum()))
        total = max(float(min(known)[1]), 0.0)
    return np.full(rows, total / rows) if support is None else total * support.start()


def _total(total: object) -> float:
    number = check_number("total", total)
    if not 0 <= number <= 2.0**62:
        raise ValueError(f"total ({total}) must be from 0 to 2^62")
    return number


def _make(sizes: tuple[int, ...], marginals: tuple[tuple[int, ...], ...], columns: Columns | None) -> Tallies:
    attributes = np.array([place for places in marginals for place in places], np.int32)
    return Tallies(sizes, attributes, np.cumsum([0, *map(len, marginals)], dtype=np.int64), columns=columns)


_small = lru_cache(maxsize=16)(_make)  # small histograms are usually fitted many times
