"""Gaussian noise: the discrete one that the curator adds, and the continuous one of other systems."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import ClassVar, Literal

import numpy as np

from privmw.accounting import Cost, DiscreteGaussian, Event, sigma_for_rho
from privmw.release.noises.distribution import LEAST_VARIANCE, MeasuredNoise, NoiseDistribution

SUMMED = 1e4  # sigma up to which a discrete Gaussian is summed; beyond, rounding a Gaussian is as good


class GaussianNoise(NoiseDistribution):
    """Continuous Gaussian noise.

    >>> GaussianNoise(3).variance, GaussianNoise(3).median_of_largest(1)
    (9.0, 0.0)
    """

    __slots__ = ()

    name: ClassVar[str] = "gaussian"
    family: ClassVar[str] = "gaussian"

    @property
    def variance(self) -> float:
        """Sigma squared."""
        return max(self.scale**2, LEAST_VARIANCE)

    def quantile(self, probability: float, tail: float) -> float:
        """The least value that a draw stays at or below with this probability, which is 1 - tail."""
        return self.scale * _normal_quantile(probability, tail)


class DiscreteGaussianNoise(MeasuredNoise):
    """Discrete Gaussian noise, paid in rho.

    >>> DiscreteGaussianNoise.scale_for(Fraction(1, 4), sensitivity=2)
    2.0
    """

    __slots__ = ()

    name: ClassVar[str] = DiscreteGaussian.kind
    family: ClassVar[str] = "gaussian"
    discrete: ClassVar[bool] = True
    unit: ClassVar[Literal["rho", "epsilon"]] = "rho"

    @property
    def variance(self) -> float:
        """Sigma squared, which is more than the variance by less than 1e-6 of it from sigma 1 on."""
        return max(self.scale**2, LEAST_VARIANCE)

    def quantile(self, probability: float, tail: float) -> float:
        """The least value that a draw stays at or below with this probability, which is 1 - tail."""
        if self.scale > SUMMED:
            return math.ceil(self.scale * _normal_quantile(probability, tail) - 0.5)
        reach = math.ceil(12 * self.scale) + 2
        values = np.arange(-reach, reach + 1)
        masses = np.exp(-((values / self.scale) ** 2) / 2)
        at_least = np.cumsum(masses[::-1])[::-1] / masses.sum()  # P(X >= value), accurate where it is small
        return float(values[np.flatnonzero(np.append(at_least[1:], 0.0) <= tail)[0]])

    @classmethod
    def scale_for(cls, share: Fraction, sensitivity: int, at_most: int = 1) -> float:
        """The smallest sigma that a share of rho pays for."""
        return sigma_for_rho(share, sensitivity * at_most**2)

    @classmethod
    def cost(cls, share: Fraction) -> Cost:
        """Rho alone: Gaussian noise has no pure epsilon."""
        return Cost(share, None)

    @classmethod
    def of_event(cls, event: Event) -> DiscreteGaussianNoise:
        """The noise that an event of the ledger says was added."""
        assert isinstance(event, DiscreteGaussian)
        return cls(float(event.sigma))


def _normal_quantile(probability: float, tail: float) -> float:
    return -NormalDist().inv_cdf(tail) if probability > 0.5 else NormalDist().inv_cdf(probability)
