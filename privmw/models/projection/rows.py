"""Functions on the rows of a distribution: their inner product, and conjugate gradients with it.

With a distribution D, Q its rows x queries, C = diag(D) - D D^T and W the prices of queries, a step of
Newton's method solves (Q^T C Q + W^-1) d = r. Conjugate gradients preconditioned by W stay among the
d = W (x r + Q^T C h) with a number x and a function h on rows, and every inner product that they need follows
from Q W r and Q W Q^T C h: so they run over rows, where those are fewer than the queries, step for step the
same, and touch the queries at the end only.

Rows may lie on several ranks: what is summed over them is a sum of integers. This room knows numbers only.
"""

from __future__ import annotations

import math

import numpy as np

from privmw.kernels.arrays import Float64s
from privmw.models.projection.queries import ProjectedQueries
from privmw.ranks import max_over_ranks

BITS = 61  # of a sum over rows
LEAST_EXPONENT = -900  # of a largest value: below it, there is nothing but rounding


class RowFunctions:
    """Functions on the rows of a distribution whose mean is 0, and the queries' prices."""

    def __init__(self, matrix: ProjectedQueries, weights: Float64s, prices: Float64s) -> None:
        self._comm, self._weights, self._priced = matrix.comm, weights, matrix.priced(prices)

    def product(self, a: Float64s, b: Float64s) -> float:
        """The covariance of two functions."""
        return self._total(self._weights * a * b, self._largest(a) * self._largest(b))

    def centred(self, values: Float64s) -> Float64s:
        """The values less their mean, in place."""
        values -= self._total(self._weights * values, self._largest(values))
        return values

    def spread(self, values: Float64s) -> Float64s:
        """Q W Q^T C times a function: potentials of the queries' covariances with it times their prices."""
        return self.centred(self._priced.spread(self._weights, values))

    def _total(self, terms: Float64s, bound: float) -> float:
        # Of integers, over the rows of all ranks. The weights total one: no sum is beyond the bound.
        if bound == 0:
            return 0.0
        scale = 2.0 ** (BITS - max(math.frexp(bound)[1], LEAST_EXPONENT))
        terms *= scale
        sums = np.rint(terms, out=terms).astype(np.int64).sum(keepdims=True)
        self._comm.allreduce(sums)
        return float(sums[0] / scale)

    def _largest(self, values: Float64s) -> float:
        # Over all ranks, before it is multiplied: the bound, and so the rounding, is the same on each.
        return max_over_ranks(self._comm, float(max(values.max(initial=0.0), -values.min(initial=0.0))))


def conjugate_gradients_over_rows(
    functions: RowFunctions, start: Float64s, first: float, enough: float, most_steps: int
) -> tuple[float, Float64s, int]:
    """The number x and the function h of the solution, and the steps that it took.

    start: Q W r, centred; first: r^T W r. Ends when that of the residual is `enough`, or after so many steps.
    """
    x, h = 0.0, np.zeros_like(start)
    # The residual is  of_residual r + Q^T C residual, the direction W (of_direction r + Q^T C direction) with
    # its potentials; `scaled` are those of W times the residual.
    of_residual = of_direction = 1.0
    residual, direction = np.zeros_like(start), np.zeros_like(start)
    potentials = start.copy()
    size, steps = first, 0
    while size > enough and steps < most_steps:
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
