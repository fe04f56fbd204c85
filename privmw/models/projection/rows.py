"""Functions on the rows of a distribution: their inner product, and conjugate gradients with it.

With a distribution D, Q its rows x queries, C = diag(D) - D D^T and W the prices of queries, a step of
Newton's method solves (Q^T C Q + W^-1) d = r. The iterates of conjugate gradients preconditioned by W have
the form d = W (x r + Q^T C h) with a number x and a function h on rows, and every inner product that they
need follows from Q W r and Q W Q^T C h. So the same steps run over rows, where those are fewer than queries.

Rows may lie on several ranks: sums over rows are sums of integers. Numbers only.
"""

from __future__ import annotations

import math

import numpy as np

from privmw.kernels.arrays import Float64s
from privmw.kernels.cells import LEAST_EXPONENT
from privmw.models.projection.queries import ProjectedQueries
from privmw.ranks import allgather

SUM_BITS = 61


class RowFunctions:
    """Inner products of functions on the rows of a distribution, and Q W Q^T C for the prices W."""

    def __init__(self, matrix: ProjectedQueries, weights: Float64s, prices: Float64s) -> None:
        self._comm, self._weights = matrix.comm, weights
        self._gram_product = matrix.gram_product(prices)

    def product(self, a: Float64s, b: Float64s) -> float:
        """The covariance of two functions."""
        largest = self._largest(a) if a is b else self._largest(a, b)
        return self._total(self._weights * a * b, float(largest[0] * largest[-1]))

    def centred(self, values: Float64s) -> Float64s:
        """The values less their mean, in place."""
        values -= self._total(self._weights * values, float(self._largest(values)[0]))
        return values

    def spread(self, values: Float64s) -> Float64s:
        """Q W Q^T C times a function, centred."""
        return self.centred(self._gram_product.spread(self._weights, values))

    def _total(self, terms: Float64s, bound: float) -> float:
        # A sum of integers over all ranks. The weights sum to one, so no sum exceeds the bound.
        if bound == 0:
            return 0.0
        scale = 2.0 ** (SUM_BITS - max(math.frexp(bound)[1], LEAST_EXPONENT))
        terms *= scale
        sums = np.rint(terms, out=terms).astype(np.int64).sum(keepdims=True)
        self._comm.allreduce(sums)
        return float(sums[0] / scale)

    def _largest(self, *functions: Float64s) -> Float64s:
        # Over all ranks, so that every rank rounds alike.
        largest = [max(values.max(initial=0.0), -values.min(initial=0.0)) for values in functions]
        over_ranks: Float64s = allgather(self._comm, largest).max(axis=0)
        return over_ranks


def conjugate_gradients_over_rows(
    functions: RowFunctions, start: Float64s, first: float, allowed: float, most_steps: int
) -> tuple[float, Float64s, int]:
    """The number x and the function h of the solution, and the number of steps.

    start: Q W r, centred; first: r^T W r. Ends when the residual's r^T W r is at most `allowed`, or after
    `most_steps`.
    """
    x, h = 0.0, np.zeros_like(start)
    # The residual is  of_residual r + Q^T C residual; the direction is W (of_direction r + Q^T C direction),
    # `potentials` are its potentials; `scaled` are those of W times the residual.
    of_residual = of_direction = 1.0
    residual, direction = np.zeros_like(start), np.zeros_like(start)
    potentials = start.copy()
    size, steps = first, 0
    while size > allowed and steps < most_steps:
        steps += 1
        curvature = of_direction**2 * first + functions.product(potentials, potentials)
        curvature += functions.product(direction, of_direction * start + potentials)
        if curvature <= 0:  # rounding: the direction is flat
            break
        length = size / curvature
        x += length * of_direction
        h += length * direction
        of_residual -= length * of_direction
        residual -= length * (potentials + direction)
        scaled = functions.spread(residual)
        scaled += of_residual * start
        before, size = size, of_residual**2 * first
        size += functions.product(residual, of_residual * start + scaled)
        of_direction = of_residual + size / before * of_direction
        direction *= size / before
        direction += residual
        potentials *= size / before
        potentials += scaled
    return x, h, steps
