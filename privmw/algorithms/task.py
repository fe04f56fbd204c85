"""The task of a run: the workload to answer and the marginals to measure; checks of the inputs.

This module reads only the number, the unit and the domain of the private records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from privmw.accounting.looks import Look
from privmw.data.records import Records, check_is_private
from privmw.data.support import Support
from privmw.data.workload import CELLS_CHANGED_PER_MARGINAL, Workload
from privmw.kernels.arrays import Int64s
from privmw.ranks import check_same, on_every_rank
from privmw.secrecy import expect, shown

Granularity: TypeAlias = Literal["cell", "marginal"]


class PrivateSize(NamedTuple):
    """The public facts of private records: their number, the unit, and its maximum number of records."""

    n: int
    unit: str
    at_most: int


@dataclass(frozen=True, slots=True)
class Task:
    """The workload to answer, and the one to measure: the same marginals, then further ones of the shot."""

    workload: Workload
    measured: Workload
    shot: Int64s  # indices of marginals of `measured`
    granularity: Granularity

    @property
    def candidates(self) -> int:
        """The number of cells or marginals that a round chooses from."""
        return self.workload.cells if self.granularity == "cell" else len(self.workload)

    def cells_of(self, choice: int) -> Int64s:
        """The cells of a chosen cell or marginal."""
        return np.array([choice]) if self.granularity == "cell" else self.measured.cells_of([choice])

    @property
    def cells_of_shot(self) -> int:
        """The number of cells that the first shot measures."""
        return int(np.diff(self.measured.offsets)[self.shot].sum())

    @property
    def sensitivity_of_shot(self) -> int:
        """The number of counts of the first shot that one replaced record changes by one."""
        return self.measured.sensitivity(self.shot)

    def sensitivity_of(self, choice: int) -> int:
        """The number of counts of a chosen cell or marginal that one replaced record changes by one."""
        return 1 if self.granularity == "cell" else self.measured.sensitivity([choice])

    def with_sizes(self, look: Look) -> Look:
        """The look with the sizes of this task; before a choice is made, the sizes with the largest noise."""
        if look.step == "shot":
            return look.of_size(self.cells_of_shot, self.sensitivity_of_shot)
        if look.step == "measure":
            return look.of_size(1, 1 if self.granularity == "cell" else CELLS_CHANGED_PER_MARGINAL)
        return look.of_size(self.candidates * (2 if look.step == "draw" else 1))  # draws: of signed cells


def make_task(workload: Workload, order: int | None, granularity: Granularity) -> Task:
    """Make the task of a workload; the first shot measures its marginals, or all marginals of an order."""
    if order is None:
        return Task(workload, workload, np.arange(len(workload)), granularity)
    if order > len(workload.domain):
        raise ValueError(f"order ({order}) must be at most the number of attributes, {len(workload.domain)}")
    marginals = list(workload)
    place = {marginal: j for j, marginal in enumerate(marginals)}
    shot = list(Workload.all(workload.domain, k=order))
    further = [marginal for marginal in shot if marginal not in place]
    place.update({marginal: len(marginals) + j for j, marginal in enumerate(further)})
    measured = Workload(workload.domain, marginals + further) if further else workload
    return Task(workload, measured, np.array([place[marginal] for marginal in shot]), granularity)


def check_is_workload(workload: object) -> None:
    """Refuse anything but a Workload."""
    expect("workload", workload, Workload, "a Workload: Workload.all(domain, k=2) makes one")


def check_public(support: Support, workload: Workload, *, fills_missing_columns: bool = False) -> None:
    """Refuse a support and a workload that do not belong together.

    fills_missing_columns: if False, rows that lack columns are refused.
    """
    expect("support", support, Support, "a Support: Support.from_table makes one")
    check_is_workload(workload)
    if workload.domain != support.domain:
        raise ValueError(f"workload ({shown(workload)}) must be on the domain of the support")
    if workload.cells == 0:
        raise ValueError(f"workload ({shown(workload)}) must have at least one cell")
    if not fills_missing_columns:
        support.check_complete()


def check_inputs(
    private: Records | None, support: Support, workload: Workload, *, fills_missing_columns: bool = False
) -> PrivateSize:
    """Validate all inputs of a run, once; returns the public size of the private records.

    A collective call. Rank 0 passes the private table and the others None, unless the records are sharded
    over all of them.
    """
    check_public(support, workload, fills_missing_columns=fills_missing_columns)
    comm = support.comm
    on_every_rank(comm, lambda: _check_private(private, support))
    sharded = private is not None and private.comm.size > 1
    check_same(comm, "whether private records lie on rank 0 or on all", str(sharded))
    if private is None:
        return comm.broadcast(PrivateSize(0, "", 1))
    return comm.broadcast(PrivateSize(private.n, private.unit, private.at_most))


def _check_private(private: Any, support: Support) -> None:
    if private is None and support.comm.rank > 0:
        return
    expect("private", private, Records, "a Table: Table.from_frame or read_table makes one", quote=False)
    check_is_private(private)
    if private.domain != support.domain:
        raise ValueError("private must be on the domain of the support")
    if private.n == 0:
        raise ValueError("private (0 records) must have at least one record")
    if private.comm.size not in (1, support.comm.size):
        raise ValueError(
            f"private (on {private.comm.size} ranks) must be on one rank or on those of the support"
        )
