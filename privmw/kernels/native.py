"""The compiled kernels, as csrc/bind offers them. Importing fails where the extension was not built."""

from __future__ import annotations

from privmw._native import (
    Columns,
    Marginals,
    distinct_rows,
    groups_alike,
    matching_bitmap,
    matching_rows,
    multiply,
    rescale,
    to_masses,
)

__all__ = [
    "Columns",
    "Marginals",
    "distinct_rows",
    "groups_alike",
    "matching_bitmap",
    "matching_rows",
    "multiply",
    "rescale",
    "to_masses",
]
