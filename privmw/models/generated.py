"""The model of GEM: a generator (generator.py) trained on what was measured, after each round.

Two losses. "squared": that of all measured cells, each weighted by its precision. "absolute": the mean of
|noisy answer - model answer| over the measured cells whose error is above half of an exponential average of
the largest ("Iterative methods for private synthetic data", equation 3, as its authors ran it); it follows
the largest errors, and where whole marginals are measured those are noise. Steps are Adam's, from a rate that
falls as half a cosine in each round.

GEM-Pub is the same from a generator that was trained on public answers before, by the absolute loss: without
noise it lowers largest errors several times faster. With the squared loss the public answers stay among what
is fitted, for what they are worth: training on few noisy marginals alone forgets them. Public and released
values only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from privmw.data.support import Support, in_words
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.models.generator import Generator, GeneratorShape, load_generator
from privmw.models.relaxed import Adam, Float32s, RelaxedModel, products_of

Loss = Literal["squared", "absolute"]

ABOVE = 0.5  # of the running largest error: cells that pull
DECAY = 0.5  # of the running largest error
DAMPING = 1e-7  # of Adam: parameters that hardly matter to the loss hardly move, and what was learnt stays
PUBLIC_RATE, LEAST_RATE = 3e-3, 3e-5  # of training on public rows, at first and to end at
PLATEAU = 50  # epochs without progress until it is halved


class Misfit:
    """The loss of some cells, and what it pulls at.

    answers, precision: what each cell is to be, and its inverse variance; 0 for a cell that may be anything.
    running: the exponential average of the largest error so far; NaN for none.
    """

    def __init__(
        self, answers: Float64s, precision: Float64s, loss: Loss, running: float = math.nan
    ) -> None:
        if loss == "absolute":  # a squared misfit would be biased by clipping
            answers = np.clip(answers, 0.0, 1.0)
        self._answers, self._used = answers.astype(np.float32), precision > 0
        self._shares = (precision / precision.sum()).astype(np.float32)
        self._loss, self.running = loss, running

    def pull(self, model_answers: Float32s) -> tuple[float, Float32s]:
        """The largest error, and the derivative of the loss by each cell."""
        missed = np.where(self._used, model_answers - self._answers, np.float32(0))
        sizes = np.abs(missed)
        largest = float(sizes.max())
        if self._loss == "squared":
            return largest, missed * self._shares
        first = math.isnan(self.running)
        self.running = largest if first else DECAY * self.running + (1 - DECAY) * largest
        high = sizes > ABOVE * self.running
        pull: Float32s = np.where(high, np.sign(missed), np.float32(0))
        return largest, pull / np.float32(max(int(np.count_nonzero(high)), 1))


def public_marginals(support: Support, workload: Workload) -> Int64s:
    """The marginals of a workload whose attributes the public rows have; refuses a workload without any."""
    lacking = {support.domain.index(name) for name in support.missing}
    known = [
        j
        for j, (start, end) in enumerate(zip(workload.starts[:-1], workload.starts[1:], strict=True))
        if lacking.isdisjoint(workload.attributes[start:end].tolist())
    ]
    if not known:
        raise ValueError(
            f"workload ({workload!r}) must have a marginal of the public columns to train a generator on: "
            f"the public rows lack {in_words(support.missing)}"
        )
    return np.array(known, np.int64)


def pretrain(
    generator: Generator,
    support: Support,
    workload: Workload,
    *,
    epochs: int,
    threads: int | None = None,
) -> float:
    """Train a generator on the answers of public rows, without noise; returns the largest error left.

    An epoch is a step on all marginals of the workload that the public rows have. The rate is halved where
    the largest error has not fallen for PLATEAU epochs, and the best network is kept. Attributes that the
    public rows lack are even and independent of the others afterwards: their random start, which the training
    of others moves, would say something of them.
    """
    some = workload.select(public_marginals(support, workload))
    misfit = Misfit(support.answers(some), np.ones(some.cells), "absolute")
    products, adam = products_of(some, threads), Adam(generator.parameters)
    best, kept, waited, rate = math.inf, generator.parameters.copy(), 0, PUBLIC_RATE
    for _ in range(epochs):
        tables = generator.tables()
        largest, pull = misfit.pull(products.answers(tables))
        waited += 1
        if largest < best:
            best, waited = largest, 0
            kept[:] = generator.parameters
        elif waited > PLATEAU:
            waited, rate = 0, rate / 2
            if rate < LEAST_RATE:
                break
        adam.step(generator.gradient(products.gradient(tables, pull)[0]), rate)
    generator.parameters[:] = kept
    generator.make_even(support.missing)
    return best


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
    """A generator that is trained after each round, on everything measured so far.

    steps: of a round, at most. pretrained: a file of the generator to begin with. The public rows of the
    support, if there are any, train it before the first answers, for so many epochs at most.
    """

    def __init__(
        self,
        support: Support,
        workload: Workload,
        measured: Workload,
        n: int,
        *,
        shape: GeneratorShape,
        steps: int,
        rate: float,
        draws: int,
        epochs: int,
        loss: Loss,
        seed: int,
        pretrained: str | None = None,
        threads: int | None = None,
    ) -> None:
        domain = workload.domain
        if pretrained is not None and support.records:
            raise ValueError(
                f"pretrained ({pretrained}) must come without public rows: a generator was trained on them"
            )
        if support.records:
            public_marginals(support, workload)
        if support.comm.size > 1:
            raise ValueError(f"support (on {support.comm.size} ranks) must be on one rank: GEM is")
        rows = Support.without_public(domain, support.constraints)
        super().__init__(rows, workload, measured, n, draws=draws, seed=seed, threads=threads)
        if pretrained is None:
            self._generator = Generator(domain, shape, seed=seed)
        else:
            self._generator = load_generator(pretrained, domain)
        self._public = support
        self._epochs = epochs if support.records else 0
        self._steps, self._rate, self._loss = steps, rate, loss
        self._running = math.nan

    def _tables(self) -> Float32s:
        if self._epochs:  # here: a run that is resumed has its network stored, and needs none of it
            epochs, self._epochs = self._epochs, 0
            pretrain(self._generator, self._public, self._workload, epochs=epochs, threads=self._threads)
        return self._generator.tables()

    def _learn(self) -> Mapping[str, float]:
        """Take the steps of a round."""
        chosen, answers, precision = self._targets.measured_marginals()
        worth = 0.0
        if self._loss == "squared" and self._public.records:
            chosen, answers, precision, worth = self._with_public()
        products = products_of(chosen, self._threads)
        misfit = Misfit(answers, precision, self._loss, self._running)
        generator = self._generator
        adam, taken, largest = Adam(generator.parameters, DAMPING), 0, math.nan
        for step in range(self._steps):
            tables = generator.tables()
            largest, pull = misfit.pull(products.answers(tables))
            if not pull.any():
                break
            gradient = generator.gradient(products.gradient(tables, pull)[0])
            adam.step(gradient, self._rate * (1 + math.cos(math.pi * step / self._steps)) / 2)
            taken += 1
        self._running = misfit.running
        details = {"training_steps": float(taken), "misfit": largest}
        return details | ({"public_worth": worth} if worth else {})

    def _with_public(self) -> tuple[Workload, Float64s, Float64s, float]:
        """What was measured, and public answers as if a sample of some records had given them.

        A public answer q has variance q / worth, the worth in records being what the measurements say of
        public answers: sum q / sum((noisy - q)^2 - variance) over the measured cells, and at most the number
        of public records. Rounds measure where errors are large, so it is rather too small.
        """
        measured = self._targets.workload
        precision = self._targets.precision(np.arange(measured.cells))
        weighted = np.zeros(measured.cells)  # answers times precisions
        seen = np.flatnonzero(precision)
        weighted[seen] = self._targets.answers(seen) * precision[seen]
        known = public_marginals(self._public, self._workload)  # the workload's come first in `measured`
        cells, public = measured.cells_of(known), self._public.answers(self._workload.select(known))
        worth, both = float(self._public.records), precision[cells] > 0
        if both.any():
            off = self._targets.answers(cells[both]) - public[both]
            excess = float((off * off - 1 / precision[cells[both]]).sum())
            worth = min(worth, float(public[both].sum()) / max(excess, 1e-12))
        as_measured = worth / (public + 1 / self._public.records)  # a cell without a record is not certain
        precision[cells] += as_measured
        weighted[cells] += as_measured * public
        among = np.unique(measured.marginal_of(np.flatnonzero(precision)))
        cells = measured.cells_of(among)
        held = precision[cells]
        answers = np.divide(weighted[cells], held, out=np.zeros(len(cells)), where=held > 0)
        return measured.select(among), answers, held, worth

    def _parameters(self) -> dict[str, Float64s]:
        network = self._generator.parameters.astype(np.float64)
        return {"network": network, "running": np.array([self._running])}

    def _set_parameters(self, parameters: Mapping[str, Float64s]) -> None:
        self._epochs = 0
        self._generator.parameters[:] = parameters["network"]
        (self._running,) = parameters["running"].tolist()
