"""Draws: exact coins, discrete noise and selections, and the scores that selections take.

Each draw takes a bit generator first (`privmw.random.privacy_stream(rng).bit_generator`). Rationals are a
numerator and a denominator of up to 4096 bits; a candidate weighs exp(-(largest score - score) * gamma). The
kernels check arguments themselves, before the first word, since only they know how long an integer may be.
"""

from __future__ import annotations

from typing import Any

from privmw.kernels import choice
from privmw.kernels.arrays import Bools, Float64s, Int64s


class Errors:
    """Errors of answers as integers, |count 2^bits - rint(answer whole)|, one per cell.

    Used as scores by selections. The native kernels compute each on access, and store none.
    """

    def __init__(self, counts: Int64s, answers: Float64s, whole: float, bits: int) -> None:
        self._core = choice.kernels.Errors(counts, answers, whole, bits)

    def __len__(self) -> int:
        return len(self._core)

    def scores(self) -> Int64s:
        """Every error, as a new array."""
        return self._core.scores()

    def largest(self, starts: Int64s) -> Int64s:
        """The largest error among the cells starts[j] to starts[j + 1] - 1, for each j."""
        return self._core.largest(starts)


def coin_exp(bit_generator: Any, numerator: int, denominator: int, size: int) -> Bools:
    """Coins of probability exp(-numerator / denominator)."""
    return choice.kernels.coin_exp(bit_generator, numerator, denominator, size)


def bernoulli(bit_generator: Any, numerator: int, denominator: int, size: int) -> Bools:
    """Coins of probability numerator / denominator."""
    return choice.kernels.bernoulli(bit_generator, numerator, denominator, size)


def uniform_below(bit_generator: Any, bound: int, size: int) -> Int64s:
    """Uniform integers from 0 to bound - 1."""
    return choice.kernels.uniform_below(bit_generator, bound, size)


def discrete_laplace(bit_generator: Any, scale_numerator: int, scale_denominator: int, size: int) -> Int64s:
    """Integers x with probability proportional to exp(-|x| / scale)."""
    return choice.kernels.discrete_laplace(bit_generator, scale_numerator, scale_denominator, size)


def discrete_gaussian(
    bit_generator: Any, sigma2_numerator: int, sigma2_denominator: int, size: int
) -> Int64s:
    """Integers x with probability proportional to exp(-x^2 / (2 sigma^2))."""
    return choice.kernels.discrete_gaussian(bit_generator, sigma2_numerator, sigma2_denominator, size)


def select_permute_and_flip(
    bit_generator: Any,
    scores: Int64s | Errors,
    gamma_numerator: int,
    gamma_denominator: int,
    k: int,
    excluded: Int64s | None = None,
) -> Int64s:
    """Selects k candidates by permute-and-flip; those excluded must ascend."""
    return choice.kernels.select_permute_and_flip(
        bit_generator, _scores_of(scores), gamma_numerator, gamma_denominator, k, excluded
    )


def select_exponential(
    bit_generator: Any,
    scores: Int64s | Errors,
    gamma_numerator: int,
    gamma_denominator: int,
    k: int,
    excluded: Int64s | None = None,
) -> Int64s:
    """Selects k candidates by the exponential mechanism; those excluded must ascend."""
    return choice.kernels.select_exponential(
        bit_generator, _scores_of(scores), gamma_numerator, gamma_denominator, k, excluded
    )


def draw_exponential(
    bit_generator: Any, scores: Int64s, gamma_numerator: int, gamma_denominator: int, k: int
) -> Int64s:
    """Draws k candidates by the exponential mechanism, with replacement."""
    return choice.kernels.draw_exponential(bit_generator, scores, gamma_numerator, gamma_denominator, k)


def report_noisy_max(
    bit_generator: Any, scores: Int64s, gamma_numerator: int, gamma_denominator: int, k: int
) -> Int64s:
    """Selects k candidates by report-noisy-max with exponential noise."""
    return choice.kernels.report_noisy_max(bit_generator, scores, gamma_numerator, gamma_denominator, k)


def _scores_of(scores: Int64s | Errors) -> Any:
    return scores._core if isinstance(scores, Errors) else scores
