import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmw.data.domain import Domain
from privmw.data.workload import Workload, combinations_at

DOMAIN = Domain({"age": 10, "sex": 2, "race": 5, "one": 1, "zip": 60_000, "state": 50, "edu": 7})

junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(DOMAIN.names)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner) | st.sets(st.text(max_size=2)),
    max_leaves=8,
)
marginals = st.lists(
    st.permutations(DOMAIN.names).flatmap(lambda names: st.integers(1, 4).map(lambda k: tuple(names[:k]))),
    max_size=6,
    unique_by=frozenset,
)
fuzz = settings(derandomize=True, deadline=None, max_examples=200)


def test_the_arrays_of_a_workload_are_flat_and_read_only():
    workload = Workload(DOMAIN, [("race", "sex"), ["age"], ("one", "age", "edu")])
    assert workload.attributes.tolist() == [1, 2, 0, 0, 3, 6]
    assert workload.starts.tolist() == [0, 2, 3, 6]
    assert workload.offsets.tolist() == [0, 10, 20, 90]
    assert workload.cells == 90
    assert len(workload) == 3
    assert list(workload) == [workload.marginal(j) for j in range(3)]
    assert list(workload) == [("sex", "race"), ("age",), ("age", "one", "edu")]
    assert [workload.shape(j) for j in range(3)] == [(2, 5), (10,), (10, 1, 7)]
    assert [workload.order(j) for j in range(3)] == [2, 1, 3]
    assert workload.attributes.dtype == np.int32
    assert workload.starts.dtype == workload.offsets.dtype == np.int64
    for array in (workload.attributes, workload.starts, workload.offsets):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_a_workload_may_be_empty():
    for workload in (Workload(DOMAIN, []), Workload.all(DOMAIN, []), Workload.sample(DOMAIN, 2, 0, seed=1)):
        assert workload.cells == len(workload) == 0
        assert workload.starts.tolist() == workload.offsets.tolist() == [0]
        assert workload.queries([]).values.tolist() == []
        assert workload.select([]) == workload
        assert repr(workload) == "Workload(0 marginals, 0 cells)"
        with pytest.raises(ValueError, match="not in the workload"):
            workload.index(("age",))
        with pytest.raises(ValueError, match="must be from 0"):
            workload.query(0)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_all_marginals_come_in_the_order_of_combinations(k):
    domain = DOMAIN.project([name for name in DOMAIN.names if name != "zip"])
    assert list(Workload.all(domain, k)) == list(itertools.combinations(domain.names, k))


def test_all_takes_several_orders_in_turn():
    expected = [*itertools.combinations(DOMAIN.names, 2), *itertools.combinations(DOMAIN.names, 1)]
    assert list(Workload.all(DOMAIN, [2, 1])) == expected
    assert Workload.all(DOMAIN, k=np.int64(2)) == Workload.all(DOMAIN, [2])


def test_a_million_marginals_are_made_as_arrays():
    workload = Workload.all(Domain({f"a{i}": 2 for i in range(67)}), [3, 4])
    assert len(workload) == math.comb(67, 3) + math.comb(67, 4)
    assert workload.cells == 8 * math.comb(67, 3) + 16 * math.comb(67, 4)
    assert workload.marginal(len(workload) - 1) == ("a63", "a64", "a65", "a66")
    assert workload.index(("a66", "a64", "a65", "a63")) == len(workload) - 1


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, min(n, 6)))))
@fuzz
def test_the_combination_of_a_rank_is_the_one_at_that_place(nk):
    n, k = nk
    ranks = list(range(math.comb(n, k)))
    assert [tuple(row) for row in combinations_at(n, k, ranks)] == list(itertools.combinations(range(n), k))


def test_ranks_beyond_64_bits_are_exact():
    n, k = 30_000, 6
    total = math.comb(n, k)
    assert total > 2**64
    last = [list(range(n - k, n))]
    assert combinations_at(n, k, [total - 1]).tolist() == last
    assert combinations_at(n, k, [0, 1]).tolist() == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 6]]
    assert combinations_at(n, k, [math.comb(n - 1, k - 1)]).tolist() == [[1, 2, 3, 4, 5, 6]]


def test_a_sample_is_distinct_ordered_and_repeatable():
    domain = Domain({f"a{i}": 2 for i in range(67)})
    workload = Workload.sample(domain, k=3, size=4096, seed=0)
    rows = workload.attributes.reshape(-1, 3).tolist()
    assert rows == sorted(rows)
    assert len({tuple(row) for row in rows}) == 4096
    assert all(a < b < c for a, b, c in rows)
    assert workload == Workload.sample(domain, k=3, size=4096, seed=0)
    assert workload != Workload.sample(domain, k=3, size=4096, seed=1)
    assert workload.fingerprint() == "07a49d5f63d5726cbebf09c66e4f881d0cf931b5a30314bf92d80dd21a23fb24"


def test_a_sample_of_every_marginal_is_all_of_them():
    assert Workload.sample(DOMAIN, 3, math.comb(7, 3), seed=5) == Workload.all(DOMAIN, 3)
    assert Workload.sample(DOMAIN.project(["age"]), 1, 1, seed=0) == Workload.all(DOMAIN.project(["age"]), 1)


def test_a_sample_works_where_marginals_are_too_many_to_count():
    workload = Workload.sample(Domain({f"a{i}": 2 for i in range(30_000)}), k=6, size=1_000, seed=3)
    rows = workload.attributes.reshape(-1, 6)
    assert (np.diff(rows, axis=1) > 0).all()
    assert 10_000 < rows.mean() < 20_000


def test_every_sample_is_equally_likely():
    domain = Domain(dict.fromkeys("abcd", 2))
    drawn = [Workload.sample(domain, 2, 2, seed).fingerprint() for seed in range(3_000)]
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == math.comb(6, 2)
    assert ((counts - 200) ** 2 / 200).sum() < 70  # chi-squared, 14 degrees of freedom: alpha 2e-9


@fuzz
@given(marginals, st.data())
def test_cell_undoes_query(chosen, data):
    workload = Workload(DOMAIN, chosen)
    if not chosen:
        return
    i = data.draw(st.integers(0, workload.cells - 1))
    names, values = workload.query(i)
    assert workload.cell(names, values) == i
    assert workload.cell(names[::-1], list(values[::-1])) == i
    assert workload.cell(names, np.array(values)) == i
    j = workload.index(names)
    assert workload.marginal_of([i]).tolist() == [j]
    assert workload.marginal(j) == names
    assert workload.offsets[j] + np.ravel_multi_index(values, workload.shape(j)) == i


@fuzz
@given(marginals.filter(len), st.data())
def test_queries_are_many_times_query(chosen, data):
    workload = Workload(DOMAIN, chosen)
    cells = data.draw(st.lists(st.integers(0, workload.cells - 1), max_size=5))
    queries = workload.queries(cells)
    assert queries.marginals.tolist() == workload.marginal_of(cells).tolist()
    for q, i in enumerate(cells):
        entries = slice(queries.starts[q], queries.starts[q + 1])
        names = tuple(DOMAIN.names[a] for a in queries.attributes[entries])
        assert (names, tuple(queries.values[entries].tolist())) == workload.query(i)


def test_cells_of_a_marginal_are_in_c_order():
    workload = Workload(DOMAIN, [("age",), ("sex", "race")])
    assert [workload.query(i)[1] for i in range(10, 20)] == list(itertools.product(range(2), range(5)))


@fuzz
@given(
    st.lists(st.sampled_from([("age",), ("race", "sex"), ("one",), ("edu", "state")]), unique=True),
    st.data(),
)
def test_cells_of_some_marginals_are_those_of_each_in_turn(chosen, data):
    workload = Workload(DOMAIN, chosen)
    some = data.draw(st.lists(st.sampled_from(range(len(chosen))), max_size=6) if chosen else st.just([]))
    cells = workload.cells_of(some)
    assert cells.dtype == np.int64
    assert cells.tolist() == [
        cell for j in some for cell in range(workload.offsets[j], workload.offsets[j + 1])
    ]
    assert workload.marginal_of(cells).tolist() == [
        j for j in some for _ in range(math.prod(workload.shape(j)))
    ]


@fuzz
@given(marginals, st.data())
def test_select_keeps_the_chosen_marginals_in_their_order(chosen, data):
    workload = Workload(DOMAIN, chosen)
    kept = data.draw(st.permutations(range(len(chosen))).map(lambda order: order[: len(order) // 2]))
    assert workload.select(kept) == Workload(DOMAIN, [chosen[j] for j in kept])


def test_a_large_code_and_a_large_marginal_keep_their_place():
    domain = Domain({"a": 2**20, "b": 2**20, "c": 2**32 - 1})
    workload = Workload(domain, [("c",), ("b", "a")])
    assert workload.cells == 2**40 + 2**32 - 1
    assert workload.query(workload.cells - 1) == (("a", "b"), (2**20 - 1, 2**20 - 1))
    assert workload.queries([2**32 - 2]).values.tolist() == [2**32 - 2]


def test_equal_workloads_share_hash_and_fingerprint_and_survive_pickle():
    workload = Workload(DOMAIN, [("age", "sex"), ("race",)])
    for again in (
        Workload(DOMAIN, (m for m in [("age", "sex"), ("race",)])),
        Workload(DOMAIN, [("sex", "age"), ("race",)]),
        pickle.loads(pickle.dumps(workload)),
    ):
        assert again == workload
        assert hash(again) == hash(workload)
        assert again.fingerprint() == workload.fingerprint()
    others = [
        [("race",), ("age", "sex")],
        [("age",), ("sex", "race")],
        [("age", "sex")],
    ]
    others = [Workload(DOMAIN, other) for other in others]
    others.append(Workload(DOMAIN.project(DOMAIN.names[:3]), [("age", "sex"), ("race",)]))
    assert len({other.fingerprint() for other in [workload, *others]}) == 5
    assert all(other != workload for other in [*others, 3])


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (["age"], TypeError, r"marginals\[0\] \(str\) must be a tuple of names, such as \('age',\)"),
        ("age", TypeError, "list of tuples"),
        (3, TypeError, "list of tuples"),
        ([{"age", "sex"}], TypeError, "tuple of names"),
        ([3], TypeError, "tuple of names"),
        ([("age", 3)], TypeError, "must be a string"),
        ([("age", "agee")], ValueError, r"marginals\[0\]\[1\] is not in the domain; did you mean 'age'\?"),
        (
            [("age", "sex", "age")],
            ValueError,
            r"marginals\[0\] \('age', 'sex', 'age'\) must not name an attribute twice",
        ),
        (
            [("age", "sex"), ("sex", "age")],
            ValueError,
            r"marginals\[1\] \('age', 'sex'\) must be given only once",
        ),
        ([()], ValueError, "must have 1 to 6 attributes"),
        ([DOMAIN.names], ValueError, "must have 1 to 6 attributes"),
    ],
)
def test_a_bad_marginal_is_refused_by_name(asked, error, message):
    with pytest.raises(error, match=message):
        Workload(DOMAIN, asked)


def test_too_many_cells_are_refused_before_they_are_made():
    wide = Domain({f"a{i}": 2**32 - 1 for i in range(6)})
    for asked in ([("a0", "a1")], [wide.names]):
        with pytest.raises(ValueError, match=r"marginal \('a0', .* must have at most 2\^40 cells"):
            Workload(wide, asked)
    domain = Domain({f"a{i}": 2**20 for i in range(30)})
    with pytest.raises(ValueError, match=r"workload \(.*\) must have at most 2\^48 cells"):
        Workload.all(domain, 2)
    with pytest.raises(ValueError, match=r"at most 2\^24: sample it"):
        Workload.all(Domain({f"a{i}": 2 for i in range(200)}), 6)


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (8, ValueError, "from 1 to 6"),
        (0, ValueError, "from 1 to 6"),
        (-1, ValueError, "from 1"),
        (2.0, TypeError, "integer"),
        (True, TypeError, "integer"),
        ("2", TypeError, "integer"),
        ([2, 2], ValueError, "repeat"),
        (None, TypeError, "integer"),
    ],
)
def test_a_bad_order_is_refused(k, error, message):
    with pytest.raises(error, match=rf"k .*{message}"):
        Workload.all(DOMAIN, k)
    if not isinstance(k, list):
        with pytest.raises(error, match=rf"k .*{message}"):
            Workload.sample(DOMAIN, k, 1, 0)


def test_an_order_above_the_number_of_attributes_is_refused():
    for make in (
        lambda: Workload.all(DOMAIN.project(["age"]), 2),
        lambda: Workload.sample(DOMAIN.project(["age"]), 2, 0, 0),
    ):
        with pytest.raises(ValueError, match=r"k \(2\) must be at most the number of attributes, 1"):
            make()


@pytest.mark.parametrize(
    ("size", "seed", "error", "message"),
    [
        (36, 0, ValueError, r"size \(36\) must be from 0 to 35"),
        (-1, 0, ValueError, "size"),
        (1.0, 0, TypeError, "size"),
        (1, -1, ValueError, "seed"),
        (1, None, TypeError, "seed"),
        (1, "0", TypeError, "seed"),
        (True, 0, TypeError, "size"),
    ],
)
def test_a_bad_sample_is_refused(size, seed, error, message):
    with pytest.raises(error, match=message):
        Workload.sample(DOMAIN, 3, size, seed)


def test_a_workload_wants_a_domain():
    for make in (Workload, Workload.all, lambda domain, _: Workload.sample(domain, 1, 1, 0)):
        with pytest.raises(TypeError, match="must be a Domain"):
            make({"age": 10}, [])
    with pytest.raises(TypeError, match="must be a Domain"):
        Workload.all({"age": 10}, 1)


@pytest.mark.parametrize(
    ("names", "values", "error", "message"),
    [
        (("age", "sex"), (10, 0), ValueError, "value of 'age' must be from 0 to 9"),
        (("age", "sex"), (-1, 0), ValueError, "value of 'age'"),
        (("age", "sex"), (1.0, 0), TypeError, "value of 'age'"),
        (("age", "sex"), (1,), ValueError, "must be 2 codes"),
        (("age", "sex"), "10", TypeError, "tuple of codes"),
        (("age", "race"), (1, 1), ValueError, "is not in the workload"),
        (("age",), (1,), ValueError, "is not in the workload"),
        (("age", "sex", "race"), (1, 1, 1), ValueError, "is not in the workload"),
        ("age", (1,), TypeError, "tuple of names"),
    ],
)
def test_a_cell_that_is_not_there_is_refused(names, values, error, message):
    with pytest.raises(error, match=message):
        Workload(DOMAIN, [("age", "sex"), ("race",)]).cell(names, values)


@pytest.mark.parametrize(
    ("indices", "error"),
    [
        ([25], ValueError),
        ([-1], ValueError),
        ([0.0], TypeError),
        ([[0]], TypeError),
        (0, TypeError),
        ([True], TypeError),
        (["0"], TypeError),
        (np.array([2**63], np.uint64), ValueError),
        ([[0], 1], ValueError),
    ],
)
def test_indices_that_are_not_there_are_refused(indices, error):
    for method in ["cells_of", "marginal_of", "queries", "select"]:
        with pytest.raises(error):
            getattr(Workload(DOMAIN, [("age", "sex"), ("race",)]), method)(indices)


def test_select_refuses_a_marginal_twice():
    with pytest.raises(ValueError, match="must not repeat"):
        Workload.all(DOMAIN, 1).select([0, 1, 0])


def test_the_repr_of_a_workload_is_short():
    assert repr(Workload.all(DOMAIN, 1)) == "Workload(7 marginals of order 1, 60075 cells)"
    assert (
        repr(Workload(DOMAIN, [("sex", "one"), ("age",)]))
        == "Workload(2 marginals of order 1 to 2, 12 cells)"
    )


@fuzz
@given(junk, junk, junk)
def test_no_input_does_worse_than_a_type_or_value_error(first, second, third):
    workload = Workload(DOMAIN, [("age", "sex"), ("race",)])
    calls = [
        lambda: Workload(DOMAIN, first),
        lambda: Workload(DOMAIN, [first, second]),
        lambda: Workload.all(DOMAIN, first),
        lambda: Workload.sample(DOMAIN, first, second, third),
        lambda: workload.cell(first, second),
        lambda: workload.cell(("sex", "age"), first),
        lambda: workload.query(first),
        lambda: workload.queries(first),
        lambda: workload.select(first),
        lambda: workload.marginal(first),
    ]
    for call in calls:
        try:
            call()
        except (TypeError, ValueError):
            continue


@pytest.mark.parametrize("moved", [0, 3, -1])
def test_a_record_moves_one_count_of_a_marginal_or_two(moved):
    workload = Workload.all(Domain({"age": 10, "sex": 2, "one": 1}), k=1)
    assert (workload.sensitivity([0, 1, 2]), workload.sensitivity([2, 0], cells_changed=1)) == (5, 2)
    with pytest.raises(ValueError, match=r"cells_changed .* must be from 1 to 2"):
        workload.sensitivity([0], cells_changed=moved)
    with pytest.raises(TypeError, match=r"cells_changed .* must be an integer"):
        workload.sensitivity([0], cells_changed=1.5)
