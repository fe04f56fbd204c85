"""The report: what a release promises, holds and shows, as one HTML file that needs nothing else.

words, promise, facts -> svg -> answer_pictures, run_pictures -> page (page.html.j2, style.css), put together
here; fit_facts, answer_pictures -> fit_report (fit.html.j2), that of a fit. It receives a release and, if
somebody evaluated it, true errors; it never sees a table, and nothing is drawn at random: the same release
gives the same bytes. matplotlib and jinja2 are loaded when a report is made.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from privmw.accounting.statement import show
from privmw.data.domain import Domain
from privmw.data.workload import Workload
from privmw.evaluation.true_errors import Cell, Evaluation
from privmw.io.whole_file import whole_file
from privmw.release import Release
from privmw.report import answer_pictures, facts, run_pictures, words
from privmw.report.fit_facts import certificate_in_words
from privmw.report.fit_report import render_fit, write_fit_report
from privmw.report.page import load, make_page
from privmw.report.promise import promise

__all__ = ["certificate_in_words", "render", "render_fit", "write_fit_report", "write_report"]

MOST_ATTRIBUTES = 12
MOST_ROUNDS = 60  # in the table of rounds
MOST_NOISES = 8


def write_report(
    path: str | os.PathLike[str],
    release: Release,
    *,
    evaluation: Evaluation | None = None,
    overwrite: bool = False,
) -> None:
    """Write the report of a release to one HTML file, whole or not at all; see `render`.

    >>> import tempfile
    >>> from privmw import Domain, Support, Table, release_pep
    >>> domain = Domain({"age": 3, "sex": ["F", "M"]})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> support, workload = Support.full(domain), Workload.all(domain, k=2)
    >>> release = release_pep(private, support, workload, epsilon=1.0, select="all")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(os.path.join(folder, "report.html"), release)
    ...     os.listdir(folder)
    ['report.html']
    """
    page = render(release, evaluation=evaluation).encode()
    with whole_file(path, overwrite=overwrite) as file:
        file.write(page)


def render(release: Release, *, evaluation: Evaluation | None = None) -> str:
    """The report of a release as HTML text. With an evaluation it is NOT PRIVATE, and says so throughout.

    >>> from privmw import Domain, Support, Table, evaluate, release_mwem
    >>> domain = Domain({"age": 3, "sex": ["F", "M"]})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> release = release_mwem(private, None, Workload.all(domain, k=2), epsilon=1.0, delta=0, rounds=3)
    >>> marked = render(release, evaluation=evaluate(release, private))
    >>> "NOT PRIVATE" in render(release), "NOT PRIVATE" in marked
    (False, True)
    """
    if not isinstance(release, Release):
        raise TypeError(f"release ({type(release).__name__}) must be a Release")
    domain = release.support.domain
    if evaluation is not None:
        if not isinstance(evaluation, Evaluation):
            raise TypeError(f"evaluation ({type(evaluation).__name__}) must be an Evaluation")
        if not all(_known(domain, cell) for cell in (*evaluation.largest, *evaluation.typical)):
            raise ValueError("evaluation must be on the domain of the release")
    load()
    return make_page(
        "page.html.j2",
        release=release,
        domain=domain,
        show=show,
        promise=promise(release.ledger),
        evaluation=evaluation,
        **_content(release),
        truth=None if evaluation is None else answer_pictures.against_true(evaluation),
    )


def _content(release: Release) -> dict[str, Any]:
    """Everything that needs no evaluation, by the names that the page uses."""
    support, domain = release.support, release.support.domain
    full = support.size == domain.size and int(support.counts.max()) == 1
    fit = facts.fit(release)
    moved, spent, attributes = facts.weights(release), facts.spending(release), facts.one_way(release)
    before = "every row alike" if full else "public rows"
    noises = facts.noises(release)
    return {
        "algorithm": words.algorithm(release.settings),
        "settings": words.settings_in_words(release.settings),
        "orders": np.unique(np.diff(release.workload.starts)).tolist(),
        "full": full,
        "statement": release.statement().splitlines(),
        "noises": noises[:MOST_NOISES],
        "more_noises": len(noises) - MOST_NOISES,
        "fit": fit,
        "farthest": None if fit is None else _farthest(release, fit),
        "rounds": _rounds(release),
        "more_rounds": len(release.history) - MOST_ROUNDS,
        "spent": spent,
        "weights": moved,
        "attributes": len(attributes),
        "pictures": {
            "rounds": run_pictures.rounds(release),
            "fit": None if fit is None else answer_pictures.against_noisy(fit),
            "gaps": None if fit is None else answer_pictures.gaps(fit),
            "budget": run_pictures.budget(spent),
            "weights": run_pictures.weights(moved),
            "attributes": [
                run_pictures.attribute(found, domain, place, before)
                for place, found in enumerate(attributes[:MOST_ATTRIBUTES])
            ],
        },
    }


def _farthest(release: Release, fit: facts.Fit) -> str:
    names, values = release.measured.query(int(fit.cells[fit.farthest]))
    return words.cell_name(release.support.domain, names, values)


def _rounds(release: Release) -> list[dict[str, Any]]:
    unit = release.settings.get("measure")
    listed = []
    for entry in release.history[:MOST_ROUNDS]:
        chosen = [_chosen(release.workload, unit, number) for number in entry.chosen[:3]]
        more = ", …" if len(entry.chosen) > 3 else ""
        listed.append({"entry": entry, "chosen": "; ".join(chosen) + more or "everything at once"})
    return listed


def _chosen(workload: Workload, unit: object, number: int) -> str:
    if unit == "marginal" and number < len(workload):
        return " × ".join(words.plain(name, 30) for name in workload.marginal(number))
    if unit == "cell" and number < workload.cells:
        return words.cell_name(workload.domain, *workload.query(number), most=30)
    return f"number {number:,}"


def _known(domain: Domain, cell: Cell) -> bool:
    pairs = zip(cell.names, cell.values, strict=True)
    return all(name in domain and value < domain[name].size for name, value in pairs)
