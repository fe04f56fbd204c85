"""MWEM (Hardt, Ligett and McSherry, 2012): multiplicative weights over the full domain, uniform at first.

The same loop and the same model as MW-Pub, without public data: every row of the domain has a weight, so the
domain must be small. Under a pure budget (delta 0) it is the original: the exponential mechanism and Laplace
noise, half of each round's epsilon each.
"""

from __future__ import annotations

from dataclasses import dataclass

from privmw.algorithms.configuration import Select
from privmw.algorithms.mw_pub import MWPub
from privmw.algorithms.question import check_is_workload
from privmw.data.support import Start, Support
from privmw.data.workload import Workload


@dataclass(frozen=True, kw_only=True, repr=False)
class MWEM(MWPub):
    """Multiplicative weights from a uniform start; options as for MWPub.

    >>> MWEM(rounds=10).calibrate(epsilon=1.0, delta=0).epsilon(0)
    1.0
    """

    select: Select = "exponential"
    start: Start = "uniform"

    def public_rows(self, support: Support | None, workload: Workload) -> Support:
        """The support of a run: None is the full domain."""
        if support is not None:
            return support
        check_is_workload(workload)
        return Support.full(workload.domain)
