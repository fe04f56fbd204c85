"""A step of a mixture of products: all cells of a workload's marginals, and the gradient for given weights.

300 products on the shape of ADULT, all 286 three-way marginals. Beside numpy, marginal by marginal: einsum as
one would write it, along the path that einsum finds, and matrix products by hand, which are OpenBLAS's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from race import Case, Line, Ratio, each_line
from round_shapes import ADULT_SIZES

import privmw as pmw
from privmw.kernels import choice

PRODUCTS = 300
EINSUM, PATH = "numpy, einsum", "numpy, einsum with its best path"
BLAS, TWIN = "numpy, matrix products", "privmw's numpy backend"


def products_on(backend: str, workload: pmw.Workload) -> pmw.kernels.Products:
    before = choice.kernels
    choice.kernels = choice.Backend(backend)
    try:
        return pmw.kernels.Products(workload.domain.sizes, workload.attributes, workload.starts)
    finally:
        choice.kernels = before


def einsum_step(
    workload: pmw.Workload, tables: np.ndarray, by_cell: np.ndarray, optimize: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The cells and the gradient by the tables, marginal by marginal."""
    sizes = workload.domain.sizes
    first = np.concatenate([[0], np.cumsum(sizes)])
    cells, gradient = np.empty_like(by_cell), np.zeros_like(tables)
    share = tables.dtype.type(1 / tables.shape[1])
    for j in range(len(workload)):
        attributes = workload.attributes[workload.starts[j] : workload.starts[j + 1]].tolist()
        letters = "abcdef"[: len(attributes)]
        places = [slice(first[a], first[a + 1]) for a in attributes]
        mine = slice(workload.offsets[j], workload.offsets[j + 1])
        operands = [tables[place] for place in places]
        inputs = [f"{letter}k" for letter in letters]
        formula = f"{','.join(inputs)}->{letters}"
        cells[mine] = share * np.einsum(formula, *operands, optimize=optimize).ravel()
        pull = share * by_cell[mine].reshape([sizes[a] for a in attributes])
        for at, place in enumerate(places):
            others = [*inputs[:at], *inputs[at + 1 :]]
            formula = f"{','.join([letters, *others])}->{inputs[at]}"
            rest = [*operands[:at], *operands[at + 1 :]]
            gradient[place] += np.einsum(formula, pull, *rest, optimize=optimize)
    return cells, gradient


def matrix_step(
    workload: pmw.Workload, tables: np.ndarray, by_cell: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same for three-way marginals: an outer product of two tables, and three matrix products."""
    sizes, count = workload.domain.sizes, tables.shape[1]
    first = np.concatenate([[0], np.cumsum(sizes)])
    cells, gradient = np.empty_like(by_cell), np.zeros_like(tables)
    share = tables.dtype.type(1 / count)
    for j in range(len(workload)):
        attributes = workload.attributes[workload.starts[j] : workload.starts[j + 1]].tolist()
        a, b, c = (slice(first[x], first[x + 1]) for x in attributes)
        mine = slice(workload.offsets[j], workload.offsets[j + 1])
        combined = share * (tables[a][:, None] * tables[b][None]).reshape(-1, count)
        cells[mine] = (combined @ tables[c].T).ravel()
        pull = by_cell[mine].reshape(len(combined), -1)
        gradient[c] += pull.T @ combined
        by_combined = share * (pull @ tables[c]).reshape(-1, sizes[attributes[1]], count)
        gradient[a] += (by_combined * tables[b]).sum(axis=1)
        gradient[b] += (by_combined * tables[a][:, None]).sum(axis=0)
    return cells, gradient


def step_case(smoke: bool) -> Case:
    """A step of fits such as RAP's, on one thread."""
    domain = pmw.Domain({f"x{a}": size for a, size in enumerate(ADULT_SIZES)})
    workload = pmw.Workload.sample(domain, k=3, size=20, seed=1) if smoke else pmw.Workload.all(domain, k=3)
    rng = np.random.default_rng(7)
    shares = [rng.dirichlet(np.full(size, 0.5), PRODUCTS).T for size in domain.sizes]
    tables = np.ascontiguousarray(np.concatenate(shares), np.float32)
    by_cell = rng.standard_normal(workload.cells).astype(np.float32)
    kernels = {name: products_on(name, workload) for name in ("native", "numpy")}

    def step(backend: str, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        cells = kernels[backend].answers(tables, threads=threads)
        return cells, kernels[backend].gradient(tables, by_cell, threads=threads)[0]

    def check() -> None:
        one = step("native")
        others = [step("numpy"), einsum_step(workload, tables, by_cell, True)]
        for other in [*others, matrix_step(workload, tables, by_cell)]:
            for mine, theirs in zip(one, other, strict=True):
                assert np.abs(mine - theirs).max() < 1e-5 * np.abs(theirs).max()
        for mine, theirs in zip(one, step("native", 2), strict=True):
            assert np.array_equal(mine, theirs)

    return Case(
        {
            "privmw": Line(lambda: step("native")),
            "privmw, two threads": Line(lambda: step("native", 2)),
            EINSUM: Line(lambda: einsum_step(workload, tables, by_cell, False)),
            PATH: Line(lambda: einsum_step(workload, tables, by_cell, True)),
            BLAS: Line(lambda: matrix_step(workload, tables, by_cell)),
            TWIN: Line(lambda: step("numpy")),
        },
        [
            Ratio("privmw", EINSUM, 5.0),
            Ratio("privmw", PATH),
            Ratio("privmw", BLAS),
            Ratio("privmw", TWIN),
            Ratio("privmw, two threads", "privmw"),
        ],
        check,
        f"{PRODUCTS} products, {len(workload)} marginals, {workload.cells:,} cells: "
        f"{6 * PRODUCTS * workload.cells:,} additions and multiplications",
    )


LINES = ("privmw", "privmw, two threads", EINSUM, PATH, BLAS, TWIN)
CASES: dict[str, tuple[Callable[[bool], Case], tuple[str, ...]]] = {
    "adult, a step over all 286 marginals": (step_case, LINES),
}


@pytest.mark.parametrize(("case", "line"), each_line(CASES))
def test_products(case: str, line: str, bench: Callable[..., None]) -> None:
    bench(case, line, CASES[case][0])
