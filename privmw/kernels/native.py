"""The compiled kernels, as csrc/bind offers them. Importing fails where the extension was not built."""

from __future__ import annotations

from privmw.kernels._native import (
    Columns,
    Incidence,
    Marginals,
    Tallies,
    distinct_rows,
    groups_alike,
    heaviest,
    incidence_of_groups,
    matching_bitmap,
    matching_rows,
    most_potential,
    multiply,
    normalise,
    shift,
    solve_positive,
    tilt,
    to_masses,
    total_mass,
)

__all__ = [
    "Columns",
    "Incidence",
    "Marginals",
    "Tallies",
    "distinct_rows",
    "groups_alike",
    "heaviest",
    "incidence_of_groups",
    "matching_bitmap",
    "matching_rows",
    "most_potential",
    "multiply",
    "normalise",
    "shift",
    "solve_positive",
    "tilt",
    "to_masses",
    "total_mass",
]
