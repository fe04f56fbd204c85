"""The pictures of a report: each takes facts, and says in words and figures what it shows.

Markers and dashes differ as well as colours, so that the pictures survive grey print. Where there are too
many points, some are shown: always the same ones, and the caption says how many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.domain import Domain
from privmw.release import Release
from privmw.report import facts
from privmw.report.svg import BLUE, INK, MUTED, ORANGE, Picture, draw
from privmw.report.words import percent, plain, plural, quantity
from privmw.true_errors import Cell, Evaluation

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

MOST_POINTS = 1_200
MOST_VALUES = 12
MARKED = 120  # markers on a line, before they hide it


def rounds(release: Release) -> Picture | None:
    """The gap between noisy and model answers in each round, before it learnt and after; None for one shot."""
    known = [entry for entry in release.history if math.isfinite(entry.discrepancy + entry.after)]
    if len(known) < 2:
        return None
    numbers = [entry.round for entry in known]
    before = np.array([entry.discrepancy for entry in known])
    after = np.array([entry.after for entry in known])

    def paint(figure: Any, axes: Any) -> None:
        mark = {"markersize": 4.5} if len(known) <= MARKED else {"marker": ""}
        axes.plot(numbers, 100 * before, **{"color": ORANGE, "marker": "o", "mfc": "white", **mark}, lw=1.2,
                  ls="--", label="before the round learnt")  # fmt: skip
        axes.plot(numbers, 100 * after, **{"color": BLUE, "marker": "s", **mark}, lw=1.4, label="after")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("round")
        axes.set_ylabel("largest gap, % of records")
        axes.xaxis.get_major_locator().set_params(integer=True)
        _legend(figure, axes)

    return draw(
        "rounds",
        paint,
        height=3.0,
        title="Gap between noisy and released answers, round by round",
        alt=(
            f"A line chart of {plural(len(known), 'round')}. Before learning, the largest gap is "
            f"{percent(before[0])} in the first round shown and {percent(before[-1])} in the last, at most "
            f"{percent(before.max())}. After learning it is {percent(after[0])} in the first and "
            f"{percent(after[-1])} in the last."
        ),
        caption=(
            "The largest difference between what a round measured, noise included, and the model's answer, "
            "before the round learnt from it and after. It falls as the model needs less correction, and "
            "levels off where noise is all that is left."
        ),
    )


def scatter(fit: facts.Fit) -> Picture:
    """Released answers against noisy ones, with the noise around the diagonal."""
    count = len(fit.cells)
    shown = _some(fit.noisy, np.abs(fit.z))
    deviation = float(np.median(fit.deviations))
    inside = float((np.abs(fit.z) <= 2).mean())

    def paint(figure: Any, axes: Any) -> None:
        top = _square_root_axes(axes, fit.noisy[shown], fit.fitted[shown])
        line = _spread(-2 * deviation, top)
        axes.fill_between(100 * line, 100 * (line - 2 * deviation), 100 * (line + 2 * deviation), color=GREY,
                          lw=0, label="noise of two standard deviations")  # fmt: skip
        axes.plot(100 * line, 100 * line, color=INK, lw=0.8)
        axes.plot(100 * fit.noisy[shown], 100 * fit.fitted[shown], ls="", marker="o", markersize=3, mfc=BLUE,
                  mec="white", mew=0.3, label="a cell")  # fmt: skip
        axes.set_xlabel("noisy count, % of records")
        axes.set_ylabel("released answer, % of records")
        _legend(figure, axes)

    return draw(
        "fit",
        paint,
        height=4.3,
        title="Released answers against noisy counts",
        alt=(
            f"A scatter plot of {plural(count, 'measured cell')}; noisy counts from "
            f"{percent(float(fit.noisy.min()))} to {percent(float(fit.noisy.max()))} of the records. "
            f"{percent(inside)} of the cells lie within two standard deviations of the noise around the "
            f"diagonal; the largest gap is {percent(fit.largest_gap, up=True)} of the records."
        ),
        caption=(
            "Each point is a cell that was measured. On the line, the released answer equals the noisy count; "
            "inside the band they differ by what noise explains. Square-root scale, so that small cells can "
            f"be seen.{_said(len(shown), count, 'cells', 'those farthest out and even steps through the rest')}"
        ),
    )


def residuals(fit: facts.Fit) -> Picture:
    """How far released answers are from noisy ones, in deviations of the noise."""
    edges = np.linspace(-4, 4, 33)
    heights = np.histogram(np.clip(fit.z, -4, 4), edges)[0] / len(fit.z)
    middles = (edges[1:] + edges[:-1]) / 2
    curve = np.exp(-(middles**2) / 2) / math.sqrt(2 * math.pi) * (edges[1] - edges[0])

    def paint(figure: Any, axes: Any) -> None:
        axes.bar(middles, 100 * heights, width=0.22, color=BLUE, label="cells of this release")
        axes.plot(middles, 100 * curve, color=ORANGE, lw=1.6, ls="--", label="noise alone, if Gaussian")
        axes.set_xlabel("released minus noisy, in standard deviations")
        axes.set_ylabel("% of measured cells")
        axes.set_xticks(range(-4, 5), ["≤ −4", *(str(k).replace("-", "−") for k in range(-3, 4)), "≥ 4"])
        axes.grid(axis="x", visible=False)
        _legend(figure, axes)

    return draw(
        "residuals",
        paint,
        height=3.0,
        title="Gaps in units of the noise",
        alt=(
            f"A histogram of {plural(len(fit.z), 'measured cell')}. {percent(fit.within[0])} lie within one "
            f"standard deviation of the noise, {percent(fit.within[1])} within two, {percent(fit.within[2])} "
            f"within three; noise alone would give {percent(fit.expected[0])}, {percent(fit.expected[1])} and "
            f"{percent(fit.expected[2])}."
        ),
        caption=(
            "Narrower than the dashed line: the release follows the noisy counts closely, or many cells are "
            "zero in both. Wider: the public rows cannot answer as the noisy counts do."
        ),
    )


def attribute(found: facts.Attribute, domain: Domain, place: int, before: str) -> Picture:
    """One attribute's distribution before and after; of many values those that moved most."""
    change = np.abs(found.after - found.before)
    values = np.arange(len(found.codes))
    rest = len(values) > MOST_VALUES
    if rest:
        values = np.sort(np.argsort(-change, kind="stable")[: MOST_VALUES - 1])
    labels = [plain(domain[found.name].label(int(found.codes[value])), 16) for value in values]
    old, new = found.before[values], found.after[values]
    if rest:
        labels.append("all others")
        old, new = np.append(old, max(1 - old.sum(), 0)), np.append(new, max(1 - new.sum(), 0))

    def paint(figure: Any, axes: Any) -> None:
        rows = np.arange(len(labels))
        axes.hlines(rows, 100 * old, 100 * new, color=MUTED, lw=1.2)
        axes.plot(100 * old, rows, ls="", marker="o", mfc="white", mec=ORANGE, mew=1.4, markersize=6.5,
                  label=before, clip_on=False)  # fmt: skip
        axes.plot(100 * new, rows, ls="", marker="s", color=BLUE, markersize=4.2, label="synthetic",
                  clip_on=False)  # fmt: skip
        axes.set_yticks(rows, labels)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.set_xlabel("% of records")
        axes.tick_params(axis="y", length=0)
        _legend(figure, axes)

    name = plain(found.name, 40)
    most = int(np.argmax(np.abs(new - old)))
    whole = f"{plural(found.size, 'value')}" + (f", {len(labels) - 1} shown" if rest else "")
    return draw(
        f"attribute-{place}",
        paint,
        height=0.95 + 0.24 * len(labels),
        title=name,
        alt=(
            f"A dot plot of {name} ({whole}). {percent(found.moved)} of the records would have to change "
            f"their value to get from one distribution to the other. The largest change is at {labels[most]}: "
            f"{percent(float(old[most]))} before, {percent(float(new[most]))} in the synthetic data."
        ),
        caption=f"{whole}; moved by {percent(found.moved)}",
    )


def budget(spent: facts.Spending) -> Picture | None:
    """The budget used up, look by look, for choosing and for measuring; None for a single look."""
    looks = len(next(iter(spent.running.values()), ()))
    if looks < 2:
        return None
    names = [name for name in ("measuring", "choosing", "other") if name in spent.running]
    steps = np.arange(looks + 1)
    heights = [100 * np.append(0, spent.running[name]) / spent.limit for name in names]

    def paint(figure: Any, axes: Any) -> None:
        styles = {"measuring": (BLUE, ""), "choosing": ("#f2c9a6", "////"), "other": ("#bbbbbb", "...")}
        base = np.zeros(looks + 1)
        for name, height in zip(names, heights, strict=True):
            colour, hatch = styles[name]
            axes.fill_between(steps, base, base + height, step="post" if looks <= MARKED else None,
                              facecolor=colour, hatch=hatch, edgecolor=INK, lw=0.4, label=name)  # fmt: skip
            base = base + height
        axes.axhline(100, color=INK, lw=1, ls="--")
        axes.set_xlim(0, looks)
        axes.set_ylim(0, 108)
        axes.set_xlabel("looks at the private table, in order")
        axes.set_ylabel("% of the budget spent")
        axes.xaxis.get_major_locator().set_params(integer=True)
        _legend(figure, axes)

    shares = ", ".join(
        f"{percent(float(height[-1]) / 100)} for {name}" for name, height in zip(names, heights, strict=True)
    )
    return draw(
        "budget",
        paint,
        height=3.0,
        title="The privacy budget, look by look",
        alt=f"Stacked areas over {plural(looks, 'look')} at the private table. At the end, of the budget: "
        f"{shares}.",
        caption=(
            f"How much of the budget was spent after each look, counted in {spent.unit}; the dashed line is "
            "the whole. What is spent on choosing decides what to measure; what is spent on measuring buys "
            "less noise."
        ),
    )


def weights(found: facts.Weights) -> Picture:
    """By how much the weights of rows changed, on a logarithmic scale."""
    kept = (found.after > 0) & (found.before > 0)
    ratios = np.log2(found.after[kept] / found.before[kept])
    edges = np.arange(-8.25, 8.5, 0.5)
    heights = np.histogram(np.clip(ratios, -8, 8), edges)[0] / len(found.after)
    empty = found.empty / len(found.after)
    middle = float(np.median(ratios)) if len(ratios) else 0.0

    def paint(figure: Any, axes: Any) -> None:
        axes.bar((edges[1:] + edges[:-1]) / 2, 100 * heights, width=0.44, color=BLUE)
        if found.empty:
            axes.bar([-9.5], [100 * empty], width=0.44, color="#f2c9a6", hatch="////", edgecolor=INK, lw=0.4)
        axes.axvline(0, color=INK, lw=0.8, ls="--")
        ticks = {-8: "1/256", -4: "1/16", 0: "1", 4: "16", 8: "256"}
        if found.empty:
            ticks = {-9.5: "none", -6: "1/64", **{k: ticks[k] for k in (-4, 0, 4, 8)}}
            ticks.pop(-6)
        axes.set_xticks(list(ticks), list(ticks.values()))
        axes.set_xlabel("weight after, times the weight before")
        axes.set_ylabel("% of rows")
        axes.grid(axis="x", visible=False)

    return draw(
        "weights",
        paint,
        height=2.8,
        title="Weights of the public rows, after against before",
        alt=(
            f"A histogram of {plural(len(found.after), 'row')}. Half of those that keep weight have at least "
            f"{2**middle:.3g} times their public weight; {plural(found.empty, 'row')} got no weight at all. "
            f"The weights are as concentrated as on {quantity(found.effective_before)} equal rows before and "
            f"{quantity(found.effective_after)} after."
        ),
        caption=(
            f"Rows right of the line became more common than in the public data, rows left of it rarer. "
            f"{percent(found.moved)} of the weight moved to other rows. Effective number of rows: "
            f"{quantity(found.effective_before)} before, {quantity(found.effective_after)} after; "
            f"{plural(found.empty, 'row')} without weight."
        ),
    )


def truth(evaluation: Evaluation) -> Picture:
    """True answers against released ones, for the worst cells and for typical ones. Not private."""

    def points(cells: Sequence[Cell]) -> tuple[Float64s, Float64s]:
        return np.array([cell.true for cell in cells]), np.array([cell.released for cell in cells])

    typical, worst = points(evaluation.typical), points(evaluation.largest)

    def paint(figure: Any, axes: Any) -> None:
        top = _square_root_axes(axes, np.append(typical[0], worst[0]), np.append(typical[1], worst[1]))
        line = _spread(0, top)
        axes.plot(100 * line, 100 * line, color=INK, lw=0.8)
        axes.plot(100 * typical[0], 100 * typical[1], ls="", marker="o", markersize=3.4, mfc="none", mec=BLUE,
                  mew=0.8, label="typical cells", clip_on=False)  # fmt: skip
        axes.plot(100 * worst[0], 100 * worst[1], ls="", marker="D", markersize=4.6, mfc=ORANGE, mec=INK,
                  mew=0.5, label="cells with the largest errors", clip_on=False)  # fmt: skip
        axes.set_xlabel("true answer, % of records")
        axes.set_ylabel("released answer, % of records")
        _legend(figure, axes)

    return draw(
        "truth",
        paint,
        height=4.3,
        title="Released answers against true ones",
        alt=(
            f"NOT PRIVATE. A scatter plot of the {plural(len(evaluation.largest), 'cell')} with the largest "
            f"errors and {plural(len(evaluation.typical), 'typical cell')}. The largest error is "
            f"{percent(evaluation.max_error, up=True)} of the records: {percent(evaluation.worst.true)} in "
            f"truth, {percent(evaluation.worst.released)} released. The mean error is "
            f"{percent(evaluation.mean_error, up=True)}."
        ),
        caption=(
            "Contains true answers of the private table. On the line a released answer is exactly right. "
            "Typical cells are taken at even steps through all errors above zero. Square-root scale."
        ),
        true=True,
    )


GREY = "#d5dde3"


def _legend(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2, columnspacing=1.2, handletextpad=0.5)


def _root(values: Any) -> Any:
    return np.sign(values) * np.sqrt(np.abs(values))


def _square(values: Any) -> Any:
    return np.sign(values) * np.square(values)


def _square_root_axes(axes: Any, x: Float64s, y: Float64s) -> float:
    """Both axes alike, from the least to the largest value; returns the top, as a fraction."""
    top = max(float(x.max(initial=0)), float(y.max(initial=0)), 1e-6) * 1.08
    low = min(float(x.min(initial=0)), float(y.min(initial=0)), 0.0) * 1.08
    step = 10.0 ** math.floor(math.log10(top))
    ticks = [0, 0.05, 0.2, 0.5, 1, 2, 5] if top / step >= 2 else [0, 0.02, 0.1, 0.25, 0.5, 1]
    marks = [100 * step * tick for tick in ticks if step * tick <= top]
    for axis, set_scale, set_limits in (
        (axes.xaxis, axes.set_xscale, axes.set_xlim),
        (axes.yaxis, axes.set_yscale, axes.set_ylim),
    ):
        set_scale("function", functions=(_root, _square))
        axis.set_ticks(marks, [f"{mark:g}" for mark in marks])
        axis.set_ticks([], minor=True)
        set_limits(100 * low, 100 * top)
    return top


def _spread(low: float, top: float) -> Float64s:
    """Values from low to top, dense near 0, where the square root is steep."""
    roots: Float64s = _square(np.linspace(_root(low), math.sqrt(top), 160))
    return roots


def _some(values: Float64s, distance: Float64s) -> Int64s:
    """At most MOST_POINTS places: a sixth of them the farthest out, the others at even steps of the values."""
    if len(values) <= MOST_POINTS:
        return np.arange(len(values))
    far = MOST_POINTS // 6
    farthest = np.argpartition(distance, len(distance) - far)[-far:]
    steps = np.linspace(0, len(values) - 1, MOST_POINTS - far).astype(np.int64)
    # Half of the steps by rank, where most cells are, half by size, where they are large.
    order = np.argsort(values, kind="stable")
    sizes = np.searchsorted(values[order], _square(np.linspace(0, math.sqrt(values.max()), len(steps) // 2)))
    even = np.concatenate([order[steps[::2]], order[np.minimum(sizes, len(values) - 1)]])
    return np.unique(np.concatenate([farthest, even]))


def _said(shown: int, count: int, what: str, which: str) -> str:
    return "" if shown == count else f" Of {count:,} {what}, {shown:,} are shown: {which}."
