"""Unbiased answers of one shot: how often their intervals hold the truth, and how far off the answers are.

    python benches/study.py unbiased coverage     # 500 releases of made-up people: every strategy and noise
    python benches/study.py unbiased threshold    # Theorem 4's mechanisms: errors against the number of cells

Noise is drawn with fixed seeds. The variances themselves are measured by benches/studies/strategies.py.
"""

from __future__ import annotations

import argparse

import numpy as np

import privmw as pmw
from privmw import strategies
from privmw.accounting import Budget
from privmw.extensions.population import draw_population
from privmw.extensions.postprocess import theory
from privmw.extensions.unbiased.intervals import half_widths
from privmw.extensions.unbiased.one_shot import measure_shot
from privmw.mechanisms import add_discrete_laplace, add_thresholded_laplace

CASES = {
    "residual, largest": (strategies.residual("largest"), {"epsilon": 1.0, "delta": 1e-9}),
    "residual, largest, epsilon .25": (strategies.residual("largest"), {"epsilon": 0.25, "delta": 1e-9}),
    "residual, marginals": (strategies.residual("marginals"), {"epsilon": 1.0, "delta": 1e-9}),
    "equal, Gaussian": (strategies.equal(), {"epsilon": 1.0, "delta": 1e-9}),
    "hdmm, Gaussian": (strategies.hdmm(), {"epsilon": 1.0, "delta": 1e-9}),
    "equal, Laplace": (strategies.equal(), {"epsilon": 1.0, "delta": 0}),
    "hdmm, Laplace": (strategies.hdmm(), {"epsilon": 1.0, "delta": 0}),
}


def shots(private, shot, releases, seed):
    """The interactions that many releases of one plan estimate."""
    pure = shot.family.order == 1
    plenty = Budget.pure(10**9) if pure else Budget.zcdp(10**9, event_delta=0.5)
    with pmw.curator.Curator(private, shot.measured, plenty, rng=seed) as curator:
        for _ in range(releases):
            yield shot.residuals(measure_shot(curator, shot))


def coverage(releases: int) -> None:
    private = draw_population(20_000, attributes=5, seed=2, private=True)
    workload = pmw.Workload.all(private.domain, k=3)
    inside = pmw.Workload.all(private.domain, k=[1, 2])
    truth = {asked: private.counts(asked) for asked in (workload, inside)}
    print(f"{releases} releases of {private.n:,} made-up people, {private.domain.sizes}: {workload!r}")
    print("95 % intervals: share of cells that hold the truth; of releases in which all cells do")
    print(f"{'':32s} asked: cells / worst cell / all    inside: cells / worst cell / all")
    for name, (strategy, budget) in CASES.items():
        shot = (
            pmw.extensions.unbiased.one_shot.OneShot(strategy=strategy)
            .calibrate(**budget)
            .plan(workload)
            .shot
        )
        widths = {}
        for asked in (workload, inside):
            for outside in (0.05, 0.05 / asked.cells):
                each = half_widths(shot, list(asked), outside, at_least=outside < 0.05)
                widths[asked, outside] = np.repeat(each, np.diff(asked.offsets))
        held = {key: [] for key in widths}
        for residuals in shots(private, shot, releases, seed=17):
            for asked in (workload, inside):
                counts = [shot.reconstruct(residuals, private.n, names) for names in asked]
                errors = np.abs(np.concatenate(counts) - truth[asked])
                for outside in (0.05, 0.05 / asked.cells):
                    held[asked, outside].append(errors <= widths[asked, outside] + 1e-9)
        text = []
        for asked in (workload, inside):
            single, together = (np.array(held[asked, o]) for o in (0.05, 0.05 / asked.cells))
            worst = single.mean(axis=0).min()
            text.append(f"{single.mean():.4f} / {worst:.3f} / {together.all(axis=1).mean():.3f}")
        print(f"{name:32s} {text[0]}             {text[1]}", flush=True)


def threshold(runs: int) -> None:
    epsilon, delta = 1.0, 1e-9
    bounds = theory.threshold_mechanism_errors(epsilon, delta)
    print(f"epsilon {epsilon}, delta {delta}: ten cells of 1 to 2,000 records among d, {runs} runs")
    print(
        "root mean squared error, worst cell / sum: Theorem 4's items 1 (points), 3 (sum) and 5 (threshold)"
    )
    print(f"bounds of item 5: {bounds.point:.1f} / {bounds.sum:.2f}")
    rng = np.random.default_rng(3)
    for d in (100, 10_000, 1_000_000):
        truth = np.zeros(d, np.int64)
        truth[:10] = np.geomspace(1, 2000, 10)
        errors = {name: np.zeros(d) for name in ("points", "sum", "threshold")}
        sums = dict.fromkeys(errors, 0.0)
        for _ in range(runs):
            half = {"l1_sensitivity": 1, "epsilon": epsilon / 2}
            whole, _ = add_discrete_laplace(truth, l1_sensitivity=1, epsilon=epsilon, rng=rng)
            points, _ = add_discrete_laplace(truth, **half, rng=rng)
            total, _ = add_discrete_laplace(np.array([truth.sum()]), **half, rng=rng)
            shown, _ = add_thresholded_laplace(truth, **half, delta=delta, rng=rng)
            fitted = {
                "points": theory.point_mechanism(whole),
                "sum": theory.sum_mechanism(points, float(total[0])),
                "threshold": theory.sum_mechanism(shown, float(total[0])),
            }
            for name, found in fitted.items():
                errors[name] += (found - truth) ** 2 / runs
                sums[name] += (found.sum() - truth.sum()) ** 2 / runs
        text = (f"{name} {errors[name].max() ** 0.5:6.1f} / {sums[name] ** 0.5:10.1f}" for name in errors)
        print(f"d = {d:>9,}: {'   '.join(text)}", flush=True)


if __name__ == "__main__":
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("what", choices=("coverage", "threshold"))
    parser.add_argument("--runs", type=int, help="releases (500), or runs (20)")
    given = parser.parse_args()
    pmw.kernels.set_threads(1)
    coverage(given.runs or 500) if given.what == "coverage" else threshold(given.runs or 20)
