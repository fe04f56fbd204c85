"""How near expected errors come to true ones, and how often intervals hold the truth, on real pairs.

    python benches/study.py intervals                     # every set, epsilon .25 and 1, five seeds
    python benches/study.py intervals --only ADULT --seeds 2 --epsilons 1
    python benches/study.py intervals --keep FOLDER       # releases are kept there, and taken from there
    python benches/study.py intervals --weights           # what another prior weight would bring
    python benches/study.py intervals --stein             # beside it Stein's unbiased estimate, and its noise

A line for each set and epsilon. Squares: the expected over the true mean squared error of all cells of
offered marginals, mean over the seeds, and the least and the largest seed. Of marginals: the quartiles and
extremes of expected over true root mean squared error; and how many are below half, which is false comfort.
Coverage of 95 % intervals: of answers of at least one record, of smaller ones that have rows, of cells
without a row, of all. Cost: processor seconds of both, as multiples of the release's own. The sets of SEEN
were looked at while the method was made; nothing was chosen on the others.

Needs PRIVMW_DATA. True errors look at private records, so nothing here is private. `--smoke` runs one seed
of one set.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import real_data
from studies import growth

import privmw as pmw
from privmw.release.errors.expected import PROBES
from privmw.release.errors.response import Response

SEEN = (
    "ADULT, women undersampled by 0.3",
    "ADULT, unbiased 10 %",
    "HI-18 from HI-15",
    "HI-18 from NM-18",
    "NE-18 from HI-18",
)
UNSEEN = (
    "NE-18 from ND-18",
    "SD-18 from ND-18",
    "national 2019 from 2018",
    "ADULT, women undersampled by 0.1",
    "WY-18 from HI-18",
)


FACTORS = (0.56, 0.75, 1.33, 1.78)  # of the prior weight


class Job(NamedTuple):
    """One release to look at."""

    name: str
    epsilon: float
    seed: int
    refits: int
    stein: bool
    keep: str | None


class Found(NamedTuple):
    """Squares: expected, true, Stein's and its deviation. Then ratios of marginals, coverages and seconds."""

    squares: tuple[float, float, float, float]
    ratios: np.ndarray
    offered: float
    scale: float
    coverage: tuple[float, float, float, float]
    seconds: tuple[float, float, float]
    reason: str


def look(job: Job) -> Found:
    """In a worker process: make the release, and compare."""
    asked = growth.case(job.name)
    pmw.kernels.set_threads(1)
    release, made = _release(job, asked)
    truth = asked.private.counts(asked.workload) / asked.private.n
    began = time.process_time()
    errors = release.expected_errors()
    seconds = [made, time.process_time() - began]
    if errors.reason:
        nothing = (np.nan,) * 4
        return Found(nothing, np.empty(0), 0.0, np.nan, nothing, (made, seconds[1], np.nan), errors.reason)
    offered, sizes = errors.offered, np.diff(asked.workload.offsets)
    missed = np.square(release.answers() - truth)
    of_marginals = np.add.reduceat(missed, asked.workload.offsets[:-1]) / sizes
    expected = (errors.noise + errors.start)[offered]
    true = of_marginals[offered]
    weights = sizes[offered] / sizes[offered].sum()
    stein = _stein(release) if job.stein else (np.nan, np.nan)
    ratios = np.sqrt(expected[true > 0] / true[true > 0])
    coverage = (np.nan,) * 4
    if job.refits:
        began = time.process_time()
        intervals = release.intervals(0.95, refits=job.refits)
        seconds.append(time.process_time() - began)
        holds = (intervals.low - 1e-12 <= truth) & (truth <= intervals.high + 1e-12)
        kinds = (
            ~intervals.small,
            intervals.small & intervals.represented,
            ~intervals.represented,
            intervals.offered,
        )
        coverage = tuple(_mean(holds[kind & intervals.offered]) for kind in kinds)  # type: ignore[assignment]
    else:
        seconds.append(np.nan)
    squares = (float(expected @ weights), float(true @ weights), *stein)
    return Found(squares, ratios, float(offered.mean()), errors.scale, coverage, tuple(seconds), "")  # type: ignore[arg-type]


def _release(job: Job, asked: growth.Case) -> tuple[pmw.Release, float]:
    kept = None
    if job.keep is not None:
        kept = Path(job.keep) / f"{job.name.replace(' ', '_')}.{job.epsilon:g}.{job.seed}.release"
        if kept.exists():
            return pmw.load_release(kept), np.nan
    began = time.process_time()
    release = growth.grown(asked.private, asked.support, asked.workload, job.epsilon, job.seed)
    seconds = time.process_time() - began
    if kept is not None:
        release.save(kept)
    return release, seconds


def _stein(release: pmw.Release) -> tuple[float, float]:
    """Stein's estimate of the mean squared error over measured cells, and the deviation of its noise."""
    response = Response(release, release.workload)
    stream = np.random.default_rng(0)
    freedom = np.zeros(len(response.noisy))
    for _ in range(PROBES):
        drawn = response.draw_noise(stream)
        freedom += drawn * response.respond(drawn)[0] / PROBES
    missed = np.square(response.noisy - response.fitted)
    estimate = missed + (2 * freedom - 1) * response.variances
    return float(estimate.mean()), float(np.sqrt(2 * np.square(response.variances).sum()) / len(missed))


def other_weights(job: Job) -> list[tuple[float, float]]:
    """In a worker process: squared and largest true error at other prior weights, over the release's own.

    One Newton step from the release, on its own rows: what a finer choice of the weight can bring at most.
    """
    asked = growth.case(job.name)
    pmw.kernels.set_threads(1)
    release, _ = _release(job, asked)
    truth = asked.private.counts(asked.workload) / asked.private.n
    found = []
    for factor in FACTORS:
        response = Response(_reweighed(release, factor), asked.workload)
        # At another weight the multipliers pull too much or too little by this part of what is missed.
        start = (1 - factor) * (response.noisy - response.fitted) / np.sqrt(response.variances)
        answers = release.answers() + response.change_of(response.respond(start)[1])
        off, own = np.abs(answers - truth), np.abs(release.answers() - truth)
        found.append((float(np.square(off).mean() / np.square(own).mean()), float(off.max() / own.max())))
    return found


def _reweighed(release: pmw.Release, factor: float) -> pmw.Release:
    """The same release, but for what its last round says of the prior weight."""
    *before, last = release.history
    details = {**last.details, "prior_weight": factor * last.details["prior_weight"]}
    return pmw.Release(
        release.support,
        release.workload,
        release.weights,
        measured=release.measured,
        measurements=release.measurements,
        ledger=release.ledger,
        settings=release.settings,
        history=[*before, dataclasses.replace(last, details=details)],
    )


def lines_of_weights(
    names: tuple[str, ...], epsilons: list[float], seeds: int, keep: str | None, workers: int
) -> Iterator[str]:
    """For each set and epsilon the mean of both ratios over the seeds, at each factor."""
    yield "| set | epsilon | " + " | ".join(f"x {factor:g}: squares, largest" for factor in FACTORS) + " |"
    yield "|---|---|" + "---|" * len(FACTORS)
    with ProcessPoolExecutor(max_workers=workers) as pool:
        for name in names:
            for epsilon in epsilons:
                jobs = [Job(name, epsilon, seed, 0, False, keep) for seed in range(seeds)]
                means = np.mean(list(pool.map(other_weights, jobs)), axis=0)
                yield f"| {name} | {epsilon:g} | " + " | ".join(f"{s:.3f}, {m:.3f}" for s, m in means) + " |"


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def lines(
    names: tuple[str, ...],
    epsilons: list[float],
    seeds: int,
    refits: int,
    stein: bool,
    keep: str | None,
    workers: int,
) -> Iterator[str]:
    """The table in Markdown, as it is ready."""
    yield (
        "| set | epsilon | offered | start scale | squares, expected / true (least, largest) | "
        "marginals: least, quartiles, largest | below half | coverage >= 1 record | smaller | no row | all | "
        "cost: errors, intervals |" + (" Stein / true, deviation |" if stein else "")
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|" + "---|" * stein
    with ProcessPoolExecutor(max_workers=workers) as pool:
        for name in names:
            for epsilon in epsilons:
                jobs = [Job(name, epsilon, seed, refits, stein, keep) for seed in range(seeds)]
                found = list(pool.map(look, jobs))
                if any(each.reason for each in found):
                    reason = next(each.reason for each in found if each.reason)
                    yield f"| {name} | {epsilon:g} | not offered: {reason} |"
                    continue
                squares = np.array([each.squares for each in found])
                single = squares[:, 0] / squares[:, 1]
                ratios = np.concatenate([each.ratios for each in found])
                quarters = np.quantile(ratios, (0, 0.25, 0.5, 0.75, 1))
                coverage = np.mean([each.coverage for each in found], axis=0)
                cost = np.array([each.seconds for each in found])
                text = (
                    f"| {name} | {epsilon:g} | {np.mean([each.offered for each in found]):.0%} | "
                    f"{np.mean([each.scale for each in found]):.2f} | "
                    f"{squares[:, 0].mean() / squares[:, 1].mean():.2f} "
                    f"({single.min():.2f}, {single.max():.2f})"
                    f" | {', '.join(f'{q:.2f}' for q in quarters)} | "
                    f"{(ratios < 0.5).sum()} of {len(ratios)} | "
                    + " | ".join(f"{share:.3f}" for share in coverage)
                    + f" | {(cost[:, 1] / cost[:, 0]).mean():.1f}, {(cost[:, 2] / cost[:, 0]).mean():.1f} |"
                )
                if stein:
                    true = squares[:, 1].mean()
                    text += f" {squares[:, 2].mean() / true:.2f} ± {squares[:, 3].mean() / true:.2f} |"
                yield text


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.25, 1.0])
    parser.add_argument("--only", default="", help="sets whose names start so")
    parser.add_argument("--refits", type=int, default=50, help="of intervals; 0: none")
    parser.add_argument("--stein", action="store_true")
    parser.add_argument("--weights", action="store_true")
    parser.add_argument("--keep", help="a folder of releases")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    names = tuple(name for name in (*SEEN, *UNSEEN) if name.startswith(given.only))
    if given.keep is not None:
        Path(given.keep).mkdir(parents=True, exist_ok=True)
    try:
        if given.smoke:
            printed = lines(("ADULT, unbiased 10 %",), [0.25], 1, 10, False, None, 1)
        elif given.weights:
            printed = lines_of_weights(names, given.epsilons, given.seeds, given.keep, given.workers)
        else:
            printed = lines(
                names, given.epsilons, given.seeds, given.refits, given.stein, given.keep, given.workers
            )
        for line in printed:
            print(line, flush=True)
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
