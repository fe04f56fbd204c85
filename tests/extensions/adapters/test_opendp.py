"""Our mechanisms and our counting in the real OpenDP: its privacy maps, and what its callers get."""

import math

import numpy as np
import pytest

import privmw as pmw

dp = pytest.importorskip("opendp.prelude", reason="privmw[opendp]")
from opendp.mod import OpenDPException  # noqa: E402

from privmw.accounting.noise import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE  # noqa: E402
from privmw.extensions.adapters import opendp as adapter  # noqa: E402


@pytest.fixture(autouse=True)
def features():
    dp.enable_features("contrib", "honest-but-curious")


def test_noise_costs_what_the_event_says_and_no_less_than_opendp_asks():
    space = dp.vector_domain(dp.atom_domain(T="i64"), 3)
    for ours, theirs, distances in (
        (
            adapter.make_discrete_gaussian(3, sigma=2.0),
            dp.m.make_gaussian(space, dp.l2_distance(T="f64"), scale=2.0),
            (0.0, 1.0, math.sqrt(2), 3.5),
        ),
        (
            adapter.make_discrete_laplace(3, scale=4.0),
            dp.m.make_laplace(space, dp.l1_distance(T="i64"), scale=4.0),
            (0, 1, 2, 9),
        ),
    ):
        for d_in in distances:
            assert ours.map(d_in) == pytest.approx(theirs.map(d_in), rel=1e-9)
    assert adapter.make_discrete_gaussian(3, sigma=2.0).map(math.sqrt(2)) == 0.25


def test_noise_has_the_scale_that_was_asked_for():
    # OpenDP takes no seed. 7 % are 6 standard errors of 10,000 Laplace draws; 10 % too much are found with a
    # power of 0.99.
    zeros = [0] * 10_000
    for measurement, spread in (
        (adapter.make_discrete_gaussian(10_000, sigma=8), 8.0),
        (adapter.make_discrete_laplace(10_000, scale=8), 8 * math.sqrt(2)),
    ):
        noisy = measurement(zeros)
        assert noisy.dtype == np.int64
        assert abs(noisy.std() / spread - 1) < 0.07
        assert abs(noisy.mean()) < 6 * spread / 100


@pytest.mark.parametrize("mechanism", ["permute-and-flip", "exponential", "report-noisy-max"])
def test_a_selection_finds_what_stands_out_and_costs_what_it_should(mechanism):
    measurement = adapter.make_selection(4, epsilon=1, mechanism=mechanism)
    assert {measurement([0, 500, 3, 2]) for _ in range(20)} == {1}
    assert [measurement.map(d) for d in (0, 1, 3)] == [0, 1, 3]
    rho = 0.125 if mechanism == "exponential" else 0.5
    assert adapter.make_selection(4, epsilon=1, mechanism=mechanism, zcdp=True).map(2) == 4 * rho


def test_measurements_compose_within_opendp_s_budget():
    space = dp.vector_domain(dp.atom_domain(T="i64"), 3), dp.l1_distance(T="i64")
    compositor = dp.c.make_adaptive_composition(*space, dp.max_divergence(), d_in=1, d_mids=[0.5, 0.25])
    queryable = compositor([120, 30, 7])
    assert queryable(adapter.make_discrete_laplace(3, scale=2.0)).shape == (3,)
    with pytest.raises(OpenDPException):
        queryable(adapter.make_discrete_laplace(3, scale=2.0))  # 0.5, where 0.25 is left


def test_bad_parameters_are_refused_and_no_error_shows_data():
    for call, words in (
        (lambda: adapter.make_discrete_gaussian(0, sigma=1), r"size \(0\)"),
        (lambda: adapter.make_discrete_gaussian(2, sigma=-1.0), r"sigma \(-1.0\)"),
        (lambda: adapter.make_selection(2, epsilon=1, mechanism="best"), r"mechanism \('best'\)"),
        (lambda: adapter.make_selection(2, epsilon=1, mechanism="exponential-draws"), "mechanism"),
    ):
        with pytest.raises(ValueError, match=rf"^{words}.* must "):
            call()
    with pytest.raises(OpenDPException) as caught:
        adapter.make_discrete_laplace(3, scale=2.0)([987654, 12])
    assert "must be 3" in str(caught.value)
    assert "987654" not in str(caught.value)


def contingency(algorithm, frame, **loss):
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**loss),
        split_evenly_over=1,
    )
    keys = {"age": [0, 1, 2], "sex": ["F", "M"], "region": ["N", "S"]}
    return context.query().select(*keys).contingency_table(keys=keys, algorithm=algorithm)


@pytest.fixture(scope="module")
def frame():
    pl = pytest.importorskip("polars")
    pytest.importorskip("mbi")
    rng = np.random.default_rng(1)
    n = 3000
    return pl.LazyFrame(
        {
            "age": rng.integers(0, 3, n),
            "sex": rng.choice(["F", "M"], n),
            "region": rng.choice(["N", "S"], n, p=[0.9, 0.1]),
        }
    )


@pytest.mark.parametrize("loss", [{"rho": 0.25}, {"epsilon": 1.0}], ids=str)
def test_a_contingency_table_is_made_of_our_counts(frame, loss):
    queries = [dp.mbi.Count(by=("sex", "age")), dp.mbi.Count(by=("region", "age"), weight=2.0)]
    query = contingency(adapter.CountedMarginals(queries=queries), frame, **loss)
    table = query.release()
    exact = frame.collect()
    for q in queries:
        (measurement,) = table.marginals.by_clique[q.by]
        sizes = [len(table.keys[name]) for name in q.by]
        noisy = np.asarray(measurement.noisy_measurement).reshape(sizes)
        truth = np.zeros(sizes)
        for *values, count in exact.group_by(q.by).len().iter_rows():
            truth[
                tuple(
                    table.keys[name].to_list().index(value) for name, value in zip(q.by, values, strict=True)
                )
            ] = count
        # Laplace noise is beyond 20 standard deviations once in 10^12; cells have a hundred records or more.
        assert np.abs(noisy - truth).max() < 20 * measurement.stddev
        assert 0 < measurement.stddev < 5
    stddevs = [table.marginals.by_clique[q.by][0].stddev for q in queries]
    assert stddevs[0] == pytest.approx(2 * stddevs[1], rel=0.05)


def test_the_counts_are_those_of_opendp_s_stable_marginals(frame):
    from opendp.extras.mbi._utilities import make_stable_marginals

    codes = frame.select(
        **{name: frame.collect()[name].rank("dense").cast(int) - 1 for name in ("age", "sex", "region")}
    )
    series = [
        dp.series_domain(name, dp.atom_domain(T="i64", bounds=(0, size - 1)))
        for name, size in (("age", 3), ("sex", 2), ("region", 2))
    ]
    cliques = [("age", "sex"), ("age", "sex", "region")]
    theirs = make_stable_marginals(
        dp.lazyframe_domain(series),
        dp.frame_distance(dp.symmetric_distance()),
        dp.l1_distance(T="u32"),
        cliques,
    )(codes)
    workload = pmw.Workload(pmw.Domain({"age": 3, "sex": 2, "region": 2}), cliques)
    ours = adapter._counts(codes.collect(), workload)
    assert np.array_equal(ours, np.concatenate([theirs[clique].ravel() for clique in cliques]))


def test_the_noise_costs_the_budget_and_no_more():
    for family in (DISCRETE_GAUSSIAN, DISCRETE_LAPLACE):
        weights = [adapter.Fraction(1), adapter.Fraction(3), adapter.Fraction(1, 7)]
        noises = adapter._noises([4, 6, 9], weights, 2, adapter.Fraction(0.3), family)
        spent = sum(adapter._cost(noise.event, 2) for noise in noises)
        assert 0.2999 < spent <= adapter.Fraction(0.3)
        # Twice the records cost twice the epsilon, or four times the rho.
        more = sum(adapter._cost(noise.event, 4) for noise in noises)
        assert more == spent * 2**family.order


def test_an_empty_frame_is_counted_like_any_other(frame):
    queries = [dp.mbi.Count(by=("sex", "age"))]
    table = contingency(adapter.CountedMarginals(queries=queries), frame.head(0), rho=0.25).release()
    assert len(table.marginals.by_clique["sex", "age"][0].noisy_measurement) > 0
