"""Moves as plain loops compiled by numba: the twin of csrc/core/moves.hpp."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privmw.kernels.arrays import Float64s, Int32s, Int64s, UInt32s, UInt64s
from privmw.kernels.cells import powers_of_two
from privmw.kernels.numba_.compiled import compiled
from privmw.kernels.numba_.projection import exp_of_negative
from privmw.kernels.numpy_ import moves
from privmw.kernels.numpy_.projection import LEAST_NORMAL


@compiled
def _add_scores(
    values: Int64s, codes: UInt32s, attributes: Int32s, strides: Int64s, stride: int, scores: Int64s
) -> None:
    """Adds a marginal's values: one for each record and value of the attribute with this stride."""
    for r in range(len(scores)):
        at = 0
        for i in range(len(attributes)):
            at += codes[r, attributes[i]] * strides[i]
        for v in range(scores.shape[1]):
            scores[r, v] += values[at + v * stride]


@compiled
def _draw(
    scores: Int64s,
    kept: UInt32s,
    keep: float,
    base: Float64s,
    words: UInt64s,
    first: float,
    second: float,
    out: UInt32s,
) -> None:
    sums = np.empty(len(base))
    for r in range(len(scores)):
        most = np.iinfo(np.int64).min
        for v in range(len(base)):
            if base[v] > 0 or (keep > 0 and v == kept[r]):
                most = max(most, scores[r, v])
        total, last = 0.0, 0
        for v in range(len(base)):
            weight = base[v] + keep if v == kept[r] else base[v]
            # Values of weight zero may have scores above the largest: they stay zero.
            below = np.float64(min(scores[r, v] - most, 0)) * first * second
            weight *= exp_of_negative(below) if below >= LEAST_NORMAL else 0.0
            if weight > 0:
                last = v
            total += weight
            sums[v] = total
        point = np.float64(words[r] >> np.uint64(11)) * 2.0**-53 * total
        drawn = 0
        while drawn < last and sums[drawn] <= point:
            drawn += 1
        out[r] = drawn


class Moves(moves.Moves):
    """Records drawn anew, one attribute at a time, under the values of a workload's cells."""

    def __init__(self, sizes: Sequence[int], attributes: Int32s, starts: Int64s) -> None:
        super().__init__(sizes, attributes, starts)
        # The steps of each marginal's attributes, in cells.
        self._strides = [
            np.array([np.prod(shape[i + 1 :], dtype=np.int64) for i in range(len(shape))])
            for _, shape, _ in self._marginals
        ]

    def _scores(self, codes: UInt32s, attribute: int) -> Int64s:
        scores = np.zeros((len(codes), self._sizes[attribute]), np.int64)
        for (marginal, _, place), strides in zip(self._marginals, self._strides, strict=True):
            if attribute in marginal:
                at = marginal.index(attribute)
                others = np.array(marginal[:at] + marginal[at + 1 :], np.int32)
                _add_scores(
                    self._values[place], codes, others, np.delete(strides, at), int(strides[at]), scores
                )
        return scores

    def _draw(
        self, scores: Int64s, kept: UInt32s, keep: float, base: Float64s, words: UInt64s, out: UInt32s
    ) -> None:
        _draw(scores, kept, keep, base, words, *powers_of_two(self._exponent), out)

    def _potential_sums(self, codes: UInt32s) -> Int64s:
        sums = np.zeros((len(codes), 1), np.int64)
        for (marginal, _, place), strides in zip(self._marginals, self._strides, strict=True):
            _add_scores(self._values[place], codes, np.array(marginal, np.int32), strides, 0, sums)
        return sums[:, 0]
