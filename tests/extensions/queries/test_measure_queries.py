"""Queries measured directly: close to the truth by their own deviations, in frames, charged and refused."""

import numpy as np
import pytest

import privmw as pmw
from privmw.extensions import queries as q

DOMAIN = pmw.Domain({"age": 20, "sex": ["F", "M"], "wage": {"edges": [0, 10, 20, 40], "missing": "none"}})
CODES = np.random.default_rng(4).integers(0, DOMAIN.sizes, (3000, 3))
PRIVATE = pmw.Table.from_codes(CODES, DOMAIN, private=True)
PUBLIC = pmw.Table.from_codes(CODES, DOMAIN, private=False)
ASKED = [q.prefix("age") * q.marginal("sex"), q.sums("wage", by=["sex"], lower=0, upper=40, step=5)]


def truths():
    groups = [each.on(DOMAIN) for each in ASKED]
    counts = [PUBLIC.counts(pmw.Workload(DOMAIN, [group.names])) for group in groups]
    return [group.apply(count).ravel() * group.unit for group, count in zip(groups, counts, strict=True)]


@pytest.mark.parametrize("budget", [{"rho": 0.1}, {"epsilon": 1}, {"rho": 0.1, "public_n": 3000}])
def test_answers_are_off_by_their_standard_errors(budget):
    runs = [q.measure_queries(PRIVATE, ASKED, rng=seed, **budget) for seed in range(20)]
    for place, truth in enumerate(truths()):
        errors = np.array([run.answers()[place] - truth for run in runs])
        assert np.sqrt((errors**2).mean()) == pytest.approx(runs[0].standard_errors()[place], rel=0.25)
    ledger = runs[0].ledger
    assert len(ledger.events) == 2
    assert ledger.epsilon(0) == pytest.approx(1) if "epsilon" in budget else ledger.rho == pytest.approx(0.1)
    assert not ledger.for_release


def test_a_release_answers_the_same_queries():
    others = np.random.default_rng(5).integers(0, DOMAIN.sizes, (2000, 3))
    support = pmw.Support.from_table(pmw.Table.from_codes(others, DOMAIN, private=False))
    workload = pmw.Workload.all(DOMAIN, k=2)
    release = pmw.PEP(select="all").calibrate(rho=0.1)(PRIVATE, support, workload, rng=0)
    for ours, truth in zip(q.answers_of(release, ASKED), truths(), strict=True):
        assert ours == pytest.approx(truth / 3000, rel=0.2, abs=0.02)


def test_a_frame_has_a_row_per_query():
    pytest.importorskip("pyarrow")
    frame = q.measure_queries(PRIVATE, ASKED, rho=0.1, rng=0).to_frame()
    assert frame.column_names == [
        "attribute_1",
        "query_1",
        "attribute_2",
        "query_2",
        "answer",
        "standard_error",
    ]
    rows = frame.to_pylist()
    assert len(rows) == 44
    assert [rows[3][name] for name in frame.column_names[:4]] == ["age", "<= 1", "sex", "M"]
    assert rows[40]["query_2"] == "sum in steps" or rows[40]["query_1"] == "F"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "exactly one of rho and epsilon"),
        ({"rho": 1, "epsilon": 1}, "exactly one of rho and epsilon"),
        ({"rho": -1}, "rho"),
        ({"rho": 1e-30}, "at most 2\\^40"),
        ({"rho": 1, "asked": []}, "at least one group"),
        ({"rho": 1, "asked": "age"}, "a list of queries"),
        ({"rho": 1, "asked": [q.prefix("sex")]}, "has no order"),
        ({"rho": 1, "asked": [q.queries("sex", [[1, 1]])]}, "must depend on the records"),
        ({"epsilon": 1, "asked": [q.queries("sex", [[2, 1]]) * q.queries("age", [[2] * 20])]}, "Use rho"),
    ],
)
def test_bad_requests_are_refused(options, said):
    with pytest.raises((TypeError, ValueError), match=said):
        q.measure_queries(PRIVATE, options.pop("asked", ASKED), **options)


def test_algorithms_refuse_a_group_as_their_workload():
    with pytest.raises(TypeError, match="must be a Workload"):
        pmw.MWEM(rounds=1).release(PRIVATE, None, ASKED[0].on(DOMAIN), epsilon=1, delta=0)
