"""The page of a fit: figures and pictures, put together for the template fit.html.j2.

A fit rests on released answers and public rows. The report compares it with ordinary least squares to the
same answers, which it computes itself.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from privmw.extensions.postprocess import Fit
from privmw.extensions.postprocess.report import facts, pictures
from privmw.io.whole_file import whole_file
from privmw.report.agreement import FITTED, against_noisy, gaps
from privmw.report.page import check_installed, make_page
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
        drawn.append(pictures.changes(cost))
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
