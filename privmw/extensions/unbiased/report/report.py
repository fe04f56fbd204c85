"""The page of unbiased answers: figures and pictures, put together for the template unbiased.html.j2.

Everything on it comes from released values and from the plan that was made before them.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmw.accounting.statement import usual_delta
from privmw.data.domain import plain
from privmw.data.workload import Workload
from privmw.extensions.unbiased import UnbiasedAnswers
from privmw.io.whole_file import whole_file
from privmw.report.formats import percent, plural
from privmw.report.page import check_installed, make_page
from privmw.report.svg import BLUE, INK, ORANGE, Picture, Words, draw
from privmw.secrecy import expect

ERRORS_SHOWN = 40
ATTRIBUTES_SHOWN, VALUES_SHOWN = 6, 12
INTERVAL_LEVEL = 0.95


def write_unbiased_report(
    path: str | os.PathLike[str],
    answers: UnbiasedAnswers,
    *,
    title: str | None = None,
    files: Collection[str] = (),
    overwrite: bool = False,
) -> None:
    """Write the report to one HTML file, whole or not at all; see `render_unbiased`.

    >>> import tempfile
    >>> from privmw import Domain, Table, measure_marginals, strategies
    >>> private = Table.from_codes([[2, 0], [0, 1]] * 900, Domain({"age": 3, "sex": 2}), private=True)
    >>> answers = measure_marginals(private, [("age", "sex")], rho=0.01, strategy=strategies.equal())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_unbiased_report(os.path.join(folder, "report.html"), answers)
    ...     os.listdir(folder)
    ['report.html']
    """
    page = render_unbiased(answers, title=title, files=files).encode()
    with whole_file(path, overwrite=overwrite) as file:
        file.write(page)


@dataclass(frozen=True)
class MarginalErrors:
    """One marginal: its cells, and how far one of its answers may be off."""

    name: str
    cells: int
    standard_error: float
    records: float


def render_unbiased(
    answers: UnbiasedAnswers,
    *,
    title: str | None = None,
    files: Collection[str] = (),
) -> str:
    """Return the report as HTML text.

    title: the heading of the page. files: names of files beside the report, to which it links.
    """
    expect("answers", answers, UnbiasedAnswers, "UnbiasedAnswers")
    check_installed()
    workload = answers.workload
    errors = answers.standard_errors()[workload.offsets[:-1]]
    order = np.argsort(-errors, kind="stable")
    marginals = [
        MarginalErrors(
            " × ".join(plain(name, 30) for name in workload.marginal(j)),
            int(workload.offsets[j + 1] - workload.offsets[j]),
            float(errors[j]),
            float(errors[j]) * answers.n,
        )
        for j in order[:ERRORS_SHOWN].tolist()
    ]
    pictures = [_spread(answers, np.sort(errors))]
    pictures += [_attribute(answers, name) for name in _shown(workload)]
    return make_page(
        "extensions/unbiased/report/unbiased.html.j2",
        answers=answers,
        title=title or "Report of unbiased answers",
        # Two files have the same stem, and are told apart by their kinds.
        whole=[name for name in files if name.endswith(".npz")],
        files=[name for name in files if not name.endswith(".npz")],
        statement=answers.statement().splitlines(),
        epsilon=answers.ledger.epsilon(usual_delta(answers.ledger)),
        delta=usual_delta(answers.ledger),
        strategy=str(answers.settings.get("strategy", "a strategy")).replace(", weights=None", ""),
        kind=answers.shot.kind,
        looks=len(answers.shot.looks),
        largest=float(errors.max()),
        smallest=float(errors.min()),
        negative=float((answers.answers() < 0).mean()),
        marginals=marginals,
        more_marginals=len(workload) - ERRORS_SHOWN,
        pictures=pictures,
    )


def _shown(workload: Workload) -> list[str]:
    used = dict.fromkeys(workload.attributes.tolist())
    names = (workload.domain.attributes[place] for place in used)
    return [attribute.name for attribute in names if attribute.size > 1][:ATTRIBUTES_SHOWN]


def _spread(answers: UnbiasedAnswers, errors: Any) -> Picture:
    """Plot the standard errors of all marginals, in ascending order."""
    share = 100 * np.arange(1, len(errors) + 1) / len(errors)

    def paint(figure: Any, axes: Any) -> None:
        axes.step(np.append(0, share), 100 * np.append(errors[:1], errors), where="pre", color=BLUE, lw=1.4)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("% of the marginals")
        axes.set_ylabel("standard error, % of records")

    words = Words(
        "errors",
        title="How far a cell may be off, by marginal",
        alt=(
            f"A rising line over {plural(len(errors), 'marginal')}. The standard error of a cell is from "
            f"{percent(float(errors[0]), up=True)} to {percent(float(errors[-1]), up=True)} of the records."
        ),
        caption=(
            "The standard error of one cell, for the marginals in ascending order. It was known before the "
            "private data were looked at, and is the same for every cell of a marginal."
        ),
    )
    return draw(words, paint, height=2.6)


def _attribute(answers: UnbiasedAnswers, name: str) -> Picture:
    """Plot the answers of one attribute with their intervals."""
    asked = Workload(answers.domain, [(name,)])
    found, (low, high) = answers.answers(asked), answers.intervals(INTERVAL_LEVEL, workload=asked)
    attribute = answers.domain[name]
    values = np.argsort(-found, kind="stable")[:VALUES_SHOWN]
    labels = [plain(attribute.label(int(code)), 24) for code in values]

    def paint(figure: Any, axes: Any) -> None:
        rows = np.arange(len(values))
        axes.axvline(0, color=INK, lw=0.8)
        reach = 100 * np.stack([found[values] - low[values], high[values] - found[values]])
        axes.errorbar(
            100 * found[values], rows, xerr=reach, fmt="o", color=ORANGE, ms=4, capsize=2.5, elinewidth=1.2
        )
        axes.set_yticks(rows, labels)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel("% of records")
        axes.grid(axis="y", visible=False)

    more = f" The {len(values)} commonest of {attribute.size} values." if len(values) < attribute.size else ""
    most = int(values[0])
    words = Words(
        f"attribute-{answers.domain.index(name)}",
        title=plain(name, 40),
        alt=(
            f"Answers of {plain(name, 40)} with their intervals. {labels[0]}: {percent(float(found[most]))}, "
            f"from {percent(float(low[most]))} to {percent(float(high[most]))}."
        ),
        caption=f"Unbiased answers with intervals that each hold the truth with probability 95 %.{more}",
    )
    return draw(words, paint, height=1.0 + 0.24 * len(values))
