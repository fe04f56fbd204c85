import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privmw as pmw
import privmw.data.make_support
from privmw.data.records import Records
from truth import reference

DOMAIN = pmw.Domain({"age": 10, "sex": ["F", "M"], "zip": 60_000, "one": 1})
CODES = np.array([[3, 0, 9, 0], [9, 1, 59_999, 0], [3, 0, 9, 0], [0, 1, 5, 0], [3, 0, 8, 0]])
WORKLOAD = pmw.Workload(DOMAIN, [("age",), ("zip", "sex"), ("sex", "one", "age"), DOMAIN.names])
MARGINALS = [(0,), (1, 2), (0, 1, 3), (0, 1, 2, 3)]


def support():
    return pmw.Support.from_table(pmw.Table.from_codes(CODES, DOMAIN, private=False))


def test_a_support_is_the_distinct_rows_in_order_with_counts():
    found = support()
    rows, counts = np.unique(CODES, axis=0, return_counts=True)
    assert np.array_equal(found.rows, rows)
    assert np.array_equal(found.counts, counts)
    assert found.size == len(found) == found.table.n == 4
    assert found.domain is DOMAIN
    assert found.counts.dtype == np.int64
    assert repr(found) == "Support(4 distinct rows x 4 attributes of 5 public records)"
    assert found.nbytes > 0
    with pytest.raises(ValueError, match="read-only"):
        found.counts[0] = 7
    found.rows[0] = 0
    assert np.array_equal(found.rows, rows)


@settings(max_examples=60)
@given(st.lists(st.tuples(*(st.integers(0, size - 1) for size in (3, 2, 5))), min_size=1, max_size=60))
def test_a_support_keeps_what_its_table_answers(codes):
    domain = pmw.Domain({"a": 3, "b": 2, "c": 5})
    table = pmw.Table.from_codes(codes, domain, private=False)
    found = pmw.Support.from_table(table)
    workload = pmw.Workload.all(domain, [1, 2, 3])
    counts = table.counts(workload)
    columns = list(np.array(codes).T)
    marginals = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    ones = np.ones(len(codes), np.int64)
    assert np.array_equal(counts, reference.marginal_sums(columns, (3, 2, 5), marginals, ones))
    assert counts.dtype == np.int64
    first, true_counts = reference.distinct_rows(columns)
    assert np.array_equal(found.rows, np.array(codes)[first])
    assert np.array_equal(found.counts, true_counts)
    assert np.allclose(found.answers(workload), counts / len(codes), rtol=1e-15, atol=1e-18)


def test_the_counts_of_a_table_are_the_reference():
    table = pmw.Table.from_codes(CODES, DOMAIN, private=True)
    truth = reference.marginal_sums(list(CODES.T), DOMAIN.sizes, MARGINALS, np.ones(5, np.int64))
    assert np.array_equal(table.counts(WORKLOAD), truth)
    assert table.counts(pmw.Workload(DOMAIN, [])).tolist() == []


def test_answers_are_the_share_of_the_weight_in_each_cell():
    found = support()
    columns = list(np.asarray(found.rows, np.int64).T)
    for weights in (
        [1, 2, 3, 4],
        [0, 0, 0, 5],
        np.array([1e308] * 4),
        np.array([5e-324, 0, 0, 0]),
        (1, 1, 1, 1),
    ):
        kept = np.array(weights, float)
        masses = [int(share * 2**60) for share in kept / kept.max()]
        truth = reference.marginal_sums(columns, DOMAIN.sizes, MARGINALS, np.array(masses)) / sum(masses)
        answers = found.answers(WORKLOAD, weights)
        assert np.allclose(answers, truth, rtol=1e-14, atol=0)
        assert np.array_equal(np.array(weights, float), kept)
        for start, end in zip(WORKLOAD.offsets, WORKLOAD.offsets[1:], strict=False):
            assert abs(answers[start:end].sum() - 1) < 1e-12


def test_answers_without_weights_are_public_frequencies():
    found = support()
    assert np.array_equal(found.answers(WORKLOAD), found.answers(WORKLOAD, found.counts))
    assert np.allclose(found.answers(WORKLOAD), found.answers(WORKLOAD, found.start()), rtol=1e-15, atol=0)
    assert np.array_equal(found.answers(WORKLOAD, found.start("uniform")), found.answers(WORKLOAD, [1] * 4))
    assert found.answers(pmw.Workload(DOMAIN, [])).tolist() == []


def test_a_start_is_fresh_and_sums_to_one():
    found = support()
    assert found.start().tolist() == [0.2, 0.2, 0.4, 0.2]
    assert found.start("uniform").tolist() == [0.25] * 4
    found.start()[:] = 0
    assert found.start("public").sum() == 1
    for kind in ("", "Public", None, 3, [], np.zeros(2)):
        with pytest.raises(ValueError, match=r"kind .* must be 'public' or 'uniform'|ambiguous"):
            found.start(kind)


def test_the_plan_of_the_last_workload_is_kept():
    found = support()
    plan = found.marginals(WORKLOAD)
    assert found.marginals(WORKLOAD) is plan
    assert found.columns is plan.columns
    assert found.marginals(pmw.Workload(DOMAIN, [("age",)])) is not plan


def test_rows_match_by_name():
    found = support()
    assert found.matching_rows(["sex", "age"], [0, 3]).tolist() == [1, 2]
    assert found.matching_rows((), ()).tolist() == [0, 1, 2, 3]
    for names, values in (
        ("sex", [0]),
        (["sex"], [2]),
        (["sexe"], [0]),
        ([3], [0]),
        (None, [0]),
        (["sex"], None),
        (["sex"], [0.0]),
        (["sex"], []),
        ({"sex": 0}, [0]),
    ):
        with pytest.raises((TypeError, ValueError)):
            found.matching_rows(names, values)


def test_a_full_support_has_every_row_once_in_order():
    domain = pmw.Domain({"a": 2, "one": 1, "b": 300, "c": 3})
    found = pmw.Support.full(domain)
    grid = np.stack(np.meshgrid(range(2), [0], range(300), range(3), indexing="ij"), -1).reshape(-1, 4)
    assert np.array_equal(found.rows, grid)
    assert found.counts.tolist() == [1] * 1_800
    assert found == pmw.Support.from_table(pmw.Table.from_codes(grid[::-1], domain, private=False))
    assert [column.dtype.itemsize for column in found.table.columns] == [1, 1, 2, 1]
    assert pmw.Support.full(pmw.Domain({"one": 1})).size == 1


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ([2] * 29, r"536,870,912 rows"),
        ([2**32 - 1] * 5, r"10\^48 rows"),
        ([2**28 + 1], r"268,435,457 rows"),
        ([10] * 400, r"10\^400 rows"),
    ],
)
def test_a_full_support_of_too_large_a_domain_is_refused_with_its_size(sizes, shown):
    domain = pmw.Domain({f"a{i}": size for i, size in enumerate(sizes)})
    with pytest.raises(ValueError, match=rf"domain \({shown}, about .* bytes\) must have at most 2\^28 rows"):
        pmw.Support.full(domain)


def test_a_full_support_must_fit_in_half_the_memory(monkeypatch):
    domain = pmw.Domain({"a": 100, "b": 100})
    monkeypatch.setattr(privmw.data.make_support, "available_memory", lambda: 2 * 18 * 10_000 - 2)
    with pytest.raises(
        ValueError, match=r"domain \(10,000 rows, about 180,000 bytes\) must .* half the memory"
    ):
        pmw.Support.full(domain)
    monkeypatch.setattr(privmw.data.make_support, "available_memory", lambda: 2 * 18 * 10_000)
    assert pmw.Support.full(domain).size == 10_000


def test_supports_are_equal_if_rows_and_counts_are_and_survive_pickle():
    found = support()
    found.answers(WORKLOAD)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert np.array_equal(again.answers(WORKLOAD), found.answers(WORKLOAD))
    assert found != pmw.Support.from_table(pmw.Table.from_codes(CODES[:4], DOMAIN, private=False))
    assert found != pmw.Support(found.table, np.ones(4, np.int64))
    assert found != 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(found)


class Batches(Records):
    """A table in pieces, as a file would bring it."""

    def __init__(self, *tables):
        self.tables = tables

    domain = property(lambda self: self.tables[0].domain)
    n = property(lambda self: sum(table.n for table in self.tables))
    private = property(lambda self: self.tables[0].private)

    def batches(self):
        yield from self.tables

    def counts(self, workload):
        return sum(table.counts(workload) for table in self.tables)


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.tuples(*(st.integers(0, size - 1) for size in (3, 2, 5))), min_size=1, max_size=20),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 40),
)
def test_a_support_of_batches_is_the_support_of_all_rows(parts, pending):
    domain = pmw.Domain({"a": 3, "b": 2, "c": 5})
    records = Batches(*(pmw.Table.from_codes(part, domain, private=False) for part in parts))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(privmw.data.make_support, "PENDING", pending)
        found = pmw.Support.from_table(records)
    whole = pmw.Table.from_codes([row for part in parts for row in part], domain, private=False)
    assert found == pmw.Support.from_table(whole)
    assert len(records) == found.counts.sum() == whole.n


def test_a_private_table_makes_no_support():
    private = pmw.Table.from_codes(CODES, DOMAIN, private=True)
    with pytest.raises(ValueError, match=r"public \(a private table\) must be public"):
        pmw.Support.from_table(private)
    with pytest.raises(ValueError, match=r"table \(a private table\) must be public"):
        pmw.Support(private, np.ones(5, np.int64))


@pytest.mark.parametrize(
    "counts",
    [
        None,
        [1] * 5,
        np.ones(4, np.int64),
        np.ones(5),
        np.array([1, 1, -1, 1, 1], np.int64),
        np.ones((5, 1), np.int64),
        "11111",
    ],
)
def test_counts_that_are_none_are_refused(counts):
    with pytest.raises((TypeError, ValueError), match=r"counts .*must"):
        pmw.Support(pmw.Table.from_codes(CODES, DOMAIN, private=False), counts)


def test_the_counts_given_stay_writable_and_apart():
    mine = np.ones(5, np.int64)
    found = pmw.Support(pmw.Table.from_codes(CODES, DOMAIN, private=False), mine)
    mine[:] = 7
    assert found.counts.tolist() == [1] * 5


@pytest.mark.parametrize("junk", [None, 3, "table", CODES, {}, DOMAIN])
def test_a_support_wants_a_table_a_domain_and_a_workload(junk):
    for call in (pmw.Support.from_table, lambda junk: pmw.Support(junk, np.ones(1, np.int64))):
        with pytest.raises(TypeError, match="must be a Table"):
            call(junk)
    if junk is not DOMAIN:
        with pytest.raises(TypeError, match="must be a Domain"):
            pmw.Support.full(junk)
    with pytest.raises(TypeError, match="must be a Workload"):
        support().answers(junk)


def test_a_workload_on_another_domain_is_refused():
    other = pmw.Workload.all(DOMAIN.project(["age", "sex"]), 2)
    with pytest.raises(ValueError, match="must be on the domain of the support"):
        support().answers(other)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1, np.nan, 1, 1], ValueError, r"weights \(row 1\) must be finite and not negative"),
        ([1, 1, np.inf, 1], ValueError, r"weights \(row 2\) must be finite and not negative"),
        ([1, 1, 1, -1e-300], ValueError, r"weights \(row 3\) must be finite and not negative"),
        ([0, 0, 0, 0], ValueError, r"all zero.* must have a positive sum"),
        ([1, 1, 1], ValueError, r"weights \(shape \(3,\)\) must be one for each of the 4 rows"),
        ([[1, 1, 1, 1]], ValueError, "shape"),
        (1.0, ValueError, "shape"),
        ([[1], 1, 1, 1], ValueError, "must be an array of numbers"),
        (["1", "1", "1", "1"], TypeError, "must be numbers"),
        ([True] * 4, TypeError, "must be numbers"),
        ([1j] * 4, TypeError, "must be numbers"),
        ([None] * 4, TypeError, "must be numbers"),
        ([2**70] * 4, TypeError, "must be numbers"),
        (np.ma.masked_array([1.0] * 4, [0, 0, 1, 0]), TypeError, "must not be masked"),
        (np.full(4, np.finfo(np.longdouble).max), ValueError, "must be finite"),
        ({}, TypeError, "must be numbers"),
    ],
)
def test_bad_weights_are_refused_with_the_first_bad_row(weights, error, message):
    with pytest.raises(error, match=message):
        support().answers(WORKLOAD, weights)


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(DOMAIN.names),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=150)
@given(junk, junk)
def test_no_input_does_worse_than_a_type_or_value_error(first, second):
    found = support()
    for call in (
        lambda: pmw.Support(first, second),
        lambda: pmw.Support(found.table, first),
        lambda: pmw.Support.from_table(first),
        lambda: pmw.Support.full(first),
        lambda: found.start(first),
        lambda: found.answers(first),
        lambda: found.answers(WORKLOAD, [] if first is None else first),
        lambda: found.matching_rows(first, second),
        lambda: found.matching_rows(["sex"], first),
        lambda: found.marginals(first),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                call()
            except (TypeError, ValueError):
                continue


def test_counts_whose_sum_is_beyond_64_bits_are_refused():
    full = pmw.Support.full(pmw.Domain({"sex": 2}))
    assert pmw.Support(full.table, np.array([2**61, 2**60])).records == 3 * 2**60
    with pytest.raises(ValueError, match=r"counts must be fewer than 2\^62 records together"):
        pmw.Support(full.table, np.array([2**62, 2**62]))
