"""Expected errors and intervals: against refits, in closed form, and by simulation with planted bugs."""

import math
from functools import cache

import numpy as np
import pytest

import privmw as pmw
from privmw.data.constraints import Constraints
from privmw.models.inputs import ModelInputs
from privmw.models.projected import ProjectionModel
from privmw.release import Measurement
from privmw.release.errors import expected
from privmw.release.errors.intervals import Refits, quantile
from privmw.release.errors.response import Response
from release.cases import release as by_hand

DOMAIN = pmw.Domain({"a": 4, "b": 3, "c": 3, "d": 2})
WORKLOAD = pmw.Workload.all(DOMAIN, k=2)
KAPPA, RHO = 400.0, 1e-6  # of 200,000 records: the fit follows about half of the noise


def start(seed=0):
    """A lumpy public distribution on the whole domain."""
    stream = np.random.default_rng(seed)
    counts = np.rint(1 + 300 * stream.gamma(0.4, size=DOMAIN.size)).astype(np.int64)
    full = pmw.Support.full(DOMAIN)
    return pmw.Support(full.table, counts)


def drawn_private(support, records, stream):
    """Private records that differ from the public ones as a sample of KAPPA records does."""
    truth = stream.multinomial(int(KAPPA), support.start()) / KAPPA
    rows = np.repeat(np.arange(support.size), stream.multinomial(records, truth))
    return pmw.Table.from_codes(support.rows[rows], DOMAIN, private=True)


@cache
def one_shot(seed=0, records=200_000):
    stream = np.random.default_rng(seed)
    support = start()
    private = drawn_private(support, records, stream)
    mechanism = pmw.PEP(select="all", prior_weight=KAPPA).calibrate(rho=RHO)
    return mechanism(private, support, WORKLOAD, rng=seed), private


def test_the_response_is_the_derivative_of_a_refit():
    release, _ = one_shot()
    (measurement,) = release.measurements
    response = Response(release, WORKLOAD)
    change = np.zeros(WORKLOAD.cells)
    change[[0, 7, 20]] = 60.0, -40.0, 80.0  # records of 200,000: nearly linear
    refitted = ProjectionModel(
        ModelInputs(release.support, WORKLOAD, WORKLOAD, release.n), prior_weight=KAPPA
    )
    counts = measurement.noisy_counts + change.astype(np.int64)
    refitted.update(
        [Measurement(measurement.cells, counts, measurement.noise, measurement.scale, 0)], last=True
    )
    moved = refitted.answers() - release.answers()
    near = 0.02 * np.abs(moved).max()
    followed, potentials = response.respond(change / measurement.scale)
    np.testing.assert_allclose(response.change_of(potentials), moved, atol=near)
    np.testing.assert_allclose(
        followed * measurement.scale / release.n, moved, atol=0.02 * np.abs(moved).max()
    )


def test_the_response_is_symmetric_with_eigenvalues_from_0_to_1():
    release, _ = one_shot()
    response = Response(release, WORKLOAD)
    matrix = np.array([response.respond(unit)[0] for unit in np.eye(WORKLOAD.cells)])
    np.testing.assert_allclose(matrix, matrix.T, atol=2e-3)
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    assert values.min() > -2e-3
    assert values.max() < 1
    assert (values > 0.05).sum() > 5  # something is learnt, and something is left
    assert 0.05 < values[values > 0.01].mean() < 0.95


@pytest.mark.parametrize("forgotten", [False, True])
def test_the_start_scale_is_unbiased_and_a_forgotten_response_shows(forgotten):
    release, _ = one_shot()
    response = Response(release, WORKLOAD)
    stream = np.random.default_rng(5)
    moments, estimates = np.zeros(2), []
    for _ in range(60):
        probe = response.draw_noise(stream)
        once = probe if forgotten else probe - response.respond(probe)[0]  # planted: all noise is missed
        moments += expected.moments_of(response, once) / 60
    incidence = np.array([[float(v) for v in row] for row in _incidence(release.support)])
    deviations = np.sqrt(response.variances)
    for _ in range(120):
        apart = incidence.T @ response.draw_start(stream) / deviations + response.draw_noise(stream)
        missed = apart - response.respond(apart)[0]
        estimates.append((expected.weighted_misses(response, missed) - moments[0]) / moments[1])
    error = np.std(estimates) / math.sqrt(len(estimates))
    assert error < 0.12
    assert (abs(np.mean(estimates) - 1) < 4 * error) != forgotten


def _incidence(support):
    """Rows x cells of the workload, by answers of single rows."""
    return [support.answers(WORKLOAD, unit) for unit in np.eye(support.size)]


def test_expected_squares_are_true_ones_on_average_and_without_the_start_they_are_not():
    ratios, of_noise, holds = [], [], []
    for seed in range(24):
        release, private = one_shot(seed)
        truth = private.counts(WORKLOAD) / private.n
        sizes = np.diff(WORKLOAD.offsets)
        missed = float(np.square(release.answers() - truth).sum())
        errors = release.expected_errors()
        ratios.append((float((errors.noise + errors.start) @ sizes), missed))
        of_noise.append(float(errors.noise @ sizes))
        intervals = release.intervals(0.95, refits=10)
        holds.append((intervals.low <= truth) & (truth <= intervals.high))
    estimated, true = np.array(ratios).T
    spread = np.std(estimated - true) / math.sqrt(len(true)) / true.mean()
    assert spread < 0.06
    assert abs(estimated.mean() / true.mean() - 1) < 4 * spread
    assert np.mean(of_noise) / true.mean() < 1 - 4 * spread  # the planted bug: noise is all there is
    assert 0.90 <= np.mean(holds) <= 0.99


def test_a_loaded_release_says_the_same_and_seeds_repeat(tmp_path):
    release, _ = one_shot()
    release.save(tmp_path / "x.release")
    loaded = pmw.load_release(tmp_path / "x.release")
    here, there = release.expected_errors(), loaded.expected_errors()
    np.testing.assert_array_equal(here.marginals, there.marginals)
    np.testing.assert_array_equal(release.intervals().high, loaded.intervals().high)
    assert not np.array_equal(here.marginals, release.expected_errors(seed=1).marginals)
    assert here.scale == there.scale


def test_more_noise_means_larger_expected_errors():
    support = start()
    private = drawn_private(support, 5000, np.random.default_rng(0))
    overall = []
    for rho in (1.0, 0.1, 0.01):
        release = pmw.PEP(select="all").calibrate(rho=rho)(private, support, WORKLOAD, rng=0)
        overall.append(release.expected_errors().overall)
    assert overall[0] < overall[1] < overall[2]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: by_hand(), "the response of MWPub to noise is not known"),
        (lambda: by_hand(measurements=(), history=()), "nothing was measured"),
        (lambda: _cells_only(), "no marginal was fully measured"),
        (lambda: _l1(), "the response of PEP to noise is not known"),
        (lambda: _without_public(), "its rows were drawn from the noisy counts"),
        (lambda: _drowned(), "the noise is too large to tell"),
        (lambda: _order_one(), "of any marginal, no measured marginal has all of its attributes"),
    ],
)
def test_what_is_not_known_is_said_and_never_a_number(make, reason):
    release = make()
    errors = release.expected_errors()
    assert errors.reason.startswith(reason)
    assert not errors.offered.any()
    assert np.isnan(errors.marginals).all()
    assert math.isnan(errors.overall)
    assert all(math.isnan(error) for error in errors.attributes.values())
    intervals = release.intervals()
    assert intervals.reason == errors.reason
    assert np.isnan(intervals.low).all()
    assert np.isnan(intervals.high).all()
    assert "not offered" in repr(errors)
    assert "not offered" in repr(intervals)


def _run(algorithm):
    support = start()
    private = drawn_private(support, 2000, np.random.default_rng(0))
    return algorithm.calibrate(rho=0.05)(private, support, WORKLOAD, rng=0)


def _cells_only():
    return _run(pmw.PEP(rounds=3, measure="cell"))


def _l1():
    return _run(pmw.PEP(rounds=2, slack="l1"))


def _without_public():
    release, _ = one_shot()
    rows = pmw.Support.without_public(DOMAIN).with_rows(release.support.rows).support
    beside = {"measurements": release.measurements, "ledger": release.ledger, "history": release.history}
    return pmw.Release(rows, WORKLOAD, release.weights, settings=release.settings, **beside)


def _drowned():
    support = start()
    private = drawn_private(support, 5000, np.random.default_rng(0))
    return pmw.PEP(select="all").calibrate(rho=0.0001)(private, support, WORKLOAD, rng=0)


def _order_one():
    return _run(pmw.PEP(select="all", order=1))


def test_marginals_that_were_not_measured_are_nan_and_parts_of_measured_ones_are_not():
    release = _run(pmw.PEP(rounds=2))
    chosen = {entry.chosen[0] for entry in release.history}
    errors = release.expected_errors()
    assert set(np.flatnonzero(errors.offered)) == chosen
    intervals = release.intervals(refits=10)
    assert set(WORKLOAD.marginal_of(np.flatnonzero(intervals.offered)).tolist()) == chosen
    names = {name for j in chosen for name in WORKLOAD.marginal(j)}
    one_way = release.expected_errors(pmw.Workload.all(DOMAIN, k=1))
    assert {name for name, offered in zip(DOMAIN.names, one_way.offered, strict=True) if offered} == names
    assert math.isnan(one_way.attributes[next(iter({*DOMAIN.names} - names))]) if len(names) < 4 else True
    shot = _order_one().expected_errors(pmw.Workload.all(DOMAIN, k=1))
    assert shot.offered.all()
    assert set(shot.attributes) == set(DOMAIN.names)


def test_a_cell_without_rows_says_so_and_its_interval_is_that_of_the_noise():
    support = start()
    kept = support.rows[:, 0] != 3
    private = drawn_private(support, 5000, np.random.default_rng(0))
    lacking = pmw.Support.from_table(pmw.Table.from_codes(support.rows[kept], DOMAIN, private=False))
    release = pmw.PEP(select="all").calibrate(rho=0.01)(private, lacking, WORKLOAD, rng=0)
    intervals = release.intervals()
    truth = private.counts(WORKLOAD) / private.n
    without = ~intervals.represented
    assert without.sum() == 3 + 3 + 2  # a = 3 with b, c and d
    assert (intervals.answers[without] == 0).all()
    assert (intervals.low[without] == 0).all()
    assert truth[without].max() > 0.01
    assert (truth <= intervals.high)[without].mean() > 0.7
    assert intervals.small[without].all()


def test_answers_below_one_record_reach_down_to_0():
    support = start()
    private = drawn_private(support, 60, np.random.default_rng(0))
    release = pmw.PEP(select="all", prior_weight=20.0).calibrate(rho=0.5)(private, support, WORKLOAD, rng=0)
    intervals = release.intervals(refits=10)
    small = intervals.small
    assert small.any()
    assert (intervals.low[small] == 0).all()
    assert (intervals.high[small] > 0).all()
    assert (intervals.low <= intervals.answers).all()
    assert (intervals.answers <= intervals.high).all()


def test_frames_have_labels():
    pytest.importorskip("pyarrow")
    release, _ = one_shot()
    frame = release.expected_errors().to_frame()
    assert frame.column_names == ["attribute_1", "attribute_2", "error", "noise", "start"]
    assert frame.slice(0, 1).to_pylist()[0]["attribute_2"] == "b"
    cells = release.intervals(refits=10).to_frame()
    assert cells.num_rows == WORKLOAD.cells
    assert cells.column_names[-5:] == ["answer", "standard_error", "low", "high", "represented"]
    assert cells.slice(13, 1).to_pylist()[0]["value_1"] == "0"
    with pytest.raises(ValueError, match=r"kind \('csv'\) must be"):
        release.expected_errors().to_frame("csv")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.expected_errors(probes=1), r"probes \(1\) must be from 2"),
        (lambda r: r.intervals(1.0), r"level \(1.0\) must be from 0.5 to 0.999"),
        (lambda r: r.intervals(refits=9), r"refits \(9\) must be from 10"),
        (lambda r: r.expected_errors(pmw.Workload.all(pmw.Domain({"x": 2}), k=1)), "must be on the domain"),
    ],
)
def test_bad_values_are_refused(call, message):
    release, _ = one_shot()
    with pytest.raises(ValueError, match=message):
        call(release)


def test_fewer_refits_make_wider_intervals():
    assert quantile(0.95, 10) > quantile(0.95, 50) > quantile(0.95, 10**6) > 1.9599


def test_a_release_without_a_start_scale_takes_what_the_prior_weight_says():
    assert expected.start_scale(0.0, 0.0, 0.0, 6) == (1.0, expected.SCALE_DEVIATION)


def test_only_samples_of_a_population_have_a_least_start_scale():
    domain = pmw.Domain({"a": 3, "b": 4})
    rows = pmw.Support.full(domain).rows
    private = pmw.Table.from_codes(np.repeat(rows, 300, axis=0), domain, private=True)
    rule = Constraints({"invalid": [{"a": [0], "b": [0]}]}, domain)
    sample = pmw.Table.from_codes(np.repeat(rows, 3, axis=0), domain, private=False)
    mechanism = pmw.PEP(select="all", prior_weight=KAPPA).calibrate(rho=0.1)
    scales = []
    for support in (pmw.Support.full(domain), pmw.Support.full(domain, rule), pmw.Support.from_table(sample)):
        release = mechanism(private, support, pmw.Workload.all(domain, k=2), rng=0)
        least = KAPPA * (1 / support.records + 1 / private.n)
        scales.append(Refits(release, 20, 0).scale / least)
    assert scales[0] < 1
    assert scales[1] < 1
    assert scales[2] >= 1
