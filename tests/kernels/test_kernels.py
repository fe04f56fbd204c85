import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privmw import kernels
from privmw.kernels.arrays import freeze
from truth import reference

CODES = [np.array([3, 9, 3, 0], np.uint8), np.array([0, 1, 1, 0], np.uint8)]
SIZES = [10, 2]
PAIR, STARTS = np.array([0, 1], np.int32), np.array([0, 2])
fuzz = settings(max_examples=150)


def columns():
    return kernels.Columns(CODES, SIZES)


def marginals():
    return kernels.Marginals(columns(), PAIR, STARTS)


def test_the_door_hands_out_what_the_reference_says():
    table = columns()
    assert table.rows == 4
    assert table.sizes == (10, 2)
    assert table.nbytes >= 0
    assert repr(table) == f"Columns(4 rows x 2 attributes, {kernels.backend()})"
    masses = np.array([5, -7, 2**61, 1])
    plan = kernels.Marginals(table, np.array([0, 0, 1], np.int32), np.array([0, 1, 3]), threads=2)
    truth = reference.marginal_sums(CODES, SIZES, [(0,), (0, 1)], masses)
    out = np.ones(30, np.int64)
    assert plan.cells == 30
    assert plan.sums(masses, out, threads=3) is out
    assert np.array_equal(out, truth)
    assert np.array_equal(plan.sums(masses), truth)
    plan.add_changes(np.array([2, 2], np.uint32), np.array([-(2**60), -(2**60)]), out)
    masses[2] = 0
    assert np.array_equal(out, reference.marginal_sums(CODES, SIZES, [(0,), (0, 1)], masses))
    assert sum(plan.ways().values()) >= 2
    assert plan.nbytes >= 0
    assert repr(plan) == f"Marginals(30 cells over 4 rows, {kernels.backend()})"


def test_an_empty_workload_has_no_cells():
    plan = kernels.Marginals(columns(), np.empty(0, np.int32), np.zeros(1, np.int64))
    assert plan.cells == 0
    assert plan.sums(np.ones(4, np.int64)).tolist() == []
    plan.add_changes(np.zeros(1, np.uint32), np.ones(1, np.int64), np.empty(0, np.int64))


def test_columns_that_someone_can_write_to_are_copied():
    mine = np.array([0, 1, 1], np.uint8)
    frozen = freeze(np.array([0, 1, 1], np.uint8))
    table = kernels.Columns([mine, frozen], [2, 2])
    assert not np.shares_memory(table.columns[0], mine)
    assert np.shares_memory(table.columns[1], frozen)
    mine[:] = 255
    assert kernels.matching_rows(table, [0], [1]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        table.columns[0][0] = 255


def test_queries_may_come_as_arrays_of_integers():
    assert kernels.matching_rows(columns(), np.array([0, 1]), np.array([3, 1], np.uint8)).tolist() == [2]
    assert kernels.matching_rows(columns(), (), ()).tolist() == [0, 1, 2, 3]


def check_message(error):
    assert "must" in str(error)


anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers(-2, 12), max_size=5)
    | hnp.arrays(
        st.sampled_from(["u1", "u2", "u4", "i4", "i8", "f8", "?", ">u2", "f4", "u8"]),
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5),
    )
)


@given(st.lists(anything, min_size=1, max_size=3), st.lists(anything, min_size=1, max_size=3), anything)
@fuzz
def test_no_columns_do_worse_than_a_type_or_value_error(given_columns, sizes, third):
    for first, second in ((given_columns, sizes), (given_columns[0], sizes), (given_columns, third)):
        try:
            table = kernels.Columns(first, second)
        except (TypeError, ValueError) as error:
            check_message(error)
            continue
        assert all(np.max(codes) < size for codes, size in zip(first, second, strict=True))
        rows, counts = kernels.distinct_rows(first, second)
        assert counts.sum() == table.rows
        assert len(rows) <= table.rows


@given(anything, anything, anything, anything)
@fuzz
def test_no_argument_does_worse_than_a_type_or_value_error(first, second, third, fourth):
    plan = marginals()
    weights = np.array([0.5, 0.0, 0.25, 0.25])
    rows = np.array([0, 2], np.uint32)
    for call in (
        lambda: kernels.Marginals(plan.columns, first, second),
        lambda: kernels.Marginals(plan.columns, PAIR, first),
        lambda: kernels.Marginals(plan.columns, first, STARTS),
        lambda: plan.sums(first),
        lambda: plan.sums(np.ones(4, np.int64), first),
        lambda: plan.add_changes(first, second, third),
        lambda: plan.add_changes(rows, first, np.zeros(20, np.int64)),
        lambda: plan.add_changes(first, np.ones(2, np.int64), np.zeros(20, np.int64)),
        lambda: kernels.matching_rows(plan.columns, first, second),
        lambda: kernels.matching_bitmap(plan.columns, [0, 1], first),
        lambda: kernels.groups_alike(plan.columns, first, second, third),
        lambda: kernels.groups_alike(plan.columns, PAIR, first, STARTS),
        lambda: kernels.rescale(first),
        lambda: kernels.to_masses(first),
        lambda: kernels.multiply(first, second, third),
        lambda: kernels.multiply(weights.copy(), rows, first),
        lambda: kernels.multiply(weights.copy(), first, 0.5),
        lambda: kernels.multiply(first, second, 2.0),
        lambda: kernels.total_after(2**60, first, second, third, fourth),
        lambda: kernels.total_after(2**60, 0, 0, 1.0, first),
        lambda: plan.potentials(first, second),
        lambda: kernels.tilt(first, second),
        lambda: kernels.tilt(weights, first),
        lambda: kernels.to_masses(weights, threads=first),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                call()
            except (TypeError, ValueError) as error:
                check_message(error)
