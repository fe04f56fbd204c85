"""Constraints: combinations of values that no record can have; public, like a domain.

They remove rows from a support, so that impossible rows get no weight. Private tables are never checked
against them: refusing a table, or counting the rows that break a rule, would reveal something about a record.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from reprlib import repr as _short
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from privmw.data.constraints.relation import RELATIONS, Relation, relation
from privmw.data.constraints.rule import Rule, checked_list, invalid_rule, valid_rule
from privmw.data.domain import Domain, check_domain, positions_of
from privmw.data.strict_json import parse_json
from privmw.data.table import Table
from privmw.io.files import naming
from privmw.kernels.arrays import Bools, Int64s
from privmw.secrecy import expect, shown

LOOKUP_CELLS = 2**22  # rules on the same attributes share one lookup array of at most this many cells


def _without_notes(rule: Any) -> Any:
    """The rule without keys that begin with $."""
    if not isinstance(rule, Mapping):
        return rule
    return {key: value for key, value in rule.items() if not str(key).startswith("$")}


class Constraints:
    """Rules that every row of a support must satisfy. Immutable.

    `rules` is the content of a JSON file. "invalid" lists objects: a row must not have one of the listed
    values of *every* attribute named. "valid" lists all the combinations that some attributes may have. A
    value is a label as `Attribute.label` returns it, null for a missing one, or, for bins, a range of whole
    bins {"from": 0, "to": 15}, which excludes "to" unless it is the last edge. "order", "equal" and "sum"
    list relations between numbers, or between dates, such as {"attributes": ["wage", "income"], "margin": 0}:
    the first is at most the second, both are equal, or the last is the sum of the others, but for the margin.
    Keys that begin with $ are notes, and ignored.

    >>> domain = Domain({"age": {"edges": [0, 15, 30, 100]}, "state": ["HI", "NY"], "married": ["no", "yes"]})
    >>> rules = {"invalid": [{"age": [{"from": 0, "to": 15}], "married": ["yes"]}]}
    >>> constraints = Constraints(rules, domain)
    >>> constraints
    Constraints(1 rule on 2 attributes)
    >>> constraints.mask(Table.from_codes([[0, 0, 0], [0, 0, 1], [1, 0, 1]], domain, private=False)).tolist()
    [True, False, True]
    """

    __slots__ = ("__weakref__", "_domain", "_relations", "_rules")
    _public_repr: ClassVar[bool] = True

    def __init__(self, rules: Mapping[str, object], domain: Domain) -> None:
        check_domain(domain)
        expect("rules", rules, Mapping, "an object with the keys invalid and valid")
        rules = {key: rule for key, rule in rules.items() if not str(key).startswith("$")}
        if not set(rules) <= {"invalid", "valid", *RELATIONS}:
            raise ValueError("keys of rules must be invalid, valid, order, equal or sum")
        checked: set[Rule] = set()
        for place, rule in enumerate(checked_list("invalid", rules.get("invalid", []))):
            checked.add(invalid_rule(domain, f"invalid[{place}]", _without_notes(rule)))
        for place, rule in enumerate(checked_list("valid", rules.get("valid", []))):
            checked.add(valid_rule(domain, f"valid[{place}]", _without_notes(rule)))
        relations: set[Relation] = set()
        for kind in RELATIONS:
            for place, rule in enumerate(checked_list(kind, rules.get(kind, []))):
                relations.add(relation(domain, kind, f"{kind}[{place}]", _without_notes(rule)))
        self._relations = tuple(sorted(relations, key=lambda one: (one.kind, one.positions, one.margin)))
        self._domain = domain
        self._rules = tuple(sorted(checked, key=lambda rule: (rule.valid, rule.positions, rule.codes)))

    @classmethod
    def read(cls, path: str | os.PathLike[str], domain: Domain) -> Constraints:
        """Read a JSON file."""
        with open(path, encoding="utf-8-sig") as file, naming(path):
            return cls(parse_json(file.read()), domain)

    @property
    def domain(self) -> Domain:
        """The domain of the rules."""
        return self._domain

    def to_json(self) -> str:
        """JSON text of the rules, in a fixed order, one per line."""
        write = json.JSONEncoder(ensure_ascii=False).encode
        keys = []
        for key, valid in (("invalid", False), ("valid", True)):
            lines = [
                f"    {write(rule.written(self._domain))}" for rule in self._rules if rule.valid == valid
            ]
            keys += [f'  "{key}": [\n' + ",\n".join(lines) + "\n  ]"] if lines else []
        for key in RELATIONS:
            lines = [f"    {write(one.written(self._domain))}" for one in self._relations if one.kind == key]
            keys += [f'  "{key}": [\n' + ",\n".join(lines) + "\n  ]"] if lines else []
        return "{\n" + ",\n".join(keys) + "\n}\n"

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The relations between values, which are checked for every record that is drawn."""
        return self._relations

    @property
    def _all(self) -> tuple[Rule | Relation, ...]:
        return (*self._rules, *self._relations)

    def among(self, names: Sequence[str]) -> Constraints:
        """The rules that name these attributes only, on the same domain.

        >>> domain = Domain({"age": 3, "sex": 2, "married": ["no", "yes"]})
        >>> Constraints({"invalid": [{"age": [0], "married": ["yes"]}]}, domain).among(["age", "sex"])
        Constraints(0 rules on 0 attributes)
        """
        positions = set(positions_of(self._domain, names))
        among = object.__new__(Constraints)
        among._domain = self._domain
        among._rules = tuple(rule for rule in self._rules if positions.issuperset(rule.positions))
        among._relations = tuple(one for one in self._relations if positions.issuperset(one.positions))
        return among

    def mask(self, table: Table) -> Bools:
        """Mask of the rows of a public table that satisfy every rule."""
        self._check(table)
        mask = np.ones(table.n, bool)
        by_attributes: dict[tuple[int, ...], list[Rule]] = {}
        for rule in self._rules:
            by_attributes.setdefault((int(rule.valid), *rule.positions), []).append(rule)
        for (valid, *positions), rules in by_attributes.items():
            shape = [self._domain.sizes[position] for position in positions]
            if valid or math.prod(shape) > LOOKUP_CELLS:
                for rule in rules:
                    mask &= rule.mask(table)
            else:
                cells = np.ones(shape, bool)
                for rule in rules:
                    cells[np.ix_(*rule.codes)] = False
                mask &= cells[tuple(table.columns[position] for position in positions)]
        for one in self._relations:
            mask &= one.mask(table)
        return mask

    def allows(self, codes: npt.ArrayLike) -> Bools:
        """Mask of the public records (codes, rows x attributes) that satisfy every rule.

        >>> domain = Domain({"age": 3, "married": ["no", "yes"]})
        >>> Constraints({"invalid": [{"age": [0], "married": ["yes"]}]}, domain).allows([[0, 1], [1, 1]])
        array([False,  True])
        """
        return self.mask(Table.from_codes(codes, self._domain, private=False))

    def excluded(self, positions: Sequence[int]) -> Bools:
        """Mask of the combinations of values of some attributes that a single rule excludes.

        positions: of the attributes, ascending. Combinations that only several rules together exclude are not
        marked.

        >>> domain = Domain({"age": 3, "sex": 2, "married": ["no", "yes"]})
        >>> rules = {"invalid": [{"age": [0], "married": ["yes"]}]}
        >>> Constraints(rules, domain).excluded([0, 2]).tolist()
        [[False, True], [False, False], [False, False]]
        """
        cells = np.zeros([self._domain.sizes[position] for position in positions], bool)
        for rule in self._all:
            cells |= rule.excluded(positions, cells.shape)
        return cells

    def broken(self, table: Table) -> Int64s:
        """The number of rows of a public table that break each rule."""
        self._check(table)
        return np.array([int((~rule.mask(table)).sum()) for rule in self._all], np.int64)

    def complaint(self, broken: Int64s, n: int) -> str:
        """A message about the three rules that most rows break; n: the number of rows."""
        worst = sorted(zip(broken.tolist(), self._all, strict=True), key=lambda pair: -pair[0])[:3]
        return "; ".join(
            f"{_short(rule.written(self._domain))} takes {rows} of {n} rows" for rows, rule in worst
        )

    def _check(self, table: Table) -> None:
        expect("table", table, Table, "a Table")
        if table.private:
            raise ValueError(
                "table (a private table) must be public: which rows satisfy a rule reveals records"
            )
        if table.domain != self._domain:
            raise ValueError(f"table ({shown(table)}) must be on the domain of the constraints")

    def __len__(self) -> int:
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constraints):
            return NotImplemented
        return self._domain == other._domain and self._all == other._all

    def __hash__(self) -> int:
        return hash((self._domain, self._all))

    def __reduce__(self) -> tuple[object, ...]:
        return Constraints, (json.loads(self.to_json()), self._domain)

    def __repr__(self) -> str:
        attributes = len({position for rule in self._all for position in rule.positions})
        plural = "" if len(self) == 1 else "s"
        return f"Constraints({len(self)} rule{plural} on {attributes} attribute{'s' * (attributes != 1)})"
