"""A domain proposed from public data: the implementation of `Domain.from_public`, which documents the rules.

It sees public data only, and a person is meant to check and change its proposal. `privmw.io.tally` counts
values, `edges` chooses bin edges.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from reprlib import repr as _short
from typing import Any

import numpy as np

from privmw.data.domain import Domain
from privmw.data.propose.edges import Dates, Numbers, bin_edges
from privmw.io.public_source import PublicSource
from privmw.io.tally import REMEMBERED, Tally
from privmw.kernels.checks import check_integer


@dataclass(frozen=True)
class Proposal:
    """A proposed domain, and `notes` about it for a person, one line each."""

    domain: Domain
    notes: tuple[str, ...]


def propose(
    source: Any,
    *,
    columns: Iterable[str] | None = None,
    bins: int = 10,
    most_labels: int = 64,
    other: str | None = None,
) -> Proposal:
    """The domain that `Domain.from_public` returns, with notes: the columns left out, and why.

    >>> import pandas
    >>> public = pandas.DataFrame({"sex": ["M", "F", "M"], "age": [31.5, 4.2, None], "rooms": [2, 0, 1]})
    >>> proposal = propose(public.assign(face=b""))
    >>> print(proposal.domain.to_json(), end="")
    {
      "sex": ["F", "M"],
      "age": {"edges": [4, 20, 32], "missing": "missing"},
      "rooms": 3
    }
    >>> proposal.notes
    ("column 'face' left out: binary values cannot be coded",)
    """
    bins = check_integer("bins", bins, 1, 2**15)
    most_labels = check_integer("most_labels", most_labels, 1, REMEMBERED // 2)
    if other is not None and not isinstance(other, str):
        raise TypeError(f"other ({_short(other)}) must be a string")
    public = PublicSource(source)
    names = _column_names(public.names, columns)
    tallies = {name: Tally() for name in names}
    for name, arrow_type in public.types.items():
        if name in tallies:
            tallies[name].expect(arrow_type)
    for batch in public.batches([name for name in names if not tallies[name].strange]):
        for name, array in batch.items():
            tallies[name].add(array)
    if not any(tally.rows or tally.strange for tally in tallies.values()):
        raise ValueError("public data must have at least one row")
    declared: dict[str, object] = {}
    notes: list[str] = []
    for name, tally in tallies.items():
        try:
            extras = _Extras(other, (public.missing_word(name) or "missing") if tally.missing else None)
            declared[name], note = _declare(tally, bins, most_labels, extras, columns is not None)
            notes += [f"column {_short(name)}: {note}"] if note else []
        except _LeftOut as reason:
            if columns is not None:
                raise ValueError(f"column {_short(name)} must have values for a domain: {reason}") from None
            notes.append(f"column {_short(name)} left out: {reason}")
    if not declared:
        raise ValueError(f"public data must have a column for a domain; {'; '.join(notes)}")
    return Proposal(Domain(declared), tuple(notes))


class _LeftOut(Exception):  # noqa: N818
    """Why a column is not in the proposal."""


def _column_names(names: list[Any], columns: Iterable[str] | None) -> list[str]:
    """The columns to propose: all, or those that were named."""
    for place, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ValueError(f"column {place} (named {_short(name)}) must have a name")
        if names.count(name) > 1:
            raise ValueError(f"column {_short(name)} must be there only once")
    if not names:
        raise ValueError("public data must have columns")
    if columns is None:
        return names
    if isinstance(columns, str):
        raise TypeError(f"columns ({_short(columns)}) must be a list of names")
    chosen = list(columns)
    for name in chosen:
        if name not in names:
            raise ValueError(f"column {_short(name)} is missing")
    if len(set(chosen)) < len(chosen) or not chosen:
        raise ValueError(f"columns ({_short(chosen)}) must be one or more different names")
    return chosen


@dataclass(frozen=True)
class _Extras:
    """The labels of other and of missing values; None if not declared."""

    other: str | None
    missing: str | None

    def of_labels(self, labels: list[Any]) -> object:
        """A declaration of labels; the label of other values is not repeated, unless it is the only one."""
        rest = [label for label in labels if label != self.other] or labels
        extras = self.beside(set(rest))
        if not extras:
            return len(rest) if rest == list(range(len(rest))) else rest
        return {"labels": rest, **extras}

    def beside(self, labels: set[Any]) -> dict[str, str]:
        """The other and missing labels of a declaration, renamed where a label has that name."""
        extras: dict[str, str] = {}
        for key, label in (("other", self.other), ("missing", self.missing)):
            if label is not None:
                extras[key] = _unused(label, labels | set(extras.values()))
        return extras


def _declare(
    tally: Tally, bins: int, most_labels: int, extras: _Extras, wanted: bool
) -> tuple[object, str | None]:
    """The declaration of a column, and a note for a person."""
    if tally.strange:
        raise _LeftOut(f"{tally.strange} values cannot be coded")
    if len(tally) == 0:
        raise _LeftOut("all its values are missing" + (" or infinite" if tally.infinite else ""))
    whole = tally.kind in ("whole", "number") and bool((np.floor(tally.values) == tally.values).all())
    if (tally.kind == "text" or whole) and len(tally) > most_labels and tally.identifier and not wanted:
        raise _LeftOut(tally.identifier)
    if tally.kind == "boolean":
        return extras.of_labels(["false", "true"]), None
    if tally.kind == "text":
        return _text(tally, most_labels, extras)
    outside = f"{tally.infinite} of its values are infinite and have no bin" if tally.infinite else None
    exact = whole and bool((np.abs(tally.values) <= 2**53).all())
    if exact and tally.complete and len(tally) <= most_labels:
        return extras.of_labels([int(value) for value in tally.values]), outside
    dates = tally.kind == "date"
    edges = bin_edges(tally.values, tally.counts, bins, Dates() if dates else Numbers(exact))
    return {"edges": list(map(str, edges)) if dates else edges, **extras.beside(set())}, outside


def _text(tally: Tally, most_labels: int, extras: _Extras) -> tuple[object, str | None]:
    if tally.order is not None and len(tally.order) <= most_labels:
        return extras.of_labels(list(tally.order)), None
    if tally.complete and len(tally) <= most_labels:
        return extras.of_labels(sorted(tally.texts, key=_by_number)), None
    ranked = sorted(tally.texts, key=lambda label: (-tally.texts[label], label))
    labels = sorted(ranked[:most_labels], key=_by_number)
    other = extras.other or _unused("other", set(labels))
    total = f"{len(tally)}" if tally.complete else f"more than {REMEMBERED}"
    note = f"the commonest {most_labels} of its {total} texts are labels, the rest is {_short(other)}"
    if sum(map(_is_number, ranked)) > 0.9 * len(ranked):
        note += "; its numbers are text: stored as numbers they would get bins"
    return replace(extras, other=other).of_labels(labels), note


def _unused(label: str, taken: set[Any]) -> str:
    tries = (f"{label} {number}" if number > 1 else label for number in range(1, len(taken) + 2))
    return next(name for name in tries if name not in taken)


def _is_number(text: str) -> bool:
    return re.fullmatch("-?[0-9]{1,300}([.][0-9]+)?", text) is not None


def _by_number(text: str) -> tuple[float, str]:
    """A sort key: texts that are numbers first, by size."""
    return (float(text) if _is_number(text) else math.inf), text
