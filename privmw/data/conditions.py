"""Conditions on one attribute: a value, a list of values, or a range, as the codes that satisfy them.

All of it is public: domains only. `read_query` reads conditions written as text, such as "age>=65,sex=F".
"""

from __future__ import annotations

import datetime
import math
import operator
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from privmw.data.attribute import NUMBER, Attribute, Edge, as_date
from privmw.data.domain import Domain
from privmw.kernels.arrays import Bools
from privmw.secrecy import expect, shown

WORDED_VALUES = 5  # of a list, in the words of a condition
COMPARISON = re.compile(r"\s*(<=|>=|<|>)\s*(.+?)\s*", re.DOTALL)
OPERATORS = r"\s*(<=|>=|=|<|>)"
COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
# A number with a unit, or the first or last one: "17 years", "under 1", "90 years and over", "90+".
WORDED_NUMBER = re.compile(
    r"(?P<below>(under|below|less than) |< ?)?(?P<number>[0-9]{1,15}([.][0-9]{1,15})?)"
    r"( ?(?P<unit>[^\W\d_]+?)s?( old)?)?(?P<above> ?[+]| (and|or) (over|more|older|above|up))?",
    re.IGNORECASE,
)


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


def read_condition(attribute: Attribute, sign: str, text: str) -> Condition:
    """The condition of a sign (=, <, <=, > or >=) and a value written as text.

    After "=", LOW..HIGH is a range and A|B a choice, unless the text is a label.

    >>> age = Attribute.declare("age", 100)
    >>> read_condition(age, "=", "25..40").words, read_condition(age, "=", "3|5").words
    ('25 to 40', '3 or 5')
    """
    if sign != "=":
        return _compared(attribute, sign, text)
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
    exact = [name for name, sign, _ in parts if sign == "="]
    for name in exact:
        if [part[0] for part in parts].count(name) > 1:
            raise ValueError(f"attribute {shown(name)} must be given once, unless in comparisons")
    return [
        (name, text.strip(), read_condition(domain[name], sign, text.strip())) for name, sign, text in parts
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


def label_ranges(labels: Sequence[str | int]) -> list[tuple[Any, Any]] | None:
    """The smallest and the largest number (or date) that each label means; None if they have no order.

    Labels may have words, if all have the same unit and their ranges do not overlap.

    >>> label_ranges(["17 years", "1 year", "90 years and over"])
    [(17.0, 17.0), (1.0, 1.0), (90.0, inf)]
    >>> label_ranges(["1 year", "2 months"]), label_ranges(["90", "85+"])
    (None, None)
    """
    values = [_value(str(label)) for label in labels]
    if all(value is not None for value in values):
        alike = len({isinstance(value, datetime.date) for value in values}) == 1
        return [(value, value) for value in values] if alike else None
    ranges = []
    units = set()
    for label in labels:
        found = WORDED_NUMBER.fullmatch(str(label))
        if found is None or (found["below"] and found["above"]):
            return None
        number = float(found["number"])
        units |= {found["unit"].lower()} if found["unit"] else set()
        least = -math.inf if found["below"] else number
        most = math.inf if found["above"] else number
        ranges.append((least, math.nextafter(number, -math.inf) if found["below"] else most))
    apart = all(before[1] < after[0] for before, after in pairwise(sorted(set(ranges))))
    return ranges if apart and len(units) <= 1 else None


def _ranges(attribute: Attribute) -> list[tuple[Any, Any]] | None:
    if attribute.labels:
        return label_ranges(attribute.labels)
    return [(value, value) for value in ordered_values(attribute) or ()]


def _value(text: str) -> Any:
    if re.fullmatch(NUMBER, text):
        number = float(text)
        return None if not math.isfinite(number) else int(number) if number.is_integer() else number
    return as_date(text)


def bound_of(attribute: Attribute, given: Any) -> Any:
    """The number or date of a range's end."""
    ranges, name = _ranges(attribute), shown(attribute.name)
    if ranges is None:
        raise ValueError(f"attribute {name} has no order: give a list of its values instead of a range")
    if getattr(given, "shape", None) == () and hasattr(given, "item"):
        given = given.item()
    bound = _value(given.strip()) if isinstance(given, str) else as_date(given) or given
    dates = isinstance(ranges[0][0], datetime.date)
    right = isinstance(bound, datetime.date) if dates else isinstance(bound, int | float)
    kind = "a date" if dates else "a number"
    expect(f"attribute {name}: bound", given, right and not isinstance(bound, bool) and bound == bound, kind)
    return bound


def _compared(attribute: Attribute, sign: str, text: str) -> Condition:
    bound = bound_of(attribute, text)
    if not attribute.edges:
        return _condition(attribute, _beyond(attribute, sign, bound), f"{sign} {bound}")
    strict = len(sign) == 1
    first, last = attribute.edges[0], attribute.edges[-1]
    inside = (first <= bound < last) if sign[0] == ">" else (first < bound <= last)
    # The last bin holds its upper edge, other bins their lower one.
    wrong = strict if sign[0] == ">" else (strict == (bound == last and not attribute.open))
    if inside and wrong and bound in attribute.edges:
        other = {">": ">=", "<=": "<", "<": "<="}[sign]
        raise ValueError(
            f"attribute {shown(attribute.name)}: {sign}{bound} cuts a bin, which holds {bound} and more: "
            f"{other}{bound} does not"
        )
    return _between(attribute, bound, None) if sign[0] == ">" else _between(attribute, None, bound)


def _beyond(attribute: Attribute, sign: str, bound: Any) -> Bools:
    """Mask of the codes on one side of a bound, which must not cut a label such as "90 and over"."""
    compare, mask = COMPARE[sign], np.zeros(attribute.size, bool)
    for code, (least, most) in enumerate(_ranges(attribute) or ()):
        mask[code] = compare(least, bound)
        if mask[code] != compare(most, bound):
            label = shown(attribute.label(code))
            raise ValueError(f"attribute {shown(attribute.name)}: {sign}{bound} cuts the label {label}")
    return mask


def _between(attribute: Attribute, low: Any, high: Any) -> Condition:
    if attribute.edges:
        edges: tuple[Any, ...] = attribute.edges
        first = 0 if low is None else _edge(attribute, low)
        last = len(edges) - 1 if high is None else _edge(attribute, high)
        words = f"{attribute.label(first)}".split(",")[0] + "," if first < last else ""
        words += f"{attribute.label(last - 1)}".split(",")[1] if first < last else f"{low} to {high}"
        return _condition(attribute, _mask(attribute, range(first, last)), words)
    ranges = _ranges(attribute)
    if ranges is None:
        raise ValueError(
            f"attribute {shown(attribute.name)} has no order: give a list of its values instead of a range"
        )
    inside = _mask(attribute, range(len(ranges)))
    for sign, bound in ((">=", low), ("<=", high)):
        if bound is not None:
            inside &= _beyond(attribute, sign, bound)
    words = f"{low} to {high}" if low is not None and high is not None else "any number"
    words = f">= {low}" if low is not None and high is None else words
    words = f"<= {high}" if high is not None and low is None else words
    return _condition(attribute, inside, words)


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
