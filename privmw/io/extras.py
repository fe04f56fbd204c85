"""Packages that privmw can do without: imported where they are needed, and missed with what to install."""

from __future__ import annotations

import importlib
from typing import Any


def need(module: str, purpose: str, extra: str) -> Any:
    """The module, or an error that says how to get it.

    >>> need("json", "read files", "io").dumps([1])
    '[1]'
    >>> need("arrow_of_time", "read files", "io")
    Traceback (most recent call last):
    ModuleNotFoundError: arrow_of_time must be installed to read files: pip install 'privmw[io]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"{package} must be installed to {purpose}: pip install 'privmw[{extra}]'", name=package
        ) from None
