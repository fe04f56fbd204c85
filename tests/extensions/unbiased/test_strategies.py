"""Strategies: stated variances against dense least squares, costs, orders of merit, refusals."""

from __future__ import annotations

import itertools
import math
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from privmw import Budget, Domain, Table, Workload, strategies
from privmw.accounting import ResidualGaussian
from privmw.curator import Curator
from privmw.extensions.unbiased.one_shot import measure_shot
from privmw.extensions.unbiased.strategies.closure import Closure
from privmw.extensions.unbiased.strategies.shot import noise_variance

ZCDP = Budget.approximate(1, 1e-9, event_delta=1e-10)
PURE = Budget.pure(1)
DOMAIN = Domain({"a": 2, "b": 3, "one": 1, "c": 2, "d": 4})
WORKLOAD = Workload(DOMAIN, [("a", "b"), ("b", "one", "c"), ("c", "d"), ("a",), ("one",)])
ADULT = Domain(dict(zip("abcdefghijklm", [2, 2, 5, 6, 7, 9, 15, 16, 42, 16, 6, 10, 10], strict=True)))
KINDS = {
    "equal": (strategies.equal(), ZCDP),
    "equal, Laplace": (strategies.equal(), PURE),
    "largest": (strategies.residual("largest"), ZCDP),
    "marginals": (strategies.residual("marginals"), ZCDP),
    "cells": (strategies.residual("cells", weights=[1, 2, 3, 4, 5]), ZCDP),
    "hdmm": (strategies.hdmm(), ZCDP),
    "hdmm, Laplace": (strategies.hdmm(), PURE),
}


def rows_of(domain, names):
    """The matrix from cells of the whole domain to cells of a marginal."""
    shape, places = domain.sizes, [domain.index(name) for name in names]
    cells = np.array(list(itertools.product(*map(range, shape))))
    at = np.ravel_multi_index([cells[:, place] for place in places], [shape[place] for place in places])
    matrix = np.zeros((math.prod(shape[place] for place in places), len(cells)))
    matrix[at, np.arange(len(cells))] = 1
    return matrix


def project(domain, names, matrix):
    """P_S of every column of a matrix of cells of a marginal."""
    shape = [domain.sizes[domain.index(name)] for name in names]
    table = matrix.reshape(*shape, -1)
    for axis in range(len(shape)):
        table = table - table.mean(axis=axis, keepdims=True)
    return table.reshape(matrix.shape)


def dense_covariance(shot):
    """The covariance of all answers by generalised least squares over the whole domain, n known exactly."""
    domain = shot.domain
    information = np.zeros((domain.size, domain.size))
    for look in shot.looks:
        matrix = rows_of(domain, look.attributes)
        if shot.kind == "residuals":
            matrix = project(domain, look.attributes, matrix)
        information += matrix.T @ matrix / noise_variance(shot.family, look.scale)
    known = np.eye(domain.size) - 1 / domain.size  # the total is known: what is not is orthogonal to it
    return np.linalg.pinv(known @ information @ known, rcond=1e-11, hermitian=True)


@pytest.mark.parametrize("name", KINDS)
def test_stated_variances_are_those_of_least_squares(name):
    strategy, budget = KINDS[name]
    shot = strategy.calibrate(WORKLOAD, budget)
    dense = dense_covariance(shot)
    for names, variance in zip(WORKLOAD, shot.variances(), strict=True):
        matrix = rows_of(DOMAIN, names)
        covariance = matrix @ dense @ matrix.T
        np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-5, atol=1e-5)
        assert shot.variance(names) == pytest.approx(variance, rel=1e-12)
    inside = shot.variance(["d"])
    assert inside == pytest.approx(
        (rows_of(DOMAIN, ["d"]) @ dense @ rows_of(DOMAIN, ["d"]).T)[0, 0], rel=1e-5
    )


@pytest.mark.parametrize("name", ["largest", "hdmm, Laplace"])
def test_covariances_are_those_of_least_squares(name):
    strategy, budget = KINDS[name]
    shot = strategy.calibrate(WORKLOAD, budget)
    functions = [
        [(["a", "b"], [1, 2], 1.0)],
        [(["b", "a"], [2, 1], 1.0), (["d"], [3], -2.0)],
        [(["c", "b"], [0, 1], 0.5), (["b"], [1], 1.0), (["one"], [0], 7.0)],
    ]
    matrix = np.zeros((3, DOMAIN.size))
    for number, function in enumerate(functions):
        for names, codes, coefficient in function:
            ordered = sorted(zip(names, codes, strict=True), key=lambda pair: DOMAIN.index(pair[0]))
            at = np.ravel_multi_index(
                [code for _, code in ordered], [DOMAIN.sizes[DOMAIN.index(one)] for one, _ in ordered]
            )
            matrix[number] += coefficient * rows_of(DOMAIN, [one for one, _ in ordered])[at]
    expected = matrix @ dense_covariance(shot) @ matrix.T
    np.testing.assert_allclose(shot.covariance(functions), expected, rtol=1e-5, atol=1e-4)
    assert shot.covariance([functions[0]])[0, 0] == pytest.approx(shot.variance(["a", "b"]))


def some_table(seed=0, rows=500):
    generator = np.random.default_rng(seed)
    codes = np.column_stack([generator.integers(0, size, rows) for size in DOMAIN.sizes])
    return Table.from_codes(codes, DOMAIN, private=True)


@pytest.mark.parametrize("name", KINDS)
def test_a_shot_spends_its_events_and_answers_consistently(name):
    strategy, budget = KINDS[name]
    shot, table = strategy.calibrate(WORKLOAD, budget), some_table()
    with Curator(table, shot.measured, budget, rng=3) as curator:
        noisy = measure_shot(curator, shot)
        assert curator.ledger.events == shot.events
        assert budget.allows(shot.cost)
        assert float(budget.spent(shot.cost)) == pytest.approx(float(budget.limit), rel=1e-6)
    residuals = shot.residuals(noisy)
    pair = shot.reconstruct(residuals, table.n, ["a", "b"]).reshape(2, 3)
    assert pair.sum() == pytest.approx(table.n)
    np.testing.assert_allclose(pair.sum(axis=1), shot.reconstruct(residuals, table.n, ["a"]))
    np.testing.assert_allclose(shot.reconstruct(residuals, table.n, ["one"]), [table.n])
    middle = shot.reconstruct(residuals, table.n, ["c", "b"]).reshape(3, 2)
    np.testing.assert_allclose(middle.sum(axis=1), pair.sum(axis=0))
    one_by_one = [shot.reconstruct(residuals, table.n, names) for names in WORKLOAD]
    assert np.array_equal(shot.reconstruct_workload(residuals, table.n), np.concatenate(one_by_one))


@pytest.mark.parametrize("name", ["largest", "equal, Laplace", "hdmm"])
def test_answers_are_unbiased_with_the_stated_variance(name):
    strategy, budget = KINDS[name]
    shot, table = strategy.calibrate(WORKLOAD, budget), some_table()
    names, draws = ("c", "d"), 400
    true = table.counts(Workload(DOMAIN, [names]))
    errors = []
    for seed in range(draws):
        with Curator(table, shot.measured, budget, rng=seed) as curator:
            residuals = shot.residuals(measure_shot(curator, shot))
        errors.append(shot.reconstruct(residuals, table.n, names) - true)
    errors = np.array(errors)
    sigma = shot.variance(names) ** 0.5
    assert np.abs(errors.mean(axis=0)).max() < 5 * sigma / draws**0.5
    # Eight cells are correlated: the mean square of 400 draws has a relative error below 5 %.
    assert (errors**2).mean() == pytest.approx(sigma**2, rel=0.2)


def test_a_tenth_of_noise_more_or_less_would_show():
    """The power of the test above: 20 % is what a sigma wrong by a tenth makes of a variance."""
    assert pytest.approx(1, rel=0.2) != 1.1**2
    assert pytest.approx(1, rel=0.2) != 0.89**2


def test_residual_strategies_win_where_they_should_on_the_shape_of_adult():
    workload = Workload.all(ADULT, k=3)
    raw = len(workload) / float(ZCDP.limit)  # the variance of a cell where every marginal has an equal share
    measured = {}
    for name in ("marginals", "largest"):
        shot = strategies.residual(name).calibrate(workload, ZCDP)
        measured[name] = np.sqrt(shot.variances() / raw)
        assert len(shot.looks) == len(shot.closure) == 13 + 78 + 286
    equal = np.sqrt(strategies.equal().calibrate(workload, ZCDP).variances() / raw)
    assert [round(float(equal.mean()), 2), round(float(equal.max()), 2)] == [0.79, 0.93]
    assert measured["marginals"].mean() <= 0.73
    assert measured["marginals"].max() <= 0.80
    assert measured["largest"].mean() <= 0.73
    assert measured["largest"].max() <= 0.73
    assert measured["marginals"].mean() < measured["largest"].mean()


def total(shot):
    return float(shot.variances() @ np.diff(shot.workload.offsets))


@pytest.mark.parametrize("budget", [ZCDP, PURE], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("sizes", [[2, 2, 5, 6, 7, 9, 15], [2] * 13, [3, 3, 3, 3], [2, 9, 40]], ids=str)
def test_hdmm_beats_equal_shares_and_residuals_beat_hdmm(sizes, budget):
    domain = Domain({f"x{i}": size for i, size in enumerate(sizes)})
    workload = Workload.all(domain, k=min(3, len(sizes) - 1))
    hdmm, equal = (kind.calibrate(workload, budget) for kind in (strategies.hdmm(), strategies.equal()))
    assert total(hdmm) <= total(equal) * (1 + 1e-3)
    if budget is ZCDP:
        assert total(strategies.residual("cells").calibrate(workload, budget)) <= total(hdmm)


def test_hdmm_finds_the_optimum_that_is_known_by_hand():
    # One marginal is best measured by itself; two disjoint ones of like size have equal shares.
    domain = Domain({"a": 4, "b": 4})
    (look,) = strategies.hdmm().calibrate(Workload(domain, [("a",)]), ZCDP).looks
    assert look.attributes == ("a",)
    assert look.share == pytest.approx(ZCDP.limit, rel=1e-3)
    shot = strategies.hdmm().calibrate(Workload(domain, [("a",), ("b",)]), PURE)
    shares = {look.attributes: float(look.share) for look in shot.looks}
    # Either half for each, with variances 2 (4 / 1)^2 3/4 ... or both from the table of both: what is less.
    assert total(shot) <= total(strategies.equal().calibrate(Workload(domain, [("a",), ("b",)]), PURE)) * (
        1 + 1e-6
    )
    assert sum(shares.values()) == pytest.approx(1)


def test_weights_move_noise_where_they_point():
    workload = Workload(DOMAIN, [("a", "b"), ("c", "d")])
    even = strategies.residual("marginals").calibrate(workload, ZCDP).variances()
    first = strategies.residual("marginals", weights=[9, 1]).calibrate(workload, ZCDP).variances()
    assert first[0] < even[0]
    assert first[1] > even[1]
    levelled = strategies.residual("largest", weights=[4, 1]).calibrate(workload, ZCDP).variances()
    assert 4 * levelled[0] == pytest.approx(levelled[1], rel=0.01)
    none = strategies.residual("marginals", weights=[1, 0]).calibrate(workload, ZCDP)
    assert list(none.measured) == [("a", "b")]
    with pytest.raises(ValueError, match="must lie inside a marginal of the shot"):
        none.variance(["c", "d"])


@pytest.mark.parametrize("name", ["equal", "equal, Laplace", "largest", "hdmm"])
def test_units_of_several_records_have_as_much_more_noise(name):
    strategy, budget = KINDS[name]
    one, four = (strategy.calibrate(WORKLOAD, budget, at_most=many).variances() for many in (1, 4))
    np.testing.assert_allclose(four[:4], 16 * one[:4], rtol=0.02)


def test_a_shot_is_a_pure_function_and_frozen():
    first, again = (strategies.residual().calibrate(WORKLOAD, ZCDP) for _ in range(2))
    assert first.events == again.events
    assert first.looks == again.looks
    with pytest.raises(FrozenInstanceError):
        first.at_most = 2
    assert strategies.residual() == strategies.residual("largest")
    assert "residuals" in repr(first)


def test_many_attributes_are_bounded_and_cheaper_than_equal_shares():
    generator = np.random.default_rng(2)
    domain = Domain({f"x{i}": int(size) for i, size in enumerate(generator.integers(2, 9, 24))})
    workload = Workload.sample(domain, k=3, size=120, seed=1)
    shot = strategies.residual("largest").calibrate(workload, ZCDP)
    assert isinstance(shot.events[0], ResidualGaussian)
    assert ZCDP.allows(shot.cost)
    equal = strategies.equal().calibrate(workload, ZCDP)
    assert shot.variances().max() < equal.variances().max()


def test_the_closure_is_every_set_inside_and_knows_its_sums():
    closure = Closure.of(WORKLOAD)
    assert closure.looks() == ((0,), (1,), (3,), (4,), (0, 1), (1, 3), (3, 4))
    assert closure.find([1, 3]) == 5
    assert closure.find([0, 4]) == closure.find([2]) == -1
    onto = closure.onto_sets(np.array([1.0, 10, 100, 1000, 0]), 1)
    np.testing.assert_allclose(onto[:4], [1 / 3 + 1000, 1 / 2 + 10 / 2, 10 / 3 + 100 / 4, 100 / 2])
    back = closure.onto_marginals(np.arange(7.0))
    np.testing.assert_allclose(back, [0 + 1 / 4 + 4, 1 / 4 + 2 / 9 + 5, 2 / 16 + 3 / 4 + 6, 0, 0])


THIRTY = Domain({f"x{i}": 2 for i in range(30)})
FOURTEEN = Domain({f"x{i}": 2 for i in range(14)})


@pytest.mark.parametrize(
    ("error", "match", "make"),
    [
        (ValueError, "loss .* must be one of", lambda: strategies.residual("mean")),
        (ValueError, "weights .* must be finite and not", lambda: strategies.residual(weights=[1, -1])),
        (ValueError, r"weights \(all zero\)", lambda: strategies.residual(weights=[0, 0.0])),
        (ValueError, "weights", lambda: strategies.residual(weights=[math.nan])),
        (TypeError, "weights .* must be numbers", lambda: strategies.residual(weights=["1"])),
        (ValueError, "weights .* one for each of 5", lambda: calibrated(strategies.residual(weights=[1]))),
        (ValueError, "must be of zCDP", lambda: calibrated(strategies.residual(), budget=PURE)),
        (ValueError, "of zCDP or", lambda: calibrated(budget=Budget.approximate(1, 1e-6, "advanced"))),
        (ValueError, r"event_delta \(0.0\) of the budget must be at least",
         lambda: calibrated(strategies.residual(), budget=Budget.zcdp(0.01))),
        (ValueError, "budget .* must be smaller for residual noise",
         lambda: calibrated(strategies.residual(), budget=Budget.zcdp(50, event_delta=0.1))),
        (ValueError, "must have at most 13 for HDMM",
         lambda: calibrated(strategies.hdmm(), Workload.all(FOURTEEN, k=2))),
        (ValueError, "at least one marginal", lambda: calibrated(workload=Workload(DOMAIN, []))),
        (ValueError, "two values or more",
         lambda: calibrated(strategies.residual(), Workload(DOMAIN, [("one",)]))),
        (ValueError, "two values or more",
         lambda: calibrated(strategies.hdmm(), Workload(DOMAIN, [("one",)]))),
        (TypeError, "workload .* must be a Workload", lambda: calibrated(workload="all")),
        (TypeError, "budget .* must be a Budget", lambda: calibrated(budget=1.0)),
        (ValueError, r"at_most \(0\) must be positive", lambda: calibrated(at_most=0)),
        (ValueError, r"at most 2\^24 subsets",
         lambda: calibrated(strategies.residual(), Workload.all(THIRTY, k=6))),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(error, match, make):
    with pytest.raises(error, match=match):
        make()


def calibrated(strategy=None, workload=WORKLOAD, budget=ZCDP, at_most=1):
    return (strategy or strategies.equal()).calibrate(workload, budget, at_most)


def test_what_a_shot_cannot_answer_is_refused():
    shot = strategies.residual().calibrate(WORKLOAD, ZCDP)
    with pytest.raises(ValueError, match="must lie inside a marginal of the shot"):
        shot.variance(["a", "d"])
    with pytest.raises(TypeError, match="must be a tuple of names"):
        shot.variance("a")
    with pytest.raises(ValueError, match="must not name an attribute twice"):
        shot.variance(["a", "a"])
    with pytest.raises(ValueError, match="code of 'a' must be from 0 to"):
        shot.covariance([[(["a"], [9], 1.0)]])
    with pytest.raises(ValueError, match=r"codes .* must be 1"):
        shot.covariance([[(["a"], [0, 1], 1.0)]])
    with pytest.raises(ValueError, match="must be one for each of 7 looks"):
        shot.residuals([])


def test_shares_of_a_shot_add_up_to_the_budget():
    for name in ("equal", "equal, Laplace", "hdmm", "hdmm, Laplace"):
        strategy, budget = KINDS[name]
        shot = strategy.calibrate(WORKLOAD, budget)
        assert sum((look.share for look in shot.looks), Fraction(0)) == budget.limit
