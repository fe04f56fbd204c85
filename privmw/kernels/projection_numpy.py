"""Projections in numpy alone: the twins of csrc/core/projection.hpp and csrc/core/tilt.hpp."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Queries = npt.NDArray[np.uint32]
Float64s = npt.NDArray[np.float64]

# In the words of csrc/core/tilt.cpp: a check at the door would be a pass.
NOT_A_BASE = "base must be finite, none negative and not all zero"
NOT_FINITE_POTENTIALS = "potentials must be finite"
NOT_A_TOTAL = "base must have a finite total"

_BLOCK_CELLS = 2**20  # of the dense blocks of groups that make a gram matrix: 8 MB


class Incidence:
    """Which groups answer yes to which queries, row by row."""

    def __init__(self, starts: Int64s, queries: Queries, count: int) -> None:
        self._starts, self._queries, self._count = starts, queries, count

    def _of_entries(self, per_group: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return np.repeat(per_group, np.diff(self._starts))

    def potentials(self, values: Float64s, out: Float64s, threads: int) -> None:
        """Writes for each group the sum of the values of its queries."""
        # bincount adds in order, and knows groups without queries.
        groups = self._of_entries(np.arange(len(out)))
        out[:] = np.bincount(groups, values[self._queries], len(out))

    def sums(self, weights: Float64s, out: Float64s) -> None:
        """Writes for each query the sum of the weights of its groups."""
        out[:] = np.bincount(self._queries, self._of_entries(weights), len(out))

    def gram(self, weights: Float64s, threads: int) -> Float64s:
        """For each pair of queries the sum of the weights of the groups that answer yes to both."""
        matrix = np.zeros((self._count, self._count))
        block = max(1, _BLOCK_CELLS // max(1, self._count))
        for first in range(0, len(weights), block):
            some = weights[first : first + block]
            starts = self._starts[first : first + block + 1]
            dense = np.zeros((len(some), self._count))
            groups = np.repeat(np.arange(len(some)), np.diff(starts))
            dense[groups, self._queries[starts[0] : starts[-1]]] = 1
            matrix += (dense * some[:, None]).T @ dense
        symmetric: Float64s = np.triu(matrix) + np.triu(matrix, 1).T
        return symmetric

    def nbytes(self) -> int:
        """Bytes held beside the caller's arrays."""
        return 0


def matches_by_row(matching: list[npt.NDArray[np.int64]], rows: int) -> tuple[Int64s, Queries]:
    """From each query's rows, the queries of each row, ascending."""
    found = np.concatenate([np.empty(0, np.int64), *matching])
    queries = np.repeat(np.arange(len(matching)), [len(each) for each in matching])
    starts = np.concatenate([[0], np.cumsum(np.bincount(found, minlength=rows))])
    return starts.astype(np.int64), queries[np.argsort(found, kind="stable")].astype(np.uint32)


def tilt(base: Float64s, potentials: Float64s, out: Float64s, threads: int) -> float:
    """Writes base * exp(potentials), made to total one; returns the logarithm of the total."""
    if not ((base >= 0) & (base < np.inf)).all():
        raise ValueError(NOT_A_BASE)
    if not np.isfinite(potentials).all():
        raise ValueError(NOT_FINITE_POTENTIALS)
    if not base.any():
        raise ValueError(NOT_A_BASE)
    most = potentials[base > 0].max()
    with np.errstate(over="ignore", under="ignore"):
        np.exp(np.minimum(potentials - most, 0), out=out)
        out *= base
        total = out.sum()
        if total == np.inf:
            raise ValueError(NOT_A_TOTAL)
        out /= total
    return float(most + np.log(total))
