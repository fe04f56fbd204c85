"""Distances of counts from answers, in numpy: the twin of csrc/draw/errors.hpp. The same integers."""

from __future__ import annotations

import numpy as np

from privmw.kernels.arrays import Float64s, Int64s
from privmw.secrecy import erasing

CELLS_IN_CACHE = 2**15  # with their errors


class Errors:
    """|count 2^bits - rint(answer whole)|, one per cell."""

    def __init__(self, counts: Int64s, answers: Float64s, whole: float, bits: int) -> None:
        if len(counts) != len(answers):
            raise ValueError(f"answers ({len(answers)}) must be one for each of {len(counts)} counts")
        self._counts, self._answers, self._whole, self._bits = counts, answers, whole, bits

    def __len__(self) -> int:
        return len(self._counts)

    def scores(self) -> Int64s:
        """Return every error, as a new array."""
        scores = np.empty(len(self), np.int64)
        for start in range(0, len(self), CELLS_IN_CACHE):
            block = slice(start, start + CELLS_IN_CACHE)
            target = np.rint(self._answers[block] * self._whole).astype(np.int64)
            np.left_shift(self._counts[block], self._bits, out=scores[block])
            np.subtract(scores[block], target, out=scores[block])
            np.abs(scores[block], out=scores[block])
        return scores

    def largest(self, starts: Int64s) -> Int64s:
        """Return the largest error among the cells starts[j] .. starts[j + 1] - 1, for each j."""
        with erasing() as erased:
            scores = erased(self.scores())  # as secret as the counts
            largest: Int64s = np.maximum.reduceat(scores[: starts[-1]], starts[:-1])
        return largest
