"""What every noise distribution has: a name, a scale, a variance and quantiles. Nothing is drawn here."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from privmw.accounting import Cost, Event
from privmw.kernels.checks import check_number

LARGEST_SCALE = 2.0**62
LEAST_VARIANCE = 1e-100  # noise this small never shows in an integer; its inverse stays finite


@dataclass(frozen=True, slots=True)
class NoiseDistribution(ABC):
    """The distribution of a noisy count's error, in counts.

    scale: sigma of a Gaussian, the scale of a Laplace distribution. family: distributions of one family may
    be combined into one where sums of them stay in the family.
    """

    scale: float

    name: ClassVar[str]
    family: ClassVar[str]
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse scales without a variance."""
        scale = check_number("scale", self.scale)
        if not 0 < scale <= LARGEST_SCALE:
            raise ValueError(f"scale ({scale}) must be above 0 and at most 2^62")
        object.__setattr__(self, "scale", scale)

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of one noisy count."""

    @abstractmethod
    def quantile(self, probability: float, tail: float) -> float:
        """The least value that a draw stays at or below with this probability, which is 1 - tail."""

    def above(self, count: int, confidence: float) -> float:
        """The least value that `count` draws all stay below with this probability."""
        return self.quantile(*_of_each(count, confidence)) + (1 if self.discrete else 0)

    def median_of_largest(self, count: int) -> float:
        """The median of the largest of `count` draws."""
        return self.quantile(*_of_each(count, 0.5))


class MeasuredNoise(NoiseDistribution):
    """Noise that the curator adds: what a share of the budget buys, and what it costs."""

    __slots__ = ()

    unit: ClassVar[Literal["rho", "epsilon"]]  # of a share, and the argument of Curator.measure

    @classmethod
    @abstractmethod
    def scale_for(cls, share: Fraction, sensitivity: int, at_most: int = 1) -> float:
        """The smallest scale that a share pays for.

        sensitivity: how many counts a record moves by one. at_most: how many records a unit has.
        """

    @classmethod
    @abstractmethod
    def cost(cls, share: Fraction) -> Cost:
        """What a measurement with this share costs at most."""

    @classmethod
    @abstractmethod
    def of_event(cls, event: Event) -> MeasuredNoise:
        """The noise that an event of the ledger says was added."""

    @classmethod
    def argument(cls, share: Fraction) -> dict[str, Any]:
        """The share as an argument of Curator.measure.

        >>> from privmw.release.noises import DiscreteGaussianNoise
        >>> DiscreteGaussianNoise.argument(Fraction(1, 2))
        {'rho': Fraction(1, 2)}
        """
        return {cls.unit: share}


def _of_each(count: int, confidence: float) -> tuple[float, float]:
    """The probability with which each of `count` draws must stay below so that all do, and its complement."""
    exponent = math.log(confidence) / count
    return math.exp(exponent), -math.expm1(exponent)
