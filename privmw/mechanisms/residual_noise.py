"""Residual noise: releases the interactions of tables of private counts, with discrete Gaussian noise.

The event states every sigma and is charged for all looks jointly (accounting/residual_gaussian.py); the proof
is docs/proofs/residual_noise.md. Counts and noisy tables are private: only contrasts are released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.accounting import ResidualGaussian
from privmw.accounting.noise import DISCRETE_GAUSSIAN, LARGEST_DRAWN_SCALE
from privmw.mechanisms.noise import Noise, drawable
from privmw.random import Rng, Stream, privacy_stream
from privmw.secrecy import erasing, expect, expect_array, sealed

Counts: TypeAlias = npt.NDArray[np.int64]

_LARGEST_COUNT = 2**53  # with noise below 2^52, the contrasts of six attributes stay below 2^60


@dataclass(frozen=True, slots=True)
class ResidualNoise:
    """Residual noise and its cost, before any count is seen: prepare it, charge its event, then draw.

    >>> ResidualNoise.prepare(ResidualGaussian((2, 3), ((0, 1),), (10.0,))).event.size
    2
    """

    event: ResidualGaussian

    @classmethod
    def prepare(cls, event: ResidualGaussian) -> ResidualNoise:
        """Refuse anything but a ResidualGaussian event, and noise that cannot be drawn."""
        expect("event", event, ResidualGaussian, "a ResidualGaussian")
        largest = max(event.sigmas)
        if largest > LARGEST_DRAWN_SCALE:
            raise ValueError(
                f"sigma ({float(largest)}) must be at most 2^40: the share of the budget is too small"
            )
        for sigma in event.sigmas:
            if not isinstance(sigma, float):  # every float of this size can be drawn
                drawable("sigma^2", Fraction(sigma) ** 2)
        if event.count != 1:
            raise ValueError(f"count ({event.count}) must be 1: each run is charged by itself")
        return cls(event)

    @sealed
    def draw(self, tables: Iterable[Counts], stream: Stream) -> tuple[Counts, ...]:
        """Return the noisy contrasts of each table, in the order of the looks; tables are not changed."""
        looks = zip(self.event.looks, self.event.sigmas, tables, strict=True)
        contrasts = []
        for look, sigma, table in looks:
            shape = [self.event.sizes[a] for a in look]
            with erasing() as erased:
                clamped = erased(np.clip(table, -_LARGEST_COUNT, _LARGEST_COUNT).reshape(shape))
                noise = Noise(DISCRETE_GAUSSIAN.event(sigma, 2, clamped.size))
                noisy = erased(noise.add(clamped, stream))
                contrasts.append(_contrasts(noisy).ravel())  # a copy; the noisy table is erased
        return tuple(contrasts)


def _contrasts(table: Counts) -> Counts:
    """Subtract the last value along every axis, in place; returns the part that remains."""
    for axis in range(table.ndim):
        lines = np.moveaxis(table, axis, 0)
        lines[:-1] -= lines[-1]
        table = np.moveaxis(lines[:-1], 0, axis)
    contrasts: Counts = table.copy()
    return contrasts


@sealed
def add_residual_gaussian(
    tables: Sequence[Counts], *, event: ResidualGaussian, rng: Rng = None
) -> tuple[tuple[Counts, ...], ResidualGaussian]:
    """Release the interactions of tables with discrete Gaussian noise, and the event charged.

    Requires: int64 tables of counts of the same n < 2^53 records, one for each look of the event, with the
        sizes it states, in C order; neighbours replace one record, or at_most; rng None for a release.
    Ensures: for each look the integer contrasts C (x + z) against the last value of every attribute, z
        independent of law P(z) ~ exp(-z^2 / (2 sigma^2)) in each cell.
    Privacy: delta-approximate rho-zCDP, both in the event: rho the worst over all pairs of records of the sum
        over looks of |P_S (x - x')|^2 / (2 sigma^2), delta the lattice term; no pure guarantee.
    Numerics: exact sampling at the rational that sigma is, at most 2^40; the sums of contrasts stay in int64.
    Checked by: tests/mechanisms/test_residual_noise.py::test_the_exact_law_is_within_the_bound_of_the_ideal,
        tests/mechanisms/test_residual_noise.py::test_the_cost_is_that_of_the_worst_pair_of_records,
        tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim

    >>> event = ResidualGaussian((2, 3), ((0, 1),), (10.0,))
    >>> (contrasts,), _ = add_residual_gaussian([np.array([[3, 4, 5], [6, 7, 8]])], event=event)
    >>> contrasts.dtype, contrasts.shape
    (dtype('int64'), (2,))
    """
    noise = ResidualNoise.prepare(event)
    checked = list(_check(tables, event))
    return noise.draw(checked, privacy_stream(rng)), event


def _check(tables: Sequence[Counts], event: ResidualGaussian) -> Iterator[Counts]:
    if not isinstance(tables, tuple | list) or len(tables) != len(event.looks):
        raise ValueError(f"tables must be one for each of {len(event.looks)} looks")
    for place, (look, table) in enumerate(zip(event.looks, tables, strict=True)):
        expect_array(f"tables[{place}]", table, np.int64)
        shape = tuple(event.sizes[a] for a in look)
        if table.size != int(np.prod(shape)):
            raise ValueError(f"table (shape {table.shape}) must have the shape {shape} of its look")
        yield table
