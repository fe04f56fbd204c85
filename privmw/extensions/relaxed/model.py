"""The base of models that are mixtures of products of distributions.

Such a model has K products, each with one distribution per attribute, and answers by their mean
(privmw.kernels.Products). At the last round it becomes rows: records are drawn from the products, and their
weights are projected onto the measurements (projected.py), so that drawing adds little error. Everything is a
function of released values and the seed, so a resumed run reproduces it. Released values only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.models.growth.completion import completed_evenly
from privmw.models.growth.path import COMPLETED_WEIGHT
from privmw.models.inputs import ModelInputs, State
from privmw.models.products import DRAW_ATTEMPTS, Products
from privmw.models.projected import ProjectionModel
from privmw.models.targets import Targets
from privmw.random import sampling_stream
from privmw.release.measurements import Measurement

Floats: TypeAlias = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Draws:
    """The records that are drawn at the last round.

    seed: of their sampling stream, and of the first state of the model. prior_weight: in the projection, in
    records: small if the model has fitted the noise too; None chooses it from the measurements.
    """

    count: int
    seed: int
    prior_weight: float | None = COMPLETED_WEIGHT


class RelaxedModel(ABC):
    """Products that are fitted to measurements, and become weighted rows at the last update.

    The support of the inputs has no public rows, but the constraints that rows must keep.
    """

    def __init__(self, inputs: ModelInputs, draws: Draws) -> None:
        support, workload = inputs.support, inputs.workload
        self._inputs, self._draws, self._threads = inputs, draws, inputs.threads
        self._targets = Targets(inputs.measured, inputs.n)
        # Rows to take if no draw keeps the constraints; raises before anything is spent if no row does.
        self._fallback_rows = np.zeros((0, len(workload.domain)), np.uint32)
        if support.constraints is not None:
            self._fallback_rows = completed_evenly(support, draws.seed).rows[: draws.count].astype(np.uint32)
        self._starts = np.concatenate([[0], np.cumsum(workload.domain.sizes)])  # of the stacked tables
        self._workload_products = products_of(workload, inputs.threads)
        self._measurements: list[Measurement] = []
        self._rows: ProjectionModel | None = None  # made at the last update

    @abstractmethod
    def _learn(self) -> Mapping[str, float]:
        """Fit the targets; returns details."""

    @abstractmethod
    def _tables(self) -> Floats:
        """The stacked tables (values of all attributes x K)."""

    @abstractmethod
    def _parameters(self) -> dict[str, Float64s]:
        """The state besides the measurements, as one-dimensional arrays."""

    @abstractmethod
    def _set_parameters(self, parameters: Mapping[str, Float64s]) -> None:
        """Restore what _parameters returned."""

    def _shares(self) -> Floats:
        """The stacked tables as distributions, from which rows are drawn."""
        return self._tables()

    def answers(self) -> Float64s:
        """The answers of the products to the workload; after the last update, of the rows."""
        if self._rows is not None:
            return self._rows.answers()
        answers = self._workload_products.answers(self._tables()).astype(np.float64)
        return np.clip(answers, 0.0, 1.0, out=answers)  # beyond by rounding, or relaxed

    def update(self, measurements: Sequence[Measurement], *, last: bool = False) -> Mapping[str, float]:
        """Fit all measurements so far; at the last round, draw rows and weigh them."""
        for measurement in measurements:
            self._targets.add(measurement)
        self._measurements += measurements
        details = dict(self._learn())
        if last:
            details |= self._become_rows()
        return details

    def result(self) -> tuple[Support, Float64s]:
        """The rows that were drawn, and their weights, with sum 1."""
        assert self._rows is not None
        return self._rows.result()

    def state(self) -> tuple[dict[str, Float64s], dict[str, Float64s]] | None:
        """The parameters; None after the last update, whose rows are not stored."""
        return None if self._rows is not None else ({}, self._parameters())

    def restore(self, measurements: Sequence[Measurement], state: State) -> None:
        """Restore the state reached after these measurements."""
        for measurement in measurements:
            self._targets.add(measurement)
        self._measurements += measurements
        self._set_parameters(state[1])

    def _become_rows(self) -> dict[str, float]:
        relaxed = self.answers()
        rows = self._draw_rows()
        wider = self._inputs.support.with_rows(rows)
        prior = np.bincount(wider.added, minlength=wider.support.size) / len(rows)
        self._rows = ProjectionModel(
            self._inputs.with_support(wider.support), prior=prior, prior_weight=self._draws.prior_weight
        )
        details = dict(self._rows.update(self._measurements, last=True))
        details["rows"] = float(wider.support.size)
        details["from_products"] = float(np.abs(self._rows.answers() - relaxed).max(initial=0.0))
        return details

    def _draw_rows(self) -> npt.NDArray[np.uint32]:
        """Draw `draws` records that keep the constraints, or fewer if those are rare."""
        shares = self._shares().astype(np.float64)
        shares /= np.add.reduceat(shares, self._starts[:-1], axis=0)[_segments(self._starts)]
        tables = tuple(np.ascontiguousarray(table.T) for table in np.split(shares, self._starts[1:-1]))
        products = Products(np.full(shares.shape[1], 1 / shares.shape[1]), tables)
        stream, allowed = sampling_stream(self._draws.seed), self._inputs.support.constraints
        rows = np.zeros((0, len(tables)), np.uint32)
        for _ in range(DRAW_ATTEMPTS):
            candidates = products.draw_evenly(self._draws.count, stream)
            if allowed is not None:
                candidates = candidates[allowed.allows(candidates)]
            rows = np.concatenate([rows, candidates])[: self._draws.count]
            if len(rows) == self._draws.count:
                break
        return rows if len(rows) else self._fallback_rows


def products_of(workload: Workload, threads: int | None = None) -> kernels.Products:
    """The kernel that evaluates products on a workload's marginals."""
    return kernels.Products(workload.domain.sizes, workload.attributes, workload.starts, threads=threads)


def softmax(logits: Floats, starts: Int64s) -> Floats:
    """The softmax of each attribute's rows, column by column; starts: their first rows, and the end.

    >>> softmax(np.array([[0.0], [0.0], [5.0]]), np.array([0, 2, 3])).tolist()
    [[0.5], [0.5], [1.0]]
    """
    segments, begins = _segments(starts), starts[:-1]
    shares: Floats = np.exp(logits - np.maximum.reduceat(logits, begins, axis=0)[segments])
    shares /= np.add.reduceat(shares, begins, axis=0)[segments]
    return shares


def softmax_gradient(shares: Floats, by_shares: Floats, starts: Int64s) -> Floats:
    """The derivatives with respect to the logits, given those with respect to the shares."""
    along = shares * by_shares
    along -= shares * np.add.reduceat(along, starts[:-1], axis=0)[_segments(starts)]
    return along


def _segments(starts: Int64s) -> Int64s:
    """The attribute of each stacked row."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))
