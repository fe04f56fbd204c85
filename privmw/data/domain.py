"""The domain: the attributes of a record and the values that each may take. All of it is public.

This module knows neither tables nor numpy; `attribute` maps values to codes. `plain` and `cell_name` show
names and labels, on one line, printable, not too long.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from privmw.data.attribute import Attribute
from privmw.data.strict_json import parse_json
from privmw.data.syntax import SYNTAX_KEY, Syntax
from privmw.io.files import naming
from privmw.secrecy import expect, shown

__all__ = ["Attribute", "Domain"]


class Immutable:
    """A base class whose attributes are set by `_set` only.

    Not a frozen dataclass: `dataclasses.asdict` would copy the codes of a private table.

    >>> Immutable().name = "age"
    Traceback (most recent call last):
    AttributeError: Immutable is immutable: name must not be set
    """

    __slots__ = ()

    def _set(self, **attributes: object) -> None:
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} must not be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} must not be deleted")


class Domain(Immutable):
    """Ordered attributes, immutable: each declared by a size, a list of labels, or an object.

    An object has "labels" or bin "edges" (numbers, or dates written YYYY-MM-DD) and may declare an "other"
    and a "missing" value, each with its own code after those of the labels or bins; see `Attribute.code`.
    The key "$syntax" may give the `Syntax` of text files, by which private files are read. It does not count
    in comparisons of domains.

    >>> domain = Domain({"age": 10, "sex": ["F", "M"], "income": {"edges": [0, 10, 100], "missing": "N"}})
    >>> domain
    Domain(age: 10, sex: 2, income: 3)
    >>> domain.size, domain["sex"].code("M"), domain.project(["sex", "age"]).sizes
    (60, 1, (2, 10))
    """

    __slots__ = ("__weakref__", "_positions", "attributes", "names", "size", "sizes", "syntax")
    _public_repr: ClassVar[bool] = True

    attributes: tuple[Attribute, ...]  # in order
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    size: int  # the number of possible records: the product of the sizes, exact however large
    syntax: Syntax | None  # of text files, if stored
    _positions: dict[str, int]  # of each name

    def __init__(self, attributes: Mapping[str, object]) -> None:
        expect("attributes", attributes, Mapping, "a mapping from names to sizes or labels")
        syntax = Syntax.from_dict(attributes[SYNTAX_KEY]) if SYNTAX_KEY in attributes else None
        declared = tuple(Attribute.declare(name, a) for name, a in attributes.items() if name != SYNTAX_KEY)
        self._fill(declared, syntax)

    def _fill(self, attributes: tuple[Attribute, ...], syntax: Syntax | None) -> Domain:
        if not attributes:
            raise ValueError("attributes (none) must be at least one")
        names, sizes = tuple(a.name for a in attributes), tuple(a.size for a in attributes)
        self._set(
            attributes=attributes,
            names=names,
            sizes=sizes,
            size=math.prod(sizes),
            syntax=syntax,
            _positions={name: position for position, name in enumerate(names)},
        )
        return self

    @classmethod
    def read(cls, source: str | os.PathLike[str] | Mapping[str, object]) -> Domain:
        """Read the domain of a JSON file, or of a mapping of the same form."""
        if isinstance(source, Mapping):
            return cls(source)
        expect("source", source, str | os.PathLike, "a path or a mapping")
        with open(source, encoding="utf-8-sig") as file, naming(source):
            return cls.from_json(file.read())

    @classmethod
    def from_public(
        cls,
        source: Any,
        *,
        columns: Iterable[str] | None = None,
        bins: int = 10,
        most_labels: int | None = None,
        other: str | None = "other",
        missing: str | None = "missing",
        syntax: Syntax | None = None,
    ) -> Domain:
        """Propose a domain from public data, for a person to check and change; never from private data.

        `source` is a pandas, polars or pyarrow frame, or the path of a file, which is read batch by batch.
        `syntax` overrides the detected syntax of a text file; the domain stores the result, and private files
        are read by it. Each column (default: all) becomes an attribute:

        - booleans: the labels "false" and "true";
        - text: its labels in order (numbers by size, then the rest), an ordered categorical in its own order;
          of more than `most_labels` the commonest, and "other" for the rest. By default 64, or up to 128
          if these are 99 % of the records, or if all are numbers, such as "17 years" and "90 and over";
        - integers, and floats with integer values: labels if there are at most `most_labels` (64); bins if
          there are more, or if they are amounts (far apart, many of them occur once), since another file will
          have other amounts;
        - other numbers, and dates: about `bins` bins near the quantiles, with round edges (years, quarters,
          months), of equal width if that fits as well. A very common value, such as no income, gets its own
          bin. Bins are open at both ends;
        - null, NaN and words such as ? and N/A are declared missing if there are any; in text files also an
          empty field, or a single word among numbers.

        A private file may have values that the public one lacks: `other` is declared for labels (missing
        values get it too), and `missing` for bins and booleans. Pass None for no such value; integers from 0
        to k - 1 are then a plain size.

        Texts that seem to identify records and integers that number them are left out unless `columns` names
        them, and so are values of other kinds; the notes of `privmw.data.propose.propose` list them.
        """
        from privmw.data.propose import propose  # here: it imports domains

        return propose(
            source,
            columns=columns,
            bins=bins,
            most_labels=most_labels,
            other=other,
            missing=missing,
            syntax=syntax,
        ).domain

    @classmethod
    def from_json(cls, text: str) -> Domain:
        """Parse the text that `to_json` returns."""
        expect("text", text, str, "a string")
        declared = parse_json(text)
        expect("a domain", declared, dict, "a JSON object", quote=False)
        return cls(declared)

    def to_json(self) -> str:
        """JSON text of the domain for `from_json`, one attribute per line."""
        write = json.JSONEncoder(ensure_ascii=False).encode
        lines = [f"  {write(a.name)}: {write(a.declaration())}" for a in self.attributes]
        if self.syntax is not None:
            lines.insert(0, f"  {write(SYNTAX_KEY)}: {write(self.syntax.to_dict())}")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file that `read` takes."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json())

    def fingerprint(self) -> str:
        """The SHA-256 (hexadecimal) of the canonical JSON: equal for equal domains only."""
        canonical = json.dumps([(a.name, a.declaration()) for a in self.attributes], separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def index(self, name: str) -> int:
        """The position of an attribute; the error for an unknown name suggests a similar one."""
        expect("attribute name", name, str, "a string")
        position = self._positions.get(name)
        if position is None:
            raise ValueError(f"attribute {shown(name)} is not in the domain{self._hint(name)}")
        return position

    def _hint(self, name: str) -> str:
        import difflib  # here: only these messages need it

        near = difflib.get_close_matches(name[:100], self.names, n=1)
        return f"; did you mean {shown(near[0])}?" if near else ""

    def project(self, names: Iterable[str]) -> Domain:
        """The domain of some of the attributes, in the given order."""
        right = isinstance(names, Iterable) and not isinstance(names, str)
        expect("names", names, right, "a list of attribute names, such as ['age', 'sex']")
        positions = positions_of(self, names)
        if len(set(positions)) < len(positions):
            raise ValueError(f"names ({len(positions)}) must not repeat an attribute")
        chosen = tuple(self.attributes[position] for position in positions)
        return object.__new__(Domain)._fill(chosen, self.syntax)

    def with_syntax(self, syntax: Syntax | None) -> Domain:
        """The same attributes, with this syntax of text files."""
        expect("syntax", syntax, Syntax | None, "a Syntax")
        return object.__new__(Domain)._fill(self.attributes, syntax)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._positions

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.attributes)

    def __eq__(self, other: object) -> bool:
        return self.attributes == other.attributes if isinstance(other, Domain) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.names, self.sizes))

    def __reduce__(self) -> tuple[object, ...]:
        return Domain.from_json, (self.to_json(),)

    def __repr__(self) -> str:
        shown = [
            f"{a.name if len(a.name) <= 20 else a.name[:17] + '...'}: {a.size}" for a in self.attributes[:5]
        ]
        return f"Domain({', '.join(shown)}{f', and {len(self) - 5} more' if len(self) > 5 else ''})"

    def _repr_html_(self) -> str | None:
        from privmw.report import panel  # here: only a notebook needs it

        return panel(self)


def positions_of(domain: Domain, names: Iterable[str], what: str = "names") -> list[int]:
    """The positions of attributes; the error names an unknown one by its index, as it may be private text.

    >>> positions_of(Domain({"age": 10, "sex": ["F", "M"]}), ["sex", "agee"])
    Traceback (most recent call last):
    ValueError: names[1] is not in the domain; did you mean 'age'?
    """
    positions = []
    for place, name in enumerate(names):
        expect(f"{what}[{place}]", name, str, "a string", quote=False)
        if name not in domain:
            raise ValueError(f"{what}[{place}] is not in the domain{domain._hint(name)}")
        positions.append(domain.index(name))
    return positions


def check_domain(domain: object) -> None:
    """Check that an argument is a Domain; the error shows its type only, as it may be private data."""
    expect("domain", domain, Domain, "a Domain")


def plain(text: object, most: int = 60) -> str:
    """A name or label from a data file: on one line, printable, cut if it is too long.

    >>> plain("tab" + chr(9) + "here"), plain("abcdef", most=4), plain("")
    ('tab�here', 'abc…', '(empty)')
    """
    shown = "".join(letter if letter.isprintable() else "�" for letter in str(text)[: 4 * most])
    if not shown.strip():
        return "(empty)"
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def cell_name(
    domain: Domain, names: Sequence[str], values: Sequence[int], *, most: int = 40, equals: str = " = "
) -> str:
    """The attributes and values (codes) of a cell.

    >>> cell_name(Domain({"age": 3, "sex": ["F", "M"]}), ("age", "sex"), (2, 1))
    'age = 2, sex = M'
    """
    pairs = zip(names, values, strict=True)
    return ", ".join(f"{plain(name, most)}{equals}{plain(domain[name].label(v), most)}" for name, v in pairs)
