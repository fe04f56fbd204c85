"""The history of a release: its rounds and settings, as plain JSON values. Released values only."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privmw.kernels.checks import check_integer, check_number
from privmw.secrecy import expect, shown


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round, in released values only.

    round: 0 for a first shot, then from 1. chosen: the selected cells or marginals, if any. discrepancy,
    after: the largest |noisy answer - model answer| of the measured cells, before and after the update. rho:
    spent so far. details: of the update, such as a solver's duality gap.

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
        """Convert to plain integers and floats; refuse everything else."""
        expect("chosen", self.chosen, list | tuple, "a tuple of integers")
        right = isinstance(self.details, Mapping) and all(isinstance(key, str) for key in self.details)
        expect("details", self.details, right, "a mapping from names to numbers")
        values = {
            "round": check_integer("round", self.round, 0),
            "chosen": tuple(check_integer("chosen", i, 0, quote=False) for i in self.chosen),
            **{name: check_number(name, getattr(self, name)) for name in ("discrepancy", "after", "rho")},
            "details": {
                name: check_number("details", self.details[name], quote=False)
                for name in sorted(self.details)
            },
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        # By repr, which shows every bit of a float: a NaN in a certificate then equals itself.
        return repr(self) == repr(other) if isinstance(other, Round) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self))


def plain(where: str, value: Any) -> Any:
    """Convert a value to plain JSON values; the error names `where`.

    >>> plain("settings", {"split": (0.5, 0.5), "rounds": 10})
    {'split': [0.5, 0.5], 'rounds': 10}
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Mapping):
        for key in value:
            expect(f"{where}: key", key, str, "a string", quote=False)
        return {key: plain(f"{where}[{key!r}]", value[key]) for key in value}
    if isinstance(value, list | tuple):
        return [plain(f"{where}[{place}]", inner) for place, inner in enumerate(value)]
    if isinstance(value, numbers.Integral):
        return int(value)
    number = check_number(where, value, quote=False)
    if not math.isfinite(number):
        raise ValueError(f"{where} must be finite")
    return number


def write_round(entry: Round) -> dict[str, Any]:
    """Convert a round to JSON values, losslessly: infinity and NaN, which JSON lacks, become strings.

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
    """Read the round that `write_round` wrote.

    >>> entry = Round(1, (17,), 0.25, 0.125, 0.01, {"gap": math.inf})
    >>> read_round(write_round(entry)) == entry
    True
    """
    names = ("round", "chosen", "discrepancy", "after", "rho", "details")
    if not isinstance(values, dict) or set(values) != set(names) or not isinstance(values["details"], dict):
        raise ValueError(f"round ({shown(values)}) must be an object with the keys {', '.join(names)}")
    details = {name: _read(value) for name, value in values["details"].items()}
    return Round(**{**{name: _read(values[name]) for name in names}, "details": details})


def _write(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _read(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value
