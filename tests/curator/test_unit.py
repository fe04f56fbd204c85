"""Units behind the door: what a whole unit moves is what is paid for, and what the ledger says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privmw as pmw
from marks.slow import examples
from privmw import Budget, Domain, Table, Workload
from privmw.accounting import DiscreteGaussian, DiscreteLaplace, Ledger, Neighbors
from privmw.algorithms.auto import choose_algorithm
from privmw.curator import Curator
from privmw.mechanisms import Noise, Selection, scores

REPLACE, ADD_REMOVE = Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE_ONE
PLENTY = Budget.zcdp(10**9)
DOMAIN = Domain({"a": 3, "b": 2, "c": 4, "d": 1})
WORKLOAD = Workload.all(DOMAIN, k=[1, 2])
UNIT = 7  # the id of the unit in which neighbours differ

row = st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.sizes))
records = st.lists(st.tuples(st.sampled_from([UNIT, 1, 2]), row), min_size=2, max_size=12)
ASKS = [
    {"queries": [0, 3, 8, 20]},
    {"marginal": 4},
    {"marginal": 4, "queries": WORKLOAD.offsets[4:5]},
    {"marginals": [0, 2, 5]},
]


def door(rows, at_most, neighbors=REPLACE):
    ids, codes = zip(*rows, strict=True)
    table = Table.from_codes(codes, DOMAIN, private=True).capped(ids, unit="household", at_most=at_most)
    public_n = 5 if neighbors is ADD_REMOVE else None
    return Curator(table, WORKLOAD, PLENTY, rng=5, neighbors=neighbors, public_n=public_n)


def replaced(rows, others):
    """Every record of the unit replaced by another; those of other units stay."""
    return [(one, others[i % len(others)] if one == UNIT else old) for i, (one, old) in enumerate(rows)]


def moved(here, there, answers=None):
    """How far the exact counts and scores of two curators are apart, against what each event pays for."""
    answers = np.linspace(0, 1, WORKLOAD.cells) if answers is None else answers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noise, "add", lambda self, counts, stream: counts.copy())
        for ask in ASKS:
            step = here.measure(**ask, rho=1) - there.measure(**ask, rho=1)
            yield (step**2).sum(), here.ledger.events[-1].l2_sensitivity_squared
            step = here.measure(**ask, epsilon=1) - there.measure(**ask, epsilon=1)
            yield np.abs(step).sum(), here.ledger.events[-1].l1_sensitivity
        if here.ledger.neighbors is ADD_REMOVE:
            assert here.ledger.events == there.ledger.events
            return
        shown = []

        def draw(self, given, *_):  # what it is shown is erased afterwards
            shown.append((self, given.copy() if isinstance(given, np.ndarray) else given.scores()))
            return (0,)

        patch.setattr(Selection, "draw", draw)
        for among in ("cell", "marginal"):
            for curator in (here, there):
                curator.select(answers, epsilon=1, among=among)
            (selection, first), (_, second) = shown[-2:]
            # g = epsilon / (2 sensitivity)
            yield np.abs(first - second).max(), 1 / (2 * selection.weight)
    assert here.ledger.events == there.ledger.events


@examples(60, 1500)
def test_a_replaced_unit_moves_what_is_paid_for_and_no_more(examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(records, st.lists(row, min_size=1, max_size=4), st.integers(1, 4))
    def check(rows, others, at_most):
        here, there = door(rows, at_most), door(replaced(rows, others), at_most)
        assert all(step <= paid for step, paid in moved(here, there))

    check()


@examples(60, 1500)
def test_an_added_unit_moves_what_is_paid_for_and_no_more(examples):
    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(records, row, st.integers(1, 4))
    def check(rows, last, at_most):
        rows = [*rows, (1, last)]  # so that somebody is left
        without = [(one, code) for one, code in rows if one != UNIT]
        here, there = door(rows, at_most, ADD_REMOVE), door(without, at_most, ADD_REMOVE)
        assert all(step <= paid for step, paid in moved(here, there))

    check()


@pytest.mark.parametrize("at_most", [1, 3])
def test_what_is_paid_for_is_reached(at_most):
    rows = [(UNIT, (0, 0, 0, 0))] * 5 + [(1, (1, 1, 1, 0))]
    expected = Table.from_codes([[0, 0, 0, 0]], DOMAIN, private=True).counts(WORKLOAD) / 1.0
    steps = list(moved(door(rows, at_most), door(replaced(rows, [(2, 1, 3, 0)]), at_most), expected))
    # The two entries of `queries` in cells that no record of the unit reaches are paid for all the same.
    assert [step for step, _ in steps[2:]] == [paid for _, paid in steps[2:]]
    assert steps[2] == (2 * at_most**2, 2 * at_most**2)
    assert steps[3] == (2 * at_most, 2 * at_most)
    assert steps[-1][1] == at_most * scores.SENSITIVITY


def test_events_state_the_cost_for_the_whole_unit():
    rows = [(UNIT, (0, 0, 0, 0)), (1, (1, 1, 1, 0))]
    curator = door(rows, 4)
    curator.measure(marginals=[0, 1], rho=0.5)
    curator.measure(marginal=0, epsilon=0.5)
    assert curator.ledger.events == (
        DiscreteGaussian(sigma=8.0, l2_sensitivity_squared=4 * 16, size=5),
        DiscreteLaplace(scale=16.0, l1_sensitivity=2 * 4, size=3),
    )
    with door(rows, 4, ADD_REMOVE) as added:
        added.measure(total=True, epsilon=0.5)
        assert added.ledger.events == (DiscreteLaplace(scale=8.0, l1_sensitivity=4),)


def capped(at_most=2, n=60):
    codes = np.random.default_rng(0).integers(0, DOMAIN.sizes, (n, 4))
    table = Table.from_codes(codes, DOMAIN, private=True)
    return table.capped(np.arange(n) // 3, unit="household", at_most=at_most)


def test_the_statement_names_the_unit_and_counts_records():
    release = pmw.MWPub(rounds=2).release(capped(), pmw.Support.full(DOMAIN), WORKLOAD, rho=0.5)
    assert release.ledger.unit == "household of at most 2 records"
    assert release.ledger.n == 40
    words = release.statement()
    assert words.startswith(
        "Protected: one household of at most 2 records, among 40 records (a public number); "
        "neighbouring tables differ by replacing the records of one household."
    )
    assert "In plain words: replacing the records of one household makes no set of outcomes more" in words
    assert Ledger.from_json(release.ledger.to_json()) == release.ledger
    _, ledger = pmw.measure_marginals(
        capped(), [("a",), ()], epsilon=1, neighbors=ADD_REMOVE, public_n=20_000
    )
    assert ledger.statement().startswith(
        "Protected: one household of at most 2 records, among about 20,000 records (a public figure); "
        "neighbouring tables differ by adding or removing the records of one household."
    )


def test_a_release_costs_the_unit_no_more_than_its_budget():
    support = pmw.Support.full(DOMAIN)
    for at_most in (1, 3):
        release = pmw.PEP(rounds=3, measure="marginal").release(capped(at_most), support, WORKLOAD, rho=0.5)
        assert release.ledger.rho <= 0.5
        scales = {event.sigma for event in release.ledger.events if isinstance(event, DiscreteGaussian)}
        squares = {e.l2_sensitivity_squared for e in release.ledger.events if isinstance(e, DiscreteGaussian)}
        assert squares <= {at_most**2, 2 * at_most**2}
        mechanism = pmw.PEP(rounds=3, measure="marginal").calibrate(rho=0.5)
        plan = mechanism.plan(support, WORKLOAD, n=60, at_most=at_most)
        assert max(scales) == plan.noise[-1].scale  # inspect says what a release does
        assert plan.noise[-1].fraction == plan.noise[-1].scale / 60


def test_the_recommended_method_reckons_with_the_noise_of_the_unit():
    domain = Domain(dict.fromkeys("abcdefgh", 4))
    workload, support, budget = Workload.all(domain, k=3), pmw.Support.full(domain), Budget.zcdp(0.01)
    chosen = {most: choose_algorithm(50_000, support, workload, budget, most) for most in (1, 16, 100)}
    assert chosen[1] == choose_algorithm(50_000, support, workload, budget) == pmw.PEP(select="all")
    # The noise is that of a table of so many times fewer records.
    assert chosen[16] == choose_algorithm(50_000 // 16, support, workload, budget) != chosen[1]
    assert chosen[100] == choose_algorithm(500, support, workload, budget) != chosen[16]
    small = pmw.release_auto(capped(), pmw.Support.full(DOMAIN), WORKLOAD, epsilon=1.0, delta=1e-6)
    assert small.ledger.unit == "household of at most 2 records"


def test_a_unit_too_large_for_the_noise_is_refused_before_anything_is_spent():
    mechanism = pmw.MWPub(rounds=2).calibrate(rho=1e-9)
    with pytest.raises(ValueError, match="budget must be enough for one round"):
        mechanism(capped(2**30), pmw.Support.full(DOMAIN), WORKLOAD)


def test_a_checkpoint_of_another_limit_is_another_run(tmp_path):
    mechanism = pmw.MWPub(rounds=2).calibrate(rho=0.5)
    support = pmw.Support.full(DOMAIN)
    first = mechanism(capped(3), support, WORKLOAD, checkpoint=tmp_path / "run")
    again = mechanism(capped(3), support, WORKLOAD, checkpoint=tmp_path / "run")
    assert again.measurements == first.measurements
    assert again.ledger == first.ledger
    with pytest.raises(ValueError, match="checkpoint"):  # all 60 records enter in both
        mechanism(capped(4), support, WORKLOAD, checkpoint=tmp_path / "run")
    spent = first.ledger
    with pytest.raises(ValueError, match="spent must have the same unit as this run"):
        Curator(capped(4), WORKLOAD, spent.budget, spent=spent)
