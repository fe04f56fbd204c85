from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cases import THREADS, door_of, installed, load
from marks.slow import slow
from privmw.kernels import total_after
from truth import reference

LIGHTEST = 2.0**-1000
weights_of = st.lists(
    st.floats(0, 1.7e308) | st.floats(0, 1) | st.sampled_from([0.0, 5e-324, 2.0**-1022, 1e-300, 1.0]),
    min_size=1,
    max_size=12,
).filter(any)
factors = st.floats(2.0**-32, 2.0**32) | st.floats(0.5, 2) | st.sampled_from([1.0, 1.9, 2.0**-32, 2.0**32])
drawn = settings(max_examples=150)


def check_total(weights, total):
    assert total == sum(reference.masses(weights))
    assert 2**58 <= total <= 2**62


def rescaled(backend, weights, threads=1):
    array = np.array(weights, np.float64)
    with door_of(backend) as kernels:
        return array, kernels.rescale(array, threads=threads)


def to_masses(backend, weights, threads=1):
    with door_of(backend) as kernels:
        return kernels.to_masses(np.array(weights, np.float64), threads=threads)


def update(backend, array, rows, factor, total, threads=1):
    """The rows' gains, the new total, and whether everything was rescaled for it."""
    with door_of(backend) as kernels:
        gains = kernels.multiply(array, rows, factor, threads=threads)
        after = kernels.total_after(total, gains.before, len(rows), factor, gains.gained)
        if after is None:
            return gains.changes, kernels.rescale(array, threads=threads), True
        assert gains.gained == sum(gains.changes.tolist())
        return gains.changes, after, False


@given(weights_of)
@drawn
def test_rescaling_is_one_power_of_two_and_loses_no_row(weights):
    arrays = []
    for backend in installed():
        array, total = rescaled(backend, weights)
        arrays.append(array.tobytes())
        check_total(array, total)
        assert 2**59 <= total <= 2**61
        power = Fraction(max(array.tolist())) / Fraction(max(weights))
        assert power.numerator == 1 or power.denominator == 1
        for before, after in zip(weights, array.tolist(), strict=True):
            exact = Fraction(before) * power
            assert after == exact if exact >= LIGHTEST or not before else after == LIGHTEST
    assert len(set(arrays)) == 1


def test_extreme_weights_are_rescaled(backend):
    for weights in [
        [5e-324],
        [1.7e308],
        [1e308] * 1_000,
        [1e308, 1e-300],
        [1.7e308, 5e-324, 0.0],
        [5e-324] * 3 + [0.0],
        [1.0] + [2.0**-61] * 100_000,
        [1.0] + [2.0**-62] * 10,
        [0.3] * 7,
    ]:
        array, total = rescaled(backend, weights)
        check_total(array, total)
        assert np.array_equal(array > 0, np.array(weights) > 0)
        assert np.array_equal(array, rescaled(load("numpy"), weights)[0])


def test_the_total_of_absolute_values_is_exact(backend):
    rng = np.random.default_rng(8)
    for masses in (
        np.empty(0, np.int64),
        np.full(3, -(2**63)),
        np.full(100_000, 2**63 - 1),
        rng.integers(-(2**63), 2**63 - 1, 70_001),
        rng.integers(-5, 5, 10),
    ):
        expected = sum(abs(mass) for mass in masses.tolist())
        assert [backend.total_magnitude(masses, threads) for threads in THREADS] == [expected] * len(THREADS)


def test_products_are_rounded_to_integers_alike(backend):
    rng = np.random.default_rng(9)
    weights, values = rng.random(70_001), rng.standard_normal(70_001) * 2.0**-700
    expected = np.rint(np.ldexp(weights * values, 755)).astype(np.int64)
    with door_of(backend) as kernels:
        for threads in THREADS:
            assert np.array_equal(kernels.signed_masses(weights, values, 755, threads=threads), expected)
        assert kernels.signed_masses(np.full(4, 0.5), np.array([1.0, 3, -1, -3]), 0).tolist() == [0, 2, 0, -2]
        with pytest.raises(ValueError, match="values"):
            kernels.signed_masses(weights, values[1:], 755)


def test_rescaling_keeps_a_scale_that_serves_if_asked_to(backend):
    with door_of(backend) as kernels:
        for weights in ([0.25, 0.05], [3.0, 1.0]):
            kept = np.array(weights)
            assert kernels.rescale(kept, keep=True) == kernels.to_masses(np.array(weights))[1]
            assert kept.tolist() == weights
        for weights in ([3.0, 1.5], [5.0], [0.125, 0.0625], [1e-300, 1e-300]):
            kept, anew = np.array(weights), np.array(weights)
            assert kernels.rescale(kept, keep=True) == kernels.rescale(anew)
            assert kept.tolist() == anew.tolist()


def test_weights_that_are_no_distribution_are_refused_and_kept(backend):
    for weights in [[0.0], [], [1.0, np.nan], [np.inf, 1.0], [1.0, -1.0], [-0.0, 0.0], [-np.inf], [np.nan]]:
        array = np.array(weights, np.float64)
        with (
            door_of(backend) as kernels,
            pytest.raises(ValueError, match="finite, none negative and not all"),
        ):
            kernels.rescale(array)
        assert array.tobytes() == np.array(weights, np.float64).tobytes()


@given(weights_of)
@drawn
def test_masses_are_weights_rounded_exactly(weights):
    array, total = rescaled(load("numpy"), weights)
    for backend in installed():
        masses, found = to_masses(backend, array)
        assert masses.tolist() == reference.masses(array)
        assert found == total


def test_masses_of_weights_out_of_scale_are_refused(backend):
    for bad in [[1.0, np.nan], [5.0], [-1.0, 2.0], [np.inf], [1.0] * 5, [0.1], [0.0], []]:
        with pytest.raises(ValueError, match="weights must be rescaled first"):
            to_masses(backend, bad)


@pytest.mark.parametrize("weights", [[4.0], [1.0] * 4, [0.25], [2.0**-2 - 2.0**-61, 2.0**-61]])
def test_totals_at_the_ends_of_the_range_are_taken(weights, backend):
    masses, total = to_masses(backend, weights)
    assert total == masses.sum()
    assert total in (2**58, 2**62)


@given(weights_of, st.lists(st.tuples(st.sets(st.integers(0, 11), max_size=8), factors), max_size=8))
@drawn
def test_updates_agree_on_every_backend_and_keep_total_and_gains(weights, updates):
    seen = []
    for backend in installed():
        array, total = rescaled(backend, weights)
        trace = []
        for chosen, factor in updates:
            rows = np.array(sorted(row for row in chosen if row < len(weights)), np.uint32)
            before = array.copy()
            gained, total, again = update(backend, array, rows, factor, total)
            check_total(array, total)
            assert np.array_equal(array > 0, before > 0)
            if not again:
                masses = np.array(reference.masses(array)) - np.array(reference.masses(before))
                assert gained.tolist() == masses[rows].tolist()
                others = np.setdiff1d(np.arange(len(array)), rows)
                assert np.array_equal(array[others], before[others])
            trace.append((array.tobytes(), gained.tobytes(), total, bool(again)))
        seen.append(trace)
    assert all(trace == seen[0] for trace in seen)


@pytest.mark.parametrize("factor", [2.0**-32, 1.1, 2.0**32, *slow(0.5, 0.9, 1.9, 2.0)])
def test_thousands_of_updates_neither_overflow_nor_lose_a_row(factor, backend):
    array, total = rescaled(backend, np.linspace(0, 1, 9))
    some, everything = np.array([0, 2, 5], np.uint32), np.arange(9, dtype=np.uint32)
    for rows in (some, everything):
        for _ in range(1_500):
            _, total, _ = update(backend, array, rows, factor, total)
            assert 2**58 <= total <= 2**62
        check_total(array, total)
        assert array[0] == 0
        assert (array[1:] >= LIGHTEST).all()
        assert np.isfinite(array).all()
    rest = np.array([1, 3, 4, 6, 7, 8], np.uint32)
    for _ in range(3_000):
        _, total, _ = update(backend, array, rest, factor, total)
    check_total(array, total)


def test_a_single_row_always_has_all_the_weight(backend):
    array, total = rescaled(backend, [0.7])
    row = np.zeros(1, np.uint32)
    for factor in [0.5, 2.0**-32, 2.0**32, 3.0, 1.0] * 100:
        _, total, _ = update(backend, array, row, factor, total)
        check_total(array, total)


def test_relative_weights_are_those_of_exact_arithmetic(backend):
    rng = np.random.default_rng(11)
    array, total = rescaled(backend, rng.random(6))
    exact = [Fraction(weight) for weight in array.tolist()]
    for _ in range(400):
        factor = float(2 ** rng.uniform(-0.4, 0.4))
        rows = np.flatnonzero(rng.random(6) < 0.5).astype(np.uint32)
        _, total, _ = update(backend, array, rows, factor, total)
        for row in rows.tolist():
            exact[row] *= Fraction(factor)
    check_total(array, total)
    whole, found = sum(exact), sum(map(Fraction, array.tolist()))
    for weight, truth in zip(array.tolist(), exact, strict=True):
        assert abs(float(Fraction(weight) / found / (truth / whole)) - 1) < 1e-12


def test_a_row_beyond_the_scale_comes_back(backend):
    array, total = rescaled(backend, [1.0, 1.0])
    row = np.ones(1, np.uint32)
    for _ in range(3):
        _, total, _ = update(backend, array, row, 2.0**-32, total)
    assert reference.masses(array)[1] == 0
    for _ in range(3):
        _, total, _ = update(backend, array, row, 2.0**32, total)
    assert array[0] == array[1]
    assert reference.masses(array)[0] == reference.masses(array)[1]


def test_no_row_at_all_changes_nothing(backend):
    array, total = rescaled(backend, [0.5, 0.25])
    gained, after, again = update(backend, array, np.empty(0, np.uint32), 2.0**32, total)
    assert (gained.tolist(), after, bool(again)) == ([], total, False)


def test_an_update_of_weights_out_of_scale_is_refused(backend):
    for factor in [0.5, 1.0, 2.0**32]:
        for weights in [
            [np.nan, 1.0],
            [-1.0, 1.0],
            [np.inf, 1.0],
            [1e308, 1.0],
            [4.5, 0.1],
            [3.0, 3.0],
            [4.0] * 9,
        ]:
            rows = np.arange(len(weights), dtype=np.uint32)
            with pytest.raises(ValueError, match="must be"):
                update(backend, np.array(weights), rows, factor, 2**60)


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, np.nan], [1.0, -1.0], [1.0, np.inf]])
def test_a_rescaling_behind_an_update_refuses_bad_rows_and_ends(weights, backend):
    with pytest.raises(ValueError, match="weights must be finite"):
        update(backend, np.array(weights), np.zeros(1, np.uint32), 2.0**32, 2**62)


def test_factors_that_may_overflow_ask_for_rescaling():
    assert total_after(2**61, 2**60, 9, 1.5, 2**59) == 2**61 + 2**59
    assert total_after(2**61, 2**60, 9, 2.0**32, -5) is None
    assert total_after(2**61, 2**60, 0, 2.0, 2**60) == 2**61 + 2**60
    assert total_after(2**61, 2**60, 2**12, 2.0, 2**60) is None
    assert total_after(2**62, 1, 1, 1.5, 1) is None
    assert total_after(2**58, 1, 1, 0.5, -1) is None


def test_weights_do_not_depend_on_thread_count(backend):
    rng = np.random.default_rng(12)
    given_weights = rng.random(200_000) ** 20
    rows = np.flatnonzero(rng.random(200_000) < 0.7).astype(np.uint32)
    seen = set()
    for threads in THREADS:
        array, total = rescaled(backend, given_weights, threads)
        trace = [array.tobytes(), to_masses(backend, array, threads)[0].tobytes()]
        for factor in (0.3, 1.95, 2.0**32, 2.0**-32):
            gained, total, again = update(backend, array, rows, factor, total, threads)
            trace += [gained.tobytes(), total, bool(again)]
        assert to_masses(backend, array, threads)[1] == total
        seen.add(tuple(trace))
    assert len(seen) == 1
