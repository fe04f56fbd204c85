"""The measured answer of each cell so far, and its precision.

A cell measured more than once has the mean of its measurements, each weighted by its inverse variance: the
estimate of least variance. Released values only.
"""

from __future__ import annotations

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.release.measurements import Measurement


class Targets:
    """Answers (fractions) and precisions (inverse variances of fractions) of a workload's cells.

    cells, marginals: those measured, in the order of their first measurement.
    """

    def __init__(self, workload: Workload, n: int) -> None:
        self.workload, self.n = workload, n
        self._weighted = np.zeros(workload.cells)
        self._precision = np.zeros(workload.cells)
        self.cells: dict[int, None] = {}
        self.marginals: dict[int, None] = {}

    def add(self, measurement: Measurement) -> tuple[list[int], list[int]]:
        """Add a measurement of a single cell or of whole marginals; returns the cells and the marginals.

        A cell that is its whole marginal counts as the marginal.
        """
        precision = self.n**2 / measurement.variance
        self._weighted[measurement.cells] += measurement.noisy_counts / self.n * precision
        self._precision[measurement.cells] += precision
        marginals = np.flatnonzero(np.bincount(self.workload.marginal_of(measurement.cells))).tolist()
        cells: list[int] = []
        if len(measurement.cells) == 1:
            first, end = self.workload.offsets[marginals[0] : marginals[0] + 2].tolist()
            if end - first > 1:
                cells, marginals = measurement.cells.tolist(), []
        self.cells.update(dict.fromkeys(cells))
        self.marginals.update(dict.fromkeys(marginals))
        return cells, marginals

    def answers(self, cells: Int64s) -> Float64s:
        """The measured answers of cells, not clipped to [0, 1]."""
        return self._weighted[cells] / self._precision[cells]

    def precision(self, cells: Int64s) -> Float64s:
        """The inverse variances of measured answers; 0 where nothing was measured."""
        return self._precision[cells]

    def measured(self) -> Int64s:
        """The ascending numbers of the marginals that were measured, entirely or in part."""
        single_cells = np.fromiter(self.cells, np.int64)
        marginals = np.fromiter(self.marginals, np.int64)
        return np.unique(np.concatenate([marginals, self.workload.marginal_of(single_cells)]))

    def measured_marginals(self) -> tuple[Workload, Float64s, Float64s]:
        """The marginals that were measured, entirely or in part; answers and precisions of their cells.

        Cells without a measurement have precision 0, and answer 0.
        """
        measured = self.measured()
        cells = self.workload.cells_of(measured)
        precision = self.precision(cells)
        answers = np.divide(self._weighted[cells], precision, out=np.zeros(len(cells)), where=precision > 0)
        return self.workload.select(measured), answers, precision
