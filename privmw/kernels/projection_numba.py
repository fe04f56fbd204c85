"""Projections as plain loops compiled by numba: twins of csrc/core/projection.hpp and csrc/core/tilt.hpp."""

from __future__ import annotations

import numpy as np

from privmw.kernels.compiled import compiled
from privmw.kernels.projection_numpy import (
    NOT_A_BASE,
    NOT_A_TOTAL,
    NOT_FINITE_POTENTIALS,
    Float64s,
    Int64s,
    Queries,
)


@compiled
def _potentials(starts: Int64s, queries: Queries, values: Float64s, out: Float64s) -> None:
    for g in range(len(out)):
        out[g] = 0.0
        for i in range(starts[g], starts[g + 1]):
            out[g] += values[queries[i]]


@compiled
def _sums(starts: Int64s, queries: Queries, weights: Float64s, out: Float64s) -> None:
    out[:] = 0.0
    for g in range(len(weights)):
        for i in range(starts[g], starts[g + 1]):
            out[queries[i]] += weights[g]


@compiled
def _gram(starts: Int64s, queries: Queries, weights: Float64s, matrix: Float64s) -> None:
    for g in range(len(weights)):
        for i in range(starts[g], starts[g + 1]):
            for j in range(i, starts[g + 1]):
                matrix[queries[i], queries[j]] += weights[g]
    for i in range(len(matrix)):
        for j in range(i):
            matrix[i, j] = matrix[j, i]


class Incidence:
    """Which groups answer yes to which queries, row by row."""

    def __init__(self, starts: Int64s, queries: Queries, count: int) -> None:
        self._starts, self._queries, self._count = starts, queries, count

    def potentials(self, values: Float64s, out: Float64s, threads: int) -> None:
        """Writes for each group the sum of the values of its queries."""
        _potentials(self._starts, self._queries, values, out)

    def sums(self, weights: Float64s, out: Float64s) -> None:
        """Writes for each query the sum of the weights of its groups."""
        _sums(self._starts, self._queries, weights, out)

    def gram(self, weights: Float64s, threads: int) -> Float64s:
        """For each pair of queries the sum of the weights of the groups that answer yes to both."""
        matrix = np.zeros((self._count, self._count))
        _gram(self._starts, self._queries, weights, matrix)
        return matrix

    def nbytes(self) -> int:
        """Bytes held beside the caller's arrays."""
        return 0


@compiled
def _most(base: Float64s, potentials: Float64s) -> tuple[float, bool, bool]:
    most, sound_base, sound_potentials = -np.inf, True, True
    for row in range(len(base)):
        sound_base &= base[row] >= 0 and base[row] < np.inf
        sound_potentials &= abs(potentials[row]) < np.inf
        if base[row] > 0:
            most = max(most, potentials[row])
    return most, sound_base, sound_potentials


@compiled
def _tilt(base: Float64s, potentials: Float64s, most: float, out: Float64s) -> float:
    total = 0.0
    for row in range(len(base)):
        out[row] = base[row] * np.exp(min(potentials[row] - most, 0.0))
        total += out[row]
    return total


def tilt(base: Float64s, potentials: Float64s, out: Float64s, threads: int) -> float:
    """Writes base * exp(potentials), made to total one; returns the logarithm of the total."""
    most, sound_base, sound_potentials = _most(base, potentials)
    if not sound_base:
        raise ValueError(NOT_A_BASE)
    if not sound_potentials:
        raise ValueError(NOT_FINITE_POTENTIALS)
    if most == -np.inf:
        raise ValueError(NOT_A_BASE)
    total = _tilt(base, potentials, most, out)
    if total == np.inf:
        raise ValueError(NOT_A_TOTAL)
    with np.errstate(under="ignore"):
        out /= total
    return float(most + np.log(total))
