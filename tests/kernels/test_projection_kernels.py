import math
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernels.cases import NAMES, THREADS, case, door_of, drawn_cases, installed, masses_of
from privmw import kernels
from truth import reference

drawn = settings(max_examples=60)
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def potentials(table, backend, values, threads=1):
    out = np.full(table.rows, np.nan)
    with door_of(backend):
        columns = kernels.Columns(table.columns, table.sizes, threads=threads)
        marginals = kernels.Marginals(columns, *table.workload(), threads=threads)
        assert marginals.potentials(values, out, threads=threads) is out
    return out


def values_for(table, seed=0):
    cells = sum(int(np.prod([table.sizes[a] for a in marginal])) for marginal in table.marginals)
    return np.random.default_rng(seed).standard_normal(cells)


@cache
def true_potentials(name):
    table = case(name)
    return reference.potentials(table.columns, table.sizes, table.marginals, values_for(table))


@pytest.mark.parametrize("name", NAMES)
def test_potentials_are_the_reference_on_every_backend(name, backend):
    table, truth = case(name), true_potentials(name)
    values = values_for(table)
    np.testing.assert_allclose(potentials(table, backend, values), truth, rtol=1e-12, atol=1e-12)


@given(drawn_cases(), st.integers(0, 2**32))
@drawn
def test_potentials_of_drawn_tables_are_the_reference_for_any_threads(table, seed):
    values = values_for(table, seed)
    truth = reference.potentials(table.columns, table.sizes, table.marginals, values)
    found = [potentials(table, backend, values, threads) for backend in installed() for threads in THREADS]
    np.testing.assert_allclose(found[0], truth, rtol=1e-13, atol=1e-13)
    assert len({each.tobytes() for each in found}) == 1


@pytest.mark.parametrize("name", ["mixed orders, skewed", "every triple, skewed", "a few triples, skewed"])
def test_potentials_do_not_depend_on_thread_count(name, backend):
    table = case(name)
    values = values_for(table, 3)
    found = [potentials(table, backend, values, threads) for threads in THREADS]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("name", ["mixed orders, dense", "every triple, skewed", "60,000 values, skewed"])
def test_potentials_are_the_adjoint_of_sums(name):
    table = case(name)
    marginals = kernels.Marginals(kernels.Columns(table.columns, table.sizes), *table.workload())
    values = values_for(table, 4)
    signed = masses_of(table.rows, 5)[1]
    left = marginals.potentials(values) @ (signed / 2**62)
    right = values @ (marginals.sums(signed) / 2**62)
    assert left == pytest.approx(right, rel=1e-9, abs=1e-12)


def test_sums_take_signed_masses_at_the_door():
    columns = kernels.Columns([np.array([0, 1, 1], np.uint8)], [2])
    marginals = kernels.Marginals(columns, np.array([0], np.int32), np.array([0, 1]))
    assert marginals.sums(np.array([-(2**61), 2**60, -(2**60)])).tolist() == [-(2**61), 0]
    with pytest.raises(ValueError, match="masses must total at most"):
        marginals.sums(np.array([-(2**62), 2**61, 0]))


@st.composite
def incidences(draw):
    groups, count = draw(st.integers(0, 40)), draw(st.integers(0, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    answers = rng.random((groups, count)) < draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    starts = np.concatenate([[0], np.cumsum(answers.sum(axis=1))]).astype(np.int64)
    return answers.astype(float), starts, np.nonzero(answers)[1].astype(np.uint32)


@given(incidences(), st.integers(0, 2**32))
@drawn
def test_incidences_are_matrices_on_every_backend(incidence, seed):
    matrix, starts, queries = incidence
    groups, count = matrix.shape
    rng = np.random.default_rng(seed)
    values, weights = rng.standard_normal(count), rng.standard_normal(groups)
    for backend in installed():
        made = backend.Incidence(starts, queries, count)
        sums = np.full(count, np.nan)
        made.sums(weights, sums)
        np.testing.assert_allclose(sums, weights @ matrix, **CLOSE)
        for threads in THREADS:
            found = np.full(groups, np.nan)
            made.potentials(values, found, threads)
            np.testing.assert_allclose(found, matrix @ values, **CLOSE)
            gram = made.gram(weights, threads)
            np.testing.assert_allclose(gram, (matrix.T * weights) @ matrix, **CLOSE)
            assert np.array_equal(gram, gram.T)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])  # natively by lists, and by codes of six queries
def test_long_incidences_give_the_same_bits_for_any_threads(backend, share):
    rng = np.random.default_rng(6)
    answers = rng.random((20_000, 70)) < share
    starts = np.concatenate([[0], np.cumsum(answers.sum(axis=1))]).astype(np.int64)
    made = backend.Incidence(starts, np.nonzero(answers)[1].astype(np.uint32), 70)
    values, weights = rng.standard_normal(70), rng.random(20_000)
    np.testing.assert_allclose(made.gram(weights, 1), (answers.T * weights) @ answers, rtol=1e-12)
    found = []
    for threads in THREADS:
        out = np.empty(20_000)
        made.potentials(values, out, threads)
        found.append((out, made.gram(weights, threads)))
    for out, gram in found[1:]:
        assert np.array_equal(out, found[0][0])
        assert np.array_equal(gram, found[0][1])
    whole = rng.integers(0, 2**30, 20_000)
    exact = (answers.T * whole) @ answers.astype(np.int64)
    assert np.array_equal(made.gram(whole.astype(np.float64), 2), exact)


@given(drawn_cases(), st.data())
@drawn
def test_groups_match_the_queries_that_their_rows_do(table, data):
    places = st.integers(0, len(table.sizes) - 1)
    queries = [
        [(a, data.draw(st.integers(0, table.sizes[a] - 1))) for a in sorted(chosen)]
        for chosen in data.draw(st.lists(st.sets(places, max_size=4), max_size=8))
    ]
    rows = np.array(data.draw(st.lists(st.integers(0, table.rows - 1), max_size=20)), np.uint32)
    matching = np.array([reference.matches(table.columns, query) for query in queries])
    truth = [np.flatnonzero(matching[:, row]).tolist() if queries else [] for row in rows]
    attributes = np.array([a for query in queries for a, _ in query], np.int32)
    values = np.array([v for query in queries for _, v in query], np.uint32)
    asked = attributes, values, np.cumsum([0, *map(len, queries)], dtype=np.int64)
    for backend in installed():
        columns = backend.Columns(table.columns, table.sizes, 1)
        for threads in THREADS:
            starts, found = backend.incidence_of_groups(columns, rows, *asked, threads)
            assert starts.dtype == np.int64
            assert found.dtype == np.uint32
            assert [part.tolist() for part in np.split(found, starts[1:-1])][: len(rows)] == truth
            kernels.Incidence(starts, found, len(queries))


@given(
    st.integers(1, 30),
    st.lists(st.sets(st.integers(0, 29)), max_size=9),
    st.integers(0, 9),
)
@drawn
def test_lists_of_split_groups_are_the_queries_of_their_rows(rows, asked, together):
    queries = [{row for row in query if row < rows} for query in asked]
    group_of, matched, cut = [0] * rows, [], []
    for query in queries:
        parts, count = {}, max(group_of) + 1
        matched.append([])
        for group in range(count):
            inside = [row for row in query if group_of[row] == group]
            if inside and len(inside) == group_of.count(group):
                matched[-1].append(group)
            elif inside:
                parts[group] = count + len(parts)
        cut.append(list(parts))
        group_of = [parts.get(group, group) if row in query else group for row, group in enumerate(group_of)]
    truth = [
        [number for number, query in enumerate(queries) if group_of.index(group) in query]
        for group in range(max(group_of) + 1)
    ]
    steps = [range(min(together, len(queries))), range(min(together, len(queries)), len(queries))]
    for backend in installed():
        lists = np.zeros(2, np.int64), np.empty(0, np.uint32)
        with door_of(backend):
            for step in steps:
                groups = [[np.array(each[number], np.int64) for number in step] for each in (matched, cut)]
                lists = kernels.split_lists(*lists, step.start, *groups)
        starts, found = lists
        assert (starts.dtype, found.dtype) == (np.int64, np.uint32)
        assert [part.tolist() for part in np.split(found, starts[1:-1])] == truth


def tilted(backend, base, by, threads=1):
    with door_of(backend):
        return kernels.tilt(np.array(base, float), np.array(by, float), threads=threads)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.just(0.0), st.floats(1e-300, 1e300)),
            st.one_of(st.floats(-800, 800), st.floats(-1e308, 1e308)),
        ),
        min_size=1,
        max_size=600,
    ).filter(lambda rows: any(base for base, _ in rows))
)
@example([(1.0, 0.0), (4.338194432855198e-113, 718.0)])
@drawn
def test_tilts_are_the_reference_however_large(rows):
    base, by = map(list, zip(*rows, strict=True))
    weights, log_total = reference.tilt(base, by)
    found = [tilted(backend, base, by, threads) for backend in installed() for threads in THREADS]
    # Before it is divided by the total, a row below the normal numbers has so much left.
    most = max(potential for base, potential in rows if base > 0)
    least = 2.0**-1073 / math.exp(min(log_total - most, 700))
    np.testing.assert_allclose(found[0][0], weights, rtol=1e-12, atol=max(1e-300, least))
    assert found[0][1] == pytest.approx(log_total, rel=1e-12, abs=1e-13)
    assert len({(each.tobytes(), log) for each, log in found}) == 1


def test_tilts_of_many_rows_do_not_depend_on_thread_count(backend):
    rng = np.random.default_rng(9)
    base = rng.random(100_001) * (rng.random(100_001) < 0.9)
    by = 30 * rng.standard_normal(100_001)
    by[-500:] -= 900
    found = [tilted(backend, base, by, threads) for threads in THREADS]
    for weights, log_total in found:
        assert np.array_equal(weights, found[0][0])
        assert log_total == found[0][1]
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert not weights[base == 0].any()


def test_exponentials_are_those_of_the_reference_within_two_units_in_the_last_place(backend):
    # One row of potential 0 outweighs all others: what is written is exp of the potential.
    x = np.concatenate(
        [np.linspace(-550, 0, 20_001), -np.logspace(-18, 2, 5_001), np.log(2) * np.arange(-99, 0, 0.5)]
    )
    found, _ = tilted(backend, np.append(np.full(len(x), 2.0**-200), 1.0), np.append(x, 0.0))
    truth = np.array([reference.exp(value) for value in x.tolist()])
    ulps = np.abs(found[:-1] * 2.0**200 - truth) / np.spacing(truth)
    assert ulps.max() <= 2


@pytest.mark.parametrize("n", [0, 1, 2, 7, 60, 257])
def test_positive_systems_are_solved_alike_on_every_backend(n):
    rng = np.random.default_rng(n)
    factors = rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.7)
    matrix, right = factors @ factors.T + 0.1 * np.eye(n), rng.standard_normal(n)
    found = []
    for backend in installed():
        with door_of(backend):
            found.append(kernels.solve_positive(matrix, right))
    assert all(np.array_equal(each, found[0]) for each in found)
    np.testing.assert_allclose(matrix @ found[0], right, atol=1e-9)


def test_an_unknown_whose_pivot_rounding_took_stays_zero(backend):
    with door_of(backend):
        found = kernels.solve_positive(np.array([[4.0, 2.0], [2.0, 1.0]]), np.array([4.0, 2.0]))
    assert found.tolist() == [1.0, 0.0]


def test_only_square_systems_are_solved():
    for shape in ((2, 3), (3,), (2, 2, 2)):
        with pytest.raises(ValueError, match=r"matrix .* must be 2 x 2"):
            kernels.solve_positive(np.ones(shape), np.ones(2))
    with pytest.raises(TypeError, match="matrix"):
        kernels.solve_positive(np.ones((2, 2), np.float32), np.ones(2))
