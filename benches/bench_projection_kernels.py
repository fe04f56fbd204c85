"""What a projection's inner loop calls: potentials of rows and groups, gram matrices, tilts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from baselines import marginal, subset
from race import Case, Line, Ratio, each_line
from shapes import acs67

import privmw as pmw

GATHER = "numpy (ravel + take)"
PRODUCT = "numpy (dense product)"
EXP = "numpy (exp, divide)"


def potentials_case(size: int) -> Callable[[bool], Case]:
    def build(smoke: bool) -> Case:
        support = pmw.Support.from_table(acs67(5_000 if smoke else 150_000))
        columns = support.table.columns
        workload = pmw.Workload.sample(support.domain, k=3, size=50 if smoke else size, seed=1)
        marginals = support.marginals(workload)
        values = np.random.default_rng(2).standard_normal(workload.cells)
        out = np.empty(support.size)
        few = subset(workload, 50)

        def numpy_potentials(chosen: np.ndarray) -> np.ndarray:
            found = np.zeros(support.size)
            for j in chosen:
                places, shape = marginal(workload, j)
                cells = np.ravel_multi_index([columns[a] for a in places], shape)
                found += values[workload.offsets[j] : workload.offsets[j + 1]][cells]
            return found

        def check() -> None:
            truth = numpy_potentials(np.arange(len(workload)))
            np.testing.assert_allclose(marginals.potentials(values), truth, rtol=1e-11, atol=1e-11)

        return Case(
            {
                "privmw": Line(lambda: marginals.potentials(values, out, threads=1)),
                "privmw, two threads": Line(lambda: marginals.potentials(values, out, threads=2)),
                GATHER: Line(lambda: numpy_potentials(few), len(few) / len(workload)),
            },
            [Ratio("privmw", GATHER, 20), Ratio("privmw, two threads", "privmw")],
            check,
            f"{len(workload):,} three-way marginals of {support.size:,} rows",
        )

    return build


def groups_case(smoke: bool) -> Case:
    groups, count = (500, 50) if smoke else (50_000, 1_000)
    rng = np.random.default_rng(3)
    answers = rng.random((groups, count)) < 0.03
    starts = np.concatenate([[0], np.cumsum(answers.sum(axis=1))])
    incidence = pmw.kernels.Incidence(starts, np.nonzero(answers)[1].astype(np.uint32), count)
    weights, dense = rng.random(groups), answers.astype(float)

    def check() -> None:
        np.testing.assert_allclose(incidence.gram(weights), (dense.T * weights) @ dense, rtol=1e-11)
        np.testing.assert_allclose(incidence.sums(weights), weights @ dense, rtol=1e-11)

    return Case(
        {
            "privmw": Line(lambda: incidence.gram(weights, threads=1)),
            PRODUCT: Line(lambda: (dense.T * weights) @ dense),
        },
        [Ratio("privmw", PRODUCT, 5)],
        check,
        f"{groups:,} groups x {count:,} queries, {100 * answers.mean():.0f} % yes",
    )


def tilt_case(smoke: bool) -> Case:
    rows = 5_000 if smoke else 150_000
    rng = np.random.default_rng(4)
    base, potentials, out = rng.random(rows), 5 * rng.standard_normal(rows), np.empty(rows)

    def numpy_tilt() -> np.ndarray:
        weights: np.ndarray = base * np.exp(potentials - potentials.max())
        return weights / weights.sum()

    return Case(
        {"privmw": Line(lambda: pmw.kernels.tilt(base, potentials, out, threads=1)), EXP: Line(numpy_tilt)},
        [Ratio("privmw", EXP)],
        lambda: np.testing.assert_allclose(pmw.kernels.tilt(base, potentials)[0], numpy_tilt(), rtol=1e-12),
        f"{rows:,} rows",
    )


POTENTIALS = ("privmw", "privmw, two threads", GATHER)
CASES = {
    "acs67, potentials of 500 marginals": (potentials_case(500), POTENTIALS),
    "acs67, potentials of 1,024 marginals": (potentials_case(1024), POTENTIALS),
    "groups, gram matrix": (groups_case, ("privmw", PRODUCT)),
    "tilt": (tilt_case, ("privmw", EXP)),
}


@pytest.mark.parametrize(("case", "line"), each_line(CASES))
def test_projection(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, CASES[case][0])
