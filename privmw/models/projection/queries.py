"""What `project` needs to know of its queries: the protocol of their matrix. Numbers only."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from privmw.kernels.arrays import Float64s, Int64s
from privmw.kernels.query_matrix import QueryMatrix


class Everywhere(NamedTuple):
    """A matrix over the rows of all ranks, on every rank; `own` are the places of this rank's rows."""

    matrix: ProjectedQueries
    own: slice


class GramProduct(Protocol):
    """The operator Q diag(prices) Q^T on rows, where Q is the matrix, rows x queries."""

    def spread(self, weights: Float64s, values: Float64s) -> Float64s:
        """Compute Q diag(prices) Q^T (weights * values), one number per row."""


class ProjectedQueries(QueryMatrix, Protocol):
    """Queries over rows that can be restricted to some of the rows."""

    @property
    def draws(self) -> Float64s:
        """A random number from 0 to 1 for each of this rank's rows: the same on any number of ranks."""

    def over_rows(self, rows: Int64s) -> tuple[ProjectedQueries, Int64s | slice] | None:
        """Restrict to some of this rank's rows; returns the queries that match any, and their indices.

        None where that is no cheaper.
        """

    @property
    def everywhere(self) -> Everywhere | None:
        """The matrix over the rows of all ranks, where there are several ranks and few rows. Collective.

        A solver that has it needs no rank any more: the same bits, without a collective call a step.
        """

    def gram_product(self, prices: Float64s) -> GramProduct:
        """The operator Q diag(prices) Q^T; prices are not negative."""


class MatrixGramProduct:
    """The gram product of any matrix: sums, then potentials."""

    def __init__(self, matrix: QueryMatrix, prices: Float64s) -> None:
        self._matrix, self._prices = matrix, prices

    def spread(self, weights: Float64s, values: Float64s) -> Float64s:
        """Compute Q diag(prices) Q^T (weights * values), one number per row."""
        return self._matrix.potentials(self._prices * self._matrix.moments(weights, values))
