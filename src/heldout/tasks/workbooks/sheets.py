"""Reads `.xlsx` and `.csv` from bytes of unknown origin. Nothing outside of the bytes is ever opened."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from heldout.errors import TaskError, boundary, need
from heldout.tasks.workbooks.book import Book, CellError, Fault, Position, Sheet, Value
from heldout.tasks.workbooks.packages import LARGEST, MOST_CELLS, package_fault

__all__ = ["CSV", "MOST_TEXT", "WORKBOOK", "is_table", "read_book"]

WORKBOOK, CSV = ".xlsx", ".csv"
"""Endings of the names of the two kinds; case does not matter."""

_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?")
_SPAN = 10_000
"""Cells that an array formula may fill; of one that claims more, only the first cell is computed."""
MOST_TEXT = 16 << 20
"""Characters of a workbook's cells: many cells may share one long text, and take no room for it in the file."""
_REMEMBERED = 1 << 18
"""Files of at most this many bytes are read once."""


def is_table(name: str) -> bool:
    """Whether a file of this name is read as sheets."""
    return name.lower().endswith((WORKBOOK, CSV))


def read_book(name: str, data: bytes, *, stored: bool = False) -> Book | Fault:
    """The sheets of a file, whose kind its name tells; `Fault` for what cannot be, or is not safe to be, opened.

    Formulas are kept apart from values and not computed. `stored` also reads the values that were saved beside them.
    Text of a CSV file that is a plain number is one (`007` and `1,5` are not).
    """
    read = _remembered if len(data) <= _REMEMBERED else _read
    return read(name, data, stored)


def _read(name: str, data: bytes, stored: bool) -> Book | Fault:
    if name.lower().endswith(CSV):
        return _read_csv(name, data)
    if not name.lower().endswith(WORKBOOK):
        return Fault(name, f"its name ends neither with {WORKBOOK} nor with {CSV}")
    reason = package_fault(data)
    if reason is not None:
        return Fault(name, reason)
    try:
        with boundary(TaskError, "the workbook does not open"):
            return _read_workbook(name, data, stored=stored)
    except TaskError as fault:
        return Fault(name, str(fault)[:300])


@lru_cache(maxsize=256)
def _remembered(name: str, data: bytes, stored: bool) -> Book | Fault:
    return _read(name, data, stored)


def _read_csv(name: str, data: bytes) -> Book | Fault:
    if len(data) > LARGEST:
        return Fault(name, f"it has {len(data)} bytes; at most {LARGEST} are read")
    try:
        text = data.decode("utf-8-sig")
        cells: dict[Position, Value] = {}
        for row, fields in enumerate(csv.reader(io.StringIO(text, newline=""), strict=True), start=1):
            cells |= {(row, column): _typed(field) for column, field in enumerate(fields, start=1) if field}
            if len(cells) > MOST_CELLS:
                return Fault(name, f"it has more than {MOST_CELLS} cells")
    except UnicodeDecodeError as cause:
        return Fault(name, f"it is no UTF-8: byte {cause.start} cannot be read")
    except csv.Error as cause:
        return Fault(name, f"it is no CSV: {cause}")
    return Book(name, (Sheet("", cells),))


def _typed(text: str) -> Value:
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    return int(text) if text.lstrip("+-").isdigit() else number if abs(number) != float("inf") else text


def _read_workbook(name: str, data: bytes, *, stored: bool) -> Book:
    book = _opened(data, values=False)
    sheets = tuple(_sheet(worksheet) for worksheet in book.worksheets)
    size = sum(map(_characters, sheets))
    if size > MOST_TEXT:
        raise TaskError(f"its cells hold {size} characters; at most {MOST_TEXT} are read")
    kept: Mapping[str, Mapping[Position, Value]] = {}
    if stored and any(sheet.formulas for sheet in sheets):
        kept = {worksheet.title: _constants(worksheet) for worksheet in _opened(data, values=True).worksheets}
    active = book.active
    return Book(
        name,
        sheets,
        active=active.title if active is not None else "",
        names={key.lower(): str(defined.attr_text) for key, defined in book.defined_names.items() if defined.attr_text},
        stored=kept,
    )


def _opened(data: bytes, *, values: bool) -> Any:
    openpyxl = need("openpyxl", extra="tables")
    # What it warns of (extensions that it drops, styles that are missing) is no part of a value.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return openpyxl.load_workbook(io.BytesIO(data), data_only=values, keep_links=False, keep_vba=False)


def _sheet(worksheet: Any) -> Sheet:
    formulas: dict[Position, str] = {}
    spans: dict[Position, Position] = {}
    for position, cell in _cells(worksheet):
        if cell.data_type != "f":
            continue
        formulas[position] = _formula(cell.value)
        last = _last_of(cell.value)
        if last is not None and last != position and (last[0] - position[0] + 1) * (last[1] - position[1] + 1) <= _SPAN:
            spans[position] = last
    return Sheet(worksheet.title, _constants(worksheet), formulas, spans)


def _characters(sheet: Sheet) -> int:
    texts = sum(len(value) for value in sheet.cells.values() if isinstance(value, str))
    return texts + sum(map(len, sheet.formulas.values()))


def _cells(worksheet: Any) -> list[tuple[Position, Any]]:
    # Only the cells that the file holds: the public iterators fill up whatever size the file claims.
    return sorted(worksheet._cells.items())


def _constants(worksheet: Any) -> dict[Position, Value]:
    return {
        position: CellError(str(cell.value)) if cell.data_type == "e" else cell.value
        for position, cell in _cells(worksheet)
        if cell.data_type != "f" and cell.value is not None
    }


def _formula(value: Any) -> str:
    """Text of a formula cell: an array formula keeps it inside; a data table has none."""
    text = value if isinstance(value, str) else getattr(value, "text", None)
    return str(text) if text else "=#N/A"


def _last_of(value: Any) -> Position | None:
    found = re.fullmatch(r"[A-Z]+[0-9]+:([A-Z]+)([0-9]+)", str(getattr(value, "ref", "")))
    if found is None:
        return None
    column = 0
    for letter in found[1]:
        column = 26 * column + ord(letter) - ord("A") + 1
    return int(found[2]), column
