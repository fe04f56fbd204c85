"""The closure of a set of marginals: every non-empty set of attributes that some marginal contains.

Arrays, as a workload may have tens of thousands of marginals: `sets` lists the closure, and the marginals of
each order k are rows of an array whose 2^k - 1 columns are their subsets. Attributes of a single value are in
no set: their residual is empty. This module knows the domain and no data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from privmw.data.workload import LARGEST_ORDER, Workload
from privmw.kernels.arrays import Float64s, Int64s

MOST_SUBSETS = 2**24  # 400 MB of arrays


@dataclass(frozen=True, slots=True)
class Group:
    """The marginals of one order.

    marginals: their numbers in the workload. sets: of each subset, its number in the closure, or one past it
    for a subset with an attribute of one value. rest: the product of the sizes of the attributes beside it.
    """

    marginals: Int64s
    sets: Int64s
    rest: Float64s


@dataclass(frozen=True, slots=True)
class Closure:
    """Every set of attributes inside a workload's marginals, smallest first.

    members: the attributes of each set by position, one past the last where there are fewer. shrink: p_S, the
    product of 1 - 1/n_i. cells: the product of the n_i.

    >>> from privmw import Domain
    >>> closure = Closure.of(Workload(Domain({"a": 2, "b": 3, "c": 1}), [("a", "b"), ("b", "c")]))
    >>> closure.looks()
    ((0,), (1,), (0, 1))
    """

    workload: Workload
    codes: Int64s  # of each set, ascending
    members: Int64s
    shrink: Float64s
    cells: Float64s
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, workload: Workload) -> Closure:
        """Return the closure of a workload, or refuse one that would not fit into memory."""
        orders = np.diff(workload.starts)
        subsets = int((2.0**orders).sum())
        if subsets > MOST_SUBSETS:
            raise ValueError(
                f"workload ({len(workload):,} marginals with {subsets:,} subsets) must have at most 2^24 "
                "subsets of marginals: ask for fewer marginals or a lower order"
            )
        sizes = np.array([*workload.domain.sizes, 1], np.int64)
        base, past = len(sizes), len(sizes) - 1
        if float(base) ** LARGEST_ORDER > 2**62:
            raise ValueError(f"domain ({past:,} attributes) must have fewer than 1,290 attributes")
        parts, codes = [], []
        for order in np.unique(orders).tolist():
            marginals = np.flatnonzero(orders == order)
            rows = workload.attributes[workload.starts[marginals][:, None] + np.arange(order)].astype(
                np.int64
            )
            code = np.empty((len(rows), 2**order - 1), np.int64)
            rest = np.empty(code.shape)
            for column in range(2**order - 1):
                inside = [i for i in range(order) if (column + 1) >> i & 1]
                beside = [i for i in range(order) if not (column + 1) >> i & 1]
                packed = np.zeros(len(rows), np.int64)  # ascending by order, then by attributes
                for i in inside:
                    packed = packed * base + rows[:, i] + 1
                packed[(sizes[rows[:, inside]] == 1).any(axis=1)] = -1
                code[:, column] = packed
                rest[:, column] = sizes[rows[:, beside]].prod(axis=1, dtype=np.float64)
            parts.append((marginals, rest))
            codes.append(code)
        flat = np.concatenate([np.empty(0, np.int64), *(code.ravel() for code in codes)])
        known, where = np.unique(flat, return_inverse=True)
        skipped = int(len(known) > 0 and known[0] == -1)
        where = np.where(where < skipped, len(known) - skipped, where - skipped)
        known = known[skipped:]
        if len(known) == 0:
            raise ValueError("workload must have an attribute of two values or more")
        members = np.full((len(known), LARGEST_ORDER), past, np.int64)
        left = known.copy()
        for column in reversed(range(LARGEST_ORDER)):
            members[:, column] = np.where(left > 0, left % base - 1, past)
            left //= base
        members.sort(axis=1)
        shape = sizes[members].astype(np.float64)
        shrink = np.where(members < past, 1 - 1 / shape, 1.0).prod(axis=1)
        groups, begin = [], 0
        for (marginals, rest), code in zip(parts, codes, strict=True):
            groups.append(Group(marginals, where[begin : begin + code.size].reshape(code.shape), rest))
            begin += code.size
        return cls(workload, known, members, shrink, shape.prod(axis=1), tuple(groups))

    def __len__(self) -> int:
        return len(self.members)

    def find(self, positions: Iterable[int]) -> int:
        """The number of the set of these attributes, in ascending order; -1 if it is not in the closure."""
        code, base = 0, len(self.workload.domain) + 1
        for position in positions:
            code = code * base + position + 1
        number = int(np.searchsorted(self.codes, code))
        return number if number < len(self) and self.codes[number] == code else -1

    def looks(self) -> tuple[tuple[int, ...], ...]:
        """Every set, as positions of attributes."""
        past = len(self.workload.domain)
        return tuple(tuple(a for a in row if a < past) for row in self.members.tolist())

    def onto_sets(self, values: Float64s, power: int) -> Float64s:
        """For each set, the sum over the marginals A that contain it of values_A / rest^power."""
        total = np.zeros(len(self) + 1)
        for group in self.groups:
            share = values[group.marginals, None] / group.rest**power
            total += np.bincount(group.sets.ravel(), share.ravel(), len(self) + 1)
        return total[:-1]

    def onto_marginals(self, values: Float64s) -> Float64s:
        """For each marginal, the sum over its subsets of values_S / rest^2."""
        padded, total = np.append(values, 0.0), np.zeros(len(self.workload))
        for group in self.groups:
            total[group.marginals] = (padded[group.sets] / group.rest**2).sum(axis=1)
        return total
