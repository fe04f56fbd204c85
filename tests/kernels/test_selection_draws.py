"""Selection: laws in closed form, neighbours within e^epsilon, the extension against its twin."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from marks.slow import slow, slow_among
from privmw.kernels.python_ import coins, selection
from privmw.kernels.python_ import draws as python_draws
from privmw.random import chacha20_python
from truth.scripted_words import Branches, RefusedError, ScriptedBitGenerator, ScriptedWords, law_by_words

native = pytest.importorskip("privmw.kernels._native")
ChaCha20 = pytest.importorskip("privmw.random._chacha20").ChaCha20

NAMES = ["select_permute_and_flip", "select_exponential", "report_noisy_max"]
BACKENDS = {"native": native, "python": python_draws}


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


def permute_and_flip_law(p):
    """Visit the candidates in every order; the first head is chosen. The definition, not our algorithm."""
    law = [type(p[0])(0)] * len(p)
    orders = list(itertools.permutations(range(len(p))))
    for order in orders:
        still = type(p[0])(1) / len(orders)
        for i in order:
            law[i] += still * p[i]
            still *= 1 - p[i]
    return law


def exponential_law(p):
    return [weight / sum(p) for weight in p]


LAWS = {
    "select_permute_and_flip": permute_and_flip_law,
    "select_exponential": exponential_law,
    "report_noisy_max": permute_and_flip_law,
}


class FormalDecay:
    """q = 2^-1 / 1.01 in the place of exp(-unit), and reaches to match: exact, rational laws."""

    numerator, denominator = 70310, 100000  # between ln 2 and ln 2 + ln 1.01
    q = Fraction(50, 101)

    def __init__(self, branches):
        self.branches = branches

    def coin(self, _, m, shift=0):
        p = self.q**m * 2**shift
        return m == 0 or self.branches.choose([p, 1 - p]) == 0


SCORES = [[3], [0, 0], [5, 4], [2, 0, 1], [7, 7, 3, 6], [0, 9, 1, 8, 9], [4, 3, 2, 1, 0]]


def law_by_branches(monkeypatch, choose, scores, k=1, excluded=None):
    """The exact law of the k choices; of the exponential mechanism, of what its first proposals make."""
    branches = Branches()
    for name, value in (("STRATUM_BITS", 2), ("STRATA", 4), ("MOST_BITS", 5)):
        monkeypatch.setattr(selection, name, value)
    monkeypatch.setattr(coins, "WORD_BITS", 2)
    proposals = []

    def below(_, bound):
        if choose is selection.exponential:
            proposals.append(bound)
            if len(proposals) > k:
                raise RefusedError
        return branches.choose([Fraction(1, bound)] * bound)

    def draw():
        proposals.clear()
        words = lambda: branches.choose([Fraction(1, 4)] * 4)  # noqa: E731
        chosen = selection.peel(
            choose, words, np.array(scores), FormalDecay(branches), k, excluded and np.array(excluded)
        )
        return tuple(chosen)

    monkeypatch.setattr(selection, "draw_below", below)
    return branches.laws(draw)


def formal_weights(scores, left):
    return [FormalDecay.q ** (max(scores[i] for i in left) - scores[i]) for i in left]


def peeled_law(law, scores, k, excluded=()):
    """The law of k choices by a law of one: each among those that the earlier ones left."""
    peeled = {(): Fraction(1)}
    for _ in range(k):
        longer = {}
        for chosen, mass in peeled.items():
            left = [i for i in range(len(scores)) if i not in (*chosen, *excluded)]
            for i, p in zip(left, law(formal_weights(scores, left)), strict=True):
                longer[(*chosen, i)] = mass * p
        peeled = longer
    return peeled


@pytest.mark.parametrize("scores", SCORES, ids=str)
def test_permute_and_flip_has_its_law_exactly(monkeypatch, scores):
    law = law_by_branches(monkeypatch, selection.permute_and_flip, scores)
    assert law == peeled_law(permute_and_flip_law, scores, 1)


@pytest.mark.parametrize("scores", [*SCORES, [30, 0, 29, 1, 14]], ids=str)
def test_exponential_mechanism_has_its_law_exactly(monkeypatch, scores):
    law = law_by_branches(monkeypatch, selection.exponential, scores)
    law.pop(None, None)
    assert {i: mass / sum(law.values()) for i, mass in law.items()} == peeled_law(exponential_law, scores, 1)


@pytest.mark.parametrize(
    ("scores", "k", "excluded"),
    [
        ([5, 4], 2, []),
        ([7, 7, 3], 2, []),
        pytest.param([6, 0, 5], 2, [], marks=pytest.mark.slow),
        pytest.param([9, 3, 0], 3, [], marks=pytest.mark.slow),
        ([4, 9, 2, 3], 2, [1]),
        ([0, 5, 5, 8], 2, [0, 2]),
    ],
    ids=str,
)
def test_several_choices_have_the_law_of_peeling_exactly(monkeypatch, scores, k, excluded):
    law = law_by_branches(monkeypatch, selection.permute_and_flip, scores, k, excluded)
    assert law == peeled_law(permute_and_flip_law, scores, k, excluded)


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 3, *slow(5)])
def test_heads_of_rare_coins_are_binomial_exactly(monkeypatch, bits, count):
    branches = Branches()
    monkeypatch.setattr(selection, "STRATUM_BITS", 2)
    monkeypatch.setattr(coins, "WORD_BITS", 2)
    uniform = lambda _, bound: branches.choose([Fraction(1, bound)] * bound)  # noqa: E731
    monkeypatch.setattr(selection, "draw_below", uniform)
    words = lambda: branches.choose([Fraction(1, 4)] * 4)  # noqa: E731
    q = Fraction(1, 1 << bits)
    law = branches.laws(lambda: selection.count_heads(words, count, bits))
    assert law == {h: math.comb(count, h) * q**h * (1 - q) ** (count - h) for h in range(count + 1)}


@pytest.mark.parametrize(
    ("name", "scores", "depth", "most_open"),
    [
        ("permute_and_flip", [1, 0], 4, 0.1),
        ("exponential", [2, 0, 1], 4, 0.2),  # two proposals refused
        ("noisy_max", [1, 0], 5, 0.01),
        ("noisy_max", [2, 0, 1], 4, 0.23),
    ],
)
def test_law_of_scripted_bits_is_the_closed_form(monkeypatch, name, scores, depth, most_open):
    monkeypatch.setattr(coins, "WORD_BITS", 4)
    # More strata would ask for words of more than four bits.
    for constant, value in (("STRATA", 2), ("MOST_BITS", 0)):
        monkeypatch.setattr(selection, constant, value)
    decay, choose, given = coins.Decay(2, 3), getattr(selection, name), np.array(scores)
    peel = selection.peel if name != "noisy_max" else lambda choose, *rest: choose(*rest)
    law, still_open = law_by_words(lambda words: peel(choose, words, given, decay, 1)[0], 4, depth)
    p = [math.exp(-2 / 3 * (max(scores) - score)) for score in scores]
    expected = exponential_law(p) if name == "exponential" else permute_and_flip_law(p)
    assert still_open < most_open
    for i, truth in enumerate(expected):
        assert law[i] - 1e-12 <= truth <= law[i] + still_open + 1e-12


@pytest.mark.parametrize("law", [permute_and_flip_law, exponential_law])
def test_neighbours_differ_by_at_most_e_to_the_epsilon(law):
    # Sensitivity 1: a neighbour moves every score by at most one; the weight per unit is epsilon / 2.
    epsilon = 0.8
    worst = 0.0
    for scores in itertools.product(range(3), repeat=3):
        here = law([math.exp(-epsilon / 2 * (max(scores) - s)) for s in scores])
        for moves in itertools.product((-1, 0, 1), repeat=3):
            moved = [s + m for s, m in zip(scores, moves, strict=True)]
            there = law([math.exp(-epsilon / 2 * (max(moved) - s)) for s in moved])
            worst = max(worst, *(a / b for a, b in zip(here, there, strict=True)))
    assert 0.85 * epsilon < math.log(worst) <= epsilon + 1e-12


UNITS = [(1, 10), (1, 1000), (10**20, 10**20), (3, 2**80), (1, 2**62)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 300, *slow(1500)])
def test_native_and_python_select_the_same_from_the_same_words(name, size):
    rng = np.random.default_rng(size)
    fast, slow = ChaCha20(seed=6), chacha20_python.ChaCha20(seed=6)
    for unit in UNITS[: 2 if size > 1000 else None]:
        for scores in (rng.integers(-200, 200, size), rng.integers(-(2**63), 2**63 - 1, size, endpoint=True)):
            for k in {1, min(3, size), min(20, size)}:
                found = getattr(native, name)(fast, scores, *unit, k)
                np.testing.assert_array_equal(found, getattr(python_draws, name)(slow, scores, *unit, k))
                assert found.dtype == np.int64
                assert np.unique(found).size == k
                assert fast.random_raw(1) == slow.random_raw(1)


@pytest.mark.parametrize("size", [1, 2, 65, 300])
def test_native_and_python_draw_the_same_with_replacement_from_the_same_words(size):
    rng = np.random.default_rng(size)
    fast, slow = ChaCha20(seed=9), chacha20_python.ChaCha20(seed=9)
    for unit in UNITS:
        for scores in (rng.integers(-200, 200, size), rng.integers(-(2**63), 2**63 - 1, size, endpoint=True)):
            found = native.draw_exponential(fast, scores, *unit, 40)
            np.testing.assert_array_equal(found, python_draws.draw_exponential(slow, scores, *unit, 40))
            assert len(found) == 40
            assert fast.random_raw(1) == slow.random_raw(1)


def test_a_draw_is_the_first_choice_of_a_selection(backend):
    scores = np.random.default_rng(1).integers(0, 50, 700)
    drawn = backend.draw_exponential(ChaCha20(seed=4), scores, 1, 10, 1)
    assert drawn.tolist() == backend.select_exponential(ChaCha20(seed=4), scores, 1, 10, 1).tolist()


@pytest.mark.parametrize("k", [0, -1, 2**31 + 1])
def test_a_number_of_draws_out_of_range_is_refused(backend, k):
    with pytest.raises(ValueError, match=rf"k \({k}\) must be between 1 and 2\^31"):
        backend.draw_exponential(ChaCha20(seed=2), np.arange(4), 1, 1, k)


@pytest.mark.parametrize("name", NAMES[:2])
@pytest.mark.parametrize("size", [5, 512, 1100])
def test_native_and_python_leave_out_the_same(name, size):
    rng = np.random.default_rng(size)
    fast, slow = ChaCha20(seed=7), chacha20_python.ChaCha20(seed=7)
    for share in (0.01, 0.5, 0.99):
        excluded = np.flatnonzero(rng.random(size) < share)[: size - 1]
        for scores in (rng.integers(0, 200, size), np.zeros(size, np.int64), np.arange(size) * 2**40):
            for unit in UNITS:
                k = min(4, size - excluded.size)
                found = getattr(native, name)(fast, scores, *unit, k, excluded)
                np.testing.assert_array_equal(
                    found, getattr(python_draws, name)(slow, scores, *unit, k, excluded)
                )
                assert not np.isin(found, excluded).any()
                assert fast.random_raw(1) == slow.random_raw(1)


@pytest.mark.parametrize("name", NAMES[:2])
def test_errors_are_selected_as_their_scores_are(name):
    rng = np.random.default_rng(3)
    counts, answers = rng.integers(0, 1000, 3000), rng.random(3000)
    given = counts, answers, float(1000 << 20), 20
    fast, slow, stored = ChaCha20(seed=8), chacha20_python.ChaCha20(seed=8), ChaCha20(seed=8)
    scores = native.Errors(*given).scores()
    for unit in ((1, 2**20), (1, 2**26)):
        arguments = *unit, 5, np.arange(100, 700)
        found = getattr(native, name)(fast, native.Errors(*given), *arguments)
        np.testing.assert_array_equal(found, getattr(native, name)(stored, scores, *arguments))
        np.testing.assert_array_equal(
            found, getattr(python_draws, name)(slow, python_draws.Errors(*given), *arguments)
        )
        assert fast.random_raw(1) == slow.random_raw(1) == stored.random_raw(1)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**32 - 1), st.floats(-1e-9, 1 + 1e-9, allow_subnormal=True)),
        min_size=1,
        max_size=40,
    ),
    st.one_of(st.integers(1, 2**30), st.integers(2**30, 2**32 - 1)),
)
@settings(deadline=None, max_examples=300)
def test_errors_are_the_same_integers_in_every_backend(cells, n):
    counts, answers = np.array([c for c, _ in cells]), np.array([a for _, a in cells])
    # Halves, whose rounding goes to the even side.
    answers[::3] = np.clip((np.floor(answers[::3] * n * 2**20) + 0.5) / (n * 2.0**20), 0, 1)
    given = counts, answers, float(n << 20), 20
    fast, slow = native.Errors(*given), python_draws.Errors(*given)
    exact = [
        abs((int(count) << 20) - round(Fraction(float(answer) * float(n << 20))))
        for count, answer in zip(counts, answers, strict=True)
    ]
    assert fast.scores().tolist() == slow.scores().tolist() == exact
    starts = np.array(sorted({0, len(cells) // 3, len(cells)}))
    largest = [max(exact[a:b]) for a, b in itertools.pairwise(starts.tolist())]
    assert fast.largest(starts).tolist() == slow.largest(starts).tolist() == largest


@given(
    distance=st.integers(1, 2**63),
    halvings=st.fractions(Fraction(1, 100), 70, max_denominator=2**20),
    beside=st.integers(-5000, 5000),
    name=st.sampled_from(NAMES),
)
@settings(deadline=None, max_examples=300)
def test_native_selection_decides_as_the_exact_digits_beside_every_boundary(distance, halvings, beside, name):
    unit = halvings * Fraction(693, 1000) / distance
    scores = np.array([2**62, 2**62 - distance], dtype=np.int64)
    decay = coins.Decay(unit.numerator, unit.denominator)
    far = distance >= coins.halving_distance(unit.numerator, unit.denominator, 8)
    word = min(max(decay.digits(distance, 72 if far else 64) + beside, 0), 2**64 - 1)
    script = [2**64 - 1] * (8 if far and name == NAMES[0] else 1 if name != NAMES[0] else 0) + [word]
    script += ChaCha20(seed=2).random_raw(200).tolist()
    fast, slow = ScriptedBitGenerator(script), ScriptedWords(script)
    arguments = scores, unit.numerator, unit.denominator, 1
    assert getattr(native, name)(fast, *arguments) == getattr(python_draws, name)(slow, *arguments)
    assert fast.used == slow.used


def test_score_differences_beyond_int64_do_not_overflow(backend):
    scores = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0])
    for name in NAMES:
        assert getattr(backend, name)(ChaCha20(seed=1), scores, 1, 1, 3).tolist() == [1, 2, 0]
        spread = [int(getattr(backend, name)(ChaCha20(seed=s), scores, 1, 2**66, 1)[0]) for s in range(60)]
        assert set(spread) == {0, 1, 2}


def chi_square(counts, law):
    return stats.chisquare(counts, np.array(law) * counts.sum()).pvalue


@pytest.mark.parametrize("name", slow_among(NAMES, NAMES[1:]))
def test_native_selection_fits_its_law_and_not_one_wrong_by_a_tenth(name):
    generator = ChaCha20(seed=21)
    scores, unit = np.array([10, 7, 0, 9, 10, -40]), Fraction(1, 3)
    law = lambda scale: LAWS[name](  # noqa: E731
        [math.exp(-(10 - int(s)) * float(unit) * scale) for s in scores]
    )
    draws = [int(getattr(native, name)(generator, scores, 1, 3, 1)[0]) for _ in range(60_000)]
    counts = np.bincount(draws, minlength=6)[:5]
    assert chi_square(counts, np.array(law(1.0)[:5]) / sum(law(1.0)[:5])) > 1e-9
    for wrong in (0.9, 1.1):
        assert chi_square(counts, np.array(law(wrong)[:5]) / sum(law(wrong)[:5])) < 1e-9


@pytest.mark.parametrize("name", slow_among(NAMES, NAMES[1:]))
def test_many_candidates_beside_a_few_fit_the_law(name):
    # 640 candidates of weight 2^-10 share as much as the two at the top: the coins that groups share matter.
    scores = np.zeros(642, dtype=np.int64)
    scores[[100, 500]] = 1
    p = 2.0**-10
    unit = Fraction(coins.ln2_digits(64) * 10, 1 << 64)
    generator = ChaCha20(seed=5)
    gamma = unit.numerator, unit.denominator
    draws = [int(getattr(native, name)(generator, scores, *gamma, 1)[0]) for _ in range(20_000)]
    counts = np.array([np.isin(draws, [100]).sum(), np.isin(draws, [500]).sum(), 0])
    counts[2] = len(draws) - counts.sum()
    if name == "select_exponential":
        each = 1 / (2 + 640 * p)
    else:  # 1 / (2 + heads), heads binomial
        heads = np.arange(641)
        each = float((stats.binom.pmf(heads, 640, p) / (2 + heads)).sum())
    assert chi_square(counts, [each, each, 1 - 2 * each]) > 1e-9


def test_the_twin_remembers_no_distance():
    python_draws.select_permute_and_flip(ChaCha20(seed=1), np.arange(50), 1, 10, 2)
    python_draws.discrete_laplace(ChaCha20(seed=1), 30, 1, 5)
    assert coins.exp_digits.cache_info().currsize == 0


def test_top_k_peels(backend):
    scores = np.array([5, 100, 50, 75, 0])
    for name in NAMES:
        assert getattr(backend, name)(ChaCha20(seed=1), scores, 50, 1, 5).tolist() == [1, 3, 2, 0, 4]


GOOD = np.arange(4)
BAD = [
    ((np.arange(0), 1, 1, 1), ValueError, r"scores \(0 candidates\) must have between 1"),
    ((GOOD.astype(np.int32), 1, 1, 1), TypeError, "must be a numpy array of int64"),
    ((GOOD.astype(float), 1, 1, 1), TypeError, "must be a numpy array of int64"),
    (([1, 2], 1, 1, 1), TypeError, "must be a numpy array of int64"),
    ((GOOD.reshape(2, 2), 1, 1, 1), ValueError, r"scores \(2 dimensions\) must be one-dimensional"),
    ((np.arange(8)[::2], 1, 1, 1), ValueError, "must be one-dimensional and contiguous"),
    ((GOOD, 0, 1, 1), ValueError, r"gamma_numerator \(0\) must be positive"),
    ((GOOD, -1, 1, 1), ValueError, r"gamma_numerator \(-1\) must be positive"),
    ((GOOD, math.nan, 1, 1), TypeError, r"gamma_numerator \(nan\) must be an integer"),
    ((GOOD, 1, 0, 1), ValueError, r"gamma_denominator \(0\) must be positive"),
    ((GOOD, 1, 1, 0), ValueError, r"k \(0\) must be between 1 and the number of candidates"),
    ((GOOD, 1, 1, 5), ValueError, r"k \(5\) must be between 1 and the number of candidates"),
]


@pytest.mark.parametrize("name", NAMES)
def test_bad_input_is_refused_before_any_draw(backend, name):
    for arguments, error, message in BAD:
        generator = ChaCha20(seed=2)
        with pytest.raises(error, match=message):
            getattr(backend, name)(generator, *arguments)
        assert generator.random_raw(1) == ChaCha20(seed=2).random_raw(1)
