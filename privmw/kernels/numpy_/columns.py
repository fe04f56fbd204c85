"""Columns in numpy alone: the twin of csrc/core/columns.hpp."""

from __future__ import annotations

from collections.abc import Sequence

from privmw.kernels.arrays import Codes


class Columns:
    """Codes, one array per attribute."""

    def __init__(self, columns: Sequence[Codes], sizes: Sequence[int], threads: int) -> None:
        self.columns = list(columns)
        self.sizes = list(sizes)

    def nbytes(self) -> int:
        """Bytes allocated beside the caller's codes."""
        return 0
