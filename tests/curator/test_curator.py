"""The door: sensitivities on drawn neighbours, charges before looks, and nothing private that leaves."""

from __future__ import annotations

import copy
import gc
import logging
import math
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cases import NATIVE_DRAWS
from privmw import Budget, BudgetError, Domain, Table, Workload, kernels
from privmw import random as streams
from privmw.accounting import (
    Composition,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Ledger,
    Neighbors,
    PermuteAndFlip,
)
from privmw.accounting.noise import DISCRETE_GAUSSIAN
from privmw.curator import Curator
from privmw.kernels.draws import Errors
from privmw.mechanisms import Noise, Selection, scores

CHECK = settings(derandomize=True, deadline=None, max_examples=40)
REPLACE, ADD_REMOVE = Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE_ONE
PLENTY = Budget.zcdp(10**9)
DOMAIN = Domain({"a": 3, "b": 2, "c": 4, "d": 1})
WORKLOAD = Workload.all(DOMAIN, k=[1, 2])
ROWS = [[2, 0, 3, 0], [0, 1, 1, 0], [2, 0, 0, 0], [1, 1, 3, 0], [2, 0, 3, 0]]
PUBLIC = Table.from_codes(ROWS, DOMAIN, private=False)

row = st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.sizes))
rows = st.lists(row, min_size=1, max_size=8)


def table(codes=ROWS):
    return Table.from_codes(codes, DOMAIN, private=True)


def curator(codes=ROWS, budget=PLENTY, **options):
    return Curator(table(codes), WORKLOAD, budget, **{"rng": 5, **options})


def uniform():
    return np.full(WORKLOAD.cells, 0.25)


@pytest.fixture
def looked(monkeypatch):
    """The counts that the noise was shown."""
    shown = []
    monkeypatch.setattr(Noise, "add", lambda self, given, stream: shown.append(given.copy()) or given.copy())
    return shown


@given(
    records=rows,
    place=st.integers(0, 7),
    other=row,
    answers=st.lists(st.floats(0, 1), min_size=WORKLOAD.cells, max_size=WORKLOAD.cells),
)
@CHECK
def test_scores_of_neighbours_differ_by_at_most_the_sensitivity(records, place, other, answers):
    neighbour = list(records)
    neighbour[place % len(records)] = other
    counts = [table(codes).counts(WORKLOAD) for codes in (records, neighbour)]
    assert np.abs(counts[0] - counts[1]).max() <= 1
    public = np.array(answers), len(records)
    cells = [scores.cell_scores(c, *public).scores() for c in counts]
    marginals = [scores.marginal_scores(c, *public, WORKLOAD.offsets) for c in counts]
    for here, there in (cells, marginals):
        assert np.abs(here - there).max() <= scores.SENSITIVITY
    for j, (first, end) in enumerate(zip(WORKLOAD.offsets, WORKLOAD.offsets[1:], strict=False)):
        assert marginals[0][j] == cells[0][first:end].max()


@given(records=rows, place=st.integers(0, 7), other=row, data=st.data())
@CHECK
def test_measured_counts_of_neighbours_differ_by_the_sensitivity(records, place, other, data):
    place %= len(records)
    replaced = [*records[:place], other, *records[place + 1 :]]
    added = [*records, other]
    cells = st.lists(st.integers(0, WORKLOAD.cells - 1), min_size=1, max_size=20, unique=True)
    which = st.lists(st.integers(0, len(WORKLOAD) - 1), min_size=1, max_size=5, unique=True)
    marginal = data.draw(st.integers(0, len(WORKLOAD) - 1))
    first, end = WORKLOAD.offsets[marginal : marginal + 2].tolist()
    inside = st.lists(st.integers(first, end - 1), min_size=1, unique=True)
    asks = [
        {"queries": data.draw(cells)},
        {"marginal": marginal},
        {"marginal": marginal, "queries": data.draw(inside)},
        {"marginals": data.draw(which)},
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noise, "add", lambda self, counts, stream: counts.copy())
        for neighbors, neighbour in ((REPLACE, replaced), (ADD_REMOVE, added)):
            options = {"neighbors": neighbors, "public_n": 5 if neighbors is ADD_REMOVE else None}
            here, there = curator(records, **options), curator(neighbour, **options)
            for ask in asks:
                moved = here.measure(**ask, rho=1) - there.measure(**ask, rho=1)
                assert (moved**2).sum() <= here.ledger.events[-1].l2_sensitivity_squared
                moved = here.measure(**ask, epsilon=1) - there.measure(**ask, epsilon=1)
                assert np.abs(moved).sum() <= here.ledger.events[-1].l1_sensitivity
            assert here.ledger.events == there.ledger.events


def test_the_sensitivities_are_reached(looked):
    moved = [[0, 1, 2, 0], *ROWS[1:]]
    for ask, reached in (({"marginal": 0}, 2), ({"marginals": [0, 1, 2]}, 6), ({"queries": [0, 3]}, 2)):
        for codes in (ROWS, moved):
            curator(codes).measure(**ask, rho=1)
        assert ((looked[-1] - looked[-2]) ** 2).sum() == reached


def test_what_is_charged_for_what_is_asked():
    door = curator()
    sizes = np.diff(WORKLOAD.offsets)
    single = int(np.flatnonzero(sizes == 1)[0])
    asked = {
        1: [{"queries": [3]}, {"marginal": single}],
        2: [{"marginal": 0}, {"queries": [0, 1, 2], "marginal": 0}, {"queries": [1, 30]}],
        3: [{"queries": [0, 1, 2]}, {"marginals": [0, single]}],
        4: [{"marginals": [1, 0]}],
    }
    for changing, asks in asked.items():
        for ask in asks:
            noisy = door.measure(**ask, rho=0.5)
            event = door.ledger.events[-1]
            assert event == DiscreteGaussian(event.sigma, changing, size=len(noisy))
            assert event.rho == pytest.approx(0.5)
            door.measure(**ask, epsilon=0.5)
            assert door.ledger.events[-1] == DiscreteLaplace(2 * changing, changing, size=len(noisy))


def test_add_remove_neighbours_move_one_cell_of_each_marginal():
    door = curator(neighbors=ADD_REMOVE, public_n=1000)
    for ask, changing in (({"marginal": 0}, 1), ({"marginals": [0, 1]}, 2), ({"queries": [0, 1, 2]}, 3)):
        door.measure(**ask, rho=1)
        assert door.ledger.events[-1].l2_sensitivity_squared == changing
    with pytest.raises(ValueError, match="must be REPLACE_ONE to select"):
        door.select(uniform(), epsilon=1)
    assert "noisy counts only, no selection" in door.ledger.statement()
    assert "about 1,000" in door.ledger.statement()
    # The true number of records shows nowhere.
    assert repr(door).startswith("Curator(about 1000 records, ")
    assert door.n == 1000


def test_counts_come_in_the_order_asked(looked):
    counts = table().counts(WORKLOAD)
    door = curator()
    door.measure([7, 0, 30], rho=1)
    assert looked[-1].tolist() == counts[[7, 0, 30]].tolist()
    door.measure(marginals=[4, 1], rho=1)
    first, second = (counts[slice(*WORKLOAD.offsets[j : j + 2])] for j in (4, 1))
    assert looked[-1].tolist() == [*first, *second]
    door.measure(marginal=6, rho=1)
    assert looked[-1].tolist() == counts[slice(*WORKLOAD.offsets[6:8])].tolist()


def test_measurements_are_counts_plus_noise_of_their_event():
    door = curator(budget=Budget.zcdp(10**18))
    counts = table().counts(WORKLOAD)
    assert door.measure(np.arange(WORKLOAD.cells), rho=10**9).tolist() == counts.tolist()
    many = np.array([door.measure([3], rho=Fraction(1, 8))[0] for _ in range(400)])
    assert abs(many.mean() - counts[3]) < 1
    assert 1.5 < many.std() < 2.6


def test_selection_prefers_the_largest_error():
    door = curator(budget=Budget.zcdp(10**15))
    counts = table().counts(WORKLOAD)
    answers = counts / len(ROWS)
    answers[11] = 1 - answers[11]
    assert door.select(answers, epsilon=10**4) == (11,)
    assert door.select(answers, epsilon=10**4, mechanism="exponential") == (11,)
    (marginal,) = door.select(answers, epsilon=10**4, among="marginal")
    assert marginal == WORKLOAD.marginal_of([11])[0]
    answers[20] = answers[20] + 0.1 if answers[20] < 0.5 else answers[20] - 0.1
    assert door.select(answers, epsilon=10**6, k=2) == (11, 20)
    assert door.select(answers, epsilon=10**6, exclude=[11]) == (20,)


def test_every_candidate_but_the_excluded_is_chosen():
    door = curator()
    excluded = [0, 5, WORKLOAD.cells - 1]
    everything = door.select(
        uniform(), epsilon=1, k=WORKLOAD.cells - 3, exclude=excluded, mechanism="exponential"
    )
    assert sorted([*everything, *excluded]) == list(range(WORKLOAD.cells))
    assert door.ledger.events == (
        ExponentialMechanism(1, candidates=WORKLOAD.cells - 3, count=WORKLOAD.cells - 3),
    )
    marginals = door.select(uniform(), epsilon=1, k=len(WORKLOAD), among="marginal")
    assert sorted(marginals) == list(range(len(WORKLOAD)))
    assert door.ledger.events[-1] == PermuteAndFlip(1, candidates=len(WORKLOAD), count=len(WORKLOAD))


FEW = 4  # marginals that compete, of ten


@pytest.mark.parametrize("among", ["cell", "marginal"])
@pytest.mark.parametrize("mechanism", ["permute-and-flip", "exponential"])
def test_only_the_first_marginals_compete(among, mechanism):
    cells = int(WORKLOAD.offsets[FEW])
    competing = cells if among == "cell" else FEW
    door = curator()
    ask = {"epsilon": 1, "among": among, "mechanism": mechanism, "candidates": FEW}
    everything = door.select(uniform()[:cells], k=competing, **ask)
    assert sorted(everything) == list(range(competing))
    without = door.select(uniform()[:cells], k=competing - 2, exclude=[0, competing - 1], **ask)
    assert sorted(without) == list(range(1, competing - 1))
    assert [event.candidates for event in door.ledger.events] == [competing, competing - 2]
    # The same words choose the same from a workload that has no other marginals.
    alone = Workload(DOMAIN, list(WORKLOAD)[:FEW])
    with Curator(table(), alone, PLENTY, rng=9) as other, curator(rng=9) as door:
        for _ in range(20):
            there = other.select(uniform()[:cells], **{**ask, "candidates": None})
            assert door.select(uniform()[:cells], **ask) == there
        assert door.ledger.events == other.ledger.events


def test_the_law_among_the_first_marginals_is_that_of_their_scores():
    workload = Workload(
        DOMAIN, [("b",), ("a",)]
    )  # all records are alike in a: the model would err most there
    answers = np.array([0.4, 0.4])
    codes, runs, epsilon = [[0, 0, 0, 0]] * 3 + [[0, 1, 0, 0]] * 2, 4000, 0.5
    with Curator(table(codes), workload, PLENTY, rng=3) as door:
        chosen = [door.select(answers, epsilon=epsilon, candidates=1)[0] for _ in range(runs)]
    # Scores 3 - 2 and 2 - 2 records: heads of the worse with p, then one of two.
    p = math.exp(-epsilon / 2)
    assert abs(np.mean(chosen) - p / 2) < 6 * math.sqrt(0.25 / runs)


def test_scores_do_not_overflow_for_the_largest_n():
    n = scores.LARGEST_N
    counts, answers = np.array([0, n, n, 0]), np.array([1.0, 0.0, 1.0, 1 + 1e-9])
    found = scores.cell_scores(counts, answers, n).scores()
    assert found[:3].tolist() == [n << 20, n << 20, 0]
    assert 0 < found[3] - (n << 20) < 2**53


class Untouchable:
    """Counts that tell of every look."""

    def __getattribute__(self, name):
        raise AssertionError(f"the counts were looked at: {name}")

    def __getitem__(self, _):
        raise AssertionError("the counts were looked at")

    __len__ = __iter__ = __bool__ = __array__ = __getitem__


CALLS = {
    "select": lambda door, **more: door.select(uniform(), **{"epsilon": 1, **more}),
    "measure": lambda door, **more: door.measure([0], **{"rho": 1, **more}),
    "measure, Laplace": lambda door, **more: door.measure(marginal=0, **{"epsilon": 1, **more}),
    "measure, marginals": lambda door, **more: door.measure(marginals=[0], **{"rho": 1, **more}),
}


def blindfolded(**options):
    door = curator(**options)
    door._Curator__counts = Untouchable()
    return door


@pytest.mark.parametrize("call", CALLS)
def test_a_call_beyond_the_budget_is_refused_before_any_look(call):
    door = blindfolded(budget=Budget.zcdp(0.25), rng=5)
    words = door._Curator__stream.bit_generator
    before = copy.deepcopy(door.ledger)
    with pytest.raises(BudgetError, match="must fit the budget"):
        CALLS[call](door)
    assert door.ledger == before
    assert words.random_raw(1) == streams.ChaCha20(seed=5).random_raw(1)
    share = {"epsilon": 0.1} if "Laplace" in call or call == "select" else {"rho": 0.1}
    with pytest.raises(AssertionError, match="looked at"):  # after the charge: the blindfold works
        CALLS[call](door, **share)
    assert len(door.ledger.events) == 1


@pytest.mark.parametrize(
    ("budget", "refused"),
    [(Budget.pure(1), {"rho": 0.1}), (Budget.approximate(1, 1e-9, "advanced"), {"rho": 1e-6})],
)
def test_pure_budgets_refuse_gaussian_noise_before_any_look(budget, refused):
    with pytest.raises(BudgetError, match="pure cost"):
        blindfolded(budget=budget).measure([0], **refused)


NOT_POSITIVE = [0, -1, 0.0, math.nan, math.inf, -math.inf]
BAD = [
    *[("select", {"epsilon": value}, ValueError, r"epsilon \(") for value in NOT_POSITIVE],
    *[("measure", {"queries": [0], "epsilon": value}, ValueError, r"epsilon \(") for value in NOT_POSITIVE],
    *[("measure", {"queries": [0], "rho": value}, ValueError, r"rho \(") for value in NOT_POSITIVE],
    ("measure", {"queries": [0]}, TypeError, "exactly one of rho and epsilon"),
    ("measure", {"queries": [0], "rho": 1, "epsilon": 1}, TypeError, "exactly one of rho and epsilon"),
    ("measure", {"queries": [0], "rho": "1"}, TypeError, r"rho \('1'\) must be a number"),
    ("measure", {"queries": [0], "rho": 1e-30}, ValueError, "scale .* must be at most 2"),
    ("measure", {"rho": 1}, TypeError, "one of queries, marginal, marginals and total"),
    ("measure", {"queries": [0], "marginals": [0], "rho": 1}, TypeError, "marginals must be asked alone"),
    ("measure", {"marginal": 0, "marginals": [0], "rho": 1}, TypeError, "marginals must be asked alone"),
    ("measure", {"queries": [], "rho": 1}, ValueError, r"queries \(none\) must be at least one"),
    ("measure", {"queries": [0, 0], "rho": 1}, ValueError, "must not repeat one"),
    ("measure", {"queries": [-1], "rho": 1}, ValueError, r"queries\[0\] must be from 0 to 44"),
    ("measure", {"queries": [10**6], "rho": 1}, ValueError, "must be from 0 to"),
    ("measure", {"queries": [0.5], "rho": 1}, TypeError, "must be a list of integers"),
    ("measure", {"queries": 3, "rho": 1}, TypeError, "must be a list of integers"),
    ("measure", {"queries": [True], "rho": 1}, TypeError, "must be a list of integers"),
    ("measure", {"queries": [0, 9], "marginal": 0, "rho": 1}, ValueError, "must be cells of marginal 0"),
    ("measure", {"marginal": 99, "rho": 1}, ValueError, r"marginal \(99\) must be from 0 to 9"),
    ("measure", {"marginals": [], "rho": 1}, ValueError, r"marginals \(none\)"),
    ("measure", {"marginals": [1, 1], "rho": 1}, ValueError, "must not repeat one"),
    ("select", {"k": 0}, ValueError, r"k \(0\) must be positive"),
    ("select", {"k": 10**6}, ValueError, "must be at most the number of candidates"),
    ("select", {"k": 1.0}, TypeError, r"k \(1.0\) must be an integer"),
    ("select", {"among": "row"}, ValueError, r"among \('row'\) must be 'cell' or 'marginal'"),
    ("select", {"mechanism": "best"}, ValueError, r"mechanism \('best'\) must be"),
    ("select", {"mechanism": "report-noisy-max"}, ValueError, "must be 'permute-and-flip' or"),
    ("select", {"candidates": 0}, ValueError, r"candidates \(0\) must be positive"),
    (
        "select",
        {"candidates": len(WORKLOAD) + 1},
        ValueError,
        r"candidates \(11\) must be at most the number",
    ),
    ("select", {"candidates": 2.0}, TypeError, r"candidates \(2.0\) must be an integer"),
    ("select", {"candidates": True}, TypeError, r"candidates \(True\) must be an integer"),
    ("select", {"candidates": 1}, ValueError, "must be one for each of the 3 cells"),
    (
        "select",
        {"candidates": 1, "model_answers": uniform()[:3], "exclude": [3]},
        ValueError,
        "must be from 0 to 2",
    ),
    (
        "select",
        {"candidates": 1, "model_answers": uniform()[:3], "k": 4},
        ValueError,
        "must be at most the number of candidates",
    ),
    ("select", {"exclude": [-1]}, ValueError, r"exclude\[0\] must be from 0 to 44"),
    ("select", {"exclude": range(WORKLOAD.cells)}, ValueError, r"0 candidates\) must have between 1"),
    ("select", {"exclude": [1, 1]}, ValueError, "must not repeat one"),
    ("select", {"model_answers": uniform()[1:]}, ValueError, "must be one for each of the"),
    (
        "select",
        {"model_answers": uniform().astype(np.float32)},
        TypeError,
        "must be a numpy array of float64",
    ),
    ("select", {"model_answers": uniform().tolist()}, TypeError, "must be a numpy array of float64"),
    ("select", {"model_answers": np.append(uniform()[1:], math.nan)}, ValueError, r"\(nan, cell 44\)"),
    ("select", {"model_answers": np.append(uniform()[1:], math.inf)}, ValueError, r"\(inf, cell 44\)"),
    ("select", {"model_answers": np.append(uniform()[1:], 1.1)}, ValueError, "must be fractions from 0 to 1"),
    (
        "select",
        {"model_answers": np.append(uniform()[1:], -0.1)},
        ValueError,
        "must be fractions from 0 to 1",
    ),
]


@pytest.mark.parametrize(("call", "options", "error", "match"), BAD)
def test_bad_input_is_refused_before_any_charge_look_or_draw(call, options, error, match):
    door = blindfolded(rng=5)
    words = door._Curator__stream.bit_generator
    if call == "select":
        options = {"model_answers": uniform(), "epsilon": 1, **options}
    with pytest.raises(error, match=match):
        getattr(door, call)(**options)
    assert door.ledger.events == ()
    assert words.random_raw(1) == streams.ChaCha20(seed=5).random_raw(1)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((ROWS, WORKLOAD, PLENTY), {}, TypeError, r"private \(list\) must be a Table"),
        (
            (PUBLIC, WORKLOAD, PLENTY),
            {},
            ValueError,
            r"private \(a public table\) must be a private table: read it with private=True",
        ),
        ((table(), "all", PLENTY), {}, TypeError, "must be a Workload"),
        ((table(), Workload.all(Domain({"x": 2}), k=1), PLENTY), {}, ValueError, "must be on the domain"),
        ((table(), Workload(DOMAIN, []), PLENTY), {}, ValueError, "must have at least one cell"),
        ((table(), WORKLOAD, 1.0), {}, TypeError, "must be a Budget"),
        ((table(), WORKLOAD, PLENTY), {"neighbors": "replace-one"}, TypeError, "must be a Neighbors"),
        ((table(), WORKLOAD, PLENTY), {"rng": "seed"}, TypeError, "must be None, an integer seed"),
        ((table(), WORKLOAD, PLENTY), {"rng": -1}, ValueError, "must be a non-negative integer"),
        ((table(), WORKLOAD, PLENTY), {"public_n": 5}, ValueError, "must not be given"),
        ((table(), WORKLOAD, PLENTY), {"neighbors": ADD_REMOVE}, ValueError, "public_n must be given"),
        (
            (table(), WORKLOAD, PLENTY),
            {"neighbors": ADD_REMOVE, "public_n": 0},
            ValueError,
            r"n \(0\) must be positive",
        ),
    ],
)
def test_a_curator_of_the_wrong_things_is_refused(monkeypatch, arguments, options, error, match):
    monkeypatch.setattr(Table, "counts", Untouchable())
    with pytest.raises(error, match=match) as caught:
        Curator(*arguments, **options)
    assert "[2, 0, 3" not in str(caught.value)


def test_budgets_of_impossible_numbers_are_refused():
    for value in (0, -1, math.nan, math.inf):
        for make in (Budget.zcdp, Budget.pure, lambda epsilon: Budget.approximate(epsilon, 1e-9)):
            with pytest.raises(ValueError, match="must be positive"):
                make(value)
    for delta in (0, 1, -1, 2, math.nan):
        with pytest.raises(ValueError, match="delta"):
            Budget.approximate(1, delta)


def test_missing_entropy_is_an_error_before_any_look(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("entropy (none) must come from the operating system: getrandom failed")

    door = blindfolded(rng=None)
    monkeypatch.setattr(streams, "ChaCha20", fail)
    monkeypatch.setattr(Table, "counts", Untouchable())
    with pytest.raises(RuntimeError, match="entropy"):
        Curator(table(), WORKLOAD, PLENTY)
    door._Curator__stream = type("Stream", (), {"bit_generator": type("G", (), {"ready": fail})()})
    with pytest.raises(RuntimeError, match="entropy"):
        door.measure([0], rho=1)
    assert door.ledger.events == ()


@given(st.lists(st.sampled_from(sorted(CALLS)), max_size=12), st.integers(1, 9))
@settings(CHECK, max_examples=15)
def test_the_ledger_is_the_sum_of_the_events_of_every_call_that_fit(calls, limit):
    door, expected = curator(budget=Budget.zcdp(limit)), []
    one = {
        "select": PermuteAndFlip(1, candidates=WORKLOAD.cells),
        "measure": DiscreteGaussian(door_sigma(1), 1),
        "measure, Laplace": DiscreteLaplace(2, 2, size=3),
        "measure, marginals": DiscreteGaussian(1, 2, size=3),
    }
    for call in calls:
        fits = Composition.of([*expected, one[call]]).rho <= limit
        if fits:
            CALLS[call](door)
            expected.append(one[call])
        else:
            with pytest.raises(BudgetError):
                CALLS[call](door)
    assert list(door.ledger.events) == expected
    assert door.ledger.total == Composition.of(expected)
    assert Ledger.from_json(door.ledger.to_json()) == door.ledger


def door_sigma(rho):
    return Noise.prepare(DISCRETE_GAUSSIAN, size=1, sensitivity=1, share=rho).event.sigma


@given(first=rows, data=st.data())
@settings(CHECK, max_examples=15)
def test_events_do_not_depend_on_the_data(first, data):
    second = data.draw(st.lists(row, min_size=len(first), max_size=len(first)))
    ledgers = []
    for codes in (first, second):
        door = curator(codes)
        door.select(uniform(), epsilon=0.3, k=3)
        door.measure([1, 2, 30], rho=0.7)
        door.measure(marginal=5, epsilon=0.1)
        ledgers.append(door.ledger)
    assert ledgers[0] == ledgers[1]


ADVERSARIAL = {
    "all alike": [[0, 0, 0, 0]] * 500,
    "all distinct": [list(codes) for codes in np.ndindex(*DOMAIN.sizes)],
    "one record": [[2, 1, 3, 0]],
    "many": np.random.default_rng(0).integers(0, DOMAIN.sizes, (200_000, 4)),
}


@pytest.mark.parametrize("codes", ADVERSARIAL.values(), ids=ADVERSARIAL)
@pytest.mark.parametrize("answers", [0.0, 0.5, 1.0])
def test_no_table_makes_the_curator_fail_warn_or_log(codes, answers, caplog, capfd):
    with warnings.catch_warnings(), caplog.at_level(logging.DEBUG):
        warnings.simplefilter("error")
        with curator(codes, rng=None) as door:
            for mechanism in ("permute-and-flip", "exponential"):
                for among in ("cell", "marginal"):
                    for epsilon in (1e-6, 1, 1e4):
                        door.select(
                            np.full(WORKLOAD.cells, answers),
                            epsilon=epsilon,
                            mechanism=mechanism,
                            among=among,
                            k=2,
                        )
            for share in ({"rho": 1e-6}, {"rho": 1e4}, {"epsilon": 1e-6}, {"epsilon": 1e4}):
                door.measure(marginals=np.arange(len(WORKLOAD)), **share)
            repr(door), door.ledger.statement()
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_a_huge_table_is_counted_and_measured():
    size = 2_000_000 if kernels.backend() == "native" else 50_000
    codes = {name: np.zeros(size, np.uint8) for name in DOMAIN.names}
    with Curator(Table(codes, DOMAIN, private=True), WORKLOAD, PLENTY, rng=1) as door:
        assert door.n == size
        assert abs(door.measure([0], rho=1)[0] - size) < 10
        assert door.select(np.ones(WORKLOAD.cells), epsilon=10**4)[0] in range(WORKLOAD.cells)


def secrets():
    """A table whose counts would be noticed: 7,919 records in one cell."""
    return curator([[1, 1, 2, 0]] * 7919 + [[0, 0, 0, 0]] * 2)


def test_nothing_private_is_shown():
    door = secrets()
    shown = [
        repr(door),
        str(door),
        f"{door}",
        repr(door.ledger),
        door.ledger.statement(),
        door.ledger.to_json(),
    ]
    errors = []
    for call in (
        lambda: door.select(uniform(), epsilon=10**9),
        lambda: door.select(uniform(), epsilon=0),
        lambda: door.measure([-5], rho=1),
        lambda: door.measure([0], rho=10**12),
        lambda: pickle.dumps(door),
        lambda: copy.copy(door),
        lambda: vars(door),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        errors.append(str(caught.value))
    assert not any("7919" in text or "7,919" in text for text in shown + errors)
    assert repr(door) == f"Curator(7921 records, {WORKLOAD.cells} cells, rho 0.0 of 1000000000.0 spent)"


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_curator_cannot_be_copied_or_pickled(copying):
    with pytest.raises(TypeError, match="must not be pickled or copied"):
        copying(curator())
    with pytest.raises(TypeError, match="must not be pickled or copied"):
        copying({"inside": [curator()]}) if copying is not copy.copy else copying(curator())


def test_no_attribute_in_plain_sight_holds_counts_and_the_table_is_let_go():
    door = secrets()
    assert not hasattr(door, "__dict__")
    plain = [name for name in dir(door) if not name.startswith("_")]
    assert sorted(plain) == [
        "choose_public",
        "close",
        "closed",
        "draw",
        "ledger",
        "measure",
        "measure_queries",
        "measure_residuals",
        "measure_thresholded",
        "n",
        "select",
        "workload",
    ]
    assert not any(isinstance(getattr(door, name), np.ndarray) for name in plain)
    held = [door]
    for _ in range(3):
        held += gc.get_referents(*held)
    assert not any(isinstance(thing, Table) for thing in held)


def test_closing_erases_the_counts_and_ends_every_call():
    door = secrets()
    counts = door._Curator__counts
    door.close()
    door.close()
    assert not counts.any()
    assert door.closed
    assert repr(door).endswith("spent, closed)")
    for call in CALLS.values():
        with pytest.raises(ValueError, match=r"curator \(closed\) must be open"):
            call(door)
    assert door.ledger.events == ()
    with pytest.raises(KeyError), curator() as inside:
        raise KeyError
    assert inside.closed


def test_scores_and_asked_counts_are_erased_also_after_an_error(monkeypatch):
    kept = []

    def interrupted(self, given, stream, *excluded):
        kept.append(given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Selection, "draw", interrupted)
    monkeypatch.setattr(Noise, "add", interrupted)
    door = secrets()
    for call in (
        lambda: door.select(uniform(), epsilon=1, among="marginal", exclude=[2]),
        lambda: door.measure(marginal=0, rho=1),
        lambda: door.select(uniform(), epsilon=1),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()
    assert isinstance(kept.pop(), Errors)  # a cell's score is computed when it is looked at, not stored
    assert len(kept) == 2
    assert not any(array.any() for array in kept)
    assert len(door.ledger.events) == 3  # paid for, though interrupted


def test_a_child_process_cannot_spend_the_same_budget():
    script = """
        import os
        from privmw import Budget, Domain, Table, Workload, kernels
        from privmw.curator import Curator
        kernels.set_threads(1)
        table = Table.from_codes([[0], [1]], Domain({"a": 2}), private=True)
        door = Curator(table, Workload.all(table.domain, k=1), Budget.zcdp(1))
        child = os.fork()
        if child == 0:
            try:
                door.measure([0], rho=1)
            except RuntimeError as error:
                os._exit(7 if "process that made it" in str(error) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        door.measure([0], rho=1)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=os.sep,
    )
    assert done.returncode == 0, done.stderr


def test_threads_together_spend_no_more_than_the_budget():
    door = curator(budget=Budget.zcdp(20), rng=None)
    spent = []

    def spend():
        for _ in range(20):
            try:
                door.measure([0], rho=1)
                spent.append(1)
            except BudgetError:
                return

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(spent) == 20
    assert door.ledger.would_exceed(DiscreteGaussian(1, 2))


@pytest.mark.parametrize("rng", [7, np.random.default_rng, lambda: np.random.PCG64(1)])
def test_a_seeded_or_foreign_generator_marks_the_ledger_before_anything_is_asked(rng):
    if NATIVE_DRAWS or isinstance(rng, int):
        door = curator(rng=rng() if callable(rng) else rng)
        assert not door.ledger.for_release
        assert door.ledger.generator == "seeded: not for release"
        assert "NOT FOR RELEASE" in door.ledger.statement()
    door = curator(rng=None)
    assert door.ledger.for_release
    assert door.ledger.generator == "ChaCha20, keyed by the operating system"


def test_the_same_seed_gives_the_same_answers():
    seen = []
    for _ in range(2):
        door = curator(rng=11)
        seen.append((door.select(uniform(), epsilon=0.1, k=4), door.measure(marginal=3, rho=0.1).tolist()))
    assert seen[0] == seen[1]


def test_a_curator_goes_on_with_what_was_spent():
    before = curator(budget=Budget.zcdp(1), rng=None)
    before.measure([0], rho=0.75)
    door = curator(budget=Budget.zcdp(1), rng=None, spent=before.ledger)
    assert door.ledger == before.ledger
    with pytest.raises(BudgetError):
        door.measure([0], rho=0.5)
    door.measure([0], rho=0.25)
    assert door.ledger.remaining == pytest.approx(0, abs=1e-12)
    assert before.ledger.rho == pytest.approx(0.75)  # a copy went on
    seeded = curator(budget=Budget.zcdp(1), rng=3, spent=before.ledger)
    assert not seeded.ledger.for_release
    assert not curator(budget=Budget.zcdp(1), rng=None, spent=seeded.ledger).ledger.for_release


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (Ledger(Budget.zcdp(2), REPLACE, n=5), "budget"),
        (Ledger(Budget.zcdp(1), REPLACE, n=6), "n"),
        (Ledger(Budget.zcdp(1), ADD_REMOVE, n=5), "neighbors"),
        (Ledger(Budget.zcdp(1), REPLACE, n=5, unit="household"), "unit"),
        (Ledger(Budget.zcdp(1), REPLACE, n=5, numerics="rounded doubles"), "numerics"),
    ],
)
def test_what_was_spent_on_other_terms_is_refused(other, name):
    with pytest.raises(ValueError, match=f"spent must have the same {name}"):
        curator(budget=Budget.zcdp(1), spent=other)
    with pytest.raises(TypeError, match="spent"):
        curator(spent=0.5)
