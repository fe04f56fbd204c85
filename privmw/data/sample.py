"""A sample of public records, with the traces of their raw values, which a support keeps.

A support merges records into distinct rows. The check that public records are not copies of private ones
compares whole records (privmw/curator/overlap.py); a bounded sample is enough for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privmw.data.table import Table

SAMPLE_SIZE = 2**18  # at most


class Sample(NamedTuple):
    """Public records, and the number that they were sampled from; no table if a rank has no records."""

    table: Table | None
    records: int


class Sampler:
    """Samples every k-th record of the tables that are added; k is the smallest that SAMPLE_SIZE allows.

    >>> from privmw import Domain
    >>> table = Table.from_codes([[0], [1], [2]], Domain({"age": 3}), private=False)
    >>> sampler = Sampler(most=4)
    >>> for _ in range(3):
    ...     sampler.add(table)
    >>> sampler.sample().table.codes().ravel().tolist(), sampler.sample().records
    ([0, 1, 2], 9)
    """

    def __init__(self, most: int = SAMPLE_SIZE) -> None:
        self._most = most
        self._step = 1
        self._seen = 0
        self._parts: list[Table] = []

    def add(self, table: Table) -> None:
        """Add the next records."""
        step = self._step
        while -(-(self._seen + table.n) // self._step) > self._most:
            self._step *= 2
        if self._step > step and self._parts:  # the sample so far: records 0, step, 2 * step, ...
            joined = Table.concatenate(self._parts)
            self._parts = [joined.take(np.arange(0, joined.n, self._step // step))]
        rows = np.arange(-self._seen % self._step, table.n, self._step)
        if len(rows):
            self._parts.append(table if len(rows) == table.n else table.take(rows))
        self._seen += table.n

    def sample(self) -> Sample:
        """The sample of all records that were added."""
        if len(self._parts) > 1:
            self._parts = [Table.concatenate(self._parts)]
        return Sample(self._parts[0] if self._parts else None, self._seen)
