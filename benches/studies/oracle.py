"""Best responses: DualQuery and FEM beside the published figures, with and without public rows.

    python benches/study.py oracle dual         # DualQuery on ADULT, 286 three-way marginals (two minutes)
    python benches/study.py oracle fem          # FEM on 64 three-way marginals of the binarised ADULT (five)
    python benches/study.py oracle public       # with public rows as the oracle's domain (three)
    python benches/study.py oracle responses    # local climbs against the integer program (one)

Largest errors, mean and standard error over seeds, and processor seconds of a run on one thread. Needs
PRIVMW_DATA. Errors look at private records, so nothing here is private. `--smoke` runs one seed at one
epsilon.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np
import pairs
import real_data

import privmw as pmw
from privmw.extensions.baselines.oracle import make_oracle
from privmw.random import sampling_stream

EPSILONS = (0.1, 0.25, 0.5, 1.0)
DUAL_TARGETS = {0.1: 0.20, 0.25: 0.125, 0.5: 0.09, 1.0: 0.057}
# Vietri et al. 2020 and the 2021 papers, 64 three-way marginals of the binarised ADULT.
FEM_PUBLISHED = {0.1: 0.167, 0.25: 0.104, 0.5: 0.078, 1.0: 0.074}

Make = Callable[[float], pmw.algorithms.mechanism.Mechanism]


def marginals_588(domain: pmw.Domain, n: int) -> pmw.Workload:
    """64 three-way marginals of no more cells than records, drawn as the authors draw them."""
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    small = [
        names
        for names in itertools.combinations(domain.names, 3)
        if np.prod([sizes[name] for name in names]) <= n
    ]
    drawn = np.random.RandomState(0).choice(len(small), 64, replace=False)
    return pmw.Workload(domain, [small[i] for i in drawn])


def figures(
    make: Make, pair: pairs.Pair, support: pmw.Support | None, epsilons: tuple[float, ...], seeds: int
) -> Iterator[tuple[float, np.ndarray, float, int]]:
    """For each epsilon: the errors of all seeds, the processor seconds of a run, and the records of one."""
    for epsilon in epsilons:
        mechanism, errors, seconds = make(epsilon), [], 0.0
        for seed in range(seeds):
            began = time.process_time()
            release = mechanism(pair.private, support, pair.workload, rng=seed, threads=1)
            seconds += time.process_time() - began
            errors.append(pmw.evaluate(release, pair.private).max_error)
        yield epsilon, np.array(errors), seconds / seeds, mechanism.algorithm.schedule.rounds


def shown(errors: np.ndarray) -> str:
    spread = errors.std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else float("nan")
    return f"{errors.mean():.4f} ± {spread:.4f}"


def dual(epsilons: tuple[float, ...], seeds: int, only: str) -> Iterator[str]:
    """DualQuery as the paper has it: no public rows."""
    pair = pairs.pair("ADULT, unbiased 10 %")
    yield "DualQuery, ADULT, 13 attributes, 286 three-way marginals, no public rows: largest error\n"
    yield "| eps | target | seen | rounds | seconds |\n|---|---|---|---|---|"

    def make(epsilon: float) -> pmw.algorithms.mechanism.Mechanism:
        return pmw.DualQuery().calibrate(epsilon, pair.delta, n=pair.private.n)

    for epsilon, errors, seconds, rounds in figures(make, pair, None, epsilons, seeds):
        yield f"| {epsilon:g} | {DUAL_TARGETS[epsilon]} | {shown(errors)} | {rounds} | {seconds:.1f} |"


def fem(epsilons: tuple[float, ...], seeds: int, only: str) -> Iterator[str]:
    """FEM as the paper has it: no public rows."""
    everyone = real_data.adult588()
    workload = marginals_588(everyone.domain, everyone.n)
    pair = pairs.Pair("ADULT 588", pairs.as_private(everyone), everyone, workload)
    yield f"FEM, ADULT with 588 values, {workload.cells:,} cells of 64 marginals, no public rows: errors"
    yield ""
    yield "| eps | published | seen | rounds | seconds |\n|---|---|---|---|---|"

    def make(epsilon: float) -> pmw.algorithms.mechanism.Mechanism:
        return pmw.FEM().calibrate(epsilon, pair.delta, n=pair.private.n)

    for epsilon, errors, seconds, rounds in figures(make, pair, None, epsilons, seeds):
        yield f"| {epsilon:g} | {FEM_PUBLISHED[epsilon]} | {shown(errors)} | {rounds} | {seconds:.1f} |"


def public(epsilons: tuple[float, ...], seeds: int, only: str) -> Iterator[str]:
    """What public rows bring: as the starts of climbs, and as the only records that may be answered with."""
    yield "| set | method | " + " | ".join(f"eps {epsilon:g}" for epsilon in epsilons) + " | seconds |"
    yield "|---|---|" + "---|" * (len(epsilons) + 1)
    everyone = real_data.adult588()
    is_private = pairs.adult_is_private(everyone.n)
    tenth = pairs.Pair(
        "ADULT 588, the other tenth",
        pairs.as_private(everyone.take(is_private)),
        everyone.take(~is_private),
        marginals_588(everyone.domain, everyone.n),
    )
    biased, unbiased = (
        pairs.pair(name) for name in ("ADULT, women undersampled by 0.3", "ADULT, unbiased 10 %")
    )
    for pair in (pair for pair in (unbiased, biased, tenth) if only in pair.name):
        yield f"| {pair.name} | the public set itself, eps 0 | {pair.start_error():.4f} |"
        support = pmw.Support.from_table(pair.public)
        kind = pmw.FEM if pair is tenth else pmw.DualQuery  # each on the set of its published figures
        for oracle, rows in (("local", None), ("local", support), ("support", support)):
            where = (
                "no public rows" if rows is None else "starts" if oracle == "local" else "public rows only"
            )

            def make(
                epsilon: float,
                pair: pairs.Pair = pair,
                kind: type[pmw.DualQuery | pmw.FEM] = kind,
                oracle: str = oracle,
            ) -> pmw.algorithms.mechanism.Mechanism:
                return kind(oracle=oracle).calibrate(epsilon, pair.delta, n=pair.private.n)

            found = list(figures(make, pair, rows, epsilons, seeds))
            cells = " | ".join(shown(errors) for _, errors, _, _ in found)
            yield f"| {pair.name} | {kind.__name__}, {where} | {cells} | {found[-1][2]:.1f} |"


def responses(epsilons: tuple[float, ...], seeds: int, only: str) -> Iterator[str]:
    """How near a climb comes to the best record of all, on cells drawn uniformly, half of them negated."""
    pair = pairs.pair("ADULT, unbiased 10 %")
    workload, domain = pair.workload, pair.private.domain
    none, rows = pmw.Support.without_public(domain), pmw.Support.from_table(pair.public)
    yield "| cells | exact | local, 20 starts | public rows | ms: exact, local, public |"
    yield "|---|---|---|---|---|"
    for queries in (25, 50, 100, 200):
        satisfied: dict[str, list[int]] = {}
        took: dict[str, float] = {}
        for seed in range(seeds):
            drawn = np.random.default_rng(seed)
            cells = np.sort(drawn.choice(workload.cells, queries, replace=False))
            weights = drawn.choice([-1, 1], queries)
            for kind, support in (("exact", none), ("local", none), ("support", rows)):
                oracle = make_oracle(kind, support, workload, starts=20, threads=1)
                began = time.perf_counter()
                record = oracle.respond(
                    cells, weights, np.zeros((1, sum(domain.sizes)), np.int64), sampling_stream(seed)
                )[0]
                took[kind] = took.get(kind, 0.0) + time.perf_counter() - began
                asked = workload.queries(cells)
                held = record[asked.attributes] == asked.values
                whole = np.logical_and.reduceat(held, asked.starts[:-1])
                satisfied.setdefault(kind, []).append(int((whole == (weights > 0)).sum()))
        means = " | ".join(f"{np.mean(satisfied[kind]):.1f}" for kind in ("exact", "local", "support"))
        times = ", ".join(f"{1e3 * took[kind] / seeds:.1f}" for kind in ("exact", "local", "support"))
        yield f"| {queries} | {means} | {times} |"


TABLES = {"dual": dual, "fem": fem, "public": public, "responses": responses}


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", choices=list(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--only", default="", help="of `public`: sets with this in their name")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    epsilons, seeds = (tuple(given.epsilons), given.seeds) if not given.smoke else ((0.1,), 1)
    try:
        for line in TABLES[given.table](epsilons, seeds, given.only):
            print(line, flush=True)
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
