"""Proposes constraints from public records: values that never occur together, orders, equal columns, sums.

Each comes with its support, for a person to accept or strike: the public records that it was seen in, and how
many would break it if the columns had nothing to do with each other. For public data only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, starmap
from typing import Any

import numpy as np

from privmw.data.attribute import Attribute
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.io.files import check_names
from privmw.io.public_source import PublicSource
from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.secrecy import expect

EXPECTED = 20.0  # records that would break a rule by chance: none do with probability exp(-20)
LARGEST_PAIR = 2**20  # cells of a pair of attributes that is looked at
SHUFFLES = 10  # of one column against the other
ALLOWED_SHARE = 0.02  # of records with a small excess, which the margin of an order allows
LEAST_RECORDS, LEAST_VALUES = 50, 5  # that a relation is proposed from
MOST_NUMBERS = 40  # columns of numbers that sums are looked for among
LARGEST_MARGIN = 0.1  # of the range of the larger column
LEAST_AMOUNTS = 30  # integers: fewer are taken for codes of categories
FIRST_LOOK = 200  # records that most wrong sums are refused by


@dataclass(frozen=True)
class ProposedRule:
    """A rule of a kind of `Constraints`, and its support in words."""

    kind: str
    rule: Mapping[str, object]
    support: str
    expected: float  # records that would break it by chance


def propose_rules(public: Any, domain: Domain) -> list[ProposedRule]:
    """Rules that no record of a public frame or file breaks, the best supported first.

    >>> import pandas
    >>> wage = np.arange(400) % 100
    >>> frame = pandas.DataFrame({"wage": wage, "income": wage + np.arange(400) % 7})
    >>> domain = Domain({"wage": {"edges": [0, 50, 100]}, "income": {"edges": [0, 60, 200]}})
    >>> [(one.kind, one.rule["attributes"]) for one in propose_rules(frame, domain) if one.kind == "order"]
    [('order', ['wage', 'income'])]
    """
    expect("domain", domain, Domain, "a Domain")
    source = PublicSource(public, domain.syntax)
    names = [name for name in domain.names if name in source.names]
    check_names(source.where, source.names, names, private=False)
    codes, numbers = _read(source, domain)
    amounts = {name: column for name, column in numbers.items() if _is_amount(domain[name])}
    proposed = [*_relations(amounts)]
    taken = Constraints(_as_rules(proposed), domain)
    for one, other in combinations(names, 2):
        if domain[one].size * domain[other].size <= LARGEST_PAIR:
            proposed += _never(domain[one], domain[other], codes, taken)
    return sorted(proposed, key=lambda rule: (rule.kind == "invalid", -rule.expected))


def written(proposed: Sequence[ProposedRule]) -> str:
    """JSON text of a constraints file: one rule per line, with its support as a note, to accept or strike.

    >>> print(written([ProposedRule("order", {"attributes": ["wage", "income"]}, "9 records", 20.0)]), end="")
    {
      "order": [
        {"attributes": ["wage", "income"], "$support": "9 records"}
      ]
    }
    """
    write = json.JSONEncoder(ensure_ascii=False).encode
    parts = []
    for kind in dict.fromkeys(one.kind for one in proposed):
        lines = [write({**one.rule, "$support": one.support}) for one in proposed if one.kind == kind]
        parts.append(f'  "{kind}": [\n    ' + ",\n    ".join(lines) + "\n  ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _as_rules(proposed: Sequence[ProposedRule]) -> dict[str, list[object]]:
    rules: dict[str, list[object]] = {}
    for one in proposed:
        rules.setdefault(one.kind, []).append(one.rule)
    return rules


def _read(source: PublicSource, domain: Domain) -> tuple[dict[str, Int64s], dict[str, Float64s]]:
    """Codes by attribute, -1 outside the domain, and the numbers or dates of attributes that have them."""
    from privmw.io.public_records import PublicRecords  # late: these import pyarrow
    from privmw.io.relations import as_numbers

    public = PublicRecords([source], domain)
    codes = {
        name: np.where(column < domain[name].size, column, -1).astype(np.int64)
        for name, column in public.codes.items()
    }
    parts: dict[str, list[Float64s]] = {name: [] for name in codes if _is_ordered(domain[name])}
    for batch in source.batches(list(parts)) if parts else ():
        for name, array in batch.items():
            parts[name].append(as_numbers(array))
    numbers = {name: np.concatenate(column) for name, column in parts.items()}
    for name, column in numbers.items():  # "other", missing and infinite values are not compared
        column[~np.isfinite(column)] = np.nan
        column[(codes[name] < 0) | (codes[name] >= _values_of(domain[name]))] = np.nan
    return codes, numbers


def _values_of(attribute: Attribute) -> int:
    """The number of codes that are neither "other" nor missing."""
    return attribute.size - (attribute.other is not None) - (attribute.missing is not None)


def _is_amount(attribute: Attribute) -> bool:
    """True if an attribute has bins, or too many numbers to be codes of categories."""
    return attribute.edges is not None or _values_of(attribute) >= LEAST_AMOUNTS


def _relations(numbers: Mapping[str, Float64s]) -> Iterator[ProposedRule]:
    rng = np.random.default_rng(0)
    equal: set[tuple[str, str]] = set()
    for one, other in combinations(numbers, 2):
        a, b = numbers[one], numbers[other]
        both = ~(np.isnan(a) | np.isnan(b))
        if both.sum() >= LEAST_RECORDS and len(np.unique(a[both])) >= LEAST_VALUES and (a == b)[both].all():
            equal.add((one, other))
            yield _supported("equal", [one, other], both, float(both.sum()))
    for one, other in permutations(numbers, 2):
        if (one, other) not in equal and (other, one) not in equal:
            yield from _order(one, other, numbers[one], numbers[other], rng)
    if 3 <= len(numbers) <= MOST_NUMBERS:
        yield from _sums(numbers)


def _order(
    one: str, other: str, a: Float64s, b: Float64s, rng: np.random.Generator
) -> Iterator[ProposedRule]:
    """The order of two columns, with the margin that a few records need."""
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    if len(a) < LEAST_RECORDS or min(len(np.unique(a)), len(np.unique(b))) < LEAST_VALUES:
        return
    over = a - b
    if (over > 0).mean() > ALLOWED_SHARE:
        return
    margin = _rounded_up(float(over.max())) if over.max() > 0 else 0.0
    by_chance = np.mean([(a - rng.permutation(b) > margin).sum() for _ in range(SHUFFLES)])
    if by_chance >= EXPECTED and margin <= LARGEST_MARGIN * float(np.ptp(b)):
        rule = _supported("order", [one, other], both, float(by_chance))
        if margin:
            rule = ProposedRule("order", {**rule.rule, "margin": margin}, rule.support, rule.expected)
        yield rule


def _sums(numbers: Mapping[str, Float64s]) -> Iterator[ProposedRule]:
    for total, goal in numbers.items():
        others = [name for name in numbers if name != total]
        for one, other in combinations(others, 2):
            parts = numbers[one] + numbers[other]
            both = ~(np.isnan(parts) | np.isnan(goal))
            here = np.flatnonzero(both)
            if len(here) < LEAST_RECORDS or not np.allclose(
                parts[here[:FIRST_LOOK]], goal[here[:FIRST_LOOK]]
            ):
                continue
            vary = min(len(np.unique(numbers[name][here])) for name in (one, other))
            if vary >= LEAST_VALUES and np.allclose(parts[here], goal[here], rtol=1e-9):
                yield _supported("sum", [one, other, total], both, float(len(here)))


def _rounded_up(number: float) -> float:
    """A number with one significant digit that is not smaller.

    >>> _rounded_up(4321.0), _rounded_up(0.5)
    (5000.0, 0.5)
    """
    unit = 10.0 ** math.floor(math.log10(number))
    return math.ceil(number / unit - 1e-9) * unit


def _supported(kind: str, names: list[str], both: Bools, expected: float) -> ProposedRule:
    n = int(both.sum())
    support = f"holds in all {n:,} public records with these values; {expected:,.0f} would break it by chance"
    return ProposedRule(kind, {"attributes": names}, support, expected)


def _never(
    one: Attribute, other: Attribute, codes: Mapping[str, Int64s], known: Constraints
) -> Iterator[ProposedRule]:
    """Values of one attribute, or ranges, that never occur with values of another."""
    a, b = codes[one.name], codes[other.name]
    inside = (a >= 0) & (b >= 0)
    n = int(inside.sum())
    if not n:
        return
    counts = np.bincount(a[inside] * other.size + b[inside], minlength=one.size * other.size)
    counts = counts.reshape(one.size, other.size)
    chance = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / n
    seen = [(counts.sum(axis=axis) > 0) for axis in (1, 0)]  # values that no record has tell nothing
    names = [known.domain.index(attribute.name) for attribute in (one, other)]
    done = known.excluded(names)
    found: list[tuple[float, Int64s, Int64s, bool]] = []
    for attribute, table, expectation, present, turned in (
        (one, counts, chance, seen, False),
        (other, counts.T, chance.T, seen[::-1], True),
    ):
        for columns in _groups(table.shape[1]):
            zero = table[:, columns].sum(axis=1) == 0
            for run in _runs(zero, present[0], ordered=_is_ordered(attribute)):
                expected = float(expectation[np.ix_(run, columns)].sum())
                if expected >= EXPECTED:
                    found.append((expected, run, columns, turned))
    for expected, run, columns, turned in sorted(found, key=lambda rule: -rule[0]):
        cells = np.ix_(columns, run) if turned else np.ix_(run, columns)
        new = float(np.where(done[cells], 0, chance[cells]).sum())
        if new < EXPECTED:
            continue
        done[cells] = True
        first, second = (columns, run) if turned else (run, columns)
        rule = {one.name: _labels(one, first), other.name: _labels(other, second)}
        support = f"in none of {n:,} public records; {expected:,.0f} would have it by chance"
        yield ProposedRule("invalid", rule, support, expected)


def _groups(size: int) -> Iterator[Int64s]:
    """Every value alone, and all values but one, such as "not missing"."""
    everything = np.arange(size)
    yield from (everything[code : code + 1] for code in range(size))
    if size > 2:
        yield from (np.delete(everything, code) for code in range(size))


def _runs(zero: Bools, present: Bools, *, ordered: bool) -> Iterator[Int64s]:
    """Values that never occur, one by one, or of an ordered attribute the longest ranges of them."""
    if not ordered:
        yield from (np.array([code]) for code in np.flatnonzero(zero & present))
        return
    edges = np.flatnonzero(np.diff(np.concatenate([[False], zero, [False]]).astype(np.int8)))
    yield from starmap(np.arange, edges.reshape(-1, 2).tolist())


def _is_ordered(attribute: Attribute) -> bool:
    return not isinstance((attribute.edges or attribute.labels or (0,))[0], str)


def _labels(attribute: Attribute, codes: Int64s) -> list[object]:
    """The values of codes as a constraints file has them."""
    return [attribute.label(code) for code in codes.tolist()]
