"""The scale of masses in the Python backends: the constants of csrc/core/weights.hpp."""

from __future__ import annotations

import math

MASS_BITS = 60  # the mass of a row is rint(weight * 2^60)
LEAST_TOTAL, MOST_TOTAL = 2**58, 2**62
LEAST_EXPONENT = -900  # of the largest of some values: smaller ones are scaled as if it were this
LIGHTEST_WEIGHT = 2.0**-1000
MOST_WEIGHT = 7.75  # its mass fits 64 bits, and 4 times any factor below 1.9 stays below it


def powers_of_two(exponent: int) -> tuple[float, float]:
    """Two factors with product 2^exponent, neither of which overflows."""
    half = int(exponent / 2)  # towards zero, as in C++
    return math.ldexp(1.0, half), math.ldexp(1.0, exponent - half)
