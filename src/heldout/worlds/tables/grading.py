"""The grader of the world: every file as it should be, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from heldout.tasks.environment import read_changes
from heldout.tasks.workbooks import Book, FilesGrade, file_bytes, grade_files, read_book
from heldout.tasks.workbooks import explain as in_words
from heldout.worlds.tables.draft import draft_of, result_of
from heldout.worlds.tables.generator import ENCODED, job_of
from heldout.worlds.tables.job import Origin
from heldout.worlds.tables.live_formulas import formula_faults
from heldout.worlds.tables.programs import carried_out

__all__ = ["REMEMBERED", "TablesGrader", "grade", "read_origin"]

REMEMBERED = 65_536
"""Characters, at most, of an answer whose grade is remembered: several times those of any right answer. Longer ones
are graded each time, so that what a solver leaves behind does not fill this process's memory."""


def read_origin(text: str) -> Origin:
    """What a task is generated from, from the JSON that is its reference."""
    return Origin.model_validate_json(text)


@dataclass(frozen=True, slots=True)
class TablesGrader:
    """1 where every file that should be there is right by content and structure and there is no other file, else 0.

    Values of formula cells are computed in a sandbox; where it fails, `SandboxError` says that nothing was measured.
    An answer that is no set of changes scores 0, and so does a workbook that does not open. Where the request asks for
    live formulas, numbers in their place score 0. The same answer is graded once, unless it is very long.
    """

    sandbox: str = "bubblewrap"

    def __call__(self, answer: str | None, reference: str) -> float:
        """Score of an answer."""
        return 0.0 if answer is None else self._grade(answer, reference).score

    def explain(self, answer: str | None, reference: str) -> str:
        """What is wrong with the files that were left; empty for an answer that is right."""
        return "" if answer is None else in_words(self._grade(answer, reference))

    def _grade(self, answer: str, reference: str) -> FilesGrade:
        grade_once = _remembered if len(answer) <= REMEMBERED else _graded
        return grade_once(self, answer, reference)


def _graded(grader: TablesGrader, answer: str, reference: str) -> FilesGrade:
    origin = read_origin(reference)
    job = job_of(origin)
    found = dict(job.files)
    for name, text in read_changes(answer).items():
        if text is None:
            found.pop(name, None)
        else:
            found[name] = text
    return _compared(grader, origin, file_bytes(found))


_remembered = lru_cache(maxsize=1024)(_graded)


def _compared(grader: TablesGrader, origin: Origin, given: Mapping[str, bytes]) -> FilesGrade:
    expected, inputs = _expected(origin), job_of(origin).files.keys()
    live = {name: book for name, book in _with_formulas(origin).items() if name in given}
    graded = grade_files(
        {name: data for name, data in expected.items() if name not in live},
        {name: data for name, data in given.items() if name not in live},
        inputs=inputs,
        sandbox=grader.sandbox,
    )
    faults = list(graded.faults)
    for name, book in live.items():
        if not faults and given[name] != expected[name]:
            table = result_of(draft_of(origin))
            faults += formula_faults(name, book, table, given[name], sandbox=grader.sandbox)
    return FilesGrade(tuple(faults))


@lru_cache(maxsize=1024)
def _expected(origin: Origin) -> Mapping[str, bytes]:
    return file_bytes(carried_out(job_of(origin)))


@lru_cache(maxsize=1024)
def _with_formulas(origin: Origin) -> Mapping[str, Book]:
    """The files in which live formulas are asked for."""
    books = {name: read_book(name, data) for name, data in _expected(origin).items() if name.endswith(ENCODED)}
    return {name: book for name, book in books.items() if isinstance(book, Book) and book.has_formulas}


grade = TablesGrader()
"""The grader `tables`."""
