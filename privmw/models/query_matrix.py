"""The matrices of a projection, rows x queries: of single cells, or of cells of marginals.

Rows may lie on several ranks; sums are sums of integers, with the same bits on any number of ranks. Rows and
queries are known by number only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from privmw import kernels
from privmw.data.memory import available_memory
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.kernels.cells import LEAST_EXPONENT
from privmw.models.groups import Groups
from privmw.models.marginal_gram import MarginalGram
from privmw.models.projection.newton import NEWTON
from privmw.models.projection.queries import Everywhere, GramProduct, MatrixGramProduct
from privmw.random import sampling_stream
from privmw.ranks import ALONE, Communicator, allgather, allgather_rows, max_over_ranks, sum_over_ranks

EFFECT_MEMORY = 1 / 8  # share of the available memory that the lists of rows' effects may take
FEW_PER_CELL = 4  # more cells than this per row and marginal: rows list their cells
MOST_PAIRS_PER_ROW = 16  # pairs of cells; with more, conjugate gradients cost less than a gram matrix
# Every rank solves over the rows of all ranks where these are at most FEW_ROWS, or FEW_ROWS_PER_CELL for each
# cell: then sending the weights once is cheap beside a sum over the cells in each of hundreds of passes.
FEW_ROWS = 2**16
FEW_ROWS_PER_CELL = 4
GRAM_DRIFT = 0.002  # relative change of weights up to which a gram matrix is kept: saves half of them


_gathered: WeakKeyDictionary[kernels.Columns, tuple[kernels.Columns, slice]] = WeakKeyDictionary()


class _ExactMatrix(ABC):
    """Queries whose sums over rows are exact. Weights sum to one over all ranks."""

    bits: int  # of a sum

    def __init__(self, cells: Int64s, threads: int | None, comm: Communicator) -> None:
        self.cells, self.count, self.threads, self.comm = cells, len(cells), threads, comm
        self.over_all_ranks: Callable[[], Everywhere] | None = None  # set where there are few rows
        self._everywhere: Everywhere | None = None

    def sums(self, weights: Float64s) -> Float64s:
        """For each cell the sum of its rows' weights."""
        return self._sums(weights, None, 1.0)

    def moments(self, weights: Float64s, values: Float64s) -> Float64s:
        """For each cell the sum of its rows' weights times values."""
        # The weights sum to one, so no sum exceeds the largest value.
        largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
        return self._sums(weights, values, max_over_ranks(self.comm, largest))

    def gram_product(self, prices: Float64s) -> GramProduct:
        """The operator Q diag(prices) Q^T, where Q is this matrix."""
        return MatrixGramProduct(self, prices)

    @property
    def everywhere(self) -> Everywhere | None:
        """The matrix over the rows of all ranks, if those are few; else None. Collective."""
        if self._everywhere is None and self.over_all_ranks is not None:
            self._everywhere = self.over_all_ranks()
        return self._everywhere

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
        return integer_sums / 2.0**exponent

    @abstractmethod
    def potentials(self, values: Float64s) -> Float64s:
        """For each row the sum of its cells' values."""

    @abstractmethod
    def gram(self, weights: Float64s) -> Float64s | None:
        """For each pair of cells the weight of the rows in both; None where that is too large."""

    @abstractmethod
    def _add(self, weights: Float64s, values: Float64s | None, exponent: int) -> Int64s:
        """For each cell the exact sum of weight (times value) times 2^exponent, rounded per row."""


class _MarginalGramProduct:
    """The gram product of cells of marginals: sums and potentials in one pass."""

    def __init__(self, product: kernels.GramProduct, threads: int | None, comm: Communicator) -> None:
        self._product, self._threads, self._comm = product, threads, comm

    def spread(self, weights: Float64s, values: Float64s) -> Float64s:
        """Compute Q diag(prices) Q^T (weights * values), one number per row."""
        largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
        bits = max(math.frexp(max_over_ranks(self._comm, largest))[1], LEAST_EXPONENT)
        exponent = MarginalMatrix.bits - bits
        masses = kernels.signed_masses(weights, values, exponent, threads=self._threads)
        return self._product.spread(masses, -exponent, threads=self._threads, comm=self._comm)


class CellMatrix(_ExactMatrix):
    """Single cells. Rows in the same cells form a group, and sums run over groups."""

    bits = 52  # sums of integers up to 2^53 are exact in doubles, in any order

    def __init__(
        self, cells: Int64s, groups: Groups, threads: int | None = None, comm: Communicator = ALONE
    ) -> None:
        super().__init__(cells, threads, comm)
        self._of_row, self._groups = groups.of_row, groups.count
        self._incidence = kernels.Incidence(*groups.incidence(), self.count)
        self._kept: tuple[Float64s, Float64s] | None = None  # weights and the covariance of the cells

    def potentials(self, values: Float64s) -> Float64s:
        """For each row the sum of its cells' values."""
        return self._incidence.potentials(values, threads=self.threads)[self._of_row]

    @property
    def draws(self) -> Float64s:
        """Zeros: no rows are left out."""
        return np.zeros(len(self._of_row))

    def over_rows(self, rows: Int64s) -> None:
        """Return None: the cost depends on the number of groups, not of rows."""

    def gram(self, weights: Float64s) -> Float64s | None:
        """For each pair of cells the weight of the rows in both.

        The covariance of the cells is kept while no row's weight changes by more than GRAM_DRIFT of it. It is
        then right to that relative error in every direction, and so is a Newton step with it.
        """
        if self._kept is not None:
            drifted = np.abs(weights - self._kept[0]) > GRAM_DRIFT * self._kept[0]
            if not sum_over_ranks(self.comm, int(np.count_nonzero(drifted))):
                means = self.sums(weights)
                return self._kept[1] + means[:, None] * means
        scale = 2.0 ** (self.bits - 1)
        of_groups = self._by_group(np.rint(weights * scale))
        shared = self._incidence.gram(of_groups, threads=self.threads).astype(np.int64)
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
    """Some or all cells of some marginals."""

    bits = kernels.MASS_BITS + 1  # so that a weight as an integer is its mass

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
        """The cells of positive precision that contain a row; the others answer 0 for any weights.

        cells: the numbers of the marginals' cells (default: 0, 1, ...).
        """
        most_bytes = int(EFFECT_MEMORY * available_memory()) // comm.size
        queries = marginals.among(np.flatnonzero(precision > 0), most_bytes=most_bytes)
        rows = queries.sums(np.ones(marginals.columns.rows, np.int64), threads=threads)
        comm.allreduce(rows)
        queries.keep(np.flatnonzero(rows))
        places = queries.places
        gram, most_pairs = None, MOST_PAIRS_PER_ROW * sum_over_ranks(comm, marginals.columns.rows)
        if len(places) <= NEWTON.most_exact and len(places) ** 2 <= most_pairs:
            gram = MarginalGram.of(workload, places, marginals.columns, threads)
        return cls(places if cells is None else cells[places], queries, threads, comm, gram)

    @cached_property
    def draws(self) -> Float64s:
        """A random number from 0 to 1 for each of this rank's rows."""
        return _draws(self._queries.columns)

    def potentials(self, values: Float64s) -> Float64s:
        """For each row the sum of its cells' values."""
        return self._queries.potentials(values, threads=self.threads)

    def gram(self, weights: Float64s) -> Float64s | None:
        """For each pair of cells the weight of the rows in both; None where there are too many cells."""
        if self._gram is None:
            return None
        masses, _ = kernels.to_masses(weights, threads=self.threads, comm=self.comm)
        shared = self._gram.sums(masses, self.threads)
        self.comm.allreduce(shared.reshape(-1))
        return shared / 2.0**kernels.MASS_BITS

    def gram_product(self, prices: Float64s) -> _MarginalGramProduct:
        """The operator Q diag(prices) Q^T, where Q is this matrix."""
        return _MarginalGramProduct(self._queries.gram_product(prices), self.threads, self.comm)

    def over_rows(self, rows: Int64s) -> tuple[MarginalMatrix, slice]:
        """Restrict to some of this rank's rows; keeps all cells."""
        some = self._queries.over(rows.astype(np.uint32))
        return MarginalMatrix(self.cells, some, self.threads, self.comm), slice(None)

    def _add(self, weights: Float64s, values: Float64s | None, exponent: int) -> Int64s:
        if values is None:
            masses, _ = kernels.to_masses(weights, threads=self.threads, comm=self.comm)
        else:
            masses = kernels.signed_masses(weights, values, exponent, threads=self.threads)
        return self._queries.sums(masses, threads=self.threads)


class RowMatrix(_ExactMatrix):
    """Cells of marginals with far more cells than rows: each row lists its cells."""

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
        """The cells of positive precision that contain a row; parameters as of MarginalMatrix.of."""
        places = _places(workload, columns)
        measured = precision[places] > 0
        starts = np.concatenate([[0], np.cumsum(measured.sum(axis=1))])
        row_cells = places[measured]  # row by row, ascending within a row
        if comm.size == 1:
            nonempty = np.unique(row_cells)
        else:
            occupied = np.zeros(workload.cells, np.int64)
            occupied[row_cells] = 1
            comm.allreduce(occupied)
            nonempty = np.flatnonzero(occupied)
        queries = np.searchsorted(nonempty, row_cells).astype(np.uint32)
        incidence = kernels.Incidence(starts, queries, len(nonempty))
        return cls(nonempty if cells is None else cells[nonempty], incidence, threads, comm, _draws(columns))

    def potentials(self, values: Float64s) -> Float64s:
        """For each row the sum of its cells' values."""
        return self._incidence.potentials(values, threads=self.threads)

    def gram(self, weights: Float64s) -> Float64s | None:
        """Return None: there are too many cells."""
        return None

    def over_rows(self, rows: Int64s) -> tuple[RowMatrix, Int64s]:
        """Restrict to some of this rank's rows; returns the cells that contain any, and their indices."""
        starts = self._incidence.starts
        lengths = np.diff(starts)[rows]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(starts[rows] - ends[:-1], lengths) + np.arange(ends[-1])
        queries = self._incidence.queries[places]
        occupied = np.zeros(self.count, np.int64)
        occupied[queries] = 1
        self.comm.allreduce(occupied)
        nonempty, number = np.flatnonzero(occupied), np.cumsum(occupied > 0) - 1
        incidence = kernels.Incidence(ends, number[queries].astype(np.uint32), len(nonempty))
        return RowMatrix(self.cells[nonempty], incidence, self.threads, self.comm), nonempty

    def _add(self, weights: Float64s, values: Float64s | None, exponent: int) -> Int64s:
        return self._incidence.sums(_rounded(weights, values, exponent)).astype(np.int64)


def _rounded(weights: Float64s, values: Float64s | None, exponent: int) -> Float64s:
    """Weights (times values) times 2^exponent, rounded to the nearest integers."""
    terms = weights.copy() if values is None else weights * values
    terms *= 2.0**exponent
    return np.rint(terms, out=terms)


def _draws(columns: kernels.Columns) -> Float64s:
    """A random number from 0 to 1 for each row: a hash of its codes, so that ranks agree."""
    stream = sampling_stream(0)
    hashes = np.full(columns.rows, stream.integers(0, 2**64, dtype=np.uint64))
    for codes in columns.columns:
        factor = stream.integers(0, 2**63, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        hashes += codes.astype(np.uint64) * factor
    draws: Float64s = (hashes >> np.uint64(11)) * 2.0**-53
    return draws


def _places(workload: Workload, columns: kernels.Columns) -> Int64s:
    """For each row and marginal the index of the row's cell in the workload."""
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
    """The measured cells of a workload that contain a row, as the cheaper kind of matrix.

    marginals: of the workload.
    """
    rows = sum_over_ranks(comm, marginals.columns.rows)
    matrix = (
        RowMatrix.of(workload, precision, marginals.columns, threads, comm, cells)
        if workload.cells > FEW_PER_CELL * rows * len(workload)
        else MarginalMatrix.of(workload, precision, marginals, threads, comm, cells)
    )
    if comm.size > 1 and are_few(rows, matrix.count):

        def over_all_ranks() -> Everywhere:
            columns, own = _columns_of_all_ranks(marginals.columns, comm, threads)
            over = marginals.over(columns, threads=threads)
            return Everywhere(matrix_of(workload, precision, over, threads, cells=cells), own)

        matrix.over_all_ranks = over_all_ranks
    return matrix


def are_few(rows: int, cells: int) -> bool:
    """Whether every rank solves over the rows of all ranks."""
    return rows <= max(FEW_ROWS_PER_CELL * cells, FEW_ROWS)


def _columns_of_all_ranks(
    columns: kernels.Columns, comm: Communicator, threads: int | None
) -> tuple[kernels.Columns, slice]:
    """The rows of all ranks, by rank, and the places of this rank's; sent once."""
    if columns not in _gathered:
        lengths = allgather(comm, np.int64(columns.rows))[: comm.rank + 1, 0]
        everyone = kernels.Columns(allgather_rows(comm, columns.columns), columns.sizes, threads=threads)
        _gathered[columns] = everyone, slice(int(lengths[:-1].sum()), int(lengths.sum()))
    return _gathered[columns]
