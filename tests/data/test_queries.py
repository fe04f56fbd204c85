"""Groups of linear queries: sensitivities against all pairs of records, and what is refused."""

import functools

import numpy as np
import pytest

import privmw as pmw
from privmw.data.queries import (
    Matrix,
    Queries,
    QueryGroup,
    marginal,
    prefix,
    queries,
    ranges,
    sums,
    within,
)

GROUPS = 2000
DOMAIN = pmw.Domain(
    {
        "age": 100,
        "wage": {"edges": [0, 10_000, 50_000, 200_000], "missing": "none"},
        "sex": ["F", "M"],
    }
)


def drawn(number):
    """A random group on one to three attributes; in a third each: 0 and 1, one matrix of integers, all."""
    draws = np.random.default_rng([19, number])
    sizes = draws.integers(1, 5, draws.integers(1, 4))
    domain, special = (
        pmw.Domain({f"x{a}": int(size) for a, size in enumerate(sizes)}),
        draws.integers(len(sizes)),
    )
    factors = []
    for a, size in enumerate(sizes):
        kind = draws.integers(4)
        if number % 3 == 2 or (number % 3 == 1 and a == special):
            factors.append(queries(f"x{a}", draws.integers(-3, 6, (draws.integers(1, 4), size))))
        elif kind == 0:
            factors.append(prefix(f"x{a}"))
        elif kind == 1:
            factors.append(ranges(f"x{a}"))
        elif kind == 2:
            factors.append(marginal(f"x{a}"))
        else:
            factors.append(queries(f"x{a}", draws.integers(0, 2, (draws.integers(1, 4), size))))
    return functools.reduce(lambda one, other: one * other, factors).on(domain), number % 3 != 2


def columns(group):
    """The column of each possible record: the product, written out."""
    return functools.reduce(np.kron, [matrix.entries for matrix in group.matrices]).T


def test_sensitivities_are_those_of_all_pairs_of_records():
    for number in range(GROUPS):
        group, factorises = drawn(number)
        of_record = columns(group)
        moved = of_record[:, None] - of_record[None]
        assert group.l2_squared() == (moved**2).sum(axis=2).max(), number
        assert group.l2_squared(replace=False) == (of_record**2).sum(axis=1).max()
        assert group.l1(replace=False) == np.abs(of_record).sum(axis=1).max()
        if factorises:
            assert group.l1() == np.abs(moved).sum(axis=2).max(), number


def test_a_product_is_applied_and_pulled_back_without_being_formed():
    draws = np.random.default_rng(3)
    for number in range(60):
        group, _ = drawn(number)
        matrix, sizes = columns(group).T, [m.entries.shape[1] for m in group.matrices]
        table = draws.integers(0, 9, sizes)
        assert np.array_equal(group.apply(table).ravel(), matrix @ table.ravel())
        multipliers = draws.standard_normal(group.size)
        assert group.pull_back(multipliers).ravel() == pytest.approx(matrix.T @ multipliers)


def test_an_identity_is_the_marginal():
    group = marginal("sex", "wage").on(DOMAIN)
    assert group.names == ("wage", "sex")
    assert (group.l2_squared(), group.l1(), group.l1(replace=False)) == (2, 2, 1)
    assert group.words(3) == ("[10000, 50000)", "M")
    assert group.apply(np.arange(8)).ravel().tolist() == list(range(8))


def test_sums_are_clamped_and_in_steps():
    group = sums("wage", by=["sex"], lower=10_000, upper=100_000, step=10_000).on(DOMAIN)
    assert group.matrices[0].entries.tolist() == [[1, 3, 10, 0], [1, 1, 1, 0]]
    assert (group.shape, group.unit) == ((2, 2), 10_000)
    assert group.l2_squared() == 2 * 101  # another sex, the highest wage


def test_prefixes_and_ranges_of_bins_follow_the_edges():
    assert [prefix("wage").on(DOMAIN).words(q)[0] for q in range(3)] == [
        "[0, 10000)",
        "[0, 50000)",
        "[0, 200000]",
    ]
    assert ranges("wage").on(DOMAIN).size == 6
    edges = ranges("age", edges=[0, 18, 65, 100]).on(DOMAIN)
    assert [edges.words(q)[0] for q in range(3)] == ["0 to 17", "18 to 64", "65 to 99"]
    assert edges.matrices[0].entries.sum(axis=0).tolist() == [1] * 100


def test_sensitivities_of_large_groups_are_found():
    domain = pmw.Domain(dict.fromkeys("abc", 64))
    assert (prefix("a") * prefix("b") * prefix("c")).on(domain).l2_squared() == 64**3 - 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: queries("age", [[0.5] * 100]), "matrix of integers"),
        (lambda: queries("age", [1, 2]), "matrix of integers"),
        (lambda: queries("age", [[1, 2]]).on(DOMAIN), "one for each of its 100 values"),
        (lambda: queries("sex", [[2**21, 0]]).on(DOMAIN), "at most 2\\^20"),
        (
            lambda: (queries("sex", [[2**11, 0]]) * queries("age", [[2**11] * 100])).on(DOMAIN),
            "at most 2\\^20",
        ),
        (lambda: queries("sex", [[2**20, 0], [2**20, 1]]).on(DOMAIN), "squared L2 sensitivity"),
        (lambda: queries("sex", [[1, 0]], words=["a", "b"]), "one per query"),
        (lambda: prefix("sex").on(DOMAIN), "has no order"),
        (lambda: prefix("agee").on(DOMAIN), "did you mean 'age'"),
        (lambda: prefix("age") * marginal("age"), "must not repeat"),
        (lambda: prefix("age") * 3, "must be queries"),
        (lambda: marginal(), "at least one"),
        (lambda: ranges("age", edges=[5]), "at least two"),
        (lambda: ranges("age", edges=[5, 3]).on(DOMAIN), "must increase"),
        (lambda: within("age", [(65, 18)]).on(DOMAIN), "low <= high"),
        (lambda: within("sex", [(0, 1)]).on(DOMAIN), "has no order"),
        (lambda: within("age", []), "at least one"),
        (lambda: within("wage", [(5, 10_000)]).on(DOMAIN), "lies inside the bin"),
        (lambda: sums("wage", lower=5, upper=1), "below upper"),
        (lambda: sums("wage", lower=0, upper=1, step=0), "must be positive"),
        (lambda: sums("wage", lower=0, upper=1e9, step=1e-3).on(DOMAIN), "2\\^20 steps"),
        (lambda: sums("sex", lower=0, upper=1).on(DOMAIN), "has no order"),
        (lambda: QueryGroup(DOMAIN, "age"), "must be queries"),
        (lambda: (queries("sex", [[2, 0]]) * queries("age", [[3] * 100])).on(DOMAIN).l1(), "Use rho"),
        (lambda: queries("sex", [[1, 1]]).on(DOMAIN).moved(1, replace=True), "must depend on the records"),
    ],
)
def test_bad_groups_are_refused_before_anything_is_spent(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()


def test_squared_norms_that_would_overflow_are_refused():
    entries = np.zeros((2**22 + 1, 2), np.int64)
    entries[:-1, 0], entries[-1, 0] = 2**20, 1  # the squared norm is 2^62 + 1: four times as many wrap to 1
    with pytest.raises(ValueError, match="'wage' must have smaller entries"):
        queries("wage", entries, words=[""] * len(entries)).on(pmw.Domain({"wage": 2}))


def test_matrices_of_narrow_integers_and_of_fractions_are_refused():
    for kind in (np.int8, np.float64):
        made = Matrix(np.array([[100, 0]], kind), ("mine",))
        with pytest.raises(TypeError, match="'wage' must be of int64"):
            Queries((("wage", lambda _, made=made: made),)).on(pmw.Domain({"wage": 2}))


def test_edges_of_dates_may_be_texts_and_must_not_be_none():
    domain = pmw.Domain({"day": ["2020-01-01", "2020-01-02", "2020-01-03"]})
    group = ranges("day", edges=["2020-01-01", "2020-01-03", "2020-01-04"]).on(domain)
    assert group.matrices[0].entries.tolist() == [[1, 1, 0], [0, 0, 1]]
    with pytest.raises(TypeError, match="bound"):
        ranges("age", edges=[None, 5]).on(DOMAIN)
