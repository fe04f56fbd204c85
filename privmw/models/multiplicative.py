"""Multiplicative weights: rows move towards each measured answer by the exponential of half its error.

A(x) <- A(x) exp(q(x) (a - q(A)) / 2), a clipped to [0, 1] (MWEM; Hardt, Ligett and McSherry 2012). A whole
marginal is one such update for each of its disjoint cells at once.

Replay repeats earlier measurements ("Leveraging public data", section 4.3): all that the model misses by at
least half of what it misses the newest by. "paper" takes every answer from before the round, and the newest
measurement twice, as the authors ran it; "fresh" goes through them in random order and looks at the current
answer before each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.measurements import Measurement
from privmw.models.groups import Groups
from privmw.models.targets import Targets
from privmw.models.weighted_support import WeightedSupport
from privmw.random import sampling_stream
from privmw.support import Start, Support
from privmw.workload import Workload

Replay = Literal["none", "paper", "fresh"]
Output = Literal["average", "last"]
Vector = npt.NDArray[np.float64]


class MultiplicativeWeights:
    """A weighted support that moves by multiplicative weights.

    workload: what is asked, the first marginals of `measured`, which is what measurements number.
    """

    def __init__(
        self,
        support: Support,
        workload: Workload,
        measured: Workload,
        n: int,
        *,
        start: Start = "public",
        replay: Replay = "none",
        output: Output = "last",
        threads: int | None = None,
    ) -> None:
        self._model = WeightedSupport(support, workload, start, threads=threads)
        self._targets = Targets(measured, n)
        self._replay = replay
        self._sum = np.zeros(support.size) if output == "average" else None
        self._updates = 0
        self._groups = Groups(support.size) if replay != "none" else None
        self._query: dict[int, int] = {}  # of a measured cell, its number among the groups
        self._marginals: dict[int, kernels.Marginals] = {}
        self._order = sampling_stream(0)

    def answers(self) -> Vector:
        """The model's answers to the workload."""
        return self._model.answers()

    def update(self, measurements: Sequence[Measurement]) -> Mapping[str, float]:
        """Take in a round's measurements."""
        cells: list[int] = []
        marginals: list[int] = []
        for measurement in measurements:
            single, whole = self._targets.add(measurement)
            cells += single
            marginals += whole
        if self._groups is None:
            for cell in cells:
                (missing,) = self._missing(np.array([cell])).tolist()
                self._model.multiply(self._model.matching_rows(cell), math.exp(missing / 2))
            self._move_marginals(marginals)
        else:
            self._repeat(cells, marginals)
        self._updates += 1
        if self._sum is not None:
            self._sum += self._model.distribution()
        return {}

    def result(self) -> Vector:
        """The weights to release, with sum 1."""
        if self._sum is None or self._updates == 0:
            return self._model.distribution()
        average: Vector = self._sum / self._sum.sum()
        return average

    def _missing(self, cells: npt.NDArray[np.int64]) -> Vector:
        """A - q(A) of measured cells of the workload."""
        return self._aim(cells) - self._model.answers_of(cells)

    def _aim(self, cells: npt.NDArray[np.int64]) -> Vector:
        """The measured answers of cells, clipped to what an answer can be."""
        return np.clip(self._targets.answers(cells), 0.0, 1.0)

    def _missing_of(self, marginal: int, masses: npt.NDArray[np.int64], total: int) -> Vector:
        first, end = self._targets.workload.offsets[marginal : marginal + 2].tolist()
        return self._aim(np.arange(first, end)) - self._plan(marginal).sums(
            masses, threads=self._model.threads
        ) / float(total)

    def _plan(self, marginal: int) -> kernels.Marginals:
        if marginal not in self._marginals:
            one = self._targets.workload.select([marginal])
            self._marginals[marginal] = kernels.Marginals(
                self._model.support.columns, one.attributes, one.starts, threads=self._model.threads
            )
        return self._marginals[marginal]

    def _move_marginals(self, marginals: Sequence[int]) -> None:
        """Update on whole marginals, one after another."""
        if not marginals:
            return
        weights = self._model.weights
        for marginal in marginals:
            kernels.rescale(weights, threads=self._model.threads)
            masses, total = kernels.to_masses(weights, threads=self._model.threads)
            rates = self._missing_of(marginal, masses, total) / 2
            weights *= np.exp(self._plan(marginal).potentials(rates, threads=self._model.threads))
        self._model.replace(weights)

    def _repeat(self, cells: Sequence[int], marginals: Sequence[int]) -> None:
        """Update with replay: choose what is repeated by the answers from before the round."""
        assert self._groups is not None
        for cell in cells:
            if cell not in self._query:
                self._query[cell] = self._groups.add(self._model.matching_rows(cell))
        measured = np.fromiter(self._targets.cells, np.int64)
        missing = dict(zip(measured.tolist(), self._missing(measured).tolist(), strict=True))
        missing_of = {}
        if self._targets.marginals:
            masses, total = self._model.masses()
            missing_of = {j: self._missing_of(j, masses, total) for j in self._targets.marginals}
        newest = [abs(missing[cell]) for cell in cells]
        newest += [float(np.abs(missing_of[j]).max()) for j in marginals]
        least = min(newest) / 2
        again = [cell for cell in missing if abs(missing[cell]) >= least]
        again_of = [j for j in missing_of if float(np.abs(missing_of[j]).max()) >= least]
        if self._replay == "paper":
            rates = np.zeros(len(self._groups.held))
            for cell in [*again, *cells]:
                rates[self._query[cell]] += missing[cell] / 2
            weights = self._model.weights * self._by_row(np.exp(self._potentials(rates)))
            for j in [*again_of, *marginals]:
                moved = self._plan(j).potentials(missing_of[j] / 2, threads=self._model.threads)
                weights *= np.exp(moved)
            self._model.replace(weights)
            return
        self._order.shuffle(again)
        self._order.shuffle(again_of)
        self._model.replace(self._model.weights * self._by_row(np.exp(self._refreshed(again))))
        self._move_marginals(again_of)

    def _potentials(self, rates: Vector) -> Vector:
        """For each group the sum of its queries' rates."""
        assert self._groups is not None
        potentials = np.zeros(self._groups.count)
        for held, rate in zip(self._groups.held, rates.tolist(), strict=True):
            if rate:
                potentials[held] += rate
        return potentials

    def _refreshed(self, cells: Sequence[int]) -> Vector:
        """What each group's logarithm gains by updates on these cells in turn, each on current answers."""
        assert self._groups is not None
        mass = self._groups.sums(self._model.weights)
        gained = np.zeros(self._groups.count)
        for cell, aim in zip(cells, self._aim(np.array(cells, np.int64)).tolist(), strict=True):
            held = self._groups.held[self._query[cell]]
            rate = (aim - float(mass[held].sum() / mass.sum())) / 2
            mass[held] *= math.exp(rate)
            gained[held] += rate
        return gained

    def _by_row(self, of_group: Vector) -> Vector:
        assert self._groups is not None
        return of_group[self._groups.of_row]
