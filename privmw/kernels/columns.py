"""The door of columns: codes of rows, checked once, made ready for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmw.kernels.checks import check_columns
from privmw.kernels.choice import backend, kernels, threads_of

Codes = npt.NDArray[np.unsignedinteger[Any]]


class Columns:
    """Columns of codes made ready for evaluation: `columns[a]` holds codes below `sizes[a]`, one per row.

    A column is uint8, uint16 or uint32, contiguous, and copied unless nobody can write to it: kernels index
    memory by its codes.

    >>> columns = Columns([np.array([3, 9, 3], np.uint8), np.array([0, 1, 1], np.uint8)], [10, 2])
    >>> columns.rows
    3
    """

    def __init__(self, columns: Sequence[Codes], sizes: Sequence[int], *, threads: int | None = None) -> None:
        checked, checked_sizes = check_columns(columns, sizes)
        self.columns, self.sizes = tuple(checked), tuple(checked_sizes)
        self.rows = len(self.columns[0])
        self._core = kernels.Columns(self.columns, self.sizes, threads_of(threads))

    @property
    def nbytes(self) -> int:
        """Bytes held beside the codes."""
        return int(self._core.nbytes())

    def __repr__(self) -> str:
        return f"Columns({self.rows} rows x {len(self.sizes)} attributes, {backend()})"
