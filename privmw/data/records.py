"""The interface of a table to be counted, in memory (`Table`), in a file (`Scan`) or on several ranks.

`ShardedRecords` implements the last. This module holds no data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain, check_domain
from privmw.data.unit import RECORD, unit_in_words
from privmw.data.workload import Workload
from privmw.kernels.arrays import Int64s
from privmw.ranks import ALONE, Communicator
from privmw.secrecy import expect

if TYPE_CHECKING:
    from privmw.data.table import Table

FrameKind: TypeAlias = Literal["pyarrow", "pandas", "polars"]
Bins: TypeAlias = Literal["label", "midpoint", "spread", "draw"]  # what a bin becomes in a frame or file
Traces: TypeAlias = Mapping[str, npt.NDArray[np.uint16]]


class Records(ABC):
    """Records on a domain, with checked codes. Private records never show their values."""

    __slots__ = ()

    _domain: Domain
    _n: int
    _private: bool
    _unit: str = RECORD
    _at_most: int = 1
    _comm: Communicator = ALONE

    @property
    def domain(self) -> Domain:
        """The domain that every code lies in."""
        return self._domain

    @property
    def n(self) -> int:
        """The number of records that enter. Neighbours have the same number, so it is public."""
        return self._n

    @property
    def private(self) -> bool:
        """True if the records are private: nothing about their values is then shown."""
        return self._private

    @property
    def unit(self) -> str:
        """The unit of privacy: "record", or a column of unit ids such as "household"."""
        return self._unit

    @property
    def at_most(self) -> int:
        """The maximum number of records of a unit that enter: neighbours differ in at most as many."""
        return self._at_most

    @property
    def protected(self) -> str:
        """The unit of privacy in words: "record", or "household of at most 4 records"."""
        return unit_in_words(self.unit, self.at_most)

    @property
    def frame_kind(self) -> FrameKind | None:
        """The kind of frame that the records came from; None for files and codes."""
        return None

    @property
    def comm(self) -> Communicator:
        """The ranks that hold the records; usually one."""
        return self._comm

    @abstractmethod
    def batches(self) -> Iterator[Table]:
        """Iterate over the records of this rank in order, as one or more tables."""

    @property
    def has_records(self) -> bool:
        """True if `batches` yields records, and not only their counts."""
        return True

    @property
    def trace_names(self) -> tuple[str, ...]:
        """The columns that have traces in `batches_with_traces` on this rank."""
        return ()

    def batches_with_traces(self) -> Iterator[Table]:
        """Like `batches`, with traces of the records' raw values where there are any."""
        return self.batches()

    @abstractmethod
    def counts(self, workload: Workload) -> Int64s:
        """The exact counts of a workload's cells, in workload order; private if the records are."""

    def send_counts(self, workload: Workload) -> None:  # noqa: B027  not abstract: most are on one rank
        """Send the counts of this rank's records to rank 0, which calls `counts` at the same time."""

    @property
    def _kind(self) -> str:
        """The end of a repr, after the sizes."""
        capped = "" if self.unit == RECORD else f", at most {self.at_most} of a {self.unit}"
        return f"{'private' if self.private else 'public'}{capped}"

    def __len__(self) -> int:
        return self.n


def check_domain_and_privacy(domain: object, private: object) -> None:
    """Check that `domain` is a Domain and `private` a bool."""
    check_domain(domain)
    expect("private", private, bool, "True or False", quote=False)


def known_part(where: str, domain: Domain, columns: Collection[object], *, private: bool) -> Domain:
    """The domain of those attributes that a public table has columns for; refuses a private table."""
    if private:
        raise ValueError("missing_ok (True) must not be given for a private table: it has every column")
    names = [name for name in domain.names if name in columns]
    if not names:
        raise ValueError(f"{where} must have at least one column of the domain")
    return domain if len(names) == len(domain) else domain.project(names)


def check_is_private(records: Records) -> None:
    """Refuse public records where private ones are expected (swapped arguments)."""
    if not records.private:
        raise ValueError("private (a public table) must be a private table: read it with private=True")
