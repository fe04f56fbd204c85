"""Checks whether the public table contains the private records by mistake: an input check, no release.

It looks at private records outside any budget, so its result is only for the person who runs the program,
like the refusal of a bad value in a private file: True or False, and no figure. Nothing is stored; the hashes
of private records are erased.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.data.records import Records
from privmw.data.row_hash import Hashes, row_hashes
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.ranks import Communicator, on_every_rank, sum_over_ranks
from privmw.secrecy import erasing, sealed

Int64s: TypeAlias = npt.NDArray[np.int64]
Erased: TypeAlias = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]]

MOST_EXCESS = 0.25  # as a fraction of the public records; equal tables have 0.5
MOST_RATIO = 4  # of rows with one record in each table, over what independent samples have
FEWEST_RECORDS, FEWEST_DISTINCT_ROWS = (
    20,
    5,
)  # records and distinct rows of tables that are not equal by chance
DEVIATIONS = 6  # standard deviations beyond which chance is no explanation


@sealed
def shares_records(private: Records | None, support: Support) -> bool:
    """Whether many of the public records are records of the private table; False on ranks other than 0.

    A collective call by all ranks of the support; rank 0 has the private table, or each rank its part of it.
    Records are compared by their codes, by their raw values in the domain's columns, and by those in all
    columns that both tables have, as far as these are known (privmw/io/traces.py). Equal records alone prove
    nothing, since two samples of one population share many. A row is a set of equal records; each of these
    signs is sufficient:

    1. The tables have the same rows, equally often.
    2. Too many public records are found among m private ones, m at most half of the N public records. A
       record of a row with p copies in the private table is found there with probability 1 - (1 - m / n)^p,
       and one with c copies among m of the other public ones with 1 - (1 - m / (N - 1))^(c - 1), about. For
       samples of one population the expected shares are equal; for one table they differ by half of what is
       unique. The share of private records that are found among m other private ones must be exceeded as
       well: a private table of a narrow group has more copies of that group's rows.
    3. Too many rows have exactly one public and one private record. For samples of one population each is as
       likely as a second private record in its row, so that they are about N / n times the private records in
       rows of two (Good and Turing's argument); for samples of any two, at most 2 sqrt(A B), of A private and
       B public rows of two (Cauchy and Schwarz's). It finds a small part of a large table.

    >>> from privmw import Domain, Table
    >>> codes, domain = [[age, age % 2] for age in range(60)], Domain({"age": 60, "sex": 2})
    >>> private = Table.from_codes(codes, domain, private=True)
    >>> shares_records(private, Support.from_table(Table.from_codes(codes[::-1], domain, private=False)))
    True
    >>> shares_records(private, Support.from_table(Table.from_codes([[0, 1]] * 60, domain, private=False)))
    False
    """
    found = False
    for public in _public_records(support):
        views = _views(private, public, support.comm)
        public_hashes = [support.comm.gather(_hashes(public.table, view)) for view in views]
        counts = support.comm.gather(public.counts)
        with erasing() as erased:
            parts = on_every_rank(support.comm, partial(_private_hashes, private, views, erased))
            for mine, ours in zip(parts, public_hashes, strict=True):
                gathered = [erased(part) for part in support.comm.gather(mine) or ()]
                if ours is not None and counts is not None:
                    whole = erased(np.concatenate(gathered))
                    found |= _overlap_of_hashes(whole, np.concatenate(ours), np.concatenate(counts))
    return found


class _Public(NamedTuple):
    """Public records of this rank: a table of records, or of distinct rows with their multiplicities."""

    table: Table | None
    counts: Int64s
    missing: tuple[str, ...] = ()  # attributes that the table lacks


class _View(NamedTuple):
    """The parts of a record that are compared: codes of attributes, and traces of columns."""

    codes: tuple[str, ...]
    traces: tuple[str, ...]


def _public_records(support: Support) -> Iterator[_Public]:
    """The samples of the public tables, and the distinct rows if a sample lacks records of its table."""
    seen = 0
    thinned = support.samples is None
    for sample in support.samples or ():
        n = 0 if sample.table is None else sample.table.n
        yield _Public(sample.table, np.ones(n, np.int64))
        records = sum_over_ranks(support.comm, sample.records)
        thinned |= sum_over_ranks(support.comm, n) < records
        seen += records
    if thinned and (support.samples is None or support.records == seen):
        rows = support.counts > 0
        table = support.table.take(rows) if rows.any() else None
        yield _Public(table, support.counts[rows], support.missing)


def _views(private: Records | None, public: _Public, comm: Communicator) -> list[_View]:
    """The views that all ranks can compare: the codes, then more and more of the raw values."""
    tables = [each for each in (private, public.table) if each is not None]
    traced = on_every_rank(comm, lambda: [frozenset(table.trace_names) for table in tables])
    own = None if private is None else (private.domain.names, tuple(sorted(traced[0])))
    domain, names = comm.broadcast(own or ((), ()))
    lacking = (
        () if public.table is None else (*set(domain).difference(public.table.domain.names), *public.missing)
    )
    lacks = [name in lacking for name in domain] + [
        any(name not in held for held in traced) for name in names
    ]
    on_ranks = np.array(lacks, np.int64)
    comm.allreduce(on_ranks)
    codes = tuple(name for name, lack in zip(domain, on_ranks, strict=False) if not lack)
    traces = tuple(name for name, lack in zip(names, on_ranks[len(domain) :], strict=True) if not lack)
    inside = tuple(name for name in traces if name in codes)
    views = dict.fromkeys(_View(codes, some) for some in ((), inside, traces))
    return [view for view in views if view.codes or view.traces]


def _hashes(table: Table | None, view: _View) -> Int64s:
    """A hash of each record's parts in the view."""
    if table is None:
        return np.zeros(0, np.int64)
    codes = [table.column(name) for name in view.codes]
    return row_hashes([*codes, *(table.traces[name] for name in view.traces)]).view(np.int64)


def _private_hashes(private: Records | None, views: Sequence[_View], erased: Erased) -> list[Int64s]:
    """The hashes of this rank's private records in each view, in one pass."""
    parts: list[list[Int64s]] = [[] for _ in views]
    traced = any(view.traces for view in views)
    batches = () if private is None else private.batches_with_traces() if traced else private.batches()
    for batch in batches:
        for part, view in zip(parts, views, strict=True):
            part.append(erased(_hashes(batch, view)))
    none = np.zeros(0, np.int64)
    return [erased(np.concatenate([none, *part])) for part in parts]


def _overlap_of_hashes(private_hashes: Int64s, public_hashes: Int64s, counts: Int64s) -> bool:
    """True if records are shared, by the hashes of private records (sorted in place) and of public rows."""
    if len(private_hashes) == 0 or len(public_hashes) == 0:
        return False
    public, first = np.unique(public_hashes.view(np.uint64), return_inverse=True)
    counts = np.bincount(first, counts).astype(np.int64)
    hashes = private_hashes.view(np.uint64)
    hashes.sort()
    with erasing() as erased:
        rows, copies = _copies(hashes)
        erased(rows)
        erased(copies)
        places = np.minimum(np.searchsorted(rows, public), len(rows) - 1)
        in_private = np.take(copies, places, out=erased(np.empty(len(places), np.int64)))
        nearest = np.take(rows, places, out=erased(np.empty(len(places), np.uint64)))
        in_private[erased(nearest != public)] = 0
        return _overlap_of_copies(in_private, counts, copies)


def _copies(ordered: Hashes) -> tuple[Hashes, Int64s]:
    """The distinct values of sorted hashes, and how often each occurs."""
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[first], np.diff(np.append(first, len(ordered)))


def _overlap_of_copies(in_private: Int64s, counts: Int64s, copies: Int64s) -> bool:
    """True if records are shared. in_private: the copies of each public row in the private table.

    counts: its copies in the public table. copies: those of every private row in the private table.
    """
    n, public_n = int(copies.sum()), int(counts.sum())
    same = n == public_n and len(copies) == len(counts) and np.array_equal(in_private, counts)
    if same and n >= FEWEST_RECORDS and len(copies) >= FEWEST_DISTINCT_ROWS:
        return True
    counts = counts // np.gcd.reduce(counts)  # a public table that was concatenated with itself counts once
    return _excess_shared(in_private, counts, copies) or _excess_unique(in_private, counts, copies)


def _excess_shared(in_private: Int64s, counts: Int64s, copies: Int64s) -> bool:
    """True if more public records occur in the private table than two halves of either table share."""
    n, public_n = int(copies.sum()), int(counts.sum())
    m = min(n - 1, public_n // 2)
    if m < 1:
        return False
    with erasing() as erased:
        not_public = (1 - m / (public_n - 1)) ** (counts - 1)
        not_private = np.power(1 - m / n, in_private, out=erased(np.empty(len(in_private))))
        others = np.subtract(copies, 1, out=erased(np.empty(len(copies), np.int64)))
        alone = np.power(1 - m / (n - 1), others, out=erased(np.empty(len(copies))))
        private_in_private = 1 - float(copies @ alone) / n
        explained = max(1 - float(counts @ not_public) / public_n, private_in_private)
        excess = 1 - float(counts @ not_private) / public_n - explained
        # Each row's surplus has mean 0 for independent samples, and rows are about independent.
        surplus = np.subtract(not_public, not_private, out=not_private)
        surplus *= counts
        deviation = float(np.linalg.norm(surplus)) / public_n
        return excess > max(MOST_EXCESS * (1 - explained), DEVIATIONS * deviation)


def _excess_unique(in_private: Int64s, counts: Int64s, copies: Int64s) -> bool:
    """True if more rows occur once in both tables than the rows that occur twice in one explain."""
    with erasing() as erased:
        matches = int(np.count_nonzero(erased((in_private == 1) & (counts == 1))))
        pairs = int(np.count_nonzero(erased(copies == 2)))
    public_pairs = int(np.count_nonzero(counts == 2))
    # Few pairs are a rough estimate, which the ratio of the tables multiplies: take the most they may mean.
    likely = pairs + DEVIATIONS * math.sqrt(pairs) + DEVIATIONS**2 / 2
    one_population = MOST_RATIO * int(counts.sum()) / int(copies.sum()) * 2 * likely
    # Rows with expected counts p and q: sum of pq exp(-p - q), squared, is at most the product of the sums of
    # p^2 exp(-p) and q^2 exp(-q), which the pairs estimate.
    two_populations = 2 * math.sqrt(_upper_bound(pairs) * _upper_bound(public_pairs))
    most = max(one_population, two_populations)
    return matches > most + DEVIATIONS * math.sqrt(most) + DEVIATIONS**2


def _upper_bound(pairs: int) -> float:
    """An upper bound of the expected number of pairs, given their number."""
    return pairs + DEVIATIONS / 2 * math.sqrt(pairs) + DEVIATIONS
