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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, Int64s, freeze
from privmw.kernels.checks import check_integer, check_number
from privmw.random import sampling_stream
from privmw.release.errors.expected import NOT_MEASURED, PROBES, expected_errors_of
from privmw.release.errors.response import Response, holders, why_not

if TYPE_CHECKING:
    from privmw.release.release import Release

REFITS = 50
FEWEST_REFITS, MOST_REFITS = 10, 100_000
LEAST_LEVEL, LARGEST_LEVEL = 0.5, 0.999
MOST_KEPT = 2**24  # rows times refits of a release: 256 MB
SURELY = 2.0  # deviations of the noisy mean of many cells


@dataclass(frozen=True, eq=False)
class FittedIntervals:
    """An interval for each answer to a workload, as fractions of the records; NaN where none is offered.

    represented: whether a row of the release lies in the cell; if not, its answer is 0 whatever the truth,
    and only what was measured bounds it. small: whether the answer is below one record, with or without
    rows. refits: of the bootstrap. standard_errors: root mean squared errors over the refits, NaN where the
    answer is small. reason: why there are no intervals at all; empty if there are.
    """

    workload: Workload
    level: float
    answers: Float64s
    low: Float64s
    high: Float64s
    represented: Bools
    small: Bools
    refits: int
    standard_errors: Float64s
    reason: str = ""

    @property
    def offered(self) -> Bools:
        """Whether each cell has an interval."""
        return ~np.isnan(self.low)

    def to_frame(self, kind: Literal["pyarrow", "pandas", "polars"] = "pyarrow") -> Any:
        """A frame, one row for each cell: attributes, values, answer, and `columns`."""
        from privmw.release.cells import cells_frame  # here: it imports releases

        return cells_frame(self.workload, {"answer": self.answers, **self.columns()}, kind)

    def columns(self) -> dict[str, Any]:
        """What a file of answers has beside them."""
        return {
            "standard_error": self.standard_errors,
            "low": self.low,
            "high": self.high,
            "represented": self.represented,
        }

    def __repr__(self) -> str:
        if self.reason:
            return f"FittedIntervals(not offered: {self.reason})"
        return (
            f"FittedIntervals(level {self.level:g}, {int(self.offered.sum())} of {len(self.answers)} cells, "
            f"{int((~self.represented).sum())} of them without a row, {self.refits} refits)"
        )


class Refits:
    """The refits of a release: how each changes the rows' potentials, whatever is asked of it.

    They take nearly all of the time of an interval, so a release keeps those of its last seed. response: None
    where there are none, for a reason. scale: the start scale.
    """

    def __init__(self, release: Release, count: int, seed: int | None) -> None:
        self.count, self.seed = count, seed
        self.reason, self.scale = why_not(release), math.nan
        self.response: Response | None = None
        self._kept: list[tuple[Float64s, Float64s]] | None = None
        if not self.reason:
            response = Response(release, release.measured)
            errors = expected_errors_of(release, response.measured, PROBES, seed)
            self.reason, self.scale, self.response = errors.reason, errors.scale, response
        self._keeps = seed is not None and count * release.support.size <= MOST_KEPT

    def drawn(self) -> Iterable[tuple[Float64s, Float64s]]:
        """The error of the start that each refit is given, and the potentials that it arrives at."""
        if self._kept is not None:
            return self._kept
        if not self._keeps:
            return self._draw()
        self._kept = list(self._draw())
        return self._kept

    def _draw(self) -> Iterator[tuple[Float64s, Float64s]]:
        assert self.response is not None
        # The first numbers of the stream were for the expected errors: draw from another.
        stream = sampling_stream(None if self.seed is None else self.seed + 1)
        for _ in range(self.count):
            start = math.sqrt(self.scale) * self.response.draw_start(stream)
            yield start, self.response.refitted(start, self.response.draw_noise(stream))


def refits_of(release: Release, count: int, seed: int | None) -> Refits:
    """So many refits of a release: those that it keeps, if they are of this seed."""
    kept = release._refits
    if kept is None or seed is None or (kept.count, kept.seed) != (count, seed):
        kept = Refits(release, count, seed)
        release._set(_refits=kept)
    return kept


def intervals_of(
    release: Release, level: float, workload: Workload | None, refits: int, seed: int | None
) -> FittedIntervals:
    """The intervals of a release; see `Release.intervals`."""
    level = check_number("level", level)
    if not LEAST_LEVEL <= level <= LARGEST_LEVEL:
        raise ValueError(f"level ({level}) must be from {LEAST_LEVEL} to {LARGEST_LEVEL}")
    refits = check_integer("refits", refits, FEWEST_REFITS, MOST_REFITS)
    asked = release.workload if workload is None else workload
    answers = freeze(release.answers(asked))  # refuses what is no workload, or of another domain
    small = answers * release.n < 1
    known = refits_of(release, refits, seed)
    offered, reason = np.zeros(len(asked), bool), known.reason
    if known.response is not None:
        offered = holders(asked, known.response.measured) >= 0
        reason = reason or ("" if offered.any() else f"of any marginal, {NOT_MEASURED}")
    if known.response is None or reason:
        nothing = freeze(np.full(asked.cells, math.nan))
        represented = release.support.answers(asked, release.support.start("uniform")) > 0
        return FittedIntervals(
            asked, level, answers, nothing, nothing, represented, freeze(small), refits, nothing, reason
        )
    response = known.response.asking(asked)
    squares = np.zeros(asked.cells)
    for start, potentials in known.drawn():
        squares += np.square(response.missed_by(start, potentials)) / refits
    errors = np.sqrt(squares)
    deviations = quantile(level, refits) * errors
    low, high = np.maximum(answers - deviations, 0.0), np.minimum(answers + deviations, 1.0)
    represented = response.represented
    own = _own_bounds(response, level)
    for kind in (small & represented, ~represented):
        bound = _bound_of_many(response, kind, answers, level)
        low[kind] = 0.0
        high[kind] = np.maximum(high[kind], np.minimum(own[kind], bound))
    without = np.repeat(~offered, np.diff(asked.offsets))
    low[without], high[without] = math.nan, math.nan
    errors[without | small] = math.nan
    return FittedIntervals(
        asked,
        level,
        answers,
        freeze(low),
        freeze(high),
        freeze(represented),
        freeze(small),
        refits,
        freeze(errors),
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
