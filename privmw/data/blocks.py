"""Several public tables as one prior: the mixture of their frequencies, and updates of its weights.

Input: public counts and released weights, so an update is post-processing and costs no privacy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.kernels.arrays import Float64s, Int64s, freeze
from privmw.ranks import Communicator
from privmw.secrecy import expect, shown


def mixed_frequencies(block_counts: Int64s, block_weights: Float64s) -> Float64s:
    """The frequency of each row in the mixture: sum over b of w_b p_b(x), p_b the frequencies of block b.

    block_counts: rows x blocks, each block with a positive sum.

    >>> mixed_frequencies(np.array([[3, 0], [1, 4]]), np.array([0.5, 0.5])).tolist()
    [0.375, 0.625]
    """
    mixture: Float64s = _parts(block_counts, block_weights).sum(axis=1)
    return mixture


def moved_block_weights(block_counts: Int64s, weights_of_rows: Float64s, block_weights: Float64s) -> Float64s:
    """One EM step: block weights under which the weighted rows have a higher likelihood.

    The new w_b is proportional to the sum over rows x of D(x) w_b p_b(x) / sum over c of w_c p_c(x), where
    D(x) is the weight of row x and p_b are the frequencies of block b. The mean log frequency of the rows
    under the mixture never falls. Rows that no block has are ignored; if no other row has weight, the block
    weights stay. A weight of 0 stays 0.

    >>> counts, fitted = np.array([[3, 0], [1, 4]]), np.array([0.75, 0.25])
    >>> moved_block_weights(counts, fitted, np.array([0.5, 0.5])).tolist()
    [0.8, 0.2]
    """
    parts = _parts(block_counts, block_weights)
    mixture = parts.sum(axis=1)
    covered = mixture > 0
    moved: Float64s = (parts[covered] * (weights_of_rows[covered] / mixture[covered])[:, None]).sum(axis=0)
    total = float(moved.sum())
    return np.divide(moved, total) if total > 0 else block_weights.copy()


def _parts(block_counts: Int64s, block_weights: Float64s) -> Float64s:
    """The part w_b p_b(x) of each block in each row's frequency."""
    if block_counts.ndim != 2 or block_counts.shape[1:] != block_weights.shape:
        raise ValueError(
            f"block_weights (shape {block_weights.shape}) must be one for each column of block_counts "
            f"(shape {block_counts.shape})"
        )
    parts: Float64s = block_counts * (block_weights / block_counts.sum(axis=0))
    return parts


def checked_blocks(blocks: Any, weights: Any, counts: Int64s, comm: Communicator) -> Float64s:
    """Check that the tables' counts add up to `counts`; returns their weights, read-only."""
    if comm.size > 1:
        raise ValueError("a support of several tables must lie on one rank")
    right = type(blocks) is np.ndarray and blocks.dtype == np.int64 and weights is not None
    expect("blocks", blocks, right, "an array of int64, with block_weights")
    if blocks.ndim != 2 or len(blocks) != len(counts) or (blocks < 0).any():
        raise ValueError(
            f"blocks must not be negative, one for each of the {len(counts)} rows and each table"
        )
    if not (blocks.sum(axis=1) == counts).all() or not blocks.any(axis=0).all():
        raise ValueError("blocks must add up to counts, and each have a record")
    return checked_block_weights(weights, blocks.shape[1])


def checked_block_weights(weights: npt.ArrayLike, count: int) -> Float64s:
    """Check weights of tables, and normalise them to sum to 1."""
    array = np.asarray(weights)
    if array.dtype.kind not in "iuf" or array.shape != (count,):
        raise ValueError(f"weights ({shown(weights)}) must be numbers, one for each of the {count} tables")
    checked = array.astype(np.float64)
    if not np.isfinite(checked).all() or checked.min() < 0 or not 0 < checked.sum() < np.inf:
        raise ValueError(f"weights ({shown(array)}) must be finite, not negative and not all 0")
    total = float(checked.sum())
    return freeze(checked if abs(total - 1) < 1e-15 else checked / total)
