"""Supervised fine-tuning, from top to bottom: load, order the data, step, keep checkpoints, write the weights.

The loss of a step is the mean over the completion tokens of the whole step: neither micro-batches nor processes change
it. On the CPU everything is float32 on one thread, and equal jobs give equal bytes. Where there is a CUDA device it is
used, in bfloat16 (autocast; the weights stay float32).
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch.nn import functional

from heldout.errors import BudgetExhausted, SetupError, TrainingError, boundary
from heldout.records import Spend, digest_of
from heldout.training.base import Fitted, TrainingJob, Watch
from heldout.training.batching import Batch, Step, collate, shard, steps_of
from heldout.training.checkpoints import Checkpoint, identity, newest, restore, save
from heldout.training.encoding import IGNORED, EncodedData, encode_all
from heldout.training.loading import Loaded, load_parent, write_weights
from heldout.training.metering import Meter, accidents, peak_memory_mb
from heldout.training.settings import OptimiserSettings, TrainConfig

__all__ = [
    "FineTuning",
    "adamw",
    "fine_tune",
    "meter_of",
    "rate",
    "refuse_leaks",
    "reproducible",
    "summed_loss",
    "summed_spend",
]

_LEAK = 0.05
"""Largest difference (nats per token) between packed and unpacked loss that rounding in bfloat16 may explain."""


def fine_tune(job: TrainingJob, watch: Watch) -> Fitted:
    """Train `job` in this process, which may be one of several that a launcher started.

    Goes on from the newest checkpoint of the same job in `job.work`. Only the first process writes and is watched.
    """
    with reproducible(job.seed):
        # Without `cpu`, it does not look for other processes where there is no accelerator.
        accelerator = Accelerator(cpu=not torch.cuda.is_available())
        if accelerator.num_processes != job.config.processes:
            raise TrainingError(f"{accelerator.num_processes} processes were started, not {job.config.processes}")
        meter = meter_of(job)
        if accelerator.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        # The seed is set by now: new adapters begin with random numbers.
        loaded = load_parent(job)
        data = encode_all(job.examples, loaded.tokenizer, job.config, end_ids=loaded.end_ids, endless=job.endless)
        training = FineTuning.begin(job, loaded, data, accelerator)
        if job.config.packing:
            refuse_leaks(loaded.model, training.steps(), accelerator.device)
        training.run(watch, meter)
        return training.finish(meter)


@dataclass(slots=True)
class FineTuning:
    """A training under way."""

    job: TrainingJob
    loaded: Loaded
    data: EncodedData
    accelerator: Any
    model: Any
    """The loaded model, wrapped where several processes share the work."""
    optimiser: torch.optim.Optimizer
    identity: str
    """Of the job, for its checkpoints."""
    resumed_from: int = 0
    earlier: Spend = field(default_factory=Spend)
    """Of the parts of this training that an earlier process ran."""
    losses: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)

    @classmethod
    def begin(cls, job: TrainingJob, loaded: Loaded, data: EncodedData, accelerator: Any) -> FineTuning:
        """A training at its first step, or where its newest checkpoint was written."""
        with accidents("moving the model"):
            model = accelerator.prepare(loaded.model)
        loaded.model.train()
        optimiser = adamw(loaded.model, job.config.optimiser)
        training = cls(job, loaded, data, accelerator, model, optimiser, identity(job))
        if (found := newest(job.work, training.identity, until=job.last)) is not None:
            folder, checkpoint = found
            restore(folder, loaded.model, training.optimiser)
            training.resumed_from, training.earlier = checkpoint.step, checkpoint.spend
            training.losses.extend(checkpoint.losses)
        return training

    def steps(self) -> Iterator[Step]:
        """The data of every step, from the first."""
        return islice(steps_of(self.data, self.job.config, seed=self.job.seed), self.job.last)

    def run(self, watch: Watch, meter: Meter) -> None:
        """Every step that is still to do. `BudgetExhausted` where `watch.stop` says so; a checkpoint is kept."""
        for number, step in enumerate(islice(self.steps(), self.resumed_from, None), start=self.resumed_from + 1):
            if words := self._stop(watch):
                self._keep(number - 1, meter)
                raise BudgetExhausted(words)
            began = time.perf_counter()
            with boundary(TrainingError, f"step {number}"), accidents(f"step {number}"):
                loss = self.step(number, step)
            self.step_s.append(time.perf_counter() - began)
            self.losses.append(loss)
            if number % self.job.config.checkpoint_every == 0:
                self._keep(number, meter)
            if self.accelerator.is_main_process:
                watch.step(number, loss)

    def step(self, number: int, step: Step) -> float:
        """One optimiser step, from 1; returns its loss over all processes, before the update."""
        config, process = self.job.config, self.accelerator.process_index
        # Dropout is a function of the step, so that a resumed training draws as an unbroken one.
        torch.manual_seed(_seed(self.job.seed, number, process))
        tokens = max(1, step.trained_tokens)
        total = torch.zeros((), device=self.accelerator.device)
        for micro in range(config.accumulate):
            batch = collate(shard(step, micro, process, config)).to(self.accelerator.device)
            last = micro == config.accumulate - 1
            with nullcontext() if last else self.accelerator.no_sync(self.model):
                loss = summed_loss(self.model, batch) / tokens
                # Several processes average their gradients, and the sum is wanted.
                self.accelerator.backward(loss * self.accelerator.num_processes)
            total += loss.detach()
        value = float(self.accelerator.reduce(total, "sum"))
        self._update(number, value)
        return value

    def finish(self, meter: Meter) -> Fitted:
        """Write the weights and tell what was done."""
        done = list(self.steps())
        if self.accelerator.is_main_process:
            write_weights(self.loaded, self.job.work / "weights")
        spend = summed_spend(meter, self.accelerator)
        memory = _summed(_peak(self.accelerator), self.accelerator)
        return Fitted(
            folder=str(self.job.work / "weights"),
            losses=tuple(self.losses),
            steps=len(done),
            examples=len(frozenset[int]().union(*(step.examples for step in done))),
            dropped=self.data.dropped,
            tokens=sum(step.tokens for step in done),
            trained_tokens=sum(step.trained_tokens for step in done),
            seconds_per_step=sum(self.step_s) / len(self.step_s) if self.step_s else 0.0,
            peak_memory_mb=memory,
            resumed_from=self.resumed_from,
            spend=self.earlier + spend,
        )

    def _update(self, number: int, loss: float) -> None:
        settings = self.job.config.optimiser
        if not math.isfinite(loss):
            raise TrainingError(f"the loss of step {number} is {loss}; a lower learning rate may help")
        norm = float(torch.nn.utils.clip_grad_norm_(self.loaded.model.parameters(), settings.clip or math.inf))
        if not math.isfinite(norm):
            raise TrainingError(f"the gradient of step {number} is not finite; a lower learning rate may help")
        for group in self.optimiser.param_groups:
            group["lr"] = settings.learning_rate * rate(number, self.job.config)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _stop(self, watch: Watch) -> str:
        """What `watch.stop` says, agreed on by all processes."""
        words = [watch.stop() if self.accelerator.is_main_process else ""]
        if self.accelerator.num_processes > 1:
            with boundary(TrainingError, "agreeing on a stop"), accidents("agreeing on a stop"):
                broadcast_object_list(words)
        return words[0]

    def _keep(self, number: int, meter: Meter) -> None:
        """A checkpoint after step `number`; all processes come here together."""
        if number == 0:
            return
        spend = self.earlier + summed_spend(meter, self.accelerator)
        if self.accelerator.is_main_process:
            checkpoint = Checkpoint(job=self.identity, step=number, losses=tuple(self.losses), spend=spend)
            save(self.job.work, checkpoint, self.loaded.model, self.optimiser)


def summed_loss(model: Callable[..., Any], batch: Batch) -> torch.Tensor:
    """Cross entropy summed over the labelled tokens of a batch, in float32.

    No attention mask is given: padding lies to the right of everything, and `transformers` reads from restarting
    positions that the examples of a row must not see each other.
    """
    targets = batch.labels[:, 1:]
    columns = (targets != IGNORED).any(dim=0).nonzero().flatten()
    if len(columns) == 0:
        # Still a function of the parameters, since each process must take part in the backward pass.
        columns = torch.zeros(1, dtype=torch.long, device=targets.device)
    options = {"input_ids": batch.ids, "position_ids": batch.positions, "use_cache": False}
    with torch.autocast(batch.ids.device.type, dtype=torch.bfloat16, enabled=batch.ids.device.type == "cuda"):
        if _keeps_logits(model):
            # The output layer is a large part of a small model's work, and prompts need none of it.
            logits = model(**options, logits_to_keep=columns).logits
        else:
            logits = model(**options).logits[:, columns]
    flat = targets[:, columns].flatten()
    return functional.cross_entropy(logits.flatten(0, 1).float(), flat, ignore_index=IGNORED, reduction="sum")


def refuse_leaks(model: Any, steps: Iterable[Step], device: torch.device) -> None:
    """`SetupError` where this architecture lets packed examples see each other: one packed row is tried."""
    packed = next((row for step in steps for row in step.rows if len(row) > 1), None)
    if packed is None:
        return
    model.eval()
    with boundary(TrainingError, "the check of the packing"), accidents("the check of the packing"), torch.no_grad():
        together = float(summed_loss(model, collate([packed]).to(device)))
        apart = float(summed_loss(model, collate([(one,) for one in packed]).to(device)))
    model.train()
    tokens = max(1, sum(one.trained_tokens for one in packed))
    if not abs(together - apart) <= _LEAK * tokens:
        raise SetupError(
            f"packed examples see each other in this model: their loss is {together / tokens:.4f} together and "
            f"{apart / tokens:.4f} apart. Set train.packing = false"
        )


def rate(number: int, config: TrainConfig) -> float:
    """Share of the learning rate at step `number`, from 1.

    Warm-up rises linearly; `linear` and `cosine` would reach 0 one step after the last. The formulas are those of
    `transformers`, but that no step has a rate of 0.
    """
    warm = round(config.optimiser.warmup * config.steps)
    if number <= warm:
        return number / (warm + 1)
    progress = (number - 1 - warm) / max(1, config.steps - warm)
    if config.optimiser.schedule == "linear":
        return 1.0 - progress
    if config.optimiser.schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * progress))
    return 1.0


def adamw(model: Any, settings: OptimiserSettings) -> torch.optim.Optimizer:
    """AdamW on what is trained; norms and biases do not decay."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in weights if weight.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
    ]
    filled = [group for group in groups if group["params"]]
    return torch.optim.AdamW(filled, lr=settings.learning_rate, betas=settings.betas)


def meter_of(job: TrainingJob) -> Meter:
    """A meter of this process. One of several was started for this job alone, and its start counts too."""
    accelerators = int(torch.cuda.is_available())
    if job.config.processes > 1:
        return Meter(accelerators=accelerators, own_s=0.0)
    return Meter(accelerators=accelerators)


def summed_spend(meter: Meter, accelerator: Any) -> Spend:
    """What all processes have spent; each of them must ask for it at the same point."""
    own = meter.spend()
    cpu_s = _summed(own.cpu_s, accelerator)
    return own.model_copy(update={"cpu_s": cpu_s, "gpu_s": own.gpu_s * accelerator.num_processes})


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Torch seeded, on one thread where there is no accelerator; its generator is put back afterwards."""
    cuda = torch.cuda.is_available()
    if not cuda:
        # Sums over threads depend on their number, and busy threads make small models slower.
        torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if cuda else []):
        torch.manual_seed(_seed(seed, 0, 0))
        yield


def _seed(seed: int, step: int, process: int) -> int:
    return int(digest_of([seed, step, process])[:15], 16)


def _keeps_logits(model: Any) -> bool:
    inner = getattr(model, "module", model)
    inner = inner.get_base_model() if hasattr(inner, "get_base_model") else inner
    return "logits_to_keep" in inspect.signature(inner.forward).parameters


def _summed(value: float, accelerator: Any) -> float:
    told = torch.tensor(value, dtype=torch.float64, device=accelerator.device)
    with boundary(TrainingError, "adding up the processes"), accidents("adding up the processes"):
        return float(accelerator.reduce(told, "sum"))


def _peak(accelerator: Any) -> float:
    if accelerator.device.type == "cuda":
        return torch.cuda.max_memory_allocated() / (1 << 20)
    return peak_memory_mb()
