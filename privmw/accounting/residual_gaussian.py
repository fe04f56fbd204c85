"""The event of residual noise: the interactions of many marginals, measured at once and charged jointly.

A look at the attributes S publishes the part of their table x that no smaller table determines: integer
contrasts of x + z, z discrete Gaussian. They determine P_S (x + z) and nothing else, P_S = kron of (I -
11'/n_i). The proof of the cost is docs/proofs/residual_noise.md. This module sees sizes and scales, no data.
"""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

from privmw.secrecy import expect

from .events import Cost, Event
from .noise import RESIDUAL_GAUSSIAN
from .rounding import Real, float_up, positive, positive_integer
from .worst_difference import worst_difference

_LARGEST_TABLE = 2**31  # cells
_LARGEST_ORDER = 6  # so that contrasts of counts below 2^53 fit 64 bits
_MOST_ATTRIBUTES = 1_289  # so that every look has a number of 62 bits
_PI = 3.141592653589793  # just below pi
_LARGEST_SIGMA = 2**500  # its square is a float
_STEP = 64  # exponents are rounded to 64ths


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ResidualGaussian(Event):
    """Residual noise on all looks of one shot; rho is the maximum over all ways in which two records differ.

    sizes: sizes of the domain's attributes. looks: the attributes of each look, by position. sigmas: the
    noise of each look. at_most: the maximum number of records of a unit. Requires REPLACE_ONE. Its delta is
    the lattice term.

    >>> event = ResidualGaussian((2, 3), ((0,), (0, 1)), (10.0, 10.0))
    >>> event.rho, event.delta < 1e-80
    (0.01666666666666667, True)
    """

    sizes: tuple[int, ...]
    looks: tuple[tuple[int, ...], ...]
    sigmas: tuple[Real, ...]
    at_most: int = 1
    count: int = 1

    kind: ClassVar[str] = "residual-gaussian"
    needs_public_n: ClassVar[bool] = True  # it shows no total, and its cost is that of a pair of records

    def __post_init__(self) -> None:
        """Validate the parameters; refuse scales so small that there is no bound."""
        sizes = tuple(map(int, _several("sizes", self.sizes, numbers.Integral, "an integer")))
        looks = tuple(_look(look, sizes) for look in _several("looks", self.looks))
        sigmas = tuple(
            positive("sigma", sigma) for sigma in _several("sigmas", self.sigmas, numbers.Real, "a number")
        )
        if len(sizes) > _MOST_ATTRIBUTES:
            raise ValueError(f"sizes ({len(sizes):,}) must be of at most {_MOST_ATTRIBUTES:,} attributes")
        if len(set(looks)) < len(looks):
            raise ValueError("looks must not repeat one")
        if len(sigmas) != len(looks):
            raise ValueError(f"sigmas ({len(sigmas)}) must be as many as looks ({len(looks)})")
        if max(sigmas) > _LARGEST_SIGMA:
            raise ValueError("sigmas (one of them) must be at most 2^500")
        self._set(sizes=sizes, looks=looks, sigmas=sigmas)
        self._set(
            at_most=positive_integer("at_most", self.at_most), count=positive_integer("count", self.count)
        )
        if lattice_term(sizes, looks, sigmas) is None:
            raise ValueError(
                f"sigmas (from {float(min(sigmas)):.4g}) must be larger: the noise of a look must blur the "
                "integers that its residual does not show"
            )

    @property
    def size(self) -> int:
        """The number of integers that one run publishes: the contrasts of all looks."""
        return sum(math.prod(self.sizes[a] - 1 for a in look) for look in self.looks)

    @property
    def cost_of_one(self) -> Cost:
        """The joint cost of one run, and the lattice term."""
        delta = lattice_term(self.sizes, self.looks, self.sigmas)
        assert delta is not None  # by __post_init__
        worst = worst_difference(self.sizes, self.looks, self.sigmas)
        return Cost(RESIDUAL_GAUSSIAN.sensitivity(worst, self.at_most), None, delta)

    # The tuples can have thousands of looks, and every charge compares and hashes events.
    def __hash__(self) -> int:
        """Hash some of the parameters; equality compares all."""
        return hash((self.sizes, len(self.looks), self.sigmas[:8], self.at_most, self.count))

    def __eq__(self, other: object) -> bool:
        """Compare all parameters."""
        if not isinstance(other, ResidualGaussian):
            return NotImplemented
        return self is other or self.parameters() == other.parameters()

    def __repr__(self) -> str:
        """Show sizes, not thousands of looks."""
        scales = f"sigma {float(min(self.sigmas)):.4g} to {float(max(self.sigmas)):.4g}"
        looks = f"{len(self.looks):,} look{'s' * (len(self.looks) != 1)}"
        return f"<ResidualGaussian of {looks}, {scales}, at_most={self.at_most}, count={self.count}>"


def lattice_term(
    sizes: Sequence[int], looks: Sequence[Sequence[int]], sigmas: Sequence[Real]
) -> Fraction | None:
    """Return an upper bound of the delta of residual noise; None if no bound is proved.

    A look at k attributes of N cells has, for each of them, N / n_i fibres, and

        eta <= product over i of (sum over m of exp(-2 pi^2 sigma^2 m^2 / (k n_i)))^(N / n_i)  -  1
            <= s / (1 - s),   s = sum over i of N / n_i 2 e / (1 - e^3),   e = exp(-2 pi^2 sigma^2 / (k n_i)).

    Its law is within exp(+-ln((1 + eta) / (1 - eta))) of the ideal, so delta <= 2 eta / (1 - eta) <= 2 s / (1
    - 2 s), and for all looks together the same holds of the sum of their s, which must be below 1/4.

    >>> float(lattice_term([2, 2], [(0, 1)], [3])) < 1e-17
    True
    >>> lattice_term([2, 2], [(0, 1)], [0.5]) is None
    True
    """
    fibres: dict[int, int] = {}
    for look, sigma in zip(looks, sigmas, strict=True):
        shape = [sizes[a] for a in look]
        cells, square = math.prod(shape), float(sigma) ** 2
        for size in shape:
            # 1e-12 covers the roundings of this line: the exponent is rounded down.
            step = math.floor(2 * _PI**2 * square / (len(shape) * size) * _STEP * (1 - 1e-12))
            step = min(step, 740 * _STEP)  # exp of a smaller exponent underflows
            fibres[step] = fibres.get(step, 0) + cells // size
    total = Fraction(0)
    for step, count in fibres.items():
        if step < _STEP // 8:
            return None  # e is near 1, and the sum far above 1/4
        total += count * _excess(step)
    return 2 * total / (1 - 2 * total) if total < Fraction(1, 4) else None


@lru_cache(maxsize=2**16)
def _excess(step: int) -> Fraction:
    """An upper bound of 2 e / (1 - e^3), e = exp(-step / 64)."""
    with localcontext(Context(prec=30)) as context:
        context.rounding = ROUND_CEILING
        e = min(Fraction(float_up(Fraction((Decimal(-step) / _STEP).exp().next_plus()))), Fraction(9, 10))
    # Floats, rounded up: the exact sum of thousands of them is a short fraction.
    return Fraction(float_up(2 * e / (1 - e**3)))


def _several(name: str, values: Any, kind: type | None = None, requirement: str = "") -> tuple[Any, ...]:
    """Validate a tuple: not empty, and positive numbers of `kind` if one is given."""
    expect(name, values, tuple | list, "a tuple", quote=False)
    if not values:
        raise ValueError(f"{name} (()) must not be empty")
    for place, value in enumerate(values if kind else ()):
        right = isinstance(value, kind or object) and not isinstance(value, bool)
        expect(f"{name}[{place}]", value, right, requirement, quote=False)
        if not value > 0:
            raise ValueError(f"{name}[{place}] must be positive and finite")
    return tuple(values)


def _look(look: Any, sizes: tuple[int, ...]) -> tuple[int, ...]:
    attributes = _several("look", look)
    for a in attributes:
        if type(a) is not int or not 0 <= a < len(sizes):
            raise ValueError(f"look must be of positions from 0 to {len(sizes) - 1}")
        if sizes[a] < 2:
            raise ValueError(f"look ({attributes}) must be at attributes of two values or more")
    if any(here >= there for here, there in pairwise(attributes)):
        raise ValueError(f"look ({attributes}) must be in ascending order")
    if len(attributes) > _LARGEST_ORDER:
        raise ValueError(f"look ({attributes}) must be at no more than {_LARGEST_ORDER} attributes")
    if math.prod(sizes[a] for a in attributes) > _LARGEST_TABLE:
        raise ValueError(f"look ({attributes}) must have at most 2^31 cells")
    return attributes
