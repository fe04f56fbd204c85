"""Rounds of MW-Pub, and their set-up, against the authors' way in numpy.

A round of privmw is one of a whole release through the public mechanism: select, measure, update, answers
and its entries in ledger and history. `progress` says when each ends, so that set-up and first round do not
count. A round of numpy evaluates its prebuilt index, selects in long doubles, measures and updates. Both
spend the same budget on the same number of rounds, with the exponential mechanism and the last weights.
(The lines of pytest-benchmark itself time the whole release.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import pytest
import real_data
import round_shapes
from authors import AuthorsMWPub, epsilon0
from baselines import cells_of, numpy_indices, numpy_prebuilt_sums, numpy_sums, subset
from race import Case, Line, Ratio, Spent, each_line
from round_shapes import RoundShape

import privmw as pmw
from privmw.algorithms.mechanism import Mechanism
from privmw.models.inputs import ModelInputs
from privmw.models.multiplicative import MultiplicativeWeights

Replay = Literal["none", "paper"]
OURS, AUTHORS = "privmw", "numpy (the authors' way)"
SETUP, INDEX, EVALUATION = "numpy (index and counts)", "numpy (index alone)", "numpy (one evaluation)"


def mechanism(shape: RoundShape, rounds: int, replay: Replay) -> Mechanism:
    algorithm = pmw.MWPub(rounds=rounds, replay=replay, output="last", select="exponential")
    return algorithm.calibrate(1.0, 1 / shape.private.n**2)


def timed_rounds(shape: RoundShape, rounds: int, replay: Replay) -> Line:
    """All rounds of a release but the first."""

    def run() -> Spent:
        ends: list[tuple[float, float]] = []
        mechanism(shape, rounds, replay)(
            shape.private,
            shape.support,
            shape.workload,
            rng=0,
            threads=1,
            progress=lambda _: ends.append((time.perf_counter(), time.process_time())),
        )
        return Spent(ends[-1][0] - ends[0][0], ends[-1][1] - ends[0][1])

    return Line(run, rounds - 1)


def follow(authors: AuthorsMWPub, release: pmw.Release, replay: Replay) -> np.ndarray:
    """The authors' answers when what a release chose and measured is fed to them.

    They keep a cell's newest answer only, privmw the mean of all: so they are given the mean.
    """
    authors.begin(1.0, 0, replay)
    measured: dict[int, list[float]] = {}
    for measurement in release.measurements:
        cell = int(measurement.cells[0])
        measured.setdefault(cell, []).append(int(measurement.noisy_counts[0]) / release.n)
        mean = float(np.clip(np.mean(measured[cell]), 0, 1))
        authors.update(cell, mean, authors.answers(authors.weights))
    return authors.answers(authors.weights)


def round_case(shape: RoundShape, rounds: int, replay: Replay, authors_rounds: int) -> Case:
    private_counts, n = shape.private.counts(shape.workload), shape.private.n
    authors = AuthorsMWPub(shape.support.rows, shape.support.counts, shape.workload, private_counts, n)
    spent = epsilon0(1.0, 1 / n**2, rounds)

    def check() -> None:
        few = mechanism(shape, min(rounds, 12), replay)
        release = few(shape.private, shape.support, shape.workload, rng=0, threads=1)
        np.testing.assert_allclose(release.answers(), follow(authors, release, replay), rtol=0, atol=1e-9)

    return Case(
        {
            OURS: timed_rounds(shape, rounds, replay),
            AUTHORS: Line(partial(authors.release, authors_rounds, spent, 0, replay), authors_rounds),
        },
        [Ratio(OURS, AUTHORS, 10)],
        check,
        f"{shape.support.size:,} rows, {len(shape.workload):,} marginals of {shape.workload.cells:,} cells",
    )


def adult(smoke: bool, replay: Replay) -> Case:
    rounds = 5 if smoke else 50
    return round_case(round_shapes.adult(), rounds, replay, rounds)


def small_or_200k(smoke: bool) -> RoundShape:
    return round_shapes.rounds200k(4_000, 50, 2_000) if smoke else round_shapes.rounds200k()


def rounds200k(smoke: bool, replay: Replay) -> Case:
    return round_case(small_or_200k(smoke), 5 if smoke else 50, replay, 3)


def setup_case(smoke: bool) -> Case:
    """From distinct public rows and private records to the first answers and the private counts."""
    shape = small_or_200k(smoke)
    rows, workload, n = shape.support.table, shape.workload, shape.private.n
    everything = range(len(workload))

    def ours() -> tuple[np.ndarray, np.ndarray]:
        support = pmw.Support(rows, shape.support.counts)
        model = MultiplicativeWeights(ModelInputs(support, workload, workload, n, threads=1))
        return model.answers(), shape.private.counts(workload)

    def numpy_index() -> list[tuple[np.ndarray, int]]:
        return numpy_indices(rows.columns, workload, everything)

    def theirs() -> tuple[np.ndarray, np.ndarray]:
        weights = shape.support.counts / shape.support.counts.sum()
        answers = numpy_prebuilt_sums(numpy_index(), weights)
        counts = numpy_sums(shape.private.columns, workload, everything, np.ones(n))
        return np.concatenate(answers), np.concatenate(counts)

    def check() -> None:
        for mine, other in zip(ours(), theirs(), strict=True):
            np.testing.assert_allclose(mine, other, rtol=0, atol=1e-9)

    return Case(
        {OURS: Line(ours), SETUP: Line(theirs), INDEX: Line(numpy_index)},
        [Ratio(OURS, SETUP, 10), Ratio(OURS, INDEX)],
        check,
    )


def acs_case(shape: RoundShape, rounds: int, numpy_marginals: int) -> Case:
    workload, columns = shape.workload, shape.support.table.columns
    few = subset(workload, numpy_marginals)
    indices = numpy_indices(columns, workload, few)
    release = mechanism(shape, rounds, "none")(shape.private, shape.support, workload, rng=0, threads=1)
    weights = release.weights

    def check() -> None:
        answers = cells_of(workload, few, release.answers())
        for ours, theirs in zip(answers, numpy_prebuilt_sums(indices, weights), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)

    return Case(
        {
            OURS: timed_rounds(shape, rounds, "none"),
            "privmw, replay": timed_rounds(shape, rounds, "paper"),
            EVALUATION: Line(lambda: numpy_prebuilt_sums(indices, weights), len(few) / len(workload)),
        },
        [Ratio(OURS, EVALUATION, 100), Ratio("privmw, replay", EVALUATION)],
        check,
        f"{shape.support.size:,} rows, {len(workload):,} marginals; numpy over {len(few)} of them",
    )


def few_marginals(shape: RoundShape) -> RoundShape:
    return shape._replace(workload=shape.workload.select(subset(shape.workload, 100)))


def acs(smoke: bool) -> Case:
    if smoke:
        return acs_case(few_marginals(round_shapes.acs(2_000, 1_000)), 3, 20)
    return acs_case(round_shapes.acs(), 20, 200)


def acs_real(smoke: bool) -> Case:
    try:
        shape = round_shapes.acs_real()
    except real_data.NoDataError as reason:
        pytest.skip(str(reason))
    return acs_case(few_marginals(shape), 3, 20) if smoke else acs_case(shape, 20, 200)


BOTH, ACS_LINES = (OURS, AUTHORS), (OURS, "privmw, replay", EVALUATION)
CASES = {
    "adult, a round": (partial(adult, replay="none"), BOTH),
    "adult, a round with replay": (partial(adult, replay="paper"), BOTH),
    "rounds200k, a round": (partial(rounds200k, replay="none"), BOTH),
    "rounds200k, a round with replay": (partial(rounds200k, replay="paper"), BOTH),
    "rounds200k, set-up": (setup_case, (OURS, SETUP, INDEX)),
    "acs67, a round": (acs, ACS_LINES),
    "acs67_real, a round": (acs_real, ACS_LINES),
}


@pytest.mark.parametrize(("case", "line"), each_line(CASES))
def test_rounds(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, CASES[case][0], fewest=2)
