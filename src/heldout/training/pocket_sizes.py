"""How large pocket models are: named sizes, and the Llama configuration of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from heldout.errors import SetupError, need
from heldout.records import Record

if TYPE_CHECKING:
    from transformers import LlamaConfig

__all__ = ["CONTEXT", "SIZES", "PocketSize", "llama_config", "pocket_size"]

CONTEXT = 512
"""Tokens of the longest prompt and reply together."""

_THETA = 100.0
"""Base of the rotary positions. Tasks have 50 tokens, and heads that look a few tokens back form three times sooner
than with the usual 10,000 (measured: 350 training steps instead of over 1,000 until lists are copied)."""

_SPREAD = 0.05
"""Standard deviation of the first weights; 0.02 is made for widths above a thousand."""


class PocketSize(Record):
    """The shape of a Llama: full attention, gated feed-forward layers, tied embeddings."""

    width: int
    layers: int
    heads: int
    inner: int
    """Width of the feed-forward layers."""

    def parameters(self, vocabulary: int) -> int:
        """Weights, embeddings included."""
        layer = 4 * self.width**2 + 3 * self.width * self.inner + 2 * self.width
        return vocabulary * self.width + self.layers * layer + self.width


SIZES: Mapping[str, PocketSize] = MappingProxyType(
    {
        "xs": PocketSize(width=96, layers=3, heads=3, inner=192),
        "s": PocketSize(width=128, layers=4, heads=4, inner=256),
        "m": PocketSize(width=192, layers=4, heads=6, inner=416),
        "l": PocketSize(width=320, layers=6, heads=10, inner=768),
    }
)
"""About 0.35, 0.75, 1.7 and 7.1 million weights with the vocabulary of the world `formats`."""


def pocket_size(name: str) -> PocketSize:
    """The size of this name, or `SetupError` with those there are."""
    if name not in SIZES:
        raise SetupError(f"no pocket size {name!r}; there is {', '.join(SIZES)}")
    return SIZES[name]


def llama_config(size: PocketSize, tokenizer: Any) -> LlamaConfig:
    """The configuration that `transformers` builds the model from."""
    need("transformers", extra="train")
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": _THETA},
        initializer_range=_SPREAD,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
