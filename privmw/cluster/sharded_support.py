"""A support whose rows lie on several ranks: each has as many as the others, or one more.

It is a Support of the own rows that knows the ranks which hold the rest; models and algorithms need not see
the difference. Which rank holds a row follows from the hashes of all rows, not from where it was read. Like
any support it knows no private data and draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.cluster.rows import Rows
from privmw.cluster.sharded_records import Path, ShardedRecords
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.records import Records
from privmw.data.support import Support, check_public
from privmw.data.table import Table
from privmw.kernels.arrays import Codes, Float64s, freeze
from privmw.ranks import ALONE, Communicator, check_same, on_every_rank, sum_over_ranks

PENDING = 2**20  # rows that a rank reads before they move to their owners, and that wait there to be merged


class ShardedSupport(Support):
    """One rank's shard of distinct public rows. A method that says so is called by all ranks together.

    >>> domain = Domain({"age": 3, "sex": 2})
    >>> public = ShardedRecords(Table.from_codes([[2, 0], [0, 1], [2, 0]], domain), ALONE)
    >>> support = ShardedSupport.from_table(public)
    >>> support
    ShardedSupport(rank 0 of 1: 2 of 2 distinct rows x 2 attributes of 3 public records)
    >>> support.gathered()[0].rows.tolist()
    [[0, 1], [2, 0]]
    """

    __slots__ = ()

    @classmethod
    def from_parquet(
        cls,
        paths: Path | Sequence[Path],
        domain: Domain,
        comm: Communicator,
        *,
        constraints: Constraints | None = None,
    ) -> ShardedSupport:
        """The distinct rows of a parquet file, a folder of them, or several such paths; all ranks together.

        Each rank reads row groups of its own. Every rank may end with rows that others have read.
        """
        return cls.from_table(ShardedRecords.from_parquet(paths, domain, comm), constraints)

    @classmethod
    def from_table(cls, public: Records, constraints: Constraints | None = None) -> ShardedSupport:
        """The distinct rows of public records that keep the constraints, on the ranks that have the records.

        Private records are refused. All ranks call it together.
        """
        comm = public.comm if isinstance(public, Records) else ALONE
        on_every_rank(comm, lambda: _check(public, constraints))
        check_same(comm, "constraints", "" if constraints is None else constraints.to_json())
        domain = public.domain
        rows = _owned(public)
        if constraints is not None:
            _keep(rows, domain, constraints, comm)
        _check_enough(sum_over_ranks(comm, len(rows)), comm)
        rows = rows.balance(comm)
        table, order = _sorted(rows.columns, domain)
        return cls(table, freeze(rows.counts[order]), constraints, comm)

    @classmethod
    def of(cls, support: Support, comm: Communicator) -> ShardedSupport:
        """The own shard of a support that every rank has whole; all ranks together.

        The shards are those that `from_parquet` would make of the same rows.
        """
        on_every_rank(comm, lambda: _check_whole(support))
        check_same(comm, "support", support.fingerprint())
        check_same(comm, "constraints", "" if support.constraints is None else support.constraints.to_json())
        _check_enough(support.size, comm)
        first, last = (support.size * rank // comm.size for rank in (comm.rank, comm.rank + 1))
        own = np.sort(support.hash_order()[first:last])
        return cls(support.table.take(own), freeze(support.counts[own]), support.constraints, comm)

    @classmethod
    def full(  # type: ignore[override]
        cls, domain: Domain, comm: Communicator, constraints: Constraints | None = None
    ) -> ShardedSupport:
        """Every row of a small domain that keeps the constraints, each counted once; all ranks together."""
        return cls.of(on_every_rank(comm, lambda: Support.full(domain, constraints)), comm)

    def widened(self, times: int = 10, share: float = 0.05, seed: int = 0) -> ShardedSupport:
        """The shards of what the whole support widened is; all ranks together.

        For small supports: every rank makes the whole of it.
        """
        gathered = self.gathered()
        whole: Support = self.comm.broadcast(gathered[0] if gathered else self)
        return ShardedSupport.of(
            on_every_rank(self.comm, lambda: whole.widened(times, share, seed)), self.comm
        )

    def gathered(self, weights: Float64s | None = None) -> tuple[Support, Float64s | None] | None:
        """On rank 0 the whole support, and weights in its order; None elsewhere. All ranks together.

        weights: those of the own rows, on every rank or on none.
        """
        on_every_rank(self.comm, lambda: _check_weights(weights, self.size))
        check_same(self.comm, "weights", "none" if weights is None else "some")
        columns = [self._collect(column) for column in self.table.columns]
        counts = self._collect(self.counts)
        weight = None if weights is None else self._collect(weights)
        if self.comm.rank != 0:
            return None
        table, order = _sorted(columns, self.domain)
        whole = Support(table, freeze(counts[order]), self.constraints)
        return whole, None if weight is None else weight[order]

    def _collect(self, own: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The entries of every rank, by rank, on rank 0."""
        parts = self.comm.gather(own)
        return own[:0] if parts is None else np.concatenate(parts)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a shard of a support must not be pickled: gathered() gives the whole")

    def __repr__(self) -> str:
        shard = f"rank {self.comm.rank} of {self.comm.size}: {self.size} of {self.whole_size} distinct rows"
        return f"ShardedSupport({shard} x {len(self.domain)} attributes of {self.records} public records)"


def _owned(public: Records) -> Rows:
    """The distinct rows of all ranks' records that this rank owns, by hash, with their counts."""
    comm, tables = public.comm, public.batches()
    held, waiting = Rows.none(public.domain.sizes), list[Rows]()
    while sum_over_ranks(comm, len(read := on_every_rank(comm, lambda: _read(tables, public.domain)))):
        waiting.append(read.move_to_owners(comm))
        if sum(map(len, waiting)) >= max(PENDING, len(held) // 2):
            held.merge(waiting)
            waiting.clear()
    held.merge(waiting)
    return held


def _read(tables: Iterator[Table], domain: Domain) -> Rows:
    """The distinct rows of the next tables; none at the end."""
    parts: list[Rows] = []
    while sum(map(len, parts)) < PENDING and (table := next(tables, None)) is not None:
        parts.append(Rows(table.columns, np.ones(table.n, np.int64)))
    read = Rows.none(domain.sizes)
    read.merge(parts)
    return read


def _keep(rows: Rows, domain: Domain, constraints: Constraints, comm: Communicator) -> None:
    """Leave out the rows that break a rule; refuse rules that no row of any rank keeps."""
    table = _table(rows.columns, domain) if len(rows) else None
    kept = np.ones(0, bool) if table is None else constraints.mask(table)
    found = sum_over_ranks(comm, len(rows))
    if sum_over_ranks(comm, int(kept.sum())) == 0:
        broken = np.zeros(len(constraints), np.int64) if table is None else constraints.broken(table)
        comm.allreduce(broken)
        raise ValueError(
            f"constraints must leave a row of the support: {constraints.complaint(broken, found)}"
        )
    rows.keep(kept)


def _table(columns: Sequence[Codes], domain: Domain) -> Table:
    return Table(zip(domain.names, map(freeze, columns), strict=True), domain)


def _sorted(columns: list[Codes], domain: Domain) -> tuple[Table, npt.NDArray[np.intp]]:
    """Distinct rows sorted by their codes, and where each was; the columns are let go one by one."""
    order = kernels.distinct_rows(columns, domain.sizes)[0].astype(np.intp)  # once, not for each column
    return _table([columns.pop(0)[order] for _ in domain.names], domain), order


def _check(public: Records, constraints: Constraints | None) -> None:
    check_public("public", public)
    if constraints is not None and not isinstance(constraints, Constraints):
        raise TypeError(f"constraints ({_short(constraints)}) must be Constraints")
    if constraints is not None and constraints.domain != public.domain:
        raise ValueError(f"public ({public!r}) must be on the domain of the constraints")


def _check_whole(support: object) -> None:
    if not isinstance(support, Support):
        raise TypeError(f"support ({_short(support)}) must be a Support")
    if support.comm.size > 1:
        raise ValueError(f"support ({support!r}) must be whole: it is shared out already")


def _check_enough(rows: int, comm: Communicator) -> None:
    if rows < comm.size:
        raise ValueError(
            f"support ({rows} distinct rows) must have at least one row for each of the {comm.size} ranks"
        )


def _check_weights(weights: object, size: int) -> None:
    if weights is None:
        return
    if type(weights) is not np.ndarray or weights.dtype != np.float64:
        raise TypeError(f"weights ({type(weights).__name__}) must be an array of float64")
    if weights.shape != (size,):
        raise ValueError(f"weights (shape {weights.shape}) must be one for each of the {size} own rows")
