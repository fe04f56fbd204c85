"""FittedIntervals for fitted answers: a parametric bootstrap of the released model.

Each refit takes the release plus a drawn error of its start as the truth, adds new noise to what was
measured, and fits again, by one Newton step at the release (response.py). Its error in each cell is then
known. An interval is the answer and as many root mean squared errors to either side as a normal law says, so
that the pull to the start counts, and not only the spread.

Two kinds of cells have no such error. Those without a row are answered by 0 at every refit. Answers below one
record are all but that: the start, not the data, says how far below. Their intervals begin at 0 and end at
whichever is less: the cell's own noisy answer and its deviations; or the noisy mean of all cells of the kind,
plus its deviations, divided by 1 - level, since no more than that share of them can be so many times their
mean (Markov). Released values and the sampling stream only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, Int64s, freeze
from privmw.kernels.checks import check_integer, check_number
from privmw.random import sampling_stream
from privmw.release.errors.expected import PROBES, expected_errors_of
from privmw.release.errors.response import Response, holders

if TYPE_CHECKING:
    from privmw.release.release import Release

REFITS = 50
FEWEST_REFITS, MOST_REFITS = 10, 100_000
LEAST_LEVEL, LARGEST_LEVEL = 0.5, 0.999
SURELY = 2.0  # deviations of the noisy mean of many cells


@dataclass(frozen=True, eq=False)
class FittedIntervals:
    """An interval for each answer to a workload, as fractions of the records; NaN where none is offered.

    represented: whether a row of the release lies in the cell; if not, its answer is 0 whatever the truth,
    and only what was measured bounds it. small: whether the answer is below one record, with or without
    rows. refits: of the bootstrap. reason: why there are no intervals at all; empty if there are.
    """

    workload: Workload
    level: float
    answers: Float64s
    low: Float64s
    high: Float64s
    represented: Bools
    small: Bools
    refits: int
    reason: str = ""

    @property
    def offered(self) -> Bools:
        """Whether each cell has an interval."""
        return ~np.isnan(self.low)

    def to_frame(self, kind: Literal["pyarrow", "pandas", "polars"] = "pyarrow") -> Any:
        """A frame, one row for each cell: attributes, values, answer, low, high and represented."""
        from privmw.release.cells import cells_frame  # here: it imports releases

        return cells_frame(self.workload, {"answer": self.answers, **self.columns()}, kind)

    def columns(self) -> dict[str, Any]:
        """What a file of answers has beside them."""
        return {"low": self.low, "high": self.high, "represented": self.represented}

    def __repr__(self) -> str:
        if self.reason:
            return f"FittedIntervals(not offered: {self.reason})"
        return (
            f"FittedIntervals(level {self.level:g}, {int(self.offered.sum())} of {len(self.answers)} cells, "
            f"{int((~self.represented).sum())} of them without a row, {self.refits} refits)"
        )


def intervals_of(
    release: Release, level: float, workload: Workload | None, refits: int, seed: int | None
) -> FittedIntervals:
    """The intervals of a release; see `Release.intervals`."""
    level = check_number("level", level)
    if not LEAST_LEVEL <= level <= LARGEST_LEVEL:
        raise ValueError(f"level ({level}) must be from {LEAST_LEVEL} to {LARGEST_LEVEL}")
    refits = check_integer("refits", refits, FEWEST_REFITS, MOST_REFITS)
    errors = expected_errors_of(release, workload, PROBES, seed)
    asked, answers = errors.workload, freeze(release.answers(errors.workload))
    small = answers * release.n < 1
    if errors.reason:
        nothing = freeze(np.full(asked.cells, math.nan))
        represented = release.support.answers(asked, release.support.start("uniform")) > 0
        return FittedIntervals(
            asked, level, answers, nothing, nothing, represented, freeze(small), refits, errors.reason
        )
    response = Response(release, asked)
    # The first numbers of the stream were for the expected errors: draw from another.
    stream = sampling_stream(None if seed is None else seed + 1)
    squares = np.zeros(asked.cells)
    for _ in range(refits):
        start = math.sqrt(errors.scale) * response.draw_start(stream)
        squares += np.square(response.error_of(start, response.draw_noise(stream))) / refits
    deviations = quantile(level, refits) * np.sqrt(squares)
    low, high = np.maximum(answers - deviations, 0.0), np.minimum(answers + deviations, 1.0)
    represented = response.represented
    own = _own_bounds(response, level)
    for kind in (small & represented, ~represented):
        bound = _bound_of_many(response, kind, answers, level)
        low[kind] = 0.0
        high[kind] = np.maximum(high[kind], np.minimum(own[kind], bound))
    without = np.repeat(~errors.offered, np.diff(asked.offsets))
    low[without], high[without] = math.nan, math.nan
    return FittedIntervals(
        asked, level, answers, freeze(low), freeze(high), freeze(represented), freeze(small), refits
    )


def quantile(level: float, refits: int) -> float:
    """How many root mean squared errors of so many refits an interval goes to either side.

    Student's quantile, by the first term of its expansion: the error of few refits is itself uncertain.

    >>> round(quantile(0.95, 10**5), 3), round(quantile(0.95, 50), 3)
    (1.96, 2.007)
    """
    normal = NormalDist().inv_cdf((1 + level) / 2)
    return normal + (normal**3 + normal) / (4 * refits)


def _own_bounds(response: Response, level: float) -> Float64s:
    """For each cell of `asked` its own noisy answer and deviations above it, from 0 to 1; else 1."""
    bounds = np.ones(response.asked.cells)
    for j, holder in enumerate(holders(response.asked, response.measured).tolist()):
        if holder < 0:
            continue
        first, end = response.measured.offsets[holder : holder + 2].tolist()
        noisy, variances = response.noisy[first:end], response.variances[first:end]
        names = response.measured.marginal(holder)
        summed = tuple(axis for axis, name in enumerate(names) if name not in response.asked.marginal(j))
        if summed:
            shape = [response.measured.domain[name].size for name in names]
            noisy, variances = (part.reshape(shape).sum(axis=summed).ravel() for part in (noisy, variances))
        here = slice(*response.asked.offsets[j : j + 2].tolist())
        bounds[here] = noisy + NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(variances)
    return np.clip(bounds, 0.0, 1.0)


def _bound_of_many(response: Response, kind: Bools, answers: Float64s, level: float) -> float:
    """What no more than 1 - level of the cells of a kind exceed, by their mean; 1 if none was measured.

    Only marginals that were measured themselves have noise of their own, which the mean needs.
    """
    places = _measured_places(response)
    of_kind = places[kind & (places >= 0)]
    if not len(of_kind):
        return 1.0
    mean = float(response.noisy[of_kind].mean())
    deviation = math.sqrt(float(response.variances[of_kind].sum())) / len(of_kind)
    mean = max(mean, float(answers[kind].mean())) + SURELY * deviation
    return min(mean / (1 - level), 1.0)


def _measured_places(response: Response) -> Int64s:
    """For each cell of `asked` its place among the measured ones; -1 where its marginal was not measured."""
    places = np.full(response.asked.cells, -1, np.int64)
    measured = {marginal: j for j, marginal in enumerate(response.measured)}
    for j, marginal in enumerate(response.asked):
        if marginal in measured:
            first, end = response.measured.offsets[measured[marginal] : measured[marginal] + 2].tolist()
            places[slice(*response.asked.offsets[j : j + 2].tolist())] = np.arange(first, end)
    return places
