"""Which examples each step sees, in which process, and how they become tensors."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from heldout.errors import SetupError
from heldout.training.encoding import IGNORED, Encoded, EncodedData
from heldout.training.packing import first_fit
from heldout.training.settings import TrainConfig

__all__ = ["Batch", "Row", "Step", "collate", "shard", "steps_of"]

Row = tuple[Encoded, ...]
"""The examples of one row of a batch: one, or with packing several."""


@dataclass(frozen=True, slots=True)
class Step:
    """One optimiser step's data, over all processes and micro-batches."""

    rows: tuple[Row, ...]
    places: tuple[tuple[int, ...], ...]
    """Indices of each row's examples."""

    @property
    def examples(self) -> frozenset[int]:
        """Indices of all examples."""
        return frozenset(index for row in self.places for index in row)

    @property
    def tokens(self) -> int:
        """Tokens of all sequences, padding not."""
        return sum(len(one.ids) for row in self.rows for one in row)

    @property
    def trained_tokens(self) -> int:
        """What the loss of the step is divided by."""
        return sum(one.trained_tokens for row in self.rows for one in row)


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded tensors of one micro-batch, each (rows, tokens) of the longest row."""

    ids: torch.Tensor
    positions: torch.Tensor
    """Restart at 0 with each example of a row."""
    labels: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(ids=self.ids.to(device), positions=self.positions.to(device), labels=self.labels.to(device))


def steps_of(data: EncodedData, config: TrainConfig, *, seed: int) -> Iterator[Step]:
    """The data of step 1, 2, …, without end: a function of data, config and seed alone.

    Each pass over the data has an order of its own; a step may reach from one pass into the next.
    """
    if config.batch < config.accumulate * config.processes:
        raise SetupError(
            f"train.batch = {config.batch} sequences do not fill accumulate = {config.accumulate} micro-batches "
            f"of processes = {config.processes}"
        )
    rows = _rows(data.sequences, config, seed=seed)
    while True:
        taken = tuple(islice(rows, config.batch))
        yield Step(rows=tuple(tuple(data.sequences[index] for index in row) for row in taken), places=taken)


def shard(step: Step, micro: int, process: int, config: TrainConfig) -> tuple[Row, ...]:
    """The rows of one micro-batch of one process; every row of the step is in exactly one."""
    return step.rows[micro * config.processes + process :: config.accumulate * config.processes]


def collate(rows: Sequence[Row]) -> Batch:
    """Rows as tensors. The first token of each example has no label: nothing before it may predict it."""
    width = max(sum(len(one.ids) for one in row) for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    # Padding goes on counting: a restart would make it an example of its own.
    positions = torch.zeros((len(rows), width), dtype=torch.long)
    labels = torch.full((len(rows), width), IGNORED, dtype=torch.long)
    for place, row in enumerate(rows):
        start = 0
        for one in row:
            end = start + len(one.ids)
            ids[place, start:end] = torch.tensor(one.ids)
            positions[place, start:] = torch.arange(width - start)
            labels[place, start + 1 : end] = torch.tensor(one.labels[1:], dtype=torch.long)
            start = end
    return Batch(ids=ids, positions=positions, labels=labels)


def _rows(sequences: Sequence[Encoded], config: TrainConfig, *, seed: int) -> Iterator[tuple[int, ...]]:
    lengths = [len(one.ids) for one in sequences]
    epoch = 0
    while True:
        rng = random.Random(f"{seed}/{epoch}")
        order = rng.sample(range(len(sequences)), len(sequences))
        yield from first_fit(order, lengths, config.max_length) if config.packing else ((index,) for index in order)
        epoch += 1
