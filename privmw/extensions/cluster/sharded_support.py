"""A support sharded over several ranks: each has as many rows as the others, or one more.

It is a Support of this rank's rows that knows the other ranks; models and algorithms need not distinguish.
The hashes of all rows decide which rank holds a row, not the rank that read it. Like any support it knows no
private data and draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.make_support import SAMPLE_SIZE, Sample, Sampler
from privmw.data.records import Records
from privmw.data.row_hash import row_hashes
from privmw.data.support import Support, check_public
from privmw.data.table import Table
from privmw.extensions.cluster.rows import Rows
from privmw.extensions.cluster.sharded_records import Path, ShardedRecords
from privmw.kernels.arrays import Array, Bools, Codes, Float64s, freeze
from privmw.ranks import (
    ALONE,
    Communicator,
    allgather,
    check_same,
    on_every_rank,
    packed,
    sum_over_ranks,
    unpacked,
)
from privmw.secrecy import expect, shown

PACKED_BYTES = 2**26  # of rows and weights that are sent to rank 0 in one call
ROWS_PER_EXCHANGE = 2**20  # that a rank reads before it sends them to their owners


class ShardedSupport(Support):
    """One rank's shard of distinct public rows. Its methods marked as collective are called by all ranks.

    >>> domain = Domain({"age": 3, "sex": 2})
    >>> public = ShardedRecords(Table.from_codes([[2, 0], [0, 1], [2, 0]], domain, private=False), ALONE)
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
        """The distinct rows of a parquet file, a folder of them, or several such paths. Collective.

        Each rank reads some of the row groups, and may end with rows that other ranks have read.
        """
        return cls.from_table(ShardedRecords.from_parquet(paths, domain, comm, private=False), constraints)

    @classmethod
    def from_table(
        cls, public: Records, constraints: Constraints | None = None, *, domain: Domain | None = None
    ) -> ShardedSupport:
        """The distinct rows of public records that keep the constraints, on the ranks of the records.

        Private records are refused, and so are public ones that are not on the domain given: a support with
        fewer columns lies on one rank. Collective.
        """
        comm = public.comm if isinstance(public, Records) else ALONE
        on_every_rank(comm, lambda: _check(public, constraints, domain))
        check_same(comm, "constraints", "" if constraints is None else constraints.to_json())
        sampler = Sampler(SAMPLE_SIZE // comm.size)
        rows = _owned_rows(public, sampler)
        if constraints is not None:
            _restrict(rows, public.domain, constraints, comm)
        _check_enough(sum_over_ranks(comm, len(rows)), comm)
        rows = rows.balance(comm)
        table, order = _sorted_table(rows.columns, public.domain)
        return cls(table, freeze(rows.counts[order]), constraints, comm, samples=(sampler.sample(),))

    @classmethod
    def of(cls, support: Support, comm: Communicator) -> ShardedSupport:
        """The shard of this rank, of a support that every rank has completely. Collective.

        The shards are those that `from_parquet` makes of the same rows.
        """
        on_every_rank(comm, lambda: _check_complete(support))
        check_same(comm, "support", support.fingerprint())
        check_same(comm, "constraints", "" if support.constraints is None else support.constraints.to_json())
        _check_enough(support.size, comm)
        first, last = (support.size * rank // comm.size for rank in (comm.rank, comm.rank + 1))
        shard = np.sort(support.hash_order()[first:last])
        return cls(
            support.table.take(shard),
            freeze(support.counts[shard]),
            support.constraints,
            comm,
            samples=None if support.samples is None else tuple(_share(s, comm) for s in support.samples),
        )

    @classmethod
    def full(  # type: ignore[override]
        cls, domain: Domain, comm: Communicator, constraints: Constraints | None = None
    ) -> ShardedSupport:
        """Every row of a small domain that keeps the constraints, each counted once. Collective."""
        return cls.of(on_every_rank(comm, lambda: Support.full(domain, constraints)), comm)

    def widened(self, times: int = 10, share: float = 0.05, seed: int = 0) -> ShardedSupport:
        """The shards of `widened` of the complete support. Collective.

        For small supports: every rank makes the complete one.
        """
        gathered = self.gathered()
        support: Support = self.comm.broadcast(gathered[0] if gathered else self)
        wider = on_every_rank(self.comm, lambda: support.widened(times, share, seed))
        shard = ShardedSupport.of(wider, self.comm)
        return ShardedSupport(shard.table, shard.counts, shard.constraints, self.comm, samples=self.samples)

    def _own(self, added: Table) -> Bools:
        """The rows whose hashes this rank owns, so that equal rows are on the same rank. Collective."""
        hashes = row_hashes(self.table.columns)
        # Ranks own ascending ranges of hashes, each from the smallest hash of the rank on.
        least = allgather(self.comm, hashes.min().view(np.int64))[:, 0].view(np.uint64)
        owners = np.searchsorted(least[1:], row_hashes(added.columns), "right")
        own: Bools = owners == self.comm.rank
        return own

    def gathered(self, weights: Float64s | None = None) -> tuple[Support, Float64s | None] | None:
        """On rank 0 the complete support, and weights in its order; None elsewhere. Collective.

        weights: those of this rank's rows, on every rank or on none.
        """
        on_every_rank(self.comm, lambda: _check_weights(weights, self.size))
        check_same(self.comm, "weights", "none" if weights is None else "some")
        arrays = [*self.table.columns, self.counts, *([] if weights is None else [weights])]
        if self.whole_size * sum(array.itemsize for array in arrays) <= PACKED_BYTES:
            arrays = unpacked(self._gather(packed(arrays)))
        else:  # one by one, for less memory
            arrays = [self._gather(array) for array in arrays]
        if self.comm.rank != 0:
            return None
        gathered_weights = None if weights is None else arrays.pop()
        *columns, counts = arrays
        table, order = _sorted_table(columns, self.domain)
        support = Support(table, freeze(counts[order]), self.constraints)
        return support, None if gathered_weights is None else gathered_weights[order]

    def _gather(self, array: Array) -> Array:
        """The entries of all ranks, by rank, on rank 0; none elsewhere."""
        parts = self.comm.gather(array)
        return array[:0] if parts is None else np.concatenate(parts)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a shard of a support must not be pickled: gathered() returns the complete one")

    def __repr__(self) -> str:
        shard = f"rank {self.comm.rank} of {self.comm.size}: {self.size} of {self.whole_size} distinct rows"
        return f"ShardedSupport({self._described(shard)})"


def _owned_rows(public: Records, sampler: Sampler) -> Rows:
    """The distinct rows, of the records of all ranks, whose hashes this rank owns, with their counts.

    sampler: samples the records that this rank reads.
    """
    comm, tables = public.comm, public.batches_with_traces()
    owned, pending = Rows.none(public.domain.sizes), list[Rows]()
    while sum_over_ranks(
        comm, len(read := on_every_rank(comm, lambda: _read(tables, public.domain, sampler)))
    ):
        pending.append(read.move_to_owners(comm))
        if sum(map(len, pending)) >= max(ROWS_PER_EXCHANGE, len(owned) // 2):
            owned.merge(pending)
            pending.clear()
    owned.merge(pending)
    return owned


def _share(sample: Sample, comm: Communicator) -> Sample:
    """Take this rank's part of a sample that every rank has."""
    records = sample.records if comm.rank == 0 else 0
    if sample.table is None or comm.rank >= sample.table.n:
        return Sample(None, records)
    return Sample(sample.table.take(np.arange(comm.rank, sample.table.n, comm.size)), records)


def _read(tables: Iterator[Table], domain: Domain, sampler: Sampler) -> Rows:
    """The distinct rows of the next tables, which are sampled; none at the end."""
    parts: list[Rows] = []
    while sum(map(len, parts)) < ROWS_PER_EXCHANGE and (table := next(tables, None)) is not None:
        sampler.add(table)
        parts.append(Rows(table.columns, np.ones(table.n, np.int64)))
    rows = Rows.none(domain.sizes)
    rows.merge(parts)
    return rows


def _restrict(rows: Rows, domain: Domain, constraints: Constraints, comm: Communicator) -> None:
    """Drop the rows that break a rule; raise if no row of any rank is left."""
    table = _table(rows.columns, domain) if len(rows) else None
    mask = np.ones(0, bool) if table is None else constraints.mask(table)
    total = sum_over_ranks(comm, len(rows))
    if sum_over_ranks(comm, int(mask.sum())) == 0:
        broken = np.zeros(len(constraints), np.int64) if table is None else constraints.broken(table)
        comm.allreduce(broken)
        raise ValueError(
            f"constraints must leave a row of the support: {constraints.complaint(broken, total)}"
        )
    rows.keep(mask)


def _table(columns: Sequence[Codes], domain: Domain) -> Table:
    return Table(zip(domain.names, map(freeze, columns), strict=True), domain, private=False)


def _sorted_table(columns: list[Codes], domain: Domain) -> tuple[Table, npt.NDArray[np.intp]]:
    """Distinct rows sorted by their codes, and their former positions; empties the list, to free memory."""
    order = kernels.distinct_rows(columns, domain.sizes)[0].astype(np.intp)  # once, not for each column
    return _table([columns.pop(0)[order] for _ in domain.names], domain), order


def _check(public: Records, constraints: Constraints | None, domain: Domain | None) -> None:
    check_public("public", public)
    if domain is not None and public.domain != domain:
        raise ValueError(f"public ({shown(public)}) must have every column of the domain on several ranks")
    expect("constraints", constraints, Constraints | None, "Constraints")
    if constraints is not None and constraints.domain != public.domain:
        raise ValueError(f"public ({shown(public)}) must be on the domain of the constraints")


def _check_complete(support: Any) -> None:
    expect("support", support, Support, "a Support")
    if support.comm.size > 1:
        raise ValueError(f"support ({shown(support)}) must be complete: it is sharded already")
    support.check_complete()
    if support.blocks is not None:
        raise ValueError(f"support ({shown(support)}) must be of one table to be sharded")


def _check_enough(rows: int, comm: Communicator) -> None:
    if rows < comm.size:
        raise ValueError(
            f"support ({rows} distinct rows) must have at least one row for each of the {comm.size} ranks"
        )


def _check_weights(weights: Any, size: int) -> None:
    if weights is None:
        return
    expect(
        "weights",
        weights,
        type(weights) is np.ndarray and weights.dtype == np.float64,
        "an array of float64",
    )
    if weights.shape != (size,):
        raise ValueError(
            f"weights (shape {weights.shape}) must be one for each of the {size} rows of this rank"
        )
