"""The first sheet of a workbook as rows of text, every cell in plain form. This module knows no columns.

Workbooks are xlsx, xls, xlsb and ods; python-calamine reads them all. Its errors can quote cells: none leaves
this module.
"""

from __future__ import annotations

import datetime
import re
import zipfile
from collections.abc import Callable
from typing import Any

from privmw.io.extras import need


def sheets_of(file: str) -> int:
    """How many sheets a workbook has."""
    sheets: int = _read(file, lambda workbook: len(workbook.sheet_names))
    return sheets


def first_sheet(file: str, decimal: str | None = None) -> list[list[str]]:
    """The rows of the first sheet, all of one length; ValueError if it cannot be read, or was not calculated.

    decimal: the mark that is written in numbers, as that of cells of text; None for a point.
    """
    rows = _read(file, lambda workbook: workbook.get_sheet_by_index(0).to_python())
    if _has_formulas_without_values(file):
        raise ValueError(
            f"{file} must hold the values of its formulas: open it in a spreadsheet program and save it"
        )
    return [[_cell(value, decimal or ".") for value in row] for row in rows]


def _read(file: str, read: Callable[[Any], Any]) -> Any:
    calamine = need("python_calamine", "read workbooks", "xlsx")
    try:
        return read(calamine.CalamineWorkbook.from_path(file))
    except Exception:  # its kinds of errors are many
        pass
    raise ValueError("not a workbook")


def _cell(value: Any, decimal: str) -> str:
    """A cell as csv would have it: 3.0 is 3, a date is YYYY-MM-DD, an error is empty."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 2**53
        return str(int(value)) if whole else repr(value).replace(".", decimal)
    if isinstance(value, datetime.datetime):
        return value.date().isoformat()
    return str(value)


# A formula, in a cell that is not one of text, and no value: text may be empty.
_NOT_CALCULATED = re.compile(
    rb'<c(?![^>]* t="str")[^>]*>\s*<f(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(?:<v>\s*</v>|<v\s*/>|</c>)'
)


def _has_formulas_without_values(file: str) -> bool:
    """Whether a program wrote formulas into the first sheet of an xlsx file and did not calculate them.

    calamine takes them as empty cells.
    """
    if not file.lower().endswith(".xlsx"):
        return False
    try:
        with zipfile.ZipFile(file) as packed:
            book, links = (packed.read(f"xl/{name}") for name in ("workbook.xml", "_rels/workbook.xml.rels"))
            identifier = re.findall(rb'<sheet [^>]*r:id="([^"]*)"', book)[0]
            link = next(tag for tag in re.findall(rb"<Relationship [^>]*>", links) if identifier in tag)
            target = re.findall(rb'Target="([^"]*)"', link)[0].decode().removeprefix("/xl/")
            return _NOT_CALCULATED.search(packed.read(f"xl/{target}")) is not None
    except (KeyError, IndexError, StopIteration, ValueError, zipfile.BadZipFile):  # an unusual workbook
        return False
