"""Mechanisms: exact laws and exact scales, events that state them, and refusals before any draw."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kernels.cases import NATIVE_DRAWS
from privmw import mechanisms
from privmw import random as streams
from privmw.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    epsilon_from_q,
    epsilon_from_rho,
)
from privmw.curator import Curator
from privmw.kernels import draws
from privmw.mechanisms import selection
from privmw.random import ChaCha20, chacha20_python
from truth.scripted_words import Branches, RefusedError

CHECK = settings(derandomize=True, deadline=None, max_examples=60)
SAMPLES = 30_000 if NATIVE_DRAWS else 3_000
ALPHA = 1e-9

SELECT = {
    "permute-and-flip": (mechanisms.select_permute_and_flip, PermuteAndFlip),
    "exponential": (mechanisms.select_exponential, ExponentialMechanism),
    "report-noisy-max": (mechanisms.report_noisy_max, ReportNoisyMax),
}
FUNCTIONS = [
    mechanisms.select_permute_and_flip,
    mechanisms.select_exponential,
    mechanisms.report_noisy_max,
    mechanisms.add_discrete_gaussian,
    mechanisms.add_discrete_laplace,
    mechanisms.randomized_response,
    mechanisms.draw_exponential,
]
EPSILONS = st.one_of(
    st.floats(1e-9, 1e6), st.integers(1, 1000), st.fractions(Fraction(1, 10**9), 1000, max_denominator=10**12)
)


def permute_and_flip_law(weights):
    """Every set of heads, one of them uniformly. Exact if the weights are Fractions."""
    law = [0 * weights[0]] * len(weights)
    for heads in itertools.product((0, 1), repeat=len(weights)):
        chance = math.prod((w if h else 1 - w for w, h in zip(weights, heads, strict=True)), start=1)
        for i, head in enumerate(heads):
            law[i] += head * chance / max(sum(heads), 1)
    return law


def exponential_law(weights):
    return [weight / sum(weights) for weight in weights]


LAWS = {
    "permute-and-flip": permute_and_flip_law,
    "exponential": exponential_law,
    "report-noisy-max": permute_and_flip_law,
}


def neighbouring_scores(size, spread):
    for here in itertools.product(range(spread), repeat=size):
        for move in itertools.product((-1, 0, 1), repeat=size):
            yield here, tuple(a + b for a, b in zip(here, move, strict=True))


@pytest.mark.parametrize("kind", ["permute-and-flip", "exponential"])
@pytest.mark.parametrize("x", [Fraction(9, 10), Fraction(3, 5), Fraction(1, 7)])
@pytest.mark.parametrize(("size", "spread"), [(2, 4), (3, 3), (4, 2)])
def test_selection_laws_of_neighbours_are_within_e_to_the_epsilon(kind, x, size, spread):
    # x = exp(-epsilon / 2) is what a unit of score is worth; a rational x makes everything exact.
    law = LAWS[kind]
    laws = {}

    def at(scores):
        lifted = tuple(score - max(scores) for score in scores)
        if lifted not in laws:
            laws[lifted] = law([x**-score for score in lifted])
            assert sum(laws[lifted]) == 1
        return laws[lifted]

    worst = Fraction(0)
    for here, there in neighbouring_scores(size, spread):
        worst = max(worst, *(a / b for a, b in zip(at(here), at(there), strict=True)))
    assert worst <= 1 / x**2
    assert worst > 1 / x  # half the exponent would not do


@pytest.mark.parametrize("kind", ["permute-and-flip", "exponential"])
def test_top_k_laws_of_neighbours_are_within_k_epsilons(kind):
    x = Fraction(3, 5)

    def law_of_two(scores):
        first = LAWS[kind]([x ** (max(scores) - score) for score in scores])
        for i, chance in enumerate(first):
            left = [score for j, score in enumerate(scores) if j != i]
            second = LAWS[kind]([x ** (max(left) - score) for score in left])
            yield from (chance * other for other in second)

    worst = max(
        a / b
        for here, there in neighbouring_scores(3, 2)
        for a, b in zip(law_of_two(here), law_of_two(there), strict=True)
    )
    assert 1 / x**2 < worst <= 1 / x**4  # one epsilon would not pay for two


@pytest.mark.parametrize("kind", SELECT)
@given(epsilon=EPSILONS, sensitivity=st.integers(1, 2**40), k=st.integers(1, 3))
@CHECK
def test_selection_draws_with_exactly_the_weight_that_the_event_states(kind, epsilon, sensitivity, k):
    seen = []

    def capture(generator, scores, numerator, denominator, count):
        seen.append((Fraction(numerator, denominator), count))
        return np.arange(count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws.choice.kernels, selection._DRAWS[kind], capture)
        chosen, event = SELECT[kind][0](np.arange(5), sensitivity=sensitivity, epsilon=epsilon, k=k, rng=1)
    assert chosen == tuple(range(k))
    assert seen == [(Fraction(epsilon) / (2 * sensitivity), k)]
    assert event == SELECT[kind][1](epsilon, candidates=5, count=k)
    assert event.cost.epsilon == k * Fraction(epsilon)
    assert event.cost.rho == k * Fraction(epsilon) ** 2 / (8 if kind == "exponential" else 2)


def test_the_papers_exponential_mechanism_is_ours_at_twice_alpha_epsilon0():
    alpha, epsilon0 = Fraction(2, 3), Fraction(1, 50)
    prepared = mechanisms.Selection.prepare(
        "exponential", candidates=9, sensitivity=1, epsilon=2 * alpha * epsilon0
    )
    assert prepared.weight == alpha * epsilon0  # P(q) ~ exp(alpha epsilon0 n |error|)
    assert prepared.event.cost.rho == (alpha * epsilon0) ** 2 / 2


def selections(kind, scores, size, **options):
    generator = np.random.Generator(np.random.PCG64(3)) if NATIVE_DRAWS else chacha20_python.ChaCha20(seed=3)
    return [SELECT[kind][0](scores, rng=generator, **options)[0] for _ in range(size)]


@pytest.mark.parametrize("kind", SELECT)
@pytest.mark.skipif(not NATIVE_DRAWS, reason="the Python twin is too slow for the power stated")
def test_selection_fits_its_law_and_not_one_wrong_by_a_tenth(kind):
    scores = np.array([40, 28, 0, 36, 40])
    counts = np.bincount(selections(kind, scores, SAMPLES, sensitivity=2, epsilon=0.5), minlength=5)
    for wrong, fits in ((1, True), (0.9, False), (1.1, False)):
        law = np.array(LAWS[kind](np.exp(-0.5 / 4 * wrong * (40 - scores)).tolist()))
        assert bool(stats.chisquare(counts, law * SAMPLES).pvalue > ALPHA) is fits


def test_draws_with_replacement_have_the_law_of_single_ones():
    scores, size = np.array([40, 28, 0, 36, 40]), 2 * SAMPLES
    generator = np.random.Generator(np.random.PCG64(4)) if NATIVE_DRAWS else chacha20_python.ChaCha20(seed=4)
    drawn, event = mechanisms.draw_exponential(scores, sensitivity=2, epsilon=0.5, k=size, rng=generator)
    assert event == ExponentialMechanism(0.5, candidates=5, count=size)
    law = np.array(exponential_law(np.exp(-0.5 / 4 * (40 - scores)).tolist()))
    assert stats.chisquare(np.bincount(drawn, minlength=5), law * size).pvalue > ALPHA
    # Neighbours in the sequence are independent: a pair is as likely as its parts.
    pairs = np.array(drawn).reshape(-1, 2)
    joint = np.bincount(pairs[:, 0] * 5 + pairs[:, 1], minlength=25).reshape(5, 5)
    common = joint[np.ix_([0, 1, 3, 4], [0, 1, 3, 4])]
    assert stats.chi2_contingency(common).pvalue > ALPHA
    if NATIVE_DRAWS:  # choices without replacement would show: none is paired with itself
        wrong = common - np.diag(np.diag(common)) + 1
        assert stats.chi2_contingency(wrong).pvalue < ALPHA
        tilted = exponential_law(np.exp(-0.5 / 4 * 1.1 * (40 - scores)).tolist())
        assert stats.chisquare(np.bincount(drawn, minlength=5), np.array(tilted) * size).pvalue < ALPHA


def test_noisy_max_and_permute_and_flip_share_one_law():
    options = {"sensitivity": 1, "epsilon": 1}
    counts = [
        np.bincount(selections(kind, np.array([3, 1, 2, 3]), SAMPLES // 2, **options), minlength=4)
        for kind in ("permute-and-flip", "report-noisy-max", "exponential")
    ]
    assert stats.chi2_contingency(counts[:2]).pvalue > ALPHA
    if NATIVE_DRAWS:  # the exponential mechanism has another
        assert stats.chi2_contingency(counts[1:]).pvalue < ALPHA


def test_noisy_max_of_another_library_has_our_law():
    opendp = pytest.importorskip("opendp.prelude", reason="opendp is installed by hand")
    opendp.enable_features("contrib")
    scores, epsilon = [3, 1, 2, 3], 1.0
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.linf_distance(T=int)
    select = opendp.m.make_noisy_max(*space, opendp.max_divergence(), scale=2 / epsilon)
    assert select.map(1) == pytest.approx(epsilon)
    counts = np.bincount([select(scores) for _ in range(5_000)], minlength=4)
    law = permute_and_flip_law([math.exp(-epsilon / 2 * (3 - score)) for score in scores])
    assert stats.chisquare(counts, np.array(law) * 5_000).pvalue > ALPHA
    assert stats.chisquare(counts, np.array(exponential_law([1.0] * 4)) * 5_000).pvalue < ALPHA


def test_gaussian_noise_costs_at_least_what_another_library_computes():
    dp_accounting = pytest.importorskip("dp_accounting", reason="dp-accounting is installed by hand")
    _, event = mechanisms.add_discrete_gaussian(np.zeros(4, np.int64), l2_sensitivity=2, rho=0.125)
    assert event.sigma == 4
    exact = dp_accounting.get_epsilon_gaussian(event.sigma / 2, 1e-6)
    assert exact <= epsilon_from_rho(event.rho, 1e-6) <= 1.25 * exact


@given(
    share=EPSILONS.filter(lambda value: Fraction(value) > Fraction(1, 10**6)),
    sensitivity=st.integers(1, 1000),
    size=st.integers(1, 9),
)
@CHECK
def test_noise_is_drawn_at_exactly_the_scale_of_the_event(share, sensitivity, size):
    seen = []

    def capture(generator, numerator, denominator, count):
        seen.append(Fraction(numerator, denominator))
        return np.arange(count)

    counts = np.arange(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "discrete_gaussian", capture)
        patch.setattr(draws, "discrete_laplace", capture)
        noisy, gaussian = mechanisms.add_discrete_gaussian(
            counts, l2_sensitivity_squared=sensitivity, rho=share, rng=1
        )
        _, laplace = mechanisms.add_discrete_laplace(counts, l1_sensitivity=sensitivity, epsilon=share, rng=1)
    assert seen == [Fraction(gaussian.sigma) ** 2, Fraction(laplace.scale)]
    assert noisy.tolist() == (2 * np.arange(size)).tolist()
    share = Fraction(share)
    assert gaussian.cost.rho == sensitivity / (2 * seen[0]) <= share
    assert laplace.cost.epsilon == sensitivity / seen[1] <= share
    assert float(gaussian.cost.rho / share) == pytest.approx(1, abs=1e-12)  # and nothing is given away
    assert float(laplace.cost.epsilon / share) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("given", "square"), [(math.sqrt(2), 2), (math.sqrt(3), 3), (1, 1), (Fraction(3, 2), Fraction(9, 4))]
)
def test_a_float_root_is_the_root_that_it_means(given, square):
    _, event = mechanisms.add_discrete_gaussian(np.zeros(3, np.int64), l2_sensitivity=given, rho=1)
    assert event.l2_sensitivity_squared == square


@pytest.mark.parametrize("wrong", [None, 0.9, 1.1])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_noise_fits_its_law_and_not_one_wrong_by_a_tenth(law, wrong):
    if not NATIVE_DRAWS and wrong:
        pytest.skip("the Python twin is too slow for the power stated")
    zeros, wide = np.zeros(SAMPLES, np.int64), np.arange(-40, 41)
    if law == "gaussian":
        noisy, event = mechanisms.add_discrete_gaussian(zeros, l2_sensitivity=1, rho=0.125, rng=4)
        weights = np.exp(-(wide**2) / (2 * (event.sigma * (wrong or 1)) ** 2))
    else:
        noisy, event = mechanisms.add_discrete_laplace(zeros, l1_sensitivity=1, epsilon=0.5, rng=4)
        weights = np.exp(-np.abs(wide) / (event.scale * (wrong or 1)))
    expected = weights / weights.sum() * SAMPLES
    common = expected > 20
    counts = np.array([(noisy == x).sum() for x in wide[common]] + [(~np.isin(noisy, wide[common])).sum()])
    expected = np.append(expected[common], SAMPLES - expected[common].sum())
    assert bool(stats.chisquare(counts, expected).pvalue > ALPHA) is (wrong is None)


@pytest.mark.parametrize("shape", [(7,), (2, 3), (1, 1, 4)])
def test_noise_keeps_the_shape_and_leaves_the_counts_alone(shape):
    counts = np.full(shape, 5)
    noisy, event = mechanisms.add_discrete_laplace(counts, l1_sensitivity=1, epsilon=1)
    assert noisy.shape == shape
    assert event.size == counts.size
    assert (counts == 5).all()


def test_noise_at_the_ends_of_int64_does_not_wrap():
    ends = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, -(2**62), 2**62])
    noisy, _ = mechanisms.add_discrete_gaussian(ends, l2_sensitivity=1, rho=Fraction(1, 2**60), rng=1)
    assert (np.sign(noisy) == np.sign(ends)).all()
    assert (np.abs(np.abs(noisy) - 2**62) < 2**52).all()


def test_noise_and_flips_are_erased(monkeypatch):
    kept = []
    for name in ("discrete_gaussian", "discrete_laplace", "bernoulli"):
        law = getattr(draws, name)
        monkeypatch.setattr(draws, name, lambda *given, law=law: kept.append(law(*given)) or kept[-1])
    zeros = np.zeros(50, np.int64)
    noisy, _ = mechanisms.add_discrete_gaussian(zeros, l2_sensitivity=1, rho=0.01)
    mechanisms.add_discrete_laplace(zeros, l1_sensitivity=1, epsilon=0.01)
    mechanisms.randomized_response(np.ones(50, bool), q=0.5)
    assert noisy.any()
    assert len(kept) == 3
    assert not any(array.any() for array in kept)


@given(q=st.one_of(st.floats(1e-300, 1 - 1e-16), st.fractions(Fraction(1, 10**40), Fraction(99, 100))))
@CHECK
def test_the_epsilon_of_q_is_rounded_up_and_by_one_float_only(q):
    if Fraction(q) in (0, 1):
        return
    claimed = epsilon_from_q(q)
    with mpmath.workdps(700):
        exact = Fraction(q)
        part = mpmath.mpf(exact.numerator) / exact.denominator
        truth = mpmath.log1p(part) - mpmath.log1p(-part)
        assert mpmath.mpf(claimed) >= truth
        assert mpmath.mpf(math.nextafter(claimed, 0)) <= truth


@pytest.mark.parametrize("q", [0.25, Fraction(1, 3), math.tanh(0.5)])
def test_randomized_response_draws_q_as_the_rational_it_is(monkeypatch, q):
    seen = []
    monkeypatch.setattr(
        draws, "bernoulli", lambda *given: seen.append(Fraction(*given[1:3])) or np.zeros(given[3], bool)
    )
    bits, event = mechanisms.randomized_response(np.array([True, False]), q=q)
    assert seen == [(1 - Fraction(q)) / 2]
    assert bits.tolist() == [True, False]
    assert event == RandomizedResponse(epsilon_from_q(q), size=2)


def test_randomized_response_keeps_bits_with_its_exact_probability(monkeypatch):
    # Every pass is alike and independent: what one pass decides is the law.
    branches, x = Branches(), Fraction(3, 10)
    passes = []

    def fair(generator, numerator, denominator, size):
        passes.append((numerator, denominator, size))
        if len(passes) > 1:
            raise RefusedError
        return np.array([branches.choose([Fraction(1, 2)] * 2) == 0])

    def coin(generator, numerator, denominator, size):
        assert Fraction(numerator, denominator) == Fraction(5, 4)
        return np.array([branches.choose([x, 1 - x]) == 0 for _ in range(size)], bool)

    monkeypatch.setattr(draws, "bernoulli", fair)
    monkeypatch.setattr(draws, "coin_exp", coin)

    def kept():
        passes.clear()
        out, event = mechanisms.randomized_response(np.array([True]), epsilon=1.25, rng=1)
        assert passes[0] == (1, 2, 1)
        assert event == RandomizedResponse(1.25, size=1)
        return bool(out[0])

    law = branches.laws(kept)
    assert law[True] / law[False] == 1 / x  # e^epsilon


@pytest.mark.parametrize("options", [{"epsilon": 1}, {"epsilon": Fraction(1, 3)}, {"q": 0.5}])
def test_randomized_response_fits_its_law_and_not_one_wrong_by_a_tenth(options):
    size = 100_000 if NATIVE_DRAWS else 4_000
    bits = np.arange(size) % 2 == 0
    out, event = mechanisms.randomized_response(bits, **options, rng=2)
    kept = int((out == bits).sum())

    def p_value(epsilon):
        return stats.binomtest(kept, size, 1 / (1 + math.exp(-epsilon))).pvalue

    assert p_value(event.epsilon) > ALPHA
    if NATIVE_DRAWS and event.epsilon > 0.5:
        assert p_value(0.9 * event.epsilon) < ALPHA
        assert p_value(1.1 * event.epsilon) < ALPHA
    assert mechanisms.randomized_response(bits, **options, rng=2)[0].tolist() == out.tolist()


GOOD = {
    mechanisms.select_permute_and_flip: (np.arange(4), {"sensitivity": 1, "epsilon": 1}),
    mechanisms.select_exponential: (np.arange(4), {"sensitivity": 1, "epsilon": 1}),
    mechanisms.report_noisy_max: (np.arange(4), {"sensitivity": 1, "epsilon": 1}),
    mechanisms.add_discrete_gaussian: (np.arange(4), {"l2_sensitivity": 1, "rho": 1}),
    mechanisms.add_discrete_laplace: (np.arange(4), {"l1_sensitivity": 1, "epsilon": 1}),
    mechanisms.randomized_response: (np.ones(4, bool), {"epsilon": 1}),
    mechanisms.draw_exponential: (np.arange(4), {"sensitivity": 1, "epsilon": 1}),
}
NOT_POSITIVE = [0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf]


def refused(function, values, options, error, match):
    generator = ChaCha20(seed=2)
    with pytest.raises(error, match=match):
        function(values, **options, rng=generator)
    assert generator.random_raw(1) == ChaCha20(seed=2).random_raw(1)  # before any draw


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_parameters_that_are_not_positive_numbers_are_refused(function):
    for value in NOT_POSITIVE:
        values, options = GOOD[function]
        for name in options:
            error = (ValueError, TypeError) if name == "sensitivity" else ValueError
            refused(function, values, {**options, name: value}, error, rf"{name} .*must be")
        for strange in ("1", None, True, 1j, [1]):
            for name in options:
                refused(function, values, {**options, name: strange}, TypeError, "must be")


@pytest.mark.parametrize("q", [*NOT_POSITIVE, 1, 1.0, 2])
def test_a_q_outside_its_range_is_refused(q):
    refused(mechanisms.randomized_response, np.ones(3, bool), {"q": q}, ValueError, r"q \(")


SECRET = 987654321


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_values_of_the_wrong_kind_are_refused_and_not_shown(function):
    for values in [
        [SECRET, 2],
        np.array([SECRET, 2.0]),
        np.array([SECRET, 2], np.int32),
        np.array([SECRET, 2], np.uint64),
        np.array([2**80, SECRET], object),
        np.array([], np.int64),
        np.array(SECRET),
        SECRET,
        "987654321",
    ]:
        generator = ChaCha20(seed=2)
        with pytest.raises((TypeError, ValueError), match="must") as caught:
            function(values, **GOOD[function][1], rng=generator)
        assert str(SECRET) not in str(caught.value)
        assert generator.random_raw(1) == ChaCha20(seed=2).random_raw(1)


@pytest.mark.parametrize("function", FUNCTIONS[:3], ids=lambda function: function.__name__)
def test_bad_candidates_are_refused(function):
    good = GOOD[function][1]
    refused(function, np.arange(4).reshape(2, 2), good, ValueError, "one-dimensional")
    refused(function, np.arange(8)[::2], good, ValueError, "contiguous")
    refused(function, np.arange(4), {**good, "k": 5}, ValueError, r"k \(5\) must be at most the number of")
    refused(function, np.arange(4), {**good, "k": 0}, ValueError, r"k \(0\) must be positive")
    refused(function, np.arange(4), {**good, "sensitivity": 0.5}, TypeError, "sensitivity")
    refused(function, np.arange(4), {**good, "epsilon": Fraction(1, 2**5000)}, ValueError, "4096 bits")


def test_scores_at_both_ends_of_int64_do_not_overflow():
    ends = np.array([np.iinfo(np.int64).min, 0, np.iinfo(np.int64).max])
    for select, _ in SELECT.values():
        assert select(ends, sensitivity=1, epsilon=1, k=3)[0] == (2, 1, 0)


def test_shares_too_small_for_any_noise_are_refused():
    counts = np.arange(3)
    refused(
        mechanisms.add_discrete_gaussian, counts, {"l2_sensitivity": 1, "rho": 1e-30}, ValueError, "at most 2"
    )
    refused(
        mechanisms.add_discrete_laplace,
        counts,
        {"l1_sensitivity": 1, "epsilon": 1e-15},
        ValueError,
        "at most 2",
    )
    refused(mechanisms.add_discrete_gaussian, counts, {"rho": 1}, TypeError, "exactly one of l2_sensitivity")
    both = {"l2_sensitivity": 1, "l2_sensitivity_squared": 1, "rho": 1}
    refused(mechanisms.add_discrete_gaussian, counts, both, TypeError, "exactly one of l2_sensitivity")
    refused(mechanisms.randomized_response, np.ones(3, bool), {}, TypeError, "exactly one of epsilon and q")
    refused(
        mechanisms.randomized_response, np.ones(3, bool), {"epsilon": 1, "q": 0.5}, TypeError, "exactly one"
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_missing_entropy_is_an_error(function, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("entropy (none) must come from the operating system: getrandom failed")

    monkeypatch.setattr(streams, "ChaCha20", fail)
    values, options = GOOD[function]
    with pytest.raises(RuntimeError, match="entropy"):
        function(values, **options)


METHODS = [
    *FUNCTIONS,
    mechanisms.add_residual_gaussian,
    Curator.select,
    Curator.measure,
    Curator.measure_residuals,
]


@pytest.mark.parametrize("function", METHODS, ids=lambda function: function.__qualname__)
def test_every_mechanism_says_five_things_and_names_tests_that_exist(function):
    text = inspect.cleandoc(function.__doc__).split("\n>>>")[0].rstrip()
    body = text.split("\n\n", 1)[1]
    assert len(body.splitlines()) <= 15
    headings = ["Requires", "Ensures", "Privacy", "Numerics", "Checked by"]
    assert re.findall(r"^([A-Z][a-z]+(?: by)?):", body, re.M) == headings
    if function in FUNCTIONS:
        assert ">>>" in function.__doc__
    named = re.findall(r"tests/(\w+/\w+\.py)::(test_\w+)", body.split("Checked by:")[1])
    assert named
    for file, test in named:
        tree = ast.parse((Path(__file__).parents[1] / file).read_text())
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def test_events_are_frozen_and_hold_parameters_only():
    secret = np.full(3, SECRET)
    events = [
        mechanisms.select_exponential(secret, sensitivity=1, epsilon=1)[1],
        mechanisms.add_discrete_gaussian(secret, l2_sensitivity=1, rho=1)[1],
        mechanisms.add_discrete_laplace(secret, l1_sensitivity=1, epsilon=1)[1],
    ]
    assert [type(event) for event in events] == [ExponentialMechanism, DiscreteGaussian, DiscreteLaplace]
    assert str(SECRET) not in repr(events)
    for event in events:
        with pytest.raises(AttributeError):
            event.count = 5
