"""How far a fit follows its answers: its degrees of freedom, along one direction of them.

At a fit with l2 slack, answers that move by c move the multipliers by (H + W^-1)^-1 c, with H = Q^T C Q as
in newton.py and W the prices of misses. With u0 = Q W c, W c times the change of the fitted answers is

    c^T W H (H + W^-1)^-1 c = u0^T C (1 + Q W Q^T C)^-1 u0

Conjugate gradients in the inner product of C have this value from below, with an error that is the square of
their solution's: a few passes over rows give it to a percent. This room knows numbers only.
"""

from __future__ import annotations

import math

import numpy as np

from privmw.kernels.arrays import Float64s
from privmw.models.projection.newton import ProjectedQueries, heavy_rows
from privmw.ranks import max_over_ranks

SETTLED = 0.003  # of the value: a step that adds less is the last
ACCURACY = 0.1  # of the rows that matter for it
MOST_STEPS = 200
BITS = 61  # of a sum over rows
LEAST_EXPONENT = -900  # of a largest value: below it, there is nothing but rounding


def freedom(
    matrix: ProjectedQueries, weights: Float64s, fitted: Float64s, w: Float64s, change: Float64s
) -> float:
    """The gain of the fitted answers when the answers move by `change`, times w * change.

    weights: the fitted distribution; fitted: its answers; w: the prices of misses, one for each query.
    """
    heavy = heavy_rows(matrix, weights, fitted, ACCURACY)
    matrix, weights, w, change = heavy.matrix, heavy.weights, w[heavy.held], change[heavy.held]

    def total(terms: Float64s, bound: float) -> float:
        # Of integers, over the rows of all ranks. The weights total one: no sum is beyond the bound.
        bound = max_over_ranks(matrix.comm, bound)
        if bound == 0:
            return 0.0
        scale = 2.0 ** (BITS - max(math.frexp(bound)[1], LEAST_EXPONENT))
        sums = np.rint(terms * scale).astype(np.int64).sum(keepdims=True)
        matrix.comm.allreduce(sums)
        return float(sums[0] / scale)

    def product(a: Float64s, b: Float64s) -> float:
        return total(weights * a * b, _largest(a) * _largest(b))

    def centred(values: Float64s) -> Float64s:
        moved: Float64s = values - total(weights * values, _largest(values))
        return moved

    residual = centred(matrix.potentials(w * change))
    direction, size, value = residual.copy(), product(residual, residual), 0.0
    for _ in range(MOST_STEPS):
        if size <= 0:
            break
        image = centred(matrix.potentials(w * matrix.moments(weights, direction)))
        image += direction
        curvature = product(direction, image)
        if curvature <= 0:  # rounding: the direction is flat
            break
        length = size / curvature
        value += length * size
        if length * size <= SETTLED * value:
            break
        residual -= length * image
        before, size = size, product(residual, residual)
        direction *= size / before
        direction += residual
    return value


def _largest(values: Float64s) -> float:
    return float(np.abs(values).max(initial=0.0))
