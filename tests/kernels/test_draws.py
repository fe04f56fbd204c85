"""Coins and noise: laws by enumeration, the extension against its twin word for word, then by sampling."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privmw.kernels.python_ import coins
from privmw.kernels.python_ import draws as python_draws
from privmw.random import chacha20_python
from truth.scripted_words import Branches, RefusedError, ScriptedBitGenerator, ScriptedWords, law_by_words

native = pytest.importorskip("privmw.kernels._native")
ChaCha20 = pytest.importorskip("privmw.random._chacha20").ChaCha20

ALPHA = 1e-9
BACKENDS = {"native": native, "python": python_draws}


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


def exp_bounds(gamma, bits=300):
    """Rational bounds of exp(-gamma), apart by less than 2^-bits: partial sums of the alternating series."""
    term, total, i = Fraction(1), Fraction(1), 0
    while i < gamma or term > Fraction(1, 1 << bits):
        i += 1
        term = term * gamma / i
        total += -term if i % 2 else term
    return (total, total + term) if i % 2 else (total - term, total)


rationals = st.builds(Fraction, st.integers(1, 2**70), st.integers(1, 2**70)).filter(lambda q: q < 60)


@given(gamma=rationals, bits=st.integers(0, 200))
@settings(deadline=None)
def test_digits_of_exp_are_exact(gamma, bits):
    low, high = exp_bounds(gamma)
    digits = coins.exp_digits(gamma.numerator, gamma.denominator, bits)
    assert Fraction(digits, 1 << bits) <= low
    assert high < Fraction(digits + 1, 1 << bits)


def test_digits_of_an_exponent_beside_zero_are_exact():
    tiny = 3**400
    assert coins.exp_digits(1, tiny, 64) == 2**64 - 1
    assert coins.exp_digits(0, 1, 64) == 2**64


@given(unit=rationals, halvings=st.integers(1, 40))
@settings(deadline=None)
def test_halving_distance_is_where_the_weight_passes_the_power_of_two(unit, halvings):
    d = coins.halving_distance(unit.numerator, unit.denominator, halvings)
    ln2 = Fraction(coins.ln2_digits(300), 1 << 300), Fraction(coins.ln2_digits(300) + 2, 1 << 300)
    assert d * unit > halvings * ln2[1]
    assert (d - 1) * unit < halvings * ln2[0]


def test_ln2_is_enclosed():
    low = Fraction(coins.ln2_digits(200), 1 << 200)
    assert exp_bounds(low)[1] > Fraction(1, 2) > exp_bounds(low + Fraction(2, 1 << 200))[0]
    assert float(low) == math.log(2)


# The law of every primitive step, by trying all words of a few bits.


@pytest.mark.parametrize(
    ("gamma", "shift"), [(Fraction(1, 3), 0), (Fraction(2), 0), (Fraction(7, 2), 4), (Fraction(9), 0)]
)
def test_coin_law_is_exp_of_minus_gamma(monkeypatch, gamma, shift):
    monkeypatch.setattr(coins, "WORD_BITS", 4)
    decay = coins.Decay(gamma.numerator, gamma.denominator)
    law, still_open = law_by_words(lambda next_word: decay.coin(next_word, 1, shift), 4, 7)
    low, high = (bound * 2**shift for bound in exp_bounds(gamma))
    assert still_open == Fraction(1, 1 << 28)
    assert law.get(True, 0) < low
    assert high < law.get(True, 0) + still_open


def test_geometric_law(monkeypatch):
    monkeypatch.setattr(coins, "WORD_BITS", 4)
    decay = coins.Decay(1, 7)
    law, still_open = law_by_words(lambda next_word: decay.geometric(next_word, 3), 4, 4)
    assert still_open < Fraction(1, 1000)
    for v in range(12):
        low, high = exp_bounds(Fraction(3 * v, 7))[0], exp_bounds(Fraction(3 * (v + 1), 7))[1]
        assert law[v] <= low - high + Fraction(1, 1 << 300)
        assert law[v] + still_open >= low - high


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 6, 7, 13, 16])
def test_uniform_law_is_exactly_uniform(monkeypatch, bound):
    monkeypatch.setattr(coins, "WORD_BITS", 4)
    law, _ = law_by_words(lambda next_word: coins.draw_below(next_word, bound), 4, 3)
    assert set(law) == set(range(bound))
    assert len(set(law.values())) == 1


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(3, 8), Fraction(254, 255)])
def test_bernoulli_law(monkeypatch, p):
    monkeypatch.setattr(coins, "WORD_BITS", 4)
    law, still_open = law_by_words(lambda w: coins.draw_bernoulli(w, p.numerator, p.denominator), 4, 5)
    assert law.get(True, 0) <= p <= law.get(True, 0) + still_open
    assert still_open <= Fraction(1, 1 << 20)


class FormalDecay:
    """A rational q in the place of exp(-unit): the law of a sampler is then rational, computed exactly."""

    def __init__(self, branches, q, longest=3):
        self.branches, self.q, self.longest = branches, q, longest

    def coin(self, _, m, shift=0):
        p = self.q**m * 2**shift
        return m == 0 or self.branches.choose([p, 1 - p]) == 0

    def geometric(self, _, step):
        ratio = self.q**step
        weights = [(1 - ratio) * ratio**v for v in range(self.longest)]
        v = self.branches.choose([*weights, 1 - sum(weights)])
        if v == self.longest:
            raise RefusedError
        return v


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize(("propose", "exponent"), [("draw_laplace", abs), ("draw_gaussian", lambda x: x * x)])
def test_noise_law_is_exact_for_every_width(monkeypatch, width, propose, exponent):
    branches, q = Branches(), Fraction(2, 3)
    monkeypatch.setattr(
        python_draws, "draw_below", lambda _, bound: branches.choose([Fraction(1, bound)] * bound)
    )
    decay = FormalDecay(branches, q)
    law = branches.laws(lambda: getattr(python_draws, propose)(None, decay, width))
    inside = range(-3 * width + 1, 3 * width)
    scaled = {law[x] / q ** exponent(x) for x in inside}
    assert len(scaled) == 1
    assert set(law) == {*inside, None}


# The extension decides as the twin does, in the first 64 bits and beyond.


@given(
    unit=rationals, m=st.integers(1, 2**64), around=st.integers(-5000, 5000), tail=st.integers(0, 2**64 - 1)
)
@settings(deadline=None, max_examples=300)
def test_native_coin_decides_as_the_exact_digits_beside_the_boundary(unit, m, around, tail):
    gamma = unit if unit * m > 50 else unit * m
    first = coins.exp_digits(gamma.numerator, gamma.denominator, 64)
    second = coins.exp_digits(gamma.numerator, gamma.denominator, 128) & (2**64 - 1)
    for words in (
        [first + around],
        [first + d for d in (-1, 0, 1)],
        [first, tail],
        [first, second - 1],
        [first, second + 1],
    ):
        script = [min(max(word, 0), 2**64 - 1) for word in words] + [tail] * 4
        fast, slow = ScriptedBitGenerator(script), ScriptedWords(script)
        arguments = gamma.numerator, gamma.denominator, 1
        assert native.coin_exp(fast, *arguments)[0] == python_draws.coin_exp(slow, *arguments)[0]
        assert fast.used == slow.used


offsets = st.integers(-5000, 5000)


@given(
    sigma2=st.builds(Fraction, st.integers(1, 2**150), st.integers(1, 2**70)).filter(lambda q: q < 2**80),
    place=st.integers(0, 2**64 - 1),
    strip=st.integers(1, 5),
    beside=st.tuples(offsets, offsets),
)
@settings(deadline=None, max_examples=300)
def test_native_noise_decides_as_the_exact_digits_beside_every_boundary(sigma2, place, strip, beside):
    unit = 1 / (2 * sigma2)
    width = max(1, math.isqrt(math.floor(sigma2 * 5 / 2)))
    decay = coins.Decay(unit.numerator, unit.denominator)
    size = width * (strip - 1) + (place * 2 * width >> 65)
    boundaries = decay.digits(width**2 * strip, 64), decay.digits(size**2 - width**2 * (strip - 1), 64)
    script = [place, *(min(max(b + o, 0), 2**64 - 1) for b, o in zip(boundaries, beside, strict=True))]
    script += ChaCha20(seed=1).random_raw(99).tolist()
    fast, slow = ScriptedBitGenerator(script), ScriptedWords(script)
    arguments = sigma2.numerator, sigma2.denominator, 1
    assert native.discrete_gaussian(fast, *arguments) == python_draws.discrete_gaussian(slow, *arguments)
    assert fast.used == slow.used


CASES = [
    *[
        ("coin_exp", q)
        for q in [(1, 2), (0, 5), (10**30, 10**30 + 1), (1, 10**40), (50, 1), (2**64, 3), (1, 2**4000)]
    ],
    *[("bernoulli", q) for q in [(1, 2), (0, 5), (1, 1), (10**30, 10**30 + 1), (1, 3)]],
    *[("uniform_below", (m,)) for m in [1, 2, 3, 1000, 2**62 + 1, 2**63 - 1]],
    *[
        ("discrete_laplace", q)
        for q in [(100, 1), (1, 1000), (1, 1), (15, 2), (10**9, 1), (2**82, 3**30), (2**40, 1)]
    ],
    *[
        ("discrete_gaussian", q)
        for q in [(10**4, 1), (1, 10**6), (1, 1), (3, 2), (10**18, 1), (2**140, 3**50), (2**80, 1)]
    ],
]


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_native_and_python_draw_the_same_from_the_same_words(name, arguments):
    for fast, slow in (
        (ChaCha20(seed=3), chacha20_python.ChaCha20(seed=3)),
        (np.random.MT19937(8), np.random.MT19937(8)),
    ):
        found, expected = (
            getattr(native, name)(fast, *arguments, 150),
            getattr(python_draws, name)(slow, *arguments, 150),
        )
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        assert fast.random_raw(1) == slow.random_raw(1)


@pytest.mark.parametrize(
    "script", [[0, 0, 2**64 - 1], [0, 1], [2**64 - 1] * 3, [5, 0, 0, 0, 9], [2**63, 2**63]]
)
@pytest.mark.parametrize("name", ["discrete_laplace", "discrete_gaussian"])
def test_noise_agrees_on_extreme_words(name, script):
    script = script * 3 + ChaCha20(seed=1).random_raw(60).tolist()
    fast, slow = ScriptedBitGenerator(script), ScriptedWords(script)
    np.testing.assert_array_equal(
        getattr(native, name)(fast, 10**6, 3, 2), getattr(python_draws, name)(slow, 10**6, 3, 2)
    )
    assert fast.used == slow.used


def test_a_stuck_generator_is_an_error_not_an_endless_loop(backend):
    stuck = ScriptedBitGenerator([0] * 10000)
    with pytest.raises(RuntimeError, match="must give random words"):
        backend.discrete_gaussian(stuck, 1, 1, 1)
    first = coins.exp_digits(1, 1, 64 * 8)
    echo = ScriptedBitGenerator([first >> (64 * i) & (2**64 - 1) for i in reversed(range(8))] + [0] * 9)
    with pytest.raises(RuntimeError, match="must give random words"):
        backend.coin_exp(echo, 1, 1, 1)


ONES, HALF = 2**64 - 1, 2**63 + 2**40 + 1  # no bound refuses this half


@pytest.mark.parametrize(
    ("name", "scale", "cycle"),
    [
        ("discrete_laplace", (1000, 1), [HALF, ONES]),
        ("discrete_laplace", (1, 1), [ONES, HALF]),
        ("discrete_gaussian", (10**6, 1), [HALF, HALF, ONES]),
    ],
)
def test_words_that_refuse_every_proposal_are_an_error(backend, name, scale, cycle):
    words = ScriptedBitGenerator(cycle * 4096 + cycle[:1])
    with pytest.raises(RuntimeError, match="must give random words"):
        getattr(backend, name)(words, *scale, 1)
    assert words.used == 4096 * len(cycle)


def test_selections_of_words_that_refuse_every_proposal_are_errors(backend):
    words = ScriptedBitGenerator([HALF, ONES] * (1 << 18))
    with pytest.raises(RuntimeError, match="must give random words"):
        backend.select_exponential(words, -np.arange(10), 1, 10, 1)
    assert words.used == 2 * (513 << 7)
    words = ScriptedBitGenerator([HALF, HALF, ONES] * (1 << 17))
    with pytest.raises(RuntimeError, match="must give random words"):
        backend.select_permute_and_flip(words, -np.arange(140_000), 1, 10**9, 1)
    assert words.used == 3 * (2**16 + 64)


# The last inch: whole samples of the extension against the law, and against a scale wrong by a tenth.


def p_value(sample, weight):
    values, counts = np.unique(np.clip(sample, -40, 40), return_counts=True)
    pmf = np.array(
        [math.fsum(weight(x) for x in ([v] if abs(v) < 40 else range(40, 400))) for v in range(-40, 41)]
    )
    expected = pmf / pmf.sum() * sample.size
    observed = np.zeros(81)
    observed[values + 40] = counts
    enough = expected >= 10
    rest = [observed[~enough].sum()], [max(expected[~enough].sum(), 1e-300)]
    observed, expected = np.append(observed[enough], rest[0]), np.append(expected[enough], rest[1])
    kept = expected > 1
    return stats.chi2.sf(((observed - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum() - 1)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(5, 2), Fraction(9)])
def test_noise_fits_its_law_and_not_one_wrong_by_a_tenth(scale):
    size = 200_000
    square = scale * scale
    gaussian = native.discrete_gaussian(ChaCha20(seed=11), square.numerator, square.denominator, size)
    laplace = native.discrete_laplace(ChaCha20(seed=12), scale.numerator, scale.denominator, size)
    for sample, law in (
        (gaussian, lambda s: lambda x: math.exp(-x * x / (2 * s * s))),
        (laplace, lambda s: lambda x: math.exp(-abs(x) / s)),
    ):
        assert p_value(sample, law(float(scale))) > ALPHA
        for wrong in (0.9, 1.1):
            assert p_value(sample, law(float(scale) * wrong)) < ALPHA


@pytest.mark.parametrize("sigma", [100, 10**5, 10**9])
def test_wide_noise_fits_the_continuous_law_and_not_one_wrong_by_a_tenth(sigma):
    # Beyond sigma 100 the discrete law is within 1 / sigma of the continuous one in Kolmogorov's distance.
    gaussian = native.discrete_gaussian(ChaCha20(seed=13), sigma**2, 1, 100_000) / sigma
    laplace = native.discrete_laplace(ChaCha20(seed=14), sigma, 1, 100_000) / sigma
    jitter = (np.random.default_rng(0).random(100_000) - 0.5) / sigma
    for sample, law in ((gaussian + jitter, stats.norm), (laplace + jitter, stats.laplace)):
        assert stats.kstest(sample, law.cdf).pvalue > ALPHA
        assert stats.kstest(sample * 1.1, law.cdf).pvalue < ALPHA
        assert stats.kstest(sample * 0.9, law.cdf).pvalue < ALPHA


# Bad input: a clear error before any draw.

LARGE = 2**4097
BAD = [
    ("coin_exp", (-1, 2, 3), ValueError, r"numerator \(-1\) must be non-negative"),
    ("coin_exp", (1, 0, 3), ValueError, r"denominator \(0\) must be positive"),
    ("coin_exp", (math.nan, 1, 3), TypeError, r"numerator \(nan\) must be an integer"),
    ("coin_exp", (True, 1, 3), TypeError, r"numerator \(True\) must be an integer"),
    ("coin_exp", (LARGE, 1, 3), ValueError, r"numerator \(4098 bits\) must have at most 4096 bits"),
    ("coin_exp", (1, 1, -3), ValueError, r"size \(-3\) must be non-negative"),
    ("bernoulli", (3, 2, 3), ValueError, r"probability \(3/2\) must be at most 1"),
    ("uniform_below", (0, 3), ValueError, r"bound \(0\) must be between 1 and 2\^63 - 1"),
    ("uniform_below", (2**63, 3), ValueError, r"must be between 1 and 2\^63 - 1"),
    ("discrete_laplace", (0, 1, 3), ValueError, r"scale_numerator \(0\) must be positive"),
    ("discrete_laplace", (2**40 + 1, 1, 3), ValueError, r"scale \(1099511627777/1\) must be at most 2\^40"),
    ("discrete_gaussian", (0, 1, 3), ValueError, r"sigma2_numerator \(0\) must be positive"),
    ("discrete_gaussian", (-4, 1, 3), ValueError, r"sigma2_numerator \(-4\) must be positive"),
    ("discrete_gaussian", (math.inf, 1, 3), TypeError, r"sigma2_numerator \(inf\) must be an integer"),
    ("discrete_gaussian", (2**81, 1, 3), ValueError, r"must be at most 2\^80"),
    ("discrete_gaussian", (1, 1, 2.0), TypeError, r"size \(2.0\) must be an integer"),
    ("discrete_gaussian", ([1], 1, 3), TypeError, r"sigma2_numerator \(list\) must be an integer"),
]


def test_bad_input_is_refused_before_any_draw(backend):
    for name, arguments, error, message in BAD:
        generator = ChaCha20(seed=2)
        with pytest.raises(error, match=message):
            getattr(backend, name)(generator, *arguments)
        assert generator.random_raw(1) == ChaCha20(seed=2).random_raw(1)


def test_what_is_no_generator_is_refused(backend):
    with pytest.raises(TypeError, match="must be a numpy BitGenerator"):
        backend.coin_exp(object(), 1, 2, 3)


def test_no_draws_are_no_draws(backend):
    for name, arguments in (("coin_exp", (1, 2)), ("discrete_gaussian", (4, 1)), ("uniform_below", (5,))):
        assert getattr(backend, name)(ChaCha20(seed=1), *arguments, 0).shape == (0,)
