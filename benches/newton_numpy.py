"""The dual Newton method of a non-negative fit in plain numpy, over a full histogram with identity.

What the compiled kernel is measured against: the same method, conjugate gradients and all, written as a numpy
user would write it for large sizes. Marginals are sums over axes, their adjoints broadcast additions.
"""

from __future__ import annotations

import numpy as np


class Axes:
    """Marginals of an array: sums over the other axes, and back."""

    def __init__(self, sizes: list[int], marginals: list[tuple[int, ...]]) -> None:
        self.sizes = tuple(sizes)
        self.others = [tuple(a for a in range(len(sizes)) if a not in marginal) for marginal in marginals]
        self.shapes = [
            tuple(size if a in marginal else 1 for a, size in enumerate(sizes)) for marginal in marginals
        ]
        self.ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]

    def sums(self, weights: np.ndarray) -> np.ndarray:
        return np.concatenate([weights.sum(axis=others).ravel() for others in self.others])

    def potentials(self, values: np.ndarray) -> np.ndarray:
        out = np.zeros(self.sizes)
        for part, shape in zip(np.split(values, self.ends), self.shapes, strict=True):
            out += part.reshape(shape)
        return out


def fit(
    axes: Axes, centre: np.ndarray, variance: float, answers: np.ndarray, spread: float, tolerance: float
) -> tuple[np.ndarray, int]:
    """Non-negative weights and the Newton steps taken."""
    multipliers = np.zeros(len(answers))
    potentials = np.zeros(axes.sizes)
    worst = 0.0
    for step in range(100):
        weights = np.maximum(centre - variance * potentials, 0)
        missing = axes.sums(weights) - answers - spread * multipliers
        left = np.abs(missing).max()
        worst = max(worst, left)
        if left <= tolerance:
            return weights, step
        above = weights > 0
        accuracy = min(0.01, max(left / worst, tolerance / left) / 10)
        direction = conjugate_gradients(axes, variance * above, spread, missing, accuracy)
        along = axes.potentials(direction)
        first, length = -direction @ missing, 1.0
        while True:  # half a step until the slope along the direction is no longer steeply upwards
            ahead = np.maximum(centre - variance * (potentials + length * along), 0)
            slope = (
                direction @ (answers + spread * (multipliers + length * direction)) - (along * ahead).sum()
            )
            if slope <= -0.1 * first or length < 1e-6:
                break
            length /= 2
        multipliers += length * direction
        potentials += length * along
    return weights, step


def conjugate_gradients(
    axes: Axes, inner: np.ndarray, spread: float, right: np.ndarray, accuracy: float
) -> np.ndarray:
    scaling = 1 / (axes.sums(inner) + spread)
    found, residual = np.zeros(len(right)), right.copy()
    scaled = scaling * residual
    direction, size = scaled.copy(), residual @ scaled
    enough = size * accuracy**2
    for _ in range(400):
        if size <= enough:
            break
        product = axes.sums(inner * axes.potentials(direction)) + spread * direction
        length = size / (direction @ product)
        found += length * direction
        residual -= length * product
        scaled = scaling * residual
        before, size = size, residual @ scaled
        direction = scaled + size / before * direction
    return found
