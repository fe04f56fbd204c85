"""The door of a run, on every rank: rank 0 has the curator, the others hear what it lets out.

What is said is released anyway: chosen queries, noisy counts, and the events that they cost. No other rank
has a curator. Where the private records lie on several ranks, each hands its counts over to rank 0 and keeps
none (privmw/cluster/sharded_records.py).
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from privmw.accounting import Budget, Ledger
from privmw.curator import Curator
from privmw.data.records import Records
from privmw.data.workload import Workload
from privmw.random import Rng, privacy_stream
from privmw.ranks import Communicator, on_every_rank, on_root

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class Door:
    """A curator, as every rank hears it; alone, the curator itself. Close it, or use it in `with`."""

    def __init__(self, curator: Curator | None, comm: Communicator) -> None:
        self._curator, self._comm = curator, comm
        self._ledger: Ledger = comm.broadcast(None if curator is None else curator.ledger)  # type: ignore[assignment]

    @property
    def ledger(self) -> Ledger:
        """What was charged on rank 0; on other ranks a copy that follows it."""
        return self._ledger

    def select(self, answers: npt.NDArray[np.float64], **how: Any) -> tuple[int, ...]:
        """What the curator chooses."""
        return self._hear(lambda curator: curator.select(answers, **how))

    def measure(self, **what: Any) -> npt.NDArray[np.int64]:
        """What the curator counts, with noise."""
        return self._hear(lambda curator: curator.measure(**what))

    def _hear(self, look: Callable[[Curator], T]) -> T:
        def speak() -> tuple[T, Any]:
            assert self._curator is not None
            return look(self._curator), self._curator.ledger.events[-1]

        said, event = on_root(self._comm, speak)
        if self._curator is None:
            self._ledger.charge(event)
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._curator is not None:
            self._curator.close()


def open_door(
    private: Records | None,
    workload: Workload,
    budget: Budget,
    rng: Rng,
    comm: Communicator,
    spent: Ledger | None = None,
) -> Door:
    """The door of one run; with `spent`, of one that goes on. Only rank 0 looks at rng."""
    stream = on_every_rank(comm, lambda: privacy_stream(rng) if comm.rank == 0 else None)
    if comm.rank == 0:
        assert private is not None
        return Door(Curator(private, workload, budget, rng=stream, spent=spent), comm)
    if private is not None:
        private.send_counts(workload)
    return Door(None, comm)
