"""Any server that speaks the OpenAI chat protocol: vLLM, Ollama, llama.cpp, hosted models."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError
from heldout.models.base import Reply, Request
from heldout.models.chat import ChatClient, chat_body, to_reply
from heldout.models.choosing import choice_logprobs
from heldout.models.endpoint import Endpoint
from heldout.models.retry import Backoff
from heldout.options import read_options
from heldout.records import Record, digest_of

__all__ = ["OpenAICompatibleModel", "OpenAIOptions"]

_DEFAULT_URL = "https://api.openai.com/v1"


class OpenAIOptions(Record):
    """`options` of a model named `openai:MODEL`."""

    can_choose: bool = True
    """False for servers that return no log-probabilities."""
    choice_tokens: int = Field(default=20, ge=1, le=100000)
    """Most likely first tokens asked for when choosing; hosted servers allow 20."""
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The field's name; newer hosted models know only the second."""
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    """Further fields of every request, for example `continue_final_message` for vLLM."""


class OpenAICompatibleModel:
    """A model behind a URL. The key is read from the environment when it is used and is stored nowhere.

    Served models are not reproducible to the bit (batches change), so `deterministic` is false. A last message
    of the assistant is sent as it is; whether a server continues it depends on the server (see `extra_body`).
    """

    deterministic = False
    simulated = False

    def __init__(self, config: ModelConfig, *, sleep: Callable[[float], None] = time.sleep) -> None:
        model = config.name.partition(":")[2]
        if not model:
            raise SetupError(f"{config.name!r} names no model; for example openai:qwen2.5-7b-instruct")
        self._config = config
        self._options = read_options(OpenAIOptions, config.options, where=f"model {config.name!r}")
        self._client = ChatClient(
            Endpoint(url=_url(config), model=model, timeout_s=config.timeout_s, api_key_env=config.api_key_env),
            Backoff(retries=config.retries, sleep=sleep),
        )
        self.name = config.name
        self.can_choose = self._options.can_choose
        self.fingerprint = digest_of(
            {
                "name": config.name,
                "url": self._client.endpoint.url,
                "temperature": config.temperature,
                "max_tokens": config.max_tokens,
                "options": self._options.model_dump(mode="json"),
            }
        )

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self.name!r}, url={self._client.endpoint.url!r})"

    def complete(self, request: Request) -> Reply:
        """Answer `request`; see `Model`."""
        return self._choose(request) if request.choices else self._ask(request)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, request: Request) -> Reply:
        body = chat_body(request, self._config, model=self._client.endpoint.model)
        body[self._options.token_limit] = body.pop("max_tokens")
        extra = dict(self._options.extra_body)
        if request.grammar is not None:
            extra["grammar"] = request.grammar
        return to_reply(self._client.send(body, extra=extra))

    def _choose(self, request: Request) -> Reply:
        first_token = {"max_tokens": 1, "temperature": 0.0, "top_logprobs": self._options.choice_tokens}
        reply = self._ask(request.model_copy(update=first_token))
        if not reply.top_logprobs or not reply.top_logprobs[0]:
            raise ModelError(
                f"{self.name!r} at {self._client.endpoint.url} returned no log-probabilities, which choosing needs; "
                f"set solver.answer=generate, or options.can_choose=false for this model"
            )
        return reply.model_copy(update={"choice_logprobs": choice_logprobs(request.choices, reply.top_logprobs[0])})


def _url(config: ModelConfig) -> str:
    return (config.url or _DEFAULT_URL).rstrip("/")
