"""What a person's own model and harness raise gets the name of the boundary that broke; our own bugs stay crashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from heldout.errors import HarnessError, ModelError, boundary
from heldout.harness import BatchHarness, Episode, Harness, Preparation, Replayed, Replayer
from heldout.models import Model, Reply, Request, WeightsModel
from heldout.records import Candidate, Spend, Task, Trajectory
from heldout.store import WeightsStore

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
    serves_weights: bool
    trainer: str
    """Empty where it serves no weights."""

    @property
    def accelerators(self) -> int:
        """See `WeightsModel`."""
        with boundary(ModelError, f"the model {self.name!r} raised when it was asked for its accelerators"):
            return int(getattr(self.inner, "accelerators", 0))

    def complete(self, request: Request) -> Reply:
        """See `Model.complete`."""
        with boundary(ModelError, f"the model {self.name!r} raised"):
            reply = self.inner.complete(request)
        return self._checked(reply)

    def complete_batch(self, requests: Sequence[Request]) -> list[Reply]:
        """See `WeightsModel.complete_batch`; only for a model that says it `serves_weights`."""
        with boundary(ModelError, f"the model {self.name!r} raised"):
            replies = list(cast(WeightsModel, self.inner).complete_batch(requests))
        if len(replies) != len(requests):
            raise ModelError(f"the model {self.name!r} returned {len(replies)} replies to {len(requests)} requests")
        return [self._checked(reply) for reply in replies]

    def serve(self, store: WeightsStore) -> str:
        """See `WeightsModel.serve`; only for a model that says it `serves_weights`."""
        with boundary(ModelError, f"the model {self.name!r} raised when it was given a store of weights"):
            weights = cast(WeightsModel, self.inner).serve(store)
        if not isinstance(weights, str):
            raise ModelError(f"the model {self.name!r} returned {weights!r}, not the digest of its start weights")
        return weights

    def close(self) -> None:
        """See `Model.close`."""
        with boundary(ModelError, f"the model {self.name!r} raised when it was closed"):
            self.inner.close()

    def _checked(self, reply: object) -> Reply:
        if not isinstance(reply, Reply):
            raise ModelError(f"the model {self.name!r} returned {reply!r}, not a heldout.models.Reply")
        return reply


@dataclass(slots=True)
class GuardedHarness:
    """A plug-in harness whose faults are `HarnessError`: the candidate failed."""

    inner: Harness
    name: str
    fingerprint: str
    prepares: bool
    replayable: bool
    batch: int

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        """See `Harness.prepare`."""
        with boundary(HarnessError, f"the harness {self.name!r} raised while it prepared a candidate"):
            return self.inner.prepare(candidate, model)

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        """See `Harness.run`."""
        with boundary(HarnessError, f"the harness {self.name!r} raised"):
            trajectory = self.inner.run(candidate, task, episode)
        return self._checked(trajectory)

    def run_batch(
        self, candidate: Candidate, tasks: Sequence[Task], episodes: Sequence[Episode]
    ) -> Sequence[Trajectory]:
        """See `BatchHarness.run_batch`; only for a harness whose `batch` is above 1."""
        with boundary(HarnessError, f"the harness {self.name!r} raised"):
            trajectories = list(cast(BatchHarness, self.inner).run_batch(candidate, tasks, episodes))
        if len(trajectories) != len(tasks):
            raise HarnessError(
                f"the harness {self.name!r} returned {len(trajectories)} trajectories of {len(tasks)} tasks"
            )
        return [self._checked(trajectory) for trajectory in trajectories]

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

    def _checked(self, trajectory: object) -> Trajectory:
        if not isinstance(trajectory, Trajectory):
            raise HarnessError(f"the harness {self.name!r} returned {trajectory!r}, not a heldout.records.Trajectory")
        return trajectory


def guard_model(model: Model) -> Model:
    """The model itself where it is ours, else guarded; an `AttributeError` says what it lacks."""
    if _is_ours(model):
        return model
    serves_weights = bool(getattr(model, "serves_weights", False))
    return GuardedModel(
        model,
        model.name,
        model.fingerprint,
        model.deterministic,
        model.can_choose,
        bool(model.simulated),
        serves_weights=serves_weights,
        trainer=cast(WeightsModel, model).trainer if serves_weights else "",
    )


def guard_harness(harness: Harness, *, name: str) -> Harness:
    """The harness itself where it is ours, else guarded.

    One that says nothing prepares, is not replayable and takes its tasks one by one.
    """
    if _is_ours(harness):
        return harness
    return GuardedHarness(
        harness,
        name,
        harness.fingerprint,
        prepares=bool(getattr(harness, "prepares", True)),
        replayable=bool(getattr(harness, "replayable", False)),
        batch=_batch(harness),
    )


def _batch(harness: Harness) -> int:
    """1 where a class changes `run` and inherits `run_batch`, which would pass its `run` by."""
    places = {
        name: next((place for place, one in enumerate(type(harness).__mro__) if name in vars(one)), None)
        for name in ("run", "run_batch")
    }
    own, batch = places["run"], places["run_batch"]
    return 1 if own is not None and batch is not None and own < batch else int(getattr(harness, "batch", 1))


def _is_ours(made: object) -> bool:
    return type(made).__module__.partition(".")[0] == "heldout"
