import itertools

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.optimize import nnls as lawson_hanson

import privmw as pmw
from extensions.postprocess.cases import (
    domain_of,
    drawn,
    drawn_histogram,
    matrix_of,
    measure,
    real_histograms,
    subsets,
)
from privmw.extensions.postprocess import (
    NoisyMarginal,
    NoisyMarginals,
    max_fit,
    nnls,
    ols,
    reweight,
    sequential,
)

METHODS = {method.__name__: method for method in (ols, nnls, max_fit, sequential, reweight)}
SHAPES = {
    "the paper's": ([9, 24], (0, 1, 2)),
    "a line": ([40], (0, 1)),
    "a cube": ([4, 5, 3], (0, 1, 2, 3)),
    "without identity": ([4, 5, 3], (0, 1, 2)),
    "margins alone": ([6, 7], (1,)),
    "a point": ([1], (0, 1)),
}
every = pytest.mark.parametrize("shape", SHAPES)


def weighted(measured, rows=None):
    """The matrix and the counts, over their standard deviations."""
    roots = 1 / np.sqrt(measured.variances)
    return matrix_of(measured, rows) * roots[:, None], measured.noisy_counts * roots


@every
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_nnls_answers_as_lawson_and_hanson_do(shape, noise):
    for seed in range(5):
        measured = drawn(*SHAPES[shape], seed, noise=noise)
        matrix, counts = weighted(measured)
        fit = nnls(measured)
        best, _ = lawson_hanson(matrix, counts, maxiter=100_000)
        np.testing.assert_allclose(matrix @ fit.weights, matrix @ best, atol=1e-7)
        if fit.certificate.unique:
            np.testing.assert_allclose(fit.weights, best, atol=1e-6)
        assert fit.certificate.kkt < 1e-9


@every
def test_ols_is_the_least_squares_solution(shape):
    for seed in range(3):
        measured = drawn(*SHAPES[shape], seed)
        matrix, counts = weighted(measured)
        best = np.linalg.lstsq(matrix, counts, rcond=None)[0]
        fit = ols(measured)
        np.testing.assert_allclose(matrix @ fit.weights, matrix @ best, atol=1e-7)
        assert fit.certificate.kkt < 1e-9
        assert fit.certificate.unique == ("identity" not in shape and shape != "margins alone")


def quadratic_program(matrix, counts, more, low, high):
    """min |matrix x - counts|^2 with x >= 0 and low <= more x <= high, by DAQP."""
    daqp = pytest.importorskip("daqp")
    rows = matrix.shape[1]
    hessian = matrix.T @ matrix
    found, _, flag, _ = daqp.solve(
        np.ascontiguousarray(hessian),
        -matrix.T @ counts,
        np.ascontiguousarray(more),
        np.concatenate([np.full(rows, 1e30), high]),
        np.concatenate([np.zeros(rows), low]),
        primal_tol=1e-9,
    )
    assert flag > 0
    return found


@pytest.mark.parametrize("shape", ["the paper's", "a line", "a cube"])
def test_max_fit_agrees_with_a_linear_and_a_quadratic_program(shape):
    for seed in range(8):
        measured = drawn(*SHAPES[shape], seed, noise="gaussian" if seed % 2 else "laplace", filled=0.1)
        matrix, counts = weighted(measured)
        rows, ones = matrix.shape[1], np.ones((len(counts), 1))
        least = linprog(
            np.append(np.zeros(rows), 1.0),
            A_ub=np.vstack([np.hstack([matrix, -ones]), np.hstack([-matrix, -ones])]),
            b_ub=np.concatenate([counts, -counts]),
        ).x[-1]
        fit = max_fit(measured)
        bound = fit.certificate.stages[-1].bound
        assert least - 1e-6 <= bound <= least + 0.01 + 1e-6
        best = quadratic_program(matrix, counts, matrix, counts - least - 0.01, counts + least + 0.01)
        np.testing.assert_allclose(fit.weights, best, atol=1e-4)
        assert np.abs(fit.residuals()).max() <= least + 0.01 + 1e-6
        assert max(fit.certificate.kkt, fit.certificate.violation) < 1e-9


def test_max_fit_finds_a_bound_beyond_the_trivial_one_and_says_it():
    domain = domain_of([3])
    histogram = NoisyMarginal(("x0",), [1.0, 2.0, 3.0], "gaussian", 1.0)
    fit = max_fit(NoisyMarginals([histogram, NoisyMarginal((), [16.0], "gaussian", 1.0)], domain))
    assert fit.certificate.stages[-1].bound == pytest.approx(2.5, abs=1e-6)
    assert fit.certificate.misfit <= 2.51 + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_sequential_agrees_with_quadratic_programs_stage_by_stage(seed):
    measured = drawn([5, 7], (0, 1, 2), seed, filled=0.15)
    matrix, counts = weighted(measured)
    total = max(measured.noisy_counts[0], 0.0)
    rows = simplex_projection(measured.noisy_counts[1:6], total)
    columns = simplex_projection(measured.noisy_counts[6:13], total)
    fit = sequential(measured)
    np.testing.assert_allclose(fit.fitted_counts()[:13], [total, *rows, *columns], atol=1e-6)
    # Of the held sums one is implied by the others.
    held, wanted = matrix_of(measured)[1:12], np.concatenate([rows, columns])[:11]
    kept = wanted > 1e-9
    empty = (held[~kept].sum(axis=0) > 0) | (matrix_of(measured)[12] * (columns[-1] <= 1e-9) > 0)
    best = np.zeros(35)
    if (~empty).any():
        best[~empty] = quadratic_program(
            matrix[13:][:, ~empty], counts[13:], held[kept][:, ~empty], wanted[kept], wanted[kept]
        )
    np.testing.assert_allclose(fit.weights, best, atol=1e-4)
    assert max(fit.certificate.kkt, fit.certificate.violation) < 1e-9
    assert [stage.name for stage in fit.certificate.stages] == ["total", "x0", "x1", "x0 x x1"]


def simplex_projection(counts, total):
    """The nearest non-negative numbers with this total."""
    low, high = counts.min() - total, counts.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(counts - middle, 0).sum() > total else (low, middle)
    return np.maximum(counts - high, 0)


def test_priorities_decide_what_is_kept():
    measured = drawn([5, 7], (0, 1, 2), 3)
    first = sequential(measured, priorities=[[("x0", "x1")], [(), ("x0",), ("x1",)]])
    np.testing.assert_allclose(first.weights, np.maximum(measured.noisy_counts[13:], 0), atol=1e-8)
    together = sequential(measured, priorities=[subsets(measured.domain, 0, 1, 2)])
    np.testing.assert_allclose(together.weights, nnls(measured).weights, atol=1e-6)


@pytest.mark.parametrize(
    ("priorities", "error", "match"),
    [
        ([[("x0",)]], ValueError, "priorities must cover all that was measured: x1 is in no group"),
        ([[("x0",), ("x1",)], []], ValueError, "must cover"),
        ([[("x0",), ("x1",)], [("x0",)]], ValueError, "only once"),
        ([[("x0",), ("x1",)], [("x0", "x1")]], ValueError, "must be one that was measured"),
        ([[("x0",), ("x2",)]], ValueError, "not in the domain"),
        (["x0", "x1"], TypeError, "priorities"),
        ("x0", TypeError, "priorities"),
    ],
)
def test_priorities_that_do_not_cover_the_measurements_are_refused(priorities, error, match):
    with pytest.raises(error, match=match):
        sequential(drawn([6, 7], (1,), 0), priorities=priorities)


def reweighted_by_the_paper(measured, confidence=0.99, std=False):
    """Algorithm 2 as it is written: rows, counts and weights of the last least squares problem."""
    matrix, rows, counts, weights = matrix_of(measured), [], [], []
    for j, noise in enumerate(measured.noises):
        own = np.arange(measured.offsets[j], measured.offsets[j + 1])
        given, var = measured.noisy_counts[own], noise.variance
        ordered, cutoff, j_star = np.sort(given), np.inf, len(own) + 1
        for k in range(1, len(own) + 1):
            if ordered[k - 1] >= noise.above(k, confidence):
                cutoff, j_star = ordered[k - 1], k
                break
        down = max(noise.median_of_largest(max(j_star - 1, 1)) / (var**0.5 if std else 1), 1)
        low = given < cutoff
        for cell, count, is_low in zip(own, given, low, strict=True):
            rows.append(matrix[cell])
            counts.append(count)
            weights.append(1 / (2 * var * down**2) if is_low else 1 / var)
        if low.any():
            rows.append(matrix[own[low]].sum(axis=0))
            counts.append(given[low].sum())
            weights.append(1 / (2 * low.sum() * var))
    roots = np.sqrt(weights)
    return np.array(rows) * roots[:, None], np.array(counts) * roots


@every
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("downweight", ["counts", "std"])
def test_reweight_is_the_papers_algorithm(shape, noise, downweight):
    for seed in range(3):
        measured = drawn(*SHAPES[shape], seed, noise=noise)
        matrix, counts = reweighted_by_the_paper(measured, std=downweight == "std")
        best, _ = lawson_hanson(matrix, counts, maxiter=100_000)
        fit = reweight(measured, downweight=downweight)
        np.testing.assert_allclose(matrix @ fit.weights, matrix @ best, atol=1e-6)
        assert fit.certificate.kkt < 1e-9


def test_reweight_refuses_marginals_of_several_noises():
    twice = [NoisyMarginal(("x0",), [1.0, 2.0], "laplace", scale) for scale in (1.0, 2.0)]
    with pytest.raises(ValueError, match=r"\('x0',\) must have one noise for all its cells"):
        reweight(NoisyMarginals(twice, domain_of([2])))
    assert nnls(NoisyMarginals(twice, domain_of([2]))).certificate.kkt < 1e-9


@pytest.mark.parametrize("wrong", [{"downweight": "none"}, {"confidence": 1.0}, {"confidence": "high"}])
def test_reweight_refuses_options_that_mean_nothing(wrong):
    with pytest.raises((TypeError, ValueError), match="must be"):
        reweight(drawn([3], (1,), 0), **wrong)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", ["the paper's", "a cube", "without identity", "margins alone"])
def test_a_public_total_is_kept_exactly(method, shape):
    measured = drawn(*SHAPES[shape], 7)
    fit = METHODS[method](measured, total=1000)
    assert fit.weights.sum() == pytest.approx(1000, abs=1e-5)
    assert max(fit.certificate.kkt, fit.certificate.violation) < 1e-8
    assert method == "ols" or fit.weights.min() >= 0


def some_support(measured, seed, share=0.5):
    rng = np.random.default_rng(seed)
    full = pmw.Support.full(measured.domain).table
    return pmw.Support.from_table(full.take(rng.random(full.n) < share))


@pytest.mark.parametrize("shape", ["the paper's", "a cube", "without identity", "margins alone"])
def test_over_a_support_only_its_rows_get_weights(shape):
    for seed in range(3):
        measured = drawn(*SHAPES[shape], seed)
        support = some_support(measured, seed)
        matrix, counts = weighted(measured, support.rows)
        best, _ = lawson_hanson(matrix, counts, maxiter=100_000)
        fit = nnls(measured, support)
        np.testing.assert_allclose(matrix @ fit.weights, matrix @ best, atol=1e-6)
        np.testing.assert_allclose(
            fit.fitted_counts(), matrix_of(measured, support.rows) @ fit.weights, atol=1e-9
        )
        for method in METHODS.values():
            certificate = method(measured, support).certificate
            assert max(certificate.kkt, certificate.violation) < 1e-8


@pytest.mark.parametrize("shape", ["without identity", "margins alone"])
@pytest.mark.parametrize("method", [nnls, reweight])
def test_coordinate_descent_and_proximal_steps_answer_alike(shape, method, monkeypatch):
    measured = drawn(*SHAPES[shape], 4)
    for support in (None, some_support(measured, 4, 0.8)):
        stepped = method(measured, support)
        monkeypatch.setattr("privmw.extensions.postprocess.solve.MOST_QUERIES_OF_PROXIMAL_STEPS", 0)
        descended = method(measured, support)
        monkeypatch.undo()
        assert descended.certificate.kkt < 1e-7
        np.testing.assert_allclose(descended.fitted_counts(), stepped.fitted_counts(), atol=0.5)
        again, found = (fit.certificate.stages[0].objective for fit in (descended, stepped))
        assert found - 1e-9 <= again <= found * (1 + 1e-5)


def test_where_weights_are_not_unique_they_stay_near_the_public_ones():
    domain = domain_of([2, 2])
    rows = [[0, 0]] * 6 + [[0, 1]] * 2 + [[1, 0]]
    support = pmw.Support.from_table(pmw.Table.from_codes(rows, domain, private=False))
    fit = nnls(NoisyMarginals([NoisyMarginal((), [90.0], "laplace", 1.0)], domain), support)
    np.testing.assert_allclose(fit.weights, [60, 20, 10])
    assert not fit.certificate.unique


def test_a_support_that_cannot_match_says_by_how_much():
    domain = domain_of([2, 2])
    support = pmw.Support.from_table(pmw.Table.from_codes([[0, 0], [0, 1]], domain, private=False))
    given = NoisyMarginal(("x0",), [50.0, 30.0], "gaussian", 2.0)
    certificate = nnls(NoisyMarginals([given], domain), support).certificate
    assert certificate.unreached == pytest.approx(15.0)
    assert certificate.misfit == pytest.approx(15.0)
    for method in METHODS.values():
        assert method(NoisyMarginals([given], domain), support).certificate.unreached == pytest.approx(15.0)


EXTREME_COUNTS = [
    [0.0] * 12,
    [-5.0] * 12,
    [1e12, *[-1e12] * 11],
    [2.0**58] * 12,
    [1e-9] * 12,
    [*[0.0] * 11, 1e6],
]


@pytest.mark.parametrize("method", METHODS)
def test_no_counts_make_a_method_fail(method):
    for counts in EXTREME_COUNTS:
        domain = domain_of([3, 4])
        given = [
            NoisyMarginal((), [sum(counts) / 3], "laplace", 1.0),
            NoisyMarginal(("x0",), counts[:3], "gaussian", 1e-3),
            NoisyMarginal(("x1",), counts[3:7], "discrete-laplace", 1e3),
            NoisyMarginal(("x0", "x1"), counts, "discrete-gaussian", 3.0),
        ]
        for marginals in (given, given[:3], given[1:2]):
            certificate = METHODS[method](NoisyMarginals(marginals, domain)).certificate
            assert max(certificate.kkt, certificate.violation) < 1e-8


@pytest.mark.parametrize("name", ["Level00_2d", "SplitStairs_1d", "Step16_2d"])
def test_real_and_planted_histograms_are_fitted_at_every_budget(name):
    counts, rng = real_histograms()[name], np.random.default_rng(5)
    domain = domain_of(counts.shape)
    marginals = subsets(domain, *range(counts.ndim + 1))
    for scale, method in itertools.product((4.0, 40.0), METHODS.values()):
        certificate = method(measure(domain, counts, marginals, scale, rng)).certificate
        assert max(certificate.kkt, certificate.violation) < 1e-9


def test_the_five_methods_rank_as_in_the_paper():
    rng = np.random.default_rng(11)
    domain, counts = domain_of([10, 10]), np.zeros((10, 10))
    counts[0, 0] = 10_000
    squares = {name: [] for name in METHODS}
    for _ in range(60):
        measured = measure(domain, counts, subsets(domain, 0, 1, 2), 8.0, rng)
        for name, method in METHODS.items():
            squares[name].append((method(measured).weights.sum() - 10_000) ** 2)
    mean = {name: np.mean(found) for name, found in squares.items()}
    assert max(mean["ols"], mean["reweight"], mean["sequential"]) < 200 < 300 < mean["nnls"] < mean["max_fit"]


def test_domains_and_supports_that_do_not_belong_are_refused():
    measured = drawn([3, 4], (1,), 0)
    with pytest.raises(ValueError, match="must be on the domain"):
        nnls(measured, pmw.Support.full(domain_of([3, 5])))
    with pytest.raises(TypeError, match="support"):
        nnls(measured, "rows")
    with pytest.raises(TypeError, match="must be NoisyMarginals"):
        nnls([1.0])
    with pytest.raises(ValueError, match=r"total \(-1\)"):
        nnls(measured, total=-1)
    huge = domain_of([2**10] * 4)
    given = NoisyMarginal(("x0",), np.zeros(2**10), "laplace", 1.0)
    with pytest.raises(ValueError, match="give a support"):
        nnls(NoisyMarginals([given], huge))


def test_a_fit_answers_any_marginal():
    rng, domain = np.random.default_rng(2), domain_of([3, 4, 2])
    counts = drawn_histogram([3, 4, 2], rng)
    fit = nnls(measure(domain, counts, subsets(domain, 0, 1, 3), 1.0, rng))
    weights = fit.weights.reshape(3, 4, 2)
    np.testing.assert_allclose(fit.marginal(["x2", "x0"]), weights.sum(axis=1))
    np.testing.assert_allclose(fit.marginal([]), weights.sum())
    over = nnls(fit.measured, pmw.Support.full(domain))
    np.testing.assert_allclose(over.marginal(["x2", "x0"]), fit.marginal(["x0", "x2"]), atol=1e-7)
    assert not fit.weights.flags.writeable
    assert "nnls" in repr(fit)
