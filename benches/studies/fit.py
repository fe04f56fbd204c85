"""What the fit of `release_auto` is worth and what it costs, on sets that its constants were not chosen on.

    python benches/study.py fit errors                         # the set without men, five epsilons, one seed
    python benches/study.py fit errors --seeds 5 --only "ADULT, unbiased"
    python benches/study.py fit values                         # processor seconds with up to 60,000 values
    python benches/study.py fit rows --sizes 100000 250000     # seconds and memory by distinct rows, eps 1
    python benches/study.py fit slack --sizes 100000           # PEP as published and as run, noisy answers

`errors`: for each set of `growth` and each epsilon the largest error, the mean L1 error of a marginal, how
many releases agree with what they measured, and processor seconds of one thread; means and standard errors
over the seeds. RISES marks an error above that of the epsilon before by more than two standard errors of the
difference. `values`: one attribute of many values that is measured in its one-way marginal only.

`rows`: survey records, and beyond the real ones records with a block of attributes swapped among similar
ones; 378,817 private records and 1,024 marginals of order 3 (all 47,905 with --all); each size in a process
of its own. `slack`: PEP with l1 slack on the same records.

Needs PRIVMW_DATA, except `values`. Errors look at private records, so nothing here is private. `--smoke` runs
the smallest sizes.
"""

from __future__ import annotations

import argparse
import itertools
import math
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pairs
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


def swapped(rows: int, seed: int) -> pmw.Table:
    """Survey records; beyond the real ones, each with a block of attributes of a similar record.

    Similar: of the same decade of age and sex, or next to those.
    """
    real = real_data.acs("acs67", [file for file in real_data.acs_files() if file != pairs.HI_18])
    rng, codes = np.random.default_rng(seed), real.codes()
    names = real.domain.names
    order = np.lexsort([rng.random(real.n), *(codes[:, names.index(name)] for name in ("SEX", "AGEP10"))])
    sorted_codes = codes[order]
    made = [codes[rng.permutation(real.n)]]
    while sum(map(len, made)) < rows:
        places = rng.integers(0, real.n, min(1 << 16, rows))
        others = (places + rng.integers(1, 50, len(places))) % real.n
        firsts, attributes = rng.integers(0, len(names), len(places)), np.arange(len(names))
        in_block = (attributes - firsts[:, None]) % len(names) < len(names) // 3
        made.append(np.where(in_block, sorted_codes[others], sorted_codes[places]))
    return pmw.Table.from_codes(np.concatenate(made)[:rows], real.domain, private=False)


def survey(rows: int, *, every_marginal: bool = False) -> growth.Case:
    """About `rows` distinct public rows, 378,817 private records, 1,024 marginals or all of order 3."""
    public = pmw.Support.from_table(swapped(rows, seed=0))
    private = pairs.as_private(swapped(378_817, seed=1).take(np.arange(378_817)))
    everything = pmw.Workload.all(private.domain, k=3)
    return growth.Case(private, public, everything if every_marginal else pairs.acs_workload(private.domain))


def _in_a_process(job: Callable[..., list[str]], *arguments: object) -> list[str]:
    with ProcessPoolExecutor(max_workers=1) as pool:
        return pool.submit(job, *arguments).result()


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _released(size: int, epsilon: float, threads: int, every_marginal: bool) -> list[str]:
    pmw.kernels.set_threads(threads)
    asked = survey(size, every_marginal=every_marginal)
    before, began, processor = _peak(), time.perf_counter(), time.process_time()
    release = pmw.release_auto(
        asked.private, asked.support, asked.workload, epsilon=epsilon, rng=0, public_is_public=True
    )
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    error = np.abs(release.answers() - asked.private.counts(asked.workload) / asked.private.n).max()
    assert asked.support is not None
    sizes = f"| {asked.support.size:,} | {epsilon:g} | {threads} | {processor:.1f} | {seconds:.1f} "
    weight = release.history[-1].details["prior_weight"]
    return [f"{sizes}| {_peak():.2f} ({before:.2f}) | {error:.4f} | {weight:.0f} |"]


def rows(given: argparse.Namespace) -> Iterator[str]:
    """Seconds and peak memory of `release_auto` by the number of distinct rows, in Markdown."""
    yield "| rows | epsilon | threads | processor s | s | peak GB (before) | largest error | prior weight |"
    yield "|---|---|---|---|---|---|---|---|"
    for size in [20_000] if given.smoke else given.sizes:
        for epsilon in given.epsilons if given.epsilons != list(EPSILONS) else [1.0]:
            yield from _in_a_process(_released, size, epsilon, given.threads, given.all)


def _with_slack(size: int, rounds: int) -> list[str]:
    pmw.kernels.set_threads(1)
    asked = survey(size)
    assert asked.support is not None
    lines = []
    for name, algorithm in (
        ("as_run", pmw.PEP.as_run(rounds=rounds)),
        ("as_published", pmw.PEP.as_published(rounds=rounds)),
    ):
        began = time.process_time()
        release = algorithm.release(
            asked.private, asked.support, asked.workload, epsilon=1.0, rng=0, public_is_public=True
        )
        seconds = time.process_time() - began
        error = np.abs(release.answers() - asked.private.counts(asked.workload) / asked.private.n).max()
        steps = sum(r.details["steps"] for r in release.history)
        lines.append(
            f"| {asked.support.size:,} | {name} | {rounds} | {seconds:.2f} | {steps:.0f} | {error:.5f} | "
            f"{max(r.details['gap'] for r in release.history):.1e} |"
        )
    return lines


def slack(given: argparse.Namespace) -> Iterator[str]:
    """Processor seconds of PEP with l1 slack, in Markdown; steps of all rounds, and the largest gap."""
    yield "| rows | | T | seconds | steps | largest error | gap |"
    yield "|---|---|---|---|---|---|---|"
    for size in [20_000] if given.smoke else given.sizes:
        for rounds in [3] if given.smoke else [20, 50]:
            yield from _in_a_process(_with_slack, size, rounds)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "errors": errors,
    "values": values,
    "rows": rows,
    "slack": slack,
}


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=PARTS, nargs="?", default="errors")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--only", default=LIKE_SET, help="sets whose names start so")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 250_000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="all marginals of order 3")
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
