"""Description of a release's grown rows: their number, their weight, and which of their values are new.

A row of count 0 is not in the public table: a model has grown it. Released weights and public rows only.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privmw.data.coverage import public_rows_in, small_and_large
from privmw.kernels.arrays import Bools

if TYPE_CHECKING:
    from privmw.release.release import Release


@dataclass(frozen=True)
class NewValue:
    """A value (code) that no public row has, and the share of the released records that have it."""

    value: int
    mass: float


@dataclass(frozen=True)
class AttributeGrowth:
    """New values and pairs of one attribute; masses are shares of the released records.

    new_values: values that no public row has, largest mass first. new_value_mass: the mass of records with
    one of them. new_pair_mass: the mass of records whose value forms, with that of another attribute, a pair
    that no public row has; a new value makes new pairs.
    """

    name: str
    new_values: tuple[NewValue, ...]
    new_value_mass: float
    new_pair_mass: float


@dataclass(frozen=True, repr=False)
class Growth:
    """The rows of a release that a model has grown.

    mass: their share of the released records. attributes: in the order of the domain. Pairs of attributes
    with too many cells (privmw.data.coverage.MOST_COVERAGE_CELLS) count as if every pair had a public row.
    """

    public_rows: int
    grown_rows: int
    mass: float
    attributes: tuple[AttributeGrowth, ...]

    @property
    def rows(self) -> int:
        """The number of rows of the release."""
        return self.public_rows + self.grown_rows

    def __repr__(self) -> str:
        return (
            f"Growth({self.public_rows} public rows, {self.grown_rows} grown, "
            f"which carry {self.mass:.1%} of the records)"
        )


def growth_of(release: Release) -> Growth:
    """Describe the grown rows of a release that lies on one rank."""
    support, weights = release.support, release.weights
    grown = support.counts == 0
    mass = weights[grown]
    columns = [column[grown].astype(np.int64) for column in support.table.columns]
    sizes, d = support.domain.sizes, len(support.domain)
    values: list[tuple[NewValue, ...]] = [()] * d
    new_value, new_pair = (np.zeros((d, len(mass)), bool) for _ in range(2))
    pairs = [*((a,) for a in range(d)), *itertools.combinations(range(d), 2)] if grown.any() else []
    for marginal, rows in public_rows_in(support, small_and_large(pairs, sizes)[0]):
        cells = np.ravel_multi_index([columns[a] for a in marginal], [sizes[a] for a in marginal])
        new: Bools = rows[cells] == 0
        if len(marginal) == 1:
            new_value[marginal[0]] = new
            shares = np.bincount(cells[new], mass[new], len(rows))
            order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
            values[marginal[0]] = tuple(NewValue(int(code), float(shares[code])) for code in order)
        else:
            new_pair[list(marginal)] |= new
    return Growth(
        public_rows=int(np.count_nonzero(~grown)),
        grown_rows=int(np.count_nonzero(grown)),
        mass=float(mass.sum()),
        attributes=tuple(
            AttributeGrowth(
                attribute.name, values[a], float(mass[new_value[a]].sum()), float(mass[new_pair[a]].sum())
            )
            for a, attribute in enumerate(support.domain.attributes)
        ),
    )
