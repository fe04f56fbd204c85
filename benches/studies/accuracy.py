"""True errors of every algorithm on real pairs: mean and standard error over seeds, as tables.

    python benches/study.py accuracy adult     # the two ADULT sets: every algorithm and T, and the authors'
    python benches/study.py accuracy papers    # as published and as the authors ran it
    python benches/study.py accuracy acs       # the survey's pairs, good and poor
    python benches/study.py accuracy reduced   # MWEM on the full domain against public supports
    python benches/study.py accuracy adult --seeds 10 --epsilons 0.1 1

Needs PRIVMW_DATA. Errors look at private records, so nothing here is private; seeds make runs repeatable.
`--smoke` runs one seed of few rounds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pairs
import real_data

import privmw as pmw

ROUNDS = (10, 25, 50, 100)
# The authors' code, largest error of the last iterate at its best T (ALGORITHMS of the papers' repository).
AUTHORS = {
    "ADULT, women undersampled by 0.3": {0.1: 0.0331, 0.25: 0.0277, 0.5: 0.0214, 1.0: 0.0137},
    "ADULT, unbiased 10 %": {0.1: 0.0132, 0.25: 0.0134, 0.5: 0.0119, 1.0: 0.0082},
}
ACS = (
    "HI-18 from HI-15",
    "NE-18 from ND-18",
    "NE-18 from WY-18",
    "HI-18 from HI-15, 1 %",
    "HI-18 from NM-18",
    "NE-18 from NM-18",
    "NE-18 from HI-18",
)


@dataclass(frozen=True)
class Method:
    """A line of the tables: what is run at each number of rounds, None where rounds mean nothing."""

    name: str
    make: Callable[[int | None], pmw.MWPub | pmw.PEP | None]
    rounds: tuple[int | None, ...] = ROUNDS
    times: int = 0  # of widening
    full: bool = False


def _of_paper(algorithm: type[pmw.MWPub | pmw.PEP], way: str, rounds: int | None) -> pmw.MWPub | pmw.PEP:
    """What a paper says, or what its authors ran, at a number of rounds."""
    made: pmw.MWPub | pmw.PEP = getattr(algorithm, way)(rounds=rounds)
    return made


ROUNDS_L2, SHOT = "PEP (whole marginals, l2)", "PEP (one shot at the workload)"
PAPER = Method(
    "MWPub as the authors ran it (exponential, replay='paper', last)",
    lambda rounds: pmw.MWPub.as_run(rounds=rounds),
)
AUTO = Method("release_auto", lambda _: None, (None,))
METHODS = (
    PAPER,
    Method(
        "MWPub as its text says (permute-and-flip, no replay, average)",
        lambda rounds: pmw.MWPub.as_published(rounds=rounds),
    ),
    Method("MWPub", lambda rounds: pmw.MWPub(rounds=rounds)),
    Method(
        "MWPub (exponential, replay='fresh', last)",
        lambda rounds: pmw.MWPub(rounds=rounds, select="exponential", replay="fresh", output="last"),
    ),
    Method(
        "MWPub (whole marginals, replay='fresh', last)",
        lambda rounds: pmw.MWPub(
            rounds=rounds, select="exponential", measure="marginal", replay="fresh", output="last"
        ),
    ),
    Method("MWEMPub", lambda rounds: pmw.MWEMPub(rounds=rounds)),
    Method("PEP (cells, l1)", lambda rounds: pmw.PEP(rounds=rounds, measure="cell", slack="l1")),
    Method(ROUNDS_L2, lambda rounds: pmw.PEP(rounds=rounds), (10, 25, 50)),
    Method(SHOT, lambda _: pmw.PEP(select="all"), (None,)),
    Method("PEP (one shot at order 2)", lambda _: pmw.PEP(select="all", order=2), (None,)),
    Method("PEP (one shot, widened support)", lambda _: pmw.PEP(select="all"), (None,), times=10),
    AUTO,
)
FEW = (PAPER, *(method for method in METHODS if method.name in (ROUNDS_L2, SHOT)), AUTO)
REDUCED = (
    Method("MWEM, full domain, uniform", lambda rounds: pmw.MWEM(rounds=rounds), full=True),
    Method("MWEM, public support, uniform", lambda rounds: pmw.MWEM(rounds=rounds)),
    Method(
        "MWPub, public support and start",
        lambda rounds: pmw.MWPub(rounds=rounds, select="exponential"),
    ),
)


PAPERS = tuple(
    Method(f"{algorithm.__name__}.{way}()", partial(_of_paper, algorithm, way), rounds)
    for algorithm, rounds in ((pmw.MWPub, (25, 50, 100)), (pmw.MWEMPub, (25, 50, 100)), (pmw.PEP, (25, 50)))
    for way in ("as_published", "as_run")
)


def error(name: str, method: Method, rounds: int | None, epsilon: float, seed: int) -> tuple[float, float]:
    """The largest error of one run, and its seconds."""
    pair = pairs.pair(name)
    pmw.kernels.set_threads(1)
    support = pmw.Support.full(pair.private.domain) if method.full else pmw.Support.from_table(pair.public)
    if method.times:
        support = support.widened(method.times)
    began = time.perf_counter()
    if method is AUTO or method.name == AUTO.name:
        release = pmw.release_auto(
            pair.private, support, pair.workload, epsilon=epsilon, delta=pair.delta, rng=seed
        )
    else:
        algorithm = method.make(rounds)
        assert algorithm is not None
        release = algorithm.calibrate(epsilon, pair.delta)(pair.private, support, pair.workload, rng=seed)
    seconds = time.perf_counter() - began
    return pmw.evaluate(release, pair.private).max_error, seconds


def _run(job: tuple[str, str, int, int | None, float, int]) -> tuple[float, float]:
    """In a worker process: methods travel by their place in a table."""
    name, table, place, rounds, epsilon, seed = job
    return error(name, TABLES[table][1][place], rounds, epsilon, seed)


TABLES: dict[str, tuple[tuple[str, ...], tuple[Method, ...]]] = {
    "adult": (tuple(AUTHORS), METHODS),
    "papers": (tuple(AUTHORS), PAPERS),
    "acs": (ACS, FEW),
    "reduced": (tuple(name for name in pairs.NAMES if name.startswith("reduced")), REDUCED),
}


def lines(table: str, only: str, epsilons: list[float], seeds: int, smoke: bool) -> Iterator[str]:
    """The rows of a table in Markdown, as they are ready."""
    names, methods = TABLES[table]
    with ProcessPoolExecutor(max_workers=1 if smoke else len(os.sched_getaffinity(0))) as workers:
        for name in names[:1] if smoke else names:
            start = pairs.pair(name).start_error()
            yield f"\n{name}: largest error of the public set itself {start:.4f}\n"
            yield "| method | T | " + " | ".join(f"eps {epsilon:g}" for epsilon in epsilons) + " |"
            yield "|---|---|" + "---|" * len(epsilons)
            if name in AUTHORS:
                theirs = (f"{AUTHORS[name].get(epsilon, float('nan')):.4f}" for epsilon in epsilons)
                yield "| the authors' code, best T | | " + " | ".join(theirs) + " |"
            for place, method in enumerate(methods):
                if only not in method.name:
                    continue
                for rounds in method.rounds[:1] if smoke else method.rounds:
                    cells = []
                    for epsilon in epsilons:
                        jobs = [(name, table, place, rounds, epsilon, seed) for seed in range(seeds)]
                        found = np.array([worst for worst, _ in workers.map(_run, jobs)])
                        spread = found.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else float("nan")
                        cells.append(f"{found.mean():.4f} ± {spread:.4f}")
                    yield f"| {method.name} | {rounds or ''} | " + " | ".join(cells) + " |"


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", choices=list(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=None)
    parser.add_argument("--only", default="", help="methods with this in their name")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    usual = [0.1, 0.25, 0.5, 1.0] if given.table == "adult" else [0.25, 1.0]
    try:
        for line in lines(
            given.table,
            given.only,
            [1.0] if given.smoke else given.epsilons or usual,
            1 if given.smoke else given.seeds,
            given.smoke,
        ):
            print(line, flush=True)
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
