"""One rule of constraints: values that exclude each other, or all the combinations that are allowed.

Used by `privmw.data.constraints` only: reads a rule, checks it against its domain, and applies it to rows.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmw.data.attribute import Attribute
from privmw.data.domain import Domain, positions_of
from privmw.data.table import Table
from privmw.kernels.arrays import Bools, Codes
from privmw.secrecy import expect, shown


@dataclass(frozen=True)
class Rule:
    """One rule. Invalid: the codes of each attribute that exclude each other. Valid: allowed combinations."""

    valid: bool
    positions: tuple[int, ...]
    codes: tuple[tuple[int, ...], ...]

    def mask(self, table: Table) -> Bools:
        """Mask of the rows that satisfy the rule."""
        columns = [table.columns[position] for position in self.positions]
        return self._mask_valid(columns) if self.valid else self._mask_invalid(columns)

    def _mask_invalid(self, columns: list[Codes]) -> Bools:
        """A row satisfies the rule unless every attribute has one of the listed values."""
        rows = np.arange(len(columns[0]))
        for column, codes in zip(columns, self.codes, strict=True):
            rows = rows[np.isin(column[rows], codes)]
        mask = np.ones(len(columns[0]), bool)
        mask[rows] = False
        return mask

    def _mask_valid(self, columns: list[Codes]) -> Bools:
        """Mask of the rows with a valid combination.

        Attribute by attribute: the index of the row's prefix among those of the valid combinations, or -1.
        """
        prefix = np.zeros(len(columns[0]), np.int64)
        valid_prefix = np.zeros(len(self.codes), np.int64)
        for column, codes in zip(columns, np.array(self.codes, np.int64).T, strict=True):
            # A code is below 2^32.
            valid_keys, valid_prefix = np.unique(valid_prefix * 2**32 + codes, return_inverse=True)
            key = prefix * 2**32 + column
            near = np.minimum(np.searchsorted(valid_keys, key), len(valid_keys) - 1)
            prefix = np.where((prefix >= 0) & (valid_keys[near] == key), near, -1)
        return prefix >= 0

    def excluded(self, positions: Sequence[int], shape: tuple[int, ...]) -> Bools:
        """Mask of the combinations of some attributes that the rule excludes, whatever the others are."""
        shared = [place for place, position in enumerate(positions) if position in self.positions]
        cells = np.zeros([shape[place] for place in shared], bool)
        if shared and self.valid:
            rows = np.array(self.codes, np.int64)
            cells[:] = True
            cells[tuple(rows[:, self.positions.index(positions[place])] for place in shared)] = False
        elif len(shared) == len(self.positions):
            cells[np.ix_(*self.codes)] = True
        elif not shared:
            return np.zeros(shape, bool)
        return np.broadcast_to(
            cells.reshape([size if place in shared else 1 for place, size in enumerate(shape)]), shape
        )

    def written(self, domain: Domain) -> object:
        """The JSON value of the rule."""
        attributes = [domain.attributes[position] for position in self.positions]
        if not self.valid:
            return {
                attribute.name: [attribute.label(code) for code in codes]
                for attribute, codes in zip(attributes, self.codes, strict=True)
            }
        rows = [[a.label(code) for a, code in zip(attributes, row, strict=True)] for row in self.codes]
        return {"attributes": [attribute.name for attribute in attributes], "combinations": rows}


def invalid_rule(domain: Domain, where: str, rule: Any) -> Rule:
    """Make the rule of an object under "invalid"."""
    right = isinstance(rule, Mapping) and len(rule) > 0
    expect(where, rule, right, "an object of attributes and their values", quote=False)
    codes: dict[int, tuple[int, ...]] = {}
    for position, values in zip(positions_of(domain, rule, where), rule.values(), strict=True):
        attribute = domain.attributes[position]
        listed = checked_list(f"{where}: values of {shown(attribute.name)}", values)
        if not listed:
            raise ValueError(f"{where}: values of {shown(attribute.name)} must be at least one")
        codes[position] = tuple(
            sorted({code for value in listed for code in _codes(attribute, where, value)})
        )
    positions = tuple(sorted(codes))
    return Rule(False, positions, tuple(codes[position] for position in positions))


def valid_rule(domain: Domain, where: str, rule: Any) -> Rule:
    """Make the rule of an object under "valid"."""
    right = isinstance(rule, Mapping) and set(rule) == {"attributes", "combinations"}
    expect(where, rule, right, "an object of attributes and combinations", quote=False)
    positions = positions_of(
        domain, checked_list(f"{where}: attributes", rule["attributes"]), f"{where}: attributes"
    )
    if not positions or len(set(positions)) < len(positions):
        raise ValueError(f"{where}: attributes ({len(positions)}) must be one or more, each once")
    order = sorted(range(len(positions)), key=positions.__getitem__)
    combinations = set()
    for row in checked_list(f"{where}: combinations", rule["combinations"]):
        values = checked_list(f"{where}: combination", row)
        if len(values) != len(positions):
            raise ValueError(f"{where}: combination ({len(values)}) must have {len(positions)} values")
        codes = [_codes(domain.attributes[positions[place]], where, values[place]) for place in order]
        combinations |= set(itertools.product(*codes))
    if not combinations:
        raise ValueError(f"{where}: combinations must be at least one")
    return Rule(True, tuple(sorted(positions)), tuple(sorted(combinations)))


def _codes(attribute: Attribute, where: str, value: object) -> Sequence[int]:
    """The codes of a value or of a range of bins."""
    where = f"{where}: attribute {shown(attribute.name)}"
    if isinstance(value, Mapping):
        return _bins(attribute, where, value)
    label = str(value).lower() if isinstance(value, bool) else value
    try:
        code = attribute.code(label)
    except (TypeError, ValueError):
        code = None
    # Refuse a number inside a bin (it would mean the whole bin) and a misspelt label (it would mean "other").
    if code is None or (label is not None and attribute.label(code) != label):
        rule = "the label of a bin, or a range" if attribute.edges else attribute.rule
        raise ValueError(f"{where}: value ({type(value).__name__}) must be {rule}")
    return [code]


def _bins(attribute: Attribute, where: str, bounds: Mapping[Any, Any]) -> Sequence[int]:
    if set(bounds) != {"from", "to"} or not attribute.edges:
        raise ValueError(f"{where}: range must have from and to, and an attribute with bins")
    edges = [str(edge) if isinstance(edge, datetime.date) else edge for edge in attribute.edges]
    first, last = (
        None if isinstance(bounds[key], bool) or bounds[key] not in edges else edges.index(bounds[key])
        for key in ("from", "to")
    )
    if first is None or last is None or first >= last:
        raise ValueError(f"{where}: range must be of whole bins: from one edge to a later one")
    return range(first, last)


def checked_list(where: str, listed: Any) -> list[Any]:
    """Check that a value is a list or tuple; returns a list."""
    expect(where, listed, list | tuple, "a list", quote=False)
    return list(listed)
