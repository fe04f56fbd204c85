"""Newton's method for rows that were not measured themselves and very many queries.

The weights are not unique then, and proximal steps choose among them: each moves a row in proportion to its
weight, so that few rows meet zero on the way. A step is Newton's method on its dual, and the equations are
solved by conjugate gradients. Overlapping marginals make these equations as ill-conditioned as they can be:
what they need is the matrix of all queries that matter, factored. It is computed from a sample of the rows, a
row being drawn by what it adds to its queries. The draws have a fixed seed, so that a fit can be repeated on
one machine; numpy's matrix products may round differently on another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privmw.kernels import Tallies
from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.postprocess.problem import Problem
from privmw.random import sampling_stream

ENOUGH = 1e-8  # of the largest count: the largest move that may be left
LOOSE = (
    1000.0  # times its weight is a row's variance in a proximal step: more loses digits of single precision
)
LOOSER, LOOSEST = 2.0, 8000.0  # from step to step; the factor of the first still serves
LEAST_WEIGHT = 0.1  # of the mean: a lighter row moves as this one would
MOST_PROXIMAL, MOST_STEPS = 100, 25
WORK = 2**35  # visits of a row by a marginal: no further proximal step beyond
LEFT = 0.1  # of what a proximal step leaves may come from ending it early
DECREASE = 1e-3  # of the energy is left where conjugate gradients end
MOST_GRADIENTS = 120
STALE = 2**33  # visits of a row by a marginal in one step's gradients: beyond, the matrix is factored anew
MATTERS = 0.1  # of a query's variance: a query with less weight than that needs no factor
MOST_UNKNOWNS = 10_000  # of the factor: 400 MB
SAMPLE = 3  # rows an unknown
RIDGES = 4e-6, 1e-4, 1e-2  # of the diagonal: what single precision needs, the first that does
BLOCK = 256  # columns of the factor computed together


def approach(problem: Problem, weights: Float64s, bends: Float64s) -> tuple[Float64s, int]:
    """Non-negative weights near the best ones, and the conjugate gradients taken. `bends`: one a row."""
    step = ProximalSteps(problem, bends)
    work = problem.tallies.rows * len(problem.tallies.offsets)
    loose = LOOSE
    for _ in range(MOST_PROXIMAL):
        weights = step.take(weights, loose)
        if step.least <= ENOUGH * problem.scale or step.gradients * work > WORK:
            break
        loose = min(LOOSER * loose, LOOSEST)
    return step.best, step.gradients


class ProximalSteps:
    """The best weights x near given ones: least (x - near)^2 / (2 variances) + the problem's objective."""

    def __init__(self, problem: Problem, bends: Float64s) -> None:
        self.problem, self.equations, self.bends = problem, Equations(problem), bends
        self.measured = problem.fitted > 0
        self.spread = np.where(self.measured, problem.variances, 0.0)  # of the queries
        self.multipliers = np.zeros(problem.tallies.count)
        self.potentials = np.zeros(problem.tallies.rows)
        self.gradients = 0
        self.least, self.best = np.inf, np.zeros(problem.tallies.rows)  # the largest move left, and where

    def take(self, near: Float64s, loose: float) -> Float64s:
        """The weights of one proximal step; `best` are those that move least in the problem itself."""
        problem, tallies = self.problem, self.problem.tallies
        self.near, self.variances = near, loose * np.maximum(near, LEAST_WEIGHT * float(near.mean()))
        for _ in range(MOST_STEPS):
            weights = self._weights(self.potentials)
            missing = tallies.sums(weights) - (problem.counts + self.spread * self.multipliers)
            missing *= self.measured
            # In the problem itself the multipliers are precision * (sum - count).
            beside = tallies.potentials(problem.fitted * missing)
            left = float(moves_left(weights, self.potentials + beside, self.bends).max(initial=0.0))
            if left < self.least:
                self.least, self.best = left, weights
            if left <= ENOUGH * problem.scale:
                break
            early = float(moves_left(np.zeros(len(beside)), -np.abs(beside), self.bends).max(initial=0.0))
            if early <= LEFT * moves_left(weights, self.potentials, self.bends).max(initial=0.0):
                break
            direction, along = self._direction(weights > 0, missing)
            length = self._length(direction, along, missing)
            self.multipliers += length * direction
            self.potentials += length * along
        return weights

    def _weights(self, potentials: Float64s) -> Float64s:
        weights = self.near - self.variances * potentials
        return np.maximum(weights, 0.0, out=weights)

    def _direction(self, free: Bools, missing: Float64s) -> tuple[Float64s, Float64s]:
        """Newton's, (A diag(inner) A' + diag(spread))^-1 missing, by conjugate gradients; its potentials."""
        tallies, inner = self.problem.tallies, self.variances * free
        self.equations.prepare(inner)
        direction, along = np.zeros(tallies.count), np.zeros(tallies.rows)
        residual = missing.copy()
        scaled = self.equations.nearly_solve(residual)
        search, energy = scaled, float(residual @ scaled)
        enough = DECREASE * energy
        taken = 0
        while taken < MOST_GRADIENTS:
            taken += 1
            potentials = tallies.potentials(search)
            product = tallies.sums(inner * potentials) * self.measured + self.spread * search
            length = energy / float(search @ product)
            direction += length * search
            along += length * potentials
            residual -= length * product
            scaled = self.equations.nearly_solve(residual)
            before, energy = energy, float(residual @ scaled)
            if energy <= enough:
                break
            search = scaled + energy / before * search
        self.gradients += taken
        visits = taken * tallies.rows * len(tallies.offsets)
        self.equations.stale = taken == MOST_GRADIENTS or visits > STALE
        return direction, along

    def _length(self, direction: Float64s, along: Float64s, missing: Float64s) -> float:
        """How far to go: a length at which the dual's slope is small."""
        first, low, high, length = float(direction @ missing), 0.0, np.inf, 1.0
        fixed = float(direction @ (self.problem.counts + self.spread * self.multipliers))
        growing = float(direction @ (self.spread * direction))
        for _ in range(40):
            slope = fixed + length * growing - float(along @ self._weights(self.potentials + length * along))
            if abs(slope) <= 0.3 * abs(first):
                break
            low, high = (length, high) if slope < 0 else (low, length)
            length = 2 * length if high == np.inf else (low + high) / 2
        return length


class Equations:
    """A diag(inner) A' + diag(variances) over queries, nearly: its factor, from a sample of the rows."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.rng, self.stale = problem, sampling_stream(1), True
        self.alone = problem.variances  # the diagonal
        tallies = problem.tallies
        of_cells = np.searchsorted(tallies.offsets, np.arange(tallies.cells), "right")
        self.marginal_of = np.append(of_cells, np.zeros(tallies.count - tallies.cells, np.int64))
        grouped = np.flatnonzero(tallies.groups >= 0)
        self.marginal_of[tallies.cells + tallies.groups[grouped]] = of_cells[grouped]
        self.unknowns = np.empty(0, np.int64)
        self.factor = Factor(np.empty((0, 0), np.float32))

    def prepare(self, inner: Float64s) -> None:
        """Factor the matrix anew where the last one no longer helped."""
        if not self.stale:
            return
        problem, tallies = self.problem, self.problem.tallies
        held = tallies.sums(inner)
        self.alone = held + problem.variances
        # Cells of a group are low: the group stands for them.
        matter = held / problem.variances
        matter[: len(tallies.groups)][tallies.groups >= 0] = 0
        heaviest = np.argsort(-matter, kind="stable")[:MOST_UNKNOWNS]
        heaviest = np.sort(heaviest[matter[heaviest] > MATTERS])
        # A group beside the cells of its marginal: so the matrix fills from the left.
        self.unknowns = heaviest[np.argsort(self.marginal_of[heaviest], kind="stable")]
        shares = np.zeros(tallies.count)
        shares[self.unknowns] = 1 / self.alone[self.unknowns]
        rows, weights = self._sample(inner, inner * tallies.potentials(shares))
        for ridge in RIDGES:
            matrix = gram(tallies, rows, weights, self.unknowns)
            matrix[np.diag_indices(len(matrix))] *= 1 + ridge
            matrix[np.diag_indices(len(matrix))] += problem.variances[self.unknowns]
            try:
                self.factor, self.stale = Factor(matrix), False
                return
            except np.linalg.LinAlgError:  # rounding made it indefinite
                continue
        self.unknowns, self.stale = np.empty(0, np.int64), False  # each query alone
        self.factor = Factor(np.empty((0, 0), np.float32))

    def _sample(self, inner: Float64s, added: Float64s) -> tuple[Int64s, Float64s]:
        """Rows drawn by what they add to the queries, and weights that make up for the others."""
        chances, wanted = added, SAMPLE * len(self.unknowns)
        for _ in range(5):  # rows that are sure leave more draws to the others
            chances = np.minimum(chances * (wanted / max(float(chances.sum()), 1e-300)), 1.0)
        rows = np.flatnonzero(self.rng.random(len(chances)) < chances)
        return rows, inner[rows] / chances[rows]

    def nearly_solve(self, right: Float64s) -> Float64s:
        """The unknowns by the factor, the other queries each alone."""
        solution = right / self.alone
        solution[self.unknowns] = self.factor.solve(right[self.unknowns])
        return solution


def gram(tallies: Tallies, rows: Int64s, weights: Float64s, queries: Int64s) -> npt.NDArray[np.float32]:
    """For each pair of these queries the weight of the rows that both count; its lower half is right.

    Queries come by marginal, and a row counts in at most one of each.
    """
    count = len(queries)
    matrix = np.zeros((count, count + 1), np.float32)  # the last column: queries not wanted
    places = np.full(tallies.count, count)
    places[queries] = np.arange(count)
    of_rows = places[queries_of(tallies, rows)]
    for j, of_marginal in enumerate(of_rows.T):
        wanted = of_marginal < count
        own, position = np.unique(of_marginal[wanted], return_inverse=True)
        both = (position[:, None] * (count + 1) + of_rows[wanted, : j + 1]).ravel()
        sums = np.bincount(both, np.repeat(weights[wanted], j + 1), len(own) * (count + 1))
        matrix[own] += sums.reshape(len(own), count + 1).astype(np.float32)
    return matrix[:, :count]


def queries_of(tallies: Tallies, rows: Int64s) -> Int64s:
    """For each row and marginal the cell it lies in, or the group of that cell."""
    sizes, attributes, starts = tallies.marginals
    assert tallies.columns is not None  # the rows of a support
    codes = [column[rows] for column in tallies.columns.columns]
    found = np.empty((len(rows), len(starts) - 1), np.int64)
    for j, first in enumerate(tallies.offsets[:-1]):
        found[:, j] = first
        of = attributes[starts[j] : starts[j + 1]].tolist()
        if of:
            found[:, j] += np.ravel_multi_index([codes[a] for a in of], [sizes[a] for a in of])
    if len(tallies.groups):
        groups = tallies.groups[found]
        found = np.where(groups >= 0, tallies.cells + groups, found)
    return found


class Factor:
    """Cholesky's factor of a positive matrix, in place, by blocks of columns."""

    def __init__(self, matrix: npt.NDArray[np.float32]) -> None:
        self.lower = matrix
        self.inverses: list[tuple[int, int, npt.NDArray[np.float32]]] = []
        for first in range(0, len(matrix), BLOCK):
            end = min(first + BLOCK, len(matrix))
            matrix[first:, first:end] -= matrix[first:, :first] @ matrix[first:end, :first].T
            corner = np.linalg.cholesky(matrix[first:end, first:end].astype(np.float64))
            inverse = np.linalg.inv(corner).astype(np.float32)
            matrix[end:, first:end] = matrix[end:, first:end] @ inverse.T
            self.inverses.append((first, end, inverse))

    def solve(self, right: Float64s) -> npt.NDArray[np.float32]:
        """Forward and backward substitution."""
        solution = right.astype(np.float32)
        for first, end, inverse in self.inverses:
            solution[first:end] -= self.lower[first:end, :first] @ solution[:first]
            solution[first:end] = inverse @ solution[first:end]
        for first, end, inverse in reversed(self.inverses):
            solution[first:end] = inverse.T @ solution[first:end]
            solution[:first] -= self.lower[first:end, :first].T @ solution[first:end]
        return solution


def moves_left(weights: Float64s, slopes: Float64s, bends: Float64s) -> Float64s:
    """How far each row alone is from its best weight."""
    wanted = np.divide(slopes, bends, where=bends > 0, out=np.zeros(len(slopes)))
    np.subtract(weights, wanted, out=wanted)
    np.maximum(wanted, 0.0, out=wanted)
    wanted -= weights
    return np.abs(wanted, out=wanted)
