"""What `tasks check` finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numbered_rows import body, row

from heldout.config import TasksConfig
from heldout.errors import SetupError, TaskError
from heldout.tasks import check_source, list_sources

Write = Callable[..., str]


def config(path: str, **changes: Any) -> TasksConfig:
    sizes = {"train": 20, "select": 12, "audit": 16}
    return TasksConfig.model_validate({"source": "jsonl", "path": path, **sizes, **changes})


def test_a_sound_source(write_tasks: Write) -> None:
    report = check_source(config(write_tasks([row(n, pool="ood" if n > 97 else "") for n in range(100)])))
    assert report.ok
    assert (report.items, report.graded, report.gold_right, report.wrong_refused) == (100, 100, 100, 100)
    assert report.exclude == ()
    assert report.strata == {"a": 25, "b": 75}
    assert report.pools == {"ood": 2}
    assert {role: sum(counts.values()) for role, counts in report.roles.items()} == {
        "train": 20,
        "select": 12,
        "audit": 16,
    }
    assert (report.exact_duplicates, report.near_duplicates, report.copies, report.examples) == (0, 0, 0, ())


def test_duplicates_are_counted_and_shown(write_tasks: Write) -> None:
    rows = [row(n) for n in range(100)]
    rows += [row(100, input=f"{body(0)} !"), row(101, input=f"{body(1)}xyz"), row(102, input=f"{body(0)}?")]
    report = check_source(config(write_tasks(rows), duplicates="drop"))
    assert (report.exact_duplicates, report.near_duplicates, report.copies) == (2, 1, 3)
    assert [(pair.a, pair.b, pair.exact) for pair in report.examples] == [
        ("t0", "t100", True),
        ("t0", "t102", True),
        ("t1", "t101", False),
    ]
    assert report.examples[0].a_text == body(0)


def test_a_division_that_would_stop_a_run_is_a_failure(write_tasks: Write) -> None:
    report = check_source(config(write_tasks([row(n, input=body(n // 2)) for n in range(100)])))
    assert not report.ok
    assert 'tasks.duplicates="drop"' in report.failures[0]
    assert report.roles == {}


@pytest.mark.parametrize(
    ("returned", "gold", "refused", "word"),
    [("1.0", 50, 0, "a wrong answer"), ("0.0", 0, 50, "its own reference"), ("2", 0, 0, "returned 2")],
)
def test_a_dead_grader_is_found(
    write_tasks: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    returned: str,
    gold: int,
    refused: int,
    word: str,
) -> None:
    module = f"my_dead_grader_{returned.replace('.', '_')}"
    (tmp_path / f"{module}.py").write_text(f"def grade(answer, reference):\n    return {returned}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    report = check_source(config(write_tasks([row(n) for n in range(50)]), grader=f"{module}:grade"))
    assert (report.gold_right, report.wrong_refused, report.ok) == (gold, refused, False)
    assert word in report.failures[0]
    assert any("more" in line for line in report.failures)


def test_wrong_answers_are_other_labels_and_other_numbers(write_tasks: Write) -> None:
    labelled = write_tasks([row(n, reference="yes" if n % 2 else "no") for n in range(50)])
    assert check_source(config(labelled, options={"labels": ["yes", "no"]})).wrong_refused == 50
    numbers = write_tasks([row(n, reference=n) for n in range(50)])
    assert check_source(config(numbers, grader="number")).ok


def test_a_grader_that_pays_for_naming_every_label_is_a_failure(write_tasks: Write) -> None:
    path = write_tasks([row(n, reference="yes" if n % 2 else "no") for n in range(50)])
    loose = check_source(config(path, options={"labels": ["yes", "no"]}, grader="contains"))
    assert any("lists every label scores 1 on 50 tasks" in line for line in loose.failures)
    assert check_source(config(path, options={"labels": ["yes", "no"]})).ok


def test_labels_that_the_grader_cannot_tell_apart_leave_no_wrong_answer_to_hide_behind(write_tasks: Write) -> None:
    path = write_tasks([row(n, reference="Yes." if n % 2 else "yes") for n in range(50)])
    report = check_source(config(path, options={"labels": ["Yes.", "yes"]}))
    assert any("'Yes.'" in line and "'yes'" in line for line in report.failures)


def test_a_source_that_cannot_be_read_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"absent\.jsonl"):
        check_source(config(str(tmp_path / "absent.jsonl")))


def test_every_named_source_has_a_summary() -> None:
    entries = {entry.name: entry.summary for entry in list_sources()}
    files, worlds = {"jsonl", "csv", "spreadsheetbench"}, {"questions", "formats", "repair", "tables"}
    maths = {"gsm8k", "math500", "aime", "amc23", "minerva_math"}
    assert set(entries) == files | worlds | maths | {
        "trec:6",
        "trec:50",
        "banking77",
        "ifeval",
        "humaneval",
        "swe",
        "harbor",
    }
    assert all(summary.endswith(".") or ")" in summary for summary in entries.values())
    assert "50 classes" in entries["trec:50"]


FOLDERS = """
from heldout.tasks import Item

class Source:
    "Tasks in a work folder."
    description, instruction, labels, grader = "d", "i", (), "my_folders{number}:grade"
    environment = object()
    def __init__(self, *, path=None, seed=0):
        self.items = lambda: [
            Item(
                id=f"t{{n}}",
                input=f"body {{n * 7919 % 10007}} of {{n * 104729 % 99991}}",
                reference=str(n),
                stratum="ab"[n % 10 == 0],
            )
            for n in range(120)
        ]
    def solution(self, item):
        {solution}

calls = []
def grade(answer, reference):
    calls.append((answer, reference))
    return float(answer == "mended " + reference)
"""


@pytest.mark.parametrize(("sample", "graded"), [(None, 24), (6, 6), (0, 120)])
def test_work_folders_are_graded_on_a_sample_of_every_stratum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: int | None, graded: int
) -> None:
    name = f"my_folders{graded}"
    source = FOLDERS.format(number=graded, solution="return 'mended ' + item.reference")
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = TasksConfig(source=f"{name}:Source", train=20, select=12, audit=16)
    report = check_source(settings, sample=sample)
    assert report.ok, report.failures
    assert (report.items, report.graded, report.gold_right, report.wrong_refused) == (120, graded, graded, graded)
    calls = __import__(name).calls
    tried = [reference for answer, reference in calls if answer.startswith("mended ")]
    assert [reference for answer, reference in calls if answer == "{}"] == tried
    assert sum(int(reference) % 10 == 0 for reference in tried) == min(graded // 2, 12)
    assert check_source(settings, sample=sample) == report


def test_a_task_whose_own_solution_fails_is_named_for_exclusion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "return 'half' if item.id in ('t7', 't10') else 'mended ' + item.reference"
    (tmp_path / "my_folders1.py").write_text(FOLDERS.format(number=1, solution=broken))
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = TasksConfig(source="my_folders1:Source", train=20, select=12, audit=16)
    report = check_source(settings, sample=0)
    assert not report.ok
    assert report.exclude == ("t7", "t10")
    assert (report.graded, report.gold_right, report.wrong_refused) == (120, 118, 120)
    assert "task 't7': its own reference 'half' scores 0, expected 1" in report.failures


def test_a_source_that_cannot_make_a_solution_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_folders2.py").write_text(FOLDERS.format(number=2, solution="raise KeyError(item.id)"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TaskError, match=r"could not make a solution of 't\d+': KeyError"):
        check_source(TasksConfig(source="my_folders2:Source", train=20, select=12, audit=16))
