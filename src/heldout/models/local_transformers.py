"""Models whose weights lie in folders and are run in this process through `transformers`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError, boundary
from heldout.models.base import Message, Reply, ReplyTokens, Request
from heldout.models.checkpoint_files import MERGE_FIRST, check_files
from heldout.models.checkpoints import Checkpoint, Dtype, load_checkpoint
from heldout.models.choosing import log_sum
from heldout.models.smollm2_folder import smollm2_folder
from heldout.options import read_options
from heldout.records import Record, digest_of
from heldout.store.weights import WeightsStore, weights_digest

if TYPE_CHECKING:
    from heldout.models.sampling import Sampled, Sampling
    from heldout.models.scoring import Scored

__all__ = ["LocalTransformersModel", "TransformersOptions"]


class TransformersOptions(Record):
    """`options` of models that run in this process."""

    dtype: Dtype = "auto"
    """Numbers that it computes with; `auto` is float32 on the CPU and bfloat16 on an accelerator."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    """`auto` takes an accelerator where there is one."""
    batch: int = Field(default=64, ge=1, le=4096)
    """Replies that are drawn at once, at most."""
    keep: int = Field(default=2, ge=1, le=64)
    """Weights that stay loaded; those that were used longest ago are freed first."""


class LocalTransformersModel:
    """`local:FOLDER`, or `local:smollm2`; a subclass gives another start checkpoint through `checkpoint`.

    Replies at temperature 0 repeat for the same requests in the same batch; another batch may change which of two
    tokens wins that are equal up to rounding (never, in float32, in our tests). With a temperature a reply depends on
    its request, the seed included. One request runs at a time; several threads may ask.
    """

    serves_weights: ClassVar[bool] = True
    trainer = "transformers"
    can_choose = True
    simulated = False

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.options = read_options(TransformersOptions, config.options, where=f"model {config.name!r}")
        self.name = config.name
        self.deterministic = config.temperature == 0.0
        self._store: WeightsStore | None = None
        self._start: str | None = None
        """Digest of the start checkpoint, once it is known."""
        self._loaded: OrderedDict[str, Checkpoint] = OrderedDict()
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (type(self), self.config, self._store, self._start)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def checkpoint(self) -> Path:
        """Folder of the start checkpoint; `SetupError` where there is none."""
        where = self.config.name.partition(":")[2]
        if where == "smollm2":
            return smollm2_folder()
        if not where:
            raise SetupError("model 'local' needs a checkpoint folder: solver.model.name=local:DIR, or local:smollm2")
        return Path(where)

    @property
    def start(self) -> str:
        """Digest of the start checkpoint."""
        with self._lock:
            if self._start is None:
                self._start = weights_digest(self._whole_checkpoint())
            return self._start

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the start checkpoint's content and the settings; where the folder lies is no part of it."""
        return digest_of(
            {
                "weights": self.start,
                "dtype": self.options.dtype,
                "device": self.options.device,
                "temperature": self.config.temperature,
                "max_tokens": self.config.max_tokens,
            }
        )

    @property
    def accelerators(self) -> int:
        """How many are in use while it answers; their seconds count."""
        with self._lock:
            return int(any(checkpoint.device != "cpu" for checkpoint in self._loaded.values()))

    def serve(self, store: WeightsStore) -> str:
        """Take weights from `store`; see `WeightsModel`. Loads the start checkpoint, so that its faults show now."""
        with self._lock:
            self._start = store.adopt(self._whole_checkpoint(), source=self.config.name)
            self._store = store
            self.weights()
            return self._start

    def complete(self, request: Request) -> Reply:
        """Answer `request`; see `Model`."""
        return self.complete_batch([request])[0]

    def complete_batch(self, requests: Sequence[Request]) -> list[Reply]:
        """Replies in the order of the requests; see `WeightsModel`. `ModelError` where one prompt is too long."""
        if not requests:
            return []
        with self._lock:
            checkpoint = self.weights(requests[0].weights)
            return self._answer(checkpoint, requests, self._asked(requests))

    def encode(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = True, weights: str | None = None
    ) -> tuple[int, ...]:
        """Token ids of a chat in the checkpoint's own template; a last turn of the assistant is left open and
        continued, unless `add_generation_prompt` is false."""
        with self._lock:
            return _encode(self.weights(weights), messages, open_end=add_generation_prompt)

    def decode(self, ids: Sequence[int], *, weights: str | None = None) -> str:
        """The text of tokens, without special ones."""
        with self._lock:
            return _decode(self.weights(weights), ids)

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        settings: Sampling,
        *,
        seeds: Sequence[int],
        weights: str | None = None,
    ) -> list[Sampled]:
        """Continue prompts that are given as tokens; see `sampling.sample`."""
        with self._lock, boundary(ModelError, f"model {self.name!r} did not answer"):
            return self._sample(self.weights(weights), prompts, settings, seeds)

    def score(
        self, items: Sequence[Scored], *, weights: str | None = None, temperature: float = 1.0
    ) -> list[tuple[float, ...]]:
        """Natural-log probabilities of given tokens under given prompts, per token; see `scoring.score`."""
        with self._lock, boundary(ModelError, f"model {self.name!r} did not score"):
            checkpoint = self.weights(weights)
            from heldout.models.scoring import score

            return score(checkpoint, items, batch=self.options.batch, temperature=temperature)

    def weights(self, digest: str | None = None) -> Checkpoint:
        """The loaded weights of this digest; None: the start checkpoint. They are frozen: what is trained is a copy."""
        with self._lock:
            key = digest or self._start or ""
            if key not in self._loaded:
                folder = self._folder(digest)
                while len(self._loaded) >= self.options.keep:
                    self._loaded.popitem(last=False)
                loaded = load_checkpoint(
                    folder,
                    dtype=self.options.dtype,
                    device=self.options.device,
                    bases=None if self._store is None else self._store.check,
                )
                loaded.model.requires_grad_(False)
                self._loaded[key] = loaded
            self._loaded.move_to_end(key)
            return self._loaded[key]

    def close(self) -> None:
        """Free all weights; they are loaded again when they are asked for."""
        with self._lock:
            self._loaded.clear()

    def _whole_checkpoint(self) -> Path:
        """Where the start checkpoint lies; `SetupError` for adapters, and for the first file that is missing."""
        folder = self.checkpoint()
        if (folder / "adapter_config.json").is_file():
            raise SetupError(f"{str(folder)!r} holds adapters, and a model starts from full weights: {MERGE_FIRST}")
        check_files(folder)
        return folder

    def _folder(self, digest: str | None) -> Path:
        """Of the store, whose content is compared with its name, or where the start checkpoint lies."""
        if digest is None or (self._store is None and digest == self._start):
            return self._whole_checkpoint() if self._store is None else self._store.check(self.start)
        if self._store is None:
            raise SetupError(f"model {self.name!r} is asked for the weights {digest[:12]!r} and serves no store yet")
        return self._store.check(digest)

    def _asked(self, requests: Sequence[Request]) -> Sampling:
        """The sampling settings that all requests share; `ValueError` where they differ."""
        from heldout.models.sampling import Sampling

        kinds = {_kind(request) for request in requests}
        if len(kinds) > 1:
            raise ValueError("the requests of a batch differ in weights or sampling settings")
        first = requests[0]
        if first.tools or first.json_schema is not None or first.grammar is not None or first.top_logprobs:
            raise ModelError(f"model {self.name!r} knows no tools, schemas, grammars or top_logprobs; it only writes")
        return Sampling(
            max_tokens=self.config.max_tokens if first.max_tokens is None else first.max_tokens,
            temperature=self.config.temperature if first.temperature is None else first.temperature,
            stop=first.stop,
            logprobs=first.tokens,
        )

    def _answer(self, checkpoint: Checkpoint, requests: Sequence[Request], settings: Sampling) -> list[Reply]:
        with boundary(ModelError, f"model {self.name!r} did not answer"):
            prompts = [_encode(checkpoint, request.messages) for request in requests]
            if requests[0].choices:
                return [_choose(checkpoint, *pair) for pair in zip(requests, prompts, strict=True)]
            drawn = self._sample(checkpoint, prompts, settings, [request.seed for request in requests])
            return [_reply(checkpoint, *pair, settings) for pair in zip(prompts, drawn, strict=True)]

    def _sample(
        self, checkpoint: Checkpoint, prompts: Sequence[Sequence[int]], settings: Sampling, seeds: Sequence[int]
    ) -> list[Sampled]:
        from heldout.models.sampling import sample

        return sample(checkpoint, prompts, settings, seeds=seeds, batch=self.options.batch)


class _Kind(NamedTuple):
    weights: str | None
    max_tokens: int | None
    temperature: float | None
    stop: tuple[str, ...]
    chooses: bool
    tokens: bool
    more: bool


def _kind(request: Request) -> _Kind:
    more = bool(request.tools or request.json_schema is not None or request.grammar is not None or request.top_logprobs)
    return _Kind(
        weights=request.weights,
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        stop=request.stop,
        chooses=bool(request.choices),
        tokens=request.tokens,
        more=more,
    )


def _copy(
    cls: type[LocalTransformersModel], config: ModelConfig, store: WeightsStore | None, start: str | None
) -> LocalTransformersModel:
    model = cls(config)
    model._store, model._start = store, start
    return model


def _encode(checkpoint: Checkpoint, messages: Sequence[Message], *, open_end: bool = True) -> tuple[int, ...]:
    chat = [{"role": message.role, "content": message.content} for message in messages]
    continued = open_end and bool(chat) and chat[-1]["role"] == "assistant"
    ids: Sequence[int] = checkpoint.tokenizer.apply_chat_template(
        chat,
        add_generation_prompt=open_end and not continued,
        continue_final_message=continued,
        return_dict=False,
    )
    return tuple(ids)


def _decode(checkpoint: Checkpoint, ids: Sequence[int]) -> str:
    text: str = checkpoint.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text


def _reply(checkpoint: Checkpoint, prompt: Sequence[int], drawn: Sampled, settings: Sampling) -> Reply:
    # Not every end token is marked as special, and none is part of the answer.
    ended = bool(drawn.ids) and drawn.ids[-1] in checkpoint.end_ids
    text = _decode(checkpoint, drawn.ids[:-1] if ended else drawn.ids)
    told = None
    if settings.logprobs:
        told = ReplyTokens(
            prompt=tuple(prompt), ids=drawn.ids, logprobs=drawn.logprobs, temperature=settings.temperature
        )
    cuts = [place for place in (text.find(one) for one in settings.stop) if place >= 0]
    return Reply(
        text=text[: min(cuts)] if cuts else text,
        finish_reason="stop" if drawn.finished else "length",
        tokens_in=len(prompt),
        tokens_out=len(drawn.ids),
        tokens=told,
    )


def _choose(checkpoint: Checkpoint, request: Request, prompt: Sequence[int]) -> Reply:
    from heldout.models.sampling import check_prompts
    from heldout.models.scoring import next_logprobs

    check_prompts(checkpoint, [prompt])
    likely = next_logprobs(checkpoint, [prompt])[0].tolist()
    found = {choice: log_sum(likely[token] for token in _starts(checkpoint, choice)) for choice in request.choices}
    return Reply(text="", tokens_in=len(prompt), tokens_out=1, choice_logprobs=found)


def _starts(checkpoint: Checkpoint, choice: str) -> list[int]:
    """First tokens of the choice, with and without a leading space and a capital; a token that is a bare space begins
    every choice and says nothing."""
    spellings = {choice, choice.lower(), choice.capitalize()}
    texts = sorted(space + word for word in spellings for space in ("", " "))
    firsts = {ids[0] for text in texts if (ids := checkpoint.tokenizer.encode(text, add_special_tokens=False))}
    return sorted(token for token in firsts if _decode(checkpoint, [token]).strip())
