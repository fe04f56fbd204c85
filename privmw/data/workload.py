"""Workloads: the marginals to answer, and the position of each of their cells in a vector of answers.

Cells are numbered marginal after marginal, in C order within each. The attributes of a marginal are in the
order of the domain. This module knows the domain and no data. Arrays are flat, as the kernels need them: a
million marginals are two arrays.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from privmw.data.domain import Domain, Immutable, check_domain, positions_of
from privmw.kernels.arrays import Int32s, Int64s, UInt32s, freeze
from privmw.kernels.cells import LARGEST_MARGINAL
from privmw.kernels.cells import LARGEST_ORDER as LARGEST_ORDER
from privmw.kernels.checks import check_integer
from privmw.secrecy import expect, shown

CELLS_CHANGED_PER_MARGINAL = 2  # by replacing a record: it leaves one cell, enters another
LARGEST_WORKLOAD = 2**48  # cells
MOST_MARGINALS = 2**24  # of `all` and `sample`: 400 MB if they are 6-way


class Queries(NamedTuple):
    """Some cells of a workload: query q counts the records whose attributes have the values of its slice.

    The slice is starts[q]:starts[q + 1] of `attributes` (positions in the domain) and of `values` (codes).
    """

    marginals: Int64s
    starts: Int64s
    attributes: Int32s
    values: UInt32s


class Workload(Immutable):
    """Marginals of one to six attributes on a domain, immutable; each set of attributes at most once.

    >>> workload = Workload(Domain({"age": 10, "sex": 2, "race": 5}), [("age", "sex"), ("race",)])
    >>> workload
    Workload(2 marginals of order 1 to 2, 25 cells)
    >>> workload.query(7), workload.cell(["sex", "age"], [1, 3])
    ((('age', 'sex'), (3, 1)), 7)
    """

    __slots__ = ("__weakref__", "_index", "attributes", "domain", "offsets", "starts")
    _public_repr: ClassVar[bool] = True

    domain: Domain
    attributes: Int32s  # the attributes' positions in the domain, marginal after marginal
    starts: Int64s  # the start of each marginal in `attributes`, then their end
    offsets: Int64s  # the first cell of each marginal, then the number of cells
    _index: CombinationIndex | None

    def __init__(self, domain: Domain, marginals: Iterable[Sequence[str]]) -> None:
        check_domain(domain)
        right = isinstance(marginals, Iterable) and not isinstance(marginals, str)
        expect("marginals", marginals, right, "a list of tuples of attribute names")
        rows: dict[tuple[int, ...], None] = {}
        for place, marginal in enumerate(marginals):
            row = tuple(sorted(_positions(domain, f"marginals[{place}]", marginal)))
            if row in rows:
                raise ValueError(f"marginals[{place}] ({_names(domain, row)}) must be given only once")
            rows[row] = None
        flat = np.fromiter(itertools.chain.from_iterable(rows), np.int32)
        self._fill(domain, flat, np.cumsum([0, *map(len, rows)], dtype=np.int64))

    def _fill(self, domain: Domain, attributes: Int32s, starts: Int64s) -> Workload:
        self._set(domain=domain, attributes=freeze(attributes), starts=freeze(starts), _index=None)
        offsets = np.zeros(len(starts), np.int64)
        if len(starts) > 1:
            # Products and sums of integers in doubles are exact up to 2^53; larger ones exceed the limits.
            cells = np.multiply.reduceat(np.array(domain.sizes, np.float64)[attributes], starts[:-1])
            largest = int(cells.argmax())
            if cells[largest] > LARGEST_MARGINAL:
                names = _names(domain, self._marginal_positions(largest))
                raise ValueError(f"marginal ({names}) must have at most 2^40 cells")
            if cells.sum() > LARGEST_WORKLOAD:
                raise ValueError(f"workload ({cells.sum():.3g} cells) must have at most 2^48 cells")
            np.cumsum(cells.astype(np.int64), out=offsets[1:])
        self._set(offsets=freeze(offsets))
        return self

    @classmethod
    def all(cls, domain: Domain, k: int | Iterable[int], *, target: str | None = None) -> Workload:
        """Every marginal of k attributes (or of each k in turn), in the order of itertools.combinations.

        target: an attribute that is to be predicted from the others. Of the marginals of the largest order
        only those with the target are then taken, and all of the order below, which need less noise.

        >>> list(Workload.all(Domain({"a": 2, "b": 2, "c": 2, "d": 2}), k=3, target="a"))[3:7]
        [('b', 'c'), ('b', 'd'), ('c', 'd'), ('a', 'b', 'c')]

        >>> list(Workload.all(Domain({"a": 2, "b": 2, "c": 2}), k=2))
        [('a', 'b'), ('a', 'c'), ('b', 'c')]
        """
        check_domain(domain)
        given: Any = k
        several = isinstance(given, Iterable) and not isinstance(given, str)
        orders = [_order(domain, order, quote=not several) for order in (given if several else [given])]
        if target is not None:
            return cls(domain, _around(domain, orders, target))
        counts = [math.comb(len(domain), order) for order in orders]
        if len(set(orders)) < len(orders):
            raise ValueError(f"k ({len(orders)} orders) must not repeat an order")
        if sum(counts) > MOST_MARGINALS:
            raise ValueError(f"workload ({sum(counts)} marginals) must have at most 2^24: sample it")
        marginals = (itertools.combinations(range(len(domain)), order) for order in orders)
        flat = itertools.chain.from_iterable(itertools.chain.from_iterable(marginals))
        attributes = np.fromiter(flat, np.int32, int(np.dot(orders, counts)))
        starts = np.cumsum(np.repeat([0, *orders], [1, *counts]), dtype=np.int64)
        return object.__new__(Workload)._fill(domain, attributes, starts)

    @classmethod
    def sample(cls, domain: Domain, k: int, size: int, seed: int) -> Workload:
        """`size` distinct marginals of k attributes, sampled uniformly, in the order of `all`.

        The sample is public: the same seed gives the same marginals everywhere.

        >>> list(Workload.sample(Domain({"a": 2, "b": 2, "c": 2, "d": 2}), k=2, size=3, seed=0))
        [('b', 'c'), ('b', 'd'), ('c', 'd')]
        """
        k = _order(domain, k)
        size = check_integer("size", size, 0, min(math.comb(len(domain), k), MOST_MARGINALS))
        rows = sample_combinations(len(domain), k, size, check_integer("seed", seed, 0, 2**64 - 1))
        starts = np.arange(size + 1, dtype=np.int64) * k
        return object.__new__(Workload)._fill(domain, rows.ravel(), starts)

    @property
    def cells(self) -> int:
        """The number of cells of all marginals together."""
        return int(self.offsets[-1])

    def order(self, j: int) -> int:
        """The number of attributes of marginal j."""
        return len(self._marginal_positions(j))

    def shape(self, j: int) -> tuple[int, ...]:
        """The sizes of marginal j's attributes: answers[offsets[j]:offsets[j + 1]] has this shape."""
        return tuple(self.domain.sizes[a] for a in self._marginal_positions(j))

    def marginal(self, j: int) -> tuple[str, ...]:
        """The names of marginal j's attributes."""
        return tuple(self.domain.names[a] for a in self._marginal_positions(j))

    def _marginal_positions(self, j: int) -> list[int]:
        j = check_integer("j", j, 0, len(self) - 1)
        positions: list[int] = self.attributes[self.starts[j] : self.starts[j + 1]].tolist()
        return positions

    def index(self, names: Sequence[str]) -> int:
        """The index of the marginal of exactly these attributes, in any order."""
        positions = _positions(self.domain, "marginal", names)
        index = self._index
        if index is None:
            index = CombinationIndex(self.attributes, self.starts)
            self._set(_index=index)
        j = index.find(positions)
        if j < 0:
            raise ValueError(f"marginal ({_names(self.domain, positions)}) is not in the workload")
        return j

    def query(self, i: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The attributes and the values (codes) that cell i counts."""
        i = check_integer("i", i, 0, self.cells - 1)
        j = int(np.searchsorted(self.offsets, i, "right")) - 1
        values = np.unravel_index(i - int(self.offsets[j]), self.shape(j))
        return self.marginal(j), tuple(int(value) for value in values)

    def cell(self, names: Sequence[str], values: Sequence[int]) -> int:
        """The index of the cell of these values (codes) of these attributes, in any order."""
        j = self.index(names)
        expect("values", values, tuple | list | np.ndarray, "a tuple of codes")
        if len(values) != len(names):
            raise ValueError(f"values ({len(values)}) must be {len(names)} codes, one for each attribute")
        codes = dict(zip(names, values, strict=True))
        cell = 0
        for name, size in zip(self.marginal(j), self.shape(j), strict=True):
            cell = cell * size + check_integer(
                f"value of {shown(name)}", codes[name], 0, size - 1, quote=False
            )
        return int(self.offsets[j]) + cell

    def marginal_of(self, cells: npt.ArrayLike) -> Int64s:
        """The marginal of each of many cells."""
        positions = _indices("cells", cells, self.cells)
        return np.searchsorted(self.offsets, positions, "right").astype(np.int64) - 1

    def cells_of(self, marginals: npt.ArrayLike) -> Int64s:
        """Every cell of some marginals, marginal after marginal, in the given order.

        >>> Workload(Domain({"age": 3, "sex": 2}), [("age",), ("sex",)]).cells_of([1, 0])
        array([3, 4, 0, 1, 2])
        """
        return _ranges(self.offsets, _indices("marginals", marginals, len(self)))[0]

    def queries(self, cells: npt.ArrayLike) -> Queries:
        """The attributes and values of many cells at once.

        >>> Workload.all(Domain({"age": 10, "sex": 2}), k=2).queries([7]).values
        array([3, 1], dtype=uint32)
        """
        positions = _indices("cells", cells, self.cells)
        return find_queries(self.domain, self.attributes, self.starts, self.offsets, positions)

    def sensitivity(self, marginals: npt.ArrayLike, cells_changed: int = CELLS_CHANGED_PER_MARGINAL) -> int:
        """L1 and squared L2 sensitivity of these marginals: the number of counts that a record changes by 1.

        A replaced record leaves one cell of a marginal and enters another (cells_changed: 2); an added or
        removed record changes one. A marginal of a single cell changes by at most 1.

        >>> workload = Workload.all(Domain({"age": 10, "sex": 2, "one": 1}), k=1)
        >>> workload.sensitivity([0, 1, 2]), workload.sensitivity([0, 1, 2], cells_changed=1)
        (5, 3)
        """
        chosen = _indices("marginals", marginals, len(self))
        cells = self.offsets[chosen + 1] - self.offsets[chosen]
        return int(
            np.minimum(
                cells, check_integer("cells_changed", cells_changed, 1, CELLS_CHANGED_PER_MARGINAL)
            ).sum()
        )

    def select(self, marginals: npt.ArrayLike) -> Workload:
        """The workload of some of the marginals, in the given order."""
        chosen = _indices("marginals", marginals, len(self))
        if len(np.unique(chosen)) < len(chosen):
            raise ValueError("marginals must not repeat one")
        return object.__new__(Workload)._fill(self.domain, *_gather(self.attributes, self.starts, chosen))

    def fingerprint(self) -> str:
        """A SHA-256 (hexadecimal): equal for equal workloads only."""
        parts = (self.starts.astype("<i8").tobytes(), self.attributes.astype("<i4").tobytes())
        return hashlib.sha256(b"".join([self.domain.fingerprint().encode(), *parts])).hexdigest()

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        names, flat = self.domain.names, self.attributes.tolist()
        for start, end in itertools.pairwise(self.starts.tolist()):
            yield tuple(names[position] for position in flat[start:end])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Workload):
            return NotImplemented
        if self.domain != other.domain or not np.array_equal(self.starts, other.starts):
            return False
        return np.array_equal(self.attributes, other.attributes)

    def __hash__(self) -> int:
        return hash((self.domain, len(self), self.cells))

    def __reduce__(self) -> tuple[object, ...]:
        return Workload, (self.domain, list(self))

    def __repr__(self) -> str:
        orders = np.unique(np.diff(self.starts)).tolist()
        of = "" if not orders else f" of order {orders[0]}" + (f" to {orders[-1]}" if len(orders) > 1 else "")
        return f"Workload({len(self)} marginal{'s' * (len(self) != 1)}{of}, {self.cells} cells)"

    def _repr_html_(self) -> str | None:
        from privmw.report import panel  # here: only a notebook needs it

        return panel(self)


def find_queries(
    domain: Domain, attributes: Int32s, starts: Int64s, offsets: Int64s, cells: Int64s
) -> Queries:
    """The queries of cells; attributes, starts, offsets: as in a Workload, for marginals of any order."""
    marginals = np.searchsorted(offsets, cells, "right").astype(np.int64) - 1
    rest = cells - offsets[marginals]
    query_attributes, begins = _gather(attributes, starts, marginals)
    values = np.empty(len(query_attributes), np.uint32)
    # Division takes most of the time, and is far faster in 32 bits, which suffice for most marginals.
    kind = np.uint32 if rest.max(initial=0) < 2**32 else np.int64
    rest, sizes = rest.astype(kind), np.array(domain.sizes, kind)
    for back in range(1, int(np.diff(begins).max(initial=0)) + 1):  # the last attribute first
        entry = begins[1:] - back
        long = entry >= begins[:-1]
        rows = slice(None) if long.all() else np.flatnonzero(long)
        size = sizes[query_attributes[entry[rows]]]
        rest[rows], values[entry[rows]] = np.divmod(rest[rows], size)
    return Queries(marginals, begins, query_attributes, values)


def _gather(attributes: Int32s, starts: Int64s, marginals: Int64s) -> tuple[Int32s, Int64s]:
    """The attributes of some marginals, and their starts."""
    entries, begins = _ranges(starts, marginals)
    return attributes[entries], begins


def _ranges(starts: Int64s, chosen: Int64s) -> tuple[Int64s, Int64s]:
    """The integers starts[j] to starts[j + 1] - 1 for each chosen j in turn, and the start of each range."""
    sizes = starts[chosen + 1] - starts[chosen]
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return np.arange(begins[-1]) + np.repeat(starts[chosen] - begins[:-1], sizes), begins


def check_workload(workload: Any, domain: Domain, owner: str) -> None:
    """Check that an argument is a Workload on the domain of its owner (a table or a support)."""
    expect("workload", workload, Workload, "a Workload")
    if workload.domain != domain:
        raise ValueError(f"workload ({shown(workload)}) must be on the domain of the {owner}")


def _order(domain: Domain, k: object, *, quote: bool = True) -> int:
    check_domain(domain)
    order = check_integer("k", k, 1, LARGEST_ORDER, quote=quote)
    if order > len(domain):
        raise ValueError(f"k ({order}) must be at most the number of attributes, {len(domain)}")
    return order


def _positions(domain: Domain, what: str, names: Any) -> list[int]:
    expect(what, names, tuple | list, "a tuple of names, such as ('age',)", quote=False)
    positions = positions_of(domain, names, what)
    if len(set(positions)) < len(positions):
        raise ValueError(f"{what} ({_names(domain, positions)}) must not name an attribute twice")
    if not 1 <= len(positions) <= LARGEST_ORDER:
        raise ValueError(f"{what} ({len(positions)} attributes) must have 1 to {LARGEST_ORDER} attributes")
    return positions


def _names(domain: Domain, positions: Iterable[int]) -> str:
    return ", ".join(shown(domain.names[a]) for a in positions)


def _indices(name: str, values: Any, limit: int) -> Int64s:
    array = np.asarray(values)
    whole = array.ndim == 1 and (not len(array) or array.dtype.kind in "iu")
    expect(name, array, whole, "a 1-D array of integers")
    if len(array) and not (int(array.min()) >= 0 and int(array.max()) < limit):
        bad = int(((array < 0) | (array >= limit)).argmax())
        raise ValueError(f"{name}[{bad}] must be from 0 to {limit - 1}")
    return array.astype(np.int64)


def _around(domain: Domain, orders: Sequence[int], target: str) -> Iterator[tuple[str, ...]]:
    """All marginals of the smaller orders, and those of the largest order that hold the target."""
    expect("target", target, str, "the name of an attribute")
    if target not in domain:
        raise ValueError(f"target ({shown(target)}) must be an attribute of the domain")
    largest = max(orders)
    smaller = sorted({largest - 1, *orders} - {0, largest})
    others = [name for name in domain.names if name != target]
    for order in smaller:
        yield from itertools.combinations(domain.names, order)
    for rest in itertools.combinations(others, largest - 1):
        yield (target, *rest)


def sample_combinations(n: int, k: int, size: int, seed: int) -> npt.NDArray[np.int32]:
    """`size` distinct combinations, every such set equally likely, even if there are too many to list.

    It uses only the bits of Python's Mersenne Twister, which are the same in every version.

    >>> sample_combinations(100, 3, 2, seed=0).tolist()
    [[27, 53, 64], [31, 47, 92]]
    """
    bits = random.Random(seed).getrandbits
    total = math.comb(n, k)
    ranks: set[int] = set()
    for last in range(total - size, total):  # Floyd's sampling without replacement
        rank = bits(last.bit_length())
        while rank > last:
            rank = bits(last.bit_length())
        ranks.add(last if rank in ranks else rank)
    return combinations_at(n, k, sorted(ranks))


def combinations_at(n: int, k: int, ranks: list[int]) -> npt.NDArray[np.int32]:
    """The combinations of given ranks.

    >>> combinations_at(4, 2, [0, 1, 5]).tolist()
    [[0, 1], [0, 2], [2, 3]]
    """
    total = math.comb(n, k)
    exact = np.int64 if total < 2**63 else np.object_  # Python integers where 64 bits are too few
    # Counted from the last combination, a rank is C(m_k, k) + ... + C(m_1, 1) with m_k > ... > m_1, in one
    # way only, found greedily; the row is then n - 1 - m_k, ..., n - 1 - m_1.
    rest: npt.NDArray[Any] = np.array([total - 1 - rank for rank in ranks], exact)
    rows = np.empty((len(ranks), k), np.int32)
    for column in range(k):
        below: npt.NDArray[Any] = np.array([math.comb(m, k - column) for m in range(n)], exact)
        m = np.searchsorted(below, rest, "right") - 1
        rows[:, column] = n - 1 - m
        rest = rest - below[m]
    return rows


class CombinationIndex:
    """An index of combinations of mixed sizes (flat, with their starts), to find one by its items.

    >>> CombinationIndex(np.array([2, 0, 1], np.int32), np.array([0, 2, 3])).find([0, 2])
    0
    """

    __slots__ = ("_columns", "_order")

    def __init__(self, flat: npt.NDArray[np.int32], starts: npt.NDArray[np.int64]) -> None:
        sizes = np.diff(starts)
        rows = np.full((len(sizes), int(sizes.max(initial=0))), -1, np.int32)
        for size in np.unique(sizes).tolist():
            of_size = np.flatnonzero(sizes == size)
            rows[of_size, :size] = np.sort(flat[starts[of_size, None] + np.arange(size)], axis=1)
        self._order = np.lexsort(rows.T[::-1]) if rows.size else np.empty(0, np.int64)
        self._columns = np.ascontiguousarray(rows[self._order].T)

    def find(self, items: list[int]) -> int:
        """The position of the combination of these items (in any order), or -1."""
        if len(items) > len(self._columns):
            return -1
        low, high = 0, len(self._order)
        padding = [-1] * (len(self._columns) - len(items))
        for column, item in zip(self._columns, sorted(items) + padding, strict=True):
            target = np.int32(item)  # of the column's dtype, or searchsorted would convert the column
            left, right = (int(np.searchsorted(column[low:high], target, side)) for side in ("left", "right"))
            low, high = low + left, low + right
        return int(self._order[low]) if low < high else -1
