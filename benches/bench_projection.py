"""The projection against L-BFGS-B on the same dual, to the same gap, and against coordinate steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from duals import (
    TOLERANCE,
    Problem,
    cells_problem,
    coordinate_steps,
    dual_value,
    scipy_l2,
    whole_problem,
)
from race import Case, Figures, Line, Ratio, each_line
from round_shapes import RoundShape, adult, rounds200k

import privmw as pmw
from privmw.models.projection.solver import Slack, project

LBFGS = "scipy (L-BFGS-B)"
NOISE, PRIOR_WEIGHT = 1e-3, 1000.0


def race_case(build: Callable[[bool], Problem], noise: float = NOISE) -> Callable[[bool], Case]:
    def case(smoke: bool) -> Case:
        problem = build(smoke)
        answers, slack = problem.noisy(noise), problem.slack(noise, PRIOR_WEIGHT)
        w = slack.w
        assert w is not None

        def run() -> object:
            return project(problem.matrix, problem.prior, answers, slack)

        def check() -> None:
            fit = project(problem.matrix, problem.prior, answers, slack)
            multipliers, gap = scipy_l2(problem, answers, w)
            assert fit.converged
            assert gap <= TOLERANCE
            # Both are within the gap of the solution, so their answers are within sqrt(4 gap / w) in all.
            theirs = pmw.kernels.tilt(problem.prior, problem.matrix.potentials(multipliers))[0]
            missed = problem.matrix.sums(theirs) - problem.matrix.sums(fit.weights)
            assert (w * missed * missed).sum() <= 8 * TOLERANCE

        return Case(
            {"privmw": Line(run), LBFGS: Line(lambda: scipy_l2(problem, answers, w))},
            [Ratio("privmw", LBFGS, 10)],
            check,
            f"{len(problem.prior):,} rows or groups x {problem.matrix.count:,} queries: l2, w {w[0]:g}",
        )

    return case


def rounds(smoke: bool) -> RoundShape:
    return rounds200k(2_000, 50, 2_000) if smoke else rounds200k()


def some(shape: RoundShape, smoke: bool) -> RoundShape:
    return RoundShape(shape.support, shape.private, shape.workload.select(np.arange(20))) if smoke else shape


RACES = {
    "rounds200k, 100 cells": (
        race_case(lambda smoke: cells_problem(rounds(smoke), 20 if smoke else 100)),
        ("privmw", LBFGS),
    ),
    "rounds200k, 1,000 cells": (
        race_case(lambda smoke: cells_problem(rounds(smoke), 50 if smoke else 1000)),
        ("privmw", LBFGS),
    ),
    "adult, 25 whole marginals": (
        race_case(lambda smoke: whole_problem(some(adult(), smoke), 5 if smoke else 25)),
        ("privmw", LBFGS),
    ),
    "adult, 286 whole marginals": (
        race_case(lambda smoke: whole_problem(some(adult(), smoke), 20 if smoke else 286), 3e-3),
        ("privmw", LBFGS),
    ),
}


@pytest.mark.parametrize(("case", "line"), each_line(RACES))
def test_race(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, RACES[case][0], fewest=2)


def test_coordinate_steps(report: Figures, smoke: bool) -> None:
    problem = cells_problem(rounds(smoke), 20 if smoke else 100)
    count = problem.matrix.count
    fit = project(problem.matrix, problem.prior, problem.fair, Slack(gamma=np.zeros(count)))
    assert fit.converged
    best = dual_value(problem, problem.fair, fit.multipliers)
    for steps in (25, 250):
        multipliers, fitted = coordinate_steps(problem, problem.fair, steps)
        short = dual_value(problem, problem.fair, multipliers) - best
        assert short >= -TOLERANCE
        report.add(
            "bench_projection.py",
            f"{count} cells, gamma 0",
            f"{steps} coordinate steps",
            "",
            f"gap {short:.1e}, missed {np.abs(fitted - problem.fair).max():.1e}",
            None,
        )
    reached = f"gap {fit.gap:.1e}, missed {fit.kkt:.1e} in {fit.passes} passes"
    report.add("bench_projection.py", f"{count} cells, gamma 0", "privmw", "gap 1e-9", reached, fit.converged)
