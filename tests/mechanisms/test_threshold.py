"""Counts that vanish below a threshold: exact laws of neighbours, their delta, the least threshold."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from privmw import Budget, BudgetError, Domain, Table, Workload
from privmw.accounting import Ledger, Neighbors, ThresholdedLaplace, delta_from_threshold, threshold_for_delta
from privmw.curator import Curator
from privmw.mechanisms import Threshold, add_thresholded_laplace


def law_of_cell(count, event):
    """The chance of every output of one cell: vanished, and then every noisy count from the threshold on."""
    p = math.exp(-1 / event.scale)
    shown = np.arange(event.threshold, event.threshold + math.ceil(40 * event.scale))
    law = (1 - p) / (1 + p) * p ** np.abs(shown - count) * (count > 0)
    return np.append(1 - law.sum(), law)


def hockey_stick(here, there, event):
    """The least delta at which two pairs of counts are e^epsilon-close, exactly, one way."""
    p, q = (np.outer(*(law_of_cell(count, event) for count in counts)) for counts in (here, there))
    return np.maximum(p - math.exp(event.epsilon) * q, 0).sum()


NEIGHBOURS = [
    # added or removed records: L1 sensitivity 1
    (1, 1, [((0, 8), (1, 8)), ((1, 8), (2, 8)), ((3, 0), (4, 0)), ((9, 8), (10, 8))]),
    # a replaced record: it leaves one cell and enters another
    (2, 1, [((1, 0), (0, 1)), ((5, 0), (4, 1)), ((1, 5), (0, 6)), ((2, 2), (1, 3)), ((9, 3), (8, 4))]),
    # a unit of three records, replaced
    (6, 3, [((3, 0), (0, 3)), ((3, 1), (0, 4)), ((1, 2), (0, 3)), ((7, 0), (4, 3)), ((4, 2), (6, 0))]),
]


@pytest.mark.parametrize(("l1", "records", "pairs"), NEIGHBOURS)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (0.5, 0.2), (4.0, 1e-3)])
def test_laws_of_neighbours_are_within_epsilon_and_delta(l1, records, pairs, epsilon, delta):
    event = Threshold.prepare(size=2, l1_sensitivity=l1, epsilon=epsilon, delta=delta, records=records).event
    both = [*pairs, *(pair[::-1] for pair in pairs)]
    found = max(hockey_stick(*pair, event) for pair in both)
    assert found <= event.delta * (1 + 1e-9)
    p = math.exp(-1 / event.scale)
    assert found >= p ** (event.threshold - records) / (1 + p) * (1 - 1e-9)  # all in one cell: it is attained
    if records == 1 and event.threshold > 2:  # then a threshold one too low is seen
        low = ThresholdedLaplace(event.scale, l1, event.threshold - 1)
        assert max(hockey_stick(*pair, low) for pair in both) > delta


def test_many_small_cells_of_one_unit_are_paid_for_together():
    # m cells of one record each: the chance that any appears
    event = ThresholdedLaplace(1.0, 10, 12, records=5)
    p = math.exp(-1)
    one = p**11 / (1 + p)
    assert 1 - (1 - one) ** 5 <= event.delta
    assert p**7 / (1 + p) == pytest.approx(event.delta)  # here five records in one cell are worse
    wide = ThresholdedLaplace(50.0, 10, 300, records=5)
    p = math.exp(-1 / 50)
    assert 5 * p**299 / (1 + p) == pytest.approx(wide.delta)


@pytest.mark.parametrize("records", [1, 4])
def test_the_delta_is_just_above_the_truth_and_the_threshold_is_the_least(records):
    for delta in [0.3, 1e-3, 1e-9, 1e-200]:
        for scale in [0.3, 1.0, 2.5, 40.0, 2.0**20]:
            threshold = threshold_for_delta(delta, scale, records)
            claimed = delta_from_threshold(threshold, scale, records)
            with localcontext() as context:
                context.prec = 60
                p = (-1 / Decimal(scale)).exp()
                truth = max(records * p ** (threshold - 1), p ** (threshold - records)) / (1 + p)
                assert truth <= Decimal(claimed) <= truth * (1 + Decimal(2) ** -51)
            assert claimed <= delta
            if threshold > records + 1:
                assert delta_from_threshold(threshold - 1, scale, records) > delta


def test_cells_without_a_record_never_appear_and_others_show_count_plus_noise():
    counts = np.tile([0, 1, 50, 1000], 20_000)
    noisy, event = add_thresholded_laplace(counts, l1_sensitivity=2, epsilon=0.5, delta=0.4, rng=1)
    by_count = noisy.reshape(-1, 4).T
    assert not by_count[0].any()
    assert by_count[1].any()  # at a delta this large
    assert (noisy[noisy != 0] >= event.threshold).all()
    assert counts.tolist() == [0, 1, 50, 1000] * 20_000
    assert not noisy[noisy < event.threshold].any()
    law = law_of_cell(1, event)
    appeared = int((by_count[1] != 0).sum())
    assert stats.binomtest(appeared, 20_000, 1 - law[0]).pvalue > 1e-9
    assert stats.binomtest(appeared, 20_000, 0.9 * (1 - law[0])).pvalue < 1e-9


def test_the_curator_charges_epsilon_and_delta_before_it_looks():
    domain = Domain({"a": 3, "b": 2})
    table = Table.from_codes([[0, 0]] * 40 + [[1, 1]] * 2, domain, private=True)
    workload = Workload(domain, [("a", "b"), ("a",)])
    budget = Budget.approximate(2, 1e-6, composition="advanced", event_delta=1e-6)
    with Curator(table, workload, budget, rng=5) as curator:
        noisy = curator.measure_thresholded(0, epsilon=1, delta=5e-7)
        assert noisy.shape == (6,)
        assert not noisy[1:].any()
        assert abs(noisy[0] - 40) < 25
        (event,) = curator.ledger.events
        assert (event.l1_sensitivity, event.records, event.size, event.epsilon) == (2, 1, 6, 1.0)
        assert 0 < curator.ledger.delta <= 5e-7
        with pytest.raises(BudgetError, match="event_delta"):
            curator.measure_thresholded(1, epsilon=0.5, delta=9e-7)
        with pytest.raises(BudgetError, match="epsilon would be"):
            curator.measure_thresholded(1, epsilon=1.5, delta=1e-8)
        assert curator.ledger.events == (event,)
        curator.measure_thresholded(1, epsilon=1, delta=4e-7)
        assert curator.ledger.epsilon(1e-6) == 2.0
        assert Ledger.from_json(curator.ledger.to_json()) == curator.ledger
    with Curator(table, workload, Budget.pure(1)) as curator, pytest.raises(BudgetError):
        curator.measure_thresholded(0, epsilon=1, delta=1e-7)


def test_the_curator_pays_for_units_and_for_neighbours_by_addition():
    domain = Domain({"a": 3, "b": 2})
    table = Table.from_codes([[0, 0]] * 40, domain, private=True)
    budget = Budget.approximate(4, 1e-5, composition="advanced", event_delta=1e-5)
    workload = Workload.all(domain, k=2)
    units = table.capped(np.arange(40) // 4, unit="household", at_most=3)
    with Curator(units, workload, budget, rng=1) as curator:
        curator.measure_thresholded(0, epsilon=1, delta=1e-6)
        (event,) = curator.ledger.events
        assert (event.l1_sensitivity, event.records, event.scale) == (6, 3, 6.0)
    add = {"neighbors": Neighbors.ADD_REMOVE_ONE, "public_n": 40}
    with Curator(table, workload, budget, rng=1, **add) as curator:
        curator.measure_thresholded(0, epsilon=1, delta=1e-6)
        (event,) = curator.ledger.events
        assert (event.l1_sensitivity, event.records, event.scale) == (1, 1, 1.0)


BAD = [
    ({"delta": 0}, ValueError, r"delta \(0\) must be above 0 and below 1"),
    ({"delta": 1.5}, ValueError, r"delta \(1\.5\)"),
    ({"delta": "small"}, TypeError, "delta"),
    ({"epsilon": 0}, ValueError, r"epsilon \(0\) must be positive"),
    ({"epsilon": 1e-14}, ValueError, "must be at most 2\\^40"),
    ({"records": 0}, ValueError, r"records \(0\) must be positive"),
    ({"records": 1.5}, TypeError, "records"),
]


@pytest.mark.parametrize(("changed", "kind", "message"), BAD)
def test_bad_parameters_are_refused(changed, kind, message):
    options = {"l1_sensitivity": 2, "epsilon": 1, "delta": 1e-6, **changed}
    with pytest.raises(kind, match=message):
        add_thresholded_laplace(np.array([3, 4]), **options)


def test_bad_calls_of_the_curator_spend_nothing():
    domain = Domain({"a": 3, "b": 2})
    table = Table.from_codes([[0, 0]] * 40, domain, private=True)
    budget = Budget.approximate(4, 1e-5, composition="advanced", event_delta=1e-5)
    with Curator(table, Workload.all(domain, k=2), budget) as curator:
        for bad in (-1, 1, 0.5, "a"):
            with pytest.raises((TypeError, ValueError)):
                curator.measure_thresholded(bad, epsilon=1, delta=1e-6)
        with pytest.raises(ValueError, match="delta"):
            curator.measure_thresholded(0, epsilon=1, delta=0)
        assert curator.ledger.events == ()


def test_a_threshold_that_one_unit_reaches_is_no_threshold():
    with pytest.raises(ValueError, match=r"threshold \(3\) must be above the records \(3\)"):
        ThresholdedLaplace(2.0, 6, 3, records=3)
    with pytest.raises(ValueError, match=r"threshold \(3\) must be above the records \(3\)"):
        delta_from_threshold(3, 2.0, 3)
