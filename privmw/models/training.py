"""Gradient descent by Adam, and the steps that a fit takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.floating[Any]]

MEAN_DECAY, SQUARE_DECAY, TINY = 0.9, 0.99, 1e-12  # of Adam


@dataclass(frozen=True, slots=True)
class Training:
    """The steps of a round's fit.

    rate: the step size at first; it falls to 0 as half a cosine. prior_weight: in records, of independent
    attributes; None chooses it from the noise.
    """

    steps: int
    rate: float
    prior_weight: float | None = None

    def rate_at(self, step: int) -> float:
        """The size of a step."""
        return self.rate * (1 + math.cos(math.pi * step / self.steps)) / 2


class Adam:
    """Adam (Kingma and Ba 2015) on one array, in place.

    damping: added to the root mean square gradient; smaller gradients make steps below the rate.
    """

    def __init__(self, parameters: Floats, damping: float = TINY) -> None:
        self._parameters, self._damping = parameters, damping
        self._mean, self._square, self._steps = np.zeros_like(parameters), np.zeros_like(parameters), 0

    def step(self, gradient: Floats, rate: float) -> None:
        """Apply a gradient."""
        self._steps += 1
        self._mean += (1 - MEAN_DECAY) * (gradient - self._mean)
        self._square += (1 - SQUARE_DECAY) * (gradient * gradient - self._square)
        size = np.sqrt(self._square / (1 - SQUARE_DECAY**self._steps)) + self._damping
        self._parameters -= (rate / (1 - MEAN_DECAY**self._steps)) * self._mean / size
