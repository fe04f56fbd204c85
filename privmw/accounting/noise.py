"""The one family of noise: what a share of the budget buys, what it costs, and the law of a noisy count.

Order 1 is Laplace noise, paid in epsilon by the L1 sensitivity; order 2 is Gaussian noise, paid in rho by the
squared L2 sensitivity. Nothing is drawn here: `privmw/mechanisms/noise.py` draws the discrete forms. Another
noise that the curator adds takes its event (events.py), an order here and its sampler there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from privmw.secrecy import shown

from .calibration import scale_for_epsilon, sigma_for_rho
from .events import Cost, DiscreteGaussian, DiscreteLaplace, Event
from .rounding import Real, finite

Order: TypeAlias = Literal[1, 2]
NoiseEvent: TypeAlias = DiscreteLaplace | DiscreteGaussian
_Exact = TypeVar("_Exact", int, Fraction)

LARGEST_DRAWN_SCALE = 2.0**40  # of csrc/draw, whose noise then stays below 2^52
LARGEST_SCALE, LEAST_SCALE = 2.0**62, 2.0**-62  # of counts measured elsewhere
LEAST_VARIANCE = 1e-100  # noise this small never shows in an integer; its inverse stays finite
SUMMED = 1e4  # sigma up to which a discrete Gaussian is summed; beyond, rounding a Gaussian is as good


def of_unit(sensitivity: _Exact, at_most: int, order: Order = 1) -> _Exact:
    """The L1 (order 1) or squared L2 (order 2) sensitivity to a unit, from that to a record.

    A unit of m records changes values m times one after another: L1 grows by m, the squared L2 by m^2.

    >>> of_unit(2, at_most=3), of_unit(2, at_most=3, order=2)
    (6, 18)
    """
    times: int = at_most**order
    return sensitivity * times


@dataclass(frozen=True, slots=True)
class NoiseFamily:
    """Noise of every scale: discrete as the curator adds it, continuous as other systems do.

    order: 1 for Laplace, 2 for Gaussian. form: "residual" is the noise of `ResidualGaussian` events.

    >>> DISCRETE_GAUSSIAN.scale(Fraction(1, 4), DISCRETE_GAUSSIAN.sensitivity(2)), DISCRETE_LAPLACE.name
    (2.0, 'discrete-laplace')
    """

    order: Order
    form: Literal["discrete", "continuous", "residual"] = "discrete"

    @property
    def name(self) -> str:
        """The name in files and statements."""
        shape = "laplace" if self.order == 1 else "gaussian"
        return shape if self.form == "continuous" else f"{self.form}-{shape}"

    @property
    def unit(self) -> Literal["rho", "epsilon"]:
        """What a share of this noise is counted in, and the argument of `Curator.measure`."""
        return "epsilon" if self.order == 1 else "rho"

    @property
    def heavy_tailed(self) -> bool:
        """Whether its tails are heavier than a Gaussian's."""
        return self.order == 1

    @property
    def precision_power(self) -> int:
        """The inverse variance of this noise grows with this power of its share."""
        return 2 // self.order

    @property
    def event_type(self) -> type[NoiseEvent]:
        """The events of this noise where it is discrete."""
        return DiscreteLaplace if self.order == 1 else DiscreteGaussian

    def sensitivity(self, changed: _Exact, at_most: int = 1) -> _Exact:
        """The L1, or squared L2, sensitivity of counts of which one record changes `changed` by one.

        >>> DISCRETE_LAPLACE.sensitivity(2, at_most=3), DISCRETE_GAUSSIAN.sensitivity(2, at_most=3)
        (6, 18)
        """
        return of_unit(changed, at_most, self.order)

    def scale(self, share: Real, sensitivity: Real) -> float:
        """The smallest scale (sigma of a Gaussian) that a share pays for."""
        return scale_for_epsilon(share, sensitivity) if self.order == 1 else sigma_for_rho(share, sensitivity)

    def cost_of_share(self, share: Fraction) -> Cost:
        """The most that noise bought with a share costs; Gaussian noise has no pure epsilon."""
        return Cost.pure(share) if self.order == 1 else Cost(share, None)

    def event(self, scale: Real, sensitivity: Real, size: int) -> NoiseEvent:
        """The event of adding this noise to `size` counts."""
        return self.event_type(scale, sensitivity, size)

    def of_sum(self, variance: float) -> NoiseDistribution | None:
        """The distribution of a sum of several draws, by its variance; None where it has no name.

        Gaussians, discrete ones nearly, add up to a Gaussian; Laplace noise does not to Laplace noise.
        """
        return None if self.heavy_tailed else make_noise("gaussian", math.sqrt(variance))

    def argument(self, share: Fraction | None) -> dict[str, Any]:
        """The share as an argument of `Curator.measure`.

        >>> DISCRETE_GAUSSIAN.argument(Fraction(1, 2))
        {'rho': Fraction(1, 2)}
        """
        return {self.unit: share}


DISCRETE_GAUSSIAN, DISCRETE_LAPLACE = NoiseFamily(2), NoiseFamily(1)
RESIDUAL_GAUSSIAN = NoiseFamily(2, "residual")
# The noises that the curator adds, by name in the order in which files number them, and by the unit of their
# share; and all noises by name.
MEASURED = {family.name: family for family in (DISCRETE_GAUSSIAN, DISCRETE_LAPLACE)}
PAID_IN = {family.unit: family for family in MEASURED.values()}
NOISES = {
    family.name: family
    for family in (NoiseFamily(1, "continuous"), NoiseFamily(2, "continuous"), *MEASURED.values())
}


@dataclass(frozen=True, slots=True)
class NoiseDistribution:
    """The distribution of a noisy count's error, in counts.

    scale: sigma of a Gaussian, the scale of a Laplace distribution.

    >>> make_noise("gaussian", 3).variance, round(make_noise("laplace", 8).above(100, 0.99), 3)
    (9.0, 68.098)
    """

    family: NoiseFamily
    scale: float

    def __post_init__(self) -> None:
        """Refuse scales without a variance."""
        scale = finite("scale", self.scale)
        if not 0 < scale <= LARGEST_SCALE:
            raise ValueError(f"scale ({scale}) must be above 0 and at most 2^62")
        object.__setattr__(self, "scale", float(scale))

    @property
    def name(self) -> str:
        """The name of the family."""
        return self.family.name

    @property
    def variance(self) -> float:
        """The variance of one noisy count.

        Of a discrete Gaussian sigma squared, which is more by less than 1e-6 of it from sigma 1 on; of a
        discrete Laplace distribution 2 p / (1 - p)^2 with p = exp(-1 / scale).

        >>> round(make_noise("discrete-laplace", 2).variance, 6)
        7.835396
        """
        if self.family.order == 2:
            return max(self.scale**2, LEAST_VARIANCE)
        if self.family.form == "continuous":
            return max(self.scale**2 * 2, LEAST_VARIANCE)
        exponent = -1 / self.scale
        return max(2 * math.exp(exponent) / math.expm1(exponent) ** 2, LEAST_VARIANCE)

    def quantile(self, probability: float, tail: float) -> float:
        """The least value that a draw stays at or below with this probability, which is 1 - tail."""
        continuous = self.family.form == "continuous"
        if self.family.order == 2:
            if continuous:
                return self.scale * _normal_quantile(probability, tail)
            return _discrete_gaussian_quantile(self.scale, probability, tail)
        if not continuous:
            return _discrete_laplace_quantile(self.scale, probability, tail)
        if probability > 0.5:
            return -self.scale * math.log(2 * tail)
        return self.scale * math.log(2 * probability)

    def above(self, count: int, confidence: float) -> float:
        """The least value that `count` draws all stay below with this probability."""
        step = 0 if self.family.form == "continuous" else 1
        return self.quantile(*_of_each(count, confidence)) + step

    def median_of_largest(self, count: int) -> float:
        """The median of the largest of `count` draws."""
        return self.quantile(*_of_each(count, 0.5))


def make_noise(name: object, scale: float) -> NoiseDistribution:
    """The noise distribution of a name and a scale, in counts.

    >>> make_noise("discrete-gaussian", 3.0).variance
    9.0
    """
    if not isinstance(name, str) or name not in NOISES:
        raise ValueError(f"noise ({shown(name)}) must be one of {', '.join(NOISES)}")
    if not LEAST_SCALE <= finite("scale", scale) <= LARGEST_SCALE:
        raise ValueError(f"scale ({scale}) must be from 2^-62 to 2^62")
    return NoiseDistribution(NOISES[name], scale)


def family_of_event(event: Event) -> NoiseFamily:
    """The noise that a measurement's event says was added.

    >>> family_of_event(DiscreteGaussian(sigma=2.0, l2_sensitivity_squared=1)).name
    'discrete-gaussian'
    """
    return MEASURED[event.kind]


def noise_of_event(event: Event) -> NoiseDistribution:
    """The distribution of the noise that a measurement's event says was added.

    >>> noise_of_event(DiscreteGaussian(sigma=2.0, l2_sensitivity_squared=1)).scale
    2.0
    """
    assert isinstance(event, DiscreteLaplace | DiscreteGaussian)
    return NoiseDistribution(family_of_event(event), float(event.scale))


def noise_for(*, rho: Real | None, epsilon: Real | None) -> tuple[NoiseFamily, Real]:
    """The discrete noise that a share in rho, or in epsilon, pays for; and that share.

    >>> noise_for(rho=None, epsilon=0.5)
    (NoiseFamily(order=1, form='discrete'), 0.5)
    """
    if rho is not None and epsilon is None:
        return PAID_IN["rho"], rho
    if epsilon is not None and rho is None:
        return PAID_IN["epsilon"], epsilon
    raise TypeError("exactly one of rho and epsilon must be given")


def _of_each(count: int, confidence: float) -> tuple[float, float]:
    """The probability with which each of `count` draws must stay below so that all do, and its complement."""
    exponent = math.log(confidence) / count
    return math.exp(exponent), -math.expm1(exponent)


def _normal_quantile(probability: float, tail: float) -> float:
    return -NormalDist().inv_cdf(tail) if probability > 0.5 else NormalDist().inv_cdf(probability)


def _discrete_gaussian_quantile(sigma: float, probability: float, tail: float) -> float:
    if sigma > SUMMED:
        return math.ceil(sigma * _normal_quantile(probability, tail) - 0.5)
    reach = math.ceil(12 * sigma) + 2
    values = np.arange(-reach, reach + 1)
    masses = np.exp(-((values / sigma) ** 2) / 2)
    at_least = np.cumsum(masses[::-1])[::-1] / masses.sum()  # P(X >= value), accurate where it is small
    return float(values[np.flatnonzero(np.append(at_least[1:], 0.0) <= tail)[0]])


def _discrete_laplace_quantile(scale: float, probability: float, tail: float) -> float:
    # P(X > k) = p^(k + 1) / (1 + p) for k >= 0, and P(X <= k) = p^-k / (1 + p) for k < 0
    p = math.exp(-1 / scale)
    if probability * (1 + p) > p:
        return max(math.ceil(-scale * math.log(tail * (1 + p)) - 1), 0)
    return math.ceil(scale * math.log(probability * (1 + p)))
