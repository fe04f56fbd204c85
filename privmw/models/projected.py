"""Projection: the distribution nearest to the start that fits all measurements so far.

l1 fits every answer to within gamma (PEP); l2 weighs misfit by the noise, as a Gaussian likelihood, against
kappa KL(D || start), where kappa is the number of records that the start counts as; by default chosen from
the measurements (privmw/models/projection/prior_weight.py). Released values only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from privmw import kernels
from privmw.data.support import Start, Support
from privmw.kernels.arrays import Float64s, Int64s
from privmw.models.groups import Groups
from privmw.models.inputs import ModelInputs, State
from privmw.models.projection.prior_weight import choose_prior_weight
from privmw.models.projection.solver import Slack, project
from privmw.models.query_matrix import CellMatrix, MarginalMatrix, RowMatrix, matrix_of
from privmw.models.targets import Targets
from privmw.models.weighted_rows import WeightedRows
from privmw.release.measurements import Measurement

Kind = Literal["l1", "l2"]

# The solver's tolerance, and the gap that a certificate promises. A gap bounds errors of answers to within
# its square root only: the tolerance is far smaller, so that backends agree to 1e-9; rounding may end a fit
# sooner.
TARGET_GAP, CERTIFIED_GAP = 1e-13, 1e-9
MOST_DOUBLINGS = 40  # of gamma: from any noise to all of [0, 1]


class ProjectionModel:
    """A weighted support that is projected after each round.

    prior: the weights to start from, instead of those of `start`.
    """

    def __init__(
        self,
        inputs: ModelInputs,
        *,
        start: Start = "public",
        prior: Float64s | None = None,
        slack: Kind = "l2",
        gamma: float | None = None,
        prior_weight: float | None = None,
    ) -> None:
        self._prior = inputs.support.start(start) if prior is None else prior
        self._inputs = inputs
        self._begin_with(inputs.support)
        self._targets = Targets(inputs.measured, inputs.n)
        self._slack, self._gamma, self._prior_weight = slack, gamma, prior_weight
        self._chosen, self._chosen_at = prior_weight, 0
        self._groups: Groups | None = None  # made with the first cell
        self._updates = 0
        self._values = np.zeros(0)
        self._fitted: Int64s = np.zeros(0, np.int64)  # the cells of the last multipliers

    def _begin_with(self, support: Support) -> None:
        """Weigh these rows by the prior."""
        inputs = self._inputs
        self._model = WeightedRows(support, inputs.workload, self._prior.copy(), threads=inputs.threads)

    def answers(self) -> Float64s:
        """The model's answers to the workload."""
        return self._model.answers()

    def update(self, measurements: Sequence[Measurement], *, last: bool = False) -> Mapping[str, float]:
        """Project onto all measurements so far; returns the certificate."""
        for measurement in measurements:
            self._targets.add(measurement)
        self._updates += 1
        # Choosing costs several fits: at rounds 1, 2, 4, 8 ..., and at the last.
        return self._project(choose=last or self._updates >= 2 * self._chosen_at)

    def result(self) -> tuple[Support, Float64s]:
        """The support, and the weights of its rows to release, with sum 1."""
        return self._model.support, self._model.distribution()

    def state(self) -> tuple[dict[str, Float64s], dict[str, Float64s]] | None:
        """The weights of this rank's rows; the last multipliers, with the cells and round they belong to."""
        numbers = {
            "multipliers": self._values,
            "fitted": self._fitted.astype(np.float64),
            "chosen": np.array([math.nan if self._chosen is None else self._chosen]),
            "updates": np.array([self._updates, self._chosen_at], np.float64),
        }
        return {"weights": self._model.weights}, numbers

    def restore(self, measurements: Sequence[Measurement], state: State) -> None:
        """Restore the state reached after these measurements."""
        for measurement in measurements:
            self._targets.add(measurement)
        rows, numbers = state
        self._values, self._fitted = numbers["multipliers"], numbers["fitted"].astype(np.int64)
        (chosen,) = numbers["chosen"].tolist()
        self._chosen = None if math.isnan(chosen) else chosen
        self._updates, self._chosen_at = (int(number) for number in numbers["updates"])
        self._model.replace(rows["weights"], scaled=True)

    def _project(self, choose: bool) -> Mapping[str, float]:
        matrix = self._marginal_matrix() if self._targets.marginals else self._cell_matrix()
        answers, precision = self._targets.answers(matrix.cells), self._targets.precision(matrix.cells)
        warm = self._warm(matrix.cells)
        if choose and self._slack == "l2" and self._prior_weight is None:
            self._chosen, warm = choose_prior_weight(matrix, self._prior, answers, precision)
            self._chosen_at = self._updates
        doubled = 0
        while True:
            slack, gamma = self._allowed(precision, doubled)
            fit = project(
                matrix,
                self._prior,
                answers if slack.w is not None else np.clip(answers, 0.0, 1.0),
                slack,
                multipliers=warm,
                tolerance=TARGET_GAP,
            )
            # No distribution is within gamma, or the solver could not certify one: loosen gamma.
            certified = fit.gap <= CERTIFIED_GAP and (slack.gamma is None or fit.kkt <= CERTIFIED_GAP)
            if certified or slack.gamma is None or doubled == MOST_DOUBLINGS:
                break
            doubled, warm = doubled + 1, None
        # Multipliers that did not converge are no good start for the next round.
        self._fitted = matrix.cells if certified else matrix.cells[:0]
        self._values = fit.multipliers if certified else fit.multipliers[:0]
        self._model.replace(fit.weights)
        details = {"gap": fit.gap, "kkt": fit.kkt, "steps": float(fit.steps), "passes": float(fit.passes)}
        details["converged"] = float(certified)
        if gamma is not None:
            details["gamma"] = gamma
        elif self._chosen is not None:
            details["prior_weight"] = self._chosen
        return details

    def _allowed(self, precision: Float64s, doubled: int) -> tuple[Slack, float | None]:
        if self._slack == "l2":
            assert self._chosen is not None
            return Slack(w=precision / self._chosen), None
        noise = 1 / np.sqrt(precision)
        gamma = noise if self._gamma is None else np.full(len(precision), float(self._gamma))
        if doubled:  # starting from the noise: a gamma of 0 would stay 0
            gamma = np.maximum(gamma, noise / 2) * 2.0**doubled
        return Slack(gamma=gamma), float(gamma.max())

    def _warm(self, cells: Int64s) -> Float64s | None:
        """The last multipliers for the cells that they belong to, and 0 for others."""
        if len(self._fitted) == 0:
            return None
        values = np.zeros(len(cells))
        if len(cells):
            order = np.argsort(cells)
            at = order[np.searchsorted(cells, self._fitted, sorter=order).clip(max=len(cells) - 1)]
            present = cells[at] == self._fitted
            values[at[present]] = self._values[present]
        return values

    def _cell_matrix(self) -> CellMatrix:
        cells = np.fromiter(self._targets.cells, np.int64)
        if self._groups is None:
            self._groups = Groups(self._model.support.size)
        for cell in cells[self._groups.queries :].tolist():
            self._groups.add(self._model.matching_rows(cell))
        return CellMatrix(cells, self._groups, self._inputs.threads, self._model.comm)

    def _marginal_matrix(self) -> MarginalMatrix | RowMatrix:
        """The cells of every marginal that was measured, entirely or in part.

        Cells without a measurement are left out, and so are cells without a row, whose answer is 0 for any
        weights: on real data most cells.
        """
        workload, measured = self._targets.workload, self._targets.measured()
        chosen = workload.select(measured)
        cells = workload.cells_of(measured)
        marginals = kernels.Marginals(
            self._model.support.columns, chosen.attributes, chosen.starts, threads=self._inputs.threads
        )
        return matrix_of(
            chosen, self._targets.precision(cells), marginals, self._inputs.threads, self._model.comm, cells
        )
