import copy
import pickle

import numpy as np
import pytest

import privmw as pmw
from privmw.algorithms.task import check_public
from privmw.curator.overlap import shares_records
from privmw.data.coverage import coverage_of
from privmw.extensions.cluster import ShardedSupport
from privmw.ranks import ALONE

DOMAIN = pmw.Domain({"age": 3, "sex": ["F", "M"], "job": 4})
CODES = [[2, 0], [0, 1], [2, 0], [1, 1]]  # sex and age in another order than that of the domain
FEWER = pmw.Domain({"sex": ["F", "M"], "age": 3})


def fewer(constraints=None):
    rows = [[sex, age] for age, sex in CODES]
    public = pmw.Table.from_codes(rows, FEWER, private=False)
    return pmw.Support.from_table(public, constraints, domain=DOMAIN)


def test_a_public_table_with_fewer_columns_gives_rows_distinct_on_those_it_has():
    support = fewer()
    assert support.domain == DOMAIN
    assert support.missing == ("job",)
    assert support.rows.tolist() == [[0, 1, 0], [1, 1, 0], [2, 0, 0]]
    assert (support.counts.tolist(), support.records, support.grown) == ([1, 1, 2], 4, 0)
    assert repr(support) == "Support(3 distinct rows x 3 attributes of 4 public records, without 'job')"
    assert pickle.loads(pickle.dumps(support)) == support == copy.copy(support)


def test_a_table_with_every_column_is_put_into_the_order_of_the_domain():
    other = DOMAIN.project(["job", "age", "sex"])
    rows = np.random.default_rng(0).integers(0, [4, 3, 2], (30, 3))
    support = pmw.Support.from_table(pmw.Table.from_codes(rows, other, private=False), domain=DOMAIN)
    assert support == pmw.Support.from_table(pmw.Table.from_codes(rows[:, [1, 2, 0]], DOMAIN, private=False))
    assert support.missing == ()


def test_columns_that_the_domain_has_not_are_refused_by_name():
    strange = pmw.Table.from_codes([[0, 1]], pmw.Domain({"sex": ["F", "M"], "height": 3}), private=False)
    with pytest.raises(ValueError, match="column 'height' must be an attribute of the domain"):
        pmw.Support.from_table(strange, domain=DOMAIN)
    for declared in (["M", "F"], 2):
        otherwise = pmw.Table.from_codes([[0]], pmw.Domain({"sex": declared}), private=False)
        with pytest.raises(ValueError, match="column 'sex' must have the values of the domain"):
            pmw.Support.from_table(otherwise, domain=DOMAIN)
    with pytest.raises(TypeError, match=r"domain \(dict\) must be a Domain"):
        pmw.Support.from_table(strange, domain={"sex": 2})


def test_rules_about_known_columns_restrict_and_the_others_wait():
    rules = {"invalid": [{"age": [0], "sex": ["M"]}, {"sex": ["F"], "job": [0]}]}
    constraints = pmw.Constraints(rules, DOMAIN)
    support = fewer(constraints)
    assert support.rows.tolist() == [
        [1, 1, 0],
        [2, 0, 0],
    ]  # the last breaks the second rule, as a placeholder
    assert support.constraints == constraints
    assert len(constraints.among(["sex", "job"])) == 1
    with pytest.raises(ValueError, match="must keep the constraints"):
        support.with_rows([[2, 0, 0]])
    assert support.with_rows([[2, 0, 1]]).support.constraints == constraints


def test_what_is_not_known_is_not_answered():
    support = fewer()
    known = pmw.Workload(DOMAIN, [("age", "sex")])
    asked = pmw.Workload(DOMAIN, [("age", "sex"), ("age", "job")])
    assert support.answers(known).tolist() == [0, 0.25, 0, 0.25, 0.5, 0]
    for call in (
        lambda: support.answers(asked),
        lambda: support.marginals(asked),
        lambda: support.matching_rows(["job"], [0]),
    ):
        with pytest.raises(ValueError, match="the public rows lack 'job'"):
            call()
    ledger = pmw.accounting.Ledger(pmw.Budget.zcdp(1), pmw.accounting.Neighbors.REPLACE_ONE, n=4)
    private = pmw.Table.from_codes([[0, 0, 0]] * 9, DOMAIN, private=True)
    for call in (
        lambda: support.widened(),
        lambda: check_public(support, known),
        lambda: pmw.PEP().release(private, support, known, epsilon=1),
        lambda: pmw.Release(support, known, support.start(), ledger=ledger, settings={}),
        lambda: ShardedSupport.of(support, ALONE),
    ):
        with pytest.raises(ValueError, match="must have every attribute of the domain: its public rows lack"):
            call()
    check_public(support, asked, fills_missing_columns=True)


def test_without_a_public_table_no_row_is_public():
    support = pmw.Support.without_public(DOMAIN)
    assert (support.size, support.records, support.missing) == (1, 0, DOMAIN.names)
    assert repr(support) == "Support(no public row, 3 attributes)"
    assert support.fingerprint() != fewer().fingerprint()
    with pytest.raises(ValueError, match="must have a public record"):
        support.start()
    rows = support.with_rows([[2, 1, 3], [0, 0, 0], [2, 1, 3]])
    assert rows.support.rows.tolist() == [[0, 0, 0], [2, 1, 3]]
    assert (rows.support.missing, rows.support.grown, rows.places.tolist()) == ((), 2, [])
    assert rows.added.tolist() == [1, 0, 1]
    assert not shares_records(pmw.Table.from_codes([[0, 0, 0]] * 60, DOMAIN, private=True), support)


def test_rows_that_are_added_are_grown_unless_they_are_public():
    rng = np.random.default_rng(3)
    public = rng.integers(0, [3, 2, 4], (12, 3))
    support = pmw.Support.from_table(pmw.Table.from_codes(public, DOMAIN, private=False))
    added = rng.integers(0, [3, 2, 4], (40, 3))
    wider = support.with_rows(added)
    assert np.array_equal(wider.support.rows, np.unique(np.concatenate([public, added]), axis=0))
    assert np.array_equal(wider.support.rows[wider.places], support.rows)
    assert np.array_equal(wider.support.rows[wider.added], added)
    assert np.array_equal(wider.support.counts[wider.places], support.counts)
    assert wider.support.records == 12
    assert wider.support.grown == wider.support.size - support.size > 0
    assert f"12 public records, of which {wider.support.grown} grown" in repr(wider.support)
    start = wider.support.start()
    assert np.array_equal(start[wider.places], support.start())
    assert np.count_nonzero(start) == support.size
    workload = pmw.Workload.all(DOMAIN, k=2)
    assert np.array_equal(wider.support.answers(workload), support.answers(workload))
    with pytest.raises(ValueError, match="column 'sex' has 1 value outside the domain"):
        support.with_rows([[0, 2, 0]])


def test_only_public_rows_give_records_to_a_widened_support():
    support = pmw.Support.from_table(pmw.Table.from_codes([[0, 0, 0], [0, 0, 1]], DOMAIN, private=False))
    grown = support.with_rows([[2, 1, 3]]).support
    wider = grown.widened()
    assert wider.rows.tolist() == [[0, 0, 0], [0, 0, 1], [2, 1, 3]]
    assert wider.counts[2] == 0
    with pytest.raises(ValueError, match="must have a public record"):
        pmw.Support.without_public(DOMAIN).with_rows([[0, 0, 0]]).support.widened()


def test_a_private_table_is_recognised_by_the_columns_that_are_known():
    codes = np.random.default_rng(0).integers(0, 50, (200, 3))
    domain = pmw.Domain({"a": 50, "b": 50, "c": 50})
    private = pmw.Table.from_codes(codes, domain, private=True)
    same = pmw.Table.from_codes(codes[::-1, :2], domain.project(["a", "b"]), private=False)
    support = pmw.Support.from_table(same, domain=domain)
    assert shares_records(private, support)
    other = np.random.default_rng(1).integers(0, 50, (200, 2))
    independent = pmw.Table.from_codes(other, domain.project(["a", "b"]), private=False)
    assert not shares_records(private, pmw.Support.from_table(independent, domain=domain))
    whole = pmw.Support.from_table(pmw.Table.from_codes(codes, domain, private=False))
    assert shares_records(private, whole.with_rows([[0, 0, 0], [1, 1, 1]]).support)


def test_coverage_speaks_of_known_columns_only():
    coverage = coverage_of(fewer())
    assert {name for missing in (*coverage.values, *coverage.pairs) for name in missing.attributes} == {
        "age",
        "sex",
    }
    assert coverage.possible_values == 5


def test_missing_columns_must_hold_the_placeholder():
    table = pmw.Table.from_codes([[0, 0, 1]], DOMAIN, private=False)
    with pytest.raises(ValueError, match="column 'job' \\(missing\\) must hold code 0"):
        pmw.Support(table, np.ones(1, np.int64), missing=("job",))


def test_a_release_with_grown_rows_is_saved_and_loaded(tmp_path):
    support = pmw.Support.from_table(pmw.Table.from_codes([[0, 0, 0], [0, 0, 1]], DOMAIN, private=False))
    grown = support.with_rows([[2, 1, 3]]).support
    ledger = pmw.accounting.Ledger(pmw.Budget.zcdp(1), pmw.accounting.Neighbors.REPLACE_ONE, n=4)
    workload = pmw.Workload.all(DOMAIN, k=2)
    release = pmw.Release(grown, workload, [0.25, 0.25, 0.5], ledger=ledger, settings={})
    release.save(tmp_path / "x.release")
    loaded = pmw.load_release(tmp_path / "x.release")
    assert loaded == release
    assert loaded.support.grown == 1
    assert sorted(loaded.sample(4, seed=0).codes()[:, 0].tolist()) == [0, 0, 2, 2]


def test_the_lines_about_coverage_name_the_columns_that_a_public_file_lacks():
    from privmw.cli.quality import coverage_facts, coverage_lines

    coverage = coverage_of(fewer())
    line = coverage_lines(coverage, DOMAIN, grows=True)[0]
    assert line == "the public file lacks the column job: only what is measured tells of it"
    assert coverage_facts(coverage, DOMAIN)["lacking"] == ["job"]
