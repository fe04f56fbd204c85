import math

import numpy as np
import pytest
from scipy import stats

import privmw as pmw
from privmw.accounting.noise import make_noise
from privmw.release.measurements import Measurement
from privmw.release.noisy_marginals import NoisyMarginal, NoisyMarginals

DOMAIN = pmw.Domain({"age": 3, "sex": 2})


def marginal(names=("age",), values=(1.0, 2.0, 3.0), kind="laplace", scale=2.0):
    return NoisyMarginal(names, list(values), kind, scale)


def test_a_marginal_measured_twice_is_combined_by_inverse_variances():
    once, again = marginal(scale=2.0), marginal(values=(4.0, 4.0, 4.0), scale=4.0)
    combined = NoisyMarginals([once, marginal(("sex",), (5.0, 6.0)), again], DOMAIN)
    assert combined.marginals == (("age",), ("sex",))
    np.testing.assert_allclose(combined.noisy_counts, [1.6, 2.4, 3.2, 5.0, 6.0])
    np.testing.assert_allclose(combined.variances[:3], 1 / (1 / 8 + 1 / 32))
    assert combined.noises == (None, make_noise("laplace", 2.0))


def test_gaussians_measured_twice_stay_one_gaussian():
    combined = NoisyMarginals([marginal(kind="gaussian", scale=s) for s in (3.0, 4.0)], DOMAIN)
    (noise_of_both,) = combined.noises
    assert noise_of_both.name == "gaussian"
    assert noise_of_both.scale == pytest.approx(12 / 5)


def test_arrays_of_the_marginals_shape_are_taken_in_c_order():
    given = NoisyMarginal(("age", "sex"), np.arange(6).reshape(3, 2), "gaussian", 1)
    assert NoisyMarginals([given], DOMAIN).noisy_counts.tolist() == [0, 1, 2, 3, 4, 5]


def test_measurements_of_cells_are_combined_and_the_rest_is_not_measured():
    workload = pmw.Workload.all(DOMAIN, k=1)
    first = Measurement([0, 1, 4], [7, -3, 4], "discrete-gaussian", scale=2.0, round=1)
    again = Measurement([1], [1], "discrete-gaussian", scale=2.0, round=2)
    measured = NoisyMarginals.of_measurements(workload, [first, again])
    np.testing.assert_allclose(measured.noisy_counts, [7, -1, 0, 0, 4])
    np.testing.assert_allclose(measured.variances, [4, 2, np.inf, np.inf, 4])
    assert measured.noises == (None, make_noise("discrete-gaussian", 2.0))


def test_what_a_release_measured_is_read_in_counts():
    table = pmw.Table.from_codes([[2, 0], [0, 1], [2, 0]] * 30, DOMAIN, private=True)
    workload = pmw.Workload.all(DOMAIN, k=1)
    mechanism = pmw.MWPub(rounds=3, measure="marginal").calibrate(rho=1)
    release = mechanism(table, pmw.Support.full(DOMAIN), workload, rng=1)
    measured = NoisyMarginals.of_release(release)
    assert set(measured.marginals) <= set(workload)
    assert np.isfinite(measured.variances).all()
    noisy = {cell for m in release.measurements for cell in m.noisy_counts.tolist()}
    assert measured.noisy_counts[0] in noisy or len(release.measurements) > len(measured)


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"kind": "uniform"}, ValueError, "noise"),
        ({"scale": 0.0}, ValueError, r"scale \(0.0\) must"),
        ({"scale": math.inf}, ValueError, "scale"),
        ({"scale": math.nan}, ValueError, "scale"),
        ({"scale": "2"}, TypeError, "scale"),
        ({"values": (1.0, math.nan, 2.0)}, ValueError, r"noisy_counts \(cell 1\) must be finite"),
        ({"values": (1.0, math.inf, 2.0)}, ValueError, "must be finite"),
        ({"values": ("a", "b", "c")}, TypeError, "must be numbers"),
        ({"names": "age"}, TypeError, "must be a tuple of names"),
    ],
)
def test_what_is_no_noisy_marginal_is_refused(wrong, error, match):
    with pytest.raises(error, match=match):
        marginal(**wrong)


@pytest.mark.parametrize(
    ("marginals", "error", "match"),
    [
        ([], ValueError, "at least one"),
        ([marginal(("income",))], ValueError, r"marginals\[0\]\.attributes\[0\] is not in the domain"),
        ([marginal(values=(1.0, 2.0))], ValueError, r"noisy_counts of \('age',\) \(2\) must be 3"),
        ([marginal(("sex", "age"), range(6))], ValueError, "must stand in the domain's order"),
        ([marginal(("age", "age"), range(9))], ValueError, "must stand in the domain's order"),
        ([(("age",), [1.0, 2.0, 3.0])], TypeError, "must be a NoisyMarginal"),
    ],
)
def test_marginals_that_do_not_fit_the_domain_are_refused(marginals, error, match):
    with pytest.raises(error, match=match):
        NoisyMarginals(marginals, DOMAIN)


def test_a_masked_array_is_refused():
    with pytest.raises(TypeError, match="masked"):
        NoisyMarginal(("age",), np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), "laplace", 1.0)


def test_only_what_was_measured_has_an_index():
    measured = NoisyMarginals([NoisyMarginal(("age", "sex"), range(6), "laplace", 1.0)], DOMAIN)
    assert measured.index(("sex", "age")) == 0
    with pytest.raises(ValueError, match="must be one that was measured"):
        measured.index(("age",))


def pmf(kind, scale):
    values = np.arange(-4000, 4001)
    if kind == "discrete-laplace":
        masses = np.exp(-np.abs(values) / scale)
    else:
        masses = np.exp(-((values / scale) ** 2) / 2)
    return values, masses / masses.sum()


@pytest.mark.parametrize("kind", ["discrete-laplace", "discrete-gaussian"])
@pytest.mark.parametrize("scale", [0.3, 1.0, 8.0, 60.0])
def test_discrete_noise_has_the_quantiles_of_its_masses(kind, scale):
    for count in [1, 2, 30, 10_000]:
        values, masses = pmf(kind, scale)
        at_most = np.cumsum(masses)
        reached = 1 + values[np.flatnonzero(at_most >= 0.99 ** (1 / count) * (1 + 1e-13))[0]]
        assert make_noise(kind, scale).above(count, 0.99) == reached
        median = values[np.flatnonzero(at_most >= 0.5 ** (1 / count) * (1 - 1e-13))[0]]
        assert make_noise(kind, scale).median_of_largest(count) == median
        if scale >= 1:
            np.testing.assert_allclose(
                make_noise(kind, scale).variance, (values**2 * masses).sum(), rtol=1e-6
            )


@pytest.mark.parametrize(("kind", "law"), [("laplace", stats.laplace), ("gaussian", stats.norm)])
@pytest.mark.parametrize("count", [1, 7, 10**7])
def test_continuous_noise_has_the_quantiles_of_its_law(kind, law, count):
    given = make_noise(kind, 8.0)
    tail = -math.expm1(math.log(0.99) / count)
    assert given.above(count, 0.99) == pytest.approx(law.isf(tail, scale=8.0), rel=1e-9)
    tail = -math.expm1(math.log(0.5) / count)
    assert given.median_of_largest(count) == pytest.approx(law.isf(tail, scale=8.0), abs=1e-9, rel=1e-9)
    assert given.variance == pytest.approx(law.var(scale=8.0))


def test_a_wide_discrete_gaussian_is_a_rounded_one():
    assert make_noise("discrete-gaussian", 1e5).median_of_largest(100) == pytest.approx(
        make_noise("gaussian", 1e5).median_of_largest(100), abs=1
    )
