import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privmw.release.measurements import Measurement, combine


def measured(cells=(7, 3), counts=(120, -2), noise="discrete-gaussian", scale=2.0, when=1):
    return Measurement(cells, counts, noise, scale, when)


def test_a_measurement_keeps_its_order_and_cannot_be_written_to():
    cells = np.array([7, 3])
    found = measured(cells)
    cells[0] = 5
    assert found.cells.tolist() == [7, 3]
    assert found.noisy_counts.dtype == found.cells.dtype == np.int64
    assert len(found) == 2
    with pytest.raises(ValueError, match="read-only"):
        found.noisy_counts[0] = 0
    with pytest.raises(AttributeError):
        found.scale = 0.1


@pytest.mark.parametrize("scale", [0.05, 0.3, 1, 2.5, 40])
def test_the_variance_of_laplace_noise_is_that_of_its_pmf(scale):
    k = np.arange(-4000, 4001)
    pmf = np.exp(-np.abs(k) / scale)
    assert math.isclose(
        measured(noise="discrete-laplace", scale=scale).variance,
        float((k**2 * pmf).sum() / pmf.sum()),
        rel_tol=1e-12,
    )


@pytest.mark.parametrize("scale", [1, 2.5, 40])
def test_the_variance_of_gaussian_noise_is_near_that_of_its_pmf_and_not_below(scale):
    k = np.arange(-400, 401)
    pmf = np.exp(-(k**2) / (2 * scale**2))
    exact = float((k**2 * pmf).sum() / pmf.sum())
    assert exact * (1 - 1e-12) <= measured(scale=scale).variance <= exact * (1 + 1e-6)


@pytest.mark.parametrize("noise", ["discrete-gaussian", "discrete-laplace"])
def test_noise_too_small_to_show_still_combines(noise):
    exact, noisy = measured([1], [10], noise, 1e-200), measured([1], [30], noise, 5.0)
    found = combine([exact, exact, noisy], n=100)
    assert found.answers.tolist() == [0.1]
    assert 0 < found.variances[0] < 1e-90


def test_a_measurement_equals_its_copy_and_nothing_else():
    one = measured()
    assert one == measured() == pickle.loads(pickle.dumps(one)) == copy.deepcopy(one)
    assert not pickle.loads(pickle.dumps(one)).cells.flags.writeable
    for other in (
        measured([3, 7]),
        measured(counts=[120, -1]),
        measured(noise="discrete-laplace"),
        measured(scale=3),
        measured(when=2),
        7,
    ):
        assert one != other
    assert repr(measured([3], [1], when=0)) == "Measurement(1 cell, discrete-gaussian of scale 2, round 0)"
    with pytest.raises(TypeError):
        hash(one)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"cells": [1.5, 2]}, TypeError, "cells .* must be a 1-D array of integers"),
        ({"cells": [[1, 2]]}, TypeError, "cells .* must be a 1-D array of integers"),
        ({"cells": [-1, 2]}, ValueError, "must not be negative"),
        ({"cells": [2, 2]}, ValueError, "must be distinct"),
        ({"cells": [2]}, ValueError, r"noisy_counts \(2\) must be as many as cells \(1\)"),
        ({"counts": np.array([2**63, 1], np.uint64)}, ValueError, "must fit in int64"),
        ({"noise": "gaussian"}, ValueError, r"noise \('gaussian'\) must be one of"),
        ({"scale": 0}, ValueError, r"scale \(0\) must be above 0"),
        ({"scale": math.nan}, ValueError, "scale"),
        ({"scale": math.inf}, ValueError, "scale"),
        ({"scale": "2"}, TypeError, "scale .* must be a number"),
        ({"when": -1}, ValueError, r"round \(-1\) must be non-negative"),
        ({"when": True}, TypeError, "round .* must be an integer"),
        ({"when": 1.0}, TypeError, "round .* must be an integer"),
    ],
)
def test_what_no_curator_returns_is_refused(changed, error, message):
    with pytest.raises(error, match=message):
        measured(**changed)


drawn = st.lists(
    st.tuples(
        st.lists(st.integers(0, 8), unique=True, max_size=6),
        st.sampled_from(["discrete-gaussian", "discrete-laplace"]),
        st.floats(0.1, 1000),
        st.integers(-1000, 1000),
    ),
    max_size=5,
)


@given(drawn)
def test_combining_is_the_inverse_variance_mean_of_each_cell(parts):
    measurements = [
        measured(cells, [base + cell for cell in cells], noise, scale) for cells, noise, scale, base in parts
    ]
    found = combine(measurements, n=50)
    assert found.cells.tolist() == sorted({cell for cells, *_ in parts for cell in cells})
    for cell, answer, variance in zip(*found, strict=True):
        seen = [
            (Fraction(int(m.noisy_counts[m.cells == cell][0])), 1 / Fraction(m.variance))
            for m in measurements
            if cell in m.cells
        ]
        weight = sum(w for _, w in seen)
        assert math.isclose(answer, sum(c * w for c, w in seen) / weight / 50, rel_tol=1e-9, abs_tol=1e-9)
        assert math.isclose(variance, 1 / weight / 2500, rel_tol=1e-12)


def test_a_cell_measured_once_is_its_noisy_count_exactly():
    found = combine([measured([5, 2], [7, -3], scale=1e9)], n=3)
    assert found.answers.tolist() == [-3 / 3, 7 / 3]
    assert [len(part) for part in combine([], n=1)] == [0, 0, 0]


@pytest.mark.parametrize("n", [0, -1, 1.0, True])
def test_combining_needs_a_number_of_records(n):
    with pytest.raises((TypeError, ValueError), match=r"n \(.*\) must be"):
        combine([measured()], n)
    with pytest.raises(TypeError, match="must be a Measurement"):
        combine([1], 3)
