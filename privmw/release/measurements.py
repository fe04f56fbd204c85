"""Measurements: cells, their noisy counts and the noise they carry. All of it is released.

The curator returns them, models are updated with them, releases keep them, and other fits may start from
them. A cell is a number; this module knows neither tables nor mechanisms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from privmw.accounting.noise import MEASURED, NoiseDistribution
from privmw.kernels.arrays import Float64s, Int64s, freeze, is_frozen
from privmw.kernels.checks import check_integer
from privmw.secrecy import expect, shown


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Measurement:
    """One call of `Curator.measure`: cells of a workload, their noisy counts, and the noise these carry.

    noise: the distribution, "discrete-gaussian" or "discrete-laplace"; scale: its sigma or Laplace scale, in
    counts. round: 0 for a first shot before the rounds.

    >>> Measurement([7, 3], [120, -2], noise="discrete-gaussian", scale=2.5, round=1)
    Measurement(2 cells, discrete-gaussian of scale 2.5, round 1)
    """

    _public_repr: ClassVar[bool] = True

    cells: Int64s
    noisy_counts: Int64s
    noise: str
    scale: float
    round: int

    def __post_init__(self) -> None:
        """Check what every curator ensures."""
        cells = _integers("cells", self.cells)
        counts = _integers("noisy_counts", self.noisy_counts)
        if len(counts) != len(cells):
            raise ValueError(f"noisy_counts ({len(counts)}) must be as many as cells ({len(cells)})")
        if len(cells) and int(cells.min()) < 0:
            raise ValueError("cells must not be negative")
        if not (np.diff(cells) > 0).all() and len(np.unique(cells)) < len(cells):
            raise ValueError("cells must be distinct: measuring a cell again is another measurement")
        if not isinstance(self.noise, str) or self.noise not in MEASURED:
            raise ValueError(f"noise ({shown(self.noise)}) must be one of {', '.join(MEASURED)}")
        noise = NoiseDistribution(MEASURED[self.noise], self.scale)
        values = (cells, counts, noise.name, noise.scale, check_integer("round", self.round, 0))
        for name, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    @property
    def distribution(self) -> NoiseDistribution:
        """The noise distribution."""
        return NoiseDistribution(MEASURED[self.noise], self.scale)

    @property
    def variance(self) -> float:
        """The variance of one noisy count.

        >>> round(Measurement([7], [120], "discrete-laplace", scale=2, round=1).variance, 6)
        7.835396
        """
        return self.distribution.variance

    def __len__(self) -> int:
        return len(self.cells)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Measurement):
            return NotImplemented
        if (self.noise, self.scale, self.round) != (other.noise, other.scale, other.round):
            return False
        return np.array_equal(self.cells, other.cells) and np.array_equal(
            self.noisy_counts, other.noisy_counts
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return Measurement, (self.cells, self.noisy_counts, self.noise, self.scale, self.round)

    def __repr__(self) -> str:
        cells = f"{len(self)} cell{'s' * (len(self) != 1)}"
        return f"Measurement({cells}, {self.noise} of scale {self.scale:g}, round {self.round})"


class Combined(NamedTuple):
    """Averaged measurements: distinct cells, ascending, with answers (fractions) and variances."""

    cells: Int64s
    answers: Float64s
    variances: Float64s


def combine(measurements: Iterable[Measurement], n: int) -> Combined:
    """Average the measurements of each cell, weighted by inverse variance (the least-variance unbiased mean).

    Answers are fractions of n records and may be negative.

    >>> first = Measurement([7, 3], [120, -2], "discrete-gaussian", scale=2, round=1)
    >>> again = Measurement([7], [125], "discrete-gaussian", scale=1, round=2)
    >>> combine([first, again], n=1000)
    Combined(cells=array([3, 7]), answers=array([-0.002,  0.124]), variances=array([4.e-06, 8.e-07]))
    """
    measurements = tuple(measurements)
    for measurement in measurements:
        expect("measurement", measurement, Measurement, "a Measurement")
    n = check_integer("n", n, 1)
    cells, answers, variances = combine_cells(
        np.concatenate([np.empty(0, np.int64), *(m.cells for m in measurements)]),
        np.concatenate([np.empty(0), *(m.noisy_counts for m in measurements)]),
        np.repeat([m.variance for m in measurements], [len(m) for m in measurements]),
    )
    return Combined(cells, answers / n, variances / float(n) ** 2)


def combine_cells(cells: Int64s, answers: Float64s, variances: Float64s) -> Combined:
    """Average answers by cell, in any unit, weighted by inverse variance.

    >>> combine_cells(np.array([7, 3, 7]), np.array([120.0, -2, 125]), np.array([4.0, 4, 1]))
    Combined(cells=array([3, 7]), answers=array([ -2., 124.]), variances=array([4. , 0.8]))
    """
    if (cells[1:] > cells[:-1]).all():  # each once
        return Combined(cells, answers, variances)
    order = np.argsort(cells, kind="stable")
    cells, answers, variances = cells[order], answers[order], variances[order]
    first = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
    # Relative to the cell's smallest variance no weight overflows, and a single measurement has weight 1.
    least = np.minimum.reduceat(variances, first)
    shares = np.repeat(least, np.diff(np.append(first, len(cells)))) / variances
    total = np.add.reduceat(shares, first)
    return Combined(cells[first], np.add.reduceat(shares * answers, first) / total, least / total)


def _integers(name: str, values: npt.ArrayLike) -> Int64s:
    array = np.asarray(values)
    whole = array.ndim == 1 and (not len(array) or array.dtype.kind in "iu")
    expect(name, array, whole, "a 1-D array of integers")
    if array.dtype.kind == "u" and len(array) and int(array.max()) >= 2**63:
        raise ValueError(f"{name} ({shown(array)}) must fit in int64")
    return array if array.dtype == np.int64 and is_frozen(array) else freeze(array.astype(np.int64))
