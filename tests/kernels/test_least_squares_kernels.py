import itertools
import math

import numpy as np
import pytest

from kernels.cases import TRIED, dtype_of, load
from privmw import kernels
from privmw.kernels import least_squares

ONE = np.ones(1)
FREE = (-np.inf * ONE, np.inf * ONE)
CASES = {
    "the paper's": ([9, 24], [(), (0,), (1,)]),
    "one attribute": ([7], [()]),
    "no query": ([4, 3], []),
    "sizes of one": ([1, 5, 1, 4], [(), (0,), (1, 2), (0, 1, 2, 3)]),
    "bits": ([2] * 7, [(), (0,), (6,), (0, 6), (2, 4, 6), (0, 1, 2, 3, 4, 5)]),
    "more than six": ([2] * 8, [(), (0, 1, 2, 3, 4, 5, 7), (2, 5)]),
    "every pair": ([3, 4, 5, 2], [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
    "a marginal twice": ([3, 9], [(0,), (1,), (0,)]),
    "many unknowns": ([30, 30, 2], [(0, 1), (0, 2), (1, 2)]),
}


@pytest.fixture(params=TRIED)
def backend(request):
    module = load(request.param)
    if module is None:
        pytest.skip(f"{request.param} is not installed")
    return module


def dense_of(codes, sizes, marginals):
    """Every cell x every row, of zeros and ones; and where each marginal's cells start."""
    offsets = np.cumsum([0, *(math.prod(sizes[a] for a in marginal) for marginal in marginals)])
    dense = np.zeros((offsets[-1], len(codes)))
    for marginal, first in zip(marginals, offsets, strict=False):
        cells = np.zeros(len(codes), int)
        for a in marginal:
            cells = cells * sizes[a] + codes[:, a]
        dense[first + cells, np.arange(len(codes))] = 1
    return dense, offsets


class Instance:
    def __init__(self, name, over, grouped, seed=0):
        self.sizes, self.marginals = CASES[name]
        self.rng = np.random.default_rng(seed)
        rows = int(np.prod(self.sizes))
        codes = np.stack(np.unravel_index(np.arange(rows), self.sizes), axis=1)
        if over == "rows":
            codes = codes[self.rng.random(rows) < 0.7]
        self.columns = None
        if over == "rows":
            pairs = zip(codes.T, self.sizes, strict=True)
            self.columns = [column.astype(dtype_of(size)) for column, size in pairs]
        self.rows = len(codes)
        self.dense, offsets = dense_of(codes, self.sizes, self.marginals)
        self.groups, self.marked = np.empty(0, np.int32), np.empty(0, np.uint8)
        if grouped:
            self.groups = np.full(offsets[-1], -1, np.int32)
            number = 0
            for first, end in itertools.pairwise(offsets):
                if end - first > 1:
                    self.groups[first:end:2] = number
                    self.dense = np.vstack([self.dense, self.dense[first:end:2].sum(axis=0)])
                    number += 1
            self.marked = (self.rng.random(self.rows) < 0.5).astype(np.uint8)
            self.dense = np.vstack([self.dense, self.marked])

    def tallies(self, backend):
        flat = np.array([a for marginal in self.marginals for a in marginal], np.int32)
        starts = np.cumsum([0, *map(len, self.marginals)], dtype=np.int64)
        columns = self.columns and backend.Columns(self.columns, self.sizes, 1)
        return backend.Tallies(self.sizes, flat, starts, columns, self.groups, self.marked, 1)

    def problem(self, held=0):
        near = self.rng.exponential(30, self.rows) * (self.rng.random(self.rows) < 0.3)
        answers = self.dense @ near + self.rng.laplace(0, 8, len(self.dense))
        spread = self.rng.uniform(50, 200, len(self.dense))
        if held:
            answers[:held], spread[:held] = self.dense[:held] @ near, 0.0
        return near + self.rng.laplace(0, 8, self.rows), answers, spread


every = pytest.mark.parametrize(
    ("name", "over", "grouped"),
    [
        (name, over, grouped)
        for name in CASES
        for over in ("cells", "rows")
        for grouped in (False, True)
        if not (grouped and name in ("no query", "many unknowns"))
    ],
)


@every
def test_sums_and_potentials_are_those_of_the_dense_matrix(name, over, grouped, backend):
    instance = Instance(name, over, grouped)
    tallies = instance.tallies(backend)
    weights = instance.rng.normal(size=instance.rows)
    values = instance.rng.normal(size=len(instance.dense))
    sums, potentials = np.full(len(values), np.nan), np.full(len(weights), np.nan)
    tallies.sums(weights, sums)
    tallies.potentials(values, potentials)
    np.testing.assert_allclose(sums, instance.dense @ weights, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(potentials, values @ instance.dense, rtol=1e-12, atol=1e-12)
    assert tallies.nbytes() >= 0


def natural_residual(dense, centre, variance, answers, spread, weights, multipliers, held):
    """What each row would still move by, from the definition of the optimum."""
    pulls = np.where(held, multipliers, (dense @ weights - answers) / np.where(held, 1, spread))
    slope = (weights - centre) / variance + pulls @ dense
    return np.abs(weights - np.maximum(weights - slope * variance, 0)).max()


@every
@pytest.mark.parametrize("held", [0, 1])
def test_newton_ends_where_no_row_would_move(name, over, grouped, held, backend):
    instance = Instance(name, over, grouped, seed=1)
    held = min(held, len(instance.dense))
    centre, answers, spread = instance.problem(held)
    found = instance.tallies(backend).newton(
        centre, 100 * ONE, 0 * ONE, np.inf * ONE, answers, spread, *FREE,
        np.zeros(len(answers)), 1e-9, 100, np.inf,
    )  # fmt: skip
    weights, multipliers, left, value, steps = found
    assert left <= 1e-9
    assert steps < 40
    where = np.arange(len(answers)) < held
    assert (
        natural_residual(instance.dense, centre, 100.0, answers, spread, weights, multipliers, where) < 1e-7
    )
    assert np.abs(instance.dense @ weights - answers)[where].max(initial=0) < 1e-8
    cost = ((weights - centre) ** 2).sum() / 200
    cost += (((instance.dense @ weights - answers) ** 2 / 2)[~where] / spread[~where]).sum()
    np.testing.assert_allclose(value, cost, rtol=1e-9)  # no gap between the dual and the primal


def test_newton_stays_within_bounds_and_proves_what_is_impossible(backend):
    instance = Instance("the paper's", "cells", False, seed=2)
    tallies = instance.tallies(backend)
    centre, answers, spread = instance.problem()
    lower, upper = np.maximum(centre - 10, 0), np.maximum(centre + 10, 0)
    start, limit = np.zeros(len(answers)), float(len(answers) * 1e6)
    wide = (answers - 300, answers + 300)
    weights, *_, left, _, _ = tallies.newton(
        centre, 100 * ONE, lower, upper, answers, spread, *wide, start, 1e-9, 100, limit
    )
    assert left <= 1e-9
    assert ((weights >= lower) & (weights <= upper)).all()
    total = 20 * upper.sum() + np.zeros(len(answers))
    *_, left, value, _ = tallies.newton(
        centre, 100 * ONE, lower, upper, total, spread, total - 1, total + 1, start, 1e-9, 100, limit
    )
    assert value > limit
    assert left > 1


def test_queries_of_infinite_variance_ask_nothing(backend):
    instance = Instance("every pair", "cells", False, seed=3)
    centre, answers, spread = instance.problem()
    spread[::2], answers[::2] = np.inf, 1e9
    ends = (0 * ONE, np.inf * ONE)
    start, stop = np.zeros(len(answers)), (1e-9, 100, np.inf)
    weights = instance.tallies(backend).newton(
        centre, 100 * ONE, *ends, answers, spread, *FREE, start, *stop
    )[0]
    instance.dense = instance.dense[1::2]
    where = np.zeros(len(instance.dense), bool)
    assert (
        natural_residual(instance.dense, centre, 100.0, answers[1::2], spread[1::2], weights, 0.0, where)
        < 1e-7
    )


@every
def test_descent_keeps_its_pulls_and_never_ascends(name, over, grouped, backend):
    instance = Instance(name, over, grouped, seed=4)
    tallies = instance.tallies(backend)
    _, answers, spread = instance.problem()
    precisions, weights = 1 / spread, np.zeros(instance.rows)
    bends, pulls = precisions @ instance.dense, -answers * precisions
    before = np.inf
    for _ in range(10):
        order = instance.rng.permutation(instance.rows).astype(np.uint32)
        tallies.descend(order, precisions, bends, weights, pulls)
        far = instance.dense @ weights - answers
        np.testing.assert_allclose(pulls, far * precisions, rtol=1e-9, atol=1e-9)
        assert (weights >= 0).all()
        cost = (far**2 * precisions).sum()
        assert cost <= before * (1 + 1e-12)
        before = cost


def tallies_of(**changed):
    given = {"sizes": [2, 3], "attributes": np.array([0], np.int32), "starts": np.array([0, 1]), **changed}
    return kernels.Tallies(given.pop("sizes"), given.pop("attributes"), given.pop("starts"), **given)


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"sizes": [2, 0]}, ValueError, "size"),
        ({"attributes": np.array([2], np.int32)}, ValueError, "attributes must be from 0 to 1"),
        ({"attributes": np.array([1, 0], np.int32), "starts": np.array([0, 2])}, ValueError, "must ascend"),
        ({"sizes": [2**20, 2**20]}, ValueError, "below 2.32 rows"),
        ({"columns": kernels.Columns([np.zeros(2, np.uint8)], [2])}, TypeError, "Columns of these sizes"),
        ({"columns": np.zeros((2, 2), np.uint8)}, TypeError, "Columns of these sizes"),
        ({"groups": np.array([0], np.int32)}, ValueError, "groups"),
        ({"groups": np.array([-2, 0], np.int32)}, ValueError, "groups"),
        ({"groups": np.array([1, 1], np.int32)}, ValueError, "groups"),
        ({"marked": np.zeros(5, np.uint8)}, ValueError, "marked"),
        ({"marked": np.full(6, 2, np.uint8)}, ValueError, "marked must be from 0 to 1"),
    ],
)
def test_what_no_kernel_may_trust_is_refused(changed, error, match):
    with pytest.raises(error, match=match):
        tallies_of(**changed)


def test_a_group_lies_within_one_marginal():
    two = {"attributes": np.array([0, 1], np.int32), "starts": np.array([0, 1, 2])}
    with pytest.raises(ValueError, match="all of one marginal"):
        tallies_of(**two, groups=np.array([-1, 0, 0, -1, -1], np.int32))


def test_arrays_of_other_lengths_are_refused():
    tallies = tallies_of()
    rows = least_squares.FitTargets(np.zeros(6), ONE, ONE, ONE)
    queries = least_squares.FitTargets(np.zeros(2), ONE, ONE, ONE)
    with pytest.raises(ValueError, match=r"variance .* must have length 1 or 6"):
        tallies.newton(rows._replace(variance=np.ones(5)), queries, tolerance=1e-9)
    with pytest.raises(ValueError, match="centre"):
        tallies.newton(queries, queries, tolerance=1e-9)
    with pytest.raises(ValueError, match="start"):
        tallies.newton(rows, queries, np.zeros(3), tolerance=1e-9)
    with pytest.raises(ValueError, match="order must be from 0 to 5"):
        tallies.descend(np.array([6], np.uint32), np.ones(2), np.ones(6), np.zeros(6), np.zeros(2))
    with pytest.raises(ValueError, match="bends"):
        tallies.descend(np.array([5], np.uint32), np.ones(2), np.ones(5), np.zeros(6), np.zeros(2))
    with pytest.raises(ValueError, match="share memory"):
        tallies.sums(*shared())


def shared():
    memory = np.zeros(6)
    return memory, memory[:2]
