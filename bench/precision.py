"""SmolLM2-135M on one core in float32 and in bfloat16: sampling as an evaluation does it, and a training step.

python bench/precision.py
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from heldout.config import ModelConfig
from heldout.models.base import Message, Request
from heldout.models.checkpoints import quiet
from heldout.models.local_transformers import LocalTransformersModel
from heldout.models.smollm2_folder import smollm2_folder
from heldout.training import LoraSettings
from heldout.worlds.formats.generator import draw_job
from heldout.worlds.formats.job import Constraint

TASKS, TOKENS = 24, 40
BATCH, LENGTH = 8, 70
REPEATS = 3


def main() -> None:
    torch.set_num_threads(1)
    print("processor seconds, one thread, best of", REPEATS)
    for name in ("float32", "bfloat16"):
        print(f"{name:9} {TASKS} answers of up to {TOKENS} tokens {best(sampling(name)):6.2f}", flush=True)
        print(f"{name:9} forward and backward, {BATCH} x {LENGTH}    {best(step(name)):6.2f}", flush=True)


def sampling(dtype: str) -> Callable[[], object]:
    config = ModelConfig(name="local:smollm2", max_tokens=TOKENS, options={"dtype": dtype})
    model = LocalTransformersModel(config)
    rng = random.Random(7)
    texts = [draw_job(rng, [Constraint.CASE]).text for _ in range(TASKS)]
    requests = [Request(messages=(Message(role="user", content=text),), max_tokens=TOKENS) for text in texts]
    model.weights()
    return lambda: model.complete_batch(requests)


def step(dtype: str) -> Callable[[], object]:
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(smollm2_folder(), dtype=getattr(torch, dtype))
    adapters = LoraConfig(r=8, lora_alpha=16, target_modules=list(LoraSettings().targets), task_type="CAUSAL_LM")
    adapted = get_peft_model(model, adapters)
    ids = torch.randint(0, 1000, (BATCH, LENGTH), generator=torch.Generator().manual_seed(7))

    def both_ways() -> None:
        adapted(input_ids=ids, labels=ids).loss.backward()

    return both_ways


def best(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)


if __name__ == "__main__":
    main()
