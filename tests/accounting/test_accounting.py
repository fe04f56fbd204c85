"""Events, budgets and the ledger: exact costs, refusals, words and JSON."""

import ast
import copy
import importlib
import itertools
import json
import math
import pickle
import sys
import threading
from dataclasses import FrozenInstanceError, dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmw import accounting
from privmw.accounting import (
    Budget,
    BudgetError,
    Composition,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Ledger,
    Neighbors,
    Parallel,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    Sequential,
)
from privmw.accounting.events import KINDS
from privmw.accounting.ledger import Enclosure

CHECK = settings(derandomize=True, deadline=None, max_examples=60)
REPLACE, ADD_REMOVE = Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE_ONE
FILES = sorted(Path(accounting.__file__).parent.glob("*.py"))
ORDERS = [1.001, 1.5, 2, 5, 20, 100]

NUMBERS = st.one_of(
    st.integers(1, 1000),
    st.floats(1e-6, 1e6),
    st.fractions(min_value=Fraction(1, 1000), max_value=1000).filter(bool),
)
COUNTS = st.integers(1, 50)
SIMPLE = st.one_of(
    st.builds(PermuteAndFlip, NUMBERS, COUNTS, COUNTS),
    st.builds(ExponentialMechanism, NUMBERS, COUNTS, COUNTS),
    st.builds(ReportNoisyMax, NUMBERS, COUNTS, COUNTS),
    st.builds(DiscreteGaussian, NUMBERS, NUMBERS, COUNTS, COUNTS),
    st.builds(DiscreteLaplace, NUMBERS, NUMBERS, COUNTS, COUNTS),
    st.builds(RandomizedResponse, NUMBERS, COUNTS, COUNTS),
)
EVENTS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(Sequential, st.lists(inner, min_size=1, max_size=3), COUNTS),
        st.builds(Parallel, st.lists(inner, min_size=1, max_size=3), st.just(REPLACE), COUNTS),
    ),
    max_leaves=4,
)


def ledger(budget=None, neighbors=REPLACE, **options) -> Ledger:
    return Ledger(budget or Budget.zcdp(10**30), neighbors, **{"n": 1000, **options})


def renyi(p, q, alpha):
    logs = [alpha * math.log(a) + (1 - alpha) * math.log(b) for a, b in zip(p, q, strict=True)]
    return (max(logs) + math.log(math.fsum(math.exp(x - max(logs)) for x in logs))) / (alpha - 1)


def largest_rho(pairs):
    return max(renyi(p, q, alpha) / alpha for p, q in pairs for alpha in ORDERS)


def exponential(scores, epsilon):
    weights = [math.exp(epsilon * score / 2) for score in scores]
    return [weight / sum(weights) for weight in weights]


def permute_and_flip(scores, epsilon):
    coins = [math.exp(epsilon * (score - max(scores)) / 2) for score in scores]
    chosen = [0.0] * len(scores)
    for heads in itertools.product([0, 1], repeat=len(scores)):
        if any(heads):
            chance = math.prod(c if h else 1 - c for c, h in zip(coins, heads, strict=True))
            for i, head in enumerate(heads):
                chosen[i] += head * chance / sum(heads)
    return chosen


def selections(law, epsilon):
    changes = itertools.product([-1, 0, 1], repeat=3)
    for change, scores in itertools.product(changes, [(0, 0, 0), (0, -1, -3), (0, 0, -8)]):
        yield law(scores, epsilon), law([a + b for a, b in zip(scores, change, strict=True)], epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_selection_costs_bound_the_divergence_of_every_neighbour(epsilon):
    assert largest_rho(selections(exponential, epsilon)) <= ExponentialMechanism(epsilon, 3).rho * (1 + 1e-9)
    assert largest_rho(selections(permute_and_flip, epsilon)) <= PermuteAndFlip(epsilon, 3).rho
    assert PermuteAndFlip(epsilon, 3).cost == ReportNoisyMax(epsilon, 3).cost


def test_the_exponential_mechanism_would_catch_a_cost_a_tenth_too_small():
    pair = [exponential(scores, 0.1) for scores in ((1, 0), (0, 1))]
    assert largest_rho([pair]) > 0.9 * ExponentialMechanism(0.1, 2).rho


def test_randomized_response_costs_its_divergence_and_no_less():
    epsilon = 0.1
    keep = 1 / (1 + math.exp(-epsilon))
    truth = largest_rho([([keep, 1 - keep], [1 - keep, keep])])
    assert 0.9 * RandomizedResponse(epsilon, 5).rho < truth <= RandomizedResponse(epsilon, 5).rho


@pytest.mark.parametrize("sigma", [0.6, 1.0, 4.0])
def test_discrete_noise_costs_bound_its_divergence_and_no_less(sigma):
    line = range(-round(30 * sigma), round(30 * sigma) + 2)  # symmetric about the two centres
    gauss = [[math.exp(-((x - shift) ** 2) / (2 * sigma**2)) for x in line] for shift in (0, 1)]
    p, q = ([weight / math.fsum(row) for weight in row] for row in gauss)
    truth = max(renyi(p, q, alpha) / alpha for alpha in (1.5, 2, 3))
    assert 0.9 * DiscreteGaussian(sigma, 1).rho < truth <= DiscreteGaussian(sigma, 1).rho * (1 + 1e-9)
    laplace = [[math.exp(-abs(x - shift) / sigma) for x in line] for shift in (0, 1)]
    p, q = ([weight / math.fsum(row) for weight in row] for row in laplace)
    ratio = max(abs(math.log(a / b)) for a, b in zip(p, q, strict=True))
    assert ratio == pytest.approx(DiscreteLaplace(sigma, 1).epsilon, rel=1e-6)
    assert max(renyi(p, q, alpha) / alpha for alpha in ORDERS[:3]) <= DiscreteLaplace(sigma, 1).rho


def test_costs_are_exact_rationals():
    assert PermuteAndFlip(Fraction(1, 3), 9).cost == Cost(Fraction(1, 18), Fraction(1, 3))
    assert ExponentialMechanism(Fraction(1, 3), 9).cost == Cost(Fraction(1, 72), Fraction(1, 3))
    assert DiscreteGaussian(3, 2).cost == Cost(Fraction(1, 9), None)
    assert DiscreteLaplace(3, 2).cost == Cost(Fraction(2, 9), Fraction(2, 3))
    assert RandomizedResponse(Fraction(1, 3), 9).cost == Cost(Fraction(1, 18), Fraction(1, 3))
    assert DiscreteGaussian(3, 2).epsilon == math.inf
    assert DiscreteGaussian(3, 2).l2_sensitivity >= math.sqrt(2)


@CHECK
@given(EVENTS)
def test_the_floats_an_event_shows_are_never_below_its_cost(event):
    assert Fraction(event.rho) >= event.cost.rho
    assert event.epsilon == math.inf if event.cost.epsilon is None else event.epsilon >= event.cost.epsilon


@CHECK
@given(SIMPLE)
def test_a_count_costs_as_much_as_that_many_charges(event):
    once = type(event)(**{**event.parameters(), "count": 1})
    repeated, together = ledger(), ledger()
    for _ in range(event.count):
        repeated.charge(once)
    together.charge(event)
    assert repeated.total == together.total == Composition.of([event])
    assert event.cost_of_one == once.cost


def test_a_ledger_that_forgot_counts_would_accept_three_where_two_fit():
    budget = Budget.zcdp(1)
    assert not ledger(budget).would_exceed(PermuteAndFlip(1, 4, count=2))
    assert ledger(budget).would_exceed(PermuteAndFlip(1, 4, count=3))
    assert ledger(Budget.pure(2)).would_exceed(PermuteAndFlip(1, 4, count=3))
    assert ledger(budget).would_exceed(Sequential((PermuteAndFlip(1, 4),), count=3))
    assert ledger(Budget.approximate(2, 1e-9, "advanced")).would_exceed(PermuteAndFlip(1, 4, count=3))


@CHECK
@given(st.lists(EVENTS, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_totals_do_not_depend_on_the_order_of_charges(events, random):
    shuffled = random.sample(events, len(events))
    first, second = ledger(), ledger()
    for event, other in zip(events, shuffled, strict=True):
        first.charge(event)
        second.charge(other)
    assert first.total == second.total
    assert first.rho == second.rho
    assert first.epsilon(1e-9) == second.epsilon(1e-9)


@CHECK
@given(st.floats(1e-9, 100), st.integers(1, 300), st.fractions(Fraction(1, 100), Fraction(99, 100)))
def test_a_mechanism_calibrated_to_the_whole_budget_fits_and_the_next_float_does_not(rho, rounds, split):
    budget = Budget.zcdp(rho)
    share = budget.limit / rounds
    epsilon = accounting.epsilon_for_rho_exponential(split * share)
    sigma = accounting.sigma_for_rho((1 - split) * share, 2)
    account = ledger(budget)
    for _ in range(min(rounds, 40)):
        account.charge(ExponentialMechanism(epsilon, 9))
        account.charge(DiscreteGaussian(sigma, 2))
    assert account.rho <= rho
    assert budget.fits([ExponentialMechanism(epsilon, 9, rounds), DiscreteGaussian(sigma, 2, count=rounds)])
    alone = accounting.sigma_for_rho(share, 2)
    assert budget.fits([DiscreteGaussian(alone, 2, count=rounds)])
    assert not budget.fits([DiscreteGaussian(math.nextafter(alone, 0), 2, count=rounds)])


def test_thirds_and_tenths_exhaust_a_budget_exactly():
    account = ledger(Budget.pure(1))
    for _ in range(3):
        account.charge(DiscreteLaplace(3, 1))
    assert account.remaining == 0
    assert account.epsilon(0) == 1
    tenths = ledger(Budget.pure(0.3))
    tenths.charge(PermuteAndFlip(0.1, 2, count=2))
    with pytest.raises(BudgetError):
        tenths.charge(PermuteAndFlip(0.1, 2))  # three times the float 0.1 is above the float 0.3


@CHECK
@given(st.floats(1e-3, 50), st.floats(-200, -1), st.integers(1, 200))
def test_spending_an_approximate_budget_states_at_most_its_epsilon(epsilon, power, rounds):
    delta = 10.0**power
    account = ledger(Budget.approximate(epsilon, delta))
    share = account.budget.limit / rounds
    account.charge(PermuteAndFlip(accounting.epsilon_for_rho_permute_and_flip(share), 4, rounds))
    assert account.epsilon(delta) <= epsilon
    advanced = ledger(Budget.approximate(epsilon, delta, composition="advanced"))
    advanced.charge(PermuteAndFlip(accounting.epsilon0_advanced(epsilon, rounds, delta), 4, rounds))
    assert advanced.epsilon(delta) <= epsilon


def test_a_charge_beyond_the_budget_is_refused_before_it_is_booked():
    account = ledger(Budget.zcdp(0.5))
    account.charge(PermuteAndFlip(0.5, 4))
    before = copy.deepcopy(account)
    with pytest.raises(
        BudgetError, match=r"^event \(.+\) must fit the budget: rho would be 0\.625 of 0\.5, 0\.125"
    ):
        account.charge(PermuteAndFlip(1, 4))
    assert account == before
    assert account.would_exceed(PermuteAndFlip(0.5, 4), PermuteAndFlip(0.5, 4), PermuteAndFlip(0.75, 4))
    assert account == before


def test_charging_different_events_never_adds_up_fractions_that_grow():
    events = [DiscreteGaussian(3 + i / 1000, 1) for i in range(500)]
    account = ledger(Budget.zcdp(1000))
    for event in events:
        account.charge(event)
        assert account._totals[0] == 0  # no exact sum was asked for
        assert account._spent.high.bit_length() < 200
    assert account.total == Composition.of(events)
    assert account.total.rho == sum((event.cost.rho for event in events), Fraction(0))
    account.charge(events[0])
    assert account.total.rho == Composition.of([*events, events[0]]).rho


@given(st.lists(st.fractions(Fraction(1, 10**6), 2), min_size=1, max_size=6), st.fractions(Fraction(1, 3), 4))
@settings(derandomize=True, deadline=None)
def test_an_enclosure_decides_as_the_exact_sum_or_not_at_all(costs, whole):
    exact, hair = sum(costs), Fraction(1, 2**120)
    for limit in (whole, exact, exact * (1 + hair), exact * (1 - hair)):
        enclosed = Enclosure()
        for cost in costs:
            enclosed = enclosed.plus(cost, limit)
        assert enclosed.within in ((exact <= limit,) if limit != exact else (None, True))


def test_threads_that_charge_at_once_never_spend_more_than_the_budget():
    event, accepted = PermuteAndFlip(Fraction(1, 100), candidates=3), []

    def work(ledger):
        for _ in range(100):
            try:
                ledger.charge(event)
            except BudgetError:
                return
            accepted.append(event)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            ledger = Ledger(Budget.pure(1), REPLACE, n=1000)
            accepted.clear()
            threads = [threading.Thread(target=work, args=(ledger,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(accepted) == len(ledger.events) == 100
            assert ledger.total == Composition.of(ledger.events)
    finally:
        sys.setswitchinterval(interval)


def test_budgets_of_pure_costs_refuse_gaussian_noise():
    for budget in (Budget.pure(1), Budget.approximate(1, 1e-9, composition="advanced")):
        assert ledger(budget).would_exceed(DiscreteGaussian(10**6, 1))
        with pytest.raises(BudgetError, match="must have a pure cost"):
            ledger(budget).charge(DiscreteGaussian(10**6, 1))


def test_advanced_composition_counts_rounds_as_the_formula_does_and_never_more_than_the_plain_sum():
    account = ledger(Budget.approximate(100, 1e-9, composition="advanced"))
    account.charge(Sequential((ExponentialMechanism(0.01, 5), DiscreteLaplace(100, 1)), count=100))
    spent = account.budget.spent(account.total)
    assert float(spent) == pytest.approx(accounting.epsilon_advanced(0.02, 100, 1e-9), rel=1e-12)
    single = Composition.of([PermuteAndFlip(1, 4)])
    assert account.budget.spent(single) == 1


def test_the_best_notion_states_epsilon():
    account = ledger()
    account.charge(PermuteAndFlip(1, 4))
    assert account.epsilon(1e-9) == account.epsilon(0) == 1
    many = ledger()
    many.charge(PermuteAndFlip(0.01, 4, count=1000))
    assert many.epsilon(1e-9) == accounting.epsilon_from_rho(many.total.rho, 1e-9) < 10
    many.charge(DiscreteGaussian(10, 1))
    assert many.epsilon(0) == math.inf
    assert ledger().epsilon(0) == ledger().epsilon(1e-9) == 0


def test_groups_multiply_pure_costs_and_square_into_rho():
    account = ledger()
    account.charge(DiscreteGaussian(10, 1))
    assert account.epsilon(1e-9, group=3) == accounting.epsilon_from_rho(9 * account.total.rho, 1e-9)
    pure = ledger()
    pure.charge(PermuteAndFlip(0.5, 4))
    assert pure.epsilon(0, group=3) == 1.5


def test_a_replaced_record_touches_two_parallel_parts_and_an_added_one_only_one():
    parts = [DiscreteLaplace(1, 1), DiscreteLaplace(2, 1), DiscreteLaplace(4, 1)]
    assert Parallel(parts, ADD_REMOVE).cost == Cost(Fraction(1, 2), Fraction(1))
    assert Parallel(parts, REPLACE).cost == Cost(Fraction(1, 2) + Fraction(1, 8), Fraction(3, 2))
    assert Parallel(parts[:1], REPLACE).cost == parts[0].cost
    assert Parallel([*parts, DiscreteGaussian(5, 1)], REPLACE).epsilon == math.inf
    assert Parallel(parts, REPLACE, count=2).epsilon == 3


def test_the_larger_part_alone_would_understate_a_record_that_moves():
    line = range(-30, 32)
    law = [[math.exp(-((x - shift) ** 2) / 2) for x in line] for shift in (0, 1)]
    p, q = ([weight / math.fsum(row) for weight in row] for row in law)
    moved = (renyi(p, q, 2) + renyi(q, p, 2)) / 2  # one part loses the record, the other gains it
    part = DiscreteGaussian(1, 1)
    assert part.rho < moved <= Parallel((part, part), REPLACE).rho * (1 + 1e-9)


def test_randomized_response_is_refused_where_the_number_of_records_is_secret():
    response = RandomizedResponse(1, size=9)
    for event in (response, Sequential([response]), Parallel([response], ADD_REMOVE)):
        ledger = Ledger(Budget.pure(9), ADD_REMOVE, n=9)
        with pytest.raises(ValueError, match=r"neighbors \(ADD_REMOVE_ONE\) must be REPLACE_ONE for Random"):
            ledger.charge(event)
        assert ledger.events == ()
    Ledger(Budget.pure(9), REPLACE, n=9).charge(response)


def test_a_parallel_event_must_speak_of_the_ledgers_neighbours():
    inside = Sequential((Parallel((DiscreteLaplace(1, 1),), ADD_REMOVE),))
    with pytest.raises(ValueError, match=r"neighbors \(ADD_REMOVE_ONE\) must be the ledger's REPLACE_ONE"):
        ledger().charge(inside)
    ledger(neighbors=ADD_REMOVE).charge(inside)


@CHECK
@given(st.lists(EVENTS, max_size=4), st.booleans())
def test_a_ledger_survives_json_exactly(events, seeded):
    account = ledger(Budget.zcdp(Fraction(10**40, 3)), unit="person")
    for event in events:
        account.charge(event)
    if seeded:
        account.mark_seeded("an experiment")
    back = Ledger.from_json(account.to_json())
    assert back == account
    assert back.total == account.total
    assert back.statement() == account.statement()
    assert back.to_json() == account.to_json()


@pytest.mark.parametrize(
    "budget",
    [
        Budget.zcdp(0.1),
        Budget.approximate(1, 1e-9),
        Budget.approximate(0.1, 1e-9, "advanced"),
        Budget.pure(Fraction(1, 3)),
    ],
)
def test_every_budget_survives_json_and_its_repr(budget):
    assert Ledger.from_json(ledger(budget).to_json()).budget == budget
    assert eval(repr(budget), {"Budget": Budget, "Fraction": Fraction}) == budget


def tampered(*path_and_value):
    *path, value = path_and_value

    def change(record):
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        tampered("version", 2),
        tampered("version", True),
        tampered("rho", 0.1),
        tampered("rho", "1/2"),
        tampered("epsilon", None),
        tampered("for_release", True),
        tampered("for_release", 0),
        tampered("seeded", None),
        tampered("seeded", ""),
        tampered("n", 0),
        tampered("n", 1000.0),
        tampered("neighbors", "replace-two"),
        tampered("extra", 1),
        tampered("unit", 3),
        tampered("budget", "rho", 0.1),
        tampered("budget", "rho", -1),
        tampered("budget", "notion", "renyi"),
        tampered("budget", "notion", "pure"),
        tampered("budget", "delta", 0.1),
        tampered("budget", 1),
        tampered("events", []),
        tampered("events", 3),
        tampered("events", 0, "kind", "free-lunch"),
        tampered("events", 0, "kind", "exponential-mechanism"),
        tampered("events", 0, "kind", ["permute-and-flip"]),
        tampered("events", 0, "epsilon", "1/4"),
        tampered("events", 0, "epsilon", "0.5"),
        tampered("events", 0, "epsilon", True),
        tampered("events", 0, "count", 1),
        tampered("events", 0, "sigma", 1),
        tampered("events", 0, 5),
        lambda record: record["events"][0].pop("count"),
        lambda record: record["events"][1].pop("count"),
        lambda record: record["events"].append(record["events"][0]),
        lambda record: record.pop("generator"),
    ],
)
def test_a_tampered_ledger_is_refused(change):
    account = ledger(Budget.zcdp(1))
    account.charge(PermuteAndFlip(0.5, 7, count=2))
    account.charge(DiscreteLaplace(2, 1))
    account.mark_seeded("an experiment")
    record = json.loads(account.to_json())
    assert Ledger.from_json(json.dumps(record)) == account
    change(record)
    with pytest.raises(ValueError, match="must"):
        Ledger.from_json(json.dumps(record))


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"version": 1, "version": 1}', '{"version": NaN}', "[" * 10**5]
)
def test_text_that_is_not_a_ledger_is_refused(text):
    with pytest.raises(ValueError, match=r"must|Expecting|line"):
        Ledger.from_json(text)


def test_a_seeded_ledger_stays_seeded():
    account = ledger()
    assert account.for_release
    account.mark_seeded("seed 7")
    account.mark_seeded("another")
    for again in (
        account,
        copy.deepcopy(account),
        pickle.loads(pickle.dumps(account)),
        Ledger.from_json(account.to_json()),
    ):
        assert not again.for_release
        assert again.generator == "seeded: not for release"
        assert again.seeded == "seed 7"
        assert "NOT FOR RELEASE" in again.statement()
    with pytest.raises(AttributeError):
        account.for_release = True
    with pytest.raises(ValueError, match="use mark_seeded"):
        ledger(generator="seeded: not for release")


def test_the_statement_says_who_is_protected_how_much_and_how():
    account = ledger(Budget.approximate(1.0, 1e-9), n=43_944, unit="person")
    account.charge(PermuteAndFlip(0.1, 334_128))
    words = account.statement()
    for part in (
        "one person of 43,944",
        "replacing one person",
        "(zCDP) with rho = 0.00500001, spent of a budget of rho = 0.0149731; 1 accounted event, 1 run.",
        "epsilon = 0.1 and delta = 1e-09",
        "1.10518 times what it was, plus 1e-09",
        "Numerics: exact integer sampling.",
        "Randomness: ChaCha20 seeded by the operating system.",
    ):
        assert part in words
    assert "WARNING" not in words
    assert "NOT FOR RELEASE" not in words


def test_the_statement_warns_of_a_delta_above_one_in_n():
    assert "WARNING: delta is above 1/n = 0.001." in ledger().statement(delta=0.0011)
    assert "WARNING" not in ledger().statement(delta=0.0009)
    assert "WARNING" in ledger(Budget.approximate(1, 0.01)).statement()


def test_the_statement_speaks_the_notion_of_its_budget():
    pure = ledger(Budget.pure(0.3), neighbors=ADD_REMOVE)
    pure.charge(DiscreteLaplace(10, 1, count=2))
    assert "about 1,000 (a public figure)" in pure.statement()
    assert "adding or removing one record" in pure.statement()
    assert (
        "pure differential privacy with epsilon = 0.2, spent of a budget of epsilon = 0.3" in pure.statement()
    )
    assert "epsilon = 0.2 and delta = 0." in pure.statement()
    advanced = ledger(Budget.approximate(1, 1e-9, composition="advanced"))
    assert "advanced composition with epsilon = 0 at delta = 1e-09" in advanced.statement()
    gaussian = ledger()
    gaussian.charge(DiscreteGaussian(1, 1))
    assert "no bound on epsilon at delta = 0" in gaussian.statement(delta=0)
    gaussian.charge(DiscreteGaussian(1, 1000, count=10))
    assert "e^" in gaussian.statement()
    assert "1e-06" in ledger(n=10).statement()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: PermuteAndFlip(x, 2),
        lambda x: ExponentialMechanism(x, 2),
        lambda x: ReportNoisyMax(x, 2),
        lambda x: RandomizedResponse(x, 2),
        lambda x: DiscreteGaussian(x, 1),
        lambda x: DiscreteGaussian(1, x),
        lambda x: DiscreteLaplace(x, 1),
        lambda x: DiscreteLaplace(1, x),
        lambda x: Budget.zcdp(x),
        lambda x: Budget.pure(x),
        lambda x: Budget.approximate(x, 0.1),
        lambda x: Budget.approximate(x, 0.1, composition="advanced"),
    ],
)
def test_events_and_budgets_refuse_numbers_that_are_not_positive(make):
    for bad in [0, -1, -0.5, math.nan, math.inf, -math.inf]:
        with pytest.raises(ValueError, match=r"^\w+ \(-?[\w.]+\) must be positive and finite$"):
            make(bad)


@pytest.mark.parametrize("bad", [True, "1", None, np.bool_(True)])
def test_events_budgets_and_ledgers_refuse_what_is_not_a_number(bad):
    for make in (
        lambda: PermuteAndFlip(bad, 2),
        lambda: PermuteAndFlip(1, bad),
        lambda: PermuteAndFlip(1, 2, bad),
        lambda: DiscreteGaussian(bad, 1),
        lambda: DiscreteLaplace(1, 1, size=bad),
        lambda: RandomizedResponse(1, bad),
        lambda: Sequential((PermuteAndFlip(1, 2),), bad),
        lambda: Budget.zcdp(bad),
        lambda: Budget.approximate(1, bad),
        lambda: ledger(n=bad),
        lambda: ledger().epsilon(bad),
    ):
        with pytest.raises(TypeError, match=r"\) must be an? (number|integer)$"):
            make()


@pytest.mark.parametrize("bad", [0, -3])
def test_sizes_and_counts_must_be_positive(bad):
    for make in (
        lambda: PermuteAndFlip(1, bad),
        lambda: PermuteAndFlip(1, 2, count=bad),
        lambda: DiscreteGaussian(1, 1, size=bad),
        lambda: DiscreteLaplace(1, 1, count=bad),
        lambda: RandomizedResponse(1, bad),
        lambda: ledger(n=bad),
        lambda: ledger().epsilon(0.1, group=bad),
    ):
        with pytest.raises(ValueError, match=rf"^\w+ \({bad}\) must be positive$"):
            make()


@pytest.mark.parametrize("delta", [0, 1, 1.0, -0.1, math.nan, 2])
def test_an_approximate_budget_refuses_a_delta_outside_its_range(delta):
    for composition in ("zCDP", "advanced"):
        with pytest.raises(ValueError, match=r"^delta \(.+\) must be above 0 and below 1$"):
            Budget.approximate(1, delta, composition)


def test_other_bad_arguments_are_refused_by_name():
    for error, words, make in (
        (ValueError, "composition", lambda: Budget.approximate(1, 0.1, "basic")),
        (ValueError, "notion", lambda: Budget("renyi", rho=1)),
        (ValueError, "notion", lambda: Budget("pure", rho=1)),
        (ValueError, "rho", lambda: Budget("zCDP", rho=1, epsilon=1, delta=1e-9)),
        (TypeError, "budget", lambda: Ledger(1.0, REPLACE, n=5)),
        (TypeError, "neighbors", lambda: Ledger(Budget.pure(1), "replace-one", n=5)),
        (TypeError, "neighbors", lambda: Parallel((PermuteAndFlip(1, 2),), "replace-one")),
        (TypeError, "unit", lambda: ledger(unit=3)),
        (ValueError, "unit", lambda: ledger(unit=" ")),
        (ValueError, "reason", lambda: ledger().mark_seeded("two\nlines")),
        (TypeError, "event", lambda: ledger().charge(0.5)),
        (TypeError, "event", lambda: ledger().would_exceed("nothing")),
        (TypeError, "events", lambda: Sequential((1, 2))),
        (TypeError, "events", lambda: Parallel(PermuteAndFlip(1, 2))),
        (ValueError, "events", lambda: Sequential(())),
    ):
        with pytest.raises(error, match=rf"^{words}\b.* must "):
            make()


@CHECK
@given(EVENTS)
def test_events_are_frozen_values(event):
    names = {
        kind.__name__: kind
        for kind in (Sequential, Parallel, PermuteAndFlip, ExponentialMechanism, ReportNoisyMax)
    }
    names |= {kind.__name__: kind for kind in (DiscreteGaussian, DiscreteLaplace, RandomizedResponse)}
    readable = repr(event).replace(repr(REPLACE), "REPLACE")
    assert eval(readable, {**names, "Fraction": Fraction, "REPLACE": REPLACE}) == event
    assert pickle.loads(pickle.dumps(event)) == copy.deepcopy(event) == event
    assert hash(event) == hash(copy.deepcopy(event))
    with pytest.raises(FrozenInstanceError):
        event.count = 1


def test_numpy_scalars_become_plain_numbers():
    event = DiscreteGaussian(np.float32(0.5), np.int64(2), size=np.int32(3))
    assert event == DiscreteGaussian(0.5, 2, size=3)
    assert [type(value) for value in event.parameters().values()] == [float, int, int, int]
    assert DiscreteLaplace(np.int64(2**62), np.int64(2**62)).cost.rho == Fraction(1, 2)


def test_ledgers_compare_by_what_they_hold_and_show_no_more_than_a_line():
    first, second = ledger(Budget.pure(1)), ledger(Budget.pure(1))
    assert first == second
    second.charge(PermuteAndFlip(0.5, 2))
    assert first != second
    assert first != "a ledger"
    assert repr(second).startswith("<Ledger of Budget.pure(1): 1 events, rho 0.125, REPLACE_ONE, n 1000")
    with pytest.raises(TypeError):
        hash(first)


def test_laplace_rounds_cost_at_least_what_another_library_computes():
    dp_accounting = pytest.importorskip(
        "dp_accounting", reason="dp-accounting brings scipy: installed by hand"
    )
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(20.0), 30)
    account = ledger()
    account.charge(DiscreteLaplace(20, 1, count=30))
    exact = accountant.get_epsilon(1e-6)
    assert exact <= account.epsilon(1e-6) <= 1.2 * exact


def test_accounting_imports_only_itself_the_standard_library_and_secrecy():
    # But for sums over thousands of sets of attributes in exact integers, and quantiles of noise.
    shows = {"_repr_html_", "to_dp_event"}  # which import when they are called
    for file in (file for file in FILES if file.name not in ("worst_difference.py", "noise.py")):
        tree = ast.parse(file.read_text())
        methods = [node for node in ast.walk(tree) if getattr(node, "name", None) in shows]
        later = {node for method in methods for node in ast.walk(method)}
        for node in (node for node in ast.walk(tree) if node not in later):
            if isinstance(node, ast.Import):
                assert all(name.name.split(".")[0] in sys.stdlib_module_names for name in node.names), (
                    file.name
                )
            elif isinstance(node, ast.ImportFrom):
                inside = node.level == 1 or node.module == "privmw.secrecy"
                assert inside or node.module.split(".")[0] in sys.stdlib_module_names, file.name


def test_every_public_name_has_an_example():  # tests/docs/test_examples.py runs them
    for name in (file.stem for file in FILES if file.stem != "__init__"):
        module = importlib.import_module(f"privmw.accounting.{name}")
        for public in (value for key, value in vars(module).items() if not key.startswith("_")):
            if getattr(public, "__module__", None) == module.__name__ and hasattr(public, "__doc__"):
                assert ">>>" in public.__doc__, public


def test_a_statement_says_what_holds_where_results_decided_how_much_to_spend():
    ledger = Ledger(Budget.zcdp(0.5), Neighbors.REPLACE_ONE, n=1000)
    assert "whole budget" not in ledger.statement()
    ledger.charge(DiscreteGaussian(sigma=2, l2_sensitivity_squared=1))
    assert "the guarantee is that of the whole budget: rho = 0.5 (epsilon = " in ledger.statement()
    ledger.charge(DiscreteGaussian(sigma=2, l2_sensitivity_squared=1, count=3))
    assert "whole budget" not in ledger.statement()


def test_a_pure_statement_needs_no_such_words():
    ledger = Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=1000)
    ledger.charge(DiscreteLaplace(scale=2, l1_sensitivity=1))
    assert "whole budget" not in ledger.statement()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_ledger_stands_alone(copied):
    ledger = Ledger(Budget.zcdp(0.5), Neighbors.REPLACE_ONE, n=1000)
    ledger.mark_seeded("seed 0")
    other = copied(ledger)
    other.charge(DiscreteGaussian(sigma=2, l2_sensitivity_squared=1))
    assert ledger.events == ()
    assert ledger.rho == 0
    assert not other.for_release
    assert other.rho == 0.125


def test_a_copy_made_while_a_seeded_run_charges_is_marked_too():
    ledger = Ledger(Budget.zcdp(0.5), Neighbors.REPLACE_ONE, n=1000)

    class Events(list):
        def __iter__(self):  # another thread runs just before the events are copied
            ledger.mark_seeded("seed 0")
            self.append(DiscreteGaussian(sigma=2, l2_sensitivity_squared=1))
            return super().__iter__()

    ledger._events = Events()
    copied = copy.copy(ledger)
    assert copied.rho == 0.125
    assert not copied.for_release


def test_a_copy_of_a_ledger_is_what_its_json_says():
    ledger = Ledger(Budget.zcdp(0.5), Neighbors.REPLACE_ONE, n=1000, unit="person")
    ledger.charge(DiscreteGaussian(sigma=2, l2_sensitivity_squared=1))
    copied = copy.copy(ledger)
    assert copied == Ledger.from_json(ledger.to_json()) == ledger
    assert copied.to_json() == ledger.to_json()
    copied.charge(DiscreteGaussian(sigma=2, l2_sensitivity_squared=3))
    for same in (copied, Ledger.from_json(copied.to_json())):  # the budget is used up, exactly
        with pytest.raises(BudgetError):
            same.charge(PermuteAndFlip(1e-9, candidates=2))


def test_a_total_handed_out_is_not_the_ledgers_own():
    ledger = Ledger(Budget.approximate(1, 1e-6, composition="advanced"), Neighbors.REPLACE_ONE, n=1000)
    ledger.charge(DiscreteLaplace(scale=10, l1_sensitivity=1))
    ledger.total.runs.clear()
    assert ledger.total.runs


def test_events_that_are_not_a_list_are_refused():
    text = (
        Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9).to_json().replace('"events": []', '"events": {}')
    )
    with pytest.raises(ValueError, match="events must be a list"):
        Ledger.from_json(text)


def test_a_ledger_reads_a_new_kind_of_event_back_and_no_planned_look():
    @dataclass(frozen=True, slots=True, repr=False)
    class Coin(Event):
        heads: int
        count: int = 1

        kind: ClassVar[str] = "coin"

        @property
        def cost_of_one(self):
            return Cost.pure(Fraction(1, self.heads))

    spent = Ledger(Budget.pure(1), Neighbors.REPLACE_ONE, n=9)
    try:
        spent.charge(Coin(4, count=3))
        assert Ledger.from_json(spent.to_json()).events == (Coin(4, count=3),)
    finally:
        assert KINDS.pop("coin") is Coin
    with pytest.raises(ValueError, match=r"kind \('coin'\) must be one of permute-and-flip"):
        Ledger.from_json(spent.to_json())
    assert "planned" not in KINDS
