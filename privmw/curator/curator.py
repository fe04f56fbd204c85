"""The curator: the only module that holds private counts. It returns charged choices and noisy counts.

A call is checked (parameters and public values only), charged, and only then are the counts looked at.
Nothing here fails, warns, logs or stops because of a private value, and no message shows one. What Python
cannot do: hide memory from code in the same process, or running times from its caller (a selection's time
depends on its scores). Code that must not see the counts has to run in another process.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import combinations
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.accounting import Budget, Ledger, Neighbors, ResidualGaussian
from privmw.accounting.events import Event
from privmw.accounting.noise import noise_for, of_unit
from privmw.accounting.rounding import Real, float_up, positive_integer
from privmw.data.queries import QueryGroup
from privmw.data.records import Records, check_is_private
from privmw.data.workload import Workload
from privmw.mechanisms import Noise, ResidualNoise, Selection, Threshold, scores
from privmw.random import Rng, Stream, privacy_stream
from privmw.secrecy import erasing, expect, sealed, shown

if TYPE_CHECKING:
    from typing_extensions import Self

Int64s: TypeAlias = npt.NDArray[np.int64]


class Curator:
    """The private counts of one table and workload, behind a budget. Close it, or use it in `with`.

    rng: None uses the operating system; a seed or another generator is for experiments, and marks the ledger.
    neighbors: under ADD_REMOVE_ONE the number of records is private. Then `public_n` gives a public figure
    for the statement, and only `measure` is available (the scores of `select` use n). spent: the ledger of an
    interrupted run on the same table, which this curator continues; its costs stay charged. A table with a
    unit: a call costs what it costs the unit as a whole. Replacing or removing a unit replaces or removes up
    to `private.at_most` records.

    >>> from privmw import Domain, Table
    >>> table = Table.from_codes([[2, 0], [0, 1], [2, 0]], Domain({"age": 3, "sex": 2}), private=True)
    >>> workload = Workload.all(table.domain, k=1)
    >>> with Curator(table, workload, Budget.zcdp(1)) as curator:
    ...     (cell,) = curator.select(np.full(workload.cells, 0.5), epsilon=0.5)
    ...     noisy = curator.measure([cell], rho=0.5)
    ...     print(curator, noisy.dtype)
    Curator(3 records, 5 cells, rho 0.625 of 1.0 spent) int64
    """

    __slots__ = (
        "__counts",
        "__lock",
        "__stream",
        "__total",
        "__weakref__",
        "_at_most",
        "_ledger",
        "_process",
        "_workload",
    )

    @sealed
    def __init__(
        self,
        private: Records,
        workload: Workload,
        budget: Budget,
        *,
        rng: Rng = None,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        public_n: int | None = None,
        spent: Ledger | None = None,
    ) -> None:
        expect("private", private, Records, "a Table", quote=False)
        check_is_private(private)
        if private.comm.rank > 0:
            raise ValueError("private (records on several ranks) must be counted by the curator of rank 0")
        expect("workload", workload, Workload, "a Workload")
        if workload.domain != private.domain:
            raise ValueError(f"workload ({shown(workload)}) must be on the domain of the private table")
        if workload.cells == 0:
            raise ValueError(f"workload ({shown(workload)}) must have at least one cell")
        stream = privacy_stream(rng)
        fresh = _ledger(private, budget, neighbors, public_n, stream)
        self._ledger = fresh if spent is None else _continued(spent, fresh)
        self._workload = workload
        self._at_most = private.at_most
        self._process = os.getpid()
        self.__stream = stream
        self.__lock = threading.RLock()  # reentrant: an interrupted thread that still holds it can call close
        self.__total: Int64s = np.array([private.n], np.int64)
        self.__counts: Int64s | None = private.counts(workload)

    @property
    def workload(self) -> Workload:
        """The workload whose cells can be measured."""
        return self._workload

    @property
    def ledger(self) -> Ledger:
        """All events charged, and the remaining budget."""
        return self._ledger

    @property
    def n(self) -> int:
        """The number of records; under ADD_REMOVE_ONE, the given public figure."""
        return self._ledger.n

    @property
    def closed(self) -> bool:
        """True if the counts have been erased."""
        return self.__counts is None

    @sealed
    def select(
        self,
        model_answers: npt.NDArray[np.float64],
        *,
        epsilon: Real,
        mechanism: Literal["permute-and-flip", "exponential"] = "permute-and-flip",
        among: Literal["cell", "marginal"] = "cell",
        k: int = 1,
        exclude: npt.ArrayLike | None = None,
        candidates: int | None = None,
    ) -> tuple[int, ...]:
        """Choose k cells or marginals with large errors of the model; returns them in the order of choice.

        Requires: public float64 fractions of the model, one per cell; released indices to exclude; a number,
            fixed beforehand, of the workload's first marginals that compete.
        Ensures: the mechanism on scores |count 2^20 - round(n answer 2^20)|, a marginal's its largest cell's.
        Privacy: k runs at epsilon each, among all that compete and are not excluded. A replaced record moves
            a count by at most 1, so a cell's score by at most 2^20 (the rest is public, and | | brings no two
            numbers further apart), and a marginal's largest by no more than the one in it that moves most. A
            unit of at most m records moves a score m times as far: by m 2^20, the sensitivity that is paid.
        Numerics: integers throughout; rounding concerns public numbers only.
        Checked by:
            tests/curator/test_curator.py::test_scores_of_neighbours_differ_by_at_most_the_sensitivity,
            tests/curator/test_unit.py::test_a_replaced_unit_moves_what_is_paid_for_and_no_more,
            tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim
        """
        if self._ledger.neighbors is not Neighbors.REPLACE_ONE:
            raise ValueError("neighbors (ADD_REMOVE_ONE) must be REPLACE_ONE to select: scores use n")
        if among not in ("cell", "marginal"):
            raise ValueError(f"among ({shown(among)}) must be 'cell' or 'marginal'")
        if mechanism not in ("permute-and-flip", "exponential"):
            raise ValueError(f"mechanism ({shown(mechanism)}) must be 'permute-and-flip' or 'exponential'")
        offsets = self.__candidate_offsets(candidates)
        cells = int(offsets[-1])
        answers = scores.check_answers(model_answers, cells)
        competing = cells if among == "cell" else len(offsets) - 1
        excluded = np.sort(_indices("exclude", [] if exclude is None else exclude, competing))
        selection = Selection.prepare(
            mechanism,
            candidates=competing - len(excluded),
            sensitivity=of_unit(scores.SENSITIVITY, self._at_most),
            epsilon=epsilon,
            k=k,
        )
        with self.__charged(selection.event) as counts, erasing() as erased:
            if among == "cell":
                score = scores.cell_scores(counts[:cells], answers, self._ledger.n)
                return selection.draw(score, self.__stream, excluded)
            largest = erased(scores.marginal_scores(counts[:cells], answers, self._ledger.n, offsets))
            return selection.draw(largest, self.__stream, excluded)

    @sealed
    def draw(
        self,
        cell_counts: Int64s,
        *,
        records: int,
        epsilon: Real,
        k: int = 1,
    ) -> tuple[int, ...]:
        """Draw k signed cells, with replacement, with large errors of a bag of public records.

        Number i below the number of cells is cell i, of which the bag lacks records; i + cells is the same
        cell negated, of which it has too many.

        Requires: how many of the bag's records are in each cell, public int64; how many it has, t.
        Ensures: k draws of the exponential mechanism, each on its own, on the scores +-(t count - n times the
            bag's records in the cell). At epsilon = 2 t eta / n these are the weights exp(+-eta (t q(D) - sum
            of q over the bag)) that multiplicative weights at rate eta have after t steps.
        Privacy: k runs at epsilon each. A replaced record moves a count by at most 1 and nothing else here,
            so a score by at most t; that of a cell it enters rises, that of its negation falls. A unit of at
            most m records moves it m times as far: by m t, the sensitivity that is paid.
        Numerics: integers throughout, and nothing is rounded.
        Checked by:
            tests/curator/test_draw.py::test_scores_of_neighbours_differ_by_at_most_the_sensitivity,
            tests/curator/test_draw.py::test_draws_have_the_probabilities_by_hand,
            tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim
        """
        if self._ledger.neighbors is not Neighbors.REPLACE_ONE:
            raise ValueError("neighbors (ADD_REMOVE_ONE) must be REPLACE_ONE to draw: scores use n")
        records, n = positive_integer("records", records), self._ledger.n
        bag = scores.check_bag(cell_counts, records, self._workload.cells, n)
        selection = Selection.prepare(
            "exponential-draws",
            candidates=2 * self._workload.cells,
            sensitivity=of_unit(records, self._at_most),
            epsilon=epsilon,
            k=k,
        )
        with self.__charged(selection.event) as counts, erasing() as erased:
            return selection.draw(erased(scores.signed_scores(counts, bag, records, n)), self.__stream)

    @sealed
    def choose_public(
        self,
        answers: Sequence[npt.NDArray[np.float64]],
        *,
        epsilon: Real,
        distance: Literal["largest", "mean"] = "largest",
    ) -> int:
        """Choose a public table whose answers are close to the private ones; returns its index.

        Requires: for each of at least two tables, its public float64 fractions, one per cell of the workload.
        Ensures: the exponential mechanism on minus the distance: the largest |count 2^b - round(n answer
            2^b)| over the cells, or ("mean") their sum, which is the mean over the marginals of the L1
            distance times their number. b is 20, or less where the sum would not stay below 2^62: from n and
            the number of cells alone.
        Privacy: one run at epsilon among the tables. A replaced record moves a count by at most 1, and with
            it the term of a cell by at most 2^b (the rest is public), so a largest term by at most 2^b. In
            each of J marginals it moves at most two counts, so the sum by at most 2 J 2^b. A unit of at most
            m records is m records replaced one after another: the sensitivity paid for is m times that.
        Numerics: integers throughout; rounding concerns public numbers only.
        Checked by:
            tests/curator/test_choose_public.py::test_scores_of_neighbours_differ_by_at_most_the_sensitivity,
            tests/curator/test_choose_public.py::test_choices_have_the_probabilities_by_hand,
            tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim
        """
        if self._ledger.neighbors is not Neighbors.REPLACE_ONE:
            raise ValueError("neighbors (ADD_REMOVE_ONE) must be REPLACE_ONE to choose: scores use n")
        if distance not in ("largest", "mean"):
            raise ValueError(f"distance ({shown(distance)}) must be 'largest' or 'mean'")
        n, workload = self._ledger.n, self._workload
        checked = [scores.check_answers(fractions, workload.cells, quote=False) for fractions in answers]
        if len(checked) < 2:
            raise ValueError(f"answers (of {len(checked)} tables) must be of at least two tables")
        moved = scores.distance_sensitivity(distance, n, workload.cells, len(workload))
        selection = Selection.prepare(
            "exponential", candidates=len(checked), sensitivity=of_unit(moved, self._at_most), epsilon=epsilon
        )
        with self.__charged(selection.event) as counts, erasing() as erased:
            score = erased(scores.table_scores(counts, checked, n, distance))
            return selection.draw(score, self.__stream)[0]

    @sealed
    def measure(
        self,
        queries: npt.ArrayLike | None = None,
        *,
        marginal: int | None = None,
        marginals: npt.ArrayLike | None = None,
        total: bool = False,
        rho: Real | None = None,
        epsilon: Real | None = None,
    ) -> Int64s:
        """Measure cells: counts with discrete Gaussian noise (rho) or discrete Laplace noise (epsilon).

        Requires: distinct public indices: of cells; of cells of one marginal (both given); of marginals. Or
            the total, alone and under ADD_REMOVE_ONE: else it is public.
        Ensures: noisy counts in the order asked, marginal after marginal, all with the event's one scale.
        Privacy: rho or epsilon is what the whole call costs. If a record can move c entries by 1, L1 = L2^2 =
            c. k cells: c = k, wherever they lie. Some or all of one marginal's: c = 2, one left and one
            entered (1 for a single cell or under ADD_REMOVE_ONE). Marginals: the sum, so each pays its share.
            The total: c = 1. A unit of at most m records moves the vector of entries m times, each time by an
            L2 of at most sqrt(c): together L2^2 <= c m^2 and L1 <= c m, both attained by m records alike.
        Numerics: exact sampling; the event is a pure function of rho or epsilon, c, m and the cells' number.
        Checked by:
            tests/curator/test_curator.py::test_measured_counts_of_neighbours_differ_by_the_sensitivity,
            tests/curator/test_unit.py::test_a_replaced_unit_moves_what_is_paid_for_and_no_more,
            tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim
        """
        cells, changing = self.__requested_cells(queries, marginal, marginals, total)
        family, share = noise_for(rho=rho, epsilon=epsilon)
        sensitivity = family.sensitivity(changing, self._at_most)
        noise = Noise.prepare(family, size=len(cells), sensitivity=sensitivity, share=share)
        with self.__charged(noise.event) as counts, erasing() as erased:
            held = self.__total if total else counts
            return noise.add(erased(held[cells]), self.__stream)

    @sealed
    def measure_queries(
        self, group: QueryGroup, *, rho: Real | None = None, epsilon: Real | None = None
    ) -> Int64s:
        """Measure linear queries on one marginal, with discrete Gaussian (rho) or discrete Laplace noise.

        Requires: a group of queries on this domain, whose marginal is in the workload.
        Ensures: noisy integers in the group's order, all with the event's one scale.
        Privacy: rho or epsilon is what the call costs. A record adds its cell's column of the product of the
            group's matrices, so a replaced record moves the answers by the distance of two columns, an added
            one by one column: at most the group's L1 or L2. A unit of at most m records is m such moves:
            L1 <= m l1, L2^2 <= m^2 l2^2.
        Numerics: integers throughout, and none overflows: entries are at most 2^20, a public n is below 2^32,
            and where n is private, counts are clamped, which moves a cell by no more than its record does.
        Checked by:
            tests/data/test_queries.py::test_sensitivities_are_those_of_all_pairs_of_records,
            tests/curator/test_queries.py::test_answers_of_neighbours_differ_by_the_sensitivity,
            tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim
        """
        expect("group", group, QueryGroup, "a QueryGroup")
        if group.domain != self._workload.domain:
            raise ValueError(f"group ({group}) must be on the domain of the workload")
        j = self._workload.index(group.names)
        first, end = self._workload.offsets[j : j + 2].tolist()
        family, share = noise_for(rho=rho, epsilon=epsilon)
        moved = group.moved(family.order, replace=self._ledger.neighbors is Neighbors.REPLACE_ONE)
        sensitivity = family.sensitivity(moved, self._at_most)
        noise = Noise.prepare(family, size=group.size, sensitivity=sensitivity, share=share)
        with self.__charged(noise.event) as counts, erasing() as erased:
            cells = counts[first:end]
            if self._ledger.neighbors is Neighbors.ADD_REMOVE_ONE:
                cells = erased(np.minimum(cells, group.largest_count))
            answers: Int64s = group.apply(cells, erased)
            return noise.add(answers.reshape(-1), self.__stream)

    @sealed
    def measure_thresholded(self, marginal: int, *, epsilon: Real, delta: Real) -> Int64s:
        """Measure the cells of one marginal with discrete Laplace noise; small noisy counts become 0.

        Requires: the public number of a marginal; a budget with an event_delta.
        Ensures: a noisy count for each cell, 0 where it is below the threshold of the event. A cell without a
            record is always 0; which of the others are not 0 is decided by their noisy counts.
        Privacy: (epsilon, delta)-DP, both charged. A record moves c = 2 cells by 1 (1 under ADD_REMOVE_ONE),
            a unit of at most m records the counts by c m in all, and cells that are empty without it hold at
            most m: delta bounds the chance that one of these is shown. Where none is, both tables show the
            same cells as empty, and the other counts are those of discrete Laplace noise: epsilon-DP.
        Numerics: exact sampling; the event is a pure function of epsilon, delta, c, m and the cells' number.
        Checked by: tests/mechanisms/test_threshold.py::test_laws_of_neighbours_are_within_epsilon_and_delta,
            tests/mechanisms/test_threshold.py::test_the_curator_pays_for_units_and_for_neighbours_by_addition,
            tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim
        """
        cells, changing = self.__requested_cells(None, marginal, None, False)
        threshold = Threshold.prepare(
            size=len(cells),
            l1_sensitivity=Threshold.family.sensitivity(changing, self._at_most),
            epsilon=epsilon,
            delta=delta,
            records=self._at_most,
        )
        with self.__charged(threshold.event) as counts, erasing() as erased:
            return threshold.apply(erased(counts[cells]), self.__stream)

    @sealed
    def measure_residuals(self, event: ResidualGaussian) -> tuple[Int64s, ...]:
        """Measure the interactions of sets of attributes, all in one shot, with discrete Gaussian noise.

        Requires: an event on this domain, for units of as many records; each look inside a marginal of the
            workload.
        Ensures: for each look, noisy integer contrasts of its table against the last value of each attribute.
        Privacy: what the event states: the worst over all pairs of records of the cost of all looks together,
            with the lattice term as delta. A table of a look is a sum of cells of a marginal, so a record
            counts in one cell of it, and the looks are moved as accounting/worst_difference.py says. A unit
            of m records is m such moves one after another: by the triangle inequality, m^2 times the cost.
        Numerics: exact sampling; integers throughout.
        Checked by:
            tests/curator/test_residuals.py::test_contrasts_are_those_of_the_table_plus_noise,
            tests/curator/test_residuals.py::test_a_replaced_unit_moves_what_is_paid_for_and_no_more,
            tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim
        """
        noise = ResidualNoise.prepare(event)
        if self._ledger.neighbors is not Neighbors.REPLACE_ONE:
            raise ValueError(
                "neighbors (ADD_REMOVE_ONE) must be REPLACE_ONE for residuals: n is public there"
            )
        if event.sizes != self._workload.domain.sizes:
            raise ValueError(f"sizes ({len(event.sizes)}) must be those of the domain")
        if event.at_most != self._at_most:
            raise ValueError(f"at_most ({event.at_most}) must be the table's {self._at_most}")
        hosts = _hosts(self._workload, event.looks)
        with self.__charged(event) as counts, erasing() as erased:
            tables = (erased(_table(self._workload, counts, *host)) for host in hosts)
            return noise.draw(tables, self.__stream)

    def close(self) -> None:
        """Erase the private counts. The ledger stays; every later call is an error."""
        with self.__lock:
            if self.__counts is not None:
                self.__counts.fill(0)
                self.__total.fill(0)
                self.__counts = None

    @contextmanager
    def __charged(self, event: Event) -> Iterator[Int64s]:
        """Charge the event, then yield the counts; one caller at a time, so that no budget is spent twice."""
        with self.__lock:
            if self.__counts is None:
                raise ValueError("curator (closed) must be open")
            # A forked child has a copy of the ledger: each process could spend the same budget.
            if os.getpid() != self._process:
                raise RuntimeError("curator (of another process) must be used in the process that made it")
            generator: Any = self.__stream.bit_generator
            if hasattr(generator, "ready"):
                generator.ready()  # missing entropy is an error before anything is spent
            self._ledger.charge(event)
            yield self.__counts

    def __candidate_offsets(self, candidates: int | None) -> Int64s:
        """The offsets of the cells of the competing marginals."""
        offsets, marginals = self._workload.offsets, len(self._workload)
        if candidates is None:
            return offsets
        first = positive_integer("candidates", candidates)
        if first > marginals:
            raise ValueError(f"candidates ({first}) must be at most the number of marginals ({marginals})")
        return offsets[: first + 1]

    def __requested_cells(
        self,
        queries: npt.ArrayLike | None,
        marginal: int | None,
        marginals: npt.ArrayLike | None,
        total: bool,
    ) -> tuple[Int64s, int]:
        """The requested cells, and how many of them one record can change."""
        workload, offsets = self._workload, self._workload.offsets
        two = 2 if self._ledger.neighbors is Neighbors.REPLACE_ONE else 1
        if total:
            if queries is not None or marginal is not None or marginals is not None:
                raise TypeError("total must be asked alone")
            if self._ledger.neighbors is Neighbors.REPLACE_ONE:
                raise ValueError("total must not be measured: the number of records is public")
            return np.zeros(1, np.int64), 1
        if marginals is not None:
            if queries is not None or marginal is not None:
                raise TypeError("marginals must be asked alone")
            which = _indices("marginals", marginals, len(workload), empty=False)
            sizes = (offsets[1:] - offsets[:-1])[which]
            ends = np.cumsum(sizes)
            cells = np.arange(ends[-1]) + np.repeat(offsets[which] - (ends - sizes), sizes)
            return cells, workload.sensitivity(which, cells_changed=two)
        if marginal is None:
            if queries is None:
                raise TypeError("one of queries, marginal, marginals and total must be given")
            cells = _indices("queries", queries, workload.cells, empty=False)
            return cells, len(cells)
        right = isinstance(marginal, int | np.integer) and not isinstance(marginal, bool)
        expect("marginal", marginal, right, "an integer")
        if not 0 <= marginal < len(workload):
            raise ValueError(f"marginal ({marginal}) must be from 0 to {len(workload) - 1}")
        j = int(marginal)
        first, end = int(offsets[j]), int(offsets[j + 1])
        if queries is None:
            cells = np.arange(first, end)
        else:
            cells = _indices("queries", queries, workload.cells, empty=False)
            if cells.min() < first or cells.max() >= end:
                raise ValueError(f"queries must be cells of marginal {j}: from {first} to {end - 1}")
        return cells, min(len(cells), two)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a curator must not be pickled or copied: its counts are private, its budget is one")

    def __repr__(self) -> str:
        ledger = self._ledger
        about = "" if ledger.neighbors is Neighbors.REPLACE_ONE else "about "
        spent = float_up(ledger.budget.spent(ledger.total) or Fraction(0))
        return (
            f"Curator({about}{ledger.n} records, {self._workload.cells} cells, {ledger.budget.unit} {spent} "
            f"of {float_up(ledger.budget.limit)} spent{', closed' if self.closed else ''})"
        )


def _ledger(
    private: Records, budget: Budget, neighbors: Neighbors, public_n: int | None, stream: Stream
) -> Ledger:
    numerics = "exact integer sampling"
    if neighbors is Neighbors.ADD_REMOVE_ONE:
        if public_n is None:
            raise ValueError("public_n must be given under ADD_REMOVE_ONE: the number of records is private")
        n, numerics = public_n, f"{numerics}; noisy counts only, no selection"
    else:
        if public_n is not None:
            raise ValueError(
                f"public_n ({shown(public_n)}) must not be given: the number of records is public"
            )
        n = private.n
        if n == 0:
            raise ValueError("private (0 records) must have at least one record under REPLACE_ONE")
        if n > scores.LARGEST_N:
            raise ValueError(f"private ({n} records) must have fewer than 2^32 records")
    unit = private.protected
    if not stream.seeded:
        return Ledger(budget, neighbors, n=n, unit=unit, numerics=numerics, generator=stream.statement)
    ledger = Ledger(budget, neighbors, n=n, unit=unit, numerics=numerics)
    ledger.mark_seeded(f"{type(stream.bit_generator).__name__} given by the caller")
    return ledger


def _continued(spent: Ledger, fresh: Ledger) -> Ledger:
    """A copy of the ledger of an interrupted run, if its terms are those of this one."""
    expect("spent", spent, Ledger, "a Ledger")
    for name in ("budget", "neighbors", "n", "unit", "numerics"):
        if getattr(spent, name) != getattr(fresh, name):
            raise ValueError(f"spent must have the same {name} as this run")
    ledger = copy.copy(spent)
    if fresh.seeded is not None:
        ledger.mark_seeded(fresh.seeded)
    return ledger


def _indices(name: str, values: npt.ArrayLike, limit: int, *, empty: bool = True) -> Int64s:
    array = np.asarray(values)
    whole = array.ndim == 1 and (not len(array) or array.dtype.kind in "iu")
    expect(name, array, whole, "a list of integers")
    if len(array) == 0 and not empty:
        raise ValueError(f"{name} (none) must be at least one")
    if len(array) and not (int(array.min()) >= 0 and int(array.max()) < limit):
        bad = int(((array < 0) | (array >= limit)).argmax())
        raise ValueError(f"{name}[{bad}] must be from 0 to {limit - 1}")
    if len(array) > 1 and len(np.unique(array)) < len(array):
        raise ValueError(f"{name} ({shown(array)}) must not repeat one")
    return array.astype(np.int64)


def _hosts(workload: Workload, looks: Sequence[tuple[int, ...]]) -> list[tuple[int, tuple[int, ...]]]:
    """For each look, the smallest marginal that contains it, and the axes to sum over."""
    wanted: dict[tuple[int, ...], tuple[int, int, tuple[int, ...]]] = dict.fromkeys(looks, (-1, -1, ()))
    flat, starts, cells = workload.attributes.tolist(), workload.starts.tolist(), np.diff(workload.offsets)
    for j, size in enumerate(cells.tolist()):
        row = flat[starts[j] : starts[j + 1]]
        for order in range(1, len(row) + 1):
            for places in combinations(range(len(row)), order):
                look = tuple(row[place] for place in places)
                known = wanted.get(look)
                if known is not None and (known[0] < 0 or size < known[1]):
                    away = tuple(place for place in range(len(row)) if place not in places)
                    wanted[look] = j, size, away
    for look in looks:
        if wanted[look][0] < 0:
            names = tuple(workload.domain.names[a] for a in look)
            raise ValueError(f"look {names} must lie inside a marginal of the workload")
    return [(wanted[look][0], wanted[look][2]) for look in looks]


def _table(workload: Workload, counts: Int64s, j: int, away: tuple[int, ...]) -> Int64s:
    """A new array: the counts of marginal j, summed over some of its attributes."""
    marginal = counts[workload.offsets[j] : workload.offsets[j + 1]].reshape(workload.shape(j))
    # A copy of the sum would leave the sum itself in memory.
    return np.asarray(marginal.sum(axis=away)) if away else marginal.copy()
