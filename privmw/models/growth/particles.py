"""Particles: records sampled from the whole domain in proportion to prior * exp(score).

A particle is a record with its parent, a public record. The prior keeps each value of the parent with
probability 1 - redrawn / attributes, and draws it from a base distribution otherwise, so that every record of
the domain can be reached; records that break a constraint have prior 0. Under multipliers l, a record x has
score s(x), the sum of l over the cells that contain x. Particles follow prior * exp(s) as the multipliers
change, by sequential Monte Carlo (Del Moral, Doucet and Jasra 2006): they are resampled by the change, and
then each attribute is redrawn given the others (Gibbs). Their weight in the *prior* is exp(-s) times the mean
of exp(s), which resampling estimates.

Uses the sampling stream only. All ranks move the same particles. Released values only.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmw import kernels
from privmw.data.constraints import Constraints
from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, UInt32s


@dataclass(frozen=True, slots=True)
class ParticleSettings:
    """Constants of the particles, chosen by benches/studies/growth.py."""

    redrawn: float = 2.0  # of a parent's values, on average
    least_effective: float = 0.5  # share of the particles: a change that leaves fewer is made in part
    bisections: int = 20  # for the length of a step
    most_tries: int = 50  # to draw a record that keeps the constraints


PARTICLE_SETTINGS = ParticleSettings()


class Particles:
    """Records and their parents (codes, particles x attributes), and their scores under the last multipliers.

    base: for each attribute the distribution of redrawn values. workload: of the multipliers.
    """

    def __init__(
        self,
        parents: UInt32s,
        base: list[Float64s],
        workload: Workload,
        constraints: Constraints | None,
        stream: np.random.Generator,
        threads: int | None,
    ) -> None:
        self._parents: UInt32s = np.ascontiguousarray(parents)
        self._base, self._stream, self._threads = base, stream, threads
        self._constraints = constraints
        self._redrawn = min(PARTICLE_SETTINGS.redrawn / len(base), 1.0)
        self._moves = kernels.Moves(
            workload.domain.sizes, workload.attributes, workload.starts, threads=threads
        )
        self._separate = _separate(workload)
        self._weights = [self._redrawn * shares for shares in base]
        self._ruled = _ruled(len(base), constraints)
        self._multipliers = np.zeros(workload.cells)
        self.records = self._from_prior()
        self.scores = np.zeros(len(parents))
        self.log_mean = 0.0  # of exp(score) over the prior

    def follow(self, multipliers: Float64s) -> bool:
        """Move the particles towards prior * exp(score) of these multipliers; returns whether they are there.

        They move as far as leaves enough effective particles. `log_prior` is right wherever they are.
        """
        change = self.change(multipliers)
        share = self._share(change)
        self._resample(share * change)
        self._multipliers = self._multipliers + share * (multipliers - self._multipliers)
        self._moves.set_values(self._multipliers)
        self._redraw()
        self.scores = self._moves.potentials(self.records)
        return share == 1.0

    def change(self, multipliers: Float64s) -> Float64s:
        """By how much the score of each particle would change."""
        self._moves.set_values(multipliers)
        return self._moves.potentials(self.records) - self.scores

    def log_prior(self) -> Float64s:
        """Log prior weight of each particle, normalised to sum to one."""
        log_prior: Float64s = self.log_mean - self.scores - np.log(len(self.records))
        return log_prior

    def _share(self, change: Float64s) -> float:
        """The share of a change that leaves enough effective particles."""
        least_effective = PARTICLE_SETTINGS.least_effective * len(change)
        if effective_number(change) >= least_effective:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(PARTICLE_SETTINGS.bisections):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if effective_number(middle * change) >= least_effective else (low, middle)
            )
        return low

    def _resample(self, change: Float64s) -> None:
        """Resample particles in proportion to exp(change), systematically: at evenly spaced points."""
        count = len(change)
        weights, log_total = kernels.tilt(np.full(count, 1 / count), change, threads=self._threads)
        self.log_mean += log_total
        ends = np.cumsum(weights)
        points = (np.arange(count) + self._stream.random()) * (ends[-1] / count)
        chosen = np.minimum(np.searchsorted(ends, points, "right"), count - 1)
        self.records, self._parents = self.records[chosen], self._parents[chosen]

    def _from_prior(self) -> UInt32s:
        """A record for each parent, redrawn until it keeps the constraints; the parent if none does."""
        every = range(len(self._base))
        records: UInt32s = self._parents.copy()
        pending = np.arange(len(records))
        if self._constraints is None:
            self._draw(records, self._parents, every)
            return records
        for _ in range(PARTICLE_SETTINGS.most_tries):
            candidates, parents = self._parents[pending], self._parents[pending]
            self._draw(candidates, parents, every)
            possible = self._possible(candidates)
            records[pending[possible]] = candidates[possible]
            pending = pending[~possible]
            if not len(pending):
                break
        return records

    def _redraw(self) -> None:
        """Redraw every attribute, one after the other, given the others."""
        for ruled, attributes in itertools.groupby(range(len(self._base)), self._ruled.__contains__):
            if not ruled:
                self._draw(self.records, self._parents, list(attributes))
                continue
            for a in attributes:
                before = self.records[:, a].copy()
                self._draw(self.records, self._parents, [a])
                # Rejecting draws that break a rule is a Metropolis step: it keeps the distribution.
                broken = ~self._possible(self.records)
                self.records[broken, a] = before[broken]

    def _draw(self, records: UInt32s, parents: UInt32s, attributes: Sequence[int]) -> None:
        """Redraw attributes of records in place, one after the other, given the others and the parents."""
        words = self._stream.integers(0, 2**64, (len(attributes), len(records)), np.uint64)
        scored = []
        for i, a in enumerate(attributes):
            if a in self._separate:
                self._draw_separate(records[:, a], parents[:, a], a, (words[i] >> np.uint64(11)) * 2.0**-53)
            else:
                scored.append(i)
        self._moves.redraw(
            records,
            [attributes[i] for i in scored],
            parents,
            1 - self._redrawn,
            [self._weights[attributes[i]] for i in scored],
            [words[i] for i in scored],
            threads=self._threads,
        )

    def _draw_separate(self, values: UInt32s, parents: UInt32s, a: int, points: Float64s) -> None:
        """Redraw values of an attribute whose score does not depend on the others: one table for all.

        points: where to invert each record's cumulative distribution, from 0 to below 1.
        """
        weights, scores = self._weights[a], np.zeros(len(self._weights[a]))
        for first in self._separate[a]:
            scores += self._multipliers[first : first + len(scores)]
        kept = np.full(len(weights), 1 - self._redrawn)
        table, _ = kernels.tilt(np.concatenate([kept, weights]), np.concatenate([scores, scores]))
        keep, ends = table[: len(weights)][parents], np.cumsum(table[len(weights) :])
        points = points * (keep + ends[-1]) - keep
        drawn = np.minimum(np.searchsorted(ends, points, "right"), len(ends) - 1)
        values[:] = np.where(points < 0, parents, drawn)

    def _possible(self, records: UInt32s) -> Bools:
        """Which records keep the constraints."""
        assert self._constraints is not None
        return self._constraints.allows(records)


def _ruled(attributes: int, constraints: Constraints | None) -> frozenset[int]:
    """The attributes that a rule names."""
    if constraints is None:
        return frozenset()
    names = constraints.domain.names
    return frozenset(
        a
        for a in range(attributes)
        if len(constraints.among([*names[:a], *names[a + 1 :]])) < len(constraints)
    )


def _separate(workload: Workload) -> dict[int, list[int]]:
    """The attributes that share no marginal with others; the first cells of their one-way marginals."""
    marginals: dict[int, list[int]] = {a: [] for a in range(len(workload.domain))}
    shared = set()
    for j, (start, end) in enumerate(zip(workload.starts[:-1], workload.starts[1:], strict=True)):
        attributes = workload.attributes[start:end].tolist()
        if len(attributes) == 1:
            marginals[attributes[0]].append(int(workload.offsets[j]))
        else:
            shared.update(attributes)
    return {a: cells for a, cells in marginals.items() if a not in shared}


def effective_number(change: Float64s) -> float:
    """The effective number of particles with weights exp(change)."""
    weights, _ = kernels.tilt(np.full(len(change), 1 / len(change)), change)
    return 1 / float(np.einsum("i,i->", weights, weights))
