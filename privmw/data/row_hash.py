"""Hashes of rows: they give ranks the same order and owner of each row without communication.

Equal codes have equal hashes on every machine and for every integer width. Different rows may have equal
hashes: compare the codes too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from privmw.kernels.arrays import Codes

Hashes = npt.NDArray[np.uint64]

_ROWS_PER_BLOCK = 2**13  # rows whose hashes stay in the L1 cache from column to column
_START = np.uint64(0x9E3779B97F4A7C15)
_COLUMN = np.uint64(0xD1342543DE82EF95)
_FINALIZER = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # the finalizer of splitmix64


def row_hashes(columns: Sequence[Codes]) -> Hashes:
    """A 64-bit hash of each row's codes, in the order of the columns.

    >>> ages = np.array([3, 9, 3])
    >>> hashes = row_hashes([ages.astype(np.uint8)])
    >>> bool(hashes[0] == hashes[2]), bool((hashes == row_hashes([ages.astype(np.uint32)])).all())
    (True, True)
    """
    hashes = np.full(len(columns[0]), _START)
    for start in range(0, len(hashes), _ROWS_PER_BLOCK):
        block = hashes[start : start + _ROWS_PER_BLOCK]
        for column in columns:
            block ^= column[start : start + _ROWS_PER_BLOCK]
            block *= _COLUMN
            block ^= block >> np.uint64(32)
    return mixed(hashes)


def mixed(numbers: Hashes) -> Hashes:
    """Mix the bits of each number, in place: a bijection; every output bit depends on all input bits."""
    for shift, factor in zip((30, 27), _FINALIZER, strict=True):
        numbers ^= numbers >> np.uint64(shift)
        numbers *= factor
    numbers ^= numbers >> np.uint64(31)
    return numbers
