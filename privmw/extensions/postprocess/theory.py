"""What is unavoidable: the trade-off between d point queries and their sum for any private microdata.

"An Uncertainty Principle is a Price of Privacy-Preserving Microdata", 2021. If every point query has an
expected squared error of at most C^2 on every dataset, and the sum one of at most D^2, then C and D obey an
inequality for every k > 0 (Theorem 3); here k is the best one. Theorem 4's mechanisms come near it.
Neighbours add or remove a record. Errors are root mean squares, in counts. No data is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privmw.accounting import threshold_for_delta
from privmw.kernels.arrays import Float64s
from privmw.kernels.checks import check_integer, check_number
from privmw.secrecy import shown


class ErrorBounds(NamedTuple):
    """Root mean squared errors that a mechanism stays within, on every dataset."""

    point: float
    sum: float


def least_sum_error(
    point_error: float, d: int, *, epsilon: float | None = None, delta: float = 0.0, rho: float | None = None
) -> float:
    """The least D that microdata can promise for the sum, if it promises C = point_error for each of d.

    Under epsilon-DP, (epsilon, delta)-DP or rho-zCDP; 0 where the theorem gives no bound.

    >>> round(least_sum_error(1.0, 10**6, epsilon=0.5))
    6221
    """
    c, factor, loss = _number("point_error", point_error), _queries(d), _loss(epsilon, delta, rho)

    def at(log_k: float) -> float:
        # 4 C + 2 D + k >= k (d - 1) loss(2 C + k), solved for D
        k = math.exp(log_k)
        return (k * factor * loss(2 * c + k) - 4 * c - k) / 2

    return max(0.0, _largest(at, _unit(epsilon, rho)))


def least_point_error(
    sum_error: float, d: int, *, epsilon: float | None = None, delta: float = 0.0, rho: float | None = None
) -> float:
    """The least C that microdata can promise for each of d point queries, if it promises D for their sum.

    >>> round(least_point_error(10.0, 10**9, epsilon=1.0), 2)
    3.53
    """
    bound = _number("sum_error", sum_error)
    low, high = 0.0, 1.0
    if least_sum_error(0.0, d, epsilon=epsilon, delta=delta, rho=rho) <= bound:
        return 0.0
    while least_sum_error(high, d, epsilon=epsilon, delta=delta, rho=rho) > bound:
        low, high = high, 2 * high
    for _ in range(100):  # the sum's least error falls as the points' error grows
        middle = (low + high) / 2
        if least_sum_error(middle, d, epsilon=epsilon, delta=delta, rho=rho) > bound:
            low = middle
        else:
            high = middle
    return low


def point_mechanism(noisy_points: npt.ArrayLike) -> Float64s:
    """Theorem 4, items 1 and 2: good points. Each noisy count, or 0 if that is more.

    >>> point_mechanism([3.5, -1.0])
    array([3.5, 0. ])
    """
    return np.maximum(_points(noisy_points), 0.0)


def sum_mechanism(noisy_points: npt.ArrayLike, noisy_sum: float) -> Float64s:
    """Theorem 4, items 3 and 4: a good sum. The non-negative numbers of that sum nearest to the points.

    A sum below 0 counts as 0.

    >>> sum_mechanism([3.5, -1.0, 1.5], 4.0)
    array([3., 0., 1.])
    """
    points = _points(noisy_points)
    total = max(_number("noisy_sum", noisy_sum, negative=True), 0.0)
    # The largest j where the j largest, lowered alike to the total, stay above 0.
    ordered = np.sort(points)[::-1]
    lowered = (np.cumsum(ordered) - total) / np.arange(1, len(points) + 1)
    above = np.flatnonzero(ordered > lowered)
    by = lowered[above[-1]] if len(above) else ordered[0]
    return np.asarray(np.maximum(points - by, 0.0))


def point_mechanism_errors(d: int, *, epsilon: float | None = None, rho: float | None = None) -> ErrorBounds:
    """The errors of `point_mechanism`, with the whole budget in Laplace or Gaussian noise on the points.

    >>> point_mechanism_errors(100, rho=0.5)
    ErrorBounds(point=1.0, sum=100.0)
    """
    _loss(epsilon, 0.0, rho)
    if epsilon is not None:
        point_error = math.sqrt(2) / epsilon
    else:
        assert rho is not None
        point_error = math.sqrt(1 / (2 * rho))
    return ErrorBounds(point_error, point_error * (_queries(d) + 1))


def threshold_mechanism_errors(epsilon: float, delta: float) -> ErrorBounds:
    """Theorem 4, item 5: the errors of `sum_mechanism` on points that vanish below a threshold, for any d.

    Half of epsilon is in the points' noise (`measure_marginals(..., threshold=True)`), half in the sum's. Let
    b be the scale of both and T the threshold. A point that vanished had less than T + |noise| records, so
    all points are off by at most T + |noise|. The projection adds at most the mean of what points lack, or
    takes the same from each that is shown, as all of them are T or more: at most the mean of their |noise|;
    either way plus the |noise| of the sum. No term grows with d. Left out: noise whose mean is more than T
    (docs/proofs).

    >>> threshold_mechanism_errors(1.0, 1e-9)
    ErrorBounds(point=92.48528137423857, sum=2.8284271247461903)
    """
    scale, failing = 2 / _positive("epsilon", epsilon), _positive("delta", delta)
    if failing >= 1:
        raise ValueError(f"delta ({failing}) must be below 1")
    # The root mean square of discrete Laplace noise is at most sqrt(2) times its scale.
    noise = math.sqrt(2) * scale
    return ErrorBounds(2 * (threshold_for_delta(failing, scale) + noise) + noise, noise)


def _loss(epsilon: float | None, delta: float, rho: float | None) -> Callable[[float], float]:
    """What 4 C + 2 D + k must reach, over k (d - 1), where datasets differ in 2 (2 C + k) records.

    On a dataset with one query at L = 2 C + k and the others at 0, that one's count is k or more and the sum
    at most 4 C + 2 D + k, with probability 1/4. Few queries can do so at once, so on another dataset of
    the kind some query does with probability (4 C + 2 D + k) / (k (d - 1)) at most.
    """
    if (epsilon is None) == (rho is None):
        raise TypeError("exactly one of epsilon and rho must be given")
    if rho is not None:
        if delta != 0:
            raise ValueError(f"delta ({shown(delta)}) must not be given with rho")
        root = math.sqrt(_positive("rho", rho))
        # The paper leaves this case out. Renyi's divergence of order a > 1 is at most rho (2 L)^2 a, so the
        # event's probabilities p = 1/4 and q obey p^a q^(1 - a) <= exp((a - 1) a rho (2 L)^2); the best a
        # gives q >= exp(-(2 L sqrt(rho) + sqrt(log 4))^2).
        return lambda records: math.exp(-((2 * records * root + math.sqrt(math.log(4))) ** 2))
    assert epsilon is not None
    bound, failing = _positive("epsilon", epsilon), _number("delta", delta)
    if failing >= 1:
        raise ValueError(f"delta ({failing}) must be below 1")
    return lambda records: math.exp(-2 * bound * records) / 4 - failing / bound


def _largest(function: Callable[[float], float], unit: float) -> float:
    """The largest value over log k: on a grid around the unit, then on finer ones around the best."""
    points = np.linspace(math.log(unit) - 15, math.log(unit) + 15, 301)
    for _ in range(6):
        values = [function(point) for point in points.tolist()]
        best = int(np.argmax(values))
        points = np.linspace(points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)], 31)
    return max(values)


def _unit(epsilon: float | None, rho: float | None) -> float:
    """The k that matters is about 1 / epsilon, or 1 / sqrt(rho)."""
    return 1 / epsilon if epsilon is not None else 1 / math.sqrt(rho or 1.0)


def _queries(d: object) -> int:
    return check_integer("d", d, 1) - 1


def _number(name: str, value: object, negative: bool = False) -> float:
    number = check_number(name, value)
    if not math.isfinite(number) or (number < 0 and not negative):
        raise ValueError(f"{name} ({number}) must be finite{'' if negative else ' and not negative'}")
    return number


def _positive(name: str, value: object) -> float:
    number = _number(name, value)
    if number == 0:
        raise ValueError(f"{name} (0) must be above 0")
    return number


def _points(values: npt.ArrayLike) -> Float64s:
    array = np.asarray(values)
    if array.ndim != 1 or len(array) == 0 or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError("noisy_points must be a list of finite numbers, not empty")
    return array.astype(np.float64)
