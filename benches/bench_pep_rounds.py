"""A round of PEP with 100 measurements against the authors' 25 coordinate steps; time and gap together.

Both are brought to the state after 99 rounds with the same measurements, which does not count, and are then
timed for one round more: answers, a selection among all cells, a measurement, and the projection onto all.
The selection is made for its time only: whatever it chooses, both go on with the same 100th measurement.
privmw is driven by hand (curator and model), as the mechanism would drive it. gamma is 0, so the measured
answers are those of a distribution on the support: some distribution then fits all of them.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

import numpy as np
import pytest
import round_shapes
from authors import AuthorsPEP, epsilon0
from race import Case, Figures, Line, Ratio, Spent, each_line

import privmw as pmw
from privmw.models.inputs import ModelInputs
from privmw.release.measurements import Measurement

OURS, AUTHORS = "privmw", "numpy (the authors' way)"
N = 2**40  # records of the measurements: their answers are then exact to 1e-12


def measurements(shape: round_shapes.RoundShape, count: int) -> list[Measurement]:
    """Distinct cells as MW-Pub chooses them, five at a time, and the answers of its last weights."""
    algorithm = pmw.MWPub(rounds=count // 2, per_round=5, select="exponential", replay="paper", output="last")
    run = algorithm.calibrate(1.0, 1 / shape.private.n**2)
    release = run(shape.private, shape.support, shape.workload, rng=0, threads=1)
    chosen = dict.fromkeys(cell for entry in release.history for cell in entry.chosen)
    answers = release.answers()
    given = [_exactly(cell, float(answers[cell])) for cell in chosen][:count]
    assert len(given) == count
    return given


def _exactly(cell: int, answer: float) -> Measurement:
    return Measurement(np.array([cell]), np.array([round(answer * N)]), "discrete-gaussian", 1.0, 1)


class OurRound:
    """The model after all measurements but the last; `run` adds that."""

    def __init__(self, shape: round_shapes.RoundShape, given: list[Measurement]) -> None:
        self.shape, self.given = shape, given
        self.curator = pmw.curator.Curator(shape.private, shape.workload, pmw.Budget.zcdp(1000), rng=0)
        self.epsilon = 2 * epsilon0(1.0, 1 / shape.private.n**2, 100)

    def run(self) -> Spent:
        algorithm = pmw.PEP(measure="cell", slack="l1", gamma=0.0)
        self.model = algorithm.model(
            ModelInputs(self.shape.support, self.shape.workload, self.shape.workload, N, threads=1)
        )
        self.model.update(self.given[:-1])
        answers = self.model.answers()
        wall, cpu = time.perf_counter(), time.process_time()
        chosen = self.curator.select(answers, epsilon=self.epsilon, mechanism="exponential")
        self.curator.measure(chosen, rho=self.epsilon**2 / 8)
        self.details = self.model.update(self.given[-1:])
        self.model.answers()
        return Spent(time.perf_counter() - wall, time.process_time() - cpu)


class TheirRound:
    def __init__(self, shape: round_shapes.RoundShape, given: list[Measurement]) -> None:
        n, counts = shape.private.n, shape.private.counts(shape.workload)
        authors = AuthorsPEP(shape.support.rows, shape.support.counts, shape.workload, counts, n)
        authors.begin(epsilon0(1.0, 1 / n**2, 100), 0)
        self.cells = [int(measured.cells[0]) for measured in given]
        self.answers = [int(measured.noisy_counts[0]) / N for measured in given]
        authors.catch_up(self.cells[:-1], self.answers[:-1])
        self.before = authors

    def run(self) -> Spent:
        authors = self.authors = copy.copy(self.before)
        for name in ("weights", "cells", "noisy_answers", "rows", "multipliers"):
            setattr(authors, name, getattr(authors, name).copy())
        wall, cpu = time.perf_counter(), time.process_time()
        chosen = authors.select(authors.answers(authors.weights))
        authors.measure(chosen)
        authors.learn(self.cells[-1], self.answers[-1])
        return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def gap_of(weights: np.ndarray, authors: AuthorsPEP) -> tuple[float, float]:
    """The duality gap sum |lambda_i (q_i(D) - a_i)| of weights ~ prior exp(sum lambda_i q_i), and the misfit.

    The multipliers are read off the weights, so that one function serves both: least squares over rows that
    differ on some measured cell.
    """
    queries = np.array(authors.rows)
    _, first = np.unique(np.packbits(queries, axis=0), axis=1, return_index=True)
    logs = np.log(weights[first] / authors.prior[first])
    design = np.column_stack([queries[:, first].T.astype(np.float64), np.ones(len(first))])
    solved = np.linalg.lstsq(design, logs, rcond=None)[0]
    np.testing.assert_allclose(design @ solved, logs, rtol=0, atol=1e-6)
    missed = queries @ (weights / weights.sum()) - np.array(authors.noisy_answers)
    return float(np.abs(solved[:-1] * missed).sum()), float(np.abs(missed).max())


def pep_case(smoke: bool, report: Figures) -> Case:
    shape = round_shapes.rounds200k(2_000, 40, 2_000) if smoke else round_shapes.rounds200k()
    given = measurements(shape, 10 if smoke else 100)
    ours, theirs = OurRound(shape, given), TheirRound(shape, given)

    def check() -> None:
        ours.run()
        theirs.run()
        _, release = ours.model.result()
        (gap, misfit), (their_gap, their_misfit) = (
            gap_of(weights, theirs.authors) for weights in (release, theirs.authors.weights)
        )
        np.testing.assert_allclose(ours.model.answers(), theirs.authors.answers(release), rtol=0, atol=1e-9)
        assert gap < max(1e-8, their_gap)
        reached = f"{gap:.2g} vs {their_gap:.2g} (largest misfit {misfit:.2g} vs {their_misfit:.2g})"
        title = f"rounds200k, PEP with {len(given)} measurements"
        report.add("bench_pep_rounds.py", title, "duality gap", "smaller", reached, gap < their_gap)

    return Case({OURS: Line(ours.run), AUTHORS: Line(theirs.run)}, [Ratio(OURS, AUTHORS, 40)], check)


@pytest.mark.parametrize(("case", "line"), each_line({"rounds200k, a round": (pep_case, (OURS, AUTHORS))}))
def test_pep_rounds(case: str, line: str, bench: Callable[..., None], report: Figures) -> None:
    bench(case, line, lambda smoke: pep_case(smoke, report), fewest=1)
