"""Evaluation: how far a release is from the truth. NOT PRIVATE: it looks at the private table, unpaid.

For experiments, where the table is public in fact or nothing that is seen here leaves the house. No other
room imports this one, and what it returns says of itself what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import repr as _short

import numpy as np
import numpy.typing as npt

from privmw.data.records import Records
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.evaluation.mixture import nearest_mixture
from privmw.evaluation.true_errors import Cell, Evaluation
from privmw.kernels.arrays import freeze
from privmw.kernels.checks import check_integer, check_number
from privmw.release import Release

__all__ = ["Bracket", "Evaluation", "best_mixture_error", "evaluate"]

Float64s = npt.NDArray[np.float64]

MOST_LARGEST, MOST_TYPICAL = 20, 200  # cells that an evaluation shows


def evaluate(released: Release | Table, private: Records, workload: Workload | None = None) -> Evaluation:
    """The true errors of a release, or of a table of synthetic records. NOT PRIVATE: for experiments only.

    The workload is the release's own unless another is given; a table has none of its own.

    >>> from privmw import Domain
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[2, 0], [0, 1], [2, 0], [1, 0]], domain, private=True)
    >>> synthetic = Table.from_codes([[2, 0], [0, 1]], domain)
    >>> found = evaluate(synthetic, private, Workload.all(domain, k=1))
    >>> found.max_error, found.mean_error, found.total_variation.tolist()
    (0.25, 0.2, [0.25, 0.25])
    >>> found.worst
    Cell(cell=0, names=('age',), values=(0,), released=0.5, true=0.25)
    """
    if not isinstance(released, Release | Table):
        raise TypeError(f"released ({_short(released)}) must be a Release or a Table")
    if workload is None:
        if isinstance(released, Table):
            raise TypeError("workload must be given to evaluate a table")
        workload = released.workload
    truth = _truth(private, workload)
    if isinstance(released, Release):
        answers = released.answers(workload)
    else:
        answers = released.counts(workload) / released.n
    errors = np.abs(answers - truth)
    starts = workload.offsets[:-1]
    order = np.argsort(-errors, kind="stable")
    wrong = order[: int(np.count_nonzero(errors))]
    steps = np.unique(np.linspace(0, len(wrong) - 1, MOST_TYPICAL).astype(np.int64)) if len(wrong) else wrong

    def shown(cells: npt.NDArray[np.int64]) -> tuple[Cell, ...]:
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
        largest=shown(order[:MOST_LARGEST]),
        typical=shown(wrong[steps]),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Bracket:
    """The best that any weights on a support can do lies from `lower` to `upper`. Not private.

    weights reach upper; rounds says how many projections were made to find them.
    """

    lower: float
    upper: float
    weights: Float64s
    rounds: int

    def __repr__(self) -> str:
        return f"NOT PRIVATE: Bracket({self.lower:.6g} to {self.upper:.6g}, {self.rounds} rounds)"


def best_mixture_error(
    private: Records, support: Support, workload: Workload, *, tolerance: float = 1e-4, rounds: int = 5000
) -> Bracket:
    """The least largest error that weights on the support can have. NOT PRIVATE: for experiments only.

    Both ends are certain, up to 1e-12: upper is reached by the weights returned, lower follows from a cell
    that no row of the support answers or from a dual vector of the linear program (scipy's HiGHS: install
    privmw[fit]). Stops when they are within the tolerance, or after so many rounds of projections.

    >>> from privmw import Domain
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> private = Table.from_codes([[2, 0], [0, 1], [2, 0], [1, 0]], domain, private=True)
    >>> support = Support.from_table(Table.from_codes([[2, 0], [0, 1]], domain))
    >>> best_mixture_error(private, support, Workload(domain, [("age",)]))
    NOT PRIVATE: Bracket(0.25 to 0.25, 0 rounds)
    """
    if not isinstance(support, Support):
        raise TypeError(f"support ({_short(support)}) must be a Support")
    truth = _truth(private, workload)
    if support.domain != workload.domain:
        raise ValueError(f"support ({support!r}) must be on the domain of the workload")
    tolerance = check_number("tolerance", tolerance)
    if not tolerance > 0:
        raise ValueError(f"tolerance ({tolerance}) must be positive")
    found = nearest_mixture(
        support, workload, truth, tolerance=tolerance, rounds=check_integer("rounds", rounds, 0)
    )
    return Bracket(found.lower, found.upper, freeze(found.weights), found.rounds)


def _truth(private: Records, workload: Workload) -> Float64s:
    if not isinstance(private, Records):
        raise TypeError(f"private ({type(private).__name__}) must be a Table")
    if not isinstance(workload, Workload):
        raise TypeError(f"workload ({_short(workload)}) must be a Workload")
    if workload.cells == 0:
        raise ValueError(f"workload ({workload!r}) must have at least one cell")
    return private.counts(workload) / private.n
