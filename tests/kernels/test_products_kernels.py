"""Marginals of products of distributions and their gradient: every backend against the formula."""

import itertools
import math
import tracemalloc

import autograd
import autograd.numpy as anp
import numpy as np
import pytest

from kernels.cases import MIXED, THREADS, Case, door_of, some_of
from privmw import kernels

SIZES = [3, 2, 4, 1, 2, 5]
ALL = [m for order in range(1, 7) for m in itertools.combinations(range(6), order)]
# The same marginal twice, neighbours that lack a hub between them, and one marginal alone.
WORKLOADS = {
    "all": (SIZES, ALL),
    "some": (SIZES, [(0, 1), (0, 1), (0, 1, 5), (0, 1, 2), (2,), (3,), (0, 1, 2, 3, 4, 5)]),
    "alone": (SIZES, [(0, 2, 5)]),
    "mixed": (MIXED, [m for m in some_of(12, range(1, 6), 15, 3) if math.prod(MIXED[a] for a in m) < 500]),
    "large": ([30, 3, 70, 2], [(0, 1, 2), (0, 2), (0, 1, 2, 3)]),
    "none": (SIZES, []),
}
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}


def products_of(sizes, marginals):
    return kernels.Products(sizes, *Case([], sizes, marginals).workload())


def drawn(sizes, count, dtype, seed=0):
    rng = np.random.default_rng(seed)
    tables = np.concatenate([rng.dirichlet(np.full(size, 0.5), count).T for size in sizes])
    return np.ascontiguousarray(tables, dtype), rng.dirichlet(np.full(count, 2.0)).astype(dtype)


def formula(sizes, marginals, tables, weights, numpy=np):
    """The cells of all marginals as one product after the other; in autograd's numpy too."""
    first = np.concatenate([[0], np.cumsum(sizes)])
    cells = [numpy.zeros(0)]
    for marginal in marginals:
        combined = weights[None]
        for a in marginal:
            table = tables[first[a] : first[a + 1]]
            combined = (combined[:, None] * table[None]).reshape((-1, combined.shape[1]))
        cells.append(combined.sum(axis=1))
    return numpy.concatenate(cells)


def near(values, expected, dtype):
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(values, expected, rtol=0, atol=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 37, 300])
def test_cells_and_gradients_are_those_of_the_formula(name, dtype, count, backend):
    sizes, marginals = WORKLOADS[name]
    tables, weights = drawn(sizes, count, dtype)
    double = tables.astype(np.float64), weights.astype(np.float64)
    expected = formula(sizes, marginals, *double)
    by_cell = np.random.default_rng(1).standard_normal(len(expected)).astype(dtype)
    by_cell[::3] = 0
    with door_of(backend):
        products = products_of(sizes, marginals)
        assert (products.cells, products.width) == (len(expected), sum(sizes))
        answers = products.answers(tables, weights)
        by_tables, by_weights = products.gradient(tables, by_cell, weights)
    assert answers.dtype == by_tables.dtype == by_weights.dtype == dtype
    near(answers, expected, dtype)

    def loss(tables, weights):
        return anp.dot(formula(sizes, marginals, tables, weights, anp), by_cell.astype(np.float64))

    if marginals:
        near(by_tables, autograd.grad(loss, 0)(*double), dtype)
        near(by_weights, autograd.grad(loss, 1)(*double), dtype)
    else:
        assert not by_tables.any()
        assert not by_weights.any()


def test_gradients_are_those_of_finite_differences(backend):
    sizes, marginals = WORKLOADS["all"]
    tables, weights = drawn(sizes, 9, np.float64)
    rng = np.random.default_rng(2)
    with door_of(backend):
        products = products_of(sizes, marginals)
        by_cell = rng.standard_normal(products.cells)
        by_tables, by_weights = products.gradient(tables, by_cell, weights)
        for _ in range(5):
            along = rng.standard_normal(tables.shape), rng.standard_normal(9)
            ends = [
                products.answers(tables + far * along[0], weights + far * along[1]) for far in (1e-5, -1e-5)
            ]
            slope = (ends[0] - ends[1]) @ by_cell / 2e-5
            here = (by_tables * along[0]).sum() + by_weights @ along[1]
            assert slope == pytest.approx(here, rel=1e-5)


def test_without_weights_a_cell_is_the_mean_over_products(backend):
    sizes, marginals = WORKLOADS["some"]
    tables, _ = drawn(sizes, 20, np.float64)
    with door_of(backend):
        products = products_of(sizes, marginals)
        out = np.empty(products.cells)
        assert products.answers(tables, out=out) is out
        by_tables, _ = products.gradient(tables, np.ones(products.cells))
    near(out, formula(sizes, marginals, tables, np.full(20, 0.05)), np.float64)
    sums = [out[a:b].sum() for a, b in itertools.pairwise([0, 6, 12])]
    np.testing.assert_allclose(sums, 1.0, rtol=1e-12)
    assert by_tables.shape == tables.shape


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_do_not_depend_on_the_number_of_threads(dtype, backend):
    sizes, marginals = WORKLOADS["large"]
    tables, weights = drawn(sizes, 75, dtype)
    results = []
    with door_of(backend):
        products = products_of(sizes, marginals)
        by_cell = np.random.default_rng(3).standard_normal(products.cells).astype(dtype)
        for threads in THREADS:
            answers = products.answers(tables, weights, threads=threads)
            results.append([answers, *products.gradient(tables, by_cell, weights, threads=threads)])
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_rows_that_are_no_distributions_are_multiplied_as_they_are(backend):
    tables = np.array([[2.0], [-1.0], [0.5], [3.0]])
    with door_of(backend):
        answers = products_of([2, 2], [(0, 1)]).answers(tables)
    assert answers.tolist() == [1.0, 6.0, -0.5, -3.0]


def test_a_large_marginal_does_not_need_memory_for_every_product():
    """200,000 cells and 100 products: all of them would be 80 MB."""
    sizes = [20, 25, 10, 40]
    tables, _ = drawn(sizes, 100, np.float32)
    products = products_of(sizes, [(0, 1, 2, 3)])
    tracemalloc.start()
    with np.errstate(all="raise", under="ignore"):
        answers = products.answers(tables)
        products.gradient(tables, answers)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert math.isclose(answers.sum(dtype=np.float64), 1.0, rel_tol=1e-4)
    assert most < 20e6


TABLES, WEIGHTS = drawn(SIZES, 3, np.float32)
REFUSED = {
    "tables (2-D array of float16) must be a contiguous": lambda p: p.answers(TABLES.astype(np.float16)),
    "tables (2-D array of float32) must be a contiguous two": lambda p: p.answers(TABLES.T),
    "tables (1-D array of float32) must be": lambda p: p.answers(TABLES[:, 0]),
    "tables (16 x 3) must have 17 rows": lambda p: p.answers(np.ascontiguousarray(TABLES[1:])),
    "tables (17 x 0)": lambda p: p.answers(np.zeros((17, 0))),
    "weights (1-D array of float64) must be a contiguous": lambda p: p.answers(TABLES, np.ones(3)),
    "weights (length 2)": lambda p: p.answers(TABLES, WEIGHTS[:2].copy()),
    "out (1-D array of float64) must be": lambda p: p.answers(TABLES, out=np.empty(12)),
    "out (length 3)": lambda p: p.answers(TABLES, out=np.empty(3, np.float32)),
    "by_cell (1-D array of float64) must be": lambda p: p.gradient(TABLES, np.ones(12)),
    "by_cell (length 3)": lambda p: p.gradient(TABLES, np.ones(3, np.float32)),
    "threads (0)": lambda p: p.answers(TABLES, threads=0),
    "sizes[0] must be": lambda _: products_of([0], [(0,)]),
    "attributes must": lambda _: products_of([2], [(1,)]),
    "starts must": lambda _: products_of([1] * 7, [tuple(range(7))]),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_arguments_are_refused(message):
    products = products_of(SIZES, [(0, 2)])
    assert products.answers(TABLES).shape == (12,)
    with pytest.raises((TypeError, ValueError)) as refused:
        REFUSED[message](products)
    assert str(refused.value).startswith(message)


def test_products_show_their_cells():
    assert repr(products_of(SIZES, [(0, 2)])).startswith("Products(12 cells over 6 attributes, ")
