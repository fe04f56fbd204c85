"""Tallies as plain loops compiled by numba, for small sizes: numpy_/least_squares.py row by row."""

from __future__ import annotations

import numpy as np

from privmw.kernels.arrays import Float64s, Int64s, UInt32s
from privmw.kernels.numba_.compiled import compiled
from privmw.kernels.numpy_ import least_squares


@compiled
def _sums(queries: Int64s, weights: Float64s, out: Float64s) -> None:
    out[:] = 0.0
    for row in range(len(queries)):
        for query in queries[row]:
            if query < len(out):
                out[query] += weights[row]


@compiled
def _potentials(queries: Int64s, values: Float64s, out: Float64s) -> None:
    for row in range(len(queries)):
        out[row] = 0.0
        for query in queries[row]:
            if query < len(values):
                out[row] += values[query]


@compiled
def _gram(queries: Int64s, weights: Float64s, matrix: Float64s) -> None:
    for row in range(len(queries)):
        for a in queries[row]:
            for b in queries[row]:
                if a < len(matrix) and b < len(matrix):
                    matrix[a, b] += weights[row]


@compiled
def _descend(
    queries: Int64s,
    order: UInt32s,
    precisions: Float64s,
    bends: Float64s,
    weights: Float64s,
    pulls: Float64s,
) -> float:
    largest = 0.0
    for row in order:
        pull = 0.0
        for query in queries[row]:
            if query < len(pulls):
                pull += pulls[query]
        if bends[row] > 0:
            move = max(weights[row] - pull / bends[row], 0.0) - weights[row]
            weights[row] += move
            for query in queries[row]:
                if query < len(pulls):
                    pulls[query] += precisions[query] * move
            largest = max(largest, abs(move))
    return largest


class Tallies(least_squares.Tallies):
    """Which queries count each row."""

    def sums(self, weights: Float64s, out: Float64s) -> None:
        """Writes for each query the sum of the weights of its rows."""
        _sums(self.queries, weights, out)

    def potentials(self, values: Float64s, out: Float64s) -> None:
        """Writes for each row the sum of the values of its queries."""
        _potentials(self.queries, values, out)

    def gram(self, weights: Float64s) -> Float64s:
        """For each pair of queries the weight of the rows that both count."""
        matrix = np.zeros((self.count, self.count))
        _gram(self.queries, weights, matrix)
        return matrix

    def descend(
        self,
        order: UInt32s,
        precisions: Float64s,
        bends: Float64s,
        weights: Float64s,
        pulls: Float64s,
    ) -> float:
        """One pass of coordinate descent over some rows, in the order given; returns the largest move."""
        return float(_descend(self.queries, order, precisions, bends, weights, pulls))
