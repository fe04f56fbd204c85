"""Weights on the rows of a support, and its answers to a workload: the state that every update changes.

Answers are integer sums of masses over their total (privmw.kernels). So adding the changes of some rows gives
the same bits as a new evaluation, on every backend and on any number of ranks. Public rows and released
values only.
"""

from __future__ import annotations

import numpy as np

from privmw import kernels
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s, UInt32s
from privmw.ranks import sum_over_ranks

# Share of the rows up to which adding their changes costs less than an evaluation: on the ACS, a third of the
# rows costs .6 of an evaluation, two fifths .5 to .9, three fifths more (benches/journal/2026-11-kernels.md).
MOST_CHANGED_SHARE = 0.45


class WeightedRows:
    """Weights on a support's rows, and the answers of a workload kept in step with them."""

    def __init__(
        self, support: Support, workload: Workload, weights: Float64s, *, threads: int | None = None
    ) -> None:
        """weights: sum to 1 over all ranks; not copied."""
        self.support, self.workload, self.threads = support, workload, threads
        self.comm = support.comm
        self.weights = weights
        self._marginals = support.marginals(workload)
        # The sums of this rank's rows, followed by three numbers about the last update, for one allreduce. On
        # a single rank these are already the sums of all rows.
        self._own = np.zeros(workload.cells + 3, np.int64)
        self._all = self._own if self.comm.size == 1 else np.empty_like(self._own)
        self._answers = np.empty(workload.cells, np.float64)
        self._total = kernels.rescale(self.weights, threads=threads, comm=self.comm)
        self._evaluate(*self.masses())

    @property
    def _sums(self) -> Int64s:
        return self._all[:-3]

    def answers(self) -> Float64s:
        """The fraction of the weight in each cell. The next call overwrites the array."""
        np.divide(self._sums, float(self._total), out=self._answers)
        return self._answers

    def answers_of(self, cells: Int64s) -> Float64s:
        """The answers to some cells."""
        return self._sums[cells] / float(self._total)

    def masses(self) -> tuple[Int64s, int]:
        """The mass of each row of this rank, and the total over all ranks."""
        return kernels.to_masses(self.weights, threads=self.threads, comm=self.comm)

    def distribution(self) -> Float64s:
        """A copy of the weights, normalised by the exact total of the masses over all ranks."""
        return self.weights / (self._total * 2.0**-kernels.MASS_BITS)

    def matching_rows(self, cell: int) -> UInt32s:
        """The rows in a cell, ascending."""
        names, values = self.workload.query(cell)
        return self.support.matching_rows(names, values)

    def multiply(self, rows: UInt32s, factor: float) -> None:
        """Multiply the odds of some rows (ascending) against all others by a factor, the same on all ranks.

        Adds the changes of the smaller part of the rows. For cells chosen in rounds this costs less than an
        evaluation on the shapes of benches/bench_rounds.py, since such cells have common values. A random
        half of the rows may cost up to 1.7 times an evaluation on data without sparsity.
        """
        # Dividing the others gives the same odds, and fewer rows change.
        if 2 * sum_over_ranks(self.comm, len(rows)) > self.support.whole_size:
            others = np.ones(self.support.size, bool)
            others[rows] = False
            rows, factor = np.flatnonzero(others).astype(np.uint32), 1 / factor
        gains = kernels.multiply(self.weights, rows, factor, threads=self.threads)
        self._marginals.add_changes(rows, gains.changes, self._own[:-3], threads=self.threads)
        self._own[-3:] = len(rows), gains.before, gains.gained
        self._add_up()
        count, before, gained = self._all[-3:].tolist()
        after = kernels.total_after(self._total, before, count, factor, gained)
        if after is None:
            self.replace(self.weights)
        else:
            self._total = after

    def move(self, weights: Float64s) -> None:
        """Replace the weights (not copied); add the changes if few masses change.

        Rescales only if necessary, since another scale changes every mass.
        """
        before, _ = self.masses()
        kernels.rescale(weights, keep=True, threads=self.threads, comm=self.comm)
        self.weights = weights
        masses, total = self.masses()
        rows = np.flatnonzero(masses != before).astype(np.uint32)
        if len(rows) > MOST_CHANGED_SHARE * len(
            masses
        ):  # ranks may decide differently: the sums are the same
            self._evaluate(masses, total)
            return
        self._marginals.add_changes(rows, masses[rows] - before[rows], self._own[:-3], threads=self.threads)
        self._total = total
        self._add_up()

    def replace(self, weights: Float64s, *, scaled: bool = False) -> None:
        """Replace the weights (not copied); rescale them unless they are `scaled`."""
        self.weights = weights
        if not scaled:
            kernels.rescale(weights, threads=self.threads, comm=self.comm)
        self._evaluate(*self.masses())

    def _evaluate(self, masses: Int64s, total: int) -> None:
        self._marginals.sums(masses, self._own[:-3], threads=self.threads)
        self._total = total
        self._add_up()

    def _add_up(self) -> None:
        """The allreduce of a round: eight bytes per cell."""
        if self.comm.size > 1:
            np.copyto(self._all, self._own)
        self.comm.allreduce(self._all)
