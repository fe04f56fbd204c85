import numpy as np
import pytest

from privmw import kernels


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "weights",
    [
        np.array([1.0, np.nan]),
        np.array([1.0, np.inf]),
        np.array([1.0, -1.0]),
        np.empty(0),
        np.ones(2, np.float32),
        np.ones(2, np.int64),
        np.ones(4)[::2],
        np.ones((1, 2)),
        read_only(np.ones(2)),
        np.ma.masked_array([1.0, 1.0], [0, 1]),
        [1.0, 1.0],
        "11",
        None,
    ],
)
def test_weights_of_the_wrong_kind_or_value_are_refused(weights):
    with pytest.raises((TypeError, ValueError), match=r"weights .*must"):
        kernels.rescale(weights)
    with pytest.raises((TypeError, ValueError), match=r"(weights|rows) .*must"):
        kernels.multiply(weights, np.array([0, 1], np.uint32), 2.0**32)


@pytest.mark.parametrize(
    "weights",
    [
        np.array([1.0, np.nan]),
        np.array([5.0]),
        np.array([1.0, -1.0]),
        np.zeros(2),
        np.empty(0),
        np.ones(2, np.float32),
        np.ones(4)[::2],
        np.ones((1, 2)),
        np.ma.masked_array([1.0, 1.0], [0, 1]),
        [1.0],
        None,
    ],
)
def test_masses_come_of_rescaled_weights_only(weights):
    with pytest.raises((TypeError, ValueError), match=r"weights .*must"):
        kernels.to_masses(weights)


def test_what_is_no_update_is_refused_by_name():
    for name, value in [
        *(
            ("factor", bad)
            for bad in (0, -1.0, 2.0**33, 2.0**-33, np.nan, np.inf, None, "1", 1j, True, [1.0])
        ),
        ("factor", np.array([1.0])),
        *(("threads", bad) for bad in (0, -1, 1025, 1.0, "1", True, 2**70)),
        ("rows", np.array([1, 0], np.uint32)),
        ("rows", np.array([1, 1], np.uint32)),
    ]:
        weights = np.array([0.25, 0.75])
        arguments = {"rows": np.array([0, 1], np.uint32), "factor": 1.5, "threads": 1}
        with pytest.raises((TypeError, ValueError), match=rf"{name} .*must|{name} must"):
            kernels.multiply(weights, **{**arguments, name: value})
        assert weights.tolist() == [0.25, 0.75]


def test_what_is_no_total_is_refused_by_name():
    for name, value in [
        *(("total", bad) for bad in (2**58 - 1, 2**62 + 1, 2.0**60, None, "1", True, -1, 10**400)),
        *(("before", bad) for bad in (-1, 2**63, 1.0, None)),
        *(("rows", bad) for bad in (-1, 1.0, None)),
        *(("factor", bad) for bad in (0, 2.0**33, np.nan, "1", True)),
        *(("gained", bad) for bad in (2**63, 1.0, None)),
        ("total", 2**59),
    ]:
        arguments = {"total": 2**60, "before": 2**60, "rows": 3, "factor": 1.5, "gained": 2**59}
        with pytest.raises((TypeError, ValueError), match=rf"{name} .*must|{name} must"):
            kernels.total_after(**{**arguments, name: value})
