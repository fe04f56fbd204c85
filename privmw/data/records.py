"""Records: what whoever counts needs to know of a table, whether it lies in memory or in a file.

`Table`, `Scan` and `ShardedRecords` are Records. This room holds no value; of the rooms that it names it
knows the interfaces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain
from privmw.data.workload import Workload
from privmw.ranks import ALONE, Communicator

if TYPE_CHECKING:
    from privmw.data.table import Table


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
        """How many records there are. Neighbouring tables replace one record, so this is public."""

    @property
    @abstractmethod
    def private(self) -> bool:
        """Whether the records are private: then nothing about their values is shown."""

    @property
    def comm(self) -> Communicator:
        """The ranks that hold the records; usually one."""
        return ALONE

    @abstractmethod
    def batches(self) -> Iterator[Table]:
        """All own records in order, as one table or several."""

    @abstractmethod
    def counts(self, workload: Workload) -> npt.NDArray[np.int64]:
        """The exact counts of a workload's cells, in workload order; those of private records are private."""

    def hand_over(self, workload: Workload) -> None:  # noqa: B027  most have nothing to hand over
        """On a rank other than 0: give it the counts of the own records, if they are among those counted."""

    def __len__(self) -> int:
        return self.n
