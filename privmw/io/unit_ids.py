"""Hashes the unit ids of Arrow columns. This module imports pyarrow: import it late.

Ids of private records are private: a message names the column and the rule, and no id is stored.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privmw.data.row_hash import Hashes
from privmw.data.unit import INTEGER, as_integer, integer_hashes, text_hashes
from privmw.io.encode import STRINGS, check_indices, kind_name
from privmw.io.forms import UNREADABLE
from privmw.secrecy import shown

SHORT = 18  # characters of an integer that always fits 64 bits


class UnitIds:
    """The hashes of the ids in one column, array after array: `privmw.data.unit.id_hashes`, vectorised.

    >>> ids = UnitIds("household")
    >>> len(set(ids.hashes(pa.array([17, 3, 17])).tolist()))
    2
    >>> _ = ids.hashes(pa.array(["x", None]))
    >>> ids.check()
    Traceback (most recent call last):
    ValueError: column 'household': every record must have an id, none missing or empty
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._missing = False

    def hashes(self, column: Any) -> Hashes:
        """The hashes of an Arrow array; call `check` before using them."""
        hashes = None
        with suppress(pa.ArrowException):  # its message can quote ids
            hashes = self._hashes(column)
        if hashes is None:
            raise ValueError(f"column {shown(self.name)} must be one that Arrow can read")
        return hashes

    def check(self) -> None:
        """Raise if any id so far was missing: such a record could belong to any unit."""
        if self._missing:
            raise ValueError(
                f"column {shown(self.name)}: every record must have an id, none missing or empty"
            )

    def _hashes(self, column: Any) -> Hashes:
        kind = column.type
        self._missing |= column.null_count > 0
        if len(column) == 0:
            return np.zeros(0, np.uint64)
        if pa.types.is_dictionary(kind):
            check_indices(column)
            if column.null_count:
                return np.zeros(len(column), np.uint64)
            used = np.zeros(len(column.dictionary), bool)
            used[column.indices.to_numpy()] = True
            if not used.all():  # unused entries may be missing
                return self._hashes(column.dictionary_decode())
            hashes: Hashes = self._hashes(column.dictionary)[column.indices.to_numpy()]
            return hashes
        if pa.types.is_null(kind):
            return np.zeros(len(column), np.uint64)
        if pa.types.is_integer(kind):
            return integer_hashes((column.fill_null(0) if column.null_count else column).to_numpy())
        if str(kind) in STRINGS:
            return self._of_texts(column.cast(pa.large_string()).fill_null(""))
        raise TypeError(
            f"column {shown(self.name)} of kind {kind_name(kind)} must hold integers or text: ids of units"
        )

    def _of_texts(self, texts: Any) -> Hashes:
        if len(texts) == 0:
            return np.zeros(0, np.uint64)
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        starts, lengths = ends[:-1], np.diff(ends)
        self._missing |= bool((lengths == 0).any()) or bool(
            pc.any(pc.match_substring(texts, UNREADABLE)).as_py()
        )
        letters = np.frombuffer(b"" if data is None else data, np.uint8)
        hashes = text_hashes(letters, starts, lengths)
        integers = pc.match_substring_regex(texts, f"^({INTEGER.pattern})$").to_numpy(zero_copy_only=False)
        short = integers & (lengths <= SHORT)
        hashes[short] = integer_hashes(texts.filter(pa.array(short)).cast(pa.int64()).to_numpy())
        for place in np.flatnonzero(integers & ~short).tolist():
            number = as_integer(texts[place].as_py())
            if isinstance(number, int):
                hashes[place] = integer_hashes(np.array([number % 2**64], np.uint64))[0]
        return hashes
