"""Gives synthetic records the raw values of public records: all values of a record from one public record.

A synthetic record consists of codes; the code of a bin, or of "other", stands for several values. A record
takes the raw values of one public record with the same codes, so that they are consistent. If there is none,
it takes them from a similar public record, which agrees in the attributes with most information about the
values. This module knows public data and the sampling stream. It imports pyarrow: import it late.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from privmw.data.attribute import Attribute
from privmw.data.domain import Domain
from privmw.data.row_hash import row_hashes
from privmw.data.syntax import PLAIN
from privmw.data.table import Table
from privmw.io.encode import Encoder
from privmw.io.files import ABOUT, check_names
from privmw.io.public_source import PublicSource
from privmw.io.tally import kind_of
from privmw.kernels.arrays import Codes, Float64s
from privmw.secrecy import shown

Rows = npt.NDArray[np.int64]  # positions of public records, or NO_ROW

NO_ROW = -1
CANDIDATES = 64  # public records compared with each record
PAIRS_AT_ONCE = 2**21  # pairs of a record and a candidate compared at once
COMPARED = 2**14  # public records used to estimate mutual information


class Donors(NamedTuple):
    """The public record that gives its values to each record of a table; NO_ROW if none has the code.

    rows: one per record. instead: for some attributes, ascending positions of records that take their value
    from another public record, and those records.
    """

    rows: Rows
    instead: Mapping[str, tuple[Rows, Rows]]

    def of(self, name: str, start: int, stop: int) -> Rows:
        """The public records that give an attribute's values to the records from start to stop."""
        rows = self.rows[start:stop]
        if name in self.instead:
            positions, others = self.instead[name]
            first, last = np.searchsorted(positions, [start, stop])
            rows = rows.copy()
            rows[positions[first:last] - start] = others[first:last]
        return rows


def public_values(paths: Sequence[str], domain: Domain) -> Any:
    """An Arrow table of the values of several public files in those columns of a domain that all files have.

    Later draws can use it instead of the files, with the same results: values of text files stay text.
    """
    sources = [PublicSource(path, domain.syntax) for path in paths]
    names = [name for name in domain.names if all(name in source.names for source in sources)]
    columns: dict[str, list[Any]] = {name: [] for name in names}
    texts = len({source.is_text and source.syntax for source in sources}) == 1 and sources[0].is_text
    for source in sources:
        for batch in source.batches(names, raw=texts):
            for name, array in batch.items():
                columns[name].append(array)
    mark = {ABOUT: json.dumps({"texts": True})} if texts else None
    return pa.table({name: _combined([arrays]) for name, arrays in columns.items()}, metadata=mark)


class PublicRecords:
    """The codes of public records, and the raw values of attributes that have bins or "other".

    Several sources are combined, with the attributes that all of them have.

    >>> from privmw.io.public_source import PublicSource
    >>> domain = Domain({"sex": ["F", "M"], "age": {"edges": [0, 18, 65]}, "wage": {"edges": [0, 1, 100]}})
    >>> source = PublicSource(pa.table({"sex": ["F", "M"], "age": [5, 40], "wage": [0, 70]}))
    >>> public = PublicRecords([source], domain)
    >>> table = Table.from_codes([[1, 1, 1], [0, 1, 1], [0, 0, 0]], domain, private=False)
    >>> public.donors(table, np.random.default_rng(0)).rows.tolist()
    [1, 1, 0]
    """

    def __init__(self, sources: Sequence[PublicSource], domain: Domain) -> None:
        self.domain = domain
        varied = [a.name for a in domain.attributes if a.edges or a.other is not None]
        for source in sources:
            names = [name for name in domain.names if name in source.names]
            if not names and any(a.edges for a in domain.attributes):
                raise ValueError(f"{source.where} must have a column such as {shown(domain.names[0])}")
            check_names(source.where, source.names, names, private=False)
        names = [name for name in domain.names if all(name in source.names for source in sources)]
        parts = [_read(source, [domain[name] for name in names], varied) for source in sources]
        shared = [name for name in names if all(name in codes for codes, _ in parts)]
        self.codes = {name: np.concatenate([codes[name] for codes, _ in parts]) for name in shared}
        combined = {n: _combined([values[n] for _, values in parts]) for n in varied if n in self.codes}
        self.values = {name: values for name, values in combined.items() if not pa.types.is_null(values.type)}
        self.n = len(next(iter(self.codes.values()), ()))

    def donors(self, table: Table, rng: np.random.Generator) -> Donors:
        """For each record a random public record with the same codes, or else a similar one."""
        columns = {name: table.column(name) for name in self.codes}
        if not self.values or not self.n:
            return Donors(np.full(table.n, NO_ROW), {})
        rows = self._alike(columns, table.n, rng)
        rest = np.flatnonzero(rows == NO_ROW)
        instead: dict[str, tuple[Rows, Rows]] = {}
        if len(rest):
            apart = {name: column[rest] for name, column in columns.items()}
            tells = self._mutual_information()
            nearest = self._near(apart, list(self.values), np.sum(list(tells.values()), axis=0), rng)
            rows[rest] = nearest
            for name in self.values:
                wrong = np.flatnonzero(self.codes[name][nearest] != apart[name])
                if len(wrong):
                    part = {other: column[wrong] for other, column in apart.items()}
                    others = self._near(part, [name], tells[name], rng)
                    others[self.codes[name][others] != part[name]] = NO_ROW
                    instead[name] = rest[wrong], others
        return Donors(rows, instead)

    def _alike(self, columns: Mapping[str, Codes], n: int, rng: np.random.Generator) -> Rows:
        """A random public record with the same codes for each record; NO_ROW if there is none."""
        hashes = row_hashes(list(self.codes.values()))
        order = np.argsort(hashes, kind="stable")
        different, starts, counts = np.unique(hashes[order], return_index=True, return_counts=True)
        wanted = row_hashes(list(columns.values()))
        groups = np.minimum(np.searchsorted(different, wanted), len(different) - 1)
        rows: Rows = order[starts[groups] + (rng.random(n) * counts[groups]).astype(np.int64)]
        same = different[groups] == wanted
        for name, column in columns.items():  # rows with the same hash may differ
            same &= self.codes[name][rows] == column
        rows[~same] = NO_ROW
        return rows

    def _near(
        self, columns: Mapping[str, Codes], first: Sequence[str], tells: Float64s, rng: np.random.Generator
    ) -> Rows:
        """For each record the nearest of some public records that agree in the most informative attributes.

        Candidates are narrowed attribute by attribute: the attributes `first`, while any candidate agrees,
        then the others by mutual information, while at least CANDIDATES agree.
        """
        names = list(self.codes)
        weight = dict(zip(names, tells.tolist(), strict=True))
        order = sorted(names, key=lambda name: (name not in first, -weight[name]))
        nearest = np.full(len(columns[names[0]]), NO_ROW)
        here = np.arange(len(nearest))  # the records whose candidates are still narrowed
        groups = np.zeros(len(nearest), np.int64)
        public = np.zeros(self.n, np.int64)
        counts = np.array([self.n])
        for place, name in enumerate([*order, None]):
            following = np.zeros(len(here), bool)
            if name is not None:
                radix = self.domain[name].size + 1
                keys, refined = np.unique(public * radix + self.codes[name], return_inverse=True)
                sizes = np.bincount(refined)
                wanted = groups * radix + columns[name][here]
                next_groups = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
                least = 1 if place < len(first) else CANDIDATES
                following = (keys[next_groups] == wanted) & (sizes[next_groups] >= least)
            if not following.all():
                members = np.argsort(public, kind="stable")
                starts = np.cumsum(counts) - counts
                stop = here[~following]
                group = groups[~following]
                for begin in range(0, len(stop), PAIRS_AT_ONCE // CANDIDATES):
                    part = slice(begin, begin + PAIRS_AT_ONCE // CANDIDATES)
                    candidates = _some(members, starts[group[part]], counts[group[part]], rng)
                    nearest[stop[part]] = self._nearest(columns, stop[part], candidates, weight)
            if not following.any():
                break
            here, groups = here[following], next_groups[following]
            public, counts = refined.ravel(), sizes
        return nearest

    def _nearest(
        self, columns: Mapping[str, Codes], records: Rows, candidates: Rows, weight: Mapping[str, float]
    ) -> Rows:
        """Each record's candidate that agrees in the most informative attributes."""
        agreeing = np.zeros(candidates.shape, np.float32)
        for name, column in columns.items():
            if weight[name] > 0:
                same = self.codes[name][candidates] == column[records, None]
                agreeing += same * np.float32(weight[name])
        nearest: Rows = candidates[np.arange(len(records)), agreeing.argmax(axis=1)]
        return nearest

    def _mutual_information(self) -> dict[str, Float64s]:
        """The mutual information, in nats, of each attribute with those that have raw values."""
        step = -(-self.n // COMPARED)
        codes = {name: column[::step].astype(np.int64) for name, column in self.codes.items()}
        alone = {name: _entropy(column) for name, column in codes.items()}
        return {
            name: np.array(
                [
                    alone[name]
                    if other == name
                    else max(
                        alone[name]
                        + alone[other]
                        - _entropy(codes[name] * (self.domain[other].size + 1) + codes[other]),
                        0.0,
                    )
                    for other in codes
                ]
            )
            for name in self.values
        }


def _read(
    source: PublicSource, attributes: Sequence[Attribute], varied: Sequence[str]
) -> tuple[dict[str, Codes], dict[str, list[Any]]]:
    """The codes of a source's records (the size for values outside the domain), and raw values."""
    syntax = source.syntax if source.is_text else PLAIN
    encoders = {a.name: Encoder(a, text=source.is_text, syntax=syntax) for a in attributes}
    codes: dict[str, list[Codes]] = {name: [] for name in encoders}
    values: dict[str, list[Any]] = {name: [] for name in encoders if name in varied}
    for batch in source.batches(list(encoders), raw=True):
        for name, array in batch.items():
            attribute = encoders[name].attribute
            if name in values:
                raw = source.values(name, array)
                if _has_kind(attribute, raw.type):
                    values[name].append(raw)
                else:  # its raw values are not used
                    values[name].append(pa.nulls(len(array)))
            try:
                part = encoders[name].signed_codes(array)
            except TypeError:  # not of the domain's kind: no record has its codes
                part = np.full(len(array), -1)
            part = np.where(part < 0, attribute.size, part)
            codes[name].append(part.astype(np.min_scalar_type(attribute.size)))
    nothing = [np.empty(0, np.uint8)]
    return {name: np.concatenate(parts or nothing) for name, parts in codes.items()}, values


def _has_kind(attribute: Attribute, arrow_type: Any) -> bool:
    """True if a public column has values of the attribute's kind; required for bins."""
    first: object = (attribute.edges or attribute.labels or (0,))[0]
    kinds = ("text",) if isinstance(first, str) else ("whole", "number")
    kinds = kinds if isinstance(first, int | float | str) else ("date",)
    kind = kind_of(arrow_type)
    if attribute.edges and kind not in (*kinds, None if pa.types.is_null(arrow_type) else ""):
        name = shown(attribute.name)
        needed = "dates" if kinds == ("date",) else "numbers"
        raise TypeError(f"public column {name} ({kind or arrow_type}) must hold {needed}")
    return kind in kinds


def _combined(parts: Sequence[Sequence[Any]]) -> Any:
    """Concatenate the arrays of all sources, with the type of the first that has values."""
    arrays = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        for arrays in parts
        for array in arrays
    ]
    kinds = [array.type for array in arrays if not pa.types.is_null(array.type)]
    kind = next((one for one in kinds if any(one != other for other in kinds)), None)
    if kind is not None and all(kind_of(one) in ("whole", "number") for one in kinds):
        kind = pa.float64()  # integers in one source, numbers in another
    kind = kind or (kinds[0] if kinds else pa.null())
    return pa.concat_arrays([array if array.type == kind else array.cast(kind) for array in arrays])


def _some(members: Rows, starts: Rows, counts: Rows, rng: np.random.Generator) -> Rows:
    """CANDIDATES of each group: all members of a small group, starting at random; else random members."""
    steps = np.arange(CANDIDATES)
    random = rng.random((len(starts), CANDIDATES))
    small = (steps + (random[:, :1] * counts[:, None]).astype(np.int64)) % counts[:, None]
    large = (random * counts[:, None]).astype(np.int64)
    return members[starts[:, None] + np.where(counts[:, None] <= CANDIDATES, small, large)]


def _entropy(codes: npt.NDArray[np.int64]) -> float:
    """The entropy of codes in nats, with the correction of Miller and Madow for small samples."""
    counts = np.unique(codes, return_counts=True)[1]
    shares = counts / len(codes)
    return float(-(shares * np.log(shares)).sum()) + (len(counts) - 1) / (2 * len(codes))
