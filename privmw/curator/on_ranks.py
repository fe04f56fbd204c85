"""The curator of a run on several ranks: rank 0 has the curator, and broadcasts what it releases.

Only released values are broadcast: chosen queries, noisy counts and the events they cost. No other rank has a
curator. Where the private records are sharded, each rank sends its counts to rank 0 and keeps none
(privmw/extensions/cluster/sharded_records.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from privmw.accounting import Budget, Ledger, ResidualGaussian
from privmw.curator.curator import Curator
from privmw.data.queries import QueryGroup
from privmw.data.records import Records
from privmw.data.workload import Workload
from privmw.random import Rng, privacy_stream
from privmw.ranks import Communicator, on_every_rank, on_root

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class CuratorOnRanks:
    """The curator of rank 0; all ranks call its methods together. Close it, or use it in `with`."""

    def __init__(self, curator: Curator | None, comm: Communicator) -> None:
        self._curator, self._comm = curator, comm
        self._ledger: Ledger = comm.broadcast(None if curator is None else curator.ledger)  # type: ignore[assignment]

    @property
    def ledger(self) -> Ledger:
        """The ledger of rank 0; on other ranks a copy that is charged with the same events."""
        return self._ledger

    def select(self, answers: npt.NDArray[np.float64], **options: Any) -> tuple[int, ...]:
        """The choice of `Curator.select` on rank 0."""
        return self._call(lambda curator: curator.select(answers, **options))

    def draw(self, cell_counts: npt.NDArray[np.int64], **options: Any) -> tuple[int, ...]:
        """The draws of `Curator.draw` on rank 0."""
        return self._call(lambda curator: curator.draw(cell_counts, **options))

    def measure(self, **options: Any) -> npt.NDArray[np.int64]:
        """The noisy counts that `Curator.measure` returns on rank 0."""
        return self._call(lambda curator: curator.measure(**options))

    def measure_queries(self, group: QueryGroup, **options: Any) -> npt.NDArray[np.int64]:
        """The noisy answers that `Curator.measure_queries` returns on rank 0."""
        return self._call(lambda curator: curator.measure_queries(group, **options))

    def measure_thresholded(self, marginal: int, **options: Any) -> npt.NDArray[np.int64]:
        """The noisy counts that `Curator.measure_thresholded` returns on rank 0."""
        return self._call(lambda curator: curator.measure_thresholded(marginal, **options))

    def choose_public(self, answers: Sequence[npt.NDArray[np.float64]], **options: Any) -> int:
        """The table that `Curator.choose_public` chooses on rank 0."""
        return self._call(lambda curator: curator.choose_public(answers, **options))

    def measure_residuals(self, event: ResidualGaussian) -> tuple[npt.NDArray[np.int64], ...]:
        """The noisy contrasts that `Curator.measure_residuals` returns on rank 0."""
        return self._call(lambda curator: curator.measure_residuals(event))

    def _call(self, look: Callable[[Curator], T]) -> T:
        def look_on_root() -> tuple[T, Any]:
            assert self._curator is not None
            return look(self._curator), self._curator.ledger.events[-1]

        released, event = on_root(self._comm, look_on_root)
        if self._curator is None:
            self._ledger.charge(event)
        return released

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._curator is not None:
            self._curator.close()


AnyCurator: TypeAlias = Curator | CuratorOnRanks


def open_curator(
    private: Records | None,
    workload: Workload,
    budget: Budget,
    rng: Rng,
    comm: Communicator,
    **options: Any,
) -> AnyCurator:
    """The curator of one run; on one rank, the Curator itself. options: those of `Curator`.

    Only rank 0 uses rng and holds counts.
    """
    if comm.size == 1:
        assert private is not None
        return Curator(private, workload, budget, rng=rng, **options)
    stream = on_every_rank(comm, lambda: privacy_stream(rng) if comm.rank == 0 else None)
    if comm.rank == 0:
        assert private is not None
        return CuratorOnRanks(Curator(private, workload, budget, rng=stream, **options), comm)
    if private is not None:
        private.send_counts(workload)
    return CuratorOnRanks(None, comm)
