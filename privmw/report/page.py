"""From a template and its content to a page: one HTML text with its style inside. It knows no data.

The templates of this folder share base.html.j2 and style.css. jinja2 and matplotlib are loaded when a page is
made.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from privmw.report import words

GLOBALS = {"plural": words.plural, "cell_name": words.cell_name, "mechanism": words.mechanism}
FILTERS = {
    "percent": words.percent,
    "quantity": words.quantity,
    "number": words.number,
    "plain": words.plain,
}


def load() -> None:
    """Refuse early where a package that pages need is not installed."""
    for name in ("jinja2", "matplotlib"):
        _load(name)


def make_page(name: str, **content: Any) -> str:
    """The page of a template, escaped throughout."""
    jinja2, here = _load("jinja2"), files("privmw.report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda named: (here / named).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    environment.globals |= GLOBALS
    style = (here / "style.css").read_text("utf-8")
    return str(environment.get_template(name).render(style=style, version=version("privmw"), **content))


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        message = f"{name} must be installed to write reports: pip install 'privmw[app]'"
        raise ModuleNotFoundError(message, name=name) from None
