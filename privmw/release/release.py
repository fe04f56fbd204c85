"""The release: weights on rows, with the measurements and the ledger behind them. It may be published.

It never receives a private value: it holds public rows, noisy counts and what they cost. Answers and
synthetic records are post-processing, and free. Files are written and read in file.py.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from privmw import kernels
from privmw.accounting import Ledger
from privmw.accounting.statement import show
from privmw.data.domain import Domain
from privmw.data.immutable import Immutable
from privmw.data.records import FrameKind
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, freeze, is_frozen
from privmw.kernels.checks import check_integer
from privmw.pages import Shown, pages
from privmw.random import sampling_stream
from privmw.ranks import allgather, sum_over_ranks
from privmw.release import apportion
from privmw.release.agreement import Agreement, agreement_of
from privmw.release.errors import ExpectedErrors, FittedIntervals, expected_errors_of, intervals_of
from privmw.release.errors.expected import PROBES
from privmw.release.errors.intervals import REFITS, Refits
from privmw.release.growth import Growth, growth_of
from privmw.release.history import Round, plain
from privmw.release.measurements import Measurement
from privmw.secrecy import expect, shown

__all__ = ["Release", "Round"]

PUBLIC_SCALE = 2.0**50  # counts of as_public: rounding moves no weight of 2^20 rows by more than 1e-9
LEVEL = 0.95  # of intervals, unless another is asked for
LARGEST_GAP = 1e-9  # between the weights' sum and 1: far above rounding, far below an error


class Release(Immutable, Shown):
    """Weights on the rows of a support, with the measurements they were fitted to. Immutable.

    workload: the marginals to be answered; measured, if another: the workload whose cells the measurements
    number. The ledger is copied: later charges were not spent on this release. settings are plain JSON
    values; a setting "algorithm" shows in the repr.

    >>> from privmw import Budget, Domain, Neighbors
    >>> domain = Domain({"age": 3, "sex": 2})
    >>> support = Support.from_table(Table.from_codes([[2, 0], [0, 1], [2, 0]], domain, private=False))
    >>> ledger = Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=40)
    >>> release = Release(support, Workload.all(domain, k=1), [0.25, 0.75], ledger=ledger, settings={})
    >>> release
    Release(2 rows, rho 0, n 40)
    >>> release.answers().tolist(), release.answer(["sex"], [0])
    ([0.25, 0.0, 0.75, 0.75, 0.25], 0.75)
    >>> release.sample(4, seed=0).column("age").tolist().count(2)
    3
    """

    __slots__ = (
        "__weakref__",
        "_refits",
        "_settings",
        "frame_kind",
        "history",
        "ledger",
        "measured",
        "measurements",
        "support",
        "weights",
        "workload",
    )
    __hash__ = None  # type: ignore[assignment]

    support: Support  # the rows
    workload: Workload  # the marginals to be answered
    measured: Workload  # the workload whose cells the measurements number
    weights: Float64s  # the share of each row, read-only, with sum 1 over all ranks
    measurements: tuple[Measurement, ...]  # every noisy count, in the order measured
    ledger: Ledger  # every privacy event, and their total cost
    history: tuple[Round, ...]  # the rounds
    frame_kind: FrameKind | None  # of the frame that came in, and that comes out; a file does not keep it
    _refits: Refits | None  # the last ones, for intervals
    _settings: str  # JSON

    def __init__(
        self,
        support: Support,
        workload: Workload,
        weights: npt.ArrayLike,
        *,
        measured: Workload | None = None,
        measurements: Iterable[Measurement] = (),
        ledger: Ledger,
        settings: Mapping[str, Any],
        history: Iterable[Round] = (),
        frame_kind: FrameKind | None = None,
    ) -> None:
        expect("support", support, Support, "a Support")
        support.check_complete()
        measured = workload if measured is None or measured == workload else measured
        for name, checked in (("workload", workload), ("measured", measured)):
            expect(name, checked, Workload, "a Workload")
            if checked.domain != support.domain:
                raise ValueError(f"{name} ({shown(checked)}) must be on the domain of the support")
        expect("ledger", ledger, Ledger, "a Ledger")
        expect("settings", settings, Mapping, "a mapping")
        measurements, history = tuple(measurements), tuple(history)
        for place, measurement in enumerate(measurements):
            expect(f"measurements[{place}]", measurement, Measurement, "a Measurement", quote=False)
            if len(measurement) and int(measurement.cells.max()) >= measured.cells:
                raise ValueError(f"cells of {shown(measurement)} must be from 0 to {measured.cells - 1}")
        for place, entry in enumerate(history):
            expect(f"history[{place}]", entry, Round, "a Round", quote=False)
        fields = {
            "support": support,
            "workload": workload,
            "measured": measured,
            "weights": _weights(weights, support),
            "measurements": measurements,
            "ledger": copy.copy(ledger),
            "history": history,
            "frame_kind": support.table.frame_kind if frame_kind is None else frame_kind,
            "_refits": None,
            "_settings": json.dumps(plain("settings", settings), sort_keys=True),
        }
        self._set(**fields)

    @property
    def settings(self) -> dict[str, Any]:
        """How the release was made: a new copy of plain JSON values."""
        settings: dict[str, Any] = json.loads(self._settings)
        return settings

    @property
    def n(self) -> int:
        """The number of private records, public; under ADD_REMOVE_ONE the public figure given for it."""
        return self.ledger.n

    def answers(self, workload: Workload | None = None) -> Float64s:
        """The fraction of records in each cell of a workload, by default of the release's workload."""
        return self.support.answers(self.workload if workload is None else workload, self.weights)

    @overload
    def answer(self, names: Sequence[str], values: Sequence[int], /) -> float: ...

    @overload
    def answer(self, /, **labels: object) -> Any: ...

    def answer(
        self, names: Sequence[str] | None = None, values: Sequence[int] | None = None, /, **labels: object
    ) -> Any:
        """The fraction of records that have these values of these attributes, any number of them.

        By labels, or numbers and dates in bins, it is a frame of one row: the labels, answer, standard_error,
        low and high (of a 95 % interval; see `marginal`). By names and codes, it is a float.

        >>> from privmw import Domain, PEP
        >>> domain = Domain({"age": {"edges": [0, 18, 65, 100]}, "sex": ["F", "M"]})
        >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
        >>> workload, support = Workload.all(domain, k=2), Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=0)
        >>> round(release.answer(["age", "sex"], [2, 1]), 2)
        0.34
        >>> release.answer(age=70, sex="M").to_pandas().round(2)
                 age sex  answer  standard_error   low  high
        0  [65, 100]   M    0.34            0.01  0.32  0.36
        """
        if names is None and values is None:
            from privmw.release.frames import answer_frame  # here: it imports releases

            self._check_whole()
            return answer_frame(self, labels)
        if labels or names is None or values is None:
            raise TypeError("answer must have names and codes, or labels by name, such as answer(sex='F')")
        given: Iterable[object] = values if isinstance(values, Iterable) else ()
        needed = "a code: labels go by name, as in answer(sex='F')"
        for place, value in enumerate(given):
            expect(f"values[{place}]", value, not isinstance(value, str), needed, quote=False)
        shares = self.weights[self.support.matching_rows(names, values)]
        masses = int(np.rint(shares * 2.0**kernels.MASS_BITS).astype(np.int64).sum())
        return sum_over_ranks(self.support.comm, masses) / 2.0**kernels.MASS_BITS

    def marginal(self, *names: str, level: float | None = LEVEL, kind: FrameKind | None = None) -> Any:
        """A frame of the marginal of one to six attributes, a row for each cell.

        Columns: the attributes with their labels, answer (a fraction of the records), standard_error, low
        and high of an interval of this level, and represented, whether any row lies in the cell. They are
        those of `intervals`, and missing where it offers none; answers below one record have no standard
        error. The first call of a release takes about as long as the release did, later ones are quick;
        level=None leaves all but the answer out. kind: of the frame, by default that of the frame that came
        in.

        >>> from privmw import Domain, PEP
        >>> domain = Domain({"age": {"edges": [0, 18, 65, 100]}, "sex": ["F", "M"]})
        >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
        >>> workload, support = Workload.all(domain, k=2), Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=0)
        >>> release.marginal("sex", kind="pandas").round(2)
          sex  answer  standard_error   low  high  represented
        0   F    0.35            0.01  0.33  0.37         True
        1   M    0.65            0.01  0.63  0.67         True
        """
        from privmw.release.frames import marginal_frame

        self._check_whole()
        _check_names(self.support.domain, names)
        return marginal_frame(self, names, level, kind)

    def answers_frame(
        self,
        workload: Workload | None = None,
        *,
        level: float | None = LEVEL,
        kind: FrameKind | None = None,
    ) -> Any:
        """A frame of the answers to a workload, by default the release's: a row for each cell.

        Columns attribute_1, value_1, attribute_2 and so on, as in the files of a release; then those of
        `marginal`.

        >>> from privmw import Domain, PEP
        >>> domain = Domain({"age": {"edges": [0, 18, 65, 100]}, "sex": ["F", "M"]})
        >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
        >>> workload, support = Workload.all(domain, k=2), Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=0)
        >>> release.answers_frame(level=None).column_names
        ['attribute_1', 'value_1', 'attribute_2', 'value_2', 'answer']
        """
        from privmw.release.frames import answers_frame

        self._check_whole()
        return answers_frame(self, workload, level, kind)

    def gathered(self) -> Release | None:
        """The release with the rows of all ranks, on rank 0; None on the others. On one rank, the release."""
        gathered = self.support.gathered(self.weights)
        if gathered is None:
            return None
        support, weights = gathered
        if support is self.support:
            return self
        assert weights is not None
        return Release(support, self.workload, weights, **self._beside())

    def sample(
        self,
        n: int | None = None,
        seed: int | None = None,
        method: Literal["randomised", "proportional"] = "randomised",
    ) -> Table:
        """Synthetic records in random order; n: how many, by default as many as private records.

        Every row appears floor(n w) or ceil(n w) times. "randomised": the rows to round up are drawn, so that
        each row appears n w times in expectation. "proportional": the largest remainders are rounded up, the
        first rows among equals, and only the order is drawn; where most rows weigh less than one record,
        whole groups of light rows are lost, and marginals err two to four times as much. The seed is that of
        the sampling stream. Records of a release whose noise was seeded are marked as not for release.
        """
        self._check_whole()
        n = check_integer("n", self.n if n is None else n, 1, apportion.LARGEST_N)
        if method not in ("randomised", "proportional"):
            raise ValueError(f"method ({shown(method)}) must be 'randomised' or 'proportional'")
        rng = sampling_stream(seed)
        weights = self.weights.copy()
        kernels.rescale(weights)
        masses, total = kernels.to_masses(weights)
        if method == "proportional":
            counts = apportion.proportional(masses, total, n)
        else:
            counts = apportion.randomised(masses, total, n, rng)
        rows = np.repeat(np.arange(self.support.size, dtype=np.uint32), counts)
        rng.shuffle(rows)
        records = self.support.table.take(rows).with_frame_kind(self.frame_kind)
        return records if self.ledger.for_release else records.not_for_release()

    def as_public(self) -> Support:
        """The rows as a support for another release: its public frequencies are the weights. Costs nothing.

        Counts are the weights on a scale of 2^50. Every row is a public row of it, grown ones too: a row
        without weight keeps one part in 2^50, so that the next release can raise it. The rows of a release
        whose noise was seeded are marked as not for release, and only another seeded one takes them. A
        release that was loaded has no constraints: `Support.from_tables([public], constraints)` has them.

        >>> from privmw import Budget, Domain, Neighbors
        >>> support = Support.full(Domain({"sex": ["F", "M"]}))
        >>> ledger = Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=40)
        >>> workload = Workload.all(support.domain, k=1)
        >>> last_year = Release(support, workload, [0.25, 0.75], ledger=ledger, settings={})
        >>> last_year.as_public().start().tolist()
        [0.25, 0.75]
        """
        self._check_whole()
        support = self.support
        counts = np.maximum(np.rint(self.weights * PUBLIC_SCALE), 1).astype(np.int64)
        table = support.table if self.ledger.for_release else support.table.not_for_release()
        return Support(table, freeze(counts), support.constraints, samples=())  # released values

    def agreement(self) -> Agreement:
        """How the released answers agree with the noisy counts: figures, and whether noise may explain them.

        Computed from released values, so it costs no privacy. Answers that no row can give, and rounds that
        were too few, show here; answers that were not measured do not.

        >>> from privmw import Budget, Domain, Neighbors
        >>> domain = Domain({"sex": ["F", "M"]})
        >>> support = Support.from_table(Table.from_codes([[0], [0]], domain, private=False))
        >>> ledger = Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=40)
        >>> noisy = Measurement([0, 1], [9, 33], "discrete-gaussian", scale=2.0, round=0)
        >>> workload = Workload.all(domain, k=1)
        >>> release = Release(support, workload, [1.0], measurements=[noisy], ledger=ledger, settings={})
        >>> release.agreement()
        Agreement(DISAGREES: 2 cells, within 1, 2, 3 deviations 0.0%, 0.0%, 0.0%)
        >>> release.agreement().reasons[0].partition(",")[0]
        'no row has sex = M'
        """
        return agreement_of(self)

    def growth(self) -> Growth:
        """The rows that are no public record but grown: their number, their mass, and what is new in them.

        Gather a release on several ranks first.

        >>> from privmw import Budget, Domain, Neighbors
        >>> domain = Domain({"sex": ["F", "M"], "owner": 2})
        >>> support = Support.from_table(Table.from_codes([[0, 0], [0, 1]], domain, private=False))
        >>> rows = support.with_rows([[1, 1]]).support
        >>> ledger, workload = Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=40), Workload.all(domain, k=1)
        >>> release = Release(rows, workload, [0.5, 0.25, 0.25], ledger=ledger, settings={})
        >>> release.growth()
        Growth(2 public rows, 1 grown, which carry 25.0% of the records)
        >>> release.growth().attributes[0].new_values
        (NewValue(value=1, mass=0.25),)
        """
        self._check_whole()
        return growth_of(self)

    def expected_errors(
        self, workload: Workload | None = None, *, probes: int = PROBES, seed: int | None = 0
    ) -> ExpectedErrors:
        """How far off the answers are expected to be: root mean squared errors by marginal and attribute.

        Estimated from released values, so it costs no privacy. Offered for projections with l2 slack
        (`release_auto`, `PEP`), for each marginal whose attributes were measured together; others are NaN,
        and `reason` says why where none is. docs/errors.md has what the figures rest on, and how near they
        came to true errors. probes: more of them take longer and make each figure steadier. seed: of the
        sampling stream. Gather a release on several ranks first.

        >>> from privmw import Domain, PEP
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
        >>> workload, support = Workload.all(domain, k=2), Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=0)
        >>> errors = release.expected_errors()
        >>> 0.001 < errors.overall < 0.1, sorted(errors.attributes)
        (True, ['age', 'sex'])
        >>> Release(support, workload, support.start(), ledger=release.ledger, settings={}).expected_errors()
        ExpectedErrors(not offered: nothing was measured)
        """
        self._check_whole()
        return expected_errors_of(self, workload, probes, seed)

    def intervals(
        self,
        level: float = LEVEL,
        *,
        workload: Workload | None = None,
        refits: int = REFITS,
        seed: int | None = 0,
    ) -> FittedIntervals:
        """An interval for each answer, by a parametric bootstrap of the release: so many refits.

        Post-processing, as `expected_errors`, and offered where that is. A cell without rows has an interval
        from what was measured, and says that it is not `represented`. Coverage is that of many cells
        together, measured in docs/errors.md; it is not promised for a cell that was picked for its answer.

        >>> from privmw import Domain, PEP
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
        >>> support = Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, Workload.all(domain, k=2), rng=0)
        >>> release.intervals(0.9)
        FittedIntervals(level 0.9, 6 of 6 cells, 0 of them without a row, 50 refits)
        """
        self._check_whole()
        return intervals_of(self, level, workload, refits, seed)

    def statement(self) -> str:
        """The promise to the people in the private table, in plain words."""
        return self.ledger.statement()

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write one file that `load_release` reads back to an equal release, completely or not at all."""
        from privmw.release.file import save_release  # here: that module imports this one

        self._check_whole()
        save_release(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Release:
        """The release that `save` wrote: `load_release` by another name, beside `save`."""
        from privmw.release.file import load_release

        return load_release(path)

    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the report to one HTML file; options: those of `privmw.report.write_report`.

        >>> import tempfile
        >>> from privmw import Domain, PEP
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
        >>> workload, support = Workload.all(domain, k=2), Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, workload)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.report(f"{folder}/report.html")
        ...     release.save(f"{folder}/x.release")
        ...     Release.load(f"{folder}/x.release") == release, sorted(os.listdir(folder))
        (True, ['report.html', 'x.release'])
        """
        pages().write_report(path, self, **options)

    def explore(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write one HTML page that answers questions; options: those of `privmw.report.write_explorer`."""
        pages().write_explorer(path, self, **options)

    def plot_marginal(self, *names: str, level: float = LEVEL) -> Any:
        """The picture of a marginal: public rows, release and interval of each cell; of many, the largest.

        A notebook shows it; its `svg` is a text, and `write(path)` makes a file of it.

        >>> from privmw import Domain, PEP
        >>> domain = Domain({"age": 3, "sex": ["F", "M"]})
        >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
        >>> workload, support = Workload.all(domain, k=2), Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=0)
        >>> release.plot_marginal("age", "sex").alt.partition(":")[0]
        'A dot plot of age × sex. The largest share is at 2, M'
        """
        self._check_whole()
        _check_names(self.support.domain, names)
        return pages().plot_marginal(self, names, level)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        same = ("workload", "measured", "_settings", "history", "ledger", "measurements", "support")
        if any(getattr(self, name) != getattr(other, name) for name in same):
            return False
        return np.array_equal(self.weights, other.weights)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Release, **self._beside()), (self.support, self.workload, self.weights)

    def _beside(self) -> dict[str, Any]:
        names = ("measured", "measurements", "ledger", "settings", "history", "frame_kind")
        return {name: getattr(self, name) for name in names}

    def _check_whole(self) -> None:
        if self.support.comm.size > 1:
            raise ValueError(f"release (on {self.support.comm.size} ranks) must be gathered first")

    def __repr__(self) -> str:
        algorithm = self.settings.get("algorithm")
        named = f"{algorithm}, " if isinstance(algorithm, str) else ""
        seeded = "" if self.ledger.for_release else f", {self.ledger.generator}"
        grown = f" ({self.support.grown} grown)" if self.support.grown else ""
        rows = f"{self.support.whole_size} rows{grown}"
        return f"Release({named}{rows}, rho {show(self.ledger.rho)}, n {self.n}{seeded})"


def _check_names(domain: Domain, names: Sequence[str]) -> None:
    for name in names:
        expect("name", name, str, "that of an attribute, such as marginal('age', 'sex')")
        domain.index(name)


def _weights(weights: npt.ArrayLike, support: Support) -> Float64s:
    size = support.size
    array = np.asarray(weights)
    right = array.dtype == np.float64 and not isinstance(weights, np.ma.MaskedArray)
    expect("weights", weights, right, "an array of float64")
    if array.shape != (size,):
        raise ValueError(f"weights (shape {array.shape}) must be one for each of the {size} rows")
    array = array if is_frozen(array) and array.flags.c_contiguous else freeze(array.copy())
    if not np.isfinite(array).all() or array.min() < 0:
        raise ValueError("weights must be finite and not negative")
    with np.errstate(over="ignore"):
        total = float(allgather(support.comm, float(array.sum())).sum())
    if not abs(total - 1) <= LARGEST_GAP:
        raise ValueError(f"weights (sum {total}) must sum to 1")
    return array
