"""A projected support whose rows grow: at the last round, rows that the public table lacks are added.

Until then it is a projection on the public rows (projected.py). At the last update the start is fitted to the
one-way marginals, particles grow (growth/), those that were chosen become rows of the support, of count 0,
and the projection is made once more on all rows. Released values and public rows only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privmw import kernels
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.models.growth.path import SHARE, grow
from privmw.models.growth.problem import Problem
from privmw.models.growth.start import fitted_start
from privmw.models.projected import ProjectedSupport
from privmw.models.weighted_rows import WeightedSupport
from privmw.ranks import sum_over_ranks
from privmw.release.measurements import Measurement


class GrownSupport(ProjectedSupport):
    """A support that is projected anew after each round, with l2 slack, and grows at the last.

    particles: how many records are moved; at most so many rows are added.
    """

    def __init__(
        self,
        support: Support,
        workload: Workload,
        measured: Workload,
        n: int,
        *,
        particles: int,
        threads: int | None = None,
    ) -> None:
        super().__init__(support, workload, measured, n, threads=threads)
        self._workload, self._particles = workload, particles

    def update(self, measurements: Sequence[Measurement], *, last: bool = False) -> Mapping[str, float]:
        """Project onto all measurements so far, the last time on more rows; returns the certificate."""
        if not last:
            return super().update(measurements)
        for measurement in measurements:
            self._targets.add(measurement)
        self._updates += 1
        self._grow()
        details = dict(self._project(choose=False))
        support, weights = self.result()
        mass = np.rint(weights[support.counts == 0] * 2.0**kernels.MASS_BITS).astype(np.int64)
        details["grown_rows"] = float(support.grown)
        details["grown_mass"] = sum_over_ranks(support.comm, int(mass.sum())) / 2.0**kernels.MASS_BITS
        return details

    def _grow(self) -> None:
        """Replace the support, the prior and its weight by grown ones."""
        problem, support = Problem.of(self._targets), self._model.support
        one_ways = problem.one_ways()
        start = fitted_start(support, one_ways, self._threads)
        grown = grow(support, start, problem, one_ways, self._particles, self._threads)
        wider = support.with_rows(grown.records)
        shares, _ = kernels.tilt(
            np.concatenate([(1 - SHARE) * start, np.full(len(grown.records), SHARE)]),
            np.concatenate([np.zeros(len(start)), grown.log_prior]),
            threads=self._threads,
        )
        prior = np.zeros(wider.support.size)
        prior[wider.places] = shares[: len(start)]
        np.add.at(prior, wider.added, shares[len(start) :])
        self._model = WeightedSupport(wider.support, self._workload, threads=self._threads)
        self._prior, self._chosen = prior, grown.weight
        self._fitted, self._values = problem.cells, grown.multipliers
