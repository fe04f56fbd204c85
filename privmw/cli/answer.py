"""`privmw answer`: how many records have these values, by a release. It sees no private data."""

from __future__ import annotations

import argparse
from pathlib import Path

from privmw.cli.console import Console
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import RELEASE_FILE
from privmw.data.domain import Domain
from privmw.release.file import load_release


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("release", metavar="RELEASE", help="the folder that `privmw release` wrote")
    parser.add_argument(
        "--query",
        action="append",
        required=True,
        metavar="A=V,B=W",
        help='such as "age=3,sex=F"; may be repeated',
    )


def run(options: argparse.Namespace, console: Console) -> None:
    """Answer each query in turn."""
    release = load_release(Path(options.release) / RELEASE_FILE)
    answers = []
    for query in options.query:
        names, codes = read_query(query, release.support.domain)
        fraction = release.answer(names, codes)
        answers.append({"query": query, "fraction": fraction, "count": fraction * release.n})
    lines = (
        f"{entry['query']}: {entry['fraction']:.6f}, about {entry['count']:,.0f} of {release.n:,}"
        for entry in answers
    )
    console.result({"n": release.n, "answers": answers}, "\n".join(lines))


def read_query(query: str, domain: Domain) -> tuple[list[str], list[int]]:
    """The attributes and codes of a query such as "age=3,sex=F".

    A comma that no equals sign follows belongs to the value before it, as in "[0, 10)".

    >>> read_query("age=[10, 20], sex=F", Domain({"age": {"edges": [0, 10, 20]}, "sex": ["F", "M"]}))
    (['age', 'sex'], [1, 0])
    """
    conditions: list[str] = []
    for part in query.split(","):
        if "=" in part or not conditions:
            conditions.append(part)
        else:
            conditions[-1] += f",{part}"
    names, codes = [], []
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals:
            raise RefusalError(f"query ({query!r}) must be conditions such as age=3,sex=F")
        attribute = domain[name.strip()]
        if attribute.name in names:
            raise RefusalError(f"query ({query!r}) must name each attribute once")
        names.append(attribute.name)
        codes.append(attribute.parse(value.strip()))
    return names, codes
