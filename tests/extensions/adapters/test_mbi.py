"""Domains, records, measurements and models to mbi and back, in the real mbi."""

import numpy as np
import pytest

import privmw as pmw
from privmw.extensions.postprocess import NoisyMarginal, NoisyMarginals, nnls

mbi = pytest.importorskip("mbi", reason="privmw[mbi]")
if not hasattr(mbi, "Model"):
    pytest.skip(
        "mbi 1, which OpenDP pins, has no models, and estimates no domain with labels",
        allow_module_level=True,
    )
from privmw.extensions.adapters import mbi as adapter  # noqa: E402

DOMAIN = pmw.Domain({"age": 3, "sex": ["F", "M"], "region": ["N", "S", "W"]})
CODES = np.random.default_rng(5).integers(0, [3, 2, 3], (600, 3), dtype=np.uint8)
PRIVATE = pmw.Table.from_codes(CODES, DOMAIN, private=True)
PUBLIC = pmw.Table.from_codes(CODES, DOMAIN, private=False)
WORKLOAD = pmw.Workload.all(DOMAIN, k=2)


@pytest.fixture(scope="module")
def release():
    support = pmw.Support.full(DOMAIN)
    return pmw.MWPub(rounds=6, measure="marginal").release(
        PRIVATE, support, WORKLOAD, epsilon=20.0, delta=1e-6, rng=3
    )


def estimate(measurements):
    estimator = mbi.estimation.MirrorDescent()
    return estimator.estimate(adapter.to_domain(DOMAIN), measurements, known_total=600, iters=300)


def test_a_domain_comes_back():
    theirs = adapter.to_domain(DOMAIN)
    assert (theirs.attributes, theirs.shape) == (DOMAIN.names, DOMAIN.sizes)
    assert adapter.from_domain(theirs) == DOMAIN
    merged = mbi.Domain(["age"], [2], [((0, 1), (2,))])
    assert adapter.from_domain(merged) == pmw.Domain({"age": 2})
    with pytest.raises(TypeError, match=r"^attribute \(0\) must be a name"):
        adapter.from_domain(mbi.Domain([0], [2]))


def test_records_come_back_and_private_ones_do_not_leave():
    dataset = adapter.to_dataset(PUBLIC)
    assert adapter.from_dataset(dataset, private=False) == PUBLIC
    assert adapter.from_dataset(dataset, private=True, domain=DOMAIN).private
    counts = np.asarray(dataset.project(("age", "sex")).datavector())
    assert np.array_equal(counts, PUBLIC.counts(pmw.Workload(DOMAIN, [("age", "sex")])))
    with pytest.raises(ValueError, match=r"^table \(private\) must be public"):
        adapter.to_dataset(PRIVATE)
    weighted = mbi.Dataset(dict(dataset.to_dict()), dataset.domain, np.full(600, 2.0))
    with pytest.raises(ValueError, match=r"^weights \(not all 1\) must be 1"):
        adapter.from_dataset(weighted, private=False)


def test_a_release_s_measurements_make_a_model_of_mbi(release):
    measurements = adapter.to_measurements(release)
    assert {m.clique for m in measurements} <= set(WORKLOAD)
    model = estimate(measurements)
    fitted = adapter.answers(model, pmw.Workload(DOMAIN, [m.clique for m in measurements]))
    noisy = np.concatenate([np.maximum(m.noisy_measurement, 0) for m in measurements]) / 600
    assert np.abs(fitted - noisy).max() < 0.02


def test_measurements_come_back_whatever_their_order_and_query(release):
    ours = NoisyMarginals.of_release(release)
    back = adapter.from_measurements(adapter.to_measurements(ours), DOMAIN)
    assert back.marginals == ours.marginals
    assert np.allclose(back.noisy_counts, ours.noisy_counts, rtol=1e-12)
    assert np.allclose(back.variances, ours.variances, rtol=1e-12)
    counts = np.arange(6.0).reshape(3, 2)
    turned = mbi.LinearMeasurement(counts.T.ravel(), ("sex", "age"), 2.0)
    assert adapter.from_measurements([turned], DOMAIN).noisy_counts.tolist() == counts.ravel().tolist()
    assert adapter.from_measurements([turned], DOMAIN).marginals == (("age", "sex"),)


def test_cells_measured_in_part_and_with_several_variances_come_back():
    ours = NoisyMarginals.of_cells(
        DOMAIN,
        [("age", "sex")],
        [("gaussian", 1.0), ("gaussian", 3.0)],
        marginal_of=[0, 0, 0],
        cells=[1, 4, 5],
        noisy_counts=[7.0, -1.0, 3.0],
        noise_of=[0, 1, 1],
    )
    theirs = adapter.to_measurements(ours)
    assert [(m.stddev, m.query.cells) for m in theirs] == [(1.0, (1,)), (3.0, (4, 5))]
    back = adapter.from_measurements(theirs, DOMAIN)
    assert np.array_equal(back.noisy_counts, ours.noisy_counts)
    assert np.array_equal(back.variances, ours.variances)


def test_queries_that_take_no_cells_are_refused():
    for query in (
        lambda factor: factor.datavector() * 2,
        lambda factor: factor.datavector().cumsum(),
        lambda factor: factor.datavector()[np.array([0, 0])],
    ):
        measurement = mbi.LinearMeasurement(np.zeros(2), ("sex",), 1.0, query)
        with pytest.raises(ValueError, match=r"^query of \('sex',\) must take cells"):
            adapter.from_measurements([measurement], DOMAIN)
    short = mbi.LinearMeasurement(np.zeros(3), ("sex",), 1.0)
    with pytest.raises(ValueError, match=r"^noisy_measurement of \('sex',\) \(3\) must be 2"):
        adapter.from_measurements([short], DOMAIN)
    with pytest.raises(ValueError, match=r"^measurements \(none\) must be"):
        adapter.from_measurements([], DOMAIN)


def test_mbi_s_measurements_are_fitted_here_as_there():
    rng = np.random.default_rng(0)
    measurements = [
        mbi.LinearMeasurement(
            np.asarray(adapter.to_dataset(PUBLIC).project(names).datavector()) + rng.normal(0, 5, cells),
            names,
            5.0,
        )
        for names, cells in ((("age", "sex"), 6), (("region", "sex"), 6), (("age", "region"), 9))
    ]
    fit = nnls(adapter.from_measurements(measurements, DOMAIN), total=600)
    theirs = adapter.answers(estimate(measurements), WORKLOAD)
    ours = np.concatenate([fit.marginal(names).ravel() for names in WORKLOAD]) / 600
    assert np.abs(ours - theirs).max() < 0.01


def test_a_release_is_a_model(release):
    model = adapter.ReleaseModel(release)
    assert model.supports(("age", "region"))
    assert not model.supports("height")
    assert model.total == 600
    factor = model.project(("region", "age"))
    assert (factor.domain.attributes, factor.domain.shape) == (("region", "age"), (3, 3))
    expected = release.answers(pmw.Workload(DOMAIN, [("age", "region")])).reshape(3, 3).T * 600
    assert np.allclose(np.asarray(factor.values), expected)
    assert float(model.project(()).sum()) == 600
    assert np.allclose(adapter.answers(model, WORKLOAD), release.answers(), atol=1e-12)
    assert np.array_equal(model.project("sex").values, model.project(("sex",)).values)
    synthetic = model.synthetic_data(1000)
    assert isinstance(synthetic, mbi.Dataset)
    assert synthetic.records == 1000
    distance = np.abs(adapter.answers(synthetic, WORKLOAD) - release.answers()).max()
    assert distance < 0.01


def test_an_mbi_model_s_records_are_public_rows(release):
    rows = adapter.from_dataset(estimate(adapter.to_measurements(release)).synthetic_data(500), private=False)
    assert pmw.Support.from_table(rows).domain == DOMAIN


def test_wrong_kinds_are_refused():
    for call, name in (
        (lambda: adapter.ReleaseModel(PUBLIC), "release"),
        (lambda: adapter.to_measurements(PUBLIC), "measured"),
        (lambda: adapter.to_dataset(CODES), "table"),
    ):
        with pytest.raises(TypeError, match=rf"^{name} \(.+\) must be a"):
            call()


def test_a_noisy_total_is_a_measurement_of_no_attributes():
    total = NoisyMarginal((), [600.0], noise="laplace", scale=1.0)
    (measurement,) = adapter.to_measurements(NoisyMarginals([total], DOMAIN))
    assert (measurement.clique, measurement.stddev) == ((), pytest.approx(2**0.5))
    assert adapter.from_measurements([measurement], DOMAIN).noisy_counts.tolist() == [600]
