"""The unit of privacy: a person or household with several records, of which at most `at_most` enter.

The choice depends on the unit alone: on its id, and on the order of its own records. So one unit changes at
most `at_most` of the counted records, and does not affect which records of other units enter. Record number j
of a unit (from 0, in the order of the table) has the 32-bit priority hash(key, id, j); those of smallest
priority enter, ties going to the earlier record. Values of records are not used. The key is a public
constant: a resumed run, a second release and any number of ranks choose the same records, and a smaller
`at_most` chooses a subset.

Ids are hashed to 64 bits. Two ids of equal hash count as one unit. No id is stored.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from privmw.data.domain import Domain
from privmw.data.row_hash import Hashes, mixed
from privmw.kernels.arrays import Array, Bools, Int64s
from privmw.kernels.checks import check_integer
from privmw.secrecy import expect, shown

RECORD = "record"  # the unit of a table in which every record is protected by itself
LARGEST_UNIT = 2**31 - 1  # records: noise for more would exceed any count
MOST_RECORDS = 2**32 - 1  # that a curator counts

INTEGER = re.compile("0|-?[1-9][0-9]*")  # as it is written: one form for each

_KEY = np.uint64(0x7072_69766D_7720_75)  # "privmw u", in ASCII
_TEXT = np.uint64(0x9E3779B97F4A7C15)
_WORD_FACTOR = np.uint64(0xD1342543DE82EF95)
_PART = 2**22  # records sorted together, to bound memory


def checked_unit(unit: Any, at_most: object, domain: Domain, private: bool) -> tuple[str, int]:
    """Check a unit and its limit (default: "record" and 1).

    >>> domain = Domain({"age": 10})
    >>> checked_unit("household", 4, domain, True), checked_unit(None, None, domain, True)
    (('household', 4), ('record', 1))
    >>> checked_unit("age", 4, domain, True)
    Traceback (most recent call last):
    ValueError: unit ('age') must not be an attribute of the domain: ids are no values to release
    """
    if (unit is None) != (at_most is None):
        raise TypeError(f"unit ({shown(unit)}) and at_most ({shown(at_most)}) must be given together")
    if unit is None:
        return RECORD, 1
    expect("unit", unit, str, "the name of a column")
    if not unit.strip() or not unit.isprintable():
        raise ValueError(f"unit ({shown(unit)}) must be one line of printable text")
    if unit == RECORD:
        raise ValueError(f"unit ({shown(unit)}) must be what several records can belong to")
    if unit in domain.names:
        raise ValueError(
            f"unit ({shown(unit)}) must not be an attribute of the domain: ids are no values to release"
        )
    if not private:
        raise ValueError(f"unit ({shown(unit)}) must come with private=True: public records need no limit")
    return unit, check_integer("at_most", at_most, 1, LARGEST_UNIT)


def unit_in_words(unit: str, at_most: int) -> str:
    """The unit of privacy in words, to follow "one".

    >>> unit_in_words("household", 4), unit_in_words("record", 1)
    ('household of at most 4 records', 'record')
    """
    return unit if unit == RECORD else f"{unit} of at most {at_most:,} record{'' if at_most == 1 else 's'}"


def entering(hashes: Hashes, at_most: int) -> Bools:
    """Mask of the records that enter; hashes: of each record's unit, in the order of the table.

    Needs 9 bytes per record including the hash, and up to 50 for each of about 2^22 records at a time.

    >>> entering(integer_hashes(np.array([7, 7, 8, 7])), at_most=1).tolist()
    [False, False, True, True]
    """
    if len(hashes) > MOST_RECORDS:
        raise ValueError(f"table ({len(hashes)} records) must have fewer than 2^32 records")
    enters = np.ones(len(hashes), bool)
    bits = (len(hashes) // _PART).bit_length()
    for part in range(1 << bits):
        if bits == 0:
            enters[_leaving(hashes, at_most)] = False
        else:
            rows = np.flatnonzero(hashes >> np.uint64(64 - bits) == part)
            enters[rows[_leaving(hashes[rows], at_most)]] = False
    return enters


def _leaving(hashes: Hashes, at_most: int) -> Int64s:
    """The records that do not enter: those whose priority is not among the smallest of their unit."""
    # Few records are left to sort after two passes.
    crowded = _crowded(hashes, at_most)
    crowded = crowded[_crowded(hashes[crowded] >> np.uint64(32), at_most)]
    crowded = crowded[np.argsort(hashes[crowded], kind="stable")]
    units, numbers = _numbered(hashes[crowded])
    priorities = mixed(hashes[crowded] ^ mixed(numbers.astype(np.uint64))) >> np.uint64(32)
    # One key of both sorts 20 times as fast as two, as units are in order.
    order = np.argsort(units.astype(np.uint64) << np.uint64(32) | priorities, kind="stable")
    # Only records of the same unit have changed places: positions in the unit are now ranks.
    return crowded[order[numbers >= at_most]]


def _crowded(hashes: Hashes, at_most: int) -> Int64s:
    """Records in hash buckets of more than at_most: only their units can exceed the limit."""
    buckets = (hashes & np.uint64((1 << len(hashes).bit_length()) - 1)).view(np.int64)
    return np.flatnonzero((np.bincount(buckets) > at_most)[buckets])


def _numbered(ascending: Array) -> tuple[Int64s, Int64s]:
    """For each entry, the start of its run of equal entries, and its index within the run."""
    places = np.arange(len(ascending))
    first = np.ones(len(ascending), bool)
    first[1:] = ascending[1:] != ascending[:-1]
    starts = np.maximum.accumulate(np.where(first, places, 0))
    return starts, places - starts


def id_hashes(ids: Any) -> Hashes:
    """The hashes of a 1-D array of ids: integers or text, none missing.

    An integer and its decimal text are the same id, so csv and parquet files give the same choice, and no
    unit counts twice if files of a folder differ.

    >>> bool((id_hashes([17, 3]) == id_hashes(["17", "3"])).all())
    True
    """
    rule = "ids must hold integers or text, none missing or empty"
    if isinstance(ids, np.ma.MaskedArray):
        raise TypeError(rule)
    try:  # numpy would convert all entries of a mixed list to text
        array = np.array(ids, object) if isinstance(ids, list | tuple) else np.asarray(ids)
    except (TypeError, ValueError, OverflowError):  # numpy's message can quote the ids
        raise TypeError(rule) from None
    if array.ndim != 1:
        raise ValueError(f"ids ({array.ndim}-D) must be a 1-D array, one for each record")
    if array.dtype.kind in "iu":
        return integer_hashes(array)
    given = [_plain(value) for value in array.tolist()] if array.dtype.kind in "UO" else [None]
    if None in given:
        raise TypeError(rule)
    places = {value: place for place, value in enumerate(dict.fromkeys(given))}
    encoded = [str(value).encode("utf-8", "surrogatepass") for value in places]
    lengths = np.array([len(text) for text in encoded], np.int64)
    data = np.frombuffer(b"".join(encoded), np.uint8)
    hashes = text_hashes(data, np.cumsum(lengths) - lengths, lengths)
    integers = {place: value for value, place in places.items() if isinstance(value, int)}
    hashes[list(integers)] = integer_hashes(np.array([n % 2**64 for n in integers.values()], np.uint64))
    return hashes[[places[value] for value in given]]


def _plain(value: object) -> int | str | None:
    """An id as an integer (also if it is text of one), else as text; None if it is invalid."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        value = str(int(value))
    if not isinstance(value, str) or value == "":
        return None
    return as_integer(value) if INTEGER.fullmatch(value) else value


def as_integer(text: str) -> int | str:
    """The integer that a text writes, if it fits in 64 bits; else the text.

    >>> as_integer("-5"), as_integer("99999999999999999999")
    (-5, '99999999999999999999')
    """
    return int(text) if len(text) <= 20 and -(2**63) <= int(text) < 2**64 else text


def integer_hashes(ids: Array) -> Hashes:
    """The hashes of integer ids modulo 2^64: distinct within one dtype."""
    kind = np.uint64 if ids.dtype.kind == "u" else np.int64
    return mixed(ids.astype(kind).view(np.uint64) ^ _KEY)


def text_hashes(data: Array, starts: Int64s, lengths: Int64s) -> Hashes:
    """The hashes of texts, given as starts and lengths in the bytes of `data`; eight bytes at a time.

    >>> text = np.frombuffer(b"a house, a house", np.uint8)
    >>> hashes = text_hashes(text, np.array([0, 9, 9]), np.array([7, 7, 6]))
    >>> bool(hashes[0] == hashes[1]), bool(hashes[1] == hashes[2])
    (True, False)
    """
    padded = np.zeros(len(data) + 8, np.uint8)
    padded[: len(data)] = data
    words = np.ndarray(len(data) + 1, "<u8", padded, strides=(1,))  # the eight bytes from every place on
    hashes = mixed(lengths.astype(np.uint64) ^ _KEY ^ _TEXT)
    longer, place = np.flatnonzero(lengths > 0), 0
    while len(longer):
        left = lengths[longer] - place
        word = words[starts[longer] + place].astype(np.uint64)
        last = left < 8
        word[last] &= (np.uint64(1) << (8 * left[last]).astype(np.uint64)) - np.uint64(1)
        block = (hashes[longer] ^ word) * _WORD_FACTOR
        hashes[longer] = block ^ block >> np.uint64(32)
        longer, place = longer[left > 8], place + 8
    return mixed(hashes)
