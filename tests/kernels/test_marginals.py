import threading
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cases import (
    BACKENDS,
    MIXED,
    NAMES,
    NARROW,
    THREADS,
    Case,
    all_of,
    case,
    drawn_cases,
    load,
    masses_of,
    skewed,
    some_of,
    sums,
    uniform,
)

drawn = settings(max_examples=60)


@pytest.fixture
def native():
    return load("native") or pytest.skip("native is not installed")


@cache
def true_sums(name):
    """Some masses, and their sums."""
    table = case(name)
    return [
        (masses, table.truth(masses)) for masses in (np.ones(table.rows, np.int64), *masses_of(table.rows, 1))
    ]


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_the_reference_on_every_backend(name, backend):
    table = case(name)
    for masses, truth in true_sums(name):
        assert np.array_equal(sums(table.plan(backend), masses, len(truth)), truth)


@pytest.mark.parametrize("name", NAMES)
def test_changes_of_few_and_of_many_rows_are_a_new_evaluation(name, backend):
    table = case(name)
    rng = np.random.default_rng(7)
    marginals = table.plan(backend)
    before = masses_of(table.rows, 2)[0]
    truth = table.truth(before)
    for count in sorted({1, min(3, table.rows), table.rows // 10, table.rows}):
        rows = np.sort(rng.choice(table.rows, count, replace=False)).astype(np.uint32)
        after = before.copy()
        after[rows] = before[rows] // rng.integers(1, 9, count)
        answers = truth.copy()
        marginals.add_changes(rows, after[rows] - before[rows], answers, 1)
        assert np.array_equal(answers, table.truth(after))


@pytest.mark.parametrize("name", ["mixed orders, skewed", "every triple, skewed", "60,000 values, skewed"])
def test_rows_may_come_repeated_and_in_any_order(name, backend):
    table = case(name)
    rng = np.random.default_rng(8)
    marginals = table.plan(backend)
    for count in (5, 2 * table.rows):
        rows = rng.integers(0, table.rows, count).astype(np.uint32)
        changes = rng.integers(-(2**62) // count, 2**62 // count, count)
        answers = np.zeros(len(table.truth(changes, rows)), np.int64)
        marginals.add_changes(rows, changes, answers, 1)
        assert np.array_equal(answers, table.truth(changes, rows))


@given(drawn_cases(), st.integers(0, 2**32), st.data())
@drawn
def test_backends_and_the_reference_agree_on_drawn_tables(table, seed, data):
    positive, signed = masses_of(table.rows, seed)
    rows = np.array(data.draw(st.lists(st.integers(0, table.rows - 1), max_size=20)), np.uint32)
    changes = np.resize(np.array([2**40, -3, 2**58, 1]), len(rows))
    truth, change = table.truth(signed), table.truth(changes, rows)
    positive_truth = table.truth(positive)
    for name in BACKENDS:
        module = load(name)
        for threads in THREADS if name == "native" else (1,):
            if module:
                marginals = table.plan(module, threads)
                assert np.array_equal(sums(marginals, positive, len(truth), threads), positive_truth)
                answers = sums(marginals, signed, len(truth), threads)
                assert np.array_equal(answers, truth)
                marginals.add_changes(rows, changes, answers, threads)
                assert np.array_equal(answers, truth + change)


@pytest.mark.parametrize("name", ["mixed orders, dense", "mixed orders, skewed", "every triple, skewed"])
def test_answers_do_not_depend_on_thread_count(name, backend):
    table = case(name)
    masses = masses_of(table.rows, 3)[1]
    rows = np.arange(0, table.rows, 3, dtype=np.uint32)
    changes = masses[rows] // 2
    cells = len(table.truth(masses))
    found = []
    for threads in THREADS:
        marginals = table.plan(backend, threads)
        answers = sums(marginals, masses, cells, threads)
        marginals.add_changes(rows, changes, answers, threads)
        found.append(answers)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_rows_shared_out_in_parts_make_the_same_sums(backend):
    sizes = [3, 10, 2, 70_000]
    table = Case(uniform(600_000, sizes, 4), sizes, [(0, 1, 2), (1,), (0, 3)])
    masses = masses_of(table.rows, 5)[1]
    truth = table.truth(masses)
    for threads in THREADS:
        assert np.array_equal(sums(table.plan(backend, threads), masses, len(truth), threads), truth)
    rows = np.arange(0, table.rows, 2, dtype=np.uint32)
    table.plan(backend).add_changes(rows, -masses[rows], truth, 2)
    masses[rows] = 0
    assert np.array_equal(truth, table.truth(masses))


def test_one_plan_serves_several_python_threads_at_once(backend):
    table = case("every triple, skewed")
    marginals = table.plan(backend)
    given_masses = [masses_of(table.rows, seed)[1] for seed in range(4)]
    found = [None] * 4

    def evaluate(i):
        found[i] = sums(marginals, given_masses[i], cells, 2)

    cells = len(table.truth(given_masses[0]))
    workers = [threading.Thread(target=evaluate, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for masses, answers in zip(given_masses, found, strict=True):
        assert np.array_equal(answers, table.truth(masses))


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("mixed orders, dense", {"tiles"}),
        ("5,000,000 cells", {"tiles"}),
        ("every triple, skewed", {"lists", "parents"}),
        ("every order up to three, skewed", {"lists"}),
        ("every pair, skewed", {"lists"}),
        ("singles and pairs, skewed", {"lists"}),
        ("pairs and triples, skewed", {"lists"}),
        ("a few triples, skewed", {"rare", "parents"}),
        ("sixes alone, skewed", {"rare", "parents"}),
        ("mixed orders, skewed", {"tiles", "rare", "parents"}),
        ("more uncommon values than ids", {"tiles", "rare"}),
        ("wide among narrow", {"rare"}),
        ("60,000 values", {"tiles"}),
        ("no marginal", set()),
    ],
)
def test_the_plan_really_goes_every_way(name, used, native):
    ways = case(name).plan(native).ways()
    assert set(ways) == {"tiles", "rare", "lists", "parents"}
    assert used <= {way for way in ways if ways[way]}
    assert sum(ways.values()) - ways["parents"] == len(case(name).marginals)


def test_one_plan_may_go_all_ways_at_once(native):
    sizes = NARROW + MIXED
    columns = skewed(8_000, NARROW, 6, uncommon=0.15) + uniform(8_000, MIXED, 7)
    wide = [*some_of(len(NARROW), [4, 5], 20, 8), (0, 1, 20), (2, 23), (20, 23), (20, 22, 23)]
    table = Case(columns, sizes, all_of(18, 3) + wide)
    ways = table.plan(native).ways()
    assert all(ways.values())
    masses = masses_of(table.rows, 9)[1]
    truth = table.truth(masses)
    for threads in THREADS:
        assert np.array_equal(sums(table.plan(native, threads), masses, len(truth), threads), truth)


def test_ways_and_bytes_are_told_by_every_backend(backend):
    table = case("singles and pairs, skewed")
    columns = backend.Columns(table.columns, table.sizes, 1)
    marginals = backend.Marginals(columns, *table.workload(), 1)
    assert sum(marginals.ways().values()) >= len(table.marginals)
    assert columns.nbytes() >= 0
    assert marginals.nbytes() >= 0
