"""A sample of public records, with the traces of their raw values: what a support keeps of them.

A support merges records into distinct rows of codes. Whether public records are private ones is decided by
whole records (privmw/curator/overlap.py), of which a bounded number is enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privmw.data.table import Table

MOST = 2**18  # records of a sample


class Sample(NamedTuple):
    """Public records, and the number of those they were drawn from; no table where a rank has no records."""

    table: Table | None
    records: int


class Sampler:
    """Every k-th record of tables that are added one after the other, k as small as MOST allows.

    >>> from privmw import Domain
    >>> table = Table.from_codes([[0], [1], [2]], Domain({"age": 3}), private=False)
    >>> sampler = Sampler(most=4)
    >>> for _ in range(3):
    ...     sampler.add(table)
    >>> sampler.sample().table.codes().ravel().tolist(), sampler.sample().records
    ([0, 1, 2], 9)
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._step = 1
        self._seen = 0
        self._parts: list[Table] = []

    def add(self, table: Table) -> None:
        """Add the records that come next."""
        step = self._step
        while -(-(self._seen + table.n) // self._step) > self._most:
            self._step *= 2
        if self._step > step and self._parts:  # what is there are the records 0, step, 2 * step, ...
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
