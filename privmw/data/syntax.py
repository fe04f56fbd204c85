"""The syntax of a text file: separator, encoding, header, numbers, dates.

`privmw.io.detect` detects the syntax of a public file, and the domain stores it. A private file is read by a
given syntax, so that no record affects how another one is read. Nothing here reads a file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from privmw.secrecy import expect, shown

ORDERS = {"ymd": "year first", "dmy": "day first", "mdy": "month first"}
THOUSANDS = ",.'’ \u00a0\u202f"  # thousands separators
SYNTAX_KEY = "$syntax"  # of a domain file
# Encodings in which a character changes the meaning of later ones, or an escape can be a line break: one
# record could change how others are read.
_STATEFUL = "iso2022|hz|utf-7|unicode_escape|unicode-escape|raw|idna|punycode|charmap|undefined"


@dataclass(frozen=True)
class Syntax:
    r"""The syntax of a text file. None means: detected on a public file, and plain for a private one.

    separator: between columns, one character such as ";" or "\t" (plain: ",").
    encoding: "utf-8", "latin-1", "utf-16" or another that Python knows (plain: "utf-8").
    header: whether the first line names the columns (plain: True).
    decimal: the decimal mark of numbers, "." or "," (plain: ".").
    thousands: the allowed thousands separators, such as "," (plain: "", none).
    dates: "dmy" (31/12/1999), "mdy" (12/31/1999) or "ymd" (plain); a date with the year first, or with the
        month as a word, is always accepted.
    names: of all columns, in order, for a file without a header (detected: "column 1", "column 2", ...).
    skip: the number of lines before the table (plain: 0).

    >>> Syntax(separator=";", decimal=",").to_dict()
    {'separator': ';', 'decimal': ','}
    >>> Syntax(dates="dd/mm/yyyy")
    Traceback (most recent call last):
    ValueError: dates ('dd/mm/yyyy') must be 'ymd', 'dmy' or 'mdy'
    """

    separator: str | None = None
    encoding: str | None = None
    header: bool | None = None
    decimal: str | None = None
    thousands: str | None = None
    dates: str | None = None
    names: Sequence[str] | None = None
    skip: int | None = None

    def __post_init__(self) -> None:
        for name in ("separator", "encoding", "decimal", "thousands", "dates"):
            expect(name, getattr(self, name), str | None, "a string")
        expect("header", self.header, bool | None, "True or False")
        expect("skip", self.skip, self.skip is None or type(self.skip) is int, "an integer")
        if self.separator is not None and not re.fullmatch(r"[\t -~]", self.separator):
            raise ValueError(
                f"separator ({shown(self.separator)}) must be one character, such as ';' or a tab"
            )
        if self.separator is not None and (self.separator.isalnum() or self.separator in "\"'.+-"):
            raise ValueError(f"separator ({shown(self.separator)}) must not be a part of values")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"decimal ({shown(self.decimal)}) must be '.' or ','")
        if self.thousands is not None and not set(self.thousands) <= set(THOUSANDS) - {self.decimal}:
            raise ValueError(
                f"thousands ({shown(self.thousands)}) must be marks such as ',' or a blank, other than the "
                "decimal mark"
            )
        if self.dates is not None and self.dates not in ORDERS:
            raise ValueError(f"dates ({shown(self.dates)}) must be 'ymd', 'dmy' or 'mdy'")
        if self.encoding is not None:
            self._check_encoding(self.encoding)
        if self.names is not None:
            self._take_names(self.names)
        if self.skip is not None and self.skip < 0:
            raise ValueError(f"skip ({self.skip}) must not be negative")

    def _check_encoding(self, encoding: str) -> None:
        try:
            known = codecs.lookup(encoding)
            text = known._is_text_encoding and not re.match(_STATEFUL, known.name)
        except (LookupError, ValueError):
            text = False
        if not text:
            raise ValueError(
                f"encoding ({shown(encoding)}) must be one that Python knows, such as 'utf-8', 'latin-1' or "
                "'utf-16', and without escapes that change the meaning of later characters"
            )

    def _take_names(self, names: Sequence[str]) -> None:
        strings = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
        expect("names", names, strings, "a list of strings")
        if not names or len(set(names)) < len(names):
            raise ValueError("names must be at least one, each only once")
        if self.header:
            raise ValueError("names must be for a file without a header")
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "header", False)

    def over(self, base: Syntax) -> Syntax:
        """These settings, completed by those of `base` where they are None.

        >>> Syntax(separator=";").over(PLAIN).encoding
        'utf-8'
        """
        filled = {
            field.name: getattr(self if getattr(self, field.name) is not None else base, field.name)
            for field in fields(self)
        }
        if self.header:
            filled["names"] = None
        if self.decimal is not None and self.thousands is None:  # base's may clash with this decimal mark
            filled["thousands"] = (filled["thousands"] or "").replace(self.decimal, "")
        return Syntax(**filled)

    def to_dict(self) -> dict[str, Any]:
        """The settings that are not None, as under "$syntax" in a domain file."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        settings["names"] = None if self.names is None else list(self.names)
        return {name: value for name, value in settings.items() if value is not None}

    @classmethod
    def from_dict(cls, declared: object) -> Syntax:
        """Read the settings of a domain file; refuses an unknown key.

        >>> Syntax.from_dict({"seperator": ";"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: $syntax: key ('seperator') must be separator, encoding, header, decimal, ...
        """
        if not isinstance(declared, Mapping):
            raise TypeError(f"{SYNTAX_KEY} ({shown(declared)}) must be an object")
        known = [field.name for field in fields(cls)]
        for key in declared:
            if key not in known:
                listed = f"{', '.join(known[:-1])} or {known[-1]}"
                raise ValueError(f"{SYNTAX_KEY}: key ({shown(key)}) must be {listed}")
        try:
            return cls(**declared)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{SYNTAX_KEY}: {error}") from None


PLAIN = Syntax(separator=",", encoding="utf-8", header=True, decimal=".", thousands="", dates="ymd", skip=0)


def plain_for(file: str) -> Syntax:
    """The default syntax for a file name: tab-separated for .tsv."""
    tabs = file.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    return replace(PLAIN, separator="\t") if tabs else PLAIN
