"""A checkpoint of a few thousand random parameters, and examples to train it on; built by the test that asks."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from heldout.config import ModelConfig
from heldout.models.base import Message, Reply, Request
from heldout.models.local_transformers import LocalTransformersModel
from heldout.training import Example, Provenance, TrainingJob
from heldout.training.settings import OptimiserSettings, TrainConfig

TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<end>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SPECIAL = ("<pad>", "<system>", "<user>", "<assistant>", "<end>")
SIGNS = (*map(chr, range(32, 127)), "\n")


def tiny_tokenizer(template: str | None = TEMPLATE) -> PreTrainedTokenizerFast:
    """One token for each sign."""
    inner = Tokenizer(models.WordLevel({sign: place for place, sign in enumerate(SPECIAL + SIGNS)}, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<end>",
        additional_special_tokens=list(SPECIAL[1:4]),
        chat_template=template,
    )


def tiny_parent(folder: Path, *, tied: bool = True, template: str | None = TEMPLATE, dropout: float = 0.0) -> Path:
    """A checkpoint of 4,000 parameters, as `transformers` writes it."""
    config = LlamaConfig(
        vocab_size=len(SPECIAL + SIGNS),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        attention_dropout=dropout,
        eos_token_id=4,
        pad_token_id=0,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        LlamaForCausalLM(config).save_pretrained(folder)
    tiny_tokenizer(template).save_pretrained(folder)
    return folder


def example(prompt: str, completion: str, *, system: str = "") -> Example:
    provenance = Provenance(task="t", role="built")
    return Example(prompt=prompt, completion=completion, system=system, provenance=provenance)


def counting(count: int = 24, *, seed: int = 0) -> tuple[Example, ...]:
    """Prompts and completions of different lengths: a letter, repeated as often as asked."""
    rng = random.Random(seed)
    return tuple(
        example(f"write {letter} {times} times", letter * times)
        for letter, times in ((rng.choice("abcdef"), rng.randint(1, 9)) for _ in range(count))
    )


def config(**changes: object) -> TrainConfig:
    settings = {
        "steps": 6,
        "batch": 4,
        "max_length": 64,
        "checkpoint_every": 2,
        "optimiser": OptimiserSettings(learning_rate=1e-2),
    }
    return TrainConfig.model_validate({**settings, **changes})


def job(tmp: Path, parent: Path, *, name: str = "work", examples: tuple[Example, ...] | None = None, **changes: object):
    """A job whose work folder is `tmp/name`; `seed`, `until` and `bases` besides fields of the config."""
    seed, until, bases = changes.pop("seed", 1), changes.pop("until", None), changes.pop("bases", {})
    return TrainingJob(
        parent=parent,
        examples=counting() if examples is None else examples,
        config=config(**changes),
        seed=seed,
        work=tmp / name,
        steps=until,
        bases=bases,
    )


def evaluated(folder: Path, count: int) -> list[Reply]:
    """What the evaluator answers; it reads the folder itself."""
    model = LocalTransformersModel(ModelConfig(name=f"local:{folder}", max_tokens=24))
    try:
        turns = [Message(role="user", content=one.prompt) for one in counting(count, seed=3)]
        return model.complete_batch([Request(messages=(turn,)) for turn in turns])
    finally:
        model.close()
