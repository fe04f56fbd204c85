import numpy as np
import pytest

from kernels.cases import door_of
from privmw import kernels

STARTS, QUERIES = np.array([0, 2, 2, 3]), np.array([0, 1, 1], np.uint32)
NOT_FLOATS = [
    np.ones(2, np.float32),
    np.ones(2, np.int64),
    np.ones(4)[::2],
    np.ones((1, 2)),
    np.ones(3),
    np.ma.masked_array([1.0, 1.0], [0, 1]),
    [1.0, 1.0],
    None,
]


def read_only(array):
    array.flags.writeable = False
    return array


def incidence():
    return kernels.Incidence(STARTS, QUERIES, 2)


def marginals():
    columns = kernels.Columns([np.array([0, 1, 1], np.uint8)], [2])
    return kernels.Marginals(columns, np.array([0], np.int32), np.array([0, 1]))


def test_what_is_no_incidence_is_refused_by_name():
    for name, value in [
        *(("starts", bad) for bad in (np.array([0, 2]), np.array([1, 3]), np.array([0, 3, 2, 3]), [0, 3])),
        *(("starts", bad) for bad in (np.empty(0, np.int64), np.array([0, 3], np.int32), None)),
        *(("queries", np.array(bad, np.uint32)) for bad in ([1, 0, 1], [1, 1, 1], [0, 2, 1])),
        *(("queries", bad) for bad in (QUERIES.astype(np.int64), QUERIES[::-1], QUERIES.tolist(), None)),
        *(("count", bad) for bad in (-1, 2**32, 2.0, True, "2", None)),
        ("queries", np.ma.masked_array(QUERIES, [0, 0, 1])),
    ]:
        arguments = {"starts": STARTS, "queries": QUERIES, "count": 2}
        with pytest.raises((TypeError, ValueError), match=rf"{name} .*must|{name} must"):
            kernels.Incidence(**{**arguments, name: value})


def test_an_incidence_keeps_what_nobody_can_write_to():
    starts, queries = STARTS.copy(), QUERIES.copy()
    made = kernels.Incidence(starts, queries, 2)
    queries[:] = 2**31
    starts[:] = -5
    assert made.sums(np.ones(3)).tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        made.queries[0] = 1


def test_an_incidence_may_be_empty():
    for groups, count in ((0, 0), (3, 0), (0, 3), (3, 2)):
        made = kernels.Incidence(np.zeros(groups + 1, np.int64), np.empty(0, np.uint32), count)
        assert made.potentials(np.ones(count)).tolist() == [0] * groups
        assert made.sums(np.ones(groups)).tolist() == [0] * count
        assert made.gram(np.ones(groups)).tolist() == [[0] * count] * count


@pytest.mark.parametrize("bad", NOT_FLOATS)
def test_values_and_weights_of_the_wrong_kind_or_length_are_refused(bad):
    with pytest.raises((TypeError, ValueError), match=r"values .*must"):
        marginals().potentials(bad)
    with pytest.raises((TypeError, ValueError), match=r"values .*must"):
        incidence().potentials(bad)
    weights = bad[:2] if isinstance(bad, np.ndarray) and bad.shape == (3,) else bad
    with pytest.raises((TypeError, ValueError), match=r"weights .*must"):
        incidence().sums(weights)
    with pytest.raises((TypeError, ValueError), match=r"weights .*must"):
        incidence().gram(weights)
    with pytest.raises((TypeError, ValueError), match=r"potentials .*must"):
        kernels.tilt(np.ones(2), bad)


@pytest.mark.parametrize(
    "out", [np.empty(2), np.empty(3, np.float32), np.empty(6)[::2], read_only(np.empty(3)), [0.0] * 3]
)
def test_what_cannot_be_written_to_is_refused(out):
    for call in (marginals().potentials, incidence().potentials):
        with pytest.raises((TypeError, ValueError), match=r"out .*must"):
            call(np.ones(2), out)
    with pytest.raises((TypeError, ValueError), match=r"out .*must"):
        kernels.tilt(np.ones(3), np.ones(3), out)
    wrong = np.empty(3) if isinstance(out, np.ndarray) and len(out) == 2 else out
    with pytest.raises((TypeError, ValueError), match=r"out .*must"):
        incidence().sums(np.ones(3), wrong)


def test_what_is_written_lies_apart_from_what_is_read():
    memory = np.ones(3)
    with pytest.raises(ValueError, match="out must not share memory with values"):
        marginals().potentials(memory[:2], memory)
    with pytest.raises(ValueError, match="out must not share memory with weights"):
        incidence().sums(memory, memory[:2])
    with pytest.raises(ValueError, match="out must not share memory with base"):
        kernels.tilt(memory, np.ones(3), memory)
    with pytest.raises(ValueError, match="out must not share memory with potentials"):
        kernels.tilt(np.ones(3), memory, memory)


def test_what_cannot_be_tilted_is_refused(backend):
    for base, by, match in [
        *(([1.0, bad], [0.0, 0.0], "base must be finite") for bad in (-1.0, np.nan, np.inf, -np.inf)),
        *(([1.0, 0.0], [0.0, bad], "potentials must be finite") for bad in (np.nan, np.inf, -np.inf)),
        ([0.0, 0.0], [0.0, 0.0], "not all zero"),
        ([], [], "not all zero"),
    ]:
        with door_of(backend), pytest.raises(ValueError, match=match):
            kernels.tilt(np.array(base), np.array(by))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match="values must be finite"):
        marginals().potentials(np.array([1.0, bad]))


def test_groups_that_are_none_are_not_split():
    lists, none = (np.array([0, 0, 0]), np.empty(0, np.uint32)), np.empty(0, np.int64)
    for matched, cut, match in (
        ([np.array([2])], [none], "matched must be from 0 to 1"),
        ([none], [np.array([-1])], "cut must be from 0 to 1"),
        ([none, np.array([3])], [np.array([0]), none], "matched must be from 0 to 2"),
        ([none], [], r"cut \(0 queries\) must be as many as matched \(1\)"),
    ):
        with pytest.raises(ValueError, match=match):
            kernels.split_lists(*lists, 0, matched, cut)
    with pytest.raises(TypeError, match=r"matched .*must"):
        kernels.split_lists(*lists, 0, [np.array([0], np.int32)], [none])


def test_rows_outside_and_queries_that_are_none_are_refused():
    columns = kernels.Columns([np.array([0, 1, 1], np.uint8)], [2])
    asked = np.array([0], np.int32), np.array([1], np.uint32), np.array([0, 1])
    with pytest.raises(ValueError, match="rows must be from 0 to 2"):
        kernels.incidence_of_groups(columns, np.array([3], np.uint32), *asked)
    with pytest.raises(TypeError, match=r"rows .*must"):
        kernels.incidence_of_groups(columns, np.array([0]), *asked)
    with pytest.raises(ValueError, match="values must be below"):
        kernels.incidence_of_groups(
            columns, np.array([0], np.uint32), asked[0], asked[1] + np.uint32(1), asked[2]
        )
    with pytest.raises(ValueError, match="starts must ascend"):
        kernels.incidence_of_groups(columns, np.array([0], np.uint32), asked[0], asked[1], np.array([0]))
