"""Makes supports: from public tables, from a whole domain, without a public table, and wider ones.

`Support.from_table`, `from_tables`, `full`, `without_public` and `widened` document what these functions do.
Public rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.data.blocks import checked_block_weights
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain, check_domain
from privmw.data.memory import available_memory
from privmw.data.records import Records
from privmw.data.support import Support, check_public, numbered
from privmw.data.table import Table
from privmw.kernels.arrays import freeze
from privmw.kernels.checks import check_integer, check_number
from privmw.random import sampling_stream
from privmw.secrecy import expect, shown

SAMPLE_SIZE = 2**18  # at most


class Sample(NamedTuple):
    """Public records, and the number that they were sampled from; no table if a rank has no records."""

    table: Table | None
    records: int


class Sampler:
    """Samples every k-th record of the tables that are added; k is the smallest that SAMPLE_SIZE allows.

    >>> from privmw import Domain
    >>> table = Table.from_codes([[0], [1], [2]], Domain({"age": 3}), private=False)
    >>> sampler = Sampler(most=4)
    >>> for _ in range(3):
    ...     sampler.add(table)
    >>> sampler.sample().table.codes().ravel().tolist(), sampler.sample().records
    ([0, 1, 2], 9)
    """

    def __init__(self, most: int = SAMPLE_SIZE) -> None:
        self._most = most
        self._step = 1
        self._seen = 0
        self._parts: list[Table] = []

    def add(self, table: Table) -> None:
        """Add the next records."""
        step = self._step
        while -(-(self._seen + table.n) // self._step) > self._most:
            self._step *= 2
        if self._step > step and self._parts:  # the sample so far: records 0, step, 2 * step, ...
            joined = Table.concatenate(self._parts)
            self._parts = [joined.take(np.arange(0, joined.n, self._step // step))]
        rows = np.arange(-self._seen % self._step, table.n, self._step)
        if len(rows):
            self._parts.append(table if len(rows) == table.n else table.take(rows))
        self._seen += table.n

    def sample(self) -> Sample:
        """The sample of all records that were added."""
        if len(self._parts) > 1:
            self._parts = [Table.concatenate(self._parts)]
        return Sample(self._parts[0] if self._parts else None, self._seen)


LARGEST_FULL = 2**28  # rows of Support.full, however much memory there is
PENDING = 2**20  # rows of batches to read before they are merged; more if the support has more rows


def from_table(public: Records, constraints: Constraints | None, domain: Domain | None) -> Support:
    """The distinct rows of a public table: see `Support.from_table`."""
    check_public("public", public)
    if public.comm.size > 1:
        raise ValueError(f"public ({shown(public)}) must lie on one rank: use ShardedSupport.from_table")
    domain = public.domain if domain is None else domain
    _check_columns(public.domain, domain)
    _check_constraints(constraints, domain)
    support: Support | None = None
    pending: list[Table] = []
    sampler = Sampler()
    for batch in public.batches_with_traces():
        sampler.add(batch)
        pending.append(batch)
        if sum(table.n for table in pending) >= max(PENDING, support.size if support else 0):
            support = _merge(support, pending)
    if pending or support is None:
        support = _merge(support, pending)
    return restrict(_spread(_sampled(support, (sampler.sample(),)), domain), constraints)


def from_tables(
    tables: Sequence[Records | Support], constraints: Constraints | None, weights: Sequence[float] | None
) -> Support:
    """The distinct rows of several public tables: see `Support.from_tables`."""
    listed = isinstance(tables, Sequence) and not isinstance(tables, str | Records | Support)
    expect("tables", tables, listed, "a list of public tables")
    if not tables:
        raise ValueError("tables (none) must be at least one")
    for place, table in enumerate(tables):
        if not isinstance(table, Support):
            check_public(f"tables[{place}]", table, quote=False)
        elif table.blocks is not None or table.comm.size > 1 or table.missing or not table.records:
            raise ValueError(
                f"tables[{place}] ({shown(table)}) must be of one table, with every attribute, on one rank"
            )
        if table.domain != tables[0].domain:
            raise ValueError(f"tables[{place}] ({shown(table)}) must be on the domain of the first table")
    if weights is not None and len(weights) != len(tables):
        raise ValueError(f"weights ({len(weights)}) must be as many as tables ({len(tables)})")
    supports = [
        restrict(table, constraints) if isinstance(table, Support) else Support.from_table(table, constraints)
        for table in tables
    ]
    if len({support.constraints for support in supports}) > 1:
        raise ValueError("constraints must be given: the supports have different ones")
    return supports[0] if len(supports) == 1 else union(supports, weights)


def without_public(domain: Domain, constraints: Constraints | None) -> Support:
    """A support of no public table: see `Support.without_public`."""
    check_domain(domain)
    _check_constraints(constraints, domain)
    row = Table.from_codes(np.zeros((1, len(domain)), np.uint8), domain, private=False)
    return Support(row, freeze(np.zeros(1, np.int64)), constraints, missing=domain.names, samples=())


def full(domain: Domain, constraints: Constraints | None) -> Support:
    """Every row of a small domain: see `Support.full`."""
    check_domain(domain)
    dtypes = [np.min_scalar_type(attribute.size - 1) for attribute in domain.attributes]
    # Codes and counts stay; a further column and its check are temporary.
    needed = domain.size * (sum(dtype.itemsize for dtype in dtypes) + 8 + 8)
    if domain.size > LARGEST_FULL or needed > available_memory() // 2:
        raise ValueError(
            f"domain ({_readable(domain.size)} rows, about {_readable(needed)} bytes) must have at most "
            f"2^28 rows and fit in half the memory for a full support: use Support.from_table"
        )
    columns = {}
    before, after = 1, domain.size
    for attribute, dtype in zip(domain.attributes, dtypes, strict=True):
        after //= attribute.size
        values = np.repeat(np.arange(attribute.size, dtype=dtype), after)
        columns[attribute.name] = freeze(np.tile(values, before))
        before *= attribute.size
    table = Table(columns, domain, private=False)
    return restrict(Support(table, freeze(np.ones(domain.size, np.int64)), samples=()), constraints)


def widened(support: Support, times: int, share: float, seed: int) -> Support:
    """The support with rows that mix public records: see `Support.widened`."""
    support.check_complete()
    times = check_integer("times", times, 1)
    if not 0 < check_number("share", share) < 1:
        raise ValueError(f"share ({shown(share)}) must be above 0 and below 1")
    rng = sampling_stream(seed)
    support.check_has_records()
    if support.blocks is not None:
        tables = [_block(support, block) for block in range(support.blocks.shape[1])]
        wider = union([widened(table, times, share, seed) for table in tables], support.block_weights)
        return wider.with_rows(support.rows[support.counts == 0]).support if support.grown else wider
    rows = np.repeat(np.flatnonzero(support.counts), times)
    attribute = rng.integers(0, len(support.domain), len(rows))
    records = np.cumsum(support.counts)
    other = np.searchsorted(records, rng.integers(0, records[-1], len(rows)), "right")
    columns = [
        np.concatenate([column, np.where(attribute == a, column[other], column[rows])])
        for a, column in enumerate(support.table.columns)
    ]
    table = support.marked(
        Table(zip(support.domain.names, columns, strict=True), support.domain, private=False)
    )
    if support.constraints is not None:
        table = table.take(support.constraints.mask(table))  # every public row stays
    first, repeats = kernels.distinct_rows(table.columns, support.domain.sizes)
    # Integer counts, `new` for each new record and `factor` for each public one, of which one is 1: the
    # public rows keep their relative frequencies, and the new records have their share.
    public = np.where(first < support.size, support.counts[np.minimum(first, support.size - 1)], 0)
    ratio = (table.n - support.size) * (1 - share) / share / float(records[-1])
    factor, new = max(round(ratio), 1), max(round(1 / ratio), 1) if ratio else 1
    counts = freeze(factor * public + new * (repeats - (first < support.size)))
    return Support(table.take(first), counts, support.constraints, samples=support.samples)


def union(supports: Sequence[Support], weights: npt.ArrayLike | None) -> Support:
    """The rows of several supports, each one block."""
    table = Table.concatenate([support.table for support in supports])
    first, places = numbered(table)
    blocks = np.zeros((len(first), len(supports)), np.int64)
    begin = 0
    for block, support in enumerate(supports):
        blocks[places[begin : begin + support.size], block] = support.counts
        begin += support.size
    equal = np.full(len(supports), 1 / len(supports))
    return Support(
        table.take(first),
        freeze(blocks.sum(axis=1)),
        supports[0].constraints,
        blocks=freeze(blocks),
        block_weights=equal if weights is None else checked_block_weights(weights, len(supports)),
        samples=_all_samples(supports),
    )


def restrict(support: Support, constraints: Constraints | None) -> Support:
    """The rows that keep the constraints, leaving out rules about missing attributes."""
    if constraints is None:
        return support
    _check_constraints(constraints, support.domain)
    applied = constraints.among([name for name in support.domain.names if name not in support.missing])
    mask = applied.mask(support.table)
    if not mask.any():
        complaint = applied.complaint(applied.broken(support.table), support.size)
        raise ValueError(f"constraints must leave a row of the support: {complaint}")
    return Support(
        support.table.take(mask),
        freeze(support.counts[mask]),
        constraints,
        missing=support.missing,
        samples=support.samples,
    )


def _merge(support: Support | None, tables: list[Table]) -> Support:
    """The support of the rows of a support and of further tables; empties the list, to free memory."""
    table = tables[0] if len(tables) == 1 else Table.concatenate(tables)
    tables.clear()
    first, counts = kernels.distinct_rows(table.columns, table.domain.sizes)
    added = Support(table.take(first), freeze(counts))
    del table
    if support is None:
        return added
    both = Table.concatenate([support.table, added.table])
    first, times = kernels.distinct_rows(both.columns, both.domain.sizes)
    # The rows of both parts are distinct and sorted, so the rows of a part keep their order.
    total = np.zeros(len(first), np.int64)
    total[first < support.size] = support.counts
    total[(first >= support.size) | (times == 2)] += added.counts
    return Support(both.take(first), freeze(total))


def _sampled(support: Support, samples: tuple[Sample, ...]) -> Support:
    """The same support of one public table, with samples of its records."""
    return Support(support.table, support.counts, samples=samples)


def _spread(support: Support, domain: Domain) -> Support:
    """The support on a domain with further attributes, which are missing, or in another order."""
    if support.domain == domain:
        return support
    first = np.arange(support.size)
    if [name for name in domain.names if name in support.domain] != list(support.domain.names):
        ordered = support.table.project([name for name in domain.names if name in support.domain])
        first = kernels.distinct_rows(ordered.columns, ordered.domain.sizes)[0].astype(np.intp)
    columns = {
        name: support.table.column(name)[first]
        if name in support.domain
        else np.zeros(support.size, np.uint8)
        for name in domain.names
    }
    missing = [name for name in domain.names if name not in support.domain]
    table = support.marked(Table(columns, domain, private=False))
    return Support(table, freeze(support.counts[first]), missing=missing, samples=support.samples)


def _block(support: Support, block: int) -> Support:
    """The support of one of several tables."""
    assert support.blocks is not None
    counts = support.blocks[:, block]
    samples = None if support.samples is None else support.samples[block : block + 1]  # one per table
    rows = support.table.take(counts > 0)
    return Support(rows, freeze(counts[counts > 0]), support.constraints, samples=samples)


def _all_samples(supports: Sequence[Support]) -> tuple[Sample, ...] | None:
    samples: tuple[Sample, ...] = ()
    for support in supports:
        if support.samples is None:
            return None
        samples += support.samples
    return samples


def _check_columns(public: Domain, domain: Domain) -> None:
    """Refuse a public table with an attribute that the domain has not, or declares otherwise."""
    check_domain(domain)
    for attribute in public.attributes:
        if attribute.name not in domain:
            raise ValueError(f"public: column {shown(attribute.name)} must be an attribute of the domain")
        if attribute != domain[attribute.name]:
            raise ValueError(f"public: column {shown(attribute.name)} must have the values of the domain")


def _readable(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"10^{len(str(number)) - 1}"


def _check_constraints(constraints: Constraints | None, domain: Domain) -> None:
    if constraints is None:
        return
    expect("constraints", constraints, Constraints, "Constraints")
    if constraints.domain != domain:
        raise ValueError(f"constraints ({shown(constraints)}) must be on the domain of the support")
