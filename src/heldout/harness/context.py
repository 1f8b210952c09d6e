"""The conversation of an episode: it grows by a turn, and the output of old turns shrinks to a line."""

from __future__ import annotations

from heldout.harness.observations import elide
from heldout.models.base import Message

__all__ = ["Context"]

_SILENCE = "(nothing)"
"""Stands for an empty reply, which servers refuse in a conversation."""


class Context:
    """A system message, the task, and then a pair of messages for each turn; roles always alternate.

    Messages are frozen and shared: a turn costs two new ones and the elision of one old one, however long it gets.
    """

    def __init__(self, system: str, task: str, *, keep_full_turns: int) -> None:
        self.messages = [_message("system", system), _message("user", task)]
        self._keep = 2 * keep_full_turns

    def add(self, reply: str, shown: str) -> None:
        """One more turn: what the model said and what it is shown."""
        self.messages += (_message("assistant", reply or _SILENCE), _message("user", shown))
        # Of the turn that is now one too old, the observation is the last message.
        old = len(self.messages) - 1 - self._keep
        if old > 1:
            self.messages[old] = _message("user", elide(self.messages[old].content))

    def note(self, text: str) -> None:
        """Add to what the model is shown last: chat templates refuse two user messages in a row."""
        self.messages[-1] = _message("user", f"{self.messages[-1].content}\n\n{text}")

    def plain(self) -> list[dict[str, str]]:
        """The messages as a hook is given them."""
        return [{"role": message.role, "content": message.content} for message in self.messages]


def _message(role: str, content: str) -> Message:
    return Message.model_construct(role=role, content=content)
