"""Names and labels from data files for display: on one line, printable, not too long."""

from __future__ import annotations

from collections.abc import Sequence

from privmw.data.domain import Domain


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
