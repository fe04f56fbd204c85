"""The projection against scipy, and its certificates against the primal, recomputed in long doubles."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from privmw import kernels
from privmw.kernels import choice
from privmw.models.projection import solver
from privmw.models.projection.freedom import freedom
from privmw.models.projection.newton import heavy_rows
from privmw.models.projection.queries import MatrixGramProduct
from privmw.models.projection.solver import SOLVER, Slack, project
from privmw.ranks import ALONE

drawn = settings(max_examples=60)
TOLERANCE = 1e-9


class Queries:
    """Rows x queries, written out; without a gram, steps are by conjugate gradients."""

    comm, threads = ALONE, None

    def __init__(self, holds, exact=True):
        self.holds, self.count = np.asarray(holds, bool), np.shape(holds)[1]
        starts = np.concatenate([[0], np.cumsum(self.holds.sum(axis=1))]).astype(np.int64)
        queries = np.nonzero(self.holds)[1].astype(np.uint32)
        incidence = kernels.Incidence(starts, queries, self.count)
        self.potentials, self.sums = incidence.potentials, incidence.sums
        self.gram = incidence.gram if exact else lambda weights: None
        self.draws = np.random.default_rng(0).random(len(self.holds))

    def moments(self, weights, values):
        return self.sums(weights * values)

    def over_rows(self, rows):
        held = np.flatnonzero(self.holds[rows].any(axis=0))
        return Queries(self.holds[np.ix_(rows, held)]), held

    def gram_product(self, prices):
        return MatrixGramProduct(self, prices)


def recomputed(holds, prior, answers, slack, fit):
    """The duality gap and the largest violation of the constraints, from weights and multipliers alone."""
    held, weights, prior, multipliers, answers = (
        np.asarray(array, np.longdouble) for array in (holds, fit.weights, prior, fit.multipliers, answers)
    )
    some = prior > 0
    potentials = (held @ multipliers)[some]
    log_total = potentials.max() + np.log((prior[some] * np.exp(potentials - potentials.max())).sum())
    np.testing.assert_allclose(fit.weights.sum(), 1, rtol=1e-9)
    np.testing.assert_allclose(
        weights[some].astype(float),
        (prior[some] * np.exp(potentials - log_total)).astype(float),
        rtol=1e-7,
        atol=1e-30,
    )
    assert not fit.weights[~some].any()
    carried = weights > 0
    divergence = (weights[carried] * np.log(weights[carried] / prior[carried])).sum()
    missed = weights @ held - answers
    dual = -(log_total - multipliers @ answers)
    if slack.w is not None:
        gap = divergence + (slack.w * missed**2).sum() / 2 - (dual - (multipliers**2 / slack.w).sum() / 2)
        return float(gap), 0.0
    gap = divergence - (dual - (slack.gamma * np.abs(multipliers)).sum())
    return float(gap), float((np.abs(missed) - slack.gamma).max(initial=0.0))


def certified(holds, prior, answers, slack, exact=True, **options):
    """A projection that converged, whose certificate is true."""
    fit = project(Queries(holds, exact), prior, answers, slack, **options)
    assert fit.converged
    assert fit.feasible
    gap, violated = recomputed(holds, prior, answers, slack, fit)
    reach = 1 + np.abs(fit.multipliers).sum()
    assert abs(gap) <= TOLERANCE + 1e-15 * reach + TOLERANCE * (slack.gamma is not None) * reach
    assert violated <= TOLERANCE
    assert 0 <= fit.gap <= TOLERANCE
    if slack.w is not None:
        assert fit.gap == pytest.approx(gap, abs=1e-11 * reach)
    else:
        assert fit.kkt <= TOLERANCE
    return fit


def shape(rows, count, seed, share=0.3):
    rng = np.random.default_rng(seed)
    return rng, rng.random((rows, count)) < share, rng.dirichlet(np.ones(rows))


def whole(rng, sizes, pairs, rows):
    """Every cell of marginals over pairs of attributes: each sums to one, and they share attributes."""
    codes = [rng.integers(0, size, rows) for size in sizes]
    cells = []
    for i, j in pairs:
        cells += [(codes[i] == a) & (codes[j] == b) for a in range(sizes[i]) for b in range(sizes[j])]
    return np.array(cells).T


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("noise", [1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("prior_weight", [1.0, 1e3, 1e6])
def test_l2_is_certified_for_any_weight_of_prior_and_noise(prior_weight, noise, exact):
    rng, holds, prior = shape(60, 12, 1)
    answers = rng.dirichlet(np.ones(60)) @ holds + noise * rng.standard_normal(12)
    certified(holds, prior, answers, Slack(w=np.full(12, 1 / noise**2 / prior_weight)), exact)


@pytest.mark.parametrize("exact", [True, False])
def test_l2_is_certified_where_answers_contradict_each_other_or_leave_0_to_1(exact):
    rng, holds, prior = shape(40, 10, 2)
    holds[:, 1], holds[:, 2] = holds[:, 0], ~holds[:, 0]
    answers = rng.uniform(-0.5, 1.5, 10)
    for w in (1e-3, 1.0, 1e4):
        certified(holds, prior, answers, Slack(w=np.full(10, w)), exact)


@pytest.mark.parametrize("gamma", [0.0, 1e-6, 1e-3, 0.05])
@pytest.mark.parametrize("exact", [True, False])
def test_l1_is_certified_on_answers_of_a_real_distribution(gamma, exact):
    rng, holds, prior = shape(80, 25, 3)
    answers = rng.dirichlet(np.ones(80)) @ holds
    certified(holds, prior, answers, Slack(gamma=np.full(25, gamma)), exact)


@pytest.mark.parametrize("exact", [True, False])
def test_l1_takes_a_gamma_for_each_query(exact):
    rng, holds, prior = shape(80, 25, 4)
    gamma = rng.choice([0.0, 1e-4, 0.02], 25)
    certified(holds, prior, rng.dirichlet(np.ones(80)) @ holds, Slack(gamma=gamma), exact)


@pytest.mark.parametrize("gamma", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("exact", [True, False])
def test_redundant_queries_are_certified(gamma, exact):
    rng = np.random.default_rng(5)
    holds = whole(rng, [3, 4, 2], [(0, 1), (1, 2), (0, 2)], 60)
    holds = np.hstack([holds, holds[:, :3], ~holds[:, :3]])
    prior, other = rng.dirichlet(np.ones(60)), rng.dirichlet(np.ones(60))
    certified(holds, prior, other @ holds, Slack(gamma=np.full(holds.shape[1], gamma)), exact)


@pytest.mark.parametrize("exact", [True, False])
def test_answers_of_exactly_0_and_1_send_multipliers_far_and_are_certified(exact):
    rng, holds, prior = shape(60, 8, 6)
    holds[:, 0], holds[:20, 1], holds[20:, 1] = True, True, False
    other = np.where(np.arange(60) < 20, 0.0, rng.random(60))
    answers = other / other.sum() @ holds
    assert {0.0, 1.0} <= set(np.round(answers, 12))
    certified(holds, prior, np.clip(answers, 0, 1), Slack(gamma=np.zeros(8)), exact)


@pytest.mark.parametrize("slack", [Slack(w=np.full(9, 1e3)), Slack(gamma=np.full(9, 1e-3))])
def test_priors_with_zeros_and_tiny_weights_are_certified(slack):
    rng, holds, prior = shape(50, 9, 7)
    prior = 10.0 ** -rng.uniform(0, 300, 50)
    prior[:10], prior[10:14] = 0.0, 0.25
    other = np.where(np.arange(50) < 10, 0.0, rng.random(50))
    certified(holds, prior / prior.sum(), other / other.sum() @ holds, slack)


@pytest.mark.parametrize("count", [1, 300, 2000])
def test_few_and_many_cells_are_certified(count):
    rng, holds, prior = shape(400, count, 8, 0.05)
    answers = 0.9 * prior @ holds + 0.1 * rng.dirichlet(np.ones(400)) @ holds
    certified(holds, prior, answers + 1e-3 * rng.standard_normal(count), Slack(w=np.full(count, 1e3)))
    certified(holds, prior, answers, Slack(gamma=np.full(count, 5e-3)))


def least_gamma(holds, answers):
    """The least that some distribution meets, by linear programming."""
    rows, count = holds.shape
    both = np.vstack([holds.T, -holds.T.astype(float)])
    found = optimize.linprog(
        np.append(np.zeros(rows), 1.0),
        A_ub=np.hstack([both, -np.ones((2 * count, 1))]),
        b_ub=np.concatenate([answers, -answers]),
        A_eq=np.append(np.ones(rows), 0.0)[np.newaxis],
        b_eq=[1.0],
    )
    return float(found.fun)


@pytest.mark.parametrize("margin", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("exact", [True, False])
def test_gamma_is_called_infeasible_only_where_it_is(margin, exact):
    rng, holds, prior = shape(30, 10, 9)
    answers = np.clip(prior @ holds + 0.3 * rng.standard_normal(10), 0, 1)
    least = least_gamma(holds, answers)
    assert least > 0.1
    certified(holds, prior, answers, Slack(gamma=np.full(10, least + margin)), exact)
    slack = Slack(gamma=np.full(10, least * (1 - margin)))
    fit = project(Queries(holds, exact), prior, answers, slack)
    assert not fit.converged
    if margin >= 1e-4:
        assert not fit.feasible
    if not fit.feasible:
        # The proof: no row, hence no distribution, makes this as large as one within gamma would.
        largest = (holds @ fit.multipliers).max() - answers @ fit.multipliers
        assert largest + slack.value(fit.multipliers) < 0


def hopeless():
    _, holds, prior = shape(40, 6, 10)
    holds[:, 5] = False
    fair = prior @ holds
    split = np.zeros((40, 2), bool)
    split[:20, 0] = split[20:, 1] = True
    yield "a cell that no row has", holds, prior, np.append(fair[:5], 0.3), 0.01
    yield "answers that total more than 1", split, prior, np.array([0.7, 0.6]), 0.01
    yield "noise and no gamma", split, prior, np.array([0.5004, 0.5001]), 0.0
    prior = np.where(np.arange(40) < 20, 0.05, 0.0)
    yield "rows that the prior rules out", split, prior, np.array([0.5, 0.5]), 0.1


@pytest.mark.parametrize("case", list(hopeless()), ids=lambda case: case[0])
@pytest.mark.parametrize("exact", [True, False])
def test_hopeless_answers_are_called_so_within_a_few_steps(case, exact):
    _, holds, prior, answers, gamma = case
    fit = project(Queries(holds, exact), prior, answers, Slack(gamma=np.full(len(answers), gamma)))
    assert not fit.feasible
    assert fit.steps <= 30


def test_what_cannot_converge_stops_and_says_its_true_gap(monkeypatch):
    rng, holds, prior = shape(60, 12, 11)
    answers, slack = rng.random(12), Slack(w=np.full(12, 1e5))
    for limit in ({"most_steps": 3}, {"most_passes": 5}):
        monkeypatch.setattr(solver, "SOLVER", replace(SOLVER, **limit))
        fit = project(Queries(holds), prior, answers, slack)
        assert not fit.converged
        assert fit.steps <= 3
        assert fit.gap > 1e-3
        assert fit.gap == pytest.approx(recomputed(holds, prior, answers, slack, fit)[0], rel=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 1e-3])
def test_l1_ends_when_rounding_ends_its_progress(gamma):
    """Sums of weights rounded to 1e-10 leave a residual that no step lowers."""

    class Rounded(Queries):
        def sums(self, weights):
            return np.rint(weights * 1e10) / 1e10 @ self.holds

        def moments(self, weights, values):
            return (weights * values) @ self.holds

    rng, holds, prior = shape(3000, 12, 11)
    answers = rng.dirichlet(np.ones(3000)) @ holds
    matrix = Rounded(holds)
    del matrix.__dict__["sums"]
    fit = project(matrix, prior, answers, Slack(gamma=np.full(12, gamma)), tolerance=1e-14)
    assert 1e-14 < max(fit.gap, fit.kkt) <= 1e-9
    assert fit.steps < 30


@pytest.mark.parametrize("slack", [Slack(w=np.full(20, 1e3)), Slack(gamma=np.full(20, 1e-3))])
@pytest.mark.parametrize("exact", [True, False])
def test_a_warm_start_ends_at_the_same_distribution_sooner(slack, exact):
    rng, holds, prior = shape(70, 20, 12)
    answers = rng.dirichlet(np.ones(70)) @ holds
    cold = certified(holds, prior, answers, slack, exact)
    given_multipliers = cold.multipliers.copy()
    warm = certified(holds, prior, answers, slack, exact, multipliers=given_multipliers)
    assert warm.steps == 0
    assert np.array_equal(given_multipliers, cold.multipliers)
    nearly = certified(holds, prior, answers, slack, exact, multipliers=1.001 * cold.multipliers)
    assert nearly.passes < cold.passes
    np.testing.assert_allclose(nearly.weights, cold.weights, atol=1e-4)


@pytest.mark.parametrize("w", [1.0, 1e3])
def test_l2_is_what_scipy_finds(w):
    rng, holds, prior = shape(30, 8, 13)
    answers = rng.random(8)
    fit = certified(holds, prior, answers, Slack(w=np.full(8, w)))

    def primal(weights):
        missed = weights @ holds - answers
        return (weights * np.log(weights / prior)).sum() + w * (missed**2).sum() / 2

    def dual(multipliers):
        tilted = prior * np.exp(holds @ multipliers)
        slope = tilted @ holds / tilted.sum() - answers + multipliers / w
        return np.log(tilted.sum()) - multipliers @ answers + (multipliers**2).sum() / (2 * w), slope

    found = optimize.minimize(
        dual, np.zeros(8), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10}
    )
    np.testing.assert_allclose(fit.multipliers, found.x, rtol=1e-4, atol=1e-5)
    assert primal(fit.weights) == pytest.approx(-found.fun, rel=1e-8)


def test_l1_is_what_scipy_finds_on_the_primal():
    rng, holds, prior = shape(15, 5, 14)
    answers, gamma = rng.dirichlet(np.ones(15)) @ holds, 0.02
    fit = certified(holds, prior, answers, Slack(gamma=np.full(5, gamma)))
    both = np.hstack([holds, -holds.astype(float)])
    limits = np.concatenate([answers, -answers]) + gamma
    found = optimize.minimize(
        lambda weights: (weights * np.log(weights / prior)).sum(),
        prior,
        jac=lambda weights: np.log(weights / prior) + 1,
        method="SLSQP",
        bounds=[(1e-12, 1)] * 15,
        constraints=[
            {"type": "eq", "fun": lambda weights: weights.sum() - 1},
            {"type": "ineq", "fun": lambda weights: limits - weights @ both},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(fit.weights, found.x, atol=1e-5)


@st.composite
def problems(draw):
    rows, count = draw(st.integers(1, 25)), draw(st.integers(1, 12))
    rng, holds, prior = shape(
        rows, count, draw(st.integers(0, 2**32)), draw(st.sampled_from([0.1, 0.5, 0.9]))
    )
    if rows > 2:
        prior[rng.random(rows) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
        prior[0] += 1e-3
    prior /= prior.sum()
    other = prior * rng.exponential(size=rows)
    return holds, prior, other / other.sum() @ holds, rng


@given(problems(), st.floats(-3, 5), st.floats(0, 0.5), st.booleans())
@drawn
def test_drawn_l2_problems_are_certified(problem, log_w, noise, exact):
    holds, prior, answers, rng = problem
    answers = answers + noise * rng.standard_normal(len(answers))
    certified(holds, prior, answers, Slack(w=np.full(len(answers), 10.0**log_w)), exact)


@given(problems(), st.sampled_from([0.0, 1e-5, 1e-3, 0.1]), st.booleans())
@drawn
def test_drawn_l1_problems_are_certified_and_never_called_infeasible(problem, gamma, exact):
    holds, prior, answers, _ = problem
    certified(holds, prior, answers, Slack(gamma=np.full(len(answers), gamma)), exact)


def test_every_backend_finds_the_same_distribution(backend, monkeypatch):
    rng, holds, prior = shape(50, 15, 15)
    answers = rng.dirichlet(np.ones(50)) @ holds
    slacks = [Slack(w=np.full(15, 1e3)), Slack(gamma=np.full(15, 1e-3)), Slack(gamma=np.zeros(15))]
    expected = [project(Queries(holds), prior, answers, slack) for slack in slacks]
    monkeypatch.setattr(choice, "kernels", backend)
    for slack, truth in zip(slacks, expected, strict=True):
        fit = certified(holds, prior, answers, slack)
        np.testing.assert_allclose(fit.weights, truth.weights, atol=1e-9)


@pytest.mark.parametrize("exact", [True, False])
def test_freedom_is_that_of_the_matrix_written_out(exact):
    """Against w H (H + 1 / w)^-1, also where many rows are light."""
    rng = np.random.default_rng(3)
    holds = rng.random((300, 40)) < 0.3
    weights = rng.dirichlet(np.ones(300)) if exact else rng.dirichlet(np.full(300, 0.05))
    w, change = rng.uniform(50, 500, 40), rng.standard_normal(40)
    fitted = weights @ holds
    hessian = (holds.T * weights) @ holds - np.outer(fitted, fitted)
    expected = (w * change) @ hessian @ np.linalg.solve(hessian + np.diag(1 / w), change)
    found = freedom(Queries(holds, exact), weights, fitted, w, change)
    np.testing.assert_allclose(found, expected, rtol=0.02)
    assert abs(freedom(Queries(holds, exact), weights, fitted, 2 * w, change) / expected - 1) > 0.05


def test_rows_without_weight_change_no_fit():
    """Light rows are left out of Newton's equations; the certificate is of all rows."""
    rng = np.random.default_rng(4)
    holds = rng.random((2000, 500)) < 0.1
    prior = rng.dirichlet(np.full(2000, 0.1))
    answers = rng.dirichlet(np.full(2000, 0.1)) @ holds
    slack = Slack(w=np.full(500, 1000.0))
    heavy = heavy_rows(Queries(holds, exact=False), prior, prior @ holds, 0.1)
    assert heavy.matrix.holds.shape[0] < 1200
    np.testing.assert_allclose(heavy.weights.sum(), 1, rtol=1e-12)
    fit = certified(holds, prior, answers, slack, exact=False)
    assert fit.converged


def test_drawn_rows_answer_alike_on_average():
    """Rows are drawn by their weights: fewer of them, and unbiased answers.

    400 draws: answers have a standard error of at most .0006 then. Drawn rows that kept their own weights
    shift the answer of the lighter ones by more than .05.
    """
    rng = np.random.default_rng(5)
    weights = rng.dirichlet(np.full(4000, 0.5))
    lighter = weights < np.median(weights) * 2
    holds = np.column_stack([lighter, rng.random((4000, 20)) < 0.3])
    queries, means = Queries(holds, exact=False), np.zeros(21)
    for _ in range(400):
        queries.draws = rng.random(4000)
        drawn = heavy_rows(queries, weights, weights @ holds, 0.1, share=0.25)
        assert len(drawn.weights) < 1000
        means[drawn.queries] += drawn.fitted / 400
    np.testing.assert_allclose(means, weights @ holds, atol=0.003)


@pytest.mark.parametrize("share", [1 / 16, 1 / 4, 1])
def test_fits_over_drawn_rows_are_certified_over_all(share):
    """Newton's equations over few rows: as small a gap, and the same distribution within it."""
    rng = np.random.default_rng(6)
    holds = rng.random((16_000, 500)) < 0.1
    prior = rng.dirichlet(np.full(16_000, 0.5))
    answers = rng.dirichlet(np.full(16_000, 0.5)) @ holds
    slack = Slack(w=np.full(500, 1000.0))
    best = project(Queries(holds, exact=False), prior, answers, slack)
    fit = certified(holds, prior, answers, slack, exact=False, share=share)
    assert fit.share >= share
    np.testing.assert_allclose(fit.weights, best.weights, atol=1e-6)


def test_few_rows_are_not_drawn():
    rng, holds, prior = shape(900, 500, 7)
    slack = Slack(w=np.full(500, 100.0))
    fit = certified(holds, prior, rng.dirichlet(np.ones(900)) @ holds, slack, exact=False, share=1.0)
    assert fit.share == math.inf


def test_answers_beyond_all_numbers_end_a_fit_without_a_certificate():
    answers = np.array([1e160, -1e160])
    with np.errstate(all="ignore"):
        fit = project(Queries(np.eye(3)[:, :2] > 0), np.full(3, 1 / 3), answers, Slack(w=np.ones(2)))
    assert not fit.converged
