"""Best responses: coordinate ascent of records to a large sum of weights of queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privmw.kernels import choice
from privmw.kernels.arrays import Int32s, Int64s, UInt32s
from privmw.kernels.checks import (
    check_apart,
    check_array,
    check_integer,
    check_length,
    check_starts,
    check_within,
)
from privmw.kernels.choice import threads_of
from privmw.secrecy import expect

LARGEST_SCORE = 2**62


def climb(
    codes: UInt32s,
    sizes: Sequence[int],
    attributes: Int32s,
    values: UInt32s,
    starts: Int64s,
    weights: Int64s,
    terms: Int64s,
    *,
    threads: int | None = None,
) -> Int64s:
    """Coordinate ascent of records, in place, until no single attribute can improve one; returns scores.

    The score of a record is the sum of the weights of the queries that it matches and of the terms of its
    values. Query i is attributes[k] == values[k] for all k in starts[i]:starts[i + 1]. Attributes are visited
    in order; each takes the first of its best values if that is better than its own. Scores are integers:
    the bits depend neither on the backend nor on the threads.

    codes: records x attributes. terms: groups x values of all attributes; the records form as many groups of
    equal size, in order.

    >>> codes = np.array([[0, 0], [2, 1]], np.uint32)
    >>> query = np.array([0, 1], np.int32), np.array([1, 1], np.uint32), np.array([0, 2])
    >>> climb(codes, [3, 2], *query, np.array([5]), np.zeros((1, 5), np.int64))
    array([0, 5])
    >>> codes
    array([[0, 0],
           [1, 1]], dtype=uint32)
    """
    expect("sizes", sizes, Sequence, "a list")
    sizes = [check_integer(f"sizes[{a}]", size, 1, 2**32 - 1, quote=False) for a, size in enumerate(sizes)]
    plain = type(codes) is np.ndarray and codes.dtype == np.uint32 and codes.ndim == 2
    sound = plain and codes.flags.c_contiguous and codes.flags.aligned and codes.flags.writeable
    expect("codes", codes, bool(sound), "a writable contiguous two-dimensional array of uint32")
    if codes.shape[1] != len(sizes) or not len(sizes):
        raise ValueError(f"codes ({codes.shape[1]} columns) must have {len(sizes)} columns, at least one")
    for a, size in enumerate(sizes):
        check_within(f"codes of attribute {a}", codes[:, a], size)
    check_array("attributes", attributes, np.int32)
    check_within("attributes", attributes, len(sizes))
    check_length("values", check_array("values", values, np.uint32), len(attributes))
    if (values >= np.array(sizes)[attributes]).any():
        raise ValueError("values must be below the sizes of their attributes")
    check_starts(starts, len(attributes))
    query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if len(np.unique(query * len(sizes) + attributes)) < len(attributes):
        raise ValueError("attributes of a query must be different ones")
    check_length("weights", check_array("weights", weights, np.int64), len(starts) - 1)
    plain = type(terms) is np.ndarray and terms.dtype == np.int64 and terms.ndim == 2
    sound = plain and terms.flags.c_contiguous
    expect("terms", terms, bool(sound), "a contiguous two-dimensional array of int64")
    groups = len(terms)
    if terms.shape[1] != sum(sizes) or groups == 0 or len(codes) % groups:
        raise ValueError(
            f"terms ({groups} x {terms.shape[1]}) must have one for each of the {sum(sizes)} values, in as "
            f"many rows as there are groups of equal size among the {len(codes)} records"
        )
    largest = np.abs(weights.astype(np.float64)).sum()
    largest += np.abs(terms.astype(np.float64)).sum(axis=1).max()
    if largest > LARGEST_SCORE:
        raise ValueError("weights and terms must total at most 2^62 in absolute value")
    check_apart("codes", codes, values=values)
    scores = np.empty(len(codes), np.int64)
    queries = attributes, values, starts, weights
    choice.kernels.climb(codes, sizes, *queries, terms.ravel(), groups, scores, threads_of(threads))
    return scores
