"""Records climbed to best responses: scores and moves by hand, the same bits on every backend and thread."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cases import THREADS, door_of, installed
from privmw import kernels


def score(record, sizes, queries, weights, terms):
    """The weights of the queries that count a record, and the terms of its values."""
    first = list(itertools.accumulate(sizes, initial=0))
    total = sum(int(terms[first[a] + value]) for a, value in enumerate(record))
    held = (all(record[a] == value for a, value in query) for query in queries)
    return total + sum(weight for weight, one in zip(weights, held, strict=True) if one)


def climbed_by_hand(record, sizes, queries, weights, terms):
    """One attribute after another, each to the first of its best values, until none can improve."""
    record, moved = list(record), True
    while moved:
        moved = False
        for a, size in enumerate(sizes):
            tried = [[*record[:a], value, *record[a + 1 :]] for value in range(size)]
            scores = [score(one, sizes, queries, weights, terms) for one in tried]
            if max(scores) > scores[record[a]]:
                record, moved = tried[scores.index(max(scores))], True
    return record


def arrays(queries):
    """Queries, each a list of (attribute, value), as the kernel takes them."""
    flat = [literal for query in queries for literal in query]
    return (
        np.array([a for a, _ in flat], np.int32),
        np.array([value for _, value in flat], np.uint32),
        np.cumsum([0, *map(len, queries)], dtype=np.int64),
    )


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    record = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    chosen = st.sets(st.integers(0, len(sizes) - 1), max_size=min(3, len(sizes)))
    queries = [
        [(a, values[a]) for a in sorted(attributes)]
        for attributes, values in draw(st.lists(st.tuples(chosen, record), max_size=12))
    ]
    weights = [draw(st.integers(-4, 4)) for _ in queries]
    terms = draw(st.lists(st.integers(-3, 3), min_size=2 * sum(sizes), max_size=2 * sum(sizes)))
    return sizes, queries, weights, np.reshape(terms, (2, -1)), draw(st.lists(record, min_size=3, max_size=3))


@given(problems())
@settings(derandomize=True, deadline=None, max_examples=60)
def test_climbs_are_those_by_hand_on_every_backend_and_number_of_threads(problem):
    sizes, queries, weights, terms, records = problem
    records = records * 2  # the first three with the first row of terms, the others with the second
    expected = [climbed_by_hand(r, sizes, queries, weights, terms[i // 3]) for i, r in enumerate(records)]
    for backend, threads in itertools.product(installed(), THREADS):
        with door_of(backend):
            codes = np.array(records, np.uint32)
            scores = kernels.climb(
                codes, sizes, *arrays(queries), np.array(weights, np.int64), terms, threads=threads
            )
        assert codes.tolist() == expected
        assert scores.tolist() == [
            score(r, sizes, queries, weights, terms[i // 3]) for i, r in enumerate(expected)
        ]


QUERY = arrays([[(0, 1), (1, 1)]])
ONE, NONE = np.array([5]), np.zeros((1, 5), np.int64)


def codes_of(*rows):
    return np.array(rows, np.uint32)


def test_many_records_climb_alike_on_every_backend():
    rng = np.random.default_rng(3)
    sizes = [7, 2, 40, 3, 9, 15]
    queries = [
        [(a, int(rng.integers(sizes[a]))) for a in sorted(rng.choice(6, 3, replace=False).tolist())]
        for _ in range(200)
    ]
    weights, terms = rng.integers(-(2**40), 2**40, 200), rng.integers(-(2**39), 2**39, (10, sum(sizes)))
    start = np.stack([rng.integers(0, size, 130) for size in sizes], axis=1).astype(np.uint32)
    found = []
    for backend in installed():
        with door_of(backend):
            codes = start.copy()
            scores = kernels.climb(codes, sizes, *arrays(queries), weights, terms)
        found.append((codes.tobytes(), scores.tobytes()))
        assert (codes != start).any(axis=1).all()
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((codes_of([0, 0]).astype(np.int64), [3, 2], *QUERY, ONE, NONE), TypeError, "array of uint32"),
        ((codes_of([0, 0, 0]), [3, 2], *QUERY, ONE, NONE), ValueError, "must have 2 columns"),
        (
            (codes_of([3, 0]), [3, 2], *QUERY, ONE, NONE),
            ValueError,
            "codes of attribute 0 must be from 0 to 2",
        ),
        ((codes_of([0, 0]), [3, 1], *QUERY, ONE, NONE), ValueError, "below the sizes"),
        ((codes_of([0, 0]), [3, 2], *arrays([[(0, 1), (0, 2)]]), ONE, NONE), ValueError, "different ones"),
        ((codes_of([0, 0]), [3, 2], *QUERY, np.array([5, 1]), NONE), ValueError, "must have length 1"),
        ((codes_of([0, 0]), [3, 2], *QUERY, ONE, NONE[:, :4].copy()), ValueError, "each of the 5 values"),
        ((codes_of([0, 0]), [3, 2], *QUERY, ONE, np.zeros((2, 5), np.int64)), ValueError, "equal size"),
        ((codes_of([0, 0]), [3, 2], *QUERY, ONE, NONE.astype(float)), TypeError, "array of int64"),
        ((codes_of([0, 0]), [3, 2], *QUERY, np.array([2**62 + 2**40]), NONE), ValueError, "at most 2\\^62"),
    ],
)
def test_what_would_index_or_add_wrongly_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        kernels.climb(*given)
