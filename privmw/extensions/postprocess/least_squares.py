"""Ordinary and non-negative least squares to noisy marginals."""

from __future__ import annotations

import numpy as np

from privmw.data.support import Support
from privmw.extensions.postprocess.fit import Fit
from privmw.extensions.postprocess.problem import make_problem
from privmw.extensions.postprocess.solve import Bounds, number, solve
from privmw.release.noisy_marginals import NoisyMarginals


def ols(measured: NoisyMarginals, support: Support | None = None, *, total: float | None = None) -> Fit:
    """Weights of either sign that fit the noisy counts best, squares over variances; unbiased, no microdata.

    total: a public number of records, which the weights then have exactly.

    >>> from privmw import Domain
    >>> from privmw.extensions.postprocess import NoisyMarginal
    >>> histogram = NoisyMarginal(("sex",), [4.0, -1.0], noise="laplace", scale=2.0)
    >>> measured = NoisyMarginals([histogram, NoisyMarginal((), [0.0], "laplace", 2.0)], Domain({"sex": 2}))
    >>> ols(measured).weights.round(6)
    array([ 3., -2.])
    """
    return _fit(measured, support, total, "ols", -np.inf)


def nnls(measured: NoisyMarginals, support: Support | None = None, *, total: float | None = None) -> Fit:
    """Non-negative weights that fit the noisy counts best, squares over variances.

    Sums of many small cells come out too large: each is fitted at 0 or more. `reweight` mends that.

    >>> from privmw import Domain
    >>> from privmw.extensions.postprocess import NoisyMarginal
    >>> histogram = NoisyMarginal(("sex",), [4.0, -1.0], noise="laplace", scale=2.0)
    >>> measured = NoisyMarginals([histogram, NoisyMarginal((), [3.0], "laplace", 2.0)], Domain({"sex": 2}))
    >>> nnls(measured).weights
    array([3.5, 0. ])
    """
    return _fit(measured, support, total, "nnls", 0.0)


def _fit(
    measured: NoisyMarginals, support: Support | None, total: float | None, method: str, lower: float
) -> Fit:
    problem = make_problem(measured, support, total)
    solved = solve(problem, method, Bounds(lower=number(lower)))
    return Fit(measured, support, solved.weights, method, lambda: [solved.stage], problem.whole)
