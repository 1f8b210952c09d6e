"""Teacher-forced log-probabilities of given tokens under given prompts.

Imports torch; what is light imports it inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from heldout.errors import ModelError, SetupError
from heldout.models.checkpoints import Checkpoint
from heldout.models.decoding import tokens_per_pass

__all__ = ["Scored", "next_logprobs", "score"]

_LOGITS = 2**26
"""Logits that are held at once, at most (256 MiB in float32)."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Tokens whose probability is asked for, after a prompt."""

    prompt: tuple[int, ...]
    """At least one token."""
    continuation: tuple[int, ...]


def score(
    checkpoint: Checkpoint, items: Sequence[Scored], *, batch: int, temperature: float = 1.0
) -> list[tuple[float, ...]]:
    """Natural-log probability of every continuation token given what stands before it, per item.

    Logits are divided by `temperature` first. Every sequence is padded on the right, where nothing sees the padding,
    so each goes through the same computation in whatever batch; the batch changes float rounding alone. `SetupError`
    for a temperature that is not positive.
    """
    if not temperature > 0.0:
        raise SetupError(f"temperature = {temperature!r} is not positive; 1.0 scores with the logits as they are")
    for number, item in enumerate(items):
        _check(checkpoint, item, f"item {number + 1} of {len(items)}")
    found: dict[int, tuple[float, ...]] = dict.fromkeys(range(len(items)), ())
    order = sorted(
        (row for row in found if items[row].continuation),
        key=lambda row: len(items[row].prompt) + len(items[row].continuation),
    )
    with torch.inference_mode():
        while order:
            rows, order = _group(checkpoint, items, order, batch)
            found.update(zip(rows, _score_batch(checkpoint, [items[row] for row in rows], temperature), strict=True))
    return [found[row] for row in range(len(items))]


def next_logprobs(checkpoint: Checkpoint, prompts: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """Natural-log probabilities of every token of the vocabulary, next after each prompt."""
    every: list[torch.Tensor] = []
    with torch.inference_mode():
        for prompt in prompts:
            ids = torch.tensor([list(prompt)], device=checkpoint.device)
            logits = checkpoint.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1].float()
            every.append(logits.log_softmax(dim=-1).cpu())
    return every


def _check(checkpoint: Checkpoint, item: Scored, which: str) -> None:
    length = len(item.prompt) + len(item.continuation)
    if not item.prompt:
        raise ModelError(f"{which} has no prompt, so its first token has no probability")
    if length > checkpoint.context:
        raise ModelError(f"{which} has {length} tokens, and the model's context is {checkpoint.context}")


def _group(
    checkpoint: Checkpoint, items: Sequence[Scored], order: Sequence[int], batch: int
) -> tuple[list[int], list[int]]:
    """The next rows that fit in one pass, and the rest; the longest first, so that it alone decides the width."""
    longest = items[order[-1]]
    length = len(longest.prompt) + len(longest.continuation)
    kept = length - min(len(items[row].prompt) for row in order[-batch:]) + 1
    vocabulary = checkpoint.model.config.get_text_config().vocab_size
    fitting = max(1, min(batch, tokens_per_pass(checkpoint) // length, _LOGITS // (kept * vocabulary)))
    return list(order[-fitting:]), list(order[:-fitting])


def _score_batch(checkpoint: Checkpoint, items: Sequence[Scored], temperature: float) -> list[tuple[float, ...]]:
    lengths = [len(item.prompt) + len(item.continuation) for item in items]
    ids = torch.full((len(items), max(lengths)), checkpoint.pad_id)
    for row, item in enumerate(items):
        ids[row, : lengths[row]] = torch.tensor(item.prompt + item.continuation)
    ids = ids.to(checkpoint.device)
    first = min(len(item.prompt) for item in items) - 1
    kept = torch.arange(first, max(lengths) - 1, device=checkpoint.device)
    out = checkpoint.model(input_ids=ids, use_cache=False, logits_to_keep=kept)
    logits = out.logits.float() / temperature
    chosen = logits.gather(2, ids[:, first + 1 :, None])[..., 0] - logits.logsumexp(dim=-1)
    begins = [len(item.prompt) - 1 - first for item in items]
    return [
        tuple(row[begin : begin + len(item.continuation)])
        for row, begin, item in zip(chosen.tolist(), begins, items, strict=True)
    ]
