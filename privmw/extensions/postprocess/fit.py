"""The fit: weights whose marginals are as near to the noisy ones as they can be, with their certificate.

It may be published: it rests on released counts and public rows. The certificate is computed from the
weights, not by the solver that found them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privmw.data.domain import Domain, positions_of
from privmw.data.support import Support
from privmw.kernels.arrays import Bools, Float64s, freeze
from privmw.release.noisy_marginals import NoisyMarginals


@dataclass(frozen=True, slots=True)
class Stage:
    """One optimisation: how far from its optimum it ended, relative to the counts, and what it cost.

    kkt: the largest move that any row would still make; violation: the largest |held count - sum|; both over
    the largest noisy count. bound: the standardised residual that no count may exceed, where there is one.
    """

    name: str
    kkt: float
    violation: float
    objective: float
    steps: int
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class Certificate:
    """How good a fit is.

    kkt and violation: the largest of all stages. misfit: the largest |noisy count - fitted count| in standard
    deviations: what no consistent, non-negative weights could avoid, or what the method gave up. unreached:
    the same among cells that no row of a support lies in. unique: whether the weights are; if not, only the
    fitted counts are.
    """

    method: str
    kkt: float
    violation: float
    misfit: float
    unreached: float
    unique: bool
    stages: tuple[Stage, ...]


class Fit:
    """Weights of rows: of the cells of the full histogram in C order, or of a support's rows.

    measured: the noisy marginals that were fitted. support: the rows; None for those of the full histogram.
    weights: how many records each row stands for, read-only.
    """

    __slots__ = ("_certificate", "_made", "measured", "support", "weights")

    def __init__(
        self,
        measured: NoisyMarginals,
        support: Support | None,
        weights: Float64s,
        method: str,
        stages: Callable[[], Sequence[Stage]],
        unique: bool,
    ) -> None:
        self.measured, self.support = measured, support
        self.weights = freeze(weights)
        self._made = (method, stages, unique)
        self._certificate: Certificate | None = None

    @property
    def domain(self) -> Domain:
        """The domain of the rows."""
        return self.measured.domain

    @property
    def certificate(self) -> Certificate:
        """How good the fit is."""
        if self._certificate is None:
            method, inspected, unique = self._made
            stages = tuple(inspected())
            misfit = np.abs(self.residuals())
            self._certificate = Certificate(
                method,
                max(stage.kkt for stage in stages),
                max(stage.violation for stage in stages),
                float(misfit.max()),
                float(misfit[self.unreachable()].max(initial=0.0)),
                unique,
                stages,
            )
        return self._certificate

    def marginal(self, names: Sequence[str]) -> Float64s:
        """The weights' marginal on any attributes, in the domain's order, as an array of their sizes."""
        return self._marginal(tuple(sorted(set(positions_of(self.domain, names)))))

    def _marginal(self, places: tuple[int, ...]) -> Float64s:
        sizes = self.domain.sizes
        if self.support is None:
            others = tuple(a for a in range(len(sizes)) if a not in places)
            return np.asarray(self.weights.reshape(sizes).sum(axis=others))
        shape = tuple(sizes[place] for place in places)
        if not shape:
            return np.asarray(self.weights.sum())
        cells = np.ravel_multi_index([self.support.table.columns[place] for place in places], shape)
        return np.asarray(np.bincount(cells, self.weights, math.prod(shape)), np.float64).reshape(shape)

    def fitted_counts(self) -> Float64s:
        """The weights' sum in every cell of the marginals measured, in their order."""
        return np.concatenate([self._marginal(places).ravel() for places in self.measured.places])

    def residuals(self) -> Float64s:
        """Noisy counts minus fitted ones, in standard deviations; 0 where nothing was measured."""
        return (self.measured.noisy_counts - self.fitted_counts()) / np.sqrt(self.measured.variances)

    def unreachable(self) -> Bools:
        """The cells that no row lies in."""
        if self.support is None:
            return np.zeros(len(self.measured.noisy_counts), bool)
        unreached = []
        for places in self.measured.places:
            shape = tuple(self.domain.sizes[place] for place in places)
            reached = np.zeros(math.prod(shape), bool)
            columns = [self.support.table.columns[place] for place in places]
            reached[np.ravel_multi_index(columns, shape) if columns else 0] = True
            unreached.append(~reached)
        return np.concatenate(unreached)

    def __repr__(self) -> str:
        certificate = self.certificate
        return (
            f"Fit({certificate.method}, {len(self.weights)} weights of total {self.weights.sum():.6g}, "
            f"kkt {certificate.kkt:.1g}, misfit {certificate.misfit:.3g})"
        )
