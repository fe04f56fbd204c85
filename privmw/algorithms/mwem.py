"""MWEM (Hardt, Ligett and McSherry, 2012): multiplicative weights over the full domain, uniform at first.

The same loop and the same model as MW-Pub, without public data: every row of the domain has a weight, so the
domain must be small. Under a pure budget (delta 0) it is the original: the exponential mechanism and Laplace
noise, half of each round's epsilon each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privmw.algorithms.algorithm import Select
from privmw.algorithms.mw_pub import MWPub
from privmw.algorithms.shorthand import release_by
from privmw.data.records import Records
from privmw.data.support import Start, Support
from privmw.data.workload import Workload
from privmw.release import Release


@dataclass(frozen=True, kw_only=True, repr=False)
class MWEM(MWPub):
    """Multiplicative weights from a uniform start; options as for MWPub.

    >>> MWEM(rounds=10).calibrate(epsilon=1.0, delta=0).epsilon(0)
    1.0
    """

    select: Select = "exponential"
    start: Start = "uniform"


def release_mwem(
    private: Records | None, support: Support | None, workload: Workload, **options: Any
) -> Release:
    """Release by MWEM. A support of None is the full domain; options as for `release_mw_pub`.

    >>> from privmw import Domain, Table
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
    >>> release_mwem(private, None, Workload.all(domain, k=2), epsilon=1.0, delta=0, rounds=5).support.size
    6
    """
    if not isinstance(workload, Workload):
        raise TypeError(f"workload ({type(workload).__name__}) must be a Workload")
    chosen = Support.full(workload.domain) if support is None else support
    return release_by(MWEM, private, chosen, workload, options)
