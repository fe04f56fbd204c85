"""Words, digits of exp(-gamma) and exact coins in Python integers: the twin of csrc/draw.

This module must not know what the draws protect. The law of every coin: a uniform U in [0, 1) is revealed
word by word. After t words of value W, compare W with P = floor(2^(64 t) p): below is heads, above is tails,
equal draws the next word. Heads has probability p exactly, and which words are drawn depends on p alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

from privmw.secrecy import shown

WORD_BITS = 64  # the tests read the laws off shorter words, by trying them all
LONGEST_COMPARISON = 8
MOST_REFUSALS = 4096  # each below 3/5 likely: csrc/draw/words.hpp

NextWord: TypeAlias = Callable[[], int]


def stuck() -> RuntimeError:
    """A comparison that 8 words leave open (probability 2^-512) means a generator that is stuck."""
    return RuntimeError("bit_generator (its words left a draw without an end) must give random words")


@contextmanager
def words_of(bit_generator: Any) -> Iterator[NextWord]:
    """The words of a numpy BitGenerator, or of an object with `next_word` and `lock`; holds the lock."""
    if hasattr(bit_generator, "next_word"):
        next_word = bit_generator.next_word
    elif hasattr(bit_generator, "ctypes") and hasattr(bit_generator, "lock"):
        interface = bit_generator.ctypes

        def next_word() -> int:
            return int(interface.next_uint64(interface.state))
    else:
        raise TypeError(f"bit_generator ({shown(bit_generator)}) must be a numpy BitGenerator")
    if hasattr(bit_generator, "ready"):
        bit_generator.ready()
    with bit_generator.lock:
        try:
            yield next_word
        finally:
            exp_digits.cache_clear()  # it holds distances and noise, which are secret


@lru_cache(maxsize=64)
def ln2_digits(bits: int) -> int:
    """L with L <= 2^bits ln 2 < L + 2, by ln 2 = 2 atanh(1/3); see csrc/draw/digits.cpp for the bounds."""
    power, total, odd = (2 << (bits + 64)) // 3, 0, 1
    while power:
        total += power // odd
        power //= 9
        odd += 2
    return total >> 64


@lru_cache(maxsize=4096)
def exp_digits(numerator: int, denominator: int, bits: int) -> int:
    """floor(2^bits exp(-numerator / denominator)), exactly: a certified series, widened until it decides."""
    if numerator == 0:
        return 1 << bits
    if numerator * 10000 >= denominator * 6932 * bits:  # ln 2 < 0.6932: the result is below one
        return 0
    guard = 96
    while True:
        # exp(-gamma) = exp(-gamma / 2^h)^(2^h). Terms are off by 6 units at most, the tail by 12, a squaring
        # doubles the error and adds 2: the proof stands in csrc/draw/digits.cpp.
        precision = bits + guard
        halvings = max(0, numerator.bit_length() + 1 - denominator.bit_length()) + 4
        if precision >= halvings:
            y = (numerator << (precision - halvings)) // denominator
        else:
            y = numerator // (denominator << (halvings - precision))
        term = value = 1 << precision
        terms = 1
        while term := ((term * y) >> precision) // terms:
            value += -term if terms % 2 else term
            terms += 1
        error = 6 * terms + 12
        for _ in range(halvings):
            value = (value * value) >> precision
            error = 2 * error + 2
        low, high = (value - error) >> guard, (value + error) >> guard
        if 2 * error.bit_length() <= precision and low == high:
            return low
        guard *= 2


def halving_distance(numerator: int, denominator: int, halvings: int) -> int:
    """The smallest integer d with exp(-d numerator / denominator) <= 2^-halvings."""
    scaled = denominator * halvings
    bits = 64 + scaled.bit_length()
    while True:
        ln2 = ln2_digits(bits)
        low, high = scaled * ln2 // (numerator << bits), scaled * (ln2 + 2) // (numerator << bits)
        if low == high:
            return low + 1
        bits *= 2


class Decay:
    """exp(-m * unit) for a rational unit, and its coins."""

    def __init__(self, numerator: int, denominator: int) -> None:
        self.numerator, self.denominator = numerator, denominator

    def digits(self, m: int, bits: int) -> int:
        """floor(2^bits exp(-m unit)), exactly."""
        return exp_digits(m * self.numerator, self.denominator, bits)

    def coin(self, next_word: NextWord, m: int, shift: int = 0) -> bool:
        """Heads with probability 2^shift exp(-m unit) <= 1; m = 0 is heads without a word."""
        if m == 0:
            return True
        drawn = 0
        for count in range(1, LONGEST_COMPARISON + 1):
            drawn = (drawn << WORD_BITS) | next_word()
            digits = self.digits(m, WORD_BITS * count + shift)
            if drawn != digits:
                return drawn < digits
        raise stuck()

    def geometric(self, next_word: NextWord, step: int) -> int:
        """The largest v with U < exp(-v step unit), for one lazily revealed uniform U."""
        passed = drawn = 0
        for count in range(1, LONGEST_COMPARISON + 1):
            drawn = (drawn << WORD_BITS) | next_word()
            while drawn < (digits := self.digits(step * (passed + 1), WORD_BITS * count)):
                passed += 1
            if drawn > digits:
                return passed
        raise stuck()


def draw_below(next_word: NextWord, bound: int) -> int:
    """Uniform on 0 .. bound-1: floor(word * bound / 2^64), less the words that would favour some results."""
    if bound == 1:
        return 0
    refused = (1 << WORD_BITS) % bound
    for _ in range(MOST_REFUSALS + 1):
        product = next_word() * bound
        if product & ((1 << WORD_BITS) - 1) >= refused:
            return product >> WORD_BITS
    raise stuck()


def draw_bernoulli(next_word: NextWord, numerator: int, denominator: int) -> bool:
    """True with probability numerator / denominator; a prefix equal to it is False; 1 needs no word."""
    if numerator == denominator:
        return True
    drawn = 0
    for count in range(1, LONGEST_COMPARISON + 1):
        drawn = (drawn << WORD_BITS) | next_word()
        digits, rest = divmod(numerator << (WORD_BITS * count), denominator)
        if drawn != digits or rest == 0:
            return drawn < digits
    raise stuck()
