"""Tallies in numpy alone, for small sizes: the twin of csrc/core/tallies/tallies.hpp.

A table has the queries that count each row, one row of it per row; `count` stands for no query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.kernels.arrays import Float64s, Int32s, Int64s, UInt32s
from privmw.kernels.numpy_.projection import GRAM_BLOCK_CELLS
from privmw.kernels.python_.least_squares import newton


class Tallies:
    """The queries that each row matches."""

    def __init__(
        self,
        sizes: Sequence[int],
        attributes: Int32s,
        starts: Int64s,
        columns: Any,
        groups: Int32s,
        marked: npt.NDArray[np.uint8],
        threads: int,
    ) -> None:
        rows = int(np.prod(sizes, dtype=np.int64)) if columns is None else len(columns.columns[0])
        marginals, first = [], 0
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            cell, cells = np.zeros(rows, np.int64), 1
            for a in attributes[begin:end].tolist():
                cell = cell * sizes[a] + (_column(sizes, a, rows) if columns is None else columns.columns[a])
                cells *= sizes[a]
            marginals.append(first + cell)
            first += cells
        self.cells = first
        self.count = first + int(groups.max(initial=-1)) + 1 + bool(len(marked))
        if (groups >= 0).any():
            group_of_cell = np.where(groups >= 0, self.cells + groups, self.count)
            for cell in marginals[:]:
                if (group_of_cell[cell] < self.count).any():
                    marginals.append(group_of_cell[cell])
        if len(marked):
            marginals.append(np.where(marked != 0, self.count - 1, self.count))
        self.queries = np.array(marginals, np.int64).reshape(len(marginals), rows).T.copy()

    def sums(self, weights: Float64s, out: Float64s) -> None:
        """Writes for each query the sum of the weights of its rows."""
        repeated = np.repeat(weights, self.queries.shape[1])
        out[:] = np.bincount(self.queries.ravel(), repeated, self.count + 1)[:-1]

    def potentials(self, values: Float64s, out: Float64s) -> None:
        """Writes for each row the sum of the values of its queries."""
        np.append(values, 0.0)[self.queries].sum(axis=1, out=out)

    def gram(self, weights: Float64s) -> Float64s:
        """For each pair of queries the weight of the rows that match both."""
        matrix = np.zeros((self.count + 1, self.count + 1))
        weighted = np.flatnonzero(weights)
        block = max(1, GRAM_BLOCK_CELLS // (self.count + 1))
        for first in range(0, len(weighted), block):
            rows = weighted[first : first + block]
            dense = np.zeros((len(rows), self.count + 1))
            dense[np.arange(len(rows))[:, None], self.queries[rows]] = 1
            matrix += (dense * weights[rows, None]).T @ dense
        return matrix[:-1, :-1]

    def newton(self, *problem: Any) -> tuple[Float64s, Float64s, float, float, int]:
        """Solves a problem by Newton's method on its dual."""
        return newton(self, *problem)

    def descend(
        self,
        order: UInt32s,
        precisions: Float64s,
        bends: Float64s,
        weights: Float64s,
        pulls: Float64s,
    ) -> float:
        """One pass of coordinate descent over some rows, in the order given; returns the largest move."""
        precision, pull, largest = np.append(precisions, 0.0), np.append(pulls, 0.0), 0.0
        for row in order.tolist():
            queries = self.queries[row]
            if bends[row] > 0:
                now = weights[row]
                weights[row] = max(now - pull[queries].sum() / bends[row], 0.0)
                move = weights[row] - now
                pull[queries] += precision[queries] * move
                largest = max(largest, abs(move))
        pulls[:] = pull[:-1]
        return float(largest)

    def nbytes(self) -> int:
        """Bytes allocated beside the caller's arrays."""
        return int(self.queries.nbytes)


def _column(sizes: Sequence[int], attribute: int, rows: int) -> Int64s:
    """The codes of one attribute of a full histogram."""
    inner = int(np.prod(sizes[attribute + 1 :], dtype=np.int64))
    return np.arange(rows) // inner % sizes[attribute]
