"""The seam to harnesses: a candidate folder and a model solve one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from heldout.models.base import Model
from heldout.records import Candidate, Record, Spend, Task, Trajectory

__all__ = ["BatchHarness", "Episode", "Harness", "Preparation", "Replayed", "Replayer"]


class Preparation(Record):
    """What a harness measured once for a candidate (for example a calibration); journaled, never paid twice."""

    values: Mapping[str, float] = Field(default_factory=dict)
    spend: Spend = Spend()


@dataclass(frozen=True, slots=True)
class Episode:
    """The surroundings of one run: model, seed and what `prepare` returned."""

    model: Model
    seed: int
    prepared: Preparation


class Harness(Protocol):
    """How a candidate and a model solve a task. Instances are immutable and picklable."""

    fingerprint: str
    """Identity of the harness and its settings, a part of every cache key."""
    prepares: bool
    """Whether `prepare` measures anything."""
    replayable: bool
    """Whether it is a `Replayer` too; without that the probes of a trace are absent, not failing."""

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        """Measure what every task of this candidate will need. May be trivial."""

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        """Solve the task. Raises `ModelError` where the model did not answer, which counts as not measured."""

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        """An upper bound on what `run` may spend, for the ledger's reservation.

        Raises `HarnessError`, which names the fault, for a candidate that this harness cannot run.
        """


class BatchHarness(Harness, Protocol):
    """The further ability of a harness that solves several tasks at once, where the model answers in batches.

    A class says so with `batch` above 1. Trajectories are those of `run` one by one, but for float error in a model.
    """

    batch: int
    """Most tasks that one call of `run_batch` should be given."""

    def run_batch(
        self, candidate: Candidate, tasks: Sequence[Task], episodes: Sequence[Episode]
    ) -> Sequence[Trajectory]:
        """Trajectories in the order of the tasks. `ModelError` where the model answered none of them."""


class Replayed(Record):
    """What running a list of commands in a fresh environment gave."""

    answer: str | None
    outputs: tuple[str, ...]
    """Of each command, as a model would be shown it."""
    exit_codes: tuple[int, ...]
    spend: Spend = Spend()


class Replayer(Protocol):
    """The further ability of a harness whose trajectories are lists of commands (`Step`)."""

    def replay(self, task: Task, commands: Sequence[str], *, seed: int) -> Replayed:
        """Run the commands in a fresh environment of the task, no model involved. `SandboxError` where it cannot."""
