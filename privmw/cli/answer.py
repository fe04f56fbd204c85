"""`privmw answer`: answer queries from a release. It sees no private data.

A query for a number is answered for its whole bin, and the answer says so.
"""

from __future__ import annotations

import argparse
import datetime
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from privmw.cli.console import Console
from privmw.cli.options import level, number
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import release_of
from privmw.data.conditions import Condition, joined, read_query
from privmw.data.domain import plain
from privmw.release.release import DEFAULT_LEVEL

if TYPE_CHECKING:
    from privmw.release import Release


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("release", metavar="RELEASE", help="the folder that `privmw release` wrote")
    parser.add_argument(
        "--query",
        action="append",
        default=[],
        metavar="CONDITIONS",
        help='such as "age>=65,sex=F"; may be repeated',
    )
    for name, help_text in (
        ("mean", "the mean of an attribute"),
        ("quantile", 'a quantile, such as "age:.5" for the median age'),
        ("cdf", "the distribution function of an attribute"),
    ):
        metavar = "A:Q" if name == "quantile" else "A"
        parser.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=help_text)
    parser.add_argument("--by", metavar="A,B", help="a mean, quantile or distribution function per group")
    parser.add_argument(
        "--where", metavar="CONDITIONS", help="among the records that satisfy these, as in --query"
    )
    parser.add_argument(
        "--intervals",
        type=level_or_none,
        metavar="LEVEL",
        default=DEFAULT_LEVEL,
        help=f"level of the intervals (default: {DEFAULT_LEVEL}); 0: none, which is quicker",
    )


def level_or_none(text: str) -> float | None:
    """Parse the level of intervals; None for 0."""
    return level(text) if number(text) else None


def run(options: argparse.Namespace, console: Console) -> None:
    """Answer each query in turn."""
    if not (options.query or options.mean or options.quantile or options.cdf):
        raise RefusalError("answer must have at least one --query, --mean, --quantile or --cdf")
    release = release_of(options.release)
    answers, lines = [], []
    for query in options.query:
        answer, line = _named(f"--query ({query})", partial(_answer, release, query, options.intervals))
        answers.append(answer)
        lines.append(line)
    result: dict[str, Any] = {"n": release.n, "answers": answers}
    if options.mean or options.quantile or options.cdf:
        by = [name.strip() for name in options.by.split(",")] if options.by else []
        where = _named(f"--where ({options.where})", partial(_conditions, release, options.where))
        shared: dict[str, Any] = {"by": by, "where": where, "level": options.intervals, "kind": "pyarrow"}
        for kind in ("mean", "quantile", "cdf"):
            for asked in getattr(options, kind):
                frame = _named(f"--{kind} ({asked})", partial(_frame, release, kind, asked, shared))
                rows = frame.to_pylist()
                plain_rows = [{name: _plain(value) for name, value in row.items()} for row in rows]
                result.setdefault(kind, []).append({"attribute": asked, "rows": plain_rows})
                lines += [f"{kind} of {asked}", *_table(rows)]
    console.result(result, "\n".join(lines))


def stands_for(condition: Condition, text: str) -> Literal["bin", "other"] | None:
    """Return "bin" or "other" if the answer is for a whole bin or all other values, unlike the text.

    >>> from privmw import Domain
    >>> domain = Domain({"age": {"edges": [0, 10, 20]}, "sex": {"labels": ["F", "M"], "other": "X"}})
    >>> [stands_for(condition, text) for _, text, condition in read_query("age=15,sex=Male", domain)]
    ['bin', 'other']
    >>> [stands_for(condition, text) for _, text, condition in read_query("age=[0, 10),sex=M", domain)]
    [None, None]
    """
    attribute, codes = condition.attribute, condition.codes.nonzero()[0]
    if text in attribute.texts or len(codes) != 1 or ".." in text:
        return None
    if attribute.edges and codes[0] < len(attribute.edges) - 1:
        return "bin"
    return "other" if attribute.label(int(codes[0])) == attribute.other else None


def _answer(release: Release, query: str, level: float | None) -> tuple[dict[str, Any], str]:
    from privmw.release.questions import answer_to  # here: only this command needs it

    read = read_query(query, release.support.domain)
    answer = answer_to(release, joined([condition for _, _, condition in read]), level)
    bins, others = (
        {name: condition.words for name, text, condition in read if stands_for(condition, text) == kind}
        for kind in ("bin", "other")
    )
    count = answer.answer * release.n
    told = {
        "query": query,
        "fraction": answer.answer,
        "count": count,
        "standard_error": _plain(answer.standard_error),
        "low": _plain(answer.low),
        "high": _plain(answer.high),
        "bin": bins,
        "other": others,
    }
    words = [f"{plain(name)} in {label}" for name, label in bins.items()]
    words += [f"any other {plain(name)}, {plain(label)!r}" for name, label in others.items()]
    line = f"{query}: {answer.answer:.6f}, about {count:,.0f} of {release.n:,}"
    if answer.low == answer.low:
        line += f"; {level:.0%} interval {answer.low:.6f} to {answer.high:.6f}"
    elif answer.reason:
        line += f"; no interval: {answer.reason}"
    return told, line + (f"; this is the answer for {' and '.join(words)}" if words else "")


def _conditions(release: Release, text: str | None) -> dict[str, Condition]:
    if not text:
        return {}
    return joined([condition for _, _, condition in read_query(text, release.support.domain)])


def _frame(release: Release, kind: str, asked: str, shared: dict[str, Any]) -> Any:
    if kind != "quantile":
        return getattr(release, kind)(asked, **shared)
    name, colon, q = asked.rpartition(":")
    try:
        return release.quantile(name, float(q), **shared)
    except ValueError:
        if colon and name in release.support.domain:
            raise
    raise RefusalError(f"--quantile ({asked}) must be an attribute and a number, such as age:.5")


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as aligned lines, with the names of their columns."""
    shown = [[_shown(value) for value in row.values()] for row in rows]
    cells = [list(map(plain, rows[0])), *shown] if rows else []
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else plain(value)


def _plain(value: Any) -> Any:
    """A value for JSON, which has no NaN, infinity or date."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, datetime.date) else value


def _named(what: str, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (TypeError, ValueError) as error:
        raise RefusalError(f"{what}: {error}") from None
