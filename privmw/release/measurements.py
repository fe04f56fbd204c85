"""Measurements: which cells were counted, what came out and with how much noise. All of it is released.

What the curator returns is kept here beside the noise it carries, for the updates, for a release and for
whoever fits the noisy counts anew. This room knows no table and no mechanism; a cell is a number.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from reprlib import repr as _short
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privmw.kernels.arrays import freeze, is_frozen

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

NOISES = ("discrete-gaussian", "discrete-laplace")  # the kinds of the accounting's events
LARGEST_SCALE = 2.0**62
LEAST_VARIANCE = 1e-100  # noise so small never shows in an integer; its inverse stays a number


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Measurement:
    """One call of `Curator.measure`: cells of a workload, their noisy counts, and the noise these carry.

    noise is "discrete-gaussian" or "discrete-laplace", scale its sigma or its Laplace scale, in counts; round
    says when: 0 is before the first round.

    >>> Measurement([7, 3], [120, -2], noise="discrete-gaussian", scale=2.5, round=1)
    Measurement(2 cells, discrete-gaussian of scale 2.5, round 1)
    """

    cells: Int64s
    noisy_counts: Int64s
    noise: str
    scale: float
    round: int

    def __post_init__(self) -> None:
        """Refuse what no curator returns."""
        cells = _integers("cells", self.cells)
        counts = _integers("noisy_counts", self.noisy_counts)
        if len(counts) != len(cells):
            raise ValueError(f"noisy_counts ({len(counts)}) must be as many as cells ({len(cells)})")
        if len(cells) and int(cells.min()) < 0:
            raise ValueError(f"cells (least: {cells.min()}) must not be negative")
        if len(np.unique(cells)) < len(cells):
            raise ValueError("cells must not repeat one: what is measured anew is another measurement")
        if self.noise not in NOISES:
            raise ValueError(f"noise ({_short(self.noise)}) must be one of {', '.join(NOISES)}")
        kept = (cells, counts, self.noise, _scale(self.scale), _integer("round", self.round, 0))
        for name, value in zip(self.__slots__, kept, strict=True):
            object.__setattr__(self, name, value)

    @property
    def variance(self) -> float:
        """The variance of one noisy count: of discrete Laplace exactly, of discrete Gaussian sigma^2.

        A discrete Gaussian's is a little less than sigma^2, by less than 1e-6 of it from sigma 1 on.

        >>> round(Measurement([7], [120], "discrete-laplace", scale=2, round=1).variance, 6)
        7.835396
        """
        if self.noise == "discrete-gaussian":
            return max(self.scale**2, LEAST_VARIANCE)
        # 2 p / (1 - p)^2 with p = exp(-1 / scale)
        exponent = -1 / self.scale
        return max(2 * math.exp(exponent) / math.expm1(exponent) ** 2, LEAST_VARIANCE)

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
    """What several measurements say together: each cell once, ascending, as a fraction with its variance."""

    cells: Int64s
    answers: Float64s
    variances: Float64s


def combine(measurements: Iterable[Measurement], n: int) -> Combined:
    """One answer for each cell that was measured: the mean by inverse variances where it was more than once.

    Of all unbiased means it has the least variance. Answers are fractions of n records and may be negative.

    >>> first = Measurement([7, 3], [120, -2], "discrete-gaussian", scale=2, round=1)
    >>> again = Measurement([7], [125], "discrete-gaussian", scale=1, round=2)
    >>> combine([first, again], n=1000)
    Combined(cells=array([3, 7]), answers=array([-0.002,  0.124]), variances=array([4.e-06, 8.e-07]))
    """
    given = tuple(measurements)
    for measurement in given:
        if not isinstance(measurement, Measurement):
            raise TypeError(f"measurement ({_short(measurement)}) must be a Measurement")
    n = _integer("n", n, 1)
    cells, answers, variances = combine_cells(
        np.concatenate([np.empty(0, np.int64), *(m.cells for m in given)]),
        np.concatenate([np.empty(0), *(m.noisy_counts for m in given)]),
        np.repeat([m.variance for m in given], [len(m) for m in given]),
    )
    return Combined(cells, answers / n, variances / float(n) ** 2)


def combine_cells(cells: Int64s, answers: Float64s, variances: Float64s) -> Combined:
    """The same of single answers, in their own unit, each with its variance.

    >>> combine_cells(np.array([7, 3, 7]), np.array([120.0, -2, 125]), np.array([4.0, 4, 1]))
    Combined(cells=array([3, 7]), answers=array([ -2., 124.]), variances=array([4. , 0.8]))
    """
    if (cells[1:] > cells[:-1]).all():  # each once
        return Combined(cells, answers, variances)
    order = np.argsort(cells, kind="stable")
    cells, answers, variances = cells[order], answers[order], variances[order]
    first = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
    # Relative to each cell's smallest variance no share overflows, and one measurement alone has share 1.
    least = np.minimum.reduceat(variances, first)
    shares = np.repeat(least, np.diff(np.append(first, len(cells)))) / variances
    total = np.add.reduceat(shares, first)
    return Combined(cells[first], np.add.reduceat(shares * answers, first) / total, least / total)


def _integers(name: str, values: npt.ArrayLike) -> Int64s:
    array = np.asarray(values)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise TypeError(f"{name} ({array.ndim}-D, {array.dtype}) must be a 1-D array of integers")
    if array.dtype.kind == "u" and len(array) and int(array.max()) >= 2**63:
        raise ValueError(f"{name} (largest: {array.max()}) must fit in int64")
    return array if array.dtype == np.int64 and is_frozen(array) else freeze(array.astype(np.int64))


def _scale(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"scale ({_short(value)}) must be a number")
    scale = float(value)
    if not 0 < scale <= LARGEST_SCALE:
        raise ValueError(f"scale ({scale}) must be above 0 and at most 2^62")
    return scale


def _integer(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} ({_short(value)}) must be an integer")
    if value < least:
        raise ValueError(f"{name} ({value}) must be at least {least}")
    return int(value)
