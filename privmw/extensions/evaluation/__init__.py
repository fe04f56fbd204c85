"""Evaluation: the true errors of a release. NOT PRIVATE: it counts the private table without a budget.

For experiments, where the table is public in fact or the results are not published. Its results say in their
repr that they are not private.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmw.data.constraints import Constraints
from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.extensions.evaluation.mixture import nearest_mixture
from privmw.extensions.evaluation.scores import scores_of
from privmw.kernels.arrays import Float64s, Int64s, freeze
from privmw.kernels.checks import check_integer, check_number
from privmw.release import Release
from privmw.release.errors.true_errors import Cell, Evaluation, RecordScores
from privmw.secrecy import expect, sealed, shown

__all__ = ["Bracket", "Evaluation", "RecordScores", "best_mixture_error", "evaluate"]

MOST_LARGEST, MOST_TYPICAL = 20, 200  # cells that an evaluation shows


@sealed
def evaluate(
    released: Release | Table,
    private: Records,
    workload: Workload | None = None,
    *,
    records: bool = False,
    target: str | None = None,
    by: str | None = None,
    constraints: Constraints | None = None,
    held_out: Records | None = None,
) -> Evaluation:
    """The true errors of a release, or of a table of synthetic records. NOT PRIVATE: for experiments only.

    workload: by default that of the release; it must be given for a table. The truth is that of the records
    that enter: read the private file without its unit to compare with all of them.

    records: also score synthetic records (`RecordScores`; needs scikit-learn). The following ask for this
    too. target: an attribute to be predicted by a classifier trained on them. by: an attribute, for scores of
    each of its groups. constraints: rules to be kept; None takes those of a release's support. held_out:
    private records that were not released, for comparison.

    >>> from privmw import Domain
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[2, 0], [0, 1], [2, 0], [1, 0]], domain, private=True)
    >>> synthetic = Table.from_codes([[2, 0], [0, 1]], domain, private=False)
    >>> evaluation = evaluate(synthetic, private, Workload.all(domain, k=1))
    >>> evaluation.max_error, evaluation.mean_error, evaluation.total_variation.tolist()
    (0.25, 0.2, [0.25, 0.25])
    >>> evaluation.worst
    Cell(cell=0, names=('age',), values=(0,), released=0.5, true=0.25)
    """
    expect("released", released, Release | Table, "a Release or a Table")
    expect("private", private, Records, "a Table", quote=False)
    if workload is None:
        if isinstance(released, Table):
            raise TypeError("workload must be given to evaluate a table")
        workload = released.workload
    for name, attribute in (("target", target), ("by", by)):
        if attribute is not None and attribute not in workload.domain:
            raise ValueError(f"{name} ({shown(attribute)}) must be an attribute of the domain")
    for name, given in (("constraints", constraints), ("held_out", held_out)):
        if given is not None and given.domain != workload.domain:
            raise ValueError(f"{name} must be on the domain of the workload")
    truth = _truth(private, workload)
    if isinstance(released, Release):
        answers = released.answers(workload)
    else:
        answers = released.counts(workload) / released.n
    scores: tuple[RecordScores, ...] = ()
    if records or any(given is not None for given in (target, by, constraints, held_out)):
        if not private.has_records:
            raise ValueError("private (counts alone) must hold records to score records")
        rules = constraints
        if isinstance(released, Release):
            rules = constraints or released.support.constraints
        table = released.sample(seed=0) if isinstance(released, Release) else released
        scores = scores_of(table, private, target=target, by=by, constraints=rules, held_out=held_out)
    errors = np.abs(answers - truth)
    starts = workload.offsets[:-1]
    order = np.argsort(-errors, kind="stable")
    wrong = order[: int(np.count_nonzero(errors))]
    steps = np.unique(np.linspace(0, len(wrong) - 1, MOST_TYPICAL).astype(np.int64)) if len(wrong) else wrong

    def listed(cells: Int64s) -> tuple[Cell, ...]:
        return tuple(
            Cell(cell, *workload.query(cell), float(answers[cell]), float(truth[cell]))
            for cell in cells.tolist()
        )

    return Evaluation(
        max_error=float(errors[order[0]]),
        mean_error=float(errors.mean()),
        rmse=float(np.sqrt(np.mean(errors**2))),
        per_marginal=freeze(np.maximum.reduceat(errors, starts)),
        total_variation=freeze(np.add.reduceat(errors, starts) / 2),
        largest=listed(order[:MOST_LARGEST]),
        typical=listed(wrong[steps]),
        records=scores,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Bracket:
    """The least error of any weights on a support lies from `lower` to `upper`. Not private.

    weights: their error is `upper`. rounds: the number of projections that found them.
    """

    lower: float
    upper: float
    weights: Float64s
    rounds: int

    def __repr__(self) -> str:
        return f"NOT PRIVATE: Bracket({self.lower:.6g} to {self.upper:.6g}, {self.rounds} rounds)"


@sealed
def best_mixture_error(
    private: Records, support: Support, workload: Workload, *, tolerance: float = 1e-4, rounds: int = 5000
) -> Bracket:
    """The smallest maximum error of any weights on the support. NOT PRIVATE: for experiments only.

    Both bounds are certain, up to 1e-12: upper is the error of the weights returned, lower follows from a
    cell that no row of the support answers or from a dual vector of the linear program (scipy's HiGHS: needs
    privmw[fit]). Stops when they are within the tolerance, or after a limited number of projections.

    >>> from privmw import Domain
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[2, 0], [0, 1], [2, 0], [1, 0]], domain, private=True)
    >>> support = Support.from_table(Table.from_codes([[2, 0], [0, 1]], domain, private=False))
    >>> best_mixture_error(private, support, Workload(domain, [("age",)]))
    NOT PRIVATE: Bracket(0.25 to 0.25, 0 rounds)
    """
    expect("support", support, Support, "a Support")
    truth = _truth(private, workload)
    if support.domain != workload.domain:
        raise ValueError(f"support ({shown(support)}) must be on the domain of the workload")
    tolerance = check_number("tolerance", tolerance)
    if not tolerance > 0:
        raise ValueError(f"tolerance ({tolerance}) must be positive")
    rounds = check_integer("rounds", rounds, 0)
    nearest = nearest_mixture(support, workload, truth, tolerance=tolerance, rounds=rounds)
    return Bracket(nearest.lower, nearest.upper, freeze(nearest.weights), nearest.rounds)


def _truth(private: Records, workload: Workload) -> Float64s:
    expect("private", private, Records, "a Table", quote=False)
    expect("workload", workload, Workload, "a Workload")
    if workload.cells == 0:
        raise ValueError(f"workload ({shown(workload)}) must have at least one cell")
    if private.n == 0:
        raise ValueError("private (0 records) must have at least one record")
    return private.counts(workload) / private.n
