"""One question to a model, and at most one more about what was wrong with its reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from heldout.config import ModelConfig
from heldout.errors import ImproverError
from heldout.improvers.reading import Reading
from heldout.ledger import paid_until_now
from heldout.models.base import Message, Model, Reply, Request
from heldout.records import Spend

__all__ = ["Allowance", "Asking", "bound_of"]

Value = TypeVar("Value")

REPAIR_TOKENS = 2_000
"""Allowance for the repair question; what it quotes is cut."""
REPLIES = 2
"""The most that one question takes."""
_UNKNOWN_RETRIES = 20
"""The most that a model may be set to, where the solver's own model is used and its setting is not known here."""
_FAULT_SHOWN = 1_200
_MESSAGE_TOKENS = 16
"""Allowance for what a chat template adds to a message."""
_REFUSALS = ("refusal", "content_filter")


class Allowance(Protocol):
    """The options of an improver that say how it asks."""

    @property
    def reply_tokens(self) -> int:
        """Longest reply."""

    @property
    def temperature(self) -> float:
        """Sampling temperature."""

    @property
    def question_tokens(self) -> int:
        """Longest question, counted as bytes."""

    @property
    def json_schema(self) -> bool:
        """Whether a reply's form is sent along."""


def bound_of(options: Allowance, model: ModelConfig | None) -> Spend:
    """The most that one question may cost; `model` is None where the improver uses the solver's own."""
    retries = _UNKNOWN_RETRIES if model is None else model.retries
    return Spend(
        calls=REPLIES * (1 + retries),
        tokens_in=REPLIES * options.question_tokens + options.reply_tokens + REPAIR_TOKENS,
        tokens_out=REPLIES * options.reply_tokens,
    )


@dataclass(slots=True)
class Asking:
    """Used once. What was spent so far is in `spend`, and in every error that leaves `ask`."""

    model: Model
    options: Allowance
    seed: int
    what: str
    """What is asked for, in the words of an error."""
    spend: Spend = field(default_factory=Spend)
    calls: int = 0

    def ask(
        self, system: str, question: str, read: Callable[[str], Reading[Value]], schema: Mapping[str, Any] | None = None
    ) -> Value:
        """What was read. After a second reply of no use the first is taken where it had a value, and else it is an
        `ImproverError`; `ModelError` where the model did not answer."""
        messages = (Message(role="system", content=system), Message(role="user", content=question))
        self._refuse_too_long(messages)
        with paid_until_now(lambda: self.spend):
            reply = self._complete(messages, schema)
            first = self._read(reply, read)
            if first.value is not None and not first.fault:
                return first.value
            said = Message(role="assistant", content=reply.text, blocks=reply.blocks)
            mend = Message(role="user", content=_repair(first.fault))
            second = self._read(self._complete((*messages, said, mend), schema), read)
            value = second.value if second.value is not None else first.value
            if value is None:
                raise ImproverError(f"{self.what}: {second.fault} It was asked twice; at first: {first.fault}")
            return value

    def _complete(self, messages: tuple[Message, ...], schema: Mapping[str, Any] | None) -> Reply:
        reply = self.model.complete(
            Request(
                messages=messages,
                max_tokens=self.options.reply_tokens,
                temperature=self.options.temperature,
                seed=self.seed,
                json_schema=schema if self.options.json_schema else None,
            )
        )
        self.calls += 1
        self.spend = self.spend + Spend(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
        return reply

    def _read(self, reply: Reply, read: Callable[[str], Reading[Value]]) -> Reading[Value]:
        if reply.finish_reason == "length":
            words = f"It was cut off at {self.options.reply_tokens} tokens (improver.options.reply_tokens); be shorter."
            return Reading(fault=words)
        if reply.finish_reason in _REFUSALS:
            return Reading(fault=f"It declines: {reply.text.strip()[:200] or 'without a word'}.")
        return read(reply.text) if reply.text.strip() else Reading(fault="It is empty.")

    def _refuse_too_long(self, messages: tuple[Message, ...]) -> None:
        """No tokenizer makes more tokens than there are bytes."""
        tokens = sum(_MESSAGE_TOKENS + len(message.content.encode("utf-8", "replace")) for message in messages)
        if tokens > self.options.question_tokens:
            raise ImproverError(
                f"{self.what}: the question might take {tokens} tokens, more than improver.options.question_tokens = "
                f"{self.options.question_tokens}; raise it, or lower improver.options.trace_chars"
            )


def _repair(fault: str) -> str:
    return (
        f"Your last reply could not be used. {fault[:_FAULT_SHOWN]}\n"
        "Reply once more, whole, in the form that was asked for, with this mended and nothing else changed."
    )
