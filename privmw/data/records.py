"""Records: the interface of a table to be counted, in memory, in a file or on several ranks.

`Table`, `Scan` and `ShardedRecords` implement it. This room holds no data.
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
Traces: TypeAlias = Mapping[str, npt.NDArray[np.uint16]]


class Records(ABC):
    """Records on a domain, every code checked. Private ones show nothing of their values."""

    __slots__ = ()

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The domain that every code lies in."""

    @property
    @abstractmethod
    def n(self) -> int:
        """How many records there are, of those that enter. Neighbours have as many, so this is public."""

    @property
    @abstractmethod
    def private(self) -> bool:
        """Whether the records are private: then nothing about their values is shown."""

    @property
    def unit(self) -> str:
        """What is protected, one at a time: a record, or what a column such as "household" tells apart."""
        return RECORD

    @property
    def at_most(self) -> int:
        """How many records of a unit enter, at most: neighbours differ in no more of them."""
        return 1

    @property
    def protected(self) -> str:
        """What is protected, in words: "record", or "household of at most 4 records"."""
        return unit_in_words(self.unit, self.at_most)

    @property
    def frame_kind(self) -> FrameKind | None:
        """The kind of frame that the records came from; None for those of files and of codes."""
        return None

    @property
    def comm(self) -> Communicator:
        """The ranks that hold the records; usually one."""
        return ALONE

    @abstractmethod
    def batches(self) -> Iterator[Table]:
        """The records of this rank in order, as one table or several."""

    @property
    def has_records(self) -> bool:
        """Whether `batches` has the records themselves, and not only their counts."""
        return True

    @property
    def trace_names(self) -> tuple[str, ...]:
        """The columns of which `batches_with_traces` has traces on this rank."""
        return ()

    def batches_with_traces(self) -> Iterator[Table]:
        """The batches, each with traces of its records' raw values, as far as there are any."""
        return self.batches()

    @abstractmethod
    def counts(self, workload: Workload) -> Int64s:
        """The exact counts of a workload's cells, in workload order; those of private records are private."""

    def send_counts(self, workload: Workload) -> None:  # noqa: B027  not abstract: most are on one rank
        """On a rank other than 0, while rank 0 calls `counts`: send it the counts of this rank's records."""

    @property
    def _kind(self) -> str:
        """What a repr says after the sizes."""
        capped = "" if self.unit == RECORD else f", at most {self.at_most} of a {self.unit}"
        return f"{'private' if self.private else 'public'}{capped}"

    def __len__(self) -> int:
        return self.n


def check_domain_and_privacy(domain: object, private: object) -> None:
    """Refuse what is no domain, and a flag that is neither True nor False."""
    check_domain(domain)
    expect("private", private, bool, "True or False", quote=False)


def known_part(where: str, domain: Domain, columns: Collection[object], *, private: bool) -> Domain:
    """The domain of the attributes that a public table has columns for; a private table is refused."""
    if private:
        raise ValueError("missing_ok (True) must not be given for a private table: it has every column")
    names = [name for name in domain.names if name in columns]
    if not names:
        raise ValueError(f"{where} must have at least one column of the domain")
    return domain if len(names) == len(domain) else domain.project(names)


def check_is_private(records: Records) -> None:
    """Refuse public records where private ones are expected: one of two arguments was mixed up."""
    if not records.private:
        raise ValueError("private (a public table) must be a private table: read it with private=True")
