"""The report of a fit: noisy against fitted answers and what the constraint cost, as one HTML file.

It receives a fit, which rests on released answers and public rows; what it compares with, ordinary least
squares to the same answers, it fits itself.
"""

from __future__ import annotations

import os
from typing import Any

from privmw.io.whole_file import whole_file
from privmw.postprocess import Fit
from privmw.report import answer_pictures, fit_facts
from privmw.report.page import load, make_page

MOST_MARGINALS = 40
MOST_CELLS = 10
MOST_STAGES = 60


def write_fit_report(
    path: str | os.PathLike[str], fit: Fit, *, for_release: bool = True, overwrite: bool = False
) -> None:
    """Write the report of a fit to one HTML file, whole or not at all; see `render_fit`.

    >>> import tempfile
    >>> from privmw import Domain
    >>> from privmw.postprocess import NoisyMarginal, NoisyMarginals, reweight
    >>> histogram = NoisyMarginal(("age",), [90.0, 4.0, -2.0], noise="laplace", scale=2.0)
    >>> fit = reweight(NoisyMarginals(Domain({"age": 3}), [histogram]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_fit_report(os.path.join(folder, "report.html"), fit)
    ...     os.listdir(folder)
    ['report.html']
    """
    page = render_fit(fit, for_release=for_release).encode()
    with whole_file(path, overwrite=overwrite) as file:
        file.write(page)


def render_fit(fit: Fit, *, for_release: bool = True) -> str:
    """The report of a fit as HTML text; for_release=False says on top that the noise was seeded."""
    if not isinstance(fit, Fit):
        raise TypeError(f"fit ({type(fit).__name__}) must be a Fit")
    load()
    agreement = fit_facts.agreement(fit)
    cost = fit_facts.cost(fit) if fit.certificate.method != "ols" else None
    unreached, worst = fit_facts.unreached(fit, MOST_CELLS)
    pictures: list[Any] = [
        answer_pictures.against_noisy(agreement, answer_pictures.FITTED),
        answer_pictures.gaps(agreement, answer_pictures.FITTED),
    ]
    if cost is not None:
        pictures.append(answer_pictures.changes(cost.free, cost.changes))
    return make_page(
        "fit.html.j2",
        fit=fit,
        certificate=fit.certificate,
        for_release=for_release,
        method=fit_facts.METHODS[fit.certificate.method],
        words=fit_facts.certificate_in_words(fit),
        agreement=agreement,
        farthest=fit_facts.name_of(fit, int(agreement.cells[agreement.farthest])),
        cost=cost,
        marginals=fit_facts.marginals(fit, MOST_MARGINALS),
        more_marginals=len(fit.measured) - MOST_MARGINALS,
        stages=fit.certificate.stages[:MOST_STAGES],
        more_stages=len(fit.certificate.stages) - MOST_STAGES,
        unreached=unreached,
        worst=worst,
        pictures=pictures,
    )
