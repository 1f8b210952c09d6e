"""Values of formula cells, computed by the library `formulas` in a sandbox: a formula is text of unknown origin."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from heldout.errors import TaskError, need
from heldout.sandbox import Completed, Limits, Scene, make_sandboxes
from heldout.tasks.workbooks.areas import Area
from heldout.tasks.workbooks.book import Book, CellError, Position, Sheet, Value, coordinate
from heldout.tasks.workbooks.library import Library, library
from heldout.tasks.workbooks.references import Plain, alias, plain_formula

__all__ = ["LIMITS", "computed", "serial"]

LIMITS = Limits(wall_s=60.0, cpu_s=30.0, memory_mb=3072, processes=16, file_mb=1, disk_mb=16, output_bytes=16 << 20)
"""Of computing one book."""

_PACKAGES = (
    *("formulas", "schedula", "numpy", "scipy", "openpyxl", "et_xmlfile", "regex", "dateutil", "six", "tqdm"),
    *("numpy_financial", "defusedxml"),
)
_SMALL = 64
"""Cells."""
_REMEMBERED = 1 << 16
"""Models of at most this many characters are computed once."""
_EPOCH = datetime.datetime(1899, 12, 30)
_DAY = 86400.0

_Key = tuple[str, Position]
"""Name of the sheet, and the cell."""
_Found = Mapping[_Key, Value]


def computed(
    book: Book, *, only: Sequence[Area] | None = None, trust_stored: bool = False, sandbox: str = "bubblewrap"
) -> Book:
    """The book with a value in every formula cell whose formula gives one.

    A formula that fails has its error as value (`#DIV/0!`, `#NAME?`, …). One that cannot be computed here (it is none,
    reads its own value, needs another workbook, depends on the day, has a function that the library lacks, takes too
    long) has a `CellError` that says why, as does every formula that reads it. `trust_stored` takes the values that the
    book itself stores where it has them: for books whose maker is trusted. `only` computes no more than these areas
    need (one without a sheet is of every sheet). `SandboxError` where no sandbox starts.
    """
    if not book.has_formulas:
        return book
    stored: dict[_Key, Value] = {}
    if trust_stored:
        stored = {(name, position): value for name, cells in book.stored.items() for position, value in cells.items()}
    filled = _filled(book)
    fillers = filled.values() if only is None else _filling(_named(book, only), filled)
    wanted = [key for key in dict.fromkeys(fillers) if key not in stored]
    values = {**_values(book, wanted, filled, sandbox), **stored} if wanted else stored
    return replace(book, sheets=tuple(_with_values(sheet, values) for sheet in book.sheets))


def _filled(book: Book) -> dict[_Key, _Key]:
    """The formula cell that fills each cell which is filled by one."""
    return {
        (sheet.name, cell): (sheet.name, position)
        for sheet in book.sheets
        for position in sheet.formulas
        for cell in Area(None, position, sheet.spans.get(position, position))
    }


def _filling(areas: Sequence[Area], filled: Mapping[_Key, _Key]) -> Iterator[_Key]:
    """The formula cells that fill a cell of an area; of areas with the sheets' own names."""
    for area in areas:
        if area.size < len(filled):
            yield from (filled[key] for cell in area if (key := (str(area.sheet), cell)) in filled)
        else:
            yield from (by for (sheet, cell), by in filled.items() if sheet == area.sheet and cell in area)


def _named(book: Book, areas: Sequence[Area]) -> list[Area]:
    """With the sheets' own names, and on every sheet where they name none."""
    return [
        Area(sheet.name, area.first, area.last)
        for sheet in book.sheets
        for area in areas
        if area.sheet is None or area.sheet.casefold() == sheet.name.casefold()
    ]


def serial(value: Value) -> Value:
    """Dates, times and durations as the number of days that a spreadsheet keeps; other values as they are."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - _EPOCH).total_seconds() / _DAY
    if isinstance(value, datetime.date):
        return float((datetime.datetime.combine(value, datetime.time()) - _EPOCH).days)
    if isinstance(value, datetime.time):
        return (value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6) / _DAY
    if isinstance(value, datetime.timedelta):
        return value.total_seconds() / _DAY
    return value


def _with_values(sheet: Sheet, values: _Found) -> Sheet:
    mine = {position: value for (name, position), value in values.items() if name == sheet.name and value is not None}
    return replace(sheet, cells={**mine, **sheet.cells}) if mine else sheet


def _values(book: Book, wanted: Sequence[_Key], filled: Mapping[_Key, _Key], sandbox: str) -> dict[_Key, Value]:
    """Values of the wanted formula cells and of all that they read, with what array formulas fill."""
    need("formulas", extra="tables")
    plain: dict[_Key, Plain] = {}
    values: dict[_Key, Value] = {}
    for key, found in _needed(book, wanted, filled):
        if isinstance(found, CellError):
            values[key] = found
        else:
            plain[key] = found
    if plain:
        request = _request(book, plain, values)
        values |= _answers(book, plain, _run(request, sandbox))
    _taint(plain, values)
    return values


def _needed(
    book: Book, wanted: Sequence[_Key], filled: Mapping[_Key, _Key]
) -> Iterator[tuple[_Key, Plain | CellError]]:
    """The wanted formulas and, step by step, those that fill a cell which one of them reads."""
    dims = {sheet.name: sheet.dims for sheet in book.sheets}
    texts = {(sheet.name, position): text for sheet in book.sheets for position, text in sheet.formulas.items()}
    left, done, seen, everything = list(wanted), set[_Key](), set[Area](), False
    while left:
        key = left.pop()
        if key in done:
            continue
        done.add(key)
        found = plain_formula(texts[key], home=key[0], book=book, dims=dims)
        yield key, found
        if isinstance(found, CellError):
            continue
        if found.anywhere and not everything:
            everything = True
            left.extend(texts)
        fresh = tuple(set(found.areas) - seen)
        seen.update(fresh)
        left.extend(_filling(fresh, filled))


def _request(book: Book, plain: Mapping[_Key, Plain], faults: _Found) -> str:
    """The model as canonical JSON, with only the cells that formulas read: what else changes needs no new run."""
    keys = _Keys(book)
    anywhere = any(one.anywhere for one in plain.values())
    read = _Read([area for one in plain.values() for area in one.areas])
    cells: dict[str, Any] = {}
    for sheet in book.sheets:
        for position, value in sheet.cells.items():
            if anywhere or (sheet.name, position) in read:
                cells[keys.cell(sheet.name, position)] = _sent(value)
    for (name, position), fault in faults.items():
        cells[keys.cell(name, position)] = _sent(fault)
    formulas = {keys.formula(key): one.text for key, one in plain.items()}
    return json.dumps({"cells": cells, "formulas": formulas}, sort_keys=True)


class _Read:
    """Which cells areas hold together; many formulas read few cells each, and the same large areas."""

    def __init__(self, areas: list[Area]) -> None:
        self._large = {area for area in areas if area.size > _SMALL}
        self._cells = {(area.sheet, position) for area in areas if area.size <= _SMALL for position in area}

    def __contains__(self, key: _Key) -> bool:
        name, position = key
        return key in self._cells or any(area.sheet == name and position in area for area in self._large)


class _Keys:
    """The names of cells in a model."""

    def __init__(self, book: Book) -> None:
        self._sheets = {sheet.name: (alias(number), sheet.spans) for number, sheet in enumerate(book.sheets)}

    def cell(self, sheet: str, position: Position) -> str:
        """Of one cell."""
        return f"'[B]{self._sheets[sheet][0]}'!{coordinate(position)}"

    def formula(self, key: _Key) -> str:
        """Of all cells that a formula fills."""
        name, position = key
        last = self._sheets[name][1].get(position)
        return self.cell(name, position) + (f":{coordinate(last)}" if last is not None else "")


def _sent(value: Value) -> Any:
    """A constant as the library takes it; text that it would read as a formula becomes a formula that gives it."""
    if isinstance(value, CellError):
        return f"={value.code}"
    if isinstance(value, str) and value.startswith(("=", "#")):
        return '="' + value.replace('"', '""') + '"'
    return serial(value)


def _run(request: str, sandbox: str) -> str:
    """The answer of the sandbox as JSON, or `!` and why there is none. A pure function of the model."""
    run = _remembered if len(request) <= _REMEMBERED else _run_anew
    return run(request, sandbox)


def _run_anew(request: str, sandbox: str) -> str:
    shown = _library()
    scene = Scene(files=shown.files, mounts=shown.mounts, env={"OMP_NUM_THREADS": "1"}, limits=LIMITS)
    with make_sandboxes(sandbox).open(scene) as box:
        return _heard(box.run(["python3", "-I", "-S", "-c", _program(), *shown.path], stdin=request + "\n"))


@lru_cache(maxsize=4096)
def _remembered(request: str, sandbox: str) -> str:
    return _run_anew(request, sandbox)


def _heard(done: Completed) -> str:
    _, ready, answer = done.output.partition("ready\n")
    if done.killed:
        return f"!computing the formulas passed the limit of {done.killed}"
    if not ready:
        raise TaskError(
            f"formulas cannot be computed: the library does not start in the sandbox (exit code {done.exit_code}): "
            f"{done.output.strip()[-300:]!r}"
        )
    told = next((line for line in answer.splitlines() if line.startswith("{") and line.endswith("}")), None)
    return told if told is not None and done.exit_code == 0 else "!the library gave up on the formulas"


@lru_cache(maxsize=1)
def _library() -> Library:
    return library(_PACKAGES)


@lru_cache(maxsize=1)
def _program() -> str:
    return files("heldout.tasks.workbooks").joinpath("evaluator.py").read_text(encoding="utf-8")


def _answers(book: Book, plain: Mapping[_Key, Plain], answer: str) -> dict[_Key, Value]:
    if answer.startswith("!"):
        return dict.fromkeys(plain, CellError("#N/A", answer[1:]))
    told, keys = json.loads(answer), _Keys(book)
    values: dict[_Key, Value] = {}
    for key in plain:
        found = told[keys.formula(key)]
        if isinstance(found, dict) and "rows" in found:
            name, (top, left) = key
            for row, line in enumerate(found["rows"]):
                values |= {(name, (top + row, left + at)): _value(one) for at, one in enumerate(line)}
        else:
            values[key] = _value(found)
    return values


def _value(found: Any) -> Value:
    if isinstance(found, dict):
        return CellError(str(found["error"]), str(found["why"]))
    return found if isinstance(found, bool | int | float | str) else None


def _taint(plain: Mapping[_Key, Plain], values: dict[_Key, Value]) -> None:
    """Say of every formula that reads one that could not be computed that it could not be either."""
    fresh = [key for key, value in values.items() if isinstance(value, CellError) and value.why]
    failed = {key: value for key in plain if isinstance(value := values.get(key), CellError) and not value.why}
    while fresh:
        name, position = fresh.pop()
        reading = [key for key in failed if _reads(plain[key], name, position)]
        for key in reading:
            values[key] = CellError(failed.pop(key).code, f"it reads {coordinate(position)}, which cannot be computed")
        fresh.extend(reading)


def _reads(one: Plain, sheet: str, position: Position) -> bool:
    return any(area.sheet == sheet and position in area for area in one.areas)
