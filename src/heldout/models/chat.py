"""Chat completions over HTTP, through the `openai` package: one request with retries, one checked reply."""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError
from heldout.models.base import Reply, Request
from heldout.models.retry import Answered, Backoff, Transient, retry_after_s
from heldout.records import digest_of

if TYPE_CHECKING:
    import openai

__all__ = ["ChatClient", "Completion", "Endpoint", "chat_body", "is_loopback", "is_openai", "to_reply"]

_DETAIL_LENGTH = 300
_OPENAI_KEY = "OPENAI_API_KEY"
_SEEDS = 2**31
"""Servers differ in how wide a seed may be; all take 31 bits."""


class _TokenLogprob(BaseModel):
    token: str
    logprob: float


class _Position(_TokenLogprob):
    top_logprobs: tuple[_TokenLogprob, ...] = ()


class _Logprobs(BaseModel):
    content: tuple[_Position, ...] | None = None


class _Message(BaseModel):
    content: str | None = None


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


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is served, and where its key is found."""

    url: str
    model: str
    timeout_s: float
    api_key_env: str = ""
    loopback_key: str = field(default="", repr=False)
    """Key of a server that Heldout itself started; it opens nothing else."""

    def key(self) -> str:
        """The key, read anew from the environment each time; `SetupError` where it is missing or malformed."""
        key = self.loopback_key or os.environ.get(self.api_key_env, "").strip()
        if not key and is_loopback(self.url):
            return "none"
        if self.api_key_env == _OPENAI_KEY and not (is_openai(self.url) or is_loopback(self.url)):
            raise SetupError(
                f"{_OPENAI_KEY} is not sent to {self.url}: name the variable that holds this server's key with "
                f"api_key_env (any value will do for a server that asks for none)"
            )
        if not key:
            raise SetupError(
                f"no key for {self.model!r} at {self.url}: set the environment variable {self.api_key_env} "
                f"(or name another one with api_key_env)"
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise SetupError(f"the environment variable {self.api_key_env} does not hold a key: it has odd characters")
        return key


class ChatClient:
    """Sends chat completions to one endpoint. Connects on first use; picklable; safe to share between threads."""

    def __init__(self, endpoint: Endpoint, backoff: Backoff) -> None:
        self.endpoint = endpoint
        self._backoff = backoff
        self._reached = False
        self._client: openai.OpenAI | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"endpoint": self.endpoint, "backoff": self._backoff, "reached": self._reached}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy goes to a worker while the server is known to be up: there, a refused connection is worth retrying.
        ChatClient.__init__(self, state["endpoint"], state["backoff"])
        self._reached = state["reached"]

    def send(self, body: Mapping[str, Any], *, extra: Mapping[str, Any]) -> Answered[Completion]:
        """Post `body`, with `extra` fields that the protocol does not know. Raises as `Model.complete` does."""
        seed = digest_of([dict(body), dict(extra)])
        where = f"{self.endpoint.model!r} at {self.endpoint.url}"
        return self._backoff.run(lambda: self._attempt(body, extra), what=where, seed=seed)

    def close(self) -> None:
        """Close the connections. Safe to call twice; a later `send` connects again."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _attempt(self, body: Mapping[str, Any], extra: Mapping[str, Any]) -> Completion:
        import openai

        client = self._connected()
        # `from None`: a reply may quote the key, and a chained exception would print it beside our cleaned message.
        try:
            raw = client.chat.completions.with_raw_response.create(**body, extra_body=dict(extra))
        except openai.APITimeoutError:
            raise Transient(f"no answer within {self.endpoint.timeout_s:g} s") from None
        except openai.APIConnectionError as cause:
            raise self._broken(cause) from None
        except openai.APIStatusError as cause:
            self._reached = True
            raise self._refused(cause) from None
        self._reached = True
        return _parse(raw.content)

    def _connected(self) -> openai.OpenAI:
        import openai

        with self._lock:
            if self._client is None:
                self._client = openai.OpenAI(
                    base_url=self.endpoint.url,
                    api_key=self.endpoint.key(),
                    timeout=self.endpoint.timeout_s,
                    max_retries=0,
                    default_headers=None if is_openai(self.endpoint.url) else _withheld(openai),
                    # A proxy from the environment cannot reach a server on this machine's loopback.
                    http_client=openai.DefaultHttpxClient(trust_env=not is_loopback(self.endpoint.url)),
                )
            return self._client

    def _broken(self, cause: openai.APIConnectionError) -> Exception:
        inner = cause.__cause__ or cause
        reason = self._clean(f"{type(inner).__name__}: {inner}")
        # By name, since the class comes from whichever HTTP library this version of `openai` stands on.
        if type(inner).__name__ == "ConnectError" and not self._reached:
            return ModelError(f"cannot connect to {self.endpoint.url} ({reason}); is the server running?")
        return Transient(f"the connection broke ({reason})")

    def _refused(self, cause: openai.APIStatusError) -> Exception:
        status, where = cause.status_code, self.endpoint
        if status in (401, 403):
            return SetupError(
                f"{where.url} refused the key (HTTP {status}) for {where.model!r}; "
                f"check the environment variable {where.api_key_env}"
            )
        detail = self._clean(cause.response.text)
        if status == 404:
            return SetupError(f"{where.url} has no model {where.model!r} (HTTP 404: {detail}); check name and url")
        if status in (408, 429) or status >= 500:
            headers = cause.response.headers
            asked_s = retry_after_s(headers.get("retry-after"), date=headers.get("date"))
            return Transient(f"HTTP {status}: {detail}", retry_after_s=asked_s)
        return ModelError(f"{where.model!r} at {where.url}: HTTP {status}: {detail}")

    def _clean(self, text: str) -> str:
        key = self.endpoint.key()
        shown = text if key == "none" else text.replace(key, "***")
        return " ".join(shown.split())[:_DETAIL_LENGTH]


def chat_body(request: Request, config: ModelConfig, *, model: str) -> dict[str, Any]:
    """The protocol's fields for `request`; what it leaves open comes from `config`."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [message.model_dump() for message in request.messages],
        "temperature": config.temperature if request.temperature is None else request.temperature,
        "max_tokens": request.max_tokens or config.max_tokens,
        "seed": request.seed % _SEEDS,
    }
    if request.stop:
        body["stop"] = list(request.stop)
    if request.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    if request.json_schema is not None:
        schema = {"name": "reply", "schema": dict(request.json_schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def to_reply(answered: Answered[Completion]) -> Reply:
    """The reply in our terms. A server that reports no usage counts as 0 tokens: we never invent a count."""
    choice = answered.value.choices[0]
    usage = answered.value.usage or _Usage()
    positions = (choice.logprobs.content if choice.logprobs else None) or ()
    return Reply(
        text=choice.message.content or "",
        finish_reason=choice.finish_reason or "stop",
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens,
        calls=answered.calls,
        top_logprobs=tuple({item.token: item.logprob for item in place.top_logprobs} for place in positions),
    )


def is_loopback(url: str) -> bool:
    """Whether `url` names this machine's loopback interface; a name that only begins like one does not."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_openai(url: str) -> bool:
    """Whether `url` is OpenAI's own service, to which alone its key and headers go unasked."""
    host = urlsplit(url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _withheld(openai: Any) -> dict[str, Any]:
    """Headers that the SDK would fill from the environment, and that are nobody else's business."""
    return {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}


def _parse(content: bytes) -> Completion:
    try:
        completion = Completion.model_validate_json(content)
    except ValidationError as cause:
        fault = cause.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise Transient(f"the reply is no chat completion ({where or 'body'}: {fault['msg']})") from None
    first = completion.choices[0]
    # A reasoning model that was cut off inside its reasoning has no content, and that is an answer.
    if first.message.content is None and first.finish_reason != "length":
        raise Transient("the reply has no content")
    return completion
