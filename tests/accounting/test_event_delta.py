"""Events with a delta of their own: approximate zCDP, its budgets, its words and its files."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from privmw.accounting import (
    Account,
    Budget,
    BudgetError,
    Composition,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Ledger,
    Neighbors,
    Parallel,
    Sequential,
    delta_from_rho,
    epsilon_from_rho,
)
from privmw.accounting.composition import delta_left
from privmw.accounting.record import read_budget, read_costs, write_budget, write_costs

REPLACE, ADD_REMOVE = Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE_ONE
SMALL = Fraction(1, 2**40)  # about 9.1e-13


@dataclass(frozen=True, slots=True, repr=False)
class Approximate(Event):
    """Any cost, count times."""

    cost_of_each: Cost
    count: int = 1

    kind: ClassVar[str] = "approximate"

    @property
    def cost_of_one(self):
        return self.cost_of_each


def gaussian(delta=SMALL, count=1):
    return Approximate(Cost(Fraction(1, 100), None, Fraction(delta)), count)


def laplace(delta=SMALL):
    return Approximate(Cost(Fraction(1, 8), Fraction(1, 2), Fraction(delta)))


def ledger(budget, *events, n=1000):
    account = Ledger(budget, REPLACE, n=n)
    for event in events:
        account.charge(event)
    return account


def worst_delta(p, q, epsilon):
    """The exact delta of (epsilon, delta) for two laws, both ways."""
    return max(math.fsum(np.maximum(a - math.exp(epsilon) * b, 0)) for a, b in ((p, q), (q, p)))


@pytest.mark.parametrize("own", [1e-3, 0.02, 0.2])
def test_what_is_claimed_holds_for_laws_that_are_gaussians_but_for_a_part_of_weight_delta(own):
    # The rest of each law lies where it tells the two apart best: in places of its own.
    line, sigma = np.arange(-60, 62), 4.0
    kept = [np.exp(-((line - shift) ** 2) / (2 * sigma**2)) for shift in (0, 1)]
    p, q = ((1 - own) * row / row.sum() for row in kept)
    laws = np.append(p, [own, 0]), np.append(q, [0, own])
    total = Composition().plus_costs({Cost(Fraction(1, 32), None, Fraction(own)): 1})
    without = Composition().plus_costs({Cost(Fraction(1, 32), None): 1})
    for left in (1e-6, 1e-3, 0.05):
        epsilon = float(total.epsilon_at(own + left))
        assert worst_delta(*laws, epsilon) <= own + left
    # A delta that is not taken off claims too much.
    assert worst_delta(*laws, float(without.epsilon_at(own + 1e-6))) > own + 1e-6


def test_a_law_within_a_factor_of_an_ideal_is_a_mixture_with_it():
    # nu >= e^-Z mu: with weight e^-Z it is mu, and the rest has mass 1 - e^-Z <= Z.
    generator = np.random.default_rng(5)
    for z in (1e-6, 0.01, 0.3):
        ideal = generator.dirichlet(np.ones(50))
        real = ideal * np.exp(generator.uniform(-z / 2, z / 2, 50))
        real /= real.sum()
        rest = real - math.exp(-z) * ideal
        assert rest.min() >= 0
        assert rest.sum() == pytest.approx(-math.expm1(-z))
        assert -math.expm1(-z) <= z


def test_rho_epsilon_and_delta_add_up_and_parts_side_by_side_take_the_largest():
    assert gaussian(count=3).cost == Cost(Fraction(3, 100), None, 3 * SMALL)
    assert gaussian(count=3).delta == float(3 * SMALL)
    assert DiscreteLaplace(1, 1).delta == 0
    total = Composition.of([gaussian(), laplace(2 * SMALL), DiscreteLaplace(2, 1)])
    assert (total.rho, total.epsilon, total.delta) == (Fraction(1, 100) + Fraction(1, 4), None, 3 * SMALL)
    assert Sequential((laplace(), laplace()), count=2).cost == Cost(Fraction(1, 2), Fraction(2), 4 * SMALL)
    parts = (laplace(3 * SMALL), laplace(2 * SMALL), laplace(SMALL))
    assert Parallel(parts, ADD_REMOVE).cost.delta == 3 * SMALL
    assert Parallel(parts, REPLACE).cost.delta == 5 * SMALL
    assert Parallel((*parts, gaussian(9 * SMALL)), REPLACE).cost == Cost(Fraction(1, 4), None, 12 * SMALL)


def test_the_deltas_of_events_are_taken_off_before_anything_is_claimed():
    account = ledger(Budget.zcdp(1, event_delta=SMALL), gaussian())
    assert account.delta == float(SMALL)
    assert Fraction(account.delta) >= SMALL
    assert account.epsilon(1e-9) == epsilon_from_rho(Fraction(1, 100), delta_left(1e-9, SMALL))
    assert account.epsilon(1e-9) > epsilon_from_rho(Fraction(1, 100), 1e-9)
    assert account.epsilon(SMALL / 2) == math.inf
    assert account.epsilon(0) == math.inf
    assert account.epsilon(1e-9, group=2) == math.inf
    assert ledger(Budget.zcdp(1), DiscreteGaussian(9, 1)).epsilon(1e-9, group=2) < math.inf
    plain = ledger(Budget.approximate(1, Fraction(1, 2**20), "advanced", event_delta=Fraction(1, 2**20)),
                   laplace(Fraction(1, 2**20)))  # fmt: skip
    assert plain.epsilon(Fraction(1, 2**20)) == 0.5  # (epsilon, delta)-DP, as it is
    assert plain.epsilon(0) == math.inf


@pytest.mark.parametrize(
    "budget", [Budget.approximate(1, 1e-9, event_delta=1e-12), Budget.zcdp(0.01, event_delta=SMALL)]
)
def test_a_budget_used_up_keeps_what_it_was_made_for(budget):
    whole = Approximate(Cost(budget.limit, None, Fraction(budget.event_delta)))
    account = ledger(budget, whole)
    assert account.remaining == 0
    if budget.epsilon is not None:
        assert account.epsilon(budget.delta) <= budget.epsilon
        assert budget.rho < Budget.approximate(1, 1e-9).rho
    for more in (Cost(Fraction(1, 10**40), None), Cost(Fraction(0), None, Fraction(1, 10**40))):
        assert account.would_exceed(Approximate(more))
        with pytest.raises(BudgetError, match="must fit the budget"):
            account.charge(Approximate(more))
    assert account.events == (whole,)


def test_events_with_a_delta_need_one_set_aside():
    for budget in (Budget.zcdp(1), Budget.approximate(3, 1e-3), Budget.approximate(9, 1e-3, "advanced")):
        account = ledger(budget)
        with pytest.raises(BudgetError, match=r"deltas of events would be 9.09.*e-13 of an event_delta of 0"):
            account.charge(laplace())
        assert account.rho == 0
        assert not account.would_exceed(DiscreteLaplace(1000, 1))
    with pytest.raises(BudgetError, match="must have a pure cost"):
        ledger(Budget.approximate(9, 1e-3, "advanced", event_delta=1e-6), gaussian())
    account = ledger(Budget.zcdp(1, event_delta=2 * SMALL), gaussian(), gaussian())
    with pytest.raises(BudgetError, match="deltas of events"):
        account.charge(gaussian())


def zcdp(event_delta):
    return Budget.zcdp(1, event_delta=event_delta)


def approximate(composition, event_delta):
    return Budget.approximate(1, 1e-6, composition, event_delta=event_delta)


@pytest.mark.parametrize(
    ("kind", "match", "make"),
    [
        (ValueError, r"event_delta \(0.1\) must be 0", lambda: Budget("pure", epsilon=1, event_delta=0.1)),
        (ValueError, r"event_delta \(1\) must be at least 0 and below 1", lambda: zcdp(1)),
        (ValueError, r"event_delta \(-0.5\)", lambda: zcdp(-0.5)),
        (ValueError, r"must be finite", lambda: zcdp(math.nan)),
        (TypeError, r"event_delta \('1'\) must be a number", lambda: zcdp("1")),
        (ValueError, r"must be below delta", lambda: approximate("zCDP", 1e-6)),
        (ValueError, r"must be at most delta", lambda: approximate("advanced", 0.1)),
    ],
)
def test_what_cannot_be_set_aside_is_refused(kind, match, make):
    with pytest.raises(kind, match=match):
        make()


def test_the_words_say_that_the_guarantee_is_approximate():
    words = ledger(Budget.approximate(1, 1e-9, event_delta=2 * SMALL), gaussian()).statement()
    assert (
        "approximate zero-concentrated differential privacy (zCDP) with rho = 0.01 and delta = 9.09495e-13, "
        in words
    )
    assert "and delta = 1.81899e-12; 1 accounted event" in words
    epsilon = epsilon_from_rho(
        Budget.approximate(1, 1e-9, event_delta=2 * SMALL).rho, delta_left(1e-9, 2 * SMALL)
    )
    assert 0.9999 < epsilon <= 1
    assert "(epsilon = 1 at delta = 1e-09)" in words
    assert "approximate" not in ledger(Budget.zcdp(1), DiscreteGaussian(9, 1)).statement()
    none = ledger(Budget.zcdp(1, event_delta=0.1), gaussian(0.1)).statement()
    assert "This gives no bound on epsilon at delta = 1e-06." in none
    assert "whole budget: rho = 1 and delta = 0.1." in none


def test_budgets_and_costs_are_written_with_their_delta_and_read_without():
    budget = Budget.zcdp(1, event_delta=SMALL)
    assert read_budget(write_budget(budget)) == budget
    assert "event_delta" not in write_budget(Budget.zcdp(1))  # as older versions wrote it
    assert eval(repr(budget)) == budget
    again = Budget.approximate(1, 1e-6, "advanced", event_delta=1e-7)
    assert eval(repr(again)) == again == read_budget(write_budget(again))
    costs = {gaussian().cost: 2, Cost(Fraction(1), None): 1}
    assert read_costs(write_costs(costs)) == costs
    many = {"rho": "1/2", "epsilon": None, "count": 9}
    with pytest.raises(ValueError, match="must be listed once"):  # the last would hide the first
        read_costs([many, many | {"rho": "2/4", "count": 1}])
    assert "delta" not in write_costs(costs)[1]
    for wrong in ({"delta": 0.5}, {"delta": "-1/2"}, {"gamma": "1/2"}):
        with pytest.raises(ValueError, match="cost"):
            read_costs([{"rho": "1/2", "epsilon": None, "count": 3} | wrong])


def test_an_account_counts_deltas_of_all_runs(tmp_path):
    account = Account.create(tmp_path / "account", Budget.approximate(3, 1e-6, event_delta=2 * SMALL))
    account.reserve("1", [gaussian()], "one")
    account.reserve("2", [gaussian()], "two")
    with pytest.raises(BudgetError, match=r"deltas of events would be 2.7.*e-12 of an event_delta of"):
        account.reserve("3", [gaussian()], "three")
    account.reserve("3", [DiscreteGaussian(100, 1)], "three, without a delta")
    assert account.total.delta == 2 * SMALL
    assert Fraction(account.delta) >= 2 * SMALL
    assert "and delta = 1.81899e-12 of a limit of rho = " in account.statement()
    with pytest.raises(ValueError, match="must spend at most what it reserved"):
        account.settle("1", ledger(Budget.zcdp(1, event_delta=1e-3), gaussian(2 * SMALL)))
    account.settle("1", ledger(Budget.zcdp(1, event_delta=1e-3), gaussian()))
    assert Account(tmp_path / "account").runs[0].spent == {gaussian().cost: 1}


def test_what_is_left_of_a_delta_is_rounded_down():
    for delta, own in ((1e-9, Fraction(1, 3 * 10**10)), (0.1, Fraction(1, 10)), (1e-9, Fraction(0))):
        left = delta_left(delta, own)
        assert 0 <= Fraction(left) <= max(Fraction(delta) - own, 0)
        assert left == 0 or Fraction(np.nextafter(left, 1)) > Fraction(delta) - own
    assert delta_from_rho(0.01, epsilon_from_rho(0.01, delta_left(1e-9, SMALL))) <= 1e-9
