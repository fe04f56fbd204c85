"""Models that are products of distributions: what they share, from the loop's rounds to weighted rows.

Such a model has K products, each with one distribution for every attribute, and answers by their mean
(privmw.kernels.Products). In the rounds it answers for itself. At the last it becomes rows: records are drawn
from the products, evenly, and their weights are projected onto what was measured (projected.py), so that the
draw costs next to nothing. Everything follows from released values and a stated seed: a run that is resumed
finds it again. Released values only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.models.growth.completion import completed_evenly
from privmw.models.growth.path import OF_COMPLETED
from privmw.models.products import Products
from privmw.models.projected import ProjectionModel
from privmw.models.targets import Targets
from privmw.random import sampling_stream
from privmw.release.measurements import Measurement

Floats: TypeAlias = npt.NDArray[np.floating[Any]]

MOST_DRAWS = 20  # until rows keep the constraints
MEAN_DECAY, SQUARE_DECAY, TINY = 0.9, 0.99, 1e-12  # of Adam


class RelaxedModel(ABC):
    """Products that learn from measurements, and become weighted rows at the last update.

    support: no public row, with the constraints that rows must keep. workload: the marginals to be answered;
    they are the first of `measured`, whose cells measurements number. draws: how many records are drawn, with
    the sampling stream of `seed`. draws_weight: how many records they are worth where their weights are
    projected, few where the model has fitted the noise as well; None chooses it from the measurements.
    """

    def __init__(
        self,
        support: Support,
        workload: Workload,
        measured: Workload,
        n: int,
        *,
        draws: int,
        seed: int,
        draws_weight: float | None = OF_COMPLETED,
        threads: int | None = None,
    ) -> None:
        self._draws_weight = draws_weight
        self._support, self._workload, self._measured, self._n = support, workload, measured, n
        self._targets = Targets(measured, n)
        self._draws, self._seed, self._threads = draws, seed, threads
        # Rows to take where the constraints allow none of the draws; if they allow none at all, it is said
        # here, before anything is spent.
        self._otherwise = np.zeros((0, len(workload.domain)), np.uint32)
        if support.constraints is not None:
            self._otherwise = completed_evenly(support, seed).rows[:draws].astype(np.uint32)
        self._starts = np.concatenate([[0], np.cumsum(workload.domain.sizes)])  # of the stacked tables
        self._whole = products_of(workload, threads)
        self._measurements: list[Measurement] = []
        self._rows: ProjectionModel | None = None  # made at the last update

    @abstractmethod
    def _learn(self) -> Mapping[str, float]:
        """Fit what the targets hold; returns details."""

    @abstractmethod
    def _tables(self) -> Floats:
        """The stacked tables (values of all attributes x K)."""

    @abstractmethod
    def _parameters(self) -> dict[str, Float64s]:
        """Everything that later updates depend on besides the measurements, in one dimension each."""

    @abstractmethod
    def _set_parameters(self, parameters: Mapping[str, Float64s]) -> None:
        """Restore what _parameters returned."""

    def _shares(self) -> Floats:
        """The stacked tables as distributions, from which rows are drawn."""
        return self._tables()

    def answers(self) -> Float64s:
        """The answers of the products to the workload; after the last update those of the rows."""
        if self._rows is not None:
            return self._rows.answers()
        answers = self._whole.answers(self._tables()).astype(np.float64)
        return np.clip(answers, 0.0, 1.0, out=answers)  # beyond by rounding, or relaxed

    def update(self, measurements: Sequence[Measurement], *, last: bool = False) -> Mapping[str, float]:
        """Learn from all measurements so far; the last time, draw rows and weigh them."""
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
        """The parameters; None after the last update, whose rows belong to no support of before."""
        return None if self._rows is not None else ({}, self._parameters())

    def restore(
        self,
        measurements: Sequence[Measurement],
        state: tuple[Mapping[str, Float64s], Mapping[str, Float64s]],
    ) -> None:
        """Restore the state reached after these measurements."""
        for measurement in measurements:
            self._targets.add(measurement)
        self._measurements += measurements
        self._set_parameters(state[1])

    def _become_rows(self) -> dict[str, float]:
        relaxed = self.answers()
        rows = self._drawn_rows()
        wider = self._support.with_rows(rows)
        prior = np.bincount(wider.added, minlength=wider.support.size) / len(rows)
        self._rows = ProjectionModel(
            wider.support,
            self._workload,
            self._measured,
            self._n,
            prior=prior,
            prior_weight=self._draws_weight,
            threads=self._threads,
        )
        details = dict(self._rows.update(self._measurements, last=True))
        details["rows"] = float(wider.support.size)
        details["from_products"] = float(np.abs(self._rows.answers() - relaxed).max(initial=0.0))
        return details

    def _drawn_rows(self) -> npt.NDArray[np.uint32]:
        """Records drawn from the products that keep the constraints: as many as asked, or as are found."""
        shares = self._shares().astype(np.float64)
        shares /= np.add.reduceat(shares, self._starts[:-1], axis=0)[_segments(self._starts)]
        tables = tuple(np.ascontiguousarray(table.T) for table in np.split(shares, self._starts[1:-1]))
        products = Products(np.full(shares.shape[1], 1 / shares.shape[1]), tables)
        stream, allowed = sampling_stream(self._seed), self._support.constraints
        rows = np.zeros((0, len(tables)), np.uint32)
        for _ in range(MOST_DRAWS):
            drawn = products.draw_evenly(self._draws, stream)
            if allowed is not None:
                drawn = drawn[allowed.allows(drawn)]
            rows = np.concatenate([rows, drawn])[: self._draws]
            if len(rows) == self._draws:
                break
        return rows if len(rows) else self._otherwise


class Adam:
    """Adam (Kingma and Ba 2015) on one array, in place.

    damping: added to the size of gradients; parameters with smaller ones move less than the rate.
    """

    def __init__(self, parameters: Floats, damping: float = TINY) -> None:
        self._parameters, self._damping = parameters, damping
        self._mean, self._square, self._steps = np.zeros_like(parameters), np.zeros_like(parameters), 0

    def step(self, gradient: Floats, rate: float) -> None:
        """Apply a gradient."""
        self._steps += 1
        self._mean += (1 - MEAN_DECAY) * (gradient - self._mean)
        self._square += (1 - SQUARE_DECAY) * (gradient * gradient - self._square)
        size = np.sqrt(self._square / (1 - SQUARE_DECAY**self._steps)) + self._damping
        self._parameters -= (rate / (1 - MEAN_DECAY**self._steps)) * self._mean / size


def products_of(workload: Workload, threads: int | None = None) -> kernels.Products:
    """The kernel of a workload's marginals."""
    return kernels.Products(workload.domain.sizes, workload.attributes, workload.starts, threads=threads)


def softmax(logits: Floats, starts: Int64s) -> Floats:
    """Distributions of the values of each attribute, column by column; starts: its first rows, and the end.

    >>> softmax(np.array([[0.0], [0.0], [5.0]]), np.array([0, 2, 3])).tolist()
    [[0.5], [0.5], [1.0]]
    """
    segments, begins = _segments(starts), starts[:-1]
    shares: Floats = np.exp(logits - np.maximum.reduceat(logits, begins, axis=0)[segments])
    shares /= np.add.reduceat(shares, begins, axis=0)[segments]
    return shares


def softmax_gradient(shares: Floats, by_shares: Floats, starts: Int64s) -> Floats:
    """The derivatives by the logits of softmaxes, given those by the shares."""
    along = shares * by_shares
    along -= shares * np.add.reduceat(along, starts[:-1], axis=0)[_segments(starts)]
    return along


def _segments(starts: Int64s) -> Int64s:
    """For each stacked row its attribute."""
    segments: Int64s = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return segments
