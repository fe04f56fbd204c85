"""What the loop improves: answers kept by changes, groups, repeated measurements, certified projections."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from algorithms.cases import DOMAIN, FULL, PEP_OPTIONS, WORKLOAD, N, private, support
from kernels.cases import skewed
from privmw import PEP, Domain, Support, Table, Workload, kernels
from privmw.models.groups import Groups
from privmw.models.inputs import ModelInputs
from privmw.models.multiplicative import MultiplicativeWeights
from privmw.models.projected import ProjectionModel
from privmw.models.targets import Targets
from privmw.models.weighted_rows import WeightedRows
from privmw.release.measurements import Measurement, combine
from truth import reference

PLACES = [[list(DOMAIN).index(name) for name in marginal] for marginal in WORKLOAD]
B = Workload(DOMAIN, [("b",)])


def held_by(support, places=PLACES):
    return reference.membership(support.table.columns, list(support.domain.sizes), places)


def measurement(cells, answers, sigma=20.0, number=1):
    counts = np.rint(np.asarray(answers) * N).astype(np.int64)
    return Measurement(np.asarray(cells), counts, "discrete-gaussian", sigma, number)


@given(
    rows=st.integers(1, 40),
    queries=st.lists(st.sets(st.integers(0, 39)), max_size=12),
)
def test_groups_are_the_rows_alike_on_every_query(rows, queries):
    groups = Groups(rows)
    asked = [np.array(sorted(row for row in query if row < rows), np.uint32) for query in queries]
    for number, query in enumerate(asked):
        assert groups.add(query) == number
        held = np.array([np.isin(np.arange(rows), each) for each in asked[: number + 1]])
        _, alike = np.unique(held, axis=1, return_inverse=True)
        pairs = set(zip(groups.of_row.tolist(), alike.ravel().tolist(), strict=True))
        assert len(pairs) == groups.count == alike.max() + 1
        for each, inside in zip(groups.of_query, held, strict=True):
            assert each.tolist() == sorted(set(groups.of_row[inside].tolist()))
    masses = np.random.default_rng(rows).integers(0, 2**63 // rows, rows)
    expected = [int(masses[groups.of_row == group].sum()) for group in range(groups.count)]
    assert groups.sums(masses).tolist() == expected
    starts, incident = groups.incidence()
    for group in range(groups.count):
        holding = [number for number, each in enumerate(groups.of_query) if group in each]
        assert incident[starts[group] : starts[group + 1]].tolist() == holding


def large_support(seed):
    domain = Domain({"u": 2, "v": 3, "w": 6, "x": 9, "y": 2, "z": 30})
    codes = np.stack(skewed(4000, domain.sizes, seed, uncommon=0.8), axis=1)
    return Support.from_table(Table.from_codes(codes, domain, private=False)), Workload.all(
        domain, k=[1, 2, 3]
    )


@pytest.mark.parametrize("threads", [1, 5])
@pytest.mark.parametrize("kind", ["public", "uniform"])
def test_answers_followed_by_changes_are_those_of_a_full_evaluation(kind, threads, monkeypatch):
    support, workload = large_support(3)
    model = WeightedRows(support, workload, support.start(kind), threads=threads)
    fresh = support.marginals(workload)
    changes, evaluations = [], []
    follow, evaluate = kernels.Marginals.add_changes, WeightedRows._evaluate
    monkeypatch.setattr(
        kernels.Marginals,
        "add_changes",
        lambda self, rows, *args, **more: changes.append(len(rows)) or follow(self, rows, *args, **more),
    )
    monkeypatch.setattr(
        WeightedRows, "_evaluate", lambda self, *masses: evaluations.append(1) or evaluate(self, *masses)
    )
    rng, complements = np.random.default_rng(4), 0
    large = np.flatnonzero(support.answers(workload, np.ones(support.size)) > 0.5)
    for _ in range(150):
        cell = int(rng.choice(large) if rng.random() < 0.2 else rng.integers(workload.cells))
        rows = model.matching_rows(cell)
        before = model.weights / model.weights.sum()
        factor = math.exp(rng.uniform(0, 0.5) if rng.random() < 0.8 else -0.4)
        model.multiply(rows, factor)
        complements += 2 * len(rows) > support.size
        masses, total = kernels.to_masses(model.weights)
        assert model.answers().tobytes() == (fresh.sums(masses) / float(total)).tobytes()
        assert model.answers_of(np.array([cell])).tolist() == [model.answers()[cell]]
        expected = before.copy()
        expected[rows] *= factor
        np.testing.assert_allclose(model.distribution(), expected / expected.sum(), rtol=1e-12)
    assert changes
    assert complements
    assert len(evaluations) + len(changes) == 150
    columns = [np.asarray(column) for column in support.table.columns]
    marginals = [[list(support.domain).index(name) for name in marginal] for marginal in workload]
    slow = reference.marginal_sums(columns, list(support.domain.sizes), marginals, masses)
    assert model.answers().tobytes() == (slow / float(total)).tobytes()


@pytest.mark.parametrize("replay", ["paper", "fresh"])
def test_replay_adds_few_changes_or_evaluates_and_answers_the_same(replay, monkeypatch):
    support, workload = large_support(6)
    model = MultiplicativeWeights(ModelInputs(support, workload, workload, N), replay=replay)
    changed, follow = [], kernels.Marginals.add_changes
    monkeypatch.setattr(
        kernels.Marginals,
        "add_changes",
        lambda self, rows, *args, **more: changed.append(len(rows)) or follow(self, rows, *args, **more),
    )
    rng, uniform = np.random.default_rng(7), support.answers(workload, np.ones(support.size))
    for number in range(30):
        cell = int(np.argmax(uniform) if number < 3 else rng.integers(workload.cells))
        model.update([measurement([cell], [rng.random()], number=number + 1)])
        masses, total = kernels.to_masses(model._model.weights)
        full = support.marginals(workload).sums(masses) / float(total)
        assert model.answers().tobytes() == full.tobytes()
    assert len(changed) < 30
    assert max(changed) < 0.5 * support.size


def test_answers_survive_new_scales():
    support, workload = large_support(5)
    model = WeightedRows(support, workload, support.start())
    heavy = np.argsort(-model.weights)[: support.size // 4]
    rows, rescaled = np.sort(heavy).astype(np.uint32), 0
    inner = kernels.multiply
    with pytest.MonkeyPatch.context() as patch:

        def watched(*args, **options):
            nonlocal rescaled
            found = inner(*args, **options)
            rescaled += found[2]
            return found

        patch.setattr(kernels, "multiply", watched)
        for _ in range(40):
            model.multiply(rows, 1.6)
            masses, total = kernels.to_masses(model.weights)
            full = support.marginals(workload).sums(masses) / float(total)
            assert model.answers().tobytes() == full.tobytes()
    assert rescaled >= 5


def test_no_rows_and_all_rows_change_nothing():
    model = WeightedRows(support(), WORKLOAD, support().start())
    before = model.answers().copy()
    for rows in (np.zeros(0, np.uint32), np.arange(support().size, dtype=np.uint32)):
        model.multiply(rows, 1.5)
        assert model.answers().tobytes() == before.tobytes()


def test_a_replaced_model_answers_as_the_support_does():
    model = WeightedRows(support(), WORKLOAD, support().start("uniform"))
    weights = np.random.default_rng(0).random(support().size) * 1e-200
    model.replace(weights.copy())
    assert model.answers().tobytes() == support().answers(WORKLOAD, weights).tobytes()
    assert abs(model.distribution().sum() - 1) < 1e-12


scales = st.floats(0.1, 1000)


@given(data=st.data())
@settings(max_examples=50)
def test_what_was_measured_again_is_combined_by_inverse_variance(data):
    targets, given_ones = Targets(WORKLOAD, N), []
    for number in range(data.draw(st.integers(1, 6))):
        marginal = data.draw(st.integers(0, len(WORKLOAD) - 1))
        first, end = WORKLOAD.offsets[marginal : marginal + 2].tolist()
        cells = np.arange(first, end) if data.draw(st.booleans()) else np.array([first])
        counts = data.draw(st.lists(st.integers(-50, N), min_size=len(cells), max_size=len(cells)))
        noise = data.draw(st.sampled_from(["discrete-gaussian", "discrete-laplace"]))
        given_ones.append(Measurement(cells, np.array(counts), noise, data.draw(scales), number))
        single, whole = targets.add(given_ones[-1])
        assert (single, whole) == (([], [marginal]) if len(cells) == end - first else ([first], []))
    combined = combine(given_ones, N)
    np.testing.assert_allclose(targets.answers(combined.cells), combined.answers, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(1 / targets.precision(combined.cells), combined.variances, rtol=1e-9)


def project_twice(**options):
    """Two measurements of one cell, and of another, at once or combined beforehand."""
    first, again = measurement([3], [0.3], 40.0), measurement([3], [0.2], 10.0)
    other = measurement([7], [0.1], 25.0)
    (mean,) = combine([first, again], N).answers.tolist()
    (variance,) = combine([first, again], N).variances.tolist()
    together = Measurement(
        np.array([3]), np.array([round(mean * N)]), "discrete-gaussian", math.sqrt(variance) * N, 1
    )
    for rounds in ([[first], [other], [again]], [[together, other]]):
        model = ProjectionModel(ModelInputs(support(), WORKLOAD, WORKLOAD, N), **options)
        for measurements in rounds:
            model.update(measurements)
        yield model.result()[1]


@pytest.mark.parametrize(
    "options", [{"prior_weight": 1000.0}, {"slack": "l1"}, {"slack": "l1", "gamma": 0.003}]
)
def test_a_projection_on_repeated_measurements_is_that_on_their_mean(options):
    split, combined = project_twice(**options)
    # The mean is rounded to a count there: half a record of 2,000.
    np.testing.assert_allclose(split, combined, atol=5e-4)
    assert np.abs(split - support().start()).max() > 5e-3


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("start", ["public", "uniform"])
def test_an_l2_projection_is_the_one_that_scipy_finds(start, whole):
    prior_weight, sigma = 300.0, 15.0
    held, _ = held_by(support())
    true = private().counts(WORKLOAD) / N
    noise = np.random.default_rng(8).normal(0, sigma / N, WORKLOAD.cells)
    model = ProjectionModel(
        ModelInputs(support(), WORKLOAD, WORKLOAD, N), start=start, prior_weight=prior_weight
    )
    if whole:
        ranges = [WORKLOAD.cells_of([j]) for j in (0, 3, 6)]
    else:
        ranges = [np.array([cell]) for cell in (0, 5, 9, 20, 31)]
    taken = [measurement(cells, (true + noise)[cells], sigma) for cells in ranges]
    for one in taken:
        details = model.update([one])
        assert details["gap"] <= 1e-9
    cells = np.concatenate(ranges)
    answers = np.concatenate([one.noisy_counts for one in taken]) / N
    w = np.full(len(cells), (N / sigma) ** 2 / prior_weight)
    distribution, value, gradient, hessian = reference.projection_dual(
        held[cells], support().start(start), answers, w
    )
    found = optimize.minimize(
        value, np.zeros(len(cells)), jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-11}
    )
    # A gap of 1e-9 bounds KL, and so half the square of the L1 distance.
    expected = distribution(found.x)[0]
    assert np.abs(model.result()[1] - expected).sum() <= math.sqrt(2e-9)
    assert np.abs(expected - support().start(start)).sum() > 0.05
    # Its own optimality, of the primal: multipliers are w (a - q(D)), and D is the prior tilted by them.
    multipliers = w * (answers - held[cells] @ expected)
    np.testing.assert_allclose(distribution(multipliers)[0], expected, atol=1e-7)


def test_an_l1_projection_is_the_one_that_scipy_finds():
    gamma, cells = 0.01, np.array([0, 5, 9, 20, 31])
    held, _ = held_by(support())
    true = private().counts(WORKLOAD) / N
    model = ProjectionModel(ModelInputs(support(), WORKLOAD, WORKLOAD, N), slack="l1", gamma=gamma)
    taken = [measurement([cell], [true[cell]]) for cell in cells]
    details = model.update(taken)
    answers = np.array([int(one.noisy_counts[0]) for one in taken]) / N
    missed = np.abs(held[cells] @ model.result()[1] - answers)
    assert (missed <= gamma + 1e-9).all()
    assert details["gap"] <= 1e-9
    assert details["kkt"] <= 1e-9
    prior = support().start()

    def dual(parts):
        potentials = (parts[:5] - parts[5:]) @ (held[cells] - answers[:, np.newaxis])
        tilted = prior * np.exp(potentials)
        gradient = (held[cells] - answers[:, np.newaxis]) @ (tilted / tilted.sum())
        return np.log(tilted.sum()) + gamma * parts.sum(), np.concatenate(
            [gamma + gradient, gamma - gradient]
        )

    found = optimize.minimize(
        dual, np.zeros(10), jac=True, bounds=[(0, None)] * 10, options={"ftol": 1e-16, "gtol": 1e-12}
    )
    multipliers = found.x[:5] - found.x[5:]
    tilted = prior * np.exp(multipliers @ held[cells])
    assert np.abs(model.result()[1] - tilted / tilted.sum()).sum() < 1e-5
    # Only answers missed by all of gamma pull.
    assert (np.abs(missed[multipliers != 0] - gamma) < 1e-6).all()


@pytest.mark.parametrize("name", PEP_OPTIONS)
@pytest.mark.parametrize("rho", [0.001, 0.1, 10.0])
def test_every_round_of_pep_ends_with_its_certificate(name, rho):
    options = {"rounds": FULL["rounds"], **PEP_OPTIONS[name]}
    release = PEP(**options).release(private(), support(), WORKLOAD, rho=rho, rng=FULL["rng"])
    for entry in release.history:
        assert 0 <= entry.details["gap"] <= 1e-9
        if options.get("slack") == "l1":
            assert entry.details["kkt"] <= 1e-9
            assert entry.details["gamma"] >= (options.get("gamma") or 0)
        else:
            assert "gamma" not in entry.details


@pytest.mark.parametrize(
    ("rho", "gamma", "measure"),
    [
        (0.001, 1e-4, "cell"),
        (0.1, 1e-4, "cell"),
        pytest.param(10.0, None, "marginal", marks=pytest.mark.slow),
        (0.001, 1e-4, "marginal"),
    ],
)
def test_a_gamma_that_is_hardly_met_ends_with_its_certificate_too(rho, gamma, measure):
    def progress(entry):
        assert max(entry.details["gap"], entry.details["kkt"]) <= 1e-9

    algorithm = PEP(rounds=12, slack="l1", gamma=gamma, measure=measure)
    algorithm.release(private(), support(), WORKLOAD, rho=rho, rng=3, progress=progress)


def contradicting(answers):
    """Both cells of one attribute of two values, each alone."""
    return [measurement([cell], [answer]) for cell, answer in enumerate(answers)]


def test_a_gamma_that_no_distribution_meets_is_doubled_and_said():
    model = ProjectionModel(ModelInputs(support(), B, B, N), slack="l1", gamma=0.01)
    # q and 1 - q both within gamma of 0.9: gamma must be 0.4 at least.
    details = model.update(contradicting([0.9, 0.9]))
    assert details["gamma"] == 0.64
    assert details["gap"] <= 1e-9
    assert details["kkt"] <= 1e-9
    model = ProjectionModel(ModelInputs(support(), B, B, N), slack="l1", gamma=0.01)
    assert model.update(contradicting([0.2, 0.8]))["gamma"] == 0.01
    np.testing.assert_allclose(model.answers(), [0.21, 0.79], atol=1e-8)


def test_an_l1_gamma_of_its_own_is_each_measurement_s_deviation():
    model = ProjectionModel(ModelInputs(support(), B, B, N), slack="l1")
    details = model.update([measurement([0], [0.9], sigma=40.0)])
    assert details["gamma"] == pytest.approx(40 / N)
    assert model.answers()[0] == pytest.approx(0.9 - 40 / N, abs=1e-8)


def test_l2_weighs_contradictions_by_their_noise():
    model = ProjectionModel(ModelInputs(support(), B, B, N), prior_weight=1e-3)
    model.update([measurement([0], [0.9], sigma=10.0), measurement([1], [0.9], sigma=20.0)])
    # Precisions 4 : 1 for q = 0.9 and q = 0.1, and hardly any prior.
    assert model.answers()[0] == pytest.approx((4 * 0.9 + 0.1) / 5, abs=1e-4)


def test_the_prior_s_weight_decides():
    answers = []
    for prior_weight in (1e-3, 1e9):
        model = ProjectionModel(ModelInputs(support(), B, B, N), prior_weight=prior_weight)
        model.update([measurement([0], [0.9])])
        answers.append(model.answers()[0])
    assert answers == pytest.approx([0.9, support().answers(B)[0]], abs=1e-4)


@pytest.mark.parametrize("kind", [MultiplicativeWeights, ProjectionModel])
def test_a_model_s_answers_are_those_of_its_result(kind):
    model = kind(ModelInputs(support(), WORKLOAD, WORKLOAD, N))
    for cell in (3, 8, 3):
        model.update([measurement([cell], [0.4])])
        rows, weights = model.result()
        again = rows.answers(WORKLOAD, weights)
        np.testing.assert_allclose(model.answers(), again, atol=1e-15)
