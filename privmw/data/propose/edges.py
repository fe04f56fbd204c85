"""Bin edges for public values: near the quantiles, and round, so that a person can read and change them.

Takes distinct values and their counts, returns edges; knows neither columns nor domains. A number is
round by its digits, a date by its calendar. An edge x separates the values below x from x and above.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]  # distinct and ascending
Counts = npt.NDArray[np.int64]

_WINDOW = 0.3  # the distance from its quantile that an edge may have to be round, as a fraction of a bin
_LARGEST_BOUND = Fraction(sys.float_info.max)
_TINIEST = 1e-300  # smaller numbers are taken as 0: between them doubles have no digits left


class Scale(Protocol):
    """The edges of one kind of value: numbers or dates."""

    def exact(self, value: Any) -> Any:
        """The value as a type that is added and halved without rounding."""

    def roundest(self, low: Any, high: Any, near: Any, closed: bool = False) -> Any:
        """The roundest edge in (low, high], or [low, high] if closed; of equally round ones the nearest."""

    def after(self, value: Any, following: Any) -> Any:
        """The end of a bin that has only this value, at most the following value."""

    def room(self, value: Any) -> Any:
        """The distance of the outer edges from the value, if all values are equal."""

    def grids(self, least: Any, most: Any) -> Iterator[list[Any]]:
        """Bins of equal width from the least value to the largest, narrower and narrower."""

    def edge(self, exact: Any) -> Any:
        """An edge as a domain declares it."""


class Numbers:
    """Numbers; integers (up to 2^53) if `whole`. 100 is rounder than 50, 50 than 20, 20 than 10."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole

    def exact(self, value: Any) -> Fraction:
        """The same number, as a fraction."""
        return Fraction(int(value)) if self.whole else Fraction(float(value))

    def edge(self, exact: Fraction) -> int | float:
        """An integer where the number is one."""
        return int(exact) if exact.denominator == 1 and abs(exact) <= 2**53 else float(exact)

    def room(self, value: Fraction) -> Fraction:
        """A tenth of the number."""
        return abs(value) / 10 or Fraction(1)

    def grids(self, least: Fraction, most: Fraction) -> Iterator[list[Fraction]]:
        """Steps of 1, 2 or 5 times a power of ten."""
        for power in range(place := _places(most - least), place - 4, -1):
            for digit in (10, 5, 2):
                step = digit * Fraction(10) ** (power - 1)
                first, last = math.floor(least / step), math.ceil(most / step)
                if (step >= 1 or not self.whole) and max(-first, last) * step <= _LARGEST_BOUND:
                    yield [Fraction(float(n * step)) for n in range(first, last + 1)]

    def after(self, value: Fraction, following: Fraction) -> Fraction:
        """Of a whole number the next one that is a double."""
        if not self.whole:
            return self.roundest(value, following, value)
        return value + 1 if value < 2**53 else value + 2

    def roundest(self, low: Fraction, high: Fraction, near: Fraction, closed: bool = False) -> Fraction:
        """A multiple of the largest step of 1, 2 or 5 times a power of ten; 0 is a multiple of all."""
        low, high = max(low, -_LARGEST_BOUND), min(high, _LARGEST_BOUND)
        if low < 0 <= high or (closed and low == 0):
            return Fraction(0)
        place = _places(max(abs(low), abs(high))) + 1
        for power in range(place, max(place - 20, 0 if self.whole else -400), -1):
            for digit in (10, 5, 2):
                step = digit * Fraction(10) ** (power - 1)
                least = math.ceil(low / step) if closed else math.floor(low / step) + 1
                most = math.floor(high / step)
                if least <= most:
                    multiple = min(max(round(near / step), least), most) * step
                    edge = Fraction(float(multiple))  # the nearest double, which may be another number
                    if low < edge or (closed and low == edge):
                        return edge
        return math.floor(high) * Fraction(1) if self.whole else high


def _places(size: Fraction) -> int:
    return math.ceil(math.log10(min(size, _LARGEST_BOUND)))


class Dates:
    """Days, numbered as datetime numbers them: a decade is rounder than a year, a year than a quarter."""

    def exact(self, value: Any) -> int:
        """The number of the day."""
        return int(value)

    def edge(self, exact: int) -> datetime.date:
        """The day itself."""
        return datetime.date.fromordinal(int(exact))

    def room(self, value: int) -> int:
        """One day."""
        return 1

    def grids(self, least: int, most: int) -> Iterator[list[int]]:
        """Steps of whole decades, years, quarters or months."""
        for months in _PERIODS:
            first, last = _month(least) // months, _month(most - 1) // months + 1
            if first * months >= 12 and last * months < 120_000:  # the years 1 to 9999
                yield [_first_day(n * months) for n in range(first, last + 1)]

    def after(self, value: int, following: int) -> int:
        """The next day."""
        return min(value + 1, datetime.date.max.toordinal())

    def roundest(self, low: Any, high: Any, near: Any, closed: bool = False) -> int:
        """The first day of a century, decade, year, quarter or month, or any day."""
        least_day = max(math.floor(low) + (not closed), 1)
        most_day = min(math.floor(high), datetime.date.max.toordinal())
        before, last = _month(least_day - 1), _month(most_day)
        for months in _PERIODS:
            least, most = before // months + 1, last // months
            if least <= most:
                return _first_day(min(max(round(_month(near) / months), least), most) * months)
        return int(min(max(math.floor(near), least_day), most_day))


_PERIODS = (1200, 600, 240, 120, 60, 24, 12, 6, 3, 1)  # months


def _first_day(month: int) -> int:
    return datetime.date(month // 12, month % 12 + 1, 1).toordinal()


def _month(day: Any) -> int:
    date = datetime.date.fromordinal(min(max(math.floor(day), 1), datetime.date.max.toordinal()))
    return date.year * 12 + date.month - 1


def bin_edges(values: Values, counts: Counts, bins: int, scale: Scale) -> list[Any]:
    """Strictly ascending edges of about `bins` bins for all values, with about equally many records each.

    A value with more records than the average bin gets its own bin if it is zero, the smallest or the largest
    (a code for none, or for all beyond), and any value with twice as many. The remaining records get
    proportionally fewer bins. Bins have equal width unless some would then have far too many records.

    >>> bin_edges(np.arange(95), np.full(95, 7), 10, Numbers(whole=True))
    [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    >>> bin_edges(np.array([0, 114, 2400, 7700]), np.array([90, 30, 30, 30]), 3, Numbers(whole=True))
    [0, 1, 5000, 8000]
    """
    tiny = (values != 0) & (np.abs(values) < _TINIEST)
    if tiny.any():  # treated as 0; the outer edges include them
        distinct, place = np.unique(np.where(tiny, 0.0, values), return_inverse=True)
        edges = bin_edges(distinct, np.bincount(place, counts), bins, scale)
        return [min(edges[0], float(values[0])), *edges[1:-1], max(edges[-1], float(values[-1]))]
    spikes = _spikes(values, counts, bins)
    least, most = scale.exact(values[0]), scale.exact(values[-1])
    if not spikes and len(values) > bins:
        for grid in scale.grids(least, most):
            if not 0.6 * bins < len(grid) <= 1.6 * bins + 1 or len(set(grid)) < len(grid):
                continue
            records = np.histogram(values, [float(edge) for edge in grid], weights=counts)[0]
            if records.max() * bins <= 1.6 * counts.sum():
                return [scale.edge(edge) for edge in grid]
    room = (most - least) / 10 or scale.room(most)  # by which the outer edges may lie outside
    spike_edges = {scale.exact(values[s]) for s in spikes}
    spike_edges |= {
        scale.after(scale.exact(values[s]), scale.exact(values[s + 1])) for s in spikes if s + 1 < len(values)
    }
    first = least - (min(room, -least) if least < 0 else room)
    fixed = spike_edges if 0 in spikes else spike_edges | {scale.roundest(first, least, least)}
    edges = sorted(fixed | _cuts(values, counts, bins, spikes, scale))
    last = most + (min(room, most) if most > 0 else room)
    top = scale.roundest(most, last, most, closed=True)
    if len(values) - 1 in spikes or top == edges[-1]:
        top = scale.after(most, most + room)
    while edges and edges[-1] >= top:  # at the largest number or date of all
        edges.pop()
    if not edges:
        edges.append(scale.roundest(most - 2 * room, most - room, most))
    return [scale.edge(edge) for edge in (*edges, top)]


def _spikes(values: Values, counts: Counts, bins: int) -> list[int]:
    """The indices of the values that need their own bin."""
    if len(values) <= bins:
        return []
    fair = counts.sum() / bins
    special = values == 0
    special[[0, -1]] = True
    spikes: list[int] = np.flatnonzero(counts >= np.where(special, fair, 2 * fair)).tolist()
    return spikes


def _cuts(values: Values, counts: Counts, bins: int, spikes: list[int], scale: Scale) -> set[Any]:
    """Inner edges, near the quantiles of the values that are not spikes."""
    exact = scale.exact
    if len(values) <= bins:
        return {scale.roundest(exact(low), exact(high), exact(high)) for low, high in pairwise(values)}
    without_spikes = counts.astype(np.float64)
    without_spikes[spikes] = 0
    below = np.concatenate([[0], np.cumsum(without_spikes)])  # below[i]: records below a cut before value i
    share = math.sqrt(below[-1] / counts.sum())
    parts = max(math.ceil((bins - len(spikes)) * share), 1)
    fair = below[-1] / parts
    taken = np.array(sorted({0, len(values)} | set(spikes) | {s + 1 for s in spikes}))
    cuts = set()
    for quantile in np.arange(1, parts) * fair:
        start = int(np.searchsorted(below, quantile - _WINDOW * fair))
        stop = int(np.searchsorted(below, quantile + _WINDOW * fair, "right")) - 1
        if start > stop:  # one value spans the window: the edge is before or after it
            start = stop = min(start, stop, key=lambda place: abs(below[place] - quantile))
        middle = int(np.clip(np.searchsorted(below, quantile), start, stop))
        nearest = np.abs(below[taken] - below[middle]).min()
        if start > 0 and stop < len(values) and nearest > _WINDOW * fair:
            cuts.add(scale.roundest(exact(values[start - 1]), exact(values[stop]), exact(values[middle])))
    return cuts
