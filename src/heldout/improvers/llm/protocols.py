"""Two ways to call tools: those of the model's own protocol, and blocks of JSON in its text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from heldout.improvers.llm.tools import Tool
from heldout.models import Message, Reply, ToolCall, ToolSpec

__all__ = ["PROTOCOLS", "CallProtocol", "Reading", "TextProtocol", "ToolProtocol"]

_FENCE = re.compile(r"```(?:json)?[ \t]*\r?\n\s*(?=\{)")
_REASONING_END = "</think>"


@dataclass(frozen=True, slots=True)
class Reading:
    """The calls of a reply, or what is wrong with it, in words for the model."""

    calls: tuple[ToolCall, ...] = ()
    fault: str = ""


class CallProtocol(Protocol):
    """How calls and their results are written."""

    def offered(self, tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
        """What a request says of the tools."""

    def rules(self, tools: Sequence[Tool]) -> str:
        """What the system message says of them."""

    def read(self, reply: Reply, *, turn: int) -> Reading:
        """The calls of a reply."""

    def said(self, reply: Reply) -> Message:
        """The reply as a turn of the conversation."""

    def result(self, call: ToolCall, text: str) -> Message:
        """The turn that answers a call."""


class ToolProtocol:
    """Calls as the model's server hands them over."""

    def offered(self, tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in tools)

    def rules(self, tools: Sequence[Tool]) -> str:
        return f"You act through tool calls: {', '.join(tool.name for tool in tools)}. Every reply makes at least one."

    def read(self, reply: Reply, *, turn: int) -> Reading:  # noqa: ARG002 - calls have names of their own
        return Reading(reply.tool_calls) if reply.tool_calls else Reading(fault="It calls no tool.")

    def said(self, reply: Reply) -> Message:
        return Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls, blocks=reply.blocks)

    def result(self, call: ToolCall, text: str) -> Message:
        return Message(role="tool", content=text, tool_call_id=call.id)


class TextProtocol:
    """Calls as one block of JSON in the text of a reply. Line breaks in its texts are forgiven."""

    def offered(self, tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:  # noqa: ARG002 - the system message says it
        return ()

    def rules(self, tools: Sequence[Tool]) -> str:
        listed = "\n".join(
            f"- {tool.name}: {tool.description} Arguments: {json.dumps(tool.spec.parameters)}" for tool in tools
        )
        return (
            "You act through tools. Every reply holds exactly one call, as a block of JSON, and nothing after it:\n\n"
            '```json\n{"tool": "read_file", "arguments": {"path": "evidence/report.md"}}\n```\n\n'
            f"You are then shown its result. The tools:\n{listed}"
        )

    def read(self, reply: Reply, *, turn: int) -> Reading:
        text = reply.text.rpartition(_REASONING_END)[2]
        begins = [found.end() for found in _FENCE.finditer(text)]
        if not begins and text.strip().startswith("{"):
            begins = [text.index("{")]
        if not begins:
            return Reading(fault="It holds no block of JSON with a call.")
        found, end = _decoded(text, begins[0])
        if isinstance(found, str):
            return Reading(fault=f"Its block is no JSON ({found}).")
        if any(begin > end for begin in begins):
            return Reading(fault="It holds more than one block; one call a reply.")
        if not isinstance(found.get("tool"), str):
            return Reading(fault='Its block names no tool; write {"tool": NAME, "arguments": {…}}.')
        arguments = json.dumps(found.get("arguments", {}))
        return Reading((ToolCall(id=f"turn-{turn}", name=found["tool"], arguments=arguments),))

    def said(self, reply: Reply) -> Message:
        return Message(role="assistant", content=reply.text, blocks=reply.blocks)

    def result(self, call: ToolCall, text: str) -> Message:
        return Message(role="user", content=f"Result of {call.name}:\n{text}")


PROTOCOLS: Mapping[str, CallProtocol] = MappingProxyType({"tools": ToolProtocol(), "text": TextProtocol()})
"""By the name that the options use."""


def _decoded(text: str, begin: int) -> tuple[dict[str, Any] | str, int]:
    """The object that begins there and its end, or what is wrong with it."""
    try:
        found, end = json.JSONDecoder(strict=False).raw_decode(text, begin)
    except (ValueError, RecursionError) as fault:
        return str(fault), begin
    return (found, end) if isinstance(found, dict) else ("not an object", end)
