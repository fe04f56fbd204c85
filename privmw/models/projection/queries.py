"""The interface of the queries that are projected onto. This room knows numbers only."""

from __future__ import annotations

from typing import Protocol

from privmw.kernels.arrays import Float64s, Int64s
from privmw.kernels.query_matrix import QueryMatrix


class PricedQueries(Protocol):
    """Queries over rows, with a price each."""

    def spread(self, weights: Float64s, values: Float64s) -> Float64s:
        """For each row the sum over its queries of price * (sum of weight * value over the query's rows)."""


class ProjectedQueries(QueryMatrix, Protocol):
    """Queries over rows, of which some may be taken."""

    @property
    def draws(self) -> Float64s:
        """A random number from 0 to 1 for each of this rank's rows: the same on any number of ranks."""

    def among(self, rows: Int64s) -> tuple[ProjectedQueries, Int64s | slice] | None:
        """The queries that hold some of this rank's rows, over those, and which they are of all queries.

        None where that is no cheaper.
        """

    def priced(self, prices: Float64s) -> PricedQueries:
        """The queries with these prices, none negative."""


class Priced:
    """Priced queries of any matrix: sums, then potentials."""

    def __init__(self, matrix: QueryMatrix, prices: Float64s) -> None:
        self._matrix, self._prices = matrix, prices

    def spread(self, weights: Float64s, values: Float64s) -> Float64s:
        """For each row the sum over its queries of price * (sum of weight * value over the query's rows)."""
        return self._matrix.potentials(self._prices * self._matrix.moments(weights, values))
