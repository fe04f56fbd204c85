"""How far a fit follows its answers: its degrees of freedom, along one direction of them.

At a fit with l2 slack, answers that move by c move the multipliers by (H + W^-1)^-1 c, with H = Q^T C Q as
in newton.py and W the prices of misses. With u0 = Q W c, W c times the change of the fitted answers is

    c^T W H (H + W^-1)^-1 c = u0^T C (1 + Q W Q^T C)^-1 u0

Conjugate gradients in the inner product of C have this value from below, with an error that is the square of
their solution's: a few passes over rows give it to a percent. This room knows numbers only.
"""

from __future__ import annotations

from privmw.kernels.arrays import Float64s
from privmw.models.projection.newton import heavy_rows
from privmw.models.projection.queries import ProjectedQueries
from privmw.models.projection.rows import RowFunctions

SETTLED = 0.003  # of the value: a step that adds less is the last
ACCURACY = 0.1  # of the rows that matter for it
MOST_STEPS = 200


def freedom(
    matrix: ProjectedQueries, weights: Float64s, fitted: Float64s, w: Float64s, change: Float64s
) -> float:
    """The gain of the fitted answers when the answers move by `change`, times w * change.

    weights: the fitted distribution; fitted: its answers; w: the prices of misses, one for each query.
    """
    heavy = heavy_rows(matrix, weights, fitted, ACCURACY)
    matrix, weights, w, change = heavy.matrix, heavy.weights, w[heavy.held], change[heavy.held]
    functions = RowFunctions(matrix, weights, w)
    residual = functions.centred(matrix.potentials(w * change))
    direction, size, value = residual.copy(), functions.product(residual, residual), 0.0
    for _ in range(MOST_STEPS):
        if size <= 0:
            break
        image = functions.spread(direction)
        image += direction
        curvature = functions.product(direction, image)
        if curvature <= 0:  # rounding: the direction is flat
            break
        length = size / curvature
        value += length * size
        if length * size <= SETTLED * value:
            break
        residual -= length * image
        before, size = size, functions.product(residual, residual)
        direction *= size / before
        direction += residual
    return value
