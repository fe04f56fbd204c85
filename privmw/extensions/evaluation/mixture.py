"""The nearest mixture: weights on a support that minimise the maximum error of its answers.

Bounded from both sides. Above: repeated projections, each of which moves the cell with the largest error to
the target distance (by the smallest change in relative entropy). Below: a cell that no row or every row
answers, and the dual of the linear program over the cells of the projections. This module knows public rows
and numbers; if the answers are private, so are its results: privmw.extensions.evaluation says so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from privmw import kernels
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s, UInt32s

PROGRESS = 0.95  # progress: the gap falls below this fraction of the gap before
IDLE_PROJECTIONS = (
    200  # projections without progress before the first linear program; then twice as many, ...
)
MOST_PROGRAM_CELLS = 1500  # of a linear program: seconds, not minutes
MARGIN = 1e-12  # far above the rounding error of a lower bound


class Nearest(NamedTuple):
    """The smallest maximum error lies from lower to upper, and is upper for these weights."""

    lower: float
    upper: float
    weights: Float64s
    rounds: int


def nearest_mixture(
    support: Support, workload: Workload, answers: Float64s, *, tolerance: float, rounds: int
) -> Nearest:
    """Narrow the bracket to the tolerance, with a limited number of projections."""
    solve = _linear_program()
    model = _Model(support, workload, answers)
    lower, projections = model.unmovable, np.zeros(workload.cells, np.int64)
    best, best_weights = np.inf, model.weights.copy()
    milestone, waited, programs = np.inf, 0, 0
    for done in range(rounds + 1):
        cell, error = model.worst()
        if error < best:
            best, best_weights[:] = error, model.weights
        if best <= lower + tolerance or done == rounds:
            break
        if best - lower < PROGRESS * milestone:
            milestone, waited = best - lower, 0
        projections[cell] += 1
        waited += 1
        if waited > IDLE_PROJECTIONS * (programs + 1):
            waited, programs = 0, programs + 1
            bound, weights = solve(support, workload, answers, _most_projected(projections))
            lower = max(lower, bound)
            error = float(np.abs(support.answers(workload, weights) - answers).max())
            if error < best:
                best, best_weights = error, weights
        model.project(cell, lower + tolerance / 2)
    best_weights /= best_weights.sum()
    upper = float(np.abs(support.answers(workload, best_weights) - answers).max())
    return Nearest(min(lower, upper), upper, best_weights, done)


class _Model:
    """Weights, the sums of their masses in every cell, and the errors of these."""

    def __init__(self, support: Support, workload: Workload, answers: Float64s) -> None:
        self.support, self.workload, self.answers = support, workload, answers
        self.marginals = support.marginals(workload)
        rows = self.marginals.sums(np.ones(support.size, np.int64))
        self.fixed = (rows == 0) | (rows == support.size)
        fixed_errors = np.abs((rows > 0) - answers)[self.fixed]
        self.unmovable = float(fixed_errors.max()) if len(fixed_errors) else 0.0
        self.weights = _positive_start(support)
        kernels.rescale(self.weights)
        self._sum()
        self.errors = np.empty(workload.cells)

    def _sum(self) -> None:
        masses, self.total = kernels.to_masses(self.weights)
        self.sums = self.marginals.sums(masses)

    def worst(self) -> tuple[int, float]:
        """The cell with the largest error that weights can change, and the largest error of all cells."""
        np.divide(self.sums, self.total, out=self.errors)
        self.errors -= self.answers
        np.abs(self.errors, out=self.errors)
        self.errors[self.fixed] = 0
        cell = int(self.errors.argmax())
        return cell, max(float(self.errors[cell]), self.unmovable)

    def project(self, cell: int, distance: float) -> None:
        """Move a cell to this distance from its answer: its rows by one factor, the rest by another."""
        now, target = int(self.sums[cell]) / self.total, float(self.answers[cell])
        target += distance if now > target else -distance
        # odds(target) / odds(now)
        above, below = target * (1 - now), now * (1 - target)
        limit = kernels.LARGEST_FACTOR
        factor = limit if above >= limit * below else max(above / below, 1 / limit)
        rows = self.support.matching_rows(*self.workload.query(cell))
        gains = kernels.multiply(self.weights, rows, factor)
        total = kernels.total_after(self.total, gains.before, len(rows), factor, gains.gained)
        if total is None:
            kernels.rescale(self.weights)
            self._sum()
        else:
            self.total = total
            self.marginals.add_changes(rows, gains.changes, self.sums)


def _most_projected(projections: Int64s) -> Int64s:
    """The cells with the most projections, in ascending order."""
    cells = np.flatnonzero(projections)
    return np.sort(cells[np.argsort(-projections[cells], kind="stable")[:MOST_PROGRAM_CELLS]])


def _linear_program() -> Any:
    """The solver of the linear program over some cells; imports scipy, which is optional."""
    try:
        from scipy.optimize import linprog
        from scipy.sparse import bmat, csr_array
    except ImportError:
        raise ImportError("the nearest mixture needs scipy: pip install 'privmw[fit]'") from None

    def solve(
        support: Support, workload: Workload, answers: Float64s, cells: Int64s
    ) -> tuple[float, Float64s]:
        """A certified lower bound, and the weights of the program's solution.

        Minimise t over weights D with |q(D) - a| <= t on these cells. Rows that match the same of them share
        a variable.
        """
        queries = workload.queries(cells)
        groups, size = kernels.groups_alike(
            support.columns, queries.attributes, queries.values, queries.starts
        )
        first = np.unique(groups, return_index=True)[1]
        columns = [column[first] for column in support.table.columns]
        matches = np.ones((len(cells), size), np.int8)
        for cell, (start, end) in enumerate(zip(queries.starts[:-1], queries.starts[1:], strict=True)):
            for place in range(start, end):
                matches[cell] &= columns[queries.attributes[place]] == queries.values[place]
        queries_of_groups, slack = csr_array(matches, dtype=np.float64), np.ones((len(cells), 1))
        targets = answers[cells]
        solution = linprog(
            np.append(np.zeros(size), 1.0),
            A_ub=bmat([[queries_of_groups, -slack], [-queries_of_groups, -slack]], format="csr"),
            b_ub=np.concatenate([targets, -targets]),
            A_eq=np.append(np.ones(size), 0.0)[None],
            b_eq=[1.0],
            method="highs",
        )
        if solution.x is None:
            return 0.0, _positive_start(support)
        # If |z| <= 1 in L1, the largest error is at least z (q(D) - a), and that is least at a single row.
        dual = np.split(solution.ineqlin.marginals, 2)
        z = dual[1] - dual[0]
        z /= max(float(np.abs(z).sum()), 1e-300) * (1 + MARGIN)
        bound = float((queries_of_groups.T @ z).min() - targets @ z) - MARGIN
        shares = np.maximum(solution.x[:-1], 0)
        return bound, _spread(support, groups, shares)

    return solve


def _spread(support: Support, groups: UInt32s, shares: Float64s) -> Float64s:
    """The weights of rows: each group's share, in proportion to the start."""
    weights = _positive_start(support)
    weights *= (shares / np.bincount(groups, weights, len(shares)))[groups]
    weights /= weights.sum()
    return weights


def _positive_start(support: Support) -> Float64s:
    """The public frequencies; uniform weights where some rows have none, which factors could not raise."""
    return support.start("uniform" if support.grown else "public")
