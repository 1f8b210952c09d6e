"""Reading tables from workbooks and CSV files, and writing them there."""

from __future__ import annotations

import csv
import datetime
import io
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import openpyxl
from openpyxl.utils import coordinate_to_tuple
from openpyxl.writer.excel import ExcelWriter

from heldout.worlds.tables.toolbox.folder import Folder
from heldout.worlds.tables.toolbox.table import Cell, Formula, Table

__all__ = [
    "add_sheet",
    "csv_data",
    "new_workbook",
    "read",
    "tell",
    "write_anew",
    "write_back",
    "write_summary",
]

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_BEGINNING = datetime.datetime(2000, 1, 1)


def read(work: Folder, *, file: str, sheet: str | None = None) -> Table:
    """The table of a sheet, or of a CSV file (`sheet` None), with its headers in the first line."""
    data = work.read(file)
    lines = _csv_lines(data) if sheet is None else _sheet_lines(data, sheet)
    headers, *rows = lines
    return Table(tuple(str(header) for header in headers), tuple(rows))


def write_back(work: Folder, table: Table, *, file: str, sheet: str | None = None) -> None:
    """Put a table in the place of the one that stood on a sheet, or in a CSV file; all else stays."""
    if sheet is None:
        work.write(file, csv_data(table.lines()))
        return
    book = _open(work.read(file))
    page = book[sheet]
    page.delete_rows(1, page.max_row)
    _fill(page, table.lines(), row=1, column=1)
    work.write(file, _bytes(book))


def add_sheet(work: Folder, table: Table, *, file: str, sheet: str, cell: str = "A1") -> None:
    """Put a table on a new sheet behind the others, its first header into `cell`."""
    book = _open(work.read(file))
    row, column = coordinate_to_tuple(cell)
    _fill(book.create_sheet(sheet), table.lines(), row=row, column=column)
    work.write(file, _bytes(book))


def write_anew(work: Folder, table: Table, *, file: str, sheet: str | None = None, but: str | None = None) -> None:
    """Write a file that holds nothing but this table, or all of it but one column."""
    kept = table if but is None else table.narrowed([header for header in table.headers if header != but])
    work.write(file, csv_data(kept.lines()) if sheet is None else new_workbook({sheet: list(kept.lines())}))


def write_summary(work: Folder, table: Table, *, file: str, headers: Sequence[str]) -> None:
    """Write a CSV file with the number of rows of a table."""
    work.write(file, csv_data([tuple(headers), ("rows", len(table.rows))]))


def tell(work: Folder, table: Table) -> None:
    """Print what a check would look at: the files, the sheets, and the size and headers of a table."""
    lines = [f"files: {', '.join(work.names())}"]
    for name in work.names():
        if name.endswith(".xlsx"):
            lines.append(f"sheets of {name}: {', '.join(_open(work.read(name)).sheetnames)}")
    lines.append(f"result: {len(table.rows)} rows under {', '.join(table.headers)}")
    sys.stdout.write("\n".join(lines) + "\n")


def new_workbook(sheets: Mapping[str, Iterable[Sequence[Cell]]]) -> bytes:
    """A workbook with these lines on its sheets; the same lines give the same bytes."""
    book = openpyxl.Workbook()
    for place, (name, lines) in enumerate(sheets.items()):
        page: Any = book.active if place == 0 else book.create_sheet()
        page.title = name
        _fill(page, lines, row=1, column=1)
    return _bytes(book)


def csv_data(lines: Iterable[Sequence[Cell]]) -> bytes:
    """Lines as a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([["" if cell is None else _stored(cell) for cell in line] for line in lines])
    return text.getvalue().encode()


def _open(data: bytes) -> Any:
    return openpyxl.load_workbook(io.BytesIO(data))


def _sheet_lines(data: bytes, sheet: str) -> list[tuple[Cell, ...]]:
    return list(_open(data)[sheet].iter_rows(values_only=True))


def _csv_lines(data: bytes) -> list[tuple[Cell, ...]]:
    return [tuple(map(_csv_cell, line)) for line in csv.reader(io.StringIO(data.decode(), newline=""))]


def _csv_cell(text: str) -> Cell:
    """A CSV file has no types: what is written exactly as a number is one."""
    if not text:
        return None
    if _NUMBER.fullmatch(text) is None:
        return text
    return float(text) if "." in text else int(text)


def _stored(cell: Cell) -> int | float | str | None:
    return cell.text if isinstance(cell, Formula) else cell


def _fill(page: Any, lines: Iterable[Sequence[Cell]], *, row: int, column: int) -> None:
    for down, line in enumerate(lines):
        for right, cell in enumerate(line):
            page.cell(row + down, column + right).value = _stored(cell)


def _bytes(book: Any) -> bytes:
    """The file of a workbook, without the time at which it was made."""
    book.properties.created = book.properties.modified = _BEGINNING
    written = io.BytesIO()
    ExcelWriter(book, zipfile.ZipFile(written, "w")).save()
    steady = io.BytesIO()
    with zipfile.ZipFile(written) as parts, zipfile.ZipFile(steady, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as kept:
        for name in parts.namelist():
            kept.writestr(zipfile.ZipInfo(name), parts.read(name), zipfile.ZIP_DEFLATED)
    return steady.getvalue()
