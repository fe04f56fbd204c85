"""Coordinate descent in random order: for rows that were not measured themselves and very many queries.

There Newton's method would need too many conjugate gradients. A full pass sets every row to its best weight;
the passes between visit the rows above zero only. A fixed order stalls, so every pass has its own, drawn from
a fixed seed: the draw is public, and a fit can be repeated.
"""

from __future__ import annotations

import numpy as np

from privmw.kernels.arrays import Float64s
from privmw.postprocess.problem import Problem
from privmw.random import sampling_stream

FEWEST_ROUNDS, MOST_ROUNDS = 10, 1000  # of a pass over all rows and those between
WORK = 2**34  # visits of a row by a marginal, under a minute: more rounds where they fit
BETWEEN = 9  # passes over the rows above zero, after each
ENOUGH = 1e-8  # of the largest count: the largest move that may be left


def descend(problem: Problem) -> tuple[Float64s, int]:
    """Non-negative weights near the best ones, and the passes taken."""
    tallies, precisions = problem.tallies, problem.fitted
    weights = problem.start()
    pulls = precisions * (tallies.sums(weights) - problem.counts)
    bends = tallies.potentials(precisions)
    rng, every_row = sampling_stream(0), np.arange(tallies.rows, dtype=np.uint32)
    visits = tallies.rows * (len(tallies.marginals[2]) - 1) * (BETWEEN + 1)
    rounds = min(max(FEWEST_ROUNDS, WORK // visits), MOST_ROUNDS)
    for number in range(rounds):
        moved = tallies.descend(rng.permutation(every_row), precisions, bends, weights, pulls)
        if moved <= ENOUGH * problem.scale:
            return weights, number * (BETWEEN + 1) + 1
        for _ in range(BETWEEN):
            above = np.flatnonzero(weights).astype(np.uint32)
            tallies.descend(rng.permutation(above), precisions, bends, weights, pulls)
    return weights, rounds * (BETWEEN + 1)
