"""Best responses in numpy alone: the twin of csrc/core/responses.hpp. All records climb side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privmw.kernels.arrays import Int32s, Int64s, UInt32s


def climb(
    codes: UInt32s,
    sizes: Sequence[int],
    attributes: Int32s,
    values: UInt32s,
    starts: Int64s,
    weights: Int64s,
    terms: Int64s,
    groups: int,
    scores: Int64s,
    threads: int,
) -> None:
    """Climbs each record until no single attribute can improve it, and writes the scores.

    A record that cannot be improved stays as it is while others climb: the bits are those of one by one.
    """
    first_value = np.concatenate([[0], np.cumsum(sizes)])
    records = np.arange(len(codes))
    of_record = terms.reshape(groups, -1)[records * groups // max(len(codes), 1)]
    query = np.repeat(np.arange(len(weights)), np.diff(starts))
    # How many literals of each query a record does not have: one that may score has at most one.
    unmet = np.tile(np.diff(starts), (len(codes), 1))
    literals = []
    for a in range(len(sizes)):
        entries = np.flatnonzero(attributes == a)
        literals.append((query[entries], values[entries]))
        unmet[:, query[entries]] -= codes[:, a, None] == values[entries]
    moved = True
    while moved:
        moved = False
        for a, (of_queries, of_values) in enumerate(literals):
            met = codes[:, a, None] == of_values
            score = of_record[:, first_value[a] : first_value[a + 1]].copy()
            counts = unmet[:, of_queries] == ~met
            added = np.where(counts, weights[of_queries], 0)
            np.add.at(score, (records[:, None], of_values[None, :].astype(np.intp)), added)
            best = score.argmax(axis=1)
            better = np.flatnonzero(score[records, best] > score[records, codes[:, a]])
            if len(better):
                moved = True
                codes[better, a] = best[better]
                unmet[np.ix_(better, of_queries)] += met[better]
                unmet[np.ix_(better, of_queries)] -= codes[better, a, None] == of_values
    scores[:] = np.where(unmet == 0, weights, 0).sum(axis=1)
    for a in range(len(sizes)):
        scores += of_record[records, first_value[a] + codes[:, a].astype(np.int64)]
