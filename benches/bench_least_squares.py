"""Non-negative fits: small ones against scipy and OSQP, a large one against Newton's method in numpy."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import newton_numpy
import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from race import Case, Figures, Line, Ratio, each_line

import privmw as pmw
from privmw.extensions.postprocess import NoisyMarginal, NoisyMarginals, nnls, reweight
from privmw.extensions.postprocess.problem import Problem, make_problem
from privmw.extensions.postprocess.reweight import _reweighted

LAWSON = "scipy.optimize.nnls"
SPLITTING = "OSQP"
CALL = "privmw, from noisy counts"
NUMPY = "numpy (Newton, conjugate gradients)"
HERE = Path(__file__).parent


def draw(sizes: list[int], orders: list[int], scale: float, rng: np.random.Generator) -> NoisyMarginals:
    """A histogram with heavy tails and many zeros, its marginals of some orders, and itself."""
    domain = pmw.Domain({f"x{a}": size for a, size in enumerate(sizes)})
    counts = np.floor(rng.pareto(0.8, sizes) * 5).clip(0, 5_000) * (rng.random(sizes) < 0.2)
    found = []
    for names in [m for k in orders for m in itertools.combinations(domain.names, k)] + [domain.names]:
        others = tuple(a for a, name in enumerate(domain.names) if name not in names)
        truth = np.asarray(counts.sum(axis=others))
        found.append(NoisyMarginal(names, truth + rng.laplace(0, scale, truth.shape), "laplace", scale))
    return NoisyMarginals(found, domain)


def dense(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The problem as a matrix, over standard deviations: every query, and every row itself."""
    rows, count = problem.tallies.rows, problem.tallies.count
    matrix = np.empty((count, rows))
    for row in range(rows):
        matrix[:, row] = problem.tallies.sums(np.eye(rows)[row])
    roots = np.concatenate([np.sqrt(problem.fitted), np.broadcast_to(np.sqrt(problem.precisions), rows)])
    return (
        np.vstack([matrix, np.eye(rows)]) * roots[:, None],
        np.concatenate([problem.counts, problem.centre]) * roots,
    )


def small_case(method: str) -> Callable[[bool], Case]:
    def build(smoke: bool) -> Case:
        import osqp
        from scipy.optimize import nnls as lawson_hanson
        from scipy.sparse import csc_matrix, identity, triu

        rng = np.random.default_rng(5)
        given = [draw([9, 24], [0, 1], 8.0, rng) for _ in range(2 if smoke else 10)]
        problems = [make_problem(measured, None) for measured in given]
        whole = {"nnls": nnls, "reweight": reweight}[method]
        if method == "reweight":
            problems = [
                _reweighted(problem, measured, None, 0.99, "counts")
                for problem, measured in zip(problems, given, strict=True)
            ]
        matrices = [dense(problem) for problem in problems]
        box = identity(216, format="csc"), np.zeros(216), np.full(216, np.inf)
        squares = [(triu(csc_matrix(m.T @ m), format="csc"), -m.T @ a) for m, a in matrices]
        one = np.ones(1)

        def ours() -> list[np.ndarray]:
            free = (-np.inf * one, np.inf * one)
            return [
                problem.tallies.newton(
                    pmw.kernels.FitTargets(problem.centre, 1 / problem.precisions, 0 * one, np.inf * one),
                    pmw.kernels.FitTargets(problem.counts, problem.variances, *free),
                    tolerance=1e-11 * problem.scale,
                ).weights
                for problem in problems
            ]

        def theirs() -> list[np.ndarray]:
            return [lawson_hanson(matrix, counts)[0] for matrix, counts in matrices]

        def splitting() -> list[np.ndarray]:
            found = []
            for square, linear in squares:
                solver = osqp.OSQP()
                options = {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iter": 200_000, "polishing": True}
                solver.setup(square, linear, *box, verbose=False, **options)
                found.append(solver.solve(raise_error=False).x)
            return found

        def check() -> None:
            for a, b, c in zip(ours(), theirs(), splitting(), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-6)
                np.testing.assert_allclose(a, c, atol=0.05)  # what OSQP reaches on the worst

        return Case(
            {
                "privmw": Line(ours),
                CALL: Line(lambda: [whole(measured) for measured in given]),
                LAWSON: Line(theirs),
                SPLITTING: Line(splitting),
            },
            [
                Ratio("privmw", LAWSON, 20),
                Ratio("privmw", SPLITTING, 50),
                Ratio(CALL, LAWSON),
                Ratio(CALL, SPLITTING),
            ],
            check,
            f"{len(given)} fits of 9 x 24 with sum, margins and identity; matrices made beforehand",
        )

    return build


def large_case(smoke: bool) -> Case:
    sizes = [6] * 4 if smoke else [10] * 6
    measured = draw(sizes, [0, 2], 16.0, np.random.default_rng(6))
    problem = make_problem(measured, None)
    pairs = [(), *itertools.combinations(range(len(sizes)), 2)]
    axes = newton_numpy.Axes(sizes, pairs)
    tolerance, one = 1e-9 * problem.scale, np.ones(1)
    variance = float(problem.variances[0])

    def ours() -> np.ndarray:
        rows = pmw.kernels.FitTargets(problem.centre, variance * one, 0 * one, np.inf * one)
        queries = pmw.kernels.FitTargets(problem.counts, problem.variances, -np.inf * one, np.inf * one)
        return problem.tallies.newton(rows, queries, tolerance=tolerance).weights

    def theirs() -> np.ndarray:
        centre = problem.centre.reshape(sizes)
        return newton_numpy.fit(axes, centre, variance, problem.counts, variance, tolerance)[0].ravel()

    def check() -> None:
        np.testing.assert_allclose(ours(), theirs(), atol=1e-6 * problem.scale)
        assert nnls(measured).certificate.kkt < 1e-8

    return Case(
        {"privmw": Line(ours), CALL: Line(lambda: nnls(measured)), NUMPY: Line(theirs)},
        [Ratio("privmw", NUMPY, 4), Ratio(CALL, NUMPY, 4)],
        check,
        f"{problem.tallies.rows:,} cells, {problem.tallies.count} queries",
    )


SMALL = ("privmw", CALL, LAWSON, SPLITTING)
CASES = {
    "9 x 24, nnls": (small_case("nnls"), SMALL),
    "9 x 24, reweight": (small_case("reweight"), SMALL),
    "10^6 cells, all pairs and identity": (large_case, ("privmw", CALL, NUMPY)),
}


@pytest.mark.parametrize(("case", "line"), each_line(CASES))
def test_least_squares(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, CASES[case][0], seconds=20, fewest=3)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize("shape", ["cells", "rows"])
def test_large_fits(shape: str, benchmark: BenchmarkFixture, report: Figures, smoke: bool) -> None:
    def run() -> str:
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        command = [sys.executable, HERE / "fit_footprint.py", shape, "small" if smoke else "large"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    benchmark.group = f"large fits, {shape}"
    figures = json.loads(benchmark.pedantic(run, rounds=1))
    file, case = "bench_least_squares.py", figures["case"]
    report.add(file, case, "seconds of a processor", "", f"{figures['seconds']:.1f}", None)
    peak = figures["peak"] / 1e9
    most = 4 if shape == "cells" else None
    report.add(
        file, case, "peak", f"<= {most} GB" if most else "", f"{peak:.2f} GB", peak <= most if most else None
    )
    report.add(file, case, "KKT residual, relative", "", f"{figures['kkt']:.1e}", None)
    report.note(file, figures["certificate"])
