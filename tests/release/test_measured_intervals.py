"""Intervals by what was measured alone: by hand, how often they hold the truth, and what they do not know."""

from statistics import NormalDist

import numpy as np
import pytest

import privmw as pmw
from privmw.extensions.population import draw_population
from privmw.release import Measurement, Release
from privmw.release.errors import measured_intervals_of

DOMAIN = pmw.Domain({"a": 2, "b": 3, "c": 2})
TWICE = NormalDist().inv_cdf(0.975)


def released(workload, measurements, n=1000):
    support = pmw.Support.full(DOMAIN)
    ledger = pmw.accounting.Ledger(pmw.Budget.zcdp(1), pmw.accounting.Neighbors.REPLACE_ONE, n=n)
    return Release(support, workload, support.start(), measurements=measurements, ledger=ledger, settings={})


def test_marginals_that_contain_the_asked_one_are_combined_by_inverse_variances():
    workload = pmw.Workload(DOMAIN, [("a", "b"), ("a", "c")])
    first = Measurement(np.arange(6), [100, 100, 100, 200, 200, 300], "discrete-gaussian", 10.0, 0)
    second = Measurement(np.arange(6, 10), [150, 170, 330, 350], "discrete-gaussian", 5.0, 0)
    found = measured_intervals_of(released(workload, [first, second]), 0.95, pmw.Workload(DOMAIN, [("a",)]))
    variances = np.array([3 * first.variance, 2 * second.variance]) / 1000**2
    middle = (0.3 / variances[0] + 0.32 / variances[1]) / (1 / variances).sum()
    deviation = 1 / np.sqrt((1 / variances).sum())
    assert found.deviations == pytest.approx([deviation, deviation])
    assert found.noisy[0] == pytest.approx(middle)
    assert found.low[0] == pytest.approx(middle - TWICE * deviation)
    assert found.high[0] == pytest.approx(middle + TWICE * deviation)


def test_what_no_measured_marginal_contains_is_not_known():
    workload = pmw.Workload(DOMAIN, [("a", "b"), ("a", "c")])
    whole = Measurement(np.arange(6), [1, 2, 3, 4, 5, 6], "discrete-gaussian", 10.0, 0)
    part = Measurement([6], [7], "discrete-gaussian", 10.0, 0)
    found = measured_intervals_of(
        released(workload, [whole, part]), 0.95, pmw.Workload.all(DOMAIN, k=[1, 2, 3])
    )
    names = [
        marginal
        for j, marginal in enumerate(found.workload)
        if found.offered[found.workload.offsets[j] : found.workload.offsets[j + 1]].all()
    ]
    assert names == [("a",), ("b",), ("a", "b")]
    assert not measured_intervals_of(released(workload, [])).offered.any()


def test_an_interval_lies_between_0_and_1_and_keeps_its_width_at_an_end():
    workload = pmw.Workload(DOMAIN, [("a",)])
    noisy = Measurement([0, 1], [-400, 1500], "discrete-gaussian", 10.0, 0)
    found = measured_intervals_of(released(workload, [noisy]))
    reach = TWICE * np.sqrt(noisy.variance) / 1000
    assert found.low.tolist() == pytest.approx([0, 1 - reach])
    assert found.high.tolist() == pytest.approx([reach, 1])


def test_laplace_noise_has_its_own_wider_quantile():
    workload = pmw.Workload(DOMAIN, [("a",)])
    noisy = Measurement([0, 1], [500, 500], "discrete-laplace", 50.0, 0)
    found = measured_intervals_of(released(workload, [noisy]), 0.95)
    noise = np.arange(-5000, 5001)
    chance = np.exp(-np.abs(noise) / 50.0)
    inside = np.abs(noise) <= (found.high[0] - 0.5) * 1000 + 1e-9
    assert 0.949 < chance[inside].sum() / chance.sum() < 0.953


@pytest.mark.parametrize(
    ("method", "options"), [("PEP", {}), ("MWPub", {"rounds": 30, "measure": "marginal"})]
)
def test_they_hold_the_truth_as_often_as_they_say(method, options):
    """About 800 cells of three orders: half the deviation would hold only 67 % of them."""
    public = draw_population(2_000, attributes=6, seed=1)
    private = draw_population(20_000, attributes=6, shift=1.0, seed=2, private=True)
    support, workload = pmw.Support.from_table(public), pmw.Workload.all(public.domain, k=2)
    options = {"select": "all", **options} if method == "PEP" else options
    held = []
    for seed in range(5):
        mechanism = getattr(pmw, method)(**options).calibrate(epsilon=1.0, delta=1e-9)
        release = mechanism(private, support, workload, rng=seed)
        asked = pmw.Workload.all(public.domain, k=[1, 2])
        found, true = measured_intervals_of(release, 0.95, asked), private.counts(asked) / private.n
        inside = (found.low <= true) & (true <= found.high)
        held.append(inside[found.offered].mean())
    assert 0.93 <= np.mean(held) <= 0.99  # cells near 0 are held more often: their intervals begin there


def test_noise_of_cells_of_one_marginal_is_independent():
    """The sum of some cells has the sum of their variances: 800 draws, z of its spread within 4."""
    workload = pmw.Workload.all(DOMAIN, k=2)
    asked, noises = pmw.Workload(DOMAIN, [("b",)]), np.random.default_rng(5)
    sums = []
    for _ in range(800):
        counts = np.rint(noises.normal(100, 20, workload.cells)).astype(np.int64)
        noisy = Measurement(np.arange(workload.cells), counts, "discrete-gaussian", 20.0, 0)
        found = measured_intervals_of(released(workload, [noisy]), 0.95, asked)
        sums.append(found.noisy[:2].sum())
    ratio = np.var(sums) / np.square(found.deviations[:2]).sum()
    assert abs(ratio - 1) < 4 * np.sqrt(2 / 800)  # dependence of .4 would give a ratio of 1.4


def test_levels_and_workloads_are_checked():
    release = released(pmw.Workload(DOMAIN, [("a",)]), [])
    with pytest.raises(ValueError, match=r"level \(1.0\) must be above 0 and below 1"):
        measured_intervals_of(release, 1.0)
    with pytest.raises(ValueError, match="must be on the domain"):
        measured_intervals_of(release, 0.9, pmw.Workload.all(pmw.Domain({"x": 2}), k=1))
