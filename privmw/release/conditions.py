"""Conditions on synthetic records: which rows of a release meet them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privmw.data.conditions import unquoted_condition_on
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
        mask &= unquoted_condition_on("conditions", rows.domain[name], value).codes[rows.column(name)]
    return mask
