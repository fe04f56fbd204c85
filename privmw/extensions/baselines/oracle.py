"""Best responses: records of largest score.

The score of a record, an integer, is the sum of the weights of the cells that contain it and of the terms of
its values. "local" is coordinate ascent from many starts, and within a few queries of the best; "support"
takes the best public row; "exact" solves an integer program with HiGHS (Gaboardi et al. 2014, "Dual Query";
Vietri et al. 2020). Released values, public rows and sampling streams only.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from privmw import kernels
from privmw.data.support import Support
from privmw.data.workload import Queries, Workload
from privmw.kernels.arrays import Int64s, UInt32s
from privmw.secrecy import shown

Kind: TypeAlias = Literal["local", "support", "exact"]

MOST_PLACED_QUERIES = 64  # that a start tries to satisfy: few more fit into a record
MOST_SEARCH_NODES = 10_000  # of the integer program


class Oracle(Protocol):
    """Finds records of large score."""

    def respond(self, cells: Int64s, weights: Int64s, terms: Int64s, stream: np.random.Generator) -> UInt32s:
        """For each row of terms a record: codes, calls x attributes.

        cells: distinct cells of the workload. weights: one integer per cell. terms: integers, calls x values
        of all attributes.
        """


def make_oracle(
    kind: Kind, support: Support, workload: Workload, *, starts: int, threads: int | None = None
) -> Oracle:
    """The oracle of this kind; starts: per record of "local".

    >>> from privmw import Domain
    >>> from privmw.random import sampling_stream
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> workload = Workload.all(domain, k=2)
    >>> oracle = make_oracle("local", Support.without_public(domain), workload, starts=4)
    >>> cell = workload.cell(["age", "sex"], [1, 0])
    >>> oracle.respond(np.array([cell]), np.array([1]), np.zeros((1, 5), np.int64), sampling_stream(0))
    array([[1, 0]], dtype=uint32)
    """
    if kind == "support":
        return SupportOracle(support, workload)
    local = LocalOracle(support, workload, starts, threads)
    return local if kind == "local" else ExactOracle(workload, local)


def check_oracle(kind: Kind, support: Support) -> None:
    """Validate the support for an oracle of this kind, and that its dependencies are installed."""
    if support.comm.size > 1:
        raise ValueError(f"support (on {support.comm.size} ranks) must lie on one rank for best responses")
    if kind == "support":
        support.check_complete()
        if not support.records:
            raise ValueError("support (no public row) must have public rows for oracle='support'")
        return
    if support.constraints is not None:
        raise ValueError(
            f"oracle ({shown(kind)}) must be 'support' with constraints: its records may break them"
        )
    if kind == "exact" and importlib.util.find_spec("scipy") is None:
        raise ModuleNotFoundError("oracle ('exact') must come with scipy: pip install 'privmw[fit]'")


class LocalOracle:
    """Coordinate ascent from many starts.

    A start is a random public record (uniform without public rows), changed to satisfy as many queries of
    positive weight as fit, in random order, heavy ones sooner: ascent changes one attribute at a time, and
    rarely finds all values of a query.
    """

    def __init__(self, support: Support, workload: Workload, starts: int, threads: int | None) -> None:
        self._support, self._workload = support, workload
        self._starts, self._threads = starts, threads
        self._public = np.cumsum(support.counts) if support.records else None

    def respond(self, cells: Int64s, weights: Int64s, terms: Int64s, stream: np.random.Generator) -> UInt32s:
        """For each row of terms the best record over all starts."""
        queries = self._workload.queries(cells)
        codes = self._draw(len(terms) * self._starts, stream)
        _place(codes, queries, weights, stream)
        sizes = self._workload.domain.sizes
        arrays = queries.attributes, queries.values, queries.starts, weights
        scores = kernels.climb(codes, sizes, *arrays, terms, threads=self._threads)
        best = scores.reshape(len(terms), self._starts).argmax(axis=1)
        chosen: UInt32s = codes[np.arange(len(terms)) * self._starts + best]
        return chosen

    def _draw(self, count: int, stream: np.random.Generator) -> UInt32s:
        domain, support = self._workload.domain, self._support
        codes = np.empty((count, len(domain)), np.uint32)
        rows = None
        if self._public is not None:
            rows = np.searchsorted(self._public, stream.integers(0, self._public[-1], count), "right")
        for a, (name, size) in enumerate(zip(domain.names, domain.sizes, strict=True)):
            if rows is None or name in support.missing:
                codes[:, a] = stream.integers(0, size, count)
            else:
                codes[:, a] = support.table.columns[a][rows]
        return codes


def _place(codes: UInt32s, queries: Queries, weights: Int64s, stream: np.random.Generator) -> None:
    """Set each record to satisfy queries of positive weight, in turn, if they do not contradict.

    The order is random: query i comes before j with probability w_i / (w_i + w_j).
    """
    wanted = np.flatnonzero(weights > 0)
    if not len(wanted):
        return
    orders = np.diff(queries.starts)[wanted]
    # Shorter queries repeat their last literal.
    literals = queries.starts[wanted, None] + np.minimum(np.arange(orders.max()), orders[:, None] - 1)
    attributes, values = queries.attributes[literals].astype(np.intp), queries.values[literals]
    placed = min(MOST_PLACED_QUERIES, len(wanted))
    times = stream.standard_exponential((len(codes), len(wanted))) / weights[wanted]
    first = np.argsort(times, axis=1, kind="stable")[:, :placed]
    taken = np.zeros(codes.shape, bool)
    records = np.arange(len(codes))[:, None]
    for place in range(placed):
        at, value = attributes[first[:, place]], values[first[:, place]]
        fits = np.flatnonzero((~taken[records, at] | (codes[records, at] == value)).all(axis=1))
        codes[fits[:, None], at[fits]] = value[fits]
        taken[fits[:, None], at[fits]] = True


class SupportOracle:
    """The best public row; ties are broken at random in proportion to the rows' counts."""

    def __init__(self, support: Support, workload: Workload) -> None:
        self._support, self._workload = support, workload

    def respond(self, cells: Int64s, weights: Int64s, terms: Int64s, stream: np.random.Generator) -> UInt32s:
        """For each row of terms the best public row."""
        support, queries = self._support, self._workload.queries(cells)
        columns, first_value = support.table.columns, 0
        common = np.zeros(support.size, np.int64)
        for q, weight in enumerate(weights.tolist()):
            literals = range(queries.starts[q], queries.starts[q + 1])
            matching = np.ones(support.size, bool)
            for i in literals:
                matching &= columns[queries.attributes[i]] == queries.values[i]
            common[matching] += weight
        scores = np.tile(common, (len(terms), 1))
        for column, size in zip(columns, support.domain.sizes, strict=True):
            scores += terms[:, first_value : first_value + size][:, column]
            first_value += size
        rows = np.empty(len(terms), np.intp)
        for call, score in enumerate(scores):
            best = np.flatnonzero((score == score.max()) & (support.counts > 0))
            records = np.cumsum(support.counts[best])
            rows[call] = best[np.searchsorted(records, stream.integers(0, records[-1]), "right")]
        return np.stack([column[rows].astype(np.uint32) for column in columns], axis=1)


class ExactOracle:
    """The best record, by an integer program with one variable per value and per query.

    x_v is 1 if the record has value v, one of each attribute. For a query of positive weight, c_i <= x_v for
    each of its values; for negative weight, c_i + sum of its x_v <= its order, so that c_i may be 1 only if a
    value differs. Only the x need to be integral. If the search ends after MOST_SEARCH_NODES nodes, the
    better of its record and the local oracle's is taken, which may not be the best.
    """

    def __init__(self, workload: Workload, local: LocalOracle) -> None:
        self._workload, self._local = workload, local

    def respond(self, cells: Int64s, weights: Int64s, terms: Int64s, stream: np.random.Generator) -> UInt32s:
        """For each row of terms the best record."""
        climbed = self._local.respond(cells, weights, terms, stream)
        queries = self._workload.queries(cells)
        solutions = [self._solve(queries, weights, of_call) for of_call in terms]
        solved = np.array([c if s is None else s for s, c in zip(solutions, climbed, strict=True)], np.uint32)
        better = self._scores(queries, weights, terms, solved) >= self._scores(
            queries, weights, terms, climbed
        )
        return np.where(better[:, None], solved, climbed)

    def _scores(self, queries: Queries, weights: Int64s, terms: Int64s, codes: UInt32s) -> Int64s:
        equal = codes[:, queries.attributes] == queries.values
        matching = np.logical_and.reduceat(equal, queries.starts[:-1], axis=1) if len(weights) else equal
        scores: Int64s = np.where(matching, weights, 0).sum(axis=1)
        first_value = np.concatenate([[0], np.cumsum(self._workload.domain.sizes)[:-1]])
        scores += np.take_along_axis(terms, first_value + codes.astype(np.int64), axis=1).sum(axis=1)
        return scores

    def _solve(self, queries: Queries, weights: Int64s, terms: Int64s) -> UInt32s | None:
        from scipy import optimize, sparse

        sizes = self._workload.domain.sizes
        values, count = sum(sizes), len(weights)
        first_value = np.concatenate([[0], np.cumsum(sizes)])
        literals = first_value[queries.attributes] + queries.values
        of_query = np.repeat(np.arange(count), np.diff(queries.starts))
        positive = weights[of_query] > 0
        # c_i - x_v <= 0 for each value of a query of positive weight.
        rows = np.arange(int(positive.sum()))
        below = sparse.csr_array(
            (
                np.repeat([1.0, -1.0], len(rows)),
                (np.tile(rows, 2), np.concatenate([values + of_query[positive], literals[positive]])),
            ),
            shape=(len(rows), values + count),
        )
        # c_i + sum of x_v <= order for a query of negative weight.
        negative, place = np.flatnonzero(weights <= 0), np.cumsum(weights <= 0) - 1
        entries = np.flatnonzero(~positive)
        avoid = sparse.csr_array(
            (
                np.ones(len(negative) + len(entries)),
                (
                    np.concatenate([np.arange(len(negative)), place[of_query[entries]]]),
                    np.concatenate([values + negative, literals[entries]]),
                ),
            ),
            shape=(len(negative), values + count),
        )
        one = sparse.csr_array(
            (np.ones(values), (np.repeat(np.arange(len(sizes)), sizes), np.arange(values))),
            shape=(len(sizes), values + count),
        )
        orders = np.diff(queries.starts)[negative]
        scale = float(max(np.abs(weights).max(initial=1), 1))
        result: Any = optimize.milp(
            np.concatenate([-terms / scale, -np.abs(weights) / scale]),
            integrality=np.concatenate([np.ones(values), np.zeros(count)]),
            bounds=optimize.Bounds(0, 1),
            constraints=[
                optimize.LinearConstraint(below, -np.inf, 0),
                optimize.LinearConstraint(avoid, -np.inf, orders),
                optimize.LinearConstraint(one, 1, 1),
            ],
            options={"node_limit": MOST_SEARCH_NODES, "mip_rel_gap": 0},
        )
        if result.x is None:
            return None
        chosen = np.split(result.x[:values], first_value[1:-1])
        return np.array([int(of_attribute.argmax()) for of_attribute in chosen], np.uint32)
