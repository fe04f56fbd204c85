"""What the fit of `release_auto` is worth and what it costs, on sets that its constants were not chosen on.

    python benches/study.py fit errors                         # the set without men, five epsilons, one seed
    python benches/study.py fit errors --seeds 5 --only "ADULT, unbiased"
    python benches/study.py fit values                         # processor seconds with up to 60,000 values

`errors`: for each set of `growth` and each epsilon the largest error, the mean L1 error of a marginal, how
many releases agree with what they measured, and processor seconds of one thread; means and standard errors
over the seeds. RISES marks an error above that of the epsilon before by more than two standard errors of the
difference. `values`: one attribute of many values that is measured in its one-way marginal only.

Needs PRIVMW_DATA, except `values`. Errors look at private records, so nothing here is private. `--smoke` runs
the smallest sizes.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import real_data
from studies import growth

import privmw as pmw

LIKE_SET = "ADULT, 15 attributes, public women only"
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


def measured(job: tuple[str, float, int]) -> tuple[float, float, bool, float]:
    """In a worker process: largest error, mean L1, whether the release agrees, processor seconds."""
    name, epsilon, seed = job
    asked = growth.case(name)
    pmw.kernels.set_threads(1)
    began = time.process_time()
    release = growth.grown(asked.private, asked.support, asked.workload, epsilon, seed)
    seconds = time.process_time() - began
    missed = np.abs(release.answers() - asked.private.counts(asked.workload) / asked.private.n)
    l1 = float(np.add.reduceat(missed, asked.workload.offsets[:-1]).mean())
    return float(missed.max()), l1, release.agreement().agrees, seconds


def errors(given: argparse.Namespace) -> Iterator[str]:
    """Errors at every epsilon, in Markdown."""
    names = [name for name in (*growth.SEEN, *growth.UNSEEN) if name.startswith(given.only)]
    epsilons, seeds = sorted(given.epsilons), given.seeds
    if given.smoke:
        names, epsilons, seeds = ["ADULT, unbiased 10 %"], [0.1], 1
    yield "| set | epsilon | largest error | mean L1 | agree | seconds | |"
    yield "|---|---|---|---|---|---|---|"
    with ProcessPoolExecutor(max_workers=given.workers) as pool:
        for name in names:
            before = math.inf, 0.0
            for epsilon in epsilons:
                found = np.array(
                    list(pool.map(measured, [(name, epsilon, seed) for seed in range(seeds)])), float
                )
                mean = found.mean(axis=0)
                error = found.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else mean * 0
                rises = mean[0] - before[0] > 2 * math.hypot(error[0], before[1])
                before = mean[0], error[0]
                yield (
                    f"| {name} | {epsilon:g} | {mean[0]:.4f} ± {error[0]:.4f} | {mean[1]:.4f} | "
                    f"{int(found[:, 2].sum())} of {seeds} | {mean[3]:.1f} | {'RISES' if rises else ''} |"
                )


def values(given: argparse.Namespace) -> Iterator[str]:
    """Seconds and errors with one attribute of many values, in Markdown."""
    pmw.kernels.set_threads(1)
    yield "| values | seconds | largest error |"
    yield "|---|---|---|"
    for size in [600] if given.smoke else [600, 6000, 60_000]:
        private, support, workload = _with_values(size, 3000 if given.smoke else 30_000)
        began = time.process_time()
        release = pmw.release_auto(private, support, workload, epsilon=1.0, rng=0)
        seconds = time.process_time() - began
        error = np.abs(release.answers() - private.counts(workload) / private.n).max()
        yield f"| {size:,} | {seconds:.2f} | {error:.4f} |"


def _with_values(size: int, records: int) -> tuple[pmw.Table, pmw.Support, pmw.Workload]:
    """Nine attributes, one of `size` values: private records, a tenth as many public ones, the workload."""
    rng = np.random.default_rng(0)
    domain = pmw.Domain({"number": size, **dict.fromkeys("abcdefgh", 5)})

    def codes(rows: int, shift: int) -> np.ndarray:
        numbers = np.minimum((rng.pareto(1.0, rows) * 30 + shift).astype(np.int64), size - 1)
        return np.column_stack([numbers, rng.integers(0, 5, (rows, 8))])

    public = pmw.Table.from_codes(codes(records // 10, 0), domain, private=False)
    private = pmw.Table.from_codes(codes(records, 20), domain, private=True)
    marginals = [("number",), *itertools.combinations("abcdefgh", 3)]
    return private, pmw.Support.from_table(public), pmw.Workload(domain, marginals)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {"errors": errors, "values": values}


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=PARTS, nargs="?", default="errors")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--only", default=LIKE_SET, help="sets whose names start so")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    try:
        for line in PARTS[given.part](given):
            print(line, flush=True)
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
