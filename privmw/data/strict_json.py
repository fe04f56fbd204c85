"""Strict JSON: refuses repeated keys, NaN and infinity, on which readers disagree."""

from __future__ import annotations

import json
from typing import Any

from privmw.secrecy import shown


def parse_json(text: str) -> Any:
    """Parse a JSON text.

    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: key ('a') must be given only once
    """
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("JSON must not be nested so deeply") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of pairs; refuses a repeated key, where Python would keep the last."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"key ({shown(key)}) must be given only once")
        values[key] = value
    return values


def _refuse_constant(name: str) -> None:
    raise ValueError(f"number ({name}) must be finite")
