"""Projection: after each round the distribution nearest to the start that fits all measurements so far.

l1 fits every answer to within gamma (PEP); l2 weighs misfit by the noise, as a Gaussian likelihood, against
kappa KL(D || start): kappa is how many records the start is worth. Where nobody says, kappa is chosen by the
measurements themselves (privmw/models/prior_weight.py). Cells are fitted over groups of rows alike, whole
marginals over rows. Released values only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.measurements import Measurement
from privmw.models.groups import Groups
from privmw.models.prior_weight import choose_prior_weight
from privmw.models.targets import Targets
from privmw.models.weighted_support import WeightedSupport
from privmw.projection import Projection, Slack, project
from privmw.support import Start, Support
from privmw.workload import Workload

Kind = Literal["l1", "l2"]
Vector = npt.NDArray[np.float64]

# What a fit aims at, and what it must reach. A gap bounds answers to within its root only: the aim is far
# below the certificate, so that every backend answers alike to 1e-9; rounding may end a fit before it.
AIM, CERTIFIED = 1e-13, 1e-9
MOST_DOUBLINGS = 40  # of gamma: from any noise to all of [0, 1]


class ProjectedSupport:
    """A weighted support that is projected anew after each round.

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
        slack: Kind = "l2",
        gamma: float | None = None,
        prior_weight: float | None = None,
        threads: int | None = None,
    ) -> None:
        self._model = WeightedSupport(support, workload, start, threads=threads)
        self._prior = support.start(start)
        self._targets = Targets(measured, n)
        self._slack, self._gamma, self._prior_weight = slack, gamma, prior_weight
        self._threads = threads
        self._chosen, self._chosen_at = prior_weight, 0
        self._groups, self._updates = Groups(support.size), 0
        self._values = np.zeros(0)
        self._fitted: npt.NDArray[np.int64] = np.zeros(0, np.int64)  # the cells of the last multipliers

    def answers(self) -> Vector:
        """The model's answers to the workload."""
        return self._model.answers()

    def update(self, measurements: Sequence[Measurement], *, last: bool = False) -> Mapping[str, float]:
        """Take in a round's measurements, and project; returns the certificate."""
        for measurement in measurements:
            self._targets.add(measurement)
        self._updates += 1
        # Choosing costs several fits: at rounds 1, 2, 4, 8 ..., and at the last.
        return self._project(choose=last or self._updates >= 2 * self._chosen_at)

    def result(self) -> Vector:
        """The weights to release, with sum 1."""
        return self._model.distribution()

    def _project(self, choose: bool) -> Mapping[str, float]:
        whole = bool(self._targets.marginals)
        operator: Cells | WholeMarginals = self._whole() if whole else self._cells()
        prior = self._prior if whole else self._groups.sums(self._prior)
        answers, precision = self._targets.answers(operator.cells), self._targets.precision(operator.cells)
        warm = self._warm(operator.cells)
        if choose and self._slack == "l2" and self._prior_weight is None:
            self._chosen, warm = choose_prior_weight(operator, prior, answers, precision, self._threads)
            self._chosen_at = self._updates
        doubled = 0
        while True:
            slack, gamma = self._allowed(precision, doubled)
            fit = project(
                operator,
                prior,
                answers if slack.w is not None else np.clip(answers, 0.0, 1.0),
                slack,
                multipliers=warm,
                tolerance=AIM,
                threads=self._threads,
            )
            # No distribution is within gamma, or hardly one, so that none could be certified: more room.
            certified = fit.gap <= CERTIFIED and (slack.gamma is None or fit.kkt <= CERTIFIED)
            if certified or slack.gamma is None or doubled == MOST_DOUBLINGS:
                break
            doubled, warm = doubled + 1, None
        # Multipliers that went astray are no start for the next round.
        self._fitted = operator.cells if certified else operator.cells[:0]
        self._values = fit.multipliers if certified else fit.multipliers[:0]
        self._model.replace(self._rows(fit, prior, whole))
        details = {"gap": fit.gap, "kkt": fit.kkt, "steps": float(fit.steps), "passes": float(fit.passes)}
        details["converged"] = float(certified)
        if gamma is not None:
            details["gamma"] = gamma
        elif self._chosen is not None:
            details["prior_weight"] = self._chosen
        return details

    def _allowed(self, precision: Vector, doubled: int) -> tuple[Slack, float | None]:
        if self._slack == "l2":
            assert self._chosen is not None
            return Slack(w=precision / self._chosen), None
        noise = 1 / np.sqrt(precision)
        gamma = noise if self._gamma is None else np.full(len(precision), float(self._gamma))
        if doubled:  # from the noise on, as a gamma of 0 could be doubled for ever
            gamma = np.maximum(gamma, noise / 2) * 2.0**doubled
        return Slack(gamma=gamma), float(gamma.max())

    def _warm(self, cells: npt.NDArray[np.int64]) -> Vector | None:
        """The last multipliers at their cells among these, 0 elsewhere."""
        if len(self._fitted) == 0:
            return None
        order = np.argsort(cells)
        at = order[np.searchsorted(cells, self._fitted, sorter=order)]
        values = np.zeros(len(cells))
        values[at] = self._values
        return values

    def _cells(self) -> Cells:
        cells = np.fromiter(self._targets.cells, np.int64)
        for cell in cells[self._groups.queries :].tolist():
            self._groups.add(self._model.matching_rows(cell))
        starts, queries = self._groups.incidence()
        return Cells(cells, kernels.Incidence(starts, queries, len(cells)))

    def _whole(self) -> WholeMarginals:
        """Every marginal of which something was measured.

        Cells without measurement stay out of the fit, and so do cells without a row: no weights change their
        answer of 0, and on real data they are most of all cells.
        """
        workload = self._targets.workload
        single = np.fromiter(self._targets.cells, np.int64)
        among = np.unique(
            np.concatenate([np.fromiter(self._targets.marginals, np.int64), workload.marginal_of(single)])
        )
        chosen = workload.select(among)
        sizes = np.diff(chosen.offsets)
        cells = np.arange(chosen.cells) + np.repeat(workload.offsets[among] - chosen.offsets[:-1], sizes)
        marginals = kernels.Marginals(
            self._model.support.columns, chosen.attributes, chosen.starts, threads=self._threads
        )
        held = marginals.sums(np.ones(self._model.support.size, np.int64), threads=self._threads) > 0
        places = np.flatnonzero((self._targets.precision(cells) > 0) & held)
        return WholeMarginals(cells[places], places, marginals, self._threads)

    def _rows(self, fit: Projection, prior: Vector, whole: bool) -> Vector:
        if whole:
            return fit.weights
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(prior > 0, fit.weights / prior, 0.0)
        weights: Vector = self._prior * factor[self._groups.of_row]
        return weights


class Cells:
    """Single cells over groups of rows alike."""

    def __init__(self, cells: npt.NDArray[np.int64], incidence: kernels.Incidence) -> None:
        self.cells, self._incidence = cells, incidence
        self.count = len(cells)
        self.potentials, self.sums = incidence.potentials, incidence.sums

    def gram(self, weights: Vector) -> Vector | None:
        """The weight of the groups that two queries share."""
        gram: Vector = self._incidence.gram(weights)
        return gram


class WholeMarginals:
    """Cells of whole marginals over rows: one gather, or one addition, for each row and marginal."""

    def __init__(
        self,
        cells: npt.NDArray[np.int64],
        places: npt.NDArray[np.int64],
        marginals: kernels.Marginals,
        threads: int | None,
    ) -> None:
        self.cells, self._places, self._marginals, self._threads = cells, places, marginals, threads
        self.count = len(cells)
        self._spread = np.zeros(marginals.cells)
        self._sums = np.empty(marginals.cells, np.int64)

    def potentials(self, values: Vector) -> Vector:
        """For each row the sum of its cells' values."""
        self._spread[self._places] = values
        return self._marginals.potentials(self._spread, threads=self._threads)

    def sums(self, weights: Vector) -> Vector:
        """For each cell the sum of its rows' weights: exact in fixed point, on a scale of their own."""
        scale = float(np.abs(weights).sum())
        if scale == 0:
            return np.zeros(self.count)
        masses = np.rint(weights * (2.0**60 / scale)).astype(np.int64)
        sums = self._marginals.sums(masses, self._sums, threads=self._threads)[self._places]
        fitted: Vector = sums.astype(np.float64)
        fitted *= scale / 2.0**60
        return fitted

    def gram(self, weights: Vector) -> Vector | None:
        """Too many cells for a matrix."""
        return None
