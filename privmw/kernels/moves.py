"""Moves: Gibbs updates of records, given values of a workload's cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privmw.kernels import choice
from privmw.kernels.arrays import Float64s, Int32s, Int64s, UInt32s, UInt64s
from privmw.kernels.cells import check_marginals, to_integers
from privmw.kernels.checks import (
    check_apart,
    check_array,
    check_integer,
    check_length,
    check_number,
)
from privmw.kernels.choice import backend, threads_of
from privmw.secrecy import expect


class Moves:
    """Gibbs moves of many records at once; the score of a record is the sum of the values of its cells.

    Marginal j has the attributes (ascending) attributes[starts[j]:starts[j + 1]]; its cells come in C order,
    the last attribute fastest, and the marginals one after the other, as in Marginals. Records are rows of a
    two-dimensional array of codes, one column per attribute. All values are zero until they are set.
    threads: the default of the methods.

    >>> moves = Moves([3, 2], np.array([0, 1], np.int32), np.array([0, 2]))
    >>> moves.set_values(np.array([0.0, 0.0, 1.0, 9.0, 0.0, 0.0]))
    >>> codes = np.array([[0, 0], [1, 1]], np.uint32)
    >>> moves.potentials(codes)
    array([0., 9.])
    >>> words = np.array([2**63, 2**63], np.uint64)
    >>> moves.redraw(codes, [1], np.zeros((2, 2), np.uint32), 0.1, [np.array([0.45, 0.45])], [words])
    >>> codes
    array([[0, 0],
           [1, 1]], dtype=uint32)
    """

    def __init__(
        self, sizes: Sequence[int], attributes: Int32s, starts: Int64s, *, threads: int | None = None
    ) -> None:
        expect("sizes", sizes, isinstance(sizes, Sequence) and len(sizes) > 0, "a list, not empty")
        self.sizes = tuple(
            check_integer(f"sizes[{a}]", size, 1, 2**32 - 1, quote=False) for a, size in enumerate(sizes)
        )
        self._sizes_array = np.array(self.sizes, np.uint32)
        attributes, starts, self._first_cells = check_marginals(self.sizes, attributes, starts)
        self.cells = int(self._first_cells[-1])
        self._threads = threads_of(threads)
        self._core = choice.kernels.Moves(self.sizes, attributes, starts)

    def set_values(self, values: Float64s) -> None:
        """Sets the value of each cell, rounded to an integer on the scale of Marginals.potentials."""
        check_length("values", check_array("values", values, np.float64), self.cells)
        self._core.set_values(*to_integers(values, self._first_cells))

    def redraw(
        self,
        codes: UInt32s,
        attributes: Sequence[int],
        kept: UInt32s,
        keep: float,
        base: Sequence[Float64s],
        words: Sequence[UInt64s],
        *,
        threads: int | None = None,
    ) -> None:
        """Redraw codes[:, a] in place for each a of attributes, one after the other.

        Value v has probability proportional to (keep * [v == kept] + base[v]) * exp(score with value v); only
        the marginals of the attribute matter. A record's draw is the inverse of the cumulative sum at
        (word >> 11) / 2^53: the bits depend neither on the other records nor on the backend or the threads,
        nor on how many attributes a call draws. One call for many attributes is faster than one for each.

        codes: records x attributes. kept: of the same shape, the values that have the additional weight
        `keep`. base: for each attribute drawn, the weights of its values. words: for each attribute drawn,
        one random word per record.
        """
        self._check_codes("codes", codes)
        if not codes.flags.writeable:
            raise ValueError("codes must be writable")
        for name, argument in (("attributes", attributes), ("base", base), ("words", words)):
            expect(name, argument, Sequence, "a list")
        if not len(attributes) == len(base) == len(words):
            raise ValueError(
                f"base and words must have one array for each of the {len(attributes)} attributes"
            )
        redrawn = [
            check_integer(f"attributes[{place}]", a, 0, len(self.sizes) - 1, quote=False)
            for place, a in enumerate(attributes)
        ]
        self._check_codes("kept", kept)
        check_length("kept", kept, len(codes))
        keep = check_number("keep", keep)
        check_apart("codes", codes, kept=kept)
        for a, weights, of_records in zip(redrawn, base, words, strict=True):
            check_length("base", check_array("base", weights, np.float64), self.sizes[a])
            if not (0 <= keep <= 2.0**900 and weights.min() >= 0 and weights.max() <= 2.0**900):
                raise ValueError("keep and base must be from 0 to 2^900")
            if keep == 0 and not weights.any():
                raise ValueError("keep and base must not all be zero")
            check_length("words", check_array("words", of_records, np.uint64), len(codes))
            check_apart("codes", codes, base=weights, words=of_records)
        count = self._threads if threads is None else threads_of(threads)
        self._core.redraw(codes, redrawn, kept, keep, list(base), list(words), count)

    def potentials(self, codes: UInt32s, *, threads: int | None = None) -> Float64s:
        """For each record the sum of the values of its cells, with the bits of Marginals.potentials."""
        self._check_codes("codes", codes)
        out = np.empty(len(codes))
        self._core.potentials(codes, out, self._threads if threads is None else threads_of(threads))
        return out

    def _check_codes(self, name: str, codes: UInt32s) -> None:
        """Raise unless codes are a contiguous two-dimensional array, and below their sizes."""
        plain = type(codes) in (np.ndarray, np.memmap) and codes.dtype == np.uint32 and codes.ndim == 2
        sound = plain and codes.flags.c_contiguous and codes.flags.aligned
        expect(name, codes, bool(sound), "a contiguous two-dimensional array of uint32")
        if codes.shape[1] != len(self.sizes):
            raise ValueError(f"{name} ({codes.shape[1]} columns) must have {len(self.sizes)} columns")
        too_large = _largest_codes(codes) >= self._sizes_array
        if too_large.any():
            a = int(too_large.argmax())
            raise ValueError(f"{name} of attribute {a} must be below its size ({self.sizes[a]})")

    @property
    def nbytes(self) -> int:
        """Bytes allocated between calls: the values, and the shapes of the marginals."""
        return self._core.nbytes()

    def __repr__(self) -> str:
        return f"Moves({self.cells} cells over {len(self.sizes)} attributes, {backend()})"


def _largest_codes(codes: UInt32s) -> UInt32s:
    """The largest code of each column; 32 rows at once, since numpy is slow on short rows."""
    width = codes.shape[1]
    even = len(codes) // 32 * 32
    largest = codes[:even].reshape(-1, 32 * width).max(axis=0, initial=0).reshape(32, width).max(axis=0)
    largest_of_all: UInt32s = np.maximum(largest, codes[even:].max(axis=0, initial=0))
    return largest_of_all
