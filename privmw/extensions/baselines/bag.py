"""Models that are a bag of records, each a best response to cells with errors.

They learn from signed cells drawn by the curator, not from noisy counts: i < cells asks for records in cell
i, i + cells for records outside it. Released values and public rows only. A round's sampling stream is seeded
by its number, so that a resumed run makes the same records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.extensions.baselines.oracle import Oracle
from privmw.kernels.arrays import Float64s, Int64s, UInt32s
from privmw.models.inputs import State
from privmw.random import sampling_stream
from privmw.release.measurements import Measurement

NOISE_BITS = 20  # fractional bits of perturbations: scores are integers


class Bag:
    """Records, with their counts in each cell of a workload."""

    def __init__(self, workload: Workload, codes: UInt32s | None = None) -> None:
        self._workload = workload
        self.codes: UInt32s = np.empty((0, len(workload.domain)), np.uint32)
        self.cell_counts: Int64s = np.zeros(workload.cells, np.int64)
        if codes is not None:
            self.add(codes)

    def __len__(self) -> int:
        return len(self.codes)

    def add(self, codes: UInt32s) -> None:
        """Add records: an array of codes, records x attributes."""
        self.codes = np.concatenate([self.codes, codes])
        np.add.at(self.cell_counts, cells_of_records(self._workload, codes).ravel(), 1)

    def answers(self) -> Float64s:
        """The fraction of the records in each cell."""
        return self.cell_counts / len(self)


def cells_of_records(workload: Workload, codes: UInt32s) -> Int64s:
    """The cell of each record in each marginal: records x marginals.

    >>> from privmw import Domain
    >>> workload = Workload(Domain({"age": 3, "sex": 2}), [("age",), ("age", "sex")])
    >>> cells_of_records(workload, np.array([[2, 1]], np.uint32))
    array([[2, 8]])
    """
    cells = np.zeros((len(codes), len(workload)), np.int64)
    orders, sizes = np.diff(workload.starts), np.array(workload.domain.sizes, np.int64)
    for place in range(int(orders.max(initial=0))):
        longer = np.flatnonzero(orders > place)
        attributes = workload.attributes[workload.starts[longer] + place]
        cells[:, longer] = cells[:, longer] * sizes[attributes] + codes[:, attributes]
    return cells + workload.offsets[:-1]


def signed_weights(drawn: Sequence[int] | Int64s, cells: int) -> tuple[Int64s, Int64s]:
    """The distinct cells drawn, each with its count minus that of its negation.

    >>> signed_weights([7, 3, 7, 13], cells=10)
    (array([7]), array([2]))
    """
    numbers = np.asarray(drawn, np.int64)
    distinct, place = np.unique(numbers % cells, return_inverse=True)
    weights = np.zeros(len(distinct), np.int64)
    np.add.at(weights, place.ravel(), np.where(numbers < cells, 1, -1))
    return distinct[weights != 0], weights[weights != 0]


class _Responses:
    """The base of both models: public rows, and a release of records."""

    def __init__(self, support: Support, workload: Workload, oracle: Oracle) -> None:
        self._support, self._workload, self._oracle = support, workload, oracle

    def update(self, measurements: Sequence[Measurement], *, last: bool = False) -> Mapping[str, float]:
        """Refuse measurements."""
        raise TypeError("measurements must not be given: a bag of records learns from drawn cells")

    def _released(self, codes: UInt32s) -> tuple[Support, Float64s]:
        """The records as rows beside the public ones, weighted by frequency."""
        with_rows = self._support.with_rows(codes)
        counts = np.bincount(with_rows.added, minlength=with_rows.support.size)
        return with_rows.support, counts / len(codes)

    def _values(self) -> int:
        return sum(self._workload.domain.sizes)

    def _codes(self, stored: Float64s) -> UInt32s:
        return stored.reshape(-1, len(self._workload.domain)).astype(np.uint32)


class BestResponses(_Responses):
    """A bag to which every round adds the best response to the cells drawn.

    The first record is the best response to `samples` uniformly drawn signed cells (Gaboardi et al. 2014,
    "Dual Query", algorithm 1).
    """

    def __init__(self, support: Support, workload: Workload, oracle: Oracle, *, samples: int) -> None:
        super().__init__(support, workload, oracle)
        self._bag = Bag(workload)
        self._add(sampling_stream(0).integers(0, 2 * workload.cells, samples))

    def answers(self) -> Float64s:
        """The fraction of the bag's records in each cell."""
        return self._bag.answers()

    def bag(self) -> tuple[Int64s, int]:
        """The counts of the records in each cell, and the number of records."""
        return self._bag.cell_counts, len(self._bag)

    def respond(self, drawn: Sequence[int], *, last: bool = False) -> Mapping[str, float]:
        """Add the best response; satisfied: the share of the signed cells that it satisfies."""
        return {"satisfied": self._add(np.array(drawn, np.int64))}

    def _add(self, drawn: Int64s) -> float:
        cells, weights = signed_weights(drawn, self._workload.cells)
        terms = np.zeros((1, self._values()), np.int64)
        record = self._oracle.respond(cells, weights, terms, sampling_stream(1 + len(self._bag)))
        self._bag.add(record)
        inside = np.isin(drawn % self._workload.cells, cells_of_records(self._workload, record))
        return float((inside == (drawn < self._workload.cells)).mean())

    def result(self) -> tuple[Support, Float64s]:
        """The rows of the bag, each with its share of the records."""
        return self._released(self._bag.codes)

    def state(self) -> tuple[dict[str, Float64s], dict[str, Float64s]]:
        """The records."""
        return {}, {"records": self._bag.codes.astype(np.float64).ravel()}

    def restore(self, measurements: Sequence[Measurement], state: State) -> None:
        """Restore a bag."""
        self._bag = Bag(self._workload, self._codes(state[1]["records"]))


class PerturbedLeader(_Responses):
    """A new bag each round: perturbed best responses to all cells drawn so far.

    A perturbation subtracts exponential noise of mean `noise` sqrt(rounds) from the score of each value. The
    release has the bags made after half of epsilon, a quarter of rho, was spent (Vietri et al. 2020,
    algorithm FEM and its authors' code).
    """

    def __init__(
        self,
        support: Support,
        workload: Workload,
        oracle: Oracle,
        *,
        samples: int,
        noise: float,
        rounds: int,
    ) -> None:
        super().__init__(support, workload, oracle)
        self._samples, self._scale = samples, noise * rounds**0.5
        self._first_kept = (rounds + 1) // 4
        self._drawn: list[int] = []
        self._kept, self._bag = Bag(workload), Bag(workload)
        self._make_bag()

    def answers(self) -> Float64s:
        """The fraction of the kept records in each cell, or of the newest bag if none is kept yet."""
        return (self._kept if len(self._kept) else self._bag).answers()

    def bag(self) -> tuple[Int64s, int]:
        """The counts of the newest records in each cell, and their number."""
        return self._bag.cell_counts, self._samples

    def respond(self, drawn: Sequence[int], *, last: bool = False) -> Mapping[str, float]:
        """Make a bag of best responses to all cells drawn so far."""
        self._drawn += drawn
        self._make_bag()
        return {"distinct": float(len(np.unique(self._bag.codes, axis=0)))}

    def _make_bag(self) -> None:
        number = len(self._drawn)
        stream = sampling_stream(number)
        cells, weights = signed_weights(self._drawn, self._workload.cells)
        noise = stream.standard_exponential((self._samples, self._values())) * self._scale
        terms = -np.rint(noise * 2.0**NOISE_BITS).astype(np.int64)
        self._bag = Bag(self._workload, self._oracle.respond(cells, weights << NOISE_BITS, terms, stream))
        if number >= self._first_kept:
            self._kept.add(self._bag.codes)

    def result(self) -> tuple[Support, Float64s]:
        """The rows of the kept bags, each with its share of their records."""
        return self._released((self._kept if len(self._kept) else self._bag).codes)

    def state(self) -> tuple[dict[str, Float64s], dict[str, Float64s]]:
        """The cells drawn, and the records."""
        return {}, {
            "drawn": np.array(self._drawn, np.float64),
            "kept": self._kept.codes.astype(np.float64).ravel(),
            "newest": self._bag.codes.astype(np.float64).ravel(),
        }

    def restore(self, measurements: Sequence[Measurement], state: State) -> None:
        """Restore the cells drawn, and the bags."""
        _, others = state
        self._drawn = others["drawn"].astype(np.int64).tolist()
        self._kept = Bag(self._workload, self._codes(others["kept"]))
        self._bag = Bag(self._workload, self._codes(others["newest"]))
