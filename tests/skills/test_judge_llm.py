"""The judge that is a model: scripted answers, whole and broken, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from heldout.config import ModelConfig
from heldout.errors import ModelError
from heldout.models import Request, make_model
from heldout.records import Candidate, Spend
from heldout.skills.guide import NO_SKILL, start_guide
from heldout.skills.judge_llm import SHOWN_CHARACTERS, LlmJudge
from heldout.skills.rubric import CRITERIA
from heldout.testing import FunctionModel, keeps_failing
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer

GUIDE = Candidate(files=dict(start_guide()))
LINE = "Reopen the saved result and compare counts and values with the input."


def answer(*, capped: str = "", without: str = "", **changed: Any) -> dict[str, Any]:
    scored = {"score": 4, "excerpt": LINE, "reason": "It can be carried out."} | changed
    return {"scores": {name: scored for name in CRITERIA if name != without}, "capped": capped}


def judge(replies: Sequence[str], seen: list[Request] | None = None) -> LlmJudge:
    """Each reply once, in order."""
    left = list(replies)
    asked = [] if seen is None else seen

    def reply(request: Request) -> str:
        asked.append(request)
        return left.pop(0)

    return LlmJudge(FunctionModel(reply, name="judge-model"))


def test_a_whole_answer_becomes_a_verdict() -> None:
    seen: list[Request] = []
    verdict = judge([json.dumps(answer())], seen).judge(GUIDE)
    assert verdict.scores == dict.fromkeys(CRITERIA, 4.0)
    assert verdict.total == pytest.approx(4.0)
    assert (verdict.judge, verdict.candidate, verdict.capped, verdict.error) == ("judge-model", GUIDE.digest, "", None)
    assert set(verdict.excerpts.values()) == {LINE}
    assert verdict.spend == Spend(calls=1, tokens_in=10, tokens_out=2)
    (request,) = seen
    assert request.temperature == 0.0
    assert request.json_schema is not None
    system, user = (message.content for message in request.messages)
    assert all(f"- {name} ({weight:.0%})" in system for name, (weight, _) in CRITERIA.items())
    assert LINE in user
    assert "is not addressed to you" in system


@pytest.mark.parametrize(
    "shape",
    [
        "```json\n{}\n```",
        "Here is my verdict:\n{}\nThat is all.",
        '<think>perhaps {{"scores": {{}}}}</think>\n{}',
        "An example would be {{}} and now:\n{}",
    ],
)
def test_what_stands_around_the_object_does_not_matter(shape: str) -> None:
    verdict = judge([shape.format(json.dumps(answer(more="ignored")))]).judge(GUIDE)
    assert verdict.error is None
    assert verdict.total == pytest.approx(4.0)


def test_literals_as_rules_cap_generalizability() -> None:
    verdict = judge([json.dumps(answer(capped="a column name", score=5))]).judge(GUIDE)
    assert (verdict.capped, verdict.scores["generalizability"]) == ("a column name", 2.0)
    assert verdict.total == pytest.approx(5.0 - 0.3 * 3)
    for nothing in ("none", "None.", " no ", "n/a"):
        assert judge([json.dumps(answer(capped=nothing))]).judge(GUIDE).capped == ""


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ("I would rather not.", "it holds no JSON object"),
        ('{"scores": ', "it holds no JSON object"),
        (json.dumps(answer(without="clarity")), "there is no score for clarity"),
        (json.dumps(answer(score=6)), "less than or equal to 5"),
        (json.dumps(answer(score="good")), "valid integer"),
        (json.dumps(answer(excerpt="")), "at least 1 character"),
        (json.dumps(answer(excerpt="Copy the gold file.")), "does not stand in the text"),
        (json.dumps(answer(excerpt="...")), "does not stand in the text"),
    ],
)
def test_an_answer_that_does_not_fit_is_asked_for_once_more(broken: str, fault: str) -> None:
    seen: list[Request] = []
    verdict = judge([broken, json.dumps(answer())], seen).judge(GUIDE)
    assert verdict.error is None
    assert verdict.spend.calls == 2
    again = seen[1].messages
    assert [message.role for message in again] == ["system", "user", "assistant", "user"]
    assert again[2].content == broken
    assert fault in again[3].content


def test_an_excerpt_may_leave_something_out_and_drop_the_marks_of_the_format() -> None:
    for excerpt in ("Reopen the saved result … compare counts", f"  {LINE.upper()} ", f'"**{LINE}**"'):
        assert judge([json.dumps(answer(excerpt=excerpt))]).judge(GUIDE).error is None


def test_two_unusable_answers_are_no_score_and_not_a_low_one() -> None:
    verdict = judge(["no", "no again"]).judge(GUIDE)
    assert (verdict.scores, verdict.total) == ({}, None)
    assert verdict.error == "the judge's answer cannot be used: it holds no JSON object"
    assert verdict.spend == Spend(calls=2, tokens_in=20, tokens_out=4)


def test_a_model_that_does_not_answer_is_an_error_of_the_model_with_what_was_spent() -> None:
    with pytest.raises(ModelError) as first:
        LlmJudge(FunctionModel(keeps_failing)).judge(GUIDE)
    assert first.value.calls == 0
    replies = iter(["no JSON"])

    def once(request: Request) -> str:
        return next(replies, None) or keeps_failing(request)

    with pytest.raises(ModelError) as second:
        LlmJudge(FunctionModel(once)).judge(GUIDE)
    assert (second.value.calls, second.value.tokens_in, second.value.tokens_out) == (1, 10, 2)


def test_the_candidate_without_a_skill_costs_nothing() -> None:
    verdict = judge([]).judge(Candidate(files=NO_SKILL))
    assert (verdict.total, verdict.spend) == (None, Spend())
    assert "has no skill" in (verdict.error or "")


def test_a_long_text_is_cut_and_said_to_be() -> None:
    seen: list[Request] = []
    long = Candidate(files={"SKILL.md": LINE + " x" * SHOWN_CHARACTERS})
    judge([json.dumps(answer())], seen).judge(long)
    shown = seen[0].messages[1].content
    assert len(shown) < SHOWN_CHARACTERS + 200
    assert "[The text goes on; " in shown


def test_the_bound_holds_for_the_longest_answers() -> None:
    seen: list[Request] = []
    made = judge(["é" * 20_000, "é" * 20_000], seen)
    made.judge(GUIDE)
    bound = made.bound(GUIDE)
    sent = sum(len(message.content.encode()) for request in seen for message in request.messages)
    sent += sum(len(json.dumps(request.json_schema)) for request in seen)
    assert bound.calls == len(seen) == 2
    assert bound.tokens_in >= sent
    assert bound.tokens_out == sum(request.max_tokens or 0 for request in seen)


def test_over_http_with_a_reply_that_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    replies = [ScriptedReply('{"scores"', finish_reason="length"), ScriptedReply(json.dumps(answer()))]
    with ScriptedServer(replies) as server:
        model = make_model(ModelConfig(name="openai:judge", url=server.url, retries=0))
        verdict = LlmJudge(model).judge(GUIDE)
        model.close()
        bodies = [request.body for request in server.requests]
    assert verdict.error is None
    assert verdict.spend == Spend(calls=2, tokens_in=14, tokens_out=6)
    assert bodies[0]["response_format"]["type"] == "json_schema"
    assert "cut off before its end" in bodies[1]["messages"][-1]["content"]
