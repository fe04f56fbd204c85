"""What is asked of the private table, and what is measured of it: a workload, and a first shot.

This room knows workloads and supports, no data and no budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.support import Support
from privmw.workload import Workload

Unit: TypeAlias = Literal["cell", "marginal"]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what is measured: the marginals asked come first, then those of the shot alone."""

    asked: Workload
    measured: Workload
    shot: npt.NDArray[np.int64]  # marginals of `measured`
    unit: Unit


def check_run(support: Support, workload: Workload) -> None:
    """Refuse a support and a workload that do not belong together."""
    if not isinstance(support, Support):
        raise TypeError(f"support ({type(support).__name__}) must be a Support")
    if not isinstance(workload, Workload):
        raise TypeError(f"workload ({type(workload).__name__}) must be a Workload")
    if workload.domain != support.domain:
        raise ValueError(f"workload ({workload!r}) must be on the domain of the support")
    if workload.cells == 0:
        raise ValueError(f"workload ({workload!r}) must have at least one cell")


def make_question(workload: Workload, order: int | None, unit: Unit) -> Question:
    """Ask for a workload; the first shot takes it whole, or all marginals of an order."""
    if order is None:
        return Question(workload, workload, np.arange(len(workload)), unit)
    if order > len(workload.domain):
        raise ValueError(f"order ({order}) must be at most the number of attributes, {len(workload.domain)}")
    asked = list(workload)
    place = {marginal: j for j, marginal in enumerate(asked)}
    shot = list(Workload.all(workload.domain, k=order))
    more = [marginal for marginal in shot if marginal not in place]
    place.update({marginal: len(asked) + j for j, marginal in enumerate(more)})
    measured = Workload(workload.domain, asked + more) if more else workload
    return Question(workload, measured, np.array([place[marginal] for marginal in shot]), unit)
