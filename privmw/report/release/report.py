"""The report of a release: collects figures, words and pictures for the template release.html.j2."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from typing import Any

import numpy as np

from privmw.accounting.statement import show
from privmw.data.domain import Domain, plain
from privmw.io.whole_file import whole_file
from privmw.release import ExpectedErrors, Release
from privmw.release.errors.true_errors import Cell, Evaluation
from privmw.release.history import Round
from privmw.report.agreement import against_noisy, gaps
from privmw.report.formats import cell_name
from privmw.report.page import check_installed, make_page
from privmw.report.release import facts, pictures, words
from privmw.secrecy import expect

ATTRIBUTE_PICTURES = 12
MOST_PAIRS = 6
ROUNDS_SHOWN = 60  # in the table of rounds
MOST_NOISE_LEVELS = 8
CELLS_BEYOND_NOISE_SHOWN = 20  # beyond chance
MOST_BY_ATTRIBUTE = 30
MOST_NEW_VALUES = 20


def write_report(
    path: str | os.PathLike[str],
    release: Release,
    *,
    evaluation: Evaluation | None = None,
    errors: ExpectedErrors | None = None,
    title: str | None = None,
    files: Collection[str] = (),
    overwrite: bool = False,
) -> None:
    """Write the report of a release to one HTML file, atomically; see `render`.

    >>> import tempfile
    >>> from privmw import PEP, Domain, Support, Table, Workload
    >>> domain = Domain({"age": 3, "sex": ["F", "M"]})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> support, workload = Support.full(domain), Workload.all(domain, k=2)
    >>> release = PEP(select="all").release(private, support, workload, epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(os.path.join(folder, "report.html"), release)
    ...     os.listdir(folder)
    ['report.html']
    """
    page = render(release, evaluation=evaluation, errors=errors, title=title, files=files).encode()
    with whole_file(path, overwrite=overwrite) as file:
        file.write(page)


def render(
    release: Release,
    *,
    evaluation: Evaluation | None = None,
    errors: ExpectedErrors | None = None,
    title: str | None = None,
    files: Collection[str] = (),
) -> str:
    """Return the report of a release as HTML text. With an evaluation it is NOT PRIVATE, and marked so.

    errors: the result of `release.expected_errors()`, which takes about as long as the release did. title:
    the heading of the page. files: names of files beside the report, to which it links.

    >>> from privmw import MWEM, Domain, Table, Workload, evaluate
    >>> domain = Domain({"age": 3, "sex": ["F", "M"]})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> release = MWEM(rounds=3).release(private, None, Workload.all(domain, k=2), epsilon=1.0, delta=0)
    >>> marked = render(release, evaluation=evaluate(release, private))
    >>> "NOT PRIVATE" in render(release), "NOT PRIVATE" in marked
    (False, True)
    """
    expect("release", release, Release, "a Release")
    domain = release.support.domain
    if evaluation is not None:
        expect("evaluation", evaluation, Evaluation, "an Evaluation")
        if not all(_on_domain(domain, cell) for cell in (*evaluation.largest, *evaluation.typical)):
            raise ValueError("evaluation must be on the domain of the release")
    if errors is not None:
        expect("errors", errors, ExpectedErrors, "ExpectedErrors")
        if errors.workload != release.workload:
            raise ValueError("errors must be those of the release's workload")
    check_installed()
    promise = words.promise(release.ledger)
    return make_page(
        "report/release/release.html.j2",
        release=release,
        domain=domain,
        show=show,
        promise=promise,
        guess=pictures.guess(promise) if promise.bounded else None,
        title=title or "Report of a private release",
        files=files,
        evaluation=evaluation,
        errors=errors,
        far_off=None if errors is None else facts.far_off(errors, MOST_BY_ATTRIBUTE),
        **_content(release),
        truth=None if evaluation is None else pictures.against_true(evaluation),
        groups=pictures.record_scores(evaluation) if evaluation is not None and evaluation.records else None,
    )


def _content(release: Release) -> dict[str, Any]:
    """The variables of the template that need no evaluation."""
    support, domain = release.support, release.support.domain
    full = support.size == domain.size and bool((support.counts == 1).all())
    measured, levels = release.agreement(), facts.noise_levels(release)
    agreement = measured if len(measured.cells) else None
    noisy_intervals, pairs = facts.noisy_intervals_of(release), facts.changed_pairs(release, MOST_PAIRS)
    spent, attributes = facts.spending(release.ledger), facts.distributions(release, noisy_intervals)
    by_pair = facts.pair_precisions(release, noisy_intervals)
    grown, change = release.growth(), facts.row_weights(release)
    start = "every row alike" if full else "public rows"
    farthest = None
    if agreement is not None:
        names, values = release.measured.query(int(agreement.cells[agreement.farthest]))
        farthest = cell_name(domain, names, values)
    return {
        "algorithm": words.algorithm(release.settings),
        "settings": words.settings_in_words(release.settings),
        "orders": np.unique(np.diff(release.workload.starts)).tolist(),
        "full": full,
        "growth": grown,
        "new_values": facts.new_values(grown, domain)[:MOST_NEW_VALUES],
        "statement": release.statement().splitlines(),
        "lightest": float(release.weights[release.weights > 0].min()),
        "noise_levels": levels[:MOST_NOISE_LEVELS],
        "more_noise_levels": len(levels) - MOST_NOISE_LEVELS,
        "agreement": agreement,
        "farthest": farthest,
        "cells_beyond": facts.cells_beyond(release, measured, CELLS_BEYOND_NOISE_SHOWN),
        "by_attribute": facts.by_attribute(measured)[:MOST_BY_ATTRIBUTE],
        "rounds": [
            {"entry": entry, "chosen": _chosen(release, entry)} for entry in release.history[:ROUNDS_SHOWN]
        ],
        "more_rounds": len(release.history) - ROUNDS_SHOWN,
        "spent": spent,
        "precisions": facts.attribute_precisions(release, noisy_intervals)[:MOST_BY_ATTRIBUTE],
        "more_precisions": len(domain) - MOST_BY_ATTRIBUTE,
        "pairs_measured": len(by_pair),
        "precise_pairs": by_pair[:MOST_PAIRS],
        "imprecise_pairs": by_pair[MOST_PAIRS:][-MOST_PAIRS:][::-1],
        "pairs": math.comb(len(domain), 2),
        "attributes": len(attributes),
        "pictures": {
            "fit": None if agreement is None else against_noisy(agreement),
            "gaps": None if agreement is None else gaps(agreement),
            "rounds": pictures.rounds(release),
            "budget": pictures.budget(spent),
            "weights": None if change is None else pictures.weights(change),
            "growth": pictures.growth(grown),
            "precision": pictures.precision(release, noisy_intervals),
            "pairs": [pictures.changed_pair(pair, domain, place, start) for place, pair in enumerate(pairs)],
            "attributes": [
                pictures.attribute(distribution, domain, place, start)
                for place, distribution in enumerate(attributes[:ATTRIBUTE_PICTURES])
            ],
        },
    }


def _chosen(release: Release, entry: Round) -> str:
    """The marginals or cells that a round measured, or the signed cells that it drew: at most three."""
    workload, unit, names = release.workload, release.settings.get("measure"), []
    for number in entry.chosen[:3]:
        if unit == "marginal" and number < len(workload):
            names.append(" × ".join(plain(name, 30) for name in workload.marginal(number)))
        elif unit == "cell" and number < workload.cells:
            names.append(cell_name(workload.domain, *workload.query(number), most=30))
        elif unit is None and number < 2 * workload.cells:  # a signed cell
            name = cell_name(workload.domain, *workload.query(number % workload.cells), most=30)
            names.append(name if number < workload.cells else f"not {name}")
        else:
            names.append(f"number {number:,}")
    return "; ".join(names) + (", …" if len(entry.chosen) > 3 else "") or "everything at once"


def _on_domain(domain: Domain, cell: Cell) -> bool:
    pairs = zip(cell.names, cell.values, strict=True)
    return all(name in domain and value < domain[name].size for name, value in pairs)
