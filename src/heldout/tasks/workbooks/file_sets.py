"""Grades the files of a work folder against the files that should be there."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from heldout.errors import TaskError
from heldout.tasks.workbooks.book import Book, Fault
from heldout.tasks.workbooks.comparison import compare
from heldout.tasks.workbooks.formulas import computed
from heldout.tasks.workbooks.sheets import WORKBOOK, is_table, read_book

__all__ = ["FilesGrade", "explain", "file_bytes", "grade_files"]

_SHOWN = 6
_CHARACTERS = 1200
_TEXT_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class FilesGrade:
    """What is wrong with a set of files; nothing where they are right."""

    faults: tuple[str, ...]
    """In words, the first of each file; whether a file is there comes before what it holds."""

    @property
    def right(self) -> bool:
        """Whether every file is as it should be, and there is no other."""
        return not self.faults

    @property
    def score(self) -> float:
        """1 or 0."""
        return float(self.right)


def grade_files(
    expected: Mapping[str, bytes],
    found: Mapping[str, bytes],
    *,
    inputs: Collection[str] = (),
    text_numbers: bool = False,
    sandbox: str = "bubblewrap",
) -> FilesGrade:
    """Compare the files that were left with those that should have been, by name and then each by its kind.

    Workbooks and CSV files are compared by content and structure (`compare`), after their formulas are computed; other
    files are the same text but for line ends and spaces at their end, or the same bytes. `inputs` names the expected
    files that were there from the start, so that a deleted one is called so. A file that does not open is a fault like
    any other. `SandboxError` where formulas would have to be computed and no sandbox starts.
    """
    faults = [*_missing(expected, found, inputs), *_unexpected(expected, found)]
    for name in sorted(expected.keys() & found.keys()):
        if found[name] != expected[name]:
            wrong = _wrong(name, expected[name], found[name], text_numbers=text_numbers, sandbox=sandbox)
            faults += [f"{name}: {one}" for one in wrong]
    return FilesGrade(tuple(faults))


def explain(grade: FilesGrade, *, characters: int = _CHARACTERS) -> str:
    """The faults in words, one a line, for the trace of a train task; empty where there are none."""
    more = len(grade.faults) - _SHOWN
    lines = [*grade.faults[:_SHOWN], *([f"… and {more} more"] if more > 0 else [])]
    return "\n".join(lines)[:characters]


def file_bytes(files: Mapping[str, str]) -> dict[str, bytes]:
    """The bytes of the files of a scene or a snapshot, in which workbooks are base64; a text that is no base64 stands
    for itself, so that it becomes a workbook that does not open."""
    return {name: _bytes(text) if name.lower().endswith(WORKBOOK) else _utf8(text) for name, text in files.items()}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return _utf8(text)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _missing(expected: Mapping[str, bytes], found: Mapping[str, bytes], inputs: Collection[str]) -> Iterator[str]:
    for name in sorted(expected.keys() - found.keys()):
        yield f"the input {name} was deleted" if name in inputs else f"there is no file {name}, which is wanted"


def _unexpected(expected: Mapping[str, bytes], found: Mapping[str, bytes]) -> Iterator[str]:
    for name in sorted(found.keys() - expected.keys()):
        yield f"there is a file {name[:200]}, which nobody asked for"


def _wrong(name: str, expected: bytes, found: bytes, *, text_numbers: bool, sandbox: str) -> list[str]:
    if not is_table(name):
        return [] if _text(expected) == _text(found) else ["it is not the text that is wanted"]
    given = read_book(name, found)
    if isinstance(given, Fault):
        return [f"it cannot be read: {given.reason}"]
    wanted = _wanted(name, expected, sandbox)
    differences = compare(wanted, computed(given, sandbox=sandbox), text_numbers=text_numbers)
    return [str(one) for one in differences]


@lru_cache(maxsize=64)
def _wanted(name: str, data: bytes, sandbox: str) -> Book:
    book = read_book(name, data, stored=True)
    if isinstance(book, Fault):
        raise TaskError(f"the expected file {book}")
    return computed(book, trust_stored=True, sandbox=sandbox)


def _text(data: bytes) -> list[str] | bytes:
    try:
        lines = [line.rstrip(" ") for line in data.decode("utf-8").splitlines()]
    except UnicodeDecodeError:
        return data
    while lines and not lines[-1]:
        lines.pop()
    return lines
