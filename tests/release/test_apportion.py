from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmw.release.apportion import proportional, randomised

masses = st.lists(st.integers(0, 2**58) | st.sampled_from([0, 1, 2**57]), min_size=1, max_size=8).filter(sum)
numbers = st.integers(1, 50) | st.integers(1, 2**40) | st.sampled_from([1, 2**32, 2**40])


def shares(weights, n):
    total = sum(weights)
    return [Fraction(n * weight, total) for weight in weights]


def check_integers(counts, weights, n):
    assert counts.dtype == np.int64
    assert sum(counts.tolist()) == n
    for count, share in zip(counts.tolist(), shares(weights, n), strict=True):
        assert count in (share.__floor__(), share.__ceil__())


@settings(max_examples=300)
@given(masses, numbers)
def test_proportional_counts_are_floor_or_ceiling_and_the_largest_remainders_win(weights, n):
    counts = proportional(np.array(weights), sum(weights), n)
    check_integers(counts, weights, n)
    remainders = [share - share.__floor__() for share in shares(weights, n)]
    left = sum(remainders)
    ranked = sorted(range(len(weights)), key=lambda i: (-remainders[i], i))
    up = set(ranked[: int(left)])
    truth = [share.__floor__() + (i in up) for i, share in enumerate(shares(weights, n))]
    assert counts.tolist() == truth


@settings(max_examples=300)
@given(masses, numbers, st.integers(0, 2**32))
def test_randomised_counts_are_floor_or_ceiling_and_add_up(weights, n, seed):
    counts = randomised(np.array(weights), sum(weights), n, np.random.default_rng(seed))
    check_integers(counts, weights, n)


class Scripted:
    """Draws every offset in turn."""

    def __init__(self, value):
        self.value = value

    def integers(self, bound):
        assert 0 <= self.value < bound
        return self.value


@pytest.mark.parametrize("weights", [[5, 3, 0, 2], [1, 1, 1], [7], [0, 9, 4, 4, 0, 100]])
def test_over_all_offsets_a_randomised_count_is_its_share_on_average(weights):
    for n in (1, 2, 7, 1000):
        total = sum(weights)
        added = sum(randomised(np.array(weights), total, n, Scripted(offset)) for offset in range(total))
        assert added.tolist() == [n * weight for weight in weights]


def test_a_row_without_weight_gets_nothing_and_equal_remainders_go_to_the_first():
    assert proportional(np.array([0, 1, 1, 1, 0]), 3, 2).tolist() == [0, 1, 1, 0, 0]
    assert proportional(np.array([2**60]), 2**60, 2**40).tolist() == [2**40]


def test_drawn_counts_are_right_on_average():
    # A row of share s + f gets one more with probability f. Over 20,000 draws the mean's deviation is at most
    # sqrt(.25 / 20000) = .0035; 6.2 of them have probability below 1e-9, and a chance wrong by 10 % (.037 at
    # f = .37, .063 at .63) is beyond 6.2 + 4 of them: found all but surely.
    weights, draws, rng = np.array([137, 263, 600]), 20_000, np.random.default_rng(0)
    mean = sum(randomised(weights, 1000, 10, rng) for _ in range(draws)) / draws
    assert np.abs(mean - weights / 100).max() < 6.2 * np.sqrt(0.25 / draws)
