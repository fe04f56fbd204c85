"""The projection's certificate, recomputed from the primal: what it says of itself must be true."""

from __future__ import annotations

import numpy as np
import pytest

from privmw import kernels
from privmw.models.groups import Groups
from privmw.models.projected import Cells
from privmw.projection import Slack, project


def instance(seed, rows=60, queries=8):
    rng = np.random.default_rng(seed)
    groups = Groups(rows)
    held = rng.random((queries, rows)) < rng.uniform(0.1, 0.7, (queries, 1))
    held[:, 0], held[:, 1] = True, False  # each query holds a row, and leaves one out
    for query in held:
        groups.add(np.flatnonzero(query).astype(np.uint32))
    starts, found = groups.incidence()
    prior = rng.exponential(size=rows)
    prior /= prior.sum()
    operator = Cells(np.arange(queries), kernels.Incidence(starts, found, queries))
    return operator, groups, prior, held.astype(float), rng


def divergence(weights, prior):
    kept = weights > 0
    return float((weights[kept] * np.log(weights[kept] / prior[kept])).sum())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("w", [1.0, 1e3, 1e7])
def test_the_gap_of_l2_is_the_primal_less_the_dual(seed, w):
    operator, groups, prior, held, rng = instance(seed)
    other = rng.exponential(size=prior.size)
    noise = rng.normal(0, 3 / np.sqrt(w), len(held))  # of no distribution, and far outside 0 to 1 at w = 1
    answers = held @ (other / other.sum()) + noise
    slack = Slack(w=np.full(len(held), w))
    grouped = groups.sums(prior)
    fit = project(operator, grouped, answers, slack)
    assert fit.converged
    assert fit.gap <= 1e-9
    rows = prior * (fit.weights / grouped)[groups.of_row]
    missed = held @ rows - answers
    primal = divergence(rows, prior) + w * (missed @ missed) / 2
    dual = fit.multipliers @ answers - np.log(prior @ np.exp(held.T @ fit.multipliers))
    dual -= (fit.multipliers @ fit.multipliers) / (2 * w)
    assert primal - dual == pytest.approx(fit.gap, abs=1e-9 * max(1, primal))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gamma", [0.0, 1e-3, 0.05])
def test_l1_keeps_within_gamma_of_answers_that_some_distribution_gives(seed, gamma):
    operator, groups, prior, held, rng = instance(seed)
    other = rng.exponential(size=prior.size)
    answers = held @ (other / other.sum())
    grouped = groups.sums(prior)
    fit = project(operator, grouped, answers, Slack(gamma=np.full(len(held), gamma)))
    assert fit.converged
    assert fit.feasible
    assert fit.kkt <= 1e-9
    rows = prior * (fit.weights / grouped)[groups.of_row]
    missed = held @ rows - answers
    assert np.abs(missed).max() <= gamma + 1e-9
    dual = fit.multipliers @ answers - np.log(prior @ np.exp(held.T @ fit.multipliers))
    dual -= gamma * np.abs(fit.multipliers).sum()
    assert divergence(rows, prior) - dual == pytest.approx(0.0, abs=2e-9)


@pytest.mark.parametrize("margin", [0.1, 1e-2, 1e-3])
def test_a_gamma_that_no_distribution_meets_is_proved_so(margin):
    groups = Groups(4)
    for rows in ([0, 1], [2, 3]):  # the two answers of any distribution add up to 1
        groups.add(np.array(rows, np.uint32))
    starts, queries = groups.incidence()
    operator = Cells(np.arange(2), kernels.Incidence(starts, queries, 2))
    prior, answers = groups.sums(np.full(4, 0.25)), np.array([0.6, 0.6])
    slack = Slack(gamma=np.full(2, 0.1 - margin / 2))
    assert not project(operator, prior, answers, slack).feasible
    met = project(operator, prior, answers, Slack(gamma=np.full(2, 0.1 + margin / 2)))
    assert met.feasible
    assert met.converged


def test_a_warm_start_at_the_solution_takes_no_step():
    operator, groups, prior, held, rng = instance(3)
    slack, answers = Slack(w=np.full(len(held), 50.0)), rng.random(len(held))
    first = project(operator, groups.sums(prior), answers, slack, tolerance=1e-12)
    again = project(operator, groups.sums(prior), answers, slack, multipliers=first.multipliers)
    assert again.steps == 0
    np.testing.assert_array_equal(again.multipliers, first.multipliers)


def test_the_check_of_the_gap_notices_wrong_multipliers():
    operator, groups, prior, held, rng = instance(4)
    slack = Slack(w=np.full(len(held), 1e3))
    answers = rng.random(len(held))
    fit = project(operator, groups.sums(prior), answers, slack)
    wrong = fit.multipliers * 1.01
    tilted = prior * np.exp(held.T @ wrong)
    assert slack.gap(wrong, held @ (tilted / tilted.sum()) - answers) > 1e-6
