"""Draws of signed cells against a bag of public records: probabilities, sensitivities, charges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmw import Budget, BudgetError, Domain, Table, Workload
from privmw.accounting import ExponentialMechanism, Neighbors
from privmw.curator import Curator
from privmw.mechanisms import Selection, scores

CHECK = settings(derandomize=True, deadline=None, max_examples=40)
PLENTY = Budget.zcdp(10**9)
DOMAIN = Domain({"a": 3, "b": 2, "c": 4})
WORKLOAD = Workload.all(DOMAIN, k=[1, 2])

row = st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.sizes))
records = st.lists(st.tuples(st.sampled_from([7, 1, 2]), row), min_size=1, max_size=10)


def bag_of(rows):
    return Table.from_codes(rows, DOMAIN, private=False).counts(WORKLOAD)


def door(rows, at_most=None):
    ids, codes = zip(*rows, strict=True)
    table = Table.from_codes(codes, DOMAIN, private=True)
    if at_most is not None:
        table = table.capped(ids, unit="household", at_most=at_most)
    return Curator(table, WORKLOAD, PLENTY, rng=5)


def shown_to_selection(curator, bag, records):
    """The selection that a draw makes, and the scores that it is shown."""
    shown = []

    def draw(self, given, *_):  # what it is shown is erased afterwards
        shown.append((self, given.copy()))
        return (0,)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Selection, "draw", draw)
        curator.draw(bag, records=records, epsilon=1)
    return shown[0]


@given(records, st.integers(0, 9), st.lists(row, min_size=1, max_size=5))
@CHECK
def test_scores_of_neighbours_differ_by_at_most_the_sensitivity(rows, place, bag):
    place %= len(rows)
    neighbour = [*rows[:place], (rows[place][0], bag[0]), *rows[place + 1 :]]
    replaced = [(one, bag[i % len(bag)] if one == 7 else old) for i, (one, old) in enumerate(rows)]
    counts = bag_of(bag)
    for here, there in ((door(rows), door(neighbour)), (door(rows, 3), door(replaced, 3))):
        selection, seen = shown_to_selection(here, counts, len(bag))
        _, other = shown_to_selection(there, counts, len(bag))
        # g = epsilon / (2 sensitivity)
        assert np.abs(seen - other).max() <= 1 / (2 * selection.weight)
        assert here.ledger.events == there.ledger.events


@pytest.mark.parametrize(("at_most", "moved"), [(None, 1), (3, 3)])
def test_the_sensitivity_is_reached(at_most, moved):
    here, there = ([(7, codes)] * moved + [(8, (2, 0, 3))] for codes in ((0, 0, 0), (1, 1, 1)))
    bag = bag_of([(0, 0, 0), (2, 1, 1), (2, 1, 1), (2, 1, 1)])
    selection, seen = shown_to_selection(door(here, at_most), bag, 4)
    _, other = shown_to_selection(door(there, at_most), bag, 4)
    # Of a bag of four records, with so many records of the unit; both signs move as far.
    assert np.abs(seen - other).max() == 1 / (2 * selection.weight) == 4 * moved
    assert (seen - other).max() == (other - seen).max()


def test_scores_are_exact_differences_of_the_bag_and_the_table():
    rows = [(1, (0, 0, 0)), (1, (2, 1, 3)), (2, (2, 1, 3))]
    bag = [(0, 0, 0), (1, 1, 3)]
    _, seen = shown_to_selection(door(rows), bag_of(bag), 2)
    lacking = 2 * bag_of([codes for _, codes in rows]) - 3 * bag_of(bag)
    assert seen.tolist() == [*lacking.tolist(), *(-lacking).tolist()]


SEX = Domain({"sex": 2})
FORTY = Table.from_codes([[0]] * 24 + [[1]] * 16, SEX, private=True)
DRAWS = 20_000


def test_draws_have_the_probabilities_by_hand():
    # A bag of 4 with one record of the first value: it lacks 4 * 24 - 40 * 1 = 56 of 160 there.
    with Curator(FORTY, Workload.all(SEX, k=1), PLENTY, rng=11) as curator:
        drawn = curator.draw(np.array([1, 3]), records=4, epsilon=0.1, k=DRAWS)
    seen = np.bincount(drawn, minlength=4)

    def chi_square(epsilon):
        weights = np.exp(epsilon * np.array([56, -56, -56, 56]) / (2 * 4))
        expected = DRAWS * weights / weights.sum()
        return float(((seen - expected) ** 2 / expected).sum())

    beyond = 44.8  # of three degrees of freedom with probability 1e-9
    assert chi_square(0.1) < beyond
    assert chi_square(0.11) > beyond  # an epsilon wrong by a tenth shows


def test_a_draw_is_charged_before_it_happens_and_whatever_the_data():
    bag = bag_of([(0, 0, 0)] * 3)
    table = Table.from_codes([[0, 0, 0], [2, 1, 3]], DOMAIN, private=True)
    with Curator(table, WORKLOAD, Budget.zcdp(1), rng=0) as curator:
        drawn = curator.draw(bag, records=3, epsilon=0.5, k=7)
        assert len(drawn) == 7
        assert max(drawn) < 2 * WORKLOAD.cells
        event = ExponentialMechanism(0.5, 2 * WORKLOAD.cells, count=7)
        assert list(curator.ledger.events) == [event]
        assert curator.ledger.rho == 7 * 0.5**2 / 8
        with pytest.raises(BudgetError):
            curator.draw(bag, records=3, epsilon=2, k=7)
        assert len(curator.ledger.events) == 1


@pytest.mark.parametrize(
    ("counts", "options", "error", "message"),
    [
        (np.zeros(3, np.int64), {}, ValueError, "must be one for each"),
        (np.zeros(WORKLOAD.cells), {}, TypeError, "must be a numpy array of int64"),
        (np.full(WORKLOAD.cells, 4), {}, ValueError, r"from 0 to the number of records \(3\)"),
        (np.full(WORKLOAD.cells, -1), {}, ValueError, r"from 0 to the number of records"),
        (np.zeros(WORKLOAD.cells, np.int64), {"records": 0}, ValueError, r"records \(0\) must be positive"),
        (np.zeros(WORKLOAD.cells, np.int64), {"records": 2**62}, ValueError, "must be at most"),
        (np.zeros(WORKLOAD.cells, np.int64), {"k": 0}, ValueError, r"k \(0\) must be positive"),
        (np.zeros(WORKLOAD.cells, np.int64), {"k": 2**31 + 1, "epsilon": 1e-9}, ValueError, r"at most 2\^31"),
        (np.zeros(WORKLOAD.cells, np.int64), {"epsilon": 0}, ValueError, r"epsilon \(0\) must be"),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(counts, options, error, message):
    curator = door([(1, (0, 0, 0)), (1, (2, 1, 3))])
    with pytest.raises(error, match=message):
        curator.draw(counts, **{"records": 3, "epsilon": 1, **options})
    assert len(curator.ledger.events) == 0


def test_scores_of_a_private_number_of_records_are_not_drawn_by():
    table = Table.from_codes([[0, 0, 0]], DOMAIN, private=True)
    curator = Curator(table, WORKLOAD, PLENTY, neighbors=Neighbors.ADD_REMOVE_ONE, public_n=1)
    with pytest.raises(ValueError, match="must be REPLACE_ONE to draw"):
        curator.draw(bag_of([(0, 0, 0)]), records=1, epsilon=1)


def test_growing_epsilons_are_multiplicative_weights_of_one_rate():
    """exp(eta (t q(D) - sum of q)), step by step, has the odds of the mechanism at epsilon = 2 t eta / n."""
    rows = [(1, (0, 0, 0)), (1, (2, 1, 3)), (2, (2, 1, 3)), (1, (1, 0, 2))]
    n, eta, bag = len(rows), 0.3, [(0, 0, 0), (1, 1, 3), (2, 0, 1)]
    answers = bag_of([codes for _, codes in rows]) / n
    log_weights = np.zeros(2 * WORKLOAD.cells)
    for t, record in enumerate(bag, start=1):
        gained = answers - bag_of([record])
        log_weights += eta * np.concatenate([gained, -gained])
        selection, seen = shown_to_selection(door(rows), bag_of(bag[:t]), t)
        assert math.isclose(float(selection.weight), 1 / (2 * t))  # at epsilon 1
        np.testing.assert_allclose(2 * t * eta / n * float(selection.weight) * seen, log_weights, atol=1e-12)


def test_the_score_of_a_signed_cell_cannot_overflow():
    assert scores.LARGEST_SIGNED * 2 <= 2**63
