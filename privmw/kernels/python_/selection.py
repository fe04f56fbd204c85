"""Exact selection in Python integers: the twin of csrc/draw/selection.cpp and noisy_max.cpp.

numpy finds the candidates near the top; every draw is a Python integer. This module must not know what the
scores are.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from privmw.kernels.arrays import Int64s
from privmw.kernels.python_ import coins
from privmw.kernels.python_.coins import Decay, NextWord, draw_below
from privmw.secrecy import erasing

STRATUM_BITS = 8  # weights of a stratum are within a factor 2^8 of each other
STRATA = 6
MOST_BITS = 32


def reach_of(decay: Decay, halvings: int) -> int:
    """The largest distance with exp(-distance * unit) > 2^-halvings, or the largest there can be."""
    beyond = coins.halving_distance(decay.numerator, decay.denominator, halvings)
    return min(beyond - 1, (1 << 64) - 1)


class Strata:
    """Candidates in strata of similar weight, as in csrc/draw/strata.hpp.

    The crown, stratum 0, is above the k-th largest score, the floor; the others are by distance from it.
    """

    def __init__(self, scores: Int64s, present: Int64s, decay: Decay, k: int) -> None:
        reaches = [reach_of(decay, STRATUM_BITS * (s + 1)) for s in range(STRATA - 2)]
        with erasing() as erased:
            left = erased(scores[present])
            floor = erased(np.partition(left, left.size - k))[left.size - k]
            # Modulo 2^64 the difference is the true one, even where int64 would overflow.
            below = erased(floor.view(np.uint64) - left.view(np.uint64))
            strata = 1 + np.searchsorted(np.array(reaches, dtype=np.uint64), below)
            strata[left > floor] = 0
        # Those not selected yet, ascending.
        self.members: list[list[int]] = [present[strata == s].tolist() for s in range(STRATA)]
        self.scores, self.floor, self.decay = scores, int(floor), decay
        self.find_top()

    def find_top(self) -> None:
        """Find the largest score not selected yet: of the crown, or the floor."""
        self.top = max([self.floor, *(int(self.scores[i]) for i in self.members[0])])
        # exp(-(top - floor) unit) <= 2^-fallen
        self.fallen, above = 0, self.top - self.floor
        while above > 0 and self.fallen < MOST_BITS and above > reach_of(self.decay, self.fallen + 1):
            self.fallen += 1

    def bits(self, stratum: int) -> int:
        """No weight of the stratum is above 2^-bits."""
        return min(STRATUM_BITS * (stratum - 1) + self.fallen, MOST_BITS) if stratum else 0

    def distance(self, index: int) -> int:
        """The distance of a candidate's score from the top."""
        return self.top - int(self.scores[index])


Choose: TypeAlias = Callable[[NextWord, Strata, Decay], int]


def peel(
    choose: Choose,
    next_word: NextWord,
    scores: Int64s,
    decay: Decay,
    k: int,
    excluded: Int64s | None = None,
) -> list[int]:
    """Make k choices, each among the candidates not chosen before."""
    present = np.arange(scores.size, dtype=np.int64)
    if excluded is not None:
        present = np.delete(present, excluded)
    strata = Strata(scores, present, decay, k)
    chosen: list[int] = []
    while True:
        chosen.append(choose(next_word, strata, decay))
        if len(chosen) == k:
            return chosen
        strata.find_top()


def halve(next_word: NextWord, count: int, bits: int) -> int:
    """The number of heads of `count` coins of chance 1/2, `bits` times over."""
    for _ in range(bits):
        heads = 0
        for first in range(0, count, coins.WORD_BITS):
            heads += (next_word() & ((1 << min(count - first, coins.WORD_BITS)) - 1)).bit_count()
        count = heads
    return count


def none(next_word: NextWord, count: int, bits: int) -> bool:
    """Whether none of count <= 2^bits coins of chance 2^-bits is heads; proof in csrc/draw/selection.cpp."""
    result = True
    while count and (nominated := draw_below(next_word, 1 << bits)) < count:
        count, result = nominated, not result
    return result


def count_heads(next_word: NextWord, count: int, bits: int) -> int:
    """The number of heads of `count` coins of chance 2^-bits: first head after first head, in short lots."""
    if bits < STRATUM_BITS:
        return halve(next_word, count, bits)
    lot, heads = 1 << (bits - 2), 0
    for first in range(0, count, lot):
        left = min(count - first, lot)
        while left:
            nominated = draw_below(next_word, 1 << bits)
            if nominated >= left or not none(next_word, nominated, bits):
                break
            heads, left = heads + 1, left - nominated - 1
    return heads


def draw_stratum(next_word: NextWord, shares: list[int]) -> tuple[int, int]:
    """A stratum in proportion to its share, and where in the share."""
    ticket, stratum = draw_below(next_word, sum(shares)), 0
    while ticket >= shares[stratum]:
        ticket -= shares[stratum]
        stratum += 1
    return stratum, ticket


def permute_and_flip(next_word: NextWord, strata: Strata, decay: Decay) -> int:
    """Toss a coin of chance 2^-bits per candidate; visit those with heads at random until one is accepted."""
    going = [count_heads(next_word, len(strata.members[s]), strata.bits(s)) for s in range(STRATA)]
    seen: list[tuple[int, int]] = []
    most = len(strata.members[0]) + 64 + 2**16  # its reason stands in csrc/draw/selection.cpp
    while True:
        if len(seen) == most:
            raise coins.stuck()
        s, _ = draw_stratum(next_word, going)
        going[s] -= 1
        index = strata.members[s].pop(draw_below(next_word, len(strata.members[s])))
        if decay.coin(next_word, strata.distance(index), strata.bits(s)):
            break
        seen.append((s, index))
    for s, other in seen:
        insort(strata.members[s], other)
    return index


def accepted(next_word: NextWord, strata: Strata, decay: Decay) -> tuple[int, int]:
    """Propose in proportion to the strata's bounds, accept with the rest of the weight: stratum and rank."""
    shares = [len(strata.members[s]) << (MOST_BITS - strata.bits(s)) for s in range(STRATA)]
    for _ in range((len(strata.members[0]) + 513) << 7):  # see csrc/draw/selection.cpp
        s, ticket = draw_stratum(next_word, shares)
        rank = ticket >> (MOST_BITS - strata.bits(s))
        if decay.coin(next_word, strata.distance(strata.members[s][rank]), strata.bits(s)):
            return s, rank
    raise coins.stuck()


def exponential(next_word: NextWord, strata: Strata, decay: Decay) -> int:
    """A candidate in proportion to its weight, which is then no candidate any more."""
    s, rank = accepted(next_word, strata, decay)
    return strata.members[s].pop(rank)


def draw(next_word: NextWord, scores: Int64s, decay: Decay, k: int) -> list[int]:
    """Draw k candidates in proportion to their weights, with replacement."""
    strata = Strata(scores, np.arange(scores.size, dtype=np.int64), decay, 1)
    places = (accepted(next_word, strata, decay) for _ in range(k))
    return [strata.members[s][rank] for s, rank in places]


class Contender:
    """A candidate of report-noisy-max: its distance, and as much of its uniform as was drawn."""

    def __init__(self, next_word: NextWord, decay: Decay, index: int, distance: int) -> None:
        self.next_word, self.decay, self.index, self.distance = next_word, decay, index, distance
        self.drawn = [next_word()]

    def prefix(self, count: int) -> int:
        """floor(2^(64 count) U)."""
        while len(self.drawn) < count:
            self.drawn.append(self.next_word())
        value = 0
        for word in self.drawn[:count]:
            value = (value << coins.WORD_BITS) | word
        return value

    def digits(self, count: int) -> int:
        """floor(2^(64 count) p), or one less when p = 1."""
        bits = coins.WORD_BITS * count
        return self.decay.digits(self.distance, bits) if self.distance else (1 << bits) - 1

    def beats(self, champion: Contender) -> bool:
        """U / p against the champion's, by cross products of enclosures."""
        for count in range(1, coins.LONGEST_COMPARISON + 1):
            held, tried = champion.prefix(count), self.prefix(count)
            held_p, tried_p = champion.digits(count), self.digits(count)
            if (tried + 1) * (held_p + 1) <= held * tried_p:
                return True
            if tried * held_p >= (held + 1) * (tried_p + 1):
                return False
        raise coins.stuck()


def noisy_max(next_word: NextWord, scores: Int64s, decay: Decay, k: int) -> list[int]:
    """The largest score * unit + E, E standard exponential: the smallest U / p; k times, by peeling."""
    left, chosen = list(enumerate(scores.tolist())), []
    for _ in range(k):
        top = max(left, key=lambda candidate: candidate[1])  # the first of the largest
        champion = Contender(next_word, decay, top[0], 0)
        for index, score in left:
            if index == top[0]:
                continue
            challenger = Contender(next_word, decay, index, top[1] - score)
            if challenger.beats(champion):
                champion = challenger
        chosen.append(champion.index)
        left = [candidate for candidate in left if candidate[0] != champion.index]
    return chosen
