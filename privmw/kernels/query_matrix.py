"""The protocol of matrices of queries over rows, with which projections and fits compute.

Implemented by `Tallies`, over a histogram or a table's rows, and by the matrices of
privmw/models/query_matrix.py, whose sums are exact over any number of ranks.
"""

from __future__ import annotations

from typing import Protocol

from privmw.kernels.arrays import Float64s
from privmw.ranks import Communicator


class QueryMatrix(Protocol):
    """The 0/1 matrix, rows x queries, of which row matches which query; never materialised."""

    @property
    def count(self) -> int:
        """The number of queries."""

    @property
    def comm(self) -> Communicator:
        """The ranks that share the rows: weights and potentials are of this rank's rows, sums are of all."""

    @property
    def threads(self) -> int | None:
        """Threads of the kernels; None is all."""

    def sums(self, weights: Float64s) -> Float64s:
        """For each query the sum of the weights of its rows."""

    def moments(self, weights: Float64s, values: Float64s) -> Float64s:
        """For each query the sum of weight times value, of either sign, over its rows."""

    def potentials(self, values: Float64s) -> Float64s:
        """For each row the sum of the values of its queries: the adjoint of `sums`."""

    def gram(self, weights: Float64s) -> Float64s | None:
        """For each pair of queries the weight of the rows that match both; None where that is too large."""
