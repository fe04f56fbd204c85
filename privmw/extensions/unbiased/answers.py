"""Unbiased answers: the noisy values of one shot, with their plan and ledger.

Answers are the least-squares combination of all looks: unbiased, consistent with each other, with variances
that follow from the plan. They may be negative. All of it may be published; nothing here is private.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.accounting import Ledger
from privmw.accounting.statement import show
from privmw.data.domain import Domain, Immutable, positions_of
from privmw.data.records import FrameKind
from privmw.data.workload import Workload, check_workload
from privmw.extensions.unbiased.intervals import half_widths
from privmw.extensions.unbiased.strategies import Residuals, Shot
from privmw.io.extras import need
from privmw.io.files import SEEDED
from privmw.io.whole_file import check_name, plain_schema
from privmw.kernels.arrays import Float64s, Int64s, freeze
from privmw.kernels.checks import check_integer, check_number
from privmw.release.cells import as_kind, table_maker, write_cells
from privmw.release.history import plain
from privmw.release.noisy_marginals import NoisyMarginal, NoisyMarginals
from privmw.secrecy import expect, shown

# Records whose attributes have these codes; a list of codes is any of them. {} is every record.
Query: TypeAlias = Mapping[str, int | Sequence[int]]

MOST_TERMS = 4096  # total cells of the queries of one covariance
LEAST_PRECISION = 1e-9  # relative to the largest: rounding may leave this much of a precision of 0


class Intervals(NamedTuple):
    """The ends of the intervals of many answers, as fractions."""

    low: Float64s
    high: Float64s


class UnbiasedAnswers(Immutable):
    """Unbiased answers to a workload and to everything inside its marginals. Immutable.

    shot: the plan, which gives every variance. noisy: the released integers, one array per look.
    settings are plain JSON values. Answers and errors are fractions of the n records.

    >>> from privmw import Domain, Table, measure_marginals, strategies
    >>> domain = Domain({"age": 3, "sex": ["F", "M"]})
    >>> private = Table.from_codes([[2, 0], [0, 1], [2, 0]] * 1000, domain, private=True)
    >>> answers = measure_marginals(private, [("age", "sex")], rho=0.5, strategy=strategies.equal(), rng=1)
    >>> answers
    UnbiasedAnswers(Equal, 1 marginal, 6 cells, rho 0.5, n 3000, seeded: not for release)
    >>> answers.answers(Workload(domain, [("age",)])).round(2).tolist()
    [0.33, -0.0, 0.67]
    >>> answers.standard_errors().round(5).tolist()[0], answers.estimates([{"age": [0, 1]}]).round(2).tolist()
    (0.00043, [0.33])
    """

    __slots__ = ("__weakref__", "_residuals", "_settings", "frame_kind", "ledger", "noisy", "shot")
    __hash__ = None  # type: ignore[assignment]

    shot: Shot
    noisy: tuple[Int64s, ...]
    ledger: Ledger
    frame_kind: FrameKind | None  # kind of the private frame, and of `to_frame`; not saved
    _settings: str  # JSON
    _residuals: Residuals | None

    def __init__(
        self,
        shot: Shot,
        noisy: Iterable[npt.ArrayLike],
        *,
        ledger: Ledger,
        settings: Mapping[str, Any],
        frame_kind: FrameKind | None = None,
    ) -> None:
        expect("shot", shot, Shot, "a Shot")
        expect("ledger", ledger, Ledger, "a Ledger")
        expect("settings", settings, Mapping, "a mapping")
        self._set(
            shot=shot,
            noisy=_noisy(shot, noisy),
            ledger=copy.copy(ledger),
            frame_kind=frame_kind,
            _settings=json.dumps(plain("settings", settings), sort_keys=True),
            _residuals=None,
        )

    @property
    def workload(self) -> Workload:
        """The requested marginals."""
        return self.shot.workload

    @property
    def domain(self) -> Domain:
        """The domain of the private table."""
        return self.shot.domain

    @property
    def n(self) -> int:
        """The number of private records, public."""
        return self.ledger.n

    @property
    def settings(self) -> dict[str, Any]:
        """The options of the run: a new copy of plain JSON values."""
        settings: dict[str, Any] = json.loads(self._settings)
        return settings

    def answers(self, workload: Workload | None = None) -> Float64s:
        """The unbiased fraction of records in each cell of a workload (default: the requested one).

        Every marginal must lie inside a requested one. Answers are consistent, and may be negative.
        """
        asked, residuals = self._asked(workload), self._estimated()
        if asked is self.workload:
            return self.shot.reconstruct_workload(residuals, self.n) / self.n
        parts = [self.shot.reconstruct(residuals, self.n, names) for names in asked]
        return np.concatenate([np.empty(0), *parts]) / self.n

    def standard_errors(self, workload: Workload | None = None) -> Float64s:
        """The standard deviation of each answer, in the same order; depends on the plan alone."""
        asked = self._asked(workload)
        return np.repeat(np.sqrt(self._variances(asked)) / self.n, np.diff(asked.offsets))

    def intervals(
        self, level: float = 0.95, *, simultaneous: bool = False, workload: Workload | None = None
    ) -> Intervals:
        """Intervals that contain the true answer with this probability: each one, or all if `simultaneous`.

        For discrete Gaussian noise, Gaussian quantiles of the exact variance, plus half a count if sigma is
        below 4; otherwise quantiles of sums of Laplace noise. Simultaneous intervals use a union bound
        (Bonferroni) over all cells, and add half a count.
        """
        asked = self._asked(workload)
        return self._around(self.answers(asked), asked, level, simultaneous)

    def _around(self, answers: Float64s, asked: Workload, level: float, simultaneous: bool) -> Intervals:
        """The intervals of these answers to a workload."""
        outside = 1 - check_number("level", level)
        if not 0 < outside < 1:
            raise ValueError(f"level ({level}) must be above 0 and below 1")
        if simultaneous:
            outside /= max(asked.cells, 1)
        variances = self._variances(asked)
        widths = half_widths(self.shot, list(asked), outside, variances=variances, at_least=simultaneous)
        each = np.repeat(widths / self.n, np.diff(asked.offsets))
        return Intervals(answers - each, answers + each)

    def _variances(self, asked: Workload) -> Float64s:
        return self.shot.variances() if asked is self.workload else _variances(self.shot, asked)

    def estimates(self, queries: Sequence[Query]) -> Float64s:
        """The unbiased fraction of records that each query counts: a cell, or a sum of cells."""
        residuals, found = self._estimated(), []
        for query in queries:
            names, codes = self._conditions(query)
            if not names:
                found.append(1.0)
                continue
            table = self.shot.reconstruct(residuals, self.n, names)
            shape = [self.domain[name].size for name in names]
            found.append(float(table.reshape(shape)[np.ix_(*codes)].sum()) / self.n)
        return np.array(found)

    def covariance(self, queries: Sequence[Query]) -> Float64s:
        """The covariance matrix of the answers to a few queries.

        >>> from privmw import Domain, Table, measure_marginals, strategies
        >>> domain = Domain({"age": 3, "sex": ["F", "M"]})
        >>> private = Table.from_codes([[2, 0], [0, 1], [2, 0]] * 1000, domain, private=True)
        >>> answers = measure_marginals(private, [("age", "sex")], rho=0.5, strategy=strategies.equal())
        >>> young_and_old = answers.covariance([{"age": 0}, {"age": [1, 2]}]) * 1e6
        >>> young_and_old.round(4).tolist()
        [[0.2963, -0.2963], [-0.2963, 0.2963]]
        """
        functions = []
        for query in queries:
            names, codes = self._conditions(query)
            functions.append([(names, cell, 1.0) for cell in itertools.product(*codes)] if names else [])
        if sum(map(len, functions)) > MOST_TERMS:
            raise ValueError(
                f"queries ({sum(map(len, functions)):,} cells) must sum at most {MOST_TERMS:,} cells"
            )
        return self.shot.covariance(functions) / self.n**2

    def noisy_marginals(self) -> NoisyMarginals:
        """The noisy marginals behind the answers, for a fit; give it total=answers.n, which is public.

        Measured marginals come with their own noise. Residuals are not counts of cells: their likelihood is
        that of consistent answers y_T with precisions t_T = sum over S around T of
        (-1)^|S - T| w_S / N_{S - T}, since |P_S u|^2 is the sum over T in S of (-1)^|S - T| |u_T|^2 /
        N_{S - T}. A t_T below 0, as an optimal strategy has on some pairs, is left out: those cells are then
        constrained by the marginals around and inside them.

        >>> from privmw import Domain, Table, measure_marginals, strategies
        >>> domain = Domain({"age": 2, "sex": 2})
        >>> private = Table.from_codes([[1, 0], [0, 1], [1, 0]] * 1000, domain, private=True)
        >>> answers = measure_marginals(private, [("age", "sex")], rho=0.01, strategy=strategies.residual())
        >>> answers.noisy_marginals().marginals[-1]
        ('age', 'sex')
        """
        shot = self.shot
        if shot.kind == "marginals":
            marginals = [
                NoisyMarginal(look.attributes, counts.astype(np.float64), shot.noise, look.scale)
                for look, counts in zip(shot.looks, self.noisy, strict=True)
            ]
            return NoisyMarginals(marginals, shot.domain)
        sets, sizes, names = shot.closure.looks(), shot.domain.sizes, shot.domain.names
        precisions = dict.fromkeys(sets, 0.0)
        for around, precision in zip(sets, shot.precision.tolist(), strict=True):
            for order in range(1, len(around) + 1):
                for inside in itertools.combinations(around, order):
                    beside = math.prod(sizes[a] for a in around if a not in inside)
                    precisions[inside] += (-1) ** (len(around) - order) * precision / beside
        least = max(precisions.values()) * LEAST_PRECISION
        kept = [inside for inside, precision in precisions.items() if precision > least]
        workload = Workload(shot.domain, [tuple(names[a] for a in inside) for inside in kept])
        counts = self.answers(workload) * self.n
        return NoisyMarginals(
            [
                NoisyMarginal(
                    workload.marginal(j),
                    counts[workload.offsets[j] : workload.offsets[j + 1]],
                    "gaussian",
                    precisions[inside] ** -0.5,
                )
                for j, inside in enumerate(kept)
            ],
            shot.domain,
        )

    def to_frame(
        self,
        kind: FrameKind | None = None,
        *,
        workload: Workload | None = None,
        level: float = 0.95,
        simultaneous: bool = False,
    ) -> Any:
        """A frame with one row per cell: attributes and labels, answer, standard_error, low and high.

        Columns attribute_1, value_1, attribute_2, ..., as in the files of a release. Needs pyarrow. kind:
        default that of the private frame, else pyarrow.
        """
        asked = self._asked(workload)
        frame = self._tables(asked, level, simultaneous)(slice(0, asked.cells))
        frame = frame.cast(plain_schema(frame.schema))
        return as_kind(frame, kind or self.frame_kind or "pyarrow")

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        workload: Workload | None = None,
        level: float = 0.95,
        simultaneous: bool = False,
        raw: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Write the frame to a new .parquet, .csv or .feather file, atomically.

        raw: see `Table.write`. progress: called with the number of cells written so far.
        """
        asked, for_release = self._asked(workload), self.ledger.for_release
        check_name(path, "answers", for_release=for_release)
        need("pyarrow", "write files", "io")
        table = self._tables(asked, level, simultaneous)
        write_cells(path, table, asked.cells, for_release=for_release, raw=raw, progress=progress)

    def _tables(self, asked: Workload, level: float, simultaneous: bool) -> Callable[[slice], Any]:
        """The function that makes the Arrow table of a slice of the cells."""
        estimates = self.answers(asked)
        low, high = self._around(estimates, asked, level, simultaneous)
        columns = {
            "answer": estimates,
            "standard_error": self.standard_errors(asked),
            "low": low,
            "high": high,
        }
        about = {
            "n": self.n,
            "domain": asked.domain.fingerprint(),
            "neighbors": self.ledger.neighbors.value,
            "level": level,
            "simultaneous": simultaneous,
            "for_release": self.ledger.for_release,
            **({} if self.ledger.for_release else SEEDED),
        }
        cells = np.arange(asked.cells)
        return table_maker(
            asked.domain,
            asked.attributes,
            int(np.diff(asked.starts).max(initial=1)),
            lambda part: asked.queries(cells[part]),
            lambda part: {name: values[part] for name, values in columns.items()},
            about,
        )

    def statement(self) -> str:
        """The privacy guarantee to the people in the private table, in plain words."""
        return self.ledger.statement()

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write one file, atomically; `load_unbiased_answers` reads it back to equal answers."""
        from privmw.extensions.unbiased.file import save_unbiased_answers

        save_unbiased_answers(self, path, overwrite=overwrite)

    def _estimated(self) -> Residuals:
        if self._residuals is None:
            self._set(_residuals=self.shot.residuals(self.noisy))
        assert self._residuals is not None
        return self._residuals

    def _asked(self, workload: Workload | None) -> Workload:
        if workload is None:
            return self.workload
        check_workload(workload, self.domain, "answers")
        return workload

    def _conditions(self, query: Any) -> tuple[tuple[str, ...], list[list[int]]]:
        """The attributes of a query in the domain's order, and the codes allowed of each."""
        expect("query", query, Mapping, "a mapping of attributes to codes", quote=False)
        names = tuple(self.domain.names[a] for a in sorted(positions_of(self.domain, query, "query")))
        allowed = []
        for name in names:
            given, size = query[name], self.domain[name].size
            codes = [given] if isinstance(given, int | np.integer) else given
            right = (
                isinstance(codes, Sequence | np.ndarray) and len(codes) != 0 and not isinstance(codes, str)
            )
            expect(f"query of {shown(name)}", given, right, "a code or a list of codes", quote=False)
            checked = [
                check_integer(f"code of {shown(name)}", code, 0, size - 1, quote=False) for code in codes
            ]
            if len(set(checked)) < len(checked):
                raise ValueError(f"query of {shown(name)} ({len(checked)} codes) must not repeat a code")
            allowed.append(checked)
        return names, allowed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnbiasedAnswers):
            return NotImplemented
        same = all(
            getattr(self.shot, name) == getattr(other.shot, name)
            for name in ("workload", "kind", "family", "at_most", "measured", "events")
        )
        same = same and [look[:2] for look in self.shot.looks] == [look[:2] for look in other.shot.looks]
        if not same or self._settings != other._settings or self.ledger != other.ledger:
            return False
        return all(np.array_equal(here, there) for here, there in zip(self.noisy, other.noisy, strict=True))

    def __reduce__(self) -> tuple[object, ...]:
        make = partial(
            UnbiasedAnswers, ledger=self.ledger, settings=self.settings, frame_kind=self.frame_kind
        )
        return make, (self.shot, self.noisy)

    def __repr__(self) -> str:
        strategy, marginals = self.settings.get("strategy"), len(self.workload)
        named = f"{strategy.partition('(')[0]}, " if isinstance(strategy, str) else ""
        spent = f"rho {show(self.ledger.rho)}"
        if self.shot.family.order == 1:
            spent = f"epsilon {show(self.ledger.epsilon(0))}"
        seeded = "" if self.ledger.for_release else f", {self.ledger.generator}"
        return (
            f"UnbiasedAnswers({named}{marginals} marginal{'s' * (marginals != 1)}, "
            f"{self.workload.cells} cells, {spent}, n {self.n}{seeded})"
        )


def sizes_of_looks(shot: Shot) -> list[int]:
    """The number of integers that each look releases: a marginal's cells, or a residual's contrasts."""
    less = 1 if shot.kind == "residuals" else 0
    return [math.prod(shot.domain[name].size - less for name in look.attributes) for look in shot.looks]


def _variances(shot: Shot, workload: Workload) -> Float64s:
    return np.array([shot.variance(names) for names in workload])


def _noisy(shot: Shot, noisy: Iterable[npt.ArrayLike]) -> tuple[Int64s, ...]:
    arrays, sizes = [np.asarray(values) for values in noisy], sizes_of_looks(shot)
    if len(arrays) != len(sizes):
        raise ValueError(f"noisy ({len(arrays)} arrays) must be one for each of {len(sizes)} looks")
    for values, size, look in zip(arrays, sizes, shot.looks, strict=True):
        right = values.dtype == np.int64 and values.ndim == 1
        expect(f"noisy values of {look.attributes}", values, right, "1-D and int64")
        if len(values) != size:
            raise ValueError(f"noisy values of {look.attributes} ({len(values)}) must be {size}")
    return tuple(freeze(values.copy()) for values in arrays)
