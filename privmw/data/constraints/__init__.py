"""Constraints: combinations of values that no record can have, known beforehand and public, as a domain is.

They thin out a support, so that no weight goes to impossible rows. Private tables are never checked against
them: to refuse a table, or to say how many of its rows break a rule, would tell about a record. What the
kernels and mechanisms do with a support, this room does not know.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from reprlib import repr as _short

import numpy as np
import numpy.typing as npt

from privmw.data.constraints.rule import Rule, checked_list, invalid_rule, valid_rule
from privmw.data.domain import Domain
from privmw.data.strict_json import parse_json
from privmw.data.table import Table

CELLS = 2**22  # of the rules on the same attributes, looked up in one table if they have no more cells


class Constraints:
    """Rules that every row of a support keeps, immutable.

    `rules` is what a JSON file holds. "invalid" lists objects: a row must not have one of the listed values
    of *every* attribute named. "valid" lists all the combinations that some attributes may have. A value is
    a label as `Attribute.label` shows it, null for a missing one, or, for bins, a range of whole bins
    {"from": 0, "to": 15}, which ends before "to", or with the last bin.

    >>> domain = Domain({"age": {"edges": [0, 15, 30, 100]}, "state": ["HI", "NY"], "married": ["no", "yes"]})
    >>> rules = {"invalid": [{"age": [{"from": 0, "to": 15}], "married": ["yes"]}]}
    >>> constraints = Constraints(rules, domain)
    >>> constraints
    Constraints(1 rule on 2 attributes)
    >>> constraints.mask(Table.from_codes([[0, 0, 0], [0, 0, 1], [1, 0, 1]], domain)).tolist()
    [True, False, True]
    """

    __slots__ = ("__weakref__", "_domain", "_rules")

    def __init__(self, rules: Mapping[str, object], domain: Domain) -> None:
        if not isinstance(domain, Domain):
            raise TypeError(f"domain ({_short(domain)}) must be a Domain")
        if not isinstance(rules, Mapping):
            raise TypeError(f"rules ({_short(rules)}) must be an object with the keys invalid and valid")
        for key in rules:
            if key not in ("invalid", "valid"):
                raise ValueError(f"key ({_short(key)}) must be invalid or valid")
        made: list[Rule] = []
        for place, rule in enumerate(checked_list("invalid", rules.get("invalid", []))):
            made.append(invalid_rule(domain, f"invalid[{place}]", rule))
        for place, rule in enumerate(checked_list("valid", rules.get("valid", []))):
            made.append(valid_rule(domain, f"valid[{place}]", rule))
        self._domain = domain
        self._rules = tuple(sorted(set(made), key=lambda rule: (rule.valid, rule.positions, rule.codes)))

    @classmethod
    def read(cls, path: str | os.PathLike[str], domain: Domain) -> Constraints:
        """The constraints that a JSON file holds."""
        with open(path, "rb") as file:
            content = file.read()
        try:
            return cls(parse_json(content.decode("utf-8-sig")), domain)
        except RecursionError:
            raise ValueError(f"{os.fspath(path)}: constraints must not be nested so deeply") from None
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{os.fspath(path)}: {error}") from None

    @property
    def domain(self) -> Domain:
        """The domain that the rules speak of."""
        return self._domain

    def to_json(self) -> str:
        """JSON text of the same rules, in a fixed order, one a line."""
        write = json.JSONEncoder(ensure_ascii=False).encode
        keys = []
        for key, valid in (("invalid", False), ("valid", True)):
            lines = [
                f"    {write(rule.written(self._domain))}" for rule in self._rules if rule.valid == valid
            ]
            keys += [f'  "{key}": [\n' + ",\n".join(lines) + "\n  ]"] if lines else []
        return "{\n" + ",\n".join(keys) + "\n}\n"

    def mask(self, table: Table) -> npt.NDArray[np.bool_]:
        """Which rows of a public table keep every rule. Rules on the same attributes take one lookup."""
        self._check(table)
        kept = np.ones(table.n, bool)
        together: dict[tuple[int, ...], list[Rule]] = {}
        for rule in self._rules:
            together.setdefault((int(rule.valid), *rule.positions), []).append(rule)
        for (valid, *positions), rules in together.items():
            shape = [self._domain.sizes[position] for position in positions]
            if valid or math.prod(shape) > CELLS:
                for rule in rules:
                    kept &= rule.kept(table)
            else:
                cells = np.ones(shape, bool)
                for rule in rules:
                    cells[np.ix_(*rule.codes)] = False
                kept &= cells[tuple(table.columns[position] for position in positions)]
        return kept

    def broken(self, table: Table) -> npt.NDArray[np.int64]:
        """How many rows of a public table break each rule."""
        self._check(table)
        return np.array([int((~rule.kept(table)).sum()) for rule in self._rules], np.int64)

    def complaint(self, broken: npt.NDArray[np.int64], n: int) -> str:
        """Which rules are broken most often, of n rows: what a person looks at first."""
        worst = sorted(zip(broken.tolist(), self._rules, strict=True), key=lambda pair: -pair[0])[:3]
        return "; ".join(
            f"{_short(rule.written(self._domain))} takes {rows} of {n} rows" for rows, rule in worst
        )

    def _check(self, table: Table) -> None:
        if not isinstance(table, Table):
            raise TypeError(f"table ({_short(table)}) must be a Table")
        if table.private:
            raise ValueError(
                "table (a private table) must be public: which rows keep a rule tells of records"
            )
        if table.domain != self._domain:
            raise ValueError(f"table ({table!r}) must be on the domain of the constraints")

    def __len__(self) -> int:
        return len(self._rules)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constraints):
            return NotImplemented
        return self._domain == other._domain and self._rules == other._rules

    def __hash__(self) -> int:
        return hash((self._domain, self._rules))

    def __reduce__(self) -> tuple[object, ...]:
        return Constraints, (json.loads(self.to_json()), self._domain)

    def __repr__(self) -> str:
        attributes = len({position for rule in self._rules for position in rule.positions})
        plural = "" if len(self) == 1 else "s"
        return f"Constraints({len(self)} rule{plural} on {attributes} attribute{'s' * (attributes != 1)})"
