"""Makes a pocket model: one readable loop from random weights, or from another pocket model, to a checkpoint folder."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heldout.errors import need
from heldout.training.pocket_recipe import PocketRecipe
from heldout.training.pocket_sizes import CONTEXT, llama_config, pocket_size
from heldout.training.pocket_texts import Text, drawn_texts, vocabulary
from heldout.training.pocket_tokenizer import pocket_tokenizer

if TYPE_CHECKING:
    import torch

__all__ = ["pretrain"]

_FLOOR = 0.05
"""Learning rate of the last step, as a share of the highest."""

_NEXT = "\n<user>"
"""What follows an answer without an end token: the next text of the stream begins."""


def pretrain(
    recipe: PocketRecipe, folder: Path, *, start: Path | None = None, watch: Callable[[int, float], object]
) -> None:
    """Train and write a checkpoint folder; `watch` is told of each step, from 1, and its loss.

    `start` holds the weights of `recipe.start`. The loss is taken on answers and what follows them. One thread and
    float32, so that equal recipes give equal weights on one machine. On disk the weights are float16, and the
    configuration says float32, in which they are loaded.
    """
    torch = need("torch", extra="train")
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    tokenizer = pocket_tokenizer(vocabulary(), longest=CONTEXT)
    model = _first(recipe, tokenizer) if start is None else _loaded(start)
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    for step, texts in enumerate(drawn_texts(random.Random(recipe.seed), recipe), start=1):
        for group in optimiser.param_groups:
            group["lr"] = _rate(recipe, step)
        loss = _loss(model, tokenizer, texts)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        watch(step, loss.item())
    _save(model, tokenizer, folder)


def _first(recipe: PocketRecipe, tokenizer: Any) -> Any:
    """Random weights."""
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM(llama_config(pocket_size(recipe.size), tokenizer))


def _loaded(start: Path) -> Any:
    from heldout.models.checkpoints import load_checkpoint

    return load_checkpoint(start).model.train()


def _rate(recipe: PocketRecipe, step: int) -> float:
    progress = step / recipe.steps
    falling = max(_FLOOR, 0.5 * (1.0 + math.cos(math.pi * progress)))
    return recipe.learning_rate * min(1.0, step / recipe.warmup) * falling


def _loss(model: Any, tokenizer: Any, texts: Sequence[Text]) -> torch.Tensor:
    """Mean cross-entropy of the tokens of all answers, and of the end token or the beginning of a next text."""
    import torch
    from torch.nn.functional import cross_entropy

    asked = [_ids(tokenizer, _asked(tokenizer, text)) for text in texts]
    answered = [_ids(tokenizer, text.answer + (tokenizer.eos_token if text.ends else _NEXT)) for text in texts]
    longest = max(len(prompt) + len(answer) for prompt, answer in zip(asked, answered, strict=True))
    ids = torch.full((len(texts), longest), tokenizer.pad_token_id)
    labels = torch.full((len(texts), longest), -100)
    for row, (prompt, answer) in enumerate(zip(asked, answered, strict=True)):
        ids[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        labels[row, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
    # Padding stands at the right and attention is causal, so no mask is needed.
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    return cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def _asked(tokenizer: Any, text: Text) -> str:
    turns = [{"role": "system", "content": text.system}] if text.system else []
    turns.append({"role": "user", "content": text.prompt})
    rendered: str = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return rendered


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    import torch

    from heldout.models.checkpoints import quiet

    with quiet():
        model.half().save_pretrained(folder)
        model.config.dtype = torch.float32
        model.config.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
