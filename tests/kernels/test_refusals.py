import numpy as np
import pytest

from privmw import kernels

CODES = [np.array([3, 9, 3, 0], np.uint8), np.array([0, 1, 1, 0], np.uint8)]
SIZES = [10, 2]
PAIR, STARTS = np.array([0, 1], np.int32), np.array([0, 2])


def columns():
    return kernels.Columns(CODES, SIZES)


def marginals():
    return kernels.Marginals(columns(), PAIR, STARTS)


def read_only(array):
    array.flags.writeable = False
    return array


MASKED = np.ma.masked_array([0, 255, 0, 0], [0, 1, 0, 0], np.uint8)
NOT_COLUMNS = [
    (MASKED, 10),
    (np.array([10, 0, 0, 0], np.uint8), 10),
    (np.array([0, 1, 0, 0], np.int64), 10),
    (np.array([0, -1, 0, 0], np.int8), 10),
    (np.array([0.0, 1.0, 0.0, 0.0]), 10),
    (np.array([0, np.nan, 0.0, 0.0]), 10),
    (np.array([0, 1, 0, 0], np.uint64), 10),
    (np.array([0, 1, 0, 0], ">u2"), 10),
    (np.array([0, 1, 0, 0], bool), 10),
    (np.array([0, 1, 0, 0], object), 10),
    (np.array(["0", "1", "0", "0"]), 10),
    (np.zeros(5, np.uint8), 10),
    (np.zeros(0, np.uint8), 10),
    (np.zeros((4, 1), np.uint8), 10),
    (np.uint8(3), 10),
    (np.zeros(8, np.uint8)[::2], 10),
    ([0, 1, 0, 0], 10),
    (b"abcd", 256),
    ("abcd", 10),
    (None, 10),
    (np.zeros(4, np.uint8), 0),
    (np.zeros(4, np.uint8), -1),
    (np.zeros(4, np.uint8), 2**32),
    (np.zeros(4, np.uint8), 10.0),
    (np.zeros(4, np.uint8), True),
    (np.zeros(4, np.uint8), "10"),
    (np.zeros(4, np.uint8), None),
]


@pytest.mark.parametrize("make", [kernels.Columns, kernels.distinct_rows])
def test_what_is_no_column_is_refused(make):
    for column, size in NOT_COLUMNS:
        with pytest.raises((TypeError, ValueError), match="must"):
            make([CODES[1], column], [2, size])


@pytest.mark.parametrize(
    ("given_columns", "sizes"),
    [
        ([], []),
        (None, None),
        (CODES, [10]),
        (CODES, None),
        (np.stack(CODES), SIZES),
        ("ab", "ab"),
        (CODES, 3),
    ],
)
@pytest.mark.parametrize("make", [kernels.Columns, kernels.distinct_rows])
def test_columns_and_sizes_that_do_not_match_are_refused(make, given_columns, sizes):
    with pytest.raises((TypeError, ValueError), match="must"):
        make(given_columns, sizes)


@pytest.mark.parametrize(
    ("attributes", "starts", "message"),
    [
        ([0, 1], [0, 2.0], "array of int64"),
        ([0.0, 1.0], [0, 2], "array of int32"),
        ([1, 0], [0, 2], "ascend within"),
        ([0, 0], [0, 2], "ascend within"),
        ([0, 2], [0, 2], "from 0 to 1"),
        ([-1, 1], [0, 2], "from 0 to 1"),
        ([0, 1], [0, 1], "starts must ascend from 0"),
        ([0, 1], [1, 2], "starts must ascend"),
        ([0, 1], [0, 3], "starts must ascend"),
        ([0, 1], [], "starts must ascend"),
        ([0, 1], [0, 2, 1, 2], "starts must ascend"),
        ([0, 1], [0, 2**63 - 1, -(2**62), 2], "starts must ascend"),
        ([0, 1], [0, 0, 2], "1 to 6 attributes"),
        ([0, 1] * 4, [0, 8], "1 to 6 attributes"),
        ("01", [0, 2], "array of int32"),
        (None, [0, 2], "array of int32"),
        ([0, 1], None, "array of int64"),
        ([[0, 1]], [0, 2], "array of int32"),
    ],
)
def test_what_is_no_workload_is_refused(attributes, starts, message):
    def array(values, dtype):
        if not isinstance(values, list):
            return values
        return np.array(values) if any(isinstance(v, float) for v in values) else np.array(values, dtype)

    with pytest.raises((TypeError, ValueError), match=message):
        kernels.Marginals(columns(), array(attributes, np.int32), array(starts, np.int64))


def test_a_marginal_of_too_many_cells_is_refused_before_it_is_made():
    wide = kernels.Columns([np.zeros(2, np.uint32)] * 3, [2**20, 2**20 + 1, 2**32 - 1])
    for attributes in ([0, 1], [0, 1, 2], [1, 2]):
        with pytest.raises(ValueError, match=r"at most 2\^40 cells"):
            kernels.Marginals(wide, np.array(attributes, np.int32), np.array([0, len(attributes)]))


@pytest.mark.parametrize("junk", [None, 3, "columns", CODES, np.zeros(3)])
def test_only_columns_are_columns(junk):
    for call in (
        lambda: kernels.Marginals(junk, PAIR, STARTS),
        lambda: kernels.matching_rows(junk, [0], [0]),
        lambda: kernels.matching_bitmap(junk, [0], [0]),
        lambda: kernels.groups_alike(junk, PAIR, PAIR.astype(np.uint32), STARTS),
    ):
        with pytest.raises(TypeError, match="must be Columns"):
            call()


ONES = np.ones(4, np.int64)
NOT_MASSES = [
    ONES[:3],
    ONES.astype(float),
    ONES.astype(np.int32),
    ONES.astype(np.uint64),
    np.ones(8, np.int64)[::2],
    ONES.reshape(2, 2),
    np.array([2**62, 1, 2**60, 0]),
    np.array([-(2**63), 0, 0, 0]),
    np.array([2**62, -(2**62), 0, 0]),
    np.ma.masked_array(ONES, [0, 1, 0, 0]),
    [1, 1, 1, 1],
    None,
    "1111",
]


@pytest.mark.parametrize("masses", NOT_MASSES)
def test_what_is_no_mass_for_each_row_is_refused(masses):
    rows, sums = np.arange(4, dtype=np.uint32), np.zeros(20, np.int64)
    with pytest.raises((TypeError, ValueError), match=r"masses .*must|masses must"):
        marginals().sums(masses)
    with pytest.raises((TypeError, ValueError), match=r"changes .*must|changes must"):
        marginals().add_changes(rows, masses, sums)
    assert not sums.any()


@pytest.mark.parametrize(
    "out",
    [
        np.zeros(19, np.int64),
        np.zeros(20),
        np.zeros(20, np.int32),
        np.zeros((2, 10), np.int64),
        np.zeros(40, np.int64)[::2],
        read_only(np.zeros(20, np.int64)),
        [0] * 20,
        "out",
    ],
)
def test_an_out_that_cannot_be_written_exactly_is_refused(out):
    rows, changes = np.zeros(1, np.uint32), np.ones(1, np.int64)
    with pytest.raises((TypeError, ValueError), match=r"out .*must"):
        marginals().sums(ONES, out)
    with pytest.raises((TypeError, ValueError), match=r"sums .*must"):
        marginals().add_changes(rows, changes, out)


def test_outputs_that_share_memory_with_inputs_are_refused():
    plan = kernels.Marginals(kernels.Columns([np.array([1, 0], np.uint8)], [2]), PAIR[:1], STARTS // 2)
    masses = np.array([5, 7])
    with pytest.raises(ValueError, match="out must not share memory with masses"):
        plan.sums(masses, masses)
    with pytest.raises(ValueError, match="sums must not share memory with changes"):
        plan.add_changes(np.array([0, 1], np.uint32), masses, masses)
    weights = np.array([0.0, 0.5])
    with pytest.raises(ValueError, match="weights must not share memory with rows"):
        kernels.multiply(weights, weights.view(np.uint32)[:1], 1.0)


@pytest.mark.parametrize(
    "rows",
    [
        np.array([4], np.uint32),
        np.array([2**32 - 1], np.uint32),
        np.array([0], np.int64),
        np.array([-1], np.int32),
        np.array([0.0]),
        np.array([True]),
        [0],
        None,
        "0",
    ],
)
def test_rows_that_are_not_there_are_refused(rows):
    with pytest.raises((TypeError, ValueError), match=r"rows .*must"):
        marginals().add_changes(rows, np.ones(1, np.int64), np.zeros(20, np.int64))
    with pytest.raises((TypeError, ValueError), match=r"rows .*must"):
        kernels.multiply(np.full(4, 0.25), rows, 1.0)


@pytest.mark.parametrize(
    ("attributes", "values"),
    [
        ([2], [0]),
        ([-1], [0]),
        ([0], [10]),
        ([0], [-1]),
        ([0], [2**70]),
        ([0], [1.0]),
        ([0.0], [1]),
        ([0], ["1"]),
        ([True], [1]),
        ([0], [None]),
        ([0, 1], [1]),
        ([[0]], [[1]]),
        (0, 1),
        ("0", "1"),
        (None, None),
        ({0}, {1}),
        (np.array(0), np.array(1)),
    ],
)
def test_what_is_no_query_is_refused(attributes, values):
    for match in (kernels.matching_rows, kernels.matching_bitmap):
        with pytest.raises((TypeError, ValueError), match="must"):
            match(columns(), attributes, values)


@pytest.mark.parametrize(
    ("attributes", "values", "starts"),
    [
        ([0, 1], [0, 2], [0, 2]),
        ([0, 1], [10, 0], [0, 2]),
        ([0, 2], [0, 0], [0, 2]),
        ([0, -1], [0, 0], [0, 2]),
        ([0, 1], [0], [0, 2]),
        ([0, 1], [0, 0], [0, 2**63 - 1, -(2**62), 2]),
        ([0, 1], [0, 0], [0, 1]),
        ([0, 1], [0, 0], []),
    ],
)
def test_what_is_no_list_of_queries_is_refused(attributes, values, starts):
    with pytest.raises(ValueError, match="must"):
        kernels.groups_alike(
            columns(), np.array(attributes, np.int32), np.array(values, np.uint32), np.array(starts, np.int64)
        )
