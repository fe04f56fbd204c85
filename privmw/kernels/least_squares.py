"""Least squares: sums of weights by the cells of marginals, and non-negative fits to them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privmw.kernels import choice
from privmw.kernels.arrays import Float64s, Int32s, Int64s, UInt32s, frozen
from privmw.kernels.checks import (
    check_apart,
    check_array,
    check_integer,
    check_length,
    check_out,
    check_starts,
    check_within,
    check_writable,
)
from privmw.kernels.choice import backend, threads_of
from privmw.kernels.columns import Columns
from privmw.ranks import ALONE, Communicator
from privmw.secrecy import expect

MOST_TALLY_ROWS, MOST_TALLY_CELLS = 2**32 - 1, 2**31 - 1


class FitTargets(NamedTuple):
    """Targets of the rows or of the queries: values near `centre`, with variances and bounds.

    Variances and bounds have length 1, or one entry per row or query. A row's variance is positive and
    finite; a query of infinite variance is ignored, one of variance 0 is met exactly.
    """

    centre: Float64s
    variance: Float64s
    lower: Float64s
    upper: Float64s


class Solution(NamedTuple):
    """Weights of rows, multipliers of queries, largest |y - A x| (left), dual value and number of steps."""

    weights: Float64s
    multipliers: Float64s
    left: float
    value: float
    steps: int


class Tallies:
    """Sums of weights by the cells of marginals, over a full histogram or the rows of a table.

    Marginal j has the attributes (ascending) attributes[starts[j]:starts[j + 1]], possibly none; cells come
    in C order. Without columns the rows are those of the full histogram, in C order. Queries are the cells,
    then groups of cells of one marginal (groups: one per cell, -1 for none), then the total of the marked
    rows (marked: one per row, 0 or 1), if given. Arrays are copied unless read-only. It is a `QueryMatrix`.

    >>> tallies = Tallies([2, 3], np.array([0], np.int32), np.array([0, 0, 1]))
    >>> tallies.sums(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    array([21.,  6., 15.])
    """

    comm: Communicator = ALONE

    def __init__(
        self,
        sizes: Sequence[int],
        attributes: Int32s,
        starts: Int64s,
        *,
        columns: Columns | None = None,
        groups: Int32s | None = None,
        marked: npt.NDArray[np.uint8] | None = None,
        threads: int | None = None,
    ) -> None:
        expect("sizes", sizes, Sequence, "a list")
        sizes = [
            check_integer(f"sizes[{a}]", size, 1, MOST_TALLY_ROWS, quote=False)
            for a, size in enumerate(sizes)
        ]
        attributes = check_array("attributes", attributes, np.int32)
        starts = check_starts(starts, len(attributes))
        check_within("attributes", attributes, len(sizes))
        flat, bounds = attributes.tolist(), starts.tolist()
        self.threads, self.offsets = threads, [0]
        for begin, end in itertools.pairwise(bounds):
            places = flat[begin:end]
            if any(a >= b for a, b in itertools.pairwise(places)):
                raise ValueError("attributes must ascend within each marginal")
            self.offsets.append(self.offsets[-1] + math.prod(sizes[a] for a in places))
        self.rows = math.prod(sizes)
        if columns is not None:
            right = isinstance(columns, Columns) and columns.sizes == tuple(sizes)
            expect("columns", columns, right, "Columns of these sizes")
            self.rows = columns.rows
        self.cells = self.offsets[-1]
        if self.rows > MOST_TALLY_ROWS or self.cells > MOST_TALLY_CELLS:
            raise ValueError("tallies must have below 2^32 rows and below 2^31 cells")
        groups = np.empty(0, np.int32) if groups is None else check_array("groups", groups, np.int32)
        marked = np.empty(0, np.uint8) if marked is None else check_array("marked", marked, np.uint8)
        if len(groups):
            self._check_groups(groups)
        if len(marked):
            check_length("marked", marked, self.rows)
            check_within("marked", marked, 2)
        self.marginals = (tuple(sizes), attributes, starts)
        self.columns = columns
        self.count = self.cells + int(groups.max(initial=-1)) + 1 + bool(len(marked))
        core = None if columns is None else columns._core
        self._core = choice.kernels.Tallies(
            sizes, attributes, starts, core, frozen(groups), frozen(marked), threads_of(threads)
        )

    def _check_groups(self, groups: Int32s) -> None:
        check_length("groups", groups, self.cells)
        if groups.min() < -1:
            raise ValueError("groups must be -1 or more")
        cells = np.flatnonzero(groups >= 0)
        group_of, marginals = groups[cells], np.searchsorted(self.offsets, cells, "right")
        marginal_of = np.zeros(int(groups.max()) + 1, np.int64)  # 0: no cell
        marginal_of[group_of] = marginals
        wrong = marginal_of == 0
        wrong[group_of[marginal_of[group_of] != marginals]] = True
        if wrong.any():
            raise ValueError(f"groups ({wrong.argmax()}) must hold cells, all of one marginal")

    def sums(self, weights: Float64s, out: Float64s | None = None) -> Float64s:
        """For each query the sum of the weights of its rows."""
        check_length("weights", check_array("weights", weights, np.float64), self.rows)
        out = check_out(out, np.float64, self.count, weights=weights)
        self._core.sums(weights, out)
        return out

    def moments(self, weights: Float64s, values: Float64s) -> Float64s:
        """For each query the sum of weight times value over its rows."""
        return self.sums(weights * values)

    def gram(self, weights: Float64s) -> Float64s | None:
        """Return None: `newton` computes the matrix itself."""
        return None

    def potentials(self, values: Float64s, out: Float64s | None = None) -> Float64s:
        """The adjoint of `sums`: for each row the sum of the values of its queries.

        >>> tallies = Tallies([2, 3], np.array([0], np.int32), np.array([0, 0, 1]))
        >>> tallies.potentials(np.array([0.5, 1.0, 10.0]))
        array([ 1.5,  1.5,  1.5, 10.5, 10.5, 10.5])
        """
        check_length("values", check_array("values", values, np.float64), self.count)
        out = check_out(out, np.float64, self.rows, values=values)
        self._core.potentials(values, out)
        return out

    def newton(
        self,
        rows: FitTargets,
        queries: FitTargets,
        start: Float64s | None = None,
        *,
        tolerance: float,
        steps: int = 100,
        limit: float = math.inf,
    ) -> Solution:
        """Fit weights x near the targets of the rows, with sums A x near those of the queries.

        Minimises the squared distances over the variances. Ends when |y - A x| is within the tolerance, after
        `steps` steps, or when no feasible weights cost less than the limit.

        >>> tallies = Tallies([2], np.empty(0, np.int32), np.array([0, 0]))
        >>> one = np.ones(1)
        >>> rows = FitTargets(np.array([3.0, -1.0]), one, 0 * one, np.inf * one)
        >>> queries = FitTargets(np.array([5.0]), one, -np.inf * one, np.inf * one)
        >>> tallies.newton(rows, queries, tolerance=1e-9).weights
        array([4., 0.])
        """
        for side, many in ((rows, self.rows), (queries, self.count)):
            check_length("centre", check_array("centre", side.centre, np.float64), many)
            for name, array in zip(FitTargets._fields[1:], side[1:], strict=True):
                if len(check_array(name, array, np.float64)) not in (1, many):
                    raise ValueError(f"{name} (length {len(array)}) must have length 1 or {many}")
        if start is None:
            start = np.zeros(self.count)
        check_length("start", check_array("start", start, np.float64), self.count)
        steps = check_integer("steps", steps, 0, 2**20)
        return Solution(*self._core.newton(*rows, *queries, start, float(tolerance), steps, float(limit)))

    def descend(
        self,
        order: UInt32s,
        precisions: Float64s,
        bends: Float64s,
        weights: Float64s,
        pulls: Float64s,
    ) -> float:
        """One pass of coordinate descent: each row of `order` takes its best non-negative weight.

        Minimises sum(precisions * (sums - answers)^2) in place. pulls: precisions * (sums - answers), kept up
        to date. bends: potentials(precisions). Returns the largest change of a weight.

        >>> tallies = Tallies([2], np.array([0], np.int32), np.array([0, 1]))
        >>> order, one = np.array([0, 1], np.uint32), np.ones(2)
        >>> weights, pulls = np.zeros(2), np.array([-3.0, 1.0])
        >>> tallies.descend(order, one, one, weights, pulls), weights, pulls
        (3.0, array([3., 0.]), array([0., 1.]))
        """
        check_within("order", check_array("order", order, np.uint32), self.rows)
        check_length("precisions", check_array("precisions", precisions, np.float64), self.count)
        check_length("bends", check_array("bends", bends, np.float64), self.rows)
        check_writable("weights", weights, np.float64, self.rows)
        check_writable("pulls", pulls, np.float64, self.count)
        check_apart("weights", weights, order=order, precisions=precisions, bends=bends, pulls=pulls)
        check_apart("pulls", pulls, order=order, precisions=precisions, bends=bends)
        return float(self._core.descend(order, precisions, bends, weights, pulls))

    @property
    def nbytes(self) -> int:
        """Bytes allocated beside the caller's arrays."""
        return int(self._core.nbytes())

    def __repr__(self) -> str:
        return f"Tallies({self.count} queries over {self.rows} rows, {backend()})"
