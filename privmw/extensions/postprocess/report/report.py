"""The page of a fit: figures and pictures, put together for the template fit.html.j2.

A fit rests on released answers and public rows. The report compares it with ordinary least squares to the
same answers, which it computes itself.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import numpy as np

from privmw.extensions.postprocess import Fit
from privmw.extensions.postprocess.report import facts
from privmw.extensions.postprocess.report.facts import ChangeFromOLS
from privmw.io.whole_file import whole_file
from privmw.report.agreement import FITTED, against_noisy, gaps
from privmw.report.formats import number, percent, plural
from privmw.report.page import check_installed, make_page
from privmw.report.svg import INK, ORANGE, Picture, Words, draw, square_root_axis, thin_out
from privmw.secrecy import expect

MARGINALS_SHOWN = 40
UNREACHED_CELLS_SHOWN = 10
MOST_STAGES = 60


def write_fit_report(
    path: str | os.PathLike[str],
    fit: Fit,
    *,
    for_release: bool = True,
    title: str | None = None,
    files: Collection[str] = (),
    overwrite: bool = False,
) -> None:
    """Write the report of a fit to one HTML file, whole or not at all; see `render_fit`.

    >>> import tempfile
    >>> from privmw import Domain
    >>> from privmw.extensions.postprocess import NoisyMarginal, NoisyMarginals, reweight
    >>> histogram = NoisyMarginal(("age",), [90.0, 4.0, -2.0], noise="laplace", scale=2.0)
    >>> fit = reweight(NoisyMarginals([histogram], Domain({"age": 3})))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_fit_report(os.path.join(folder, "report.html"), fit)
    ...     os.listdir(folder)
    ['report.html']
    """
    page = render_fit(fit, for_release=for_release, title=title, files=files).encode()
    with whole_file(path, overwrite=overwrite) as file:
        file.write(page)


def render_fit(
    fit: Fit,
    *,
    for_release: bool = True,
    title: str | None = None,
    files: Collection[str] = (),
) -> str:
    """Return the report of a fit as HTML text; for_release=False marks it as made from seeded noise.

    title: the heading of the page. files: names of files beside the report, to which it links.
    """
    expect("fit", fit, Fit, "a Fit")
    check_installed()
    agreement = facts.agreement(fit)
    cost = facts.change_from_ols(fit) if fit.certificate.method != "ols" else None
    unreached, worst = facts.unreached(fit, UNREACHED_CELLS_SHOWN)
    drawn = [against_noisy(agreement, FITTED), gaps(agreement, FITTED)]
    if cost is not None:
        drawn.append(changes(cost))
    return make_page(
        "extensions/postprocess/report/fit.html.j2",
        fit=fit,
        certificate=fit.certificate,
        for_release=for_release,
        title=title or "Report of a fit to noisy answers",
        files=files,
        method=facts.METHOD_DESCRIPTIONS[fit.certificate.method],
        words=facts.certificate_in_words(fit),
        agreement=agreement,
        farthest=facts.name_of(fit, int(agreement.cells[agreement.farthest])),
        cost=cost,
        marginals=facts.marginal_gaps(fit, MARGINALS_SHOWN),
        more_marginals=len(fit.measured) - MARGINALS_SHOWN,
        stages=fit.certificate.stages[:MOST_STAGES],
        more_stages=len(fit.certificate.stages) - MOST_STAGES,
        unreached=unreached,
        worst=worst,
        pictures=drawn,
    )


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
