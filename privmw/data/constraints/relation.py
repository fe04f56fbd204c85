"""One relation between numbers or dates of a record: an order, equality, or a sum. Used by constraints.

A relation holds if a value is missing. Rows of codes satisfy it if some values in their bins do; which values
records get inside their bins is checked when they are drawn (privmw.io.relations).
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from privmw.data.attribute import Attribute
from privmw.data.domain import Domain, positions_of
from privmw.data.table import Table
from privmw.kernels.arrays import Bools, Float64s
from privmw.kernels.checks import check_number
from privmw.secrecy import expect, shown

Bounds: TypeAlias = "tuple[tuple[float, ...], tuple[float, ...]]"  # least and largest value, by code

RELATIONS = {
    "order": "two attributes, of which the first must be at most the second",
    "equal": "two attributes, which must be equal",
    "sum": "three or more attributes, of which the last must be the sum of the others",
}
RELATIVE_ROUNDING = 1e-9  # relative error of sums of decimals


@dataclass(frozen=True)
class Relation:
    """A relation of a kind between the values of some attributes, which may be missed by the margin."""

    kind: str
    positions: tuple[int, ...]  # in the order of the relation
    margin: float
    bounds: tuple[Bounds, ...]  # of each attribute

    def mask(self, table: Table) -> Bools:
        """Mask of the rows whose bins have values that satisfy the relation."""
        return self._possible([table.columns[position] for position in self.positions])

    def excluded(self, positions: Sequence[int], shape: tuple[int, ...]) -> Bools:
        """Mask of the combinations of some attributes that the relation excludes."""
        if not set(self.positions) <= set(positions):
            return np.zeros(shape, bool)
        places = [list(positions).index(position) for position in self.positions]
        codes = [
            np.arange(shape[p]).reshape([-1 if p == q else 1 for q in range(len(shape))]) for p in places
        ]
        return ~np.broadcast_to(self._possible(codes), shape)

    def holds(self, values: Sequence[Float64s]) -> Bools:
        """Mask of the records whose values satisfy the relation; NaN is missing.

        >>> domain = Domain({"wage": {"edges": [0, 9]}, "income": {"edges": [0, 9]}})
        >>> order = relation(domain, "order", "order[0]", {"attributes": ["wage", "income"], "margin": 1})
        >>> order.holds([np.array([1.0, 3.0, 4.0]), np.array([np.nan, 2.0, 2.0])]).tolist()
        [True, True, False]
        """
        *parts, last = values
        total = np.sum(parts, axis=0)
        missing = np.isnan(total) | np.isnan(last)
        slack = self.margin + RELATIVE_ROUNDING * np.abs(np.where(missing, 0, last))
        over = total - last
        holds: Bools = missing | (over <= slack) & ((self.kind == "order") | (over >= -slack))
        return holds

    def _possible(self, codes: Sequence[Any]) -> Bools:
        low, high = (
            [np.array(bounds[side])[code] for bounds, code in zip(self.bounds, codes, strict=True)]
            for side in (0, 1)
        )
        slack = self.margin + RELATIVE_ROUNDING * self.margin
        possible = ~(sum(low[:-1]) > high[-1] + slack)  # NaN, a missing value, excludes nothing
        if self.kind != "order":
            possible &= ~(low[-1] > sum(high[:-1]) + slack)
        return np.asarray(possible)

    def written(self, domain: Domain) -> object:
        """The JSON value of the relation."""
        names = [domain.attributes[position].name for position in self.positions]
        return {"attributes": names, **({"margin": self.margin} if self.margin else {})}


def relation(domain: Domain, kind: str, where: str, rule: Any) -> Relation:
    """Make the relation of an object under one of RELATIONS."""
    right = isinstance(rule, Mapping) and "attributes" in rule and set(rule) <= {"attributes", "margin"}
    expect(where, rule, right, "an object of attributes and, optionally, a margin", quote=False)
    names = rule["attributes"]
    listed = isinstance(names, list | tuple) and (len(names) >= 3 if kind == "sum" else len(names) == 2)
    texts = listed and all(isinstance(name, str) for name in names)
    if not texts or len(set(names)) < len(names):
        raise ValueError(f"{where}: attributes must be {RELATIONS[kind]}")
    margin = check_number(f"{where}: margin", rule.get("margin", 0))
    if not 0 <= margin < math.inf:
        raise ValueError(f"{where}: margin ({margin}) must not be negative")
    positions = tuple(positions_of(domain, names, f"{where}: attributes"))
    attributes = [domain.attributes[position] for position in positions]
    dates = {_is_date(attribute) for attribute in attributes}
    if len(dates) > 1 or (kind == "sum" and dates == {True}):
        raise ValueError(
            f"{where}: attributes must all be numbers{'' if kind == 'sum' else ', or all dates'}"
        )
    return Relation(kind, positions, float(margin), tuple(_bounds(where, a) for a in attributes))


def _is_date(attribute: Attribute) -> bool:
    return isinstance((attribute.edges or (0,))[0], datetime.date)


def _bounds(where: str, attribute: Attribute) -> Bounds:
    """The least and largest value of each code; NaN for missing and other ones."""
    low: list[float]
    high: list[float]
    if attribute.edges:
        edges = [float(e.toordinal() if isinstance(e, datetime.date) else e) for e in attribute.edges]
        low, high = edges[:-1], [math.nextafter(edge, -math.inf) for edge in edges[1:]]
        high[-1] = edges[-1]
        if attribute.open:
            low[0], high[-1] = -math.inf, math.inf
    else:
        labels = attribute.labels or range(attribute.size)
        if any(isinstance(label, str) for label in labels):
            raise ValueError(
                f"{where}: attribute {shown(attribute.name)} must have numbers or dates, not texts"
            )
        low = [float(label) for label in labels]
        high = list(low)
    rest = [math.nan] * (attribute.size - len(low))
    return (*low, *rest), (*high, *rest)
