"""Weights: a distribution on rows, kept on one scale and changed in place.

Rows may lie on several ranks. Backends see the rows of their rank; decisions that need all rows are made
here, from integers that are summed over the ranks, so that any number of ranks gives the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privmw.kernels import choice
from privmw.kernels.arrays import Float64s, Int64s, UInt32s
from privmw.kernels.cells import LEAST_TOTAL, MASS_BITS, MOST_TOTAL
from privmw.kernels.checks import (
    check_apart,
    check_array,
    check_integer,
    check_length,
    check_number,
    check_within,
    check_writable,
)
from privmw.kernels.choice import threads_of
from privmw.ranks import ALONE, Communicator, max_over_ranks, sum_over_ranks

LARGEST_FACTOR = 2.0**32


class Gains(NamedTuple):
    """The changes of masses in an update."""

    changes: Int64s  # one per row
    before: int  # the total of these rows' masses before the update
    gained: int  # the sum of the changes, modulo 2^64


def rescale(
    weights: Float64s, *, keep: bool = False, threads: int | None = None, comm: Communicator = ALONE
) -> int:
    """Multiplies weights in place by a power of two so that their masses total near 2^60; returns the total.

    Weights must be finite, none negative and not all zero. Positive weights stay positive. On several ranks,
    power and total are of all rows, and every rank raises the same error.
    keep: do not rescale weights that `to_masses` accepts, so that unchanged weights keep their masses.

    >>> weights = np.array([1.0, 0.0, 3.0]); rescale(weights, keep=True) == 2**62, weights
    (True, array([1., 0., 3.]))
    >>> rescale(weights) == 2**60, weights
    (True, array([0.25, 0.  , 0.75]))
    """
    check_writable("weights", weights, np.float64)
    workers = threads_of(threads)
    heaviest = max_over_ranks(comm, choice.kernels.heaviest(weights, workers))
    if not heaviest > 0:  # or NaN
        raise ValueError("weights must be finite, none negative and not all zero")

    def total(exponent: int) -> int:
        return sum_over_ranks(comm, choice.kernels.total_mass(weights, exponent, workers))

    exponent = 0
    if not (keep and heaviest <= 4 and LEAST_TOTAL <= (mass := total(exponent)) <= MOST_TOTAL):
        # Start with the heaviest row in [1/2, 1). The total is an exact integer, so that shifts depend on the
        # weights alone. A second shift is needed only if rows too light for the first make up most of the
        # total.
        exponent = -math.frexp(heaviest)[1]
        mass = total(exponent)
        while True:
            exponent += MASS_BITS + 1 - mass.bit_length()
            mass = total(exponent)
            if LEAST_TOTAL <= mass <= MOST_TOTAL:
                break
    choice.kernels.shift(weights, exponent, workers)
    return mass


def to_masses(
    weights: Float64s, *, threads: int | None = None, comm: Communicator = ALONE
) -> tuple[Int64s, int]:
    """The masses of rescaled weights, rint(weight * 2^60), and their total, from 2^58 to 2^62.

    On several ranks, the masses are of this rank and the total is of all.

    >>> to_masses(np.array([0.25, 0.75]))[1] == 2**60
    True
    """
    check_array("weights", weights, np.float64)
    masses, rank_total = choice.kernels.to_masses(weights, threads_of(threads))
    total = sum_over_ranks(comm, rank_total)
    if not LEAST_TOTAL <= total <= MOST_TOTAL:
        raise ValueError("weights must be rescaled first: each from 0 to 4, in total from 1/4 to 4")
    return masses, total


def signed_masses(
    weights: Float64s, values: Float64s, exponent: int, *, threads: int | None = None
) -> Int64s:
    """For each row weight * value * 2^exponent, rounded to an integer; must be below 2^63.

    >>> signed_masses(np.array([0.25, 0.75]), np.array([-1.0, 3.0]), 4)
    array([-4, 36])
    """
    check_array("weights", weights, np.float64)
    check_length("values", check_array("values", values, np.float64), len(weights))
    exponent = check_integer("exponent", exponent, -2000, 2000)
    return choice.kernels.signed_masses(weights, values, exponent, threads_of(threads))


def multiply(weights: Float64s, rows: UInt32s, factor: float, *, threads: int | None = None) -> Gains:
    """Multiplies the weights of `rows` (ascending) in place by `factor`, from 2^-32 to 2^32.

    Weights must have been rescaled; if not, a ValueError may be raised after some have changed. Positive
    weights stay positive. `total_after` computes the new total; if it returns None, all weights must be
    rescaled, and the changes are meaningless.

    >>> weights, rows = np.array([0.25, 0.75]), np.array([1], np.uint32)
    >>> gains = multiply(weights, rows, 1.5)
    >>> total = total_after(2**60, gains.before, len(rows), 1.5, gains.gained)
    >>> weights, total / 2**60
    (array([0.25 , 1.125]), 1.375)
    """
    check_writable("weights", weights, np.float64)
    rows = check_array("rows", rows, np.uint32)
    check_within("rows", rows, len(weights))
    if len(rows) > 1 and not (rows[1:] > rows[:-1]).all():
        raise ValueError("rows must ascend")
    check_apart("weights", weights, rows=rows)
    return Gains(*choice.kernels.multiply(weights, rows, _check_factor(factor), threads_of(threads)))


def total_after(total: int, before: int, rows: int, factor: float, gained: int) -> int | None:
    """The total of all masses after an update of some rows, or None if weights must be rescaled.

    total: of all masses before the update. before, rows: the mass and the number of the updated rows. On
    several ranks, before, rows and gained are sums over the ranks. None if the new total is not from 2^58 to
    2^62, or if an intermediate sum may have overflowed.

    >>> total_after(2**62, 2**62, 1, 2.0, 2**62) is None
    True
    """
    total = check_integer("total", total, LEAST_TOTAL, MOST_TOTAL)
    before = check_integer("before", before, 0, 2**63 - 1)
    rows, factor = check_integer("rows", rows, 0, 2**62), _check_factor(factor)
    if before > total:
        raise ValueError("total must be the total of the weights' masses")
    # A factor below 1.9 keeps every sum below 2^63. A larger one is checked with the rows' total, and half a
    # unit per row for rounding.
    if factor >= 1.9 and float(total) + (float(before) + 0.5 * rows) * factor > float(MOST_TOTAL):
        return None
    after = total + check_integer("gained", gained, -(2**63), 2**63 - 1)
    return after if LEAST_TOTAL <= after <= MOST_TOTAL else None


def _check_factor(factor: float) -> float:
    number = check_number("factor", factor)
    if not 1 / LARGEST_FACTOR <= number <= LARGEST_FACTOR:
        raise ValueError(f"factor ({factor}) must be from 2^-32 to 2^32")
    return number
