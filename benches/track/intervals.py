"""A confidence interval of a median that assumes nothing of the distribution but independent samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """A median, and the order statistics that enclose the true one with the asked probability or more."""

    low: float
    median: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


def median_interval(samples: Sequence[float], level: float = 0.99) -> Interval:
    """The k-th smallest and k-th largest sample, between which the median lies unless few are on one side.

    Each sample falls below the median with probability 1/2 (at most, where values are tied), so the interval
    misses it with probability 2 P[Binomial(n, 1/2) < k] at most; k is the largest that keeps this within
    1 - level. Too few samples: everything.

    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 0.95)
    Interval(low=2.0, median=5.0, high=8.0)
    """
    ordered, n = sorted(samples), len(samples)
    if n == 0:
        return Interval(-math.inf, math.nan, math.inf)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    k, below = 0, 0
    while 2 * (below + math.comb(n, k)) <= (1 - level) * 2**n:
        below += math.comb(n, k)
        k += 1
    if k == 0:
        return Interval(-math.inf, median, math.inf)
    return Interval(ordered[k - 1], median, ordered[n - k])
