"""What was measured, as growth needs it: whole marginals, with 0 precision where a cell was not measured.

Also the one-way marginals that follow from it, and thinned copies: released values split into two parts whose
errors are independent, one to fit and one to judge the fit. Released values only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.models.targets import Targets

FITTED_NOISE = 0.5  # of the noise, added to the part that is fitted; its inverse to the part that judges


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Answers (fractions) and their inverse variances, one for each cell of the workload.

    cells: the numbers of these cells among all that can be measured.
    """

    workload: Workload
    answers: Float64s
    precision: Float64s
    cells: Int64s

    @classmethod
    def of(cls, targets: Targets) -> Problem:
        """The cells of every marginal that was measured, entirely or in part."""
        single = np.fromiter(targets.cells, np.int64)
        whole = np.fromiter(targets.marginals, np.int64)
        among = np.unique(np.concatenate([whole, targets.workload.marginal_of(single)]))
        cells = targets.workload.cells_of(among)
        precision = targets.precision(cells)
        answers = np.zeros(len(cells))
        answers[precision > 0] = targets.answers(cells[precision > 0])
        return cls(targets.workload.select(among), answers, precision, cells)

    def one_ways(self) -> Problem:
        """The one-way marginals of attributes in fully measured marginals: means by inverse variance.

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
                gained = 1 / variances.sum(axis=others)
                shares = answers.sum(axis=others)
                # The total is known. Without what is beyond it, errors of two attributes of one marginal are
                # uncorrelated where its cells have equal noise.
                shares -= (shares.sum() - 1) / len(shares)
                weighted[here] += shares * gained
                precision[here] += gained
        known = [name for a, name in enumerate(domain.names) if precision[places[a]] > 0]
        cells = precision > 0
        workload = Workload(domain, [(name,) for name in known])
        return Problem(workload, weighted[cells] / precision[cells], precision[cells], np.flatnonzero(cells))

    def thinned(self, stream: np.random.Generator) -> tuple[Problem, Problem]:
        """A part to fit, and one to judge fits by: their errors are independent where noise is Gaussian.

        With noise of variance v and z standard normal, a + t sqrt(v) z and a - sqrt(v) z / t have covariance
        v - v = 0, and variances v (1 + t^2) and v (1 + 1 / t^2).
        """
        noise = np.zeros(len(self.answers))
        measured = self.precision > 0
        noise[measured] = stream.standard_normal(int(measured.sum())) / np.sqrt(self.precision[measured])
        fitted, judging = self.answers + FITTED_NOISE * noise, self.answers - noise / FITTED_NOISE
        return (
            Problem(self.workload, fitted, self.precision / (1 + FITTED_NOISE**2), self.cells),
            Problem(self.workload, judging, self.precision / (1 + FITTED_NOISE**-2), self.cells),
        )
