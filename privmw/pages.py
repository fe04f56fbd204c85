"""How a result finds its pages and pictures, though no room of results knows the room of reports.

`release.report(path)`, `release.plot_marginal(...)` and what a notebook shows of a domain or a ledger belong
to these objects for those who call them, and to `privmw.report` for those who write them; and a report knows
the objects that it shows. So the objects ask here, and the house (privmw/__init__.py), which knows every
room, says where pages are made. Nothing is imported before a page is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_find: Callable[[], Any] | None = None


def provide(find: Callable[[], Any]) -> None:
    """Say where pages are made: `find` imports and returns that room."""
    global _find
    _find = find


def pages() -> Any:
    """The room that makes pages: `privmw.report`."""
    assert _find is not None, "privmw says where pages are made when it is imported"
    return _find()


def show(cls: type) -> None:
    """Give a class what `Shown` gives, from outside: for a room that knows no pages."""
    cls._repr_html_ = Shown._repr_html_  # type: ignore[attr-defined]


class Shown:
    """A base class: what a notebook shows is a small panel with the pictures of the report.

    Without the packages that pages need, a notebook shows the repr.
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        panel: str | None = pages().panel(self)
        return panel
