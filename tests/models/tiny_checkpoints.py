"""Checkpoint folders of a few thousand random parameters: a byte vocabulary, the chat template of pocket models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}"
    "{% if m['role'] == 'assistant' %}<end>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SPECIAL = ("<pad>", "<system>", "<user>", "<assistant>", "<end>")


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes and five special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={one: n for n, one in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(SPECIAL))
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", clean_up_tokenization_spaces=False
    )
    made.chat_template = TEMPLATE
    return made


def config(**changed: Any) -> LlamaConfig:
    settings = {
        "vocab_size": 264,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 96,
        "tie_word_embeddings": False,
        "pad_token_id": 256,
        "bos_token_id": None,
        "eos_token_id": 260,
        "initializer_range": 0.2,
    }
    return LlamaConfig(**{**settings, **changed})


def write(folder: Path, *, seed: int = 0, model: Any = None, ends: Sequence[int] = (260,), **changed: Any) -> Path:
    """A checkpoint of random weights in `folder`, which is returned; `ends` are the tokens that end a reply."""
    torch.manual_seed(seed)
    made = LlamaForCausalLM(config(**changed)) if model is None else model
    made.generation_config = GenerationConfig(eos_token_id=list(ends), pad_token_id=256)
    made.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
