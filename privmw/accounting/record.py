"""Events and budgets as JSON and back, without loss: strict about kinds, names and numbers.

Integers and floats are JSON numbers (Python writes floats so that they read back the same); a Fraction is
"3/7".
"""

import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from privmw.secrecy import shown

from .budget import Budget
from .events import KINDS, Cost, Event, Neighbors
from .rounding import positive_integer


def write_event(event: Event) -> dict[str, Any]:
    """Return event as JSON values.

    >>> from privmw.accounting import PermuteAndFlip
    >>> write_event(PermuteAndFlip(Fraction(1, 3), candidates=5))
    {'kind': 'permute-and-flip', 'epsilon': '1/3', 'candidates': 5, 'count': 1}
    """
    return {"kind": event.kind} | {name: _write(value) for name, value in event.parameters().items()}


def read_event(record: object) -> Event:
    """Return the event a record describes; refuse kinds and parameters that are not known here.

    >>> read_event({"kind": "permute-and-flip", "epsilon": "1/3", "candidates": 5, "count": 1})
    PermuteAndFlip(epsilon=Fraction(1, 3), candidates=5, count=1)
    """
    if not isinstance(record, dict) or record.get("kind") not in KINDS:
        kind = record.get("kind") if isinstance(record, dict) else record
        raise ValueError(f"kind ({shown(kind)}) must be one of {', '.join(KINDS)}")
    values = {name: _read(name, value) for name, value in record.items() if name != "kind"}
    event = KINDS[record["kind"]](**values)
    # A missing parameter would silently take its default, such as a count of 1.
    if event.parameters().keys() != values.keys():
        raise ValueError(f"{event.kind} must have the parameters {', '.join(event.parameters())}")
    return event


def write_budget(budget: Budget) -> dict[str, Any]:
    """Return budget as JSON values.

    >>> write_budget(Budget.pure(2))
    {'notion': 'pure', 'rho': None, 'epsilon': 2, 'delta': None}
    """
    record = {name: _write(value) for name, value in asdict(budget).items()}
    if budget.event_delta == 0:
        del record["event_delta"]  # older files do not have it
    return record


def read_budget(record: object) -> Budget:
    """Return the budget a record describes.

    >>> read_budget(write_budget(Budget.pure(2)))
    Budget.pure(2)
    """
    fields = require(record, "budget", {"notion", "rho", "epsilon", "delta"}, optional={"event_delta"})
    return Budget(**{name: _read(name, value) for name, value in fields.items()})


def write_costs(counts: Mapping[Cost, int]) -> list[dict[str, Any]]:
    """Return how often each cost was charged as JSON values.

    >>> write_costs({Cost(Fraction(1, 2), None): 3})
    [{'rho': '1/2', 'epsilon': None, 'count': 3}]
    """
    records = []
    for cost, count in counts.items():
        record = {"rho": _write(cost.rho), "epsilon": _write(cost.epsilon), "count": count}
        records.append(record | ({"delta": _write(cost.delta)} if cost.delta else {}))
    return records


def read_costs(records: object) -> dict[Cost, int]:
    """Return the costs that records describe, and how often each was charged.

    >>> read_costs([{"rho": "1/2", "epsilon": None, "count": 3}])
    {Cost(rho=Fraction(1, 2), epsilon=None, delta=Fraction(0, 1)): 3}
    """
    counts: dict[Cost, int] = {}
    for entry in records if isinstance(records, list) else [records]:
        fields = {"delta": "0/1"} | require(entry, "cost", {"rho", "epsilon", "count"}, optional={"delta"})
        rho, epsilon, delta = (_read(name, fields[name]) for name in ("rho", "epsilon", "delta"))
        exact = isinstance(rho, Fraction) and isinstance(delta, Fraction)
        if not exact or not (epsilon is None or isinstance(epsilon, Fraction)):
            raise ValueError(f"cost ({shown(entry)}) must be of exact fractions")
        cost = Cost(rho, epsilon, delta)
        if cost in counts:
            raise ValueError(f"cost ({shown(entry)}) must be listed once")
        counts[cost] = positive_integer("count", fields["count"])
    return counts


def read_neighbors(value: object) -> Neighbors:
    """Return the neighbours of that name.

    >>> read_neighbors("replace-one").name
    'REPLACE_ONE'
    """
    return Neighbors(value)


def require(
    record: object, name: str, keys: set[str], *, optional: AbstractSet[str] = frozenset()
) -> dict[str, Any]:
    """Return record if it is an object with exactly these keys, and perhaps optional ones.

    >>> require({"a": 1}, "thing", {"a"})
    {'a': 1}
    """
    if not isinstance(record, dict) or record.keys() - optional != keys:
        raise ValueError(f"{name} must be an object with the keys {', '.join(sorted(keys))}")
    return record


def parse(text: str) -> object:
    """Return JSON text as Python values, refusing what readers disagree on: repeated keys, NaN, infinity.

    >>> parse('{"a": NaN}')
    Traceback (most recent call last):
    ValueError: number (NaN) must be finite
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) != len(dict(pairs)):
            raise ValueError("keys must not be repeated")
        return dict(pairs)

    def constant(name: str) -> object:
        raise ValueError(f"number ({name}) must be finite")

    return json.loads(text, object_pairs_hook=once, parse_constant=constant)


def _write(value: object) -> object:
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, Neighbors):
        return value.value
    if isinstance(value, tuple):
        return [write_event(item) if isinstance(item, Event) else _write(item) for item in value]
    return value


def _read(name: str, value: Any) -> Any:
    if name == "events":
        return tuple(read_event(event) for event in value)
    if name == "neighbors":
        return read_neighbors(value)
    if isinstance(value, list):
        return tuple(_read(name, item) for item in value)
    if isinstance(value, str) and re.fullmatch(r"[0-9]+/[1-9][0-9]*", value):
        return Fraction(value)
    return value
