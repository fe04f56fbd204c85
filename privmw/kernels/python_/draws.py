"""Exact draws in Python integers: the twins of csrc/bind/draws.cpp, used where the extension is not built.

Slow: about ten microseconds a coin, twenty nanoseconds in the extension. From the same words both give the
same results, which the tests check. Arguments are checked before the first word is drawn. This module must
not know what the draws protect.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.kernels.checks import LONGEST_INTEGER
from privmw.kernels.python_ import coins, selection
from privmw.kernels.python_.coins import Decay, NextWord, draw_below, draw_bernoulli, words_of
from privmw.secrecy import erasing, expect, expect_array

LARGEST_SCALE_BITS = 40


def draw_laplace(next_word: NextWord, decay: Decay, width: int) -> int | None:
    """One proposal: |x| = width * strip + place; None is refused. The proof stands in csrc/draw/noise.cpp."""
    place = draw_below(next_word, 2 * width)
    if not decay.coin(next_word, place >> 1):
        return None
    size = width * decay.geometric(next_word, width) + (place >> 1)
    if place & 1:
        return -size or None
    return size


def draw_gaussian(next_word: NextWord, decay: Decay, width: int) -> int | None:
    """One proposal, as above; the coin's probability is exp(-x^2 / (2 sigma^2)) over the strip's weight."""
    place = draw_below(next_word, 2 * width)
    strip = decay.geometric(next_word, width * width)
    size = width * strip + (place >> 1)
    if place & 1 and size == 0:
        return None
    if not decay.coin(next_word, size * size - width * width * strip):
        return None
    return -size if place & 1 else size


def natural(
    name: str, value: Any, least: int, most: int | None = None, requirement: str | None = None
) -> int:
    """The value as a Python integer, refused as the extension refuses it unless it is in its range."""
    expect(name, value, hasattr(value, "__index__") and not isinstance(value, bool), "an integer")
    integer = operator.index(value)
    if integer < least or (most is not None and integer > most):
        raise ValueError(
            f"{name} ({integer}) must {requirement or ('be positive' if least else 'be non-negative')}"
        )
    if most is None and integer.bit_length() > LONGEST_INTEGER:
        raise ValueError(f"{name} ({integer.bit_length()} bits) must have at most {LONGEST_INTEGER} bits")
    return integer


def size_of(size: Any) -> int:
    """The number of draws."""
    return natural("size", size, 0, (1 << 63) - 1, "be non-negative")


def coin_exp(bit_generator: Any, numerator: int, denominator: int, size: int) -> Bools:
    """Coins of probability exp(-numerator / denominator)."""
    decay = Decay(natural("numerator", numerator, 0), natural("denominator", denominator, 1))
    count, m = size_of(size), 1 if decay.numerator else 0
    with words_of(bit_generator) as next_word:
        return np.array([decay.coin(next_word, m) for _ in range(count)], dtype=np.bool_)


def bernoulli(bit_generator: Any, numerator: int, denominator: int, size: int) -> Bools:
    """Coins of probability numerator / denominator."""
    above, below = natural("numerator", numerator, 0), natural("denominator", denominator, 1)
    if above > below:
        raise ValueError(f"probability ({numerator}/{denominator}) must be at most 1")
    count = size_of(size)
    with words_of(bit_generator) as next_word:
        return np.array([draw_bernoulli(next_word, above, below) for _ in range(count)], dtype=np.bool_)


def uniform_below(bit_generator: Any, bound: int, size: int) -> Int64s:
    """Uniform integers on 0 .. bound-1."""
    below = natural("bound", bound, 1, (1 << 63) - 1, "be between 1 and 2^63 - 1")
    count = size_of(size)
    with words_of(bit_generator) as next_word:
        return np.array([draw_below(next_word, below) for _ in range(count)], dtype=np.int64)


def draw_noise(bit_generator: Any, propose: Callable[[NextWord], int | None], size: int) -> Int64s:
    """Proposals until `size` are accepted."""
    out = np.empty(size_of(size), dtype=np.int64)
    with words_of(bit_generator) as next_word:
        for i in range(out.size):
            proposals = (propose(next_word) for _ in range(coins.MOST_REFUSALS))
            x = next((proposal for proposal in proposals if proposal is not None), None)
            if x is None:
                raise coins.stuck()
            out[i] = x
    return out


def discrete_laplace(bit_generator: Any, scale_numerator: int, scale_denominator: int, size: int) -> Int64s:
    """Pr[x] proportional to exp(-|x| / scale)."""
    above, below = (
        natural("scale_numerator", scale_numerator, 1),
        natural("scale_denominator", scale_denominator, 1),
    )
    if above > below << LARGEST_SCALE_BITS:
        raise ValueError(f"scale ({scale_numerator}/{scale_denominator}) must be at most 2^40")
    decay, width = Decay(below, above), max(1, above // (4 * below))
    return draw_noise(bit_generator, lambda next_word: draw_laplace(next_word, decay, width), size)


def discrete_gaussian(
    bit_generator: Any, sigma2_numerator: int, sigma2_denominator: int, size: int
) -> Int64s:
    """Pr[x] proportional to exp(-x^2 / (2 sigma^2))."""
    above, below = (
        natural("sigma2_numerator", sigma2_numerator, 1),
        natural("sigma2_denominator", sigma2_denominator, 1),
    )
    if above > below << (2 * LARGEST_SCALE_BITS):
        raise ValueError(f"sigma2 ({sigma2_numerator}/{sigma2_denominator}) must be at most 2^80")
    decay, width = Decay(below, 2 * above), max(1, isqrt(5 * above // (2 * below)))
    return draw_noise(bit_generator, lambda next_word: draw_gaussian(next_word, decay, width), size)


def selectable(
    scores: Any,
    gamma_numerator: int,
    gamma_denominator: int,
    k: int,
    excluded: Any = None,
    *,
    most: int | None = None,
) -> tuple[Int64s, Decay, int]:
    """Scores, decay and k, checked; most: of k, with replacement.

    Nothing here depends on the value of a score: they are private.
    """
    expect_array("scores", scores, np.int64)
    if scores.ndim != 1 or not scores.flags.c_contiguous:
        raise ValueError(f"scores ({scores.ndim} dimensions) must be one-dimensional and contiguous")
    if not 1 <= scores.size < 1 << 31:
        raise ValueError(f"scores ({scores.size} candidates) must have between 1 and 2^31 - 1 candidates")
    without: Int64s = np.empty(0, np.int64) if excluded is None else excluded
    edges = np.concatenate([[-1], without, [scores.size]])
    if (bad := np.flatnonzero(edges[1:] <= edges[:-1])).size:
        raise ValueError(f"excluded ({edges[bad[0]]}) must ascend, within the candidates")
    decay = Decay(
        natural("gamma_numerator", gamma_numerator, 1), natural("gamma_denominator", gamma_denominator, 1)
    )
    if most is not None:
        return scores, decay, natural("k", k, 1, most, "be between 1 and 2^31")
    most = scores.size - without.size
    return scores, decay, natural("k", k, 1, most, "be between 1 and the number of candidates")


def select(bit_generator: Any, choose: selection.Choose, scores: Any, *options: Any) -> Int64s:
    """Makes k choices, after all checks. The scores of Errors are stored for it, and erased."""
    if isinstance(scores, Errors):
        with erasing() as erased:
            return select(bit_generator, choose, erased(scores.scores()), *options)
    checked, decay, count = selectable(scores, *options)
    with words_of(bit_generator) as next_word:
        return np.array(selection.peel(choose, next_word, checked, decay, count, options[3]), dtype=np.int64)


def select_permute_and_flip(
    bit_generator: Any,
    scores: Int64s | Errors,
    gamma_numerator: int,
    gamma_denominator: int,
    k: int,
    excluded: Int64s | None = None,
) -> Int64s:
    """Select k candidates by permute-and-flip, gamma per unit of score."""
    options = gamma_numerator, gamma_denominator, k, excluded
    return select(bit_generator, selection.permute_and_flip, scores, *options)


def select_exponential(
    bit_generator: Any,
    scores: Int64s | Errors,
    gamma_numerator: int,
    gamma_denominator: int,
    k: int,
    excluded: Int64s | None = None,
) -> Int64s:
    """Select k candidates by the exponential mechanism, gamma per unit of score."""
    options = gamma_numerator, gamma_denominator, k, excluded
    return select(bit_generator, selection.exponential, scores, *options)


def draw_exponential(
    bit_generator: Any, scores: Int64s, gamma_numerator: int, gamma_denominator: int, k: int
) -> Int64s:
    """Draw k candidates by the exponential mechanism, with replacement, gamma per unit of score."""
    checked, decay, count = selectable(scores, gamma_numerator, gamma_denominator, k, most=1 << 31)
    with words_of(bit_generator) as next_word:
        return np.array(selection.draw(next_word, checked, decay, count), dtype=np.int64)


def report_noisy_max(
    bit_generator: Any, scores: Int64s, gamma_numerator: int, gamma_denominator: int, k: int
) -> Int64s:
    """Select k candidates by report-noisy-max with exponential noise, gamma per unit of score."""
    checked, decay, count = selectable(scores, gamma_numerator, gamma_denominator, k)
    with words_of(bit_generator) as next_word:
        return np.array(selection.noisy_max(next_word, checked, decay, count), dtype=np.int64)


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
