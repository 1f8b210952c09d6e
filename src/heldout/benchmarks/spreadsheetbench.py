"""SpreadsheetBench: manipulate a workbook as somebody asked for it in a forum (Ma et al., 2024)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from heldout.benchmarks.spreadsheet_folder import SpreadsheetTask, digest_of_file, read_dataset
from heldout.benchmarks.spreadsheet_grading import SpreadsheetReference, answer_of, names_of, values_of
from heldout.errors import SetupError, TaskError, need
from heldout.options import read_options
from heldout.records import Record, Task, digest_of
from heldout.sandbox import Limits, Scene
from heldout.tasks.base import Item
from heldout.tasks.environment import changes_answer
from heldout.tasks.workbooks import library

__all__ = ["SpreadsheetBenchSource", "SpreadsheetEnvironment", "SpreadsheetOptions"]

_TOOLS = ("openpyxl", "et_xmlfile")
_LIMITS = Limits(wall_s=120.0, cpu_s=60.0, memory_mb=2048, disk_mb=256)


class SpreadsheetOptions(Record):
    """`tasks.options` of `spreadsheetbench`."""

    cases: Literal[1, "all"] = 1
    """Workbooks of a task that are given and graded: the first, or all (three in the full set, one in the verified)."""
    rule: Literal["hard", "soft"] = "hard"
    """Score of several workbooks: 1 where all are right, or the share that is. With one they are the same."""
    exclude: tuple[str, ...] = ()
    """Ids of tasks to leave out."""


class SpreadsheetBenchSource:
    """SpreadsheetBench workbooks, graded at the answer's cells (tasks.path names the folder with dataset.json).

    The published folder: dataset.json with id, instruction, spreadsheet_path, instruction_type and answer_position, and
    for each task a folder with N_ID_input.xlsx and N_ID_answer.xlsx; or, in the verified set, N_ID_init.xlsx and
    N_ID_golden.xlsx. Workbooks are given as `workbook.xlsx` (or `workbook_1.xlsx`, …) and changed in place. An
    answer_position without a sheet means the answer's first sheet, as in the published evaluation.
    """

    description = "Change a workbook as its user asks; the cells where the answer is expected are compared."
    instruction = (
        "You are in a shell in the folder /work, which holds one or more .xlsx workbooks. Do with them what you are "
        "asked, with Python and openpyxl, and save each under its own name. The cells of the result are compared with "
        "the right ones, after formulas are computed."
    )
    labels: tuple[str, ...] = ()
    grader = "spreadsheetbench"

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        if path is None:
            raise SetupError("the source 'spreadsheetbench' reads the folder with dataset.json: set tasks.path to it")
        self.path = Path(path)
        self.options = read_options(SpreadsheetOptions, options, where="task source 'spreadsheetbench'")

    @property
    def environment(self) -> SpreadsheetEnvironment:
        """The input workbooks of every task."""
        inputs = {task.id: self._inputs(task) for task in self._tasks()}
        digests = {name: [digest_of_file(self.path / place) for place in places] for name, places in inputs.items()}
        return SpreadsheetEnvironment(
            root=str(self.path),
            inputs=tuple(inputs.items()),
            fingerprint=f"spreadsheetbench:{digest_of(digests)[:16]}",
        )

    def items(self) -> Sequence[Item]:
        return [
            Item(
                id=task.id,
                input=self._text(task),
                reference=self._reference(task).model_dump_json(),
                family=task.kind,
                stratum=task.kind,
            )
            for task in self._tasks()
        ]

    def solution(self, item: Item) -> str:
        """The answer workbooks in the places of the inputs."""
        spec = SpreadsheetReference.model_validate_json(item.reference)
        return changes_answer({}, answer_of(spec))

    def solution_text(self, item: Item) -> str:
        """The values at the cells that count."""
        return values_of(SpreadsheetReference.model_validate_json(item.reference))

    def _tasks(self) -> list[SpreadsheetTask]:
        tasks = read_dataset(self.path, exclude=self.options.exclude)
        if not tasks:
            raise SetupError(f"{str(self.path)!r}: tasks.options.exclude leaves no task")
        return tasks

    def _kept(self, task: SpreadsheetTask) -> SpreadsheetReference:
        cases = task.cases if self.options.cases == "all" else task.cases[:1]
        return SpreadsheetReference(
            id=task.id, root=str(self.path), position=task.position, rule=self.options.rule, cases=cases, digests=()
        )

    def _inputs(self, task: SpreadsheetTask) -> tuple[str, ...]:
        return tuple(case.input for case in self._kept(task).cases)

    def _reference(self, task: SpreadsheetTask) -> SpreadsheetReference:
        kept = self._kept(task)
        places = [place for case in kept.cases for place in (case.input, case.answer)]
        digests = tuple(digest_of_file(self.path / place) for place in places)
        return kept.model_copy(update={"digests": digests})

    def _text(self, task: SpreadsheetTask) -> str:
        """The instruction, with the published prompt's facts: the file, the type, and where the answer goes."""
        names = names_of(len(self._inputs(task)))
        files = (
            f"The workbook is {names[0]}" if len(names) == 1 else f"The workbooks are {', '.join(names)}, each alike"
        )
        kind = f" ({task.kind})" if task.kind else ""
        return f"{task.instruction}\n\n{files}{kind}. The answer is expected in {task.position}."


@dataclass(frozen=True, slots=True)
class SpreadsheetEnvironment:
    """Reads a task's inputs when it begins, so that it holds the content of none."""

    root: str
    inputs: tuple[tuple[str, tuple[str, ...]], ...]
    """Task, and the paths of its input workbooks below `root`."""
    fingerprint: str

    def scene(self, task: Task, *, seed: int) -> Scene:
        """See `Environment.scene`."""
        del seed  # These tasks begin in the same way in every run.
        need("openpyxl", extra="tables")
        places = dict(self.inputs).get(task.id)
        if places is None:
            raise TaskError(f"task {task.id!r} is not of the source 'spreadsheetbench' at {self.root!r}")
        shown = library(_TOOLS)
        books = {
            name: _base64(Path(self.root, place)) for name, place in zip(names_of(len(places)), places, strict=True)
        }
        return Scene(
            files={**shown.files, **books},
            encoded=(".xlsx",),
            mounts=shown.mounts,
            env={"PYTHONPATH": ":".join(shown.path)},
            limits=_LIMITS,
        )


def _base64(path: Path) -> str:
    try:
        return base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError as cause:
        raise TaskError(f"cannot read {str(path)!r}: {cause.strerror}") from cause
