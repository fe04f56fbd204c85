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


class RecordScores(NamedTuple):
    """Scores of synthetic records of a group, beside `records` private ones. Not private.

    k_marginal: 1000 is equality of all pairs of attributes. pmse: of a classifier that tells the records from
    private ones; 0 if it cannot. auc: of a classifier of the target, trained on synthetic records and tested
    on real ones; auc_of_real: trained on real ones. broken: the share that breaks a constraint. same,
    same_held_out: the shares with all values of a private record, and of a held-out one. nearer: the share
    nearer to a private record than to a held-out one; about .5 unless records are copied. None: not asked.
    """

    group: str
    records: int
    k_marginal: float
    pmse: float
    auc: float | None
    auc_of_real: float | None
    broken: float | None
    same: float
    same_held_out: float | None
    nearer: float | None

    def __str__(self) -> str:
        parts = [f"k-marginal {self.k_marginal:.0f}", f"pMSE {self.pmse:.4f}"]
        if self.auc is not None and self.auc_of_real is not None:
            parts.append(f"AUC {self.auc:.4f} (trained on real records {self.auc_of_real:.4f})")
        if self.broken is not None:
            parts.append(f"{self.broken:.2%} break a rule")
        parts.append(f"{self.same:.1%} equal a private record")
        if self.same_held_out is not None:
            parts.append(f"{self.same_held_out:.1%} a held-out one")
        if self.nearer is not None:
            parts.append(f"{self.nearer:.1%} nearer to a private than to a held-out record")
        return f"{self.group}: {', '.join(parts)}"

    def __repr__(self) -> str:
        return f"NOT PRIVATE: RecordScores({self})"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """True errors, in fractions of the records. Not private: for experiments only.

    per_marginal: the largest error of each marginal. total_variation: half the sum of the errors of each
    marginal, the fraction of records that would have to move. largest: the cells with the largest errors,
    largest first. typical: cells at even steps through all errors above 0, largest first. records: scores of
    the synthetic records, of all and of each group, if asked for.
    """

    max_error: float
    mean_error: float
    rmse: float
    per_marginal: Float64s
    total_variation: Float64s
    largest: tuple[Cell, ...]
    typical: tuple[Cell, ...]
    records: tuple[RecordScores, ...] = ()

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
