"""Tool calls and refusals in the OpenAI chat protocol, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from heldout.config import ModelConfig
from heldout.models import Message, Request, ToolCall, ToolSpec
from heldout.models.chat import chat_body
from heldout.models.openai_compatible import OpenAICompatibleModel
from heldout.models.tool_calls import object_of
from heldout.testing.scripted_server import Script, ScriptedReply, ScriptedServer

ASK = Request(messages=(Message(role="user", content="Who wrote Hamlet ?"),))
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {"at": {}}})


@contextmanager
def serving(script: Script) -> Iterator[tuple[OpenAICompatibleModel, ScriptedServer]]:
    with ScriptedServer(script) as server:
        config = ModelConfig(name="openai:tiny", url=server.url, timeout_s=5.0, retries=1)
        model = OpenAICompatibleModel(config, sleep=lambda _: None)
        yield model, server
        model.close()


def test_tools_are_offered_and_their_calls_come_back_with_no_content() -> None:
    calls = [("look", '{"at": 1}'), ("look", "{at: one")]
    with serving([ScriptedReply(text=None, tool_calls=calls, usage=(20, 9))]) as (model, server):
        reply = model.complete(ASK.model_copy(update={"tools": (LOOK,)}))
    assert server.requests[0].body["tools"] == [
        {
            "type": "function",
            "function": {"name": "look", "description": "Look.", "parameters": dict(LOOK.parameters)},
        }
    ]
    assert (reply.text, reply.finish_reason, reply.calls) == ("", "tool_calls", 1)
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("call-0", "look", '{"at": 1}'),
        ("call-1", "look", "{at: one"),
    ]
    assert (reply.tokens_in, reply.tokens_out) == (20, 9)


def test_a_conversation_with_tools_goes_back_in_a_form_that_templates_can_read() -> None:
    calls = (
        ToolCall(id="a", name="look", arguments='{"at": 1}'),
        ToolCall(id="b", name="look", arguments="{at: one"),
        ToolCall(id="c", name="look", arguments=""),
    )
    turns = (
        *ASK.messages,
        Message(role="assistant", content="", tool_calls=calls, blocks=({"type": "thinking"},)),
        Message(role="tool", content="one", tool_call_id="a"),
    )
    body = chat_body(Request(messages=turns), ModelConfig(), model="tiny")
    assert body["messages"][1] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
            {"id": "b", "type": "function", "function": {"name": "look", "arguments": '{"malformed": "{at: one"}'}},
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}},
        ],
    }
    assert body["messages"][2] == {"role": "tool", "content": "one", "tool_call_id": "a"}


def test_a_request_without_tools_is_byte_for_byte_what_it_was() -> None:
    body = chat_body(ASK, ModelConfig(max_tokens=5), model="tiny")
    assert json.dumps(body) == (
        '{"model": "tiny", "messages": [{"role": "user", "content": "Who wrote Hamlet ?"}], '
        '"temperature": 0.0, "max_tokens": 5, "seed": 0}'
    )


@pytest.mark.parametrize(
    ("scripted", "text", "finish"),
    [
        (ScriptedReply(text=None, refusal="I may not."), "I may not.", "refusal"),
        (ScriptedReply(text="", refusal="I may not."), "I may not.", "refusal"),
        (ScriptedReply(text="Fine.", refusal="I may not."), "Fine.", "stop"),
        (ScriptedReply(text=None, finish_reason="content_filter"), "", "content_filter"),
        (ScriptedReply(text=None, finish_reason="length"), "", "length"),
        (ScriptedReply(text="cut", finish_reason="length"), "cut", "length"),
    ],
)
def test_a_refusal_is_an_answer_and_no_crash(scripted: ScriptedReply, text: str, finish: str) -> None:
    with serving([scripted]) as (model, _):
        reply = model.complete(ASK)
    assert (reply.text, reply.finish_reason, reply.calls) == (text, finish, 1)


def test_servers_that_leave_out_ids_or_send_arguments_as_objects_are_understood() -> None:
    sparse = {"choices": [{"message": {"tool_calls": [{"function": {"name": "look", "arguments": {"at": "ü"}}}, {}]}}]}
    with serving([ScriptedReply(raw=json.dumps(sparse).encode())]) as (model, _):
        reply = model.complete(ASK)
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("call_0", "look", '{"at": "ü"}'),
        ("call_1", "", ""),
    ]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [('{"a": 1}', {"a": 1}), ("", {}), ("  ", {}), ("[1]", None), ('"a"', None), ("{a", None), ("null", None)],
)
def test_arguments_are_an_object_or_nothing(arguments: str, found: object) -> None:
    assert object_of(arguments) == found
