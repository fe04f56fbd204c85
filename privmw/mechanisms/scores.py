"""Scores of selections: integer distances of a model from the private counts.

The score of a cell is |count 2^20 - round(n answer 2^20)|. A replaced record moves a count by at most 1 and
nothing else here, as n and the model's answers are public; so a score moves by at most SENSITIVITY = 2^20,
exactly. n is below 2^32, so that everything stays below 2^53: int64 cannot overflow, and doubles are exact.

The score of a whole public table is minus its distance from the counts: its largest cell score, or the sum of
all of them. A replaced record leaves one cell of each marginal and enters another, so the sum moves by at
most twice the number of marginals times 2^bits.

The score of a signed cell against a bag of t public records is +-(t count - n records of the bag in the
cell): n t times how much the bag lacks there, or has too much, exactly. A replaced record moves it by at most
t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.kernels import draws
from privmw.secrecy import erased_on_failure, erasing, expect, expect_array

Int64s: TypeAlias = npt.NDArray[np.int64]
Answers: TypeAlias = npt.NDArray[np.float64]
Distance: TypeAlias = Literal["largest", "mean"]

SCORE_BITS = 20
SENSITIVITY = 1 << SCORE_BITS
LARGEST_N = 2**32 - 1
LARGEST_SIGNED = 2**62  # n t: differences of two scores then stay within 64 bits

_SLACK = 1e-9  # how far outside [0, 1] rounding may have brought a model's answer
_ANSWERS_PER_BLOCK = 2**16  # answers: a block stays in the cache from one look to the next


def check_answers(answers: Any, cells: int, *, quote: bool = True) -> Answers:
    """Validate the model answers (one fraction per cell). They are public, so errors may quote them."""
    right = isinstance(answers, np.ndarray) and answers.dtype == np.float64
    expect("model_answers", answers, right, "a numpy array of float64", quote=quote)
    if answers.shape != (cells,):
        raise ValueError(f"model_answers (shape {answers.shape}) must be one for each of the {cells} cells")
    for start in range(0, cells, _ANSWERS_PER_BLOCK):
        block = answers[start : start + _ANSWERS_PER_BLOCK]
        # A NaN makes both comparisons false.
        if not (block.min() >= -_SLACK and block.max() <= 1 + _SLACK):
            first = int(np.flatnonzero(~((block >= -_SLACK) & (block <= 1 + _SLACK)))[0])
            raise ValueError(
                f"model_answers ({block[first]}, cell {start + first}) must be fractions from 0 to 1"
            )
    return np.ascontiguousarray(answers)


def cell_scores(counts: Int64s, answers: Answers, n: int) -> draws.Errors:
    """Return the score of every cell, computed lazily when a selection reads it.

    >>> (cell_scores(np.array([3, 1]), np.array([0.5, 0.5]), n=4).scores() / SENSITIVITY).tolist()
    [1.0, 1.0]
    """
    return draws.Errors(counts, answers, float(n << SCORE_BITS), SCORE_BITS)


def marginal_scores(counts: Int64s, answers: Answers, n: int, offsets: Int64s) -> Int64s:
    """Return each marginal's largest cell score; its sensitivity is that of one cell score.

    >>> offsets = np.array([0, 2, 3])
    >>> (marginal_scores(np.array([3, 1, 4]), np.full(3, 0.5), 4, offsets) / SENSITIVITY).tolist()
    [1.0, 2.0]
    """
    return cell_scores(counts, answers, n).largest(offsets)


def bits_of_distance(n: int, cells: int) -> int:
    """Return the number of fractional bits of scores of tables: 20, or fewer if sums are large.

    A cell's score is below 2 n 2^bits, so that the sum of all of them stays below 2^62.

    >>> bits_of_distance(50_000, 5_500_000), bits_of_distance(2**32 - 1, 2**27)
    (20, 1)
    """
    bits = min(SCORE_BITS, 61 - n.bit_length() - cells.bit_length())
    if bits < 0:
        raise ValueError(f"workload ({cells} cells) must have fewer than 2^{61 - n.bit_length()} cells")
    return bits


def distance_sensitivity(distance: Distance, n: int, cells: int, marginals: int) -> int:
    """Return the sensitivity of a table's score to replacing one record.

    >>> distance_sensitivity("largest", 4, 6, 2) == 2**20, distance_sensitivity("mean", 4, 6, 2) == 2**22
    (True, True)
    """
    return (1 if distance == "largest" else 2 * marginals) << bits_of_distance(n, cells)


def table_scores(counts: Int64s, answers: Sequence[Answers], n: int, distance: Distance) -> Int64s:
    """Return the score of each table, given its answers: minus its distance from the counts.

    "largest": the largest cell score. "mean": the sum of all, which is the mean over the marginals of the L1
    distance, times their number.

    >>> answers = [np.array([0.5, 0.5]), np.array([1.0, 0.0])]
    >>> (table_scores(np.array([3, 1]), answers, 4, "mean") / SENSITIVITY).tolist()
    [-2.0, -2.0]
    """
    bits, whole = bits_of_distance(n, len(counts)), np.array([0, len(counts)])
    distances = np.zeros(len(answers), np.int64)
    with erased_on_failure(distances):
        for place, fractions in enumerate(answers):
            errors = draws.Errors(counts, fractions, float(n << bits), bits)
            with erasing() as erased:
                if distance == "largest":
                    distances[place : place + 1] = erased(errors.largest(whole))
                else:
                    np.sum(erased(errors.scores()), keepdims=True, out=distances[place : place + 1])
        return np.negative(distances, out=distances)


def check_bag(cell_counts: Any, records: int, cells: int, n: int) -> Int64s:
    """Validate the counts of a bag (one per cell). They are public, so errors may quote them."""
    expect_array("cell_counts", cell_counts, np.int64)
    if cell_counts.shape != (cells,):
        raise ValueError(f"cell_counts (shape {cell_counts.shape}) must be one for each of the {cells} cells")
    if cell_counts.min() < 0 or cell_counts.max() > records:
        raise ValueError(f"cell_counts must be from 0 to the number of records ({records})")
    if n * records > LARGEST_SIGNED:
        raise ValueError(f"records ({records}) must be at most {LARGEST_SIGNED // n} with {n} private ones")
    checked: Int64s = cell_counts
    return checked


def signed_scores(counts: Int64s, cell_counts: Int64s, records: int, n: int) -> Int64s:
    """Return n t times the deficit of a bag of t public records in each cell, then n t times its excess.

    >>> signed_scores(np.array([3, 1]), np.array([1, 1]), records=2, n=4).tolist()
    [2, -2, -2, 2]
    """
    signed = np.empty(2 * len(counts), np.int64)
    with erased_on_failure(signed):
        lacking, excess = signed[: len(counts)], signed[len(counts) :]
        np.multiply(cell_counts, n, out=excess)
        np.multiply(counts, records, out=lacking)
        lacking -= excess
        np.negative(lacking, out=excess)
        return signed
