"""The support: the distinct public rows that a release re-weights. It knows no private data.

Rows are sorted by their codes, attribute by attribute: neighbouring rows then share most of their uncommon
values, which makes the kernels faster (caches, branch prediction). A weighted support answers a workload with
fractions: sums of integer masses (privmw.kernels) over their total. A row of count 0 is no public record: a
model has grown it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.data.blocks import checked_block_weights, checked_blocks, mixed_frequencies
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain, Immutable, positions_of
from privmw.data.records import Records
from privmw.data.row_hash import mixed, row_hashes
from privmw.data.table import Table
from privmw.data.workload import Workload, check_workload
from privmw.kernels.arrays import Bools, Codes, Float64s, Int64s, UInt32s, freeze, is_frozen
from privmw.ranks import ALONE, Communicator, sum_over_ranks
from privmw.secrecy import expect, shown

if TYPE_CHECKING:
    from privmw.data.make_support import Sample

Start = Literal["public", "uniform"]

MOST_PUBLIC_RECORDS = 2**62  # of a support, so that no sum of counts is beyond 64 bits


class Support(Immutable):
    """Distinct rows on a domain with the counts of a public table, immutable.

    >>> domain = Domain({"age": 3, "sex": 2})
    >>> support = Support.from_table(Table.from_codes([[2, 0], [0, 1], [2, 0]], domain, private=False))
    >>> support
    Support(2 distinct rows x 2 attributes of 3 public records)
    >>> support.rows.tolist(), support.counts.tolist(), support.start().tolist()
    ([[0, 1], [2, 0]], [1, 2], [0.3333333333333333, 0.6666666666666666])
    """

    __slots__ = (
        "__weakref__",
        "_columns",
        "_marginals",
        "block_weights",
        "blocks",
        "comm",
        "constraints",
        "counts",
        "grown",
        "missing",
        "records",
        "samples",
        "table",
        "whole_size",
    )
    _public_repr: ClassVar[bool] = True

    table: Table  # the distinct rows, one contiguous column per attribute
    counts: Int64s  # how many public records each row stands for; 0 for a grown row
    missing: tuple[str, ...]  # attributes that the public rows lack: their codes are 0, and mean nothing
    constraints: Constraints | None  # which every row satisfies; a saved release does not hold them
    blocks: Int64s | None  # rows x public tables: the records of each in a row; None for one table
    block_weights: Float64s | None  # the weight of each table in the start, with sum 1
    comm: Communicator  # the ranks that hold the rows; usually one
    whole_size: int  # the number of distinct rows of all ranks
    records: int  # the number of public records that the rows of all ranks stand for
    grown: int  # the number of rows of all ranks that no public record has
    samples: tuple[Sample, ...] | None  # of each public table; none where rows are no public records
    _columns: kernels.Columns | None
    _marginals: tuple[Workload, kernels.Marginals] | None

    def __init__(
        self,
        table: Table,
        counts: Int64s,
        constraints: Constraints | None = None,
        comm: Communicator = ALONE,
        *,
        missing: Sequence[str] = (),
        blocks: Int64s | None = None,
        block_weights: Float64s | None = None,
        samples: tuple[Sample, ...] | None = None,
    ) -> None:
        """For rows that are distinct, sorted and keep the constraints already: use from_table or full.

        comm: the ranks that hold the rows; all of them make their supports together.
        missing: attributes that the rows do not have; their codes must be 0.
        blocks, block_weights: the counts of several public tables, which add up to counts, and their weights.
        samples: of each public table, with more of its records than their codes; () where rows are no public
        records. None: the rows are all there is of them.
        """
        check_public("table", table)
        right = type(counts) is np.ndarray and counts.dtype == np.int64
        expect("counts", counts, right, "an array of int64")
        if counts.shape != (table.n,) or counts.min() < 0:
            raise ValueError(f"counts must not be negative, one for each of the {table.n} rows")
        if counts.sum(dtype=np.float64) >= MOST_PUBLIC_RECORDS:
            raise ValueError("counts must be fewer than 2^62 records together")
        for a in positions_of(table.domain, missing, "missing"):
            if table.columns[a].any():
                raise ValueError(
                    f"column {shown(table.domain.names[a])} (missing) must hold code 0 in every row"
                )
        counts = counts if is_frozen(counts) else freeze(counts.copy())
        if blocks is not None or block_weights is not None:
            block_weights = checked_blocks(blocks, block_weights, counts, comm)
        fields = {
            "table": table,
            "counts": counts,
            "missing": tuple(name for name in table.domain.names if name in missing),
            "constraints": constraints,
            "blocks": blocks if blocks is None or is_frozen(blocks) else freeze(blocks.copy()),
            "block_weights": block_weights,
            "comm": comm,
            "whole_size": sum_over_ranks(comm, table.n),
            "records": sum_over_ranks(comm, int(counts.sum())),
            "grown": sum_over_ranks(comm, int(np.count_nonzero(counts == 0))),
            "samples": samples,
            "_columns": None,
            "_marginals": None,
        }
        self._set(**fields)

    @classmethod
    def from_table(
        cls, public: Records, constraints: Constraints | None = None, *, domain: Domain | None = None
    ) -> Support:
        """The distinct rows of a public table, in memory or in a file, that keep the constraints.

        A private table is refused. domain: that of the private table, if the public one has fewer columns or
        has them in another order; rules about a column that it lacks then wait until rows are completed.

        >>> public = Table.from_codes([[1], [0], [1]], Domain({"sex": 2}), private=False)
        >>> Support.from_table(public, domain=Domain({"age": 3, "sex": 2}))
        Support(2 distinct rows x 2 attributes of 3 public records, without 'age')
        """
        from privmw.data import make_support

        return make_support.from_table(public, constraints, domain)

    @classmethod
    def from_tables(
        cls,
        tables: Sequence[Records | Support],
        constraints: Constraints | None = None,
        *,
        weights: Sequence[float] | None = None,
    ) -> Support:
        """The distinct rows of several public tables, or supports of them, that keep the constraints.

        The start is the mixture of the tables' frequencies, each with its weight; by default they weigh the
        same, whatever their sizes. `with_block_weights` moves the weights. Constraints that are given stand
        in for those of supports.

        >>> domain = Domain({"sex": ["F", "M"]})
        >>> tables = [Table.from_codes(rows, domain, private=False) for rows in ([[0], [0], [1]], [[1]])]
        >>> support = Support.from_tables(tables)
        >>> support
        Support(2 distinct rows x 1 attributes of 4 public records in 2 tables)
        >>> support.blocks.tolist(), support.block_weights.tolist(), support.start().round(3).tolist()
        ([[2, 0], [1, 1]], [0.5, 0.5], [0.333, 0.667])
        """
        from privmw.data import make_support

        return make_support.from_tables(tables, constraints, weights)

    def with_block_weights(self, weights: npt.ArrayLike) -> Support:
        """The same rows and tables, with other weights of the tables; they are divided by their sum.

        >>> domain = Domain({"sex": ["F", "M"]})
        >>> tables = [Table.from_codes(rows, domain, private=False) for rows in ([[0]], [[1]])]
        >>> Support.from_tables(tables).with_block_weights([1, 3]).start().tolist()
        [0.25, 0.75]
        """
        if self.blocks is None:
            raise ValueError(f"support ({shown(self)}) must be of several tables to have weights of them")
        checked = checked_block_weights(weights, self.blocks.shape[1])
        return Support(
            self.table,
            self.counts,
            self.constraints,
            blocks=self.blocks,
            block_weights=checked,
            samples=self.samples,
        )

    @classmethod
    def without_public(cls, domain: Domain, constraints: Constraints | None = None) -> Support:
        """A support for no public table at all: one row that stands for no record, every attribute missing.

        >>> Support.without_public(Domain({"age": 3, "sex": 2}))
        Support(no public row, 2 attributes)
        """
        from privmw.data import make_support

        return make_support.without_public(domain, constraints)

    def with_rows(self, codes: npt.ArrayLike) -> WithRows:
        """The support with further rows, of count 0 where no public record has them, and where each lies.

        codes: rows x attributes, complete, keeping the constraints; they may repeat, and may be rows of the
        support already. If the public rows lack attributes, the result has none of them, only these rows.
        Where the support is sharded all ranks give the same codes, and each holds some of the rows.

        >>> domain = Domain({"age": 3, "sex": 2})
        >>> support = Support.from_table(Table.from_codes([[2, 0], [0, 1], [2, 0]], domain, private=False))
        >>> wider = support.with_rows([[1, 1], [2, 0], [1, 1]])
        >>> wider.support.rows.tolist(), wider.support.counts.tolist()
        ([[0, 1], [1, 1], [2, 0]], [1, 0, 2])
        >>> wider.places.tolist(), wider.added.tolist()
        ([0, 2], [1, 2, 1])
        """
        added = self.marked(Table.from_codes(codes, self.domain, private=False))
        if self.constraints is not None and not self.constraints.mask(added).all():
            raise ValueError("rows must keep the constraints of the support")
        own = self._own(added)
        tables = [] if self.missing else [self.table]
        tables += [added.take(own)] if own.any() else []
        before = 0 if self.missing else self.size
        table = Table.concatenate(tables)
        first, places = numbered(table)
        counts = np.zeros(len(first), np.int64)
        counts[places[:before]] = self.counts[:before]
        blocks = None
        if self.blocks is not None:
            blocks = np.zeros((len(first), self.blocks.shape[1]), np.int64)
            blocks[places[:before]] = self.blocks
            freeze(blocks)
        support = type(self)(
            table.take(first),
            freeze(counts),
            self.constraints,
            self.comm,
            blocks=blocks,
            block_weights=self.block_weights,
            samples=self.samples,
        )
        lies = np.full(added.n, -1)
        lies[own] = places[before:]
        return WithRows(support, places[:before], lies)

    def _own(self, added: Table) -> Bools:
        """Which further rows this rank holds: all, unless the support is sharded."""
        return np.ones(added.n, bool)

    @classmethod
    def full(cls, domain: Domain, constraints: Constraints | None = None) -> Support:
        """Every row of a small domain that keeps the constraints, each counted once.

        >>> Support.full(Domain({"age": 2, "sex": 2})).rows.tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
        """
        from privmw.data import make_support

        return make_support.full(domain, constraints)

    def widened(self, times: int = 10, share: float = 0.05, seed: int = 0) -> Support:
        """The support with further rows: public rows in which one value comes from another public record.

        A release can only re-weight the rows of the support; these add combinations that the public table
        lacks. `times` records are drawn for each row; together they have `share` of the public frequencies.
        Those that break the constraints of the support are left out.

        >>> domain = Domain({"age": 3, "sex": 2})
        >>> public = Table.from_codes([[2, 0], [0, 1], [2, 0], [1, 0]], domain, private=False)
        >>> support = Support.from_table(public)
        >>> support.widened().size
        6
        """
        from privmw.data import make_support

        return make_support.widened(self, times, share, seed)

    def marked(self, table: Table) -> Table:
        """A table made of these rows, with their marks: not for release where they are not."""
        table = table.with_frame_kind(self.table.frame_kind)
        return table if self.table.for_release else table.not_for_release()

    @property
    def domain(self) -> Domain:
        """The domain of the rows."""
        return self.table.domain

    @property
    def size(self) -> int:
        """The number of distinct rows on this rank."""
        return self.table.n

    @property
    def rows(self) -> Codes:
        """A fresh array of the codes, rows x attributes."""
        return self.table.codes()

    def start(self, kind: Start = "public") -> Float64s:
        """Fresh initial weights, with sum 1 over all ranks: the public frequencies, or uniform."""
        if kind not in ("public", "uniform"):
            raise ValueError(f"kind ({shown(kind)}) must be 'public' or 'uniform'")
        if kind == "public":
            self.check_has_records()
            if self.blocks is not None and self.block_weights is not None:
                return mixed_frequencies(self.blocks, self.block_weights)
            return self.counts / float(self.records)
        return np.full(self.size, 1.0 / self.whole_size)

    @property
    def columns(self) -> kernels.Columns:
        """The rows prepared for the kernels; prepared once."""
        columns = self._columns
        if columns is None:
            columns = kernels.Columns(self.table.columns, self.domain.sizes)
            self._set(_columns=columns)
        return columns

    def marginals(self, workload: Workload) -> kernels.Marginals:
        """The kernels' plan for a workload; the last one is kept."""
        check_workload(workload, self.domain, "support")
        self._check_known([self.domain.names[a] for a in np.unique(workload.attributes)])
        if self._marginals is not None and self._marginals[0] is workload:
            return self._marginals[1]
        plan = kernels.Marginals(self.columns, workload.attributes, workload.starts)
        self._set(_marginals=(workload, plan))
        return plan

    def answers(self, workload: Workload, weights: npt.ArrayLike | None = None) -> Float64s:
        """The fraction of the weight in each cell of a workload; without weights, the public frequencies.

        >>> domain = Domain({"age": 3, "sex": 2})
        >>> public = Table.from_codes([[2, 0], [0, 1], [2, 0], [1, 0]], domain, private=False)
        >>> support = Support.from_table(public)
        >>> support.answers(Workload(domain, [("age",)])).tolist()
        [0.25, 0.25, 0.5]
        """
        marginals = self.marginals(workload)
        if weights is not None:
            scaled = _weights(weights, self.size)
        elif self.blocks is not None:
            scaled = self.start()
        else:
            self.check_has_records()
            scaled = self.counts.astype(np.float64)
        kernels.rescale(scaled, comm=self.comm)
        masses, mass = kernels.to_masses(scaled, comm=self.comm)
        sums = marginals.sums(masses)
        self.comm.allreduce(sums)
        return sums / mass

    def matching_rows(self, names: Sequence[str], values: Sequence[int]) -> UInt32s:
        """The positions, ascending, of the rows that have these values (codes) of these attributes."""
        right = isinstance(names, Sequence) and not isinstance(names, str)
        expect("names", names, right, "a tuple of attribute names")
        self._check_known(names)
        return kernels.matching_rows(self.columns, positions_of(self.domain, names), values)

    def hash_order(self) -> Int64s:
        """The rows of this rank ordered by (hash, codes): an order of all rows that the ranks do not change.

        >>> support = Support.full(Domain({"age": 2, "sex": 2}))
        >>> sorted(support.hash_order().tolist())
        [0, 1, 2, 3]
        """
        return np.argsort(row_hashes(self.table.columns), kind="stable")

    def fingerprint(self) -> str:
        """A SHA-256 in hexadecimal of the domain, rows and counts of all ranks, however many ranks there are.

        Of several tables, their counts and weights too.

        Constraints are no part of it. A collective call: all ranks make it.

        >>> support = Support.full(Domain({"age": 2, "sex": 2}))
        >>> support.fingerprint() == support.fingerprint()
        True
        """
        hashes = mixed(row_hashes(self.table.columns) ^ mixed(self.counts.astype(np.uint64)))
        sums = np.array([hashes.sum(), mixed(~hashes).sum()]).view(np.int64)  # modulo 2^64: in any order
        self.comm.allreduce(sums)
        summary = [self.domain.fingerprint(), self.whole_size, self.records, *sums.tolist(), *self.missing]
        if self.blocks is not None and self.block_weights is not None:
            summary += [hashlib.sha256(self.blocks.tobytes()).hexdigest(), *self.block_weights.tolist()]
        return hashlib.sha256(repr(summary).encode()).hexdigest()

    def gathered(self, weights: Float64s | None = None) -> tuple[Support, Float64s | None] | None:
        """The rows of all ranks, and their weights in the same order, on rank 0; None elsewhere."""
        return self, weights

    @property
    def nbytes(self) -> int:
        """Bytes of the codes, the counts and the kernels' data."""
        total = sum(column.nbytes for column in self.table.columns) + self.counts.nbytes
        total += 0 if self.blocks is None else self.blocks.nbytes
        total += self._columns.nbytes if self._columns else 0
        return total + (self._marginals[1].nbytes if self._marginals else 0)

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Support):
            return NotImplemented
        same = self.table == other.table and self.missing == other.missing
        return (
            same
            and np.array_equal(self.counts, other.counts)
            and _same(self.blocks, other.blocks)
            and _same(self.block_weights, other.block_weights)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        names = ("missing", "blocks", "block_weights", "samples")
        beside = {name: getattr(self, name) for name in names}
        return partial(Support, **beside), (self.table, self.counts, self.constraints)

    def __repr__(self) -> str:
        return f"Support({self._described(f'{self.size} distinct rows')})"

    def _repr_html_(self) -> str | None:
        from privmw.report import panel  # here: only a notebook needs it

        return panel(self)

    def _described(self, rows: str) -> str:
        """What a repr says: the number of rows comes in."""
        if len(self.missing) == len(self.domain):
            return f"no public row, {len(self.domain)} attributes"
        about = f"{rows} x {len(self.domain)} attributes of {self.records} public records"
        about += "" if self.blocks is None else f" in {self.blocks.shape[1]} tables"
        about += f", of which {self.grown} grown" if self.grown else ""
        return about + (f", without {in_words(self.missing)}" if self.missing else "")

    def check_complete(self) -> None:
        """Refuse a support whose rows lack attributes."""
        if self.missing:
            raise ValueError(
                f"support ({shown(self)}) must have every attribute of the domain: its public rows lack "
                f"{in_words(self.missing)}"
            )

    def check_has_records(self) -> None:
        """Refuse a support of no public record, which has no public frequencies."""
        if self.records == 0:
            raise ValueError(
                f"support ({shown(self)}) must have a public record: there are no public frequencies"
            )

    def _check_known(self, names: Iterable[str]) -> None:
        """Refuse attributes that the rows lack."""
        lacking = [name for name in names if name in self.missing]
        if lacking:
            raise ValueError(f"the public rows lack {in_words(lacking)}: only a completed support answers it")


class WithRows(NamedTuple):
    """A support with further rows; where the rows of the former support lie in it, and the added ones.

    An added row that another rank holds lies at -1.
    """

    support: Support
    places: Int64s
    added: Int64s


def in_words(names: Sequence[str]) -> str:
    """The names of attributes in a message, at most three of them."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown(name) for name in names[:3]) + more


def numbered(table: Table) -> tuple[npt.NDArray[np.intp], Int64s]:
    """The first row of each kind, kinds in ascending order of their codes, and the kind of every row."""
    order = np.lexsort(table.columns[::-1])  # stable: the first of equal rows stays the first
    new = np.zeros(table.n, bool)
    new[0] = True
    for column in table.columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    kinds = np.empty(table.n, np.int64)
    kinds[order] = np.cumsum(new) - 1
    return order[new], kinds


def _same(first: npt.NDArray[Any] | None, second: npt.NDArray[Any] | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


def _weights(weights: npt.ArrayLike, size: int) -> Float64s:
    """A checked copy of the caller's weights."""
    if isinstance(weights, np.ma.MaskedArray):
        raise TypeError("weights must not be masked: a row without weight has weight 0")
    try:
        array = np.asarray(weights)
    except (TypeError, ValueError):
        raise ValueError(f"weights ({type(weights).__name__}) must be an array of numbers") from None
    expect("weights", weights, array.dtype.kind in "iuf", "numbers")
    if array.shape != (size,):
        raise ValueError(f"weights (shape {array.shape}) must be one for each of the {size} rows")
    with np.errstate(over="ignore"):  # longer floats may become infinite, and are refused below
        checked = array.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(checked) & (checked >= 0)))
    if len(bad):
        raise ValueError(f"weights (row {bad[0]}) must be finite and not negative")
    if not checked.any():
        raise ValueError("weights (all zero) must have a positive sum")
    return checked


def check_public(name: str, table: Any, *, quote: bool = True) -> None:
    """Refuse what is no table, and a private table."""
    expect(
        name,
        table,
        Table if name == "table" else Records,
        "a Table: Table.from_frame or read_table makes one",
        quote=quote,
    )
    if table.private:
        raise ValueError(f"{name} (a private table) must be public: a support shows its rows")
