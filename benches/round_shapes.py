"""The shapes on which rounds are raced: a support, a private table and a workload, seeded.

`adult` is the papers' ADULT where PRIVMW_DATA has it, else generated: the same sizes, and about as many
values a row that are not the commonest. Where records are generated, the private ones follow a shifted law.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pairs
import real_data
from shapes import ACS_NOISE, ACS_SIZES, ACS_UNCOMMON, SparseModel, acs67, make_table

import privmw as pmw

# The papers' 13 attributes of ADULT, sex to age: their sizes, and how many of a thousand distinct rows differ
# from the commonest value.
ADULT_SIZES = [2, 2, 5, 6, 7, 9, 15, 16, 42, 16, 6, 10, 10]
ADULT_UNCOMMON = [350, 232, 164, 619, 558, 333, 870, 709, 124, 96, 53, 471, 744]
ADULT_ROWS, ADULT_PRIVATE = 4_076, 43_944


class RoundShape(NamedTuple):
    support: pmw.Support
    private: pmw.Table
    workload: pmw.Workload


def adult() -> RoundShape:
    """4,076 distinct rows, 286 three-way marginals of 334,128 cells, 43,944 private records."""
    try:
        everyone = real_data.adult()
    except real_data.NoDataError:
        return adult_generated()
    hidden = pairs.adult_is_private(everyone.n)
    return _shape(everyone.take(~hidden), everyone.take(hidden), pmw.Workload.all(everyone.domain, k=3))


def adult_generated() -> RoundShape:
    shares = [share / 1000 for share in ADULT_UNCOMMON]
    public, private = _shifted(ADULT_SIZES, shares, ADULT_ROWS, ADULT_PRIVATE, seed=13)
    return _shape(public, private, pmw.Workload.all(public.domain, k=3))


def rounds200k(rows: int = 200_000, marginals: int = 500, private: int = 100_000) -> RoundShape:
    """30 attributes of 2 to 10 values, the commonest of each in 50 to 85 % of the rows."""
    rng = np.random.default_rng(200)
    sizes = [2 + a % 9 for a in range(30)]
    public, hidden = _shifted(sizes, rng.uniform(0.15, 0.5, 30).tolist(), rows, private, seed=200)
    return _shape(public, hidden, pmw.Workload.sample(public.domain, k=3, size=marginals, seed=1))


def acs(rows: int = 150_000, private: int = 100_000) -> RoundShape:
    """`acs67` and all of its 47,905 three-way marginals, 5,489,906 cells."""
    public = acs67(rows)
    hidden = _shifted_acs().columns(rows + private)
    return _shape(public, _behind(ACS_SIZES, hidden, rows), pmw.Workload.all(public.domain, k=3))


def acs_real() -> RoundShape:
    """The same marginals of the survey's records: Hawaii in 2018 is private, all other files are public."""
    public = real_data.acs("acs67", [file for file in real_data.acs_files() if file != pairs.HI_18])
    return _shape(public, real_data.acs("acs67", [pairs.HI_18]), pmw.Workload.all(public.domain, k=3))


def long(rows: int = 5_000_000, private: int = 100_000, marginals: int = 1_000) -> RoundShape:
    """`acs67` of millions of rows."""
    public = acs67(rows)
    # Only chunks of a table are drawn anew: so long a private table in front would be thrown away.
    hidden = _behind(ACS_SIZES, _shifted_acs().columns(2 * private), private)
    return _shape(public, hidden, pmw.Workload.sample(public.domain, k=3, size=marginals, seed=1))


def _shape(public: pmw.Table, private: pmw.Table, workload: pmw.Workload) -> RoundShape:
    hidden = pmw.Table(zip(private.domain.names, private.columns, strict=True), private.domain, private=True)
    return RoundShape(pmw.Support.from_table(public), hidden, workload)


def _shifted(
    sizes: list[int], uncommon: list[float], rows: int, private: int, seed: int
) -> tuple[pmw.Table, pmw.Table]:
    """Public records with so many distinct rows; private ones with other shares of uncommon values.

    The private records come after the public ones: a model's records depend on their position, whatever the
    shares.
    """
    drawn = 2 * rows
    model = SparseModel(sizes, uncommon, 3.0, seed)
    public = make_table(sizes, model.columns(drawn))
    first = np.sort(np.unique(public.codes(), axis=0, return_index=True)[1])
    if len(first) < rows:
        raise ValueError(f"rows ({rows}) must be distinct among {drawn} records")
    end = int(first[rows - 1]) + 1
    hidden = SparseModel(sizes, _other_shares(uncommon, seed), 3.0, seed).columns(drawn + private)
    return public.take(np.arange(end)), _behind(sizes, hidden, drawn)


def _shifted_acs() -> SparseModel:
    shares = _other_shares([share / 1000 for share in ACS_UNCOMMON], 67)
    return SparseModel(ACS_SIZES, shares, ACS_NOISE, seed=67)


def _other_shares(uncommon: list[float], seed: int) -> list[float]:
    shift = np.random.default_rng([seed, 4]).uniform(-0.4, 0.4, len(uncommon))
    return [min(share * math.exp(by), 0.95) for share, by in zip(uncommon, shift, strict=True)]


def _behind(sizes: list[int], columns: list[np.ndarray], first: int) -> pmw.Table:
    return make_table(sizes, [column[first:] for column in columns])
