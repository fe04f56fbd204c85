"""Gram matrices of the cells of a few marginals, over many rows.

The rows in both a cell of one marginal and a cell of another are those in one cell of the marginal of all
their attributes. So a gram matrix of a few hundred cells takes one evaluation of such marginals, where
conjugate gradients would take dozens of passes over the rows. Numbers only.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from privmw import kernels
from privmw.data.workload import LARGEST_ORDER, Workload
from privmw.kernels.arrays import Int64s

MOST_PAIRED_MARGINALS = 20
MOST_PAIR_CELLS = 2**21  # of the marginals of all pairs


class MarginalGram:
    """The gram matrix of some cells of a workload, by the marginals of every two of its marginals."""

    def __init__(self, pairs: kernels.Marginals, count: int, entries: Int64s, cells: Int64s) -> None:
        self._pairs, self._count = pairs, count
        self._entries, self._cells = entries, cells  # of the flat matrix, and the cell whose sum each is

    @classmethod
    def of(
        cls, workload: Workload, places: Int64s, columns: kernels.Columns, threads: int | None = None
    ) -> MarginalGram | None:
        """None if the workload is empty, or the marginals of pairs are too many or too large.

        places: ascending indices of cells of the workload.
        """
        if not 0 < len(workload) <= MOST_PAIRED_MARGINALS:
            return None
        own = [
            workload.attributes[a:b] for a, b in zip(workload.starts[:-1], workload.starts[1:], strict=True)
        ]
        pairs = list(combinations_with_replacement(range(len(own)), 2))
        unions = [np.union1d(own[i], own[j]) for i, j in pairs]
        sizes = np.asarray(columns.sizes, np.int64)
        cells = sum(float(np.prod(sizes[union], dtype=float)) for union in unions)
        if max(map(len, unions)) > LARGEST_ORDER or cells > MOST_PAIR_CELLS:
            return None
        number = np.full(workload.cells, -1)
        number[places] = np.arange(len(places))
        entries, pair_cells, first = [], [], 0
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
            used = np.flatnonzero((row >= 0) & (column >= 0))
            entries += [row[used] * len(places) + column[used], column[used] * len(places) + row[used]]
            pair_cells += [first + used, first + used]
            first += len(row)
        attributes = np.concatenate(unions).astype(np.int32)
        starts = np.concatenate([[0], np.cumsum([len(union) for union in unions])])
        marginals = kernels.Marginals(columns, attributes, starts, threads=threads)
        return cls(marginals, len(places), np.concatenate(entries), np.concatenate(pair_cells))

    def sums(self, masses: Int64s, threads: int | None = None) -> Int64s:
        """For each pair of cells the mass of the rows in both."""
        shared = np.zeros(self._count**2, np.int64)
        shared[self._entries] = self._pairs.sums(masses, threads=threads)[self._cells]
        return shared.reshape(self._count, self._count)
