"""What a person's own model and harness raise gets the name of the boundary that broke; our own bugs stay crashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from heldout.errors import HarnessError, ModelError, boundary
from heldout.harness import Episode, Harness, Preparation, Replayed, Replayer
from heldout.models import Model, Reply, Request
from heldout.records import Candidate, Spend, Task, Trajectory

__all__ = ["GuardedHarness", "GuardedModel", "guard_harness", "guard_model"]


@dataclass(slots=True)
class GuardedModel:
    """A plug-in model whose faults are `ModelError`: what it did not answer is not measured."""

    inner: Model
    name: str
    fingerprint: str
    deterministic: bool
    can_choose: bool
    simulated: bool

    def complete(self, request: Request) -> Reply:
        """See `Model.complete`."""
        with boundary(ModelError, f"the model {self.name!r} raised"):
            reply = self.inner.complete(request)
        if not isinstance(reply, Reply):
            raise ModelError(f"the model {self.name!r} returned {reply!r}, not a heldout.models.Reply")
        return reply

    def close(self) -> None:
        """See `Model.close`."""
        with boundary(ModelError, f"the model {self.name!r} raised when it was closed"):
            self.inner.close()


@dataclass(slots=True)
class GuardedHarness:
    """A plug-in harness whose faults are `HarnessError`: the candidate failed."""

    inner: Harness
    name: str
    fingerprint: str
    prepares: bool
    replayable: bool

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        """See `Harness.prepare`."""
        with boundary(HarnessError, f"the harness {self.name!r} raised while it prepared a candidate"):
            return self.inner.prepare(candidate, model)

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        """See `Harness.run`."""
        with boundary(HarnessError, f"the harness {self.name!r} raised"):
            trajectory = self.inner.run(candidate, task, episode)
        if not isinstance(trajectory, Trajectory):
            raise HarnessError(f"the harness {self.name!r} returned {trajectory!r}, not a heldout.records.Trajectory")
        return trajectory

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        """See `Harness.bound`."""
        with boundary(HarnessError, f"the harness {self.name!r} raised in bound"):
            return self.inner.bound(candidate, task, model)

    def replay(self, task: Task, commands: Sequence[str], *, seed: int) -> Replayed:
        """See `Replayer.replay`; only for a harness that says it is `replayable`."""
        with boundary(HarnessError, f"the harness {self.name!r} raised while it replayed commands"):
            replayed = cast(Replayer, self.inner).replay(task, commands, seed=seed)
        if not isinstance(replayed, Replayed):
            raise HarnessError(f"the harness {self.name!r} returned {replayed!r}, not a heldout.harness.Replayed")
        return replayed


def guard_model(model: Model) -> Model:
    """The model itself where it is ours, else guarded; an `AttributeError` says what it lacks."""
    if _is_ours(model):
        return model
    return GuardedModel(
        model, model.name, model.fingerprint, model.deterministic, model.can_choose, bool(model.simulated)
    )


def guard_harness(harness: Harness, *, name: str) -> Harness:
    """The harness itself where it is ours, else guarded; one that says nothing prepares, and is not replayable."""
    if _is_ours(harness):
        return harness
    return GuardedHarness(
        harness,
        name,
        harness.fingerprint,
        prepares=bool(getattr(harness, "prepares", True)),
        replayable=bool(getattr(harness, "replayable", False)),
    )


def _is_ours(made: object) -> bool:
    return type(made).__module__.partition(".")[0] == "heldout"
