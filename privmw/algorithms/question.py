"""What is asked of the private table, and what is measured of it: a workload, and a first shot.

This room knows workloads and supports, of private records only how many there are, and no budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.ranks import check_same, on_every_rank

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


def count_records(private: Records | None, support: Support) -> int:
    """How many private records there are, a public number; refuses a table that does not go with the support.

    All ranks together: rank 0 has the private table, and the others None, unless it lies on all of them.
    """
    comm = support.comm
    on_every_rank(comm, lambda: _check_private(private, support))
    shared = private is not None and private.comm.size > 1
    check_same(comm, "whether private records lie on rank 0 or on all", str(shared))
    return comm.broadcast(0 if private is None else private.n)


def _check_private(private: Records | None, support: Support) -> None:
    if private is None and support.comm.rank > 0:
        return
    if not isinstance(private, Records):
        raise TypeError(f"private ({type(private).__name__}) must be a Table")
    if private.domain != support.domain:
        raise ValueError("private must be on the domain of the support")
    if private.comm.size not in (1, support.comm.size):
        raise ValueError(
            f"private (on {private.comm.size} ranks) must be on one rank or on those of the support"
        )


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
