"""ReWeight: non-negative least squares where counts that may be noise alone enter together, not one by one.

Algorithm 2 of "An Uncertainty Principle is a Price of Privacy-Preserving Microdata", 2021. Within a marginal
the low counts are those that noise alone would explain; each is weighted down, and their sum is fitted too.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from privmw.accounting.noise import NoiseDistribution
from privmw.data.support import Support
from privmw.extensions.postprocess.fit import Fit
from privmw.extensions.postprocess.problem import Problem, make_problem, regroup
from privmw.extensions.postprocess.solve import Bounds, solve
from privmw.kernels.arrays import Bools, Float64s
from privmw.kernels.checks import check_number
from privmw.release.noisy_marginals import NoisyMarginals
from privmw.secrecy import shown


def reweight(
    measured: NoisyMarginals,
    support: Support | None = None,
    *,
    confidence: float = 0.99,
    downweight: Literal["counts", "std"] = "counts",
    total: float | None = None,
) -> Fit:
    """Non-negative weights that keep sums as well as cells: NNLS with the low counts weighted down.

    confidence: how sure it must be that a count is not noise alone. downweight: what a low count's
    precision is divided by, squared: the median of the largest noise, in counts or in standard deviations,
    and at least 1. Every marginal must have one noise.

    >>> from privmw import Domain
    >>> from privmw.extensions.postprocess import NoisyMarginal
    >>> histogram = NoisyMarginal(("age",), [90.0, 4.0, -2.0, 3.0, -1.0], noise="laplace", scale=2.0)
    >>> reweight(NoisyMarginals([histogram], Domain({"age": 5}))).weights.round(2)
    array([90.  ,  2.91,  0.  ,  1.91,  0.  ])
    """
    if downweight not in ("counts", "std"):
        raise ValueError(f"downweight ({shown(downweight)}) must be 'counts' or 'std'")
    if not 0 < check_number("confidence", confidence) < 1:
        raise ValueError(f"confidence ({shown(confidence)}) must be above 0 and below 1")
    problem = _reweighted(make_problem(measured, support, total), measured, support, confidence, downweight)
    solved = solve(problem, "reweight", Bounds())
    return Fit(measured, support, solved.weights, "reweight", lambda: [solved.stage], problem.whole)


def _reweighted(
    problem: Problem, measured: NoisyMarginals, support: Support | None, confidence: float, downweight: str
) -> Problem:
    variances, precisions = problem.variances.copy(), problem.precisions
    groups, marked = np.full(problem.tallies.cells, -1, np.int32), None
    sums: list[tuple[float, float]] = []  # of the low counts of each marginal that has some, and variances
    last: list[tuple[float, float]] = []  # of single rows: the kernels expect them at the end
    first, everything = 0, tuple(range(len(measured.domain)))
    for j, noise in enumerate(measured.noises):
        if noise is None:
            raise ValueError(f"marginal {measured.marginals[j]} must have one noise for all its cells")
        of_marginal = slice(measured.offsets[j], measured.offsets[j + 1])
        counts, known = measured.noisy_counts[of_marginal], np.isfinite(measured.variances[of_marginal])
        low = find_low(counts, known, noise, confidence)
        cells = slice(first, first + len(low))
        coarse = measured.places[j] != everything
        first += len(low) if coarse else 0
        count = int(low.sum())
        if not count:
            continue
        factor = max(
            noise.median_of_largest(count) / (noise.variance**0.5 if downweight == "std" else 1), 1.0
        )
        spread, sum_of_low = 2 * noise.variance * factor**2, float(counts[low].sum())
        if coarse:
            variances[cells][low] = spread
            groups[cells][low] = len(sums)
            sums.append((sum_of_low, 2 * count * noise.variance))
        else:
            if support is not None:
                low = low[np.ravel_multi_index(support.table.columns, measured.domain.sizes)]
            precisions = np.where(low, 1 / spread, precisions)
            if low.any():
                marked = low.astype(np.uint8)
                last.append((sum_of_low, 2 * count * noise.variance))
    extra = np.array(sums + last).reshape(-1, 2)
    return regroup(
        problem,
        support,
        groups=groups if sums else None,
        marked=marked,
        precisions=precisions,
        counts=np.concatenate([problem.counts, extra[:, 0]]),
        variances=np.concatenate([variances, extra[:, 1]]),
    )


def find_low(counts: Float64s, measured: Bools, noise: NoiseDistribution, confidence: float) -> Bools:
    """The counts below the cutoff: the first count, in ascending order, that noise is unlikely to explain.

    It is the j-th for the smallest j where the largest of j draws stays below it with this confidence. If
    noise explains all counts, all are low.
    """
    ordered = np.sort(counts[measured])
    j = 1
    while j <= len(ordered):
        # Counts ascend and so does what they must reach: no position before this one can be the first.
        reached = int(ordered.searchsorted(noise.above(j, confidence))) + 1
        if reached <= j:
            return np.asarray(measured & (counts < ordered[j - 1]))
        j = reached
    return measured
