"""Implementation of `Domain.from_public`, which documents the rules.

For public data only; a person should check and change the proposal. `privmw.io.tally` counts values, `edges`
chooses bin edges.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from privmw.data.attribute import MISSING_WORDS
from privmw.data.conditions import label_ranges
from privmw.data.domain import Domain
from privmw.data.propose.edges import Dates, Numbers, bin_edges
from privmw.data.syntax import Syntax
from privmw.io.files import check_names
from privmw.io.public_source import PublicSource
from privmw.io.tally import REMEMBERED, Tally
from privmw.kernels.checks import check_integer
from privmw.secrecy import shown

MOST_PROPOSED_LABELS = 64  # of a column
MOST_PROPOSED_TEXTS = 128  # labels of a column, such as ages, if all but SHARE_OF_OTHERS have one
SHARE_OF_OTHERS = 0.01


@dataclass(frozen=True)
class Proposal:
    """A proposed domain, with `notes` for the user, one line each."""

    domain: Domain
    notes: tuple[str, ...]


def propose(
    source: Any,
    *,
    columns: Iterable[str] | None = None,
    bins: int = 10,
    most_labels: int | None = None,
    other: str | None = "other",
    missing: str | None = "missing",
    syntax: Syntax | None = None,
) -> Proposal:
    """Propose a domain as `Domain.from_public` does, with notes on the file's syntax and omitted columns.

    >>> import pandas
    >>> public = pandas.DataFrame({"sex": ["M", "F", "M"], "age": [31.5, 4.2, None], "rooms": [2, 0, 1]})
    >>> proposal = propose(public.assign(face=b""))
    >>> print(proposal.domain.to_json(), end="")
    {
      "sex": {"labels": ["F", "M"], "other": "other"},
      "age": {"edges": [4, 20, 32], "open": true, "missing": "missing"},
      "rooms": {"labels": [0, 1, 2], "other": "other"}
    }
    >>> proposal.notes[0]
    "column 'face' left out: binary values cannot be coded"
    """
    bins = check_integer("bins", bins, 1, 2**15)
    most = _Most(MOST_PROPOSED_LABELS, MOST_PROPOSED_TEXTS)
    if most_labels is not None:
        most_labels = check_integer("most_labels", most_labels, 1, REMEMBERED // 2)
        most = _Most(most_labels, most_labels)
    for key, label in (("other", other), ("missing", missing)):
        if label is not None and not isinstance(label, str):
            raise TypeError(f"{key} ({shown(label)}) must be a string")
    public = PublicSource(source, syntax)
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
    notes: list[str] = [public.syntax_note] if public.syntax_note else []
    for name, tally in tallies.items():
        try:
            word = _missing_word(tally) or public.missing_word(name)
            extras = _Extras(
                other, missing, (word or missing or "missing") if tally.missing or word else None
            )
            declared[name], note = _declare(tally, bins, most, extras, columns is not None)
            if (measure := public.measured_in(name)) is not None:
                declared[name] = _measured(declared[name], measure)
            notes += [f"column {shown(name)}: {note}"] if note else []
        except _LeftOut as reason:
            if columns is not None:
                raise ValueError(f"column {shown(name)} must have values for a domain: {reason}") from None
            notes.append(f"column {shown(name)} left out: {reason}")
    if not declared:
        raise ValueError(f"public data must have a column for a domain; {'; '.join(notes)}")
    domain = Domain(declared).with_syntax(public.syntax if public.is_text else None)
    return Proposal(domain, (*notes, *_room(domain, other, missing)))


def _room(domain: Domain, other: str | None, missing: str | None) -> list[str]:
    """The note that lists the columns that accept values which this file does not contain."""
    others = sum(attribute.other is not None for attribute in domain.attributes)
    opened = sum(attribute.open for attribute in domain.attributes)
    said = []
    if others and other is not None:
        said.append(f'"other", for missing ones too, in {others} column{"s" * (others > 1)}')
    if opened:
        ends = "bins open at both ends" + ("" if missing is None else ', and "missing"')
        said.append(f"{ends}, in {opened} column{'s' * (opened > 1)}")
    alone = sum(a.other is None and a.missing is not None and not a.open for a in domain.attributes)
    if alone and missing is not None:
        said.append(f'"missing", in {alone} column{"s" * (alone > 1)} of labels')
    return [f"room for values that only a private file has: {'; '.join(said)}"] if said else []


def _measured(declared: Any, word: str) -> object:
    """A declaration of numbers with a unit of measurement."""
    if isinstance(declared, int):
        declared = list(range(declared))
    return {**(declared if isinstance(declared, dict) else {"labels": declared}), "measured_in": word}


def _missing_word(tally: Tally) -> str | None:
    """Remove the words for missing values from a column of texts; returns the commonest, or None.

    Among codes of two letters NA is kept: it may be Namibia.
    """
    words = [word for word in MISSING_WORDS if word in tally.texts]
    if tally.kind != "text" or not words or len(words) == len(tally.texts):
        return None
    if all(len(text) == 2 for text in tally.texts):
        return None
    counts = {word: tally.texts.pop(word) for word in words}
    tally.missing += sum(counts.values())
    if tally.order is not None:
        tally.order = tuple(text for text in tally.order if text not in counts)
    return max(counts, key=counts.__getitem__)


class _LeftOut(Exception):  # noqa: N818
    """Why a column is not in the proposal."""


def _column_names(names: list[Any], columns: Iterable[str] | None) -> list[str]:
    """The columns to propose: `columns`, or all."""
    for place, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ValueError(f"column {place} (named {shown(name)}) must have a name")
        if names.count(name) > 1:
            raise ValueError(f"column {shown(name)} must be there only once")
    if not names:
        raise ValueError("public data must have columns")
    if columns is None:
        return names
    if isinstance(columns, str):
        raise TypeError(f"columns ({shown(columns)}) must be a list of names")
    chosen = list(columns)
    check_names("public data", names, chosen, private=False)
    if len(set(chosen)) < len(chosen) or not chosen:
        raise ValueError(f"columns ({shown(chosen)}) must be one or more different names")
    return chosen


@dataclass(frozen=True)
class _Extras:
    """Labels of other and of missing values, or None: defaults, and those of values in the column."""

    other: str | None
    spare: str | None  # for missing values that only the private file may have
    missing: str | None

    def of_labels(self, labels: list[Any], *, closed: bool = False) -> object:
        """A declaration of labels, without the label of other values unless it is the only one.

        Missing values that only the private file may have are `other`, or get their own label if closed (no
        other values are possible).
        """
        other = None if closed else self.other
        missing = self.missing or (None if other is not None else self.spare)
        rest = [label for label in labels if label != other] or labels
        extras = _beside(set(rest), other, missing)
        if not extras:
            return len(rest) if rest == list(range(len(rest))) else rest
        return {"labels": rest, **extras}

    def of_bins(self, edges: list[Any]) -> object:
        """A declaration of bins that accept every number or date, and missing values."""
        return {"edges": edges, "open": True, **_beside(set(), None, self.missing or self.spare)}


@dataclass(frozen=True)
class _Most:
    """The largest number of labels of a column, and of texts where these are nearly all records."""

    values: int
    texts: int

    def of_texts(self, counts: list[int], records: int) -> int:
        """How many of the commonest texts become labels; counts: of all remembered texts, descending."""
        covered = np.cumsum(counts)
        enough = int(np.searchsorted(covered, (1 - SHARE_OF_OTHERS) * records)) + 1
        return max(enough, self.values) if enough <= self.texts else self.values


def _beside(labels: set[Any], other: str | None, missing: str | None) -> dict[str, str]:
    """The other and missing labels of a declaration, renamed if they clash with a label."""
    extras: dict[str, str] = {}
    for key, label in (("other", other), ("missing", missing)):
        if label is not None:
            extras[key] = _unused(label, labels | set(extras.values()))
    return extras


def _declare(
    tally: Tally, bins: int, most: _Most, extras: _Extras, wanted: bool
) -> tuple[object, str | None]:
    """The declaration of a column, and a note for the user."""
    if tally.strange:
        raise _LeftOut(f"{tally.strange} values cannot be coded")
    if len(tally) == 0:
        raise _LeftOut("all its values are missing" + (" or infinite" if tally.infinite else ""))
    whole = tally.kind in ("whole", "number") and bool((np.floor(tally.values) == tally.values).all())
    unique = None
    if (tally.kind == "text" or whole) and len(tally) > most.values and tally.identifier and not wanted:
        if tally.kind == "text" or tally.is_sequence:
            raise _LeftOut(tally.identifier)
        unique = f"{tally.identifier}: if it identifies records and is no amount, leave it out"
    if tally.kind == "boolean":
        return extras.of_labels(["false", "true"], closed=True), None
    if tally.kind == "text":
        return _text(tally, most, extras)
    outside = f"{tally.infinite} of its values are infinite" if tally.infinite else unique
    exact = whole and bool((np.abs(tally.values) <= 2**53).all())
    few = tally.complete and len(tally) <= most.values and not tally.infinite
    dates = tally.kind == "date"
    if exact and not dates and _are_days(tally.values):
        outside = (
            "its whole numbers look like days, as 20260131 does: stored as 2026-01-31 they would be dates"
        )
    if (exact or tally.kind == "whole") and few and not _is_amount(tally, bins):
        return extras.of_labels([int(value) for value in tally.values]), outside
    edges = bin_edges(tally.values, tally.counts, bins, Dates() if dates else Numbers(exact))
    if any(low >= high for low, high in pairwise(edges)):
        raise _LeftOut("its numbers are too large to tell them apart in bins")
    return extras.of_bins(list(map(str, edges)) if dates else edges), outside


def _is_amount(tally: Tally, bins: int) -> bool:
    """True if integers are amounts, such as dollars, and not codes: another file will have other amounts.

    Amounts lie far apart (fewer than half of the integers between the smallest and the largest occur), and
    many of them occur only once, unlike the codes of a list.
    """
    span = int(tally.values[-1]) - int(tally.values[0]) + 1
    once = int((tally.counts == 1).sum())
    return len(tally) > bins and 2 * len(tally) < span and 10 * once >= len(tally)


def _are_days(values: Any) -> bool:
    """True if integers look like dates YYYYMMDD of recent centuries."""
    months, days = values // 100 % 100, values % 100
    real = (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    return bool((real & (values >= 1800_01_01) & (values <= 2199_12_31)).all())


def _text(tally: Tally, most: _Most, extras: _Extras) -> tuple[object, str | None]:
    ranked = sorted(tally.texts, key=lambda label: (-tally.texts[label], label))
    records = tally.rows - tally.missing
    kept = most.of_texts([tally.texts[label] for label in ranked], records)
    if tally.order is not None and len(tally.order) <= kept:
        return extras.of_labels(list(tally.order)), None
    numbers = len(tally) <= most.texts and label_ranges(list(tally.texts)) is not None
    if tally.complete and (numbers or len(tally) <= kept):
        return extras.of_labels(_ordered(tally.texts)), None
    labels = _ordered(ranked[:kept])
    other = extras.other or _unused("other", set(labels))
    total = f"{len(tally)}" if tally.complete else f"more than {REMEMBERED}"
    share = 1 - sum(tally.texts[label] for label in labels) / records
    note = f"the commonest {kept} of its {total} texts are labels, the rest ({share:.1%}) is {shown(other)}"
    if sum(map(_is_number, ranked)) > 0.9 * len(ranked):
        note += "; its numbers are text: stored as numbers they would get bins"
    return replace(extras, other=other).of_labels(labels), note


def _unused(label: str, taken: set[Any]) -> str:
    tries = (f"{label} {number}" if number > 1 else label for number in range(1, len(taken) + 2))
    return next(name for name in tries if name not in taken)


def _is_number(text: str) -> bool:
    return re.fullmatch("-?[0-9]{1,300}([.][0-9]+)?", text) is not None


def _ordered(labels: Iterable[str]) -> list[str]:
    """Labels by the numbers that they mean, such as "under 1", "2 years", "90 and over"; else by text."""
    texts = sorted(labels, key=_by_number)
    ranges = label_ranges(texts)
    return texts if ranges is None else [text for _, text in sorted(zip(ranges, texts, strict=True))]


def _by_number(text: str) -> tuple[float, str]:
    """A sort key: texts that are numbers first, by size."""
    return (float(text) if _is_number(text) else math.inf), text
