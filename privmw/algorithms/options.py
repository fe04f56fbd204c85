"""How a release refuses an option that it does not have: with a list of those it has."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec, TypeVar

from privmw.secrecy import shown

P = ParamSpec("P")
T = TypeVar("T")


def lists_options(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function: an unknown keyword raises a TypeError that suggests an option and lists all.

    >>> @lists_options
    ... def release(private, *, epsilon=None, rounds=5): ...
    >>> release(None, epslion=1)
    Traceback (most recent call last):
    TypeError: option ('epslion') must be one of epsilon, rounds; did you mean epsilon?
    """
    parameters = inspect.signature(function).parameters.values()
    options = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    known = {p.name for p in parameters}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        check_options([name for name in kwargs if name not in known], options)
        return function(*args, **kwargs)

    return checked


def check_options(given: Iterable[str], options: Sequence[str]) -> None:
    """Refuse names that are not among the options; the message suggests one and lists all.

    >>> check_options(["round"], ["rounds", "select"])
    Traceback (most recent call last):
    TypeError: option ('round') must be one of rounds, select; did you mean rounds?
    """
    for name in given:
        if name not in options:
            near = difflib.get_close_matches(name, options, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"option ({shown(name)}) must be one of {', '.join(options)}{hint}")
