"""Projections onto measured queries: groups of rows, the queries they match, and tilts."""

from __future__ import annotations

import math

import numpy as np

from privmw.kernels import choice
from privmw.kernels.arrays import Float64s, Int64s, UInt32s, freeze, frozen
from privmw.kernels.cells import MASS_BITS
from privmw.kernels.checks import (
    check_array,
    check_integer,
    check_length,
    check_out,
    check_starts,
    check_within,
)
from privmw.kernels.choice import backend, threads_of
from privmw.ranks import ALONE, Communicator, max_over_ranks, sum_over_ranks

MOST_INCIDENCE_QUERIES = 2**32 - 1


class Incidence:
    """The queries that groups of rows match: group g matches queries[starts[g]:starts[g + 1]].

    Queries ascend within a group, below `count`. The arrays are copied unless they are read-only.

    >>> incidence = Incidence(np.array([0, 2, 2, 3]), np.array([0, 1, 1], np.uint32), 2)
    >>> incidence.potentials(np.array([1.0, 10.0]))
    array([11.,  0., 10.])
    """

    def __init__(self, starts: Int64s, queries: UInt32s, count: int) -> None:
        queries = check_array("queries", queries, np.uint32)
        starts = check_starts(starts, len(queries), "queries")
        self.count = check_integer("count", count, 0, MOST_INCIDENCE_QUERIES)
        check_within("queries", queries, self.count)
        within = np.ones(len(queries) + 1, bool)
        within[starts] = False
        if not (queries[1:] > queries[:-1])[within[1:-1]].all():
            raise ValueError("queries must ascend within each group")
        self.groups = len(starts) - 1
        self.starts, self.queries = frozen(starts), frozen(queries)
        self._core = choice.kernels.Incidence(self.starts, self.queries, self.count)

    def potentials(
        self, values: Float64s, out: Float64s | None = None, *, threads: int | None = None
    ) -> Float64s:
        """For each group the sum of the values of its queries."""
        check_length("values", check_array("values", values, np.float64), self.count)
        out = check_out(out, np.float64, self.groups, values=values)
        self._core.potentials(values, out, threads_of(threads))
        return out

    def sums(self, weights: Float64s, out: Float64s | None = None) -> Float64s:
        """For each query the sum of the weights of its groups, added in the order of the groups.

        >>> Incidence(np.array([0, 2, 3]), np.array([0, 1, 1], np.uint32), 2).sums(np.array([0.25, 0.5]))
        array([0.25, 0.75])
        """
        check_length("weights", check_array("weights", weights, np.float64), self.groups)
        out = check_out(out, np.float64, self.count, weights=weights)
        self._core.sums(weights, out)
        return out

    def gram(self, weights: Float64s, *, threads: int | None = None) -> Float64s:
        """For each pair of queries the sum of the weights of the groups that match both.

        >>> Incidence(np.array([0, 2, 3]), np.array([0, 1, 1], np.uint32), 2).gram(np.array([0.25, 0.5]))
        array([[0.25, 0.25],
               [0.25, 0.75]])
        """
        check_length("weights", check_array("weights", weights, np.float64), self.groups)
        return self._core.gram(weights, threads_of(threads))

    @property
    def nbytes(self) -> int:
        """Bytes allocated beside `starts` and `queries`."""
        return int(self._core.nbytes())

    def __repr__(self) -> str:
        return f"Incidence({self.groups} groups x {self.count} queries, {backend()})"


def split_lists(
    starts: Int64s, queries: UInt32s, first: int, matched: list[Int64s], cut: list[Int64s]
) -> tuple[Int64s, UInt32s]:
    """Add queries to the lists of an `Incidence`; returns its starts and queries, read-only.

    The new queries are numbered from `first`, above those listed. For each, `matched` has the groups that it
    matches entirely, and `cut` those that it matches in part (all distinct). The matching part of a cut group
    becomes a new group, numbered after all others, with the queries of its group so far.

    >>> starts, queries = np.array([0, 1, 1]), np.array([0], np.uint32)
    >>> split_lists(starts, queries, 1, [np.array([1])], [np.array([0])])
    (array([0, 1, 2, 4]), array([0, 1, 0, 1], dtype=uint32))
    """
    queries = check_array("queries", queries, np.uint32)
    starts = check_starts(starts, len(queries), "queries")
    first = check_integer("first", first, 0, MOST_INCIDENCE_QUERIES - len(matched))
    if len(matched) != len(cut):
        raise ValueError(f"cut ({len(cut)} queries) must be as many as matched ({len(matched)})")
    groups = len(starts) - 1
    for entire, parents in zip(matched, cut, strict=True):
        check_within("matched", check_array("matched", entire, np.int64), groups)
        check_within("cut", check_array("cut", parents, np.int64), groups)
        groups += len(parents)
    joined = [part for parts in (matched, cut) for part in _joined(parts)]
    new_starts, new_queries = choice.kernels.split_lists(starts, queries, first, *joined)
    return freeze(new_starts), freeze(new_queries)


def _joined(parts: list[Int64s]) -> tuple[Int64s, Int64s]:
    """The concatenated parts, and where each begins, with the end."""
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    return np.concatenate([np.empty(0, np.int64), *parts]), starts


def solve_positive(matrix: Float64s, right: Float64s) -> Float64s:
    """The solution of matrix * solution = right, for a symmetric positive definite matrix.

    The same bits on every backend, machine and number of threads, which linear algebra libraries do not
    promise.

    >>> solve_positive(np.array([[4.0, 2.0], [2.0, 5.0]]), np.array([8.0, 8.0]))
    array([1.5, 1. ])
    """
    check_array("right", right, np.float64)
    if np.shape(matrix) != (len(right), len(right)):
        raise ValueError(f"matrix {np.shape(matrix)} must be {len(right)} x {len(right)}")
    entries = check_array("matrix", np.reshape(matrix, -1), np.float64)
    out = np.empty(len(right))
    choice.kernels.solve_positive(entries, right, out)
    return out


def tilt(
    base: Float64s,
    potentials: Float64s,
    out: Float64s | None = None,
    *,
    threads: int | None = None,
    comm: Communicator = ALONE,
) -> tuple[Float64s, float]:
    """The weights base * exp(potentials - log_total), which sum to one, and log_total.

    base: finite, none negative and not all zero. potentials: finite, of any size: the largest one with base
    above zero is subtracted first. On several ranks, the total is over all rows, and every rank raises the
    same error. It is a sum of integers: any number of ranks and every backend gives the same bits.

    >>> weights, log_total = tilt(np.array([1.0, 3.0]), np.array([1000.0, 1000.0]))
    >>> weights, round(log_total, 3)
    (array([0.25, 0.75]), 1001.386)
    """
    check_array("base", base, np.float64)
    check_length("potentials", check_array("potentials", potentials, np.float64), len(base))
    out = check_out(out, np.float64, len(base), potentials=potentials, base=base)
    workers = threads_of(threads)
    largest = max_over_ranks(comm, choice.kernels.most_potential(base, potentials, workers))
    if largest == math.inf:
        raise ValueError("potentials must be finite")
    if not largest > -math.inf:  # or NaN
        raise ValueError("base must be finite, none negative and not all zero")
    # With the heaviest row in [1/2, 1) the masses total at least 2^59; rows below 2^-60 of it round to 0.
    exponent = -math.frexp(
        max_over_ranks(comm, choice.kernels.tilt(base, potentials, largest, out, workers))
    )[1]
    mass = sum_over_ranks(comm, choice.kernels.total_mass(out, exponent, workers))
    # The total is 2^bits / factor units of 2^-(60 + exponent).
    bits = mass.bit_length() - 1
    factor, up = 2**bits / mass, MASS_BITS + exponent - bits
    choice.kernels.normalise(out, up, factor, workers)
    return out, largest - (math.log(factor) + up * math.log(2))
