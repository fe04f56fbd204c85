"""The loop: what it spends, what it releases, and that a slow truth fed with the same choices agrees."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from algorithms.cases import DOMAIN, FULL, MW_OPTIONS, PEP_OPTIONS, WORKLOAD, N, private, support
from privmw import (
    FEM,
    MWEM,
    PEP,
    Budget,
    DualQuery,
    MWEMPub,
    MWPub,
    Support,
    Workload,
)
from privmw.accounting import DiscreteGaussian, DiscreteLaplace
from privmw.curator import Curator
from privmw.random import sampling_stream
from privmw.release.history import Round
from truth import reference


def mw(rho=0.5, table=None, **options):
    configured = {name: value for name, value in options.items() if name in MWPub.__dataclass_fields__}
    of_run = {name: value for name, value in options.items() if name not in configured}
    algorithm = MWPub(**{"rounds": FULL["rounds"], **configured})
    return algorithm.release(
        table or private(), support(), WORKLOAD, rho=rho, **{"rng": FULL["rng"], **of_run}
    )


def rounds_of(release):
    """The measurements of each round, as the slow truth takes them."""
    numbers = sorted({m.round for m in release.measurements})
    return [
        [(m.cells, m.noisy_counts, m.variance) for m in release.measurements if m.round == number]
        for number in numbers
    ]


def truth(release, **options):
    places = [[list(DOMAIN).index(name) for name in marginal] for marginal in release.measured]
    columns = [np.asarray(column) for column in release.support.table.columns]
    held, offsets = reference.membership(columns, list(DOMAIN.sizes), places)
    kind = release.settings["start"]
    start = release.support.counts if kind == "public" else np.ones(release.support.size)
    return reference.multiplicative_weights(
        held,
        offsets,
        start.astype(float),
        release.n,
        rounds_of(release),
        replay=release.settings["replay"],
        output=release.settings["output"],
        shuffle=lambda number: sampling_stream(number).shuffle,
        **options,
    )


@pytest.mark.parametrize("name", MW_OPTIONS)
def test_multiplicative_weights_are_those_of_the_slow_truth(name):
    release = mw(**MW_OPTIONS[name])
    np.testing.assert_allclose(release.weights, truth(release), rtol=1e-12, atol=1e-14)
    assert np.abs(release.weights - support().start()).max() > 1e-3


@pytest.mark.parametrize("table_of", [lambda: private(), lambda: private(n=150, skew=3.0)])
def test_the_mechanisms_of_2012_and_2020_agree_with_the_slow_truth(table_of):
    pure = MWEM(rounds=6).release(table_of(), None, WORKLOAD, epsilon=2.0, delta=0, rng=3)
    advanced = MWEMPub(rounds=6).calibrate(2.0, 1e-6)(table_of(), support(), WORKLOAD, rng=3)
    for release in (pure, advanced):
        assert all(m.noise == "discrete-laplace" for m in release.measurements)
        np.testing.assert_allclose(release.weights, truth(release), rtol=1e-12, atol=1e-14)
    assert pure.support == Support.full(DOMAIN)


def test_the_slow_truth_would_notice():
    release = mw(**MW_OPTIONS["paper"])
    right = truth(release)
    columns = [np.asarray(column) for column in release.support.table.columns]
    places = [[list(DOMAIN).index(name) for name in marginal] for marginal in WORKLOAD]
    held, offsets = reference.membership(columns, list(DOMAIN.sizes), places)
    start, rounds = support().counts.astype(float), rounds_of(release)
    for wrong in ({"replay": "none"}, {"replay": "fresh", "shuffle": lambda number: lambda items: None}):
        other = reference.multiplicative_weights(held, offsets, start, N, rounds, **wrong)
        assert np.abs(other - right).max() > 1e-6
    overwritten = [[(cells, counts + 20, variance) for cells, counts, variance in one] for one in rounds]
    other = reference.multiplicative_weights(held, offsets, start, N, overwritten, replay="paper")
    assert np.abs(other - right).max() > 1e-6


RUNS = {
    **{f"MWPub, {name}": MWPub(**{"rounds": 6, **MW_OPTIONS[name]}) for name in MW_OPTIONS},
    **{f"PEP, {name}": PEP(**{"rounds": 6, **PEP_OPTIONS[name]}) for name in PEP_OPTIONS},
    "MWEM": MWEM(rounds=6),
    "MWEM, warm-up": MWEM(rounds=6, warm_up=0.5),
    "MWEMPub": MWEMPub(rounds=6),
    "DualQuery": DualQuery(rounds=6, samples=4),
    "DualQuery, public rows": DualQuery(rounds=5, samples=3, oracle="support"),
    "FEM": FEM(rounds=6, samples=4),
}


def mechanisms(algorithm):
    return algorithm.calibrate(rho=0.3), algorithm.calibrate(1.5, 1e-7), algorithm.calibrate(1.5, 0)


NOISE = (DiscreteGaussian, DiscreteLaplace)


@pytest.mark.parametrize("name", RUNS)
def test_a_ledger_is_the_stated_cost_whatever_the_data(name):
    for mechanism in mechanisms(RUNS[name]):
        releases = [
            mechanism(table, support(), WORKLOAD, rng=5)
            for table in (private(), private(n=N, skew=0.3, seed=9))
        ]
        here, there = (release.ledger for release in releases)
        budget = mechanism.budget
        for ledger in (here, there):
            assert ledger.rho <= mechanism.rho
            assert ledger.rho == pytest.approx(mechanism.rho, rel=1e-12)
            assert budget.allows(ledger.total)
            assert float(budget.spent(ledger.total)) == pytest.approx(float(budget.limit), rel=1e-9)
            assert ledger.budget == budget
        if budget.delta is not None:
            assert here.epsilon(budget.delta) <= budget.epsilon
        assert len(here.events) == len(there.events)
        assert sum(e.count for e in here.events) == sum(e.count for e in mechanism.events)
        for one, other in zip(here.events, there.events, strict=True):
            # Of a marginal, the choice of which is released, only the size may differ.
            assert type(one) is type(other)
            assert one == other or isinstance(one, NOISE)
            assert one.rho == pytest.approx(other.rho, rel=1e-12)
        for ledger, release in zip((here, there), releases, strict=True):
            measured = [e for e in ledger.events if isinstance(e, NOISE)]
            assert [e.size for e in measured] == [len(m) for m in release.measurements]


def test_single_cells_leave_the_same_ledger_to_the_last_event():
    here, there = (mw(table=table).ledger for table in (private(), private(skew=0.3, seed=9)))
    assert here.events == there.events


def test_a_measurement_says_its_noise():
    release = mw(measure="marginal", warm_up=0.5)
    looks = MWPub(rounds=6, measure="marginal", warm_up=0.5).looks(Budget.zcdp(0.5))
    shares = {look.step: look.share for look in looks}
    shot, *rest = release.measurements
    assert (shot.round, len(shot)) == (0, WORKLOAD.cells)
    sizes = np.diff(WORKLOAD.offsets)
    moved = np.minimum(sizes, 2).sum()
    assert shot.scale == pytest.approx(math.sqrt(moved / (2 * shares["shot"])))
    assert [m.round for m in rest] == [1, 2, 3, 4, 5, 6]
    for m, entry in zip(rest, release.history[1:], strict=True):
        (marginal,) = entry.chosen
        assert m.cells.tolist() == list(range(*WORKLOAD.offsets[marginal : marginal + 2].tolist()))
        assert m.scale == pytest.approx(math.sqrt(min(len(m), 2) / (2 * shares["measure"])))


@pytest.mark.parametrize("unit", ["cell", "marginal"])
def test_measurements_are_what_the_rounds_chose_and_near_the_counts(unit):
    release = mw(rho=1e8, measure=unit, per_round=2, output="last")
    counts = private().counts(WORKLOAD)
    for m in release.measurements:
        assert m.noisy_counts.tolist() == counts[m.cells].tolist()
    chosen = [list(entry.chosen) for entry in release.history]
    found = [[m.cells for m in release.measurements if m.round == t] for t in range(1, 7)]
    if unit == "cell":
        assert [[int(c) for (c,) in cells] for cells in found] == chosen
    else:
        assert [[int(WORKLOAD.marginal_of(c[:1])[0]) for c in cells] for cells in found] == chosen
    assert all(len(set(pair)) == 2 for pair in chosen)


def test_a_shot_of_another_order_measures_marginals_that_are_not_asked():
    release = mw(select="all", order=1, rounds=None)
    assert list(release.measured) == [*WORKLOAD, *Workload.all(DOMAIN, k=1)]
    (shot,) = release.measurements
    assert shot.cells.tolist() == list(range(WORKLOAD.cells, release.measured.cells))
    (entry,) = release.history
    assert (entry.round, entry.chosen) == (0, ())
    assert math.isnan(entry.discrepancy)
    assert release.answers().shape == (WORKLOAD.cells,)
    again = mw(select="all", order=2, rounds=None)
    assert again.measured == WORKLOAD
    # Rounds choose among what is asked, though more is measured.
    warm = mw(warm_up=0.5, order=1, per_round=WORKLOAD.cells, rounds=1)
    assert sorted(warm.history[1].chosen) == list(range(WORKLOAD.cells))


def test_history_is_of_released_values():
    release = mw(per_round=2, measure="marginal", replay="none", output="last", rho=0.05)
    for entry in release.history:
        measured = [m for m in release.measurements if m.round == entry.round]
        assert entry.rho == pytest.approx(entry.round * release.ledger.rho / 6)
        # What the noisy counts say, not the true ones.
        worst = max(
            np.abs(m.noisy_counts / N - answers_after(release, entry.round, m)).max() for m in measured
        )
        assert entry.after == pytest.approx(worst, rel=1e-9)
    assert release.history[0].discrepancy == pytest.approx(
        max(
            np.abs(m.noisy_counts / N - support().answers(WORKLOAD)[m.cells]).max()
            for m in release.measurements
            if m.round == 1
        )
    )


def answers_after(release, number, measurement):
    start = release.support.counts.astype(float)
    places = [[list(DOMAIN).index(name) for name in marginal] for marginal in release.measured]
    columns = [np.asarray(column) for column in release.support.table.columns]
    held, offsets = reference.membership(columns, list(DOMAIN.sizes), places)
    weights = reference.multiplicative_weights(held, offsets, start, N, rounds_of(release)[:number])
    return held[measurement.cells] @ weights


@pytest.mark.parametrize("options", [{}, {"warm_up": 0.5}, {"select": "all", "rounds": None}])
def test_progress_sees_each_round_once_as_the_history_keeps_it(options):
    seen = []
    release = mw(progress=seen.append, **options)
    assert all(type(entry) is Round for entry in seen)
    assert tuple(seen) == release.history
    assert release == mw(**options)


class StopError(Exception):
    """What a caller's progress may raise."""


@pytest.mark.parametrize("error", [StopError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("after", [1, 3])
def test_an_interrupted_run_leaves_a_true_ledger_and_spends_no_more(error, after, monkeypatch):
    doors = []
    opened = Curator.__init__
    monkeypatch.setattr(
        Curator, "__init__", lambda self, *args, **more: doors.append(self) or opened(self, *args, **more)
    )

    def progress(entry):
        if entry.round == after:
            raise error

    whole = mw()
    with pytest.raises(error) as caught:
        mw(progress=progress)
    ledger = caught.value.ledger
    assert ledger.events == whole.ledger.events[: 2 * after]
    assert ledger is doors[-1].ledger
    assert doors[-1].closed
    with pytest.raises(ValueError, match="must be open"):
        doors[-1].measure([0], rho=1e-3)
    assert len(ledger.events) == 2 * after
    assert "Guarantee" in ledger.statement()


@pytest.mark.parametrize("step", ["select", "measure"])
def test_an_interrupt_within_a_look_is_paid_for(step, monkeypatch):
    inner = getattr(Curator, step)

    def interrupted(self, *args, **options):
        inner(self, *args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Curator, step, interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        mw()
    assert len(caught.value.ledger.events) == (1 if step == "select" else 2)


def test_an_interrupt_at_the_very_end_keeps_the_ledger(monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("privmw.algorithms.mechanism.Release", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        mw()
    assert len(caught.value.ledger.events) == 12


INTERRUPTED = """
import os, sys, time
sys.path[:0] = {path!r}
from algorithms.cases import WORKLOAD, private, support
from privmw import MWPub
try:
    def progress(entry):
        if entry.round == 3:
            print("ready", flush=True)
        time.sleep(0.01 if entry.round >= 3 else 0)
    release = MWPub(rounds=3000).release(private(), support(), WORKLOAD, rho=0.5, rng=3, progress=progress)
    release.save("finished.release")
except KeyboardInterrupt as stopped:
    events = stopped.ledger.events
    print(len(events), stopped.ledger.rho, stopped.ledger.budget.fits(events), os.listdir("."), flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="a real SIGINT is sent to a process of its own")
def test_a_real_interrupt_leaves_the_ledger_and_writes_nothing(tmp_path):
    program = textwrap.dedent(INTERRUPTED).format(path=[os.path.dirname(os.path.dirname(__file__))])
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said, failed = process.communicate(timeout=60)
    assert failed == ""
    events, rho, fits, left = said.split(maxsplit=3)
    assert 6 <= int(events) < 6000
    # Each choice costs as much as its noise, so so many looks cost so much.
    assert float(rho) == pytest.approx(int(events) * 0.5 / 6000, rel=1e-9)
    assert (fits, left.strip()) == ("True", "[]")


def test_the_same_seed_gives_the_same_release_and_another_another():
    first, again, other = mw(), mw(), mw(rng=4)
    assert first == again
    assert first.weights.tobytes() == again.weights.tobytes()
    assert first != other
    assert not first.ledger.for_release
    pep = [PEP(rounds=3).release(private(), support(), WORKLOAD, rho=0.5, rng=1) for _ in range(2)]
    assert pep[0] == pep[1]


def test_without_a_seed_a_run_is_for_release_and_never_the_same():
    # Two rounds of small noise agree by chance once in fifty runs; thirty do below once in 10^30.
    releases = [mw(rng=None, rounds=30) for _ in range(2)]
    assert all(release.ledger.for_release for release in releases)
    assert releases[0] != releases[1]
