"""Best responses: exact against brute force, local against exact, public rows, refusals, the same bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kernels.cases import THREADS, door_of, installed
from privmw import Constraints, Domain, Support, Table, Workload
from privmw.extensions.baselines.bag import (
    Bag,
    BestResponses,
    PerturbedLeader,
    cells_of_records,
    signed_weights,
)
from privmw.extensions.baselines.oracle import check_oracle, make_oracle
from privmw.random import sampling_stream

SMALL = Domain({"a": 3, "b": 2, "c": 4, "d": 1, "e": 3})
RECORDS = np.array(list(itertools.product(*map(range, SMALL.sizes))), np.uint32)


def score(codes, workload, cells, weights, terms):
    """The weights of the cells that hold each record, and the terms of its values; by membership."""
    held = cells_of_records(workload, codes)
    totals = sum(weight * (held == cell).any(axis=1) for cell, weight in zip(cells, weights, strict=True))
    first = np.cumsum([0, *workload.domain.sizes])
    return totals + sum(terms[first[a] + codes[:, a].astype(int)] for a in range(codes.shape[1]))


def instance(workload, queries, seed, noise=0):
    rng = np.random.default_rng(seed)
    cells = np.sort(rng.choice(workload.cells, queries, replace=False))
    weights = rng.integers(1, 4, queries) * rng.choice([-1, 1], queries)
    terms = -rng.integers(0, noise + 1, (2, sum(workload.domain.sizes)))
    return cells, weights, terms


def found(kind, domain, workload, problem, starts=20, support=None, seed=0):
    oracle = make_oracle(kind, support or Support.without_public(domain), workload, starts=starts)
    return oracle.respond(*problem, sampling_stream(seed))


@pytest.mark.parametrize("noise", [0, 3])
@pytest.mark.parametrize("seed", range(6))
def test_the_exact_oracle_finds_the_best_of_all_records(seed, noise):
    workload = Workload.all(SMALL, k=[1, 2, 3])
    problem = instance(workload, 12, seed, noise)
    records = found("exact", SMALL, workload, problem, starts=1)
    for record, terms in zip(records, problem[2], strict=True):
        best = score(RECORDS, workload, *problem[:2], terms).max()
        assert score(record[None], workload, *problem[:2], terms) == best


def test_a_climb_alone_would_not_be_the_best():
    workload = Workload.all(SMALL, k=[1, 2, 3])
    missed = 0
    for seed in range(20):
        problem = instance(workload, 12, seed, 3)
        record = found("local", SMALL, workload, problem, starts=1)[:1]
        best = score(RECORDS, workload, *problem[:2], problem[2][0]).max()
        missed += int(score(record, workload, *problem[:2], problem[2][0])[0] < best)
    assert missed > 0


WIDE = Domain({f"a{i}": size for i, size in enumerate((2, 5, 9, 16, 3, 40, 7, 2, 11, 6))})


@pytest.mark.parametrize("seed", range(4))
def test_the_local_oracle_is_within_two_queries_of_the_best(seed):
    workload = Workload.all(WIDE, k=3)
    cells, weights, _ = instance(workload, 60, seed)
    problem = cells, np.sign(weights), np.zeros((1, sum(WIDE.sizes)), np.int64)
    climbed, exact = (
        score(found(kind, WIDE, workload, problem), workload, *problem[:2], problem[2][0])[0]
        for kind in ("local", "exact")
    )
    assert exact - 2 <= climbed <= exact
    random = Support.without_public(WIDE)
    starts = make_oracle("local", random, workload, starts=1000)._draw(1000, sampling_stream(1))
    assert score(starts, workload, *problem[:2], problem[2][0]).max() < climbed  # there is something to find


def public():
    rows = np.random.default_rng(4).choice(RECORDS, 9, replace=False)
    return Support.from_table(Table.from_codes(rows, SMALL, private=False))


def test_the_support_oracle_takes_the_best_public_row_and_draws_among_equals():
    workload, support = Workload.all(SMALL, k=2), public()
    for seed in range(10):
        problem = instance(workload, 8, seed, 2)
        for record, terms in zip(
            found("support", SMALL, workload, problem, support=support), problem[2], strict=True
        ):
            scores = score(support.rows.astype(np.uint32), workload, *problem[:2], terms)
            assert score(record[None], workload, *problem[:2], terms) == scores.max()
            assert record.tolist() in support.rows.tolist()
    nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.zeros((200, sum(SMALL.sizes)), np.int64)
    drawn = found("support", SMALL, workload, nothing, support=support)
    assert len(np.unique(drawn, axis=0)) == support.size


def test_climbs_start_at_public_rows_and_complete_missing_attributes():
    workload, support = Workload.all(SMALL, k=2), public()
    nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.zeros((60, sum(SMALL.sizes)), np.int64)
    drawn = found("local", SMALL, workload, nothing, support=support)
    assert {tuple(row) for row in drawn.tolist()} <= {tuple(row) for row in support.rows.tolist()}
    few = Table.from_codes([[0, 1], [2, 0]], Domain({"a": 3, "b": 2}), private=False)
    drawn = found("local", SMALL, workload, nothing, support=Support.from_table(few, domain=SMALL))
    assert {tuple(row[:2]) for row in drawn.tolist()} == {(0, 1), (2, 0)}
    assert len(np.unique(drawn[:, 2])) == 4


def test_every_backend_and_number_of_threads_finds_the_same_records():
    workload = Workload.all(WIDE, k=3)
    problem = instance(workload, 80, 5, 2)
    seen = set()
    for backend, threads in itertools.product(installed(), THREADS):
        with door_of(backend):
            oracle = make_oracle("local", Support.without_public(WIDE), workload, starts=7, threads=threads)
            seen.add(oracle.respond(*problem, sampling_stream(3)).tobytes())
    assert len(seen) == 1


def test_bad_supports_are_refused_with_the_reason(monkeypatch):
    none = Support.without_public(SMALL)
    for kind in ("local", "exact", "support"):
        if kind != "support":
            check_oracle(kind, none)
        check_oracle(kind, public())
    with pytest.raises(ValueError, match="must have every attribute"):
        check_oracle("support", none)
    rules = Constraints({"invalid": [{"a": [0], "b": [0]}]}, SMALL)
    with pytest.raises(ValueError, match=r"oracle \('local'\) must be 'support' with constraints"):
        check_oracle("local", Support.without_public(SMALL, rules))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="must come with scipy"):
        check_oracle("exact", none)


def test_a_bag_counts_its_records():
    workload = Workload.all(SMALL, k=[1, 2, 3])
    drawn = RECORDS[np.random.default_rng(0).integers(0, len(RECORDS), 30)]
    bag = Bag(workload)
    for part in (drawn[:1], drawn[1:20], drawn[20:]):
        bag.add(part)
    table = Table.from_codes(drawn, SMALL, private=False)
    assert (bag.cell_counts == table.counts(workload)).all()
    assert (bag.answers() == table.counts(workload) / 30).all()


def test_signs_of_a_cell_cancel():
    cells, weights = signed_weights([3, 13, 4, 4, 15, 5, 6], cells=10)
    assert (cells.tolist(), weights.tolist()) == ([4, 6], [2, 1])


def models(support=None):
    workload = Workload.all(SMALL, k=2)
    support = support or Support.without_public(SMALL)
    oracle = make_oracle("local", support, workload, starts=3)
    yield lambda: BestResponses(support, workload, oracle, samples=4)
    yield lambda: PerturbedLeader(support, workload, oracle, samples=5, noise=0.3, rounds=6)


@pytest.mark.parametrize("which", [0, 1])
def test_a_model_that_is_restored_goes_on_with_the_same_bits(which):
    make = list(models())[which]
    rng = np.random.default_rng(2)
    rounds = [rng.integers(0, 2 * Workload.all(SMALL, k=2).cells, 4).tolist() for _ in range(6)]
    whole, part = make(), make()
    for drawn in rounds:
        whole.respond(drawn)
    for drawn in rounds[:3]:
        part.respond(drawn)
    again = make()
    again.restore([], part.state())
    for drawn in rounds[3:]:
        again.respond(drawn)
    assert (again.bag()[0] == whole.bag()[0]).all()
    (rows, weights), (others, other_weights) = again.result(), whole.result()
    assert rows == others
    assert (weights == other_weights).all()
    assert np.isclose(weights.sum(), 1)


def test_what_is_released_answers_as_the_bag():
    make, _ = models(public())
    model = make()
    for number in range(5):
        model.respond([number, 40 + number])
    rows, weights = model.result()
    np.testing.assert_allclose(rows.answers(Workload.all(SMALL, k=2), weights), model.answers(), atol=1e-12)
    assert len(model.state()[1]["records"]) == 6 * len(SMALL)
    with pytest.raises(TypeError, match="learns from drawn cells"):
        model.update([])


def test_perturbed_leaders_release_the_later_bags():
    _, make = models()
    model = make()
    cells = Workload.all(SMALL, k=2).cells
    for _ in range(6):
        model.respond([5])
    # Seven bags of five records; the first (6 + 1) // 4 = 1 is left out.
    kept = model.state()[1]["kept"].reshape(-1, len(SMALL))
    assert len(kept) == 6 * 5
    assert model.bag()[1] == 5
    assert model.answers()[5] > 0.5  # a cell that was asked for six times
    assert model.answers()[:cells].sum() == pytest.approx(len(Workload.all(SMALL, k=2)))
