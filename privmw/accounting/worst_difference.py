"""The sensitivity of residual looks to replacing one record: the maximum over all pairs of records.

Two records that differ exactly on the attributes T move P_S x by 2 (p_S - prod over i in S of a_i) in squared
norm, p_S = prod (1 - 1/n_i), a_i = -1/n_i for i in T, else 1 - 1/n_i. So with w_S = 1 / sigma_S^2

    rho = max over T of sum over S of w_S / N_S (prod (n_i - 1) - prod b_i(T)),   b_i = -1 in T, n_i - 1 else:

where all but w_S / N_S are integers; that is rounded up to a multiple of 2^-shift. After that all sums are
exact 64-bit integers, so every machine states the same cost. Up to 20 attributes all sets T are enumerated.
For more attributes, the minimum of G(T) = sum of t_S prod b_i(T) is bounded from below: if G = sum over A of
g_A, where g_A depends on the attributes of A only, then G >= sum of min g_A, and any parts with a sum of at
most G are valid. There is one part per maximal look, and the parts are improved by exchanging their values on
common subsets (dual ascent on the linear relaxation). A gap of a few percent remains.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .rounding import Real

Int64s: TypeAlias = npt.NDArray[np.int64]
MOST_ENUMERATED = 20  # attributes: 2^20 sets T
_LARGEST_SUM = 2**60
_MOST_SEARCH_SWEEPS, _SEARCH_WORK = 200, 2**26  # fewer sweeps if each takes long


def worst_difference(
    sizes: Sequence[int], looks: Sequence[Sequence[int]], sigmas: Sequence[Real]
) -> Fraction:
    """Return an upper bound of the rho of looks, within a relative 1e-6 for up to 20 attributes.

    >>> worst_difference([2, 2], [(0,), (1,), (0, 1)], [1, 1, 1]) >= 1
    True
    """
    weights, shift = _weights(sizes, looks, sigmas)
    involved = sorted({a for look in looks for a in look})
    whole = sum(t * math.prod(sizes[a] - 1 for a in look) for t, look in zip(weights, looks, strict=True))
    if len(involved) <= MOST_ENUMERATED:
        least = _least_by_enumeration([sizes[a] for a in involved], involved, looks, weights)
    else:
        least = _least_by_parts(sizes, looks, weights)
    return (whole - least) * (Fraction(1, 2**shift) if shift >= 0 else Fraction(2**-shift))


def _weights(
    sizes: Sequence[int], looks: Sequence[Sequence[int]], sigmas: Sequence[Real]
) -> tuple[list[int], int]:
    """Integers t_S >= w_S / N_S 2^shift, with sum of t_S prod (n_i - 1) at most 2^60."""
    squares = [Fraction(sigma) ** 2 for sigma in sigmas]
    cells = [math.prod(sizes[a] for a in look) for look in looks]
    total = math.fsum(1 / float(square) for square in squares)
    shift = 59 - math.frexp(total)[1]
    while True:
        scale = Fraction(2) ** shift
        up, down = scale.numerator, scale.denominator
        weights = [
            -(-(up * s.denominator) // (down * s.numerator * n)) for s, n in zip(squares, cells, strict=True)
        ]
        if sum(t * n for t, n in zip(weights, cells, strict=True)) <= _LARGEST_SUM:
            return weights, shift
        shift -= 1


def _least_by_enumeration(
    sizes: Sequence[int], involved: Sequence[int], looks: Sequence[Sequence[int]], weights: Sequence[int]
) -> int:
    """The minimum of sum of t_S prod b_i(T) over all T: an in-place transform, attribute by attribute."""
    bit = {a: 1 << i for i, a in enumerate(involved)}
    sums = np.zeros(1 << len(involved), np.int64)
    for look, weight in zip(looks, weights, strict=True):
        sums[sum(bit[a] for a in look)] = weight
    for i, size in enumerate(sizes):
        halves = sums.reshape(-1, 2, 1 << i)
        without, within = halves[:, 0].copy(), halves[:, 1].copy()
        halves[:, 0] = without + (size - 1) * within
        halves[:, 1] = without - within
    return int(sums.min())


class _Parts:
    """The parts of all maximal looks of one order: one row per look, one column per set T of its attributes.

    Column q is where the i-th attribute is *not* in T for every bit i of q.
    """

    def __init__(self, order: int, rows: Int64s) -> None:
        self.order, self.rows = order, rows
        self.values = np.zeros((len(rows), *[2] * order), np.int64)
        self.subsets: dict[tuple[int, ...], Int64s] = {}  # by its places: the number of each row's subset

    def along(self, places: Sequence[int], values: Int64s) -> Int64s:
        """Values of a subset's columns as an array that broadcasts to all columns."""
        shape = [2 if place in places else 1 for place in range(self.order)]
        return values.reshape(len(self.rows), *shape)

    def reach(self) -> float:
        """The sum over the parts of their largest absolute value."""
        return float(np.abs(self.values).reshape(len(self.rows), -1).max(axis=1).sum(dtype=np.float64))

    def least(self, places: Sequence[int]) -> Int64s:
        """For each column of a subset, the minimum over all columns that agree with it."""
        beside = tuple(place + 1 for place in range(self.order) if place not in places)
        least: Int64s = self.values.min(axis=beside)
        return least.reshape(len(self.rows), -1)


def _least_by_parts(sizes: Sequence[int], looks: Sequence[Sequence[int]], weights: Sequence[int]) -> int:
    """A lower bound of the minimum of sum of t_S prod b_i(T): the sum of the minima of its parts."""
    base = len(sizes) + 1
    parts, known = _largest(looks, base)
    degree = sum((_count(part, len(known)) for part in parts), np.zeros(len(known), np.int64))
    t = np.zeros(len(known), np.int64)
    codes = [_code(look, base) for look in looks]
    t[np.searchsorted(known, codes)] = weights
    values = np.array([-1, 0], np.int64) + np.array(
        [[0, size - 1] for size in sizes], np.int64
    )  # b_i by column
    for part in parts:
        for places, numbers in part.subsets.items():
            term = np.broadcast_to(t[numbers], (1, len(part.rows)))
            for place in places:
                term = (term[:, None] * values[part.rows[:, place]].T[None]).reshape(-1, len(part.rows))
            # Rounded down, so that the shares sum to at most the term.
            part.values += part.along(places, (term // degree[numbers]).T)
    work = sum(part.values.size * (2**part.order - 2) for part in parts)
    bound = sum(int(part.least(()).sum()) for part in parts)
    for _ in range(min(_MOST_SEARCH_SWEEPS, max(4, _SEARCH_WORK // max(work, 1)))):
        for order in range(1, max(part.order for part in parts)):
            # With a total below 2^61, no sum of an exchange reaches 2^63. The initial total is at most 2^60.
            if sum(part.reach() for part in parts) > 2.0**61:
                return bound
            _exchange(parts, order, degree)
        bound = max(bound, sum(int(part.least(()).sum()) for part in parts))
    return bound


def _exchange(parts: list[_Parts], order: int, degree: Int64s) -> None:
    """Move all parts with a common subset of an order towards the mean of their values on it.

    Divisions are rounded down, so the sum of all parts never grows. Each part moves for all its subsets at
    once, by an average of the moves for each. The bound is concave, so it rises.
    """
    total = np.zeros((len(degree), 2**order), np.int64)
    sent = []
    for part in parts:
        for places, numbers in part.subsets.items():
            if len(places) == order < part.order:
                least = part.least(places)
                np.add.at(total, numbers, least)
                sent.append((part, places, numbers, least))
    total //= np.maximum(degree, 1)[:, None]
    share = max((math.comb(part.order, order) for part in parts), default=1)
    for part, places, numbers, least in sent:
        part.values += part.along(places, (total[numbers] - least) // share)


def _largest(looks: Sequence[Sequence[int]], base: int) -> tuple[list[_Parts], Int64s]:
    """The maximal looks by order, and the codes of all their subsets, ascending."""
    by_order: dict[int, list[Sequence[int]]] = {}
    for look in looks:
        by_order.setdefault(len(look), []).append(look)
    parts: list[_Parts] = []
    covered = np.empty(0, np.int64)
    for order in sorted(by_order, reverse=True):
        rows = np.array(by_order[order], np.int64).reshape(-1, order)
        part = _Parts(order, rows[~np.isin(_codes(rows, range(order), base), covered)])
        if len(part.rows) == 0:
            continue
        for column in range(1, 2**order):
            places = tuple(i for i in range(order) if column >> i & 1)
            part.subsets[places] = _codes(part.rows, places, base)
        covered = np.unique(np.concatenate([covered, *part.subsets.values()]))
        parts.append(part)
    for part in parts:
        part.subsets = {places: np.searchsorted(covered, codes) for places, codes in part.subsets.items()}
    return parts, covered


def _count(part: _Parts, known: int) -> Int64s:
    return sum(
        (np.bincount(numbers, minlength=known) for numbers in part.subsets.values()),
        np.zeros(known, np.int64),
    )


def _codes(rows: Int64s, places: Iterable[int], base: int) -> Int64s:
    code = np.zeros(len(rows), np.int64)
    for place in places:
        code = code * base + rows[:, place] + 1
    return code


def _code(look: Sequence[int], base: int) -> int:
    code = 0
    for a in look:
        code = code * base + a + 1
    return code
