"""Grades what an agent left of SpreadsheetBench's workbooks, at the cells where the answer is expected."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from heldout.benchmarks.spreadsheet_folder import Case, digest_of_file
from heldout.errors import TaskError
from heldout.records import Record
from heldout.tasks.environment import read_changes
from heldout.tasks.workbooks import Area, Book, Fault, compare, computed, coordinate, file_bytes, read_areas, read_book

__all__ = ["SpreadsheetGrader", "SpreadsheetReference", "answer_of", "grade_spreadsheets", "names_of", "values_of"]

_DECIMALS = 2
"""The published evaluation rounds numbers so, and takes text that is a number for one."""
_SHOWN = 40
_REMEMBERED = 1 << 20
"""Workbooks of at most this many bytes are compared once: larger ones would fill the memory of a run."""


class SpreadsheetReference(Record):
    """What a task is graded by. It holds no answer, but says where the answers lie."""

    id: str
    root: str
    """Folder of the data."""
    position: str
    rule: Literal["hard", "soft"] = "hard"
    cases: tuple[Case, ...]
    digests: tuple[str, ...]
    """SHA-256 of the input and the answer of each case, one after the other."""


def names_of(cases: int) -> tuple[str, ...]:
    """What the workbooks are called in a work folder: published names hold the id of the task."""
    return ("workbook.xlsx",) if cases == 1 else tuple(f"workbook_{number}.xlsx" for number in range(1, cases + 1))


@dataclass(frozen=True, slots=True)
class SpreadsheetGrader:
    """Compares each workbook with its answer, at the cells of answer_position.

    Values only, after formulas are computed; numbers as published, rounded to two decimals, and text that is a number
    as the number. Fonts, colours and other files do not count. With `rule` hard 1 where every case is right, else 0;
    with soft the share of cases that are right. A workbook that is gone or does not open is wrong. `TaskError` where
    an answer itself cannot be read, or has changed since the tasks were read.
    """

    sandbox: str = "bubblewrap"
    """Where formulas are computed."""

    def __call__(self, answer: str | None, reference: str) -> float:
        """Score of an answer."""
        spec = SpreadsheetReference.model_validate_json(reference)
        right = [not faults for _, faults in self._cases(answer, spec)]
        return float(all(right)) if spec.rule == "hard" else sum(right) / len(right)

    def explain(self, answer: str | None, reference: str) -> str:
        """The first differences of each workbook that is not right."""
        spec = SpreadsheetReference.model_validate_json(reference)
        return "\n".join(f"{name}: {fault}" for name, faults in self._cases(answer, spec) for fault in faults)

    def _cases(self, answer: str | None, spec: SpreadsheetReference) -> Iterator[tuple[str, tuple[str, ...]]]:
        changes = read_changes(answer)
        for at, name in enumerate(names_of(len(spec.cases))):
            text = changes.get(name, "")
            if text is None:
                yield name, ("the input workbook was deleted",)
                continue
            given = file_bytes({name: text})[name] if name in changes else None
            yield name, _compared(spec, at, given, self.sandbox)


grade_spreadsheets = SpreadsheetGrader()
"""The grader `spreadsheetbench`."""


def _compared(spec: SpreadsheetReference, at: int, data: bytes | None, sandbox: str) -> tuple[str, ...]:
    """What is wrong with one workbook; None is the input as it was."""
    compared = _remembered if data is None or len(data) <= _REMEMBERED else _compared_anew
    return compared(spec, at, data, sandbox)


def _compared_anew(spec: SpreadsheetReference, at: int, data: bytes | None, sandbox: str) -> tuple[str, ...]:
    case = spec.cases[at]
    areas = read_areas(spec.position)
    expected = _expected(spec.root, case.answer, spec.digests[2 * at + 1], spec.position, sandbox)
    if data is None:
        data = _bytes(Path(spec.root, case.input), spec.digests[2 * at])
    found = read_book("workbook.xlsx", data)
    if isinstance(found, Fault):
        return (f"it cannot be read: {found.reason}",)
    found = computed(found, only=_placed(areas, expected), sandbox=sandbox)
    return tuple(map(str, compare(expected, found, ranges=areas, text_numbers=True, decimals=_DECIMALS)))


@lru_cache(maxsize=64)
def _remembered(spec: SpreadsheetReference, at: int, data: bytes | None, sandbox: str) -> tuple[str, ...]:
    return _compared_anew(spec, at, data, sandbox)


@lru_cache(maxsize=128)
def _expected(root: str, answer: str, digest: str, position: str, sandbox: str) -> Book:
    book = read_book(answer, _bytes(Path(root, answer), digest), stored=True)
    if isinstance(book, Fault):
        raise TaskError(f"the answer workbook {book}")
    if not book.sheets:
        raise TaskError(f"the answer workbook {answer!r} has no sheets")
    return computed(book, only=_placed(read_areas(position), book), trust_stored=True, sandbox=sandbox)


def _placed(areas: tuple[Area, ...], expected: Book) -> tuple[Area, ...]:
    """The areas with a sheet each: as published, the answer's first one where they name none."""
    first = expected.sheets[0].name
    return tuple(area if area.sheet is not None else Area(first, area.first, area.last) for area in areas)


def _bytes(path: Path, digest: str) -> bytes:
    if digest_of_file(path) != digest:
        raise TaskError(f"{str(path)!r} changed since the tasks were read; restore it")
    return path.read_bytes()


def answer_of(spec: SpreadsheetReference) -> dict[str, str]:
    """The right answer: each answer workbook in the place of its input, as base64."""
    names = names_of(len(spec.cases))
    return {
        name: base64.b64encode(_bytes(Path(spec.root, case.answer), spec.digests[2 * at + 1])).decode("ascii")
        for at, (name, case) in enumerate(zip(names, spec.cases, strict=True))
    }


def values_of(spec: SpreadsheetReference) -> str:
    """The values that the first answer holds at the cells that count, one a line; for the leak check."""
    expected = _expected(spec.root, spec.cases[0].answer, spec.digests[1], spec.position, "bubblewrap")
    lines = []
    for area in _placed(read_areas(spec.position), expected):
        sheet = expected.sheet(str(area.sheet))
        cells = {} if sheet is None else sheet.cells
        lines += [f"{coordinate(place)} = {cells[place]}" for place in sorted(cells) if place in area]
    return "\n".join(lines[:_SHOWN])
