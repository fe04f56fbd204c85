"""Residual strategies: every interaction is measured once, with the noise that the loss asks for.

Of all Gaussian strategies that treat values of an attribute alike, the best measures for each set S of the
closure its interaction alone, with a precision w_S of its own (Xiao, He, Zhang and Kifer 2023). What is paid
is the worst pair of records, by accounting/worst_difference.py. Beyond 17 attributes the mean over pairs,
sum of w_S p_S, guides instead: it is a few percent less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from privmw.accounting import Budget, ResidualGaussian
from privmw.accounting.noise import LARGEST_DRAWN_SCALE, of_unit
from privmw.accounting.residual_gaussian import lattice_term
from privmw.accounting.rounding import float_up
from privmw.accounting.worst_difference import worst_difference
from privmw.data.workload import Workload
from privmw.extensions.unbiased.strategies.closure import Closure
from privmw.extensions.unbiased.strategies.shot import Shot
from privmw.extensions.unbiased.strategies.strategy import (
    Strategy,
    check_terms,
    check_weights,
    shot_at_residuals,
)
from privmw.kernels.arrays import Float64s
from privmw.secrecy import shown

Loss = Literal["largest", "marginals", "cells"]

_MOST_SWEEPS, _FEWEST_SWEEPS = 400, 30
_MOST_SUMS = 2**26  # sums of sets of attributes, in all: seconds; 17 attributes have their fewest sweeps
_NEAR_OPTIMAL = 1.0005  # the loss, against what no strategy goes below


@dataclass(frozen=True, slots=True)
class Residual(Strategy):
    """Residual noise for a loss. Made by `residual`."""

    loss: Loss = "largest"
    weights: tuple[float, ...] | None = None

    def calibrate(self, workload: Workload, budget: Budget, at_most: int = 1) -> Shot:
        """The shot that spends a budget on a workload.

        The budget must be of zCDP and set aside an event_delta for the lattice term of the noise. Below the
        sigma where that term is bounded, residual noise is refused: `equal` and `hdmm` have no such term.
        """
        at_most = check_terms(workload, budget, at_most)
        weights = check_weights(self.weights, len(workload))
        if budget.unit != "rho":
            raise ValueError(f"budget ({shown(budget)}) must be of zCDP: residual noise is Gaussian")
        if not weights.all():
            workload, weights = workload.select(np.flatnonzero(weights)), weights[weights > 0]
        closure = Closure.of(workload)
        precision = relative_precision(closure, self.loss, weights)
        return shot_at_residuals(closure, _event(closure, precision, budget, at_most), budget.noise)


def residual(loss: Loss = "largest", weights: Sequence[float] | None = None) -> Residual:
    """The strategy with the least loss: residual noise on every interaction.

    loss: "largest", the largest variance of a cell over all marginals; "marginals", the mean over marginals
    of the variance of a cell; "cells", the mean over all cells. weights: of the workload's marginals, in its
    order; they multiply their variances. A marginal of weight 0 is not measured.

    >>> residual("marginals", weights=[1, 2])
    Residual(loss='marginals', weights=(1.0, 2.0))
    """
    if not isinstance(loss, str) or loss not in get_args(Loss):
        raise ValueError(f"loss ({shown(loss)}) must be one of {', '.join(map(repr, get_args(Loss)))}")
    if weights is None:
        return Residual(loss)
    array = np.asarray(weights)
    if array.ndim != 1:
        raise ValueError(f"weights ({array.ndim}-D) must be a list of numbers")
    check_weights(array, len(array))
    return Residual(loss, tuple(float(weight) for weight in array))


def relative_precision(closure: Closure, loss: Loss, weights: Float64s) -> Float64s:
    """Precisions w_S, up to a factor, for a loss.

    With marginals of weights omega and pairs of records of chances q, sum of v_S / w_S is least at a given
    mean cost sum of w_S c_S for w_S = sqrt(v_S / c_S), and is then (sum of sqrt(v_S c_S))^2. Whatever omega
    and q are, this is below the largest variance at the worst pair's cost; both move towards what is worst.
    """
    cells = np.diff(closure.workload.offsets) if loss == "cells" else np.ones(len(weights))
    weights = weights * cells
    chances = np.full(len(weights), 1 / len(weights))
    pairs = _Pairs(closure)
    costs = closure.shrink.copy()  # the mean over all pairs
    best, least, lower = np.empty(0), math.inf, 0.0
    for sweep in range(pairs.sweeps):
        values = closure.shrink * closure.onto_sets(chances * weights, 2)
        precision = np.sqrt(values / costs)
        dearest, worst_costs = pairs.worst(precision)
        variances = weights * closure.onto_marginals(closure.shrink / precision) * dearest
        reached = float(variances.max() if loss == "largest" else variances.mean())
        if reached < least:
            best, least = precision, reached
        lower = max(lower, float(np.sqrt(values * costs).sum()) ** 2)
        if least <= _NEAR_OPTIMAL * lower:
            break
        if loss == "largest":
            chances = chances * variances
            chances /= chances.sum()
        elif worst_costs is None:
            break
        if worst_costs is not None:
            costs = costs + (worst_costs - costs) / (sweep + 8)
    return best


class _Pairs:
    """What a shot costs the pair of records that it costs most, up to 17 attributes; beyond, a mean pair.

    Floats, to guide: what is charged is computed exactly by the event.
    """

    def __init__(self, closure: Closure) -> None:
        self._closure = closure
        past = len(closure.workload.domain)
        self._involved = np.setdiff1d(closure.members, [past])
        self._sizes = np.array(closure.workload.domain.sizes)[self._involved]
        place = np.zeros(past + 1, np.int64)
        place[self._involved] = np.arange(len(self._involved))
        self._places = np.where(closure.members < past, place[closure.members], len(self._involved))
        affordable = _MOST_SUMS // (len(self._involved) * 2 ** len(self._involved))
        self._enumerated = affordable >= _FEWEST_SWEEPS
        self.sweeps = min(_MOST_SWEEPS, affordable) if self._enumerated else _MOST_SWEEPS
        if self._enumerated:
            bits = np.append(1 << np.arange(len(self._involved)), 0)
            self._masks = bits[self._places].sum(axis=1)

    def worst(self, precision: Float64s) -> tuple[float, Float64s | None]:
        """The largest cost of a pair, and what it makes each set cost; the mean, if that is too long."""
        mean = float(precision @ self._closure.shrink)
        if not self._enumerated:
            return mean, None
        sums = np.zeros(1 << len(self._involved))
        sums[self._masks] = precision
        for i, size in enumerate(self._sizes.tolist()):
            halves = sums.reshape(-1, 2, 1 << i)
            without, within = halves[:, 0].copy(), halves[:, 1].copy()
            halves[:, 0] = without + (1 - 1 / size) * within
            halves[:, 1] = without - within / size
        differing = int(sums.argmin())
        agree = np.array([not differing >> i & 1 for i in range(len(self._involved))])
        signs = np.append(agree - 1 / self._sizes, 1.0)
        return mean - float(sums[differing]), self._closure.shrink - signs[self._places].prod(axis=1)


def _event(closure: Closure, precision: Float64s, budget: Budget, at_most: int) -> ResidualGaussian:
    """The event whose sigmas follow relative precisions and whose exact cost is just within the budget."""
    sizes, looks = closure.workload.domain.sizes, closure.looks()
    relative = np.sqrt(precision.mean() / precision)
    unit = float_up(worst_difference(sizes, looks, relative.tolist()))
    scale, slack = of_unit(math.sqrt(unit / float(budget.limit)), at_most), 2.0**-50
    while True:
        sigmas = relative * (scale * (1 + slack))
        if not sigmas.max() <= LARGEST_DRAWN_SCALE:
            raise ValueError(f"sigma ({sigmas.max():.4g}) must be at most 2^40: the budget is too small")
        term = lattice_term(sizes, looks, sigmas.tolist())
        if term is None:
            raise ValueError(
                f"budget ({shown(budget)}) must be smaller for residual noise: a sigma of "
                f"{sigmas.min():.4g} does not blur the integers that a residual does not show; "
                "strategies.equal has no such bound"
            )
        if term > budget.event_delta:
            raise ValueError(
                f"event_delta ({float(budget.event_delta)}) of the budget must be at least "
                f"{float_up(term):.4g}: the lattice term of residual noise"
            )
        event = ResidualGaussian(sizes, looks, tuple(sigmas.tolist()), at_most)
        if event.cost.rho <= budget.limit:
            return event
        slack *= 4
