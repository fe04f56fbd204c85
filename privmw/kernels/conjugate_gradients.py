"""Preconditioned conjugate gradients in Python, for projections and for the Python backends' fits.

The native version of the latter is csrc/core/linear.cpp.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privmw.kernels.arrays import Float64s


def conjugate_gradients(
    product: Callable[[Float64s], Float64s],
    residual: Float64s,
    solution: Float64s,
    scaling: Float64s,
    *,
    dot: Callable[[Float64s, Float64s], float],
    enough: float | Callable[[Float64s], bool],
    most_steps: int,
) -> None:
    """Add to `solution` the x that solves A x = residual, for a symmetric, positive definite A.

    product: A times a direction. residual: in, the right-hand side; out, what is left of it. scaling: the
    diagonal of the preconditioner, an approximate inverse of A, non-negative. dot: the inner product; its
    order of additions is the caller's. Ends when the scaled residual is `enough` times the first one, or
    `enough(residual)` is true; after `most_steps`; or when rounding makes a direction flat.

    Works in place: allocating arrays of a million numbers is slow.

    >>> matrix, residual, solution = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0]), np.zeros(2)
    >>> conjugate_gradients(
    ...     matrix.dot, residual, solution, 1 / matrix.diagonal(), dot=np.dot, enough=1e-12, most_steps=9
    ... )
    >>> solution.round(6)
    array([0.090909, 0.636364])
    """
    scaled = scaling * residual
    direction = scaled.copy()
    change = np.empty_like(scaled)
    size = first = dot(residual, scaled)
    for _ in range(most_steps):
        if size <= 0:
            break
        image = product(direction)
        curvature = dot(direction, image)
        if curvature <= 0:  # rounding: the direction is flat
            break
        length = size / curvature
        solution += np.multiply(direction, length, out=change)
        residual -= np.multiply(image, length, out=change)
        np.multiply(scaling, residual, out=scaled)
        before, size = size, dot(residual, scaled)
        if size <= 0 or (enough(residual) if callable(enough) else size <= enough**2 * first):
            break
        direction *= size / before
        direction += scaled
