"""The true errors of a release, as values. NOT PRIVATE: they contain answers of the private table.

`privmw.extensions.evaluation` makes them. They are separate, so that a report can show them without importing
the code that counts a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from privmw.kernels.arrays import Float64s


class Cell(NamedTuple):
    """One cell of a workload: its attributes, their values (codes), the released and the true answer."""

    cell: int
    names: tuple[str, ...]
    values: tuple[int, ...]
    released: float
    true: float

    @property
    def error(self) -> float:
        """The absolute error of the released answer, as a fraction of the records."""
        return abs(self.released - self.true)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """True errors, in fractions of the records. Not private: for experiments only.

    per_marginal: the largest error of each marginal. total_variation: half the sum of the errors of each
    marginal, the fraction of records that would have to move. largest: the cells with the largest errors,
    largest first. typical: cells at even steps through all errors above 0, largest first.
    """

    max_error: float
    mean_error: float
    rmse: float
    per_marginal: Float64s
    total_variation: Float64s
    largest: tuple[Cell, ...]
    typical: tuple[Cell, ...]

    @property
    def for_release(self) -> bool:
        """Always False: no privacy statement covers these numbers."""
        return False

    @property
    def worst(self) -> Cell:
        """The cell with the largest error, the first one among equals."""
        return self.largest[0]

    @property
    def mean_total_variation(self) -> float:
        """The mean over marginals."""
        return float(self.total_variation.mean())

    @property
    def max_total_variation(self) -> float:
        """The maximum over marginals."""
        return float(self.total_variation.max())

    def __repr__(self) -> str:
        return (
            f"NOT PRIVATE: Evaluation(max error {self.max_error:.6g}, mean {self.mean_error:.6g}, "
            f"rmse {self.rmse:.6g}, total variation {self.mean_total_variation:.6g} on average and "
            f"{self.max_total_variation:.6g} at most, over {len(self.per_marginal)} marginals)"
        )
