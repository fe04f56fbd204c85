"""Every query matrix is the 0/1 matrix of its queries, and a projection may stand on any of them."""

from itertools import combinations

import numpy as np
import pytest

from privmw import Domain, Support, Table, Workload, kernels
from privmw.models.groups import Groups
from privmw.models.marginal_gram import MarginalGram
from privmw.models.projection.newton import heavy_rows
from privmw.models.projection.rows import RowFunctions, conjugate_gradients_over_rows
from privmw.models.projection.solver import Slack, project
from privmw.models.query_matrix import CellMatrix, MarginalMatrix, RowMatrix, matrix_of
from truth import reference

DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
SUPPORT = Support.full(DOMAIN)
WORKLOAD = Workload(DOMAIN, [("a", "b"), ("c",), ("b", "c")])
PLACES = [[DOMAIN.index(name) for name in marginal] for marginal in WORKLOAD]
DENSE = reference.membership([np.asarray(c) for c in SUPPORT.table.columns], list(DOMAIN.sizes), PLACES)[0]
EVERY = np.arange(WORKLOAD.cells)


def cells():
    groups = Groups(SUPPORT.size)
    for cell in EVERY.tolist():
        groups.add(SUPPORT.matching_rows(*WORKLOAD.query(cell)))
    return CellMatrix(EVERY, groups)


def marginals():
    kernel = kernels.Marginals(SUPPORT.columns, WORKLOAD.attributes, WORKLOAD.starts)
    return MarginalMatrix(EVERY, kernel.among(EVERY))


MATRICES = {
    "cells": cells,
    "marginals": marginals,
    "rows": lambda: RowMatrix.of(WORKLOAD, np.ones(WORKLOAD.cells), SUPPORT.columns),
    "tallies": lambda: kernels.Tallies(DOMAIN.sizes, WORKLOAD.attributes, WORKLOAD.starts),
    "tallies of rows": lambda: kernels.Tallies(
        DOMAIN.sizes, WORKLOAD.attributes, WORKLOAD.starts, columns=SUPPORT.columns
    ),
}


@pytest.mark.parametrize("name", MATRICES)
def test_a_query_matrix_is_the_matrix_written_out(name):
    matrix, rng = MATRICES[name](), np.random.default_rng(1)
    weights, values = rng.dirichlet(np.ones(SUPPORT.size)), rng.standard_normal(WORKLOAD.cells)
    function = rng.standard_normal(SUPPORT.size)
    assert matrix.count == WORKLOAD.cells
    assert matrix.comm.size == 1
    np.testing.assert_allclose(matrix.sums(weights), DENSE @ weights, atol=1e-14)
    np.testing.assert_allclose(matrix.moments(weights, function), DENSE @ (weights * function), atol=1e-14)
    np.testing.assert_allclose(matrix.potentials(values), values @ DENSE, atol=1e-14)
    gram = matrix.gram(weights)
    assert (gram is None) == (name != "cells")
    if gram is not None:
        np.testing.assert_allclose(gram, (DENSE * weights) @ DENSE.T, atol=1e-14)


def test_near_weights_keep_covariances_and_their_own_means():
    matrix, rng = cells(), np.random.default_rng(3)
    first = rng.dirichlet(np.ones(SUPPORT.size))

    def covariances(weights):
        means = DENSE @ weights
        return (DENSE * weights) @ DENSE.T - means[:, None] * means

    matrix.gram(first)
    for share, kept in ((0.0008, True), (0.2, False), (0.0, True)):
        weights = first * np.exp(share * rng.uniform(-1, 1, SUPPORT.size))
        weights /= weights.sum()
        means = DENSE @ weights
        expected = covariances(first if kept else weights)
        np.testing.assert_allclose(matrix.gram(weights) - means[:, None] * means, expected, atol=1e-14)
        if kept:  # within that share in every direction
            for direction in rng.standard_normal((20, WORKLOAD.cells)):
                kept_variance = direction @ expected @ direction
                assert kept_variance == pytest.approx(direction @ covariances(weights) @ direction, rel=0.002)
        else:
            first = weights


@pytest.mark.parametrize(
    "slack", [Slack(w=np.full(WORKLOAD.cells, 1e4)), Slack(gamma=np.full(WORKLOAD.cells, 0.01))]
)
def test_a_projection_may_stand_on_any_query_matrix(slack):
    rng = np.random.default_rng(2)
    prior = np.full(SUPPORT.size, 1 / SUPPORT.size)
    answers = DENSE @ rng.dirichlet(np.full(SUPPORT.size, 3.0))
    fits = [project(make(), prior, answers, slack, tolerance=1e-11) for make in MATRICES.values()]
    for fit in fits:
        assert fit.converged
        np.testing.assert_allclose(fit.weights, fits[0].weights, atol=1e-5)


def test_few_rows_list_their_cells_and_many_do_not():
    wide = Workload.all(Domain({"a": 40, "b": 50, "c": 60}), k=3)
    few = Support.from_table(Table.from_codes([[3, 1, 2], [1, 1, 0]], wide.domain, private=False))
    precision = np.ones(wide.cells)
    precision[wide.cell(("a", "b", "c"), (1, 1, 0))] = 0  # not measured
    matrix = matrix_of(wide, precision, few.marginals(wide))
    assert isinstance(matrix, RowMatrix)
    assert matrix.cells.tolist() == [wide.cell(("a", "b", "c"), (3, 1, 2))]
    assert matrix.sums(np.array([0.25, 0.75])).tolist() == [0.75]  # rows are sorted
    assert matrix.potentials(np.array([2.0])).tolist() == [0.0, 2.0]
    assert isinstance(
        matrix_of(WORKLOAD, np.ones(WORKLOAD.cells), SUPPORT.marginals(WORKLOAD)), MarginalMatrix
    )


def test_some_rows_of_a_matrix_have_its_answers():
    rows, rng = np.array([0, 3, 4, 11]), np.random.default_rng(2)
    weights = rng.dirichlet(np.ones(len(rows)))
    values = rng.standard_normal(WORKLOAD.cells)
    dense = DENSE[:, rows]
    for name, expected in (("marginals", EVERY), ("rows", np.flatnonzero(dense.any(axis=1)))):
        some, held = MATRICES[name]().over_rows(rows)
        np.testing.assert_array_equal(EVERY[held], expected)
        np.testing.assert_array_equal(some.cells, expected)
        np.testing.assert_allclose(some.sums(weights), dense[held] @ weights, atol=1e-14)
        np.testing.assert_allclose(some.potentials(values[held]), dense[held].T @ values[held], atol=1e-12)


@pytest.mark.parametrize("name", ["cells", "marginals", "rows"])
def test_prices_spread_what_rows_share(name):
    rng = np.random.default_rng(3)
    weights, function = rng.dirichlet(np.ones(SUPPORT.size)), rng.standard_normal(SUPPORT.size)
    prices = rng.random(WORKLOAD.cells)
    found = MATRICES[name]().gram_product(prices).spread(weights, function)
    np.testing.assert_allclose(found, DENSE.T @ (prices * (DENSE @ (weights * function))), atol=1e-12)
    assert not MATRICES[name]().gram_product(prices).spread(weights, np.zeros(SUPPORT.size)).any()


def test_conjugate_gradients_over_rows_solve_the_equations_of_queries():
    matrix, rng = marginals(), np.random.default_rng(4)
    weights, right = rng.dirichlet(np.ones(SUPPORT.size)), rng.standard_normal(WORKLOAD.cells)
    prices = rng.random(WORKLOAD.cells) + 0.5
    functions = RowFunctions(matrix, weights, prices)
    start = functions.centred(matrix.potentials(prices * right))
    first = float(right @ (prices * right))
    x, h, steps = conjugate_gradients_over_rows(functions, start, first, 1e-20 * first, 100)
    found = prices * (x * right + matrix.moments(weights, h))
    centred = DENSE - (DENSE @ weights)[:, None]
    equations = (centred * weights) @ centred.T + np.diag(1 / prices)
    np.testing.assert_allclose(found, np.linalg.solve(equations, right), atol=1e-9)
    assert steps < 30


@pytest.mark.parametrize("name", ["marginals", "rows"])
def test_draws_are_uniform_and_a_row_has_its_own(name):
    """Of 3,000 rows: the largest distance from uniform is below .03 with 99 % (Kolmogorov)."""
    domain = Domain({"a": 20, "b": 10, "c": 15})
    support, workload = Support.full(domain), Workload.all(domain, k=2)
    marginals = kernels.Marginals(support.columns, workload.attributes, workload.starts)
    precision = np.ones(workload.cells)
    if name == "marginals":
        matrix = MarginalMatrix.of(workload, precision, marginals)
    else:
        matrix = RowMatrix.of(workload, precision, support.columns)
    draws = np.sort(matrix.draws)
    assert len(np.unique(draws)) == support.size
    assert np.abs(draws - np.arange(support.size) / support.size).max() < 0.03


def test_few_cells_share_what_the_rows_in_both_weigh():
    """Of all marginals and of some of their cells; none where pairs are many or wide."""
    rng = np.random.default_rng(5)
    weights = rng.dirichlet(np.ones(SUPPORT.size))
    for places in (EVERY, EVERY[[0, 3, 4, 7, 9, 16]]):
        gram = MarginalGram.of(WORKLOAD, places, SUPPORT.columns)
        matrix = MarginalMatrix(places, marginals()._queries, gram=gram)
        dense = DENSE[places].astype(float)
        np.testing.assert_allclose(matrix.gram(weights), (dense * weights) @ dense.T, atol=1e-15)
    assert marginals().gram(weights) is None
    wide = Domain(dict.fromkeys("abcdefgh", 2))
    workload = Workload(wide, [tuple("abcd"), tuple("efgh")])
    assert MarginalGram.of(workload, np.arange(32), Support.full(wide).columns) is None
    many = Workload.all(wide, k=2)
    assert MarginalGram.of(many, np.arange(many.cells), Support.full(wide).columns) is None


def test_few_cells_of_many_rows_are_fitted_by_exact_steps():
    domain = Domain({"a": 20, "b": 10, "c": 15})
    support, workload = Support.full(domain), Workload(domain, [("a", "b"), ("b",)])
    kernel = kernels.Marginals(support.columns, workload.attributes, workload.starts)
    matrix = matrix_of(workload, np.ones(workload.cells), kernel)
    rng = np.random.default_rng(6)
    prior, target = rng.dirichlet(np.ones(support.size), 2)
    slack = Slack(w=np.full(workload.cells, 1e4))
    exact = project(matrix, prior, matrix.sums(target), slack, tolerance=1e-12)
    rough = MarginalMatrix(matrix.cells, kernel.among(matrix.cells))
    slow = project(rough, prior, matrix.sums(target), slack, tolerance=1e-12)
    np.testing.assert_allclose(exact.weights, slow.weights, atol=1e-8)
    assert exact.passes < slow.passes / 2


@pytest.mark.parametrize("seed", range(12))
def test_a_certificate_is_of_the_multipliers(seed):
    """Potentials that followed the steps alone would drift from those of the multipliers."""
    rng = np.random.default_rng(seed)
    domain = Domain({"a": 5, "b": 5, "c": 5})
    workload = Workload.all(domain, k=2)
    columns = kernels.Columns([rng.integers(0, 5, 60).astype(np.uint8) for _ in range(3)], [5] * 3)
    marginals = kernels.Marginals(columns, workload.attributes, workload.starts)
    matrix = MarginalMatrix.of(workload, np.ones(workload.cells), marginals)
    prior, target = rng.dirichlet(np.full(60, 0.5), 2)
    slack = Slack(gamma=np.zeros(matrix.count))
    fit = project(matrix, prior, matrix.sums(target), slack, tolerance=1e-9)
    weights, _ = kernels.tilt(prior, matrix.potentials(fit.multipliers))
    np.testing.assert_allclose(fit.weights, weights, atol=1e-12)


def test_rows_alike_in_all_cells_are_not_drawn_as_one():
    """Rows of three kinds, which differ in an attribute that is not asked for."""
    rng = np.random.default_rng(1)
    domain = Domain({**dict.fromkeys("abcdef", 2), "z": 16_000})
    workload = Workload(domain, [m for k in (1, 2) for m in combinations("abcdef", k)])
    kinds = rng.integers(0, 2, (3, 6))[rng.integers(0, 3, 16_000)]
    table = Table.from_codes(np.column_stack([kinds, np.arange(16_000)]), domain, private=False)
    columns = Support.from_table(table).columns
    marginals = kernels.Marginals(columns, workload.attributes, workload.starts)
    matrix = matrix_of(workload, np.ones(workload.cells), marginals)
    weights = np.full(16_000, 1 / 16_000)
    drawn = heavy_rows(matrix, weights, matrix.sums(weights), 0.1, share=1 / 16)
    assert 800 < len(drawn.weights) < 1200  # six standard deviations of 1,000
    np.testing.assert_allclose(drawn.fitted, matrix.sums(weights), atol=0.1)
    fit = project(
        matrix,
        weights,
        matrix.sums(rng.dirichlet(np.ones(16_000))),
        Slack(w=np.full(matrix.count, 1e5)),
        share=1 / 16,
    )
    assert fit.converged
