"""Every class of problem that the projection's solver must finish: its passes, gap and KKT residual.

Where `said` is "infeasible" the solver proved that no distribution is within gamma; "stopped" is neither.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from duals import TOLERANCE, Problem, cells_problem, whole_problem
from race import Figures
from round_shapes import RoundShape, adult, long
from shapes import SparseModel, make_table

import privmw as pmw
from privmw.models.projection.solver import Slack, project

Made = Callable[[Problem], tuple[np.ndarray, Slack]]


def l2(noise: float, prior_weight: float) -> Made:
    return lambda problem: (problem.noisy(noise), problem.slack(noise, prior_weight))


def l1(gamma: float, noise: float | None = None) -> Made:
    """On consistent answers, or on noisy ones."""

    def made(problem: Problem) -> tuple[np.ndarray, Slack]:
        answers = problem.fair if noise is None else np.clip(problem.noisy(noise), 0, 1)
        return answers, Slack(gamma=np.full(len(answers), gamma))

    return made


def some_adult(smoke: bool) -> RoundShape:
    shape = adult()
    return shape._replace(workload=shape.workload.select(np.arange(20))) if smoke else shape


def million(smoke: bool) -> RoundShape:
    """500 three-way marginals with a million cells over 200,000 rows."""
    rows = 5_000 if smoke else 200_000
    sizes = [6 + a % 14 for a in range(30)]
    table = make_table(sizes, SparseModel(sizes, [0.4] * 30, 3.0, 9).columns(2 * rows))
    workload = pmw.Workload.sample(table.domain, k=3, size=20 if smoke else 500, seed=1)
    hidden = table.take(np.arange(rows, 2 * rows))
    return RoundShape(pmw.Support.from_table(table.take(np.arange(rows))), hidden, workload)


def millions(smoke: bool) -> RoundShape:
    return long(20_000, 2_000, 20) if smoke else long(5_000_000, 100_000, 500)


def adult_cells(count: int, smoke: bool) -> Problem:
    return cells_problem(some_adult(smoke), min(count, 50) if smoke else count, largest=count < 5_000)


def adult_whole(marginals: int, smoke: bool) -> Problem:
    return whole_problem(some_adult(smoke), min(marginals, 5) if smoke else marginals, for_scipy=False)


CELLS = {
    "l2, noise 1e-5, prior 1": l2(1e-5, 1),
    "l2, noise 1e-3, prior 1": l2(1e-3, 1),
    "l2, noise 1e-3, prior 1e3": l2(1e-3, 1e3),
    "l2, noise 0.1, prior 1e6": l2(0.1, 1e6),
    "l1, gamma 0, consistent": l1(0.0),
    "l1, gamma 1e-6, consistent": l1(1e-6),
    "l1, gamma 1e-3, consistent": l1(1e-3),
    "l1, gamma 0, noise 1e-3": l1(0.0, 1e-3),
    "l1, gamma 3e-2, noise 1e-3": l1(3e-2, 1e-3),
}
FEW_WHOLE = {**CELLS, "l2, noise 1e-2, prior 1": l2(1e-2, 1)}
WHOLE = {
    "l2, noise 1e-3, prior 1e3": l2(1e-3, 1e3),
    "l2, noise 1e-2, prior 1e3": l2(1e-2, 1e3),
    "l2, noise 0.1, prior 1e6": l2(0.1, 1e6),
    "l1, gamma 1e-2, consistent": l1(1e-2),
    "l1, gamma 0, noise 1e-3": l1(0.0, 1e-3),
}
INSTANCES: dict[str, tuple[Callable[[bool], Problem], dict[str, Made]]] = {
    "adult, 1 cell": (partial(adult_cells, 1), CELLS),
    "adult, 100 cells": (partial(adult_cells, 100), CELLS),
    "adult, 1,000 cells": (partial(adult_cells, 1_000), CELLS),
    "adult, 5,000 cells": (partial(adult_cells, 5_000), CELLS),
    "adult, 3 whole marginals": (partial(adult_whole, 3), FEW_WHOLE),
    "adult, 25 whole marginals": (partial(adult_whole, 25), WHOLE),
    "adult, 286 whole marginals": (partial(adult_whole, 286), WHOLE),
    "200,000 rows, 500 whole marginals": (
        lambda smoke: whole_problem(million(smoke), 500, for_scipy=False),
        {"l2, noise 1e-3, prior 1e3": l2(1e-3, 1e3), "l1, gamma 1e-2, consistent": l1(1e-2)},
    ),
    "5,000,000 rows, 500 whole marginals": (
        lambda smoke: whole_problem(millions(smoke), 500, for_scipy=False),
        {"l2, noise 1e-3, prior 1e3": l2(1e-3, 1e3)},
    ),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_instances(name: str, report: Figures, smoke: bool) -> None:
    build, slacks = INSTANCES[name]
    problem = build(smoke)
    shape = f"{name} ({problem.matrix.count:,} x {len(problem.prior):,})"
    for label, made in slacks.items():
        answers, slack = made(problem)
        began = time.perf_counter()
        fit = project(problem.matrix, problem.prior, answers, slack)
        taken = time.perf_counter() - began
        said = "converged" if fit.converged else "stopped" if fit.feasible else "infeasible"
        assert fit.converged == (fit.gap <= TOLERANCE and (slack.w is not None or fit.kkt <= TOLERANCE))
        assert fit.feasible or not ("consistent" in label or "l2" in label)
        figures = (
            f"{fit.steps} steps, {fit.passes} passes, {taken:.2g} s, gap {fit.gap:.1e}, kkt {fit.kkt:.1e}"
        )
        report.add(
            "bench_projection_instances.py", shape, label, "gap 1e-9", f"{said}: {figures}", said != "stopped"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    report.note("bench_projection_instances.py", f"{name}: peak so far {peak:.1f} GB")
