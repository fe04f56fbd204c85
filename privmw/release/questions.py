"""Answers, means, quantiles and distribution functions of a release as frames.

Sums of cells: their errors come from the refits' errors of all cells together (crosstab.py). Released values
only.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from privmw.data.attribute import Attribute
from privmw.data.conditions import Condition, condition_on, ordered_values, unquoted_condition_on
from privmw.data.domain import positions_of
from privmw.data.records import FrameKind
from privmw.data.workload import LARGEST_ORDER, Workload
from privmw.kernels.arrays import Float64s, Int64s
from privmw.kernels.checks import check_number
from privmw.release.crosstab import Crosstab, crosstab_of, half_widths, standard_errors
from privmw.release.errors.intervals import check_level
from privmw.release.frames import frame_of
from privmw.release.release import DEFAULT_LEVEL, Release
from privmw.secrecy import expect, shown

LARGEST_INTERVAL_MARGINAL = 2**20  # cells: no interval for a single answer from a larger marginal
SHARE_ROUNDING = 1e-12  # of shares


class Answer(NamedTuple):
    """One answer as a fraction of all records; reason: why it has no interval, empty if it has."""

    answer: float
    standard_error: float
    low: float
    high: float
    reason: str


def answer_to(
    release: Release, where: Mapping[str, Condition], level: float | None = DEFAULT_LEVEL
) -> Answer:
    """The share of records that satisfy all conditions; level: of the interval, None for none."""
    codes = {name: int(condition.codes.argmax()) for name, condition in where.items()}
    if all(condition.codes.sum() == 1 for condition in where.values()):
        return _cell(release, codes, level)
    counts = crosstab_of(release, (), where, None if level is None else check_level(level))
    answer = float(counts.answers[0])
    if counts.errors is None or level is None:
        return Answer(answer, math.nan, math.nan, math.nan, counts.reason)
    error = float(standard_errors(counts.errors, counts.answers)[0])
    reach = float(half_widths(np.array(error), level))
    low, high = max(answer - reach, 0.0), min(answer + reach, 1.0)
    if answer * release.n < 1:  # as a cell below one record: the start determines it
        return Answer(answer, math.nan, 0.0, max(high, counts.highest), "")
    return Answer(answer, error, low, high, "")


def _cell(release: Release, codes: Mapping[str, int], level: float | None) -> Answer:
    """A single cell: the figures of its marginal."""
    domain = release.support.domain
    answer = release.answer(list(codes), list(codes.values()))
    cells = math.prod(domain[name].size for name in codes)
    reason = f"it has more than {LARGEST_ORDER} attributes, or its marginal is too large"
    if level is None or not codes:
        return Answer(answer, math.nan, math.nan, math.nan, "")
    if len(codes) > LARGEST_ORDER or cells > LARGEST_INTERVAL_MARGINAL:
        return Answer(answer, math.nan, math.nan, math.nan, reason)
    workload = Workload(domain, [tuple(codes)])
    cell = workload.cell(tuple(codes), tuple(codes.values()))
    figures = release.intervals(level, workload=workload)
    parts = (figures.standard_errors, figures.low, figures.high)
    error, low, high = (float(part[cell]) for part in parts)
    return Answer(answer, error, low, high, figures.reason)


def answer_frame(release: Release, given: Mapping[str, object]) -> Any:
    """The frame of one answer; see `Release.answer`."""
    where = conditions_on(release, given)
    answer = answer_to(release, where)
    figures = {name: np.array([value]) for name, value in answer._asdict().items() if name != "reason"}
    single = {n: np.array([c.codes.argmax()]) for n, c in where.items() if c.codes.sum() == 1}
    words = {name: c.words for name, c in where.items() if name not in single}
    return frame_of(release, single, figures, None, words)


def mean_frame(
    release: Release,
    name: str,
    by: str | Sequence[str] | None,
    where: Mapping[str, object] | None,
    values: Sequence[float] | None,
    level: float | None,
    kind: FrameKind | None,
) -> Any:
    """The frame of a mean; see `Release.mean`."""
    attribute = release.support.domain[name]
    scores = _scores(attribute, values)
    groups, counts = _grouped(release, name, by, where, level, len(scores))
    means = counts.answers @ scores
    errors = None if counts.errors is None else _ratio_errors(counts.errors, scores, means)
    error = standard_errors(errors, means)
    figures = {"mean": means, **_interval(means, error, level)}
    if attribute.edges and values is None:
        lows = np.array(attribute.edges[:-1], np.float64)
        highs = np.array(attribute.edges[1:], np.float64)
        if attribute.open:
            lows[0], highs[-1] = -math.inf, math.inf
        for column, ends in (("at_least", lows), ("at_most", highs)):
            with np.errstate(invalid="ignore"):
                terms = np.where(counts.answers == 0, 0.0, counts.answers * ends)
            figures[column] = np.where(np.isnan(means), math.nan, terms.sum(axis=1))
    return frame_of(release, groups, figures, kind)


def cdf_frame(
    release: Release,
    name: str,
    by: str | Sequence[str] | None,
    where: Mapping[str, object] | None,
    level: float | None,
    kind: FrameKind | None,
) -> Any:
    """The frame of a distribution function; see `Release.cdf`."""
    attribute = release.support.domain[name]
    values = _ordered(attribute, "a distribution function")
    groups, shares, error = _cumulative(release, name, by, where, level, values)
    ends = list(attribute.edges[1:]) if attribute.edges else sorted(values)
    if attribute.open:
        ends[-1] = None if isinstance(ends[-1], datetime.date) else math.inf
    repeated = {group: np.repeat(codes, len(ends)) for group, codes in groups.items()}
    column = "below" if attribute.edges else "up_to"
    figures = {"share": shares.ravel()} | _interval(shares.ravel(), error.ravel(), level, 0.0, 1.0)
    return frame_of(release, repeated, {column: ends * len(shares), **figures}, kind)


def quantile_frame(
    release: Release,
    name: str,
    q: float | Sequence[float],
    by: str | Sequence[str] | None,
    where: Mapping[str, object] | None,
    level: float | None,
    kind: FrameKind | None,
) -> Any:
    """The frame of quantiles; see `Release.quantile`."""
    attribute = release.support.domain[name]
    values = _ordered(attribute, "a quantile")
    several = isinstance(q, Sequence | np.ndarray) and not isinstance(q, str)
    asked = [check_number("q", one, quote=not several) for one in (q if several else [q])]  # type: ignore[union-attr]
    if not asked or not all(0 < one < 1 for one in asked):
        raise ValueError("q must be above 0 and below 1")
    groups, shares, error = _cumulative(release, name, by, where, level, values)
    reach = half_widths(error, DEFAULT_LEVEL if level is None else level)
    ends: list[Any] = list(attribute.edges) if attribute.edges else sorted(values)
    dates = isinstance(ends[0], datetime.date)
    numbers = np.array([end.toordinal() if dates else end for end in ends], np.float64)
    found: dict[str, list[float]] = {"quantile": [], "low": [], "high": []}
    for group in range(len(shares)):
        for one in asked:
            # The interval holds every value at which q lies inside the interval of the share.
            for column, line in (
                ("quantile", shares[group]),
                ("low", np.minimum(shares[group] + reach[group], 1.0)),
                ("high", np.maximum(shares[group] - reach[group], 0.0)),
            ):
                found[column].append(_inverse(numbers, line, one, bool(attribute.edges)))
    figures: dict[str, Any] = {column: np.array(entries) for column, entries in found.items()}
    if level is None:
        figures = {"quantile": figures["quantile"]}
    if dates:
        figures = {
            column: [None if math.isnan(d) else datetime.date.fromordinal(round(d)) for d in entries]
            for column, entries in figures.items()
        }
    repeated = {group: np.repeat(codes, len(asked)) for group, codes in groups.items()}
    return frame_of(release, repeated, {"q": np.tile(asked, len(shares)), **figures}, kind)


def conditions_on(release: Release, given: Mapping[str, object]) -> dict[str, Condition]:
    """The conditions of a mapping from attributes to values; conditions stay as they are."""
    domain = release.support.domain
    return {
        name: value if isinstance(value, Condition) else condition_on(domain[name], value)
        for name, value in given.items()
    }


def _grouped(
    release: Release,
    name: str,
    by: str | Sequence[str] | None,
    where: Mapping[str, object] | None,
    level: float | None,
    values: int,
    order: Int64s | None = None,
) -> tuple[dict[str, Int64s], Crosstab]:
    """For each group its labels' codes, and the shares of the first `values` codes of an attribute within it.

    Errors are refits x groups x values, of the shares of all records divided by the group's. Groups below one
    record have no shares.
    """
    domain = release.support.domain
    groups = [by] if isinstance(by, str) else list(by or ())
    for one in groups:
        expect("by", one, str, "the name of an attribute, or a list of names", quote=isinstance(by, str))
    positions_of(domain, groups, "by")
    if len({*groups, name}) < len(groups) + 1:
        raise ValueError(f"by ({', '.join(groups)}) must not repeat an attribute, nor be {shown(name)}")
    expect("where", where, Mapping | None, "a mapping from attributes to values, such as {'age': '>=65'}")
    given = {
        key: value if isinstance(value, Condition) else unquoted_condition_on("where", domain[key], value)
        for key, value in (where or {}).items()
    }
    counts = crosstab_of(release, [*groups, name], given, None if level is None else check_level(level))
    shape = [domain[one].size for one in groups]
    chosen = np.arange(values) if order is None else order
    shares = counts.answers.reshape(-1, domain[name].size)[:, chosen]
    totals = shares.sum(axis=1)
    totals[totals * release.n < 1] = math.nan
    errors = None
    if counts.errors is not None:
        errors = counts.errors.reshape(len(counts.errors), -1, domain[name].size)[:, :, chosen]
        errors = errors / totals[None, :, None]
    codes = np.unravel_index(np.arange(len(shares)), shape) if shape else ()
    labels = {one: code.astype(np.int64) for one, code in zip(groups, codes, strict=True)}
    return labels, Crosstab(shares / totals[:, None], errors, counts.reason, counts.highest)


def _cumulative(
    release: Release,
    name: str,
    by: str | Sequence[str] | None,
    where: Mapping[str, object] | None,
    level: float | None,
    values: Sequence[Any],
) -> tuple[dict[str, Int64s], Float64s, Float64s]:
    """For each group its labels' codes, its shares up to each value in ascending order, and their errors."""
    order = np.argsort(np.array(values), kind="stable")
    groups, counts = _grouped(release, name, by, where, level, len(values), order)
    shares = np.minimum(np.cumsum(counts.answers, axis=1), 1.0)
    errors = None if counts.errors is None else np.cumsum(_share_errors(counts), axis=2)
    return groups, shares, standard_errors(errors, shares)


def _ratio_errors(errors: Float64s, scores: Float64s, means: Float64s) -> Float64s:
    """Errors of means by refit, to first order: of sum (score - mean) share."""
    changes: Float64s = np.einsum("rgv,gv->rg", errors, scores[None, :] - means[:, None])
    return changes


def _share_errors(counts: Crosstab) -> Float64s:
    """Errors of shares within groups, to first order."""
    assert counts.errors is not None
    changes: Float64s = counts.errors - counts.answers * counts.errors.sum(axis=2, keepdims=True)
    return changes


def _interval(
    figures: Float64s, error: Float64s, level: float | None, least: float = -math.inf, most: float = math.inf
) -> dict[str, Float64s]:
    if level is None:
        return {}
    reach = half_widths(error, level)
    low, high = np.maximum(figures - reach, least), np.minimum(figures + reach, most)
    return {"standard_error": error, "low": low, "high": high}


def _inverse(ends: Float64s, shares: Float64s, q: float, bins: bool) -> float:
    """Where a distribution function reaches q: inside a bin by interpolation, else at one of its values."""
    if np.isnan(shares).any():
        return math.nan
    line = np.maximum.accumulate(shares)
    place = int(np.searchsorted(line, q - SHARE_ROUNDING))
    if place == len(line):
        return float(ends[-1])
    if not bins:
        return float(ends[place])
    before = float(line[place - 1]) if place else 0.0
    part = (q - before) / (float(line[place]) - before) if line[place] > before else 1.0
    return float(ends[place] + min(max(part, 0.0), 1.0) * (ends[place + 1] - ends[place]))


def _ordered(attribute: Attribute, what: str) -> list[Any]:
    values = ordered_values(attribute)
    if values is None:
        raise ValueError(f"attribute {shown(attribute.name)} has no order: it has no {what.split()[-1]}")
    return values


def _scores(attribute: Attribute, values: Sequence[float] | None) -> Float64s:
    """The number that a mean takes for each label or bin: the label itself, or the middle of the bin."""
    name = shown(attribute.name)
    count = len(attribute.labels or (attribute.edges or ())[1:]) or attribute.size
    if values is not None:
        scores = np.array(
            [check_number(f"values of {name}", value, quote=False) for value in values], np.float64
        )
        if len(scores) != count or not np.isfinite(scores).all():
            raise ValueError(
                f"values of {name} ({len(scores)}) must be {count} finite numbers, one per label"
            )
        return scores
    numbers = ordered_values(attribute)
    if numbers is None or isinstance(numbers[0], datetime.date):
        raise ValueError(f"attribute {name} has no numbers: give `values`, one per label or bin")
    if attribute.edges:
        edges = np.array(attribute.edges, np.float64)
        return (edges[:-1] + edges[1:]) / 2
    return np.array(numbers, np.float64)
