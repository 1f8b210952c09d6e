"""The seam to trainers: weights and examples in, a checkpoint folder out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from heldout.records import Record, Spend
from heldout.training.examples import Example
from heldout.training.settings import TrainConfig

__all__ = ["TRAINERS", "Fitted", "Foretelling", "Trainer", "TrainingJob", "Watch"]

TRAINERS: Mapping[str, str] = MappingProxyType(
    {
        "transformers": "heldout.training.trainer:TransformersTrainer",
        "trl": "heldout.training.trl_backend:TrlTrainer",
        "simulated": "heldout.training.simulated:SimulatedTrainer",
    }
)
"""Short names of `options.train.backend`; a trainer is made without arguments."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """Everything that a training depends on. Equal jobs give equal weights on one machine (CPU, fixed threads)."""

    parent: Path
    """Folder of the weights to begin with (a full checkpoint, or adapters whose base the trainer is told)."""
    examples: tuple[Example, ...]
    config: TrainConfig
    seed: int
    work: Path
    """Folder of this job alone: checkpoints to resume from, the finished weights. It may hold a killed job's."""
    steps: int | None = None
    """Stop after so many of `config.steps`, with the schedule of the whole: a short run."""
    bases: Mapping[str, Path] = field(default_factory=dict)
    """Folders of the weights that adapters refer to, by digest."""


@dataclass(frozen=True, slots=True)
class Watch:
    """How a trainer tells of its progress and learns that it must stop."""

    step: Callable[[int, float], object] = lambda _step, _loss: None
    """(step from 1, its loss), after each optimiser step."""
    stop: Callable[[], str] = lambda: ""
    """Why the training must end now, or nothing; asked before each step."""


class Fitted(Record):
    """What a training gave. The weights lie in `folder`, ready for `WeightsStore.add`."""

    folder: str
    losses: tuple[float, ...]
    """Mean loss per completion token of each step."""
    steps: int
    examples: int
    """Distinct examples that were seen."""
    dropped: int = 0
    """Examples longer than `max_length`."""
    tokens: int
    """Tokens of all sequences, prompts included, padding not."""
    trained_tokens: int
    """Tokens that loss was taken on."""
    seconds_per_step: float
    peak_memory_mb: float = 0.0
    resumed_from: int = 0
    """Step of the checkpoint that it went on from."""
    spend: Spend = Spend()


class Trainer(Protocol):
    """Supervised fine-tuning of a checkpoint folder. A class may say `foretells = True`; see `Foretelling`."""

    def fit(self, job: TrainingJob, watch: Watch) -> Fitted:
        """Train and write the weights below `job.work`. `SetupError` for what a person can mend (an extra that is
        not installed, a checkpoint with a missing tensor), `TrainingError` for a training that died,
        `BudgetExhausted` with the words of `watch.stop`. The parent's folder is never written to."""


class Foretelling(Protocol):
    """A trainer that knows what a job costs before it begins, as a simulation does."""

    def foretell(self, job: TrainingJob) -> Spend:
        """Exactly what `fit` will say that it spent."""


class Resuming(Protocol):
    """A trainer that goes on from a killed job's checkpoints, and says what was paid for them."""

    def spent(self, job: TrainingJob) -> Spend:
        """What the job had spent when its newest checkpoint was written; nothing where there is none. `fit` counts it
        in what it says that it spent."""


class Readying(Protocol):
    """A trainer that can say beforehand what it lacks."""

    def ready(self, config: TrainConfig) -> None:
        """`SetupError` where a library that such trainings need is not there."""
