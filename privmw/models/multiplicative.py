"""Multiplicative weights: the rows in a measured cell are multiplied by exp(half its error).

A(x) <- A(x) exp(q(x) (a - q(A)) / 2), a clipped to [0, 1] (MWEM; Hardt, Ligett and McSherry 2012). A whole
marginal is one such update for each of its disjoint cells at once.

Replay repeats earlier measurements ("Leveraging public data", section 4.3): those whose error is at least
half that of the newest. "paper" uses the answers from before the round for all of them, and the newest
measurement twice, as the authors ran it; "fresh" goes through them in random order and uses the current
answer for each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from privmw import kernels
from privmw.data.support import Start, Support
from privmw.kernels.arrays import Float64s, Int64s
from privmw.models.groups import Groups
from privmw.models.inputs import ModelInputs, State
from privmw.models.targets import Targets
from privmw.models.weighted_rows import WeightedRows
from privmw.random import sampling_stream
from privmw.ranks import ALONE, sum_over_ranks
from privmw.release.measurements import Measurement

Replay = Literal["none", "paper", "fresh"]
Output = Literal["average", "last"]


class MultiplicativeWeights:
    """A weighted support that is updated by multiplicative weights."""

    def __init__(
        self,
        inputs: ModelInputs,
        *,
        start: Start = "public",
        replay: Replay = "none",
        output: Output = "last",
    ) -> None:
        support = inputs.support
        self._model = WeightedRows(support, inputs.workload, support.start(start), threads=inputs.threads)
        self._targets = Targets(inputs.measured, inputs.n)
        self._replay = replay
        self._sum = np.zeros(support.size) if output == "average" else None
        self._updates = 0
        # Sums over groups need all ranks' rows; for potentials, groups of this rank's rows suffice.
        grouped = 0 if replay == "none" else support.size
        self._groups = Groups(grouped, support.comm if replay == "fresh" else ALONE)
        self._query: dict[int, int] = {}  # measured cell -> number of its query in the groups
        self._matches_most: list[bool] = []  # per query of the groups: whether it matches most rows
        self._marginals: dict[tuple[int, ...], kernels.Marginals] = {}

    def answers(self) -> Float64s:
        """The model's answers to the workload."""
        return self._model.answers()

    def update(self, measurements: Sequence[Measurement], *, last: bool = False) -> Mapping[str, float]:
        """Update the weights with a round's measurements."""
        cells: list[int] = []
        marginals: list[int] = []
        for measurement in measurements:
            new_cells, new_marginals = self._targets.add(measurement)
            cells += new_cells
            marginals += new_marginals
        if self._replay == "none":
            for cell in cells:
                (error,) = self._errors(np.array([cell])).tolist()
                self._model.multiply(self._model.matching_rows(cell), math.exp(error / 2))
            self._move_marginals(marginals)
        else:
            self._repeat(cells, marginals)
        self._updates += 1
        if self._sum is not None:
            self._sum += self._model.distribution()
        return {}

    def result(self) -> tuple[Support, Float64s]:
        """The support, and the weights of its rows to release, with sum 1."""
        if self._sum is None or self._updates == 0:
            return self._model.support, self._model.distribution()
        return self._model.support, self._sum / self._updates

    def state(self) -> tuple[dict[str, Float64s], dict[str, Float64s]]:
        """The weights of this rank's rows, and their sum if they are averaged; the number of updates."""
        rows = {"weights": self._model.weights} | ({} if self._sum is None else {"sum": self._sum})
        return rows, {"updates": np.array([self._updates], np.float64)}

    def restore(self, measurements: Sequence[Measurement], state: State) -> None:
        """Restore the state reached after these measurements."""
        for measurement in measurements:
            cells, _ = self._targets.add(measurement)
            if self._replay != "none":
                self._group(cells)
        rows, numbers = state
        self._sum = rows.get("sum")
        self._updates = int(numbers["updates"][0])
        self._model.replace(rows["weights"], scaled=True)

    def _errors(self, cells: Int64s) -> Float64s:
        """The errors a - q(A) of measured cells of the workload."""
        return self._clipped_targets(cells) - self._model.answers_of(cells)

    def _clipped_targets(self, cells: Int64s) -> Float64s:
        """The measured answers of cells, clipped to [0, 1]."""
        return np.clip(self._targets.answers(cells), 0.0, 1.0)

    def _marginal_errors(self, marginals: Sequence[int]) -> dict[int, Float64s]:
        """The errors of whole marginals; evaluates those that are not in the workload."""
        workload, answered = self._targets.workload, len(self._model.workload)
        others = [j for j in marginals if j >= answered]
        evaluated = self._evaluated(others, *self._model.masses()) if others else {}
        return {j: evaluated[j] if j >= answered else self._errors(workload.cells_of([j])) for j in marginals}

    def _evaluated(self, marginals: Sequence[int], masses: Int64s, total: int) -> dict[int, Float64s]:
        """The errors of whole marginals at these masses, by one evaluation and one allreduce."""
        key, workload = tuple(marginals), self._targets.workload
        some = workload.select(key)
        if key not in self._marginals:
            self._marginals[key] = kernels.Marginals(
                self._model.support.columns, some.attributes, some.starts, threads=self._model.threads
            )
        sums = self._marginals[key].sums(masses, threads=self._model.threads)
        self._model.comm.allreduce(sums)
        answers = np.split(sums / float(total), some.offsets[1:-1])
        return {
            j: self._clipped_targets(workload.cells_of([j])) - answer
            for j, answer in zip(key, answers, strict=True)
        }

    def _cells_of_rows(self, marginal: int) -> Int64s:
        """The cell of each row within a marginal; the kernels' potentials would round."""
        workload, table = self._targets.workload, self._model.support.table
        cells = np.zeros(table.n, np.int64)
        for attribute in workload.attributes[slice(*workload.starts[marginal : marginal + 2])].tolist():
            cells *= table.domain.sizes[attribute]
            cells += table.columns[attribute]
        return cells

    def _move_marginals(self, marginals: Sequence[int]) -> None:
        """Update on whole marginals, one after another."""
        if not marginals:
            return
        weights, threads, comm = self._model.weights, self._model.threads, self._model.comm
        for marginal in marginals:
            kernels.rescale(weights, threads=threads, comm=comm)
            masses, total = kernels.to_masses(weights, threads=threads, comm=comm)
            rates = self._evaluated([marginal], masses, total)[marginal] / 2
            weights *= np.exp(rates)[self._cells_of_rows(marginal)]
        self._model.replace(weights)

    def _group(self, cells: Sequence[int]) -> None:
        """Add measured cells to the groups."""
        for cell in cells:
            if cell not in self._query:
                rows = self._model.matching_rows(cell)
                self._query[cell] = self._groups.add(rows)
                count = sum_over_ranks(self._model.comm, len(rows))
                self._matches_most.append(2 * count > self._model.support.whole_size)

    def _repeat(self, cells: Sequence[int], marginals: Sequence[int]) -> None:
        """Update with replay; the measurements to repeat are chosen by the errors before the round."""
        self._group(cells)
        measured = np.fromiter(self._targets.cells, np.int64)
        errors = dict(zip(measured.tolist(), self._errors(measured).tolist(), strict=True))
        marginal_errors = self._marginal_errors(list(self._targets.marginals))
        newest = [abs(errors[cell]) for cell in cells]
        newest += [float(np.abs(marginal_errors[j]).max()) for j in marginals]
        least = min(newest) / 2
        repeated = [cell for cell in errors if abs(errors[cell]) >= least]
        repeated_marginals = [j for j in marginal_errors if float(np.abs(marginal_errors[j]).max()) >= least]
        if self._replay == "paper":
            rates = np.zeros(self._groups.queries)
            for cell in [*repeated, *cells]:
                rates[self._query[cell]] += errors[cell] / 2
            most_rows = sum(
                rate for rate, most in zip(rates.tolist(), self._matches_most, strict=True) if most
            )
            weights = self._tilted(self._groups.potentials(rates), most_rows)
            for j in [*repeated_marginals, *marginals]:
                weights *= np.exp(marginal_errors[j] / 2)[self._cells_of_rows(j)]
            self._model.move(weights)
            return
        order = sampling_stream(self._updates)
        order.shuffle(repeated)
        order.shuffle(repeated_marginals)
        self._model.move(self._tilted(*self._refreshed(repeated)))
        self._move_marginals(repeated_marginals)

    def _refreshed(self, cells: Sequence[int]) -> tuple[Float64s, float]:
        """Update on these cells in turn, each on current answers.

        Returns the change of each group's log weight, and that of rows which match exactly the queries that
        match most rows.
        """
        masses, _ = self._model.masses()
        mass = self._groups.sums(masses).astype(np.float64)
        log_changes, most_rows = np.zeros(self._groups.count), 0.0
        groups_of = self._groups.of_query
        for cell, target in zip(
            cells, self._clipped_targets(np.array(cells, np.int64)).tolist(), strict=True
        ):
            query = self._query[cell]
            groups = groups_of[query]
            rate = (target - float(mass[groups].sum() / mass.sum())) / 2
            mass[groups] *= math.exp(rate)
            log_changes[groups] += rate
            most_rows += rate if self._matches_most[query] else 0.0
        return log_changes, most_rows

    def _tilted(self, log_changes: Float64s, most_rows: float) -> Float64s:
        """The weights times exp(log_changes - most_rows) of each row's group.

        Only odds matter. Rows that match exactly the queries that match most rows keep their weights, since
        both sums have the same order, and the model need not add their changes.
        """
        return self._model.weights * np.exp(log_changes - most_rows)[self._groups.of_row]
