"""The model of GEM: a generator (generator.py) trained on what was measured, after each round.

Two losses. "squared": the squared errors of all measured cells, weighted by precision. "absolute": the mean
of |noisy answer - model answer| over the measured cells whose error is above half of an exponential average
of the largest ("Iterative methods for private synthetic data", equation 3, as its authors ran it); if whole
marginals are measured, the largest errors are mostly noise. Optimised by Adam, with a rate that falls as half
a cosine in each round.

GEM-Pub starts from a generator trained on public answers by the absolute loss, which lowers the largest
errors several times faster where there is no noise. With the squared loss the public answers are fitted too,
with an estimated weight: training on few noisy marginals alone forgets them. Public and released values only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from privmw.data.support import Support, in_words
from privmw.data.workload import Workload
from privmw.extensions.relaxed.generator import Generator, GeneratorShape, load_generator
from privmw.extensions.relaxed.model import Draws, RelaxedModel, products_of
from privmw.extensions.relaxed.relaxed_rows import Fitted
from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.models.inputs import ModelInputs
from privmw.models.training import Adam, Floats, Training
from privmw.random import sampling_stream
from privmw.release.measurements import Measurement
from privmw.secrecy import shown

Loss = Literal["squared", "absolute"]

LARGE_ERROR = 0.5  # share of the running largest error above which a cell is in the loss
LARGEST_ERROR_DECAY = 0.5  # of the running average
PUBLIC_MARGINALS_PER_ROUND = 64  # fitted beside the measured ones
DAMPING = 1e-8  # of Adam: parameters that hardly affect the loss keep what they learnt
FIRST_PUBLIC_RATE, LAST_PUBLIC_RATE = 3e-3, 3e-5  # of training on public rows
STALLED_EPOCHS = 100  # epochs without progress until the rate is halved


class LargestMisfit:
    """The mean absolute error of the cells with large errors, and its gradient.

    answers: the targets of cells. used: which cells have one. running: the exponential average of the largest
    error so far; NaN at first.
    """

    def __init__(self, answers: Float64s, used: Bools, running: float = math.nan) -> None:
        self._answers, self._used = np.clip(answers, 0.0, 1.0).astype(np.float32), used
        self.running = running

    def pull(self, model_answers: Floats) -> tuple[float, Floats]:
        """The largest error, and the derivative of the loss by each cell."""
        errors = np.where(self._used, model_answers - self._answers, np.float32(0))
        sizes = np.abs(errors)
        largest = float(sizes.max())
        first = math.isnan(self.running)
        self.running = (
            largest if first else LARGEST_ERROR_DECAY * self.running + (1 - LARGEST_ERROR_DECAY) * largest
        )
        high = sizes > LARGE_ERROR * self.running
        pull: Floats = np.where(high, np.sign(errors), np.float32(0))
        pull /= np.float32(max(int(np.count_nonzero(high)), 1))
        return largest, pull


def public_marginals(workload: Workload, columns: Sequence[str]) -> Int64s:
    """The marginals of a workload within the public columns; raises if there are none."""
    public = {workload.domain.index(name) for name in columns}
    marginals = [
        j
        for j, (start, end) in enumerate(zip(workload.starts[:-1], workload.starts[1:], strict=True))
        if public.issuperset(workload.attributes[start:end].tolist())
    ]
    if not marginals:
        raise ValueError(
            f"workload ({shown(workload)}) must have a marginal of the public columns to train a "
            f"generator on: {in_words(columns)}"
        )
    return np.array(marginals, np.int64)


def pretrain(
    generator: Generator,
    support: Support,
    workload: Workload,
    *,
    epochs: int,
    threads: int | None = None,
) -> float:
    """Train a generator on the answers of public rows, without noise; returns the largest error.

    An epoch is a step on all marginals of the workload that the public rows have. The rate is halved where
    the largest error has not fallen for STALLED_EPOCHS epochs, and the best network is kept. Attributes that
    the public rows lack end uniform and independent of the others.
    """
    columns = public_columns(support)
    some = workload.select(public_marginals(workload, columns))
    misfit = LargestMisfit(support.answers(some), np.ones(some.cells, bool))
    products, adam = products_of(some, threads), Adam(generator.parameters, DAMPING)
    best, kept, waited, rate = math.inf, generator.parameters.copy(), 0, FIRST_PUBLIC_RATE
    for _ in range(epochs):
        tables = generator.tables()
        largest, pull = misfit.pull(products.answers(tables))
        waited += 1
        if largest < best:
            best, waited = largest, 0
            kept[:] = generator.parameters
        elif waited > STALLED_EPOCHS:
            waited, rate = 0, rate / 2
            if rate < LAST_PUBLIC_RATE:
                break
        adam.step(generator.gradient(products.gradient(tables, pull)[0]), rate)
    generator.parameters[:] = kept
    generator.make_even(support.missing)
    generator.columns, generator.records = columns, support.records
    return best


def public_columns(support: Support) -> tuple[str, ...]:
    """The attributes that public rows have; none without public rows."""
    return tuple(name for name in support.domain.names if name not in support.missing)


def pretrained_generator(
    support: Support,
    workload: Workload,
    shape: GeneratorShape,
    *,
    epochs: int,
    seed: int,
    threads: int | None = None,
) -> Generator:
    """A new generator, trained on public rows."""
    generator = Generator(support.domain, shape, seed=seed)
    pretrain(generator, support, workload, epochs=epochs, threads=threads)
    return generator


class GeneratedRows(RelaxedModel):
    """A generator that is trained after each round on all measurements so far.

    A round takes at most the steps of `training`. pretrained: a file with the generator to start from.
    epochs: at most, of training on the public rows of the support, before the first answers.
    """

    def __init__(
        self,
        inputs: ModelInputs,
        draws: Draws,
        training: Training,
        *,
        shape: GeneratorShape,
        epochs: int,
        loss: Loss,
        pretrained: str | None = None,
    ) -> None:
        support, workload, domain = inputs.support, inputs.workload, inputs.workload.domain
        if pretrained is not None and support.records:
            raise ValueError(
                f"pretrained ({pretrained}) must come without public rows: a generator was trained on them"
            )
        if support.comm.size > 1:
            raise ValueError(f"support (on {support.comm.size} ranks) must be on one rank: GEM is")
        rows = Support.without_public(domain, support.constraints)
        super().__init__(inputs.with_support(rows), draws)
        if pretrained is None:
            self._generator = Generator(domain, shape, seed=draws.seed)
        else:
            self._generator = load_generator(pretrained, domain)
        columns = public_columns(support) or self._generator.columns
        self._public_marginals = public_marginals(workload, columns) if columns else np.zeros(0, np.int64)
        # Attributes without public information.
        self._unknown = tuple(name for name in domain.names if name not in columns)
        self._public, self._epochs = support, epochs
        self._training, self._loss = training, loss
        self._at_first: Float64s | None = None  # the initial answers to public marginals
        self._begun, self._last, self._running = False, False, math.nan

    def _tables(self) -> Floats:
        if self._at_first is None:  # lazily: a resumed run has it stored
            if self._public.records:
                pretrain(
                    self._generator,
                    self._public,
                    self._inputs.workload,
                    epochs=self._epochs,
                    threads=self._threads,
                )
            tables, some = self._generator.tables(), self._inputs.workload.select(self._public_marginals)
            self._at_first = np.zeros(0)
            if len(self._public_marginals):
                self._at_first = products_of(some, self._threads).answers(tables).astype(np.float64)
            self._records = self._generator.records
        return self._generator.tables()

    def update(self, measurements: Sequence[Measurement], *, last: bool = False) -> Mapping[str, float]:
        """Train on all measurements so far; at the last round with all public answers."""
        self._last = last
        return super().update(measurements, last=last)

    def _learn(self) -> Mapping[str, float]:
        """Take the steps of a round."""
        measured, worth = self._targets.measured_marginals(), 0.0
        if self._loss == "absolute":
            details = self._follow_largest(*measured)
        else:
            if len(self._public_marginals):
                measured, worth = self._with_public()
            details = self._fit(Fitted.of(measured, self._training.prior_weight, self._threads))
        return details | ({"public_worth": worth} if worth else {})

    def _fit(self, fitted: Fitted) -> dict[str, float]:
        """Lower the squared errors of all measured cells."""
        generator = self._generator
        if not self._begun:
            generator.begin_at(fitted.margin_logs, self._unknown)
        self._begun = True
        adam = Adam(generator.parameters, DAMPING * float(fitted.weights.sum()))
        for step in range(self._training.steps):
            _, by_tables = fitted.gradient(generator.tables())
            adam.step(generator.gradient(by_tables), self._training.rate_at(step))
        return {"training_steps": float(self._training.steps)}

    def _follow_largest(self, chosen: Workload, answers: Float64s, precision: Float64s) -> dict[str, float]:
        """Lower the absolute errors of the cells with large errors; the paper's loss."""
        products = products_of(chosen, self._threads)
        misfit, generator = LargestMisfit(answers, precision > 0, self._running), self._generator
        adam, taken = Adam(generator.parameters), 0
        for step in range(self._training.steps):
            tables = generator.tables()
            _, pull = misfit.pull(products.answers(tables))
            if not pull.any():
                break
            adam.step(generator.gradient(products.gradient(tables, pull)[0]), self._training.rate_at(step))
            taken += 1
        self._running = misfit.running
        return {"training_steps": float(taken)}

    def _with_public(self) -> tuple[tuple[Workload, Float64s, Float64s], float]:
        """The measurements, with the initial answers added as if measured on a sample of `worth` records.

        Such an answer q has variance q / worth. worth is estimated as sum q / sum((noisy - q)^2 - variance)
        over the measured cells, and is at most the number of public records. It is biased downwards, since
        rounds measure where errors are large.
        """
        measured = self._targets.workload
        precision = self._targets.precision(np.arange(measured.cells))
        weighted = np.zeros(measured.cells)  # answers times precisions
        measured_cells = np.flatnonzero(precision)
        weighted[measured_cells] = self._targets.answers(measured_cells) * precision[measured_cells]
        assert self._at_first is not None
        cells, public, records = measured.cells_of(self._public_marginals), self._at_first, self._records
        worth, both = float(records), precision[cells] > 0
        if both.any():
            errors = self._targets.answers(cells[both]) - public[both]
            excess = float((errors * errors - 1 / precision[cells[both]]).sum())
            worth = min(worth, float(public[both].sum()) / max(excess, 1e-12))
        # Cells without a record are not certain, and rare cells, the most precise, must not dominate.
        as_measured = np.minimum(worth / (public + 1 / records), precision.max())
        kept = self._public_cells_of_round(measured.marginal_of(cells))
        precision[cells[kept]] += as_measured[kept]
        weighted[cells[kept]] += (as_measured * public)[kept]
        marginals = np.unique(measured.marginal_of(np.flatnonzero(precision)))
        cells = measured.cells_of(marginals)
        precision = precision[cells]
        answers = np.divide(weighted[cells], precision, out=np.zeros(len(cells)), where=precision > 0)
        return (measured.select(marginals), answers, precision), worth

    def _public_cells_of_round(self, marginals: Int64s) -> Bools:
        """Which cells of public marginals a round fits: of a random sample; at the last round, all."""
        if self._last or len(self._public_marginals) <= PUBLIC_MARGINALS_PER_ROUND:
            return np.ones(len(marginals), bool)
        stream = sampling_stream(np.random.SeedSequence([self._draws.seed, len(self._measurements)]))
        return np.isin(
            marginals, stream.choice(self._public_marginals, PUBLIC_MARGINALS_PER_ROUND, replace=False)
        )

    def _parameters(self) -> dict[str, Float64s]:
        assert self._at_first is not None
        return {
            "network": self._generator.parameters.astype(np.float64),
            "at_first": self._at_first,
            "numbers": np.array([self._records, self._begun, self._running], np.float64),
        }

    def _set_parameters(self, parameters: Mapping[str, Float64s]) -> None:
        self._generator.parameters[:] = parameters["network"]
        self._at_first = parameters["at_first"]
        records, begun, self._running = parameters["numbers"].tolist()
        self._records, self._begun = int(records), bool(begun)
