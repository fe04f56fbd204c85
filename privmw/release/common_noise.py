"""The noise of a marginal's cells, where all have the same, which ReWeight must know.

Counts combined from several measurements have a mixture of noises, which has a name only for Gaussians.
"""

from __future__ import annotations

import numpy as np

from privmw.accounting.noise import NoiseDistribution
from privmw.kernels.arrays import Float64s, Int64s
from privmw.release.measurements import Combined


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
