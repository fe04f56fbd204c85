"""Pictures of answers against answers: released against noisy and, where somebody evaluated, against true.

Axes are on a square-root scale, so that small cells can be seen beside large ones. Where there are too many
points, some are shown: always the same ones, and the caption says how many. A release's answers are shares
of the records, a fit's are counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.evaluation.true_errors import Cell, Evaluation
from privmw.report import facts
from privmw.report.svg import BAND, BLUE, INK, ORANGE, Picture, draw, legend
from privmw.report.words import number, percent, plural

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

MOST_POINTS = 1_200
WIDEST = 4  # deviations: gaps that are wider stand with those


@dataclass(frozen=True)
class Said:
    """How answers are told: what they are, their unit, how many of it one is, and an amount in words."""

    answer: str
    whose: str
    unit: str
    factor: float
    amount: Callable[[float], str]


RELEASED = Said(
    "released",
    "release",
    "% of records",
    100,
    lambda fraction: f"{percent(fraction, up=True)} of the records",
)
FITTED = Said("fitted", "fit", "records", 1, lambda count: f"{number(count)} records")


def against_noisy(fit: facts.Fit, said: Said = RELEASED) -> Picture:
    """Released answers against noisy counts, with the noise around the diagonal."""
    shown = _some(fit.noisy, np.abs(fit.z))
    noisy, fitted = fit.noisy[shown], fit.fitted[shown]
    deviation = float(np.median(fit.deviations))
    cells = plural(len(fit.cells), "measured cell")
    some = " The noise differs from cell to cell; the band is the median's." if np.ptp(fit.deviations) else ""
    if len(shown) < len(fit.cells):
        some += f" Of {cells}, {len(shown):,} are shown: those farthest out, and even steps through the rest."

    def paint(figure: Any, axes: Any) -> None:
        factor = said.factor
        line = _square_root_axes(axes, factor * noisy, factor * fitted)
        band = {"color": BAND, "lw": 0, "label": "two standard deviations of the noise"}
        axes.fill_between(line, line - 2 * factor * deviation, line + 2 * factor * deviation, **band)
        axes.plot(line, line, color=INK, lw=0.8)
        dot = {"marker": "o", "ls": "", "mfc": BLUE, "mec": "white", "mew": 0.3, "markersize": 3.2}
        axes.plot(factor * noisy, factor * fitted, **dot, label="a cell", clip_on=False)
        axes.set_xlabel(f"noisy count, {said.unit}")
        axes.set_ylabel(f"{said.answer} answer, {said.unit}")
        legend(figure, axes)

    least, most = (said.amount(float(end)) for end in (fit.noisy.min(), fit.noisy.max()))
    return draw(
        "fit",
        paint,
        height=4.0,
        title=f"{said.answer.title()} answers against noisy counts",
        alt=(
            f"A scatter plot of {cells}; noisy counts from {least} to {most}. {percent(fit.within[1])} of "
            f"the cells lie within two standard deviations of the noise around the diagonal; the largest gap "
            f"is {said.amount(fit.largest_gap)}."
        ),
        caption=(
            f"Each point is a cell that was measured. On the line, the {said.answer} answer equals the noisy "
            f"count; inside the band they differ by what noise explains. Square-root scale.{some}"
        ),
    )


def gaps(fit: facts.Fit, said: Said = RELEASED) -> Picture:
    """How far released answers are from noisy ones, in deviations of the noise."""
    edges = np.linspace(-WIDEST, WIDEST, 33)
    heights = np.histogram(np.clip(fit.z, -WIDEST, WIDEST), edges)[0] / len(fit.z)
    middles = (edges[1:] + edges[:-1]) / 2
    gaussian = np.exp(-(middles**2) / 2) / math.sqrt(2 * math.pi)
    laplace = np.exp(-math.sqrt(2) * np.abs(middles)) / math.sqrt(2)
    noise = (fit.laplace * laplace + (1 - fit.laplace) * gaussian) * (edges[1] - edges[0])

    def paint(figure: Any, axes: Any) -> None:
        axes.bar(middles, 100 * heights, width=0.22, color=BLUE, label=f"this {said.whose}")
        axes.plot(middles, 100 * noise, color=ORANGE, lw=1.8, ls="--", label="noise alone")
        axes.set_xlabel(f"{said.answer} minus noisy, in standard deviations")
        axes.set_ylabel("% of measured cells")
        inner = [f"{k}".replace("-", "−") for k in range(1 - WIDEST, WIDEST)]
        axes.set_xticks(range(-WIDEST, WIDEST + 1), [f"≤ −{WIDEST}", *inner, f"≥ {WIDEST}"])
        axes.grid(axis="x", visible=False)
        legend(figure, axes)

    within, expected = ([percent(share) for share in shares] for shares in (fit.within, fit.expected))
    return draw(
        "gaps",
        paint,
        height=2.9,
        title="Gaps in units of the noise",
        alt=(
            f"A histogram of {plural(len(fit.z), 'measured cell')}. {within[0]} lie within one standard "
            f"deviation of the noise, {within[1]} within two, {within[2]} within three; noise alone would "
            f"give {expected[0]}, {expected[1]} and {expected[2]}."
        ),
        caption=(
            f"Narrower than the dashed line: the {said.whose} follows the noisy counts closely. Wider, or "
            "heaped at the ends: it did not reach what was measured."
        ),
    )


def changes(free: Float64s, moved: Float64s) -> Picture:
    """How far each answer of a fit is from that without constraint, in deviations of the noise."""
    shown = _some(free, np.abs(moved))
    up, down = float(moved.max()), float(moved.min())
    share = percent(float((moved > 0).mean()))
    cells = plural(len(free), "measured cell")
    some = f" Of {cells}, {len(shown):,} are shown." if len(shown) < len(free) else ""

    def paint(figure: Any, axes: Any) -> None:
        _square_root_axis(axes.xaxis, axes.set_xscale, axes.set_xlim, free[shown])
        axes.axhline(0, color=INK, lw=0.8)
        dot = {"marker": "o", "ls": "", "mfc": ORANGE, "mec": "white", "mew": 0.3, "markersize": 3.2}
        axes.plot(free[shown], moved[shown], **dot, clip_on=False)
        axes.set_xlabel("answer by ordinary least squares, records")
        axes.set_ylabel("fitted minus that, in standard deviations")

    return draw(
        "changes",
        paint,
        height=3.4,
        title="What non-negativity changed",
        alt=(
            f"A scatter plot of {cells}. The fit answers up to {number(up)} standard deviations more than "
            f"ordinary least squares, and up to {number(max(-down, 0.0))} less; {share} of the answers rise."
        ),
        caption=(
            "Each point is a cell that was measured. On the line the fit answers as ordinary least squares "
            f"do, which know no constraint. Square-root scale.{some}"
        ),
    )


def against_true(evaluation: Evaluation) -> Picture:
    """Released answers against true ones, for the worst cells and for typical ones. Not private."""

    def points(cells: Sequence[Cell]) -> tuple[Float64s, Float64s]:
        return np.array([cell.true for cell in cells]), np.array([cell.released for cell in cells])

    typical, worst = points(evaluation.typical), points(evaluation.largest)

    def paint(figure: Any, axes: Any) -> None:
        line = _square_root_axes(axes, *(100 * np.concatenate([typical, worst], axis=1)))
        ring = {"marker": "o", "ls": "", "mfc": "none", "mec": BLUE, "mew": 0.8, "markersize": 3.6}
        diamond = {"marker": "D", "ls": "", "mfc": ORANGE, "mec": INK, "mew": 0.5, "markersize": 4.8}
        axes.plot(line, line, color=INK, lw=0.8)
        axes.plot(100 * typical[0], 100 * typical[1], **ring, label="typical cells", clip_on=False)
        axes.plot(100 * worst[0], 100 * worst[1], **diamond, label="largest errors", clip_on=False)
        axes.set_xlabel("true answer, % of records")
        axes.set_ylabel("released answer, % of records")
        legend(figure, axes)

    return draw(
        "truth",
        paint,
        height=4.0,
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


def _root(values: Any) -> Any:
    return np.sign(values) * np.sqrt(np.abs(values))


def _square(values: Any) -> Any:
    return np.sign(values) * np.square(values)


def _square_root_axes(axes: Any, x: Float64s, y: Float64s) -> Float64s:
    """Both axes alike; returns numbers from their low end to their top, dense where the root is steep."""
    both = np.concatenate([x, y])
    _square_root_axis(axes.xaxis, axes.set_xscale, axes.set_xlim, both)
    low, top = _square_root_axis(axes.yaxis, axes.set_yscale, axes.set_ylim, both)
    line: Float64s = _square(np.linspace(_root(low), _root(top), 160))
    return line


def _square_root_axis(axis: Any, scale: Any, limits: Any, values: Float64s) -> tuple[float, float]:
    """Ticks that lie well apart; returns the ends."""
    top = 1.08 * max(float(values.max()), 1e-4)
    low = 1.08 * min(float(values.min()), 0.0)
    step = 10.0 ** math.floor(math.log10(top))
    parts = [0, 0.05, 0.2, 0.5, 1, 2, 5] if top / step >= 2 else [0, 0.02, 0.1, 0.25, 0.5, 1]
    marks = [step * part for part in parts if step * part <= top]
    scale("function", functions=(_root, _square))
    axis.set_ticks(marks, [_mark(mark) for mark in marks])
    axis.set_ticks([], minor=True)
    limits(low, top)
    return low, top


def _mark(value: float) -> str:
    return f"{value / 1e6:g} m" if value >= 1e6 else f"{value:,.6g}"


def _some(values: Float64s, distances: Float64s) -> Int64s:
    """At most MOST_POINTS places: the farthest out, and even steps through the values."""
    if len(values) <= MOST_POINTS:
        return np.arange(len(values))
    third = MOST_POINTS // 3
    farthest = np.argpartition(distances, len(distances) - third // 2)[-third // 2 :]
    order = np.argsort(values, kind="stable")
    # Steps by rank are where most cells are; steps by size also where there are few, and large.
    by_rank = np.linspace(0, len(values) - 1, third).astype(np.int64)
    sizes = _square(np.linspace(0, _root(max(float(values.max()), 0.0)), third))
    by_size = np.minimum(np.searchsorted(values, sizes, sorter=order), len(values) - 1)
    return np.unique(np.concatenate([farthest, order[by_rank], order[by_size]]))
