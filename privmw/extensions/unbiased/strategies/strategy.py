"""What every strategy is: frozen options that a workload and a budget make into a shot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmw.accounting import Budget, Event, ResidualGaussian
from privmw.accounting.noise import LARGEST_DRAWN_SCALE, NoiseFamily
from privmw.accounting.rounding import positive_integer
from privmw.data.workload import CELLS_CHANGED_PER_MARGINAL, Workload
from privmw.extensions.unbiased.strategies.closure import Closure
from privmw.extensions.unbiased.strategies.shot import Shot, TableLook, noise_variance
from privmw.kernels.arrays import Float64s
from privmw.kernels.checks import check_integer
from privmw.secrecy import expect, shown

LEAST_LAPLACE = 2.0**-9  # its variance is a float above 0


class Strategy(ABC):
    """How the budget of one shot is spread over marginals; neighbours replace one record.

    A pure function of domain, workload and budget: no data, no draw.
    """

    __slots__ = ()

    @abstractmethod
    def calibrate(self, workload: Workload, budget: Budget, at_most: int = 1) -> Shot:
        """The shot that spends a budget on a workload: discrete Gaussian noise in zCDP, Laplace in pure DP.

        at_most: how many records of a unit enter.
        """


def check_terms(workload: Any, budget: Any, at_most: object) -> int:
    """Refuse what a shot cannot be made of; return at_most."""
    expect("workload", workload, Workload, "a Workload")
    if len(workload) == 0:
        raise ValueError("workload (no marginals) must have at least one marginal")
    expect("budget", budget, Budget, "a Budget")
    if not budget.adds_up:
        raise ValueError(f"budget ({shown(budget)}) must be of zCDP or of pure differential privacy")
    return positive_integer("at_most", at_most)


def shot_at_marginals(
    workload: Workload, measured: Workload, shares: list[Fraction], budget: Budget, at_most: int
) -> Shot:
    """The shot at plain marginals, each with its share of the budget; a record moves two cells of each."""
    noise = budget.noise
    looks: list[TableLook] = []
    events: list[Event] = []
    for names, share, cells in zip(measured, shares, np.diff(measured.offsets).tolist(), strict=True):
        sensitivity = noise.sensitivity(min(CELLS_CHANGED_PER_MARGINAL, cells), at_most)
        scale = noise.scale(share, sensitivity)
        events.append(noise.event(scale, sensitivity, cells))
        if scale > LARGEST_DRAWN_SCALE:
            raise ValueError(f"scale ({scale:.4g}) of {names} must be at most 2^40: the budget is too small")
        if noise.order == 1 and scale < LEAST_LAPLACE:
            raise ValueError(
                f"scale ({scale:.4g}) of {names} must be at least 2^-9: the budget leaves no noise"
            )
        looks.append(TableLook(names, scale, share))
    closure = Closure.of(workload)
    precisions = np.array([1 / noise_variance(noise, look.scale) for look in looks])
    if measured is workload:
        precision = closure.onto_sets(precisions, 1)
    else:
        precision = precision_of_marginals(closure, measured, precisions)
    return Shot(
        workload, "marginals", noise, at_most, measured, tuple(looks), tuple(events), closure, precision
    )


def shot_at_residuals(closure: Closure, event: ResidualGaussian, family: NoiseFamily) -> Shot:
    """The shot at the residuals of a workload's closure, charged by one event."""
    workload, names = closure.workload, closure.workload.domain.names
    looks = tuple(
        TableLook(tuple(names[a] for a in inside), float(sigma), None)
        for inside, sigma in zip(event.looks, event.sigmas, strict=True)
    )
    precision = 1 / np.array(event.sigmas, np.float64) ** 2
    return Shot(workload, "residuals", family, event.at_most, workload, looks, (event,), closure, precision)


def precision_of_marginals(closure: Closure, measured: Workload, precisions: Float64s) -> Float64s:
    """How precisely other marginals tell of each set of a closure."""
    other = Closure.of(measured)
    known = other.onto_sets(precisions, 1)
    numbers = np.array([other.find(look) for look in closure.looks()])
    if (numbers < 0).any():
        raise ValueError("measured marginals must contain every marginal of the workload")
    precision: Float64s = known[numbers]
    return precision


def check_weights(weights: object, marginals: int) -> Float64s:
    """The weights of marginals: finite, not negative, not all zero; all equal unless given."""
    marginals = check_integer("marginals", marginals, 0)
    if weights is None:
        return np.ones(marginals)
    array = np.asarray(weights)
    expect("weights", weights, array.dtype.kind in "iuf", "numbers")
    array = array.astype(np.float64)
    if array.shape != (marginals,):
        raise ValueError(f"weights (shape {array.shape}) must be one for each of {marginals} marginals")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"weights ({shown(array)}) must be finite and not negative")
    if not array.any():
        raise ValueError("weights (all zero) must have one above zero")
    relative: Float64s = array / array.max()
    return relative


@dataclass(frozen=True, slots=True)
class Equal(Strategy):
    """Equal shares for every marginal of the workload. Made by `equal`."""

    def calibrate(self, workload: Workload, budget: Budget, at_most: int = 1) -> Shot:
        """The shot that spends a budget on a workload."""
        at_most = check_terms(workload, budget, at_most)
        shares = [budget.limit / len(workload)] * len(workload)
        return shot_at_marginals(workload, workload, shares, budget, at_most)


def equal() -> Equal:
    """The strategy that measures every marginal of the workload with the same noise.

    Its answers are the least-squares combination of all looks, so they agree with each other and have less
    variance than the look at their own marginal.

    >>> equal()
    Equal()
    """
    return Equal()
