"""The grader of `formats`: what it takes for right, which faults it names, and that no text can upset it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heldout.tasks.graders import CUT, load_grader
from heldout.worlds.formats import Fault, Job, grade
from heldout.worlds.formats.grading import LONGEST

LIST = Job(words=("amber", "cedar", "lily", "maple"))
COUNT = LIST.model_copy(update={"count": 2})
JSON = LIST.model_copy(update={"count": 2, "wrapper": "json"})
JSON_SUM = JSON.model_copy(update={"addends": (27, 58)})
TAGS = LIST.model_copy(update={"count": 2, "wrapper": "tags"})
TAGS_SUM = TAGS.model_copy(update={"addends": (27, 58)})
SUM = LIST.model_copy(update={"addends": (27, 58)})
SORT = Job(words=("maple", "amber", "cedar"), skill="sort")


def faults(answer: str, job: Job) -> list[str]:
    found = grade.faults(answer, job.model_dump_json())
    assert grade(answer, job.model_dump_json()) == float(not found)
    assert bool(grade.explain(answer, job.model_dump_json())) == bool(found)
    return [str(fault) for fault in found]


@pytest.mark.parametrize(
    ("answer", "job"),
    [
        ("amber, cedar, lily, maple", LIST),
        (" maple ,lily,  cedar,amber \n", LIST),
        ("lily, amber", COUNT),
        ('{"words": ["amber", "lily"]}', JSON),
        ('{ "words" :\n [ "amber" , "lily" ] }', JSON),
        ('{"sum": 85, "words": ["amber", "lily"]}', JSON_SUM),
        ("<words>amber, lily</words>", TAGS),
        ("<words> amber,lily </words>\n<sum> 85 </sum>", TAGS_SUM),
        ("amber, cedar, lily, maple; 85", SUM),
        ("amber, cedar, lily, maple ;85", SUM),
        ("AMBER, LILY", COUNT.model_copy(update={"upper": True})),
        ("amber, cedar, maple", SORT),
    ],
)
def test_spacing_and_order_are_free(answer: str, job: Job) -> None:
    assert faults(answer, job) == []


@pytest.mark.parametrize(
    ("answer", "job", "found"),
    [
        ("amber, lily", JSON, ["wrapper"]),
        ('{"words": ["amber", "lily"]', JSON, ["wrapper"]),
        ('["amber", "lily"]', JSON, ["wrapper"]),
        ('{"words": ["amber", "lily"], "sum": 3}', JSON, ["wrapper"]),
        ('{"words": ["amber", "lily"], "note": 1}', JSON, ["wrapper", "list", "count"]),
        ('{"words": ["amber"], "words": ["amber", "lily"]}', JSON, ["wrapper", "list", "count"]),
        ('Sure: {"words": ["amber", "lily"]}', JSON, ["wrapper", "list", "count", "case"]),
        ('{"words": ["amber", "lily"], "sum": "85"}', JSON_SUM, ["wrapper"]),
        ('{"words": ["amber", "lily"], "sum": 85.0}', JSON_SUM, ["wrapper", "carry"]),
        ('{"words": ["amber", "lily"], "sum": true}', JSON_SUM, ["wrapper", "list", "count", "carry"]),
        ('{"words": ["amber", "lily"], "sum": null}', JSON_SUM, ["wrapper", "list", "count", "carry"]),
        ('{"words": ["amber", "lily"]}', JSON_SUM, ["carry"]),
        ('{"words": ["amber", "lily"], "sum": 75}', JSON_SUM, ["carry"]),
        ('{"words": ["amber", " lily"]}', JSON, ["list"]),
        ("<words>amber, lily", TAGS, ["wrapper"]),
        ("<words>amber, lily</words> <sum>1</sum>", TAGS, ["wrapper"]),
        ("<words>amber, lily</words>.", TAGS, ["wrapper"]),
        ("<words>amber, lily</words> <sum>75</sum>", TAGS_SUM, ["carry"]),
        ("<words>amber, lily</words>", TAGS_SUM, ["carry"]),
        ('{"words": ["amber", "lily"]}', COUNT, ["wrapper"]),
        ("amber\nlily", COUNT, ["wrapper"]),
        ("amber, lily; 85", COUNT, ["wrapper"]),
        ("amber, cedar, lily, maple", SUM, ["carry"]),
        ("amber, cedar, lily, maple; 75", SUM, ["carry"]),
        ("amber, cedar, lily, maple; 85 in all", SUM, ["carry"]),
        ("amber, olive", COUNT, ["list"]),
        ("amber, amber", COUNT, ["list"]),
        ("amber, cedar, lily", LIST, ["list"]),
        ("amber, cedar, lily", COUNT, ["count"]),
        ("Amber, lily", COUNT, ["case"]),
        ("AMBER, lily", COUNT.model_copy(update={"upper": True}), ["case"]),
        ("cedar, amber", COUNT.model_copy(update={"exclude": "amber"}), ["word"]),
        ("cedar, lily", COUNT.model_copy(update={"include": "amber"}), ["word"]),
        ("cedar, lily, maple", LIST.model_copy(update={"include": "amber"}), ["word"]),
        ("amber, cedar, lily, maple", LIST.model_copy(update={"exclude": "amber"}), ["word"]),
        ("", COUNT, ["count"]),
        ("", JSON_SUM, ["wrapper", "count", "carry"]),
        ("amber, maple, cedar", SORT, ["list"]),
        ("Amber, cedar, maple", SORT, ["list"]),
    ],
)
def test_every_fault_is_named_for_itself(answer: str, job: Job, found: list[str]) -> None:
    assert faults(answer, job) == found


def test_faults_stand_in_the_order_in_which_they_hide_each_other() -> None:
    job = Job(
        words=("amber", "cedar", "lily", "maple"),
        count=2,
        exclude="amber",
        upper=True,
        addends=(27, 58),
        wrapper="json",
    )
    answer = "amber, cedar, olive; 75\nAnd so on" + CUT
    assert faults(answer, job) == [fault.value for fault in Fault]


def test_an_answer_that_did_not_stop_is_judged_by_its_first_line() -> None:
    assert faults(f"amber, lily\nList these words: amber{CUT}", COUNT) == ["stop"]
    assert faults(f"\n amber, lily \nmore{CUT}", COUNT) == ["stop"]
    assert faults(f"amber, lily, and then{CUT}", COUNT) == ["stop", "list", "count"]
    assert faults("amber, lily\nmore", COUNT) == ["wrapper", "list", "count"]


def test_a_plain_skill_is_judged_by_its_first_line_whether_or_not_it_stopped() -> None:
    assert faults(f"amber, cedar, maple\nSort: lily{CUT}", SORT) == []
    assert faults("amber, cedar, maple\nSort: lily", SORT) == []
    assert faults(f"maple, cedar, amber\n{CUT}", SORT) == ["list"]


def test_an_explanation_says_what_was_expected_and_found() -> None:
    said = grade.explain("amber, cedar, lily; 75", COUNT.model_copy(update={"addends": (27, 58)}).model_dump_json())
    assert said == "Expected exactly 2 words, found 3. The sum of 27 and 58 is 85; it is given as 75."


def test_it_is_the_grader_formats_and_a_missing_answer_scores_0() -> None:
    checked = load_grader("formats")
    assert checked("amber, lily", COUNT.model_dump_json()) == 1.0
    assert checked(None, COUNT.model_dump_json()) == 0.0
    assert checked.faults("amber", COUNT.model_dump_json()) == ("count",)
    assert checked.explain("amber", COUNT.model_dump_json()) == "Expected exactly 2 words, found 1."


JOBS = st.builds(
    Job,
    words=st.just(("amber", "cedar", "lily", "maple")),
    skill=st.sampled_from(["list", "copy", "reverse", "sort"]),
    count=st.sampled_from([None, 2, 3]),
    exclude=st.sampled_from([None, "cedar"]),
    upper=st.booleans(),
    addends=st.sampled_from([None, (27, 58)]),
    wrapper=st.sampled_from(["plain", "json", "tags"]),
)
PIECES = ["{", "}", "[", "]", '"words"', ":", '"sum"', "85", "amber", "CEDAR", ",", ";", "<words>", "</sum>", "\n", CUT]


@settings(max_examples=300, deadline=None)
@given(JOBS, st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join), st.text().map(lambda t: t + CUT)))
def test_no_text_makes_it_raise_and_its_score_is_whether_there_is_a_fault(job: Job, answer: str) -> None:
    found = faults(answer, job)
    assert found == [fault.value for fault in Fault if fault.value in found]


@pytest.mark.parametrize(
    "answer",
    [
        "[" * 1_000_000,
        '{"words":' * 120_000,
        '{"words": ' + "[" * (LONGEST - 100) + "]" * 50,
        '{"words": [' + ",".join(['"amber"'] * 100_000) + "]}",
        '{"words": ["amber", "lily"], "sum": ' + "9" * (LONGEST - 60) + "}",
        "<words>" * 150_000,
        "amber, " * 150_000,
        " " * 1_000_000,
        ";" * 1_000_000,
        "\ud800" * 1000,
        json.dumps({"words": "amber"}),
        json.dumps({"words": [["amber"]]}),
        "9" * 5000,
        "NaN",
    ],
)
@pytest.mark.parametrize("job", [LIST, JSON, JSON_SUM, TAGS_SUM, SUM, SORT], ids=lambda job: job.wrapper)
def test_hostile_text_is_only_a_wrong_answer(answer: str, job: Job) -> None:
    assert faults(answer, job)
    assert len(grade.explain(answer, job.model_dump_json())) < 1000
