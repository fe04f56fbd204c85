"""Pictures of a run: its rounds, its budget, what became of the rows' weights and of each attribute.

Markers, dashes and hatches differ as well as colours, so that the pictures survive grey print. Each says in
words and figures what it shows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privmw.data.domain import Domain
from privmw.release import Release
from privmw.report import facts
from privmw.report.svg import BLUE, INK, MUTED, NARROW, ORANGE, Picture, draw, legend
from privmw.report.words import percent, plain, plural, quantity

MOST_VALUES = 12  # of an attribute
MARKED = 120  # markers on a line, or steps of an area, before they hide it
CHOOSING, OTHER = "#f2c9a6", "#bbbbbb"
WIDEST = 8  # powers of two: weights that changed more stand with those


def rounds(release: Release) -> Picture | None:
    """The gap between noisy and model answers, before each round learnt and after; None for one shot."""
    known = [entry for entry in release.history if math.isfinite(entry.discrepancy + entry.after)]
    if len(known) < 2:
        return None
    numbers = [entry.round for entry in known]
    before = np.array([entry.discrepancy for entry in known])
    after = np.array([entry.after for entry in known])

    def paint(figure: Any, axes: Any) -> None:
        circle, square = ("o", "s") if len(known) <= MARKED else ("", "")
        learnt = {"color": ORANGE, "marker": circle, "mfc": "white", "ls": "--", "lw": 1.2}
        axes.plot(numbers, 100 * before, **learnt, markersize=4.5, label="before the round learnt")
        axes.plot(numbers, 100 * after, color=BLUE, marker=square, markersize=4.5, lw=1.4, label="after")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("round")
        axes.set_ylabel("largest gap, % of records")
        axes.xaxis.get_major_locator().set_params(integer=True)
        legend(figure, axes)

    return draw(
        "rounds",
        paint,
        height=2.9,
        title="Gap between noisy and model answers, round by round",
        alt=(
            f"A line chart of {plural(len(known), 'round')}. Before learning, the largest gap is "
            f"{percent(before[0])} of the records in the first round and {percent(before[-1])} in the last, "
            f"at most {percent(before.max())}. After learning it is {percent(after[0])} in the first and "
            f"{percent(after[-1])} in the last."
        ),
        caption=(
            "The largest difference between what a round measured, noise included, and the model's answer, "
            "before the round learnt from it and after. It falls as the model needs less correction, and "
            "levels off where noise is all that is left."
        ),
    )


def budget(spent: facts.Spending) -> Picture | None:
    """The budget used up, look by look, for choosing and for measuring; None for a single look."""
    count = len(next(iter(spent.running.values()), ()))
    if count < 2:
        return None
    styles = {"measuring": (BLUE, ""), "choosing": (CHOOSING, "////"), "other": (OTHER, "...")}
    names = [name for name in styles if name in spent.running]
    steps = np.arange(count + 1)
    heights = [100 * np.append(0, spent.running[name]) / spent.limit for name in names]

    def paint(figure: Any, axes: Any) -> None:
        base = np.zeros(count + 1)
        for name, height in zip(names, heights, strict=True):
            colour, hatch = styles[name]
            area = {"facecolor": colour, "hatch": hatch, "edgecolor": INK, "lw": 0.4, "label": name}
            axes.fill_between(steps, base, base + height, step="pre" if count <= MARKED else None, **area)
            base = base + height
        axes.axhline(100, color=INK, lw=1, ls="--")
        axes.set_xlim(0, count)
        axes.set_ylim(0, 108)
        axes.set_xlabel("looks at the private table, in order")
        axes.set_ylabel("% of the budget spent")
        axes.xaxis.get_major_locator().set_params(integer=True)
        legend(figure, axes)

    shares = ", ".join(
        f"{percent(float(height[-1]) / 100)} for {name}" for name, height in zip(names, heights, strict=True)
    )
    return draw(
        "budget",
        paint,
        height=2.9,
        title="The privacy budget, look by look",
        alt=(
            f"Stacked areas over {plural(count, 'look')} at the private table. At the end, of the whole "
            f"budget: {shares}."
        ),
        caption=(
            f"How much of the budget was spent after each look, counted in {spent.unit}; the dashed line is "
            "the whole. What is spent on choosing decides what to measure; what is spent on measuring buys "
            "less noise."
        ),
    )


def weights(found: facts.Weights) -> Picture:
    """By how much the weights of rows changed, on a logarithmic scale."""
    kept = found.after > 0
    ratios = np.log2(found.after[kept] / found.before[kept])
    edges = np.arange(-WIDEST - 0.25, WIDEST + 0.5, 0.5)
    heights = np.histogram(np.clip(ratios, -WIDEST, WIDEST), edges)[0] / len(found.after)

    def paint(figure: Any, axes: Any) -> None:
        ticks = {-8.0: "≤ 1/256", -4.0: "1/16", 0.0: "1", 4.0: "16", 8.0: "≥ 256"}
        axes.bar((edges[1:] + edges[:-1]) / 2, 100 * heights, width=0.44, color=BLUE)
        if found.empty:
            share = 100 * found.empty / len(found.after)
            axes.bar([-10], [share], width=0.44, color=CHOOSING, hatch="////", edgecolor=INK, lw=0.4)
            ticks = {-10.0: "zero", **{place: ticks[place] for place in (-4.0, 0.0, 4.0, 8.0)}}
        axes.axvline(0, color=INK, lw=0.8, ls="--")
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.set_xlabel("weight after, as a multiple of the weight before")
        axes.set_ylabel("% of rows")
        axes.grid(axis="x", visible=False)

    return draw(
        "weights",
        paint,
        height=2.7,
        title="Weights of the rows, after against before",
        alt=(
            f"A histogram of {plural(len(found.after), 'row')}. The middle row of those that keep weight has "
            f"{2 ** float(np.median(ratios)):.3g} times its weight at the start; "
            f"{plural(found.empty, 'row')} got no weight at all. The weights are as concentrated as on "
            f"{quantity(found.effective_before)} equal rows before and {quantity(found.effective_after)} "
            "after."
        ),
        caption=(
            f"Rows right of the dashed line became more common than at the start, rows left of it rarer. "
            f"{percent(found.moved)} of the weight moved to other rows. Effective number of rows: "
            f"{quantity(found.effective_before)} before, {quantity(found.effective_after)} after; "
            f"{plural(found.empty, 'row')} without weight."
        ),
    )


def attribute(found: facts.Attribute, domain: Domain, place: int, start: str) -> Picture:
    """One attribute's distribution before and after; of many values those that moved most."""
    values = np.arange(len(found.codes))
    many = len(values) > MOST_VALUES
    if many:
        moved = np.argsort(-np.abs(found.after - found.before), kind="stable")
        values = np.sort(moved[: MOST_VALUES - 1])
    labels = [plain(domain[found.name].label(int(found.codes[value])), 16) for value in values]
    before, after = found.before[values], found.after[values]
    if many:
        labels.append("all others")
        before, after = (np.append(part, max(1 - part.sum(), 0)) for part in (before, after))

    def paint(figure: Any, axes: Any) -> None:
        rows = np.arange(len(labels))
        ring = {"marker": "o", "mfc": "white", "mec": ORANGE, "mew": 1.4, "markersize": 6.5, "ls": ""}
        axes.hlines(rows, 100 * before, 100 * after, color=MUTED, lw=1.2)
        axes.plot(100 * before, rows, **ring, label=start, clip_on=False)
        axes.plot(100 * after, rows, "s", color=BLUE, markersize=4.2, label="synthetic", clip_on=False)
        axes.set_yticks(rows, labels)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.set_xlabel("% of records")
        axes.tick_params(axis="y", length=0, pad=8)
        legend(figure, axes)

    name = plain(found.name, 40)
    most = int(np.argmax(np.abs(after - before)))
    whole = plural(found.size, "value") + (f", {len(labels) - 1} shown" if many else "")
    return draw(
        f"attribute-{place}",
        paint,
        width=NARROW,
        height=0.85 + 0.22 * len(labels),
        title=name,
        alt=(
            f"A dot plot of {name} ({whole}). {percent(found.moved)} of the records would have to change "
            f"their value to get from one to the other. The largest change is at {labels[most]}: "
            f"{percent(before[most])} before, {percent(after[most])} in the synthetic data."
        ),
        caption=f"{whole}; {percent(found.moved)} of the records moved",
    )
