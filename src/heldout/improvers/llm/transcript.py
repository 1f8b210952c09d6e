"""The conversation so far, kept within a length: the oldest results of tools are left out first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from heldout.models import Message

__all__ = ["Transcript"]

_KEPT_TURNS = 8
"""The newest turns are never shortened."""
_SHORT = 400
"""What is no longer than this is not worth leaving out."""
_LOW_WATER = 0.6
"""Once something has to go, this share of the length is aimed at, so that the text before stays the same for many
turns: servers keep what they have read."""


@dataclass(slots=True)
class _Turn:
    message: Message
    result_of: str
    """The tool, where this turn is a result."""

    def length(self) -> int:
        return len(self.message.content) + sum(len(call.arguments) for call in self.message.tool_calls)


class Transcript:
    """Turns in order, the first two (system and opening) untouchable."""

    def __init__(self, system: str, opening: str, *, context_chars: int) -> None:
        self.elided = 0
        """Turns that were shortened."""
        self._context_chars = context_chars
        self._turns: list[_Turn] = []
        self.add(Message(role="system", content=system))
        self.add(Message(role="user", content=opening))

    def add(self, message: Message, *, result_of: str = "") -> None:
        """The next turn."""
        self._turns.append(_Turn(message, result_of))

    def fit(self) -> bool:
        """Shorten what has to be; False where even then the conversation is too long."""
        if self._length() > self._context_chars:
            self._shorten(_without_result)
            if self._length() > self._context_chars:
                self._shorten(_without_arguments)
        return self._length() <= self._context_chars

    def messages(self) -> tuple[Message, ...]:
        """What is sent."""
        return tuple(turn.message for turn in self._turns)

    def _length(self) -> int:
        return sum(turn.length() for turn in self._turns)

    def _shorten(self, shorter: Callable[[_Turn], Message]) -> None:
        aim = int(_LOW_WATER * self._context_chars)
        excess = self._length() - aim
        for turn in self._turns[2 : max(2, len(self._turns) - _KEPT_TURNS)]:
            if excess <= 0:
                return
            before = turn.length()
            turn.message = shorter(turn)
            self.elided += turn.length() < before
            excess -= before - turn.length()


def _without_result(turn: _Turn) -> Message:
    length = len(turn.message.content)
    if not turn.result_of or length <= _SHORT:
        return turn.message
    words = f"[a result of {turn.result_of}, {length} characters, left out here; call it again if you need it]"
    return turn.message.model_copy(update={"content": words})


def _without_arguments(turn: _Turn) -> Message:
    """What a reply was long for; its reasoning goes with it, since that holds the same arguments once more."""
    message = turn.message
    if message.role != "assistant" or turn.length() <= _SHORT:
        return message
    calls = tuple(
        call.model_copy(update={"arguments": json.dumps({"left_out": f"{len(call.arguments)} characters"})})
        if len(call.arguments) > _SHORT
        else call
        for call in message.tool_calls
    )
    content = message.content
    if len(content) > _SHORT:
        content = f"{content[:_SHORT]} [{len(content) - _SHORT} characters left out here]"
    return message.model_copy(update={"content": content, "tool_calls": calls, "blocks": ()})
