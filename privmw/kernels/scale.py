"""The scale of masses, for the doors and the backends in Python: the constants of csrc/core/weights.hpp."""

from __future__ import annotations

import math

MASS_BITS = 60  # the mass of a row is rint(weight * 2^60)
LEAST_TOTAL, MOST_TOTAL = 2**58, 2**62
LIGHTEST_WEIGHT = 2.0**-1000
MOST_WEIGHT = 7.75  # its mass fits 64 bits; a factor below 1.9 brings no weight of at most 4 above it


def powers_of_two(exponent: int) -> tuple[float, float]:
    """Two factors with product 2^exponent, neither of which overflows."""
    half = int(exponent / 2)  # towards zero, as in C++
    return math.ldexp(1.0, half), math.ldexp(1.0, exponent - half)
