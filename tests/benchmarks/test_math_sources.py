"""MATH-500, AIME, AMC and Minerva: published files, right and wrong answers, and files with faults."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from heldout.benchmarks import AimeSource, Amc23Source, Gsm8kSource, Math500Source, MinervaMathSource
from heldout.benchmarks.math_answers import final_answer, plain_number, simplified
from heldout.benchmarks.math_grading import grade_math
from heldout.benchmarks.math_workers import math_workers
from heldout.config import TasksConfig
from heldout.errors import SetupError
from heldout.tasks import TaskSource, check_source, list_sources, load_source

NAMES = ("math500", "aime", "amc23", "minerva_math")


@pytest.mark.data
@pytest.mark.parametrize(
    ("source", "size"),
    [(Math500Source, 500), (AimeSource, 60), (Amc23Source, 40), (MinervaMathSource, 272)],
)
def test_own_answers_score_one_and_wrong_ones_zero(shared_data: Path, source: Any, size: int) -> None:
    folder = {Math500Source: "math500", AimeSource: "aime", Amc23Source: "amc23"}.get(source, "minerva_math")
    tasks: TaskSource = source(path=str(shared_data / folder))
    items = tasks.items()
    assert (len(items), len({item.id for item in items})) == (size, size)
    right = [grade_math(rf"It is \boxed{{{final_answer(item.reference)}}}.", item.reference) for item in items]
    assert right == [1.0] * size
    numbers = {item.reference: plain_number(simplified(final_answer(item.reference))) for item in items}
    wrong = [rf"\boxed{{{3 * value + 1}}}" for value in numbers.values() if value is not None]
    golds = [reference for reference, value in numbers.items() if value is not None]
    assert len(golds) >= size * 0.4
    assert not any(map(grade_math, wrong, golds))
    assert not any(grade_math("(this is no answer)", item.reference) for item in items)


@pytest.mark.data
def test_what_the_readers_keep(shared_data: Path) -> None:
    maths = Math500Source(path=str(shared_data / "math500")).items()
    assert (maths[0].id, maths[0].family, maths[0].stratum) == (
        "test/precalculus/807.json", "Precalculus", "Precalculus, level 2",
    )  # fmt: skip
    assert final_answer(maths[0].reference) == r"\left( 3, \frac{\pi}{2} \right)"
    assert len({item.family for item in maths}) == 7
    years = AimeSource(path=str(shared_data / "aime"), years=[2025]).items()
    assert [(item.id, item.reference, item.family) for item in years[:2]] == [
        ("2025-1", "70", "2025"),
        ("2025-2", "588", "2025"),
    ]
    both = {item.id: item.reference for item in AimeSource(path=str(shared_data / "aime")).items()}
    assert (both["2024-8"], len(both)) == ("25", 60)  # "025" in the file
    assert Amc23Source(path=str(shared_data / "amc23")).items()[0].reference == "27"  # 27.0 in the file
    parts = Counter(item.group for item in MinervaMathSource(path=str(shared_data / "minerva_math")).items())
    assert max(parts.values()) > 1


@pytest.mark.data
def test_the_published_answers_of_gsm8k_score_one(shared_data: Path) -> None:
    items = [item for item in Gsm8kSource(path=str(shared_data / "gsm8k")).items() if item.id.startswith("test")]
    assert [grade_math(item.reference, item.reference) for item in items] == [1.0] * 1319
    assert not any(grade_math(item.reference + "1", item.reference) for item in items)


@pytest.mark.data
@pytest.mark.slow
def test_the_library_reads_every_published_answer_and_tells_it_from_the_next(shared_data: Path) -> None:
    answers = [final_answer(item.reference) for item in Math500Source(path=str(shared_data / "math500")).items()]
    workers = math_workers()
    assert {workers.compare(answer, answer, cpu_s=5.0) for answer in answers} == {"same"}
    pairs = [pair for pair in pairwise(answers) if simplified(pair[0]) != simplified(pair[1])]
    same = [pair for pair in pairs if workers.compare(*pair, cpu_s=5.0) != "different"]
    assert same == [("5", "x=5")], same  # which do say the same


@pytest.mark.data
def test_a_check_of_the_source_finds_nothing_to_mend(shared_data: Path) -> None:
    report = check_source(TasksConfig.model_validate({"source": "math500", "path": str(shared_data / "math500")}))
    assert (report.ok, report.gold_right, report.wrong_refused, report.items) == (True, 500, 500, 500), report.failures


def test_the_sources_are_listed() -> None:
    assert {*NAMES, "ifeval", "humaneval"} <= {entry.name for entry in list_sources()}


@pytest.mark.parametrize("name", [*NAMES, "ifeval", "humaneval"])
def test_no_folder_says_how_to_give_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HELDOUT_DATA", raising=False)
    with pytest.raises(SetupError, match=r"tasks\.path=FOLDER, or HELDOUT_DATA"):
        load_source(TasksConfig.model_validate({"source": name}))
    with pytest.raises(SetupError, match="published at https://"):
        load_source(TasksConfig.model_validate({"source": name, "path": str(tmp_path)}))


GOOD_MATH = {"unique_id": "t/1", "problem": "1+1?", "solution": r"It is $\boxed{2}$.", "answer": "2", "subject": "A"}
GOOD_AIME = {"problem": "1+1?", "answer": "002"}
GOOD_MINERVA = {"idx": 0, "problem": "1+1?", "solution": r"\boxed{2}", "type": "A"}


@pytest.mark.parametrize(
    ("source", "file", "row", "message"),
    [
        (Math500Source, "test.jsonl", GOOD_MATH | {"subject": None}, "expected unique_id, problem, solution, answer"),
        (Math500Source, "test.jsonl", GOOD_MATH | {"answer": "3"}, "the solution ends in '2', and the answer is '3'"),
        (Amc23Source, "test.jsonl", GOOD_AIME | {"answer": 2.5}, "a whole number for answer: 2.5"),
        (Amc23Source, "test.jsonl", GOOD_AIME | {"answer": True}, "a whole number for answer: True"),
        (Amc23Source, "test.jsonl", {"answer": "2"}, "expected a problem"),
        (MinervaMathSource, "test.jsonl", GOOD_MINERVA | {"solution": "2"}, r"the solution has no \\boxed"),
        (MinervaMathSource, "test.jsonl", {"idx": 1}, "expected problem, solution, type and idx"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, source: Any, file: str, row: dict[str, Any], message: str) -> None:
    (tmp_path / file).write_text(json.dumps(row) + "\n")
    with pytest.raises(SetupError, match=rf"row 1 \(line 1\): .*{message}"):
        source(path=str(tmp_path)).items()


def test_years_of_aime_that_there_are_not(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="options of task source 'aime': years"):
        AimeSource(path=str(tmp_path), years=[2023])
    (tmp_path / "aime2024.jsonl").write_text(json.dumps(GOOD_AIME) + "\n")
    (item,) = AimeSource(path=str(tmp_path), years=[2024]).items()
    assert (item.id, item.reference) == ("2024-1", "2")
