"""Numbers as the exact rationals that the draws take: a float is the rational it is, never a rounded one."""

from fractions import Fraction

from privmw.accounting.rounding import Real
from privmw.kernels.checks import LONGEST_INTEGER


def drawable(name: str, value: Real | Fraction) -> Fraction:
    """Return value as a rational that the exact draws take; refuse one of astronomic length.

    >>> drawable("epsilon", 0.5)
    Fraction(1, 2)
    """
    ratio = Fraction(value)
    bits = max(ratio.numerator.bit_length(), ratio.denominator.bit_length())
    if bits > LONGEST_INTEGER:
        raise ValueError(f"{name} ({bits} bits) must be a rational of at most {LONGEST_INTEGER} bits")
    return ratio
