"""The authors' way in plain numpy on one thread, written from the papers: what the loops are raced against.

An index of rows x marginals is built beforehand; a round evaluates every marginal with one weighted bincount,
selects among all cells in long doubles, measures one with Gaussian noise, and updates. Kinder than their own:
no bins for outliers, and the index has bincount's own type, so that no round casts it.

Not private: doubles, and no ledger. For benches and as an anchor of accuracy only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from baselines import numpy_indices, numpy_matching, numpy_prebuilt_sums

import privmw as pmw

EDGE = 1e-6  # PEP keeps answers this far from 0 and 1


def epsilon0(epsilon: float, delta: float, rounds: int) -> float:
    """A round selects and measures for rho / (2 rounds) each: epsilon0^2 / 2 twice."""
    return math.sqrt(pmw.accounting.rho_from_epsilon(epsilon, delta) / rounds)


class Authors:
    """Set-up and the steps that both algorithms share.

    `rows` are the distinct public rows (rows x attributes) and `counts` how often each stands in the public
    table; `private_counts` are the cells' counts in the private one, of `n` records.
    """

    def __init__(
        self,
        rows: np.ndarray,
        counts: np.ndarray,
        workload: pmw.Workload,
        private_counts: np.ndarray,
        n: int,
    ) -> None:
        self.columns: Sequence[np.ndarray] = [np.ascontiguousarray(column) for column in rows.T]
        self.indices = numpy_indices(self.columns, workload, range(len(workload)))
        self.workload, self.n = workload, n
        self.private_answers = private_counts / n
        self.prior = counts / counts.sum()

    def begin(self, epsilon0: float, seed: int) -> None:
        self.epsilon0 = epsilon0
        self.rng = np.random.default_rng(seed)
        self.weights = self.prior.copy()

    def answers(self, weights: np.ndarray) -> np.ndarray:
        return np.concatenate(numpy_prebuilt_sums(self.indices, weights))

    def error(self, weights: np.ndarray) -> float:
        """The largest of all cells."""
        return float(np.abs(self.private_answers - self.answers(weights)).max())

    def select(self, model_answers: np.ndarray, exponent: float = 1.0) -> int:
        """The exponential mechanism: P(cell) ~ exp(exponent eps0 n |error|); sensitivity 1/n.

        An exponent of 1/2 is what the authors ran as permute-and-flip. The chances are not scaled before they
        are exponentiated, as theirs: past 11,356 long doubles overflow, and this raises.
        """
        errors = np.abs(self.private_answers - model_answers)
        with np.errstate(over="raise"):
            chances = np.exp(exponent * self.epsilon0 * self.n * errors, dtype=np.longdouble)
        ends = np.cumsum(chances / chances.sum())
        return min(int(np.searchsorted(ends, self.rng.random(), "right")), len(ends) - 1)

    def measure(self, cell: int) -> float:
        noise = self.rng.normal(scale=1 / (self.n * self.epsilon0))
        return float(np.clip(self.private_answers[cell] + noise, 0, 1))

    def matching(self, cell: int) -> np.ndarray:
        asked = self.workload.queries([cell])
        return numpy_matching(self.columns, asked.attributes.tolist(), asked.values.tolist())


class AuthorsMWPub(Authors):
    """MW-Pub as run: the update is exp(q(x) (a - q(A)) / 2), and `replay` says on which measurements.

    "none": the newest. "paper": the newest, then in random order all whose error is at least half the
    newest's, itself among them; answers stay those from the start of the round. A cell that is measured again
    has its new answer only.
    """

    def begin(
        self,
        epsilon0: float,
        seed: int,
        replay: Literal["none", "paper"] = "paper",
        exponent: float = 1.0,
    ) -> None:
        super().begin(epsilon0, seed)
        self.replay, self.exponent = replay, exponent
        self.measured: dict[int, tuple[np.ndarray, float]] = {}

    def round(self) -> None:
        model_answers = self.answers(self.weights)
        newest = self.select(model_answers, self.exponent)
        self.update(newest, self.measure(newest), model_answers)

    def update(self, newest: int, noisy_answer: float, model_answers: np.ndarray) -> None:
        self.measured[newest] = self.matching(newest), noisy_answer
        errors = {cell: abs(answer - model_answers[cell]) for cell, (_, answer) in self.measured.items()}
        again = []
        if self.replay == "paper":
            again = [cell for cell, error in errors.items() if error >= errors[newest] / 2]
            self.rng.shuffle(again)
        for cell in [newest, *again]:
            rows, answer = self.measured[cell]
            self.weights[rows] *= math.exp((answer - model_answers[cell]) / 2)
            self.weights /= self.weights.sum()

    def release(
        self,
        rounds: int,
        epsilon0: float,
        seed: int,
        replay: Literal["none", "paper"] = "paper",
        output: Literal["last", "average"] = "last",
        exponent: float = 1.0,
    ) -> np.ndarray:
        """The weights after the last round, or the average over the rounds."""
        self.begin(epsilon0, seed, replay, exponent)
        total = np.zeros_like(self.weights)
        for _ in range(rounds):
            self.round()
            total += self.weights
        return total / rounds if output == "average" else self.weights.copy()


class AuthorsPEP(Authors):
    """PEP with gamma 0 from the public prior: coordinate steps on the worst measurement.

    Round t takes min(25, 2t) of them, and each evaluates the whole workload. `multipliers` are the lambdas of
    the measurements in `cells`: weights ~ prior exp(sum of lambda_i q_i).
    """

    def begin(self, epsilon0: float, seed: int) -> None:
        super().begin(epsilon0, seed)
        self.cells: list[int] = []
        self.noisy_answers: list[float] = []
        self.rows: list[np.ndarray] = []
        self.multipliers: list[float] = []

    def round(self) -> None:
        cell = self.select(self.answers(self.weights))
        self.learn(cell, self.measure(cell))

    def learn(self, cell: int, noisy_answer: float) -> None:
        self.add(cell, noisy_answer)
        for _ in range(min(25, 2 * len(self.cells))):
            self.step()

    def add(self, cell: int, noisy_answer: float) -> None:
        """A measurement to project on; its multiplier starts at 0."""
        self.cells.append(cell)
        self.noisy_answers.append(noisy_answer)
        self.rows.append(self.matching(cell))
        self.multipliers.append(0.0)

    def step(self) -> None:
        worst, odds = self.worst(self.answers(self.weights)[self.cells])
        self.weights[self.rows[worst]] *= odds
        self.weights /= self.weights.sum()

    def worst(self, model_answers: np.ndarray) -> tuple[int, float]:
        """Of the first measurements the one answered worst, its multiplier moved; and the odds it gains."""
        worst = int(np.abs(model_answers - self.noisy_answers[: len(model_answers)]).argmax())
        # lambda_i <- lambda_i + log(a (1 - p) / ((1 - a) p)): then q_i(A) = a.
        a = min(max(self.noisy_answers[worst], EDGE), 1 - EDGE)
        p = min(max(float(model_answers[worst]), EDGE), 1 - EDGE)
        odds = a * (1 - p) / ((1 - a) * p)
        self.multipliers[worst] += math.log(odds)
        return worst, odds

    def catch_up(self, cells: Sequence[int], noisy_answers: Sequence[float]) -> None:
        """The state after rounds with these measurements: the same steps, but quickly.

        They look at the measured cells only, over groups of rows that are alike on all of them.
        """
        self.weights = self.prior.copy()
        for cell, answer in zip(cells, noisy_answers, strict=True):
            self.add(cell, answer)
        alike = np.packbits(np.array(self.rows), axis=0)
        _, first, group = np.unique(alike, axis=1, return_index=True, return_inverse=True)
        held = [np.flatnonzero(rows[first]) for rows in self.rows]
        prior = np.bincount(group, self.prior)
        mass = prior.copy()
        for t in range(1, len(cells) + 1):
            for _ in range(min(25, 2 * t)):
                worst, odds = self.worst(np.array([mass[held[i]].sum() for i in range(t)]))
                mass[held[worst]] *= odds
                mass /= mass.sum()
        self.weights *= (mass / prior)[group]

    def release(self, rounds: int, epsilon0: float, seed: int) -> np.ndarray:
        """The weights after the last round."""
        self.begin(epsilon0, seed)
        for _ in range(rounds):
            self.round()
        return self.weights.copy()
