"""Noisy marginals of a domain with their noise, measured by privmw or by other systems. Released values only.

A marginal may have any number of attributes: no attribute is the total, all attributes the full histogram.
Each marginal occurs once: repeated measurements are averaged by inverse variances. This module knows no table
and no mechanism.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.accounting.noise import NoiseDistribution, make_noise
from privmw.data.domain import Domain, positions_of
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, Int64s, freeze
from privmw.release.measurements import Combined, Measurement, combine_cells
from privmw.release.release import Release
from privmw.secrecy import expect, shown

MOST_CELLS_OF_MARGINAL = 2**28  # of one marginal
LARGEST_NOISY_COUNT = 2.0**62


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMarginal:
    """The noisy counts of all cells of one marginal, in C order: the last attribute varies fastest.

    Attributes are in the order of the domain. noise is "laplace", "gaussian", "discrete-laplace" or
    "discrete-gaussian"; scale is sigma, or the Laplace scale, in counts.

    >>> NoisyMarginal(("age", "sex"), [[3.5, -1.0], [0.2, 8.1]], noise="laplace", scale=2.0).noisy_counts
    array([ 3.5, -1. ,  0.2,  8.1])
    """

    attributes: tuple[str, ...]
    noisy_counts: Float64s
    noise: str
    scale: float

    def __post_init__(self) -> None:
        """Validate the attributes (a list of names), the counts (finite) and the noise."""
        names, noise = _names(self.attributes), make_noise(self.noise, self.scale)
        counts = _numbers("noisy_counts", self.noisy_counts)
        for name, value in zip(self.__slots__, (names, counts, noise.name, noise.scale), strict=True):
            object.__setattr__(self, name, value)


class NoisyMarginals:
    """Marginals of a domain, each once, with noisy counts and their variances. Immutable.

    >>> domain = Domain({"age": 2, "sex": 2})
    >>> total = NoisyMarginal((), [9.0], noise="laplace", scale=2.0)
    >>> again = NoisyMarginal((), [12.0], noise="laplace", scale=4.0)
    >>> measured = NoisyMarginals([total, again], domain)
    >>> measured, measured.noisy_counts, measured.variances
    (NoisyMarginals(1 marginal, 1 of 1 cells measured), array([9.6]), array([6.4]))
    """

    __slots__ = ("domain", "marginals", "noises", "noisy_counts", "offsets", "places", "variances")

    domain: Domain
    marginals: tuple[tuple[str, ...], ...]  # the names of each one's attributes
    places: tuple[tuple[int, ...], ...]  # the same as positions
    offsets: tuple[int, ...]  # the first cell of each, and the end
    noisy_counts: Float64s  # one per cell; 0 where it was not measured
    variances: Float64s  # one per cell; infinite where it was not measured
    noises: tuple[
        NoiseDistribution | None, ...
    ]  # of each marginal's measured cells, where they all have the same

    def __init__(self, marginals: Iterable[NoisyMarginal], domain: Domain) -> None:
        expect("domain", domain, Domain, "a Domain")
        expect("marginals", marginals, Iterable, "a list of NoisyMarginals")
        by_places: dict[tuple[int, ...], list[NoisyMarginal]] = {}
        for j, marginal in enumerate(marginals):
            expect(f"marginals[{j}]", marginal, NoisyMarginal, "a NoisyMarginal", quote=False)
            places = tuple(positions_of(domain, marginal.attributes, f"marginals[{j}].attributes"))
            if any(a >= b for a, b in itertools.pairwise(places)):
                raise ValueError(f"attributes {marginal.attributes} must stand in the domain's order")
            cells = _cells(domain, places)
            if len(marginal.noisy_counts) != cells or cells > MOST_CELLS_OF_MARGINAL:
                raise ValueError(
                    f"noisy_counts of {marginal.attributes} ({len(marginal.noisy_counts)}) must be "
                    f"{shown(cells)}, one per cell, and at most 2^28"
                )
            by_places.setdefault(places, []).append(marginal)
        parts = [_combined(repeated) for repeated in by_places.values()]
        counts, variances, noises = zip(*parts, strict=True) if parts else ((), (), ())
        self._fill(
            domain, list(by_places), np.concatenate([[], *counts]), np.concatenate([[], *variances]), noises
        )

    def _fill(
        self,
        domain: Domain,
        places: Sequence[tuple[int, ...]],
        noisy_counts: Float64s,
        variances: Float64s,
        noises: Sequence[NoiseDistribution | None],
    ) -> NoisyMarginals:
        if not places:
            raise ValueError("marginals (none) must be at least one")
        self.domain = domain
        self.places = tuple(places)
        self.marginals = tuple(tuple(domain.names[a] for a in attributes) for attributes in places)
        self.offsets = (0, *itertools.accumulate(_cells(domain, attributes) for attributes in places))
        self.noisy_counts = freeze(noisy_counts)
        self.variances = freeze(variances)
        self.noises = tuple(noises)
        return self

    @classmethod
    def of_release(cls, release: Release) -> NoisyMarginals:
        """The measurements of a release."""
        expect("release", release, Release, "a Release")
        return cls.of_measurements(release.measured, release.measurements)

    @classmethod
    def of_measurements(cls, workload: Workload, measurements: Iterable[Measurement]) -> NoisyMarginals:
        """Measurements of a workload's cells; a marginal may be measured in part, and a cell several times.

        >>> workload = Workload.all(Domain({"age": 2, "sex": 2}), k=1)
        >>> measurement = Measurement([0, 1, 2], [7, 3, 4], "discrete-laplace", scale=2, round=1)
        >>> NoisyMarginals.of_measurements(workload, [measurement])
        NoisyMarginals(2 marginals, 3 of 4 cells measured)
        """
        expect("workload", workload, Workload, "a Workload")
        taken = tuple(measurements)
        for place, measurement in enumerate(taken):
            expect(f"measurements[{place}]", measurement, Measurement, "a Measurement", quote=False)
        cells = np.concatenate([np.empty(0, np.int64), *(measurement.cells for measurement in taken)])
        if len(cells) and cells.max() >= workload.cells:
            raise ValueError(f"cells (of a measurement) must be from 0 to {workload.cells - 1}")
        measured, marginal_of = np.unique(workload.marginal_of(cells), return_inverse=True)
        return cls.of_cells(
            workload.domain,
            list(workload.select(measured)),
            [(measurement.noise, measurement.scale) for measurement in taken],
            marginal_of=marginal_of,
            cells=cells - workload.offsets[measured[marginal_of]],
            noisy_counts=np.concatenate([np.empty(0), *(measurement.noisy_counts for measurement in taken)]),
            noise_of=np.repeat(np.arange(len(taken)), [len(measurement) for measurement in taken]),
        )

    @classmethod
    def of_cells(
        cls,
        domain: Domain,
        marginals: Iterable[Sequence[str]],
        noises: Iterable[tuple[str, float]],
        *,
        marginal_of: npt.ArrayLike,
        cells: npt.ArrayLike,
        noisy_counts: npt.ArrayLike,
        noise_of: npt.ArrayLike,
    ) -> NoisyMarginals:
        """Noisy counts of single cells; a marginal may be measured in part, and a cell several times.

        noises: kinds and scales. marginal_of, cells, noisy_counts, noise_of: one entry per measured cell: the
        number of its marginal, of the cell in it in C order, its noisy count, and the number of its noise.

        >>> domain = Domain({"age": 2, "sex": 2})
        >>> measured = NoisyMarginals.of_cells(
        ...     domain, [(), ("sex",)], [("gaussian", 1.0), ("gaussian", 2.0)],
        ...     marginal_of=[0, 1, 1], cells=[0, 1, 1], noisy_counts=[9.5, 4.0, 5.0],
        ...     noise_of=[0, 0, 1],
        ... )
        >>> measured, measured.noisy_counts
        (NoisyMarginals(2 marginals, 2 of 3 cells measured), array([9.5, 0. , 4.2]))
        """
        expect("domain", domain, Domain, "a Domain")
        places = [_places(domain, names) for names in marginals]
        if len(set(places)) < len(places):
            raise ValueError("marginals must not repeat one")
        sizes = [_cells(domain, attributes) for attributes in places]
        if sum(sizes) > MOST_CELLS_OF_MARGINAL:
            largest = tuple(domain.names[place] for place in places[sizes.index(max(sizes))])
            raise ValueError(
                f"marginals ({shown(sum(sizes))} cells, most of them of {largest}) must have "
                f"at most 2^28 cells together"
            )
        noises = list(noises)
        for place, noise in enumerate(noises):
            pair = isinstance(noise, tuple | list) and len(noise) == 2 and isinstance(noise[0], str)
            expect(f"noises[{place}]", noise, pair, "a pair of a kind and a scale", quote=False)
        known = [make_noise(*noise) for noise in noises]
        counts = _numbers("noisy_counts", noisy_counts)
        of = _indices("marginal_of", marginal_of, len(counts), len(places))
        numbers = _indices("noise_of", noise_of, len(counts), len(known))
        within = _indices("cells", cells, len(counts), np.array(sizes, np.int64)[of])
        offsets = np.array([0, *itertools.accumulate(sizes)])
        spread = np.array([each.variance for each in known])[numbers] if known else np.empty(0)
        combined = combine_cells(offsets[of] + within, counts, spread)
        every_count, every_variance = np.zeros(sum(sizes)), np.full(sum(sizes), np.inf)
        every_count[combined.cells], every_variance[combined.cells] = combined.answers, combined.variances
        of_marginals = noises_of_marginals(known, of, numbers, combined, offsets)
        return object.__new__(cls)._fill(domain, places, every_count, every_variance, of_marginals)

    def index(self, attributes: Sequence[str]) -> int:
        """The index of the marginal of exactly these attributes, in any order."""
        places = tuple(sorted(positions_of(self.domain, _names(attributes), "attributes")))
        if places not in self.places:
            names = tuple(self.domain.names[place] for place in places)
            raise ValueError(f"marginal {names} must be one that was measured")
        return self.places.index(places)

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        measured = int(np.isfinite(self.variances).sum())
        return (
            f"NoisyMarginals({len(self)} marginal{'s' * (len(self) != 1)}, "
            f"{measured} of {len(self.noisy_counts)} cells measured)"
        )


def _names(attributes: Any) -> tuple[str, ...]:
    expect("attributes", attributes, tuple | list, "a tuple of names", quote=False)
    return tuple(attributes)


def _places(domain: Domain, attributes: object) -> tuple[int, ...]:
    """The positions of attributes named in any order."""
    places = tuple(sorted(positions_of(domain, _names(attributes), "attributes")))
    if len(set(places)) < len(places):
        raise ValueError(f"attributes {tuple(domain.names[place] for place in places)} must not repeat one")
    return places


def _cells(domain: Domain, places: tuple[int, ...]) -> int:
    return math.prod(domain.sizes[place] for place in places)


def _indices(name: str, values: npt.ArrayLike, count: int, limits: Any) -> Int64s:
    array = np.asarray(values)
    whole = array.shape == (count,) and (not count or array.dtype.kind in "iu")
    expect(name, array, whole, f"{count} integers, one a noisy count")
    if not ((array >= 0) & (array < limits)).all():
        bad = int(np.flatnonzero((array < 0) | (array >= limits))[0])
        raise ValueError(f"{name} (entry {bad}) must be from 0 to below what there is")
    return array.astype(np.int64)


def _numbers(name: str, values: Any) -> Float64s:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be masked")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers") from None
    expect(name, array, array.dtype.kind in "iuf", "numbers")
    flat = array.astype(np.float64).ravel()
    if not (np.abs(flat) <= LARGEST_NOISY_COUNT).all():  # also catches NaN
        bad = int(np.flatnonzero(~(np.abs(flat) <= LARGEST_NOISY_COUNT))[0])
        raise ValueError(f"{name} (cell {bad}) must be finite, and at most 2^62")
    return freeze(flat)


def _combined(repeated: list[NoisyMarginal]) -> tuple[Float64s, Float64s, NoiseDistribution | None]:
    """The mean weighted by inverse variances: the unbiased mean of least variance."""
    noises = [make_noise(marginal.noise, marginal.scale) for marginal in repeated]
    counts = [marginal.noisy_counts for marginal in repeated]
    if len(repeated) == 1:
        return counts[0], np.full(len(counts[0]), noises[0].variance), noises[0]
    least = min(noise.variance for noise in noises)
    shares = [least / noise.variance for noise in noises]
    mean = sum(share * count for share, count in zip(shares, counts, strict=True)) / sum(shares)
    spread = np.full(len(counts[0]), least / sum(shares))
    return np.asarray(mean, np.float64), spread, common_noise(set(noises), spread)


def noises_of_marginals(
    known: list[NoiseDistribution], marginal_of: Int64s, noise_of: Int64s, together: Combined, offsets: Int64s
) -> list[NoiseDistribution | None]:
    """The noise of each marginal's measured cells; None if they differ.

    marginal_of, noise_of: one entry per measured cell. together: the combined counts. offsets: each
    marginal's first cell, and the end.
    """
    numbers = {noise: number for number, noise in enumerate(dict.fromkeys(known))}
    distinct = list(numbers)
    which = np.array([numbers[noise] for noise in known], np.int64)[noise_of]
    pairs = np.unique(marginal_of * len(distinct) + which)
    several: list[set[NoiseDistribution]] = [set() for _ in offsets[1:]]
    for pair in pairs.tolist():
        several[pair // len(distinct)].add(distinct[pair % len(distinct)])
    if not all(several):
        raise ValueError("marginals must each have a noisy count")
    bounds = np.searchsorted(together.cells, offsets)
    once = np.bincount(marginal_of, minlength=len(several)) == np.diff(bounds)  # no cell was measured twice
    return [
        next(iter(noises)) if alone and len(noises) == 1 else common_noise(noises, together.variances[a:b])
        for noises, alone, a, b in zip(several, once.tolist(), bounds[:-1], bounds[1:], strict=True)
    ]


def common_noise(noises: set[NoiseDistribution], variances: Float64s) -> NoiseDistribution | None:
    """The noise of cells with these variances, each measured with some of these noises.

    None if they differ, or if their sum has no name.
    """
    first = next(iter(noises))
    if len(noises) == 1 and (variances == first.variance).all():
        return first
    if np.ptp(variances) != 0 or len({noise.family.order for noise in noises}) > 1:
        return None
    return first.family.of_sum(variances[0])
