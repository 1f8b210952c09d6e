"""Grades a workbook of live formulas, whose values are computed only where nothing else decides."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from heldout.tasks.workbooks import Book, Fault, Sheet, compare, computed, coordinate, read_book
from heldout.tasks.workbooks.book import Position
from heldout.worlds.tables.toolbox.table import Formula, Table

__all__ = ["formula_faults"]

_CELL = re.compile(r"[A-Za-z]{1,3}\$?[0-9]+")


def formula_faults(name: str, wanted: Book, table: Table, found: bytes, *, sandbox: str) -> list[str]:
    """What is wrong with the file `found`; `table` is what stands at the beginning of that sheet of `wanted` which has
    formulas, and knows their values.

    A formula cell that holds a plain value, or a formula that reads no cell, would not follow a change: it is wrong
    whatever its value.
    """
    given = read_book(name, found)
    if isinstance(given, Fault):
        return [f"{name}: it cannot be read: {given.reason}"]
    places = _places(wanted)
    differences = compare(_without(wanted, places), _without(given, places))
    dead = [] if differences else list(_dead(wanted, given))
    if differences or dead:
        return [f"{name}: {one}" for one in (*differences, *dead)]
    if _formulas(wanted) == _formulas(given):
        return []
    return [f"{name}: {one}" for one in compare(_with_values(wanted, table), computed(given, sandbox=sandbox))]


def _places(book: Book) -> set[tuple[str, Position]]:
    return {(sheet.name, position) for sheet in book.sheets for position in sheet.formulas}


def _formulas(book: Book) -> dict[tuple[str, Position], str]:
    return {(sheet.name, position): text for sheet in book.sheets for position, text in sheet.formulas.items()}


def _without(book: Book, places: Collection[tuple[str, Position]]) -> Book:
    """The book with nothing at these places. A formula at another place stays, as a text."""

    def bare(sheet: Sheet) -> Sheet:
        shown = {**sheet.cells, **sheet.formulas}
        return replace(
            sheet,
            cells={position: value for position, value in shown.items() if (sheet.name, position) not in places},
            formulas={},
            spans={},
        )

    return replace(book, sheets=tuple(map(bare, book.sheets)))


def _dead(wanted: Book, given: Book) -> Iterator[str]:
    for sheet in wanted.sheets:
        there = given.sheet(sheet.name)
        formulas = {} if there is None else there.formulas
        dead = [place for place in sorted(sheet.formulas) if not _CELL.search(formulas.get(place, ""))]
        if dead:
            yield f"{sheet.name}!{coordinate(dead[0])} holds no formula that reads a cell"


def _with_values(book: Book, table: Table) -> Book:
    """The book with the values of its formulas in their places."""
    values = {
        (down, right): cell.value
        for down, line in enumerate(table.lines(), start=1)
        for right, cell in enumerate(line, start=1)
        if isinstance(cell, Formula)
    }
    return replace(
        book,
        sheets=tuple(
            replace(sheet, cells={**sheet.cells, **values}, formulas={}) if sheet.formulas else sheet
            for sheet in book.sheets
        ),
    )
