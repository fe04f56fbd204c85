"""Mixtures of products: the answers and gradients of the formulas, the distributions they draw from."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from privmw import Domain, Workload
from privmw.models import products as module
from privmw.models.products import ProductFit, Products
from privmw.random import sampling_stream

DOMAIN = Domain({"a": 3, "b": 2, "c": 4, "1": 1, "d": 2, "e": 3, "f": 2})
MARGINALS = ["a", "1", "ab", "c1", "abc", "bce", "acde", "abcdef"]
WORKLOAD = Workload(DOMAIN, [tuple(marginal) for marginal in MARGINALS])
ALPHA = 1e-9


def fit_products(
    workload, cells_answers, precision, rows=None, row_weights=None, known=None, row_weight=0.0, **options
):
    fit = ProductFit(workload, cells_answers, precision, **options)
    if rows is not None:
        fit.add_rows(rows, row_weights, known, row_weight)
    return fit.fitted()


def mixture(sizes, count, seed, concentration=0.5):
    rng = np.random.default_rng(seed)
    tables = tuple(rng.dirichlet(np.full(size, concentration), count) for size in sizes)
    return Products(rng.dirichlet(np.full(count, 2.0)), tables)


def density(products):
    """The probability of every record, written out: an array with an axis for each attribute."""
    total = 0.0
    for k, weight in enumerate(products.weights):
        one = np.array(weight)
        for table in products.tables:
            one = np.multiply.outer(one, table[k])
        total = total + one
    return total


def marginals(workload, joint):
    places = [[workload.domain.index(name) for name in marginal] for marginal in workload]
    summed = [joint.sum(tuple(set(range(joint.ndim)) - set(place))).ravel() for place in places]
    return np.concatenate(summed)


def statistic(counts, expected):
    """Pearson's statistic over its critical value: above 1, the hypothesis is rejected."""
    counts, expected = np.ravel(counts), np.ravel(expected)
    assert expected.min() > 5
    value = ((counts - expected) ** 2 / expected).sum()
    return value / stats.chi2.isf(ALPHA, len(expected) - 1)


@pytest.mark.parametrize("small", [2**18, 100])
def test_answers_are_the_marginals_of_the_density(small, monkeypatch):
    monkeypatch.setattr(module, "SINGLE_THREAD_PRODUCT", small)
    monkeypatch.setattr(module, "VALUES_PER_BLOCK", 2 if small == 100 else 64)
    monkeypatch.setattr(module, "ROWS_PER_BLOCK", 12 if small == 100 else 2**14)
    products = mixture(DOMAIN.sizes, 5, 1)
    expected = marginals(WORKLOAD, density(products))
    np.testing.assert_allclose(products.answers(WORKLOAD), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("small", [2**18, 100])
@pytest.mark.parametrize("with_rows", [False, True])
def test_the_gradient_is_that_of_finite_differences(small, with_rows, monkeypatch):
    monkeypatch.setattr(module, "SINGLE_THREAD_PRODUCT", small)
    monkeypatch.setattr(module, "VALUES_PER_BLOCK", 2 if small == 100 else 64)
    rng = np.random.default_rng(2)
    answers = marginals(WORKLOAD, density(mixture(DOMAIN.sizes, 3, 3)))
    precision = rng.choice([0.0, 1.0, 4.0], WORKLOAD.cells, p=[0.3, 0.4, 0.3])
    fit = ProductFit(WORKLOAD, answers, precision, products=5, steps=1, prior_weight=0.3)
    if with_rows:
        rows = mixture(DOMAIN.sizes, 2, 4).draw(30, sampling_stream(5))
        fit.add_rows(rows, rng.uniform(0, 1, 30), [0, 2, 5], 0.7)
    # In double precision, at a place where nothing is at rest.
    fit._parameters = rng.normal(0, 1, fit._parameters.shape)
    fit._blocks = [(block, a.astype(np.float64), p.astype(np.float64)) for block, a, p in fit._blocks]
    here = fit._parameters.copy()
    _, gradient = fit.gradient()
    for _ in range(8):
        direction, far = rng.normal(size=here.shape), 1e-5
        losses = []
        for sign in (1, -1):
            fit._parameters = here + sign * far * direction
            losses.append(fit.gradient()[0])
        slope = (losses[0] - losses[1]) / (2 * far)
        assert slope == pytest.approx((gradient * direction).sum(), rel=1e-5, abs=1e-8)
    assert np.abs(gradient[-1]).max() > 1e-4  # the weights move too


def test_a_known_mixture_is_recovered_from_its_marginals():
    domain = Domain({"a": 4, "b": 3, "c": 5, "d": 4})
    truth = density(mixture(domain.sizes, 3, 6))
    measured = Workload.all(domain, k=[2, 3])
    answers = marginals(measured, truth)
    fitted = fit_products(
        measured, answers, np.full(measured.cells, 1e8), products=10, steps=400, prior_weight=0.0
    )
    whole = Workload.all(domain, k=4)  # not measured
    assert np.abs(fitted.answers(whole) - truth.ravel()).max() < 2e-3
    margins = [marginals(Workload(domain, [(name,)]), truth) for name in domain.names]
    independent = Products(np.ones(1), tuple(margin[None] for margin in margins))
    assert np.abs(independent.answers(whole) - truth.ravel()).max() > 0.02


def test_a_heavy_prior_leaves_independent_attributes():
    domain = Domain({"a": 4, "b": 3, "c": 5})
    truth = density(mixture(domain.sizes, 3, 6))
    measured = Workload.all(domain, k=[1, 3])
    fitted = fit_products(
        measured, marginals(measured, truth), np.full(measured.cells, 1e4), products=5, prior_weight=1e8
    )
    a, b, c = (truth.sum(axes) for axes in ((1, 2), (0, 2), (0, 1)))
    independent = np.einsum("i,j,k->ijk", a, b, c)
    assert np.abs(fitted.answers(measured)[-60:] - independent.ravel()).max() < 1e-3
    assert np.abs(truth - independent).max() > 0.02


def test_draws_have_the_density():
    """40,000 records over 36: a mixture whose weights are equal instead is rejected."""
    products = mixture((3, 4, 3), 3, 7, concentration=2.0)
    codes = products.draw(40_000, sampling_stream(8))
    assert codes.dtype == np.uint32
    counts = np.bincount(np.ravel_multi_index(tuple(codes.T), (3, 4, 3)), minlength=36)
    assert statistic(counts, 40_000 * density(products)) < 1
    planted = Products(np.full(3, 1 / 3), products.tables)
    codes = planted.draw(40_000, sampling_stream(8))
    counts = np.bincount(np.ravel_multi_index(tuple(codes.T), (3, 4, 3)), minlength=36)
    assert statistic(counts, 40_000 * density(products)) > 1


@pytest.mark.parametrize("known", [[0], [2, 0]])
def test_missing_attributes_are_drawn_given_the_known_ones(known):
    """20,000 completions of each known part; draws that ignore it, or the weights, are rejected each time."""
    products = mixture((3, 4, 3, 2), 4, 9, concentration=1.0)
    joint = density(products)
    missing = [a for a in range(4) if a not in known]
    sizes = [products.tables[a].shape[1] for a in missing]
    wrong = {
        "ignores what is known": Products(products.weights, products.tables),
        "ignores the weights": Products(np.full(4, 0.25), products.tables),
    }
    rejected = dict.fromkeys(wrong, 0)
    parts = list(itertools.product(*(range(products.tables[a].shape[1]) for a in known)))
    for part in parts:
        codes = np.full((20_000, 4), 10**6)  # what is not known is not read
        codes[:, known] = part
        given = np.moveaxis(joint, known, range(len(known)))[part]
        expected = 20_000 * given / given.sum()

        def counts(records, sizes=sizes):
            places = np.ravel_multi_index(tuple(records[:, missing].T), sizes)
            return np.bincount(places, minlength=np.prod(sizes))

        completed = products.complete(codes, known, sampling_stream(10))
        assert (completed[:, known] == part).all()
        assert statistic(counts(completed), expected) < 1
        free = wrong["ignores what is known"].draw(20_000, sampling_stream(10))
        rejected["ignores what is known"] += statistic(counts(free), expected) > 1
        even = wrong["ignores the weights"].complete(codes, known, sampling_stream(10))
        rejected["ignores the weights"] += statistic(counts(even), expected) > 1
    assert rejected == dict.fromkeys(wrong, len(parts))


def test_records_are_completed_one_by_one_and_across_blocks(monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_BLOCK", 7)
    eye = np.eye(3)
    products = Products(np.array([0.2, 0.3, 0.5]), (eye, eye, eye[[1, 2, 0]]))
    codes = sampling_stream(0).integers(0, 3, (50, 3))
    completed = products.complete(codes, [1], sampling_stream(1))
    np.testing.assert_array_equal(completed[:, 0], codes[:, 1])
    np.testing.assert_array_equal(completed[:, 2], (codes[:, 1] + 1) % 3)


def test_a_record_that_no_product_has_is_completed_from_the_weights():
    products = Products(np.array([0.5, 0.5]), (np.array([[1.0, 0.0]] * 2), np.eye(2)))
    completed = products.complete(np.array([[1, 0]] * 100), [0], sampling_stream(0))
    assert (completed[:, 0] == 1).all()
    assert set(completed[:, 1].tolist()) == {0, 1}


def small_problem(seed=11):
    answers = marginals(WORKLOAD, density(mixture(DOMAIN.sizes, 3, seed)))
    noise = sampling_stream(seed).normal(0, 0.01, WORKLOAD.cells)
    return answers + noise, np.full(WORKLOAD.cells, 1e4)


def same(one, other):
    pairs = zip((one.weights, *one.tables), (other.weights, *other.tables), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_cells_that_were_not_measured_are_ignored():
    answers, precision = small_problem()
    precision[5::3] = 0.0
    precision[WORKLOAD.offsets[4] : WORKLOAD.offsets[5]] = 0.0
    other = np.where(precision > 0, answers, np.nan)
    one = fit_products(WORKLOAD, answers, precision, products=5, steps=20)
    assert same(one, fit_products(WORKLOAD, other, precision, products=5, steps=20))
    # The check sees what is measured.
    answers[np.flatnonzero(precision)[0]] += 0.1
    assert not same(one, fit_products(WORKLOAD, answers, precision, products=5, steps=20))


def test_a_single_measured_cell_is_fitted():
    precision = np.zeros(WORKLOAD.cells)
    cell = WORKLOAD.cell(["b", "c", "e"], [1, 2, 0])
    precision[cell] = 1e8
    fitted = fit_products(WORKLOAD, np.full(WORKLOAD.cells, 0.4), precision, products=3)
    assert fitted.answers(WORKLOAD)[cell] == pytest.approx(0.4, abs=1e-3)


def test_the_same_seed_gives_the_same_mixture_and_rows():
    answers, precision = small_problem()
    rows = mixture(DOMAIN.sizes, 2, 4).draw(3000, sampling_stream(5))  # more than a batch
    options = {"products": 5, "steps": 20, "rows": rows, "row_weight": 50.0}
    one, again = (fit_products(WORKLOAD, answers, precision, **options) for _ in range(2))
    assert same(one, again)
    assert np.array_equal(one.draw(50, sampling_stream(1)), again.draw(50, sampling_stream(1)))
    assert not same(one, fit_products(WORKLOAD, answers, precision, seed=1, **options))


FIT_AND_DIGEST = """
import hashlib, numpy as np
from privmw import Domain, Workload
from privmw.models.products import ProductFit
from privmw.random import sampling_stream
domain = Domain({"a": 42, "b": 37, "c": 31})
workload = Workload.all(domain, k=3)
answers = sampling_stream(0).dirichlet(np.full(workload.cells, 0.1))
fitted = ProductFit(workload, answers, np.full(workload.cells, 1e6), steps=4).fitted()
print(hashlib.sha256(b"".join(table.tobytes() for table in fitted.tables)).hexdigest())
"""


def test_results_do_not_depend_on_the_number_of_blas_threads(tmp_path):
    """One product of 1,147 x 100 x 42 instead of a stack differs here between one thread and two."""
    digests = []
    for threads in ("1", "2"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        command = [sys.executable, "-c", FIT_AND_DIGEST]  # elsewhere: the package that is installed
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, check=True)
        digests.append(done.stdout)
    assert digests[0] == digests[1]


@pytest.mark.parametrize("count", [500, 3000])  # all in each step, and batches
def test_public_rows_tie_the_attributes_that_they_have(count):
    domain = Domain({"a": 3, "b": 3, "c": 2})
    ones = Workload.all(domain, k=1)
    values = sampling_stream(1).integers(0, 3, count)
    rows = np.stack([values, values, np.full(count, 10**6)], axis=1)  # c is not known
    answers = np.concatenate([np.full(6, 1 / 3), [0.9, 0.1]])
    precision = np.full(8, 1e6)
    fitted = fit_products(
        ones, answers, precision, products=20, rows=rows, known=[0, 1], row_weight=1e4, prior_weight=1.0
    )
    pair, margin = np.split(fitted.answers(Workload(domain, [("a", "b"), ("c",)])), [9])
    assert pair.reshape(3, 3).trace() > 0.95
    np.testing.assert_allclose(margin, [0.9, 0.1], atol=0.01)
    # Weights of rows: only the first value remains.
    fitted = fit_products(
        ones, answers, precision * 1e-6, products=20, steps=100, rows=rows, known=[0, 1], row_weight=1e4,
        row_weights=(values == 0).astype(np.float64), prior_weight=1.0,
    )  # fmt: skip
    assert fitted.answers(Workload(domain, [("a", "b")]))[0] > 0.95


def fit(**changes):
    answers, precision = small_problem()
    options = {"workload": WORKLOAD, "cells_answers": answers, "precision": precision, "steps": 1, **changes}
    return fit_products(**options)


ROWS = np.zeros((4, len(DOMAIN)), np.int64)
REFUSED_FITS = {
    "products (0)": {"products": 0},
    "products (5000)": {"products": 5000},
    "steps (0)": {"steps": 0},
    "prior_weight (-1.0)": {"prior_weight": -1.0},
    "prior_weight (inf)": {"prior_weight": np.inf},
    "cells_answers": {"cells_answers": np.zeros(3)},
    "cells_answers must be finite": {"cells_answers": np.full(WORKLOAD.cells, np.nan)},
    "precision (": {"precision": np.zeros(3)},
    "precision must": {"precision": np.zeros(WORKLOAD.cells)},
    "precision must be finite": {"precision": np.full(WORKLOAD.cells, np.inf)},
    "precision must be finite and not negative": {"precision": np.full(WORKLOAD.cells, -1.0)},
    "rows must be records": {"rows": np.zeros((4, 2), np.int64)},
    "rows must": {"rows": ROWS[:0]},
    "rows of attribute 1": {"rows": ROWS + np.eye(len(DOMAIN), dtype=np.int64)[1] * 2},
    "row_weights": {"rows": ROWS, "row_weights": np.zeros(4)},
    "row_weight (-2": {"rows": ROWS, "row_weight": -2.0},
    "known must be from 0 to 6": {"rows": ROWS, "known": [7]},
}


@pytest.mark.parametrize("message", REFUSED_FITS)
def test_a_fit_of_bad_input_is_refused(message):
    assert len(fit().weights) == 100
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        fit(**REFUSED_FITS[message])


TWO = (np.eye(2), np.eye(2))
REFUSED = {
    "weights must be one": lambda: Products(np.ones((1, 1)), TWO),
    "weights must be one-dim": lambda: Products(np.ones(1), ()),
    "tables must": lambda: Products(np.ones(1), TWO),
    "weights, and each row": lambda: Products(np.ones(2), TWO),
    "weights, and": lambda: Products(np.array([1.5, -0.5]), TWO),
    "codes must": lambda: Products(np.full(2, 0.5), TWO).complete(np.zeros((2, 3), int), [0], STREAM),
    "codes must be": lambda: Products(np.full(2, 0.5), TWO).complete(np.zeros((2, 2)), [0], STREAM),
    "codes of attribute 0": lambda: Products(np.full(2, 0.5), TWO).complete(np.full((2, 2), 2), [0], STREAM),
    "known must be": lambda: Products(np.full(2, 0.5), TWO).complete(np.zeros((2, 2), int), [2], STREAM),
    "known must not repeat": lambda: Products(np.full(2, 0.5), TWO).complete(
        np.zeros((2, 2), int), [0, 0], STREAM
    ),
    "count (-1)": lambda: Products(np.full(2, 0.5), TWO).draw(-1, STREAM),
    "workload (": lambda: Products(np.full(2, 0.5), TWO).answers(WORKLOAD),
}
STREAM = sampling_stream(0)


@pytest.mark.parametrize("message", REFUSED)
def test_a_bad_mixture_or_bad_records_are_refused(message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        REFUSED[message]()


def test_a_mixture_is_read_only():
    products = mixture((3, 2), 2, 1)
    with pytest.raises(ValueError, match="read-only"):
        products.weights[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        products.tables[0][0, 0] = 1.0


@pytest.mark.parametrize("noise", [1e5, 2.0**40])
def test_noise_far_beyond_the_records_leaves_distributions(noise):
    answers = np.random.default_rng(0).normal(0, noise, WORKLOAD.cells)
    precision = np.full(WORKLOAD.cells, noise**-2.0)
    rows = np.zeros((1, len(DOMAIN)), np.int64)
    fitted = fit_products(WORKLOAD, answers, precision, products=5, rows=rows, known=[0, 2], row_weight=1000)
    # The public record is all that is known: noise adds nothing to it.
    assert fitted.tables[0].T[0] @ fitted.weights > 0.9
