"""Reads the first sheet of a workbook as rows of text, every cell in plain form. Knows no columns.

Workbooks are xlsx, xls, xlsb and ods files; python-calamine reads them all. Its errors can quote cells, and
are never passed on.
"""

from __future__ import annotations

import datetime
import os
import re
import zipfile
from collections.abc import Callable
from typing import Any

from privmw.io.extras import need

# Limits of the unpacked size. Sheets of a million rows unpack to some hundred MB, at ratios of 5 to 30.
LARGEST_WORKBOOK = 2**31  # bytes
LARGEST_COMPRESSION, SMALL_WORKBOOK = (
    200,
    2**26,
)  # of unpacked to packed bytes, in a workbook of more than SMALL_WORKBOOK bytes
LARGEST_AREA = 2**27  # cells of a sheet, including empty ones: each takes 32 bytes


def sheets_of(file: str) -> int:
    """The number of sheets of a workbook."""
    sheets: int = _read(file, lambda workbook: len(workbook.sheet_names))
    return sheets


def first_sheet(file: str, decimal: str | None = None) -> list[list[str]]:
    """The rows of the first sheet from cell A1 on, of equal length; ValueError if it cannot be read.

    decimal: the decimal mark to write numbers with, as in cells of text; None for a point.
    """
    _check_sheet(file)
    # With empty rows and columns at its edges: where they end depends on records.
    rows = _read(file, lambda book: book.get_sheet_by_index(0).to_python(skip_empty_area=False))
    return [[_cell(value, decimal or ".") for value in row] for row in rows]


def _read(file: str, read: Callable[[Any], Any]) -> Any:
    calamine = need("python_calamine", "read workbooks", "xlsx")
    _check_size(file)
    try:
        return read(calamine.CalamineWorkbook.from_path(file))
    except Exception:  # it raises many types of errors
        pass
    raise ValueError("not a workbook")


def _check_size(file: str) -> None:
    """Refuse a packed workbook with too large an unpacked size in its directory; nothing is unpacked."""
    try:
        with zipfile.ZipFile(file) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
    except (zipfile.BadZipFile, NotImplementedError):  # xls is not packed
        return
    if size > LARGEST_WORKBOOK or size > max(SMALL_WORKBOOK, LARGEST_COMPRESSION * os.path.getsize(file)):
        raise ValueError(
            f"{file} must unpack to at most {LARGEST_WORKBOOK / 1e6:,.0f} MB, and beyond "
            f"{SMALL_WORKBOOK / 1e6:,.0f} MB to at most {LARGEST_COMPRESSION} times its size: "
            "save it as csv or parquet"
        )


def _cell(value: Any, decimal: str) -> str:
    """A cell as in csv: 3.0 becomes 3, a date YYYY-MM-DD, and an error is empty."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 2**53
        return str(int(value)) if whole else repr(value).replace(".", decimal)
    if isinstance(value, datetime.datetime):
        return value.date().isoformat()
    return str(value)


# A formula without a value in a cell that is not text (text may be empty).
_NOT_CALCULATED = re.compile(
    rb'<c(?![^>]* t="str")[^>]*>\s*<f(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(?:<v>\s*</v>|<v\s*/>|</c>)'
)


_PLACE = re.compile(rb'<c [^>]*?\br="([A-Z]{1,3})([0-9]{1,7})"')


def _check_sheet(file: str) -> None:
    """Refuse an xlsx file if its first sheet has formulas without values, or cells too far apart.

    calamine reads such formulas as empty cells, and allocates all cells between the others.
    """
    sheet = _first_sheet_of_xlsx(file) if file.lower().endswith(".xlsx") else b""
    if _NOT_CALCULATED.search(sheet):
        raise ValueError(
            f"{file} must hold the values of its formulas: open it in a spreadsheet program and save it"
        )
    column, row = b"", 0
    for place in _PLACE.finditer(sheet):
        column, row = max(column, place[1], key=lambda name: (len(name), name)), max(row, int(place[2]))
    width = sum((letter - 64) * 26**power for power, letter in enumerate(reversed(column)))
    if width * row > LARGEST_AREA:
        raise ValueError(f"{file} must have its cells near each other: save it as csv or parquet")


def _first_sheet_of_xlsx(file: str) -> bytes:
    """The XML of the first sheet; empty if it is not found, as in an unusual workbook."""
    _check_size(file)
    try:
        with zipfile.ZipFile(file) as packed:
            book, links = (packed.read(f"xl/{name}") for name in ("workbook.xml", "_rels/workbook.xml.rels"))
            identifier = re.findall(rb'<sheet [^>]*r:id="([^"]*)"', book)[0]
            link = next(tag for tag in re.findall(rb"<Relationship [^>]*>", links) if identifier in tag)
            target = re.findall(rb'Target="([^"]*)"', link)[0].decode().removeprefix("/xl/")
            return packed.read(f"xl/{target}")
    except (KeyError, IndexError, StopIteration, ValueError, zipfile.BadZipFile):
        return b""
    except Exception:  # damaged, or packed in a way that zipfile does not know
        pass
    raise ValueError("not a workbook")
