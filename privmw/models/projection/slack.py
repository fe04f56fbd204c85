"""The terms that a projection's dual adds to the log partition function: slack, and the pull to an anchor.

Numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmw.kernels.arrays import Float64s
from privmw.models.projection.newton import dot


@dataclass(frozen=True, slots=True, eq=False)
class Slack:
    """Tolerance for errors of the answers: up to gamma (l1), or at a cost of w / 2 * error^2 (l2)."""

    gamma: Float64s | None = None
    w: Float64s | None = None

    def value(self, multipliers: Float64s) -> float:
        """The term that slack adds to the dual."""
        if self.gamma is not None:
            return dot(self.gamma, np.abs(multipliers))
        assert self.w is not None
        return float((multipliers * multipliers / self.w).sum()) / 2

    def gradient(self, multipliers: Float64s, errors: Float64s) -> Float64s:
        """The dual's gradient; for l1 its minimum-norm subgradient."""
        if self.w is not None:
            return errors + multipliers / self.w
        assert self.gamma is not None
        at_zero = np.sign(errors) * np.maximum(np.abs(errors) - self.gamma, 0)
        return np.where(multipliers != 0, errors + self.gamma * np.sign(multipliers), at_zero)

    def gap(self, multipliers: Float64s, errors: Float64s) -> float:
        """The duality gap: the primal objective at this distribution minus the dual."""
        if self.w is not None:
            gradient = errors + multipliers / self.w
            return float(np.einsum("i,i,i->", self.w, gradient, gradient)) / 2
        assert self.gamma is not None
        return float(np.abs(multipliers * errors + self.gamma * np.abs(multipliers)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Iterate:
    """Multipliers with their distribution; errors: its answers less the measured ones."""

    multipliers: Float64s
    potentials: Float64s
    weights: Float64s
    log_total: float
    errors: Float64s


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """The slack and the proximal term sum_i pull_i (l_i - anchor_i)^2 / 2 of multipliers l."""

    gamma: Float64s | None
    curve: Float64s | float
    anchor: Float64s
    pull: Float64s

    def best(self, errors: Float64s) -> Float64s:
        """The multipliers that minimise `cost` at these errors."""
        slope = self.anchor * self.pull - errors
        if self.gamma is not None:
            slope = np.sign(slope) * np.maximum(np.abs(slope) - self.gamma, 0.0)
        return slope / (self.curve + self.pull)

    def cost(self, multipliers: Float64s, errors: Float64s) -> float:
        """Sum of l_i errors_i, slack and pull. KL minus its minimum over l is the goal's primal value."""
        distance = multipliers - self.anchor
        costs = multipliers * errors
        costs += self.curve * multipliers * multipliers / 2 + self.pull * distance * distance / 2
        if self.gamma is not None:
            costs += self.gamma * np.abs(multipliers)
        return float(costs.sum())

    def gap(self, at: Iterate) -> float:
        """The goal's duality gap."""
        return self.cost(at.multipliers, at.errors) - self.cost(self.best(at.errors), at.errors)

    def pull_cost(self, multipliers: Float64s) -> float:
        """The proximal term at these multipliers."""
        distance = multipliers - self.anchor
        return float(np.einsum("i,i,i->", self.pull, distance, distance)) / 2
