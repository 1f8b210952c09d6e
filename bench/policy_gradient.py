"""Steps of our policy gradient beside those of TRL's GRPOTrainer: same model, rollouts and loss, one thread, in turns.

python bench/policy_gradient.py [--quick]

Without generation, a step is: log-probabilities of the old policy and of the reference where the setting needs them,
loss, backward, clipping, AdamW. Of TRL that is its own forward and loss on tensors that are ready, without the loop
around it (data loader, callbacks, logs), which a user of TRL pays for as well. With generation, TRL runs as a user runs
it, `train()` with `generate`, and we sample with our own sampler; sampling is part of both times. Times are CPU seconds
of this process, since other processes of the machine say nothing about either side.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, LlamaForCausalLM, PreTrainedTokenizerFast, PrinterCallback
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer

from heldout.models.checkpoints import Checkpoint
from heldout.models.sampling import Sampling, sample
from heldout.training.advantages import group_advantages
from heldout.training.pocket_sizes import SIZES, llama_config
from heldout.training.pocket_tokenizer import pocket_tokenizer
from heldout.training.policy_gradient import PolicyTrainer, UpdateSettings
from heldout.training.policy_loss import LossSettings
from heldout.training.policy_rows import PolicyRow
from heldout.training.policy_terms import PolicyTerm
from heldout.training.settings import OptimiserSettings

PROMPTS, ROLLOUTS, PROMPT, COMPLETION = 8, 8, 40, 24
RATE = 1e-5


@dataclass(frozen=True)
class Setting:
    """What a step has to compute."""

    name: str
    beta: float
    epochs: int
    """With more than one the old policy's log-probabilities are computed before the first."""
    shortest: int = COMPLETION
    """Replies have from so many tokens to `COMPLETION`."""


SETTINGS = (
    Setting("one update", beta=0.0, epochs=1),
    Setting("one update, replies of 4 to 24 tokens", beta=0.0, epochs=1, shortest=4),
    Setting("one update, reference", beta=0.04, epochs=1),
    Setting("two updates, old policy and reference", beta=0.04, epochs=2),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a third of the repetitions")
    times = 5 if parser.parse_args().quick else 15
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder) / "model"
        tokenizer = _tokenizer()
        _model(tokenizer).save_pretrained(start)
        tokenizer.save_pretrained(start)
        rows = [without_generation(setting, start, tokenizer, times) for setting in SETTINGS]
        rows.append(with_generation(start, tokenizer, max(3, times // 3)))
    print(json.dumps(rows, indent=2))


def without_generation(setting: Setting, start: Path, tokenizer: PreTrainedTokenizerFast, times: int) -> dict[str, Any]:
    """Medians of ours (with and without shared prompts) and of TRL's on one batch of rollouts."""
    prompts, completions, advantages = _rollouts(len(tokenizer), setting.shortest)
    rows = [
        PolicyRow(tuple(prompt), tuple(completion), advantage)
        for prompt, completion, advantage in zip(prompts, completions, advantages, strict=True)
    ]
    ours = {share: _ours(start, setting, share) for share in (True, False)}
    theirs = _theirs(start, tokenizer, setting)
    batch = _batch(prompts, completions, advantages)
    loss = LossSettings(kl=setting.beta)
    work: dict[str, Callable[[], object]] = {
        "ours": lambda: ours[True].update(PolicyTerm("policy", rows, loss)),
        "apart": lambda: ours[False].update(PolicyTerm("policy", rows, loss)),
        "trl": lambda: _their_step(theirs, batch, setting),
    }
    seconds = _interleaved(work, times)
    return _row(f"{setting.name}, without generation", seconds, bar=2.0)


def with_generation(start: Path, tokenizer: PreTrainedTokenizerFast, steps: int) -> dict[str, Any]:
    """Whole steps: sampling, reward, advantages, one update; runs of some steps, in turns."""
    texts = [tokenizer.decode(ids) for ids in _rollouts(len(tokenizer), COMPLETION)[0][::ROLLOUTS]]
    model: Any = AutoModelForCausalLM.from_pretrained(start)
    trainer = PolicyTrainer(model, seed=0, optimiser=_optimiser())
    # No token ends a reply, on either side: all have full length.
    sampler = Checkpoint(model.eval(), tokenizer, end_ids=frozenset(), pad_id=0, context=512, device="cpu")
    settings = Sampling(max_tokens=COMPLETION, temperature=1.0, logprobs=True)

    def ours() -> None:
        for _ in range(steps):
            prompts = [tuple(tokenizer(text)["input_ids"]) for text in texts for _ in range(ROLLOUTS)]
            replies = sample(sampler, prompts, settings, seeds=range(len(prompts)), batch=len(prompts))
            rewards = [float(len(set(reply.ids))) for reply in replies]
            found = group_advantages(rewards, _groups(), eps=1e-4).rows()
            rows = [PolicyRow(p, reply.ids, a) for p, reply, a in zip(prompts, replies, found, strict=True)]
            trainer.update(PolicyTerm("policy", rows))

    def theirs(count: int) -> None:
        _trl(start, tokenizer, Setting("", beta=0.0, epochs=1), steps=count, texts=texts).train()

    # What a run of TRL costs besides its steps falls out of the difference between a long and a short one.
    work = {"ours": ours, "long": lambda: theirs(steps + 2), "short": lambda: theirs(2)}
    seconds = _interleaved(work, 3)
    each = {
        "ours": [s / steps for s in seconds["ours"]],
        "trl": [(long - short) / steps for long, short in zip(seconds["long"], seconds["short"], strict=True)],
    }
    return _row("one update, with generation", each, bar=None)


def _row(what: str, seconds: dict[str, list[float]], *, bar: float | None) -> dict[str, Any]:
    median = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = median["trl"] / median["ours"]
    row = {"what": what, "ours_ms": round(1e3 * median["ours"], 1), "trl_ms": round(1e3 * median["trl"], 1)}
    row |= {"ratio": round(ratio, 2)}
    if "apart" in median:
        row["ratio_without_shared_prompts"] = round(median["trl"] / median["apart"], 2)
    return row | {"bar": bar, "met": None if bar is None else ratio >= bar}


def _interleaved(work: dict[str, Callable[[], object]], times: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(times + 1):
        for name, one in work.items():
            begun = time.process_time()
            one()
            if turn:  # the first turn warms up
                seconds[name].append(time.process_time() - begun)
    return seconds


def _ours(start: Path, setting: Setting, share: bool) -> PolicyTrainer:
    model = AutoModelForCausalLM.from_pretrained(start)
    reference = copy.deepcopy(model) if setting.beta else None
    settings = UpdateSettings(epochs=setting.epochs, share_prefixes=share)
    return PolicyTrainer(model, seed=0, optimiser=_optimiser(), settings=settings, reference=reference)


def _optimiser() -> OptimiserSettings:
    return OptimiserSettings(learning_rate=RATE, schedule="constant", warmup=0.0)


def _theirs(start: Path, tokenizer: PreTrainedTokenizerFast, setting: Setting) -> GRPOTrainer:
    trainer = _trl(start, tokenizer, setting, steps=1, texts=["x"] * PROMPTS)
    trainer.create_optimizer()
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def _trl(
    start: Path, tokenizer: PreTrainedTokenizerFast, setting: Setting, *, steps: int, texts: list[str]
) -> GRPOTrainer:
    config = GRPOConfig(
        output_dir=str(start.parent / "trl"),
        per_device_train_batch_size=PROMPTS * ROLLOUTS,
        num_generations=ROLLOUTS,
        max_completion_length=COMPLETION,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        beta=setting.beta,
        loss_type="dapo",
        num_iterations=setting.epochs,
        temperature=1.0,
        max_steps=steps,
        report_to=[],
        logging_strategy="no",
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        generation_kwargs={"min_new_tokens": COMPLETION},
    )
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(start),
        reward_funcs=lambda completion_ids, **_: [float(len(set(ids))) for ids in completion_ids],
        args=config,
        train_dataset=Dataset.from_dict({"prompt": texts}),
        processing_class=tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _their_step(trainer: GRPOTrainer, batch: dict[str, torch.Tensor], setting: Setting) -> None:
    """What TRL computes once rollouts and advantages are there, with its own functions."""
    inputs, model = dict(batch), trainer.model
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad():
        for needed, name, scored in (
            (setting.epochs > 1, "old_per_token_logps", model),
            (setting.beta > 0, "ref_per_token_logps", trainer.ref_model),
        ):
            if needed:
                inputs[name] = trainer._get_per_token_logps_and_entropies(scored, ids, mask, COMPLETION)[0]
    for _ in range(setting.epochs):
        trainer.accelerator.backward(trainer.compute_loss(model, inputs))
        trainer.accelerator.clip_grad_norm_(model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()


def _batch(prompts: list[list[int]], completions: list[list[int]], advantages: Any) -> dict[str, torch.Tensor]:
    prompt = torch.tensor(prompts)
    completion = torch.tensor([[*ids, *[0] * (COMPLETION - len(ids))] for ids in completions])
    written = torch.tensor([[1] * len(ids) + [0] * (COMPLETION - len(ids)) for ids in completions])
    return {
        "prompt_ids": prompt,
        "prompt_mask": torch.ones_like(prompt),
        "completion_ids": completion,
        "completion_mask": written,
        "advantages": torch.tensor(advantages, dtype=torch.float32),
        "num_items_in_batch": written.sum(),
    }


def _rollouts(vocabulary: int, shortest: int) -> tuple[list[list[int]], list[list[int]], Any]:
    """Random prompts, each with its rollouts, which share nothing but the prompt."""
    chance = random.Random(0)

    def text(length: int) -> list[int]:
        return [chance.randrange(5, vocabulary) for _ in range(length)]

    prompts = [prompt for _ in range(PROMPTS) for prompt in [text(PROMPT)] * ROLLOUTS]
    completions = [text(chance.randint(shortest, COMPLETION)) for _ in prompts]
    rewards = [float(chance.random() < 0.5) for _ in prompts]
    return prompts, completions, group_advantages(rewards, _groups(), eps=1e-4).rows()


def _groups() -> list[int]:
    return [number // ROLLOUTS for number in range(PROMPTS * ROLLOUTS)]


def _tokenizer() -> PreTrainedTokenizerFast:
    return pocket_tokenizer([f" word{number}" for number in range(40)], longest=512)


def _model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(llama_config(SIZES["s"], tokenizer))


if __name__ == "__main__":
    main()
