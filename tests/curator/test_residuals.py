"""Residuals through the door: which tables are counted, what is paid, what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privmw import Budget, BudgetError, Domain, Table, Workload
from privmw.accounting import Neighbors, ResidualGaussian
from privmw.curator import Curator
from privmw.mechanisms import Noise

DOMAIN = Domain({"a": 3, "b": 2, "c": 4, "one": 1})
WORKLOAD = Workload(DOMAIN, [("a", "b", "c"), ("b", "c"), ("a", "one")])
LOOKS = ((0,), (2,), (0, 1), (1, 2), (0, 1, 2))
ROOM = Budget.zcdp(1, event_delta=1e-6)


def event(sigma=20.0, looks=LOOKS, **options):
    return ResidualGaussian(DOMAIN.sizes, looks, (sigma,) * len(looks), **options)


def table(rows):
    return Table.from_codes(rows, DOMAIN, private=True)


def some_rows(count, seed=0):
    generator = np.random.default_rng(seed)
    return np.column_stack([generator.integers(0, size, count) for size in DOMAIN.sizes])


def contrasts(rows, look):
    counts = np.zeros([DOMAIN.sizes[a] for a in look], np.int64)
    np.add.at(counts, tuple(np.asarray(rows)[:, a] for a in look), 1)
    for axis in range(len(look)):
        counts = np.diff(counts, axis=axis)
    return counts  # against the next value: as much as against the last


def against_the_next(noisy, look):
    values = noisy.reshape([DOMAIN.sizes[a] - 1 for a in look])
    for axis in range(len(look)):
        end = np.zeros_like(np.take(values, [0], axis))
        values = np.diff(np.concatenate([values, end], axis), axis=axis)
    return values


def test_contrasts_are_those_of_the_table_plus_noise(monkeypatch):
    rows = some_rows(200)
    with Curator(table(rows), WORKLOAD, ROOM, rng=5) as curator:
        noisy = curator.measure_residuals(event())
    with monkeypatch.context() as patch:
        patch.setattr(Noise, "add", lambda self, counts, stream: counts.copy())
        with Curator(table(rows), WORKLOAD, ROOM, rng=5) as curator:
            exact = curator.measure_residuals(event())
    for look, values, true in zip(LOOKS, noisy, exact, strict=True):
        assert values.dtype == np.int64
        np.testing.assert_array_equal(against_the_next(true, look), contrasts(rows, look))
        assert (values != true).any()
        assert np.abs(values - true).max() < 20 * 2 ** len(look) * 6


def test_it_is_charged_once_before_it_is_drawn():
    with Curator(table(some_rows(9)), WORKLOAD, ROOM, rng=5) as curator:
        curator.measure_residuals(event())
        assert curator.ledger.events == (event(),)
        assert curator.ledger.total.rho == event().cost.rho
        assert curator.ledger.delta > 0
    with Curator(table(some_rows(9)), WORKLOAD, Budget.zcdp(1), rng=5) as curator:
        with pytest.raises(BudgetError, match="deltas of events"):
            curator.measure_residuals(event())
        assert curator.ledger.events == ()


@pytest.mark.parametrize("at_most", [1, 3])
def test_a_replaced_unit_moves_what_is_paid_for_and_no_more(at_most, monkeypatch):
    monkeypatch.setattr(Noise, "add", lambda self, counts, stream: counts.copy())
    others, worst = some_rows(6, seed=3).tolist(), 0.0
    paid = event(at_most=at_most)
    for x, y in itertools.product(
        itertools.product(range(3), range(2), range(4), [0]), [(0, 0, 0, 0), (2, 1, 3, 0)]
    ):
        seen = []
        for record in (x, y):
            rows = [*others, *[record] * at_most]
            ids = [*range(len(others)), *[99] * at_most]
            capped = table(rows).capped(ids, unit="household", at_most=at_most)
            with Curator(capped, WORKLOAD, ROOM, rng=5) as curator:
                seen.append(curator.measure_residuals(paid))
        moved = 0.0
        for look, here, there in zip(LOOKS, *seen, strict=True):
            shape = [DOMAIN.sizes[a] for a in look]
            step = np.zeros(shape)
            step[tuple(slice(0, size - 1) for size in shape)] = (here - there).reshape([n - 1 for n in shape])
            for axis in range(len(look)):
                step -= step.mean(axis=axis, keepdims=True)
            moved += (step**2).sum() / (2 * 20.0**2)
        worst = max(worst, moved)
    assert worst <= float(paid.cost.rho) * (1 + 1e-12)
    assert worst >= float(paid.cost.rho) * (1 - 1e-6)  # a pair of these is the worst there is


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (
            event(looks=((1, 3),)) if DOMAIN.sizes[3] > 1 else ResidualGaussian((3, 2, 4, 2), ((0,),), (9,)),
            "sizes",
        ),
        (event(at_most=2), r"at_most \(2\) must be the table's 1"),
        (event(looks=((0, 1), (0, 2))), None),
    ],
)
def test_events_of_another_table_are_refused(given, match):
    with Curator(table(some_rows(9)), WORKLOAD, ROOM, rng=5) as curator:
        if match is None:
            assert len(curator.measure_residuals(given)) == 2
            return
        with pytest.raises(ValueError, match=match):
            curator.measure_residuals(given)
        assert curator.ledger.events == ()


def test_looks_outside_the_workload_and_other_neighbours_are_refused():
    small = Workload(DOMAIN, [("a", "b")])
    with Curator(table(some_rows(9)), small, ROOM, rng=5) as curator:
        with pytest.raises(ValueError, match=r"look \('c',\) must lie inside a marginal"):
            curator.measure_residuals(event(looks=((2,),)))
        with pytest.raises(TypeError, match="must be a ResidualGaussian"):
            curator.measure_residuals(None)
        assert curator.ledger.events == ()
    added = {"neighbors": Neighbors.ADD_REMOVE_ONE, "public_n": 9}
    with Curator(table(some_rows(9)), WORKLOAD, ROOM, rng=5, **added) as curator:
        with pytest.raises(ValueError, match="must be REPLACE_ONE"):
            curator.measure_residuals(event())
        assert curator.ledger.events == ()
