"""What public rows do not cover: against plain Python, under constraints, on several ranks."""

import itertools

import numpy as np
import pytest

import privmw as pmw
from extensions.cluster.thread_ranks import run_ranks
from privmw.data import coverage
from privmw.data.constraints import Constraints
from privmw.data.coverage import coverage_of
from privmw.extensions.cluster.sharded_support import ShardedSupport

DOMAIN = pmw.Domain({"age": 5, "sex": ["F", "M", "X"], "one": 1, "place": 7})
ROWS = np.random.default_rng(3).integers(0, [4, 2, 1, 7], (12, 4))


def support_of(rows=ROWS, constraints=None):
    return pmw.Support.from_table(pmw.Table.from_codes(rows, DOMAIN, private=False), constraints)


def by_hand(rows, allowed=lambda combination: True):
    """The missing values, and the missing pairs of values that occur."""
    values, pairs = {}, {}
    for a, size in enumerate(DOMAIN.sizes):
        missing = [(v,) for v in range(size) if v not in rows[:, a] and allowed({a: v})]
        values.update({(DOMAIN.names[a],): missing} if missing else {})
    for a, b in itertools.combinations(range(len(DOMAIN)), 2):
        seen = set(zip(rows[:, a].tolist(), rows[:, b].tolist(), strict=True))
        occur = itertools.product(sorted(set(rows[:, a].tolist())), sorted(set(rows[:, b].tolist())))
        missing = [pair for pair in occur if pair not in seen and allowed({a: pair[0], b: pair[1]})]
        pairs.update({(DOMAIN.names[a], DOMAIN.names[b]): missing} if missing else {})
    return values, pairs


def found_in(missing):
    return {entry.attributes: (entry.count, list(entry.first)) for entry in missing}


def expected(missing):
    return {names: (len(codes), codes[: coverage.FIRST]) for names, codes in missing.items()}


def test_what_no_row_has_is_found():
    values, pairs = by_hand(ROWS)
    found = coverage_of(support_of())
    assert found_in(found.values) == expected(values)
    assert found_in(found.pairs) == expected(pairs)
    assert found.missing_values == sum(map(len, values.values())) == 4
    assert found.missing_pairs == sum(map(len, pairs.values()))
    assert found.possible_values == sum(DOMAIN.sizes)
    assert found.skipped == ()


def test_grown_rows_cover_nothing():
    support = support_of()
    everything = list(itertools.product(*map(range, DOMAIN.sizes)))
    assert coverage_of(support.with_rows(everything).support) == coverage_of(support)


def test_every_row_covers_everything():
    found = coverage_of(pmw.Support.full(DOMAIN))
    assert (found.values, found.pairs, found.missing_pairs) == ((), (), 0)
    assert found.possible_pairs == sum(a * b for a, b in itertools.combinations(DOMAIN.sizes, 2))


def test_what_constraints_exclude_is_not_missing():
    rules = {
        "invalid": [{"sex": ["X"]}, {"age": [0, 1], "place": [3]}, {"age": [2], "sex": ["F"], "place": [1]}],
        "valid": [{"attributes": ["sex", "place", "one"], "combinations": [["F", p, 0] for p in range(7)]}],
    }
    constraints = Constraints(rules, DOMAIN)
    rows = ROWS[constraints.mask(pmw.Table.from_codes(ROWS, DOMAIN, private=False))]

    def allowed(combination):
        # A combination is excluded if no complete row of the domain that has it keeps one of the rules alone.
        every = pmw.Support.full(DOMAIN).table
        keeps = np.ones(every.n, bool)
        for a, code in combination.items():
            keeps &= every.columns[a] == code
        single = [{"invalid": [rule]} for rule in rules["invalid"]] + [{"valid": rules["valid"]}]
        return all((keeps & Constraints(rule, DOMAIN).mask(every)).any() for rule in single)

    values, pairs = by_hand(rows, allowed)
    found = coverage_of(support_of(rows, constraints))
    assert found_in(found.values) == expected(values)
    assert found_in(found.pairs) == expected(pairs)
    assert ("sex",) not in found_in(found.values)


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_number_of_ranks_changes_nothing(ranks):
    complete = support_of()

    def program(comm):
        return coverage_of(ShardedSupport.of(complete, comm))

    assert run_ranks(ranks, program) == [coverage_of(complete)] * ranks


def test_large_marginals_are_skipped_and_said(monkeypatch):
    monkeypatch.setattr(coverage, "MOST_COVERAGE_CELLS", 15)
    found = coverage_of(support_of())
    assert found.skipped == (("age", "place"), ("sex", "place"))
    monkeypatch.setattr(coverage, "MOST_COVERAGE_CELLS", 6)
    assert ("place",) in coverage_of(support_of()).skipped


def test_a_support_keeps_its_plan():
    support, workload = support_of(), pmw.Workload.all(DOMAIN, k=2)
    plan = support.marginals(workload)
    coverage_of(support)
    assert support.marginals(workload) is plan
