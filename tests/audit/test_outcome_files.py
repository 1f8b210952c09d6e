"""Outcome files of other tools, and pairing them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heldout.audit.outcome_files import OutcomeFile, pair, read_outcomes
from heldout.errors import SetupError


def scores(tmp_path: Path, content: Any, *, name: str = "o.json", **more: Any) -> dict[str, tuple[float | None, ...]]:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return dict(read_outcomes(path, **more).scores)


@pytest.mark.parametrize("wrap", [False, True])
def test_a_map_of_scores(tmp_path: Path, wrap: bool) -> None:
    content: dict[str, Any] = {"a": 1, "b": [0, 0.5, None], "c": True, "d": None, "e": "", "f": float("nan"), "g": []}
    wanted = {"a": (1.0,), "b": (0.0, 0.5, None), "c": (1.0,), "d": (None,), "e": (None,), "f": (None,), "g": ()}
    assert scores(tmp_path, {"n": 2, "outcomes": content} if wrap else content) == wanted


def test_rows_of_jsonl(tmp_path: Path) -> None:
    rows = '{"task": "a", "score": 1}\n{"task": "b", "score": null, "cost": 3}\n{"task": "a", "score": 0.25}\n'
    assert scores(tmp_path, rows, name="o.jsonl") == {"a": (1.0, 0.25), "b": (None, None)}
    assert scores(tmp_path, rows, name="o.json", format="jsonl")["a"] == (1.0, 0.25)


@pytest.mark.parametrize("header", ["task,score,repeat\n", ""])
def test_rows_of_csv_with_repeats_in_any_order(tmp_path: Path, header: str) -> None:
    rows = f"{header}a,1,2\na,0,1\nb,,2\nb,true,1\nc,0.5,2\n"
    assert scores(tmp_path, rows, name="o.csv") == {"a": (0.0, 1.0), "b": (1.0, None), "c": (None, 0.5)}


def test_csv_columns_by_name(tmp_path: Path) -> None:
    assert scores(tmp_path, "score,model,task\n1,m,a\n0,m,b\n", name="o.csv") == {"a": (1.0,), "b": (0.0,)}


def test_a_swe_bench_report(tmp_path: Path) -> None:
    report = {
        "total_instances": 8,
        "resolved_ids": ["a", "b"],
        "unresolved_ids": ["c"],
        "empty_patch_ids": ["d"],
        "error_ids": ["e"],
        "incomplete_ids": ["f"],
        "completed_ids": ["a", "b", "c"],
        "submitted_ids": ["a", "b", "c", "d", "e", "x"],
    }
    assert scores(tmp_path, report) == {
        "a": (1.0,), "b": (1.0,), "c": (0.0,), "d": (0.0,), "e": (None,), "f": (None,), "x": (None,),
    }  # fmt: skip
    path = tmp_path / "o.json"
    assert read_outcomes(path).format == "swebench"
    del report["unresolved_ids"]
    assert scores(tmp_path, report)["c"] == (0.0,)
    report["error_ids"] = ["a"]
    with pytest.raises(SetupError, match="'a' is in error_ids and in another list"):
        scores(tmp_path, report)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("o.json", '{"a": 1.5}', ["'a'", "1.5", "[0, 1]"]),
        ("o.json", '{"a": [1, -0.01]}', ["'a'", "-0.01"]),
        ("o.json", '{"a": "yes"}', ["'a'", "'yes'"]),
        ("o.json", '{"a": {"score": 1}}', ["'a'", "must be a number"]),
        ("o.json", '{"a": Infinity}', ["'a'", "inf"]),
        ("o.json", '{"a": 1, "a": 0}', ["'a' stands twice"]),
        ("o.json", '{"outcomes": [1]}', ["'outcomes' must be a map"]),
        ("o.json", "{}", ["holds no task outcomes"]),
        ("o.json", "[1, 2]", ["expected a JSON map"]),
        ("o.json", "{oops", ["not valid JSON"]),
        ("o.json", '{"resolved_ids": [3]}', ["resolved_ids must be a list of task ids"]),
        ("o.jsonl", '{"task": "a"}\n', ["row 1", "expected task and score"]),
        ("o.jsonl", '{"task": "a", "score": 1, "repeat": "x"}\n', ["row 1", "whole number", "'x'"]),
        ("o.csv", "task,score\na,7\n", ["'a'", "'7'"]),
        ("o.csv", "task,score,repeat\na,1,1\na,0,1\n", ["row 2", "repeat 1 of task 'a' stands twice"]),
        ("o.csv", "instance,resolved\na,1\n", ["expected the columns task, score", "instance, resolved"]),
        ("o.csv", "", ["holds no task outcomes"]),
    ],
)
def test_faults_name_file_task_and_value(tmp_path: Path, name: str, content: str, words: list[str]) -> None:
    with pytest.raises(SetupError) as caught:
        scores(tmp_path, content, name=name)
    assert all(word in str(caught.value) for word in [*words, name]), str(caught.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"absent\.json.*No such file"):
        read_outcomes(tmp_path / "absent.json")


def outcomes(name: str, **rows: tuple[float | None, ...]) -> OutcomeFile:
    return OutcomeFile(rows, name, "json")


def test_pairing_keeps_every_task_and_pads_with_not_measured() -> None:
    table = pair(outcomes("A", both=(1.0, 0.0), only_a=(1.0,)), outcomes("B", both=(0.5,), only_b=(0.0, None, 1.0)))
    nan = np.nan
    assert table.tasks == ("both", "only_a", "only_b")
    np.testing.assert_array_equal(table.a, [[1, 0, nan], [1, nan, nan], [nan, nan, nan]])
    np.testing.assert_array_equal(table.b, [[0.5, nan, nan], [nan, nan, nan], [0, nan, 1]])


def test_files_without_a_common_task_are_refused() -> None:
    with pytest.raises(SetupError, match="no task in common; for example 'a' is only in the first and 'b'"):
        pair(outcomes("A", a=(1.0,)), outcomes("B", b=(1.0,)))


@pytest.mark.data
def test_the_published_verse_outcomes(shared_data: Path) -> None:
    folder = shared_data / "verse_outcomes"
    table = pair(read_outcomes(folder / "meta_harness_id.json"), read_outcomes(folder / "verse_mh_id.json"))
    assert table.a.shape == table.b.shape == (108, 3)
    difference = table.b.mean(axis=1) - table.a.mean(axis=1)
    assert difference.mean() == pytest.approx(0.0309, abs=5e-5)
    assert difference.std(ddof=1) / np.sqrt(108) == pytest.approx(0.0265, abs=5e-5)
