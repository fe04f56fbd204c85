"""Groups of linear queries: a marginal with a small integer matrix per attribute, and its exact sensitivity.

A matrix has a row per query and a column per value of its attribute. The queries of a group are the Kronecker
product of its matrices, applied to the counts of the marginal of its attributes. Only domains are known here,
no data. docs/proofs/queries.md proves the sensitivity.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from privmw.data.attribute import Attribute
from privmw.data.conditions import bound_of, condition_on, ordered_values
from privmw.data.domain import Domain, Immutable
from privmw.data.workload import Workload
from privmw.kernels.arrays import Int64s, freeze
from privmw.kernels.checks import check_number
from privmw.secrecy import expect, shown

LARGEST_ENTRY = (
    2**20
)  # of the product of the matrices: counts of fewer than 2^41 records then do not overflow
LARGEST_SENSITIVITY = 2**40
MOST_QUERIES = 2**28  # of a group
MOST_STATES, MOST_PAIRS_OF_COLUMNS = 2**22, 2**28  # pairs of columns: of some attributes, of all
MOST_TRIPLES_COMPARED = 4096  # pairs of columns that are compared with each other


class Matrix(NamedTuple):
    """The queries on one attribute: integers (queries x values), and the words of each query."""

    entries: Int64s
    words: tuple[str, ...]


@dataclass(frozen=True)
class Queries:
    """Queries on some attributes of any domain: products are made by `*`. See `prefix` and its neighbours.

    unit: the size of one unit of the integers, other than 1 for sums in steps.
    """

    factors: tuple[tuple[str, Callable[[Attribute], Matrix]], ...]
    unit: float = 1.0

    def __mul__(self, other: Queries) -> Queries:
        expect("factor", other, Queries, "queries, such as prefix('age')")
        names = [name for name, _ in (*self.factors, *other.factors)]
        if len(set(names)) < len(names):
            raise ValueError(f"factors ({', '.join(names)}) must not repeat an attribute")
        return Queries((*self.factors, *other.factors), self.unit * other.unit)

    def on(self, domain: Domain) -> QueryGroup:
        """The group of these queries on a domain."""
        return QueryGroup(domain, self)


class QueryGroup(Immutable):
    """Queries on a domain: the attributes in the domain's order, and a matrix for each. Immutable.

    >>> from privmw import Domain
    >>> domain = Domain({"sex": ["F", "M"], "age": 4})
    >>> group = (prefix("age") * marginal("sex")).on(domain)
    >>> group, group.words(1)
    (QueryGroup(8 queries of sex, age), ('F', '<= 1'))
    >>> group.apply(np.array([[1, 0, 2, 0], [0, 0, 0, 5]])).tolist()
    [[1, 1, 3, 3], [0, 0, 0, 5]]
    >>> group.l2_squared(), group.l2_squared(replace=False), group.l1()
    (8, 4, 8)
    """

    __slots__ = ("_moved", "domain", "matrices", "names", "shape", "unit")
    _public_repr = True

    domain: Domain
    names: tuple[str, ...]
    matrices: tuple[Matrix, ...]
    shape: tuple[int, ...]  # the number of queries on each attribute
    unit: float
    _moved: dict[tuple[int, bool], int]  # by order and kind of neighbours, once asked

    def __init__(self, domain: Domain, queries: Queries) -> None:
        expect("queries", queries, Queries, "queries, such as prefix('age')")
        factors = dict(queries.factors)
        names = tuple(sorted(factors, key=domain.index))
        matrices = tuple(_checked(domain[name], factors[name](domain[name])) for name in names)
        shape = tuple(len(matrix.words) for matrix in matrices)
        if math.prod(shape) > MOST_QUERIES:
            raise ValueError(f"queries of {', '.join(names)} ({math.prod(shape):,}) must be at most 2^28")
        largest = math.prod(max(abs(int(m.entries.min())), abs(int(m.entries.max()))) for m in matrices)
        if largest > LARGEST_ENTRY:
            raise ValueError(
                f"queries of {', '.join(names)} (entries up to {largest}) must have entries of at most 2^20: "
                f"take a larger step"
            )
        self._set(domain=domain, names=names, matrices=matrices, shape=shape, unit=queries.unit, _moved={})
        Workload(domain, [names])  # refuses more than six attributes, and too many cells
        if self.l2_squared() > LARGEST_SENSITIVITY:
            raise ValueError(
                f"queries of {', '.join(names)} (squared L2 sensitivity {self.l2_squared()}) must have at "
                f"most 2^40: take a larger step"
            )

    @property
    def largest_count(self) -> int:
        """The largest count of every cell for which no answer can overflow."""
        entries = [matrix.entries for matrix in self.matrices]
        largest = math.prod(max(1, int(np.abs(each).max())) * int(each.shape[1]) for each in entries)
        return int(max(2**62 // largest, 1))

    @property
    def size(self) -> int:
        """The number of queries."""
        return math.prod(self.shape)

    def words(self, query: int) -> tuple[str, ...]:
        """What a query asks of each attribute."""
        places = np.unravel_index(query, self.shape)
        return tuple(matrix.words[int(place)] for matrix, place in zip(self.matrices, places, strict=True))

    def apply(
        self,
        table: npt.NDArray[Any],
        keep: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda made: made,
    ) -> npt.NDArray[Any]:
        """The answers for a table of cells (in C order, of this shape or flat); keep: sees every array made.

        It is applied one attribute after another, so the product of the matrices is never formed.
        """
        sizes = [matrix.entries.shape[1] for matrix in self.matrices]
        flat = table.reshape(-1)
        for place, matrix in enumerate(self.matrices):
            left = math.prod(self.shape[:place])
            right = math.prod(sizes[place + 1 :])
            made = keep(np.empty((left, self.shape[place], right), flat.dtype))
            entries = matrix.entries.astype(flat.dtype, copy=False)
            np.matmul(entries, flat.reshape(left, sizes[place], right), out=made)
            flat = made.reshape(-1)
        return flat.reshape(self.shape)

    def pull_back(self, multipliers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The transpose of `apply`: a multiplier of each query to one of each cell.

        >>> from privmw import Domain
        >>> prefix("age").on(Domain({"age": 3})).pull_back(np.array([1.0, 0.0, 2.0])).tolist()
        [3.0, 2.0, 2.0]
        """
        made = np.asarray(multipliers).reshape(self.shape)
        for axis, matrix in enumerate(self.matrices):
            made = np.moveaxis(np.tensordot(matrix.entries.T, made, axes=(1, axis)), 0, axis)
        return made

    def l2_squared(self, *, replace: bool = True) -> int:
        """The largest squared L2 distance between the columns of two values (or of one value and nothing)."""
        columns = [matrix.entries.T for matrix in self.matrices]
        norms = [[int(square) for square in np.einsum("vq,vq->v", c, c)] for c in columns]
        if not replace:
            return math.prod(map(max, norms))
        inner = [(c @ c.T).astype(np.int64) for c in columns]
        return _largest(norms, inner, 1)

    def l1(self, *, replace: bool = True) -> int:
        """The same for the L1 distance; at most one matrix may have entries other than 0 and 1.

        With two or more such matrices the distance does not factorise, and is refused.
        """
        columns = [matrix.entries.T for matrix in self.matrices]
        norms = [[int(total) for total in np.abs(c).sum(axis=1)] for c in columns]
        if not replace:
            return math.prod(map(max, norms))
        others = [name for name, c in zip(self.names, columns, strict=True) if not np.isin(c, (0, 1)).all()]
        if len(others) > 1:
            raise ValueError(
                f"matrices of {', '.join(others)} must be of 0 and 1, but for one: their L1 sensitivity is "
                f"not known exactly. Use rho: Gaussian noise needs the L2 sensitivity"
            )
        # |x| + |y| - |x - y| is twice the overlap; for entries 0 and 1 the overlap is the inner product.
        twice = [_twice_overlaps(c, norm) for c, norm in zip(columns, norms, strict=True)]
        return _largest(norms, twice, 2)

    def moved(self, order: int, *, replace: bool) -> int:
        """What noise of this order pays for: L1 for Laplace noise (1), squared L2 for Gaussian noise (2)."""
        distance = self._moved.get((order, replace))
        if distance is None:
            distance = self.l1(replace=replace) if order == 1 else self.l2_squared(replace=replace)
            self._moved[order, replace] = distance
        if distance == 0:
            raise ValueError(
                f"{shown(self)} must depend on the records: no record changes it, and it needs no noise"
            )
        return distance

    def __repr__(self) -> str:
        return f"QueryGroup({self.size} quer{'y' if self.size == 1 else 'ies'} of {', '.join(self.names)})"


def marginal(*names: str) -> Queries:
    """Every cell of a marginal.

    >>> from privmw import Domain
    >>> marginal("sex").on(Domain({"sex": ["F", "M"]})).l2_squared()
    2
    """
    return Queries(tuple((name, _identity) for name in _names(names)))


def prefix(name: str) -> Queries:
    """For each value of an ordered attribute, the records up to it: `cdf` in counts."""
    return Queries(((_names([name])[0], _prefix),))


def ranges(name: str, edges: Iterable[Any] | None = None) -> Queries:
    """The ranges between each two neighbouring edges, as `within`; without edges, every range of values.

    >>> from privmw import Domain
    >>> domain = Domain({"age": 4})
    >>> ranges("age").on(domain).size, ranges("age", edges=[0, 2, 4]).on(domain).words(0)
    (10, ('0 to 1',))
    """
    if edges is None:
        return Queries(((_names([name])[0], _all_ranges),))
    ends = list(edges)
    if len(ends) < 2:
        raise ValueError(f"edges ({len(ends)}) must be at least two")

    def make(attribute: Attribute) -> Matrix:
        values = _ordered(attribute)
        pairs = list(pairwise(bound_of(attribute, end) for end in ends))
        if not attribute.edges:  # half open, as the ranges of bins are
            for low, high in pairs:
                if not low < high:
                    raise ValueError(f"edges of {shown(name)} must increase")
            pairs = [(low, max((v for v in values if v < high), default=low)) for low, high in pairs]
        return _conditions(attribute, pairs)

    return Queries(((_names([name])[0], make),))


def within(name: str, sets: Iterable[Any]) -> Queries:
    """One query per condition: a range (low, high), a list of values, or ">=65", as in `Release.answer`.

    >>> from privmw import Domain
    >>> group = within("age", [(0, 17), (18, 64), (65, None)]).on(Domain({"age": 100}))
    >>> group.size, group.words(2), group.l2_squared()
    (3, ('>= 65',), 2)
    """
    conditions = list(sets)
    if not conditions:
        raise ValueError("sets (none) must be at least one")
    return Queries(((_names([name])[0], lambda attribute: _conditions(attribute, conditions)),))


def sums(
    name: str,
    by: Sequence[str] = (),
    *,
    lower: float,
    upper: float,
    step: float = 1,
    count: bool = True,
) -> Queries:
    """The sum of a numeric attribute, in whole steps, in each cell of the marginal of `by`.

    Values are clamped to [lower, upper] and rounded to whole steps; of bins the middle counts; other and
    missing values count as 0. count: beside each sum also the number of records with a value, for means.

    >>> from privmw import Domain
    >>> wage = {"edges": [0, 10_000, 50_000, 200_000], "missing": "none"}
    >>> domain = Domain({"wage": wage, "sex": ["F", "M"]})
    >>> group = sums("wage", by=["sex"], lower=0, upper=100_000, step=1000, count=False).on(domain)
    >>> group.matrices[0].entries.tolist(), group.unit, group.l2_squared(), group.l1()
    ([[5, 30, 100, 0]], 1000.0, 20000, 200)
    """
    low, high, size = (check_number(n, v) for n, v in (("lower", lower), ("upper", upper), ("step", step)))
    if not low < high:
        raise ValueError(f"lower ({low}) must be below upper ({high})")
    if not 0 < size < math.inf or not max(abs(low), abs(high)) < math.inf:
        raise ValueError(f"step ({size}) must be positive, and all bounds finite")

    def make(attribute: Attribute) -> Matrix:
        values = _ordered(attribute)
        if isinstance(values[0], datetime.date):
            raise ValueError(f"attribute {shown(name)} must have numbers to be added")
        if attribute.edges:
            ends: Any = attribute.edges
            values = [(first + last) / 2 for first, last in pairwise(ends)]
        entries = np.zeros((1 + count, attribute.size), np.int64)
        steps = [round(Fraction(min(max(value, low), high)) / Fraction(size)) for value in values]
        if max(map(abs, steps)) > LARGEST_ENTRY:
            raise ValueError(f"step ({size}) must be larger: sums must be of at most 2^20 steps per record")
        entries[0, : len(values)] = steps
        entries[1:, : len(values)] = 1
        return Matrix(entries, ("sum in steps", "records")[: 1 + count])

    grouped = marginal(*by) if by else Queries(())
    return Queries(((_names([name])[0], make),), size) * grouped


def queries(name: str, matrix: npt.ArrayLike, words: Sequence[str] | None = None) -> Queries:
    """Queries of one's own: an integer matrix, with a row per query and a column per value (code).

    >>> from privmw import Domain
    >>> (queries("age", [[1, 0, 2]]) * marginal("sex")).on(Domain({"age": 3, "sex": 2})).l1()
    4
    """
    entries = np.asarray(matrix)
    whole = entries.ndim == 2 and entries.dtype.kind in "iu" and entries.size > 0
    expect("matrix", matrix, whole, "a matrix of integers, queries x values")
    if entries.dtype.kind == "u" and int(entries.max()) > LARGEST_ENTRY:
        raise ValueError("matrix must have entries of at most 2^20")
    of_query = tuple(words) if words is not None else tuple(f"query {q}" for q in range(len(entries)))
    if len(of_query) != len(entries):
        raise ValueError(f"words ({len(of_query)}) must be one per query ({len(entries)})")
    return Queries(((_names([name])[0], lambda _: Matrix(entries.astype(np.int64), of_query)),))


def _names(names: Iterable[str]) -> tuple[str, ...]:
    checked = tuple(names)
    for name in checked:
        expect("name", name, str, "that of an attribute")
    if not checked or len(set(checked)) < len(checked):
        raise ValueError(f"names ({len(checked)}) must be at least one, and not repeat an attribute")
    return checked


def _identity(attribute: Attribute) -> Matrix:
    words = tuple(str(attribute.label(code)) for code in range(attribute.size))
    return Matrix(np.eye(attribute.size, dtype=np.int64), words)


def _prefix(attribute: Attribute) -> Matrix:
    values = _ordered(attribute)
    if attribute.edges:
        return _conditions(attribute, [(None, edge) for edge in attribute.edges[1:-1]] + [(None, None)])
    return _conditions(attribute, [(None, value) for value in sorted(values)])


def _all_ranges(attribute: Attribute) -> Matrix:
    values = _ordered(attribute)
    ends: list[Any] = sorted(values) if not attribute.edges else [None, *attribute.edges[1:-1], None]
    if attribute.edges:
        pairs = [(ends[i], ends[j]) for i in range(len(ends)) for j in range(i + 1, len(ends))]
    else:
        pairs = [(ends[i], ends[j]) for i in range(len(ends)) for j in range(i, len(ends))]
    return _conditions(attribute, pairs)


def _conditions(attribute: Attribute, conditions: Sequence[Any]) -> Matrix:
    met = [condition_on(attribute, condition) for condition in conditions]
    return Matrix(np.array([c.codes for c in met]).astype(np.int64), tuple(c.words for c in met))


def _ordered(attribute: Attribute) -> list[Any]:
    values = ordered_values(attribute)
    if values is None:
        raise ValueError(
            f"attribute {shown(attribute.name)} has no order: give its sets of values to `within`"
        )
    return values


def _checked(attribute: Attribute, matrix: Matrix) -> Matrix:
    entries = matrix.entries
    if entries.dtype != np.int64:
        raise TypeError(f"matrix of {shown(attribute.name)} must be of int64, not {entries.dtype}")
    if entries.shape[1] != attribute.size:
        raise ValueError(
            f"matrix of {shown(attribute.name)} ({entries.shape[1]} columns) must have one for each of its "
            f"{attribute.size} values"
        )
    largest = max(abs(int(entries.min())), abs(int(entries.max())))
    if largest > LARGEST_ENTRY:
        raise ValueError(f"matrix of {shown(attribute.name)} must have entries of at most 2^20")
    if len(entries) * largest**2 >= 2**62:  # squared norms would overflow
        raise ValueError(f"matrix of {shown(attribute.name)} must have smaller entries: take a larger step")
    return Matrix(freeze(np.ascontiguousarray(entries)), matrix.words)


def _twice_overlaps(columns: Int64s, norms: list[int]) -> Int64s:
    """|x| + |y| - |x - y| in the L1 norm, for each two columns."""
    totals = np.array(norms, np.int64)
    apart = np.array([np.abs(columns - column).sum(axis=1) for column in columns], np.int64)
    return totals[:, None] + totals[None, :] - apart


# A pair of columns x, y is a triple (X, Y, C): its norms and its common part, each of which is a product over
# the attributes. The distance X + Y - 2 C of a product of pairs is linear in the triple of each factor.


def _largest(norms: Sequence[list[int]], common: Sequence[Int64s], divisor: int) -> int:
    """The largest X + Y - 2 C over all pairs of columns of the product, exactly.

    norms: of each attribute's columns; common: the common part of each two of them, times the divisor.
    """
    largest = math.prod(max(1, *norm) for norm in norms)
    if largest * divisor ** len(norms) >= 2**60:
        raise ValueError("matrices must have smaller entries: take a larger step")
    signed = any(bool((part < 0).any()) for part in common)
    factors = []
    for norm, part in zip(norms, common, strict=True):
        x, y = np.repeat(norm, len(norm)), np.tile(norm, len(norm))
        factors.append(_useful(np.column_stack([x, y, part.reshape(-1)]).astype(np.int64), signed))
    *first, last = sorted(factors, key=len)
    states = np.ones((1, 3), np.int64)
    for factor in first:
        if len(states) * len(factor) > MOST_STATES:
            raise ValueError("matrices must have fewer distinct columns: their sensitivity takes too long")
        states = _useful((states[:, None] * factor[None]).reshape(-1, 3), signed)
    if len(states) * len(last) > MOST_PAIRS_OF_COLUMNS:
        raise ValueError("matrices must have fewer distinct columns: their sensitivity takes too long")
    whole: int = divisor ** len(factors)
    x, y, c = states.T
    distances: list[int] = [int((whole * (p * x + r * y) - 2 * g * c).max()) for p, r, g in last.tolist()]
    return max(distances) // whole


def _useful(triples: Int64s, signed: bool) -> Int64s:
    """Without triples that cannot be the largest, whatever the later factors are.

    The distance is linear in C, so of equal norms only the extremes of C count. Unless `signed`, all factors
    are not negative: then only the least C counts, and a triple is dominated by one with norms as large and a
    common part as small.
    """
    order = np.lexsort((triples[:, 2], triples[:, 1], triples[:, 0]))
    triples = triples[order]
    new = np.ones(len(triples), bool)
    new[1:] = (np.diff(triples[:, :2], axis=0) != 0).any(axis=1)
    if signed:
        new[:-1] |= new[1:]
        new[-1] = True
        return triples[new]
    triples = triples[new]
    if len(triples) > MOST_TRIPLES_COMPARED:
        return triples
    x, y, c = triples.T
    better = (x >= x[:, None]) & (y >= y[:, None]) & (c <= c[:, None])
    useful: Int64s = triples[better.sum(axis=1) == 1]  # only itself
    return useful
