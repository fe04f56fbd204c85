"""Conditions on one attribute: a value, a list of values, or a range, as the codes that satisfy them.

All of it is public: domains only. `read_query` reads conditions written as text, such as "age>=65,sex=F".
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from privmw.data.attribute import NUMBER, Attribute, Edge, as_date
from privmw.data.domain import Domain
from privmw.kernels.arrays import Bools
from privmw.secrecy import expect, shown

WORDED_VALUES = 5  # of a list, in the words of a condition
COMPARISON = re.compile(r"\s*(<=|>=|<|>)\s*(.+?)\s*", re.DOTALL)
OPERATORS = r"\s*(<=|>=|=|<|>)"


@dataclass(frozen=True, eq=False)
class Condition:
    """The codes of an attribute that satisfy a condition (a mask over its codes), and its words."""

    attribute: Attribute
    codes: Bools
    words: str

    def __and__(self, other: Condition) -> Condition:
        return _condition(self.attribute, self.codes & other.codes, f"{self.words} and {other.words}")


def condition_on(attribute: Attribute, value: Any) -> Condition:
    """The condition that a value means: see `Release.answer`.

    A tuple (low, high) is a range, both ends included; None is no limit. Of bins the ends must be edges, and
    the range is half open, as its bins are. A list or a set means any of its values. Text such as ">=65" is a
    comparison, unless it is a label. Anything else is one value, by `Attribute.code`.

    >>> age = Attribute.declare("age", {"edges": [0, 18, 25, 65, 100], "missing": "unknown"})
    >>> condition_on(age, (18, 65)).codes.astype(int).tolist(), condition_on(age, (18, 65)).words
    ([0, 1, 1, 0, 0], '[18, 65)')
    >>> condition_on(age, ">=65").words, condition_on(age, [3, "unknown"]).words
    ('[65, 100]', '[0, 18) or unknown')
    >>> condition_on(age, (20, 65))
    Traceback (most recent call last):
    ValueError: attribute 'age': 20 lies inside the bin [18, 25): a range must begin and end at edges
    >>> condition_on(Attribute.declare("sex", ["F", "M"]), (0, 1))
    Traceback (most recent call last):
    ValueError: attribute 'sex' has no order: give a list of its values instead of a range
    """
    if isinstance(value, str) and value not in attribute.texts and (found := COMPARISON.fullmatch(value)):
        return _compared(attribute, found[1], found[2])
    if isinstance(value, tuple):
        name = shown(attribute.name)
        if len(value) != 2:
            raise ValueError(
                f"attribute {name}: range ({len(value)} values) must be (low, high); values go in a list"
            )
        low, high = (None if end is None else bound_of(attribute, end) for end in value)
        if low is not None and high is not None and not low <= high:
            raise ValueError(f"attribute {name}: range ({shown(low)}, {shown(high)}) must have low <= high")
        if low == high and low is not None and attribute.edges:
            raise ValueError(f"attribute {name}: range ({shown(low)}, {shown(high)}) must hold a bin")
        return _between(attribute, low, high)
    if isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping):
        return _any_of(attribute, [attribute.code(one, quote=False) for one in value])
    return _any_of(attribute, [attribute.code(value)])


def unquoted_condition_on(what: str, attribute: Attribute, value: Any) -> Condition:
    """As `condition_on`, for the values of a mapping, which may be a record by mistake: errors quote none.

    >>> unquoted_condition_on("where", Attribute.declare("sex", ["F", "M"]), "X")
    Traceback (most recent call last):
    ValueError: where: value of 'sex' must be one of its 2 labels, a list of these, or a range
    """
    with suppress(TypeError, ValueError):
        return condition_on(attribute, value)
    bins = " of whole bins" if attribute.edges else ""
    rule = f"{attribute.rule}, a list of these, or a range{bins}"
    raise ValueError(f"{what}: value of {shown(attribute.name)} must be {rule}")


def read_condition(attribute: Attribute, operator: str, text: str) -> Condition:
    """The condition of an operator (=, <, <=, > or >=) and a value written as text.

    After "=", LOW..HIGH is a range and A|B a choice, unless the text is a label.

    >>> age = Attribute.declare("age", 100)
    >>> read_condition(age, "=", "25..40").words, read_condition(age, "=", "3|5").words
    ('25 to 40', '3 or 5')
    """
    if operator != "=":
        return _compared(attribute, operator, text)
    if text not in attribute.texts:
        low, dots, high = text.partition("..")
        if dots:
            return condition_on(attribute, (low.strip() or None, high.strip() or None))
        if "|" in text:
            return _any_of(attribute, [attribute.parse(one) for one in text.split("|")])
    return _any_of(attribute, [attribute.parse(text)])


def read_query(query: str, domain: Domain) -> list[tuple[str, str, Condition]]:
    """The conditions of a query such as "age>=65,sex=F": attribute, text of the value, condition.

    A comma that begins no condition belongs to the value before it, as in "[0, 10)".

    >>> domain = Domain({"age": {"edges": [0, 10, 20, 30]}, "sex": ["F", "M"]})
    >>> [(name, text) for name, text, _ in read_query("age=[10, 20), sex=F", domain)]
    [('age', '[10, 20)'), ('sex', 'F')]
    >>> [condition.words for _, _, condition in read_query("age>=10, age<20", domain)]
    ['[10, 30]', '[0, 20)']
    """
    names = sorted(domain.names, key=len, reverse=True)
    begin = re.compile(rf"\s*({'|'.join(map(re.escape, names))}){OPERATORS}(.*)", re.DOTALL)
    parts: list[tuple[str, str, str]] = []
    for part in query.split(","):
        found = begin.fullmatch(part) or re.fullmatch(r"([^=<>]*)(=|<=|>=)(.*)", part, re.DOTALL)
        found = found or (None if parts else re.fullmatch(rf"(.*?){OPERATORS}(.*)", part, re.DOTALL))
        if found:
            parts.append((found[1].strip(), found[2], found[3]))
        elif parts:
            parts[-1] = (*parts[-1][:2], f"{parts[-1][2]},{part}")
        else:
            raise ValueError("must be conditions such as age>=65 or sex=F")
    exact = [name for name, operator, _ in parts if operator == "="]
    for name in exact:
        if [part[0] for part in parts].count(name) > 1:
            raise ValueError(f"attribute {shown(name)} must be given once, unless in comparisons")
    return [
        (name, text.strip(), read_condition(domain[name], operator, text.strip()))
        for name, operator, text in parts
    ]


def joined(conditions: Collection[Condition]) -> dict[str, Condition]:
    """The conditions by attribute; those on one attribute must hold together."""
    by_name: dict[str, list[Condition]] = {}
    for condition in conditions:
        by_name.setdefault(condition.attribute.name, []).append(condition)
    return {name: reduce(Condition.__and__, several) for name, several in by_name.items()}


def ordered_values(attribute: Attribute) -> list[Any] | None:
    """The numbers or dates of an attribute's codes, without other and missing; of a bin its lower edge.

    None if the attribute has no order: its labels are words.

    >>> ordered_values(Attribute.declare("rooms", {"labels": ["1", "2"], "other": "more"}))
    [1, 2]
    """
    if attribute.edges:
        return list(attribute.edges[:-1])
    if attribute.labels is None:
        return list(range(attribute.size))
    values = [_value(str(label)) for label in attribute.labels]
    return None if any(value is None for value in values) else values


def _value(text: str) -> Any:
    if re.fullmatch(NUMBER, text):
        number = float(text)
        return None if not math.isfinite(number) else int(number) if number.is_integer() else number
    return as_date(text)


def bound_of(attribute: Attribute, given: Any) -> Any:
    """The number or date of a range's end."""
    values, name = ordered_values(attribute), shown(attribute.name)
    if values is None:
        raise ValueError(f"attribute {name} has no order: give a list of its values instead of a range")
    if getattr(given, "shape", None) == () and hasattr(given, "item"):
        given = given.item()
    bound = _value(given.strip()) if isinstance(given, str) else as_date(given) or given
    dates = isinstance(values[0], datetime.date)
    right = isinstance(bound, datetime.date) if dates else isinstance(bound, int | float)
    kind = "a date" if dates else "a number"
    expect(f"attribute {name}: bound", given, right and not isinstance(bound, bool) and bound == bound, kind)
    return bound


def _compared(attribute: Attribute, operator: str, text: str) -> Condition:
    bound = bound_of(attribute, text)
    strict = len(operator) == 1
    if not attribute.edges:
        values = ordered_values(attribute)
        assert values is not None
        compared = [v > bound or (v == bound and not strict) for v in values]
        if operator[0] == "<":
            compared = [v < bound or (v == bound and not strict) for v in values]
        return _condition(attribute, _mask(attribute, np.flatnonzero(compared)), f"{operator} {bound}")
    first, last = attribute.edges[0], attribute.edges[-1]
    inside = (first <= bound < last) if operator[0] == ">" else (first < bound <= last)
    # The last bin holds its upper edge, other bins their lower one.
    wrong = strict if operator[0] == ">" else (strict == (bound == last and not attribute.open))
    if inside and wrong and bound in attribute.edges:
        other = {">": ">=", "<=": "<", "<": "<="}[operator]
        raise ValueError(
            f"attribute {shown(attribute.name)}: {operator}{bound} cuts a bin, which holds {bound} and more: "
            f"{other}{bound} does not"
        )
    return _between(attribute, bound, None) if operator[0] == ">" else _between(attribute, None, bound)


def _between(attribute: Attribute, low: Any, high: Any) -> Condition:
    values = ordered_values(attribute)
    assert values is not None or (low is None and high is None)
    if attribute.edges:
        edges: tuple[Any, ...] = attribute.edges
        first = 0 if low is None else _edge(attribute, low)
        last = len(edges) - 1 if high is None else _edge(attribute, high)
        words = f"{attribute.label(first)}".split(",")[0] + "," if first < last else ""
        words += f"{attribute.label(last - 1)}".split(",")[1] if first < last else f"{low} to {high}"
        return _condition(attribute, _mask(attribute, range(first, last)), words)
    if values is None:
        raise ValueError(
            f"attribute {shown(attribute.name)} has no order: give a list of its values instead of a range"
        )
    inside = [(low is None or v >= low) and (high is None or v <= high) for v in values]
    words = f"{low} to {high}" if low is not None and high is not None else "any number"
    words = f">= {low}" if low is not None and high is None else words
    words = f"<= {high}" if high is not None and low is None else words
    return _condition(attribute, _mask(attribute, np.flatnonzero(inside)), words)


def _edge(attribute: Attribute, bound: Edge) -> int:
    """The position of a bound among the edges; bounds beyond all values count as the ends."""
    edges: tuple[Any, ...] = attribute.edges or ()
    if not attribute.open and not edges[0] < bound < edges[-1]:
        return 0 if bound <= edges[0] else len(edges) - 1
    if bound in edges[1:-1]:
        return edges.index(bound)
    code = attribute.code(bound)
    raise ValueError(
        f"attribute {shown(attribute.name)}: {bound} lies inside the bin {attribute.label(code)}: "
        f"a range must begin and end at edges"
    )


def _any_of(attribute: Attribute, codes: Collection[int]) -> Condition:
    if not codes:
        raise ValueError(f"attribute {shown(attribute.name)}: list of values must not be empty")
    labels = [str(attribute.label(code)) for code in dict.fromkeys(codes)]
    more = [f"{len(labels) - WORDED_VALUES} more"] if len(labels) > WORDED_VALUES else []
    return _condition(attribute, _mask(attribute, list(codes)), " or ".join(labels[:WORDED_VALUES] + more))


def _mask(attribute: Attribute, codes: Any) -> Bools:
    mask = np.zeros(attribute.size, bool)
    mask[np.asarray(codes, np.int64)] = True
    return mask


def _condition(attribute: Attribute, mask: Bools, words: str) -> Condition:
    if not mask.any():
        raise ValueError(f"attribute {shown(attribute.name)}: no value is {words}")
    return Condition(attribute, mask, words)
