"""Whether two books hold the same: content and structure, never bytes or formats."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from heldout.tasks.workbooks.areas import Area
from heldout.tasks.workbooks.book import Book, CellError, Position, Sheet, Value, coordinate
from heldout.tasks.workbooks.formulas import serial

__all__ = ["TOLERANCE", "Difference", "compare", "same_value"]

TOLERANCE = 1e-6
"""Relative, of numbers."""
_ABSOLUTE = 1e-9
_HALF_SECOND = 0.5 / 86400
_SHOWN = 5
_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it should be."""

    kind: Literal["sheet", "value", "missing", "unexpected"]
    place: str
    """`'Sheet'!B3`, or the name of a sheet."""
    words: str

    def __str__(self) -> str:
        return f"{self.place}: {self.words}"


def compare(
    expected: Book,
    found: Book,
    *,
    ranges: Sequence[Area] | None = None,
    text_numbers: bool = False,
    decimals: int | None = None,
    most: int = _SHOWN,
) -> tuple[Difference, ...]:
    """The first differences of a book from the expected one; none where they hold the same.

    Both books are computed (`formulas.computed`). Sheets are found by name, in any order, and there may be no others.
    Numbers are the same within 1e-6 of each other (1 is 1.0, but "1" is 1 only with `text_numbers`), and so are times
    within half a second; a date is the number that a spreadsheet keeps for it. A truth value is no number. Text is
    the same but for spaces at its end, and empty text is no content. Errors are the same by their code. A formula that
    cannot be computed here is right where the expected book has the same formula in the same cell. With `decimals`
    numbers are also the same where they are once rounded so.

    With `ranges` only those cells count; an area without a sheet is of the expected book's first one.
    """
    pairs = _whole(expected, found) if ranges is None else _parts(expected, found, ranges)
    return tuple(islice(_differences(pairs, text_numbers=text_numbers, decimals=decimals), most))


_Pair = tuple[Sheet, Sheet, Sequence[Position]] | Difference
"""Two sheets and the cells to compare, or why they cannot be."""


def _whole(expected: Book, found: Book) -> Iterator[_Pair]:
    for sheet in expected.sheets:
        other = found.sheet(sheet.name)
        if other is None:
            yield Difference("sheet", sheet.name, f"there is no such sheet; there is {_names(found)}")
        else:
            yield sheet, other, sorted(sheet.cells.keys() | other.cells.keys())
    for other in found.sheets:
        if expected.sheet(other.name) is None:
            yield Difference("sheet", other.name, f"no such sheet is wanted; wanted is {_names(expected)}")


def _parts(expected: Book, found: Book, ranges: Sequence[Area]) -> Iterator[_Pair]:
    for area in ranges:
        name = area.sheet if area.sheet is not None else expected.sheets[0].name
        sheet, other = expected.sheet(name), found.sheet(name)
        if sheet is None:
            yield Difference("sheet", name, f"the expected workbook has no such sheet; it has {_names(expected)}")
        elif other is None:
            yield Difference("sheet", name, f"there is no such sheet; there is {_names(found)}")
        else:
            used = sheet.cells.keys() | other.cells.keys()
            yield sheet, other, sorted(position for position in used if position in area)


def _differences(pairs: Iterator[_Pair], *, text_numbers: bool, decimals: int | None) -> Iterator[Difference]:
    for pair in pairs:
        if isinstance(pair, Difference):
            yield pair
            continue
        sheet, other, positions = pair
        for position in positions:
            wanted, given = sheet.cells.get(position), other.cells.get(position)
            same = same_value(wanted, given, text_numbers=text_numbers, decimals=decimals)
            if not same and not _same_formula(sheet, other, position):
                yield _difference(sheet.name, position, wanted, given)


def _difference(sheet: str, position: Position, wanted: Value, given: Value) -> Difference:
    place = f"{sheet!r}!{coordinate(position)}" if sheet else coordinate(position)
    if _is_empty(given):
        return Difference("missing", place, f"is empty, expected {_shown(wanted)}")
    if _is_empty(wanted):
        return Difference("unexpected", place, f"holds {_shown(given)}, expected nothing")
    return Difference("value", place, f"holds {_shown(given)}, expected {_shown(wanted)}")


def same_value(wanted: Value, given: Value, *, text_numbers: bool = False, decimals: int | None = None) -> bool:
    """Whether two cells hold the same; see `compare`."""
    if _is_empty(wanted) or _is_empty(given):
        return _is_empty(wanted) and _is_empty(given)
    if text_numbers:
        wanted, given = _as_number(wanted), _as_number(given)
    if isinstance(wanted, CellError) or isinstance(given, CellError):
        return isinstance(wanted, CellError) and isinstance(given, CellError) and _same_error(wanted, given)
    if isinstance(wanted, bool) or isinstance(given, bool):
        return isinstance(wanted, bool) and isinstance(given, bool) and wanted == given
    if isinstance(wanted, str) or isinstance(given, str):
        return isinstance(wanted, str) and isinstance(given, str) and wanted.rstrip(" ") == given.rstrip(" ")
    return _same_number(wanted, given, decimals)


def _same_number(wanted: Value, given: Value, decimals: int | None) -> bool:
    timed = any(isinstance(one, datetime.date | datetime.time | datetime.timedelta) for one in (wanted, given))
    one, other = serial(wanted), serial(given)
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    if decimals is not None and not timed and round(one, decimals) == round(other, decimals):
        return True
    allowed = _HALF_SECOND if timed else max(_ABSOLUTE, TOLERANCE * max(abs(one), abs(other)))
    return abs(one - other) <= allowed


def _same_error(wanted: CellError, given: CellError) -> bool:
    return wanted.code == given.code and not wanted.why and not given.why


def _is_empty(value: Value) -> bool:
    return value is None or (isinstance(value, str) and not value.rstrip(" "))


def _as_number(value: Value) -> Value:
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return value
    return number if math.isfinite(number) else value


def _same_formula(sheet: Sheet, other: Sheet, position: Position) -> bool:
    given = other.cells.get(position)
    formulas = [_bare(one.formulas.get(position, "")) for one in (sheet, other)]
    return isinstance(given, CellError) and bool(given.why) and formulas[0] == formulas[1] != ""


def _bare(formula: str) -> str:
    return "".join(formula.upper().replace("_XLFN.", "").replace("_XLWS.", "").split())


def _names(book: Book) -> str:
    return ", ".join(repr(sheet.name) for sheet in book.sheets) or "none"


def _shown(value: Value) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
