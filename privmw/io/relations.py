"""Draws records that keep the relations of constraints: an order, equality or sum of their values.

A record whose values break a relation takes the values of all attributes in relations from one public record
that keeps them and has the same codes there; if there is none, its values move inside their bins; if no value
there does, another record takes its place. Public and synthetic values only. This module imports pyarrow:
import it late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privmw.data.constraints.relation import Relation
from privmw.data.row_hash import row_hashes
from privmw.data.table import Table
from privmw.io.decode import Decoder
from privmw.io.public_records import NO_ROW, Donors, PublicRecords, Rows
from privmw.io.tally import EPOCH_DAY, numbers_of
from privmw.kernels.arrays import Bools, Codes, Float64s

REPAIRS = 3  # passes over the relations, as a value that moves may break another one


class Column(NamedTuple):
    """The values of an attribute for all records, an Arrow array, and their public records, or NO_ROW."""

    values: Any
    rows: Rows


class Kept(NamedTuple):
    """Records that keep all relations: the table, its donors, and the columns in relations."""

    table: Table
    donors: Donors | None
    columns: Mapping[str, Column]


def keep_relations(
    table: Table,
    decoders: Sequence[Decoder],
    public: PublicRecords | None,
    donors: Donors | None,
    rng: np.random.Generator,
) -> Kept:
    """Draw the values of records again until the table's constraints hold in every record."""
    constraints = table.constraints
    assert constraints is not None
    relations = constraints.relations
    places = sorted({place for one in relations for place in one.positions})
    involved = {place: decoders[place] for place in places}
    columns: dict[int, Column] = {}
    for place, decoder in involved.items():
        rows = np.full(table.n, NO_ROW) if donors is None else donors.of(decoder.attribute.name, 0, table.n)
        values = decoder.values(table.columns[place], None if donors is None else rows)
        columns[place] = Column(values, rows.copy())
    allowed = constraints.mask(table)
    numbers = {place: as_numbers(column.values) for place, column in columns.items()}
    broken = np.flatnonzero(allowed & ~_hold(relations, numbers))
    if len(broken) and public is not None:
        _from_public(table, relations, involved, public, columns, broken, rng)
        numbers = {place: as_numbers(column.values) for place, column in columns.items()}
    for _ in range(REPAIRS):
        broken = np.flatnonzero(allowed & ~_hold(relations, numbers))
        for one in relations if len(broken) else ():
            _move(table, one, columns, numbers, broken)
    good = allowed & _hold(relations, numbers)
    if not good.any():
        raise ValueError("constraints must be kept by a record: none of the records can keep all of them")
    if good.all():
        return Kept(table, donors, {decoders[place].attribute.name: columns[place] for place in places})
    order = np.arange(table.n)
    order[~good] = rng.choice(np.flatnonzero(good), int((~good).sum()))
    kept = {
        decoders[place].attribute.name: Column(column.values.take(pa.array(order)), column.rows[order])
        for place, column in columns.items()
    }
    return Kept(table.take(order), None if donors is None else _reordered(donors, order), kept)


def as_numbers(values: Any) -> Float64s:
    """The numbers of an Arrow array, dates as ordinals, NaN for missing values.

    >>> as_numbers(pa.array([3, None])).tolist()
    [3.0, nan]
    """
    numbers = np.full(len(values), np.nan)
    valid = np.asarray(values.is_valid())
    if valid.any():
        numbers[valid] = numbers_of(values.drop_null())
    return numbers


def _hold(relations: Sequence[Relation], numbers: Mapping[int, Float64s]) -> Bools:
    """Mask of the records that keep every relation; of length 1 without a relation."""
    hold = np.ones(1, bool)
    for one in relations:
        hold = hold & one.holds([numbers[place] for place in one.positions])
    return hold


def _from_public(
    table: Table,
    relations: Sequence[Relation],
    decoders: Mapping[int, Decoder],
    public: PublicRecords,
    columns: dict[int, Column],
    broken: Rows,
    rng: np.random.Generator,
) -> None:
    """Take the values of broken records from public ones that keep the relations and have the same codes."""
    codes: dict[int, Codes] = {}
    for place, decoder in decoders.items():
        if decoder.attribute.name not in public.codes:
            return
        codes[place] = public.codes[decoder.attribute.name]
    inside = np.all([codes[place] < decoders[place].attribute.size for place in codes], axis=0)
    here = np.flatnonzero(inside)
    values = {place: decoders[place].values(codes[place][here], here) for place in codes}
    good = _hold(relations, {place: as_numbers(column) for place, column in values.items()})
    if not good.any():
        return
    hashes = row_hashes([codes[place][here[good]].astype(np.uint32) for place in codes])
    wanted = row_hashes([table.columns[place][broken].astype(np.uint32) for place in codes])
    order = np.argsort(hashes, kind="stable")
    first, last = (np.searchsorted(hashes[order], wanted, side) for side in ("left", "right"))
    found = last > first
    places = first + (rng.random(len(broken)) * (last - first)).astype(np.int64)
    chosen = order[np.minimum(places, len(order) - 1)]
    source = np.flatnonzero(good)[chosen]
    for place in columns:
        found &= codes[place][here[source]] == table.columns[place][broken]  # rows with one hash may differ
    taken = np.zeros(table.n, bool)
    taken[broken[found]] = True
    position = np.zeros(table.n, np.int64)
    position[broken[found]] = source[found]
    for place, column in columns.items():
        new = values[place].take(pa.array(position))
        column.rows[taken] = here[position[taken]]
        columns[place] = Column(pc.if_else(pa.array(taken), new, column.values), column.rows)


def _move(
    table: Table, one: Relation, columns: dict[int, Column], numbers: dict[int, Float64s], broken: Rows
) -> None:
    """Move values of broken records inside their bins, so that a relation holds."""
    *parts, last = one.positions
    wrong = broken[~one.holds([numbers[place][broken] for place in one.positions])]
    total = np.sum([numbers[place][wrong] for place in parts], axis=0)
    _set(table, one, columns, numbers, last, wrong, total - (one.margin if one.kind == "order" else 0))
    wrong = wrong[~one.holds([numbers[place][wrong] for place in one.positions])]
    if len(parts) == 1 and len(wrong):
        _set(table, one, columns, numbers, parts[0], wrong, numbers[last][wrong])


def _set(
    table: Table,
    one: Relation,
    columns: dict[int, Column],
    numbers: dict[int, Float64s],
    place: int,
    records: Rows,
    wanted: Float64s,
) -> None:
    """Give records new values of an attribute, where these lie in the bins of their codes."""
    kind = columns[place].values.type
    days = pa.types.is_date32(kind)
    if not (days or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return
    low, high = (np.array(side) for side in one.bounds[one.positions.index(place)])
    codes = table.columns[place][records]
    fits = (wanted >= low[codes]) & (wanted <= high[codes])
    if not pa.types.is_floating(kind):
        fits &= wanted == np.floor(wanted)
    moved = records[fits]
    numbers[place][moved] = wanted[fits]
    changed = np.zeros(table.n, bool)
    changed[moved] = True
    plain = np.where(changed, numbers[place] - (EPOCH_DAY if days else 0), 0)
    new = pa.array(plain if pa.types.is_floating(kind) else plain.astype(np.int64))
    new = new.cast(pa.int32()).cast(kind) if days else new.cast(kind, safe=False)
    columns[place].rows[changed] = NO_ROW
    columns[place] = Column(pc.if_else(pa.array(changed), new, columns[place].values), columns[place].rows)


def _reordered(donors: Donors, order: Rows) -> Donors:
    """The donors of the records at these positions."""
    rows = donors.rows[order]
    instead = {}
    for name in donors.instead:
        others = donors.of(name, 0, len(donors.rows))[order]
        changed = np.flatnonzero(others != rows)
        instead[name] = changed, others[changed]
    return Donors(rows, instead)
