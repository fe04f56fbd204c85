"""Pictures of answers against answers: released against noisy and, where somebody evaluated, against true.

Axes are on a square-root scale, so that small cells can be seen beside large ones. Where there are too many
points, some are shown: always the same ones, and the caption says how many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.report import facts
from privmw.report.svg import BAND, BLUE, INK, ORANGE, Picture, draw, legend
from privmw.report.words import percent, plural
from privmw.true_errors import Cell, Evaluation

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

MOST_POINTS = 1_200
WIDEST = 4  # deviations: gaps that are wider stand with those


def against_noisy(fit: facts.Fit) -> Picture:
    """Released answers against noisy counts, with the noise around the diagonal."""
    shown = _some(fit.noisy, np.abs(fit.z))
    noisy, fitted = fit.noisy[shown], fit.fitted[shown]
    deviation = float(np.median(fit.deviations))
    cells = plural(len(fit.cells), "measured cell")
    some = ""
    if len(shown) < len(fit.cells):
        some = f" Of {cells}, {len(shown):,} are shown: those farthest out, and even steps through the rest."

    def paint(figure: Any, axes: Any) -> None:
        line = _square_root_axes(axes, noisy, fitted)
        band = {"color": BAND, "lw": 0, "label": "two standard deviations of the noise"}
        axes.fill_between(100 * line, 100 * (line - 2 * deviation), 100 * (line + 2 * deviation), **band)
        axes.plot(100 * line, 100 * line, color=INK, lw=0.8)
        dot = {"marker": "o", "ls": "", "mfc": BLUE, "mec": "white", "mew": 0.3, "markersize": 3.2}
        axes.plot(100 * noisy, 100 * fitted, **dot, label="a cell", clip_on=False)
        axes.set_xlabel("noisy count, % of records")
        axes.set_ylabel("released answer, % of records")
        legend(figure, axes)

    return draw(
        "fit",
        paint,
        height=4.0,
        title="Released answers against noisy counts",
        alt=(
            f"A scatter plot of {cells}; noisy counts from {percent(fit.noisy.min())} to "
            f"{percent(fit.noisy.max())} of the records. {percent(fit.within[1])} of the cells lie within "
            f"two standard deviations of the noise around the diagonal; the largest gap is "
            f"{percent(fit.largest_gap, up=True)} of the records."
        ),
        caption=(
            "Each point is a cell that was measured. On the line, the released answer equals the noisy "
            f"count; inside the band they differ by what noise explains. Square-root scale.{some}"
        ),
    )


def gaps(fit: facts.Fit) -> Picture:
    """How far released answers are from noisy ones, in deviations of the noise."""
    edges = np.linspace(-WIDEST, WIDEST, 33)
    heights = np.histogram(np.clip(fit.z, -WIDEST, WIDEST), edges)[0] / len(fit.z)
    middles = (edges[1:] + edges[:-1]) / 2
    gaussian = np.exp(-(middles**2) / 2) / math.sqrt(2 * math.pi)
    laplace = np.exp(-math.sqrt(2) * np.abs(middles)) / math.sqrt(2)
    noise = (fit.laplace * laplace + (1 - fit.laplace) * gaussian) * (edges[1] - edges[0])

    def paint(figure: Any, axes: Any) -> None:
        axes.bar(middles, 100 * heights, width=0.22, color=BLUE, label="this release")
        axes.plot(middles, 100 * noise, color=ORANGE, lw=1.8, ls="--", label="noise alone")
        axes.set_xlabel("released minus noisy, in standard deviations")
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
            "Narrower than the dashed line: the release follows the noisy counts closely. Wider, or heaped "
            "at the ends: it did not reach what was measured."
        ),
    )


def against_true(evaluation: Evaluation) -> Picture:
    """Released answers against true ones, for the worst cells and for typical ones. Not private."""

    def points(cells: Sequence[Cell]) -> tuple[Float64s, Float64s]:
        return np.array([cell.true for cell in cells]), np.array([cell.released for cell in cells])

    typical, worst = points(evaluation.typical), points(evaluation.largest)

    def paint(figure: Any, axes: Any) -> None:
        line = _square_root_axes(axes, *np.concatenate([typical, worst], axis=1))
        ring = {"marker": "o", "ls": "", "mfc": "none", "mec": BLUE, "mew": 0.8, "markersize": 3.6}
        diamond = {"marker": "D", "ls": "", "mfc": ORANGE, "mec": INK, "mew": 0.5, "markersize": 4.8}
        axes.plot(100 * line, 100 * line, color=INK, lw=0.8)
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
    """Both axes alike; returns fractions from their low end to their top, dense where the root is steep."""
    top = 1.08 * max(float(np.max([x, y])), 1e-6)
    low = 1.08 * min(float(np.min([x, y])), 0.0)
    step = 10.0 ** math.floor(math.log10(top))
    parts = [0, 0.05, 0.2, 0.5, 1, 2, 5] if top / step >= 2 else [0, 0.02, 0.1, 0.25, 0.5, 1]
    marks = [100 * step * part for part in parts if step * part <= top]
    for axis, scale, limits in (
        (axes.xaxis, axes.set_xscale, axes.set_xlim),
        (axes.yaxis, axes.set_yscale, axes.set_ylim),
    ):
        scale("function", functions=(_root, _square))
        axis.set_ticks(marks, [f"{mark:g}" for mark in marks])
        axis.set_ticks([], minor=True)
        limits(100 * low, 100 * top)
    line: Float64s = _square(np.linspace(_root(low), _root(top), 160))
    return line


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
