"""A language model of twelve tokens, rollouts of it, and what tests compare of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from heldout.training.policy_rows import PolicyRow
from heldout.training.settings import OptimiserSettings

VOCABULARY = 12
FAST = OptimiserSettings(learning_rate=0.01, schedule="constant", warmup=0.0)


def llama(seed: int = 0, **options: Any) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(**{"vocab_size": VOCABULARY, "max_position_embeddings": 64, **shape, **options})
    return LlamaForCausalLM(config).eval()


def rollouts(count: int = 12, *, seed: int = 0, sampler: bool = False) -> list[PolicyRow]:
    """Groups of four rollouts of one prompt, of several lengths, with an observation inside every other one."""
    chance = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        if number % 4 == 0:
            prompt = tuple(chance.integers(1, VOCABULARY, 3 + number % 3).tolist())
        length = int(chance.integers(2, 7))
        rows.append(
            PolicyRow(
                prompt=prompt,
                response=tuple(chance.integers(1, VOCABULARY, length).tolist()),
                advantage=float(chance.normal()),
                mask=tuple(bool(place != 1) for place in range(length)) if number % 2 else None,
                sampler=tuple(chance.uniform(-3.0, -2.0, length).tolist()) if sampler else None,
            )
        )
    return rows


def plain_log_probs(model: nn.Module, row: PolicyRow) -> Tensor:
    """Of the tokens that the policy wrote, one row at a time, as anybody would compute them."""
    ids = torch.tensor([[*row.prompt, *row.response]])
    table = torch.log_softmax(model(input_ids=ids).logits[0].float(), -1)
    start = len(row.prompt)
    return torch.stack([table[start + place - 1, row.response[place]] for place in row.written])


def gradients_of(model: nn.Module) -> Tensor:
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in model.parameters()]
    )


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(tensor, b[name]) for name, tensor in a.items())
