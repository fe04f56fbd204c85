"""Moves in numpy alone: the twin of csrc/core/moves.hpp."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from privmw.kernels.arrays import Array, Float64s, Int32s, Int64s, UInt32s, UInt64s
from privmw.kernels.cells import powers_of_two
from privmw.kernels.numpy_.projection import LEAST_NORMAL, exp_of_negative

_BLOCK_SCORES = 2**18  # scores of values taken together: 2 MB


class Moves:
    """Records drawn anew, one attribute at a time, under the values of a workload's cells."""

    def __init__(self, sizes: Sequence[int], attributes: Int32s, starts: Int64s) -> None:
        self._sizes = sizes
        marginals = [attributes[a:b].tolist() for a, b in itertools.pairwise(starts.tolist())]
        shapes = [tuple(sizes[a] for a in marginal) for marginal in marginals]
        ends = itertools.accumulate(map(math.prod, shapes), initial=0)
        # The attributes and the shape of each marginal, and the place of its cells among all.
        self._marginals = [
            (marginal, shape, slice(begin, end))
            for marginal, shape, (begin, end) in zip(marginals, shapes, itertools.pairwise(ends), strict=True)
        ]
        cells = self._marginals[-1][2].stop if marginals else 0
        self.set_values(np.zeros(cells, np.int64), 0)

    def set_values(self, values: Int64s, exponent: int) -> None:
        """Sets the value of each cell, in units of 2^exponent; the array is kept."""
        self._values, self._exponent = values, exponent

    def redraw(
        self,
        codes: UInt32s,
        attributes: Sequence[int],
        kept: UInt32s,
        keep: float,
        base: Sequence[Float64s],
        words: Sequence[UInt64s],
        threads: int,
    ) -> None:
        """Draws codes[:, a] anew for each attribute: (keep * [v == kept] + base[v]) * exp(score with v)."""
        for a, weights, of_records in zip(attributes, base, words, strict=True):
            block = max(1, _BLOCK_SCORES // len(weights))
            for first in range(0, len(codes), block):
                here = slice(first, first + block)
                scores = self._scores(codes[here], a)
                self._draw(scores, kept[here, a], keep, weights, of_records[here], codes[here, a])

    def _scores(self, codes: UInt32s, attribute: int) -> Int64s:
        """For each record and value the sum over the marginals that have the attribute."""
        scores = np.zeros((len(codes), self._sizes[attribute]), np.int64)
        for others, values in self._tables(attribute):
            scores += values[tuple(codes[:, a] for a in others)]
        return scores

    def _tables(self, attribute: int) -> Iterator[tuple[list[int], Array]]:
        """The other attributes of each marginal of the attribute, and its values with the attribute last."""
        for marginal, shape, place in self._marginals:
            if attribute in marginal:
                values = self._values[place].reshape(shape)
                yield (
                    [a for a in marginal if a != attribute],
                    np.moveaxis(values, marginal.index(attribute), -1),
                )

    def _draw(
        self, scores: Int64s, kept: UInt32s, keep: float, base: Float64s, words: UInt64s, out: UInt32s
    ) -> None:
        """Writes a value for each row of scores."""
        rows = np.arange(len(scores))
        weights = np.tile(base, (len(scores), 1))
        weights[rows, kept] = keep + base[kept]
        most = scores.max(axis=1, initial=np.iinfo(np.int64).min, where=weights > 0)
        first, second = powers_of_two(self._exponent)
        with np.errstate(over="ignore", under="ignore"):
            # Values of weight zero may have scores above the largest: they stay zero.
            below = np.minimum(scores - most[:, None], 0).astype(np.float64) * first * second
            powers = exp_of_negative(np.maximum(below, LEAST_NORMAL).ravel()).reshape(below.shape)
            weights *= np.where(below < LEAST_NORMAL, 0, powers)
            sums = np.cumsum(weights, axis=1)
            points = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * sums[:, -1]
        above = sums > points[:, None]
        last = weights.shape[1] - 1 - (weights[:, ::-1] > 0).argmax(axis=1)
        out[:] = np.where(above[:, -1], above.argmax(axis=1), last)

    def potentials(self, codes: UInt32s, out: Float64s, threads: int) -> None:
        """Writes for each record the sum of the values of its cells."""
        first, second = powers_of_two(self._exponent)
        with np.errstate(over="ignore", under="ignore"):
            out[:] = self._potential_sums(codes).astype(np.float64) * first * second

    def _potential_sums(self, codes: UInt32s) -> Int64s:
        sums = np.zeros(len(codes), np.int64)
        for marginal, shape, place in self._marginals:
            sums += self._values[place].reshape(shape)[tuple(codes[:, a] for a in marginal)]
        return sums

    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._values.nbytes
