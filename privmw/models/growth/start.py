"""The start of a growing support: a small one is widened, and fitted to the one-way marginals.

Widening adds rows of count 0: public rows with one value taken from another public record.

A public table that is biased in one attribute biases every answer about it. The one-way marginals are known
far better than any single cell, so the start is projected onto them first, with a prior weight chosen from
them. A good public table keeps its frequencies. Released values only.
"""

from __future__ import annotations

from dataclasses import dataclass

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

LARGEST_WIDENED = 40_000  # rows, after widening


@dataclass(frozen=True, slots=True)
class StartSettings:
    """Constants of the start, chosen by benches/studies/growth.py."""

    most_new_rows: int = 10  # per public row
    widened_share: float = 0.025  # of the prior, for all widened rows together
    new_value: float = 3.0  # standard deviations above 0: the value exists
    most_new_share: float = 0.99  # of the prior, for the rows of a new value
    certainty: float = 5.0  # standard deviations: change the start only if it is surely wrong
    block_updates: int = 5  # of the weights of several public tables


START_SETTINGS = StartSettings()


def widened_start(support: Support) -> tuple[Support, Float64s]:
    """The rows to start from, and their weights; a small support of a single table is widened."""
    times = min(LARGEST_WIDENED // support.whole_size - 1, START_SETTINGS.most_new_rows)
    if times < 1 or support.blocks is not None:
        return support, support.start()
    gathered = support.widened(times, START_SETTINGS.widened_share).gathered()
    wider = support.comm.broadcast(None if gathered is None else gathered[0])
    assert wider is not None
    rows = support.with_rows(wider.rows)
    own = rows.added >= 0
    prior = np.zeros(rows.support.size)
    prior[rows.added[own]] = wider.start()[own]
    return rows.support, prior


def fitted_start(support: Support, prior: Float64s, one_ways: Problem, threads: int | None) -> Float64s:
    """A start projected onto the one-way marginals.

    With several public tables, their weights are first set to make the fitted rows most likely.
    """
    workload = one_ways.workload
    if not len(workload):
        return prior
    marginals = kernels.Marginals(support.columns, workload.attributes, workload.starts, threads=threads)
    matrix = matrix_of(workload, one_ways.precision, marginals, threads, support.comm)
    answers, precision = one_ways.answers[matrix.cells], one_ways.precision[matrix.cells]

    def fitted(prior: Float64s) -> Float64s:
        weight, warm = choose_prior_weight(
            matrix, prior, answers, precision, certainty=START_SETTINGS.certainty
        )
        slack = Slack(w=precision / weight)
        return project(matrix, prior, answers, slack, multipliers=warm, tolerance=1e-9).weights

    weights = fitted(prior)
    if support.blocks is not None and support.block_weights is not None:
        block_weights = support.block_weights
        for _ in range(START_SETTINGS.block_updates):
            block_weights = moved_block_weights(support.blocks, weights, block_weights)
            weights = fitted(mixed_frequencies(support.blocks, block_weights))
    return weights


def with_new_values(support: Support, prior: Float64s, public: Support, one_ways: Problem) -> Float64s:
    """The prior with values that no public row has raised to their measured shares.

    A public table without a value says nothing about its frequency. Where the measured share is
    START_SETTINGS.new_value standard deviations above 0, the rows with the value get that share.
    """
    if not len(one_ways.workload):
        return prior
    new = one_ways.answers * np.sqrt(one_ways.precision) > START_SETTINGS.new_value
    new &= public.answers(one_ways.workload) == 0
    for j, (name,) in enumerate(one_ways.workload):
        cells = one_ways.workload.cells_of([j])
        column = support.table.column(name)
        for value in np.flatnonzero(new[cells]).tolist():
            has = column == value
            share = _mass(support, prior, has) / _mass(support, prior, np.ones(len(has), bool))
            measured = min(float(one_ways.answers[cells[value]]), START_SETTINGS.most_new_share)
            if 0 < share < 1:
                prior = prior * np.where(has, measured / share, (1 - measured) / (1 - share))
    return prior


def _mass(support: Support, prior: Float64s, rows: Bools) -> int:
    """The weight of some rows, as an exact sum of integers: the same on any number of ranks."""
    masses = np.rint(prior[rows] * 2.0**kernels.MASS_BITS).astype(np.int64)
    return sum_over_ranks(support.comm, int(masses.sum()))
