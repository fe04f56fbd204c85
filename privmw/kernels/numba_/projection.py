"""Projections as plain loops compiled by numba: twins of csrc/core/projection.hpp and csrc/core/tilt.hpp."""

from __future__ import annotations

import math

import numpy as np

from privmw.kernels.arrays import Float64s, Int64s, UInt32s
from privmw.kernels.cells import powers_of_two
from privmw.kernels.numba_.compiled import compiled
from privmw.kernels.numpy_ import projection
from privmw.kernels.numpy_.projection import DEEPEST, INVERSE_LN2, LEAST_NORMAL, LN2_HIGH, LN2_LOW, TAYLOR

_COEFFICIENTS = np.array(TAYLOR)


@compiled
def _potentials(starts: Int64s, queries: UInt32s, values: Float64s, out: Float64s) -> None:
    for g in range(len(out)):
        out[g] = 0.0
        for i in range(starts[g], starts[g + 1]):
            out[g] += values[queries[i]]


@compiled
def _sums(starts: Int64s, queries: UInt32s, weights: Float64s, out: Float64s) -> None:
    out[:] = 0.0
    for g in range(len(weights)):
        for i in range(starts[g], starts[g + 1]):
            out[queries[i]] += weights[g]


@compiled
def _gram(starts: Int64s, queries: UInt32s, weights: Float64s, matrix: Float64s) -> None:
    for g in range(len(weights)):
        for i in range(starts[g], starts[g + 1]):
            for j in range(i, starts[g + 1]):
                matrix[queries[i], queries[j]] += weights[g]
    for i in range(len(matrix)):
        for j in range(i):
            matrix[i, j] = matrix[j, i]


class Incidence(projection.Incidence):
    """Which groups answer yes to which queries, group by group."""

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


@compiled
def split_lists(
    starts: Int64s,
    queries: UInt32s,
    first: int,
    matched: Int64s,
    matched_starts: Int64s,
    cut: Int64s,
    cut_starts: Int64s,
) -> tuple[Int64s, UInt32s]:
    """The lists of groups' queries with more queries, numbered from `first`; their starts come first."""
    groups, added = len(starts) - 1, len(matched_starts) - 1
    new_starts = np.zeros(groups + len(cut) + 1, np.int64)
    lengths = new_starts[1:]
    lengths[:groups] = np.diff(starts)
    count = groups
    for q in range(added):
        for i in range(matched_starts[q], matched_starts[q + 1]):
            lengths[matched[i]] += 1
        for i in range(cut_starts[q], cut_starts[q + 1]):
            lengths[count] = lengths[cut[i]] + 1
            count += 1
    for g in range(count):
        lengths[g] += new_starts[g]
    new_queries, ends = np.empty(new_starts[-1], np.uint32), new_starts[:-1].copy()
    for g in range(groups):
        for i in range(starts[g], starts[g + 1]):
            new_queries[ends[g]] = queries[i]
            ends[g] += 1
    count = groups
    for q in range(added):
        for i in range(matched_starts[q], matched_starts[q + 1]):
            new_queries[ends[matched[i]]] = first + q
            ends[matched[i]] += 1
        for i in range(cut_starts[q], cut_starts[q + 1]):
            for at in range(new_starts[cut[i]], ends[cut[i]]):
                new_queries[ends[count]] = new_queries[at]
                ends[count] += 1
            new_queries[ends[count]] = first + q
            ends[count] += 1
            count += 1
    return new_starts, new_queries


@compiled
def _most(base: Float64s, potentials: Float64s) -> tuple[float, bool, bool]:
    most, valid_base, valid_potentials = -np.inf, True, True
    for row in range(len(base)):
        valid_base &= base[row] >= 0 and base[row] < np.inf
        valid_potentials &= abs(potentials[row]) < np.inf
        if base[row] > 0:
            most = max(most, potentials[row])
    return most, valid_base, valid_potentials


@compiled
def solve_positive(matrix: Float64s, right: Float64s, out: Float64s) -> None:
    """Writes the solution of matrix * out = right; the matrix comes as one row after another."""
    n = len(right)
    out[:] = right
    lower = matrix.copy().reshape(n, n)
    for j in range(n):
        inverse = 1 / math.sqrt(lower[j, j]) if lower[j, j] > 0 else 0.0
        lower[j, j] = inverse
        out[j] *= inverse
        for i in range(j + 1, n):
            lower[i, j] *= inverse
            out[i] -= lower[i, j] * out[j]
        for i in range(j + 1, n):
            for k in range(j + 1, i + 1):
                lower[i, k] -= lower[i, j] * lower[k, j]
    for j in range(n - 1, -1, -1):
        out[j] *= lower[j, j]
        for i in range(j):
            out[i] -= lower[j, i] * out[j]


def most_potential(base: Float64s, potentials: Float64s, threads: int) -> float:
    """The largest potential of a row with base above zero, -inf if there is none.

    NaN unless every base is finite and none negative; else inf unless every potential is finite.
    """
    most, valid_base, valid_potentials = _most(base, potentials)
    if not valid_base:
        return np.nan
    return float(most) if valid_potentials else np.inf


@compiled
def exp_of_negative(x: float) -> float:
    """The exponential of a number from -708 to 0, bit for bit that of csrc/core/exponential.hpp."""
    n = np.rint(x * INVERSE_LN2)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    p = _COEFFICIENTS[0]
    for k in range(1, len(_COEFFICIENTS)):
        p = p * r + _COEFFICIENTS[k]
    return math.ldexp(1 + (r + r * r * p), int(n))


@compiled
def _tilt(base: Float64s, potentials: Float64s, most: float, out: Float64s) -> float:
    heaviest = 0.0
    for row in range(len(base)):
        x = min(potentials[row] - most, 0.0)
        if x < LEAST_NORMAL:
            power = exp_of_negative(0.5 * x) if x > DEEPEST else 0.0
            out[row] = base[row] * power * power
        else:
            out[row] = base[row] * exp_of_negative(x)
        heaviest = max(heaviest, out[row])
    return heaviest


def tilt(base: Float64s, potentials: Float64s, most: float, out: Float64s, threads: int) -> float:
    """Writes base * exp(potentials - most), and returns the largest."""
    return float(_tilt(base, potentials, most, out))


@compiled
def _normalise(weights: Float64s, first: float, second: float, factor: float) -> None:
    for row in range(len(weights)):
        weights[row] = weights[row] * first * second * factor


def normalise(weights: Float64s, exponent: int, factor: float, threads: int) -> None:
    """Multiplies weights in place by 2^exponent * factor."""
    _normalise(weights, *powers_of_two(exponent), factor)
