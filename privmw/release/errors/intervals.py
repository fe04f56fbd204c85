"""Intervals for fitted answers by a parametric bootstrap of the released model.

Each refit takes the release plus a random error of its start as the truth, adds new noise to the measured
cells, and fits again, by one Newton step at the release (response.py). Its error in each cell is then known.
An interval is the answer plus or minus a normal quantile times the root mean squared error, which includes
the bias towards the start.

Two kinds of cells have no useful error: cells without a row, which every refit answers by 0, and answers
below one record, which the start determines. Their intervals begin at 0 and end at the smaller of the cell's
own noisy answer plus its deviations, and the noisy mean of all cells of that kind plus its deviations,
divided by 1 - level (by Markov's inequality). Released values and the sampling stream only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, Int64s, freeze
from privmw.kernels.checks import check_integer, check_number
from privmw.random import sampling_stream
from privmw.release.errors.expected import NOT_MEASURED, PROBES, expected_errors_of
from privmw.release.errors.response import Response, covering_marginals, reason_not_offered

if TYPE_CHECKING:
    from privmw.release.release import Release

REFITS = 50
FEWEST_REFITS, MOST_REFITS = 10, 100_000
LEAST_LEVEL, LARGEST_LEVEL = 0.5, 0.999
CACHED_VALUES = 2**24  # at most, rows times refits of a release: 256 MB
MEAN_DEVIATIONS = 2.0  # added to the noisy mean of many cells


@dataclass(frozen=True, eq=False)
class FittedIntervals:
    """An interval for each answer to a workload, as fractions of the records; NaN where none is offered.

    represented: True if a row of the release lies in the cell; otherwise its answer is always 0, and its
    interval comes from the measurements alone. small: True if the answer is below one record. refits: of the
    bootstrap. standard_errors: root mean squared errors over the refits, NaN where the answer is small.
    reason: why no interval is offered; empty otherwise.
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
        """True for each cell with an interval."""
        return ~np.isnan(self.low)

    def to_frame(self, kind: Literal["pyarrow", "pandas", "polars"] = "pyarrow") -> Any:
        """A frame, one row for each cell: attributes, values, answer, and `columns`."""
        from privmw.release.cells import cells_frame  # here: it imports releases

        return cells_frame(self.workload, {"answer": self.answers, **self.columns()}, kind)

    def columns(self) -> dict[str, Any]:
        """The columns that a file of answers has besides the answers."""
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
    """Bootstrap refits of a release, as changes of the rows' potentials; they serve any workload.

    They take most of the time of `intervals`, so a release caches those of its last seed. response: None if
    refits are not offered; `reason` says why. scale: the start scale.
    """

    def __init__(self, release: Release, count: int, seed: int | None) -> None:
        self.count, self.seed = count, seed
        self.reason, self.scale = reason_not_offered(release), math.nan
        self.response: Response | None = None
        self._kept: list[tuple[Float64s, Float64s]] | None = None
        if not self.reason:
            response = Response(release, release.measured)
            errors = expected_errors_of(release, response.measured, PROBES, seed)
            self.reason, self.response = errors.reason, response
            self.scale = errors.scale
            if not _enumerated(release.support):
                # Public and private rows differ at least as two random samples of one population do.
                samples = 1 / release.support.records + 1 / release.n
                self.scale = max(errors.scale, response.prior_weight * samples)
        self._keeps = seed is not None and count * release.support.size <= CACHED_VALUES

    def draws(self) -> Iterable[tuple[Float64s, Float64s]]:
        """For each refit, the random error of its start, and the resulting potentials."""
        if self._kept is not None:
            return self._kept
        if not self._keeps:
            return self._draw()
        self._kept = list(self._draw())
        return self._kept

    def _draw(self) -> Iterator[tuple[Float64s, Float64s]]:
        assert self.response is not None
        # The expected errors used the first numbers of this seed's stream.
        stream = sampling_stream(None if self.seed is None else self.seed + 1)
        for _ in range(self.count):
            start = math.sqrt(self.scale) * self.response.draw_start(stream)
            yield start, self.response.refit(start, self.response.draw_noise(stream))


def refits_of(release: Release, count: int, seed: int | None) -> Refits:
    """Return `count` refits of a release, from its cache if the seed is the same."""
    kept = release._refits
    if kept is None or seed is None or (kept.count, kept.seed) != (count, seed):
        kept = Refits(release, count, seed)
        release._set(_refits=kept)
    return kept


def _enumerated(support: Support) -> bool:
    """True if the rows are all that a domain, or most of it, has: each counted once, and no sample."""
    rows = support.whole_size
    return support.records == rows and not support.grown and 2 * rows > support.domain.size


def intervals_of(
    release: Release, level: float, workload: Workload | None, refits: int, seed: int | None
) -> FittedIntervals:
    """Intervals of a release; see `Release.intervals`."""
    level = check_level(level)
    refits = check_integer("refits", refits, FEWEST_REFITS, MOST_REFITS)
    target = release.workload if workload is None else workload
    answers = freeze(release.answers(target))  # checks the workload and its domain
    small = answers * release.n < 1
    bootstrap = refits_of(release, refits, seed)
    offered, reason = np.zeros(len(target), bool), bootstrap.reason
    if bootstrap.response is not None:
        offered = covering_marginals(target, bootstrap.response.measured) >= 0
        reason = reason or ("" if offered.any() else f"of any marginal, {NOT_MEASURED}")
    if bootstrap.response is None or reason:
        missing = freeze(np.full(target.cells, math.nan))
        represented = release.support.answers(target, release.support.start("uniform")) > 0
        return FittedIntervals(
            target, level, answers, missing, missing, represented, freeze(small), refits, missing, reason
        )
    response = bootstrap.response.for_workload(target)
    squares = np.zeros(target.cells)
    for start, potentials in bootstrap.draws():
        squares += np.square(response.refit_errors(start, potentials)) / refits
    errors = np.sqrt(squares)
    deviations = quantile(level, refits) * errors
    low, high = np.maximum(answers - deviations, 0.0), np.minimum(answers + deviations, 1.0)
    represented = response.represented
    own = _own_bounds(response, level)
    for kind in (small & represented, ~represented):
        bound = _bound_of_many(response, kind, answers, level)
        low[kind] = 0.0
        high[kind] = np.maximum(high[kind], np.minimum(own[kind], bound))
    without = np.repeat(~offered, np.diff(target.offsets))
    low[without], high[without] = math.nan, math.nan
    errors[without | small] = math.nan
    return FittedIntervals(
        target,
        level,
        answers,
        freeze(low),
        freeze(high),
        freeze(represented),
        freeze(small),
        refits,
        freeze(errors),
    )


def check_level(level: float) -> float:
    """A level that intervals may have."""
    level = check_number("level", level)
    if not LEAST_LEVEL <= level <= LARGEST_LEVEL:
        raise ValueError(f"level ({level}) must be from {LEAST_LEVEL} to {LARGEST_LEVEL}")
    return level


def quantile(level: float, refits: int) -> float:
    """Half-width of an interval in root mean squared errors, estimated from this number of refits.

    Student's quantile, by the first term of its expansion in 1 / refits.

    >>> round(quantile(0.95, 10**5), 3), round(quantile(0.95, 50), 3)
    (1.96, 2.007)
    """
    normal = NormalDist().inv_cdf((1 + level) / 2)
    return normal + (normal**3 + normal) / (4 * refits)


def _own_bounds(response: Response, level: float) -> Float64s:
    """Upper bound for each cell of `target` from its own noisy answer; 1 if it has none."""
    bounds = np.ones(response.target.cells)
    for j, cover in enumerate(covering_marginals(response.target, response.measured).tolist()):
        if cover < 0:
            continue
        first, end = response.measured.offsets[cover : cover + 2].tolist()
        noisy, variances = response.noisy[first:end], response.variances[first:end]
        names = response.measured.marginal(cover)
        summed = tuple(axis for axis, name in enumerate(names) if name not in response.target.marginal(j))
        if summed:
            shape = [response.measured.domain[name].size for name in names]
            noisy, variances = (part.reshape(shape).sum(axis=summed).ravel() for part in (noisy, variances))
        here = slice(*response.target.offsets[j : j + 2].tolist())
        bounds[here] = noisy + NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(variances)
    return np.clip(bounds, 0.0, 1.0)


def _bound_of_many(response: Response, kind: Bools, answers: Float64s, level: float) -> float:
    """Upper bound for all but 1 - level of the cells of a kind, from their mean; 1 if none was measured.

    Uses only marginals that were measured themselves: their cells have independent noise.
    """
    places = _measured_places(response)
    of_kind = places[kind & (places >= 0)]
    if not len(of_kind):
        return 1.0
    mean = float(response.noisy[of_kind].mean())
    deviation = math.sqrt(float(response.variances[of_kind].sum())) / len(of_kind)
    mean = max(mean, float(answers[kind].mean())) + MEAN_DEVIATIONS * deviation
    return min(mean / (1 - level), 1.0)


def _measured_places(response: Response) -> Int64s:
    """Index of each cell of `target` among the measured ones; -1 if its marginal was not measured."""
    places = np.full(response.target.cells, -1, np.int64)
    measured = {marginal: j for j, marginal in enumerate(response.measured)}
    for j, marginal in enumerate(response.target):
        if marginal in measured:
            first, end = response.measured.offsets[measured[marginal] : measured[marginal] + 2].tolist()
            places[slice(*response.target.offsets[j : j + 2].tolist())] = np.arange(first, end)
    return places
