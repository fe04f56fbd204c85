"""Relaxed rows: the model of RAP, whose K rows are fitted to all measurements by gradient steps.

A row has a number for every value of every attribute. With softmax these are logits, and a row is a product
of distributions; all begin near the one-way margins of the first measurements, and the mean divergence of the
rows from these margins is added to the loss, worth prior_weight records: without it small budgets fit the
noise (models/products.py has the same). Without softmax the numbers are the shares themselves, clipped to -1
to 1 after each step, as in relaxed adaptive projection (Aydore et al. 2021): then nothing makes the shares of
an attribute add up to 1, or keeps the answers within 0 and 1; answers are clipped where a round chooses by
them, and rows are drawn from the positive parts. Released values only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from privmw import kernels
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s
from privmw.models.products import default_prior_weight, one_way_margins
from privmw.models.relaxed import Adam, Floats, RelaxedModel, products_of, softmax, softmax_gradient
from privmw.random import sampling_stream

TINY = 1e-12  # added to a share before its logarithm


@dataclass(frozen=True, eq=False)
class Fitted:
    """What rows are fitted to: answers with weights up to 1, and one-way margins worth `worth` of weight."""

    products: kernels.Products
    answers: Floats  # one per cell, as the weights
    weights: Floats
    margin_logs: Floats  # one per value of each attribute, a column
    worth: float

    @classmethod
    def of(
        cls,
        measured: tuple[Workload, Float64s, Float64s],
        prior_weight: float | None,
        threads: int | None,
    ) -> Fitted:
        """The answers and precisions of some marginals; a prior weight of None is chosen from the noise."""
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

    def missed(self, tables: Floats) -> Floats:
        """How far the answers of products are from what they are to be."""
        missed: Floats = self.products.answers(tables) - self.answers
        return missed

    def gradient(self, tables: Floats) -> tuple[float, Floats]:
        """Half the weighted squared misfit with what the prior adds, and its derivatives by the tables."""
        missed = self.missed(tables)
        pull: Floats = missed * self.weights
        loss = float(missed @ pull) / 2
        by_tables, _ = self.products.gradient(tables, pull)
        if self.worth:
            worth = self.worth / tables.shape[1]
            information = np.log(tables + TINY) - self.margin_logs
            loss += worth * float(np.einsum("ij,ij->", tables, information))
            by_tables += worth * information
        return loss, by_tables


class RelaxedRows(RelaxedModel):
    """Rows fitted by Adam to the squared misfit of all measured cells, each weighted by its precision.

    rows: K. rate, steps: of each round's fit; the rate falls to 0 as half a cosine. prior_weight: how many
    records independent attributes are worth, with softmax; None chooses it from the noise.
    """

    def __init__(
        self,
        support: Support,
        workload: Workload,
        measured: Workload,
        n: int,
        *,
        rows: int,
        softmax: bool,
        rate: float,
        steps: int,
        prior_weight: float | None,
        draws: int,
        seed: int,
        threads: int | None = None,
    ) -> None:
        super().__init__(support, workload, measured, n, draws=draws, seed=seed, threads=threads)
        self._softmax, self._rate, self._steps = softmax, rate, steps
        self._prior_weight = prior_weight if softmax else 0.0
        start = sampling_stream(seed).uniform(-1, 1, (int(self._starts[-1]), rows))
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
        # Without a positive part every value is as likely.
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
        for step in range(self._steps):
            rate = self._rate * (1 + math.cos(math.pi * step / self._steps)) / 2
            adam.step(self.gradient(fitted)[1], rate)
            if not self._softmax:
                np.clip(self._numbers, -1.0, 1.0, out=self._numbers)
        missed = fitted.missed(self._tables())
        return {"loss": float(missed @ (missed * fitted.weights)) / 2, "steps": float(self._steps)}

    def gradient(self, fitted: Fitted) -> tuple[float, Floats]:
        """The loss of what is fitted, and its derivatives by the numbers."""
        tables = self._tables()
        loss, by_tables = fitted.gradient(tables)
        return loss, softmax_gradient(tables, by_tables, self._starts) if self._softmax else by_tables
