"""Goodness of fit by attribute: which attribute and which value a misfit comes from.

A fully measured marginal gives a noisy share of each value of its attributes, by summing its cells. The
marginals that contain the attribute are averaged by inverse variance. This shows a misfit that is spread over
many cells, each within the noise. Released values only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.release.chance import WITHIN, chance_beyond, outside

SHOWN_VALUES = 20  # of an attribute: those with the largest gaps
GATHERED_CELLS = 2**20  # per step, to bound memory


@dataclass(frozen=True)
class ValueGap:
    """The noisy and the released share of the records with a value (a code).

    chance: an upper bound on the p-value of the gap; reached: True if a row of the support has the value.
    """

    attribute: str
    value: int
    noisy: float
    released: float
    deviation: float
    z: float
    chance: float
    reached: bool


@dataclass(frozen=True)
class AttributeAgreement:
    """Agreement of an attribute's values, and of the measured cells of marginals that contain it.

    within, expected: observed and expected shares of these cells within 1, 2 and 3 deviations. tested: the
    number of values with a noisy share; values: those with the largest gaps.
    """

    name: str
    cells: int
    within: tuple[float, float, float]
    expected: tuple[float, float, float]
    tested: int
    values: tuple[ValueGap, ...]


@dataclass(frozen=True, eq=False)
class ComparedCells:
    """Noisy and fitted answers of measured cells, in one unit; deviations: of the noise.

    cells: their numbers, ascending. heavy_tailed: True where a cell has Laplace noise. several: True where a
    cell is the mean of several noisy counts (default: nowhere). reached: True where some row of the support
    lies in the cell (default: everywhere).
    """

    cells: Int64s
    noisy: Float64s
    fitted: Float64s
    deviations: Float64s
    heavy_tailed: Bools
    several: Bools | None = None
    reached: Bools | None = None


def compare_by_attribute(
    measured: Workload, compared: ComparedCells, n: float
) -> tuple[AttributeAgreement, ...]:
    """Compare by attribute; answers: fractions of n."""
    cells, noisy, released = compared.cells, compared.noisy, compared.fitted
    heavy_tailed, variances = compared.heavy_tailed, np.square(compared.deviations)
    reached = np.ones(len(cells), bool) if compared.reached is None else compared.reached
    within = _within(measured, cells, (released - noisy) / np.sqrt(variances))
    by_noise = _within(measured, cells[heavy_tailed], np.full(int(heavy_tailed.sum()), np.inf))[:, 0]
    marginals = measured.marginal_of(cells)
    whole, counts = np.unique(marginals, return_counts=True)
    whole = whole[counts == np.diff(measured.offsets)[whole]]
    of_whole = np.isin(marginals, whole)
    columns = [column[of_whole] for column in (noisy, released, variances, heavy_tailed, reached)]
    shares = _shares_of_values(measured.select(whole), columns)
    attributes = []
    for a, attribute in enumerate(measured.domain.attributes):
        total = int(within[a, 0])
        if total == 0:
            continue
        alone = by_noise[a] / total
        expected = [
            1 - alone * outside(k, heavy_tailed=True) - (1 - alone) * outside(k, heavy_tailed=False)
            for k in WITHIN
        ]
        values = _Shares(*(column[shares.attribute == a] for column in shares))
        near = (within[a, 1:] / total).tolist()
        attributes.append(
            AttributeAgreement(
                attribute.name,
                total,
                (near[0], near[1], near[2]),
                (expected[0], expected[1], expected[2]),
                len(values.value),
                _gaps(attribute.name, values, n),
            )
        )
    return tuple(attributes)


def _within(measured: Workload, cells: Int64s, z: Float64s) -> Int64s:
    """Count, for each attribute, the cells that have it, and those within 1, 2 and 3 deviations."""
    found = np.zeros((len(measured.domain), 1 + len(WITHIN)), np.int64)
    for begin in range(0, len(cells), GATHERED_CELLS):
        part = slice(begin, begin + GATHERED_CELLS)
        queries = measured.queries(cells[part])
        far = np.repeat(np.abs(z[part]), np.diff(queries.starts))
        for place, most in enumerate((np.inf, *WITHIN)):
            found[:, place] += np.bincount(queries.attributes[far <= most], minlength=len(found))
    return found


class _Shares(NamedTuple):
    """One entry per value with a noisy share."""

    attribute: Int64s
    value: Int64s
    noisy: Float64s
    released: Float64s
    variances: Float64s
    heavy_tailed: Bools
    reached: Bools


def _shares_of_values(whole: Workload, columns: Sequence[Float64s | Bools]) -> _Shares:
    """Sum the cells with each value, marginal by marginal, and average the marginals.

    columns: for each cell noisy, released, variance, heavy_tailed and reached.
    """
    sizes = np.array(whole.domain.sizes, np.int64)[whole.attributes]
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    # One slot per value of each attribute of each marginal: fewer than cells times attributes.
    sums = np.zeros((len(columns), int(first[-1])))
    for begin in range(0, whole.cells, GATHERED_CELLS):
        cells = np.arange(begin, min(begin + GATHERED_CELLS, whole.cells))
        queries = whole.queries(cells)
        orders = np.diff(queries.starts)
        entry = np.arange(len(queries.attributes)) + np.repeat(
            whole.starts[queries.marginals] - queries.starts[:-1], orders
        )
        places = first[entry] + queries.values
        low = int(places.min())
        for total, column in zip(sums, columns, strict=True):
            added = np.bincount(places - low, np.repeat(column[cells], orders))
            total[low : low + len(added)] += added
    attribute = np.repeat(whole.attributes, sizes).astype(np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(whole.domain.sizes)])
    value = starts[attribute] + np.arange(len(attribute)) - np.repeat(first[:-1], sizes)
    keys, place = np.unique(value, return_inverse=True)
    precision = 1 / sums[2]
    together = np.bincount(place, precision, len(keys))
    mean = [np.bincount(place, precision * column, len(keys)) / together for column in sums[:2]]
    some = [np.bincount(place, column, len(keys)) > 0 for column in sums[3:]]
    of = np.searchsorted(starts, keys, "right") - 1
    return _Shares(of, keys - starts[of], mean[0], mean[1], 1 / together, some[0], some[1])


def _gaps(name: str, shares: _Shares, n: float) -> tuple[ValueGap, ...]:
    """The values with the largest gaps."""
    gaps, deviations = shares.released - shares.noisy, np.sqrt(shares.variances)
    chances = chance_beyond(gaps * n, shares.variances * n**2, shares.heavy_tailed)
    z = gaps / deviations
    farthest = np.argsort(-np.abs(z), kind="stable")[:SHOWN_VALUES]
    columns = (shares.value, shares.noisy, shares.released, deviations, z, chances, shares.reached)
    rows = zip(*(column[farthest].tolist() for column in columns), strict=True)
    return tuple(ValueGap(name, *row) for row in rows)
