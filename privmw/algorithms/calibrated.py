"""What every algorithm with a budget has: the looks it will take, and what they cost together."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privmw.accounting import Budget, Composition
from privmw.accounting.looks import Look
from privmw.accounting.rounding import Real, float_up, probability
from privmw.accounting.statement import show
from privmw.secrecy import shown


@dataclass(frozen=True)
class Calibrated(ABC):
    """An algorithm with a budget. Its cost is known before it is called on a private table."""

    algorithm: Any
    budget: Budget

    def __post_init__(self) -> None:
        """Refuse a budget whose rho is not a finite float."""
        if math.isinf(self.rho):
            raise ValueError(f"budget ({shown(self.budget)}) must be less: its rho is beyond any float")

    @property
    @abstractmethod
    def events(self) -> tuple[Look, ...]:
        """Every look at the private table with its largest cost, before any size is known."""

    @property
    def rho(self) -> float:
        """The zCDP cost of a run."""
        return float_up(Composition.of(self.events).rho)

    def epsilon(self, delta: Real) -> float:
        """The epsilon of a run at a delta; infinite at delta 0 if the noise is Gaussian."""
        bound = Composition.of(self.events).epsilon_at(probability("delta", delta, zero=True))
        return math.inf if bound is None else float_up(bound)

    def _spends(self, unit: str) -> str:
        """The first line of a statement; every figure is rounded up."""
        budget = f"{self.budget.unit} = {show(float_up(self.budget.limit))}"
        if self.budget.delta is not None:
            epsilon = show(float_up(Fraction(self.budget.epsilon or 0)))
            budget += f" (epsilon = {epsilon} at delta = {show(self.budget.delta)})"
        name = type(self.algorithm).__name__
        return f"{name}: a run spends at most {budget}; neighbouring tables replace one {unit}."
