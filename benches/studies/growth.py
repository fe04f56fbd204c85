"""What grown rows are worth: `release_auto` beside the release that only re-weights public rows.

    python benches/study.py growth                    # every set, epsilon .1 .25 .5 1, five seeds
    python benches/study.py growth --only ADULT --epsilons 0.25 1
    python benches/study.py growth --seeds 2 --only "HI-18 from NM-18"

"public rows only" is the rule before rows grew: a small support is widened; one shot at the workload, or at
all marginals of order 2 or 1, or rounds; a projection whose prior weight is chosen by Stein's estimate. Both
methods get the same seed, and so the same noise where they measure the same. For each set and epsilon: mean
and standard error over the seeds of the largest error and of the mean L1 error of a marginal, and processor
seconds. Some sets draw their public records among the private ones. The sets of SEEN were looked at while the
constants of growth were chosen, the others were not.

Needs PRIVMW_DATA. Errors look at private records, so nothing here is private. `--smoke` runs one seed of one
set.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pairs
import real_data

import privmw as pmw
from privmw.accounting import Budget
from privmw.accounting.noise import DISCRETE_GAUSSIAN
from privmw.algorithms.configuration import make_budget
from privmw.algorithms.mechanism import Mechanism
from privmw.data.workload import CELLS_CHANGED_PER_MARGINAL

EPSILONS = (0.1, 0.25, 0.5, 1.0)
SEEN = (
    "HI-18 from NM-18",
    "HI-18 from HI-15, 1 %",
    "NE-18 from HI-18",
    "HI-18 from HI-15",
    "NE-18 from ND-18",
    "NE-18 from WY-18",
    "ADULT, women undersampled by 0.3",
    "ADULT, unbiased 10 %",
    "ADULT, no public table",
    "ADULT, 7 of 13 columns public",
    "HI-18, no public table",
    "LOANS, no public table",
)
UNSEEN = (
    "NE-18 from DE-18",
    "NE-18 from NM-18",
    "SD-18 from ND-18",
    "WY-18 from HI-18",
    "WY-18 from SD-18, 2 %",
    "ADULT, women undersampled by 0.1",
    "ADULT, the other 6 of 13 columns public",
    "ADULT, 15 attributes",
    "ADULT, 15 attributes, public women only",
    "national 2019 from 2018",
    "national 2019 from 2018, 1 %",
    "national 2019, no public table",
)


@dataclass(frozen=True)
class Case:
    """Private records, what is public beside them, and the workload."""

    private: pmw.Table
    support: pmw.Support | None
    workload: pmw.Workload


def case(name: str) -> Case:
    """The set of that name."""
    if name == "ADULT, 15 attributes, public women only":
        everyone, draws = real_data.adult15(), np.random.RandomState(0)
        women = np.flatnonzero(everyone.column("sex") == np.bincount(everyone.column("sex")).argmin())
        public = draws.permutation(women)[:3238]
        others = np.setdiff1d(np.arange(everyone.n), public)
        private = pairs.as_private(everyone.take(np.sort(draws.permutation(others)[:32384])))
        support = pmw.Support.from_table(everyone.take(np.sort(public)))
        return Case(private, support, pmw.Workload.all(everyone.domain, k=3))
    if name == "ADULT, 15 attributes":
        everyone, draws = real_data.adult15(), np.random.RandomState(0)
        private = everyone.take(np.flatnonzero(draws.binomial(1, 0.9, everyone.n)))
        public = everyone.take(draws.choice(everyone.n, 3200))
        workload = pmw.Workload.all(everyone.domain, k=3)
        return Case(pairs.as_private(private), pmw.Support.from_table(public), workload)
    if name.startswith("ADULT, "):
        pair = pairs.pair("ADULT, unbiased 10 %" if "column" in name or "no public" in name else name)
        names = pair.private.domain.names
        if "no public" in name:
            return Case(pair.private, None, pair.workload)
        if "columns" in name:
            kept = names[7:] if "other" in name else names[:7]
            public = pair.public.project(kept)
            support = pmw.Support.from_table(public, domain=pair.private.domain)
            return Case(pair.private, support, pair.workload)
        return Case(pair.private, pmw.Support.from_table(pair.public), pair.workload)
    if name == "HI-18, no public table":
        pair = pairs.pair("HI-18 from HI-15")
        return Case(pair.private, None, pair.workload)
    if name.startswith("LOANS"):
        private = pairs.as_private(real_data.loans())
        return Case(private, None, pmw.Workload.sample(private.domain, k=3, size=64, seed=0))
    if name.startswith("national"):
        private, public = pairs.as_private(real_data.nist(2019)), real_data.nist(2018)
        workload = pmw.Workload.all(private.domain, k=3)
        if "no public" in name:
            return Case(private, None, workload)
        if "1 %" in name:
            kept = np.random.RandomState(0).choice(public.n, public.n // 100, replace=False)
            public = public.take(kept)
        return Case(private, pmw.Support.from_table(public), workload)
    pair = pairs.pair(name)
    return Case(pair.private, pmw.Support.from_table(pair.public), pair.workload)


def public_rows_only(
    private: pmw.Table, support: pmw.Support, workload: pmw.Workload, epsilon: float, seed: int
) -> pmw.Release:
    """The rule before rows grew."""
    budget = make_budget(epsilon, n=private.n)
    times = min(40_000 // support.size - 1, 10)
    rows = support.widened(times) if times >= 1 else support
    return Mechanism(_before(private.n, workload, budget), budget)(
        private, rows, workload, rng=seed, public_is_public=True
    )


def _before(n: int, workload: pmw.Workload, budget: Budget) -> pmw.PEP:
    def noise(sensitivity: int, share: Fraction = budget.limit) -> float:
        return DISCRETE_GAUSSIAN.scale(share, sensitivity) / n

    if noise(workload.sensitivity(range(len(workload)))) <= 0.02:
        return pmw.PEP(select="all")
    for order in (2, 1):
        marginals = math.comb(len(workload.domain), order)
        if 2 * marginals <= len(workload):
            shot = pmw.Workload.all(workload.domain, k=order)
            if noise(shot.sensitivity(range(marginals))) <= 0.02:
                return pmw.PEP(select="all", order=order)
    rounds = int((0.015 / noise(CELLS_CHANGED_PER_MARGINAL, budget.limit / 2)) ** 2)
    return pmw.PEP(rounds=min(max(rounds, 10), 50))


def grown(
    private: pmw.Table, support: pmw.Support | None, workload: pmw.Workload, epsilon: float, seed: int
) -> pmw.Release:
    """What is recommended now."""
    return pmw.release_auto(private, support, workload, epsilon=epsilon, rng=seed, public_is_public=True)


METHODS: dict[str, Callable[..., pmw.Release]] = {
    "public rows only": public_rows_only,
    "release_auto": grown,
}


def errors(job: tuple[str, str, float, int]) -> tuple[float, float, float, float]:
    """In a worker process: largest error, mean L1, the mass of grown rows, and processor seconds."""
    name, method, epsilon, seed = job
    asked = case(name)
    pmw.kernels.set_threads(1)
    began = time.process_time()
    release = METHODS[method](asked.private, asked.support, asked.workload, epsilon, seed)
    seconds = time.process_time() - began
    truth = asked.private.counts(asked.workload) / asked.private.n
    missed = np.abs(release.answers() - truth)
    mass = float(release.weights[release.support.counts == 0].sum())
    l1 = float(np.add.reduceat(missed, asked.workload.offsets[:-1]).mean())
    return float(missed.max()), l1, mass, seconds


def lines(names: tuple[str, ...], epsilons: list[float], seeds: int, workers: int) -> Iterator[str]:
    """The table in Markdown, as it is ready."""
    yield "| set | epsilon | method | largest error | mean L1 | grown mass | seconds |"
    yield "|---|---|---|---|---|---|---|"
    with ProcessPoolExecutor(max_workers=workers) as pool:
        for name in names:
            without = case(name).support
            for epsilon in epsilons:
                for method in METHODS:
                    if method == "public rows only" and (without is None or without.missing):
                        continue
                    jobs = [(name, method, epsilon, seed) for seed in range(seeds)]
                    found = np.array(list(pool.map(errors, jobs)))
                    mean = found.mean(axis=0)
                    error = found.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else mean * np.nan
                    yield (
                        f"| {name} | {epsilon:g} | {method} | {mean[0]:.4f} ± {error[0]:.4f} | "
                        f"{mean[1]:.4f} ± {error[1]:.4f} | {mean[2]:.3f} | {mean[3]:.1f} |"
                    )


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--only", default="", help="sets whose names start so")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    names = tuple(name for name in (*SEEN, *UNSEEN) if name.startswith(given.only))
    try:
        if given.smoke:
            printed = lines(("ADULT, unbiased 10 %",), [0.1], 1, 1)
        else:
            printed = lines(names, given.epsilons, given.seeds, len(os.sched_getaffinity(0)))
        for line in printed:
            print(line, flush=True)
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
