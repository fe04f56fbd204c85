"""Values and pairs of values that no public record has: rows that synthetic records leave out.

A domain has room for what no public record has: "other", and missing values. Models also grow rows with
pairs of values that never occur together in public. Noise puts some of the weight on such rows; they stay
only where the noisy counts show them. Released values and public rows only.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privmw.data.coverage import public_rows_in, small_and_large
from privmw.data.workload import Workload
from privmw.kernels.arrays import Bools, Float64s
from privmw.release.measurements import combine

if TYPE_CHECKING:
    from privmw.release.release import Release

SIGNIFICANT = 4.0  # standard deviations of the noise: by chance once in 30,000 values
SIGNIFICANT_PAIR = 3.0  # for one pair of values: there are many more pairs, and a wrong one is a light row
SIGNIFICANT_TOTAL = 2.0  # for all pairs of two attributes that no public record has together
# Share of the records with such pairs, at most. Without evidence all grown rows keep about their prior share,
# 2.5 %; a fit that needs them gives them more (HI-18 from NM-18 38 %, NE-18 from HI-18 4 %).
MOST_LEFT_OUT = 0.02
AVERAGED = 16  # marginals, at most, whose noisy counts of two attributes are averaged


def left_out(release: Release) -> Bools | None:
    """The rows with a value, or a pair of values, that no public record has; None if there are none.

    Values: "other", and missing ones unless the noisy counts show them significantly. Pairs of values that
    occur: unless the noisy counts of the pair, or of all such pairs of the two attributes together, are
    significant. Pairs that were not measured stay, and so do all pairs without public rows, or where their
    rows are more than MOST_LEFT_OUT of the records.

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
    support, weights = release.support, release.weights
    if not support.grown:
        return None
    shares = _NoisyShares(release)
    rows = _extra_values(release, shares)
    if weights[~rows].sum() <= 0:
        return None
    pairs = rows | _pairs(release, shares)
    rows = pairs if weights[pairs & ~rows].sum() <= MOST_LEFT_OUT else rows
    return rows if rows.any() else None


def _extra_values(release: Release, shares: _NoisyShares) -> Bools:
    """The rows with an "other" or missing value that no public record has."""
    support = release.support
    public = support.counts > 0
    rows = np.zeros(support.size, bool)
    for a, attribute in enumerate(support.domain.attributes):
        column, last = support.table.columns[a], attribute.size - 1
        declared = [last] if attribute.missing is not None else []
        if attribute.other is not None:
            declared.append(last - len(declared))
        for code in declared:
            with_code = column == code
            if not with_code.any() or (public & with_code).any():
                continue
            if code == last and attribute.missing is not None:
                noisy = shares.of((a,))
                if noisy is None or noisy.answers[last] > SIGNIFICANT * np.sqrt(noisy.variances[last]):
                    continue
            rows |= with_code
    return rows


def _pairs(release: Release, shares: _NoisyShares) -> Bools:
    """The rows with a pair of values that occur in public, but not together, within the noise."""
    support = release.support
    rows = np.zeros(support.size, bool)
    grown = np.flatnonzero((support.counts == 0) & (release.weights > 0))
    if len(grown) == support.size:
        return rows
    sizes = support.domain.sizes
    columns = [column[grown].astype(np.int64) for column in support.table.columns]
    occurs: dict[int, Bools] = {}
    for (a,), public_rows in public_rows_in(support, [(a,) for a in range(len(sizes))]):
        occurs[a] = public_rows > 0
    wanted = small_and_large(itertools.combinations(range(len(sizes)), 2), sizes)[0]
    for (a, b), public_rows in public_rows_in(support, [pair for pair in wanted if shares.has(pair)]):
        unseen = (public_rows == 0) & (occurs[a][:, None] & occurs[b]).ravel()
        cells = columns[a] * sizes[b] + columns[b]
        if not unseen[cells].any():
            continue
        noisy = shares.of((a, b))
        assert noisy is not None
        if noisy.answers[unseen].sum() > SIGNIFICANT_TOTAL * np.sqrt(noisy.variances[unseen].sum()):
            continue
        unseen &= noisy.answers <= SIGNIFICANT_PAIR * np.sqrt(noisy.variances)
        rows[grown[unseen[cells]]] = True
    return rows


class _Noisy(NamedTuple):
    """The noisy shares of the cells of a marginal, and their variances."""

    answers: Float64s
    variances: Float64s


class _NoisyShares:
    """The noisy shares of one or two attributes, from measured marginals that hold them."""

    def __init__(self, release: Release) -> None:
        self._measured = release.measured
        self._noisy = combine(release.measurements, release.n)
        self._found = np.searchsorted(self._noisy.cells, self._measured.offsets)
        self._holding = _holding(self._measured, np.diff(self._found) == np.diff(self._measured.offsets))

    def has(self, attributes: tuple[int, ...]) -> bool:
        """True if a marginal with the attributes was measured completely."""
        return attributes in self._holding

    def of(self, attributes: tuple[int, ...]) -> _Noisy | None:
        """The least-variance mean over the AVERAGED smallest marginals; None if none was measured."""
        if not self.has(attributes):
            return None
        measured, sizes = self._measured, self._measured.domain.sizes
        cells = np.diff(measured.offsets)
        weighted = precision = np.zeros(())
        for j in sorted(self._holding[attributes], key=lambda j: int(cells[j]))[:AVERAGED]:
            of_marginal = measured.attributes[measured.starts[j] : measured.starts[j + 1]].tolist()
            others = tuple(axis for axis, a in enumerate(of_marginal) if a not in attributes)
            part, shape = slice(self._found[j], self._found[j + 1]), [sizes[a] for a in of_marginal]
            here = 1 / self._noisy.variances[part].reshape(shape).sum(axis=others)
            weighted = weighted + here * self._noisy.answers[part].reshape(shape).sum(axis=others)
            precision = precision + here
        return _Noisy((weighted / precision).ravel(), (1 / precision).ravel())


def _holding(measured: Workload, complete: Sequence[bool]) -> Mapping[tuple[int, ...], list[int]]:
    """The completely measured marginals with each attribute and each pair of them, in ascending order."""
    holding: dict[tuple[int, ...], list[int]] = {}
    ends = measured.starts.tolist()
    attributes = measured.attributes.tolist()
    for j in np.flatnonzero(complete).tolist():
        of_marginal = attributes[ends[j] : ends[j + 1]]
        for k in (1, 2):
            for chosen in itertools.combinations(of_marginal, k):
                holding.setdefault(chosen, []).append(j)
    return holding
