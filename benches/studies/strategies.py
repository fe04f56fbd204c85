"""Strategies for one shot: what noise they state and have, HDMM beside ours, how long they take to make.

    python benches/study.py strategies                  # all of it: about three minutes
    python benches/study.py strategies --only noise     # also: hdmm, time
    python benches/study.py strategies --smoke          # few draws, small workloads

Needs PRIVMW_DATA. Shots are calibrated to epsilon 1 at delta 1e-9; draws are seeded, so they repeat.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import real_data
from pairs import as_private

import privmw as pmw
from privmw import strategies
from privmw.extensions import experiments
from privmw.extensions.unbiased.one_shot import measure_shot

BUDGET = pmw.Budget.approximate(1.0, 1e-9, event_delta=1e-12)
PURE = pmw.Budget.pure(1.0)


def survey(profile: str) -> dict[str, int]:
    """The sizes of a profile of the survey."""
    domain = experiments.domain(profile)
    return dict(zip(domain.names, domain.sizes, strict=True))


def noise(draws: int) -> None:
    """Stated and measured standard deviations of a cell, against the raw equal shot."""
    public = real_data.adult()
    private = as_private(public)
    workload = pmw.Workload.all(private.domain, k=3)
    true = np.split(public.counts(workload), workload.offsets[1:-1])
    raw = len(workload) / float(BUDGET.limit)  # the variance of a cell with an equal share of rho
    print(f"\nADULT, {len(workload)} three-way marginals: standard deviation of a cell against the raw equal")
    print(f"shot, mean over marginals / largest; measured over {draws} draws")
    print(
        f"{'strategy':24} {'stated':>13} {'measured':>13}   measured / stated variance: mean, least, largest"
    )
    for name, strategy in {
        "equal, least squares": strategies.equal(),
        "residual, marginals": strategies.residual("marginals"),
        "residual, largest": strategies.residual("largest"),
    }.items():
        shot = strategy.calibrate(workload, BUDGET)
        squares = np.zeros(len(workload))
        for seed in range(draws):
            with pmw.curator.Curator(private, shot.measured, BUDGET, rng=seed) as curator:
                residuals = shot.residuals(measure_shot(curator, shot))
            for j, names in enumerate(workload):
                error = shot.reconstruct(residuals, private.n, names) - true[j]
                squares[j] += (error @ error) / len(error)
        measured, stated = squares / draws, shot.variances()
        shown = [f"{np.sqrt(v / raw).mean():.3f} / {np.sqrt(v / raw).max():.3f}" for v in (stated, measured)]
        ratio = measured / stated
        spread = f"{ratio.mean():.4f}, {ratio.min():.3f}, {ratio.max():.3f}"
        print(f"{name:24} {shown[0]:>13} {shown[1]:>13}   {spread}", flush=True)


def total(shot: strategies.Shot) -> float:
    """The variance of all cells of the workload together."""
    return float(shot.variances() @ np.diff(shot.workload.offsets))


def hdmm() -> None:
    """HDMM's stated total variance against that of residual noise."""
    adult, reduced = dict(zip(*sizes_of_adult(), strict=True)), survey("acs15_reduced")
    print("\nTotal variance of all three-way cells against residual noise for the loss 'cells' (1: as good)")
    print(f"{'set':44} {'HDMM':>8} {'HDMM, Laplace at epsilon 1':>28} {'equal':>8}")
    sets = {
        "ADULT, 7 attributes, 35 marginals": dict(list(adult.items())[:7]),
        "ADULT, 13 attributes, 286 marginals": adult,
        "survey reduced, first 13 of 15, 286 marginals": dict(list(reduced.items())[:13]),
        "survey reduced, last 13 of 15, 286 marginals": dict(list(reduced.items())[2:]),
    }
    for name, sizes in sets.items():
        workload = pmw.Workload.all(pmw.Domain(sizes), k=3)
        ours = total(strategies.residual("cells").calibrate(workload, BUDGET))
        theirs = total(strategies.hdmm().calibrate(workload, BUDGET)) / ours
        laplace = total(strategies.hdmm().calibrate(workload, PURE)) / ours
        equal = total(strategies.equal().calibrate(workload, BUDGET)) / ours
        print(f"{name:44} {theirs:8.3f} {laplace:28.2f} {equal:8.3f}")


def sizes_of_adult() -> tuple[tuple[str, ...], tuple[int, ...]]:
    domain = experiments.domain("adult")
    return domain.names, domain.sizes


def make(smoke: bool) -> None:
    """Processor seconds to make each strategy, and what it gains."""
    names, sizes = sizes_of_adult()
    wide = pmw.Domain(survey("acs67"))
    workloads = {
        "ADULT, 286 marginals": pmw.Workload.all(pmw.Domain(dict(zip(names, sizes, strict=True))), k=3)
    }
    workloads["67 attributes, 1,024 marginals"] = pmw.Workload.sample(wide, k=3, size=1024, seed=0)
    if not smoke:
        workloads["67 attributes, all 47,905 marginals"] = pmw.Workload.all(wide, k=3)
    print("\nProcessor seconds to make a strategy; standard deviation of a cell against the raw equal shot,")
    print("mean / largest; rho of the worst pair of records, as it is charged, against that of the mean pair")
    for name, workload in workloads.items():
        raw = len(workload) / float(BUDGET.limit)
        for label, strategy in {
            "equal": strategies.equal(),
            "residual, marginals": strategies.residual("marginals"),
            "residual, largest": strategies.residual("largest"),
        }.items():
            started = time.process_time()
            shot = strategy.calibrate(workload, BUDGET)
            seconds = time.process_time() - started
            spread = np.sqrt(shot.variances() / raw)
            worst = float(shot.cost.rho) / float(shot.precision @ shot.closure.shrink)
            gain = f"{spread.mean():.3f} / {spread.max():.3f}"
            print(f"{name:36} {label:20} {seconds:7.2f} s   {gain}   {worst:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("noise", "hdmm", "time"))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.only in (None, "time"):
        make(options.smoke)
    if options.only in (None, "hdmm"):
        hdmm()
    if options.only in (None, "noise"):
        noise(2 if options.smoke else options.draws)


if __name__ == "__main__":
    main()
