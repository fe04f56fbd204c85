import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cases import THREADS, drawn_cases, installed, skewed, uniform
from truth import reference

drawn = settings(max_examples=80)


def check_distinct(backend, columns, sizes, threads=1):
    first, counts = backend.distinct_rows(columns, sizes, threads)
    true_first, true_counts = reference.distinct_rows(columns)
    assert (first.dtype, counts.dtype) == (np.uint32, np.int64)
    assert np.array_equal(first, true_first)
    assert np.array_equal(counts, true_counts)


@given(drawn_cases(), st.sampled_from(THREADS))
@drawn
def test_distinct_rows_are_the_reference(table, threads):
    for backend in installed():
        check_distinct(backend, table.columns, table.sizes, threads)


@pytest.mark.parametrize(
    ("make", "rows", "sizes"),
    [
        (skewed, 3_000, [2, 3, 10, 5] * 17),
        (uniform, 3_000, [2, 3]),
        (uniform, 1, [7, 1]),
        (uniform, 5, [1, 1]),
        (skewed, 2_000, [2**32 - 1, 2**32 - 1, 1, 2]),
        (uniform, 2_000, [2**31, 2, 2**32 - 1, 3]),
        (uniform, 500, [1, 2**32 - 1, 1, 2**32 - 1, 1, 1]),
        (uniform, 4_099, [65_536, 65_537, 256, 257]),
    ],
)
def test_distinct_rows_of_every_width_and_thread_count(make, rows, sizes, backend):
    for threads in THREADS:
        check_distinct(backend, make(rows, sizes, 13), sizes, threads)


def test_rows_that_differ_in_the_last_attribute_only_are_distinct(backend):
    columns = [np.zeros(6, np.uint8)] * 80 + [np.array([3, 1, 3, 2, 1, 3], np.uint8)]
    first, counts = backend.distinct_rows(columns, [2] * 80 + [4], 2)
    assert first.tolist() == [1, 3, 0]
    assert counts.tolist() == [2, 1, 3]


@given(drawn_cases(200), st.data())
@drawn
def test_matching_rows_and_bitmaps_are_the_reference(table, data):
    chosen = data.draw(st.lists(st.integers(0, len(table.sizes) - 1), max_size=4))
    values = [
        data.draw(st.integers(0, table.sizes[a] - 1) | st.sampled_from(table.columns[a].tolist()))
        for a in chosen
    ]
    found = reference.matches(table.columns, list(zip(chosen, values, strict=True)))
    for backend in installed():
        columns = backend.Columns(table.columns, table.sizes, 1)
        rows = backend.matching_rows(columns, chosen, values)
        words = backend.matching_bitmap(columns, chosen, values)
        assert (rows.dtype, words.dtype) == (np.uint32, np.uint64)
        assert np.array_equal(rows, np.flatnonzero(found))
        assert words.tolist() == reference.bitmap(found)


def test_bitmaps_end_where_the_rows_do(backend):
    for rows in [1, 63, 64, 65, 4_095, 4_096, 4_097, 10_000]:
        columns = [np.zeros(rows, np.uint8), np.arange(rows, dtype=np.uint16) % 3]
        table = backend.Columns(columns, [1, 3], 1)
        for chosen, values in (([], []), ([0], [0]), ([1], [2]), ([1, 0, 1], [1, 0, 1]), ([1, 1], [0, 1])):
            found = np.full(rows, True)
            for a, value in zip(chosen, values, strict=True):
                found &= columns[a] == value
            assert backend.matching_bitmap(table, chosen, values).tolist() == reference.bitmap(found)
            assert np.array_equal(backend.matching_rows(table, chosen, values), np.flatnonzero(found))


def test_a_value_beyond_the_width_of_the_codes_matches_no_row(backend):
    codes = [np.array([44, 3], np.uint8), np.array([44, 3], np.uint16)]
    table = backend.Columns(codes, [1_000, 100_000], 1)
    for chosen, value in ((0, 300), (1, 65_536 + 44), (0, 256 + 3)):
        assert backend.matching_rows(table, [chosen], [value]).tolist() == []
        assert backend.matching_bitmap(table, [chosen], [value]).tolist() == [0]


def test_an_attribute_of_four_billion_values_needs_no_counter_for_each(backend):
    codes = np.array([2**32 - 2, 5, 2**32 - 2], np.uint32)
    table = backend.Columns([codes], [2**32 - 1], 1)
    assert backend.matching_rows(table, [0], [2**32 - 2]).tolist() == [0, 2]


def check_groups(backend, columns, sizes, queries):
    flat = [pair for query in queries for pair in query]
    attributes = np.array([a for a, _ in flat], np.int32)
    values = np.array([v for _, v in flat], np.uint32)
    starts = np.cumsum([0, *map(len, queries)], dtype=np.int64)
    table = backend.Columns(columns, sizes, 1)
    groups, count = backend.groups_alike(table, attributes, values, starts)
    true_groups, true_count = reference.groups_alike(columns, queries)
    assert groups.dtype == np.uint32
    assert groups.tolist() == true_groups
    assert count == true_count


@given(drawn_cases(100), st.data())
@drawn
def test_groups_alike_are_the_reference(table, data):
    pair = st.integers(0, len(table.sizes) - 1).flatmap(
        lambda a: st.tuples(
            st.just(a), st.integers(0, table.sizes[a] - 1) | st.sampled_from(table.columns[a].tolist())
        )
    )
    queries = data.draw(st.lists(st.lists(pair, max_size=3), max_size=12))
    for backend in installed():
        check_groups(backend, table.columns, table.sizes, queries)


def test_groups_are_as_many_as_rows_when_queries_tell_all_apart(backend):
    columns = [np.arange(256, dtype=np.uint8)]
    check_groups(backend, columns, [256], [[(0, value)] for value in range(256)])
    bits = [(np.arange(256) >> bit & 1).astype(np.uint8) for bit in range(8)]
    check_groups(backend, bits, [2] * 8, [[(bit, 1)] for bit in range(8)])


def test_without_queries_all_rows_are_alike(backend):
    check_groups(backend, [np.arange(5, dtype=np.uint8)], [5], [])
    check_groups(backend, [np.arange(5, dtype=np.uint8)], [5], [[], [(0, 3)], [(0, 3)], []])
