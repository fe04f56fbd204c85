"""Cells of marginals: validation of a workload, values of cells as integers, and the scale of masses.

The constants are those of csrc/core/weights.hpp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from privmw.kernels.arrays import Float64s, Int32s, Int64s
from privmw.kernels.checks import check_array, check_starts, check_within

MASS_BITS = 60  # the mass of a row is rint(weight * 2^60)
LEAST_TOTAL, MOST_TOTAL = 2**58, 2**62
LEAST_EXPONENT = -900  # of the largest of some values: smaller ones are scaled as if it were this
LIGHTEST_WEIGHT = 2.0**-1000
MOST_WEIGHT = 7.75  # its mass fits 64 bits, and 4 times any factor below 1.9 stays below it


def powers_of_two(exponent: int) -> tuple[float, float]:
    """Two factors with product 2^exponent, neither of which overflows."""
    half = int(exponent / 2)  # towards zero, as in C++
    return math.ldexp(1.0, half), math.ldexp(1.0, exponent - half)


LARGEST_ORDER = 6  # attributes of a marginal
LARGEST_MARGINAL = 2**40  # cells


def check_marginals(sizes: Sequence[int], attributes: Any, starts: Any) -> tuple[Int32s, Int64s, Int64s]:
    """Return attributes, starts, and the first cell of each marginal, then the number of cells.

    Marginal j has the attributes attributes[starts[j]:starts[j + 1]], ascending.

    >>> check_marginals([10, 2], np.array([0, 1, 1], np.int32), np.array([0, 2, 3]))[2]
    array([ 0, 20, 22])
    """
    attributes = check_array("attributes", attributes, np.int32)
    starts = check_starts(starts, len(attributes))
    orders = np.diff(starts)
    if len(orders) and (orders.min() < 1 or orders.max() > LARGEST_ORDER):
        raise ValueError(f"starts must give every marginal 1 to {LARGEST_ORDER} attributes")
    check_within("attributes", attributes, len(sizes))
    within = np.ones(len(attributes), bool)
    within[starts[:-1]] = False
    if (np.diff(attributes)[within[1:]] <= 0).any():
        raise ValueError("attributes must ascend within each marginal")
    first_cells = np.zeros(len(starts), np.int64)
    if len(orders):
        # In doubles: exact up to 2^53, which is beyond the limit.
        cells = np.multiply.reduceat(np.array(sizes, np.float64)[attributes], starts[:-1])
        if cells.max() > LARGEST_MARGINAL or cells.sum() > 2**48:
            raise ValueError("marginals must have at most 2^40 cells each and 2^48 together")
        first_cells[1:] = np.cumsum(cells)
    return attributes, starts, first_cells


def to_integers(values: Float64s, first_cells: Int64s) -> tuple[Int64s, int]:
    """Values of cells as integers in units of 2^exponent, and the exponent.

    The sum over the cells of a record is at most 2^61 before rounding.
    """
    largest_of_marginal = (
        np.maximum.reduceat(np.abs(values), first_cells[:-1]) if len(values) else np.zeros(1)
    )
    largest = float(largest_of_marginal.max())
    if not largest < np.inf:
        raise ValueError("values must be finite")
    if largest == 0:
        return np.zeros(len(values), np.int64), 0
    # The bound, largest * sum(largest_of_marginal / largest), may overflow; its exponent does not.
    exponent = math.frexp(largest)[1] + math.frexp(float((largest_of_marginal / largest).sum()))[1] - 61
    first, second = powers_of_two(-exponent)
    return np.rint(values * first * second).astype(np.int64), exponent


def in_units(sums: Int64s, prices: Float64s, unit: int) -> Int64s:
    """The products of sums and prices, rounded to units of 2^unit."""
    first, second = powers_of_two(-unit)
    return np.rint(sums * prices * first * second).astype(np.int64)
