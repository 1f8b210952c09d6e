"""The key-value cache of batched sampling: filled in small groups of rows, grown in steps, shrunk as rows end.

Imports torch and transformers; what is light imports it inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from heldout.models.checkpoints import Checkpoint

__all__ = ["Decoder", "tokens_per_pass"]

_STEP = 32
"""Positions by which a full buffer grows, at least."""


def tokens_per_pass(checkpoint: Checkpoint) -> int:
    """Tokens of one forward pass. On a CPU activations should fit its caches: with 64 rows of 40 tokens a pass of a
    0.9 M model took 75 to 137 ms, in groups of 8 to 16 rows 62 ms."""
    return 1024 if checkpoint.device == "cpu" else 65_536


class Decoder:
    """Rows of prompts that are continued token by token. Rows keep their order; `keep` drops some."""

    def __init__(self, checkpoint: Checkpoint, prompts: Sequence[Sequence[int]]) -> None:
        self._model = checkpoint.model
        self._device = checkpoint.device
        self._last = checkpoint.context - 1
        width = max(len(prompt) for prompt in prompts)
        ids = torch.full((len(prompts), width), checkpoint.pad_id)
        self._mask = torch.zeros((len(prompts), width), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            self._mask[row, width - len(prompt) :] = 1
        self._mask, ids = self._mask.to(self._device), ids.to(self._device)
        self._cache = DynamicCache(config=self._model.config)
        plain = all(type(layer) is DynamicLayer for layer in self._cache.layers)
        rows = max(1, tokens_per_pass(checkpoint) // width)
        self.logits = self._in_groups(ids, rows) if plain else self._forward(ids, self._cache)
        """Of the next token of each row; float32, (rows, vocabulary)."""

    def step(self, tokens: torch.Tensor) -> None:
        """Append one token to each row."""
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        self.logits = self._forward(tokens[:, None], self._cache)

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows alone, in this order."""
        self._mask = self._mask[rows]
        self._cache.batch_select_indices(rows)
        self.logits = self.logits[rows]

    def _forward(self, ids: torch.Tensor, cache: DynamicCache, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Logits after the last of `ids`, which stand at the end of `mask`."""
        mask = self._mask if mask is None else mask
        # A row that has ended may go on beyond the context until it is dropped; nobody reads what it says.
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0, max=self._last)[:, -ids.shape[1] :]
        out = self._model(
            input_ids=ids, attention_mask=mask, position_ids=positions, cache=cache, use_cache=True, logits_to_keep=1
        )
        last: torch.Tensor = out.logits[:, -1].float()
        return last

    def _in_groups(self, ids: torch.Tensor, rows: int) -> torch.Tensor:
        """The first pass in groups of rows, each as wide as its own longest prompt; fills the cache."""
        logits: list[torch.Tensor] = []
        buffers: list[_Buffer] = []
        for begin in range(0, len(ids), rows):
            mask = self._mask[begin : begin + rows]
            narrow = int(mask.sum(dim=1).max())
            part = DynamicCache(config=self._model.config)
            logits.append(self._forward(ids[begin : begin + rows, -narrow:], part, mask[:, -narrow:]))
            buffers = buffers or [_Buffer(like=layer, shape=ids.shape) for layer in part.layers]
            for buffer, layer in zip(buffers, part.layers, strict=True):
                buffer.fill(layer, begin)
        self._cache.layers = list(buffers)
        return torch.cat(logits)


class _Buffer(DynamicLayer):
    """Keys and values in tensors with room to spare, since appending to a full tensor copies it at every token."""

    def __init__(self, *, like: Any, shape: Sequence[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lazy_initialization(like.keys, like.values)
        self._room_keys = _room(like.keys, *shape)
        self._room_values = _room(like.values, *shape)
        self._show(shape[1])

    def fill(self, layer: Any, begin: int) -> None:
        """Take over the rows of a group, whose prompts end at the last position."""
        rows = slice(begin, begin + len(layer.keys))
        places = slice(self._length - layer.keys.shape[-2], self._length)
        self._room_keys[rows, :, places] = layer.keys
        self._room_values[rows, :, places] = layer.values

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: object, **_more: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append, and return everything; see `DynamicLayer`."""
        begin, end = self._length, self._length + key_states.shape[-2]
        if end > self._room_keys.shape[-2]:
            self._grow(end)
        self._room_keys[:, :, begin:end] = key_states
        self._room_values[:, :, begin:end] = value_states
        return self._show(end)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Only keep these rows."""
        self._room_keys, self._room_values = self._room_keys[indices], self._room_values[indices]
        self._show(self._length)

    def _grow(self, end: int) -> None:
        keys, values = self._show(self._length)
        shape = (len(keys), end)
        self._room_keys, self._room_values = _room(keys, *shape), _room(values, *shape)
        self._room_keys[:, :, : self._length] = keys
        self._room_values[:, :, : self._length] = values

    def _show(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        self._length = length
        self.keys, self.values = keys, values = self._room_keys[:, :, :length], self._room_values[:, :, :length]
        return keys, values


def _room(like: torch.Tensor, rows: int, length: int) -> torch.Tensor:
    """Zeros, since padding that is not a number would spread through a masked sum."""
    return like.new_zeros(rows, like.shape[1], length + max(_STEP, length // 2), like.shape[-1])
