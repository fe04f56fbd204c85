"""Products in numpy alone: the twin of csrc/core/products.hpp.

Matrix products are stacks of small ones, which OpenBLAS computes on one thread each: results have the same
bits for any number of its threads, and it starts none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from privmw.kernels.arrays import Array, Int32s, Int64s

# OpenBLAS computes a matrix product of at most 2^18 multiplications on one thread.
_ROWS, _VALUES, _PRODUCTS = 16, 64, 256
_BLOCK_ROWS = 64 * _ROWS  # taken together: 1 MB of single precision


@dataclass(frozen=True)
class _Group:
    """Marginals that differ in one attribute, the hub: they share the products of the others' tables.

    Marginal i has the cells places[i], which in the order of `axes[i]` are the combinations of the others'
    values, each with all values of the hub: the columns columns[i] of the group.
    """

    shape: tuple[int, ...]  # of the other attributes
    firsts: tuple[int, ...]  # their first rows in the stacked tables
    hub_rows: Int64s  # rows of the stacked tables, all hubs one after the other
    columns: list[slice]
    places: list[slice]
    shapes: list[tuple[int, ...]]
    axes: list[tuple[int, ...]]

    @property
    def rows(self) -> int:
        """Combinations of the others' values."""
        return math.prod(self.shape)

    def others(self, begin: int, end: int) -> list[Int64s]:
        """For each other attribute the rows of the stacked tables that these combinations multiply."""
        numbers = np.arange(begin, end)
        values = np.unravel_index(numbers, self.shape) if self.shape else ()
        return [first + value for first, value in zip(self.firsts, values, strict=True)]

    def gathered(self, cells: Array) -> Array:
        """The values of the group's cells as a matrix: a row for each combination, a column a hub's value."""
        matrix = np.empty((self.rows, len(self.hub_rows)), cells.dtype)
        for view, columns in self._views(cells):
            matrix[:, columns] = view.reshape(self.rows, -1)
        return matrix

    def scatter(self, matrix: Array, cells: Array) -> None:
        """Writes the matrix to the cells."""
        for view, columns in self._views(cells):
            view[:] = matrix[:, columns].reshape(view.shape)

    def _views(self, cells: Array) -> Iterator[tuple[Array, slice]]:
        for place, shape, axes, columns in zip(
            self.places, self.shapes, self.axes, self.columns, strict=True
        ):
            yield cells[place].reshape(shape).transpose(axes), columns


class Products:
    """Cells of marginals of a mixture of products, and their gradient."""

    def __init__(self, sizes: Sequence[int], attributes: Int32s, starts: Int64s) -> None:
        first_rows = list(itertools.accumulate(sizes, initial=0))
        marginals = [attributes[a:b].tolist() for a, b in itertools.pairwise(starts.tolist())]
        by_others: dict[tuple[int, ...], list[tuple[int, list[int], slice]]] = {}
        begin = 0
        for marginal in marginals:
            # The largest attribute is the hub: fewest combinations of the others, shared by most marginals.
            *others, hub = sorted(marginal, key=lambda a: (sizes[a], a))
            end = begin + math.prod(sizes[a] for a in marginal)
            by_others.setdefault(tuple(others), []).append((hub, marginal, slice(begin, end)))
            begin = end
        self._groups = []
        for group, members in by_others.items():
            hubs = [hub for hub, _, _ in members]
            ends = list(itertools.accumulate((sizes[hub] for hub in hubs), initial=0))
            self._groups.append(
                _Group(
                    tuple(sizes[a] for a in group),
                    tuple(first_rows[a] for a in group),
                    np.concatenate([np.arange(first_rows[hub], first_rows[hub + 1]) for hub in hubs]),
                    [slice(*pair) for pair in itertools.pairwise(ends)],
                    [place for _, _, place in members],
                    [tuple(sizes[a] for a in marginal) for _, marginal, _ in members],
                    [tuple(marginal.index(a) for a in (*group, hub)) for hub, marginal, _ in members],
                )
            )

    def answers(self, tables: Array, weights: Array, out: Array, threads: int) -> None:
        """Writes for each cell the sum over products of weight times the entries of its values."""
        for group in self._groups:
            hubs = tables[group.hub_rows]
            matrix = np.zeros((group.rows, len(hubs)), tables.dtype)
            for begin in range(0, group.rows, _BLOCK_ROWS):
                some = matrix[begin : begin + _BLOCK_ROWS]
                others = group.others(begin, begin + len(some))
                for products in _slices(tables.shape[1], _PRODUCTS):
                    combined = _combined(tables[:, products], weights[products], others)
                    for values in _slices(len(hubs), _VALUES):
                        part = combined @ hubs[values, products].T
                        some[:, values] += part.reshape(-1, part.shape[2])[: len(some)]
            group.scatter(matrix, out)

    def gradient(
        self,
        tables: Array,
        weights: Array,
        by_cell: Array,
        by_tables: Array,
        by_weights: Array,
        threads: int,
    ) -> None:
        """Writes the derivatives by tables and weights of a loss with these derivatives by cells."""
        by_tables[:], by_weights[:] = 0, 0
        for group in self._groups:
            hubs, matrix = tables[group.hub_rows], group.gathered(by_cell)
            by_hubs = np.zeros_like(hubs)
            for begin in range(0, group.rows, _BLOCK_ROWS):
                some = matrix[begin : begin + _BLOCK_ROWS]
                others = group.others(begin, begin + len(some))
                pull = _padded(some)
                for products in _slices(tables.shape[1], _PRODUCTS):
                    here = tables[:, products]
                    combined = _combined(here, weights[products], others)
                    by_combined = np.zeros_like(combined)
                    for values in _slices(len(hubs), _VALUES):
                        by_combined += pull[:, :, values] @ hubs[values, products]
                        by_hubs[values, products] += (pull[:, :, values].transpose(0, 2, 1) @ combined).sum(0)
                    flat = by_combined.reshape(-1, by_combined.shape[2])[: len(some)]
                    _add_by_factors(
                        here, weights[products], others, flat, by_tables[:, products], by_weights[products]
                    )
            np.add.at(by_tables, group.hub_rows, by_hubs)


def _slices(length: int, step: int) -> Iterator[slice]:
    for begin in range(0, length, step):
        yield slice(begin, min(begin + step, length))


def _padded(rows: Array) -> Array:
    """A stack of _ROWS rows each, the last filled up with zeros."""
    count = min(_ROWS, len(rows))
    stack = -(-len(rows) // count)
    padded = np.zeros((stack * count, rows.shape[1]), rows.dtype)
    padded[: len(rows)] = rows
    return padded.reshape(stack, count, -1)


def _combined(tables: Array, weights: Array, others: list[Int64s]) -> Array:
    """For each combination the product of the weights and the others' tables, as a stack."""
    if not others:
        return _padded(weights[None])
    combined = weights * tables[others[0]]
    for rows in others[1:]:
        combined *= tables[rows]
    return _padded(combined)


def _add_by_factors(
    tables: Array,
    weights: Array,
    others: list[Int64s],
    by_combined: Array,
    by_tables: Array,
    by_weights: Array,
) -> None:
    """Adds the derivatives by the factors of each combination, given those by their product."""
    for at, rows in enumerate(others):
        terms = by_combined * weights
        for other, factor in enumerate(others):
            if other != at:
                terms *= tables[factor]
        order = np.argsort(rows, kind="stable")
        values, starts = np.unique(rows[order], return_index=True)
        by_tables[values] += np.add.reduceat(terms[order], starts, axis=0)
    terms = by_combined.copy()
    for factor in others:
        terms *= tables[factor]
    by_weights += terms.sum(0)
