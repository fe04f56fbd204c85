"""Relaxed rows: the model of RAP, whose K rows are fitted to all measurements by gradient steps.

A row has one number per value of each attribute. With softmax these are logits, and a row is a product of
distributions; all start near the one-way margins of the first measurements, and prior_weight times the mean
divergence of the rows from these margins is added to the loss: without it small budgets fit the noise (as in
models/products.py). Without softmax the numbers are the shares themselves, clipped to [-1, 1] after each
step, as in relaxed adaptive projection (Aydore et al. 2021). Then the shares of an attribute need not sum to
1; answers are clipped to [0, 1] for selection, and rows are drawn from the positive parts. Released values
only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from privmw import kernels
from privmw.data.workload import Workload
from privmw.extensions.relaxed.model import Draws, RelaxedModel, products_of, softmax, softmax_gradient
from privmw.kernels.arrays import Float64s
from privmw.models.inputs import ModelInputs
from privmw.models.products import default_prior_weight, one_way_margins
from privmw.models.training import TINY, Adam, Floats, Training
from privmw.random import sampling_stream


@dataclass(frozen=True, eq=False)
class Fitted:
    """What rows are fitted to: answers with weights up to 1, and one-way margins with `prior_weight`."""

    products: kernels.Products
    answers: Floats  # one per cell, as the weights
    weights: Floats
    margin_logs: Floats  # one per value of each attribute, a column
    prior_weight: float  # on the scale of the weights

    @classmethod
    def of(
        cls,
        measured: tuple[Workload, Float64s, Float64s],
        prior_weight: float | None,
        threads: int | None,
    ) -> Fitted:
        """From the answers and precisions of some marginals; prior_weight None is chosen from the noise."""
        chosen, answers, precision = measured
        if prior_weight is None:
            prior_weight = default_prior_weight(chosen, precision)
        scale = 1 / float(precision.max())
        margins = np.log(np.concatenate(one_way_margins(chosen, answers, precision)))
        return cls(
            products_of(chosen, threads),
            answers.astype(np.float32),
            (precision * scale).astype(np.float32),
            margins[:, None].astype(np.float32),
            prior_weight * scale,
        )

    def errors(self, tables: Floats) -> Floats:
        """The answers of products less the measured answers."""
        return self.products.answers(tables) - self.answers

    def gradient(self, tables: Floats) -> tuple[float, Floats]:
        """Half the weighted squared error plus the prior's term, and its gradient."""
        errors = self.errors(tables)
        pull: Floats = errors * self.weights
        loss = float(errors @ pull) / 2
        by_tables, _ = self.products.gradient(tables, pull)
        if self.prior_weight:
            row_prior_weight = self.prior_weight / tables.shape[1]
            information = np.log(tables + TINY) - self.margin_logs
            loss += row_prior_weight * float(np.einsum("ij,ij->", tables, information))
            by_tables += row_prior_weight * information
        return loss, by_tables


class RelaxedRows(RelaxedModel):
    """Rows fitted by Adam to the squared errors of all measured cells, weighted by precision.

    rows: K. The prior weight of the training is 0 without softmax.
    """

    def __init__(
        self, inputs: ModelInputs, draws: Draws, training: Training, *, rows: int, softmax: bool
    ) -> None:
        super().__init__(inputs, draws)
        self._softmax, self._training = softmax, training
        self._prior_weight = training.prior_weight if softmax else 0.0
        start = sampling_stream(draws.seed).uniform(-1, 1, (int(self._starts[-1]), rows))
        self._numbers: Floats = start.astype(np.float32)
        self._begun = False

    def _tables(self) -> Floats:
        return softmax(self._numbers, self._starts) if self._softmax else self._numbers

    def _shares(self) -> Floats:
        tables = self._tables()
        if self._softmax:
            return tables
        positive = np.maximum(tables, 0.0)
        totals = np.add.reduceat(positive, self._starts[:-1], axis=0)
        # Uniform if no value has a positive part.
        shares: Floats = positive + np.repeat(totals == 0, np.diff(self._starts), axis=0)
        return shares

    def _parameters(self) -> dict[str, Float64s]:
        return {"numbers": self._numbers.astype(np.float64).ravel()}

    def _set_parameters(self, parameters: Mapping[str, Float64s]) -> None:
        numbers = parameters["numbers"].reshape(self._numbers.shape)
        self._numbers, self._begun = numbers.astype(np.float32), True

    def _learn(self) -> Mapping[str, float]:
        fitted = Fitted.of(self._targets.measured_marginals(), self._prior_weight, self._threads)
        if self._softmax and not self._begun:
            self._numbers += fitted.margin_logs
        self._begun = True
        adam = Adam(self._numbers)
        for step in range(self._training.steps):
            adam.step(self.gradient(fitted)[1], self._training.rate_at(step))
            if not self._softmax:
                np.clip(self._numbers, -1.0, 1.0, out=self._numbers)
        errors = fitted.errors(self._tables())
        return {"loss": float(errors @ (errors * fitted.weights)) / 2, "steps": float(self._training.steps)}

    def gradient(self, fitted: Fitted) -> tuple[float, Floats]:
        """The loss and its gradient with respect to the numbers."""
        tables = self._tables()
        loss, by_tables = fitted.gradient(tables)
        return loss, softmax_gradient(tables, by_tables, self._starts) if self._softmax else by_tables
