"""What a release remembers of how it was made: its rounds and settings, as plain JSON values.

Released values only. This room knows nothing else of privmw.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What one round did, in released values only.

    round: 0 for a first shot, then from 1. chosen: the cells or marginals; none where nothing was chosen.
    discrepancy, after: the largest |noisy answer - model answer| of what was measured, before the update and
    after it. rho: spent so far. details: what the update says of itself, such as a solver's duality gap.

    >>> Round(1, [17], discrepancy=0.25, after=0.125, rho=0.01).chosen
    (17,)
    """

    round: int
    chosen: tuple[int, ...]
    discrepancy: float
    after: float
    rho: float
    details: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep plain integers and floats; refuse everything else."""
        if not isinstance(self.chosen, list | tuple):
            raise TypeError(f"chosen ({_short(self.chosen)}) must be a tuple of integers")
        if not isinstance(self.details, Mapping) or not all(isinstance(key, str) for key in self.details):
            raise TypeError(f"details ({_short(self.details)}) must be a mapping from names to numbers")
        kept = {
            "round": index("round", self.round),
            "chosen": tuple(index("chosen", i) for i in self.chosen),
            **{name: number(name, getattr(self, name)) for name in ("discrepancy", "after", "rho")},
            "details": {name: number(name, self.details[name]) for name in sorted(self.details)},
        }
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        # By repr: it shows every bit of a float, and a certificate that is NaN equals itself.
        return repr(self) == repr(other) if isinstance(other, Round) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self))


def plain(where: str, value: Any) -> Any:
    """The same as plain JSON values, or a refusal that says where.

    >>> plain("settings", {"split": (0.5, 0.5), "rounds": 10})
    {'split': [0.5, 0.5], 'rounds': 10}
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where}: key ({_short(key)}) must be a string")
        return {key: plain(f"{where}[{key!r}]", value[key]) for key in value}
    if isinstance(value, list | tuple):
        return [plain(f"{where}[{place}]", inner) for place, inner in enumerate(value)]
    if isinstance(value, numbers.Integral):
        return int(value)
    kept = number(where, value)
    if not math.isfinite(kept):
        raise ValueError(f"{where} ({kept}) must be finite")
    return kept


def index(name: str, value: object) -> int:
    """The same as a plain integer, refused if it is negative."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} ({_short(value)}) must be an integer")
    if value < 0:
        raise ValueError(f"{name} ({_short(int(value))}) must not be negative")
    return int(value)


def number(name: str, value: object) -> float:
    """The same as a plain float, whatever it is."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} ({_short(value)}) must be a number")
    return float(value)


def write_round(entry: Round) -> dict[str, Any]:
    """A round as JSON values, without loss. Infinity and NaN, which JSON has not, become strings.

    >>> write_round(Round(1, (17,), 0.25, 0.125, 0.01, {"gap": math.inf}))["details"]
    {'gap': 'inf'}
    """
    return {
        "round": entry.round,
        "chosen": list(entry.chosen),
        **{name: _write(getattr(entry, name)) for name in ("discrepancy", "after", "rho")},
        "details": {name: _write(value) for name, value in entry.details.items()},
    }


def read_round(values: Any) -> Round:
    """The round that `write_round` wrote.

    >>> entry = Round(1, (17,), 0.25, 0.125, 0.01, {"gap": math.inf})
    >>> read_round(write_round(entry)) == entry
    True
    """
    names = ("round", "chosen", "discrepancy", "after", "rho", "details")
    if not isinstance(values, dict) or set(values) != set(names) or not isinstance(values["details"], dict):
        raise ValueError(f"round ({_short(values)}) must be an object with the keys {', '.join(names)}")
    details = {name: _read(value) for name, value in values["details"].items()}
    return Round(**{**{name: _read(values[name]) for name in names}, "details": details})


def _write(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _read(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value
