"""References in the A1 style: areas of sheets, and lists of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from heldout.tasks.workbooks.book import Position, coordinate

__all__ = ["MOST_COLUMNS", "MOST_ROWS", "Area", "read_area", "read_areas"]

MOST_ROWS, MOST_COLUMNS = 1_048_576, 16_384
"""Of a sheet."""

_CELLS = re.compile(r"\$?([A-Z]{0,3})\$?([0-9]{0,7})(?::\$?([A-Z]{0,3})\$?([0-9]{0,7}))?", re.IGNORECASE)
_SHEET = re.compile(r"(?:'((?:[^']|'')+)'|([^'!]+))!(.+)", re.DOTALL)
_LOOSE_SHEET = re.compile(r"'?([^'!]+)'?!'?([A-Za-z0-9$:]+)'?")
"""Published data holds `'Sheet 1'!'A1:B2'` and `Sheet1'!A1`, which are no references but clear."""


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of cells. Whole columns and rows reach to the limits of a sheet."""

    sheet: str | None
    """None where the reference names no sheet."""
    first: Position
    last: Position

    def __contains__(self, position: Position) -> bool:
        return self.first[0] <= position[0] <= self.last[0] and self.first[1] <= position[1] <= self.last[1]

    def __iter__(self) -> Iterator[Position]:
        columns = range(self.first[1], self.last[1] + 1)
        return ((row, column) for row in range(self.first[0], self.last[0] + 1) for column in columns)

    @property
    def size(self) -> int:
        """Number of cells."""
        return (self.last[0] - self.first[0] + 1) * (self.last[1] - self.first[1] + 1)

    def __str__(self) -> str:
        cells = coordinate(self.first)
        if self.first != self.last:
            cells += f":{coordinate(self.last)}"
        return cells if self.sheet is None else f"'{self.sheet}'!{cells}"

    def within(self, dims: Position) -> Area | None:
        """What of it lies within the used part of a sheet; None for nothing."""
        last = (min(self.last[0], dims[0]), min(self.last[1], dims[1]))
        return Area(self.sheet, self.first, last) if self.first[0] <= last[0] and self.first[1] <= last[1] else None


def read_area(text: str) -> Area | None:
    """The area that a reference names (`A1`, `$A$1:B2`, `A:C`, `2:3`, each after `Sheet1!` or `'a sheet'!`); None for
    what is no such reference."""
    found = _SHEET.fullmatch(text)
    sheet, cells = (None, text) if found is None else ((found[1] or found[2]).replace("''", "'"), found[3])
    corners = _CELLS.fullmatch(cells)
    if corners is None:
        return None
    start, end = (corners[1], corners[2]), (corners[3], corners[4])
    if corners[3] is None and corners[4] is None:
        end = start if all(start) else ("", "")
    if not (any(start) and any(end)) or bool(start[0]) != bool(end[0]) or bool(start[1]) != bool(end[1]):
        return None
    (top, left), (bottom, right) = _corner(start, low=True), _corner(end, low=False)
    first, last = (min(top, bottom), min(left, right)), (max(top, bottom), max(left, right))
    fits = min(first) >= 1 and last[0] <= MOST_ROWS and last[1] <= MOST_COLUMNS
    return Area(sheet, first, last) if fits else None


def _corner(parts: tuple[str, str], *, low: bool) -> Position:
    letters, digits = parts
    column = 0
    for letter in letters.upper():
        column = 26 * column + ord(letter) - ord("A") + 1
    row = int(digits) if digits else (1 if low else MOST_ROWS)
    return row, column if letters else (1 if low else MOST_COLUMNS)


def read_areas(text: str) -> tuple[Area, ...]:
    """The areas of a list with commas; `ValueError` names the part that is none, and says so of an empty list.

    An area without a sheet stays so, also after one that has a sheet.
    """
    areas = []
    for part in _parts(text):
        area = read_area(part)
        if area is None and (loose := _LOOSE_SHEET.fullmatch(part)) is not None:
            area = read_area(f"'{loose[1]}'!{loose[2]}")
        if area is None:
            raise ValueError(f"{part!r} is no reference such as A1:B5 or 'a sheet'!A1:B5")
        areas.append(area)
    if not areas:
        raise ValueError("it names no cell")
    return tuple(areas)


def _parts(text: str) -> Iterator[str]:
    """The parts between commas outside of quotes."""
    for found in re.finditer(r"(?:'(?:[^']|'')*'|[^,])+", text):
        if found[0].strip():
            yield found[0].strip()
