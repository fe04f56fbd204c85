"""Expected errors of fitted answers: a part from the noise, and a part (bias) from the start.

With H the response of the fit (response.py) and d = truth - start, the error of the fit is
H noise - (I - H) d. The distribution of the noise is known. That of d follows from the prior weight kappa: d
has the covariance of the frequencies of kappa records, times one factor, the *start scale*, which is
estimated from the fit's residuals.

Stein's or thinning's estimate of each marginal would be unbiased, but as noisy as the raw counts. A single
factor, estimated from all counts, is far less noisy (benches/studies/intervals.py).

Residuals are (I - H)(d + noise). In a direction of eigenvalue h, and in units of the noise, d has variance
s h / (1 - h), with s the start scale. So the sum over directions of h (1 - h)^k residual^2 has expectation

    sum h (1 - h)^(k + 2) + s sum h^2 (1 - h)^(k + 1)

which gives an unbiased estimate of s. A large k gives weight to directions of small h, which the start
determines; in the others a biased start is corrected anyway. k is 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, freeze
from privmw.kernels.checks import check_integer
from privmw.random import sampling_stream
from privmw.release.errors.response import Response, covering_marginals, reason_not_offered

if TYPE_CHECKING:
    from privmw.release.release import Release

PROBES = 6  # draws of noise and of the start
LEAST_PROBES, MOST_PROBES = 2, 10_000
SCALE_DEVIATION = 0.5  # prior standard deviation of start scales around 1, over data sets
SCALE_BOUND = 10**0.25  # prior weights are chosen in steps of 10^.5: half a step to either side
NOT_MEASURED = "no measured marginal has all of its attributes"
LEAST_FREEDOM = 1.0  # of the sum of squared eigenvalues: below it the prior weight is a guess too
TOO_NOISY = "the noise is too large to tell how far off the rows were before anything was measured"


@dataclass(frozen=True, eq=False)
class ExpectedErrors:
    """Expected squared errors of a release's answers, by marginal of a workload; NaN where not offered.

    noise, start: each marginal's mean squared error that is due to the noise, and to the start. scale: the
    start scale, with its standard deviation; 1 agrees with the prior weight. probes: the number of draws that
    the figures average. reason: why no error is offered; empty otherwise.
    """

    workload: Workload
    noise: Float64s
    start: Float64s
    scale: float
    scale_deviation: float
    probes: int
    reason: str = ""

    @property
    def offered(self) -> Bools:
        """True for each marginal with an expected error."""
        return ~np.isnan(self.noise)

    @property
    def marginals(self) -> Float64s:
        """Expected root mean squared error of each marginal's cells, as a fraction of records."""
        return np.sqrt(self.noise + self.start)

    @property
    def attributes(self) -> Mapping[str, float]:
        """The same for each attribute, over all offered marginals that have it; NaN if none."""
        workload, offered = self.workload, self.offered
        orders = np.diff(workload.starts)
        cells = np.repeat(np.diff(workload.offsets) * offered, orders).astype(np.float64)
        squares = np.repeat(np.where(offered, self.noise + self.start, 0.0), orders) * cells
        count = len(workload.domain)
        total = np.bincount(workload.attributes, squares, count)
        among = np.bincount(workload.attributes, cells, count)
        return {
            name: math.sqrt(total[a] / among[a]) if among[a] else math.nan
            for a, name in enumerate(workload.domain.names)
        }

    @property
    def overall(self) -> float:
        """Expected root mean squared error over all cells of the offered marginals; NaN if none."""
        offered = self.offered
        if not offered.any():
            return math.nan
        cells = np.diff(self.workload.offsets)[offered]
        return math.sqrt(float(np.average((self.noise + self.start)[offered], weights=cells)))

    @property
    def share_of_start(self) -> float:
        """The share of the expected squared error that is due to the start; NaN if nothing is offered.

        A better public table reduces it; a larger budget reduces the other part, the noise.
        """
        offered = self.offered
        cells = np.diff(self.workload.offsets)[offered]
        start, noise = (float((part[offered] * cells).sum()) for part in (self.start, self.noise))
        return start / (start + noise) if start + noise > 0 else math.nan

    def to_frame(self, kind: Literal["pyarrow", "pandas", "polars"] = "pyarrow") -> Any:
        """A frame, one row for each marginal: its attributes, error, and the parts noise and start."""
        from privmw.release.cells import marginals_frame  # here: it imports releases

        roots = {"error": self.marginals, "noise": np.sqrt(self.noise), "start": np.sqrt(self.start)}
        return marginals_frame(self.workload, roots, kind)

    def __repr__(self) -> str:
        if self.reason:
            return f"ExpectedErrors(not offered: {self.reason})"
        count = int(self.offered.sum())
        return (
            f"ExpectedErrors({count} of {len(self.workload)} marginals, overall {self.overall:.3g}, "
            f"{self.share_of_start:.0%} of the square from the start)"
        )


def expected_errors_of(
    release: Release, workload: Workload | None, probes: int, seed: int | None
) -> ExpectedErrors:
    """Expected errors of a release; see `Release.expected_errors`."""
    target = release.workload if workload is None else workload
    release.support.marginals(target)  # checks the workload and its domain
    probes = check_integer("probes", probes, LEAST_PROBES, MOST_PROBES)
    reason = reason_not_offered(release)
    if not reason:
        response = Response(release, target)
        offered = covering_marginals(target, response.measured) >= 0
        reason = "" if offered.any() else f"of any marginal, {NOT_MEASURED}"
    if reason:
        return _not_offered(target, probes, reason)
    return probed(response, offered, probes, sampling_stream(seed))


def _not_offered(target: Workload, probes: int, reason: str) -> ExpectedErrors:
    nothing = freeze(np.full(len(target), math.nan))
    return ExpectedErrors(target, nothing, nothing, math.nan, math.nan, probes, reason)


def probed(response: Response, offered: Bools, probes: int, stream: np.random.Generator) -> ExpectedErrors:
    """Estimate expected errors from `probes` draws of noise and start."""
    target = response.target
    noise, start = np.zeros(target.cells), np.zeros(target.cells)
    moments, freedom = np.zeros(2), 0.0
    for _ in range(probes):
        probe = response.draw_noise(stream)
        fitted_part, potentials = response.respond(probe)
        freedom += float(np.einsum("i,i->", fitted_part, fitted_part)) / probes
        noise += np.square(response.change_of(potentials)) / probes
        moments += moments_of(response, probe - fitted_part) / probes
        start += np.square(response.error_of(response.draw_start(stream))) / probes
    if freedom < LEAST_FREEDOM:
        return _not_offered(target, probes, TOO_NOISY)
    scale, deviation = start_scale(weighted_misses(response, response.missed), moments[0], moments[1], probes)
    means = [np.add.reduceat(part, target.offsets[:-1]) / np.diff(target.offsets) for part in (noise, start)]
    means = [freeze(np.where(offered, mean, math.nan)) for mean in means]
    return ExpectedErrors(target, means[0], scale * means[1], scale, deviation, probes)


def start_scale(misses: float, of_noise: float, of_start: float, probes: int) -> tuple[float, float]:
    """Posterior mean and standard deviation of the start scale, from the weighted sum of squared residuals.

    of_noise: the sum's expectation if the start is right; of_start: what a start scale of 1 adds to it. The
    estimate has variance 2 / of_start at most, plus 1 / probes of that. The prior is 1 with deviation
    SCALE_DEVIATION; the result is clipped to SCALE_BOUND.

    >>> start_scale(misses=130.0, of_noise=100.0, of_start=1e9, probes=6)[0] == 1 / SCALE_BOUND
    True
    >>> [round(figure, 2) for figure in start_scale(1150.0, 150.0, 800.0, 6)]
    [1.25, 0.05]
    >>> start_scale(7.0, 7.0, 0.0, 6)  # the start decides nothing, or everything
    (1.0, 0.5)
    """
    if of_start <= 0:
        return 1.0, SCALE_DEVIATION
    variance = 2 / of_start * (1 + 1 / probes)
    prior_variance = SCALE_DEVIATION**2
    total = 1 / (1 / variance + 1 / prior_variance)
    scale = total * ((misses - of_noise) / of_start / variance + 1 / prior_variance)
    return min(max(scale, 1 / SCALE_BOUND), SCALE_BOUND), math.sqrt(total)


def weighted_misses(response: Response, missed: Float64s) -> float:
    """The sum of h (1 - h)^3 r^2 over residuals r: with m_j = (I - H)^j r, it is m_2 . (m_1 - m_2)."""
    once = missed - response.respond(missed)[0]
    fitted_part, _ = response.respond(once)
    return float(np.einsum("i,i->", once - fitted_part, fitted_part))


def moments_of(response: Response, once: Float64s) -> Float64s:
    """Estimate the sums of h (1 - h)^5 and h^2 (1 - h)^4 from a probe z; once: (I - H) z.

    With z_j = (I - H)^j z these are z_3 . (z_2 - z_3) and |z_2 - z_3|^2.
    """
    twice = once - response.respond(once)[0]
    fitted_part, _ = response.respond(twice)
    left = twice - fitted_part
    return np.array([np.einsum("i,i->", left, fitted_part), np.einsum("i,i->", fitted_part, fitted_part)])
