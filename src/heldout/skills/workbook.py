"""The beginnings of workbooks and of separated text files: sheets, headers and first rows, as texts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from heldout.errors import TaskError, boundary, need
from heldout.tasks.workbooks.packages import package_fault

__all__ = ["SEPARATED", "WORKBOOKS", "Sheet", "read_separated", "read_workbook"]

WORKBOOKS = (".xlsx", ".xlsm")
"""Suffixes of files that `read_workbook` reads."""

SEPARATED = (".csv", ".tsv")
"""Suffixes of files that `read_separated` reads."""

_COLUMNS = 64
"""Columns that are read of a sheet."""

_CHARACTERS = 256
"""Of a cell, as far as it is read: many cells may share one text that is as long as the file."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The upper left of one sheet; formulas stand there as they are written."""

    name: str
    """Empty for a separated text file."""
    rows: tuple[tuple[str, ...], ...]
    """The first rows, empty cells as empty texts, without empty cells at the end."""
    n_rows: int | None
    n_columns: int | None
    """None where the file does not say."""

    @property
    def headers(self) -> tuple[str, ...]:
        """The cells of the first row that holds two or more, else of the first that holds any: titles stand alone."""
        held = [tuple(cell for cell in row if cell) for row in self.rows]
        alone = next((row for row in held if row), ())
        return next((row for row in held if len(row) > 1), alone)


@lru_cache(maxsize=512)  # a run looks at the beginnings of the same inputs round after round
def read_workbook(data: bytes, *, rows: int) -> tuple[Sheet, ...]:
    """Its sheets, `rows` rows of each; `TaskError` for what does not open, is not safe to open, or whose sheets cannot
    be read."""
    openpyxl = need("openpyxl", extra="tables")
    unsafe = package_fault(data)
    if unsafe is not None:
        raise TaskError(f"it cannot be read as a workbook: {unsafe}")
    with boundary(TaskError, "it cannot be read as a workbook"):
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True)
        try:
            return tuple(_sheet(sheet, rows) for sheet in book.worksheets)
        finally:
            book.close()


def read_separated(text: str, *, rows: int) -> Sheet:
    """A text file with a row a line; `TaskError` for one that cannot be read so."""
    first = text.partition("\n")[0]
    separator = max(",;\t|", key=first.count)
    with boundary(TaskError, "it cannot be read as separated text"):
        found = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    width = max((len(row) for row in found), default=0)
    return Sheet("", tuple(_cells(row[:_COLUMNS]) for row in found[:rows]), len(found), width)


def _sheet(sheet: object, rows: int) -> Sheet:
    read = sheet.iter_rows(max_row=rows, max_col=_COLUMNS, values_only=True)  # type: ignore[attr-defined]
    found = tuple(_cells(row) for row in read)
    return Sheet(str(sheet.title), found, sheet.max_row, sheet.max_column)  # type: ignore[attr-defined]


def _cells(row: Iterable[object]) -> tuple[str, ...]:
    cells = ["" if value is None else _plain(str(value)[:_CHARACTERS]) for value in row]
    return tuple(_without_empty_end(cells))


def _plain(text: str) -> str:
    return " ".join(text.split())


def _without_empty_end(cells: Sequence[str]) -> Sequence[str]:
    end = len(cells)
    while end and not cells[end - 1]:
        end -= 1
    return cells[:end]
