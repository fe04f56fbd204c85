"""Events: one frozen object per mechanism run on the private table, with its cost.

An event has parameters only, never data. Its sensitivities refer to the ledger's neighbouring relation, and
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

from .conversion import delta_from_threshold, epsilon_for_rho
from .rounding import Real, float_up, positive, positive_integer


class Neighbors(enum.Enum):
    """The neighbouring relation: one record replaced by any other, or one record added or removed.

    >>> Neighbors("replace-one")
    <Neighbors.REPLACE_ONE: 'replace-one'>
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE_ONE = "add-remove-one"

    @classmethod
    def _missing_(cls, value: object) -> None:  # enum would quote any value
        known = ", ".join(each.value for each in cls)
        raise ValueError(f"neighbors ({shown(value)}) must be one of {known}")


class Cost(NamedTuple):
    """An exact cost: rho of zCDP, and epsilon of pure DP (None without a pure guarantee).

    delta: both hold delta-approximately (Bun and Steinke 2016, Definition 8.1). For any two neighbours, the
    two output distributions are mixtures: with weight 1 - delta of distributions that satisfy rho (or
    epsilon), and with weight delta of arbitrary ones. Over several runs rho, epsilon and delta each add up:
    both runs fall into the first parts with weight (1 - delta1)(1 - delta2), which is at least 1 - delta1 -
    delta2.

    >>> PermuteAndFlip(1, candidates=5).cost
    Cost(rho=Fraction(1, 2), epsilon=Fraction(1, 1), delta=Fraction(0, 1))
    """

    rho: Fraction
    epsilon: Fraction | None
    delta: Fraction = Fraction(0)

    @classmethod
    def pure(cls, epsilon: Fraction, divisor: int = 2) -> "Cost":
        """Return the cost of an epsilon-DP run; rho = epsilon^2 / 2 holds for all (Bun and Steinke 2016).

        divisor: rho = epsilon^2 / divisor; larger than 2 for a mechanism with a tighter rho.
        """
        return cls(epsilon**2 / divisor, epsilon)

    def times(self, count: int) -> "Cost":
        """Return the cost of count such runs: rho, epsilon and delta add up."""
        epsilon = None if self.epsilon is None else count * self.epsilon
        return Cost(count * self.rho, epsilon, count * self.delta)


KINDS: dict[str, type["Event"]] = {}  # every event that a ledger may hold


class Event(ABC):
    """A mechanism that ran `count` times. Subclasses define the cost of one run; the rest follows here.

    >>> isinstance(PermuteAndFlip(1, candidates=5), Event)
    True
    """

    __slots__ = ()
    _public_repr: ClassVar[bool] = True
    kind: ClassVar[str]
    charged: ClassVar[bool] = True  # whether ledgers hold it, and read it back by its kind
    needs_public_n: ClassVar[bool] = False  # True if the cost holds only for public n
    count: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.charged and "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @property
    @abstractmethod
    def cost_of_one(self) -> Cost:
        """The exact cost of one of the runs."""

    @property
    def cost(self) -> Cost:
        """The exact cost of all count runs."""
        return self.cost_of_one.times(self.count)

    @property
    def known_cost_of_one(self) -> Cost:
        """`cost_of_one`, cached: a loop charges the same few events repeatedly."""
        return _cost_of_one(self)

    @property
    def rho(self) -> float:
        """The zCDP cost of all runs, rounded up."""
        return float_up(self.cost.rho)

    @property
    def epsilon(self) -> float:
        """The pure DP cost of all runs, rounded up; infinity without a pure guarantee."""
        epsilon = self.cost.epsilon
        return math.inf if epsilon is None else float_up(epsilon)

    @property
    def delta(self) -> float:
        """The delta of an approximate guarantee of all runs, rounded up; 0 without one."""
        return float_up(self.cost.delta)

    def parameters(self) -> dict[str, object]:
        """Return the constructor arguments by name, as in the repr and in JSON."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # every subclass is a dataclass
        return {name.removesuffix("_of_one"): getattr(self, name) for name in names}

    def to_dp_event(self) -> Any:
        """Return this event as a DpEvent of dp_accounting: see privmw.extensions.adapters."""
        from privmw.extensions.adapters import dp_accounting  # here: few have dp_accounting

        return dp_accounting.to_dp_event(self)

    def parts(self) -> Iterator["Event"]:
        """Yield this event and all nested events."""
        yield self

    def __repr__(self) -> str:
        """Return the constructor call that makes this event."""
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.parameters().items())})"

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@lru_cache(maxsize=256)
def _cost_of_one(event: Event) -> Cost:
    return event.cost_of_one


@dataclass(frozen=True, slots=True, repr=False, init=False)
class SelectionEvent(Event):
    """A choice among candidates, epsilon-DP each time; the property `epsilon` is the cost of all runs.

    >>> ExponentialMechanism.cost_of_share(Fraction(2)).rho, PermuteAndFlip.epsilon_for_rho(0.5)
    (Fraction(1, 2), 1.0)
    """

    epsilon_of_one: Real
    candidates: int
    count: int

    divisor: ClassVar[int] = 2

    def __init__(self, epsilon: Real, candidates: int, count: int = 1) -> None:
        self._set(epsilon_of_one=positive("epsilon", epsilon))
        self._set(
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
    """A selection of the largest score after exponential noise; same distribution as permute-and-flip.

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
    """A randomized bit for each of `size` records: epsilon-DP for any size, since a record has one bit.

    >>> RandomizedResponse(1, size=1000, count=2).epsilon
    2.0
    """

    epsilon_of_one: Real
    size: int
    count: int

    kind: ClassVar[str] = "randomized-response"
    needs_public_n: ClassVar[bool] = True  # the number of bits reveals the number of records

    def __init__(self, epsilon: Real, size: int, count: int = 1) -> None:
        self._set(epsilon_of_one=positive("epsilon", epsilon))
        self._set(size=positive_integer("size", size), count=positive_integer("count", count))

    @property
    def cost_of_one(self) -> Cost:
        """The exact cost of one run."""
        return Cost.pure(Fraction(self.epsilon_of_one))


@dataclass(frozen=True, slots=True, repr=False)
class ThresholdedLaplace(Event):
    """Discrete Laplace noise on size counts; counts of 0 and noisy counts below the threshold are not shown.

    epsilon = l1_sensitivity / scale; delta bounds the probability of showing a cell whose records all belong
    to one unit; a unit has at most `records`.

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
        """Validate the parameters; the threshold must be above the records of one unit."""
        self._set(scale=positive("scale", self.scale))
        self._set(l1_sensitivity=positive("l1_sensitivity", self.l1_sensitivity))
        for name in ("threshold", "records", "size", "count"):
            self._set(**{name: positive_integer(name, getattr(self, name))})
        if self.threshold <= self.records:
            raise ValueError(f"threshold ({self.threshold}) must be above the records ({self.records})")

    @property
    def cost_of_one(self) -> Cost:
        """The cost of one run; delta is a float, rounded up."""
        epsilon = Fraction(self.l1_sensitivity) / Fraction(self.scale)
        delta = delta_from_threshold(self.threshold, self.scale, self.records)
        return Cost.pure(epsilon)._replace(delta=Fraction(delta))
