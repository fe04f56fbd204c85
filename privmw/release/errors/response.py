"""The response of a fit to a change of its measurements, by one Newton step at the release.

A fit with l2 slack minimises  kappa KL(D || start) + sum_i (q_i(D) - y_i)^2 / (2 v_i)  over weights D of the
rows: y are the noisy answers, v their variances, kappa the prior weight. With C the covariance of queries
under D, a change dy of the noisy answers changes the fitted ones by  dq = C (C + kappa diag(v))^-1 dy = H dy.
In units of the noise H is symmetric, with eigenvalues h from 0 (the start decides) to 1 (the noisy answers
decide).

Input: the weights, the noisy counts and the last round's prior weight; the start is not needed. Released
values and the sampling stream only.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING

import numpy as np

from privmw import kernels
from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, Int64s
from privmw.kernels.conjugate_gradients import conjugate_gradients
from privmw.release.measurements import combine

if TYPE_CHECKING:
    from privmw.release.release import Release

ACCURACY = 0.01  # of a solve: the residual relative to the fitted and to the missed part, in noise norm
SOLVER_STEPS = 500
SUM_OF_MASSES_BITS = 61  # of sums of masses
ROWS_FROM_NOISE = "its rows were drawn from the noisy counts; the effect of the noise on them is not known"
NOT_FULLY_MEASURED = "no marginal was fully measured"


def reason_not_offered(release: Release) -> str:
    """The reason why a release has no expected errors; empty if it has."""
    if not release.measurements:
        return "nothing was measured"
    details = release.history[-1].details if release.history else {}
    if "prior_weight" not in details:
        name = release.settings.get("algorithm", "its algorithm")
        return (
            f"the response of {name} to noise is not known: expected errors are offered for a projection "
            f"with l2 slack (release_auto, PEP)"
        )
    if not release.support.records:
        return ROWS_FROM_NOISE
    if not fully_measured(release).any():
        return NOT_FULLY_MEASURED
    return ""


def fully_measured(release: Release) -> Bools:
    """True for each marginal of `release.measured` whose cells were all measured."""
    measured = release.measured
    seen = np.zeros(measured.cells, bool)
    for measurement in release.measurements:
        seen[measurement.cells] = True
    return np.logical_and.reduceat(seen, measured.offsets[:-1])


class Response:
    """The fit of a release to its fully measured marginals, and its effect on answers to `target`.

    Arrays have one entry per cell of `measured`; noise is in units of the cells' standard deviations.
    """

    def __init__(self, release: Release, target: Workload) -> None:
        """release: one for which `reason_not_offered` is empty."""
        indices = np.flatnonzero(fully_measured(release))
        all_measured = len(indices) == len(release.measured)
        self.measured = release.measured if all_measured else release.measured.select(indices)
        combined = combine(release.measurements, release.n)
        among = np.searchsorted(combined.cells, release.measured.cells_of(indices))
        self.noisy, self.variances = combined.answers[among], combined.variances[among]
        self.prior_weight = release.history[-1].details["prior_weight"]
        self._weights, self._columns = release.weights, release.support.columns
        self._marginals = self._of(self.measured)
        self._set_target(target)
        self.fitted = _sums(self._marginals, self._weights)
        # A cell without a row is answered by 0 whatever the weights.
        self._has_row = _has_rows(self._marginals)
        self._deviations = np.sqrt(self.variances)
        self._ridge = self.prior_weight * self.variances
        spread = np.maximum(self.fitted * (1 - self.fitted), 0.0) + self._ridge
        self._scaling = self._has_row / np.sqrt(spread * self._ridge)  # as the projection's own steps

    def _of(self, workload: Workload) -> kernels.Marginals:
        return kernels.Marginals(self._columns, workload.attributes, workload.starts)

    def _set_target(self, target: Workload) -> None:
        self.target = target
        self._target_marginals = self._marginals if target == self.measured else self._of(target)

    def for_workload(self, target: Workload) -> Response:
        """The same fit with another target workload."""
        other = copy.copy(self)
        other._set_target(target)
        return other

    @property
    def represented(self) -> Bools:
        """True for each cell of `target` with a row."""
        return _has_rows(self._target_marginals)

    @property
    def missed(self) -> Float64s:
        """Standardised residuals, (noisy - fitted) / deviation; 0 where there is no row."""
        return self._has_row * (self.noisy - self.fitted) / self._deviations

    def draw_noise(self, stream: np.random.Generator) -> Float64s:
        """Standard normal noise; 0 where there is no row."""
        return np.asarray(stream.standard_normal(len(self.noisy)) * self._has_row, np.float64)

    def respond(self, noise: Float64s) -> tuple[Float64s, Float64s]:
        """H @ noise, and the corresponding change of the rows' potentials."""
        potentials = self._solve(noise * self._deviations)
        return self._changes(self._marginals, potentials) / self._deviations, potentials

    def draw_start(self, stream: np.random.Generator) -> Float64s:
        """A normal change of the rows' weights, with covariance (diag(D) - D D^T) / prior_weight.

        This is the covariance of the frequencies in a sample of prior_weight records.
        """
        spread = np.sqrt(self._weights) * stream.standard_normal(len(self._weights))
        spread -= self._weights * spread.sum()
        return np.asarray(spread / math.sqrt(self.prior_weight), np.float64)

    def error_of(self, start: Float64s, noise: Float64s | None = None) -> Float64s:
        """Errors of a refit's answers to `target`, if the truth is the release plus `start`, with new noise.

        The refit changes the answers by H (start + noise); its error is that minus the change by start.
        """
        return self.refit_errors(start, self.refit(start, noise))

    def refit(self, start: Float64s, noise: Float64s | None = None) -> Float64s:
        """Change of the rows' potentials by a refit, if the truth is the release plus `start`."""
        change = _sums(self._marginals, start)
        if noise is not None:
            change += noise * self._deviations
        return self._solve(change)

    def refit_errors(self, start: Float64s, potentials: Float64s) -> Float64s:
        """Errors of answers to `target` after a refit with this change of potentials."""
        return self.change_of(potentials) - _sums(self._target_marginals, start)

    def row_errors(self, start: Float64s, potentials: Float64s) -> Float64s:
        """Errors of the rows' weights after a refit: their sums are those of `refit_errors`."""
        errors: Float64s = self._weights * (potentials - _dot(self._weights, potentials)) - start
        return errors

    def change_of(self, potentials: Float64s) -> Float64s:
        """Change of answers to `target` by a change of potentials."""
        return self._changes(self._target_marginals, potentials)

    def _solve(self, change: Float64s) -> Float64s:
        """Change of the potentials by a change of the noisy answers."""
        multipliers, residual = np.zeros(len(change)), change * self._has_row

        def product(direction: Float64s) -> Float64s:
            image = self._changes(self._marginals, self._marginals.potentials(direction))
            image += self._ridge * direction
            image *= self._has_row
            return image

        # Accurate relative to both the fitted and the missed part: either may be small.
        inverse = self._has_row / self.variances
        wanted = residual.copy()

        def enough(left: Float64s) -> bool:
            missed = self._ridge * multipliers
            fitted = wanted - missed - left
            squares = [float(np.einsum("i,i,i->", p, p, inverse)) for p in (left, missed, fitted)]
            return squares[0] <= ACCURACY**2 * min(squares[1:])

        conjugate_gradients(
            product,
            residual,
            multipliers,
            self._scaling,
            dot=_dot,
            most_steps=SOLVER_STEPS,
            enough=enough,
        )
        return self._marginals.potentials(multipliers)

    def _changes(self, marginals: kernels.Marginals, potentials: Float64s) -> Float64s:
        """Covariance of each cell with the potentials."""
        return _sums(marginals, self._weights * (potentials - _dot(self._weights, potentials)))


def _has_rows(marginals: kernels.Marginals) -> Bools:
    return marginals.sums(np.ones(marginals.columns.rows, np.int64)) > 0


def _sums(marginals: kernels.Marginals, terms: Float64s) -> Float64s:
    """Sum the terms of each cell's rows, as integers, so that the order of summation does not matter."""
    total = float(np.abs(terms).sum())
    if total == 0:
        return np.zeros(marginals.cells)
    scale = 2.0 ** (SUM_OF_MASSES_BITS - math.frexp(total)[1])
    return marginals.sums(np.rint(terms * scale).astype(np.int64)) / scale


def _dot(one: Float64s, other: Float64s) -> float:
    return float(np.einsum("i,i->", one, other))


def covering_marginals(target: Workload, measured: Workload) -> Int64s:
    """For each marginal of `target`, the index of a measured one with all of its attributes; -1 if none.

    The marginal itself if it was measured, else one with the fewest cells.

    >>> from privmw import Domain
    >>> domain = Domain({"age": 3, "sex": 2, "race": 4})
    >>> measured = Workload(domain, [("age", "race"), ("age", "sex")])
    >>> covering_marginals(Workload(domain, [("age",), ("age", "sex"), ("sex", "race")]), measured).tolist()
    [1, 1, -1]
    """
    places = {marginal: j for j, marginal in enumerate(measured)}
    sizes = np.diff(measured.offsets)
    by_size = sorted(((set(marginal), j) for marginal, j in places.items()), key=lambda e: int(sizes[e[1]]))
    covers = np.full(len(target), -1, np.int64)
    for j, marginal in enumerate(target):
        if marginal in places:
            covers[j] = places[marginal]
            continue
        wanted = set(marginal)
        longer = (place for names, place in by_size if len(names) > len(wanted) and wanted <= names)
        covers[j] = next(longer, -1)
    return covers
