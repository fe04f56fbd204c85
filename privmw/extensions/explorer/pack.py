"""Codes and weights as few bytes, in parts that a browser unpacks with typed arrays. This file knows no data.

A column has 1, 2, 4, 8, 16 or 32 bits a code, so that no code crosses a byte. Masses are split into planes,
one for each of their bytes: the high ones are nearly alike and compress well. All parts are compressed
together, by zlib at its best, which browsers read ("deflate").
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.kernels.arrays import Float64s

WIDTHS = (1, 2, 4, 8, 16, 32)  # bits of a code


def width_of(size: int) -> int:
    """The bits of a code below `size`.

    >>> [width_of(size) for size in (1, 2, 3, 16, 17, 257, 2**32)]
    [1, 1, 2, 4, 8, 16, 32]
    """
    return next(width for width in WIDTHS if size <= 2**width)


def pack_codes(codes: npt.NDArray[np.integer[Any]], size: int) -> bytes:
    """Codes below `size`, the first in the lowest bits of the first byte; little endian.

    >>> pack_codes(np.array([1, 0, 3, 2, 1], np.uint8), 4).hex()
    'b101'
    """
    width = width_of(size)
    if width >= 8:
        return codes.astype(f"<u{width // 8}").tobytes()
    in_byte = 8 // width
    padded = np.zeros(-(-len(codes) // in_byte) * in_byte, np.uint8)
    padded[: len(codes)] = codes
    places = (np.arange(in_byte) * width).astype(np.uint8)
    packed: npt.NDArray[np.uint8] = np.bitwise_or.reduce(padded.reshape(-1, in_byte) << places, axis=1)
    return packed.astype(np.uint8).tobytes()


def pack_masses(weights: Float64s) -> bytes:
    """The masses of weights, as `Release.answer` adds them up: their lowest bytes, then the next and so on.

    >>> pack_masses(np.array([0.5, 0.5])).hex()
    '00000000000000000000000000000808'
    """
    masses = np.rint(weights * 2.0**kernels.MASS_BITS).astype("<i8")
    return np.ascontiguousarray(masses.view(np.uint8).reshape(-1, 8).T).tobytes()


def pack_pairs(first: Float64s, second: Float64s) -> bytes:
    """Two numbers of each interval, all first ones first; NaN stands for no interval.

    >>> np.frombuffer(pack_pairs(np.array([0.5, np.nan]), np.array([0.25, np.nan])), "<f4")
    array([0.5 ,  nan, 0.25,  nan], dtype=float32)
    """
    return np.concatenate([first, second]).astype("<f4").tobytes()


def compress(parts: Sequence[bytes]) -> bytes:
    """All parts in one stream."""
    return zlib.compress(b"".join(parts), 9)
