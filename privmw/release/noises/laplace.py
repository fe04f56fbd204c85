"""Laplace noise: the discrete one that the curator adds, and the continuous one of other systems."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Literal

from privmw.accounting import Cost, DiscreteLaplace, Event, scale_for_epsilon
from privmw.release.noises.distribution import LEAST_VARIANCE, MeasuredNoise, NoiseDistribution


class LaplaceNoise(NoiseDistribution):
    """Continuous Laplace noise.

    >>> LaplaceNoise(8).variance, round(LaplaceNoise(8).above(100, 0.99), 3)
    (128.0, 68.098)
    """

    __slots__ = ()

    name: ClassVar[str] = "laplace"
    family: ClassVar[str] = "laplace"

    @property
    def variance(self) -> float:
        """Twice the squared scale."""
        return max(self.scale**2 * 2, LEAST_VARIANCE)

    def quantile(self, probability: float, tail: float) -> float:
        """The least value that a draw stays at or below with this probability, which is 1 - tail."""
        if probability > 0.5:
            return -self.scale * math.log(2 * tail)
        return self.scale * math.log(2 * probability)


class DiscreteLaplaceNoise(MeasuredNoise):
    """Discrete Laplace noise, paid in epsilon.

    >>> DiscreteLaplaceNoise.scale_for(Fraction(1, 2), sensitivity=2)
    4.0
    """

    __slots__ = ()

    name: ClassVar[str] = DiscreteLaplace.kind
    family: ClassVar[str] = "laplace"
    discrete: ClassVar[bool] = True
    unit: ClassVar[Literal["rho", "epsilon"]] = "epsilon"

    @property
    def variance(self) -> float:
        """2 p / (1 - p)^2 with p = exp(-1 / scale).

        >>> round(DiscreteLaplaceNoise(2).variance, 6)
        7.835396
        """
        exponent = -1 / self.scale
        return max(2 * math.exp(exponent) / math.expm1(exponent) ** 2, LEAST_VARIANCE)

    def quantile(self, probability: float, tail: float) -> float:
        """The least value that a draw stays at or below with this probability, which is 1 - tail."""
        # P(X > k) = p^(k + 1) / (1 + p) for k >= 0, and P(X <= k) = p^-k / (1 + p) for k < 0
        p = math.exp(-1 / self.scale)
        if probability * (1 + p) > p:
            return max(math.ceil(-self.scale * math.log(tail * (1 + p)) - 1), 0)
        return math.ceil(self.scale * math.log(probability * (1 + p)))

    @classmethod
    def scale_for(cls, share: Fraction, sensitivity: int, at_most: int = 1) -> float:
        """The smallest scale that a share of epsilon pays for."""
        return scale_for_epsilon(share, sensitivity * at_most)

    @classmethod
    def cost(cls, share: Fraction) -> Cost:
        """Epsilon, and the rho that it implies."""
        return Cost(share**2 / 2, share)

    @classmethod
    def of_event(cls, event: Event) -> DiscreteLaplaceNoise:
        """The noise that an event of the ledger says was added."""
        assert isinstance(event, DiscreteLaplace)
        return cls(float(event.scale))
