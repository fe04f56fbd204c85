"""From a share of the budget to the parameter of one mechanism, rounded so that it costs no more.

The float returned here and the event made from it agree exactly: the event's rational cost is at most the
share, so a budget cut into shares is never exceeded in the last bit.
"""

import math
from fractions import Fraction

from .conversion import delta_from_threshold
from .rounding import Real, float_up, positive, positive_integer, probability, sqrt_down, sqrt_up


def sigma_for_rho(rho: Real, l2_sensitivity_squared: Real) -> float:
    """Return the smallest float sigma of a discrete Gaussian whose cost l2^2 / (2 sigma^2) is at most rho.

    >>> sigma_for_rho(0.25, 2)
    2.0
    """
    square = Fraction(positive("l2_sensitivity_squared", l2_sensitivity_squared))
    return _usable("sigma", sqrt_up(square / (2 * Fraction(positive("rho", rho)))))


def scale_for_epsilon(epsilon: Real, l1_sensitivity: Real) -> float:
    """Return the smallest float scale of a discrete Laplace whose cost l1 / scale is at most epsilon.

    >>> scale_for_epsilon(0.5, 2)
    4.0
    """
    ratio = Fraction(positive("l1_sensitivity", l1_sensitivity)) / Fraction(positive("epsilon", epsilon))
    return _usable("scale", float_up(ratio))


def epsilon_for_rho_permute_and_flip(rho: Real) -> float:
    """Return the largest float epsilon of permute-and-flip whose cost epsilon^2 / 2 is at most rho.

    >>> epsilon_for_rho_permute_and_flip(0.5)
    1.0
    """
    return epsilon_for_rho(rho, 2)


def epsilon_for_rho_exponential(rho: Real) -> float:
    """Return the largest float epsilon of the exponential mechanism whose cost epsilon^2 / 8 is at most rho.

    >>> epsilon_for_rho_exponential(0.5)
    2.0
    """
    return epsilon_for_rho(rho, 8)


def epsilon_for_rho(rho: Real, divisor: int) -> float:
    """Return the largest float epsilon of a selection whose cost epsilon^2 / divisor is at most rho.

    >>> epsilon_for_rho(0.5, 8)
    2.0
    """
    return _usable("epsilon", sqrt_down(divisor * Fraction(positive("rho", rho))))


def threshold_for_delta(delta: Real, scale: Real, records: int = 1) -> int:
    """Return the least threshold that counts of at most `records` in all reach with probability <= delta.

    >>> threshold_for_delta(1e-6, 2)
    28
    """
    delta, records = probability("delta", delta), positive_integer("records", records)
    low, high = records, records + 1  # too low, perhaps high enough
    while delta_from_threshold(high, scale, records) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if delta_from_threshold(middle, scale, records) > delta:
            low = middle
        else:
            high = middle
    return high


def square_l2_sensitivity(l2_sensitivity: Real) -> int | Fraction:
    """Return the exact square of a sensitivity, reading the float nearest to an integer's root as that root.

    Counts are integers, so the square of an L2 sensitivity is one too, but its root is mostly irrational:
    math.sqrt(3) lies below the root of 3, and squaring it would understate the cost.

    >>> square_l2_sensitivity(math.sqrt(3)), square_l2_sensitivity(1.5)
    (3, Fraction(9, 4))
    """
    number = positive("l2_sensitivity", l2_sensitivity)
    square = Fraction(number) ** 2
    whole = round(square)
    if isinstance(number, float) and 0 < whole < 2**53 and math.sqrt(whole) == number:
        return whole
    return square.numerator if square.denominator == 1 else square


def _usable(name: str, value: float) -> float:
    if value == 0 or math.isinf(value):
        raise ValueError(
            f"{name} ({value}) must be positive and finite: the share is outside what a float can hold"
        )
    return value
