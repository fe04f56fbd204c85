"""Exact selection in Python integers: the twin of csrc/draw/selection.cpp and noisy_max.cpp.

numpy sorts out who is near the top; every draw is a Python integer. It must not know what the scores are.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privmw.kernels import coins_python as coins
from privmw.kernels.coins_python import Decay, NextWord, draw_below

FAR_BITS = 8  # a candidate of weight at most 2^-8 is far from the top
CLASSES = 5

Distances: TypeAlias = NDArray[np.uint64]
# IN: words, indices still in (ascending), their distances from the top, decay, number of candidates at first.
Choose: TypeAlias = Callable[[NextWord, NDArray[np.int64], Distances, Decay, int], int]


def peel(choose: Choose, next_word: NextWord, scores: NDArray[np.int64], decay: Decay, k: int) -> list[int]:
    """Make k choices, each among those that the earlier ones left."""
    present = np.arange(scores.size, dtype=np.int64)
    chosen: list[int] = []
    for _ in range(k):
        left = scores[present].view(np.uint64)
        # Modulo 2^64 the difference is the true one, even where int64 would overflow.
        distances = scores[present].max().view(np.uint64) - left
        chosen.append(choose(next_word, present, distances, decay, scores.size))
        present = present[present != chosen[-1]]
    return chosen


def reach_of(decay: Decay, halvings: int) -> int:
    """The largest distance with exp(-distance * unit) > 2^-halvings, or the largest there can be."""
    beyond = coins.halving_distance(decay.numerator, decay.denominator, halvings)
    return min(beyond - 1, (1 << 64) - 1)


def permute_and_flip(
    next_word: NextWord, present: NDArray[np.int64], distances: Distances, decay: Decay, size: int
) -> int:
    """Every candidate flips its coin; far ones first need eight fair heads, of words that a group shares."""
    near = distances <= np.uint64(reach_of(decay, FAR_BITS))
    heads: list[int] = []
    bits = coins.WORD_BITS
    edges = np.searchsorted(present, np.arange(0, size + bits, bits)).tolist()
    for group, (first, last) in enumerate(pairwise(edges)):
        places = (present[first:last] - group * bits).tolist()
        is_near = near[first:last].tolist()
        lucky = sum(1 << place for place, close in zip(places, is_near, strict=True) if not close)
        for _ in range(FAR_BITS):
            if lucky == 0:
                break
            lucky &= next_word()
        for i, (place, close) in enumerate(zip(places, is_near, strict=True), start=first):
            if (close or lucky >> place & 1) and decay.coin(
                next_word, int(distances[i]), 0 if close else FAR_BITS
            ):
                heads.append(int(present[i]))
    return heads[draw_below(next_word, len(heads))]


def exponential(
    next_word: NextWord, present: NDArray[np.int64], distances: Distances, decay: Decay, size: int
) -> int:
    """Rejection from classes of weights within a factor 2^8 of each other."""
    reaches = np.array([reach_of(decay, FAR_BITS * (c + 1)) for c in range(CLASSES - 1)], dtype=np.uint64)
    classes = np.searchsorted(reaches, distances)  # the number of reaches below the distance
    shares = [
        int(count) << FAR_BITS * (CLASSES - 1 - c)
        for c, count in enumerate(np.bincount(classes, minlength=CLASSES))
    ]
    while True:
        ticket, c = draw_below(next_word, sum(shares)), 0
        while ticket >= shares[c]:
            ticket -= shares[c]
            c += 1
        i = int(np.flatnonzero(classes == c)[ticket >> FAR_BITS * (CLASSES - 1 - c)])
        if decay.coin(next_word, int(distances[i]), FAR_BITS * c):
            return int(present[i])


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


def noisy_max(
    next_word: NextWord, present: NDArray[np.int64], distances: Distances, decay: Decay, size: int
) -> int:
    """The largest score * unit + E, E standard exponential: the smallest U / p."""
    top = int(np.argmin(distances))
    champion = Contender(next_word, decay, int(present[top]), 0)
    for i, (index, distance) in enumerate(zip(present.tolist(), distances.tolist(), strict=True)):
        if i == top:
            continue
        challenger = Contender(next_word, decay, index, distance)
        if challenger.beats(champion):
            champion = challenger
    return champion.index
