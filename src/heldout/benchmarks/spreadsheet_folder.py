"""The published layout of SpreadsheetBench: `dataset.json`, and a folder of workbooks for each of its tasks."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.benchmarks.scenes import safe_path
from heldout.errors import SetupError
from heldout.records import Record
from heldout.tasks.workbooks import read_areas

__all__ = ["Case", "SpreadsheetTask", "digest_of_file", "read_dataset"]

_DATASET = "dataset.json"
_PROMPT = "prompt.txt"
_KINDS: Mapping[str, tuple[str, ...]] = {"input": ("input", "init", "initial"), "answer": ("answer", "golden")}
# Five tasks of the verified set have bare names without number and id, and one has another task's id in its answer's
# name: the number tells which belong together, the folder whose they are.
_NAME = re.compile(r"(?:(\d+)_(?:.*_)?)?([a-z]+)\.xlsx", re.IGNORECASE)


class Case(Record):
    """One input workbook with its answer, as paths relative to the folder of the data."""

    number: int
    input: str
    answer: str


@dataclass(frozen=True, slots=True)
class SpreadsheetTask:
    """One entry of the data, checked."""

    id: str
    instruction: str
    kind: str
    """`Cell-Level Manipulation` or `Sheet-Level Manipulation`."""
    position: str
    """The cells that are compared, such as `Sheet1!A1:B5,'a sheet'!C2`."""
    cases: tuple[Case, ...]
    """In the order of their numbers."""


def read_dataset(root: Path, *, exclude: Sequence[str] = ()) -> list[SpreadsheetTask]:
    """Every task of the folder but the excluded ones; `SetupError` names the task and the file at fault."""
    path = root / _DATASET
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise SetupError(
            f"cannot read {str(path)!r}: {cause.strerror}; tasks.path is the folder that holds {_DATASET}, as it is "
            "published at https://github.com/RUCKBReasoning/SpreadsheetBench"
        ) from cause
    except ValueError as cause:
        raise SetupError(f"{str(path)!r} is no JSON: {cause}") from cause
    if not isinstance(entries, list) or not entries:
        raise SetupError(f"{str(path)!r} must hold a list of tasks")
    tasks = []
    for number, entry in enumerate(entries, start=1):
        where = f"{str(path)!r}, entry {number}"
        name = _id(entry, where)
        if name not in exclude:
            tasks.append(_task(root, entry, name, f"{where} (task {name!r})"))
    _refuse_twice(tasks, path)
    return tasks


def digest_of_file(path: Path) -> str:
    """SHA-256 of its bytes."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as cause:
        raise SetupError(f"cannot read {str(path)!r}: {cause.strerror}") from cause


def _id(entry: Any, where: str) -> str:
    name = entry.get("id") if isinstance(entry, dict) else None
    if isinstance(name, bool) or not isinstance(name, str | int) or not str(name).strip():
        raise SetupError(f"{where}: expected an object with an id, a text or a number, got {str(entry)[:80]!r}")
    return str(name)


def _task(root: Path, entry: Mapping[str, Any], name: str, where: str) -> SpreadsheetTask:
    place = safe_path(str(entry.get("spreadsheet_path") or f"spreadsheet/{name}"), where=where)
    folder = root / place
    if not folder.is_dir():
        raise _fault(where, name, f"there is no folder {str(folder)!r} (spreadsheet_path)")
    position = _text(entry, "answer_position", where, name)
    try:
        read_areas(position)
    except ValueError as cause:
        raise _fault(where, name, f"answer_position {position!r}: {cause}") from cause
    return SpreadsheetTask(
        id=name,
        instruction=_instruction(entry, folder, where, name),
        kind=str(entry.get("instruction_type") or ""),
        position=position,
        cases=_cases(folder, place, where, name),
    )


def _instruction(entry: Mapping[str, Any], folder: Path, where: str, name: str) -> str:
    """Of the entry; of the verified set's prompt.txt where the entry has none."""
    prompt = folder / _PROMPT
    if not entry.get("instruction") and prompt.is_file():
        try:
            return prompt.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as cause:
            raise _fault(where, name, f"cannot read {str(prompt)!r}: {cause}") from cause
    return _text(entry, "instruction", where, name).strip()


def _text(entry: Mapping[str, Any], field: str, where: str, name: str) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _fault(where, name, f"the field {field!r} must be a text, got {str(value)[:60]!r}")
    return value


def _cases(folder: Path, place: str, where: str, name: str) -> tuple[Case, ...]:
    found: dict[str, dict[int, str]] = {"input": {}, "answer": {}}
    for file in sorted(folder.iterdir()):
        named = _NAME.fullmatch(file.name)
        kind = next((kind for kind, words in _KINDS.items() if named and named[2].lower() in words), None)
        if named is None or kind is None:
            continue
        number = int(named[1] or 1)
        if number in found[kind]:
            raise _fault(
                where, name, f"{str(folder)!r} has two {kind}s number {number}: {found[kind][number]}, {file.name}"
            )
        found[kind][number] = file.name
    if not found["input"]:
        raise _fault(
            where, name, f"{str(folder)!r} holds no input workbook (N_{name}_input.xlsx or N_{name}_init.xlsx)"
        )
    for one, other in (("input", "answer"), ("answer", "input")):
        for number in sorted(found[one].keys() - found[other].keys()):
            raise _fault(where, name, f"{str(folder / found[one][number])!r} has no {other} workbook beside it")
    return tuple(
        Case(number=number, input=f"{place}/{found['input'][number]}", answer=f"{place}/{found['answer'][number]}")
        for number in sorted(found["input"])
    )


def _fault(where: str, name: str, what: str) -> SetupError:
    return SetupError(f'{where}: {what}; mend it, or leave the task out with tasks.options.exclude=["{name}"]')


def _refuse_twice(tasks: Sequence[SpreadsheetTask], path: Path) -> None:
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise SetupError(f"{str(path)!r}: two entries have the id {task.id!r}")
        seen.add(task.id)
