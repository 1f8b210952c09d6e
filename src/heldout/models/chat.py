"""Chat completions over HTTP, through the `openai` package: one request with retries, one checked reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from heldout.config import ModelConfig
from heldout.models.base import Message, Reply, Request, ToolCall, ToolSpec
from heldout.models.client import Client, first_fault
from heldout.models.endpoint import is_at, is_loopback
from heldout.models.retry import Answered, Transient
from heldout.models.tool_calls import call_id, object_of

__all__ = ["ChatClient", "Completion", "chat_body", "to_reply"]

_SEEDS = 2**31
"""Servers differ in how wide a seed may be; all take 31 bits."""


class _TokenLogprob(BaseModel):
    token: str
    logprob: float


class _Position(_TokenLogprob):
    top_logprobs: tuple[_TokenLogprob, ...] = ()


class _Logprobs(BaseModel):
    content: tuple[_Position, ...] | None = None


class _Function(BaseModel):
    name: str = ""
    arguments: Any = ""


class _ToolCall(BaseModel):
    id: str | None = None
    function: _Function = _Function()


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None
    tool_calls: tuple[_ToolCall, ...] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Usage(BaseModel):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)


class Completion(BaseModel):
    """The part of a chat completion that Heldout reads; anything else that a server adds is ignored."""

    choices: tuple[_Choice, ...] = Field(min_length=1)
    usage: _Usage | None = None


class ChatClient(Client[Completion]):
    """Sends chat completions; see `Client`."""

    def package(self) -> ModuleType:
        import openai

        return openai

    def connect(self, package: Any) -> Any:
        url = self.endpoint.url
        return package.OpenAI(
            base_url=url,
            api_key=self.endpoint.key(),
            timeout=self.endpoint.timeout_s,
            max_retries=0,
            default_headers=None if is_at(url, "openai.com") else _withheld(package),
            # A proxy from the environment cannot reach a server on this machine's loopback.
            http_client=package.DefaultHttpxClient(trust_env=not is_loopback(url)),
        )

    def post(self, connection: Any, body: Mapping[str, Any], extra: Mapping[str, Any]) -> bytes:
        raw = connection.chat.completions.with_raw_response.create(**body, extra_body=dict(extra))
        content: bytes = raw.content
        return content

    def parse(self, content: bytes) -> Completion:
        try:
            completion = Completion.model_validate_json(content)
        except ValidationError as cause:
            raise Transient(f"the reply is no chat completion ({first_fault(cause)})") from None
        first = completion.choices[0]
        # A reasoning model that was cut off inside its reasoning has no content, and that is an answer; so is a
        # refusal.
        answered = first.message.content is not None or first.message.tool_calls or first.message.refusal
        if not answered and first.finish_reason not in ("length", "content_filter"):
            raise Transient("the reply has no content")
        return completion


def chat_body(request: Request, config: ModelConfig, *, model: str) -> dict[str, Any]:
    """The protocol's fields for `request`; what it leaves open comes from `config`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_turn(message) for message in request.messages],
        "temperature": config.temperature if request.temperature is None else request.temperature,
        "max_tokens": request.max_tokens or config.max_tokens,
        "seed": request.seed % _SEEDS,
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if request.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if request.json_schema is not None:
        schema = {"name": "reply", "schema": dict(request.json_schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def to_reply(answered: Answered[Completion]) -> Reply:
    """The reply in our terms. A server that reports no usage counts as 0 tokens: we never invent a count."""
    choice = answered.value.choices[0]
    usage = answered.value.usage or _Usage()
    refused = choice.message.refusal is not None and not choice.message.content
    positions = (choice.logprobs.content if choice.logprobs else None) or ()
    return Reply(
        text=choice.message.content or choice.message.refusal or "",
        finish_reason="refusal" if refused else choice.finish_reason or "stop",
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens,
        calls=answered.calls,
        top_logprobs=tuple({item.token: item.logprob for item in place.top_logprobs} for place in positions),
        tool_calls=tuple(_call(call, number) for number, call in enumerate(choice.message.tool_calls or ())),
    )


def _turn(message: Message) -> dict[str, Any]:
    """One message of the protocol. A call whose arguments were no JSON goes back as JSON: templates parse them."""
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        turn["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        turn["tool_call_id"] = message.tool_call_id
    return turn


def _arguments(call: ToolCall) -> str:
    found = object_of(call.arguments)
    return call.arguments if found is not None else json.dumps({"malformed": call.arguments}, ensure_ascii=False)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _call(call: _ToolCall, number: int) -> ToolCall:
    given = call.function.arguments
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return ToolCall(id=call.id or call_id(number), name=call.function.name, arguments=arguments)


def _withheld(openai: Any) -> dict[str, Any]:
    """Headers that the SDK would fill from the environment, and that are nobody else's business."""
    return {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
