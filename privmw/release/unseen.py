"""Values that are declared for safety only: rows that synthetic records leave out.

A domain has room for what no public record has: "other", and missing values. Noise puts some of the weight on
such rows. Released values and public rows only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privmw.kernels.arrays import Bools
from privmw.release.measurements import combine

if TYPE_CHECKING:
    from privmw.release.release import Release

SIGNIFICANT = 4.0  # standard deviations of the noise: by chance once in 30,000 values


def left_out(release: Release) -> Bools | None:
    """The rows with an "other" or missing value that no public record has; None if there are none.

    Missing values stay where the noisy counts show significantly that there are some.

    >>> from privmw import Budget, Domain, Support, Table, Workload
    >>> from privmw.accounting import Ledger, Neighbors
    >>> from privmw.release import Release
    >>> domain = Domain({"sex": {"labels": ["F", "M"], "other": "else"}})
    >>> support = Support.from_table(Table.from_codes([[0], [1]], domain, private=False))
    >>> wider = support.with_rows([[2]]).support
    >>> ledger = Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=40)
    >>> release = Release(wider, Workload.all(domain, k=1), [0.5, 0.4, 0.1], ledger=ledger, settings={})
    >>> left_out(release).tolist()
    [False, False, True]
    """
    support = release.support
    public = support.counts > 0
    rows = np.zeros(support.size, bool)
    for attribute, column in zip(support.domain.attributes, support.table.columns, strict=True):
        last = attribute.size - 1
        declared = [last] if attribute.missing is not None else []
        if attribute.other is not None:
            declared.append(last - len(declared))
        for code in declared:
            with_code = column == code
            if not with_code.any() or (public & with_code).any():
                continue
            if code == last and attribute.missing is not None and _is_significant(release, attribute.name):
                continue
            rows |= with_code
    weights = release.weights
    return rows if rows.any() and weights[~rows].sum() > 0 else None


def _is_significant(release: Release, name: str) -> bool:
    """Whether noisy counts show missing values; True if none tell, so that they stay."""
    measured, domain = release.measured, release.measured.domain
    place, last = domain.index(name), domain[name].size - 1
    noisy = combine(release.measurements, release.n)
    sizes = np.diff(measured.offsets)
    found = np.searchsorted(noisy.cells, measured.offsets)
    holds = np.add.reduceat(measured.attributes == place, measured.starts[:-1]) > 0
    complete = np.flatnonzero(holds & (np.diff(found) == sizes))
    if not len(complete):
        return True
    smallest = complete[np.argmin(sizes[complete])]  # its sum of cells has the least noise
    part = slice(found[smallest], found[smallest + 1])
    queries = measured.queries(noisy.cells[part])
    has_value = np.add.reduceat((queries.attributes == place) & (queries.values == last), queries.starts[:-1])
    missing = has_value > 0
    deviation = float(np.sqrt(noisy.variances[part][missing].sum()))
    return float(noisy.answers[part][missing].sum()) > SIGNIFICANT * deviation
