"""The scale of masses, shared by the door and the backends in Python: numbers of csrc/core/weights.hpp."""

from __future__ import annotations

import math

MASS_BITS = 60  # the mass of a row is rint(weight * 2^60)
LEAST_TOTAL, MOST_TOTAL = 2**58, 2**62
LIGHTEST_WEIGHT = 2.0**-1000
MOST_WEIGHT = 7.75  # its mass fits 64 bits; a factor below 1.9 brings no weight up to 4 there


def powers_of_two(exponent: int) -> tuple[float, float]:
    """Two factors that make 2^exponent, so that neither overflows."""
    half = int(exponent / 2)  # towards zero, as in C++
    return math.ldexp(1.0, half), math.ldexp(1.0, exponent - half)
