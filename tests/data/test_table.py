import copy
import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmw.data.domain import Domain
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.kernels.arrays import CheckedColumns
from privmw.kernels.checks import check_columns

DOMAIN = Domain({"age": 10, "sex": ["F", "M"], "zip": 60_000, "id": 70_000})
CODES = {"age": [3, 9, 0], "sex": [0, 1, 1], "zip": [59_999, 0, 5], "id": [1, 69_999, 2]}

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
fuzz = settings(derandomize=True, deadline=None, max_examples=200)


def read_only(array):
    array.flags.writeable = False
    return array


def test_columns_come_in_domain_order_in_the_smallest_dtype():
    table = Table(dict(reversed(CODES.items())), DOMAIN, private=False)
    assert [column.dtype for column in table.columns] == [np.uint8, np.uint8, np.uint16, np.uint32]
    assert [column.tolist() for column in table.columns] == list(CODES.values())
    assert all(column.flags.c_contiguous for column in table.columns)
    assert table.column("zip").tolist() == CODES["zip"]
    assert table.n == len(table) == 3
    assert table.domain is DOMAIN
    assert not table.private


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1, "u1"), (256, "u1"), (257, "u2"), (2**16, "u2"), (2**16 + 1, "u4"), (2**32 - 1, "u4")],
)
def test_the_largest_code_fits_its_dtype(size, dtype):
    column = Table({"a": np.array([0, size - 1])}, Domain({"a": size}), private=False).column("a")
    assert column.dtype == np.dtype(dtype)
    assert column.tolist() == [0, size - 1]


def test_codes_returns_what_from_codes_took():
    codes = np.array(list(CODES.values())).T
    for given_codes in (codes, np.asfortranarray(codes), codes.astype(">i8"), codes.tolist()):
        table = Table.from_codes(given_codes, DOMAIN, private=False)
        assert table == Table(CODES, DOMAIN, private=False)
        assert table.codes().dtype == np.uint32
        assert np.array_equal(table.codes(), codes)
    assert Table.from_codes(codes, DOMAIN, private=False).project(["age", "zip"]).codes().dtype == np.uint16


def test_columns_may_be_given_as_pairs():
    assert Table(list(CODES.items()), DOMAIN, private=False) == Table(CODES, DOMAIN, private=False)


def test_a_later_write_by_the_caller_does_not_reach_the_table():
    mine = np.array([3, 9, 0], np.uint8)
    view = mine[:]
    view.flags.writeable = False
    table = Table({"age": view}, DOMAIN.project(["age"]), private=False)
    mine[:] = 255
    assert table.column("age").tolist() == [3, 9, 0]
    buffer = bytearray([3, 9, 0])
    table = Table({"age": read_only(np.frombuffer(buffer, np.uint8))}, DOMAIN.project(["age"]), private=False)
    buffer[0] = 255
    assert table.column("age").tolist() == [3, 9, 0]


def test_a_column_that_nobody_can_write_to_is_not_copied():
    owner = read_only(np.array([3, 9, 0, 1], np.uint8))
    for mine in (owner, owner[1:], np.frombuffer(bytes([3, 9, 0]), np.uint8)):
        assert np.shares_memory(
            Table({"age": mine}, DOMAIN.project(["age"]), private=False).column("age"), mine
        )
    assert not np.shares_memory(
        Table({"age": owner[::2]}, DOMAIN.project(["age"]), private=False).column("age"), owner
    )
    codes = read_only(np.asfortranarray(np.ones((4, 2), np.uint8)))
    assert np.shares_memory(
        Table.from_codes(codes, DOMAIN.project(["age", "sex"]), private=False).column("sex"), codes
    )


def test_columns_cannot_be_made_writable():
    table = Table(CODES, DOMAIN, private=False)
    for column in (*table.columns, *table.take([0, 2]).columns, *table.project(["sex"]).columns):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            column.flags.writeable = True


def test_a_public_table_tells_which_codes_are_outside_the_domain():
    ages = np.zeros(40, np.int64)
    ages[[17, 20, 39]] = 130, -1, 10
    with pytest.raises(
        ValueError,
        match=r"^column 'age' has 3 values outside the domain \(first: 130, row 17\): must be from 0 to 9$",
    ):
        Table({"age": ages}, DOMAIN.project(["age"]), private=False)
    with pytest.raises(
        ValueError,
        match=r"^column 'age' has 1 value outside the domain \(first: -1, row 0\): must be from 0 to 9$",
    ):
        Table({"age": np.array([-1], np.int8)}, DOMAIN.project(["age"]), private=False)


@pytest.mark.parametrize(
    "bad", [[130, 7777], [-7777, 0], [7777], [[7777]], [0.7777], ["a7777"], [[7777], 1], [None, 7777]]
)
def test_a_private_table_tells_the_column_and_the_rule_only(bad):
    with pytest.raises((TypeError, ValueError), match="column 'age'") as error:
        Table({"age": bad, "sex": [0] * 10}, DOMAIN.project(["age", "sex"]), private=True)
    text = re.sub("from 0 to 9|[12]-D|float64", "", str(error.value))
    assert not re.search("[0-9]", text)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_a_private_table_does_not_tell_lengths():
    with pytest.raises(ValueError, match=r"^column 'sex' must be as long as the first$"):
        Table({"age": [1, 2], "sex": [0]}, DOMAIN.project(["age", "sex"]), private=True)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"age": [3.0, 9.0, 0.0]}, TypeError, r"column 'age' \(1-D array of float64\) must be integer codes"),
        ({"age": [True, False, True]}, TypeError, r"must be integer codes"),
        ({"age": np.array([1, 2, 3], object)}, TypeError, r"must be integer codes"),
        ({"age": ["1", "2", "3"]}, TypeError, r"must be integer codes"),
        ({"age": [2**70, 1, 2]}, TypeError, r"must be integer codes"),
        ({"age": np.array([2**64 - 1, 1, 2], np.uint64)}, ValueError, "first: 18446744073709551615, row 0"),
        ({"age": np.ma.masked_array([1, 2, 3], [0, 1, 0])}, TypeError, "masked"),
        ({"age": [[1], [2], [3]]}, ValueError, "2-D.*must be 1-D"),
        ({"age": 3}, ValueError, "0-D.*must be 1-D"),
        ({"age": [[1], [2, 3]]}, ValueError, "array of integers"),
        ({"age": [1, 2]}, ValueError, r"column 'sex' \(3 rows, not 2\) must be as long as the first"),
        ({"age": []}, ValueError, "at least one row"),
        ({"agee": [1, 2, 3]}, ValueError, r"columns\[4\] is not in the domain; did you mean 'age'\?"),
        ({3: [1, 2, 3]}, TypeError, "must be a string"),
    ],
)
def test_a_bad_column_is_refused_by_name(changes, error, message):
    with pytest.raises(error, match=message):
        Table({**CODES, **changes}, DOMAIN, private=False)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"age": [1], "sex": [0], "zip": [1]}, ValueError, "column 'id' is missing"),
        (
            [*CODES.items(), ("sex", [0, 1, 1])],
            ValueError,
            r"columns\[4\] must have a name that is given only once",
        ),
        (
            np.zeros((3, 4), int),
            TypeError,
            r"columns \(2-D array of int64\) must be a mapping from names to codes",
        ),
        (None, TypeError, r"columns \(NoneType\) must be a mapping from names to codes"),
        ("age", TypeError, r"columns \(str\) must be a mapping from names to codes"),
        (["age"], TypeError, r"columns\[0\] \(str\) must be a pair of a name and its codes"),
        ({}, ValueError, "column 'age' is missing"),
    ],
)
def test_bad_columns_are_refused(columns, error, message):
    with pytest.raises(error, match=message):
        Table(columns, DOMAIN, private=False)


@pytest.mark.parametrize(
    ("codes", "error"),
    [
        (np.zeros(4, int), ValueError),
        (np.zeros((3, 3), int), ValueError),
        (np.zeros((0, 4), int), ValueError),
        (np.zeros((3, 4)), TypeError),
        ([[1, 2], [3]], ValueError),
        ([], ValueError),
    ],
)
def test_bad_arrays_of_codes_are_refused(codes, error):
    with pytest.raises(error, match="must"):
        Table.from_codes(codes, DOMAIN, private=False)


def test_a_table_wants_a_domain_and_a_plain_flag():
    for make in (Table, Table.from_codes):
        with pytest.raises(TypeError, match=r"^domain \(dict\) must be a Domain$"):  # it may be the codes
            make(DOMAIN, {"age": [1]}, private=True)
    with pytest.raises(TypeError, match="private"):
        Table(CODES, DOMAIN, private=1)


def test_project_and_take_keep_what_they_name_and_the_privacy():
    table = Table(CODES, DOMAIN, private=True)
    part = table.project(["sex", "age"])
    assert part.domain == DOMAIN.project(["sex", "age"])
    assert part.private
    assert [column.tolist() for column in part.columns] == [CODES["sex"], CODES["age"]]
    assert np.shares_memory(part.column("age"), table.column("age"))
    assert table.take([2, 0]).column("age").tolist() == [0, 3]
    with pytest.raises(ValueError, match="must not repeat one: every private record counts once"):
        table.take([2, 0, 0])
    assert Table(CODES, DOMAIN, private=False).take([2, 0, 0]).column("age").tolist() == [0, 3, 3]
    assert table.take(np.array([False, True, True])) == table.take([1, 2])
    assert table.take([1]).private


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([3], ValueError),
        ([-1], ValueError),
        ([], TypeError),
        (np.array([], int), ValueError),
        ([0.0], TypeError),
        ([[0]], TypeError),
        (0, TypeError),
        ([True], ValueError),
        ([False] * 3, ValueError),
        ([2**64], TypeError),
    ],
)
def test_rows_that_are_not_there_are_not_taken(rows, error):
    with pytest.raises(error, match="row"):
        Table(CODES, DOMAIN, private=False).take(rows)


def test_tables_are_equal_if_domain_codes_and_privacy_are():
    table = Table(CODES, DOMAIN, private=False)
    assert table == Table(CODES, DOMAIN, private=False)
    assert table != Table(CODES, DOMAIN, private=True)
    assert table != table.take([0, 2, 1])
    assert table != table.take([0, 1])
    assert table != Table(CODES, Domain({**dict.fromkeys(CODES, 70_000)}), private=False)
    assert table != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(table)


def test_a_repr_shows_no_value():
    assert repr(Table(CODES, DOMAIN, private=False)) == "Table(3 rows x 4 attributes, public)"
    assert repr(Table(CODES, DOMAIN, private=True)) == "Table(3 rows x 4 attributes, private)"


def test_a_public_table_is_pickled_and_a_private_one_is_not():
    table = pickle.loads(pickle.dumps(Table(CODES, DOMAIN, private=False)))
    assert table == Table(CODES, DOMAIN, private=False)
    assert not any(column.flags.writeable for column in table.columns)
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="a private table must not be pickled"):
            leak(Table(CODES, DOMAIN, private=True))


def test_counts_are_those_of_the_rows_and_want_a_workload_on_the_domain():
    table = Table(CODES, DOMAIN, private=False)
    workload = Workload(DOMAIN, [("sex",), ("sex", "age")])
    counts = table.counts(workload)
    assert counts.tolist()[:2] == [1, 2]
    assert [workload.query(i)[1] for i in np.flatnonzero(counts)[2:]] == [(0, 1), (3, 0), (9, 1)]
    assert table.counts(Workload(DOMAIN, [])).tolist() == []
    with pytest.raises(TypeError, match="must be a Workload"):
        table.counts([("sex",)])
    with pytest.raises(ValueError, match="must be on the domain of the table"):
        table.counts(Workload(DOMAIN.project(["sex"]), [("sex",)]))


@fuzz
@given(junk, st.booleans())
def test_no_column_does_worse_than_a_type_or_value_error(codes, private):
    for make in (
        lambda: Table({"a": codes}, Domain({"a": 3}), private=private),
        lambda: Table(codes, Domain({"a": 3}), private=False),
    ):
        try:
            table = make()
        except (TypeError, ValueError):
            continue
        assert table.n > 0 or table.private
        assert table.column("a").max(initial=0) < 3


@fuzz
@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=5), st.integers(1, 2**32 - 1))
def test_a_column_is_taken_exactly_if_every_code_is_in_the_domain(codes, size):
    try:
        table = Table({"a": codes}, Domain({"a": size}), private=False)
    except (TypeError, ValueError):
        assert not all(0 <= code < size for code in codes)
    else:
        assert table.column("a").tolist() == codes


def test_kernels_take_the_codes_that_a_table_has_checked_but_not_for_other_sizes():
    table = Table(CODES, DOMAIN, private=False)
    for columns in (table.columns, table.take([2, 0]).columns, Table.concatenate([table, table]).columns):
        assert isinstance(columns, CheckedColumns)
        assert all(a is b for a, b in zip(check_columns(columns, DOMAIN.sizes)[0], columns, strict=True))
        with pytest.raises(ValueError, match="must hold codes below its size"):
            check_columns(columns, [1] * len(columns))
    assert not isinstance(table.columns[1:], CheckedColumns)


def test_tables_on_one_domain_are_concatenated_and_private_if_one_is():
    table, hidden = Table(CODES, DOMAIN, private=False), Table(CODES, DOMAIN, private=True)
    both = Table.concatenate([table, hidden])
    assert both.private
    assert not Table.concatenate([table]).private
    assert np.array_equal(both.codes(), np.tile(table.codes(), (2, 1)))
    with pytest.raises(ValueError, match="tables must be on one domain"):
        Table.concatenate([table, table.project(["age"])])
