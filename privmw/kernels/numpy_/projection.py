"""Projections in numpy alone: the twins of csrc/core/projection.hpp and csrc/core/tilt.hpp."""

from __future__ import annotations

import math

import numpy as np

from privmw.kernels.arrays import Array, Float64s, Int64s, UInt32s
from privmw.kernels.cells import powers_of_two

LEAST_NORMAL = -708.0  # exp of it is still a normal number
DEEPEST = 2 * LEAST_NORMAL
INVERSE_LN2 = float.fromhex("0x1.71547652b82fep0")
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b3ap-40")
TAYLOR = tuple(1 / math.factorial(k) for k in range(13, 1, -1))

GRAM_BLOCK_CELLS = 2**20  # of a dense block of rows for a gram matrix: 8 MB


class Incidence:
    """The queries that groups match, group by group."""

    def __init__(self, starts: Int64s, queries: UInt32s, count: int) -> None:
        self._starts, self._queries, self._count = starts, queries, count

    def _of_entries(self, per_group: Array) -> Array:
        return np.repeat(per_group, np.diff(self._starts))

    def potentials(self, values: Float64s, out: Float64s, threads: int) -> None:
        """Writes for each group the sum of the values of its queries."""
        # bincount adds in order, and includes groups without queries.
        groups = self._of_entries(np.arange(len(out)))
        out[:] = np.bincount(groups, values[self._queries], len(out))

    def sums(self, weights: Float64s, out: Float64s) -> None:
        """Writes for each query the sum of the weights of its groups."""
        out[:] = np.bincount(self._queries, self._of_entries(weights), len(out))

    def gram(self, weights: Float64s, threads: int) -> Float64s:
        """For each pair of queries the sum of the weights of the groups that match both."""
        matrix = np.zeros((self._count, self._count))
        block = max(1, GRAM_BLOCK_CELLS // max(1, self._count))
        for first in range(0, len(weights), block):
            block_weights = weights[first : first + block]
            starts = self._starts[first : first + block + 1]
            dense = np.zeros((len(block_weights), self._count))
            groups = np.repeat(np.arange(len(block_weights)), np.diff(starts))
            dense[groups, self._queries[starts[0] : starts[-1]]] = 1
            matrix += (dense * block_weights[:, None]).T @ dense
        symmetric: Float64s = np.triu(matrix) + np.triu(matrix, 1).T
        return symmetric

    def nbytes(self) -> int:
        """Bytes allocated beside the caller's arrays."""
        return 0


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
    groups = len(starts) - 1
    matched_by = np.split(matched, matched_starts[1:-1])
    cut_by = np.split(cut, cut_starts[1:-1])
    lengths = np.zeros(groups + len(cut), np.int64)
    lengths[:groups] = np.diff(starts)
    count = groups
    for entire, parents in zip(matched_by, cut_by, strict=True):
        lengths[entire] += 1
        lengths[count : count + len(parents)] = lengths[parents] + 1
        count += len(parents)
    new_starts = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=new_starts[1:])
    new_queries, ends = np.empty(new_starts[-1], np.uint32), new_starts[:-1].copy()

    def append(first_group: int, source: UInt32s, begins: Int64s, sizes: Int64s) -> None:
        """Append to each group from this one on some entries of its source."""
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        groups_ends = ends[first_group : first_group + len(sizes)]
        new_queries[np.repeat(groups_ends, sizes) + within] = source[np.repeat(begins, sizes) + within]
        groups_ends += sizes

    append(0, queries, starts[:-1], np.diff(starts))
    count = groups
    for query, (entire, parents) in enumerate(zip(matched_by, cut_by, strict=True), first):
        new_queries[ends[entire]] = query
        ends[entire] += 1
        append(count, new_queries, new_starts[parents], ends[parents] - new_starts[parents])
        parts = slice(count, count + len(parents))
        new_queries[ends[parts]] = query
        ends[parts] += 1
        count += len(parents)
    return new_starts, new_queries


def solve_positive(matrix: Float64s, right: Float64s, out: Float64s) -> None:
    """Writes the solution of matrix * out = right; the matrix comes as one row after another."""
    out[:] = right
    lower = matrix.reshape(len(right), len(right)).copy()
    for j in range(len(right)):
        inverse = 1 / np.sqrt(lower[j, j]) if lower[j, j] > 0 else 0.0
        lower[j, j] = inverse
        out[j] *= inverse
        column = lower[j + 1 :, j]
        column *= inverse
        out[j + 1 :] -= column * out[j]
        lower[j + 1 :, j + 1 :] -= column[:, None] * column
    for j in reversed(range(len(right))):
        out[j] *= lower[j, j]
        out[:j] -= lower[j, :j] * out[j]


def most_potential(base: Float64s, potentials: Float64s, threads: int) -> float:
    """The largest potential of a row with base above zero, -inf if there is none.

    NaN unless every base is finite and none negative; else inf unless every potential is finite.
    """
    if not ((base >= 0) & (base < np.inf)).all():
        return np.nan
    if not np.isfinite(potentials).all():
        return np.inf
    return float(potentials.max(initial=-np.inf, where=base > 0))


def exp_of_negative(x: Float64s) -> Float64s:
    """The exponentials of numbers from -708 to 0, bit for bit those of csrc/core/exponential.hpp."""
    n = np.rint(x * INVERSE_LN2)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    p = np.full(len(x), TAYLOR[0])
    for coefficient in TAYLOR[1:]:
        p *= r
        p += coefficient
    powers: Float64s = np.ldexp(1 + (r + r * r * p), n.astype(np.int32))
    return powers


def tilt(base: Float64s, potentials: Float64s, most: float, out: Float64s, threads: int) -> float:
    """Writes base * exp(potentials - most), and returns the largest."""
    with np.errstate(over="ignore", under="ignore"):
        x = np.minimum(potentials - most, 0)
        clipped = np.maximum(x, DEEPEST)
        deep = clipped < LEAST_NORMAL
        powers = exp_of_negative(np.where(deep, 0.5 * clipped, clipped))
        out[:] = np.where(x > DEEPEST, base * np.where(deep, powers, 1) * powers, 0)
    return float(out.max(initial=0))


def normalise(weights: Float64s, exponent: int, factor: float, threads: int) -> None:
    """Multiplies weights in place by 2^exponent * factor."""
    first, second = powers_of_two(exponent)
    with np.errstate(under="ignore"):
        weights *= first
        weights *= second
        weights *= factor
