"""Named graders on answers worked out by hand, and the wrapper around the user's."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.errors import SandboxError, SetupError, TaskError
from heldout.tasks import CheckedGrader, load_grader
from heldout.tasks.graders import GRADERS, last_number, normalise_label

TEXT_GRADERS = sorted(set(GRADERS) - {"repair", "tables", "spreadsheetbench", "formats", "ifeval", "humaneval", "math"})
"""Those that compare two texts at once; the others have specifications for references, or a process of their own."""


@pytest.mark.parametrize(
    ("answer", "reference", "score"),
    [
        ("person", "person", 1.0),
        ("  Person. ", "person", 1.0),
        ("**Person**", "person", 1.0),
        ("“person”", "person", 1.0),
        ("person\n\nbecause it asks who", "person", 1.0),
        ("card_arrival", "card arrival", 1.0),
        ("Top-up failed", "top up failed", 1.0),
        ("ENTITY:  creative work", "entity: creative work", 1.0),
        ("ｐｅｒｓｏｎ", "person", 1.0),
        ("the answer is person", "person", 0.0),
        ("personal", "person", 0.0),
        ("", "person", 0.0),
        ("because\nperson", "person", 0.0),
        ("C", "C++", 0.0),
        ("1", "-1", 0.0),
        ("15", "1.5", 0.0),
        ("?", "?", 1.0),
        ("!", "?", 0.0),
    ],
)
def test_label(answer: str, reference: str, score: float) -> None:
    assert load_grader("label")(answer, reference) == score


def test_labels_that_differ_only_in_case_and_marks_are_one() -> None:
    assert normalise_label(' "Reverted_card-payment?" ') == "reverted card payment"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("She has 3, so 4 in all", "4"),
        ("#### 18", "18"),
        ("total: $1,234.50.", "1234.50"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("it is −7", "-7"),
        ("10-5", "5"),
        ("- 5 apples", "5"),
        ("(2)-3", "3"),
        ("18%", "18"),
        (".5", "0.5"),
        ("so...5", "5"),
        ("1,2345", "2345"),
        (r"\boxed{42}", "42"),
        ("70,000 dollars", "70000"),
        ("3 and 4.", "4"),
    ],
)
def test_last_number(text: str, value: str) -> None:
    assert last_number(text) == Decimal(value)


def test_no_number_is_none() -> None:
    assert last_number("none at all.") is None


@pytest.mark.parametrize(
    ("answer", "reference", "score"),
    [
        ("So she makes $18.00 a day.", "16 - 3 = 13\n#### 18", 1.0),
        ("#### 70000", "work\n#### 70,000", 1.0),
        ("18.01", "#### 18", 0.0),
        ("eighteen", "#### 18", 0.0),
        ("18", "no number", 0.0),
    ],
)
def test_number(answer: str, reference: str, score: float) -> None:
    assert load_grader("number")(answer, reference) == score


def test_exact_keeps_case_and_marks() -> None:
    grade = load_grader("exact")
    assert (grade(" a b\n", "a b"), grade("A b", "a b"), grade("a b.", "a b")) == (1.0, 0.0, 0.0)


def test_contains_wants_whole_words() -> None:
    grade = load_grader("contains")
    assert grade("It is New\n York, surely", "new york") == 1.0
    assert grade("a personal matter", "person") == 0.0
    assert grade("C++ it is", "c++") == 1.0
    assert grade("anything", " ") == 0.0


@pytest.mark.parametrize("name", sorted(GRADERS))
def test_a_missing_answer_scores_zero(name: str) -> None:
    assert load_grader(name)(None, "5 person") == 0.0


@pytest.mark.parametrize("name", TEXT_GRADERS)
@given(answer=st.text(), reference=st.text())
def test_named_graders_never_raise(name: str, answer: str, reference: str) -> None:
    assert load_grader(name)(answer, reference) in (0.0, 1.0)


@pytest.mark.parametrize("value", [2, -0.1, math.nan, math.inf, "1", None, [1]])
def test_what_is_not_a_score_names_grader_task_and_value(value: object) -> None:
    grader = CheckedGrader("mine:grade", lambda _answer, _reference: value)
    with pytest.raises(TaskError) as caught:
        grader("a", "b", task="t7")
    assert all(word in str(caught.value) for word in ("mine:grade", "t7", repr(value)))


@pytest.mark.parametrize(
    ("value", "score"),
    [(True, 1.0), (False, 0.0), (1, 1.0), (0.25, 0.25), (np.float32(0.5), 0.5), (np.bool_(True), 1.0)],
)
def test_scores_become_floats(value: object, score: float) -> None:
    result = CheckedGrader("g", lambda _answer, _reference: value)("a", "b")
    assert result == score
    assert type(result) is float


def test_a_grader_that_raises_is_named() -> None:
    def broken(_answer: str | None, _reference: str) -> float:
        raise KeyError("oops")

    with pytest.raises(TaskError, match=r"grader 'mine' on task 't1' raised: KeyError: 'oops'"):
        CheckedGrader("mine", broken)("a", "b", task="t1")


def test_a_grader_from_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_house_rules.py").write_text("def half(answer, reference):\n    return 0.5\nNOT_CALLABLE = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_grader("my_house_rules:half")("x", "y") == 0.5
    with pytest.raises(SetupError, match="is not a function"):
        load_grader("my_house_rules:NOT_CALLABLE")


def test_an_unknown_grader_says_what_there_is() -> None:
    with pytest.raises(SetupError, match="contains, exact, formats"):
        load_grader("fuzzy")


class Explaining:
    """A grader that says why."""

    def __init__(self, said: object) -> None:
        self.said = said

    def __call__(self, answer: str | None, reference: str) -> float:
        return float(answer == reference)

    def explain(self, answer: str | None, reference: str) -> Any:
        if isinstance(self.said, Exception):
            raise self.said
        return f"{answer} is not {reference}{self.said}" if isinstance(self.said, str) else self.said


def test_what_a_grader_explains_is_passed_on() -> None:
    grader = CheckedGrader("mine", Explaining("!"))
    assert grader.explain("a", "b", task="t1") == "a is not b!"
    assert grader.explain(None, "b") == ""
    assert load_grader("exact").explain("a", "b") == ""


@pytest.mark.parametrize(("said", "message"), [(KeyError("x"), "KeyError"), (3, "with 3; expected a text")])
def test_a_grader_that_cannot_explain_itself_is_named(said: object, message: str) -> None:
    with pytest.raises(TaskError, match=f"(?s)'mine'.*'t7'.*{message}"):
        CheckedGrader("mine", Explaining(said)).explain("a", "b", task="t7")


def test_a_sandbox_that_fails_keeps_its_name() -> None:
    def graded_by_running(_answer: str | None, _reference: str) -> float:
        raise SandboxError("no sandbox today")

    with pytest.raises(SandboxError, match="no sandbox today"):
        CheckedGrader("mine", graded_by_running)("a", "b")
    with pytest.raises(SandboxError, match="no sandbox today"):
        CheckedGrader("mine", Explaining(SandboxError("no sandbox today"))).explain("a", "b")
