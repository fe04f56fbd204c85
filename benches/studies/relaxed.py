"""RAP on ADULT without public data: largest error, mean L1 and processor seconds over seeds, as a table.

    python benches/study.py relaxed
    python benches/study.py relaxed --seeds 5 --epsilons 0.5 1 --only once

Needs PRIVMW_DATA. Errors look at private records, so nothing here is private; seeds make runs repeatable.
`--smoke` runs one seed of few steps.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
import pairs
import real_data

import privmw as pmw

SET = "ADULT, unbiased 10 %"  # its public records are not used
METHODS = {
    "softmax, all 286 at once": pmw.RAP(select="all"),
    "softmax, all at once, 1,000 rows": pmw.RAP(select="all", rows=1000),
    "softmax, all at once, the papers' loss": pmw.RAP(select="all", prior_weight=0.0),
    "softmax, 50 rounds": pmw.RAP(),
    "softmax, 10 rounds of 5": pmw.RAP(rounds=10, per_round=5),
    "clipped, all at once": pmw.RAP(select="all", softmax=False),
    "clipped, 50 rounds": pmw.RAP(softmax=False),
}


def run(algorithm: pmw.RAP, epsilon: float, seed: int) -> tuple[float, float, float, float]:
    """The largest error, the mean L1 of a marginal, how far rows are from the products, processor seconds."""
    pair = pairs.pair(SET)
    began = time.process_time()
    release = algorithm.calibrate(epsilon, pair.delta)(pair.private, None, pair.workload, rng=seed, threads=1)
    seconds = time.process_time() - began
    errors = np.abs(release.answers() - pair.private.counts(pair.workload) / pair.private.n)
    of_draw = release.history[-1].details["from_products"]
    return float(errors.max()), float(errors.sum()) / len(pair.workload), of_draw, seconds


def lines(only: str, epsilons: list[float], seeds: int, smoke: bool) -> Iterator[str]:
    """The rows of the table in Markdown, as they are ready."""
    yield "| RAP | epsilon | largest error | mean L1 | rows from products | seconds of a processor |"
    yield "|---|---|---|---|---|---|"
    for name, algorithm in METHODS.items():
        if only not in name:
            continue
        if smoke:
            algorithm = pmw.RAP(select="all", rows=20, steps=5, softmax=algorithm.softmax)
        for epsilon in epsilons:
            found = np.array([run(algorithm, epsilon, seed) for seed in range(seeds)])
            spread = found[:, 0].std(ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
            largest, total, of_draw, seconds = found.mean(axis=0)
            yield (
                f"| {name} | {epsilon:g} | {largest:.4f} ± {spread:.4f} | {total:.3f} | {of_draw:.4f} "
                f"| {seconds:.1f} |"
            )


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.25, 0.5, 1.0])
    parser.add_argument("--only", default="", help="methods with this in their name")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    epsilons, seeds = ([1.0], 1) if given.smoke else (given.epsilons, given.seeds)
    try:
        for line in lines(given.only, epsilons, seeds, given.smoke):
            print(line, flush=True)
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
