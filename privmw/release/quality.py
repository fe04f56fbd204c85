"""Quality in one look: how far shares of one and two attributes' values are off, in words with a number.

Estimated from released values: refits with new noise and another start, as for expected errors, but few of
them, so that every command can say it. Where the response of a fit to noise is not known, the noise alone
gives the figures.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools
from privmw.random import sampling_stream
from privmw.release.errors.expected import TOO_NOISY
from privmw.release.errors.measured import measured_intervals_of, pair_deviations
from privmw.release.errors.response import Response, covering_marginals, reason_not_offered

if TYPE_CHECKING:
    from privmw.release.release import Release

TRIALS = 4  # refits that are averaged
CLEAR_MISSES = 4.0  # standard deviations of the noise
MOST_SHARES = 2**24  # cells of two attributes; of more, only shares of one attribute are judged


@dataclass(frozen=True)
class Shares:
    """Expected errors of the shares of `attributes` (1 or 2) attributes' values, as fractions of the records.

    typical: the root mean square over all cells. worst: the expected largest. cells: how many are judged.
    """

    attributes: int
    cells: int
    typical: float
    worst: float

    def __str__(self) -> str:
        of = "one attribute's values" if self.attributes == 1 else "two attributes' values"
        typical, worst = (f"{100 * error:.2g}" for error in (self.typical, self.worst))
        return (
            f"shares of {of} are typically within {typical} percentage points of the truth, and the worst of "
            f"{self.cells:,} is off by about {worst}"
        )


@dataclass(frozen=True)
class Quality:
    """Expected errors of one- and two-way shares. reason: why there is none, or what they leave out."""

    shares: tuple[Shares, ...]
    reason: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"shares": [asdict(one) for one in self.shares], "reason": self.reason}

    def __str__(self) -> str:
        if not self.shares:
            return f"Quality: not known, as {self.reason}."
        words = "; ".join(map(str, self.shares))
        return f"Quality: {words}{f' ({self.reason})' if self.reason else ''}."

    __repr__ = __str__


def quality_of(release: Release) -> Quality:
    """Quality of a release; see `Release.quality`."""
    domain = release.support.domain
    workloads = [Workload.all(domain, k=order) for order in (1, 2) if order <= len(domain)]
    if len(workloads) > 1 and workloads[1].cells > MOST_SHARES:
        del workloads[1]
    reason = reason_not_offered(release)
    if reason:
        return _by_noise(release, workloads, reason)
    response = Response(release, workloads[0])
    shares = []
    for order, workload in enumerate(workloads, 1):
        offered = covering_marginals(workload, response.measured) >= 0
        cells = np.repeat(offered, np.diff(workload.offsets))
        if cells.any():
            part = response.for_workload(workload)
            stream = sampling_stream(0)
            trials = [
                part.error_of(part.draw_start(stream), part.draw_noise(stream))[cells] for _ in range(TRIALS)
            ]
            shares.append(_with_misses(_shares(order, trials), release, workload, cells))
    if shares and shares[0].typical == 0 and domain.size > 1:  # rows that no noise can move tell nothing
        return _by_noise(release, workloads, TOO_NOISY)
    return Quality(tuple(shares), "" if shares else "no share was measured")


def _shares(order: int, trials: list[Any]) -> Shares:
    typical = math.sqrt(float(np.mean([np.mean(np.square(errors)) for errors in trials])))
    worst = float(np.mean([np.abs(errors).max() for errors in trials]))
    return Shares(order, len(trials[0]), typical, worst)


def _with_misses(shares: Shares, release: Release, workload: Workload, cells: Bools) -> Shares:
    """Errors at least as large as the noisy counts show: of rows that cannot follow them."""
    measured = measured_intervals_of(release, workload=workload)
    cells = cells & measured.offered
    misses, deviations = (measured.noisy - release.answers(workload))[cells], measured.deviations[cells]
    if not len(misses):
        return shares
    by_chance = np.sum(deviations**2) + CLEAR_MISSES * math.sqrt(2 * np.sum(deviations**4))
    typical = math.sqrt(max(float(np.sum(misses**2) - by_chance), 0.0) / len(misses))
    largest = np.abs(misses) - deviations * math.sqrt(2 * math.log(max(len(misses), 2)))
    worst = max(shares.worst, float(largest.max()), typical)
    return replace(shares, typical=max(shares.typical, typical), worst=worst)


def _by_noise(release: Release, workloads: list[Workload], reason: str) -> Quality:
    """The noise of shares inside measured marginals: of a pair, and of one attribute by its best pair."""
    pairs = pair_deviations(release)
    if not pairs:
        return Quality((), reason)
    sizes = release.support.domain.sizes
    alone: dict[int, float] = {}
    for (a, b), deviation in pairs.items():
        for here, other in ((a, b), (b, a)):
            alone[here] = min(alone.get(here, math.inf), deviation * math.sqrt(sizes[other]))
    shares = []
    of_one = [(sizes[a], deviation) for a, deviation in alone.items()]
    of_two = [(sizes[a] * sizes[b], deviation) for (a, b), deviation in pairs.items()]
    for order, parts in enumerate((of_one, of_two)[: len(workloads)], 1):
        counts, deviations = (np.array(column, np.float64) for column in zip(*parts, strict=True))
        cells = int(counts.sum())
        typical = math.sqrt(float(np.average(deviations**2, weights=counts)))
        worst = float(deviations.max()) * math.sqrt(2 * math.log(max(cells, 2)))
        shares.append(Shares(order, cells, typical, worst))
    return Quality(tuple(shares), "the noise alone")
