"""Coordinate descent in random order: for rows that were not measured themselves and very many queries.

There Newton's method would need too many conjugate gradients. A full pass sets every row to its best weight;
the passes between visit the rows above zero only. On a large support, after two passes over all rows, only
the third with the largest moves left is visited, of those that can move: finding them costs a seventh of a
pass. There every row goes beyond its best weight by a half, as over-relaxation does. A fixed order stalls, so
every pass has its own, drawn from a fixed seed: the draw is public, and a fit can be repeated.
"""

from __future__ import annotations

import numpy as np

from privmw.extensions.postprocess.problem import Problem
from privmw.kernels.arrays import Float64s
from privmw.random import sampling_stream

LARGE = 2**18  # rows from which on rows are chosen; fewer are visited in full, which ends sooner there
FEWEST_DESCENT_ROUNDS, MOST_DESCENT_ROUNDS = 10, 1000  # of a pass over all rows and those between
BETWEEN = 9  # passes over the rows above zero, after each
WORK_IN_FULL = 2**34  # visits of a row by a marginal: more rounds where they fit
WHOLE = 2  # passes over all rows, at first
CHOSEN = 0.35  # of the rows that can move are visited then; fewer stall where most weights are zero
AGAIN = 2  # passes over the chosen rows, before others are chosen
RELAXED = 1.5  # of the way to its best weight is gone by a row: a fifth fewer visits than 1
FEWEST_PASSES, MOST_PASSES = 15, 2000  # visits of rows, over the rows
WORK = 2**32  # visits of a row by a marginal, half a minute: more passes where they fit
SMALLEST_MOVE = 1e-8  # of the largest count: the largest move that may be left


def descend(problem: Problem) -> tuple[Float64s, int]:
    """Non-negative weights near the best ones, and the passes taken: visits of rows over the rows."""
    tallies, precisions = problem.tallies, problem.fitted
    weights = problem.start()
    pulls = precisions * (tallies.sums(weights) - problem.counts)
    bends = tallies.potentials(precisions)
    rng, every_row = sampling_stream(0), np.arange(tallies.rows, dtype=np.uint32)
    marginals = len(tallies.marginals[2]) - 1
    if tallies.rows < LARGE:
        visits = tallies.rows * marginals * (BETWEEN + 1)
        rounds = min(max(FEWEST_DESCENT_ROUNDS, WORK_IN_FULL // visits), MOST_DESCENT_ROUNDS)
        for number in range(rounds):
            moved = tallies.descend(rng.permutation(every_row), precisions, bends, weights, pulls)
            if moved <= SMALLEST_MOVE * problem.scale:
                return weights, number * (BETWEEN + 1) + 1
            for _ in range(BETWEEN):
                above = np.flatnonzero(weights).astype(np.uint32)
                tallies.descend(rng.permutation(above), precisions, bends, weights, pulls)
        return weights, rounds * (BETWEEN + 1)
    relaxed = bends / RELAXED
    most = min(max(FEWEST_PASSES, WORK // max(tallies.rows * marginals, 1)), MOST_PASSES) * tallies.rows
    for _ in range(WHOLE):
        tallies.descend(rng.permutation(every_row), precisions, bends, weights, pulls)
    visits = WHOLE * tallies.rows
    while visits < most:
        # Anew: what was added to the pulls again and again has lost digits.
        pulls = precisions * (tallies.sums(weights) - problem.counts)
        slopes = tallies.potentials(pulls)
        left = moves_left(weights, slopes, bends)
        if left.max(initial=0.0) <= SMALLEST_MOVE * problem.scale:
            break
        can_move = np.flatnonzero((weights > 0) | (slopes < 0)).astype(np.uint32)
        count = max(1, round(CHOSEN * len(can_move)))
        chosen = can_move[np.argpartition(left[can_move], len(can_move) - count)[-count:]]
        for _ in range(AGAIN):
            tallies.descend(rng.permutation(chosen), precisions, relaxed, weights, pulls)
        visits += AGAIN * count
    return weights, -(-visits // max(tallies.rows, 1))


def moves_left(weights: Float64s, slopes: Float64s, bends: Float64s) -> Float64s:
    """How far each row alone is from its best weight."""
    wanted = np.divide(slopes, bends, where=bends > 0, out=np.zeros(len(slopes)))
    np.subtract(weights, wanted, out=wanted)
    np.maximum(wanted, 0.0, out=wanted)
    wanted -= weights
    return np.abs(wanted, out=wanted)
