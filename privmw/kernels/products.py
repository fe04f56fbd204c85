"""Products: marginals of a mixture of products of distributions, and their gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from privmw.kernels import choice
from privmw.kernels.arrays import Int32s, Int64s
from privmw.kernels.cells import check_marginals
from privmw.kernels.checks import check_array, check_integer, check_length, check_out
from privmw.kernels.choice import backend, threads_of
from privmw.secrecy import expect

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Float = TypeVar("Float", np.float32, np.float64)


class Products:
    """The cells of marginals of a mixture of K products, each with one table per attribute.

    Marginal j has the attributes (ascending) attributes[starts[j]:starts[j + 1]]; its cells come in C order,
    the last attribute fastest, and the marginals one after the other, as in Marginals. Tables are stacked:
    an array of width x K, width the sum of the sizes, where row v of an attribute has each product's share of
    its value v. A cell is the sum over products of a weight times the shares of the cell's values.
    Shares need not be distributions.

    All arrays are of single precision, or all of double. Sums are floating-point: the number of threads does
    not change their bits, the backend and the kind of processor may. Memory beside the arrays does not grow
    with cells times products. threads: the default of the methods.

    >>> products = Products([3, 2], np.array([0, 1], np.int32), np.array([0, 2]))
    >>> tables = np.array([[1.0, 0.5], [0.0, 0.5], [0.0, 0.0], [1.0, 0.5], [0.0, 0.5]])
    >>> products.answers(tables)
    array([0.625, 0.125, 0.125, 0.125, 0.   , 0.   ])
    >>> by_tables, by_weights = products.gradient(tables, np.array([1.0, 0, 0, 0, 0, 0]))
    >>> by_tables.tolist(), by_weights.tolist()
    ([[0.5, 0.25], [0.0, 0.0], [0.0, 0.0], [0.5, 0.25], [0.0, 0.0]], [1.0, 0.25])
    """

    def __init__(
        self, sizes: Sequence[int], attributes: Int32s, starts: Int64s, *, threads: int | None = None
    ) -> None:
        expect("sizes", sizes, isinstance(sizes, Sequence) and len(sizes) > 0, "a list, not empty")
        self.sizes = tuple(
            check_integer(f"sizes[{a}]", size, 1, 2**32 - 1, quote=False) for a, size in enumerate(sizes)
        )
        attributes, starts, first_cells = check_marginals(self.sizes, attributes, starts)
        self.cells, self.width = int(first_cells[-1]), sum(self.sizes)
        self._threads = threads_of(threads)
        self._core = choice.kernels.Products(self.sizes, attributes, starts)

    def answers(
        self,
        tables: npt.NDArray[Float],
        weights: npt.NDArray[Float] | None = None,
        *,
        out: npt.NDArray[Float] | None = None,
        threads: int | None = None,
    ) -> npt.NDArray[Float]:
        """The cells of all marginals. weights: one per product (default: equal)."""
        weights = self._check(tables, weights)
        written = check_out(out, tables.dtype, self.cells, tables=tables, weights=weights)
        count = self._threads if threads is None else threads_of(threads)
        self._core.answers(tables, weights, written, count)
        return written

    def gradient(
        self,
        tables: npt.NDArray[Float],
        by_cell: npt.NDArray[Float],
        weights: npt.NDArray[Float] | None = None,
        *,
        threads: int | None = None,
    ) -> tuple[npt.NDArray[Float], npt.NDArray[Float]]:
        """The gradient of a loss with respect to tables and weights, given that for the cells."""
        weights = self._check(tables, weights)
        check_length("by_cell", check_array("by_cell", by_cell, tables.dtype), self.cells)
        by_tables, by_weights = np.empty_like(tables), np.empty_like(weights)
        count = self._threads if threads is None else threads_of(threads)
        self._core.gradient(tables, weights, by_cell, by_tables, by_weights, count)
        return by_tables, by_weights

    def _check(self, tables: npt.NDArray[Float], weights: npt.NDArray[Float] | None) -> npt.NDArray[Float]:
        """Validate `tables`; return `weights`, or uniform weights."""
        plain = type(tables) in (np.ndarray, np.memmap) and tables.dtype in (np.float32, np.float64)
        sound = plain and tables.ndim == 2 and tables.flags.c_contiguous and tables.flags.aligned
        needed = "a contiguous two-dimensional array of float32 or float64"
        expect("tables", tables, bool(sound), needed)
        if len(tables) != self.width or not tables.shape[1]:
            raise ValueError(
                f"tables ({len(tables)} x {tables.shape[1]}) must have {self.width} rows and a column or more"
            )
        if weights is None:
            return np.full(tables.shape[1], 1 / tables.shape[1], tables.dtype)
        check_length("weights", check_array("weights", weights, tables.dtype), tables.shape[1])
        return weights

    def __repr__(self) -> str:
        return f"Products({self.cells} cells over {len(self.sizes)} attributes, {backend()})"
