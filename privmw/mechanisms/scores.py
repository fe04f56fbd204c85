"""How far a model is from the private counts, as integers: the scores that selection takes.

The score of a cell is |count 2^20 - round(n answer 2^20)|. A replaced record moves a count by at most 1 and
nothing else here, as n and the model's answers are public; so a score moves by at most SENSITIVITY = 2^20,
exactly. n is below 2^32, so that everything stays below 2^53: int64 cannot overflow, and doubles are exact.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]
Answers: TypeAlias = npt.NDArray[np.float64]

SCORE_BITS = 20
SENSITIVITY = 1 << SCORE_BITS
LARGEST_N = 2**32 - 1

_SLACK = 1e-9  # how far outside [0, 1] rounding may have brought a model's answer
_BLOCK = 2**15  # cells: a block and its scores stay in the cache


def check_answers(answers: object, cells: int) -> Answers:
    """Refuse model answers that are not fractions, one a cell. They are public: the message may show one."""
    if not isinstance(answers, np.ndarray) or answers.dtype != np.float64:
        raise TypeError(f"model_answers ({type(answers).__name__}) must be a numpy array of float64")
    if answers.shape != (cells,):
        raise ValueError(f"model_answers (shape {answers.shape}) must be one for each of the {cells} cells")
    # A NaN makes both comparisons false.
    if not (answers.min() >= -_SLACK and answers.max() <= 1 + _SLACK):
        first = int(np.flatnonzero(~((answers >= -_SLACK) & (answers <= 1 + _SLACK)))[0])
        raise ValueError(f"model_answers ({answers[first]}, cell {first}) must be fractions from 0 to 1")
    return answers


def cell_scores(counts: Int64s, answers: Answers, n: int) -> Int64s:
    """Return the score of every cell.

    >>> (cell_scores(np.array([3, 1]), np.array([0.5, 0.5]), n=4) / SENSITIVITY).tolist()
    [1.0, 1.0]
    """
    scores = np.empty_like(counts)
    whole = float(n << SCORE_BITS)
    for start in range(0, len(counts), _BLOCK):
        block = slice(start, start + _BLOCK)
        target = np.rint(answers[block] * whole).astype(np.int64)
        np.left_shift(counts[block], SCORE_BITS, out=scores[block])
        np.subtract(scores[block], target, out=scores[block])
        np.abs(scores[block], out=scores[block])
    return scores


def marginal_scores(scores: Int64s, offsets: Int64s) -> Int64s:
    """Return each marginal's largest cell score: a maximum moves by no more than what moves most in it."""
    largest: Int64s = np.maximum.reduceat(scores, offsets[:-1])
    return largest


def leave_out(scores: Int64s, excluded: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the scores that are not excluded, the places filled from the end, and the candidates there.

    Order does not matter to a selection, and this costs only as much as is excluded. It overwrites scores;
    excluded must ascend.

    >>> leave_out(np.array([7, 8, 9]), np.array([0]))
    (array([9, 8]), array([0]), array([2]))
    """
    if len(excluded) == 0:
        return scores, excluded, excluded
    kept = len(scores) - len(excluded)
    holes = excluded[: np.searchsorted(excluded, kept)]
    fillers = np.setdiff1d(np.arange(kept, len(scores)), excluded, assume_unique=True)
    scores[holes] = scores[fillers]
    return scores[:kept], holes, fillers
