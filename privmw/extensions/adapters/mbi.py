"""mbi (Private-PGM, from 2.0): domains, records, measurements and models, both ways.

Measurements of privmw go into mbi's estimators, mbi's into our fits, and a release is a model as mbi's own
are: it has marginals and synthetic records. Everything that leaves here was released or is public. mbi counts
in float32 unless `jax.config.update("jax_enable_x64", True)` was said before it was imported; it warns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import mbi
import numpy as np

from privmw.data.domain import Domain
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.kernels.arrays import Float64s
from privmw.release import Release
from privmw.release.noisy_marginals import NoisyMarginals
from privmw.secrecy import expect


def to_domain(domain: Domain) -> Any:
    """Return the mbi.Domain of a domain; values without labels are labelled by their codes.

    >>> to_domain(Domain({"age": 2, "sex": ["F", "M"]})).labels
    ((0, 1), ('F', 'M'))
    """
    labels = [[domain[name].label(code) for code in range(size)] for name, size in _sizes(domain)]
    return mbi.Domain(domain.names, domain.sizes, labels)


def from_domain(domain: Any) -> Domain:
    """Return the Domain of an mbi.Domain, whose attributes must have names.

    Labels are kept where a Domain can have such labels (text, numbers, dates), each once.

    >>> from_domain(mbi.Domain(["age", "sex"], [3, 2], [(0, 1, 2), ("F", "M")]))["sex"].labels
    ('F', 'M')
    """
    labels = domain.labels if domain.labels is not None else [None] * len(domain.attributes)
    declared: dict[str, object] = {}
    for name, size, known in zip(domain.attributes, domain.shape, labels, strict=True):
        expect("attribute", name, str, "a name: an mbi.Domain may have numbers")
        declared[name] = size
        if known is not None and list(known) != list(range(size)):
            try:
                declared[name] = list(Domain({name: list(known)})[name].labels or known)
            except (TypeError, ValueError):  # tuples of merged labels, say
                declared[name] = size
    return Domain(declared)


def to_dataset(table: Table) -> Any:
    """Return the mbi.Dataset of a public or synthetic table. Refuses a private table.

    >>> table = Table.from_codes([[1, 0], [0, 1]], Domain({"age": 2, "sex": ["F", "M"]}), private=False)
    >>> to_dataset(table).records
    2
    """
    expect("table", table, Table, "a Table")
    if table.private:
        raise ValueError(
            "table (private) must be public: measure it with a Curator, and give mbi the measurements"
        )
    return mbi.Dataset(
        {name: np.asarray(table.column(name)) for name in table.domain.names}, to_domain(table.domain)
    )


def from_dataset(dataset: Any, *, private: bool, domain: Domain | None = None) -> Table:
    """Return the records of an mbi.Dataset as a Table, each of weight 1.

    private: whether they are; an mbi.Dataset does not say. domain: the one that to_domain was given.

    >>> dataset = mbi.Dataset({"age": np.array([1, 0, 1])}, mbi.Domain(["age"], [2]))
    >>> from_dataset(dataset, private=False).codes().ravel()
    array([1, 0, 1], dtype=uint8)
    """
    if dataset.weights is not None and not (np.asarray(dataset.weights) == 1).all():
        raise ValueError("weights (not all 1) must be 1: a Table has records, a Release has weighted rows")
    domain = from_domain(dataset.domain) if domain is None else domain
    columns = dataset.to_dict()
    return Table({name: np.asarray(columns[name]) for name in domain.names}, domain, private=private)


def to_measurements(measured: Release | NoisyMarginals) -> list[Any]:
    """Return the LinearMeasurements that mbi's estimators take, of a release or of noisy marginals.

    Cells of one marginal that were measured with several variances become a measurement for each; where not
    all were measured, its query takes those that were.

    >>> from privmw.release.noisy_marginals import NoisyMarginal
    >>> sex = NoisyMarginal(("sex",), [40.0, 61.0], noise="gaussian", scale=2.0)
    >>> (measurement,) = to_measurements(NoisyMarginals([sex], Domain({"age": 2, "sex": 2})))
    >>> measurement.clique, measurement.stddev, measurement.noisy_measurement.tolist()
    (('sex',), 2.0, [40.0, 61.0])
    """
    noisy = NoisyMarginals.of_release(measured) if isinstance(measured, Release) else measured
    expect("measured", measured, isinstance(noisy, NoisyMarginals), "a Release or NoisyMarginals")
    measurements = []
    for clique, start, end in zip(noisy.marginals, noisy.offsets, noisy.offsets[1:], strict=False):
        counts, variances = noisy.noisy_counts[start:end], noisy.variances[start:end]
        for variance in np.unique(variances[np.isfinite(variances)]):
            cells = np.flatnonzero(variances == variance)
            query = {} if len(cells) == end - start else {"query": CellQuery(tuple(cells.tolist()))}
            stddev = math.sqrt(float(variance))
            measurements.append(mbi.LinearMeasurement(counts[cells], clique, stddev, **query))
    return measurements


def from_measurements(measurements: Iterable[Any], domain: Domain) -> NoisyMarginals:
    """Return mbi's measurements as noisy marginals, for `postprocess.nnls` and the other fits.

    Their noise is taken as Gaussian of their stddev, as mbi does. Cliques may be in any order; a query must
    take cells of the marginal, each once, as the usual one and SlicedQuery do.

    >>> y = mbi.LinearMeasurement(np.array([40.0, 61.0]), ("sex",), stddev=2.0)
    >>> from_measurements([y], Domain({"age": 2, "sex": 2})).variances
    array([4., 4.])
    """
    cliques: dict[tuple[str, ...], int] = {}
    marginal_of, cells, counts, noises, noise_of = [], [], [], [], []
    for k, measurement in enumerate(measurements):
        values = np.asarray(measurement.noisy_measurement, np.float64).ravel()
        clique, taken = _taken(measurement, domain)
        if len(values) != len(taken):
            raise ValueError(
                f"noisy_measurement of {clique} ({len(values)}) must be {len(taken)}, as its query"
            )
        marginal_of.append(np.full(len(taken), cliques.setdefault(clique, len(cliques))))
        cells.append(taken)
        counts.append(values)
        noises.append(("gaussian", float(measurement.stddev)))
        noise_of.append(np.full(len(taken), k))
    if not cliques:
        raise ValueError("measurements (none) must be at least one")
    return NoisyMarginals.of_cells(
        domain,
        list(cliques),
        noises,
        marginal_of=np.concatenate(marginal_of),
        cells=np.concatenate(cells),
        noisy_counts=np.concatenate(counts),
        noise_of=np.concatenate(noise_of),
    )


def answers(model: Any, workload: Workload) -> Float64s:
    """Return what a model, or anything that projects, answers to a workload: fractions, in its order.

    >>> workload = Workload.all(Domain({"age": 2, "sex": 2}), k=1)
    >>> dataset = mbi.Dataset.synthetic(to_domain(workload.domain), 100)
    >>> float(answers(dataset, workload)[:2].sum())
    1.0
    """
    marginals = [np.asarray(model.project(names).datavector(), np.float64) for names in workload]
    return np.concatenate([counts / counts.sum() for counts in marginals])


@dataclass(frozen=True)
class CellQuery:
    """A query of some cells of a marginal: what a LinearMeasurement of a part of them holds.

    >>> CellQuery((0, 2)).op_norm_sq()
    1.0
    """

    cells: tuple[int, ...]

    def __call__(self, factor: Any) -> Any:
        """Take the cells of a factor."""
        return factor.datavector()[np.array(self.cells)]

    def op_norm_sq(self) -> float:
        """The squared norm of this query, for estimators that ask: each cell is taken once."""
        return 1.0


class ReleaseModel:
    """A release as a model of mbi: marginals as factors, in counts, and synthetic records as a Dataset.

    Whatever mbi does with models (its summaries, its metrics, its own measurements as a start) takes it. It
    answers every set of attributes, not only those that were measured.

    >>> from privmw import MWEM, Support
    >>> domain = Domain({"age": 2, "sex": 2})
    >>> private = Table.from_codes([[1, 0], [0, 1]] * 500, domain, private=True)
    >>> release = MWEM(rounds=2).release(private, None, Workload.all(domain, k=2), epsilon=1.0, delta=1e-9)
    >>> model = ReleaseModel(release)
    >>> round(float(model.project(("sex", "age")).sum())), model.synthetic_data(10).records
    (1000, 10)
    """

    def __init__(self, release: Release) -> None:
        expect("release", release, Release, "a Release")
        self.release = release
        self._domain = to_domain(release.support.domain)

    @property
    def domain(self) -> Any:
        """The mbi.Domain of the rows."""
        return self._domain

    @property
    def total(self) -> float:
        """The number of records, which is public."""
        return float(self.release.n)

    def supports(self, attrs: str | Sequence[str]) -> bool:
        """Whether these are attributes of the domain."""
        return all(name in self.release.support.domain for name in _listed(attrs))

    def project(self, attrs: str | Sequence[str]) -> Any:
        """Return the counts of a marginal, its axes in the given order."""
        names = _listed(attrs)
        if not names:
            return mbi.Factor(self._domain.project(()), np.asarray(self.total))
        workload = Workload(self.release.support.domain, [names])
        ordered, shape = workload.marginal(0), workload.shape(0)
        counts = (self.release.answers(workload) * self.total).reshape(shape)
        return mbi.Factor(
            self._domain.project(names), np.transpose(counts, [ordered.index(name) for name in names])
        )

    def synthetic_data(self, rows: int | None = None) -> Any:
        """Return synthetic records; as many as the private ones unless rows says."""
        return to_dataset(self.release.sample(rows))


def _listed(attrs: str | Sequence[str]) -> tuple[str, ...]:
    return (attrs,) if isinstance(attrs, str) else tuple(attrs)


def _sizes(domain: Domain) -> Iterable[tuple[str, int]]:
    return zip(domain.names, domain.sizes, strict=True)


def _taken(measurement: Any, domain: Domain) -> tuple[tuple[str, ...], Any]:
    """The clique in the domain's order, and which of its cells, in C order, the query takes.

    The query is asked what it makes of the cells' own numbers, and then of random ones: only a query that
    takes cells as they are gives both back.
    """
    clique = tuple(measurement.clique)
    ordered = tuple(sorted(clique, key=domain.index))
    shape = [domain.sizes[domain.index(name)] for name in clique]
    factor = mbi.Domain(clique, shape)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    # In the domain's order cell (i, j) of clique (b, a) is cell (j, i).
    within = np.argsort(
        np.transpose(numbers, [clique.index(name) for name in ordered]).ravel(), kind="stable"
    )
    asked = np.asarray(measurement.query(mbi.Factor(factor, numbers.astype(np.float64)))).ravel()
    taken = np.rint(asked).astype(np.int64)
    probe = np.random.default_rng(0).random(numbers.size).astype(np.float32)
    seen = np.asarray(measurement.query(mbi.Factor(factor, probe.reshape(shape)))).ravel()
    inside = len(taken) and taken.min() >= 0 and taken.max() < numbers.size
    if not inside or len(np.unique(taken)) < len(taken) or not np.array_equal(probe[taken], seen):
        raise ValueError(f"query of {clique} must take cells of the marginal, each once, as they are")
    return ordered, within[taken]
