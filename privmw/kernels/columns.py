"""Columns: codes of rows, checked once and prepared for evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from privmw.kernels import choice
from privmw.kernels.arrays import Codes
from privmw.kernels.checks import check_columns
from privmw.kernels.choice import backend, threads_of
from privmw.secrecy import expect


class Columns:
    """Columns of codes, prepared for evaluation: `columns[a]` holds codes below `sizes[a]`, one per row.

    A column is uint8, uint16 or uint32, contiguous, and copied unless it is read-only: kernels index memory
    by its codes.

    >>> import numpy as np
    >>> columns = Columns([np.array([3, 9, 3], np.uint8), np.array([0, 1, 1], np.uint8)], [10, 2])
    >>> columns.rows
    3
    """

    def __init__(self, columns: Sequence[Codes], sizes: Sequence[int], *, threads: int | None = None) -> None:
        checked, checked_sizes = check_columns(columns, sizes)
        self.columns, self.sizes = tuple(checked), tuple(checked_sizes)
        self.rows = len(self.columns[0])
        self._core = choice.kernels.Columns(self.columns, self.sizes, threads_of(threads))

    @property
    def nbytes(self) -> int:
        """Bytes allocated beside the codes."""
        return self._core.nbytes()

    def __repr__(self) -> str:
        return f"Columns({self.rows} rows x {len(self.sizes)} attributes, {backend()})"


def check_are_columns(columns: object) -> None:
    """Raise unless the argument is Columns."""
    expect("columns", columns, Columns, "Columns")
