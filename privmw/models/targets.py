"""What has been measured so far: for each cell the answer to aim at, and how sure it is.

A cell measured more than once has the mean of its measurements, each weighted by its inverse variance: the
estimate of least variance. Released values only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privmw.measurements import Measurement
from privmw.workload import Workload

Int64s = npt.NDArray[np.int64]
Vector = npt.NDArray[np.float64]


class Targets:
    """Answers (fractions) and precisions (inverse variances of fractions) of a workload's cells.

    Items are what was measured, cells or whole marginals, in the order of their first measurement.
    """

    def __init__(self, workload: Workload, n: int) -> None:
        self.workload, self.n = workload, n
        self.cells: dict[int, None] = {}
        self.marginals: dict[int, None] = {}
        # For each cell the sums of precision times answer and of precision. Single cells stay in a dict:
        # touching fresh memory of millions of cells costs more than a round's arithmetic.
        self._sums: dict[int, tuple[float, float]] = {}
        self._all_sums: Vector | None = None  # 2 x cells, from the first whole marginal on

    def add(self, measurement: Measurement) -> None:
        """Take in one measurement: of a single cell, or of whole marginals."""
        precision = self.n**2 / measurement.variance
        weighted = measurement.noisy_counts / self.n * precision
        if len(measurement.cells) == 1:
            self.cells.setdefault(int(measurement.cells[0]))
        else:
            for marginal in np.unique(self.workload.marginal_of(measurement.cells)).tolist():
                self.marginals.setdefault(marginal)
            if self._all_sums is None:
                self._all_sums = np.zeros((2, self.workload.cells))
                for cell, sums in self._sums.items():
                    self._all_sums[:, cell] = sums
        if self._all_sums is not None:
            self._all_sums[0, measurement.cells] += weighted
            self._all_sums[1, measurement.cells] += precision
        else:
            cell = int(measurement.cells[0])
            before = self._sums.get(cell, (0.0, 0.0))
            self._sums[cell] = before[0] + float(weighted[0]), before[1] + precision

    def answers(self, cells: Int64s) -> Vector:
        """The measured answers of cells, as they are: noise may bring them outside 0 to 1."""
        weighted, precision = self._of(cells)
        answers: Vector = weighted / precision
        return answers

    def precision(self, cells: Int64s) -> Vector:
        """The inverse variances of measured answers; 0 where nothing was measured."""
        return self._of(cells)[1]

    def _of(self, cells: Int64s) -> Vector:
        if self._all_sums is not None:
            return self._all_sums[:, cells]
        found = np.array([self._sums.get(cell, (0.0, 0.0)) for cell in cells.tolist()]).reshape(-1, 2)
        return np.ascontiguousarray(found.T)
