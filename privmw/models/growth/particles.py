"""Particles: records that move through the whole domain as the fitted multipliers ask, and weigh as a prior.

A particle is a record with its parent, a public record. Its prior keeps each value of the parent with
probability 1 - REDRAWN / attributes, and draws it from a base distribution otherwise: so every record of the
domain can be reached; records that break a constraint have none of it. Under multipliers l, a record x has
score s(x) = sum of l over the cells that hold x. Particles follow prior * exp(s) as the multipliers change
(sequential Monte Carlo: Del Moral, Doucet and Jasra 2006): those that the change favours are doubled, others
are dropped, and each draws its values anew, one attribute after the other, given the rest (Gibbs). Their
weight in the *prior* then is exp(-s) times the mean of exp(s), which the changes give on the way.

The sampling stream alone draws here. All ranks move the same particles. Released values only.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from privmw import kernels
from privmw.data.constraints import Constraints
from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s, UInt32s

REDRAWN = 2.0  # of a parent's values, on average
LEAST_EFFECTIVE = 0.05  # of the particles: a change that leaves fewer is made in steps
MOST_STEPS = 8  # of one change
HALVINGS = 20  # of the interval in which the length of a step is sought
MOST_TRIES = 50  # to draw a record that keeps the constraints


class Particles:
    """Records and their parents (codes, particles x attributes), and their scores under the last multipliers.

    base: for each attribute the distribution of values that are not kept. workload: that of the multipliers.
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
        self._redrawn = min(REDRAWN / len(base), 1.0)
        self._moves = kernels.Moves(
            workload.domain.sizes, workload.attributes, workload.starts, threads=threads
        )
        self._asked = np.isin(np.arange(len(base)), workload.attributes)
        self._weights = [self._redrawn * shares for shares in base]
        self._ruled = _ruled(len(base), constraints)
        self._multipliers = np.zeros(workload.cells)
        self.records = self._from_prior()
        self.scores = np.zeros(len(parents))
        self.log_mean = 0.0  # of exp(score) over the prior

    def follow(self, multipliers: Float64s) -> None:
        """Move the particles to prior * exp(score) of these multipliers."""
        for step in range(MOST_STEPS):
            self._moves.set_values(multipliers)
            change = self._moves.potentials(self.records) - self.scores
            share = 1.0 if step == MOST_STEPS - 1 else self._share(change)
            self._resample(share * change)
            self._multipliers = self._multipliers + share * (multipliers - self._multipliers)
            self._moves.set_values(self._multipliers)
            self._redraw()
            self.scores = self._moves.potentials(self.records)
            if share == 1.0:
                return

    def log_prior(self) -> Float64s:
        """The logarithm of each particle's weight in the prior, of which all particles together are one."""
        log_prior: Float64s = self.log_mean - self.scores - np.log(len(self.records))
        return log_prior

    def _share(self, change: Float64s) -> float:
        """How much of a change leaves enough particles of similar weight."""
        least = LEAST_EFFECTIVE * len(change)
        if _effective(change) >= least:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if _effective(middle * change) >= least else (low, middle)
        return low

    def _resample(self, change: Float64s) -> None:
        """Double and drop particles in proportion to exp(change), systematically: at evenly spaced points."""
        count = len(change)
        weights, log_total = kernels.tilt(np.full(count, 1 / count), change, threads=self._threads)
        self.log_mean += log_total
        ends = np.cumsum(weights)
        points = (np.arange(count) + self._stream.random()) * (ends[-1] / count)
        chosen = np.minimum(np.searchsorted(ends, points, "right"), count - 1)
        self.records, self._parents = self.records[chosen], self._parents[chosen]

    def _from_prior(self) -> UInt32s:
        """A record of each parent, drawn again until it keeps the constraints; at worst the parent itself."""
        every = range(len(self._base))
        records: UInt32s = self._parents.copy()
        left = np.arange(len(records))
        if self._constraints is None:
            self._draw(records, self._parents, every)
            return records
        for _ in range(MOST_TRIES):
            drawn, parents = self._parents[left], self._parents[left]
            self._draw(drawn, parents, every)
            possible = self._possible(drawn)
            records[left[possible]] = drawn[possible]
            left = left[~possible]
            if not len(left):
                break
        return records

    def _redraw(self) -> None:
        """Draw every attribute anew, one after the other, given the others."""
        for ruled, attributes in itertools.groupby(range(len(self._base)), self._ruled.__contains__):
            if not ruled:
                self._draw(self.records, self._parents, list(attributes))
                continue
            for a in attributes:
                before = self.records[:, a].copy()
                self._draw(self.records, self._parents, [a])
                # To stay where a draw breaks a rule is a Metropolis step: possible records keep their law.
                broken = ~self._possible(self.records)
                self.records[broken, a] = before[broken]

    def _draw(self, records: UInt32s, parents: UInt32s, attributes: Sequence[int]) -> None:
        """Draw attributes of records anew, one after the other and in place, given the others and parents."""
        words = self._stream.integers(0, 2**64, (len(attributes), len(records)), np.uint64)
        asked = []
        for i, a in enumerate(attributes):
            if self._asked[a]:
                asked.append(i)
                continue
            # Its prior, whatever its values: a kernel would weigh each of them for each record.
            ends = np.cumsum(np.concatenate([[1 - self._redrawn], self._weights[a]]))
            drawn = np.searchsorted(ends[:-1], (words[i] >> np.uint64(11)) * 2.0**-53 * ends[-1], "right")
            records[:, a] = np.where(drawn == 0, parents[:, a], drawn - 1)
        self._moves.redraw(
            records,
            [attributes[i] for i in asked],
            parents,
            1 - self._redrawn,
            [self._weights[attributes[i]] for i in asked],
            [words[i] for i in asked],
            threads=self._threads,
        )

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


def _effective(change: Float64s) -> float:
    """How many particles of equal weight are worth as much as these, weighted by exp(change)."""
    weights, _ = kernels.tilt(np.full(len(change), 1 / len(change)), change)
    return 1 / float(np.einsum("i,i->", weights, weights))
