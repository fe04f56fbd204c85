"""Apportionment: divides n records among weighted rows. Exact, in integers.

The share of row i, with mass m_i of M in total, is n m_i / M records; it gets that number rounded down or up.
Input: masses (privmw.kernels) and a generator of the sampling stream; nothing private.
"""

from __future__ import annotations

import numpy as np

from privmw.kernels.arrays import Int64s

MOST_APPORTIONED_RECORDS = 2**40  # quotients below 2^50, computed in doubles, are right to within one


def proportional(masses: Int64s, total: int, n: int) -> Int64s:
    """Largest-remainder method: round shares down, then add 1 at the largest remainders (ties: first rows).

    Deterministic; gives the counts nearest to the shares in every norm.

    >>> proportional(np.array([5, 3, 0, 2]), 10, n=4).tolist()
    [2, 1, 0, 1]
    """
    counts, remainders = _divide(n, masses, 0, total)
    left = n - int(counts.sum())
    if left:
        # The remainders add up to left * total, and none reaches total: more than `left` are above 0, so a
        # row without a remainder gets nothing extra.
        least = np.partition(remainders, len(remainders) - left)[len(remainders) - left]
        above = remainders > least
        counts += above
        counts[np.flatnonzero(remainders == least)[: left - int(above.sum())]] += 1
    return counts


def randomised(masses: Int64s, total: int, n: int, rng: np.random.Generator) -> Int64s:
    """Systematic sampling: the expectation of every count is exactly its share.

    Shares are laid end to end on a line, with n points at distance 1 from a random start: a row gets the
    points in its share. Counts of neighbouring rows therefore depend on each other.

    >>> counts = randomised(np.array([5, 3, 0, 2]), 10, 4, np.random.default_rng(0))
    >>> int(counts.sum()), counts.tolist() in ([2, 1, 0, 1], [2, 2, 0, 0])
    (4, True)
    """
    ends, _ = _divide(n, np.cumsum(masses), int(rng.integers(total)), total)
    return np.diff(ends, prepend=0)


def _divide(n: int, masses: Int64s, add: int, total: int) -> tuple[Int64s, Int64s]:
    """Quotients and remainders of n * masses + add by total, exact though the products need 102 bits.

    Requires: 0 <= add < total <= 2^61, masses from 0 to total, 0 <= n <= 2^40. The quotient in doubles is
    right to within one, so the remainder lies between -total and 2 total and wrapping int64 arithmetic is
    exact.
    """
    quotients = np.floor(masses * (n / total) + add / total).astype(np.int64)
    remainders = masses * np.int64(n)
    remainders += np.int64(add)
    remainders -= quotients * np.int64(total)
    for step in (1, -1):
        wrong = np.flatnonzero(remainders < 0 if step == 1 else remainders >= total)
        quotients[wrong] -= step
        remainders[wrong] += step * total
    return quotients, remainders
