"""Pictures of a fit, beside those of its agreement with the noisy answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from privmw.extensions.postprocess.report.facts import ChangeFromOLS
from privmw.report.formats import number, percent, plural
from privmw.report.svg import INK, ORANGE, Picture, Words, draw, square_root_axis, thin_out


def changes(cost: ChangeFromOLS) -> Picture:
    """Plot how far each answer of a fit is from that of ordinary least squares, in units of the noise."""
    free, moved = cost.free, cost.changes
    shown = thin_out(free, np.abs(moved))
    up, down = float(moved.max()), float(moved.min())
    share = percent(float((moved > 0).mean()))
    cells = plural(len(free), "measured cell")
    note = f" Of {cells}, {len(shown):,} are shown." if len(shown) < len(free) else ""

    def paint(figure: Any, axes: Any) -> None:
        square_root_axis(axes.xaxis, axes.set_xscale, axes.set_xlim, free[shown])
        axes.axhline(0, color=INK, lw=0.8)
        dot = {"marker": "o", "ls": "", "mfc": ORANGE, "mec": "white", "mew": 0.3, "markersize": 3.2}
        axes.plot(free[shown], moved[shown], **dot, clip_on=False)
        axes.set_xlabel("answer by ordinary least squares, records")
        axes.set_ylabel("fitted minus that, in standard deviations")

    words = Words(
        "changes",
        title="What non-negativity changed",
        alt=(
            f"A scatter plot of {cells}. The fit answers up to {number(up)} standard deviations more than "
            f"ordinary least squares, and up to {number(max(-down, 0.0))} less; {share} of the answers rise."
        ),
        caption=(
            "Each point is a cell that was measured. On the line the fit answers as ordinary least squares "
            f"do, which know no constraint. Square-root scale.{note}"
        ),
    )
    return draw(words, paint, height=3.4)
