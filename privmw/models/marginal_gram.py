"""What the cells of a few marginals share, pair by pair, over many rows.

The rows that a cell of one marginal and a cell of another both hold are those of one cell of the marginal of
all their attributes. So a gram matrix of a few hundred cells takes one evaluation of such marginals, where
conjugate gradients would take dozens of passes over the rows. Numbers only.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from privmw import kernels
from privmw.data.workload import Workload
from privmw.kernels.arrays import Int64s

MOST_MARGINALS = 20  # with more, there are too many pairs
MOST_ATTRIBUTES = 6  # of a marginal
MOST_CELLS = 2**21  # of all pairs' marginals


class MarginalGram:
    """The cells of a workload's marginals at some places, and the marginals of every two of them."""

    def __init__(self, pairs: kernels.Marginals, count: int, entries: Int64s, cells: Int64s) -> None:
        self._pairs, self._count = pairs, count
        self._entries, self._cells = entries, cells  # of the matrix, row by row, and what stands there

    @classmethod
    def of(
        cls, workload: Workload, places: Int64s, columns: kernels.Columns, threads: int | None = None
    ) -> MarginalGram | None:
        """None where there are none, or the marginals of pairs would be too many or too large.

        places: of cells among the workload's, ascending.
        """
        if not 0 < len(workload) <= MOST_MARGINALS:
            return None
        own = [
            workload.attributes[a:b] for a, b in zip(workload.starts[:-1], workload.starts[1:], strict=True)
        ]
        pairs = list(combinations_with_replacement(range(len(own)), 2))
        unions = [np.union1d(own[i], own[j]) for i, j in pairs]
        sizes = np.asarray(columns.sizes, np.int64)
        cells = sum(float(np.prod(sizes[union], dtype=float)) for union in unions)
        if max(map(len, unions)) > MOST_ATTRIBUTES or cells > MOST_CELLS:
            return None
        number = np.full(workload.cells, -1)
        number[places] = np.arange(len(places))
        entries, found, first = [], [], 0
        for (i, j), union in zip(pairs, unions, strict=True):
            shape = sizes[union].tolist()
            codes = dict(zip(union.tolist(), np.unravel_index(np.arange(np.prod(shape)), shape), strict=True))
            row, column = (
                number[
                    workload.offsets[m]
                    + np.ravel_multi_index([codes[a] for a in own[m].tolist()], sizes[own[m]].tolist())
                ]
                for m in (i, j)
            )
            held = np.flatnonzero((row >= 0) & (column >= 0))
            entries += [row[held] * len(places) + column[held], column[held] * len(places) + row[held]]
            found += [first + held, first + held]
            first += len(row)
        attributes = np.concatenate(unions).astype(np.int32)
        starts = np.concatenate([[0], np.cumsum([len(union) for union in unions])])
        marginals = kernels.Marginals(columns, attributes, starts, threads=threads)
        return cls(marginals, len(places), np.concatenate(entries), np.concatenate(found))

    def sums(self, masses: Int64s, threads: int | None = None) -> Int64s:
        """For each pair of cells the mass of the rows that both hold."""
        shared = np.zeros(self._count**2, np.int64)
        shared[self._entries] = self._pairs.sums(masses, threads=threads)[self._cells]
        return shared.reshape(self._count, self._count)
