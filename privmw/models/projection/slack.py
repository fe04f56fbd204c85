"""The costs of a projection's multipliers: of missed answers, and of their distance from an anchor.

This room knows numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmw.kernels.arrays import Float64s
from privmw.models.projection.newton import dot


@dataclass(frozen=True, slots=True, eq=False)
class Slack:
    """How measured answers may be missed: within gamma (l1), or at a price of w / 2 a square (l2)."""

    gamma: Float64s | None = None
    w: Float64s | None = None

    def value(self, multipliers: Float64s) -> float:
        """The slack's part of the dual at these multipliers."""
        if self.gamma is not None:
            return dot(self.gamma, np.abs(multipliers))
        assert self.w is not None
        return float((multipliers * multipliers / self.w).sum()) / 2

    def gradient(self, multipliers: Float64s, missed: Float64s) -> Float64s:
        """The dual's gradient; for l1 its smallest subgradient, 0 where a multiplier of 0 should stay."""
        if self.w is not None:
            return missed + multipliers / self.w
        assert self.gamma is not None
        at_rest = np.sign(missed) * np.maximum(np.abs(missed) - self.gamma, 0)
        return np.where(multipliers != 0, missed + self.gamma * np.sign(multipliers), at_rest)

    def gap(self, multipliers: Float64s, missed: Float64s) -> float:
        """The duality gap: KL (and the l2 penalty) of the distribution minus the lower bound of the dual."""
        if self.w is not None:
            rest = missed + multipliers / self.w
            return float(np.einsum("i,i,i->", self.w, rest, rest)) / 2
        assert self.gamma is not None
        return float(np.abs(multipliers * missed + self.gamma * np.abs(multipliers)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Multipliers, their distribution, and by how much its answers differ from the measured ones."""

    multipliers: Float64s
    potentials: Float64s
    weights: Float64s
    log_total: float
    missed: Float64s


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """The slack, and a pull to an anchor: pull_i (l_i - anchor_i)^2 / 2 more for multipliers l."""

    gamma: Float64s | None
    curve: Float64s | float
    anchor: Float64s
    pull: Float64s

    def best(self, missed: Float64s) -> Float64s:
        """The multipliers that minimise `paid` at these missed answers."""
        wanted = self.anchor * self.pull - missed
        if self.gamma is not None:
            wanted = np.sign(wanted) * np.maximum(np.abs(wanted) - self.gamma, 0.0)
        return wanted / (self.curve + self.pull)

    def paid(self, multipliers: Float64s, missed: Float64s) -> float:
        """Sum of l_i missed_i, slack and pull. KL minus this, at its best l, is the goal's primal value."""
        away = multipliers - self.anchor
        costs = multipliers * missed
        costs += self.curve * multipliers * multipliers / 2 + self.pull * away * away / 2
        if self.gamma is not None:
            costs += self.gamma * np.abs(multipliers)
        return float(costs.sum())

    def short(self, at: Place) -> float:
        """The goal's duality gap at a place."""
        return self.paid(at.multipliers, at.missed) - self.paid(self.best(at.missed), at.missed)

    def moved(self, best: Float64s) -> float:
        """The cost of the pull to the anchor at these multipliers."""
        away = best - self.anchor
        return float(np.einsum("i,i,i->", self.pull, away, away)) / 2
