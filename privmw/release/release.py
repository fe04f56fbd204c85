"""Releases: weighted rows with their measurements and ledger. A release may be published.

It holds public rows, noisy counts and their privacy cost, never a private value. Answers and synthetic
records are post-processing, at no cost. file.py writes and reads the files.
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
from privmw.data.domain import Domain, Immutable
from privmw.data.records import FrameKind
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s, freeze, is_frozen
from privmw.kernels.checks import check_integer
from privmw.random import sampling_stream
from privmw.ranks import allgather, sum_over_ranks
from privmw.release import apportion
from privmw.release.agreement import Agreement, agreement_of
from privmw.release.conditions import meeting
from privmw.release.errors import ExpectedErrors, FittedIntervals, expected_errors_of, intervals_of
from privmw.release.errors.expected import PROBES
from privmw.release.errors.intervals import REFITS, Refits
from privmw.release.growth import Growth, growth_of
from privmw.release.history import Round, plain
from privmw.release.measurements import Measurement
from privmw.release.quality import Quality, quality_of
from privmw.release.unseen import left_out
from privmw.secrecy import expect, shown

__all__ = ["Release", "Round"]

PUBLIC_SCALE = 2.0**50  # sum of the counts of as_public: rounds a weight of 2^20 rows by at most 1e-9
DEFAULT_LEVEL = 0.95  # of intervals
WEIGHT_SUM_TOLERANCE = 1e-9  # far above rounding, far below an error


class Release(Immutable):
    """Weights on the rows of a support, with the measurements they were fitted to. Immutable.

    workload: the marginals to be answered. measured: the workload that the measurements' cells belong to
    (default: `workload`). The ledger is copied, so that later charges do not count here. settings are plain
    JSON values; the repr shows the setting "algorithm".

    >>> from privmw import Budget, Domain

    >>> from privmw.accounting import Neighbors
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
    measured: Workload  # the workload that the measurements' cells belong to
    weights: Float64s  # one per row, read-only; they sum to 1 over all ranks
    measurements: tuple[Measurement, ...]  # every noisy count, in the order measured
    ledger: Ledger  # every privacy event, and their total cost
    history: tuple[Round, ...]  # one entry per round
    frame_kind: FrameKind | None  # kind of the private frame, and of returned frames; not saved
    _refits: Refits | None  # cache of the last refits, for intervals
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
        """The options of the run that made the release: a new copy of plain JSON values."""
        settings: dict[str, Any] = json.loads(self._settings)
        return settings

    @property
    def n(self) -> int:
        """The number of private records, which is public; under ADD_REMOVE_ONE the public bound on it."""
        return self.ledger.n

    def answers(self, workload: Workload | None = None) -> Float64s:
        """The fraction of records in each cell of a workload (default: the release's)."""
        return self.support.answers(self.workload if workload is None else workload, self.weights)

    @overload
    def answer(self, names: Sequence[str], values: Sequence[int], /) -> float: ...

    @overload
    def answer(self, /, **labels: object) -> Any: ...

    def answer(
        self, names: Sequence[str] | None = None, values: Sequence[int] | None = None, /, **labels: object
    ) -> Any:
        """The fraction of records that have these values of these attributes.

        Given values as keywords: a frame of one row with the conditions, answer, standard_error, low and high
        (of a 95 % interval; see `marginal`). Given names and codes: a float. A value may be

        - a label, or a number or date in a bin, which stands for the whole bin;
        - a list of them: any of these values;
        - a range (low, high), both ends included; None is no limit. Of bins, both must be edges, and the
          range is half open as the bins are: (18, 65) is [18, 65);
        - a comparison such as ">=65" or "<18", unless a label reads so.

        Ranges never hold the values declared as other or missing.

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
        >>> release.answer(age=">=18").to_pandas().round(2)
                 age  answer  standard_error   low  high
        0  [18, 100]    0.39            0.01  0.36  0.41
        """
        if names is None and values is None:
            from privmw.release.questions import answer_frame  # here: it imports releases

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

    def marginal(
        self, *names: str, level: float | None = DEFAULT_LEVEL, kind: FrameKind | None = None
    ) -> Any:
        """A frame of the marginal of one to six attributes, one row per cell.

        Columns: the attributes' labels, answer (a fraction of the records), and from `intervals`
        standard_error, low, high and represented (True if any row lies in the cell). Intervals that are not
        offered, and standard errors of answers below one record, are missing. The first call takes about as
        long as the release did, later ones are quick; level=None gives the answers alone. kind: of the frame
        (default: that of the private frame).

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

    def mean(
        self,
        name: str,
        *,
        by: str | Sequence[str] | None = None,
        where: Mapping[str, object] | None = None,
        values: Sequence[float] | None = None,
        level: float | None = DEFAULT_LEVEL,
        kind: FrameKind | None = None,
    ) -> Any:
        """A frame of the mean of a numeric attribute, in each group.

        by: attributes whose values are the groups. where: conditions, as those of `answer`. values: a number
        for each label or bin (default: the label itself; the middle of the bin, of an open bin that of its
        two edges). Records whose value is other or missing do not count.

        Columns: the groups' labels, mean, and with a level standard_error, low and high. The interval is for
        the mean of `values`; of bins, at_least and at_most are the means if every record were at the lower or
        upper end of its bin. Groups below one record have no mean.

        >>> from privmw import Domain, PEP
        >>> domain = Domain({"rooms": [1, 2, 5], "sex": ["F", "M"]})
        >>> private = Table.from_codes([[0, 0], [1, 0], [1, 1], [2, 1]] * 100, domain, private=True)
        >>> workload, support = Workload.all(domain, k=2), Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=0)
        >>> release.mean("rooms", by="sex", kind="pandas").round(1)
          sex  mean  standard_error  low  high
        0   F   1.6             0.0  1.5   1.7
        1   M   3.5             0.0  3.5   3.6
        """
        from privmw.release.questions import mean_frame

        self._check_whole()
        return mean_frame(self, name, by, where, values, level, kind)

    def quantile(
        self,
        name: str,
        q: float | Sequence[float],
        *,
        by: str | Sequence[str] | None = None,
        where: Mapping[str, object] | None = None,
        level: float | None = DEFAULT_LEVEL,
        kind: FrameKind | None = None,
    ) -> Any:
        """A frame of quantiles of an attribute of numbers, dates or bins, in each group; see `mean`.

        Of numbers the smallest with a share of at least q up to it; inside a bin by interpolation. low and
        high: the values at which q lies in the interval of the share.
        """
        from privmw.release.questions import quantile_frame

        self._check_whole()
        return quantile_frame(self, name, q, by, where, level, kind)

    def cdf(
        self,
        name: str,
        *,
        by: str | Sequence[str] | None = None,
        where: Mapping[str, object] | None = None,
        level: float | None = DEFAULT_LEVEL,
        kind: FrameKind | None = None,
    ) -> Any:
        """A frame of the share of records up to each value, or below each edge of bins; see `mean`.

        >>> from privmw import Domain, PEP
        >>> domain = Domain({"age": {"edges": [0, 18, 65, 100]}, "sex": ["F", "M"]})
        >>> private = Table.from_codes([[0, 0], [1, 0], [1, 1], [2, 1]] * 500, domain, private=True)
        >>> workload, support = Workload.all(domain, k=2), Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=0)
        >>> release.cdf("age", kind="pandas").round(2)
           below  share  standard_error   low  high
        0     18   0.25             0.0  0.25  0.25
        1     65   0.75             0.0  0.74  0.75
        2    100   1.00             0.0  1.00  1.00
        """
        from privmw.release.questions import cdf_frame

        self._check_whole()
        return cdf_frame(self, name, by, where, level, kind)

    def answers_frame(
        self,
        workload: Workload | None = None,
        *,
        level: float | None = DEFAULT_LEVEL,
        kind: FrameKind | None = None,
    ) -> Any:
        """A frame of the answers to a workload (default: the release's), one row per cell.

        Columns attribute_1, value_1, attribute_2, ..., as in the files of a release; then those of
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
        """The release with the rows of all ranks on rank 0, None on the others; self on a single rank."""
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
        *,
        unseen: bool = False,
        conditions: Mapping[str, object] | None = None,
    ) -> Table:
        """Synthetic records in random order; n: their number (default: that of the private records).

        A row of weight w appears floor(n w) or ceil(n w) times. "randomised": n w times in expectation.
        "proportional": the largest remainders are rounded up (ties: the first rows), and only the order is
        random; where most rows weigh less than one record, groups of light rows are lost, and errors of
        marginals are two to four times as large. seed: of the sampling stream. Records of a release with
        seeded noise are marked as not for release.

        unseen: also records with an "other" value that no public record has, and with missing values or pairs
        of values that no public record has and the noisy counts do not show. By default they are drawn again.

        conditions: only records that meet them, such as {"sex": "F", "age": (18, 65), "state": ["HI", "NM"]};
        each as in `answer`. n counts the records that meet them.

        >>> from privmw import Budget, Domain
        >>> from privmw.accounting import Neighbors
        >>> support = Support.full(Domain({"sex": ["F", "M"], "rooms": 2}))
        >>> ledger = Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=40)
        >>> workload = Workload.all(support.domain, k=1)
        >>> release = Release(support, workload, support.start("uniform"), ledger=ledger, settings={})
        >>> release.sample(3, conditions={"sex": "M"}).column("sex").tolist()
        [1, 1, 1]
        """
        self._check_whole()
        n = check_integer("n", self.n if n is None else n, 1, apportion.MOST_APPORTIONED_RECORDS)
        if method not in ("randomised", "proportional"):
            raise ValueError(f"method ({shown(method)}) must be 'randomised' or 'proportional'")
        rng = sampling_stream(seed)
        weights = self.weights.copy()
        if not unseen and (rows_left_out := left_out(self)) is not None:
            weights[rows_left_out] = 0
        if conditions is not None:
            weights[~meeting(self.support.table, conditions)] = 0
            if not weights.any():
                named = ", ".join(map(shown, conditions))
                raise ValueError(f"conditions (on {named}) must be met by a row with weight")
        kernels.rescale(weights)
        masses, total = kernels.to_masses(weights)
        if method == "proportional":
            counts = apportion.proportional(masses, total, n)
        else:
            counts = apportion.randomised(masses, total, n, rng)
        rows = np.repeat(np.arange(self.support.size, dtype=np.uint32), counts)
        rng.shuffle(rows)
        records = self.support.table.take(rows).with_frame_kind(self.frame_kind)
        records = records.keeping(self.support.constraints)
        return records if self.ledger.for_release else records.not_for_release()

    def as_public(self) -> Support:
        """The rows as a support for another release, with the weights as public frequencies. Costs nothing.

        Counts are weights times 2^50, and at least 1, so that the next release can raise a row without
        weight. Grown rows become public rows. The rows of a release with seeded noise are marked as not for
        release; only another seeded release accepts them. A loaded release has no constraints;
        `Support.from_tables([public], constraints)` has.

        >>> from privmw import Budget, Domain

        >>> from privmw.accounting import Neighbors
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
        """Goodness of fit of the released answers to the noisy counts, with a test. Costs no privacy.

        Shows answers that no row can give, and too few rounds; cells that were not measured are not tested.

        >>> from privmw import Budget, Domain

        >>> from privmw.accounting import Neighbors
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

    def quality(self) -> Quality:
        """How far shares of one and two attributes' values are off, typically and at worst, in words.

        Estimated from released values. Costs no privacy, and a few steps of the fit.

        >>> from privmw import Domain, PEP
        >>> domain = Domain({"age": 3, "sex": 2})
        >>> private = Table.from_codes([[0, 0], [0, 1], [2, 1]] * 100, domain, private=True)
        >>> support = Support.full(domain)
        >>> release = PEP(select="all").calibrate(rho=0.1)(private, support, Workload.all(domain, k=2), rng=0)
        >>> quality = release.quality()
        >>> [shares.cells for shares in quality.shares], quality.shares[0].typical < quality.shares[0].worst
        ([5, 6], True)
        >>> str(quality).partition(" typically")[0]
        "Quality: shares of one attribute's values are"
        """
        self._check_whole()
        return quality_of(self)

    def growth(self) -> Growth:
        """The rows that a model has grown: their number, their mass, and their new values.

        Gather a release on several ranks first.

        >>> from privmw import Budget, Domain

        >>> from privmw.accounting import Neighbors
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
        """Expected root mean squared errors of the answers, by marginal and attribute. Costs no privacy.

        Offered for projections with l2 slack (`release_auto`, `PEP`), for each marginal whose attributes were
        measured together; others are NaN, and `reason` says why if all are. docs/errors.md compares the
        estimates with true errors. probes: the number of draws; more take longer and vary less. seed: of the
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
        level: float = DEFAULT_LEVEL,
        *,
        workload: Workload | None = None,
        refits: int = REFITS,
        seed: int | None = 0,
    ) -> FittedIntervals:
        """An interval for each answer, by a parametric bootstrap with `refits` refits. Costs no privacy.

        Offered where `expected_errors` are. A cell without rows is not `represented`; its interval comes from
        the measurements alone. Coverage is an average over cells, measured in docs/errors.md; it does not
        hold for a cell that was picked for its answer.

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
        """The privacy guarantee to the people in the private table, in plain words."""
        return self.ledger.statement()

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write one file, atomically; `load_release` reads it back to an equal release."""
        from privmw.release.file import save_release  # here: that module imports this one

        self._check_whole()
        save_release(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Release:
        """Read the release that `save` wrote; the same as `load_release`."""
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
        from privmw.report import write_report  # here: only those who ask for a page need it

        write_report(path, self, **options)

    def explore(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write one HTML page to query the release; options: see extensions/explorer."""
        from privmw.extensions.explorer import write_explorer  # here: an extension

        write_explorer(path, self, **options)

    def plot_marginal(self, *names: str, level: float = DEFAULT_LEVEL) -> Any:
        """Plot a marginal: public rows, release and interval of each cell (of many cells, the largest).

        A notebook shows the picture; `svg` is its source, and `write(path)` saves it.

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
        from privmw.report import plot_marginal  # here: only those who ask for a page need it

        return plot_marginal(self, names, level)

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

    def _repr_html_(self) -> str | None:
        from privmw.report import panel  # here: only a notebook needs it

        return panel(self)


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
    if not abs(total - 1) <= WEIGHT_SUM_TOLERANCE:
        raise ValueError(f"weights (sum {total}) must sum to 1")
    return array
