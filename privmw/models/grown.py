"""A projection that adds rows which the public table lacks, at the last round.

Until then it is a projection on the public rows (projected.py). At the last update the start is fitted to the
one-way marginals, particles are grown (growth/) and become rows of count 0, and the projection is repeated on
all rows. If public rows lack attributes, or there are none, completed rows take their place from the first
update on.

Everything is a function of released values, public rows and a fixed seed, so a resumed run reproduces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privmw import kernels
from privmw.data.support import Support
from privmw.kernels.arrays import Float64s
from privmw.models.growth.completion import COMPLETED, completed, completed_evenly
from privmw.models.growth.path import PATH, Grown, Path
from privmw.models.growth.problem import Problem
from privmw.models.growth.start import LARGEST_WIDENED, fitted_start, widened_start, with_new_values
from privmw.models.inputs import ModelInputs
from privmw.models.projected import ProjectionModel
from privmw.random import sampling_stream
from privmw.ranks import sum_over_ranks
from privmw.release.measurements import Measurement

__all__ = ["COMPLETED", "LARGEST_WIDENED", "GrowingModel"]

GROWTH_SEED = 0  # of the sampling stream: fixed, so that the same measurements give the same rows


class GrowingModel(ProjectionModel):
    """A projection with l2 slack that adds rows at the last round.

    particles: how many; at most this many rows are added.
    """

    def __init__(
        self,
        inputs: ModelInputs,
        *,
        particles: int,
    ) -> None:
        support = inputs.support
        if support.missing:
            rows = completed_evenly(support, GROWTH_SEED)
            prior = rows.start("uniform")
        else:
            rows, prior = widened_start(support)
        super().__init__(inputs.with_support(rows), prior=prior)
        self._public, self._particles = support, particles
        self._start = rows, prior

    def update(self, measurements: Sequence[Measurement], *, last: bool = False) -> Mapping[str, float]:
        """Project onto all measurements so far, at the last round on more rows; returns the certificate."""
        if not last:
            if self._public.missing and self._updates == 0:
                for measurement in measurements:
                    self._targets.add(measurement)
                self._begin(*completed(self._public, Problem.of(self._targets), GROWTH_SEED, self._start[0]))
                measurements = ()
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

    def state(self) -> tuple[dict[str, Float64s], dict[str, Float64s]] | None:
        """As of a projection; None if the rows are not those of the public table."""
        return super().state() if self._model.support is self._public else None

    def _grow(self) -> None:
        """Add particles to the support, and set the prior and its weight."""
        problem = Problem.of(self._targets)
        one_ways = problem.one_ways()
        stream = sampling_stream(GROWTH_SEED)
        if self._public.missing:
            support, start = completed(self._public, problem, GROWTH_SEED, self._start[0])
            grown = self._path(support, start, problem, one_ways, stream).down_to_fixed()
        else:
            support, start = self._start
            start = fitted_start(support, start, one_ways, self._inputs.threads)
            part, judge = problem.thinned(stream)
            grown = self._path(support, start, part, one_ways, stream).best_by_holdout(problem, judge)
        rows, prior = _joined(support, start, grown, self._inputs.threads)
        if not self._public.missing:
            prior = with_new_values(rows, prior, self._public, one_ways)
        self._begin(rows, prior)
        self._chosen = grown.weight
        self._fitted, self._values = problem.cells, grown.multipliers

    def _path(
        self,
        support: Support,
        start: Float64s,
        problem: Problem,
        one_ways: Problem,
        stream: np.random.Generator,
    ) -> Path:
        return Path(support, start, problem, one_ways, self._particles, stream, self._inputs.threads)

    def _begin(self, support: Support, prior: Float64s) -> None:
        """Continue with other rows."""
        self._prior, self._groups = prior, None
        self._begin_with(support)
        self._fitted, self._values = self._fitted[:0], self._values[:0]


def _joined(support: Support, start: Float64s, grown: Grown, threads: int | None) -> tuple[Support, Float64s]:
    """The support with the particles as rows, and the prior of all rows."""
    wider = support.with_rows(grown.records)
    own = wider.added >= 0
    shares, _ = kernels.tilt(
        np.concatenate([(1 - PATH.share) * start, np.full(int(own.sum()), PATH.share)]),
        np.concatenate([np.zeros(len(start)), grown.log_prior[own]]),
        threads=threads,
        comm=support.comm,
    )
    prior = np.zeros(wider.support.size)
    prior[wider.places] = shares[: len(start)]
    np.add.at(prior, wider.added[own], shares[len(start) :])
    return wider.support, prior
