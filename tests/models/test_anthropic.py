"""The Anthropic model over real HTTP, against a scripted server and its faults."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError
from heldout.models import Message, Model, Request, ToolCall, ToolSpec, check_model, make_model
from heldout.models.anthropic import AnthropicModel
from heldout.testing.model_contract import ModelContract
from heldout.testing.scripted_server import Script, ScriptedReply, ScriptedServer

KEY = "sk-ant-very-secret-0123456789"
ASK = Request(messages=(Message(role="user", content="Who wrote Hamlet ?"),))
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def config_for(url: str, **changes: Any) -> ModelConfig:
    return ModelConfig.model_validate({"name": "anthropic:tiny", "url": url, "timeout_s": 5.0, **changes})


@contextmanager
def serving(script: Script, **changes: Any) -> Iterator[tuple[AnthropicModel, ScriptedServer, list[float]]]:
    slept: list[float] = []
    with ScriptedServer(script) as server:
        model = AnthropicModel(config_for(server.url, **changes), sleep=slept.append)
        yield model, server, slept
        model.close()


class TestContract(ModelContract):
    @pytest.fixture
    def make_model(self) -> Iterator[Callable[[], Model]]:
        with ScriptedServer(["Word"]) as server:
            yield lambda: make_model(config_for(server.url))


def test_sends_what_was_asked_and_reads_what_came() -> None:
    request = Request(
        messages=(Message(role="system", content="Be brief."), *ASK.messages),
        max_tokens=9,
        temperature=0.5,
        stop=("\n",),
        json_schema={"type": "object"},
    )
    with serving([ScriptedReply("Shakespeare", usage=(12, 4))]) as (model, server, _):
        reply = model.complete(request)
    (seen,) = server.requests
    assert seen.path == "/v1/messages"
    assert KEY in "".join(seen.headers.values())
    assert seen.body == {
        "model": "tiny",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Who wrote Hamlet ?"}]}],
        "max_tokens": 9,
        "stop_sequences": ["\n"],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
    }
    assert (reply.text, reply.tokens_in, reply.tokens_out, reply.calls) == ("Shakespeare", 12, 4, 1)
    assert (reply.finish_reason, reply.tool_calls, reply.blocks) == ("stop", (), ())


def test_a_temperature_is_sent_only_where_told_and_under_the_version_that_takes_it() -> None:
    with serving(["x"], temperature=0.7, options={"temperature": "send"}) as (model, server, _):
        model.complete(ASK)
        model.complete(ASK.model_copy(update={"temperature": 0.0}))
    assert [seen.body["temperature"] for seen in server.requests] == [0.7, 0.0]
    assert {seen.headers["anthropic-version"] for seen in server.requests} == {"2023-06-01"}


def test_further_fields_reach_the_body_beside_ours() -> None:
    extra = {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}}
    with serving(["x"], max_tokens=33, options={"extra_body": extra}) as (model, server, _):
        model.complete(ASK.model_copy(update={"json_schema": {"type": "object"}}))
    body = server.requests[0].body
    assert (body["max_tokens"], body["thinking"]) == (33, {"type": "adaptive"})
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}


def test_a_conversation_with_tools_alternates_and_puts_results_first() -> None:
    turns = (
        Message(role="user", content="Look twice."),
        Message(
            role="assistant",
            content="  ",
            tool_calls=(
                ToolCall(id="a", name="look", arguments='{"at": 1}'),
                ToolCall(id="b", name="look", arguments="{at"),
            ),
        ),
        Message(role="tool", content="one", tool_call_id="a"),
        Message(role="tool", content="", tool_call_id="b"),
        Message(role="user", content="Go on."),
        Message(role="assistant", content=""),
        Message(role="user", content="Well?"),
    )
    with serving(["done"]) as (model, server, _):
        model.complete(Request(messages=turns, tools=(LOOK,)))
    body = server.requests[0].body
    assert body["tools"] == [
        {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}
    ]
    assert body["cache_control"] == {"type": "ephemeral"}
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Look twice."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "look", "input": {"at": 1}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {"malformed": "{at"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": "(nothing)"},
                {"type": "text", "text": "Go on."},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "(nothing)"}]},
        {"role": "user", "content": [{"type": "text", "text": "Well?"}]},
    ]


def test_a_call_comes_back_with_the_reasoning_before_it_which_is_sent_again_word_for_word() -> None:
    called = ScriptedReply("I look.", tool_calls=[("look", '{"at": "ü"}')], reasoning="Hm.")
    with serving([called, "done"], options={"cache": False}) as (model, server, _):
        reply = model.complete(ASK.model_copy(update={"tools": (LOOK,)}))
        (call,) = reply.tool_calls
        turn = Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls, blocks=reply.blocks)
        result = Message(role="tool", content="nothing there", tool_call_id=call.id)
        model.complete(Request(messages=(*ASK.messages, turn, result), tools=(LOOK,)))
    assert (reply.text, reply.finish_reason) == ("I look.", "tool_calls")
    assert (call.name, call.arguments) == ("look", '{"at": "ü"}')
    assert server.requests[1].body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "signed"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": call.id, "name": "look", "input": {"at": "ü"}},
    ]
    assert "cache_control" not in server.requests[0].body


def test_tokens_that_went_to_a_cache_or_came_from_it_are_input() -> None:
    with serving([ScriptedReply("x", usage=(5, 2), cached=(100, 3000))]) as (model, _, _):
        reply = model.complete(ASK)
    assert (reply.tokens_in, reply.tokens_out) == (3105, 2)


@pytest.mark.parametrize(
    ("scripted", "text", "finish"),
    [
        (ScriptedReply(text="", refusal="I may not."), "I may not.", "refusal"),
        (ScriptedReply(text="As far as", refusal="I may not."), "As far as", "refusal"),
        (ScriptedReply(text="cut", finish_reason="max_tokens"), "cut", "length"),
        (ScriptedReply(text="full", finish_reason="model_context_window_exceeded"), "full", "length"),
        (ScriptedReply(text="", finish_reason="end_turn"), "", "stop"),
        (ScriptedReply(text="x", finish_reason="pause_turn"), "x", "pause_turn"),
    ],
)
def test_how_a_reply_ended_is_told_in_the_words_of_the_chat_protocol(
    scripted: ScriptedReply, text: str, finish: str
) -> None:
    with serving([scripted]) as (model, _, _):
        reply = model.complete(ASK)
    assert (reply.text, reply.finish_reason) == (text, finish)


@pytest.mark.parametrize(
    "fault",
    [
        ScriptedReply("slow down", status=429),
        ScriptedReply("oh", status=500),
        ScriptedReply("overloaded", status=529),
        ScriptedReply(disconnect="before"),
        ScriptedReply(disconnect="middle"),
        ScriptedReply(raw=b"<html>not json"),
        ScriptedReply(raw=b"{}"),
        ScriptedReply(raw=b'{"content": "words"}'),
    ],
)
def test_a_passing_fault_is_tried_again_and_counted(fault: ScriptedReply) -> None:
    with serving([fault, fault, "fine"]) as (model, server, slept):
        reply = model.complete(ASK)
    assert (reply.text, reply.calls, len(server.requests), len(slept)) == ("fine", 3, 3, 2)
    assert 0.25 <= slept[0] < 0.5 <= slept[1] < 1.0


def test_retry_after_is_honoured_and_a_429_forever_is_not_measured() -> None:
    with serving([ScriptedReply("slow down", status=429, headers={"Retry-After": "9"})], retries=1) as made:
        model, server, slept = made
        with pytest.raises(ModelError, match=r"HTTP 429: .*slow down.*attempt 2 of 2") as caught:
            model.complete(ASK)
    assert (slept, caught.value.calls, len(server.requests)) == ([9.0], 2, 2)


@pytest.mark.parametrize(("status", "named"), [(401, "ANTHROPIC_API_KEY"), (403, "ANTHROPIC_API_KEY"), (404, "'tiny'")])
def test_what_the_user_can_mend_is_a_setup_error(status: int, named: str) -> None:
    refusing = serving([ScriptedReply("no", status=status)])
    with refusing as (model, server, slept), pytest.raises(SetupError, match=named):
        model.complete(ASK)
    assert (len(server.requests), slept) == (1, [])


def test_a_refused_request_is_not_tried_again() -> None:
    refusing = serving([ScriptedReply("prompt is too long", status=400)])
    with refusing as (model, server, slept), pytest.raises(ModelError, match=r"HTTP 400.*prompt is too long"):
        model.complete(ASK)
    assert (len(server.requests), slept) == (1, [])


def test_an_unreachable_url_fails_at_once() -> None:
    with ScriptedServer(["x"]) as server:
        url = server.url
    model = AnthropicModel(config_for(url))
    with pytest.raises(SetupError, match="is the server running"):
        check_model(model)
    model.close()


def test_the_key_is_named_by_its_own_variable_where_the_config_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    with serving(["x"]) as (model, server, _):
        model.complete(ASK)
        other = make_model(config_for(server.url, api_key_env="OTHER_KEY"))
        other.complete(ASK)
        other.close()
        first, second = ("".join(seen.headers.values()) for seen in server.requests)
    assert (KEY in first, "sk-openai" in first) == (True, False)
    assert ("sk-other" in second, KEY in second) == (True, False)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(SetupError, match="set the environment variable ANTHROPIC_API_KEY"):
        AnthropicModel(ModelConfig(name="anthropic:tiny")).complete(ASK)


def test_anthropics_key_goes_to_anthropic_alone() -> None:
    for config in (
        config_for("https://models.example.org"),
        config_for("https://anthropic.com.example.org"),
        config_for("https://models.example.org/v1", name="openai:tiny", api_key_env="ANTHROPIC_API_KEY"),
    ):
        with pytest.raises(SetupError, match=r"ANTHROPIC_API_KEY is not sent to https://"):
            make_model(config).complete(ASK)


def test_nothing_else_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-private")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://elsewhere.example.org")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Team: team-private\nX-Other: other-private")
    with serving(["x"]) as (model, server, _):
        model.complete(ASK)
    sent = "\n".join(server.requests[0].headers.values())
    assert KEY in sent
    assert "private" not in sent


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_the_key_is_in_no_error_repr_pickle_or_fingerprint(status: int) -> None:
    with serving([ScriptedReply(f"bad key {KEY}", status=status)], retries=0) as (model, _, _):
        with pytest.raises((ModelError, SetupError)) as caught:
            model.complete(ASK)
        shown = [repr(model), repr(vars(model)), model.fingerprint, pickle.dumps(model).decode("latin-1")]
    error: BaseException = caught.value
    assert error.__suppress_context__ or error.__context__ is None
    assert all(KEY not in text for text in (str(error), *shown))


def test_what_the_protocol_has_no_field_for_is_refused_and_not_left_out() -> None:
    with serving(["x"]) as (model, server, _):
        for changes in ({"choices": ("a", "b")}, {"grammar": 'root ::= "a"'}, {"top_logprobs": 2}):
            with pytest.raises(SetupError, match=r"solver\.answer=generate"):
                model.complete(ASK.model_copy(update=changes))
        with pytest.raises(SetupError, match="cannot choose"):
            check_model(model, choose=True)
    assert server.requests == ()


def test_fingerprint_follows_what_changes_answers() -> None:
    def fingerprint(**changes: Any) -> str:
        return AnthropicModel(config_for("http://127.0.0.1:1", **changes)).fingerprint

    base = fingerprint()
    assert fingerprint(timeout_s=9.0, retries=0, api_key_env="X", temperature=1.0) == base
    sampled = {"options": {"temperature": "send"}}
    different = [
        fingerprint(max_tokens=3),
        fingerprint(name="anthropic:other"),
        fingerprint(**sampled),
        fingerprint(**sampled, temperature=1.0),
    ]
    assert len({base, *different}) == 5
    assert AnthropicModel(config_for("http://127.0.0.1:1/v1/")).fingerprint == base


def test_bad_settings_and_a_missing_package_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="names no model"):
        make_model(ModelConfig(name="anthropic"))
    with pytest.raises(SetupError, match="temperature, cache, extra_body"):
        make_model(config_for("http://127.0.0.1:1", options={"cash": 1}))
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(SetupError, match=r"pip install 'heldout\[anthropic\]'"):
        AnthropicModel(config_for("http://127.0.0.1:1")).complete(ASK)
