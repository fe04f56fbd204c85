"""A support with weights that change, and its answers to a workload: the state that every update works on.

Answers are integer sums of masses over their total (privmw.kernels), so that adding what some rows gained
gives the same bits as a new evaluation, and every backend the same bits as every other. This room knows
public rows and released values only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.support import Start, Support
from privmw.workload import Workload

Weights = npt.NDArray[np.float64]
Rows = npt.NDArray[np.uint32]


class WeightedSupport:
    """Weights on a support's rows, and the answers of a workload kept in step with them."""

    def __init__(
        self, support: Support, workload: Workload, start: Start = "public", *, threads: int | None = None
    ) -> None:
        self.support, self.workload, self.threads = support, workload, threads
        self.weights = support.start(start)
        self._marginals = support.marginals(workload)
        self._total = kernels.rescale(self.weights, threads=threads)
        self._sums = np.empty(workload.cells, np.int64)
        self._answers = np.empty(workload.cells, np.float64)
        self._evaluate()

    def answers(self) -> Weights:
        """The fraction of the weight in each cell. The array is the model's own: the next call refills it."""
        np.divide(self._sums, float(self._total), out=self._answers)
        return self._answers

    def answers_of(self, cells: npt.NDArray[np.int64]) -> Weights:
        """The answers of some cells."""
        answers: Weights = self._sums[cells] / float(self._total)
        return answers

    def masses(self) -> tuple[npt.NDArray[np.int64], int]:
        """Every row's mass, and their total."""
        return kernels.to_masses(self.weights, threads=self.threads)

    def distribution(self) -> Weights:
        """The weights with sum 1, a copy."""
        copy: Weights = self.weights.copy()
        copy /= copy.sum()
        return copy

    def matching_rows(self, cell: int) -> Rows:
        """Ascending rows in a cell."""
        names, values = self.workload.query(cell)
        return self.support.matching_rows(names, values)

    def multiply(self, rows: Rows, factor: float) -> None:
        """Multiply the odds of some rows (ascending) against all others by a factor.

        The changes of the fewer rows are followed always. For cells that rounds chose this cost less than an
        evaluation on the shapes of benches/bench_rounds.py: such cells hold common values, and their rows are
        light. Half of the rows at random may cost up to 1.7 times an evaluation where nothing is sparse.
        """
        size = self.support.size
        if 2 * len(rows) > size:  # the same odds, and fewer rows change
            others = np.ones(size, bool)
            others[rows] = False
            rows, factor = np.flatnonzero(others).astype(np.uint32), 1 / factor
        gained, self._total, rescaled = kernels.multiply(
            self.weights, rows, factor, self._total, threads=self.threads
        )
        if rescaled:
            self._evaluate()
        else:
            self._marginals.add_changes(rows, gained, self._sums, threads=self.threads)

    def replace(self, weights: Weights) -> None:
        """Take these weights, of any scale, instead; the model owns them from now on."""
        self.weights = weights
        self._total = kernels.rescale(weights, threads=self.threads)
        self._evaluate()

    def _evaluate(self) -> None:
        masses, self._total = self.masses()
        self._marginals.sums(masses, self._sums, threads=self.threads)
