"""Whether the public records are private ones, by mistake: a check of the operator's inputs, and no release.

It looks at private records outside any budget, so its verdict is for the person who runs the program, as is
the refusal of a bad value in a private file: a verdict goes out, and no figure. Nothing is stored; the hashes
of private rows are erased.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.data.records import Records
from privmw.data.row_hash import Hashes, row_hashes
from privmw.data.support import Support
from privmw.secrecy import erasing, sealed

Int64s: TypeAlias = npt.NDArray[np.int64]

MOST_EXCESS = 0.25  # of the public records that only a shared origin explains; equal tables have 0.5
MOST_RATIO = 4  # of matches to rows that one private record has, over what independent samples would give
FEWEST, FEWEST_ROWS = 20, 5  # records and distinct rows of tables that are not equal by chance
DEVIATIONS = 6  # by which chance does not reach either


@sealed
def shares_records(private: Records | None, support: Support) -> bool:
    """Whether many of the public records are records of the private table; False on ranks other than 0.

    A collective call: all ranks of the support make it, and rank 0 has the private table. Equal rows are not
    enough, since two samples of one population share many. Three signs are, each beyond what the rows of both
    tables explain:

    1. The tables have the same rows, equally often.
    2. Too many public records are found among m private ones, m at most half of the N public records. A
       record of a row with p copies in the private table is found there with probability 1 - (1 - m / n)^p,
       and one with c copies among m of the other public ones with 1 - (1 - m / (N - 1))^(c - 1), about. For
       samples of one population the expected shares are equal; for one table they differ by half of what is
       unique. The share of private records among m other private ones must be exceeded as well: a private
       table of a narrow group has more copies of that group's rows.
    3. Too many public records match a row that exactly one private record has. For independent samples each
       such match is as likely as a second private record in that row, so that they are about N / n times the
       private records in rows of two (Good and Turing's argument). It finds a small part of a large table.

    >>> from privmw import Domain, Table
    >>> codes, domain = [[age, age % 2] for age in range(60)], Domain({"age": 60, "sex": 2})
    >>> private = Table.from_codes(codes, domain, private=True)
    >>> shares_records(private, Support.from_table(Table.from_codes(codes[::-1], domain, private=False)))
    True
    >>> shares_records(private, Support.from_table(Table.from_codes([[0, 1]] * 60, domain, private=False)))
    False
    """
    public = support.counts > 0
    known = [a for a, name in enumerate(support.domain.names) if name not in support.missing]
    if not known:
        return False
    hashes = support.comm.gather(row_hashes([support.table.columns[a][public] for a in known]).view(np.int64))
    counts = support.comm.gather(support.counts[public])
    if hashes is None or counts is None or private is None:
        return False
    public_hashes, public_counts = np.concatenate(hashes).view(np.uint64), np.concatenate(counts)
    if private.n == 0 or len(public_counts) == 0:
        return False
    with erasing() as erased:
        private_hashes = erased(np.empty(private.n, np.uint64))
        _fill(private_hashes, private, known)
        rows, copies = _copies(private_hashes)
        erased(rows)
        erased(copies)
        places = np.minimum(np.searchsorted(rows, public_hashes), len(rows) - 1)
        found = np.take(copies, places, out=erased(np.empty(len(places), np.int64)))
        nearest = np.take(rows, places, out=erased(np.empty(len(places), np.uint64)))
        found[erased(nearest != public_hashes)] = 0
        return _alike(found, public_counts, copies)


def _fill(hashes: Hashes, private: Records, known: list[int]) -> None:
    """Write a hash of every private row, sorted; known: the attributes that the public rows have."""
    start = 0
    for batch in private.batches():
        part = row_hashes([batch.columns[a] for a in known])
        hashes[start : start + batch.n] = part
        part.fill(0)
        start += batch.n
    hashes.sort()


def _copies(ordered: Hashes) -> tuple[Hashes, Int64s]:
    """The distinct ones of ordered hashes, and how often each occurs."""
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[first], np.diff(np.append(first, len(ordered)))


def _alike(found: Int64s, counts: Int64s, copies: Int64s) -> bool:
    """The verdict, from the copies that each public row has in the private table and in its own.

    copies: of every private row.
    """
    n, public_n = int(copies.sum()), int(counts.sum())
    same = n == public_n and len(copies) == len(counts) and np.array_equal(found, counts)
    if same and n >= FEWEST and len(copies) >= FEWEST_ROWS:
        return True
    return _excess(found, counts, copies) or _singles(found, counts, copies)


def _excess(found: Int64s, counts: Int64s, copies: Int64s) -> bool:
    n, public_n = int(copies.sum()), int(counts.sum())
    m = min(n - 1, public_n // 2)
    if m < 1:
        return False
    with erasing() as erased:
        not_public = (1 - m / (public_n - 1)) ** (counts - 1)
        not_private = np.power(1 - m / n, found, out=erased(np.empty(len(found))))
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


def _singles(found: Int64s, counts: Int64s, copies: Int64s) -> bool:
    with erasing() as erased:
        matches = int(counts @ erased(found == 1))
        pairs = int(np.count_nonzero(erased(copies == 2)))
    # Few pairs are a rough estimate, which the ratio of the tables multiplies: take the most they may mean.
    likely = pairs + DEVIATIONS * math.sqrt(pairs) + DEVIATIONS**2 / 2
    most = MOST_RATIO * int(counts.sum()) / int(copies.sum()) * 2 * likely
    return matches > most + DEVIATIONS * math.sqrt(most) + DEVIATIONS**2
