"""How a fit responds to other measurements: what a refit would change, by one Newton step at the release.

A fit with l2 slack minimises  kappa KL(D || start) + sum_i (q_i(D) - y_i)^2 / (2 v_i)  over weights D of the
rows: y are the noisy answers, v their variances, kappa the prior weight. With C the covariance of queries
under D, answers follow a change dy of the noisy ones by  dq = C (C + kappa diag(v))^-1 dy = H dy. In units of
the noise H is symmetric, with eigenvalues h from 0 (the start decides) to 1 (the noisy answers do).

Everything needed lies in a release: its weights, its noisy counts and the prior weight of its last round; not
the start. Released values and the sampling stream only.
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

ACCURACY = 0.01  # of a solve, in noise: what is left over, beside what is followed and what is not
MOST_STEPS = 500
BITS = 61  # of sums of masses
DRAWN = "its rows were drawn from the noisy counts themselves, and how they follow the noise is not known"
NONE_WHOLE = "no marginal was measured whole, so that nothing says how far off one is"


def why_not(release: Release) -> str:
    """Why a release has no expected errors, in words; empty if it has."""
    if not release.measurements:
        return "nothing was measured"
    details = release.history[-1].details if release.history else {}
    if "prior_weight" not in details:
        name = release.settings.get("algorithm", "its algorithm")
        return (
            f"how answers of {name} follow the noise is not known: expected errors are those of a projection "
            f"with l2 slack (release_auto, PEP)"
        )
    if not release.support.records:
        return DRAWN
    if not whole_marginals(release).any():
        return NONE_WHOLE
    return ""


def whole_marginals(release: Release) -> Bools:
    """Which marginals of `release.measured` had all of their cells measured."""
    measured = release.measured
    seen = np.zeros(measured.cells, bool)
    for measurement in release.measurements:
        seen[measurement.cells] = True
    return np.logical_and.reduceat(seen, measured.offsets[:-1])


class Response:
    """The fit of a release to the marginals measured whole, and how answers to `asked` follow it.

    Cells are those of `measured`, and noise is in units of their standard deviations, unless said otherwise.
    """

    def __init__(self, release: Release, asked: Workload) -> None:
        """release: one for which `why_not` has nothing to say."""
        whole = np.flatnonzero(whole_marginals(release))
        everything = len(whole) == len(release.measured)
        self.measured = release.measured if everything else release.measured.select(whole)
        combined = combine(release.measurements, release.n)
        among = np.searchsorted(combined.cells, release.measured.cells_of(whole))
        self.noisy, self.variances = combined.answers[among], combined.variances[among]
        self.prior_weight = release.history[-1].details["prior_weight"]
        self._weights, self._columns = release.weights, release.support.columns
        self._marginals = self._of(self.measured)
        self._ask(asked)
        self.fitted = _sums(self._marginals, self._weights)
        # No weights change the answer 0 of a cell without a row.
        self._held = _has_rows(self._marginals)
        self._deviations = np.sqrt(self.variances)
        self._ridge = self.prior_weight * self.variances
        spread = np.maximum(self.fitted * (1 - self.fitted), 0.0) + self._ridge
        self._scaling = self._held / np.sqrt(spread * self._ridge)  # as the projection's own steps

    def _of(self, workload: Workload) -> kernels.Marginals:
        return kernels.Marginals(self._columns, workload.attributes, workload.starts)

    def _ask(self, asked: Workload) -> None:
        self.asked = asked
        self._asked = self._marginals if asked == self.measured else self._of(asked)

    def asking(self, asked: Workload) -> Response:
        """The same fit, and how answers to another workload follow it."""
        other = copy.copy(self)
        other._ask(asked)
        return other

    @property
    def represented(self) -> Bools:
        """Whether a row lies in each cell of `asked`."""
        return _has_rows(self._asked)

    @property
    def missed(self) -> Float64s:
        """By how much the fit misses the noisy answers; 0 where there is no row."""
        missed: Float64s = self._held * (self.noisy - self.fitted) / self._deviations
        return missed

    def draw_noise(self, stream: np.random.Generator) -> Float64s:
        """Standard normal noise of the cells that have a row."""
        return np.asarray(stream.standard_normal(len(self.noisy)) * self._held, np.float64)

    def followed(self, noise: Float64s) -> tuple[Float64s, Float64s]:
        """H times noise, and the change of the rows' potentials that makes it."""
        potentials = self._solve(noise * self._deviations)
        return self._changes(self._marginals, potentials) / self._deviations, potentials

    def draw_start(self, stream: np.random.Generator) -> Float64s:
        """The change of the rows' weights if they were counts of prior_weight records, but for a constant.

        Normal, with the covariance of such a sample's frequencies: diag(D) - D D^T over prior_weight.
        """
        spread = np.sqrt(self._weights) * stream.standard_normal(len(self._weights))
        spread -= self._weights * spread.sum()
        return np.asarray(spread / math.sqrt(self.prior_weight), np.float64)

    def error_of(self, start: Float64s, noise: Float64s | None = None) -> Float64s:
        """The errors of answers to `asked` where the truth is the release plus `start`, with new noise.

        A refit sees start + noise and follows it by H of it; what it does not follow of start, it misses.
        """
        return self.missed_by(start, self.refitted(start, noise))

    def refitted(self, start: Float64s, noise: Float64s | None = None) -> Float64s:
        """The change of the rows' potentials by a refit where the truth is the release plus `start`."""
        change = _sums(self._marginals, start)
        if noise is not None:
            change += noise * self._deviations
        return self._solve(change)

    def missed_by(self, start: Float64s, potentials: Float64s) -> Float64s:
        """The errors of answers to `asked` after a refit that changed the potentials so."""
        return self.change_of(potentials) - _sums(self._asked, start)

    def change_of(self, potentials: Float64s) -> Float64s:
        """The change of answers to `asked` that a change of potentials makes."""
        return self._changes(self._asked, potentials)

    def _solve(self, change: Float64s) -> Float64s:
        """The potentials that follow a change of the noisy answers."""
        multipliers, residual = np.zeros(len(change)), change * self._held

        def product(direction: Float64s) -> Float64s:
            image = self._changes(self._marginals, self._marginals.potentials(direction))
            image += self._ridge * direction
            image *= self._held
            return image

        # Both parts of the change matter, what is followed and what is not, and either may be small.
        inverse = self._held / self.variances
        wanted = residual.copy()

        def enough(left: Float64s) -> bool:
            not_followed = self._ridge * multipliers
            followed = wanted - not_followed - left
            squares = [float(np.einsum("i,i,i->", p, p, inverse)) for p in (left, not_followed, followed)]
            return squares[0] <= ACCURACY**2 * min(squares[1:])

        conjugate_gradients(
            product,
            residual,
            multipliers,
            self._scaling,
            dot=_dot,
            accuracy=0.0,
            most_steps=MOST_STEPS,
            enough=enough,
        )
        return self._marginals.potentials(multipliers)

    def _changes(self, marginals: kernels.Marginals, potentials: Float64s) -> Float64s:
        """The covariance of each cell with the potentials."""
        return _sums(marginals, self._weights * (potentials - _dot(self._weights, potentials)))


def _has_rows(marginals: kernels.Marginals) -> Bools:
    return marginals.sums(np.ones(marginals.columns.rows, np.int64)) > 0


def _sums(marginals: kernels.Marginals, terms: Float64s) -> Float64s:
    """For each cell the sum of its rows' terms, by way of integers as everywhere."""
    total = float(np.abs(terms).sum())
    if total == 0:
        return np.zeros(marginals.cells)
    scale = 2.0 ** (BITS - math.frexp(total)[1])
    sums: Float64s = marginals.sums(np.rint(terms * scale).astype(np.int64)) / scale
    return sums


def _dot(one: Float64s, other: Float64s) -> float:
    return float(np.einsum("i,i->", one, other))


def holders(asked: Workload, measured: Workload) -> Int64s:
    """For each marginal of `asked` a measured one that has all of its attributes; -1 if there is none.

    The same marginal if it was measured, else one of the fewest cells.

    >>> from privmw import Domain
    >>> domain = Domain({"age": 3, "sex": 2, "race": 4})
    >>> measured = Workload(domain, [("age", "race"), ("age", "sex")])
    >>> holders(Workload(domain, [("age",), ("age", "sex"), ("sex", "race")]), measured).tolist()
    [1, 1, -1]
    """
    places = {marginal: j for j, marginal in enumerate(measured)}
    sizes = np.diff(measured.offsets)
    by_size = sorted(((set(marginal), j) for marginal, j in places.items()), key=lambda e: int(sizes[e[1]]))
    found = np.full(len(asked), -1, np.int64)
    for j, marginal in enumerate(asked):
        if marginal in places:
            found[j] = places[marginal]
            continue
        wanted = set(marginal)
        longer = (place for names, place in by_size if len(names) > len(wanted) and wanted <= names)
        found[j] = next(longer, -1)
    return found
