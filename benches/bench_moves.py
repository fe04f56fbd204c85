"""Gibbs sweeps over many records under the values of three-way marginals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from race import Case, Line, Ratio, each_line
from round_shapes import ADULT_SIZES, ADULT_UNCOMMON
from shapes import SparseModel, acs67, dense, make_table

import privmw as pmw
from privmw.kernels import choice

NUMPY, NUMBA = "numpy (take, exp, cumsum)", "numba loop"
RECORDS = 8_000
KEEP = 0.97


def adult(rows: int) -> pmw.Table:
    return make_table(
        ADULT_SIZES, SparseModel(ADULT_SIZES, [u / 1000 for u in ADULT_UNCOMMON], 3.0, 13).columns(rows)
    )


def moves_on(backend: str, workload: pmw.Workload, values: np.ndarray) -> pmw.kernels.Moves:
    before = choice.kernels
    choice.kernels = choice.Backend(backend)
    try:
        moves = pmw.kernels.Moves(workload.domain.sizes, workload.attributes, workload.starts)
    finally:
        choice.kernels = before
    moves.set_values(values)
    return moves


def sweep_case(
    table: Callable[[int], pmw.Table], workload: Callable[[pmw.Domain, bool], pmw.Workload]
) -> Callable[[bool], Case]:
    def build(smoke: bool) -> Case:
        made = table(RECORDS // 10 if smoke else RECORDS)
        asked = workload(made.domain, smoke)
        sizes = made.domain.sizes
        codes = np.stack(made.columns, axis=1).astype(np.uint32)
        rng = np.random.default_rng(6)
        values = 0.3 * rng.standard_normal(asked.cells)
        words = list(rng.integers(0, 2**64, codes.T.shape, np.uint64))
        kept = codes.copy()
        base = [np.full(size, (1 - KEEP) / size) for size in sizes]
        moves = {name: moves_on(name, asked, values) for name in choice.BACKENDS}

        def sweep(backend: str, threads: int = 1) -> np.ndarray:
            moved = codes.copy()
            moves[backend].redraw(moved, range(len(sizes)), kept, KEEP, base, words, threads=threads)
            return moved

        def check() -> None:
            one = sweep("native")
            assert (one != codes).any()
            for other in (sweep("native", 2), sweep("numba"), sweep("numpy")):
                assert np.array_equal(one, other)

        drawn = sum(asked.order(j) for j in range(len(asked)))
        adds = sum(sum(asked.shape(j)) for j in range(len(asked)))
        return Case(
            {
                "privmw": Line(lambda: sweep("native")),
                "privmw, two threads": Line(lambda: sweep("native", 2)),
                "privmw, potentials": Line(lambda: moves["native"].potentials(codes, threads=1)),
                NUMPY: Line(lambda: sweep("numpy")),
                NUMBA: Line(lambda: sweep("numba")),
            },
            [
                Ratio("privmw", NUMPY),
                Ratio("privmw", NUMBA),
                Ratio("privmw, potentials", "privmw"),
                Ratio("privmw, two threads", "privmw"),
            ],
            check,
            f"{len(codes):,} records x {len(sizes)} attributes, {len(asked):,} marginals: "
            f"{len(codes) * drawn:,} (record, marginal, attribute), {len(codes) * adds:,} with their values",
        )

    return build


def sampled(size: int) -> Callable[[pmw.Domain, bool], pmw.Workload]:
    return lambda domain, smoke: pmw.Workload.sample(domain, k=3, size=50 if smoke else size, seed=1)


def every_triple(domain: pmw.Domain, smoke: bool) -> pmw.Workload:
    return pmw.Workload.sample(domain, k=3, size=50, seed=1) if smoke else pmw.Workload.all(domain, k=3)


LINES = ("privmw", "privmw, two threads", "privmw, potentials", NUMPY, NUMBA)
CASES = {
    "acs67, sweep under 1,024 marginals": (sweep_case(acs67, sampled(1024)), LINES),
    "adult, sweep under all 286 marginals": (sweep_case(adult, every_triple), LINES),
    "dense, sweep under 200 marginals": (sweep_case(dense, sampled(200)), LINES),
}


@pytest.mark.parametrize(("case", "line"), each_line(CASES))
def test_moves(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, CASES[case][0])
