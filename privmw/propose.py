"""A domain proposed from public data: the room behind `Domain.from_public`, where the rules are told.

It sees public data only, and whatever it writes is meant to be read and changed by a person. How values are
counted is the tally's business, where bins begin that of the edges.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from reprlib import repr as _short
from typing import Any

import numpy as np

from privmw.attribute import Label
from privmw.domain import Domain
from privmw.edges import Dates, Numbers, bin_edges
from privmw.public_source import PublicSource
from privmw.tally import REMEMBERED, Tally


@dataclass(frozen=True)
class Proposal:
    """A proposed domain, and in `notes` what a person should know of it, one line each."""

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
    """The domain that `Domain.from_public` returns, with notes: which columns were left out, and why.

    >>> import pyarrow
    >>> public = pyarrow.table({"sex": ["F", "M", "F"], "photo": [b"1", b"2", b"3"]})
    >>> propose(public).notes
    ("column 'photo' left out: binary values cannot be coded",)
    """
    for name, value, most in (("bins", bins, 2**15), ("most_labels", most_labels, REMEMBERED // 2)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} ({_short(value)}) must be an integer")
        if not 1 <= value <= most:
            raise ValueError(f"{name} ({value}) must be from 1 to {most}")
    if other is not None and not isinstance(other, str):
        raise TypeError(f"other ({_short(other)}) must be a string")
    public = PublicSource(source)
    asked = _asked(public.names, columns)
    tallies = {name: Tally() for name in asked}
    for batch in public.batches(asked):
        for name, array in batch.items():
            tallies[name].add(array)
    if tallies[asked[0]].rows == 0:
        raise ValueError("public data must have at least one row")
    declared: dict[str, object] = {}
    notes: list[str] = []
    for name, tally in tallies.items():
        try:
            tally.word = public.missing_word(name) or "missing"
            declared[name], note = _declare(tally, bins, most_labels, other, columns is not None)
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


def _asked(names: list[Any], columns: Iterable[str] | None) -> list[str]:
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
    asked = list(columns)
    for name in asked:
        if name not in names:
            raise ValueError(f"column {_short(name)} is missing")
    if len(set(asked)) < len(asked) or not asked:
        raise ValueError(f"columns ({_short(asked)}) must be one or more different names")
    return asked


def _declare(
    tally: Tally, bins: int, most_labels: int, other: str | None, wanted: bool
) -> tuple[object, str | None]:
    """What the domain says of a column, and what a person should know of that."""
    if len(tally) == 0:
        raise _LeftOut("all its values are missing or infinite")
    whole = tally.kind == "whole" or (tally.kind == "number" and bool((np.floor(tally.values) == tally.values).all()))
    if (tally.kind == "text" or whole) and len(tally) > most_labels and tally.identifier and not wanted:
        raise _LeftOut("nearly every record has a value of its own, or a running number")
    infinite = f"{tally.infinite} infinite values have no bin" if tally.infinite else None
    if tally.kind == "boolean":
        return _labelled(["false", "true"], tally, other), None
    if tally.kind == "text":
        return _text(tally, most_labels, other)
    exact = whole and bool((np.abs(tally.values) <= 2**53).all())
    if exact and tally.complete and len(tally) <= most_labels:
        return _labelled([int(value) for value in tally.values], tally, other), infinite
    scale = Dates() if tally.kind == "date" else Numbers(exact)
    edges = [str(e) if tally.kind == "date" else e for e in bin_edges(tally.values, tally.counts, bins, scale)]
    return {"edges": edges, **_extras(set(), tally, other)}, infinite


def _text(tally: Tally, most_labels: int, other: str | None) -> tuple[object, str | None]:
    if tally.order is not None and len(tally.order) <= most_labels:
        return _labelled(list(tally.order), tally, other), None
    if tally.complete and len(tally) <= most_labels:
        order = {label: place for place, label in enumerate(tally.order or ())}
        labels = sorted(tally.texts, key=lambda label: (order.get(label, 0), *_by_number(label)))
        return _labelled(labels, tally, other), None
    ranked = sorted(tally.texts, key=lambda label: (-tally.texts[label], label))
    labels = sorted(ranked[:most_labels], key=_by_number)
    rest = other or _unused("other", set(labels))
    many = f"{len(tally)}" if tally.complete else f"more than {REMEMBERED}"
    note = f"the commonest {most_labels} of its {many} texts are labels, the others {_short(rest)}"
    if sum(map(_is_number, ranked)) > 0.9 * len(ranked):
        note += "; it holds numbers as text, which would have bins if they were numbers"
    return _labelled(labels, tally, rest), note


def _labelled(labels: list[Any], tally: Tally, other: str | None) -> object:
    rest = [label for label in labels if label != other] or labels
    extras = _extras(set(rest), tally, other)
    if not extras:
        return len(rest) if rest == list(range(len(rest))) else rest
    return {"labels": rest, **extras}


def _extras(labels: set[Label], tally: Tally, other: str | None) -> dict[str, str]:
    extras = {} if other is None else {"other": _unused(other, labels)}
    if tally.missing:
        extras["missing"] = _unused("missing", labels | set(extras.values()))
    return extras


def _unused(label: str, taken: set[Label]) -> str:
    tries = (f"{label} {number}" if number > 1 else label for number in range(1, len(taken) + 2))
    return next(name for name in tries if name not in taken)


def _is_number(text: str) -> bool:
    return re.fullmatch("-?[0-9]+([.][0-9]+)?", text) is not None


def _by_number(text: str) -> tuple[float, str]:
    """Texts that are numbers come first, in their order."""
    return (float(text) if _is_number(text) else math.inf), text


def _plain(arrow_type: Any) -> str:
    return re.split("[<(\\[]", str(arrow_type))[0]
