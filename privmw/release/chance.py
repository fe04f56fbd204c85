"""Upper bounds on p-values of gaps between fitted and noisy counts.

Half a record of each gap is forgiven: noise takes integer values, and an answer within half a record of the
truth is right. A cell may be the mean of several noisy counts.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from privmw.kernels.arrays import Bools, Float64s

ROUNDING = 0.5  # records
WITHIN = (1, 2, 3)  # deviations


def chance_beyond(gaps: Float64s, variances: Float64s, heavy_tailed: Bools) -> Float64s:
    """Bound the probability that noise of these variances is as large as each gap, in counts.

    A discrete Gaussian reaches an integer m with at most the probability that a continuous one reaches
    m - 1/2, from one deviation on: the density is convex there, and the sum over integers that normalises it
    is at least the integral. heavy_tailed: True for counts with Laplace noise, treated as one discrete
    Laplace draw of that variance. This is exact for one count; a mean of several has a lighter tail from
    three deviations on, where tests of single cells decide.

    >>> chance_beyond(np.array([4.5, 20.0]), np.array([4.0, 4.0]), np.array([False, True])).round(9).tolist()
    [0.045638535, 1.272e-06]
    """
    rate = 2 * np.arcsinh(1 / np.sqrt(2 * variances))  # exp(-rate) = p has 2 p / (1 - p)^2 = variance
    far = np.abs(gaps)
    heavy = 2 * np.exp(-rate * far) / (1 + np.exp(-rate))
    x = np.maximum(far - ROUNDING, 0.0) / np.sqrt(variances)
    # Sampford's (1953) bound of the normal tail: 2 % too much at 1, 0.3 % at 2, 0.01 % at 5 deviations.
    light = 8 * np.exp(-np.square(x) / 2) / (3 * x + np.sqrt(np.square(x) + 8)) / math.sqrt(2 * math.pi)
    chances: Float64s = np.minimum(np.where(heavy_tailed, heavy, light), 1.0)
    return chances


def chance_of_count(count: int, cells: int, chance: float) -> float:
    """Bound the probability that at least `count` of `cells` independent cells are outside.

    Hoeffding's (1963) bound exp(-m KL(count / m, chance)); chance: the mean of the cells' probabilities.

    >>> round(chance_of_count(70, 100, 0.5), 6), chance_of_count(40, 100, 0.5)
    (0.000267, 1.0)
    """
    share = count / cells
    if share <= chance:
        return 1.0
    if chance == 0:
        return 0.0
    rest = 0.0 if share == 1 else (1 - share) * math.log((1 - share) / (1 - chance))
    return math.exp(-cells * (share * math.log(share / chance) + rest))


def outside(k: int, *, heavy_tailed: bool) -> float:
    """The probability that Laplace (heavy-tailed) or Gaussian noise exceeds k standard deviations.

    >>> [round(outside(k, heavy_tailed=False), 4) for k in (1, 2, 3)]
    [0.3173, 0.0455, 0.0027]
    """
    return math.exp(-k * math.sqrt(2)) if heavy_tailed else math.erfc(k / math.sqrt(2))


def density(z: Float64s, heavy_tailed_share: float) -> Float64s:
    """The density of noise with variance 1, of which a share is Laplace and the others Gaussian.

    >>> density(np.zeros(1), 0.0).round(4).tolist(), density(np.zeros(1), 1.0).round(4).tolist()
    ([0.3989], [0.7071])
    """
    light = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    heavy = np.exp(-math.sqrt(2) * np.abs(z)) / math.sqrt(2)
    return heavy_tailed_share * heavy + (1 - heavy_tailed_share) * light


def quantile(level: float, *, heavy_tailed: bool) -> float:
    """The number of standard deviations within which noise lies at a level; not below a Gaussian's.

    >>> round(quantile(0.95, heavy_tailed=False), 3), round(quantile(0.95, heavy_tailed=True), 3)
    (1.96, 2.118)
    """
    normal = NormalDist().inv_cdf((1 + level) / 2)
    return max(normal, -math.log(1 - level) / math.sqrt(2)) if heavy_tailed else normal
