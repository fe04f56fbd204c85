"""Ledgers as DpEvents, in the real dp_accounting: its totals are never below ours, nor short of a count."""

import math

import pytest

from privmw.accounting import (
    Budget,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Ledger,
    Neighbors,
    Parallel,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    ResidualGaussian,
    Sequential,
    ThresholdedLaplace,
)

peer = pytest.importorskip("dp_accounting", reason="dp-accounting comes with privmw[test]")
adapter = pytest.importorskip("privmw.extensions.adapters.dp_accounting")

EVENTS = [
    ExponentialMechanism(0.1, candidates=100, count=100),
    PermuteAndFlip(0.25, candidates=7, count=3),
    ReportNoisyMax(0.5, candidates=7),
    RandomizedResponse(0.125, size=40, count=2),
    DiscreteGaussian(sigma=5, l2_sensitivity_squared=2, size=6, count=4),
    DiscreteLaplace(scale=9, l1_sensitivity=2, size=6, count=5),
    Sequential((PermuteAndFlip(0.25, candidates=3), DiscreteGaussian(20, 1)), count=5),
    Parallel((DiscreteGaussian(4, 1), DiscreteGaussian(8, 1)), count=2),
]


def charged(*events):
    ledger = Ledger(Budget.zcdp(100, event_delta=1e-4), Neighbors.REPLACE_ONE, n=1000)
    for event in events:
        ledger.charge(event)
    return ledger


def by_rdp(dp_event, delta):
    accountant = peer.rdp.RdpAccountant(neighboring_relation=peer.NeighboringRelation.REPLACE_ONE)
    return accountant.compose(dp_event).get_epsilon(delta)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_rdp_totals_of_an_event_are_not_below_ours(event, delta):
    ours, theirs = charged(event).epsilon(delta), by_rdp(event.to_dp_event(), delta)
    assert theirs >= ours * (1 - 1e-12)
    assert theirs == pytest.approx(adapter.rdp_epsilon(charged(event), delta), rel=1e-12)


def test_rdp_totals_of_a_ledger_are_not_below_ours_and_close_to_its_rho():
    ledger = charged(*EVENTS, *EVENTS)
    theirs = by_rdp(ledger.to_dp_event(), 1e-9)
    assert ledger.epsilon(1e-9) * (1 - 1e-12) <= theirs <= ledger.epsilon(1e-9) * 1.01
    assert len(ledger.to_dp_event().events) == len(EVENTS)  # equal costs are counted together


def test_a_hundred_exponential_mechanisms_cost_a_hundred_times_one():
    # One run forgotten a hundred times would be 0.27: this is why no event of a like name is emitted.
    event = ExponentialMechanism(0.1, candidates=9, count=100)
    assert by_rdp(event.to_dp_event(), 1e-9) == pytest.approx(3.0581, abs=1e-3)
    assert by_rdp(ExponentialMechanism(0.1, candidates=9).to_dp_event(), 1e-9) < 0.3


def test_their_own_randomized_response_forgets_its_count_and_ours_does_not():
    once, often = (peer.pld.PLDAccountant(peer.NeighboringRelation.REPLACE_ONE) for _ in range(2))
    once.compose(peer.RandomizedResponseDpEvent(0.5, 2))
    often.compose(peer.RandomizedResponseDpEvent(0.5, 2), 100)
    assert once.get_epsilon(1e-6) == often.get_epsilon(1e-6), "mended there: say so in the adapter"
    twice = charged(RandomizedResponse(1, size=9, count=2))
    assert adapter.pld_epsilon(twice, 1e-9) == pytest.approx(2, abs=1e-3)


def test_pld_totals_of_noise_lie_below_ours_and_above_the_exact_divergence():
    ledger = charged(DiscreteGaussian(sigma=3, l2_sensitivity_squared=2, size=6))
    epsilon = adapter.pld_epsilon(ledger, 1e-3)
    assert epsilon < ledger.epsilon(1e-3)
    # The exact delta of (x + z) against (x + z shifted by one in two cells), by enumeration.
    masses = {z: math.exp(-(z**2) / 18) for z in range(-60, 61)}
    total = sum(masses.values())
    pairs = [
        (p * q, masses.get(a - 1, 0) * masses.get(b - 1, 0))
        for a, p in masses.items()
        for b, q in masses.items()
    ]
    exact = sum(max(p - math.exp(epsilon) * q, 0) for p, q in pairs) / total**2
    assert exact <= 1e-3 * (1 + 1e-9)
    assert exact > 0.98e-3


def test_continuous_noise_would_promise_too_much():
    # Why DiscreteGaussian is no GaussianDpEvent: at its epsilon the discrete delta is larger.
    gaps = []
    for sigma in (0.6, 0.7, 0.8, 1.0):
        continuous = peer.get_epsilon_gaussian(sigma, 1e-3)
        discrete = adapter.pld_epsilon(charged(DiscreteGaussian(sigma, 1)), 1e-3)
        gaps.append(discrete - continuous)
    assert max(gaps) > 0.01


def test_pure_events_have_the_loss_of_the_worst_pure_mechanism():
    ledger = charged(DiscreteLaplace(scale=4, l1_sensitivity=2), PermuteAndFlip(0.25, candidates=9))
    assert adapter.pld_epsilon(ledger, 1e-12) == pytest.approx(0.75, abs=1e-3)


def test_deltas_of_events_are_taken_off_or_refused():
    event = ThresholdedLaplace(scale=2, l1_sensitivity=2, threshold=29)
    ledger = charged(event)
    for spent in (event, ledger):
        with pytest.raises(ValueError, match=r"^event \(.*\) must have no delta"):
            spent.to_dp_event()
    assert adapter.rdp_epsilon(ledger, 1e-6) >= ledger.epsilon(1e-6)
    assert adapter.rdp_epsilon(ledger, 1e-6) > by_rdp(peer.ZCDpEvent(0.5), 1e-6)
    assert adapter.pld_epsilon(ledger, 1e-6) == pytest.approx(1, abs=1e-3)
    assert adapter.pld_epsilon(ledger, 1e-7) == math.inf


def test_what_has_no_known_loss_is_refused():
    for event in (ResidualGaussian((2, 3), ((0,), (0, 1)), (10.0, 10.0)), DiscreteGaussian(9, 4), EVENTS[-1]):
        with pytest.raises(ValueError, match=r"^event \(.*\) must have a pure cost"):
            adapter.pld_epsilon(charged(event), 1e-6)
    with pytest.raises(TypeError, match=r"spent \(0\.5\) must be an Event or a Ledger"):
        adapter.to_dp_event(0.5)
    with pytest.raises(ValueError, match=r"^delta \(0\) must "):
        adapter.rdp_epsilon(charged(EVENTS[0]), 0)


def test_an_event_of_someone_else_is_told_by_its_cost():
    class Mine(Event):
        kind = "mine"
        count = 4
        cost_of_one = PermuteAndFlip(1, candidates=2).cost_of_one

    assert Mine().to_dp_event() == peer.SelfComposedDpEvent(peer.ZCDpEvent(0.5), 4)
