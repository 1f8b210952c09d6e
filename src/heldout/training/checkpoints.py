"""Where a killed training goes on: parameters, optimiser state and step, written whole or not at all.

work/checkpoint-0000050/parameters.safetensors    what is trained (with adapters, they alone)
work/checkpoint-0000050/optimiser.safetensors     `slot/parameter`
work/checkpoint-0000050/state.json                step, losses, what it cost, whose it is
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from heldout.errors import StoreError, boundary
from heldout.records import Record, Spend, digest_of
from heldout.training.base import TrainingJob
from heldout.training.examples import examples_digest
from heldout.training.loading import parent_digest

__all__ = ["Checkpoint", "identity", "newest", "restore", "save", "spent"]

_PATTERN = "checkpoint-*"


class Checkpoint(Record):
    """What a checkpoint says besides its tensors. The position in the data and dropout follow from the step."""

    job: str
    """`identity` of the job that wrote it."""
    step: int
    losses: tuple[float, ...]
    """Of every step until here."""
    spend: Spend
    """Of every part of the training until here."""


def identity(job: TrainingJob) -> str:
    """Digest of everything that weights depend on; a short run shares its steps with the whole one."""
    config = job.config.model_dump(mode="json")
    return digest_of([parent_digest(job.parent), examples_digest(job.examples), config, job.seed])


def save(work: Path, checkpoint: Checkpoint, model: Any, optimiser: torch.optim.Optimizer) -> Path:
    """Write a checkpoint and remove those before it; `StoreError` where the disk refuses."""
    folder = work / f"checkpoint-{checkpoint.step:07d}"
    partial = work / f".{folder.name}.part"
    with boundary(StoreError, f"cannot write the checkpoint {str(folder)!r}"):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_file({name: _plain(weight) for name, weight in _trained(model)}, partial / "parameters.safetensors")
        save_file(dict(_slots(model, optimiser)), partial / "optimiser.safetensors")
        (partial / "state.json").write_text(checkpoint.model_dump_json() + "\n", encoding="utf-8")
        for file in partial.iterdir():
            _flush(file)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        for other in work.glob(_PATTERN):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    return folder


def newest(work: Path, job: str, *, until: int) -> tuple[Path, Checkpoint] | None:
    """The last checkpoint of this job at or before step `until`. One of another job, or unreadable, does not count."""
    for folder in sorted(work.glob(_PATTERN), reverse=True):
        try:
            checkpoint = Checkpoint.model_validate_json((folder / "state.json").read_bytes())
        except (OSError, ValidationError):
            continue
        if checkpoint.job == job and checkpoint.step <= until:
            return folder, checkpoint
    return None


def spent(job: TrainingJob) -> Spend:
    """What a killed training of this job had spent when it wrote its newest checkpoint."""
    found = newest(job.work, identity(job), until=job.config.steps)
    return found[1].spend if found else Spend()


def restore(folder: Path, model: Any, optimiser: torch.optim.Optimizer) -> None:
    """Put a checkpoint's tensors into a model and its optimiser; `StoreError` where they do not fit."""
    with boundary(StoreError, f"the checkpoint {str(folder)!r} cannot be read; delete it to train from the beginning"):
        parameters, slots = load_file(folder / "parameters.safetensors"), load_file(folder / "optimiser.safetensors")
        states: dict[str, dict[str, torch.Tensor]] = {}
        for key, tensor in slots.items():
            slot, _, name = key.partition("/")
            states.setdefault(name, {})[slot] = tensor
        with torch.no_grad():
            for name, weight in _trained(model):
                weight.copy_(parameters[name])
                if name in states:
                    # The count of steps (no dimension) stays on the CPU, where the optimiser keeps it.
                    slots_of = states[name].items()
                    optimiser.state[weight] = {slot: t.to(weight.device) if t.ndim else t for slot, t in slots_of}


def _trained(model: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((name, weight) for name, weight in model.named_parameters() if weight.requires_grad)


def _slots(model: Any, optimiser: torch.optim.Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    for name, weight in _trained(model):
        for slot, value in optimiser.state[weight].items():
            yield f"{slot}/{name}", _plain(value)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous()


def _flush(file: Path) -> None:
    with file.open("rb") as handle:
        os.fsync(handle.fileno())
