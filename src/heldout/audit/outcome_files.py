"""Per-task outcomes of any tool, read from a file, and two of them paired.

Forms: a JSON map of task to score or list of scores (also under the key `outcomes`); JSONL or CSV rows
`task, score[, repeat]`; a SWE-bench report. `null`, an empty cell and NaN are *not measured*, never 0.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from heldout.errors import SetupError
from heldout.records import Comparison
from heldout.tasks.rows import read_jsonl

__all__ = ["OutcomeFile", "OutcomeFormat", "pair", "read_outcomes"]

OutcomeFormat = Literal["auto", "json", "jsonl", "csv", "swebench"]

_WORDS = {"true": 1.0, "false": 0.0}
_SWEBENCH: Mapping[str, float | None] = {
    "resolved_ids": 1.0,
    "unresolved_ids": 0.0,
    "empty_patch_ids": 0.0,
    "error_ids": None,
    "incomplete_ids": None,
}


@dataclass(frozen=True, slots=True)
class OutcomeFile:
    """Scores by task, one for each repeat; None is not measured."""

    scores: Mapping[str, tuple[float | None, ...]]
    source: str
    """The path that was read."""
    format: OutcomeFormat
    """What the file was read as; never `auto`."""


def read_outcomes(path: str | Path, *, format: OutcomeFormat = "auto") -> OutcomeFile:
    """Read one file of outcomes. `SetupError` names the file, the task and the value at fault."""
    path = Path(path)
    text = _text(path)
    kind = _guess(path, text) if format == "auto" else format
    if kind == "csv":
        scores = _from_rows(path, _csv_rows(path, text))
    elif kind == "jsonl":
        scores = _from_rows(path, ((row.where, row.fields) for row in read_jsonl(path)))
    else:
        content = _json(path, text)
        if kind == "swebench" or (format == "auto" and isinstance(content.get("resolved_ids"), list)):
            kind, scores = "swebench", _from_swebench(path, content)
        else:
            scores = _from_map(path, content)
    if not scores:
        raise SetupError(f"{str(path)!r} holds no task outcomes")
    return OutcomeFile(scores, str(path), kind)


def pair(a: OutcomeFile, b: OutcomeFile) -> Comparison:
    """The paired table over every task of either file, sorted by name.

    A task that one file lacks is not measured there. Repeats are padded with NaN
    to the longest of both files.
    `SetupError` where the files share no task.
    """
    if not a.scores.keys() & b.scores.keys():
        raise SetupError(
            f"{a.source!r} and {b.source!r} have no task in common; for example "
            f"{min(a.scores)!r} is only in the first and {min(b.scores)!r} only in the second"
        )
    tasks = tuple(sorted(a.scores.keys() | b.scores.keys()))
    repeats = max(1, *(len(scores) for file in (a, b) for scores in file.scores.values()))
    return Comparison(tasks, _table(a, tasks, repeats=repeats), _table(b, tasks, repeats=repeats))


def _table(file: OutcomeFile, tasks: Sequence[str], *, repeats: int) -> NDArray[np.float64]:
    table = np.full((len(tasks), repeats), np.nan)
    for row, task in enumerate(tasks):
        for column, score in enumerate(file.scores.get(task, ())):
            if score is not None:
                table[row, column] = score
    return table


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as cause:
        raise SetupError(f"cannot read the outcomes {str(path)!r}: {cause.strerror}") from cause
    except UnicodeDecodeError as cause:
        raise SetupError(f"{str(path)!r} is not UTF-8: byte {cause.start} cannot be read") from cause


def _guess(path: Path, text: str) -> OutcomeFormat:
    by_suffix: Mapping[str, OutcomeFormat] = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
    return by_suffix.get(path.suffix.lower(), "json" if text.lstrip().startswith("{") else "csv")


def _json(path: Path, text: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise SetupError(f"{str(path)!r}: {twice!r} stands twice in one map")
        return content

    try:
        content = json.loads(text, object_pairs_hook=unique)
    except (json.JSONDecodeError, RecursionError) as cause:
        raise SetupError(f"{str(path)!r} is not valid JSON: {cause}; rows of JSON need the format jsonl") from cause
    if not isinstance(content, dict):
        raise SetupError(f"{str(path)!r}: expected a JSON map of task to score, got a {type(content).__name__}")
    return content


def _from_map(path: Path, content: Mapping[str, Any]) -> dict[str, tuple[float | None, ...]]:
    outcomes = content.get("outcomes", content)
    if not isinstance(outcomes, dict):
        raise SetupError(f"{str(path)!r}: 'outcomes' must be a map of task to score, got {str(outcomes)[:60]!r}")
    return {
        task: tuple(_score(path, task, value) for value in (values if isinstance(values, list) else [values]))
        for task, values in outcomes.items()
    }


def _from_swebench(path: Path, report: Mapping[str, Any]) -> dict[str, tuple[float | None, ...]]:
    """Resolved is 1; unresolved and empty patches are 0; errors and what was never run are not measured.

    Reports without `unresolved_ids` have it as completed but not resolved.
    """
    scores: dict[str, tuple[float | None, ...]] = {}
    for key, score in _SWEBENCH.items():
        for task in _ids(path, report, key):
            if scores.setdefault(task, (score,)) != (score,):
                raise SetupError(f"{str(path)!r}: task {task!r} is in {key} and in another list that contradicts it")
    for task in _ids(path, report, "completed_ids"):
        scores.setdefault(task, (0.0,))
    for task in _ids(path, report, "submitted_ids"):
        scores.setdefault(task, (None,))
    return scores


def _ids(path: Path, report: Mapping[str, Any], key: str) -> list[str]:
    ids = report.get(key, [])
    if not isinstance(ids, list) or not all(isinstance(task, str) for task in ids):
        raise SetupError(f"{str(path)!r}: {key} must be a list of task ids, got {str(ids)[:60]!r}")
    return ids


def _csv_rows(path: Path, text: str) -> list[tuple[str, dict[str, Any]]]:
    """Rows by column name; a file whose first row already holds a score has the columns task, score, repeat."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as cause:
        raise SetupError(f"{str(path)!r} is not valid CSV: {cause}") from cause
    if not rows:
        return []
    header = [cell.strip() for cell in rows[0]]
    start = 1
    if "task" not in header and len(header) in (2, 3) and _is_score(header[1]):
        header, start = ["task", "score", "repeat"], 0
    if not {"task", "score"} <= set(header):
        raise SetupError(f"{str(path)!r}: expected the columns task, score[, repeat], got {', '.join(header)}")
    return [(f"row {number}", dict(zip(header, row, strict=False))) for number, row in enumerate(rows[start:], start=1)]


def _from_rows(path: Path, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, tuple[float | None, ...]]:
    """Rows of one task are its repeats: by the number in `repeat` where rows have it, else in file order."""
    by_task: dict[str, dict[int, float | None]] = {}
    for where, fields in rows:
        task = str(fields.get("task", "")).strip()
        if not task or "score" not in fields:
            raise SetupError(f"{str(path)!r}, {where}: expected task and score, got {dict(fields)!r}")
        known = by_task.setdefault(task, {})
        repeat = _repeat(path, where, fields, default=len(known))
        if repeat in known:
            raise SetupError(f"{str(path)!r}, {where}: repeat {repeat} of task {task!r} stands twice")
        known[repeat] = _score(path, task, fields["score"])
    columns = sorted({repeat for known in by_task.values() for repeat in known})
    return {task: tuple(known.get(repeat) for repeat in columns) for task, known in by_task.items()}


def _repeat(path: Path, where: str, fields: Mapping[str, Any], *, default: int) -> int:
    value = fields.get("repeat")
    if value is None or value == "":
        return default
    try:
        return int(value)
    except (TypeError, ValueError) as cause:
        raise SetupError(f"{str(path)!r}, {where}: repeat must be a whole number, got {value!r}") from cause


def _is_score(text: str) -> bool:
    try:
        _score(Path(), "", text)
    except SetupError:
        return False
    return True


def _score(path: Path, task: str, value: Any) -> float | None:
    """A score in [0, 1], or None for null, an empty text and NaN."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        score = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
        number = float(value) if score is None else score
    except (TypeError, ValueError) as cause:
        raise SetupError(f"{str(path)!r}: the score of task {task!r} must be a number, got {value!r}") from cause
    if math.isnan(number):
        return None
    if not 0.0 <= number <= 1.0:
        raise SetupError(f"{str(path)!r}: the score of task {task!r} must be in [0, 1], got {value!r}")
    return number
