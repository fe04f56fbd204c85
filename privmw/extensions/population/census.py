"""A made-up census (census.json): which attributes its people have, and how each depends on those before it.

All of it is invented; `privmw.extensions.population` draws from it.

An attribute's labels (or bins) have odds, one row for each value of the attribute it is `given`; a `share` is
a yes that few have, in a hundred. `tilts` make later labels likelier: the odds of label j are multiplied by
t^j, where t is a product over the attributes named: of the entry at the attribute's value, or of a ratio to
the power of the value's code. A tilt of 0 leaves the first label only. `drift` is the tilt of another time
and place: t is multiplied by it in a population that is shifted by 1. A list that stands in several places
has a name among the `vectors`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple


class Node(NamedTuple):
    """One attribute: its declaration in the domain and its odds."""

    name: str
    declared: Any
    odds: Sequence[Any]
    given: str | None
    tilts: Mapping[str, float | Sequence[float]]
    drift: float


def _read() -> Mapping[str, list[Node]]:
    census = json.loads(files("privmw.extensions.population").joinpath("census.json").read_text("utf-8"))
    vectors = census.pop("vectors")

    def named(value: Any) -> Any:
        return vectors[value] if isinstance(value, str) else value

    def node(row: Mapping[str, Any]) -> Node:
        share = row.get("share", 0)
        odds = [named(odd) for odd in row.get("odds", [100 - share, share])]
        tilts = {name: named(tilt) for name, tilt in row.get("tilts", {}).items()}
        values = row.get("values", ["no", "yes"])
        return Node(row["name"], values, odds, row.get("given"), tilts, row.get("drift", 1.0))

    return {part: [node(row) for row in rows] for part, rows in census.items()}


_CENSUS = _read()
PEOPLE, DETAILS = _CENSUS["people"], _CENSUS["details"]
