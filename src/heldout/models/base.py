"""The seam to language models: one request, one reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from heldout.records import Record

__all__ = ["Message", "Model", "Reply", "Request"]


class Message(Record):
    """One chat turn."""

    role: Literal["system", "user", "assistant"]
    content: str


class Request(Record):
    """What a model is asked. Sampling settings left at None are the model's own."""

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int = 0
    stop: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    """Ask for the log-probability of each of these as the reply's beginning, instead of a text."""
    json_schema: Mapping[str, Any] | None = None
    grammar: str | None = None
    """GBNF, for servers of the llama.cpp family."""
    top_logprobs: int = 0


class Reply(Record):
    """What a model answered, with the token counts that its server reported."""

    text: str
    finish_reason: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    calls: int = 1
    """Requests that were paid for, retries included."""
    choice_logprobs: Mapping[str, float] | None = None
    """Natural-log probability of each choice's first token, up to a constant that the choices of one reply share
    (some servers give it among all tokens, some among the choices); -inf is written as -100.0."""
    top_logprobs: tuple[Mapping[str, float], ...] = ()
    """For each generated token, the most likely tokens and their natural-log probabilities."""


class Model(Protocol):
    """Anything that completes a chat.

    Implementations are picklable before first use, so that a worker process can hold one, and
    safe to call from several threads. A reply depends on the request and `fingerprint` alone
    where `deterministic` is true.
    """

    name: str
    """What the ledger prices and reports show."""
    fingerprint: str
    """Identity of model and settings, a part of every cache key; it holds no secret."""
    deterministic: bool
    can_choose: bool
    """Whether `Request.choices` is understood."""
    simulated: bool
    """Whether answers come from a simulation; every report then says so."""

    def complete(self, request: Request) -> Reply:
        """Answer, or raise `ModelError` once retries are used up; `SetupError` for a missing or refused key."""

    def close(self) -> None:
        """Stop what was started (a server, connections). Safe to call twice."""
