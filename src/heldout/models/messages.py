"""The Anthropic messages protocol, through the `anthropic` package: what is sent, and what a reply says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from heldout.errors import need
from heldout.models.base import Message, Reply, Request, ToolCall
from heldout.models.client import Client, first_fault
from heldout.models.endpoint import is_at, is_loopback
from heldout.models.retry import Answered, Transient
from heldout.models.tool_calls import call_id, object_of

__all__ = ["MessagesClient", "Written", "messages_body", "to_reply"]

_NOTHING = "(nothing)"
"""Stands for an empty text, which the protocol refuses."""
_FINISHES = MappingProxyType(
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "tool_use": "tool_calls",
    }
)
"""Its reasons to stop in the words of the chat protocol; others stay as they are."""


class _Usage(BaseModel):
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cache_creation_input_tokens: int | None = Field(default=None, ge=0)
    cache_read_input_tokens: int | None = Field(default=None, ge=0)

    @property
    def tokens_in(self) -> int:
        """All that was read: the protocol counts what came from its cache, or went there, apart."""
        return self.input_tokens + (self.cache_creation_input_tokens or 0) + (self.cache_read_input_tokens or 0)


class _StopDetails(BaseModel):
    explanation: str | None = None


class Written(BaseModel):
    """The part of a reply that Heldout reads; anything else that a server adds is ignored."""

    content: tuple[dict[str, Any], ...]
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None
    usage: _Usage | None = None

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Its blocks of one type."""
        return [block for block in self.content if block.get("type") == kind]


class MessagesClient(Client[Written]):
    """Posts messages; see `Client`. Nothing but the key that it was told of is read from the environment or a file."""

    def package(self) -> ModuleType:
        return need("anthropic", extra="anthropic")

    def connect(self, package: Any) -> Any:
        url = self.endpoint.url
        return package.Anthropic(
            base_url=url,
            api_key=self.endpoint.key(),
            timeout=self.endpoint.timeout_s,
            max_retries=0,
            default_headers=None if is_at(url, "anthropic.com") else _withheld(package),
            # A proxy from the environment cannot reach a server on this machine's loopback.
            http_client=package.DefaultHttpxClient(trust_env=not is_loopback(url)),
        )

    def post(self, connection: Any, body: Mapping[str, Any], extra: Mapping[str, Any]) -> bytes:
        headers = extra.get("headers")
        fields = dict(extra.get("body", {}))
        raw = connection.messages.with_raw_response.create(**body, extra_headers=headers, extra_body=fields)
        content: bytes = raw.http_response.content
        return content

    def parse(self, content: bytes) -> Written:
        try:
            return Written.model_validate_json(content)
        except ValidationError as cause:
            raise Transient(f"the reply is no message ({first_fault(cause)})") from None


def messages_body(request: Request, *, model: str, max_tokens: int) -> dict[str, Any]:
    """The protocol's fields for `request`; it knows neither seeds nor, in its newer versions, temperatures."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens or max_tokens,
        "messages": _turns(message for message in request.messages if message.role != "system"),
    }
    system = "\n\n".join(message.content for message in request.messages if message.role == "system")
    if system.strip():
        body["system"] = system
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.tools:
        body["tools"] = [
            {"name": spec.name, "description": spec.description, "input_schema": dict(spec.parameters)}
            for spec in request.tools
        ]
    return body


def to_reply(answered: Answered[Written]) -> Reply:
    """The reply in our terms. A refusal without a word says why in the server's, where it says so at all."""
    written = answered.value
    usage = written.usage or _Usage()
    text = "".join(str(block.get("text") or "") for block in written.of("text"))
    if not text and written.stop_details is not None:
        text = written.stop_details.explanation or ""
    reasoned = any("thinking" in str(block.get("type")) for block in written.content)
    return Reply(
        text=text,
        finish_reason=_FINISHES.get(written.stop_reason or "end_turn", written.stop_reason or "stop"),
        tokens_in=usage.tokens_in,
        tokens_out=usage.output_tokens,
        calls=answered.calls,
        tool_calls=tuple(_call(block, number) for number, block in enumerate(written.of("tool_use"))),
        blocks=written.content if reasoned else (),
    )


def _call(block: Mapping[str, Any], number: int) -> ToolCall:
    arguments = json.dumps(block.get("input", {}), ensure_ascii=False)
    return ToolCall(id=str(block.get("id") or call_id(number)), name=str(block.get("name") or ""), arguments=arguments)


def _turns(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Turns that alternate: what follows a turn of the same role is joined to it, results of tools first."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.blocks:
        return [dict(block) for block in message.blocks]
    text = message.content if message.content.strip() else ""
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": text or _NOTHING}]
    blocks: list[dict[str, Any]] = []
    if text or not message.tool_calls:
        blocks.append({"type": "text", "text": text or _NOTHING})
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)} for call in message.tool_calls
    ]


def _input(call: ToolCall) -> dict[str, Any]:
    found = object_of(call.arguments)
    return {"malformed": call.arguments} if found is None else found


def _withheld(package: Any) -> dict[str, Any]:
    """Headers that the package would take from the environment, and that are nobody else's business."""
    omit = getattr(package, "Omit", None)
    if omit is None:  # versions too old for this do not read that variable
        return {}
    lines = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n")
    return {name.strip(): omit() for name, colon, _ in (line.partition(":") for line in lines) if colon}
