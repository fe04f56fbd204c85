"""How a budget is cut: by the papers' formulas, within the budget to the last bit, and nothing wasted."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privmw import MWEM, PEP, Budget, MWEMPub, MWPub
from privmw.accounting import Composition, Cost, scale_for_epsilon, sigma_for_rho
from privmw.accounting.looks import Look
from privmw.accounting.noise import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE
from privmw.algorithms.schedule import Schedule

NEAR = 1e-14  # of a formula in floats

splits = st.floats(0.01, 0.99)
counts = st.integers(1, 500)


def shares_of(schedule, budget):
    """The share of each step, None where there is none, and the noise."""
    looks = schedule.looks(budget)
    (noise,) = {look.noise for look in looks if look.noise is not None}
    steps = dict.fromkeys(("shot", "select", "measure")) | {look.step: look.share for look in looks}
    return SimpleNamespace(**steps, noise=noise)


def zcdp(rho, *, rounds=10, per_round=1, select="exponential", split=0.5, warm_up=0):
    return shares_of(Schedule(rounds, per_round, select, split, warm_up), Budget.zcdp(rho))


@given(alpha=splits, rounds=counts, rho=st.floats(1e-6, 100))
def test_a_split_is_that_of_iterative_methods(alpha, rounds, rho):
    shares = zcdp(rho, rounds=rounds, split=alpha)
    epsilon0 = math.sqrt(2 * rho / (rounds * (alpha**2 + (1 - alpha) ** 2)))
    # The mechanism's own epsilon: its exponent is epsilon |error| / 2, the paper's alpha epsilon0 |error|.
    assert float(shares.select) == pytest.approx(2 * alpha * epsilon0, rel=NEAR)
    sigma = 1 / ((1 - alpha) * epsilon0)
    assert sigma_for_rho(shares.measure, 1) == pytest.approx(sigma, rel=NEAR)
    assert sigma_for_rho(shares.measure, 2) == pytest.approx(math.sqrt(2) * sigma, rel=NEAR)
    assert shares.noise is DISCRETE_GAUSSIAN
    assert shares.shot is None


def test_mw_pub_spends_half_on_permute_and_flip_and_half_on_noise():
    rounds, rho = 100, 0.0144352
    shares = shares_of(MWPub(rounds=rounds).schedule, Budget.zcdp(rho))
    epsilon0 = math.sqrt(2 * rho) / math.sqrt(2 * rounds)
    assert float(shares.select) == pytest.approx(epsilon0, rel=NEAR)
    assert sigma_for_rho(shares.measure, 1) == pytest.approx(1 / epsilon0, rel=NEAR)


@given(alpha=splits, rounds=counts, epsilon=st.floats(1e-3, 100))
def test_pure_epsilon_is_cut_as_the_split_says(alpha, rounds, epsilon):
    schedule = Schedule(rounds, 1, "exponential", alpha, 0)
    shares = shares_of(schedule, Budget.pure(epsilon))
    assert shares.noise is DISCRETE_LAPLACE
    assert shares.select == Fraction(alpha) * Fraction(epsilon) / rounds
    assert rounds * (shares.select + shares.measure) == Fraction(epsilon)
    assert scale_for_epsilon(shares.measure, 1) == pytest.approx(rounds / ((1 - alpha) * epsilon), rel=NEAR)


@pytest.mark.parametrize(
    "budget", [Budget.zcdp(0.5), Budget.pure(1.5), Budget.approximate(1, 1e-9, "advanced")]
)
@pytest.mark.parametrize("select", ["permute-and-flip", "exponential"])
def test_k_a_round_pay_as_k_times_as_many_rounds(budget, select):
    together = Schedule(7, 3, select, 0.3, 0)
    assert shares_of(together, budget) == shares_of(Schedule(21, 1, select, 0.3, 0), budget)
    assert [event.count for event in together.looks(budget)] == [21, 21]


def test_a_warm_up_takes_its_share_and_rounds_the_rest():
    shares = zcdp(0.5, warm_up=0.25)
    assert shares.shot == Fraction(1, 8)
    rest = zcdp(Fraction(3, 8))
    assert (shares.select, shares.measure) == (rest.select, rest.measure)
    pure = shares_of(Schedule(10, 1, "exponential", 0.5, 0.25), Budget.pure(2))
    assert (pure.shot, pure.select) == (Fraction(1, 2), Fraction(3, 40))


@pytest.mark.parametrize("order", [None, 1, 2])
def test_all_takes_the_whole_budget_in_one_shot(order):
    for budget, noise in (
        (Budget.zcdp(0.5), DISCRETE_GAUSSIAN),
        (Budget.pure(0.5), DISCRETE_LAPLACE),
    ):
        schedule = PEP(select="all", order=order).schedule
        shares = shares_of(schedule, budget)
        assert (shares.shot, shares.select, shares.measure) == (Fraction(1, 2), None, None)
        assert shares.noise is noise
        (event,) = schedule.looks(budget)
        assert (event.step, event.count) == ("shot", 1)


BUDGETS = {
    "zCDP": Budget.zcdp(0.1),
    "zCDP, no binary fraction": Budget.zcdp(Fraction(1, 3)),
    "approximate": Budget.approximate(1.0, 1e-9),
    "pure": Budget.pure(0.7),
    "advanced, many rounds": Budget.approximate(1.0, 1e-9, "advanced"),
    "advanced, plain is better": Budget.approximate(20.0, 1e-9, "advanced"),
}


@pytest.mark.parametrize("select", ["permute-and-flip", "exponential"])
@pytest.mark.parametrize("name", BUDGETS)
def test_all_looks_fit_the_budget_to_the_last_bit_and_waste_nothing(name, select):
    budget = BUDGETS[name]
    for rounds, split in itertools.product((1, 7, 300), (0.5, 0.2, 0.67)):
        total = Composition.of(Schedule(rounds, 1, select, split, 0).looks(budget))
        assert budget.allows(total)
        assert budget.spent(total) >= budget.limit * (1 - Fraction(1, 10**9))


def test_advanced_composition_is_no_worse_than_the_paper_has_it():
    rounds, epsilon, delta = 100, 1.0, 1e-9
    schedule = MWEMPub(rounds=rounds).schedule
    shares = shares_of(schedule, Budget.approximate(epsilon, delta, "advanced"))

    def composed(each):
        return math.sqrt(2 * rounds * math.log(1 / delta)) * each + rounds * each * math.expm1(each)

    paper = next(each for each in np.arange(1, 0, -1e-4) if composed(each) <= epsilon)
    epsilon0 = float(shares.select + shares.measure)
    assert shares.select == shares.measure
    # The same theorem over twice as many looks of half the size: sqrt(2) at most.
    assert paper < epsilon0 < math.sqrt(2) * (paper + 1e-4)
    two = 2 * rounds
    half = epsilon0 / 2
    over_looks = math.sqrt(2 * two * math.log(1 / delta)) * half + two * half * math.expm1(half)
    assert over_looks == pytest.approx(epsilon, rel=0.01)
    assert over_looks >= epsilon * (1 - 1e-9)


def test_few_rounds_compose_plainly_where_that_is_better():
    shares = shares_of(MWEMPub(rounds=1).schedule, Budget.approximate(1.0, 1e-9, "advanced"))
    assert float(shares.select + shares.measure) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("advanced", [{"select": "all"}, {"warm_up": 0.5}])
def test_advanced_composition_refuses_a_shot(advanced):
    with pytest.raises(ValueError, match="advanced composition: use zCDP"):
        MWEMPub(**advanced).calibrate(1.0, 1e-9)


def test_planned_looks_cost_what_the_mechanisms_cost():
    chosen, noisy = Schedule(4, 2, "exponential", 0.5, 0).looks(Budget.zcdp(1))
    assert chosen.mechanism == "exponential-mechanism"
    assert float(chosen.cost_of_one.rho) == pytest.approx(1 / 16, rel=NEAR)
    assert float(chosen.cost_of_one.epsilon) == pytest.approx(math.sqrt(1 / 2), rel=NEAR)
    assert noisy.cost_of_one == Cost(Fraction(1, 16), None)
    chosen, noisy = Schedule(4, 2, "permute-and-flip", 0.5, 0).looks(Budget.pure(1))
    assert chosen.cost_of_one == noisy.cost_of_one == Cost(Fraction(1, 512), Fraction(1, 16))
    assert noisy.mechanism == "discrete-laplace"
    assert isinstance(chosen, Look)


@pytest.mark.parametrize(
    ("algorithm", "asked"),
    [
        (MWPub(rounds=30), (1.0, 1e-9)),
        (MWPub(rounds=30, measure="marginal", split=0.3, per_round=2), (0.1, 1e-6)),
        (MWPub(rounds=30, warm_up=0.4, order=1), (3.0, 1e-6)),
        (MWEM(rounds=30), (1.0, 0)),
        (MWEM(rounds=30, select="permute-and-flip", warm_up=0.1), (2.5, 0)),
        (MWEMPub(rounds=30), (1.0, 1e-9)),
        (MWEMPub(rounds=3, split=0.25), (10.0, 1e-9)),
        (PEP(rounds=30), (1.0, 1e-9)),
        (PEP(select="all"), (1.0, 1e-9)),
    ],
)
def test_a_mechanism_never_states_more_epsilon_than_was_asked(algorithm, asked):
    epsilon, delta = asked
    mechanism = algorithm.calibrate(epsilon, delta)
    assert mechanism.epsilon(delta) <= epsilon
    # Advanced composition is what was asked for; zCDP of the same looks says less.
    assert mechanism.epsilon(delta) > epsilon * (0.5 if algorithm.advanced else 1 - 1e-6)
    assert mechanism.budget.fits(mechanism.events)
    assert sum(event.rho for event in mechanism.events) == pytest.approx(mechanism.rho)
    statement = mechanism.statement()
    assert all(event.mechanism in statement for event in mechanism.events)
    assert f"{epsilon:.6g}" in statement
    if delta:
        assert mechanism.epsilon(delta / 10) >= mechanism.epsilon(delta)
    assert math.isfinite(mechanism.epsilon(0)) is (delta == 0 or algorithm.advanced)
    for bad in (-1e-9, 1, math.nan, True, "0"):
        with pytest.raises((TypeError, ValueError), match=r"delta \("):
            mechanism.epsilon(bad)
