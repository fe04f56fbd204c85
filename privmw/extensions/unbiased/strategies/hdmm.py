"""HDMM's OPT_M: plain marginals of all sets of attributes, each with a weight that minimises total variance.

McKenna, Miklau, Hay and Machanavajjhala (2018, 2021) optimise the weights of all 2^d marginals for the total
squared error of a workload. Laplace noise shares epsilon, so a weight theta has a precision ~ theta^2;
Gaussian noise shares rho, which the precision is proportional to. Both are minimised here by a fixed point
that never makes the error worse. The curator counts marginals of at most six attributes, so larger sets have
no weight; the total has none, as n is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from privmw.accounting import Budget
from privmw.data.workload import LARGEST_ORDER, Workload
from privmw.extensions.unbiased.strategies.shot import Shot
from privmw.extensions.unbiased.strategies.strategy import Strategy, check_terms, shot_at_marginals
from privmw.kernels.arrays import Float64s

MOST_HDMM_ATTRIBUTES = 13
_MOST_DESCENT_STEPS = 2000
_SMALLEST_DECREASE = 1e-7  # relative decrease of the error over 50 sweeps, below which they end
_LEAST = 1e-5  # of the budget: what a marginal must be worth to be measured at all


@dataclass(frozen=True, slots=True)
class Hdmm(Strategy):
    """Weighted marginals. Made by `hdmm`."""

    def calibrate(self, workload: Workload, budget: Budget, at_most: int = 1) -> Shot:
        """The shot that spends a budget on a workload, in which at most 13 attributes are involved."""
        at_most = check_terms(workload, budget, at_most)
        sizes = workload.domain.sizes
        involved = sorted({a for a in workload.attributes.tolist() if sizes[a] > 1})
        if len(involved) > MOST_HDMM_ATTRIBUTES:
            raise ValueError(
                f"workload ({len(involved)} attributes) must have at most {MOST_HDMM_ATTRIBUTES} for HDMM, "
                "which weighs all sets of them; strategies.residual has no such limit"
            )
        if not involved:
            raise ValueError("workload must have an attribute of two values or more")
        shares = _optimal_shares(workload, involved, budget.noise.precision_power)
        chosen = np.flatnonzero(shares)
        names = workload.domain.names
        measured = Workload(
            workload.domain,
            [tuple(names[a] for i, a in enumerate(involved) if mask >> i & 1) for mask in chosen.tolist()],
        )
        parts = [Fraction(share) for share in shares[chosen].tolist()]
        whole = sum(parts, Fraction(0))
        return shot_at_marginals(
            workload, measured, [budget.limit * part / whole for part in parts], budget, at_most
        )


def hdmm() -> Hdmm:
    """HDMM's weighted marginals (OPT_M): Laplace noise for a pure budget as in the papers, else Gaussian.

    >>> hdmm()
    Hdmm()
    """
    return Hdmm()


def _optimal_shares(workload: Workload, involved: list[int], power: int) -> Float64s:
    """The share of the budget of every set of attributes, by bit mask: 0 for those not worth measuring."""
    sizes = [workload.domain.sizes[a] for a in involved]
    loss = _loss(workload, involved)
    masks = np.arange(len(loss))
    orders = np.array([mask.bit_count() for mask in masks.tolist()])
    measurable = (orders > 0) & (orders <= LARGEST_ORDER)
    # Laplace weights have several local optima, and a weight of 0 stays: start from all and from the closure.
    starts = [measurable, loss > 0] if power > 1 else [measurable]
    found = [_descend(start / start.sum(), loss, sizes, power) for start in starts]
    shares = min(found, key=lambda shares: _error(shares, loss, sizes, power))
    kept = shares >= _LEAST
    if not (_onto_subsets(kept * shares, sizes)[loss > 0] > 0).all():
        kept = shares > 0
    return np.where(kept, shares, 0.0)


def _error(shares: Float64s, loss: Float64s, sizes: list[int], power: int) -> float:
    """The total variance, up to a factor of the budget: a look's precision is its share to the power."""
    precision = _onto_subsets(shares**power, sizes)
    return float((loss[loss > 0] / precision[loss > 0]).sum())


def _descend(shares: Float64s, loss: Float64s, sizes: list[int], power: int) -> Float64s:
    """Shares with less and less error, until it hardly falls."""
    needed, before = loss > 0, np.inf
    for sweep in range(_MOST_DESCENT_STEPS):
        precision = _onto_subsets(shares**power, sizes)
        gain = _onto_supersets(np.where(needed, loss / np.where(needed, precision, 1) ** 2, 0), sizes)
        if sweep % 50 == 0:
            error = _error(shares, loss, sizes, power)
            if before - error <= _SMALLEST_DECREASE * error:
                break
            before = error
        # The error is at most sum of gain tau_old^2 / tau, with equality at tau_old; least for these shares.
        shares = shares * (np.cbrt(gain * shares) if power > 1 else np.sqrt(gain))
        shares /= shares.sum()
    return shares


def _loss(workload: Workload, involved: list[int]) -> Float64s:
    """For each set S, by bit mask, p_S times the sum over cells of marginals A over it of rest^-2."""
    place = {a: i for i, a in enumerate(involved)}
    sizes = workload.domain.sizes
    loss = np.zeros(1 << len(involved))
    for j in range(len(workload)):
        row = workload.attributes[workload.starts[j] : workload.starts[j + 1]].tolist()
        several = [a for a in row if a in place]
        cells = float(np.prod([sizes[a] for a in several]))
        for order in range(1, len(several) + 1):
            for inside in combinations(several, order):
                within = np.prod([float(sizes[a]) for a in inside])
                shrink = np.prod([1 - 1 / sizes[a] for a in inside])
                loss[sum(1 << place[a] for a in inside)] += shrink * cells * (within / cells) ** 2
    return loss


def _onto_subsets(values: Float64s, sizes: list[int]) -> Float64s:
    """For each S, the sum over the sets A that contain it of values_A / product of n_j over A without S."""
    sums: Float64s = values.copy()
    for i, size in enumerate(sizes):
        halves = sums.reshape(-1, 2, 1 << i)
        halves[:, 0] += halves[:, 1] / size
    return sums


def _onto_supersets(values: Float64s, sizes: list[int]) -> Float64s:
    """For each A, the sum over its subsets S of values_S / product of n_j over A without S."""
    sums: Float64s = values.copy()
    for i, size in enumerate(sizes):
        halves = sums.reshape(-1, 2, 1 << i)
        halves[:, 1] += halves[:, 0] / size
    return sums
