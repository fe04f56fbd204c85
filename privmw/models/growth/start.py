"""The start of a growing support: a small one is widened, and fitted to the one-way marginals.

Widening adds public rows in which one value comes from another public record, of count 0.

A public table that is biased in one attribute pulls every answer that concerns it. The one-way marginals are
known far better than any single cell, so the start is projected onto them, at the prior weight that they
choose; further fits begin there. A good public table keeps its frequencies. Released values only.
"""

from __future__ import annotations

import numpy as np

from privmw import kernels
from privmw.data.blocks import mixed_frequencies, moved_block_weights
from privmw.data.support import Support
from privmw.kernels.arrays import Bools, Float64s
from privmw.models.growth.problem import Problem
from privmw.models.projection.prior_weight import choose_prior_weight
from privmw.models.projection.solver import Slack, project
from privmw.models.query_matrix import matrix_of
from privmw.ranks import sum_over_ranks

LARGEST_WIDENED, MOST_TIMES = 40_000, 10  # rows in all, and new records for each row
WIDENED_SHARE = 0.025  # of the public frequencies, which the widened rows have together
TOLERANCE = 1e-9
NOTICED = 3.0  # standard deviations of a share above 0
MOST_NEW = 0.99  # of the prior, that the rows of a new value may have
CERTAINTY = 5.0  # in standard deviations: a start is left as it is unless it is surely wrong
MOVES_OF_BLOCKS = 5  # of the weights of several public tables


def widened_start(support: Support) -> tuple[Support, Float64s]:
    """The rows to start from, and their weights: of a small support of one table, with widened rows."""
    times = min(LARGEST_WIDENED // support.whole_size - 1, MOST_TIMES)
    if times < 1 or support.blocks is not None:
        return support, support.start()
    gathered = support.widened(times, WIDENED_SHARE).gathered()
    wider = support.comm.broadcast(None if gathered is None else gathered[0])
    assert wider is not None
    rows = support.with_rows(wider.rows)
    own = rows.added >= 0
    prior = np.zeros(rows.support.size)
    prior[rows.added[own]] = wider.start()[own]
    return rows.support, prior


def fitted_start(support: Support, prior: Float64s, one_ways: Problem, threads: int | None) -> Float64s:
    """A start projected onto the one-way marginals.

    Of several public tables, the weights are moved first to where the fitted rows are likeliest.
    """
    workload = one_ways.workload
    if not len(workload):
        return prior
    marginals = kernels.Marginals(support.columns, workload.attributes, workload.starts, threads=threads)
    matrix = matrix_of(workload, one_ways.precision, marginals, threads, support.comm)
    answers, precision = one_ways.answers[matrix.cells], one_ways.precision[matrix.cells]

    def fitted(prior: Float64s) -> Float64s:
        weight, warm = choose_prior_weight(matrix, prior, answers, precision, threads, certainty=CERTAINTY)
        slack = Slack(w=precision / weight)
        return project(
            matrix, prior, answers, slack, multipliers=warm, tolerance=TOLERANCE, threads=threads
        ).weights

    weights = fitted(prior)
    if support.blocks is not None and support.block_weights is not None:
        moved = support.block_weights
        for _ in range(MOVES_OF_BLOCKS):
            moved = moved_block_weights(support.blocks, weights, moved)
            weights = fitted(mixed_frequencies(support.blocks, moved))
    return weights


def with_new_values(support: Support, prior: Float64s, public: Support, one_ways: Problem) -> Float64s:
    """A prior in which values that no public row has weigh what was measured of them.

    A public table that lacks a value says nothing of how often it is. Where a measured share is NOTICED
    standard deviations above 0, rows with the value get it, and the others the rest.
    """
    if not len(one_ways.workload):
        return prior
    noticed = one_ways.answers * np.sqrt(one_ways.precision) > NOTICED
    noticed &= public.answers(one_ways.workload) == 0
    for j, (name,) in enumerate(one_ways.workload):
        cells = one_ways.workload.cells_of([j])
        column = support.table.column(name)
        for value in np.flatnonzero(noticed[cells]).tolist():
            has = column == value
            share = _mass(support, prior, has) / _mass(support, prior, np.ones(len(has), bool))
            wanted = min(float(one_ways.answers[cells[value]]), MOST_NEW)
            if 0 < share < 1:
                prior = prior * np.where(has, wanted / share, (1 - wanted) / (1 - share))
    return prior


def _mass(support: Support, prior: Float64s, rows: Bools) -> int:
    """The weight of some rows, as an exact sum of integers: the same on any number of ranks."""
    masses = np.rint(prior[rows] * 2.0**kernels.MASS_BITS).astype(np.int64)
    return sum_over_ranks(support.comm, int(masses.sum()))
