"""Synthetic records have no value that is declared for safety only, unless the noisy counts show it."""

import numpy as np
import pytest

import privmw as pmw
from privmw.accounting import Ledger, Neighbors
from privmw.release import Release
from privmw.release.measurements import Measurement

DOMAIN = pmw.Domain(
    {
        "sex": {"labels": ["F", "M"], "other": "else", "missing": "none"},
        "age": {"edges": [0, 18, 65], "missing": "?"},
    }
)
WORKLOAD = pmw.Workload(DOMAIN, [("sex",), ("sex", "age")])
ROWS = [[0, 0], [1, 1], [2, 0], [3, 1], [1, 2]]  # the last three have an extra value each


def release(noisy_missing=None, scale=3.0, public=2):
    support = pmw.Support.from_table(pmw.Table.from_codes(ROWS[:public], DOMAIN, private=False))
    support = support.with_rows(ROWS).support
    measurements = []
    if noisy_missing is not None:
        counts = np.zeros(12, np.int64)
        counts[9:] = [noisy_missing, 0, 0]  # sex none, by age
        measured = Measurement(np.arange(4, 16), counts, "discrete-gaussian", scale=scale, round=0)
        measurements = [measured]
    ledger = Ledger(pmw.Budget.zcdp(1), Neighbors.REPLACE_ONE, n=1_000)
    weights = [0.3, 0.3, 0.2, 0.1, 0.1]
    return Release(support, WORKLOAD, weights, measurements=measurements, ledger=ledger, settings={})


def values(records):
    return {tuple(row) for row in records.codes().tolist()}


def test_other_values_that_no_public_record_has_appear_only_when_asked_for():
    made = release()
    assert {(2, 0)} & values(made.sample(seed=0)) == set()
    assert values(made.sample(seed=0, unseen=True)) == set(map(tuple, ROWS))
    assert made.sample(seed=0).n == 1_000


def test_values_that_public_records_have_stay():
    assert (2, 0) in values(release(public=3).sample(seed=0))


@pytest.mark.parametrize(("noisy", "stays"), [(0, False), (20, False), (22, True)])
def test_missing_values_stay_where_noisy_counts_show_them(noisy, stays):
    # The missing sexes are the sum of three cells: 4 standard deviations of 3 sqrt(3) are 20.8.
    found = values(release(noisy).sample(seed=0))
    assert ((3, 1) in found) == stays
    assert (1, 2) not in found  # ages: no noisy count is above 4 standard deviations
    assert (2, 0) not in found


def test_the_other_rows_keep_their_proportions():
    records = release(0).sample(10_000, seed=1)
    shares = np.bincount(records.column("sex"), minlength=4) / records.n
    assert shares == pytest.approx([0.5, 0.5, 0, 0], abs=1e-4)


def test_a_release_of_such_rows_alone_is_sampled_all_the_same():
    support = pmw.Support.from_table(pmw.Table.from_codes([[0, 0]], DOMAIN, private=False)).with_rows(
        [[2, 0]]
    )
    ledger = Ledger(pmw.Budget.zcdp(1), Neighbors.REPLACE_ONE, n=10)
    made = Release(support.support, WORKLOAD, [0.0, 1.0], ledger=ledger, settings={})
    assert values(made.sample(seed=0)) == {(2, 0)}


def paired(noisy, mass=0.01, scale=3.0):
    """A release whose third row is a pair of values that no public record has, and its noisy counts."""
    domain = pmw.Domain({"sex": ["F", "M"], "age": 3})
    workload = pmw.Workload.all(domain, k=2)
    public = pmw.Table.from_codes([[0, 0], [1, 1], [0, 2]], domain, private=False)
    support = pmw.Support.from_table(public).with_rows([[1, 0]]).support
    measured = Measurement(np.arange(6), noisy, "discrete-gaussian", scale=scale, round=0)
    ledger = Ledger(pmw.Budget.zcdp(1), Neighbors.REPLACE_ONE, n=1_000)
    weights = np.where(support.counts == 0, mass, (1 - mass) / 3)
    made = Release(support, workload, weights, measurements=[measured], ledger=ledger, settings={})
    return values(made.sample(seed=0))


# Cells: F0, F1, F2, M0, M1, M2. No public record has F1, M0 or M2; the release has a row M0.
@pytest.mark.parametrize(
    ("noisy", "stays"),
    [
        ([500, 0, 200, 8, 200, 0], False),  # 2.7 standard deviations, and 1.5 of all three
        ([500, -10, 200, 10, 200, 0], True),  # the pair is significant
        ([500, 3, 200, 8, 200, 0], True),  # the three pairs together are: 11 is above 2 * 3 sqrt(3)
    ],
)
def test_pairs_of_values_that_no_public_record_has_stay_where_noisy_counts_show_them(noisy, stays):
    assert ((1, 0) in paired(noisy)) == stays


def test_pairs_that_carry_many_records_stay():
    assert (1, 0) in paired([500, 0, 200, 8, 200, 0], mass=0.03)
