"""True errors of a release, as values. NOT PRIVATE: whoever holds one holds answers of the private table.

`privmw.evaluation` makes them; this room only says what they are, so that a report can show them without
knowing how a table is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Float64s = npt.NDArray[np.float64]


class Cell(NamedTuple):
    """One cell of a workload: its attributes, their values (codes), what was released, the truth."""

    cell: int
    names: tuple[str, ...]
    values: tuple[int, ...]
    released: float
    true: float

    @property
    def error(self) -> float:
        """How far the released answer is from the truth, as a fraction of the records."""
        return abs(self.released - self.true)


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """True errors, in fractions of the records. Not private: for experiments only.

    per_marginal: the largest error of each marginal. total_variation: of each marginal, half the sum of its
    errors, the share of records that would have to move. largest: the cells with the largest errors, largest
    first. typical: cells at even steps through all errors above 0, largest first.
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
        """The largest of any marginal."""
        return float(self.total_variation.max())

    def __repr__(self) -> str:
        return (
            f"NOT PRIVATE: Evaluation(max error {self.max_error:.6g}, mean {self.mean_error:.6g}, "
            f"rmse {self.rmse:.6g}, total variation {self.mean_total_variation:.6g} on average and "
            f"{self.max_total_variation:.6g} at most, over {len(self.per_marginal)} marginals)"
        )
