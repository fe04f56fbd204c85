"""Sequential fitting: marginals in order of priority, each stage fitted as the earlier ones allow.

Algorithm 1 of "An Uncertainty Principle is a Price of Privacy-Preserving Microdata", 2021. A stage
holds the sums of the last stage's weights, which can therefore be attained; rows of a sum of 0 are 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privmw.data.support import Support
from privmw.extensions.postprocess.fit import Fit, Stage
from privmw.extensions.postprocess.problem import Problem, make_problem
from privmw.extensions.postprocess.solve import Bounds, number, solve
from privmw.kernels.arrays import Float64s
from privmw.release.noisy_marginals import NoisyMarginals
from privmw.secrecy import expect


def sequential(
    measured: NoisyMarginals,
    support: Support | None = None,
    *,
    priorities: Iterable[Iterable[Sequence[str]]] | None = None,
    total: float | None = None,
) -> Fit:
    """Non-negative weights that fit the marginals of the first group best, then of the second, and so on.

    priorities: groups of marginals, each a tuple of names, every measured one in exactly one group; without
    them the marginals come one by one, those of fewer attributes first.

    >>> from privmw import Domain
    >>> from privmw.extensions.postprocess import NoisyMarginal
    >>> histogram = NoisyMarginal(("sex",), [4.0, -1.0], noise="laplace", scale=2.0)
    >>> measured = NoisyMarginals([histogram, NoisyMarginal((), [3.0], "laplace", 2.0)], Domain({"sex": 2}))
    >>> sequential(measured).weights.round(9)
    array([3., 0.])
    """
    groups = _groups(measured, priorities)
    problem = make_problem(measured, support, total)
    everything = tuple(range(len(measured.domain)))
    of_rows = measured.places.index(everything) if everything in measured.places else None
    cells = _cells(measured, of_rows)
    stages: list[Stage] = []
    held = problem.variances == 0  # a total that was given
    counts = problem.counts.copy()
    weights: Float64s | None = None
    for group in groups:
        fitted = np.zeros(len(held), bool)
        for j in group:
            fitted[cells[j]] = True
        variances = np.where(held, 0.0, np.where(fitted, problem.variances, np.inf))
        precisions = problem.precisions if of_rows in group else number(0.0)
        stage = replace(problem, counts=counts, variances=variances, precisions=precisions)
        solved = solve(stage, _name(measured, group), _bounds(stage), near=weights)
        weights = solved.weights
        stages.append(solved.stage)
        held |= fitted & np.isfinite(problem.variances)
        counts[held] = solved.sums[held]
        if of_rows in group and stage.whole:  # every row was measured: nothing is left to choose
            break
    assert weights is not None
    unique = of_rows is not None and problem.whole
    return Fit(measured, support, weights, "sequential", lambda: stages, unique)


def _bounds(problem: Problem) -> Bounds:
    """Rows of a held sum of zero are zero."""
    empty = (problem.variances == 0) & (problem.counts == 0)
    if not empty.any():
        return Bounds()
    rows = problem.tallies.potentials(empty.astype(np.float64)) > 0
    return Bounds(upper=np.where(rows, 0.0, np.inf))


def _cells(measured: NoisyMarginals, of_rows: int | None) -> list[slice]:
    """Where each marginal's cells are among the queries; nowhere for the marginal of single rows."""
    cells, first = [], 0
    for j in range(len(measured)):
        many = 0 if j == of_rows else measured.offsets[j + 1] - measured.offsets[j]
        cells.append(slice(first, first + many))
        first += many
    return cells


def _name(measured: NoisyMarginals, group: list[int]) -> str:
    return "; ".join(" x ".join(measured.marginals[j]) or "total" for j in group)


def _groups(measured: NoisyMarginals, priorities: Any) -> list[list[int]]:
    expect("measured", measured, NoisyMarginals, "NoisyMarginals")
    if priorities is None:
        return [[j] for j in sorted(range(len(measured)), key=lambda j: len(measured.places[j]))]
    listed = isinstance(priorities, Iterable) and not isinstance(priorities, str)
    expect("priorities", priorities, listed, "a list of lists of marginals")
    groups = []
    for place, group in enumerate(priorities):
        listed = isinstance(group, Iterable) and not isinstance(group, str)
        expect(f"priorities[{place}]", group, listed, "a list of marginals, tuples of names", quote=False)
        groups.append([measured.index(names) for names in group])
    flat = [j for group in groups for j in group]
    if len(set(flat)) < len(flat):
        raise ValueError("priorities must name each marginal only once")
    missing = [j for j in range(len(measured)) if j not in flat]
    if missing or not all(groups):
        raise ValueError(
            f"priorities must cover all that was measured: {_name(measured, missing)} is in no group"
        )
    return groups
