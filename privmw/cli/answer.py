"""`privmw answer`: answer queries from a release. It sees no private data.

A query for a number is answered for its whole bin, and the answer says so.
"""

from __future__ import annotations

import argparse
from typing import Literal, NamedTuple

from privmw.cli.console import Console
from privmw.cli.refusal import RefusalError
from privmw.cli.run_folder import release_of
from privmw.data.domain import Attribute, Domain, plain


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


class Condition(NamedTuple):
    """An attribute, a value as written, and its code."""

    attribute: Attribute
    value: str
    code: int

    @property
    def stands_for(self) -> Literal["bin", "other"] | None:
        """Return "bin" or "other" if the answer is for a whole bin or all other values, unlike the query.

        >>> domain = Domain({"age": {"edges": [0, 10, 20]}, "sex": {"labels": ["F", "M"], "other": "X"}})
        >>> [condition.stands_for for condition in read_query("age=15,sex=Male", domain)]
        ['bin', 'other']
        >>> [condition.stands_for for condition in read_query("age=[0, 10),sex=M", domain)]
        [None, None]
        """
        if self.value in self.attribute.texts:
            return None
        if self.attribute.edges and self.code < len(self.attribute.edges) - 1:
            return "bin"
        return "other" if self.attribute.label(self.code) == self.attribute.other else None


def run(options: argparse.Namespace, console: Console) -> None:
    """Answer each query in turn."""
    release = release_of(options.release)
    answers, lines = [], []
    for query in options.query:
        try:
            conditions = read_query(query, release.support.domain)
        except ValueError as error:
            raise RefusalError(f"--query ({query}): {error}") from None
        codes = [condition.code for condition in conditions]
        fraction = release.answer([condition.attribute.name for condition in conditions], codes)
        bins, others = (
            {
                condition.attribute.name: condition.attribute.label(condition.code)
                for condition in conditions
                if condition.stands_for == kind
            }
            for kind in ("bin", "other")
        )
        count = fraction * release.n
        answers.append({"query": query, "fraction": fraction, "count": count, "bin": bins, "other": others})
        told = [f"{plain(name)} in {label}" for name, label in bins.items()]
        told += [f"any other {plain(name)}, {plain(label)!r}" for name, label in others.items()]
        whole = f"; this is the answer for {' and '.join(told)}" if told else ""
        lines.append(f"{query}: {fraction:.6f}, about {count:,.0f} of {release.n:,}{whole}")
    console.result({"n": release.n, "answers": answers}, "\n".join(lines))


def read_query(query: str, domain: Domain) -> list[Condition]:
    """Parse the conditions of a query such as "age=3,sex=F".

    A comma without a later equals sign belongs to the value before it, as in "[0, 10)".

    >>> domain = Domain({"age": {"edges": [0, 10, 20]}, "sex": ["F", "M"]})
    >>> [(condition.value, condition.code) for condition in read_query("age=[10, 20], sex=F", domain)]
    [('[10, 20]', 1), ('F', 0)]
    """
    conditions: list[str] = []
    for part in query.split(","):
        if "=" in part or not conditions:
            conditions.append(part)
        else:
            conditions[-1] += f",{part}"
    found: list[Condition] = []
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals:
            raise RefusalError(f"--query ({query}) must be conditions such as age=3,sex=F")
        attribute = domain[name.strip()]
        if attribute.name in (earlier.attribute.name for earlier in found):
            raise RefusalError(f"--query ({query}) must name each attribute once")
        found.append(Condition(attribute, value.strip(), attribute.parse(value.strip())))
    return found
