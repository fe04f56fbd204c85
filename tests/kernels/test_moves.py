import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from kernels.cases import MIXED, THREADS, Case, all_of, door_of, installed, skewed, some_of
from privmw import kernels

SIZES = [3, 2, 4]
MARGINALS = [(0,), (0, 1), (0, 1), (1, 2), (0, 1, 2)]
KEPT = (2, 0, 1)
KEEP = 0.4


def cells_of(sizes, marginals):
    return sum(math.prod(sizes[a] for a in marginal) for marginal in marginals)


def moves_of(sizes, marginals, values=None):
    made = kernels.Moves(sizes, *Case([], sizes, marginals).workload())
    if values is not None:
        made.set_values(values)
    return made


VALUES = np.random.default_rng(1).standard_normal(cells_of(SIZES, MARGINALS))
BASES = [np.array([0.1, 0.3, 0.2]), np.array([0.5, 0.25]), np.array([0.0, 0.1, 0.1, 0.2])]


def score(record, sizes=SIZES, marginals=MARGINALS, values=VALUES):
    """The sum of the values of a record's cells, exactly."""
    total, first = Fraction(0), 0
    for marginal in marginals:
        cell = 0
        for a in marginal:
            cell = cell * sizes[a] + record[a]
        total += Fraction(float(values[first + cell]))
        first += math.prod(sizes[a] for a in marginal)
    return total


def prior(attribute, value, kept=KEPT, keep=KEEP):
    return keep * (value == kept[attribute]) + BASES[attribute][value]


def chances(record, attribute, keep=KEEP):
    """The probability of each value of an attribute, given the record's others."""
    records = [[*record[:attribute], v, *record[attribute + 1 :]] for v in range(SIZES[attribute])]
    weights = np.array([prior(attribute, r[attribute], keep=keep) * math.exp(score(r)) for r in records])
    return weights / weights.sum()


def even_words(count):
    """Words in the middle of `count` equal intervals."""
    return np.array([(2 * i + 1) * 2**63 // count for i in range(count)], np.uint64)


def redrawn(moves, codes, attribute, keep=KEEP, kept=KEPT, words=None, threads=None):
    codes = codes.copy()
    words = even_words(len(codes)) if words is None else words
    of_records = np.tile(np.array(kept, np.uint32), (len(codes), 1))
    moves.redraw(codes, [attribute], of_records, keep, [BASES[attribute]], [words], threads=threads)
    return codes


@pytest.mark.parametrize("attribute", range(3))
def test_even_words_draw_every_value_as_often_as_its_probability_says(attribute, backend):
    count, forgotten = 3_000, 0.0
    with door_of(backend):
        moves = moves_of(SIZES, MARGINALS, VALUES)
        for record in itertools.product(*map(range, SIZES)):
            codes = np.tile(np.array(record, np.uint32), (count, 1))
            drawn = redrawn(moves, codes, attribute)
            assert np.array_equal(np.delete(drawn, attribute, 1), np.delete(codes, attribute, 1))
            counts = np.bincount(drawn[:, attribute], minlength=SIZES[attribute])
            assert np.abs(counts - count * chances(record, attribute)).max() <= 1
            forgotten = max(forgotten, np.abs(counts - count * chances(record, attribute, keep=0)).max())
    assert forgotten > 300  # draws without the kept value would be seen


def joint():
    """Every record and its probability under the product of the priors times exp(score)."""
    records = list(itertools.product(*map(range, SIZES)))
    weights = [
        math.prod(prior(a, v) for a, v in enumerate(record)) * math.exp(score(record)) for record in records
    ]
    return np.array(records, np.uint32), np.array(weights) / sum(weights)


@pytest.mark.parametrize(("keep", "right"), [(KEEP, True), (0.0, False)])
def test_sweeps_leave_the_joint_distribution_as_it_is(keep, right):
    # 20,000 chains, alpha 1e-9; a sweep without the kept values moves the statistic beyond 1,000 (power ~ 1).
    rng = np.random.default_rng(7)
    records, probabilities = joint()
    codes = records[rng.choice(len(records), 20_000, p=probabilities)]
    moves = moves_of(SIZES, MARGINALS, VALUES)
    for attribute in (0, 1, 2, 1, 0):
        words = rng.integers(0, 2**64, len(codes), np.uint64)
        codes = redrawn(moves, codes, attribute, keep, words=words)
    counts = np.bincount(np.ravel_multi_index(codes.T, SIZES), minlength=len(records))
    likely = probabilities > 0
    assert not counts[~likely].any()
    p = stats.chisquare(counts[likely], len(codes) * probabilities[likely]).pvalue
    assert (p > 1e-9) == right


WIDE = [*MIXED, 300]


def wide_marginals(seed):
    drawn = some_of(len(WIDE), range(1, 7), 12, seed)
    return [marginal for marginal in drawn if cells_of(WIDE, [marginal]) < 50_000]


def sweep(backend, sizes, marginals, values, codes, threads, seed, together=100):
    """A sweep over all attributes, in calls of so many, and the potentials after it."""
    rng = np.random.default_rng(seed)
    codes = codes.copy()
    kept = np.stack([rng.integers(0, size, len(codes), np.uint32) for size in sizes], axis=1)
    base = [rng.random(size) * (rng.random(size) < 0.7) for size in sizes]
    words = [rng.integers(0, 2**64, len(codes), np.uint64) for _ in sizes]
    with door_of(backend):
        moves = moves_of(sizes, marginals, values)
        for first in range(0, len(sizes), together):
            here = slice(first, first + together)
            drawn = list(range(len(sizes)))[here]
            moves.redraw(codes, drawn, kept, 0.5, base[here], words[here], threads=threads)
        return codes.tobytes(), moves.potentials(codes, threads=threads).tobytes()


@pytest.mark.parametrize(("rows", "uncommon"), [(900, 0.05), (1_300, 0.4), (700, 5), (7, 0.3), (1, 1)])
def test_sweeps_have_the_same_bits_on_every_backend_for_any_threads(rows, uncommon):
    for scale in [1.0, 40.0, 1e300, 1e-310]:
        marginals = wide_marginals(rows)
        assert {len(marginal) for marginal in marginals} == {1, 2, 3, 4, 5, 6}
        values = scale * np.random.default_rng(rows).standard_normal(cells_of(WIDE, marginals))
        codes = np.stack(skewed(rows, WIDE, rows, uncommon), axis=1, dtype=np.uint32)
        found = {
            sweep(backend, WIDE, marginals, values, codes, threads, rows, together)
            for backend in installed()
            for threads in (THREADS if backend.__name__ == "native" else (1,))
            for together in ((1, 4, 100) if backend.__name__ == "native" else (100,))
        }
        assert len(found) == 1


@pytest.mark.parametrize("marginals", [all_of(9, 3), all_of(9, 2, 3), all_of(9, 2), all_of(9, 1)])
def test_uniform_and_skewed_records_side_by_side_have_the_same_bits(marginals):
    sizes = MIXED[:9]
    values = np.random.default_rng(3).standard_normal(cells_of(sizes, marginals))
    halves = [np.stack(skewed(300, sizes, 4, uncommon), axis=1) for uncommon in (0.1, 5)]
    codes = np.hstack([halves[0][:, :5], halves[1][:, 5:]]).astype(np.uint32)
    assert len({sweep(backend, sizes, marginals, values, codes, 2, 5) for backend in installed()}) == 1


def test_potentials_have_the_bits_of_those_of_marginals(backend):
    marginals = wide_marginals(2)
    values = np.random.default_rng(2).standard_normal(cells_of(WIDE, marginals))
    columns = skewed(1_500, WIDE, 2, 0.3)
    table = Case(columns, WIDE, marginals)
    with door_of(backend):
        found = moves_of(WIDE, marginals, values).potentials(np.stack(columns, axis=1, dtype=np.uint32))
        rows = kernels.Columns(columns, WIDE)
        assert np.array_equal(found, kernels.Marginals(rows, *table.workload()).potentials(values))


def test_without_marginals_the_base_alone_is_drawn(backend):
    with door_of(backend):
        drawn = redrawn(moves_of(SIZES, []), np.zeros((1_000, 3), np.uint32), 2, keep=0.0)
    assert np.bincount(drawn[:, 2]).tolist() == [0, 250, 250, 500]


def test_values_are_zero_until_they_are_set(backend):
    codes = np.zeros((1_000, 3), np.uint32)
    with door_of(backend):
        moves = moves_of(SIZES, MARGINALS)
        assert not moves.potentials(codes).any()
        assert np.bincount(redrawn(moves, codes, 2, keep=0.0)[:, 2]).tolist() == [0, 250, 250, 500]


def test_no_record_at_all_is_drawn_as_well(backend):
    none = np.zeros((0, 3), np.uint32)
    with door_of(backend):
        moves = moves_of(SIZES, MARGINALS, VALUES)
        assert redrawn(moves, none, 1).shape == (0, 3)
        assert moves.potentials(none).shape == (0,)


def test_values_without_weight_are_never_drawn_whatever_their_score(backend):
    values = np.array([0.0, 1e5, 2e5, 0.0])
    words = np.array([0, 2**64 - 1], np.uint64)
    drawn = np.zeros((2, 1), np.uint32)
    kept = np.zeros((2, 1), np.uint32)
    with door_of(backend):
        moves = moves_of([4], [(0,)], values)
        moves.redraw(drawn, [0], kept, 0.0, [np.array([0.5, 0, 0, 0.5])], [words])
        assert drawn.tolist() == [[0], [3]]
        moves.redraw(drawn, [0], kept, 0.25, [np.zeros(4)], [words])
        assert drawn.tolist() == [[0], [0]]
        # exp(-1e5) is no number above zero.
        moves.redraw(drawn, [0], kept, 0.25, [np.array([0, 1e-300, 0, 0.5])], [words])
        assert drawn.tolist() == [[1], [1]]


def test_a_total_that_is_hardly_a_number_still_draws_a_value_with_weight(backend):
    tiny = 2.0**-1074
    drawn = np.zeros((1, 1), np.uint32)
    words = np.array([2**64 - 1], np.uint64)
    with door_of(backend):
        moves = moves_of([4], [])
        moves.redraw(drawn, [0], np.zeros((1, 1), np.uint32), 0.0, [np.array([0, tiny, tiny, 0])], [words])
    assert drawn.tolist() == [[2]]


def codes_of(rows=4):
    return np.zeros((rows, 3), np.uint32)


def strided(array):
    return np.repeat(array, 2, axis=0)[::2]


def read_only(array):
    array.flags.writeable = False
    return array


FAR = codes_of()
FAR[3, 2] = 4
GOOD = {
    "codes": codes_of(),
    "attributes": [1],
    "kept": codes_of(),
    "keep": 0.5,
    "base": [np.array([0.5, 0.5])],
    "words": [np.full(4, 2**64 - 1, np.uint64)],
}
SHARED = np.zeros((4, 3), np.uint32)
BAD = [
    ("codes", codes_of().astype(np.int64), "two-dimensional array of uint32"),
    ("codes", codes_of().astype(np.uint8), "two-dimensional array of uint32"),
    ("codes", codes_of().astype(">u4"), "two-dimensional array of uint32"),
    ("codes", np.asfortranarray(codes_of()), "contiguous"),
    ("codes", strided(codes_of()), "contiguous"),
    ("codes", codes_of().ravel(), "two-dimensional"),
    ("codes", np.ma.masked_array(codes_of()), "two-dimensional array of uint32"),
    ("codes", codes_of().tolist(), "two-dimensional"),
    ("codes", None, "two-dimensional"),
    ("codes", codes_of()[:, :2].copy(), r"codes \(2 columns\) must have 3 columns"),
    ("codes", FAR, r"codes of attribute 2 must be below its size \(4\)"),
    ("codes", read_only(codes_of()), "codes must be writable"),
    ("codes", codes_of(5), r"kept \(length 4\) must have length 5"),
    ("attributes", [3], r"attributes\[0\] must be from 0 to 2"),
    ("attributes", [-1], "attribute"),
    ("attributes", [True], "attribute"),
    ("attributes", [1.0], "attribute"),
    ("attributes", 1, "must be a list"),
    ("attributes", [0], r"base \(length 2\) must have length 3"),
    ("attributes", [1, 1], "must have one array for each of the 2 attributes"),
    ("attributes", [], "must have one array for each of the 0 attributes"),
    ("kept", FAR, r"kept of attribute 2 must be below its size \(4\)"),
    ("kept", codes_of().astype(np.int64), "kept .*must be a contiguous two-dimensional array of uint32"),
    ("kept", np.zeros(4, np.uint32), "kept .*must be a contiguous two-dimensional array of uint32"),
    ("kept", codes_of(3), r"kept \(length 3\) must have length 4"),
    ("keep", -0.1, "keep and base must be from 0"),
    ("keep", np.nan, "keep and base must be from 0"),
    ("keep", np.inf, "keep and base must be from 0"),
    ("keep", "1", "keep"),
    ("base", [np.array([0.5, -0.1])], "keep and base must be from 0"),
    ("base", [np.array([0.5, np.nan])], "keep and base must be from 0"),
    ("base", [np.array([0.5, np.inf])], "keep and base must be from 0"),
    ("base", [np.array([1, 1])], "base .*must be a contiguous"),
    ("base", [np.ones(3)], "base"),
    ("base", np.ones((1, 2)), "must be a list"),
    ("words", [np.zeros(4, np.int64)], "words .*must be a contiguous"),
    ("words", [np.zeros(5, np.uint64)], "words"),
    ("words", [], "must have one array for each of the 1 attributes"),
    ("threads", 0, "threads"),
]


def test_bad_arguments_are_refused_before_anything_changes():
    for name, wrong, message in BAD:
        moves = moves_of(SIZES, MARGINALS, VALUES)
        given = {**GOOD, "codes": codes_of(), name: wrong}
        before = given["codes"].copy() if isinstance(given["codes"], np.ndarray) else None
        with pytest.raises((TypeError, ValueError), match=message):
            moves.redraw(**given)
        assert before is None or np.array_equal(given["codes"], before)
        if name == "codes" and "writable" not in message and "length" not in message:
            with pytest.raises((TypeError, ValueError), match=message):
                moves.potentials(wrong)


def test_the_good_arguments_are_good_and_all_zeros_or_shared_memory_are_not():
    moves = moves_of(SIZES, MARGINALS, VALUES)
    moves.redraw(**GOOD)
    assert (GOOD["codes"][:, 1] == 1).all()
    with pytest.raises(ValueError, match="must not all be zero"):
        moves.redraw(**{**GOOD, "keep": 0.0, "base": [np.zeros(2)]})
    with pytest.raises(ValueError, match="codes must not share memory with kept"):
        moves.redraw(**{**GOOD, "codes": SHARED, "kept": SHARED})
    shared = [SHARED.ravel()[:8].view(np.uint64)]
    with pytest.raises(ValueError, match="codes must not share memory with words"):
        moves.redraw(**{**GOOD, "codes": SHARED, "words": shared})


@pytest.mark.parametrize(
    ("sizes", "attributes", "starts"),
    [
        ([], [], [0]),
        (3, [0], [0, 1]),
        ([3, 0], [0], [0, 1]),
        ([3, 2.0], [0], [0, 1]),
        ([3, 2**32], [0], [0, 1]),
        ([3, 2], [1, 0], [0, 2]),
        ([3, 2], [0, 2], [0, 2]),
        ([3, 2], [0, 1], [0, 1]),
        ([2] * 7, list(range(7)), [0, 7]),
        ([2**20, 2**20 + 1], [0, 1], [0, 2]),
    ],
)
def test_what_is_no_workload_is_refused(sizes, attributes, starts):
    with pytest.raises((TypeError, ValueError), match="must"):
        kernels.Moves(sizes, np.array(attributes, np.int32), np.array(starts, np.int64))


@pytest.mark.parametrize(
    "values",
    [VALUES[:-1], VALUES.astype(np.float32), VALUES * np.nan, np.where(VALUES > 2, np.inf, VALUES), None],
)
def test_refused_values_leave_the_old_ones(values):
    moves = moves_of(SIZES, MARGINALS, VALUES)
    before = moves.potentials(codes_of())
    with pytest.raises((TypeError, ValueError), match=r"values .*must|values must"):
        moves.set_values(values)
    assert np.array_equal(moves.potentials(codes_of()), before)


def test_values_can_be_set_again_and_their_bytes_are_counted(backend):
    with door_of(backend):
        moves = moves_of(SIZES, MARGINALS, VALUES)
        before = moves.potentials(codes_of())
        moves.set_values(-VALUES)
        assert np.array_equal(moves.potentials(codes_of()), -before)
        assert moves.cells == len(VALUES)
        assert moves.nbytes >= 8 * len(VALUES)
        assert repr(moves) == f"Moves({len(VALUES)} cells over 3 attributes, {backend.__name__})"
