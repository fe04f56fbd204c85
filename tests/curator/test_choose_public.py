"""A private choice among public tables: its probabilities, sensitivities on drawn neighbours, its charge."""

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
DISTANCES = ("largest", "mean")

row = st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.sizes))
records = st.lists(st.tuples(st.sampled_from([7, 1, 2]), row), min_size=1, max_size=10)
fractions = st.lists(st.floats(0, 1), min_size=WORKLOAD.cells, max_size=WORKLOAD.cells)


def shown_to_selection(curator, answers, distance, epsilon=1):
    """The selection that a choice makes, and the scores that it is shown."""
    shown = []

    def draw(self, given, *_):  # what it is shown is erased afterwards
        shown.append((self, given.copy()))
        return (0,)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Selection, "draw", draw)
        curator.choose_public(answers, epsilon=epsilon, distance=distance)
    return shown[0]


def door(rows, at_most=None):
    ids, codes = zip(*rows, strict=True)
    table = Table.from_codes(codes, DOMAIN, private=True)
    if at_most is not None:
        table = table.capped(ids, unit="household", at_most=at_most)
    return Curator(table, WORKLOAD, PLENTY, rng=5)


@given(records, st.integers(0, 9), st.lists(row, min_size=1, max_size=4), fractions, fractions)
@CHECK
def test_scores_of_neighbours_differ_by_at_most_the_sensitivity(rows, place, others, first, second):
    answers = [np.array(first), np.array(second)]
    place %= len(rows)
    neighbour = [*rows[:place], (rows[place][0], others[0]), *rows[place + 1 :]]
    replaced = [(one, others[i % len(others)] if one == 7 else old) for i, (one, old) in enumerate(rows)]
    for distance in DISTANCES:
        for here, there in ((door(rows), door(neighbour)), (door(rows, 3), door(replaced, 3))):
            selection, seen = shown_to_selection(here, answers, distance)
            _, other = shown_to_selection(there, answers, distance)
            # g = epsilon / (2 sensitivity)
            assert np.abs(seen - other).max() <= 1 / (2 * selection.weight)
            assert here.ledger.events == there.ledger.events


@pytest.mark.parametrize(("at_most", "records_moved"), [(None, 1), (3, 3)])
@pytest.mark.parametrize("distance", DISTANCES)
def test_the_sensitivity_is_reached(distance, at_most, records_moved):
    # All records of the unit leave (0, 0, 0) for (1, 1, 1): away from a table that has it, towards the other.
    moved = records_moved
    rows = [(7, (0, 0, 0))] * moved + [(8, (2, 0, 3))]
    there = [(7, (1, 1, 1))] * moved + [(8, (2, 0, 3))]
    ones = [
        Table.from_codes([codes] * moved + [[2, 0, 3]], DOMAIN, private=False).counts(WORKLOAD) / (moved + 1)
        for codes in ([0, 0, 0], [1, 1, 1])
    ]
    selection, seen = shown_to_selection(door(rows, at_most), ones, distance)
    _, other = shown_to_selection(door(there, at_most), ones, distance)
    paid = int(1 / (2 * selection.weight))
    assert (np.abs(seen - other) == paid).all()
    bits = scores.SCORE_BITS
    assert paid == moved * (1 if distance == "largest" else 2 * len(WORKLOAD)) << bits


def test_scores_are_the_distances_by_hand():
    # Counts of a: 3, 1, 0 of 4; of b: 2, 2. Answers are exact in binary.
    domain = Domain({"a": 3, "b": 2})
    private = Table.from_codes([[0, 0], [0, 1], [0, 1], [1, 0]], domain, private=True)
    answers = [np.array([0.5, 0.25, 0.25, 0.5, 0.5]), np.array([0.75, 0, 0.25, 0, 1])]
    expected = {"largest": [-1, -2], "mean": [-2, -6]}
    for distance in DISTANCES:
        curator = Curator(private, Workload.all(domain, k=1), PLENTY, rng=0)
        _, seen = shown_to_selection(curator, answers, distance)
        assert (seen / 2**20).tolist() == expected[distance]


def test_sums_keep_fewer_bits_rather_than_overflow():
    for n in (1, 1000, 2**32 - 1):
        for cells in (1, 10**6, 2**29 - 1):
            bits = scores.bits_of_distance(n, cells)
            assert 0 <= bits <= 20
            assert cells * (n << bits) * (1 + 1e-9) + cells < 2**62
    with pytest.raises(ValueError, match="must have fewer than"):
        scores.bits_of_distance(2**32 - 1, 2**30)


# One table answers as the private one does, ten err by 14 of 40 records in a cell, ten by 16.
SEX = Domain({"sex": 2})
FORTY = Table.from_codes([[0]] * 20 + [[1]] * 20, SEX, private=True)
ERRORS = [0] + [14] * 10 + [16] * 10
CHOICES = 3_000


def test_choices_have_the_probabilities_by_hand():
    answers = [np.array([0.5 + error / 40, 0.5 - error / 40]) for error in ERRORS]
    with Curator(FORTY, Workload.all(SEX, k=1), PLENTY, rng=11) as curator:
        chosen = [curator.choose_public(answers, epsilon=0.5) for _ in range(CHOICES)]
    # How often the one, the first ten and the last ten were chosen.
    seen = np.bincount((np.array(chosen) + 9) // 10, minlength=3)

    def chi_square(epsilon):
        weights = [math.exp(-epsilon * error / 2) for error in ERRORS]
        expected = np.array([weights[0], sum(weights[1:11]), sum(weights[11:])]) / sum(weights) * CHOICES
        return ((seen - expected) ** 2 / expected).sum()

    # 2 degrees of freedom: above 41.4 with probability 1e-9. For a scale wrong by 10 % the noncentrality is
    # about 90, and the test is passed with probability .005.
    assert chi_square(0.5) < 41.4
    assert chi_square(0.55) > 41.4
    assert chi_square(0.45) > 41.4


def test_a_choice_is_charged_once_and_refused_before_it_looks():
    answers = [np.array([0.5, 0.5])] * 3
    curator = Curator(FORTY, Workload.all(SEX, k=1), Budget.pure(1), rng=0)
    assert curator.choose_public(answers, epsilon=1) in (0, 1, 2)
    assert curator.ledger.events == (ExponentialMechanism(1, 3),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "table_scores", None)
        with pytest.raises(BudgetError):
            curator.choose_public(answers, epsilon=0.5)
    assert len(curator.ledger.events) == 1


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"answers": [np.array([0.5, 0.5])]}, ValueError, r"answers \(of 1 tables\) must be of at least two"),
        ({"answers": [np.array([0.5, 0.5]), np.array([1.0])]}, ValueError, "one for each of the 2 cells"),
        ({"answers": [[0.5, 0.5]] * 2}, TypeError, "must be a numpy array of float64"),
        ({"answers": [np.array([0.5, 1.5])] * 2}, ValueError, "must be fractions"),
        ({"distance": "median"}, ValueError, "must be 'largest' or 'mean'"),
        ({"epsilon": 0}, ValueError, "epsilon"),
    ],
)
def test_bad_parameters_spend_nothing(changed, error, message):
    given = {"answers": [np.array([0.5, 0.5])] * 2, "epsilon": 1, **changed}
    curator = Curator(FORTY, Workload.all(SEX, k=1), PLENTY, rng=0)
    with pytest.raises(error, match=message):
        curator.choose_public(given.pop("answers"), **given)
    assert curator.ledger.events == ()


def test_the_number_of_records_must_be_public():
    options = {"neighbors": Neighbors.ADD_REMOVE_ONE, "public_n": 40}
    curator = Curator(FORTY, Workload.all(SEX, k=1), PLENTY, rng=0, **options)
    with pytest.raises(ValueError, match="must be REPLACE_ONE to choose"):
        curator.choose_public([np.array([0.5, 0.5])] * 2, epsilon=1)
