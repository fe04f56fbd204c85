"""Dot plots and heat maps, written as SVG directly: this is fast, and labels can wrap.

matplotlib draws the other pictures (svg.py); it takes a tenth of a second for each. Lengths are points, as in
those. This file knows no data.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from privmw.kernels.arrays import Bools, Float64s
from privmw.report.formats import percent
from privmw.report.svg import BLUE, GREY, GRID, INK, MUTED, ORANGE, PAPER, Picture, Words, colour, with_words

DOTS_WIDTH, MAPS_WIDTH = 245.0, 288.0
LETTER_WIDTH, LINE_HEIGHT = 5.0, 10.5  # approximate width of a letter, height of a line
LABEL = 22  # letters in a line of a label
MOST_LINES = 4


def wrapped(text: str, most: int = LABEL, lines: int = MOST_LINES) -> list[str]:
    """Break a label into lines of limited length; splits longer words and truncates the text.

    >>> wrapped("elsewhere in the country, or abroad"), wrapped("x" * 9, most=4)
    (['elsewhere in the', 'country, or abroad'], ['xxxx', 'xxxx', 'x'])
    >>> wrapped("one two three four", most=5, lines=2)
    ['one', 'two…']
    """
    found = [""]
    for word in text.split():
        while word:
            if not found[-1] and _letters(word) <= most:
                found[-1], word = word, ""
            elif found[-1] and _letters(f"{found[-1]} {word}") <= most:
                found[-1], word = f"{found[-1]} {word}", ""
            elif found[-1]:
                found.append("")
            else:
                fits = next(k for k in range(len(word), 0, -1) if _letters(word[:k]) <= most or k == 1)
                found[-1], word = word[:fits], word[fits:]
                found.append("")
    found = [line for line in found if line] or [""]
    if len(found) > lines:
        found = [*found[: lines - 1], f"{found[lines - 1][: most - 1]}…"]
    return found


def dot_plot(
    words: Words,
    labels: Sequence[str],
    before: Float64s | None,
    after: Float64s,
    low: Float64s,
    high: Float64s,
    *,
    start: str,
) -> Picture:
    """Shares before and after, with an interval where low and high are numbers; one row for each label."""
    rows = [wrapped(label) for label in labels]
    left = 10 + LETTER_WIDTH * max(_letters(line) for lines in rows for line in lines)
    right = DOTS_WIDTH - 8
    heights = [max(LINE_HEIGHT * len(lines) + 5, 17.0) for lines in rows]
    bottom = 24 + sum(heights)
    parts = [after, high] if before is None else [before, after, high]
    top = max(float(np.nanmax(np.concatenate(parts))), 1e-6)
    step = _step(top, 4)
    root = _root(DOTS_WIDTH, bottom + 28)

    def across(share: float) -> float:
        return left + (right - left) * share / top

    _key(root, start if before is not None else None, interval=bool(np.isfinite(high).any()))
    for tick in np.arange(0, top * 1.0001, step).tolist():
        _line(root, across(tick), 20, across(tick), bottom, GRID, 0.6)
        _text(root, across(tick), bottom + 12, f"{100 * tick:.6g}", "middle")
    _text(root, right, bottom + 24, "% of records", "end")
    middle = 24.0
    for place, (lines, height) in enumerate(zip(rows, heights, strict=True)):
        y = middle + height / 2
        middle += height
        for k, line in enumerate(lines):
            _text(root, left - 7, y + 3.2 + LINE_HEIGHT * (k - (len(lines) - 1) / 2), line, "end")
        if before is not None:
            _line(root, across(before[place]), y, across(after[place]), y, GREY, 2.4)
        if math.isfinite(high[place]):
            ends = across(low[place]), across(high[place])
            _line(root, ends[0], y, ends[1], y, INK, 0.9)
            for end in ends:
                _line(root, end, y - 3, end, y + 3, INK, 0.9)
        if before is not None:
            _ring(root, across(before[place]), y)
        _square(root, across(after[place]), y)
    return Picture(*words, with_words(root, words))


def heat_maps(
    words: Words,
    rows: Sequence[str],
    columns: Sequence[str],
    panels: Sequence[tuple[str, Float64s]],
    *,
    tints: Sequence[Float64s],
    marked: Bools | None = None,
    hue: str = BLUE,
) -> Picture:
    """Panels side by side, one cell for each row and column label; NaN is an empty cell.

    tints: the strength of each cell's colour, from 0 to 1; the panels' own values are shown as tooltips.
    marked: cells of the last panel with a dot.
    """
    labels = [wrapped(label, 16) for label in rows]
    left = 8 + LETTER_WIDTH * max(_letters(line) for lines in labels for line in lines)
    gap = 8.0
    wide = (MAPS_WIDTH - left - gap * (len(panels) - 1) - 2) / len(panels)
    pitch = wide / len(columns)
    heights = [max(LINE_HEIGHT * len(lines) + 2, min(pitch, 22.0), 13.0) for lines in labels]
    below = [wrapped(label, 24, max(int(pitch / LINE_HEIGHT), 1)) for label in columns]
    depth = 8 + LETTER_WIDTH * max(_letters(line) for lines in below for line in lines)
    first = 18.0 if any(heading for heading, _ in panels) else 3.0
    bottom = first + sum(heights)
    root = _root(MAPS_WIDTH, bottom + depth)
    tops = np.cumsum([first, *heights])
    for k, lines in enumerate(labels):
        y = (tops[k] + tops[k + 1]) / 2
        for place, line in enumerate(lines):
            _text(root, left - 5, y + 3.2 + LINE_HEIGHT * (place - (len(lines) - 1) / 2), line, "end")
    for panel, ((heading, values), tint) in enumerate(zip(panels, tints, strict=True)):
        x = left + panel * (wide + gap)
        if heading:
            _text(root, x + wide / 2, 11, heading, "middle")
        style = f"fill: {colour(hue)}; stroke: {colour(GRID)}; stroke-width: 0.6"
        cells = SubElement(root, "g", {"style": style})
        for (i, j), value in np.ndenumerate(values):
            if not math.isfinite(value):
                continue
            where = {"x": x + j * pitch, "y": tops[i], "width": pitch, "height": heights[i]}
            cell = SubElement(cells, "rect", {key: f"{length:.4g}" for key, length in where.items()})
            cell.set("fill-opacity", f"{tint[i, j]:.2f}")
            SubElement(cell, "title").text = f"{rows[i]}, {columns[j]}: {percent(value)}"
            if marked is not None and panel == len(panels) - 1 and marked[i, j]:
                dot = {"cx": x + (j + 0.5) * pitch, "cy": tops[i] + heights[i] / 2, "r": 2.2}
                _shape(root, "circle", dot, fill=ORANGE, stroke=PAPER)
        for j, lines in enumerate(below):
            for place, line in enumerate(lines):
                at = x + (j + 0.5) * pitch + 3.2 + LINE_HEIGHT * (place - (len(lines) - 1) / 2)
                turned = {"transform": f"translate({at:.2f} {bottom + 4:.2f}) rotate(-90)"}
                _text(root, 0, 0, line, "end", turned)
    return Picture(*words, with_words(root, words))


def meter(words: Words, times: float, label: str) -> Picture:
    """A bar from 50 to 100 percent, filled up to the given share."""
    root = _root(MAPS_WIDTH, 58)
    left, right = 4.0, MAPS_WIDTH - 4
    end = left + (right - left) * (min(max(times, 50.0), 100.0) - 50) / 50
    _shape(root, "rect", {"x": left, "y": 18, "width": right - left, "height": 12}, fill=PAPER, stroke=MUTED)
    _shape(root, "rect", {"x": left, "y": 18, "width": end - left, "height": 12}, fill=BLUE, stroke=BLUE)
    _line(root, end, 13, end, 33, INK, 1.4)
    half = LETTER_WIDTH * _letters(label) / 2
    _text(root, min(max(end, left + half), right - half), 10, label, "middle")
    _text(root, left, 47, "50: tossing a coin", "start")
    _text(root, right, 47, "100: certainty", "end")
    return Picture(*words, with_words(root, words))


def _letters(text: str) -> float:
    """The width of a text in letters: some scripts have wide ones."""
    return sum(1.8 if unicodedata.east_asian_width(letter) in "WF" else 1.0 for letter in text)


def _step(top: float, most: int) -> float:
    """A round distance between ticks from 0 to the top, for a limited number of ticks."""
    unit: float = 10.0 ** math.floor(math.log10(top / most))
    return next(unit * k for k in (1, 2, 2.5, 5, 10, 20) if top / (unit * k) <= most)


def _root(width: float, height: float) -> Element:
    return Element("svg", {"viewBox": f"0 0 {width:g} {height:.2f}"})


def _shape(
    root: Element, tag: str, where: dict[str, Any], *, fill: str, stroke: str, width: float = 0.6
) -> Element:
    style = f"fill: {colour(fill)}; stroke: {colour(stroke)}; stroke-width: {width:g}"
    return SubElement(root, tag, {**{key: f"{value:.2f}" for key, value in where.items()}, "style": style})


def _line(root: Element, x1: float, y1: float, x2: float, y2: float, ink: str, width: float) -> None:
    where = {key: f"{value:.2f}" for key, value in (("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2))}
    SubElement(root, "line", {**where, "style": f"stroke: {colour(ink)}; stroke-width: {width:g}"})


def _text(
    root: Element, x: float, y: float, words: str, anchor: str, more: dict[str, str] | None = None
) -> None:
    style = f"font-size: 9px; text-anchor: {anchor}; fill: {colour(INK)}"
    SubElement(root, "text", {"x": f"{x:.2f}", "y": f"{y:.2f}", "style": style, **(more or {})}).text = words


def _ring(root: Element, x: float, y: float) -> None:
    _shape(root, "circle", {"cx": x, "cy": y, "r": 3.4}, fill=PAPER, stroke=ORANGE, width=1.5)


def _square(root: Element, x: float, y: float) -> None:
    where = {"x": x - 2.8, "y": y - 2.8, "width": 5.6, "height": 5.6}
    _shape(root, "rect", where, fill=BLUE, stroke=PAPER)


def _key(root: Element, start: str | None, *, interval: bool) -> None:
    """Draw the legend above the marks."""
    x = 6.0
    if start is not None:
        _ring(root, x, 9)
        _text(root, x + 8, 12, start, "start")
        x += 20 + LETTER_WIDTH * _letters(start)
    _square(root, x, 9)
    _text(root, x + 8, 12, "released", "start")
    x += 22 + LETTER_WIDTH * 8
    if interval:
        _line(root, x - 4, 9, x + 10, 9, MUTED, 0.9)
        for end in (x - 4, x + 10):
            _line(root, end, 6, end, 12, MUTED, 0.9)
        _text(root, x + 15, 12, "interval", "start")
