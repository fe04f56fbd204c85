"""Noise: what a noisy answer's error is drawn from, as far as a fit must know. It draws nothing.

The discrete kinds are those of the curator's measurements, the others those of measurements made elsewhere.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from reprlib import repr as _short
from statistics import NormalDist

import numpy as np

KINDS = ("laplace", "gaussian", "discrete-laplace", "discrete-gaussian")
LARGEST_SCALE, LEAST_SCALE = 2.0**62, 2.0**-62
SUMMED = 1e4  # sigma up to which a discrete Gaussian is summed; beyond, rounding a Gaussian is as good


@dataclass(frozen=True, slots=True)
class Noise:
    """A kind and a scale, in counts: sigma of a Gaussian, the scale of a Laplace distribution.

    >>> Noise("laplace", 8).variance, Noise("gaussian", 3).variance
    (128.0, 9.0)
    """

    kind: str
    scale: float

    def __post_init__(self) -> None:
        """Refuse kinds without a name and scales without a variance."""
        if self.kind not in KINDS:
            raise ValueError(f"noise ({_short(self.kind)}) must be one of {', '.join(KINDS)}")
        object.__setattr__(self, "scale", _scale(self.scale))

    @property
    def variance(self) -> float:
        """The variance of one noisy answer; of a discrete Gaussian sigma^2, which is a little more."""
        if self.kind == "discrete-laplace":
            # 2 p / (1 - p)^2 with p = exp(-1 / scale), or so little that it never shows
            exponent = -1 / self.scale
            return max(2 * math.exp(exponent) / math.expm1(exponent) ** 2, LEAST_SCALE**2)
        return self.scale**2 * (2 if self.kind == "laplace" else 1)

    def above(self, count: int, confidence: float) -> float:
        """The least answer that `count` draws all stay below with this probability.

        >>> round(Noise("laplace", 8).above(100, 0.99), 3)
        68.098
        """
        whole, tail = _of_each(count, confidence)
        return self._quantile(whole, tail) + (1 if self.kind.startswith("discrete") else 0)

    def median_of_largest(self, count: int) -> float:
        """The median of the largest of `count` draws.

        >>> Noise("gaussian", 3).median_of_largest(1), round(Noise("laplace", 8).median_of_largest(100), 3)
        (0.0, 34.256)
        """
        return self._quantile(*_of_each(count, 0.5))

    def _quantile(self, whole: float, tail: float) -> float:
        """The least value that a draw is at most with probability `whole` = 1 - `tail`."""
        scale = self.scale
        if self.kind == "laplace":
            return -scale * math.log(2 * tail) if whole > 0.5 else scale * math.log(2 * whole)
        if self.kind == "gaussian":
            return scale * _normal(whole, tail)
        if self.kind == "discrete-laplace":
            # P(X > k) = p^(k + 1) / (1 + p) for k >= 0, and P(X <= k) = p^-k / (1 + p) for k < 0
            p = math.exp(-1 / scale)
            if whole * (1 + p) > p:
                return max(math.ceil(-scale * math.log(tail * (1 + p)) - 1), 0)
            return math.ceil(scale * math.log(whole * (1 + p)))
        if scale > SUMMED:
            return math.ceil(scale * _normal(whole, tail) - 0.5)
        reach = math.ceil(12 * scale) + 2
        values = np.arange(-reach, reach + 1)
        masses = np.exp(-((values / scale) ** 2) / 2)
        above = np.cumsum(masses[::-1])[::-1] / masses.sum()  # P(X >= each), small ones exactly
        return float(values[np.flatnonzero(np.append(above[1:], 0.0) <= tail)[0]])


def _scale(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"scale ({_short(value)}) must be a number")
    scale = float(value)
    if not LEAST_SCALE <= scale <= LARGEST_SCALE:  # so are zero, infinity and NaN
        raise ValueError(f"scale ({scale}) must be from 2^-62 to 2^62")
    return scale


def _of_each(count: int, confidence: float) -> tuple[float, float]:
    """With what probability each of `count` draws must stay, so that all do; and with what it may not."""
    exponent = math.log(confidence) / count
    return math.exp(exponent), -math.expm1(exponent)


def _normal(whole: float, tail: float) -> float:
    return -NormalDist().inv_cdf(tail) if whole > 0.5 else NormalDist().inv_cdf(whole)
