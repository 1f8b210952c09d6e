"""What a supervised training run depends on, besides its parent and its data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from heldout.records import Record

__all__ = ["LoraSettings", "OptimiserSettings", "TrainConfig"]


class LoraSettings(Record):
    """Low-rank adapters (Hu et al. 2021, arXiv 2106.09685)."""

    rank: int = Field(default=8, ge=1, le=512)
    """Inner width of each pair of adapter matrices."""
    alpha: float = Field(default=16.0, gt=0.0)
    """Scale of the adapters is alpha / rank."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Chance that an input of an adapter is left out, in training."""
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Names of the linear layers that get one."""


class OptimiserSettings(Record):
    """AdamW and its learning rate."""

    learning_rate: float = Field(default=1e-3, gt=0.0)
    """The highest, which is reached after warm-up."""
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    """After warm-up; `linear` and `cosine` fall to 0 at the last step."""
    warmup: float = Field(default=0.05, ge=0.0, le=1.0)
    """Share of the steps in which the rate rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0.0)
    """Decoupled, of matrices; vectors, such as those of norms, have none."""
    clip: float = Field(default=1.0, ge=0.0)
    """Largest norm of the gradient; 0 clips nothing."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay of the running means of the gradient and of its square."""


class TrainConfig(Record):
    """Supervised fine-tuning on completions."""

    method: Literal["full", "lora"] = "full"
    """All weights, or low-rank adapters beside frozen ones."""
    steps: int = Field(default=300, ge=1)
    """Optimiser steps; the data is reshuffled and gone through again as often as they need."""
    batch: int = Field(default=32, ge=1, le=65_536)
    """Sequences per step, over all processes and accumulation steps."""
    accumulate: int = Field(default=1, ge=1)
    """Micro-batches per step."""
    max_length: int = Field(default=256, ge=8)
    """Tokens of the longest sequence; a longer example is dropped and counted, never cut."""
    packing: bool = False
    """Put several examples in a sequence, which do not see each other. `batch` counts sequences, each filled up to
    `max_length`: a step sees more examples and takes as much longer."""
    optimiser: OptimiserSettings = OptimiserSettings()
    """AdamW, its rate and its schedule."""
    lora: LoraSettings = LoraSettings()
    """Shape of the adapters of the method `lora`."""
    template: str | None = None
    """Chat template (Jinja) instead of the tokenizer's own; preflight refuses one that evaluation does not use."""
    end_token: bool = True
    """Teach the end of the assistant's turn; preflight refuses data without it."""
    checkpoint_every: int = Field(default=50, ge=1)
    """Steps between checkpoints, from which a killed training goes on."""
    processes: int = Field(default=1, ge=1, le=1024)
    """Processes that `accelerate` runs; 1 trains in this one."""
