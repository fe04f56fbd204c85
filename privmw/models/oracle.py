"""Best responses: the record of largest score over signed cells of a workload, and one term for each value.

A cell of positive weight asks for a record in it, one of negative weight for a record elsewhere; the weights
of the cells that hold a record and the terms of its values add up to its score, an integer. "local" climbs
from many starts, one attribute at a time, and is within a few queries of the best; "support" takes the best
of the public rows; "exact" is an integer program, solved by HiGHS (Gaboardi et al. 2014, "Dual Query"; Vietri
et al. 2020). Released values and public rows only; the streams are those of sampling.
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

MOST_PLACED = 64  # queries that a start tries to satisfy: few more find room in a record
NODES = 10_000  # of a search tree; then the best record found so far is taken


class Oracle(Protocol):
    """Finds records of large score."""

    def respond(self, cells: Int64s, weights: Int64s, terms: Int64s, stream: np.random.Generator) -> UInt32s:
        """For each row of terms a record: codes, calls x attributes.

        cells: distinct cells of the workload, with one integer weight each. terms: calls x values, the
        attributes' values one after the other, integers.
        """


def make_oracle(
    kind: Kind, support: Support, workload: Workload, *, starts: int, threads: int | None = None
) -> Oracle:
    """The oracle of this kind; starts: of each climb of "local".

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
    """Refuse a support that an oracle of this kind cannot work with, and what is not installed."""
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

    A start is a public record if there are any, else a uniform one; then queries of positive weight are
    placed in it, in random order, heavy ones sooner, as far as they find room: a climb moves one attribute at
    a time, and would rarely find all values of a query by itself.
    """

    def __init__(self, support: Support, workload: Workload, starts: int, threads: int | None) -> None:
        self._support, self._workload = support, workload
        self._starts, self._threads = starts, threads
        self._public = np.cumsum(support.counts) if support.records else None

    def respond(self, cells: Int64s, weights: Int64s, terms: Int64s, stream: np.random.Generator) -> UInt32s:
        """For each row of terms the best record of as many climbs as there are starts."""
        queries = self._workload.queries(cells)
        codes = self._draw(len(terms) * self._starts, stream)
        _place(codes, queries, weights, stream)
        sizes = self._workload.domain.sizes
        asked = queries.attributes, queries.values, queries.starts, weights
        scores = kernels.climb(codes, sizes, *asked, terms, threads=self._threads)
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
    """Give each record the values of queries of positive weight, one after the other, where none contradicts.

    The order is random: query i comes before j with probability w_i / (w_i + w_j).
    """
    wanted = np.flatnonzero(weights > 0)
    if not len(wanted):
        return
    orders = np.diff(queries.starts)[wanted]
    # A query's last literal stands in for those it lacks.
    literals = queries.starts[wanted, None] + np.minimum(np.arange(orders.max()), orders[:, None] - 1)
    attributes, values = queries.attributes[literals].astype(np.intp), queries.values[literals]
    placed = min(MOST_PLACED, len(wanted))
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
    """The best public row; among equals one is drawn, in proportion to the public records they stand for."""

    def __init__(self, support: Support, workload: Workload) -> None:
        self._support, self._workload = support, workload

    def respond(self, cells: Int64s, weights: Int64s, terms: Int64s, stream: np.random.Generator) -> UInt32s:
        """For each row of terms the best public row."""
        support, queries = self._support, self._workload.queries(cells)
        columns, first_value = support.table.columns, 0
        common = np.zeros(support.size, np.int64)
        for q, weight in enumerate(weights.tolist()):
            literals = range(queries.starts[q], queries.starts[q + 1])
            held = np.ones(support.size, bool)
            for i in literals:
                held &= columns[queries.attributes[i]] == queries.values[i]
            common[held] += weight
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
    """The best record of all, by an integer program of one variable for each value and each query.

    x_v is 1 where the record has value v, one of each attribute. c_i, of a query of positive weight, is at
    most each x_v of its values; of one of negative weight, 1 where some value is missing: c_i plus its x_v
    are at most its order. Only the x need to be integral. After NODES nodes of the search the better of the
    best record found and that of the local oracle is taken, which may not be the best of all.
    """

    def __init__(self, workload: Workload, local: LocalOracle) -> None:
        self._workload, self._local = workload, local

    def respond(self, cells: Int64s, weights: Int64s, terms: Int64s, stream: np.random.Generator) -> UInt32s:
        """For each row of terms the best record."""
        climbed = self._local.respond(cells, weights, terms, stream)
        queries = self._workload.queries(cells)
        found = [self._solve(queries, weights, of_call) for of_call in terms]
        solved = np.array([c if s is None else s for s, c in zip(found, climbed, strict=True)], np.uint32)
        better = self._scores(queries, weights, terms, solved) >= self._scores(
            queries, weights, terms, climbed
        )
        return np.where(better[:, None], solved, climbed)

    def _scores(self, queries: Queries, weights: Int64s, terms: Int64s, codes: UInt32s) -> Int64s:
        held = codes[:, queries.attributes] == queries.values
        whole = np.logical_and.reduceat(held, queries.starts[:-1], axis=1) if len(weights) else held
        scores: Int64s = np.where(whole, weights, 0).sum(axis=1)
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
        wanted = weights[of_query] > 0
        # c_i - x_v <= 0 for each value of a query of positive weight.
        rows = np.arange(int(wanted.sum()))
        below = sparse.csr_array(
            (
                np.repeat([1.0, -1.0], len(rows)),
                (np.tile(rows, 2), np.concatenate([values + of_query[wanted], literals[wanted]])),
            ),
            shape=(len(rows), values + count),
        )
        # c_i + sum of x_v <= order for a query of negative weight.
        unwanted, place = np.flatnonzero(weights <= 0), np.cumsum(weights <= 0) - 1
        entries = np.flatnonzero(~wanted)
        avoid = sparse.csr_array(
            (
                np.ones(len(unwanted) + len(entries)),
                (
                    np.concatenate([np.arange(len(unwanted)), place[of_query[entries]]]),
                    np.concatenate([values + unwanted, literals[entries]]),
                ),
            ),
            shape=(len(unwanted), values + count),
        )
        one = sparse.csr_array(
            (np.ones(values), (np.repeat(np.arange(len(sizes)), sizes), np.arange(values))),
            shape=(len(sizes), values + count),
        )
        orders = np.diff(queries.starts)[unwanted]
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
            options={"node_limit": NODES, "mip_rel_gap": 0},
        )
        if result.x is None:
            return None
        chosen = np.split(result.x[:values], first_value[1:-1])
        return np.array([int(of_attribute.argmax()) for of_attribute in chosen], np.uint32)
