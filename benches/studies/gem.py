"""GEM and GEM-Pub on ADULT beside RAP with softmax: true errors and processor time over seeds.

    python benches/study.py gem                    # epsilon 1, five seeds: half an hour of a processor
    python benches/study.py gem --epsilons 0.25 1 --seeds 2 --only "GEM" "GEM-Pub, 10 %"
    python benches/study.py gem --published        # GEM with the paper's sizes too: hours

13 columns, 286 three-way marginals, 334,128 cells. The public table is the unbiased tenth of the papers'
split (benches/pairs.py), with all columns or with 7 of 13: SEVEN leaves to the missing columns as many
combinations, and has as many cells, as the paper states. Needs PRIVMW_DATA. Errors look at private records,
so nothing here is private; seeds make runs repeatable. `--smoke` runs one seed of a small network.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pairs

import privmw as pmw
from privmw.algorithms.configuration import Algorithm

PAIR = "ADULT, unbiased 10 %"
SEVEN = ("sex", "race", "relationship", "marital-status", "occupation", "education-num", "age_10")
SMOKE = {"rounds": 2, "rows": 16, "steps": 3, "draws": 500}


@dataclass(frozen=True)
class Line:
    """A line of the table: an algorithm, and the columns of the public table that it sees."""

    make: Callable[..., Algorithm]
    columns: tuple[str, ...] = ()


SAME = {"warm_up": 0.1, "order": 1, "split": 0.33}  # as GEM spends its budget
LINES = {
    "RAP, softmax": Line(pmw.RAP),
    "RAP, softmax, spending as GEM": Line(partial(pmw.RAP, **SAME)),
    "GEM": Line(pmw.GEM),
    "GEM-Pub, 10 %": Line(pmw.GEM, ("all",)),
    "GEM-Pub, 10 %, 7 of 13 columns": Line(pmw.GEM, SEVEN),
}
PUBLISHED = {"GEM as published": Line(pmw.GEM.as_published)}


def run(line: Line, pair: pairs.Pair, epsilon: float, seed: int, smoke: bool) -> tuple[float, float, float]:
    """The largest error, the mean L1 error of a marginal, and the seconds of a processor of one run."""
    support = None
    if line.columns:
        public = pair.public if line.columns == ("all",) else pair.public.project(line.columns)
        support = pmw.Support.from_table(public, domain=pair.private.domain)
    mechanism = line.make(**(SMOKE if smoke else {})).calibrate(epsilon, pair.delta)
    began = time.process_time()
    release = mechanism(pair.private, support, pair.workload, rng=seed, threads=1)
    seconds = time.process_time() - began
    stated = mechanism.rho
    assert stated * (1 - 1e-12) < release.ledger.rho <= stated, "the ledger must say what was stated"
    off = np.abs(release.answers() - pair.private.counts(pair.workload) / pair.private.n)
    return float(off.max()), float(off.sum()) / len(pair.workload), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*LINES, *PUBLISHED])
    parser.add_argument("--published", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    lines = LINES | (PUBLISHED if options.published else {})
    pair, seeds = pairs.pair(PAIR), 1 if options.smoke else options.seeds
    print(f"{PAIR}: n {pair.private.n:,}, delta {pair.delta:.2g}, {seeds} seeds\n")
    print("| method | epsilon | largest error | each seed | mean L1 | processor seconds |")
    print("|---|---|---|---|---|---|")
    for epsilon in options.epsilons:
        for name in options.only or lines:
            figures = np.array(
                [run(lines[name], pair, epsilon, seed, options.smoke) for seed in range(seeds)]
            )
            mean, spread = figures.mean(0), figures.std(0) / max(seeds - 1, 1) ** 0.5
            each = " ".join(f"{largest:.4f}" for largest in figures[:, 0])
            errors = f"{mean[0]:.4f} +- {spread[0]:.4f} | {each} | {mean[1]:.3f}"
            print(f"| {name} | {epsilon:g} | {errors} | {mean[2]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
