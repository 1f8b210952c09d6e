"""The seam to trainers: weights and examples in, a checkpoint folder out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from heldout.errors import SetupError
from heldout.records import Record, Spend
from heldout.training.examples import TRAINABLE_ROLES, Example
from heldout.training.settings import TrainConfig

__all__ = ["TRAINERS", "Fitted", "Foretelling", "Trainer", "TrainingJob", "Watch", "check_job"]

TRAINERS: Mapping[str, str] = MappingProxyType(
    {
        "transformers": "heldout.training.trainer:TransformersTrainer",
        "trl": "heldout.training.trl_backend:TrlTrainer",
        "simulated": "heldout.training.simulated:SimulatedTrainer",
    }
)
"""Short names of `options.backend`; a trainer is made without arguments."""


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
    """Stop after so many of `config.steps`, with the schedule of the whole: a short run. At least 1."""
    bases: Mapping[str, Path] = field(default_factory=dict)
    """Folders of the weights that adapters refer to, by digest."""
    endless: bool = False
    """Train answers that do not end where evaluation stops too: a ladder looks for that itself, where it is on."""

    @property
    def last(self) -> int:
        """The step to end with."""
        return self.config.steps if self.steps is None else min(self.steps, self.config.steps)


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
        `BudgetExhausted` with the words of `watch.stop`. The parent's folder is never written to. `check_job` says what
        no trainer begins with."""


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


def check_job(job: TrainingJob) -> None:
    """`SetupError` for what no trainer may begin with: examples of a role that is not trained on, no step to make, a
    work folder that shares files with the parent or a base."""
    for origin in (example.provenance for example in job.examples):
        if origin.role not in TRAINABLE_ROLES:
            raise SetupError(
                f"an example comes from the task {origin.task!r} of the role {origin.role!r}; only "
                f"{' and '.join(TRAINABLE_ROLES)} may be trained on"
            )
    if job.last < 1:
        raise SetupError(f"a training of steps = {job.steps}: at least 1 is needed, or None for all {job.config.steps}")
    work = job.work.resolve()
    for kept in (job.parent.resolve(), *(base.resolve() for base in job.bases.values())):
        if work.is_relative_to(kept) or kept.is_relative_to(work):
            raise SetupError(
                f"the work folder {str(job.work)!r} and the weights {str(kept)!r} lie in one another, and those are "
                "never written to: name a work folder beside them"
            )
