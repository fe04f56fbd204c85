"""Conditions on synthetic records: which rows of a release meet them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from privmw.data.conditions import condition_on
from privmw.data.table import Table
from privmw.kernels.arrays import Bools
from privmw.secrecy import expect, shown


def meeting(rows: Table, conditions: Mapping[str, object]) -> Bools:
    """Mask of the rows that meet the condition on every attribute named: as those of `Release.answer`.

    >>> from privmw import Domain
    >>> domain = Domain({"age": {"edges": [0, 18, 65]}, "sex": ["F", "M"]})
    >>> rows = Table.from_codes([[0, 0], [1, 0], [1, 1]], domain, private=False)
    >>> meeting(rows, {"age": ">=18", "sex": ["F", "M"]}).tolist()
    [False, True, True]
    >>> meeting(rows, {"sex": "X"})
    Traceback (most recent call last):
    ValueError: conditions: value of 'sex' must be one of its 2 labels, a list of these, or a range
    """
    expect("conditions", conditions, Mapping, 'an object such as {"sex": "F"}')
    mask = np.ones(rows.n, bool)
    for name, value in conditions.items():
        if name not in rows.domain:
            names = ", ".join(map(shown, rows.domain.names[:5]))
            raise ValueError(f"conditions ({shown(name)}) must name an attribute of the domain: {names}, ...")
        attribute, condition = rows.domain[name], None
        with suppress(TypeError, ValueError):  # its message quotes the value, which may come from a record
            condition = condition_on(attribute, value)
        if condition is None:
            what = f"{attribute.rule}, a list of these, or a range{' of whole bins' * bool(attribute.edges)}"
            raise ValueError(f"conditions: value of {shown(name)} must be {what}")
        mask &= condition.codes[rows.column(name)]
    return mask
