"""What a workbook or a CSV file holds, as plain values."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Book", "CellError", "Fault", "Position", "Sheet", "Value", "coordinate"]

Position = tuple[int, int]
"""(row, column), both from 1."""


@dataclass(frozen=True, slots=True)
class CellError:
    """The value of a cell that shows an error."""

    code: str
    """As a spreadsheet program shows it: `#DIV/0!`, `#NAME?`, …"""
    why: str = ""
    """Why a formula could not be computed here at all; empty for an error that is the formula's own value."""

    def __str__(self) -> str:
        return f"{self.code} ({self.why})" if self.why else self.code


Value = (
    str | int | float | bool | datetime.datetime | datetime.date | datetime.time | datetime.timedelta | CellError | None
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One sheet. Cells without a value are in none of the maps."""

    name: str
    cells: Mapping[Position, Value] = field(default_factory=dict)
    """Values; of formula cells only once they have been computed."""
    formulas: Mapping[Position, str] = field(default_factory=dict)
    """Formula of a cell, with its `=`."""
    spans: Mapping[Position, Position] = field(default_factory=dict)
    """Last cell of each array formula that fills more than one cell, by its first."""

    @property
    def dims(self) -> Position:
        """Last row and last column with content; (0, 0) for an empty sheet."""
        used = self.cells.keys() | self.formulas.keys()
        return max((row for row, _ in used), default=0), max((column for _, column in used), default=0)


@dataclass(frozen=True, slots=True)
class Book:
    """A file of sheets, in order; a CSV file is a book of one sheet without a name."""

    name: str
    sheets: tuple[Sheet, ...]
    active: str = ""
    """Name of the sheet that is shown when the book is opened."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Defined name, in lower case, to the reference that it stands for."""
    stored: Mapping[str, Mapping[Position, Value]] = field(default_factory=dict)
    """By sheet: values that the program which saved the book last had computed. Anybody can write anything there."""

    def sheet(self, name: str) -> Sheet | None:
        """The sheet of this name, whose case does not matter, as in a reference."""
        return next((sheet for sheet in self.sheets if sheet.name.casefold() == name.casefold()), None)

    @property
    def has_formulas(self) -> bool:
        """Whether any cell holds one."""
        return any(sheet.formulas for sheet in self.sheets)


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that cannot be read as sheets. Who made the file is to blame, so that this is data and no error."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name!r} cannot be read: {self.reason}"


def coordinate(position: Position) -> str:
    """`B3` of (3, 2)."""
    row, column = position
    letters = ""
    while column > 0:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row}"
