"""The seam to language models: one request, one reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from pydantic import Field

from heldout.records import Record
from heldout.store.weights import WeightsStore

__all__ = [
    "DAMAGED_WEIGHTS",
    "Message",
    "Model",
    "Reply",
    "ReplyTokens",
    "Request",
    "ToolCall",
    "ToolSpec",
    "WeightsModel",
]

DAMAGED_WEIGHTS = "the model's logits are not finite numbers: its weights are damaged"
"""What a model that serves weights says of weights that cannot answer; no other error is about the weights."""


class ToolSpec(Record):
    """A tool that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of its arguments, an object."""


class ToolCall(Record):
    """A call that a model made; its arguments are checked by whoever runs it."""

    id: str
    name: str
    arguments: str
    """As the model wrote them: JSON, one hopes."""


class Message(Record):
    """One chat turn."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant turn."""
    tool_call_id: str = ""
    """Of a tool turn: the call that it answers."""
    blocks: tuple[Mapping[str, Any], ...] = ()
    """Of an assistant turn that is unchanged: `Reply.blocks`, which its model wants back."""


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
    tools: tuple[ToolSpec, ...] = ()
    """Tools that the model may call instead of answering."""
    weights: str | None = None
    """Digest of the weights that must answer, of a model that serves several (`WeightsModel`); None: its own."""
    tokens: bool = False
    """Ask for `Reply.tokens`, which policy gradients learn from."""


class ReplyTokens(Record):
    """A reply as its model drew it. Text is never turned into these again: it could be cut into other tokens."""

    prompt: tuple[int, ...]
    """Ids that the model read, the chat template's own among them."""
    ids: tuple[int, ...]
    """Ids that it wrote, with the end token and with what a stop text cut from `Reply.text`."""
    logprobs: tuple[float, ...]
    """Natural-log probability of each of `ids` in the distribution that it was drawn from."""
    temperature: float = Field(ge=0.0)
    """That they were sampled at. At 0, where the likeliest token was taken, the log-probabilities are those at 1."""


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
    tool_calls: tuple[ToolCall, ...] = ()
    blocks: tuple[Mapping[str, Any], ...] = ()
    """The whole turn in the protocol's own form, where it holds reasoning that the model wants back word for word."""
    tokens: ReplyTokens | None = None
    """Where they were asked for; None of a model that cannot tell, as of every one behind a protocol."""


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


class WeightsModel(Model, Protocol):
    """The further ability of a model whose weights lie in folders, so that a loop can train them.

    A class says so with `serves_weights = True`. `Request.weights` names the weights that answer; loading is lazy and a
    few stay loaded. A batch gives the replies of its requests one by one, but for float error where two tokens tie.
    One that answers on accelerators says with `accelerators` how many are in use, and their seconds are counted.
    """

    serves_weights: bool
    trainer: str
    """Name of the trainer that fits: `transformers`, `simulated`, or a dotted path."""

    def serve(self, store: WeightsStore) -> str:
        """Take weights from `store` from now on; puts the start checkpoint in it and returns its digest.

        `SetupError` for a checkpoint that is not usable, with the missing file or tensor named.
        """

    def complete_batch(self, requests: Sequence[Request]) -> list[Reply]:
        """Replies in the order of the requests, which all name the same weights and sampling settings."""
