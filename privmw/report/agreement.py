"""Pictures of the agreement between answers and measured noisy answers (privmw.release.agreement).

The reports of releases and of fits both show them. A release's answers are fractions of the records, a fit's
are counts. The pictures have a square-root scale, so that small cells are visible beside large ones. If there
are too many points, a fixed subset is shown, and the caption says how many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmw.release import Agreement
from privmw.release.chance import density
from privmw.report.formats import number, percent, plural
from privmw.report.svg import (
    BAND,
    BLUE,
    INK,
    ORANGE,
    Picture,
    Words,
    draw,
    legend,
    square_root_axes,
    thin_out,
)

LARGEST_DEVIATION_SHOWN = 4  # deviations: larger gaps are counted at this one


@dataclass(frozen=True)
class Wording:
    """The words for answers: what they are, where they come from, their unit.

    factor: how many of that unit an answer of 1 is; amount: an answer with its unit, in words.
    """

    answer: str
    whose: str
    unit: str
    factor: float
    amount: Callable[[float], str]


RELEASED = Wording(
    "released",
    "release",
    "% of records",
    100,
    lambda fraction: f"{percent(fraction, up=True)} of the records",
)
FITTED = Wording("fitted", "fit", "records", 1, lambda count: f"{number(count)} records")


def against_noisy(agreement: Agreement, wording: Wording = RELEASED) -> Picture:
    """Plot answers against noisy counts, with a band of the noise around the diagonal."""
    shown = thin_out(agreement.noisy, np.abs(agreement.z))
    noisy, fitted = agreement.noisy[shown], agreement.fitted[shown]
    deviation = float(np.median(agreement.deviations))
    cells = plural(len(agreement.cells), "measured cell")
    note = (
        " The noise differs from cell to cell; the band is the median's."
        if np.ptp(agreement.deviations)
        else ""
    )
    if len(shown) < len(agreement.cells):
        note += f" Of {cells}, {len(shown):,} are shown: those farthest out, and even steps through the rest."

    def paint(figure: Any, axes: Any) -> None:
        factor = wording.factor
        line = square_root_axes(axes, factor * noisy, factor * fitted)
        band = {"color": BAND, "lw": 0, "label": "two standard deviations of the noise"}
        axes.fill_between(line, line - 2 * factor * deviation, line + 2 * factor * deviation, **band)
        axes.plot(line, line, color=INK, lw=0.8)
        dot = {"marker": "o", "ls": "", "mfc": BLUE, "mec": "white", "mew": 0.3, "markersize": 3.2}
        axes.plot(factor * noisy, factor * fitted, **dot, label="a cell", clip_on=False)
        axes.set_xlabel(f"noisy count, {wording.unit}")
        axes.set_ylabel(f"{wording.answer} answer, {wording.unit}")
        legend(figure, axes)

    least, most = (wording.amount(float(end)) for end in (agreement.noisy.min(), agreement.noisy.max()))
    words = Words(
        "fit",
        title=f"{wording.answer.title()} answers against noisy counts",
        alt=(
            f"A scatter plot of {cells}; noisy counts from {least} to {most}. "
            f"{percent(agreement.within[1])} of the cells lie within two standard deviations of the noise "
            f"around the diagonal; the largest gap is {wording.amount(agreement.largest_gap)}."
        ),
        caption=(
            f"Each point is a cell that was measured. On the line, the {wording.answer} answer equals the "
            f"noisy count; inside the band they differ by what noise explains. Square-root scale.{note}"
        ),
    )
    return draw(words, paint, height=4.0)


def gaps(agreement: Agreement, wording: Wording = RELEASED) -> Picture:
    """Plot how far answers are from noisy ones, in deviations of the noise."""
    edges = np.linspace(-LARGEST_DEVIATION_SHOWN, LARGEST_DEVIATION_SHOWN, 33)
    heights = np.histogram(np.clip(agreement.z, -LARGEST_DEVIATION_SHOWN, LARGEST_DEVIATION_SHOWN), edges)[
        0
    ] / len(agreement.z)
    middles = (edges[1:] + edges[:-1]) / 2
    noise = density(middles, agreement.heavy_tailed) * (edges[1] - edges[0])

    def paint(figure: Any, axes: Any) -> None:
        axes.bar(middles, 100 * heights, width=0.22, color=BLUE, label=f"this {wording.whose}")
        axes.plot(middles, 100 * noise, color=ORANGE, lw=1.8, ls="--", label="noise alone")
        axes.set_xlabel(f"{wording.answer} minus noisy, in standard deviations")
        axes.set_ylabel("% of measured cells")
        inner = [
            f"{k}".replace("-", "−") for k in range(1 - LARGEST_DEVIATION_SHOWN, LARGEST_DEVIATION_SHOWN)
        ]
        axes.set_xticks(
            range(-LARGEST_DEVIATION_SHOWN, LARGEST_DEVIATION_SHOWN + 1),
            [f"≤ −{LARGEST_DEVIATION_SHOWN}", *inner, f"≥ {LARGEST_DEVIATION_SHOWN}"],
        )
        axes.grid(axis="x", visible=False)
        legend(figure, axes)

    within, expected = (
        [percent(share) for share in shares] for shares in (agreement.within, agreement.expected)
    )
    words = Words(
        "gaps",
        title="Gaps in units of the noise",
        alt=(
            f"A histogram of {plural(len(agreement.z), 'measured cell')}. {within[0]} lie within one "
            f"standard deviation of the noise, {within[1]} within two, {within[2]} within three; noise "
            f"alone would give {expected[0]}, {expected[1]} and {expected[2]}."
        ),
        caption=(
            f"Narrower than the dashed line: the {wording.whose} follows the noisy counts closely. Wider, or "
            "heaped at the ends: it did not reach what was measured."
        ),
    )
    return draw(words, paint, height=2.9)
