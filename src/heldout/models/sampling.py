"""Batched sampling: what each prompt is continued with, token by token.

Imports torch; what is light imports it inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from heldout.errors import ModelError, SetupError
from heldout.models.base import DAMAGED_WEIGHTS
from heldout.models.checkpoints import Checkpoint
from heldout.models.decoding import Decoder

__all__ = ["Sampled", "Sampling", "sample"]

_DRAWS = 64
"""Random numbers that a row draws at once."""

_SEEDS = 2**63

_CROWD = 0.75
"""Ended rows are dropped once fewer than this share of a batch go on; dropping copies the cache of the others."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are drawn."""

    max_tokens: int
    temperature: float = 0.0
    """At 0 the likeliest token is taken."""
    stop: tuple[str, ...] = ()
    """Texts that end a reply."""
    logprobs: bool = False
    """Also give the log-probability of each token."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one prompt was continued with."""

    ids: tuple[int, ...]
    """The tokens that were drawn; where `finished` by an end token, that is the last of them."""
    finished: bool
    """An end token or a stop text came, before `max_tokens` or the context ran out."""
    logprobs: tuple[float, ...] = ()
    """Natural-log probability of each token in the distribution that it was drawn from: that of the logits divided by
    the temperature, or of the logits themselves at temperature 0. Empty where it was not asked for."""


def sample(
    checkpoint: Checkpoint, prompts: Sequence[Sequence[int]], settings: Sampling, *, seeds: Sequence[int], batch: int
) -> list[Sampled]:
    """Continue every prompt, at most `batch` at once, in the order of the prompts.

    A row's tokens depend on its prompt and its seed; its neighbours change float rounding alone. Prompts of similar
    length share a batch. `ModelError` for a prompt that leaves no room in the context, and `SetupError` for other than
    one seed for each prompt, before anything is computed.
    """
    if len(seeds) != len(prompts):
        raise SetupError(f"{len(seeds)} seeds for {len(prompts)} prompts; each prompt needs one of its own")
    check_prompts(checkpoint, prompts)
    order = sorted(range(len(prompts)), key=lambda row: len(prompts[row]))
    found: dict[int, Sampled] = {}
    with torch.inference_mode():
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            drawn = _sample_batch(checkpoint, [prompts[row] for row in rows], settings, [seeds[row] for row in rows])
            found.update(zip(rows, drawn, strict=True))
    return [found[row] for row in range(len(prompts))]


def check_prompts(checkpoint: Checkpoint, prompts: Sequence[Sequence[int]]) -> None:
    """`ModelError` for a prompt that is empty or leaves no room for a reply."""
    for number, prompt in enumerate(prompts):
        if not prompt:
            raise ModelError(f"prompt {number + 1} of {len(prompts)} has no tokens")
        if len(prompt) >= checkpoint.context:
            raise ModelError(
                f"prompt {number + 1} of {len(prompts)} has {len(prompt)} tokens, and the model's context is "
                f"{checkpoint.context} with the reply"
            )


@dataclass(slots=True)
class _Row:
    """A reply that is being drawn."""

    number: int
    generator: torch.Generator
    room: int
    """Tokens that the context leaves."""
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finished: bool = False
    ended: bool = False
    """Finished, or out of room."""


def _sample_batch(
    checkpoint: Checkpoint, prompts: Sequence[Sequence[int]], settings: Sampling, seeds: Sequence[int]
) -> list[Sampled]:
    every = [
        _Row(
            number=number,
            generator=torch.Generator().manual_seed(seed % _SEEDS),
            room=min(settings.max_tokens, checkpoint.context - len(prompt)),
        )
        for number, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True))
    ]
    decoder = Decoder(checkpoint, prompts)
    if not torch.isfinite(decoder.logits).all():
        raise ModelError(DAMAGED_WEIGHTS)
    live, draws = every, torch.empty(0)
    for step in range(max(row.room for row in every)):
        if step % _DRAWS == 0 and settings.temperature > 0.0:
            draws = _uniform(live)
        tokens, logprobs = _next_tokens(decoder.logits, settings, draws[:, step % _DRAWS] if len(draws) else draws)
        for row, token, logprob in zip(live, tokens.tolist(), logprobs, strict=True):
            if not row.ended:
                _append(row, token, logprob, checkpoint, settings)
        going = [place for place, row in enumerate(live) if not row.ended]
        if not going:
            break
        if len(going) <= _CROWD * len(live):
            kept = torch.tensor(going)
            live = [live[place] for place in going]
            tokens, draws = tokens[kept.to(tokens.device)], draws[kept] if len(draws) else draws
            decoder.keep(kept.to(tokens.device))
        decoder.step(tokens)
    return [Sampled(ids=tuple(row.ids), finished=row.finished, logprobs=tuple(row.logprobs)) for row in every]


def _uniform(live: Sequence[_Row]) -> torch.Tensor:
    """The next random numbers of each row, from its own generator: (rows, `_DRAWS`)."""
    return torch.stack([torch.rand(_DRAWS, generator=row.generator, dtype=torch.float64) for row in live])


def _next_tokens(logits: torch.Tensor, settings: Sampling, draws: torch.Tensor) -> tuple[torch.Tensor, Sequence[float]]:
    """One token per row and its log-probability (zeros where nobody asked)."""
    if settings.temperature > 0.0:
        logits = logits / settings.temperature
        tokens = _inverted(logits, draws.to(logits.device))
    else:
        tokens = logits.argmax(dim=-1)
    if not settings.logprobs:
        return tokens, [0.0] * len(tokens)
    chosen = logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(dim=-1)
    return tokens, chosen.tolist()


def _inverted(logits: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """The token at which the cumulated probability passes each row's draw, so that a rounding error of the logits
    changes a token only where the draw falls on a border."""
    cumulated = logits.softmax(dim=-1).double().cumsum(dim=-1)
    tokens = torch.searchsorted(cumulated, (draws * cumulated[:, -1])[:, None], right=True)[:, 0]
    return tokens.clamp(max=logits.shape[-1] - 1)


def _append(row: _Row, token: int, logprob: float, checkpoint: Checkpoint, settings: Sampling) -> None:
    row.ids.append(token)
    if settings.logprobs:
        row.logprobs.append(logprob)
    row.finished = token in checkpoint.end_ids or (bool(settings.stop) and _stops(row.ids, checkpoint, settings.stop))
    row.ended = row.finished or len(row.ids) >= row.room


def _stops(ids: Sequence[int], checkpoint: Checkpoint, stop: Sequence[str]) -> bool:
    """Whether a stop text ends in the last tokens; a token is at least one byte of at most four per character."""
    window = 4 * max(len(text) for text in stop) + 4
    tail = checkpoint.tokenizer.decode(ids[-window:], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return any(text in tail for text in stop)
