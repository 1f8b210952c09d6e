"""Supervised fine-tuning by TRL, on the batches and with the schedule of `sft`.

TRL brings what a large model needs on a GPU: gradient checkpointing, an output layer in chunks, whatever `accelerate`
is set up for. Its checkpoints are its own (`work/trl-…/checkpoint-…`): the optimiser is there as `torch` saves it, and
is read back with `weights_only`.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
import transformers
from pydantic import ValidationError
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from heldout.errors import BudgetExhausted, SetupError, TrainingError, boundary
from heldout.records import Spend
from heldout.store.folders import write_atomic
from heldout.training.base import Fitted, TrainingJob, Watch
from heldout.training.batching import Step, collate, steps_of
from heldout.training.checkpoints import Checkpoint, identity
from heldout.training.encoding import Encoded, EncodedData, encode_all
from heldout.training.loading import Loaded, load_parent, quiet, write_weights
from heldout.training.metering import Meter, accidents, peak_memory_mb
from heldout.training.sft import adamw, meter_of, rate, refuse_leaks, reproducible, summed_spend

__all__ = ["fine_tune", "spent"]

_STATE = "heldout.json"
"""Beside TRL's files in each of its checkpoints; a checkpoint without it was not finished."""


def fine_tune(job: TrainingJob, watch: Watch) -> Fitted:
    """Train `job` in this process, which may be one of several that a launcher started; see `sft.fine_tune`."""
    if job.config.batch % (job.config.accumulate * job.config.processes):
        raise SetupError(
            f"train.batch = {job.config.batch} is no multiple of accumulate = {job.config.accumulate} times "
            f"processes = {job.config.processes}, which the backend 'trl' needs"
        )
    with reproducible(job.seed), _other_generators():
        meter = meter_of(job)
        loaded = load_parent(job)
        data = encode_all(job.examples, loaded.tokenizer, job.config, end_ids=loaded.end_ids, endless=job.endless)
        steps = list(islice(steps_of(data, job.config, seed=job.seed), job.last))
        if job.config.packing:
            refuse_leaks(loaded.model, steps, loaded.model.device)
        found = _newest(job)
        progress = _Progress(identity(job), watch, meter, earlier=found[1] if found else None)
        trainer = _trainer(job, loaded, data, steps, progress)
        with boundary(TrainingError, "TRL"), accidents("TRL"), quiet():
            trainer.train(resume_from_checkpoint=str(found[0]) if found else None)
        if progress.words:
            raise BudgetExhausted(progress.words)
        if trainer.is_world_process_zero():
            write_weights(loaded, job.work / "weights")
        return _fitted(job, data, steps, progress, progress.spend(trainer.accelerator))


def spent(job: TrainingJob) -> Spend:
    """What a killed training of this job had spent when TRL wrote its newest checkpoint."""
    found = _newest(job)
    return found[1].spend if found else Spend()


@dataclass(slots=True)
class _Progress:
    """Losses step by step, and whether to go on."""

    identity: str
    """Of the job, for its checkpoints."""
    watch: Watch
    meter: Meter
    earlier: Checkpoint | None
    losses: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    words: str = ""
    """Why the training had to end before its last step."""
    began: float = 0.0
    loss: float = 0.0
    """Of the micro-batches of this step so far."""

    def __post_init__(self) -> None:
        if self.earlier is not None:
            self.losses.extend(self.earlier.losses)

    def spend(self, accelerator: Any) -> Spend:
        """Of every part of the training, by all processes; each of them must ask for it at the same point."""
        return (self.earlier.spend if self.earlier else Spend()) + summed_spend(self.meter, accelerator)


class _Watching(transformers.TrainerCallback):
    """Tells the watch of each step, and ends the training where it says so. The signatures are the library's."""

    def __init__(self, progress: _Progress, accelerator: Any) -> None:
        self.progress = progress
        self.accelerator = accelerator

    def on_train_begin(self, args: Any, state: Any, control: Any, **_rest: Any) -> None:  # noqa: ARG002
        """A training may have to end before its first step."""
        if words := self._stop(args, state):
            raise BudgetExhausted(words)

    def on_step_begin(self, *_args: Any, **_rest: Any) -> None:
        """The clock of a step."""
        self.progress.began, self.progress.loss = time.perf_counter(), 0.0

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_rest: Any) -> None:  # noqa: ARG002
        """Before the update: a loss that is not finite spoils no weights."""
        total = torch.tensor(self.progress.loss, device=self.accelerator.device)
        # The mean: each process's loss was multiplied by their number, since gradients are averaged.
        loss = float(self.accelerator.reduce(total, "mean"))
        if not math.isfinite(loss):
            raise TrainingError(f"the loss of step {state.global_step + 1} is {loss}; a lower learning rate may help")
        self.progress.losses.append(loss)

    def on_step_end(self, args: Any, state: Any, control: Any, **_rest: Any) -> None:
        """After the update."""
        self.progress.step_s.append(time.perf_counter() - self.progress.began)
        if state.is_world_process_zero:
            self.progress.watch.step(state.global_step, self.progress.losses[-1])
        if state.global_step < state.max_steps and (words := self._stop(args, state)):
            self.progress.words = words
            control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_rest: Any) -> None:  # noqa: ARG002
        """What TRL's own checkpoint does not say."""
        progress, folder = self.progress, Path(args.output_dir) / f"checkpoint-{state.global_step}"
        spend = progress.spend(self.accelerator)
        if state.is_world_process_zero:
            losses, step = tuple(progress.losses), state.global_step
            told = Checkpoint(job=progress.identity, step=step, losses=losses, spend=spend)
            write_atomic(folder / _STATE, told.model_dump_json() + "\n")

    def _stop(self, args: Any, state: Any) -> str:
        words = [self.progress.watch.stop() if state.is_world_process_zero else ""]
        if args.world_size > 1:
            torch.distributed.broadcast_object_list(words)
        return words[0]


def _trainer(job: TrainingJob, loaded: Loaded, data: EncodedData, steps: list[Step], progress: _Progress) -> SFTTrainer:
    """TRL's trainer, which is handed rows that are ready and told their order."""
    places = [row for step in steps for row in step.places]
    unique = {row: number for number, row in enumerate(dict.fromkeys(places))}
    rows = [tuple(data.sequences[index] for index in row) for row in unique]

    class Ordered(SFTTrainer):
        """The rows of each step in the order of the steps, and the losses as they are."""

        def _get_train_sampler(self, *_dataset: Any) -> _Order:
            return _Order([unique[row] for row in places])

        def training_step(self, *args: Any, **options: Any) -> torch.Tensor:
            loss: torch.Tensor = super().training_step(*args, **options)  # type: ignore[no-untyped-call]
            progress.loss += float(loss)
            return loss

    optimiser = adamw(loaded.model, job.config.optimiser)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda done: rate(done + 1, job.config))
    with boundary(SetupError, "TRL refuses this training"), quiet():
        trainer = Ordered(
            model=loaded.model,
            args=_arguments(job),
            data_collator=_collated,
            train_dataset=datasets.Dataset.from_list([_columns(row) for row in rows]),
            processing_class=loaded.tokenizer,
            optimizers=(optimiser, schedule),
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.add_callback(_Watching(progress, trainer.accelerator))
    return trainer


class _Order(torch.utils.data.Sampler[int]):
    """Rows in a given order."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def _arguments(job: TrainingJob) -> SFTConfig:
    config, cuda = job.config, torch.cuda.is_available()
    return SFTConfig(
        output_dir=str(_output(job)),
        max_steps=job.last,
        per_device_train_batch_size=config.batch // (config.accumulate * config.processes),
        gradient_accumulation_steps=config.accumulate,
        max_grad_norm=config.optimiser.clip,
        save_steps=config.checkpoint_every,
        save_total_limit=2,
        seed=job.seed % (1 << 32),
        bf16=cuda,
        use_cpu=not cuda,
        gradient_checkpointing=cuda,
        dataloader_pin_memory=cuda,
        dataset_kwargs={"skip_prepare_dataset": True},
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def _columns(row: tuple[Encoded, ...]) -> dict[str, list[int]]:
    return {
        "input_ids": [token for one in row for token in one.ids],
        "labels": [label for one in row for label in one.labels],
        "seq_lengths": [len(one.ids) for one in row],
    }


def _collated(chosen: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
    """A batch as `sft` makes it, under TRL's names."""
    rows = []
    for columns in chosen:
        ids, labels, row = iter(columns["input_ids"]), iter(columns["labels"]), []
        for length in columns["seq_lengths"]:
            row.append(Encoded(tuple(islice(ids, length)), tuple(islice(labels, length)), prompt_length=0))
        rows.append(tuple(row))
    batch = collate(rows)
    return {"input_ids": batch.ids, "position_ids": batch.positions, "labels": batch.labels}


def _fitted(job: TrainingJob, data: EncodedData, steps: list[Step], progress: _Progress, spend: Spend) -> Fitted:
    cuda = torch.cuda.is_available()
    peak = torch.cuda.max_memory_allocated() / (1 << 20) if cuda else peak_memory_mb()
    return Fitted(
        folder=str(job.work / "weights"),
        losses=tuple(progress.losses),
        steps=len(steps),
        examples=len(frozenset[int]().union(*(step.examples for step in steps))),
        dropped=data.dropped,
        tokens=sum(step.tokens for step in steps),
        trained_tokens=sum(step.trained_tokens for step in steps),
        seconds_per_step=sum(progress.step_s) / len(progress.step_s) if progress.step_s else 0.0,
        peak_memory_mb=peak,
        resumed_from=progress.earlier.step if progress.earlier else 0,
        spend=spend,
    )


def _output(job: TrainingJob) -> Path:
    return job.work / f"trl-{identity(job)[:16]}"


def _newest(job: TrainingJob) -> tuple[Path, Checkpoint] | None:
    """TRL's last whole checkpoint of this job, at or before its last step."""
    found: list[tuple[Path, Checkpoint]] = []
    for folder in _output(job).glob("checkpoint-*"):
        try:
            found.append((folder, Checkpoint.model_validate_json((folder / _STATE).read_bytes())))
        except (OSError, ValidationError):
            continue
    return max((one for one in found if one[1].step <= job.last), key=lambda one: one[1].step, default=None)


@contextmanager
def _other_generators() -> Iterator[None]:
    """TRL seeds the generators of Python and numpy; they are put back."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
