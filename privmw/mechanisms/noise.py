"""Discrete Gaussian and discrete Laplace noise on private integer counts, with the event charged.

A share of the budget becomes a float scale, rounded so that the cost is within the share; this float, taken
as an exact rational, is the scale of both the draw and the event. Counts are private: no check depends on
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.accounting import DiscreteGaussian, DiscreteLaplace, square_l2_sensitivity
from privmw.accounting.noise import (
    DISCRETE_GAUSSIAN,
    DISCRETE_LAPLACE,
    LARGEST_DRAWN_SCALE,
    NoiseEvent,
    NoiseFamily,
    family_of_event,
)
from privmw.accounting.rounding import Real, positive, positive_integer
from privmw.kernels import draws
from privmw.kernels.checks import LONGEST_INTEGER
from privmw.random import Rng, Stream, privacy_stream
from privmw.secrecy import erased_on_failure, erasing, expect_array, sealed

Counts: TypeAlias = npt.NDArray[np.int64]

LARGEST_NOISED_COUNT = 2**62


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise and its cost, before any count is seen: prepare it, charge its event, then add it.

    >>> from privmw.accounting.noise import DISCRETE_GAUSSIAN
    >>> Noise.prepare(DISCRETE_GAUSSIAN, size=6, sensitivity=2, share=0.25).event
    DiscreteGaussian(sigma=2.0, l2_sensitivity_squared=2, size=6, count=1)
    """

    event: NoiseEvent

    @classmethod
    def prepare(cls, family: NoiseFamily, *, size: int, sensitivity: Real, share: Real) -> Noise:
        """Return the noise on `size` counts whose cost is within a share (rho or epsilon, as the family
        uses).

        sensitivity: L1 for Laplace noise, the squared L2 for Gaussian noise.
        """
        size, sensitivity = positive_integer("size", size), positive("sensitivity", sensitivity)
        return _prepared(family, size, sensitivity, positive(family.unit, share))

    @sealed
    def add(self, counts: Counts, stream: Stream) -> Counts:
        """Return counts plus noise. The noise is as private as the counts, so its memory is erased."""
        noisy = np.empty_like(counts, order="C")
        with erased_on_failure(noisy), erasing() as erased:
            noise = erased(self._draw(counts.size, stream))
            # Clamping moves no two counts further apart, so it does not raise the sensitivity, and no sum can
            # overflow. In place: a temporary array would keep the counts in memory.
            np.maximum(counts, -LARGEST_NOISED_COUNT, out=noisy)
            np.minimum(noisy, LARGEST_NOISED_COUNT, out=noisy)
            noisy += noise.reshape(counts.shape)
        return noisy

    def _draw(self, size: int, stream: Stream) -> Counts:
        power = _power(self.event.scale, family_of_event(self.event).order)  # the scale, or sigma squared
        sampler = getattr(draws, self.event.kind.replace("-", "_"))
        drawn: Counts = sampler(stream.bit_generator, power.numerator, power.denominator, size)
        return drawn


# Pure functions of public parameters, remembered: a loop asks for the same noise in every round. Typed, so
# that 1 and 1.0 each give back what they were given.
@lru_cache(maxsize=256, typed=True)
def _prepared(family: NoiseFamily, size: int, sensitivity: Real, share: Real) -> Noise:
    scale = family.scale(share, sensitivity)
    if scale > LARGEST_DRAWN_SCALE:
        raise ValueError(f"scale ({scale}) must be at most 2^40: the share of the budget is too small")
    return Noise(family.event(scale, sensitivity, size))


@lru_cache(maxsize=256)
def _power(scale: Real, order: int) -> Fraction:
    return Fraction(scale) ** order


@sealed
def add_discrete_gaussian(
    counts: Counts,
    *,
    l2_sensitivity: Real | None = None,
    l2_sensitivity_squared: Real | None = None,
    rho: Real,
    rng: Rng = None,
) -> tuple[Counts, DiscreteGaussian]:
    """Add discrete Gaussian noise to each count, and say what it cost (Canonne, Kamath and Steinke 2020).

    Requires: int64 counts; one record moves them, as one vector, by at most l2_sensitivity (or its square:
        exact for roots; math.sqrt(2) is read as the root of 2); rng None for a release.
    Ensures: P(x) ~ exp(-x^2 / (2 sigma^2)) on the integers, independently, sigma the smallest float that
        costs at most rho; counts beyond 2^62 are taken as 2^62, so that nothing wraps.
    Privacy: l2_sensitivity^2 / (2 sigma^2) <= rho of zCDP, the cost in the event; no pure guarantee.
    Numerics: exact sampling at the rational that sigma is, at most 2^40. Time depends on the noise.
    Checked by: tests/mechanisms/test_mechanisms.py::test_noise_is_drawn_at_exactly_the_scale_of_the_event,
        tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim

    >>> noisy, event = add_discrete_gaussian(np.array([10, 20]), l2_sensitivity=2**0.5, rho=0.25)
    >>> noisy.dtype, event.sigma, event.rho
    (dtype('int64'), 2.0, 0.25)
    """
    size = size_of(counts)
    if (l2_sensitivity is None) == (l2_sensitivity_squared is None):
        raise TypeError("exactly one of l2_sensitivity and l2_sensitivity_squared must be given")
    if l2_sensitivity is not None:
        l2_sensitivity_squared = square_l2_sensitivity(l2_sensitivity)
    square = positive("l2_sensitivity_squared", l2_sensitivity_squared)
    noise = Noise.prepare(DISCRETE_GAUSSIAN, size=size, sensitivity=square, share=rho)
    assert isinstance(noise.event, DiscreteGaussian)
    return noise.add(counts, privacy_stream(rng)), noise.event


@sealed
def add_discrete_laplace(
    counts: Counts, *, l1_sensitivity: Real, epsilon: Real, rng: Rng = None
) -> tuple[Counts, DiscreteLaplace]:
    """Add discrete Laplace noise to each count, and say what it cost.

    Requires: int64 counts; one record moves them by at most l1_sensitivity in total; rng None for a release.
    Ensures: P(x) ~ exp(-|x| / scale) on the integers, independently, scale the smallest float that costs at
        most epsilon; counts beyond 2^62 are taken as 2^62, so that nothing wraps.
    Privacy: (l1_sensitivity / scale)-DP, at most epsilon, the cost in the event; rho = epsilon^2 / 2.
    Numerics: exact sampling at the rational that scale is, at most 2^40. Time depends on the noise.
    Checked by: tests/mechanisms/test_mechanisms.py::test_noise_is_drawn_at_exactly_the_scale_of_the_event,
        tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim

    >>> noisy, event = add_discrete_laplace(np.array([10, 20]), l1_sensitivity=2, epsilon=0.5)
    >>> noisy.dtype, event.scale, event.epsilon
    (dtype('int64'), 4.0, 0.5)
    """
    size, sensitivity = size_of(counts), positive("l1_sensitivity", l1_sensitivity)
    noise = Noise.prepare(DISCRETE_LAPLACE, size=size, sensitivity=sensitivity, share=epsilon)
    assert isinstance(noise.event, DiscreteLaplace)
    return noise.add(counts, privacy_stream(rng)), noise.event


def size_of(counts: Any) -> int:
    """Return how many counts there are; refuse what is not an array of them."""
    expect_array("counts", counts, np.int64)
    if counts.ndim == 0 or counts.size == 0:
        raise ValueError(f"counts (shape {counts.shape}) must be an array of at least one count")
    return int(counts.size)


def drawable(name: str, value: Real | Fraction) -> Fraction:
    """Return value as a rational for the exact draws; refuse one with too many digits.

    >>> drawable("epsilon", 0.5)
    Fraction(1, 2)
    """
    ratio = Fraction(value)
    bits = max(ratio.numerator.bit_length(), ratio.denominator.bit_length())
    if bits > LONGEST_INTEGER:
        raise ValueError(f"{name} ({bits} bits) must be a rational of at most {LONGEST_INTEGER} bits")
    return ratio
