"""Errors of fixed runs as ratios, so that a speed-up that loses accuracy shows: NOT PRIVATE, for experiments.

`python -m track.errors` prints them as JSON. Of made-up people: the largest error over that of the public
rows. With PRIVMW_DATA also the anchors: ADULT over the authors' best, a survey pair over its public rows, and
squared errors of fits over the uncertainty paper's. Seeds are fixed: a build gives the same ratios each time.
"""

from __future__ import annotations

import json
import os
import runpy
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import privmw as pmw

from .runs import RUNS, private_table, public_rows

MADE_UP = ("mw_pub", "pep, marginals", "auto, good public", "auto, poor public", "auto, no public")
STUDIES = Path(__file__).resolve().parents[1] / "studies"
SURVEY = "HI-18 from HI-15"
ADULT = "ADULT, women undersampled by 0.3"
ANCHORS = ((ADULT, 0.1, 3), (ADULT, 1.0, 1), (SURVEY, 0.1, 3))  # epsilon, seeds
FITS = ("Level00-2d", "PUMA0101301")
FIT_RUNS = 100


def made_up() -> Iterator[tuple[str, float]]:
    private = private_table()
    workload = pmw.Workload.all(private.domain, k=2)
    truth = private.counts(workload) / private.n
    for name in MADE_UP:
        start = public_rows(shift=1.0 if "poor" in name else 0.0).answers(workload)
        try:
            error = np.abs(RUNS[name]()().answers(workload) - truth).max()
        except (AttributeError, TypeError):  # a build from before there was such a thing
            continue
        yield f"{name}: largest error over the public rows'", float(error / np.abs(start - truth).max())


def anchors() -> Iterator[tuple[str, float]]:
    import pairs  # of benches

    authors = runpy.run_path(str(STUDIES / "accuracy.py"))["AUTHORS"]
    for name, epsilon, seeds in ANCHORS:
        pair = pairs.pair(name)
        support = pmw.Support.from_table(pair.public)
        found = [
            pmw.evaluate(
                pmw.release_auto(
                    pair.private, support, pair.workload, epsilon=epsilon, delta=pair.delta, rng=seed
                ),
                pair.private,
            ).max_error
            for seed in range(seeds)
        ]
        over = authors[name][epsilon] if name in authors else pair.start_error()
        beside = "the authors' best" if name in authors else "the public rows'"
        yield (
            f"{name}, epsilon {epsilon:g}: release_auto's largest error over {beside}",
            np.mean(found) / over,
        )


def fits() -> Iterator[tuple[str, float]]:
    study = runpy.run_path(str(STUDIES / "uncertainty.py"))
    histograms, paper = study["read_histograms"](), study["read_table"](study["CELLS"])
    for name in FITS:
        counts, rng = histograms[name], np.random.default_rng(2021)
        measured = [study["measure"](counts, "epsilon", 0.5, rng) for _ in range(FIT_RUNS)]
        for place, (method, solve) in enumerate(study["METHODS"].items()):
            squares = [((solve(noisy).weights - counts.ravel()) ** 2).sum() for noisy in measured]
            yield (
                f"{name}: {method}'s squared error over the paper's",
                float(np.mean(squares) / paper[name][2 * place]),
            )


def main() -> None:
    pmw.kernels.set_threads(1)
    found = dict(made_up())
    if os.environ.get("PRIVMW_DATA"):
        found |= dict(anchors()) | dict(fits())
    print(json.dumps({name: round(float(ratio), 4) for name, ratio in found.items()}))


if __name__ == "__main__":
    main()
