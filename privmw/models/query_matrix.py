"""The queries that a projection computes with, as matrices over rows: single cells, or cells of marginals.

Both are a `QueryMatrix` of the kernels. Rows may lie on several ranks; sums are sums of integers and have the
same bits however many ranks share the rows. This room knows rows and queries by number only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from privmw import kernels
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.models.groups import Groups
from privmw.models.marginal_gram import MarginalGram
from privmw.models.projection.newton import MOST_EXACT
from privmw.models.projection.queries import Priced, PricedQueries
from privmw.random import sampling_stream
from privmw.ranks import ALONE, Communicator, max_over_ranks, sum_over_ranks

FEW_PER_CELL = 4  # cells beyond so many for each row and marginal: rows list their cells
MOST_SHARED = 16  # pairs of cells for each row: with more, conjugate gradients cost less
NEAR = 0.002  # a share of a row's weight: a round of few steps then needs half of its gram matrices
LEAST_EXPONENT = -900  # of a largest value: below it, there is nothing but rounding


class _ExactMatrix(ABC):
    """Queries over rows whose sums are exact. Weights are a distribution: over all ranks they total one."""

    bits: int  # of a sum

    def __init__(self, cells: Int64s, threads: int | None, comm: Communicator) -> None:
        self.cells, self.count, self._threads, self.comm = cells, len(cells), threads, comm

    def sums(self, weights: Float64s) -> Float64s:
        """For each cell the sum of its rows' weights."""
        return self._sums(weights, None, 1.0)

    def moments(self, weights: Float64s, values: Float64s) -> Float64s:
        """For each cell the sum of its rows' weights times values."""
        # The weights total one, so that no sum is beyond the largest value.
        largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
        return self._sums(weights, values, max_over_ranks(self.comm, largest))

    def priced(self, prices: Float64s) -> PricedQueries:
        """The queries with these prices."""
        return Priced(self, prices)

    @property
    @abstractmethod
    def draws(self) -> Float64s:
        """A random number from 0 to 1 for each of this rank's rows."""

    def _sums(self, weights: Float64s, values: Float64s | None, largest: float) -> Float64s:
        """The sums of weights, or of weights times values; `largest` is the largest value of all ranks."""
        if largest == 0:
            return np.zeros(self.count)
        exponent = self.bits - max(math.frexp(largest)[1], LEAST_EXPONENT)
        integer_sums = self._add(weights, values, exponent)
        self.comm.allreduce(integer_sums)
        sums: Float64s = integer_sums / 2.0**exponent
        return sums

    @abstractmethod
    def potentials(self, values: Float64s) -> Float64s:
        """For each row the sum of its cells' values."""

    @abstractmethod
    def gram(self, weights: Float64s) -> Float64s | None:
        """For each pair of cells the weight of the rows that both hold; None where that is too large."""

    @abstractmethod
    def _add(self, weights: Float64s, values: Float64s | None, exponent: int) -> Int64s:
        """For each cell the exact sum of weight (times value) times 2^exponent, an integer for each row."""


class _PricedCells:
    """Cells of marginals with a price each: sums and potentials at once."""

    def __init__(self, priced: kernels.PricedCells, threads: int | None, comm: Communicator) -> None:
        self._priced, self._threads, self._comm = priced, threads, comm

    def spread(self, weights: Float64s, values: Float64s) -> Float64s:
        """For each row the sum over its cells of price * (sum of weight * value over the cell's rows)."""
        largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
        bits = max(math.frexp(max_over_ranks(self._comm, largest))[1], LEAST_EXPONENT)
        exponent = MarginalMatrix.bits - bits
        masses = kernels.signed_masses(weights, values, exponent, threads=self._threads)
        return self._priced.spread(masses, -exponent, threads=self._threads, comm=self._comm)


class CellMatrix(_ExactMatrix):
    """Single cells: rows that lie in the same cells are a group, whose sums are computed once."""

    bits = 52  # integers that total no more have exact sums in doubles, in any order

    def __init__(
        self, cells: Int64s, groups: Groups, threads: int | None = None, comm: Communicator = ALONE
    ) -> None:
        super().__init__(cells, threads, comm)
        self._of_row, self._groups = groups.of_row, groups.count
        self._incidence = kernels.Incidence(*groups.incidence(), self.count)
        self._kept: tuple[Float64s, Float64s] | None = None  # weights, and the gram of them less its means

    def potentials(self, values: Float64s) -> Float64s:
        """For each row the sum of its cells' values."""
        return self._incidence.potentials(values, threads=self._threads)[self._of_row]

    @property
    def draws(self) -> Float64s:
        """Zeros: no rows are left out."""
        return np.zeros(len(self._of_row))

    def among(self, rows: Int64s) -> None:
        """Return None: potentials and sums cost as much as the groups are many."""

    def gram(self, weights: Float64s) -> Float64s | None:
        """For each pair of cells the weight of the rows that both hold: exactly, or with kept covariances.

        The covariances of cells are kept while no row's weight moves by more than NEAR of it. They are then
        those of these weights up to that factor, in every direction of the multipliers: a Newton step with
        them leaves at most about that share of its error.
        """
        if self._kept is not None:
            moved = np.abs(weights - self._kept[0]) > NEAR * self._kept[0]
            if not sum_over_ranks(self.comm, int(np.count_nonzero(moved))):
                means = self.sums(weights)
                near: Float64s = self._kept[1] + means[:, None] * means
                return near
        scale = 2.0 ** (self.bits - 1)
        of_groups = self._by_group(np.rint(weights * scale))
        shared = self._incidence.gram(of_groups, threads=self._threads).astype(np.int64)
        self.comm.allreduce(shared.reshape(-1))
        gram: Float64s = shared / scale
        means = gram.diagonal()
        self._kept = weights, gram - means[:, None] * means
        return gram

    def _add(self, weights: Float64s, values: Float64s | None, exponent: int) -> Int64s:
        integers = _rounded(weights, values, exponent)
        return self._incidence.sums(self._by_group(integers)).astype(np.int64)

    def _by_group(self, integers: Float64s) -> Float64s:
        return np.bincount(self._of_row, integers, self._groups).astype(np.float64, copy=False)


class MarginalMatrix(_ExactMatrix):
    """Cells of whole marginals, of which some may be left out."""

    bits = kernels.MASS_BITS + 1  # so that integers of weights are their masses

    def __init__(
        self,
        cells: Int64s,
        queries: kernels.MarginalCells,
        threads: int | None = None,
        comm: Communicator = ALONE,
        gram: MarginalGram | None = None,
    ) -> None:
        super().__init__(cells, threads, comm)
        self._queries, self._gram = queries, gram

    @classmethod
    def of(
        cls,
        workload: Workload,
        precision: Float64s,
        marginals: kernels.Marginals,
        threads: int | None = None,
        comm: Communicator = ALONE,
        cells: Int64s | None = None,
    ) -> MarginalMatrix:
        """The cells of positive precision that have a row: no weights change the answer of the others, 0.

        cells: the numbers of the marginals' cells, if they are not those from 0.
        """
        queries = marginals.among(np.flatnonzero(precision > 0))
        rows = queries.sums(np.ones(marginals.columns.rows, np.int64), threads=threads)
        comm.allreduce(rows)
        queries.keep(np.flatnonzero(rows))
        places = queries.places
        gram, most = None, MOST_SHARED * sum_over_ranks(comm, marginals.columns.rows)
        if len(places) <= MOST_EXACT and len(places) ** 2 <= most:
            gram = MarginalGram.of(workload, places, marginals.columns, threads)
        return cls(places if cells is None else cells[places], queries, threads, comm, gram)

    @cached_property
    def draws(self) -> Float64s:
        """A random number from 0 to 1 for each of this rank's rows."""
        return _draws(self._queries.columns)

    def potentials(self, values: Float64s) -> Float64s:
        """For each row the sum of its cells' values."""
        return self._queries.potentials(values, threads=self._threads)

    def gram(self, weights: Float64s) -> Float64s | None:
        """For each pair of cells the weight of the rows that both hold; None where cells are too many."""
        if self._gram is None:
            return None
        masses, _ = kernels.to_masses(weights, threads=self._threads, comm=self.comm)
        shared = self._gram.sums(masses, self._threads)
        self.comm.allreduce(shared.reshape(-1))
        gram: Float64s = shared / 2.0**kernels.MASS_BITS
        return gram

    def priced(self, prices: Float64s) -> _PricedCells:
        """The cells with these prices."""
        return _PricedCells(self._queries.priced(prices), self._threads, self.comm)

    def among(self, rows: Int64s) -> tuple[MarginalMatrix, slice]:
        """The cells over some of this rank's rows, and which they are of all: all."""
        some = self._queries.over(rows.astype(np.uint32))
        return MarginalMatrix(self.cells, some, self._threads, self.comm), slice(None)

    def _add(self, weights: Float64s, values: Float64s | None, exponent: int) -> Int64s:
        if values is None:
            masses, _ = kernels.to_masses(weights, threads=self._threads, comm=self.comm)
        else:
            masses = kernels.signed_masses(weights, values, exponent, threads=self._threads)
        return self._queries.sums(masses, threads=self._threads)


class RowMatrix(_ExactMatrix):
    """Cells of whole marginals that are far more than rows: each row lists its cells, and no other counts."""

    bits = 52  # as of a CellMatrix

    def __init__(
        self,
        cells: Int64s,
        incidence: kernels.Incidence,
        threads: int | None = None,
        comm: Communicator = ALONE,
        draws: Float64s | None = None,
    ) -> None:
        super().__init__(cells, threads, comm)
        self._incidence = incidence
        self._draws = np.zeros(len(incidence.starts) - 1) if draws is None else draws

    @property
    def draws(self) -> Float64s:
        """A random number from 0 to 1 for each of this rank's rows."""
        return self._draws

    @classmethod
    def of(
        cls,
        workload: Workload,
        precision: Float64s,
        columns: kernels.Columns,
        threads: int | None = None,
        comm: Communicator = ALONE,
        cells: Int64s | None = None,
    ) -> RowMatrix:
        """The cells of positive precision that have a row; as MarginalMatrix.of."""
        places = _places(workload, columns)
        measured = precision[places] > 0
        starts = np.concatenate([[0], np.cumsum(measured.sum(axis=1))])
        held = places[measured]  # row by row, ascending within a row
        if comm.size == 1:
            found = np.unique(held)
        else:
            times = np.zeros(workload.cells, np.int64)
            times[held] = 1
            comm.allreduce(times)
            found = np.flatnonzero(times)
        queries = np.searchsorted(found, held).astype(np.uint32)
        incidence = kernels.Incidence(starts, queries, len(found))
        return cls(found if cells is None else cells[found], incidence, threads, comm, _draws(columns))

    def potentials(self, values: Float64s) -> Float64s:
        """For each row the sum of its cells' values."""
        return self._incidence.potentials(values, threads=self._threads)

    def gram(self, weights: Float64s) -> Float64s | None:
        """Return None: there are too many cells for a square matrix of them."""
        return None

    def among(self, rows: Int64s) -> tuple[RowMatrix, Int64s]:
        """The cells that hold some of this rank's rows, over those, and which they are of all."""
        starts = self._incidence.starts
        lengths = np.diff(starts)[rows]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(starts[rows] - ends[:-1], lengths) + np.arange(ends[-1])
        queries = self._incidence.queries[places]
        times = np.zeros(self.count, np.int64)
        times[queries] = 1
        self.comm.allreduce(times)
        held, number = np.flatnonzero(times), np.cumsum(times > 0) - 1
        incidence = kernels.Incidence(ends, number[queries].astype(np.uint32), len(held))
        return RowMatrix(self.cells[held], incidence, self._threads, self.comm), held

    def _add(self, weights: Float64s, values: Float64s | None, exponent: int) -> Int64s:
        return self._incidence.sums(_rounded(weights, values, exponent)).astype(np.int64)


def _rounded(weights: Float64s, values: Float64s | None, exponent: int) -> Float64s:
    """Weights, times values if there are some, times 2^exponent: to the nearest integers."""
    terms = weights.copy() if values is None else weights * values
    terms *= 2.0**exponent
    return np.rint(terms, out=terms)


def _draws(columns: kernels.Columns) -> Float64s:
    """A random number from 0 to 1 for each row, by all of its codes: the same whatever rank holds the row."""
    stream = sampling_stream(0)
    hashes = np.full(columns.rows, stream.integers(0, 2**64, dtype=np.uint64))
    for codes in columns.columns:
        factor = stream.integers(0, 2**63, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        hashes += codes.astype(np.uint64) * factor
    draws: Float64s = (hashes >> np.uint64(11)) * 2.0**-53
    return draws


def _places(workload: Workload, columns: kernels.Columns) -> Int64s:
    """For each row and marginal the place of the cell that holds the row, among all cells."""
    places = np.empty((columns.rows, len(workload)), np.int64)
    for j in range(len(workload)):
        attributes = workload.attributes[workload.starts[j] : workload.starts[j + 1]].tolist()
        codes = tuple(columns.columns[a] for a in attributes)
        places[:, j] = np.ravel_multi_index(codes, [columns.sizes[a] for a in attributes])
    places += workload.offsets[:-1]
    return places


def matrix_of(
    workload: Workload,
    precision: Float64s,
    marginals: kernels.Marginals,
    threads: int | None = None,
    comm: Communicator = ALONE,
    cells: Int64s | None = None,
) -> MarginalMatrix | RowMatrix:
    """The measured cells of a workload that have a row, in whichever way costs less.

    marginals: the workload's.
    """
    rows = sum_over_ranks(comm, marginals.columns.rows)
    if workload.cells > FEW_PER_CELL * rows * len(workload):
        return RowMatrix.of(workload, precision, marginals.columns, threads, comm, cells)
    return MarginalMatrix.of(workload, precision, marginals, threads, comm, cells)
