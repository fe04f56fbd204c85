"""How much of a budget is spent, between two integers: enough to decide almost every charge.

The exact total of many different costs is a fraction as long as all of them together; two integers stay
short. Where they do not decide, whoever asks adds up exactly. This room knows no event.
"""

from dataclasses import dataclass
from fractions import Fraction

_PARTS = 128  # bits: a budget is counted in 2^128 parts


@dataclass(frozen=True, slots=True)
class Enclosure:
    """The true sum of shares of a whole lies between low and high, in parts of 2^-128.

    >>> Enclosure().plus(Fraction(1, 3), Fraction(1)).within
    True
    >>> Enclosure().plus(Fraction(1, 3), Fraction(1, 4)).within
    False
    """

    low: int = 0
    high: int = 0

    def plus(self, cost: Fraction, whole: Fraction, count: int = 1) -> "Enclosure":
        """Return the sum with one cost more, count times, of a positive whole."""
        above = (count * cost.numerator * whole.denominator) << _PARTS
        below = cost.denominator * whole.numerator
        floor, rest = divmod(above, below)
        return Enclosure(self.low + floor, self.high + floor + (rest > 0))

    @property
    def within(self) -> bool | None:
        """Whether the sum is at most the whole; None if this cannot tell."""
        if self.high <= 1 << _PARTS:
            return True
        return False if self.low > 1 << _PARTS else None
