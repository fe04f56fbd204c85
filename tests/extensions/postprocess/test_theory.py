import math

import numpy as np
import pytest

from privmw import kernels
from privmw.extensions.postprocess import theory
from privmw.mechanisms import add_discrete_laplace, add_thresholded_laplace

DEFINITIONS = [
    {"epsilon": 1.0},
    {"epsilon": 0.1},
    {"epsilon": 0.5, "delta": 1e-9},
    {"rho": 0.5},
    {"rho": 0.005},
]
every = pytest.mark.parametrize("privacy", DEFINITIONS, ids=str)


def obeys(c, D, k, d, epsilon=None, delta=0.0, rho=None):  # noqa: N803
    """Theorem 3's inequality, in the paper's letters; for zCDP, Renyi's bound at its best order."""
    if rho is None and delta == 0:
        return math.exp(2 * epsilon * (2 * c + k)) >= k * (d - 1) / (16 * c + 8 * D + 4 * k)
    if rho is None:
        return (delta / epsilon + (4 * c + 2 * D + k) / (k * (d - 1))) * math.exp(
            4 * epsilon * c + 2 * k * epsilon
        ) >= 1 / 4
    q = (4 * c + 2 * D + k) / (k * (d - 1))
    orders = 1 + np.geomspace(1e-4, 1e4, 400)
    return (
        math.log(1 / 4) * orders + (1 - orders) * math.log(q)
        <= (orders - 1) * orders * rho * (2 * (2 * c + k)) ** 2 + 1e-9
    ).all()


@every
@pytest.mark.parametrize("c", [0.0, 0.7, 3.0, 20.0])
def test_the_least_sum_error_is_where_some_k_is_just_obeyed(privacy, c):
    unit = 1 / privacy["epsilon"] if "epsilon" in privacy else 1 / math.sqrt(privacy["rho"])
    c *= unit
    for d in (10, 10**4, 10**9):
        least = theory.least_sum_error(c, d, **privacy)
        ks = unit * np.geomspace(1e-3, 100, 1_001)
        assert all(obeys(c, least * 1.0001 + 1e-9 * unit, k, d, **privacy) for k in ks)
        if least > 1e-3 * unit:
            assert not all(obeys(c, least * 0.99, k, d, **privacy) for k in ks)


@every
@pytest.mark.parametrize("d", [10**3, 10**8])
def test_the_least_point_error_is_the_inverse(privacy, d):
    unit = 1 / privacy["epsilon"] if "epsilon" in privacy else 1 / math.sqrt(privacy["rho"])
    point = theory.least_point_error(unit, d, **privacy)
    if point > 0:
        assert theory.least_sum_error(point, d, **privacy) == pytest.approx(unit, rel=1e-6)
    assert theory.least_point_error(1e12 * unit, d, **privacy) == 0


@pytest.mark.skipif(kernels.backend() != "native", reason="millions of draws, the same on every backend")
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.25, 1e-9), (4.0, 1e-3)])
@pytest.mark.parametrize("d", [40, 5000])
@pytest.mark.parametrize("kind", ["around the threshold", "large", "one"])
def test_errors_of_points_that_vanish_are_within_bounds_for_any_number_of_cells(epsilon, delta, d, kind):
    rng = np.random.default_rng(4)
    bounds = theory.threshold_mechanism_errors(epsilon, delta)
    shots = 200
    half = {"l1_sensitivity": 1, "epsilon": epsilon / 2}
    threshold = add_thresholded_laplace(np.array([1]), **half, delta=delta)[1].threshold
    truth = np.zeros(d, np.int64)
    if kind == "around the threshold":
        truth[: d // 2] = rng.integers(0, 2 * threshold, d // 2)
    elif kind == "large":
        truth[:] = 10 * threshold
    else:
        truth[0] = threshold
    errors = np.zeros(d)
    of_sum = 0.0
    for _ in range(shots):
        points, _ = add_thresholded_laplace(truth, **half, delta=delta, rng=rng)
        total, _ = add_discrete_laplace(np.array([truth.sum()]), **half, rng=rng)
        fitted = theory.sum_mechanism(points, float(total[0]))
        errors += (fitted - truth) ** 2 / shots
        of_sum += (fitted.sum() - truth.sum()) ** 2 / shots
    assert math.sqrt(errors.max()) <= bounds.point
    assert math.sqrt(of_sum) <= bounds.sum * 1.2  # 200 draws of a Laplace variable


def test_the_bounds_of_points_that_vanish_refuse_what_is_no_privacy():
    for epsilon, delta in ((0, 1e-9), (1, 0), (1, 1), (1, -1)):
        with pytest.raises(ValueError, match=r"epsilon|delta"):
            theory.threshold_mechanism_errors(epsilon, delta)


def test_a_good_sum_costs_points_a_logarithm_and_good_points_cost_the_sum_a_factor_d():
    few, many = (theory.least_point_error(1.0, 10**k, epsilon=1.0) for k in (12, 24))
    assert many - few == pytest.approx(12 * math.log(10) / 4, rel=0.1)  # exp(4 epsilon C) grows as d
    few, many = (theory.least_point_error(1.0, 10**k, rho=0.5) for k in (24, 96))
    assert many / few == pytest.approx(2, rel=0.35)
    for privacy in DEFINITIONS[:2] + DEFINITIONS[3:]:
        low, high = (theory.least_sum_error(0.1, d, **privacy) for d in (10**8, 10**9))
        assert high / low == pytest.approx(10, rel=0.01)


def test_with_delta_points_never_cost_more_than_its_logarithm():
    assert theory.least_point_error(1.0, 10**18, epsilon=1.0, delta=1e-6) == pytest.approx(
        theory.least_point_error(1.0, 10**15, epsilon=1.0, delta=1e-6), rel=0.01
    )


@pytest.mark.parametrize("privacy", [{"epsilon": 0.5}, {"rho": 0.125}], ids=str)
@pytest.mark.parametrize("d", [2, 50, 10**6])
def test_the_mechanisms_obey_the_lower_bound(privacy, d):
    point, of_sum = theory.point_mechanism_errors(d, **privacy)
    assert theory.least_sum_error(point, d, **privacy) <= of_sum
    assert theory.least_point_error(of_sum, d, **privacy) <= point


def test_the_point_mechanism_stays_within_its_errors():
    rng, d = np.random.default_rng(3), 40
    expected = theory.point_mechanism_errors(d, epsilon=0.5)
    noisy = rng.laplace(0, 2.0, (20_000, d))
    found = np.apply_along_axis(theory.point_mechanism, 1, noisy)
    assert np.sqrt((found**2).mean(axis=0).max()) < expected.point
    assert np.sqrt((found.sum(axis=1) ** 2).mean()) < expected.sum


def test_the_sum_mechanism_is_the_nearest_point_of_the_simplex():
    rng = np.random.default_rng(4)
    for _ in range(200):
        points, total = rng.laplace(0, 5, rng.integers(1, 12)), rng.uniform(-3, 30)
        found = theory.sum_mechanism(points, total)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(max(total, 0), abs=1e-9)
        others = rng.dirichlet(np.full(len(points), 0.5), 200) * max(total, 0)
        assert ((others - points) ** 2).sum(axis=1).min() >= ((found - points) ** 2).sum() - 1e-9


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({}, TypeError, "exactly one"),
        ({"epsilon": 1.0, "rho": 1.0}, TypeError, "exactly one"),
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"rho": math.inf}, ValueError, "rho"),
        ({"epsilon": 1.0, "delta": 1.0}, ValueError, "delta"),
        ({"rho": 1.0, "delta": 0.1}, ValueError, "delta"),
        ({"epsilon": 1.0, "d": 0}, ValueError, r"d \(0\)"),
        ({"epsilon": 1.0, "d": 2.5}, TypeError, "d"),
        ({"epsilon": 1.0, "point_error": -1}, ValueError, "point_error"),
        ({"epsilon": 1.0, "point_error": "1"}, TypeError, "point_error"),
    ],
)
def test_what_means_nothing_is_refused(wrong, error, match):
    with pytest.raises(error, match=match):
        theory.least_sum_error(**{"point_error": 1.0, "d": 10, **wrong})


def test_answers_that_are_none_are_refused():
    for wrong in ([], [math.nan], ["a"], 3.0):
        with pytest.raises(ValueError, match="noisy_points"):
            theory.point_mechanism(wrong)
