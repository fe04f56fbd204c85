"""The measurements as growth needs them: whole marginals, with precision 0 for cells that were not measured.

Also the one-way marginals that follow from them, and the split into two parts with independent errors, one to
fit and one to judge the fit. Released values only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.models.targets import Targets

THINNING = 0.5  # t of Problem.thinned


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Answers (fractions) and precisions (inverse variances), one per cell of the workload.

    cells: the numbers of these cells among all measurable cells.
    """

    workload: Workload
    answers: Float64s
    precision: Float64s
    cells: Int64s

    @classmethod
    def of(cls, targets: Targets) -> Problem:
        """The cells of every marginal that was measured, entirely or in part."""
        measured = targets.measured()
        cells = targets.workload.cells_of(measured)
        precision = targets.precision(cells)
        answers = np.zeros(len(cells))
        answers[precision > 0] = targets.answers(cells[precision > 0])
        return cls(targets.workload.select(measured), answers, precision, cells)

    def one_ways(self) -> Problem:
        """The one-way marginals within fully measured marginals, averaged by inverse variance.

        >>> from privmw import Domain
        >>> workload = Workload(Domain({"age": 3, "sex": 2}), [("age", "sex"), ("sex",)])
        >>> answers = np.array([0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.3, 0.7])
        >>> one_ways = Problem(workload, answers, np.full(8, 6.0), np.arange(8)).one_ways()
        >>> one_ways.answers.round(3).tolist(), one_ways.precision.round(3).tolist()
        ([0.2, 0.4, 0.4, 0.35, 0.65], [3.0, 3.0, 3.0, 8.0, 8.0])
        """
        domain, offsets = self.workload.domain, self.workload.offsets
        sizes, places = domain.sizes, np.cumsum([0, *domain.sizes])
        weighted, precision = np.zeros(places[-1]), np.zeros(places[-1])
        for j, (first, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            if not self.precision[first:end].all():
                continue
            start, stop = self.workload.starts[j : j + 2].tolist()
            attributes = self.workload.attributes[start:stop].tolist()
            shape = [sizes[a] for a in attributes]
            answers = self.answers[first:end].reshape(shape)
            variances = (1 / self.precision[first:end]).reshape(shape)
            for axis, a in enumerate(attributes):
                others = tuple(other for other in range(len(attributes)) if other != axis)
                here = slice(places[a], places[a + 1])
                share_precision = 1 / variances.sum(axis=others)
                shares = answers.sum(axis=others)
                # The total is known to be 1. After this correction the errors of two attributes of one
                # marginal are uncorrelated if its cells have equal noise.
                shares -= (shares.sum() - 1) / len(shares)
                weighted[here] += shares * share_precision
                precision[here] += share_precision
        names = [name for a, name in enumerate(domain.names) if precision[places[a]] > 0]
        cells = precision > 0
        workload = Workload(domain, [(name,) for name in names])
        return Problem(workload, weighted[cells] / precision[cells], precision[cells], np.flatnonzero(cells))

    def thinned(self, stream: np.random.Generator) -> tuple[Problem, Problem]:
        """A part to fit, and a part to judge fits by, with independent errors if the noise is Gaussian.

        With noise of variance v and z standard normal, a + t sqrt(v) z and a - sqrt(v) z / t have covariance
        v - v = 0, and variances v (1 + t^2) and v (1 + 1 / t^2).
        """
        noise = np.zeros(len(self.answers))
        measured = self.precision > 0
        noise[measured] = stream.standard_normal(int(measured.sum())) / np.sqrt(self.precision[measured])
        fitted, judging = self.answers + THINNING * noise, self.answers - noise / THINNING
        return (
            Problem(self.workload, fitted, self.precision / (1 + THINNING**2), self.cells),
            Problem(self.workload, judging, self.precision / (1 + THINNING**-2), self.cells),
        )
