"""Coverage of a support: the values of the domain, and pairs of values, that no public row has.

A release that only re-weights rows answers 0 for them, whatever the private table holds, so look here before
spending a budget. All inputs are public. Grown rows (of count 0) do not count as public rows. Combinations
that a constraint excludes are not missing. Marginals of more than MOST_COVERAGE_CELLS cells are skipped, and
listed; attributes that the rows lack are left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privmw import kernels
from privmw.data.support import Support
from privmw.kernels.arrays import Bools, Int64s
from privmw.secrecy import expect

MOST_COVERAGE_CELLS = 2**22  # cells of a marginal, and of those counted together
FIRST = 10  # listed combinations of each marginal


@dataclass(frozen=True)
class Missing:
    """The combinations of values of one or two attributes that no public row has.

    count: their number, of `possible` combinations; first: the codes of the first few.
    """

    attributes: tuple[str, ...]
    count: int
    possible: int
    first: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Coverage:
    """The values, and the pairs of occurring values, that no public row of a support has.

    values, pairs: one entry per attribute or pair with missing ones, in the order of the domain.
    possible_values, possible_pairs: their total number. skipped: attributes and pairs with too many
    combinations. lacking: the attributes that the rows do not have.
    """

    values: tuple[Missing, ...]
    pairs: tuple[Missing, ...]
    possible_values: int
    possible_pairs: int
    skipped: tuple[tuple[str, ...], ...]
    lacking: tuple[str, ...] = ()

    @property
    def missing_values(self) -> int:
        """The number of values that no public row has."""
        return sum(missing.count for missing in self.values)

    @property
    def missing_pairs(self) -> int:
        """The number of pairs of occurring values that no public row has."""
        return sum(missing.count for missing in self.pairs)


def coverage_of(support: Support) -> Coverage:
    """Find the values, and the pairs of values, that no public row of a support has. A collective call.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": ["F", "M"]})
    >>> public = Table.from_codes([[0, 0], [0, 1], [2, 1]], domain, private=False)
    >>> found = coverage_of(Support.from_table(public))
    >>> found.missing_values, found.values[0]
    (1, Missing(attributes=('age',), count=1, possible=3, first=((1,),)))
    >>> found.pairs
    (Missing(attributes=('age', 'sex'), count=1, possible=4, first=((2, 0),)),)
    """
    expect("support", support, Support, "a Support")
    sizes, names = support.domain.sizes, support.domain.names
    singles = [(a,) for a in range(len(sizes)) if names[a] not in support.missing]
    counted, skipped = small_and_large(singles, sizes)
    occurs: dict[int, Bools] = {}
    values, possible_values = [], 0
    for (a,), rows in public_rows_in(support, counted):
        occurs[a] = rows > 0
        found = _missing(support, (a,), rows == 0, len(rows))
        possible_values += found.possible
        values.append(found)
    counted, large = small_and_large(itertools.combinations(occurs, 2), sizes)
    pairs, possible_pairs = [], 0
    for (a, b), rows in public_rows_in(support, counted):
        both = occurs[a][:, np.newaxis] & occurs[b]
        found = _missing(support, (a, b), (rows == 0) & both.ravel(), int(both.sum()))
        possible_pairs += found.possible
        pairs.append(found)
    return Coverage(
        tuple(found for found in values if found.count),
        tuple(found for found in pairs if found.count),
        possible_values,
        possible_pairs,
        tuple(tuple(names[a] for a in marginal) for marginal in skipped + large),
        support.missing,
    )


def small_and_large(
    marginals: Iterable[tuple[int, ...]], sizes: Sequence[int]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Split marginals into those to count, and those with too many cells."""
    small: list[tuple[int, ...]] = []
    large: list[tuple[int, ...]] = []
    for marginal in marginals:
        (small if math.prod(sizes[a] for a in marginal) <= MOST_COVERAGE_CELLS else large).append(marginal)
    return small, large


def public_rows_in(
    support: Support, marginals: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], Int64s]]:
    """Yield each marginal with the number of public rows (on all ranks) in each cell.

    Counts MOST_COVERAGE_CELLS cells at a time, with the kernels themselves: a support caches the plan of one
    workload only.
    """
    sizes = support.domain.sizes
    cells = [math.prod(sizes[a] for a in marginal) for marginal in marginals]
    public = (support.counts > 0).astype(np.int64)
    begin = 0
    while begin < len(marginals):
        end, total = begin, 0
        while end < len(marginals) and (end == begin or total + cells[end] <= MOST_COVERAGE_CELLS):
            total += cells[end]
            end += 1
        batch = marginals[begin:end]
        flat = np.array(list(itertools.chain.from_iterable(batch)), np.int32)
        starts = np.cumsum([0, *map(len, batch)], dtype=np.int64)
        counts = kernels.Marginals(support.columns, flat, starts).sums(public)
        support.comm.allreduce(counts)
        offset = 0
        for marginal, size in zip(batch, cells[begin:end], strict=True):
            yield marginal, counts[offset : offset + size]
            offset += size
        begin = end


def _missing(support: Support, positions: tuple[int, ...], empty: Bools, possible: int) -> Missing:
    """The missing combinations of a marginal that the constraints allow."""
    sizes = [support.domain.sizes[a] for a in positions]
    if support.constraints is not None and empty.any():
        excluded = support.constraints.excluded(positions).ravel() & empty
        possible -= int(excluded.sum())
        empty = empty & ~excluded
    where = np.flatnonzero(empty)
    first = zip(*(codes.tolist() for codes in np.unravel_index(where[:FIRST], sizes)), strict=True)
    return Missing(tuple(support.domain.names[a] for a in positions), len(where), possible, tuple(first))
