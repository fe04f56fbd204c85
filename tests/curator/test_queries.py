"""Groups of queries in the curator: what neighbours move, and what is paid."""

import numpy as np
import pytest

from privmw import Budget, Domain, Table, Workload
from privmw.accounting import Neighbors
from privmw.curator import Curator
from privmw.data.queries import marginal, prefix, sums, within
from privmw.mechanisms import Noise

DOMAIN = Domain({"age": 5, "sex": 2, "rooms": 3})
GROUPS = [
    group.on(DOMAIN)
    for group in (
        marginal("sex", "age"),
        prefix("age") * marginal("sex"),
        within("age", [(0, 1), ">=1"]) * prefix("rooms"),
        sums("age", by=["sex"], lower=0, upper=3),
    )
]
WORKLOAD = Workload(DOMAIN, dict.fromkeys(group.names for group in GROUPS))


def curator(codes, unit=None, **options):
    table = Table.from_codes(codes, DOMAIN, private=True)
    if unit is not None:
        table = table.capped(unit, unit="household", at_most=3)
    return Curator(table, WORKLOAD, Budget.zcdp(10**9), rng=0, **options)


@pytest.fixture
def without_noise(monkeypatch):
    monkeypatch.setattr(Noise, "add", lambda self, counts, stream: counts.copy())


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_answers_of_neighbours_differ_by_the_sensitivity(group, without_noise):
    draws, worst = np.random.default_rng(1), {"replace": [0, 0], "add": [0, 0], "unit": [0, 0]}
    highest = [size - 1 for size in DOMAIN.sizes]
    every = np.array(list(np.ndindex(DOMAIN.sizes)))
    others = draws.integers(0, [5, 2, 3], (4, 3))
    added = {"neighbors": Neighbors.ADD_REMOVE_ONE, "public_n": 5}
    households = [0, 1, 2, 3, *[9] * 3]
    for place in draws.choice(len(every) ** 2, 60):
        one, other = every[place // len(every)], every[place % len(every)]
        pairs = {
            "replace": (curator([*others, one]), curator([*others, other])),
            "add": (curator(others, **added), curator([*others, one], **added)),
            "unit": (
                curator([*others, *[one] * 3], households),
                curator([*others, *[other] * 3], households),
            ),
        }
        for kind, (here, there) in pairs.items():
            moved = here.measure_queries(group, rho=1) - there.measure_queries(group, rho=1)
            paid = here.ledger.events[-1].l2_sensitivity_squared
            here.measure_queries(group, epsilon=1)
            assert (moved**2).sum() <= paid
            assert np.abs(moved).sum() <= here.ledger.events[-1].l1_sensitivity
            worst[kind][0] = max(worst[kind][0], (moved**2).sum() / paid)
    assert len(highest) == 3
    assert worst["replace"][0] == worst["unit"][0]
    assert worst["replace"][0] > 0.5


def test_an_answer_is_that_of_the_counts(without_noise):
    codes = np.random.default_rng(2).integers(0, [5, 2, 3], (50, 3))
    door = curator(codes)
    assert (
        door.measure_queries(GROUPS[1], rho=1).reshape(5, 2)[2, 1]
        == ((codes[:, 0] <= 2) & (codes[:, 1] == 1)).sum()
    )
    totals = door.measure_queries(GROUPS[3], rho=1).reshape(2, 2)
    women = codes[codes[:, 1] == 0, 0]
    assert totals[:, 0].tolist() == [np.minimum(women, 3).sum(), len(women)]


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("age", "must be a QueryGroup"),
        (prefix("age").on(Domain({"age": 5})), "on the domain of the workload"),
        (prefix("rooms").on(DOMAIN), "is not in the workload"),
    ],
)
def test_a_bad_group_is_refused_and_nothing_is_spent(group, said):
    door = curator([[0, 0, 0]])
    with pytest.raises((TypeError, ValueError), match=said):
        door.measure_queries(group, rho=1)
    assert door.ledger.events == ()
