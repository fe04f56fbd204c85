"""The family of noises: their scale for a share of the budget, their cost, and their distribution.

Order 1 is Laplace noise, whose epsilon depends on the L1 sensitivity; order 2 is Gaussian noise, whose rho
depends on the squared L2 sensitivity. Nothing is drawn here: `privmw/mechanisms/noise.py` draws the discrete
forms with the sampler named after their event's kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from privmw.secrecy import shown

from .conversion import scale_for_epsilon, sigma_for_rho
from .events import Cost, Event
from .rounding import Real, finite, positive, positive_integer, sqrt_up

Order: TypeAlias = Literal[1, 2]
_Number = TypeVar("_Number", int, float, Fraction)

LARGEST_DRAWN_SCALE = 2.0**40  # the limit of csrc/draw; noise then stays below 2^52
LARGEST_SCALE, LEAST_SCALE = 2.0**62, 2.0**-62  # for counts that were measured elsewhere
LEAST_VARIANCE = 1e-100  # so small a noise never changes an integer; its inverse is finite
SUMMED = 1e4  # sums are used for discrete Gaussians up to this sigma, above it a rounded Gaussian


@dataclass(frozen=True, slots=True, repr=False)
class DiscreteGaussian(Event):
    """Discrete Gaussian noise on size integers: rho = l2_sensitivity^2 / (2 sigma^2), no pure guarantee.

    The sensitivity is given by its square, an integer for counts: 1 for a cell, 2 for a marginal when a
    record is replaced. A float root such as sqrt(2) would not be exact; square_l2_sensitivity converts one.

    >>> DiscreteGaussian(sigma=2, l2_sensitivity_squared=2, size=6).rho
    0.25
    """

    sigma: Real
    l2_sensitivity_squared: Real
    size: int = 1
    count: int = 1

    kind: ClassVar[str] = "discrete-gaussian"

    def __post_init__(self) -> None:
        self._set(sigma=positive("sigma", self.sigma))
        self._set(l2_sensitivity_squared=positive("l2_sensitivity_squared", self.l2_sensitivity_squared))
        self._set(size=positive_integer("size", self.size), count=positive_integer("count", self.count))

    @property
    def l2_sensitivity(self) -> float:
        """The L2 sensitivity itself, rounded up."""
        return sqrt_up(Fraction(self.l2_sensitivity_squared))

    @property
    def scale(self) -> Real:
        """Sigma, under the name that all noise events share."""
        return self.sigma

    @property
    def sensitivity(self) -> Real:
        """The sensitivity in the cost: the squared L2 sensitivity."""
        return self.l2_sensitivity_squared

    @property
    def cost_of_one(self) -> Cost:
        """The exact cost of one run."""
        return Cost(Fraction(self.l2_sensitivity_squared) / (2 * Fraction(self.sigma) ** 2), None)


@dataclass(frozen=True, slots=True, repr=False)
class DiscreteLaplace(Event):
    """Discrete Laplace noise on size integer counts: epsilon = l1_sensitivity / scale, rho = epsilon^2 / 2.

    >>> DiscreteLaplace(scale=4, l1_sensitivity=2, size=6).epsilon
    0.5
    """

    scale: Real
    l1_sensitivity: Real
    size: int = 1
    count: int = 1

    kind: ClassVar[str] = "discrete-laplace"

    def __post_init__(self) -> None:
        self._set(scale=positive("scale", self.scale))
        self._set(l1_sensitivity=positive("l1_sensitivity", self.l1_sensitivity))
        self._set(size=positive_integer("size", self.size), count=positive_integer("count", self.count))

    @property
    def cost_of_one(self) -> Cost:
        """The exact cost of one run."""
        return Cost.pure(Fraction(self.l1_sensitivity) / Fraction(self.scale))

    @property
    def sensitivity(self) -> Real:
        """The sensitivity in the cost: the L1 sensitivity."""
        return self.l1_sensitivity


NoiseEvent: TypeAlias = DiscreteLaplace | DiscreteGaussian


def of_unit(sensitivity: _Number, at_most: int, order: Order = 1) -> _Number:
    """The L1 (order 1) or squared L2 (order 2) sensitivity to a unit, given the sensitivity to a record.

    A unit of m records changes values m times one after another: L1 grows by m, the squared L2 by m^2.

    >>> of_unit(2, at_most=3), of_unit(2, at_most=3, order=2)
    (6, 18)
    """
    times: int = at_most**order
    return sensitivity * times


@dataclass(frozen=True, slots=True)
class NoiseFamily:
    """Noise of any scale: discrete noise, which the curator adds, or continuous noise of other systems.

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
    def words(self) -> str:
        """The name in reports, such as "discrete Laplace noise"."""
        return (
            self.name.replace("-", " ").replace("laplace", "Laplace").replace("gaussian", "Gaussian")
            + " noise"
        )

    @property
    def unit(self) -> Literal["rho", "epsilon"]:
        """The unit of a share of this noise ("rho" or "epsilon"), an argument name of `Curator.measure`."""
        return "epsilon" if self.order == 1 else "rho"

    @property
    def heavy_tailed(self) -> bool:
        """True if its tails are heavier than a Gaussian's."""
        return self.order == 1

    @property
    def precision_power(self) -> int:
        """The power of the share to which the inverse variance is proportional."""
        return 2 // self.order

    @property
    def event_type(self) -> type[NoiseEvent]:
        """The event type of the discrete form of this noise."""
        return DiscreteLaplace if self.order == 1 else DiscreteGaussian

    def sensitivity(self, changed: _Number, at_most: int = 1) -> _Number:
        """The L1, or squared L2, sensitivity of counts if one record changes `changed` of them by one.

        >>> DISCRETE_LAPLACE.sensitivity(2, at_most=3), DISCRETE_GAUSSIAN.sensitivity(2, at_most=3)
        (6, 18)
        """
        return of_unit(changed, at_most, self.order)

    def scale(self, share: Real, sensitivity: Real) -> float:
        """The smallest scale (sigma of a Gaussian) whose cost is within a share."""
        return scale_for_epsilon(share, sensitivity) if self.order == 1 else sigma_for_rho(share, sensitivity)

    def cost_of_share(self, share: Fraction) -> Cost:
        """The maximum cost of noise for a share; Gaussian noise has no pure epsilon."""
        return Cost.pure(share) if self.order == 1 else Cost(share, None)

    def event(self, scale: Real, sensitivity: Real, size: int) -> NoiseEvent:
        """The event of adding this noise to `size` counts."""
        return self.event_type(scale, sensitivity, size)

    def of_sum(self, variance: float) -> NoiseDistribution | None:
        """The distribution of a sum of several draws with this variance; None if it is not in a family.

        A sum of Gaussians is Gaussian (of discrete ones, nearly); a sum of Laplace noises is not Laplace
        noise.
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
# The noises that the curator adds, by name (in the order by which files number them) and by the unit of their
# share; then all noises by name.
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
        """Refuse scales whose variance is not positive and finite."""
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

        For a discrete Gaussian this is sigma squared, an upper bound within a relative 1e-6 from sigma 1 on;
        for a discrete Laplace distribution it is 2 p / (1 - p)^2 with p = exp(-1 / scale).

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
        """The least value that is at least a draw with this probability, which is 1 - tail."""
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
        """The least value that is at least all of `count` draws with this probability."""
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
    """The noise family of a measurement's event.

    >>> family_of_event(DiscreteGaussian(sigma=2.0, l2_sensitivity_squared=1)).name
    'discrete-gaussian'
    """
    return MEASURED[event.kind]


def noise_of_event(event: Event) -> NoiseDistribution:
    """The noise distribution of a measurement's event.

    >>> noise_of_event(DiscreteGaussian(sigma=2.0, l2_sensitivity_squared=1)).scale
    2.0
    """
    assert isinstance(event, DiscreteLaplace | DiscreteGaussian)
    return NoiseDistribution(family_of_event(event), float(event.scale))


def noise_for(*, rho: Real | None, epsilon: Real | None) -> tuple[NoiseFamily, Real]:
    """The discrete noise of a share in rho or in epsilon, and the share itself.

    >>> noise_for(rho=None, epsilon=0.5)
    (NoiseFamily(order=1, form='discrete'), 0.5)
    """
    if rho is not None and epsilon is None:
        return PAID_IN["rho"], rho
    if epsilon is not None and rho is None:
        return PAID_IN["epsilon"], epsilon
    raise TypeError("exactly one of rho and epsilon must be given")


def _of_each(count: int, confidence: float) -> tuple[float, float]:
    """The probability p of one of `count` independent events that all occur with `confidence`; and 1 - p."""
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
