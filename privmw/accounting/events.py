"""What was done to the private table, and what it cost: one frozen event per mechanism run.

An event states parameters only, never data. Its sensitivities are those under the ledger's neighbours, and
its `cost` follows from them exactly, as rationals. The floats `rho` and `epsilon` are that cost rounded up.
"""

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from privmw.secrecy import shown

from .calibration import epsilon_for_rho
from .conversion import delta_from_threshold
from .rounding import Real, float_up, positive, positive_integer, sqrt_up


class Neighbors(enum.Enum):
    """Which two tables must look alike: one record replaced by any other, or one record added or removed.

    >>> Neighbors("replace-one")
    <Neighbors.REPLACE_ONE: 'replace-one'>
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE_ONE = "add-remove-one"

    @classmethod
    def _missing_(cls, value: object) -> None:  # enum would quote anything
        known = ", ".join(each.value for each in cls)
        raise ValueError(f"neighbors ({shown(value)}) must be one of {known}")


class Cost(NamedTuple):
    """An exact cost: rho of zCDP, and epsilon of pure DP (None where there is no pure guarantee).

    delta: both hold delta-approximately (Bun and Steinke 2016, Definition 8.1). For any two neighbours the
    two laws are mixtures, of weight 1 - delta on laws that keep rho (or epsilon) exactly, and of weight delta
    on anything at all. Run after run, rho, epsilon and delta each add up: the kept parts of two runs follow
    one another with weight (1 - delta1)(1 - delta2), which is at least 1 - delta1 - delta2.

    >>> PermuteAndFlip(1, candidates=5).cost
    Cost(rho=Fraction(1, 2), epsilon=Fraction(1, 1), delta=Fraction(0, 1))
    """

    rho: Fraction
    epsilon: Fraction | None
    delta: Fraction = Fraction(0)

    @classmethod
    def pure(cls, epsilon: Fraction, divisor: int = 2) -> "Cost":
        """Return the cost of an epsilon-DP run; rho = epsilon^2 / 2 holds for all (Bun and Steinke 2016).

        divisor: larger for a mechanism whose rho is less.
        """
        return cls(epsilon**2 / divisor, epsilon)

    def times(self, count: int) -> "Cost":
        """Return the cost of count such runs: rho, epsilon and delta add up."""
        epsilon = None if self.epsilon is None else count * self.epsilon
        return Cost(count * self.rho, epsilon, count * self.delta)


class Event(ABC):
    """One kind of mechanism run, count times. Subclasses say what one run costs; the rest follows here.

    >>> isinstance(DiscreteLaplace(2, 1), Event)
    True
    """

    __slots__ = ()
    _public_repr: ClassVar[bool] = True
    kind: ClassVar[str]
    needs_public_n: ClassVar[bool] = False  # whether the cost holds only where n is public
    count: int

    @property
    @abstractmethod
    def cost_of_one(self) -> Cost:
        """The exact cost of one run, whatever the count."""

    @property
    def cost(self) -> Cost:
        """The exact cost of all count runs."""
        return self.cost_of_one.times(self.count)

    @property
    def known_cost_of_one(self) -> Cost:
        """The same, remembered: a loop charges the same few events over and over."""
        return _cost_of_one(self)

    @property
    def rho(self) -> float:
        """The zCDP cost of all runs, rounded up."""
        return float_up(self.cost.rho)

    @property
    def epsilon(self) -> float:
        """The pure DP cost of all runs, rounded up; infinity where there is no pure guarantee."""
        epsilon = self.cost.epsilon
        return math.inf if epsilon is None else float_up(epsilon)

    @property
    def delta(self) -> float:
        """The delta that rho and epsilon come with, of all runs, rounded up; 0 where they are exact."""
        return float_up(self.cost.delta)

    def parameters(self) -> dict[str, object]:
        """Return the arguments that make this event, by name: what repr shows and JSON keeps."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # every subclass is a dataclass
        return {name.removesuffix("_of_one"): getattr(self, name) for name in names}

    def to_dp_event(self) -> Any:
        """Return this event as a DpEvent of dp_accounting: see privmw.extensions.adapters."""
        from privmw.extensions.adapters import dp_accounting  # here: few have dp_accounting

        return dp_accounting.to_dp_event(self)

    def parts(self) -> Iterator["Event"]:
        """Yield this event and every event inside it."""
        yield self

    def __repr__(self) -> str:
        """Show the call that makes this event."""
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.parameters().items())})"

    def _keep(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@lru_cache(maxsize=256)
def _cost_of_one(event: Event) -> Cost:
    return event.cost_of_one


@dataclass(frozen=True, slots=True, repr=False, init=False)
class SelectionEvent(Event):
    """One of several candidates chosen, epsilon-DP each time; `epsilon` is what all runs cost together.

    >>> ExponentialMechanism.cost_of_share(Fraction(2)).rho, PermuteAndFlip.epsilon_for_rho(0.5)
    (Fraction(1, 2), 1.0)
    """

    epsilon_of_one: Real
    candidates: int
    count: int

    divisor: ClassVar[int] = 2

    def __init__(self, epsilon: Real, candidates: int, count: int = 1) -> None:
        self._keep(epsilon_of_one=positive("epsilon", epsilon))
        self._keep(
            candidates=positive_integer("candidates", candidates), count=positive_integer("count", count)
        )

    @property
    def cost_of_one(self) -> Cost:
        """The exact cost of one run."""
        return self.cost_of_share(Fraction(self.epsilon_of_one))

    @classmethod
    def cost_of_share(cls, epsilon: Fraction) -> Cost:
        """Return the cost of one run at an epsilon: epsilon^2 over the divisor, and epsilon."""
        return Cost.pure(epsilon, cls.divisor)

    @classmethod
    def epsilon_for_rho(cls, rho: Real) -> float:
        """Return the largest float epsilon whose run costs at most rho."""
        return epsilon_for_rho(rho, cls.divisor)


@dataclass(frozen=True, slots=True, repr=False, init=False)
class PermuteAndFlip(SelectionEvent):
    """A selection by permute-and-flip (McKenna and Sheldon 2020): rho = epsilon^2 / 2.

    >>> PermuteAndFlip(0.5, candidates=100, count=4).rho, PermuteAndFlip(0.5, candidates=100, count=4).epsilon
    (0.5, 2.0)
    """

    kind: ClassVar[str] = "permute-and-flip"


@dataclass(frozen=True, slots=True, repr=False, init=False)
class ReportNoisyMax(SelectionEvent):
    """A selection by the largest score after exponential noise, in law permute-and-flip: epsilon^2 / 2.

    >>> ReportNoisyMax(1, candidates=100).rho
    0.5
    """

    kind: ClassVar[str] = "report-noisy-max"


@dataclass(frozen=True, slots=True, repr=False, init=False)
class ExponentialMechanism(SelectionEvent):
    """A selection with P(i) ~ exp(epsilon score_i / (2 sensitivity)): rho = epsilon^2 / 8.

    Its privacy loss lies in a range of width epsilon, not 2 epsilon (bounded range; Cesar and Rogers 2021).

    >>> ExponentialMechanism(1, candidates=100).rho
    0.125
    """

    kind: ClassVar[str] = "exponential-mechanism"
    divisor: ClassVar[int] = 8


@dataclass(frozen=True, slots=True, repr=False, init=False)
class RandomizedResponse(Event):
    """A randomized bit for each of size records, epsilon-DP each time: one bit a record, so size is free.

    >>> RandomizedResponse(1, size=1000, count=2).epsilon
    2.0
    """

    epsilon_of_one: Real
    size: int
    count: int

    kind: ClassVar[str] = "randomized-response"
    needs_public_n: ClassVar[bool] = True  # how many bits there are says how many records

    def __init__(self, epsilon: Real, size: int, count: int = 1) -> None:
        self._keep(epsilon_of_one=positive("epsilon", epsilon))
        self._keep(size=positive_integer("size", size), count=positive_integer("count", count))

    @property
    def cost_of_one(self) -> Cost:
        """The exact cost of one run."""
        return Cost.pure(Fraction(self.epsilon_of_one))


@dataclass(frozen=True, slots=True, repr=False)
class DiscreteGaussian(Event):
    """Discrete Gaussian noise on size integers: rho = l2_sensitivity^2 / (2 sigma^2), no pure guarantee.

    The sensitivity is given by its square, an integer for counts: 1 for a cell, 2 for a marginal when a
    record is replaced. A float root, such as sqrt(2), could not be exact; square_l2_sensitivity reads one.

    >>> DiscreteGaussian(sigma=2, l2_sensitivity_squared=2, size=6).rho
    0.25
    """

    sigma: Real
    l2_sensitivity_squared: Real
    size: int = 1
    count: int = 1

    kind: ClassVar[str] = "discrete-gaussian"

    def __post_init__(self) -> None:
        self._keep(sigma=positive("sigma", self.sigma))
        self._keep(l2_sensitivity_squared=positive("l2_sensitivity_squared", self.l2_sensitivity_squared))
        self._keep(size=positive_integer("size", self.size), count=positive_integer("count", self.count))

    @property
    def l2_sensitivity(self) -> float:
        """The L2 sensitivity itself, rounded up."""
        return sqrt_up(Fraction(self.l2_sensitivity_squared))

    @property
    def scale(self) -> Real:
        """Sigma, under the name that every noise has for it."""
        return self.sigma

    @property
    def sensitivity(self) -> Real:
        """The sensitivity that is paid: L2 squared."""
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
        self._keep(scale=positive("scale", self.scale))
        self._keep(l1_sensitivity=positive("l1_sensitivity", self.l1_sensitivity))
        self._keep(size=positive_integer("size", self.size), count=positive_integer("count", self.count))

    @property
    def cost_of_one(self) -> Cost:
        """The exact cost of one run."""
        return Cost.pure(Fraction(self.l1_sensitivity) / Fraction(self.scale))

    @property
    def sensitivity(self) -> Real:
        """The sensitivity that is paid: L1."""
        return self.l1_sensitivity


@dataclass(frozen=True, slots=True, repr=False)
class ThresholdedLaplace(Event):
    """Discrete Laplace noise on size counts, of which those of 0 or below the threshold are not shown.

    epsilon = l1_sensitivity / scale; delta bounds the chance that a cell is shown which has records of one
    unit only, of which there are at most `records`.

    >>> event = ThresholdedLaplace(scale=2, l1_sensitivity=2, threshold=29)
    >>> event.epsilon, f"{event.delta:.1e}"
    (1.0, '5.2e-07')
    """

    scale: Real
    l1_sensitivity: Real
    threshold: int
    records: int = 1
    size: int = 1
    count: int = 1

    kind: ClassVar[str] = "thresholded-laplace"

    def __post_init__(self) -> None:
        """Refuse parameters that mean nothing, and a threshold that the records of one unit reach."""
        self._keep(scale=positive("scale", self.scale))
        self._keep(l1_sensitivity=positive("l1_sensitivity", self.l1_sensitivity))
        for name in ("threshold", "records", "size", "count"):
            self._keep(**{name: positive_integer(name, getattr(self, name))})
        if self.threshold <= self.records:
            raise ValueError(f"threshold ({self.threshold}) must be above the records ({self.records})")

    @property
    def cost_of_one(self) -> Cost:
        """The cost of one run; delta is a float that is not below the truth."""
        epsilon = Fraction(self.l1_sensitivity) / Fraction(self.scale)
        delta = delta_from_threshold(self.threshold, self.scale, self.records)
        return Cost.pure(epsilon)._replace(delta=Fraction(delta))
