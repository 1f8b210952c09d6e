"""Claude models, and any server that speaks the messages protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field

from heldout.config import ModelConfig, merge
from heldout.errors import SetupError
from heldout.models.base import Reply, Request
from heldout.models.endpoint import Endpoint
from heldout.models.messages import MessagesClient, messages_body, to_reply
from heldout.models.retry import Backoff
from heldout.options import read_options
from heldout.records import Record, digest_of

__all__ = ["AnthropicModel", "AnthropicOptions"]

_DEFAULT_URL = "https://api.anthropic.com"
_DEFAULT_KEY = "ANTHROPIC_API_KEY"
_SAMPLED_VERSION = "2023-06-01"
"""The last version of the protocol that takes a temperature; later ones refuse the request."""


class AnthropicOptions(Record):
    """`options` of a model named `anthropic:MODEL`."""

    temperature: Literal["omit", "send"] = "omit"
    """`send` asks for the protocol's version of 2023-06-01, for the models that still take a temperature."""
    cache: bool = True
    """Where tools are offered, let the server keep the conversation so far: the next turn reads it for less."""
    extra_body: Mapping[str, Any] = Field(default_factory=dict)
    """Further fields of every request, for example `thinking` or `output_config`."""


class AnthropicModel:
    """A model behind the messages protocol. The key is read from the environment when it is used, stored nowhere.

    `ANTHROPIC_API_KEY` goes to Anthropic and to this machine alone. Nothing is sampled at a chosen temperature
    unless `options.temperature` says so, and there are no seeds: `deterministic` is false. Reasoning comes back in
    `Reply.blocks` and must be sent with its turn. A price per token counts what the cache held as if it were new.
    """

    deterministic = False
    simulated = False
    can_choose = False

    def __init__(self, config: ModelConfig, *, sleep: Callable[[float], None] = time.sleep) -> None:
        model = config.name.partition(":")[2]
        if not model:
            raise SetupError(f"{config.name!r} names no model; for example anthropic:claude-sonnet-4-6")
        self._config = config
        self._options = read_options(AnthropicOptions, config.options, where=f"model {config.name!r}")
        self._client = MessagesClient(
            Endpoint(url=_url(config), model=model, timeout_s=config.timeout_s, api_key_env=_key_name(config)),
            Backoff(retries=config.retries, sleep=sleep),
        )
        self.name = config.name
        self.fingerprint = digest_of(
            {
                "name": config.name,
                "url": self._client.endpoint.url,
                "temperature": config.temperature if self._options.temperature == "send" else None,
                "max_tokens": config.max_tokens,
                "options": self._options.model_dump(mode="json"),
            }
        )

    def __repr__(self) -> str:
        return f"AnthropicModel({self.name!r}, url={self._client.endpoint.url!r})"

    def complete(self, request: Request) -> Reply:
        """Answer `request`; see `Model`. `SetupError` for what the protocol has no field for."""
        asked = {
            "choices": request.choices,
            "log-probabilities": request.top_logprobs,
            "a grammar": request.grammar is not None,
        }
        lacking = [name for name, wanted in asked.items() if wanted]
        if lacking:
            raise SetupError(f"{self.name!r} cannot give {' or '.join(lacking)}; set solver.answer=generate")
        body = messages_body(request, model=self._client.endpoint.model, max_tokens=self._config.max_tokens)
        return to_reply(self._client.send(body, extra=self._extra(request)))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _extra(self, request: Request) -> dict[str, Any]:
        """Fields and headers that not every version of the package has a parameter for."""
        fields: dict[str, Any] = {}
        headers: dict[str, str] = {}
        if self._options.cache and request.tools:
            fields["cache_control"] = {"type": "ephemeral"}
        if request.json_schema is not None:
            fields["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.json_schema)}}
        if self._options.temperature == "send":
            headers["anthropic-version"] = _SAMPLED_VERSION
            fields["temperature"] = self._config.temperature if request.temperature is None else request.temperature
        return {"body": merge(fields, self._options.extra_body), "headers": headers}


def _url(config: ModelConfig) -> str:
    """Without the version, which the package adds itself and users write all the same."""
    return (config.url or _DEFAULT_URL).rstrip("/").removesuffix("/v1")


def _key_name(config: ModelConfig) -> str:
    """The config's default names another vendor's variable."""
    default = ModelConfig.model_fields["api_key_env"].default
    return _DEFAULT_KEY if config.api_key_env == default else config.api_key_env
