"""The expected error of fitted answers: the part that follows the noise, and the part the start leaves.

With H the response of the fit (response.py) and d what the start lacks of the truth, the error of the fit is
H noise - (I - H) d. The noise is known. Of d the prior weight says how large it is: d varies as frequencies
of kappa records do, times one number, the *start scale*. That is estimated from the fit's own misses.

Why not Stein's or thinning's estimate of each marginal: they are unbiased, but their own noise is that of the
raw counts. One number, from all counts together, has far less of it (benches/studies/intervals.py).

Misses are (I - H)(d + noise). In a direction of eigenvalue h, and in units of the noise, d has variance
s h / (1 - h), with s the start scale. So the sum over directions of h (1 - h)^k miss^2 is

    sum h (1 - h)^(k + 2) + s sum h^2 (1 - h)^(k + 1)

in expectation, and unbiased for s whatever the noise did. A large k looks at directions that the start
decides, where it matters most: a biased start is corrected in the few others. k is 3.
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
from privmw.release.errors.response import Response, holders, why_not

if TYPE_CHECKING:
    from privmw.release.release import Release

PROBES = 6  # draws of noise, and of the start
LEAST_PROBES, MOST_PROBES = 2, 10_000
USUAL_SPREAD = 0.5  # of start scales around 1, over data sets: what is known before the counts speak
LARGEST_SCALE = 10**0.25  # prior weights are chosen in steps of 10^.5: half a step to either side
NOT_MEASURED = "no measured marginal has all of its attributes"
LEAST_LEARNT = 1.0  # the sum of squared eigenvalues: with less, the prior weight is a guess too
NOT_LEARNT = "the noise is too large to tell how far off the rows were before anything was measured"


@dataclass(frozen=True, eq=False)
class ExpectedErrors:
    """Expected squared errors of a release's answers, by marginal of a workload; NaN where nothing says them.

    noise, start: the mean squared error of each marginal's cells that follows the noise, and that the start
    leaves. scale: the start scale, with its standard deviation; 1 is what the prior weight says. probes: how
    many draws the figures are means of. reason: why there are none at all; empty if there are.
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
        """Whether each marginal has an expected error."""
        return ~np.isnan(self.noise)

    @property
    def marginals(self) -> Float64s:
        """For each marginal the expected root mean squared error of its cells, as a fraction of records."""
        errors: Float64s = np.sqrt(self.noise + self.start)
        return errors

    @property
    def attributes(self) -> Mapping[str, float]:
        """For each attribute the same over the cells of all offered marginals that have it; NaN if none."""
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
        """The expected root mean squared error over all cells of the offered marginals; NaN if none."""
        offered = self.offered
        if not offered.any():
            return math.nan
        cells = np.diff(self.workload.offsets)[offered]
        return math.sqrt(float(np.average((self.noise + self.start)[offered], weights=cells)))

    @property
    def share_of_start(self) -> float:
        """The share of the expected squared error that the start leaves; NaN if nothing is offered.

        The rest is noise, which a larger budget makes less; a better public table makes this less.
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
    """The expected errors of a release; see `Release.expected_errors`."""
    asked = release.workload if workload is None else workload
    release.support.marginals(asked)  # refuses what is no workload, or of another domain
    probes = check_integer("probes", probes, LEAST_PROBES, MOST_PROBES)
    reason = why_not(release)
    if not reason:
        response = Response(release, asked)
        offered = holders(asked, response.measured) >= 0
        reason = "" if offered.any() else f"of any marginal, {NOT_MEASURED}"
    if reason:
        return _not_offered(asked, probes, reason)
    return probed(response, offered, probes, sampling_stream(seed))


def _not_offered(asked: Workload, probes: int, reason: str) -> ExpectedErrors:
    nothing = freeze(np.full(len(asked), math.nan))
    return ExpectedErrors(asked, nothing, nothing, math.nan, math.nan, probes, reason)


def probed(response: Response, offered: Bools, probes: int, stream: np.random.Generator) -> ExpectedErrors:
    """The expected errors by that many draws of noise and start."""
    asked = response.asked
    noise, start = np.zeros(asked.cells), np.zeros(asked.cells)
    moments, learnt = np.zeros(2), 0.0
    for _ in range(probes):
        drawn = response.draw_noise(stream)
        followed, potentials = response.followed(drawn)
        learnt += float(np.einsum("i,i->", followed, followed)) / probes
        noise += np.square(response.change_of(potentials)) / probes
        moments += moments_of(response, drawn - followed) / probes
        start += np.square(response.error_of(response.draw_start(stream))) / probes
    if learnt < LEAST_LEARNT:
        return _not_offered(asked, probes, NOT_LEARNT)
    scale, deviation = start_scale(weighed(response, response.missed), moments[0], moments[1], probes)
    means = [np.add.reduceat(part, asked.offsets[:-1]) / np.diff(asked.offsets) for part in (noise, start)]
    means = [freeze(np.where(offered, mean, math.nan)) for mean in means]
    return ExpectedErrors(asked, means[0], scale * means[1], scale, deviation, probes)


def start_scale(misses: float, of_noise: float, of_start: float, probes: int) -> tuple[float, float]:
    """The start scale and its standard deviation, from weighed squared misses and what they would be.

    of_noise: their expectation where the start is right; of_start: what a start scale of 1 adds to it. The
    estimate has variance 2 / of_start at most, and a part of that again from the probes. It is weighed
    against what is known beforehand, 1 with deviation USUAL_SPREAD, and kept within LARGEST_SCALE.

    >>> start_scale(misses=130.0, of_noise=100.0, of_start=1e9, probes=6)[0] == 1 / LARGEST_SCALE
    True
    >>> [round(figure, 2) for figure in start_scale(1150.0, 150.0, 800.0, 6)]
    [1.25, 0.05]
    >>> start_scale(7.0, 7.0, 0.0, 6)  # the start decides nothing, or everything
    (1.0, 0.5)
    """
    if of_start <= 0:
        return 1.0, USUAL_SPREAD
    variance = 2 / of_start * (1 + 1 / probes)
    known = USUAL_SPREAD**2
    total = 1 / (1 / variance + 1 / known)
    scale = total * ((misses - of_noise) / of_start / variance + 1 / known)
    return min(max(scale, 1 / LARGEST_SCALE), LARGEST_SCALE), math.sqrt(total)


def weighed(response: Response, missed: Float64s) -> float:
    """The sum of h (1 - h)^3 miss^2: with m_j = (I - H)^j miss, it is m_2 . (m_1 - m_2)."""
    once = missed - response.followed(missed)[0]
    followed, _ = response.followed(once)
    return float(np.einsum("i,i->", once - followed, followed))


def moments_of(response: Response, once: Float64s) -> Float64s:
    """The sums of h (1 - h)^5 and of h^2 (1 - h)^4, by a probe z: given (I - H) z.

    With z_j = (I - H)^j z these are z_3 . (z_2 - z_3) and |z_2 - z_3|^2.
    """
    twice = once - response.followed(once)[0]
    followed, _ = response.followed(twice)
    left = twice - followed
    return np.array([np.einsum("i,i->", left, followed), np.einsum("i,i->", followed, followed)])
