"""Best responses as plain loops compiled by numba: the twin of csrc/core/responses.hpp."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privmw.kernels.arrays import Int32s, Int64s, UInt32s
from privmw.kernels.numba_.compiled import compiled


@compiled
def _climb(
    codes: UInt32s,
    first_value: Int64s,
    order: Int64s,
    first_literal: Int64s,
    queries: Int64s,
    values: UInt32s,
    weights: Int64s,
    terms: Int64s,
    scores: Int64s,
) -> None:
    records, attributes = codes.shape
    unmet = np.empty(len(weights), np.int64)
    of_values = np.empty(np.max(np.diff(first_value)), np.int64)
    for r in range(records):
        own = terms[r * len(terms) // records]
        unmet[:] = order
        for a in range(attributes):
            for i in range(first_literal[a], first_literal[a + 1]):
                unmet[queries[i]] -= codes[r, a] == values[i]
        moved = True
        while moved:
            moved = False
            for a in range(attributes):
                size = first_value[a + 1] - first_value[a]
                for v in range(size):
                    of_values[v] = own[first_value[a] + v]
                now = codes[r, a]
                for i in range(first_literal[a], first_literal[a + 1]):
                    if unmet[queries[i]] == (now != values[i]):
                        of_values[values[i]] += weights[queries[i]]
                best = 0
                for v in range(1, size):
                    if of_values[v] > of_values[best]:
                        best = v
                if of_values[best] == of_values[now]:
                    continue
                for i in range(first_literal[a], first_literal[a + 1]):
                    unmet[queries[i]] += values[i] == now
                    unmet[queries[i]] -= values[i] == best
                codes[r, a] = best
                moved = True
        score = 0
        for a in range(attributes):
            score += own[first_value[a] + codes[r, a]]
        for q in range(len(weights)):
            if unmet[q] == 0:
                score += weights[q]
        scores[r] = score


def climb(
    codes: UInt32s,
    sizes: Sequence[int],
    attributes: Int32s,
    values: UInt32s,
    starts: Int64s,
    weights: Int64s,
    terms: Int64s,
    groups: int,
    scores: Int64s,
    threads: int,
) -> None:
    """Climbs each record until no single attribute can improve it, and writes the scores."""
    by_attribute = np.argsort(attributes, kind="stable")
    _climb(
        codes,
        np.concatenate([[0], np.cumsum(sizes)]),
        np.diff(starts),
        np.searchsorted(attributes[by_attribute], np.arange(len(sizes) + 1)).astype(np.int64),
        np.repeat(np.arange(len(weights)), np.diff(starts))[by_attribute],
        values[by_attribute],
        weights,
        terms.reshape(groups, -1),
        scores,
    )
