"""The degrees of freedom of a fit, along one direction of the answers.

At a fit with l2 slack w, W = diag(w), changing the answers by c changes the multipliers by (H + W^-1)^-1 c,
with H = Q^T C Q as in newton.py. With u0 = Q W c, the product of W c with the change of the fitted answers is

    c^T W H (H + W^-1)^-1 c = u0^T C (1 + Q W Q^T C)^-1 u0

Conjugate gradients in the inner product of C approach this value from below, with an error that is the square
of their solution's: a few passes over rows give it to a percent. Numbers only.
"""

from __future__ import annotations

from privmw.kernels.arrays import Float64s
from privmw.models.projection.newton import heavy_rows
from privmw.models.projection.queries import ProjectedQueries
from privmw.models.projection.rows import RowFunctions
from privmw.ranks import allgather_rows

LEAST_GAIN = 0.003  # stop when a step adds less than this share of the value
ROW_ACCURACY = 0.1  # as of a Newton step: which rows are left out


def freedom(
    matrix: ProjectedQueries, weights: Float64s, fitted: Float64s, w: Float64s, change: Float64s
) -> float:
    """The product of w * change with the change of the fitted answers when the answers change by `change`.

    weights: the fitted distribution; fitted: its answers; w: of the l2 slack, one per query.
    """
    if matrix.comm.size > 1 and (everywhere := matrix.everywhere) is not None:
        (weights,) = allgather_rows(matrix.comm, [weights])
        matrix = everywhere.matrix
    heavy = heavy_rows(matrix, weights, fitted, ROW_ACCURACY)
    matrix, weights, w, change = heavy.matrix, heavy.weights, w[heavy.queries], change[heavy.queries]
    functions = RowFunctions(matrix, weights, w)
    residual = functions.centred(matrix.potentials(w * change))
    direction, size, value = residual.copy(), functions.product(residual, residual), 0.0
    for _ in range(200):
        if size <= 0:
            break
        image = functions.spread(direction)
        image += direction
        curvature = functions.product(direction, image)
        if curvature <= 0:  # rounding: the direction is flat
            break
        length = size / curvature
        value += length * size
        if length * size <= LEAST_GAIN * value:
            break
        residual -= length * image
        before, size = size, functions.product(residual, residual)
        direction *= size / before
        direction += residual
    return value
