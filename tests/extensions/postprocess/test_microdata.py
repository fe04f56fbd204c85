import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privmw as pmw
from extensions.postprocess.cases import domain_of, drawn, subsets
from privmw.extensions.postprocess import (
    NoisyMarginal,
    NoisyMarginals,
    microdata,
    nnls,
    ols,
    reweight,
    sequential,
    to_microdata,
)
from privmw.extensions.postprocess.rounding import round_flow

METHODS = ("controlled", "randomised")


def histogram_of(table):
    counts = np.zeros(table.domain.sizes, int)
    np.add.at(counts, tuple(table.codes().T), 1)
    return counts


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(5))
def test_two_margins_the_total_and_every_cell_stay_within_one(method, seed):
    fit = nnls(drawn([9, 24], (0, 1, 2), seed))
    counts = histogram_of(to_microdata(fit, method, seed=seed))
    weights = fit.weights.reshape(9, 24)
    for axis in ((), (0,), (1,), (0, 1)):
        off = np.abs(counts.sum(axis=axis) - weights.sum(axis=axis)) if axis else np.abs(counts - weights)
        assert off.max() < 1 + 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_invariants_are_exact(method):
    measured = drawn([5, 4, 6], (0, 1, 2, 3), 1)
    fit = sequential(measured, total=1234)
    table = to_microdata(fit, method, exact=[()], seed=1)
    assert table.n == 1234
    domain = domain_of([3, 4])
    given = NoisyMarginal(("x0",), [30.0, 20.0, 50.0], "laplace", 1.0)
    more = NoisyMarginal(("x1",), [10.0, 25.0, 40.0, 25.0], "laplace", 1.0)
    cells = NoisyMarginal(("x0", "x1"), np.linspace(0, 20, 12), "laplace", 1.0)
    fit = sequential(NoisyMarginals([given, more, cells], domain), total=100)
    counts = histogram_of(to_microdata(fit, method, exact=[(), ("x0",), ("x1",)], seed=2))
    assert counts.sum(axis=1).tolist() == [30, 20, 50]
    assert counts.sum(axis=0).tolist() == [10, 25, 40, 25]


@pytest.mark.parametrize("method", METHODS)
def test_nested_marginals_stay_within_one(method):
    measured = drawn([3, 4, 5], (0, 1, 2), 3)
    fit = reweight(measured)
    counts, weights = histogram_of(to_microdata(fit, method, seed=3)), fit.weights.reshape(3, 4, 5)
    chains = microdata._chains(fit, [], 1e-6)
    assert chains == [[(0,), (0, 1)], [(1,), (1, 2)]]
    for axis in ((1, 2), (2,), (0, 2), (0,), (0, 1, 2)):
        assert np.abs(counts.sum(axis=axis) - weights.sum(axis=axis)).max() < 1 + 1e-6


def test_randomised_counts_have_the_weights_as_their_expectations():
    fit = nnls(drawn([3, 4], (0, 1, 2), 5, filled=0.8), total=17.5)
    mean = np.mean([histogram_of(to_microdata(fit, "randomised", seed=k)) for k in range(3_000)], axis=0)
    weights = fit.weights.reshape(3, 4)
    part = weights - np.floor(weights)
    np.testing.assert_array_less(np.abs(mean - weights), 6.2 * np.sqrt(part * (1 - part) / 3_000) + 1e-6)


def test_controlled_rounding_draws_nothing_and_a_seed_repeats_the_other():
    fit = nnls(drawn([6, 7], (0, 1, 2), 6))
    assert to_microdata(fit) == to_microdata(fit, seed=9)
    assert to_microdata(fit, "randomised", seed=3) == to_microdata(fit, "randomised", seed=3)


def test_records_over_a_support_are_its_rows():
    measured = drawn([4, 5, 3], (0, 1, 2), 2)
    full = pmw.Support.full(measured.domain).table
    support = pmw.Support.from_table(full.take(np.arange(0, full.n, 2)))
    fit = nnls(measured, support)
    table = to_microdata(fit)
    rows = {tuple(row) for row in support.rows.tolist()}
    assert {tuple(row) for row in table.codes().tolist()} <= rows
    assert abs(table.n - fit.weights.sum()) < 1


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(0, 2**32),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 0.9]),
)
def test_flows_are_rounded_whatever_is_in_them(rows, columns, seed, draw, empty):
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, 0.25, 0.5, 1 / 3, 1.0, 7.1], (rows, columns)) * (
        rng.random((rows, columns)) >= empty
    )
    at, to = np.indices((rows, columns))
    nested = [(at // 2).ravel(), at.ravel()]
    found = round_flow(values.ravel(), nested, [to.ravel()], rng if draw else None).reshape(rows, columns)
    for off in (
        found - values,
        (found - values).sum(axis=0),
        (found - values).sum(axis=1),
        (found - values).sum(),
        np.bincount(nested[0], (found - values).ravel()),
    ):
        assert np.abs(off).max() < 1


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"method": "random"}, ValueError, "method"),
        ({"exact": [("x0",)]}, ValueError, r"exact \('x0',\) must be whole numbers in the fit"),
        ({"exact": "x0"}, TypeError, "exact"),
        ({"exact": ["x0"]}, TypeError, "exact"),
        ({"exact": [("x9",)]}, ValueError, "not in the domain"),
    ],
)
def test_what_cannot_be_rounded_is_refused(changed, error, match):
    with pytest.raises(error, match=match):
        to_microdata(nnls(drawn([4, 5], (0, 1, 2), 1)), **changed)


def test_three_exact_margins_are_one_too_many():
    domain = domain_of([2, 2, 2])
    flat = NoisyMarginal(domain.names, np.full(8, 2.0), "laplace", 1.0)
    fit = nnls(NoisyMarginals([flat], domain))
    assert to_microdata(fit, exact=[("x0",), ("x0", "x1"), ("x2",), ()]).n == 16
    with pytest.raises(ValueError, match="two chains"):
        to_microdata(fit, exact=subsets(domain, 1))


def test_what_is_no_fit_or_negative_or_empty_makes_no_microdata():
    with pytest.raises(TypeError, match="must be a Fit"):
        to_microdata(np.ones(3))
    with pytest.raises(ValueError, match="must not be negative"):
        to_microdata(ols(drawn([9, 24], (0, 1, 2), 0)))
    empty = NoisyMarginal(("x0",), [-5.0, -5.0], "laplace", 1.0)
    with pytest.raises(ValueError, match="at least half a record"):
        to_microdata(nnls(NoisyMarginals([empty], domain_of([2]))))
