"""Tables, workloads and backends that the kernels are tried on, side by side."""

import itertools
import os
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from marks.slow import slow_among
from privmw import kernels
from privmw.kernels import BACKENDS, choice
from truth import reference

TRIED = (os.environ["PRIVMW_BACKEND"],) if os.environ.get("PRIVMW_BACKEND") else BACKENDS
THREADS = (1, 2, 5)


@cache
def load(name):
    """A backend's kernels, or None where it is not installed; the one in use must be."""
    try:
        return choice.Backend(name)
    except ImportError:
        assert kernels.backend() != name
        return None


NATIVE_DRAWS = load("native") is not None  # then every backend uses them: those in Python are slow


def installed():
    return [backend for backend in map(load, BACKENDS) if backend]


@contextmanager
def door_of(backend):
    """The doors of the kernels with another backend behind them."""
    before = choice.kernels
    choice.kernels = backend
    try:
        yield kernels
    finally:
        choice.kernels = before


class Case(NamedTuple):
    columns: list
    sizes: list
    marginals: list

    @property
    def rows(self):
        return len(self.columns[0])

    def workload(self):
        flat = np.array([a for marginal in self.marginals for a in marginal], np.int32)
        return flat, np.cumsum([0, *map(len, self.marginals)], dtype=np.int64)

    def plan(self, backend, threads=1):
        columns = backend.Columns(self.columns, self.sizes, threads)
        return backend.Marginals(columns, *self.workload(), threads)

    def truth(self, masses, rows=None):
        return reference.marginal_sums(self.columns, self.sizes, self.marginals, masses, rows)


def sums(marginals, masses, cells, threads=1):
    out = np.full(cells, -7, np.int64)
    marginals.sums(masses, out, threads)
    return out


def dtype_of(size):
    return np.min_scalar_type(size - 1)


def skewed(rows, sizes, seed, uncommon=0.05):
    """Every attribute has its commonest value but in a share of the rows."""
    rng = np.random.default_rng(seed)
    columns = []
    for size in sizes:
        column = np.full(rows, rng.integers(size))
        chosen = rng.random(rows) < uncommon * rng.uniform(0.2, 2)
        column[chosen] = rng.integers(0, size, chosen.sum())
        columns.append(column.astype(dtype_of(size)))
    return columns


def uniform(rows, sizes, seed):
    return skewed(rows, sizes, seed, uncommon=5)


def all_of(n, *orders):
    return [marginal for k in orders for marginal in itertools.combinations(range(n), k)]


def some_of(n, orders, count, seed):
    rng = np.random.default_rng(seed)
    drawn = {tuple(sorted(rng.choice(n, k, replace=False).tolist())) for k in orders for _ in range(count)}
    return sorted(drawn, key=lambda marginal: (len(marginal), marginal))


def _case(make, rows, sizes, marginals, seed=0, **more):
    return Case(make(rows, sizes, seed, **more), list(sizes), list(marginals))


MIXED = [2, 1, 7, 3, 2, 10, 5, 1, 4, 64, 65, 2]
NARROW = [2, 3, 4, 2, 5, 8, 2, 2, 6, 3, 2, 10, 2, 4, 2, 3, 2, 7]

CASES = {
    "one row": lambda: _case(uniform, 1, MIXED, some_of(12, range(1, 7), 20, 1)),
    "one attribute of one value": lambda: Case([np.zeros(5, np.uint8)], [1], [(0,)]),
    "no marginal": lambda: _case(uniform, 10, [2, 3], []),
    "only constant columns": lambda: Case(
        [np.full(50, v, np.uint8) for v in (1, 0, 2)], [2, 1, 3], all_of(3, 1, 2, 3)
    ),
    "mixed orders, dense": lambda: _case(uniform, 3_000, MIXED[:9], all_of(9, 1, 2, 3, 4) + all_of(9, 6)),
    "mixed orders, skewed": lambda: _case(skewed, 5_000, MIXED, some_of(12, range(1, 7), 25, 2)),
    "every triple, skewed": lambda: _case(skewed, 6_000, NARROW, all_of(18, 3), uncommon=0.2),
    "every order up to three, skewed": lambda: _case(skewed, 3_000, NARROW, all_of(18, 3, 1, 2)),
    "every pair, skewed": lambda: _case(skewed, 2_000, NARROW * 2, all_of(36, 2), uncommon=0.2),
    "singles and pairs, skewed": lambda: _case(skewed, 2_000, NARROW * 2, all_of(36, 2, 1), uncommon=0.2),
    "pairs and triples, skewed": lambda: _case(
        skewed, 2_000, NARROW * 2, all_of(36, 2, 1) + all_of(18, 3), uncommon=0.2
    ),
    "a few triples, skewed": lambda: _case(skewed, 20_000, NARROW, some_of(18, [3], 6, 3), uncommon=0.01),
    "sixes alone, skewed": lambda: _case(skewed, 20_000, NARROW, some_of(18, [6], 6, 4), uncommon=0.01),
    "a marginal twice": lambda: _case(skewed, 500, NARROW, [(1, 2), (0, 1, 2), (1, 2), (0, 1, 2)]),
    "60,000 values": lambda: _case(uniform, 4_000, [60_000, 2, 3], all_of(3, 1, 2, 3)),
    "60,000 values, skewed": lambda: _case(skewed, 4_000, [60_000, 2, 3, 70_000], [(0,), (3,), (0, 1, 2)]),
    "5,000,000 cells": lambda: _case(uniform, 3_000, [50, 1_000, 100], [(0, 1, 2), (0,)]),
    "more uncommon values than ids": lambda: _case(
        skewed,
        1_500,
        [50] * 30 + [64, 3, 2],
        some_of(33, [1, 2], 150, 5) + some_of(33, [3], 20, 6),
        uncommon=0.2,
    ),
    "wide among narrow": lambda: _case(skewed, 4_000, [2, 300, 3, 66, 2, 2], all_of(6, 2, 3), uncommon=0.02),
    "65,536 cells": lambda: _case(uniform, 5_000, [256, 256, 1], [(0, 1), (0, 1, 2), (0,)]),
    "one attribute of 65,536 values": lambda: _case(uniform, 500, [1, 65_536, 1], all_of(3, 1, 2, 3)),
    "more values than codes can hold": lambda: Case(
        [np.arange(200, dtype=np.uint8), np.arange(200, dtype=np.uint16)], [1_000, 70_000], [(0,), (1,)]
    ),
}

NAMES = slow_among(
    CASES, ["mixed orders, skewed", "every triple, skewed", "pairs and triples, skewed", "5,000,000 cells"]
)


@cache
def case(name):
    return CASES[name]()


def masses_of(rows, seed):
    """Positive ones that total exactly 2^62, and signed ones whose absolute values do."""
    rng = np.random.default_rng(seed)
    masses = rng.integers(0, 2**62 // rows, rows, endpoint=True)
    masses[rng.integers(rows)] += 2**62 - masses.sum()
    return masses, masses * rng.choice([-1, 1], rows)


@st.composite
def drawn_cases(draw, most_rows=300):
    sizes = draw(st.lists(st.sampled_from([1, 2, 2, 2, 3, 4, 5, 9, 64, 65, 300]), min_size=1, max_size=9))
    make = draw(st.sampled_from([uniform, skewed]))
    rows, seed = draw(st.integers(1, most_rows)), draw(st.integers(0, 2**32))
    # At most 2^20 cells each, so that a run stays short.
    marginals = draw(
        st.lists(st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=6), max_size=40).map(
            lambda sets: [
                tuple(sorted(s)) for s in sets if np.prod([sizes[a] for a in s], dtype=float) <= 2**20
            ]
        )
    )
    return Case(make(rows, sizes, seed), sizes, marginals)
