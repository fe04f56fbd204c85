"""A template and its content become a page: one HTML text with its style inside. This file knows no data.

release/ and fit/ hold the templates of the two reports; both extend base.html.j2 and share style.css. jinja2
and matplotlib are imported when a page is made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from privmw.data.domain import plain
from privmw.io.extras import need
from privmw.report import formats
from privmw.version import __version__


def check_installed() -> None:
    """Refuse early where a package that pages need is not installed."""
    # matplotlib.figure and the backend import what matplotlib itself needs, too.
    for name in (
        "jinja2",
        "matplotlib",
        "matplotlib.figure",
        "matplotlib.style",
        "matplotlib.backends.backend_svg",
    ):
        need(name, "write reports", "app")


class FileBeside(NamedTuple):
    """A file that belongs to a report: its name, whether it lies beside the report, and what it holds."""

    name: str
    beside: bool
    about: str


def files_beside(listed: Sequence[tuple[str, str, str]], beside: Collection[str]) -> list[FileBeside]:
    """The listed files, (stem, usual kind, what it holds), under the names that they have beside the report.

    >>> files_beside([("answers", "parquet", "every cell"), ("domain", "json", "values")], ["answers.csv"])[0]
    FileBeside(name='answers.csv', beside=True, about='every cell')
    """
    found = {name.partition(".")[0]: name for name in beside}
    return [
        FileBeside(found.get(stem, f"{stem}.{kind}"), stem in found, about) for stem, kind, about in listed
    ]


def make_page(template: str, **content: Any) -> str:
    """Render a template of the package, such as "report/release/release.html.j2"; everything is escaped."""
    import jinja2

    package = files("privmw")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda path: package.joinpath(*path.split("/")).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for filtered in (formats.percent, formats.quantity, formats.number, plain):
        environment.filters[filtered.__name__] = filtered
    for known in (formats.plural, formats.cell_name, formats.mechanism, files_beside):
        environment.globals[known.__name__] = known
    style = (package / "report" / "style.css").read_text("utf-8")
    return environment.get_template(template).render(style=style, version=__version__, **content)
