"""Every rho, epsilon and delta that is printed is at least the exact one: "at most" is never rounded down."""

import math
import re
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import privmw as pmw
from privmw.accounting import DiscreteGaussian
from privmw.accounting.statement import show
from privmw.cli.console import _summary
from privmw.cli.refusal import explain
from privmw.release.history import Round

rhos = st.floats(1e-6, 50)
NUMBER = r"= ([-+.e\d]+?)(?=[ ,;.)]*(?:\s|$|,|\)))"
DOMAIN = pmw.Domain({"age": 3, "sex": 2})
TABLE = pmw.Table.from_codes([[2, 0], [0, 1], [2, 0]], DOMAIN, private=True)


def printed(name, text):
    return [float(number) for number in re.findall(rf"\b{name} {NUMBER}", text)]


def ledger_of(rho):
    """A ledger that has spent about rho, and no float exactly."""
    ledger = pmw.accounting.Ledger(
        pmw.Budget.zcdp(Fraction(rho) * 2), pmw.accounting.Neighbors.REPLACE_ONE, n=40
    )
    ledger.charge(DiscreteGaussian(1 / math.sqrt(2 * rho), 1, 3))
    return ledger


def exact(ledger):
    return ledger.budget.spent(ledger.total)


@given(st.floats(1e-300, 1e300))
def test_a_shown_figure_is_at_least_the_figure_and_near_it(value):
    assert value <= float(show(value)) <= value * (1 + 1.1e-5)


@given(rhos, st.integers(1, 9))
def test_the_statement_of_a_mechanism_rounds_up(rho, rounds):
    mechanism = pmw.MWPub(rounds=rounds).calibrate(rho=rho)
    text = mechanism.statement()
    first, *each = printed("rho", text)
    assert first >= Fraction(rho)
    costs = [event.cost_of_one for event in mechanism.events]
    assert len(each) == len(costs) == 2
    assert all(shown >= cost.rho for shown, cost in zip(each, costs, strict=True))
    (epsilon,) = printed("epsilon", text)
    assert epsilon >= costs[0].epsilon


@given(st.floats(1e-3, 20), st.floats(1e-12, 1e-3))
def test_the_statement_of_an_approximate_budget_rounds_up(epsilon, delta):
    text = pmw.MWPub(rounds=3).calibrate(epsilon=epsilon, delta=delta).statement()
    assert printed("epsilon", text)[0] >= epsilon
    assert printed("delta", text) == [float(show(delta))] >= [delta]


@given(rhos)
def test_a_ledger_a_release_and_a_curator_print_no_less_than_was_spent(rho):
    ledger = ledger_of(rho)
    support = pmw.Support.full(DOMAIN)
    release = pmw.Release(
        support, pmw.Workload.all(DOMAIN, k=1), np.full(6, 1 / 6), ledger=ledger, settings={}
    )
    for text in (repr(ledger), repr(release)):
        (shown,) = re.findall(r"rho ([-+.e\d]+),", text)
        assert float(shown) >= exact(ledger)
    for shown in printed("rho", ledger.statement())[:1]:
        assert shown >= exact(ledger)
    with pmw.curator.Curator(
        TABLE, pmw.Workload.all(DOMAIN, k=1), pmw.Budget.zcdp(Fraction(rho) / 3)
    ) as curator:
        curator.measure([0], rho=Fraction(rho) / 7)
        spent, limit = re.findall(r"rho (\S+) of (\S+) spent", repr(curator))[0]
    assert float(spent) >= exact(curator.ledger)
    assert float(limit) >= Fraction(rho) / 3


@given(rhos)
def test_the_command_line_prints_no_less_than_was_spent(rho):
    ledger = ledger_of(rho)
    error = KeyboardInterrupt()
    error.ledger = ledger
    (shown,) = re.findall(r"rho (\S+) was spent", explain(error).message)
    assert float(shown) >= exact(ledger)
    for discrepancy in (0.5, math.nan):
        entry = Round(1, [0], discrepancy=discrepancy, after=discrepancy, rho=ledger.rho)
        (shown,) = re.findall(r"rho (\S+)$", _summary(entry))
        assert float(shown) >= exact(ledger)


def test_a_figure_to_the_nearest_is_caught():
    assert float(f"{1.0000004:.6g}") < 1.0000004 <= float(show(1.0000004))
