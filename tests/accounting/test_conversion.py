"""Conversions and calibrations: against fifty digits of mpmath, and on the safe side of them."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from privmw import accounting as acc
from privmw.accounting.conversion import _sum_up
from privmw.accounting.rounding import float_down, float_up, sqrt_down, sqrt_up

CHECK = settings(derandomize=True, deadline=None, max_examples=40)
ROUNDS = st.integers(1, 10_000)


def sizes(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log10(low), math.log10(high)).map(lambda power: 10.0**power)


EPSILON, DELTA, RHO = sizes(1e-6, 1e3), sizes(1e-300, 0.5), sizes(1e-12, 1e3)


def smallest(objective):
    """The minimum over alpha > 1 of a function that falls, then rises, by thirds of ln(alpha - 1)."""
    low, high = mpf(-60), mpf(750)
    for _ in range(150):
        third = (high - low) / 3
        if objective(mp.exp(low + third)) < objective(mp.exp(high - third)):
            high -= third
        else:
            low += third
    return objective(mp.exp((low + high) / 2))


def true_epsilon(rho, delta):
    with mp.workdps(60):
        log_inverse = -mp.log(delta)
        # alpha rho + ln(1 - 1/alpha) + ln(1 / (alpha delta)) / (alpha - 1)
        return max(
            mpf(0), smallest(lambda x: (1 + x) * rho - mp.log1p(1 / x) + (log_inverse - mp.log1p(x)) / x)
        )


def true_delta(rho, epsilon):
    with mp.workdps(60):
        # exp((alpha - 1)(alpha rho - epsilon) + alpha ln(1 - 1/alpha)) / (alpha - 1)
        return mp.exp(
            smallest(lambda x: x * ((1 + x) * rho - epsilon) - (1 + x) * mp.log1p(1 / x) - mp.log(x))
        )


def true_advanced(epsilon0, rounds, delta):
    with mp.workdps(80):
        e = mpf(epsilon0)
        return mp.sqrt(2 * rounds * mp.log(1 / mpf(delta))) * e + rounds * e * mp.expm1(e)


def assert_just_above(value, truth):
    assert truth * (1 - mpf(10) ** -40) <= mpf(value) <= truth * (1 + mpf(10) ** -9)


@pytest.mark.parametrize(
    ("n", "epsilon", "rho"),
    [
        (43_944, 0.1, 1.6973e-4),
        (43_944, 0.25, 9.9776e-4),
        (43_944, 0.5, 3.80397e-3),
        (43_944, 1.0, 1.44352e-2),
        (100_000, 0.1, 1.53605e-4),
        (100_000, 1.0, 1.32426e-2),
    ],
)
def test_rho_agrees_with_the_reference_table_and_beats_the_looser_conversion(n, epsilon, rho):
    delta = 1 / n**2
    assert acc.rho_from_epsilon(epsilon, delta) == pytest.approx(rho, rel=1e-5)
    log_inverse = math.log(1 / delta)
    assert (
        acc.rho_from_epsilon(epsilon, delta)
        > (math.sqrt(log_inverse + epsilon) - math.sqrt(log_inverse)) ** 2
    )


@CHECK
@given(rho=RHO, delta=DELTA)
@example(rho=1e-12, delta=1e-300)
@example(rho=1e3, delta=0.5)
@example(rho=0.4, delta=0.5)
def test_epsilon_is_just_above_the_truth(rho, delta):
    assert_just_above(acc.epsilon_from_rho(rho, delta), true_epsilon(rho, delta))


@CHECK
@given(rho=sizes(1e-6, 1e3), epsilon=EPSILON)
@example(rho=1e3, epsilon=1e-6)
def test_delta_is_just_above_the_truth(rho, epsilon):
    truth = true_delta(rho, epsilon)
    if truth > 1e-300:
        assert_just_above(acc.delta_from_rho(rho, epsilon), truth)
    else:
        assert acc.delta_from_rho(rho, epsilon) >= truth


@CHECK
@given(epsilon=EPSILON, delta=DELTA)
@example(epsilon=1e-6, delta=1e-300)
@example(epsilon=1e3, delta=1e-300)
@example(epsilon=1e-6, delta=0.5)
@example(epsilon=1e3, delta=0.5)
def test_rho_is_just_below_the_truth(epsilon, delta):
    rho = acc.rho_from_epsilon(epsilon, delta)
    assert true_epsilon(rho, delta) <= epsilon < true_epsilon(rho * (1 + 1e-9), delta)


@CHECK
@given(epsilon=EPSILON, delta=DELTA)
def test_conversions_undo_each_other_on_the_safe_side(epsilon, delta):
    rho = acc.rho_from_epsilon(epsilon, delta)
    assert epsilon * (1 - 1e-9) <= acc.epsilon_from_rho(rho, delta) <= epsilon
    assert acc.delta_from_rho(rho, epsilon) == pytest.approx(delta, rel=1e-9, abs=0)


@CHECK
@given(rho=RHO, delta=DELTA, factor=sizes(1.000001, 100))
def test_conversions_are_monotone(rho, delta, factor):
    assert acc.epsilon_from_rho(rho * factor, delta) >= acc.epsilon_from_rho(rho, delta)
    assert acc.epsilon_from_rho(rho, delta / factor) >= acc.epsilon_from_rho(rho, delta)
    assert acc.delta_from_rho(rho * factor, 1.0) >= acc.delta_from_rho(rho, 1.0)


@CHECK
@given(epsilon0=sizes(1e-8, 10), rounds=ROUNDS, delta=DELTA)
def test_advanced_composition_is_just_above_its_formula(epsilon0, rounds, delta):
    assert_just_above(acc.epsilon_advanced(epsilon0, rounds, delta), true_advanced(epsilon0, rounds, delta))


@CHECK
@given(epsilon=EPSILON, rounds=ROUNDS, delta=DELTA)
def test_advanced_composition_is_inverted_on_the_safe_side(epsilon, rounds, delta):
    epsilon0 = acc.epsilon0_advanced(epsilon, rounds, delta)
    assert (
        true_advanced(epsilon0, rounds, delta)
        <= epsilon
        < true_advanced(epsilon0 * (1 + 1e-9), rounds, delta)
    )
    assert acc.epsilon_advanced(epsilon0, rounds, delta) <= epsilon


def test_without_delta_zcdp_promises_no_epsilon_and_no_rho_is_small_enough():
    assert acc.epsilon_from_rho(0.1, 0) == math.inf
    with pytest.raises(ValueError, match=r"delta \(0\) must be above 0 and below 1"):
        acc.rho_from_epsilon(1.0, 0)


def test_targets_out_of_reach_of_floats_are_refused_and_costs_out_of_reach_are_infinite():
    with pytest.raises(ValueError, match="must be larger"):
        acc.rho_from_epsilon(1e-300, 1e-300)
    with pytest.raises(ValueError, match="must be larger"):
        acc.epsilon0_advanced(5e-324, 10**9, 1e-300)
    assert acc.epsilon_advanced(20_000, 1, 0.1) == math.inf
    assert acc.delta_from_rho(1e-9, 1e3) == 5e-324
    with pytest.raises(ValueError, match=r"scale \(inf\) must be positive and finite"):
        acc.scale_for_epsilon(1e-300, 1e300)


@CHECK
@given(epsilon=sizes(1e-6, 5), delta=sizes(1e-300, 1e-12), size=st.integers(1, 50))
def test_groups_cost_the_sum_of_the_chain_of_neighbours(epsilon, delta, size):
    with mp.workdps(60):
        chain = mpf(delta) * sum(mp.exp(i * mpf(epsilon)) for i in range(size))
    group_epsilon, group_delta = acc.group_approximate(epsilon, delta, size)
    assert Fraction(group_epsilon) >= size * Fraction(epsilon)
    assert_just_above(group_delta, min(chain, mpf(1)))
    assert Fraction(acc.group_rho(epsilon, size)) >= size**2 * Fraction(epsilon)
    assert acc.group_epsilon(epsilon, size) == group_epsilon


def test_a_delta_that_no_float_holds_is_rounded_up_for_a_group():
    third = Fraction(1, 3 * 10**9)
    assert Fraction(acc.group_approximate(0.5, third, 1)[1]) >= third
    with mp.workdps(60):
        chain = mpf(1) / mpf(3 * 10**9) * (1 + mp.exp(mpf(0.5)))
        assert mpf(acc.group_approximate(0.5, third, 2)[1]) >= chain


def test_a_group_too_large_for_its_delta_is_promised_nothing():
    assert acc.group_approximate(1, 1e-9, 1000) == (1000.0, 1.0)
    assert acc.group_approximate(1e-9, 0.01, 100) == (acc.group_epsilon(1e-9, 100), 1.0)
    assert acc.group_approximate(1, 0, 3) == (3.0, 0.0)


@CHECK
@given(rho=sizes(1e-12, 1e6), square=st.integers(1, 1000), parts=st.integers(1, 7))
def test_calibrated_parameters_cost_at_most_their_share_and_the_next_float_costs_more(rho, square, parts):
    share = Fraction(rho) / parts
    up, down = (lambda x: math.nextafter(x, math.inf)), (lambda x: math.nextafter(x, 0))
    for event, parameter, cheaper in (
        (lambda x: acc.DiscreteGaussian(x, square), acc.sigma_for_rho(share, square), down),
        (lambda x: acc.PermuteAndFlip(x, 2), acc.epsilon_for_rho_permute_and_flip(share), up),
        (lambda x: acc.ExponentialMechanism(x, 2), acc.epsilon_for_rho_exponential(share), up),
    ):
        assert event(parameter).cost.rho <= share < event(cheaper(parameter)).cost.rho
    scale = acc.scale_for_epsilon(share, square)
    assert acc.DiscreteLaplace(scale, square).cost.epsilon <= share
    assert acc.DiscreteLaplace(down(scale), square).cost.epsilon > share


def test_the_float_root_of_an_integer_is_squared_without_loss():
    for square in [*range(1, 200), 2**40 + 1]:
        assert acc.square_l2_sensitivity(math.sqrt(square)) == square


def test_other_sensitivities_are_squared_exactly():
    assert acc.square_l2_sensitivity(Fraction(1, 3)) == Fraction(1, 9)
    assert acc.square_l2_sensitivity(0.1) == Fraction(0.1) ** 2
    assert acc.square_l2_sensitivity(3) == 9


@CHECK
@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
def test_floats_enclose_rationals_and_their_roots(value):
    assert Fraction(float_down(value)) <= value <= Fraction(float_up(value))
    assert float_up(value) <= math.nextafter(float_down(value), math.inf)
    assert Fraction(sqrt_down(value)) ** 2 <= value <= Fraction(sqrt_up(value)) ** 2
    assert sqrt_up(value) <= math.nextafter(sqrt_down(value), math.inf)


@pytest.mark.parametrize("large", [0, 10**40, 10**90])
def test_decimal_sums_are_returned_above_the_truth_even_after_cancellation(large):
    bound = _sum_up(lambda: [Decimal(large) + Decimal(1) / 3, Decimal(-large)], 0)
    assert Fraction(1, 3) <= bound <= Fraction(1, 3) * (1 + Fraction(1, 10**20))
    assert 0 <= _sum_up(lambda: [Decimal(large), Decimal(-large)], 0) < Fraction(1, 10**100)


def test_rounding_at_the_ends_of_the_floats_stays_on_its_side():
    huge, tiny = Fraction(10) ** 400, Fraction(1, 10**400)
    assert (float_up(huge), float_down(huge)) == (math.inf, math.nextafter(math.inf, 0))
    assert (float_up(tiny), float_down(tiny)) == (5e-324, 0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: acc.rho_from_epsilon(x, 0.1),
        lambda x: acc.epsilon_from_rho(x, 0.1),
        lambda x: acc.delta_from_rho(x, 1),
        lambda x: acc.delta_from_rho(1, x),
        lambda x: acc.epsilon_advanced(x, 2, 0.1),
        lambda x: acc.epsilon0_advanced(x, 2, 0.1),
        lambda x: acc.group_rho(x, 2),
        lambda x: acc.group_epsilon(x, 2),
        lambda x: acc.group_approximate(x, 0.1, 2),
        lambda x: acc.sigma_for_rho(x, 2),
        lambda x: acc.sigma_for_rho(1, x),
        lambda x: acc.scale_for_epsilon(x, 2),
        lambda x: acc.scale_for_epsilon(1, x),
        lambda x: acc.epsilon_for_rho_permute_and_flip(x),
        lambda x: acc.epsilon_for_rho_exponential(x),
        lambda x: acc.square_l2_sensitivity(x),
    ],
)
def test_numbers_that_must_be_positive_are_refused_otherwise(call):
    for bad in [0, 0.0, -1, -0.5, math.nan, math.inf, -math.inf, Fraction(-1, 2)]:
        with pytest.raises(ValueError, match=r"^\w+ \(-?[\w./]+\) must be positive and finite$"):
            call(bad)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: acc.rho_from_epsilon(1, x),
        lambda x: acc.epsilon_from_rho(1, x),
        lambda x: acc.epsilon_advanced(1, 2, x),
        lambda x: acc.epsilon0_advanced(1, 2, x),
        lambda x: acc.group_approximate(1, x, 2),
    ],
)
def test_a_delta_outside_its_range_is_refused(call):
    for bad in [-0.1, 1, 1.0, 2, math.nan, math.inf, Fraction(1, 10**400)]:
        with pytest.raises(ValueError, match=r"^delta \(.+\) must be (above|at least) 0 and below 1$"):
            call(bad)


@pytest.mark.parametrize("bad", [True, "1", None, 1j, [1]])
def test_what_is_not_a_number_is_refused_as_a_kind(bad):
    for call in (
        lambda: acc.rho_from_epsilon(bad, 0.1),
        lambda: acc.rho_from_epsilon(1, bad),
        lambda: acc.epsilon_advanced(1, bad, 0.1),
        lambda: acc.sigma_for_rho(bad, 1),
    ):
        with pytest.raises(TypeError, match=r"\) must be an? (number|integer)$"):
            call()


@pytest.mark.parametrize(("rho", "delta"), [(1e-4, 1e-9), (0.0144, 5e-10), (0.5, 1e-6), (10.0, 1e-12)])
def test_the_conversion_agrees_with_another_library(rho, delta):
    dp_accounting = pytest.importorskip(
        "dp_accounting", reason="dp-accounting brings scipy: installed by hand"
    )
    orders = [1 + 10 ** (i / 200) for i in range(-400, 1200)]
    accountant = dp_accounting.rdp.RdpAccountant(orders)
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    theirs = accountant.get_epsilon(delta)
    assert theirs * (1 - 1e-3) <= acc.epsilon_from_rho(rho, delta) <= theirs * (1 + 1e-9)


def test_composed_gaussian_noise_agrees_with_another_library_within_the_loss_of_zcdp():
    dp_accounting = pytest.importorskip(
        "dp_accounting", reason="dp-accounting brings scipy: installed by hand"
    )
    event = acc.DiscreteGaussian(sigma=20, l2_sensitivity_squared=1, count=50)
    ours = acc.epsilon_from_rho(event.cost.rho, 1e-9)
    exact = dp_accounting.get_epsilon_gaussian(20 / math.sqrt(50), 1e-9)
    assert exact <= ours <= 1.1 * exact
