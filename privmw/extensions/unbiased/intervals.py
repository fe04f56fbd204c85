"""Distribution and quantiles of the error of an unbiased answer, from the plan alone.

The error of a cell is a sum of independent draws, each times a coefficient of the shot. A sum of discrete
Gaussians is treated as Gaussian. A sum of discrete Laplace draws is neither Laplace nor Gaussian: its
quantiles come from its characteristic function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privmw.extensions.unbiased.strategies import Shot
from privmw.extensions.unbiased.strategies.shot import noise_variance
from privmw.kernels.arrays import Float64s

SMALL_SCALE = 4.0  # below it the steps of integers matter: add half a count, for coverage
NEGLIGIBLE = 1e-4  # of the variance: draws that contribute less are treated as one Gaussian
LAST, STEP = 100.0, 0.05  # of the integral, in inverse deviations: tail probabilities are right to 1 %
LONGEST = 60.0  # half-width, in deviations


def half_widths(
    shot: Shot,
    marginals: Sequence[Sequence[str]],
    outside: float,
    *,
    variances: Float64s | None = None,
    at_least: bool = False,
) -> Float64s:
    """Half-width of a cell's interval, in counts, for each marginal; outside: 1 - level.

    variances: of a cell of each marginal, in counts squared, if known. at_least: add half a count, so that
    the steps of discrete noise make no interval too narrow.

    >>> from privmw import Budget, Domain, Workload, strategies
    >>> workload = Workload.all(Domain({"a": 2, "b": 3}), k=2)
    >>> shot = strategies.equal().calibrate(workload, Budget.zcdp(0.01))
    >>> half_widths(shot, [("a", "b"), ("a",)], 0.05).round(2).tolist()
    [17.89, 24.0]
    """
    smallest = min(look.scale for look in shot.looks)
    step = 0.5 if at_least or (shot.kind == "marginals" and smallest < SMALL_SCALE) else 0.0
    if shot.family.order == 2:
        z = -NormalDist().inv_cdf(outside / 2)
        if variances is None:
            variances = np.array([shot.variance(names) for names in marginals])
        return z * np.sqrt(variances) + step
    return np.array([_laplace_half_width(error_of(shot, names), outside) + step for names in marginals])


class CellError(NamedTuple):
    """The error of a cell of one marginal: independent draws, each times a coefficient.

    counts: the number of draws with each coefficient and variance.
    """

    coefficients: Float64s
    variances: Float64s
    counts: Float64s

    @property
    def variance(self) -> float:
        """The variance of the error."""
        return float((self.counts * self.coefficients**2 * self.variances).sum())


def error_of(shot: Shot, names: Sequence[str]) -> CellError:
    """The error of a cell, from looks at plain marginals.

    The coefficient in the answer of A of a cell of look B, with precision t_B, that agrees with it on the
    attributes U of C = A and B, is t_B / N_B times the sum over S in C of N_S^2 / (N_A w_S) times the product
    over S of 1 - 1/n_i in U, and of -1/n_i outside U.
    """
    sizes, domain = shot.domain.sizes, shot.domain
    places = [domain.index(name) for name in names]
    places = [place for place in places if sizes[place] > 1]
    cells_of_marginal = math.prod(sizes[place] for place in places)
    member = np.array([[name in look.attributes for name in domain.names] for look in shot.looks])
    spread = np.array([noise_variance(shot.family, look.scale) for look in shot.looks])
    cells = np.array(
        [math.prod(sizes[domain.index(name)] for name in look.attributes) for look in shot.looks]
    )
    common = (member[:, places] * 2 ** np.arange(len(places))).sum(axis=1)
    coefficients, variances, counts = [], [], []
    for both in range(1, 2 ** len(places)):
        looks = np.flatnonzero(common == both)
        inside = [place for i, place in enumerate(places) if both >> i & 1]
        if len(looks) == 0:
            continue
        of_sets = []
        for order in range(1, len(inside) + 1):
            for some in combinations(inside, order):
                number = shot.closure.find(some)
                within = math.prod(sizes[place] for place in some)
                of_sets.append((some, within**2 / cells_of_marginal / shot.precision[number]))
        shared = math.prod(sizes[place] for place in inside)
        for order in range(len(inside) + 1):
            for agreeing in combinations(inside, order):
                total = math.fsum(
                    size * math.prod((1 if place in agreeing else 0) - 1 / sizes[place] for place in some)
                    for some, size in of_sets
                )
                often = math.prod(sizes[place] - 1 for place in inside if place not in agreeing)
                coefficients.append(total / (cells[looks] * spread[looks]))
                variances.append(spread[looks])
                counts.append(often * cells[looks] / shared)
    return CellError(*(np.concatenate([np.empty(0), *parts]) for parts in (coefficients, variances, counts)))


def _laplace_half_width(error: CellError, outside: float) -> float:
    """The quantile of a sum of Laplace draws, by the integral of its tilted characteristic function.

    P(X > x) is 1/pi times the integral over u > 0 of the real part of exp(K(z) - z x) / z, z = s + i u, for
    any s in (0, end). Near the s that minimises the integrand at u = 0, small probabilities are as precise as
    large ones. K is the sum of -log(1 - part z^2 / 2), parts of the variance, which is 1 here.
    """
    if error.variance == 0:
        return 0.0
    parts = error.coefficients**2 * error.variances / error.variance
    large = parts > NEGLIGIBLE
    small_parts = float((error.counts * parts)[~large].sum())
    each, which = np.unique(parts[large], return_inverse=True)
    often = np.bincount(which, error.counts[large], len(each))

    def exponent(z: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
        total = small_parts * z**2 / 2
        for part, count in zip(each.tolist(), often.tolist(), strict=True):
            total = total - count * np.log1p(-part * z**2 / 2)
        return total

    end = math.sqrt(2 / each.max()) if len(each) else LONGEST
    line = end * np.linspace(0.01, 0.99, 99)
    along = exponent(line.astype(complex)).real - np.log(line)
    u = STEP * np.arange(int(LAST / STEP))

    def chance(x: float) -> float:
        s = float(line[np.argmin(along - line * x)])
        z = (s + 1j * u).astype(np.complex128)
        values = (np.exp(exponent(z) - z * x) / z).real
        return 2 / math.pi * STEP * float(values.sum() - values[0] / 2)  # of both sides

    low, high = 0.0, LONGEST
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > outside else (low, middle)
    return high * math.sqrt(error.variance)
