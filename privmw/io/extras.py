"""Imports optional packages when they are needed; the error says what to install."""

from __future__ import annotations

import importlib
from typing import Any


def need(module: str, purpose: str, extra: str) -> Any:
    """Import a module; if it is missing, the error says how to install it.

    >>> need("json", "read files", "io").dumps([1])
    '[1]'
    >>> need("arrow_of_time", "read files", "io")
    Traceback (most recent call last):
    ModuleNotFoundError: arrow_of_time must be installed to read files: pip install 'privmw[io]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]  # perhaps a dependency of the module
        raise ModuleNotFoundError(
            f"{package} must be installed to {purpose}: pip install 'privmw[{extra}]'", name=package
        ) from None
