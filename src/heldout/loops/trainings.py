"""Trainings of any loop: reserved before, stopped at the budget, resumed after a kill, and put on record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from heldout import registry
from heldout.errors import BoundaryError, BudgetExhausted, SetupError, StoreError, TrainingError, boundary
from heldout.harness.base import Preparation
from heldout.loops.recorder import Recorder
from heldout.loops.session import Session, TrainingGround
from heldout.records import Spend
from heldout.store.events import Prepared
from heldout.training import TRAINERS, Example, Fitted, TrainConfig, Trainer, TrainingJob, Watch
from heldout.training.base import Foretelling, Readying, Resuming
from heldout.training.metering import Meter, accidents

__all__ = ["CAREFUL", "Fit", "Trainings", "keep_part", "stopped_key", "thinned"]

_CURVE = 200
"""Losses of a curve that go on record."""

CAREFUL = 1.25
"""A training is reserved at so many times its projected seconds."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One training that is asked for."""

    parent: str
    """Digest of the weights to begin with, in the run's store."""
    examples: tuple[Example, ...]
    config: TrainConfig
    seed: int
    work: Path
    purpose: str
    """What the ledger counts it as."""
    steps: int | None = None
    projected: Spend = field(default_factory=Spend)
    """Seconds that a short run lets expect; none where there was none."""
    endless: bool = False
    """See `TrainingJob.endless`."""


@dataclass(slots=True)
class Trainings:
    """The trainings of one run: they share its budget, its journal and its weights."""

    session: Session
    ground: TrainingGround
    backend: str | None = None
    """Name of the trainer; None takes the one that fits the solver's model."""
    _lost: dict[Path, Spend] = field(default_factory=dict)

    def check(self, config: TrainConfig) -> None:
        """`SetupError` where the trainer is not there, or lacks a library that a training by this config needs."""
        trainer = self._trainer()
        if hasattr(trainer, "ready"):
            cast(Readying, trainer).ready(config)

    def run(self, wanted: Fit) -> Fitted:
        """Train within what the budget leaves. A fault carries on; `lost` tells what it had cost, or it is on record
        where the same training is begun again on resume."""
        trainer, job = self._trainer(), self._job(wanted)
        self._tell_earlier(wanted, trainer, job)
        bound = _bound(trainer, job, wanted)
        reservation = self.session.ledger.reserve(wanted.purpose, bound)
        wanted.work.mkdir(parents=True, exist_ok=True)
        meter, accelerators = Meter(), _accelerators(wanted.projected)
        watch = Watch(step=lambda _step, _loss: None, stop=self._stop(wanted, bound))
        try:
            with boundary(TrainingError, "the trainer raised"), accidents("the trainer"):
                fitted = trainer.fit(job, watch)
        except (BoundaryError, SetupError, BudgetExhausted) as fault:
            lost = _until_now(meter, accelerators)
            reservation.settle(lost)
            if isinstance(fault, BudgetExhausted | StoreError):
                self.keep_stopped(wanted, lost)
            else:
                self._lost[wanted.work] = lost
            raise
        fitted = fitted.model_copy(update={"spend": self._not_yet_told(wanted, fitted)})
        reservation.settle(fitted.spend)
        return fitted

    def lost(self, work: Path) -> Spend | None:
        """What a training that died in this folder had cost, and nobody has asked for yet; the ledger counted it."""
        return self._lost.pop(work, None)

    def keep_stopped(self, wanted: Fit, lost: Spend) -> None:
        """The event for what a training had cost that has none of its own; it was counted already."""
        key = stopped_key(wanted.purpose, wanted.work.name)
        keep_part(self.session.recorder, key, wanted.purpose, lost)

    def _trainer(self) -> Trainer:
        name = self.backend or self.ground.trainer
        trainer: Trainer = registry.load(name, among=TRAINERS, what="trainer")()
        return trainer

    def _job(self, wanted: Fit) -> TrainingJob:
        store = self.ground.store
        return TrainingJob(
            parent=store.check(wanted.parent),
            examples=wanted.examples,
            config=wanted.config,
            seed=wanted.seed,
            work=wanted.work,
            steps=wanted.steps,
            bases={digest: store.path(digest) for digest in store.ancestry(wanted.parent)},
            endless=wanted.endless,
        )

    def _tell_earlier(self, wanted: Fit, trainer: Trainer, job: TrainingJob) -> None:
        """A killed process put its part of this training on no record; it counts before anything is set aside."""
        if not hasattr(trainer, "spent"):
            return
        with boundary(TrainingError, "the trainer raised when it was asked for what it had spent"):
            earlier = cast(Resuming, trainer).spent(job)
        untold = _less(earlier, self._told(wanted))
        if untold != Spend():
            self.session.ledger.record(wanted.purpose, untold)
            self.keep_stopped(wanted, untold)

    def _told(self, wanted: Fit) -> Spend:
        """What is on record of the parts of this training that were stopped."""
        prefix = stopped_key(wanted.purpose, wanted.work.name)
        entries = self.session.recorder.prepared.items()
        return sum((one.spend for key, one in entries if key.startswith(prefix)), start=Spend())

    def _not_yet_told(self, wanted: Fit, fitted: Fitted) -> Spend:
        """What a training cost, without those earlier parts of it that are on record: it was stopped by a budget or
        killed, and has gone on from its checkpoint."""
        return _less(fitted.spend, self._told(wanted)) if fitted.resumed_from else fitted.spend

    def _stop(self, wanted: Fit, bound: Spend) -> Callable[[], str]:
        """A training that takes more than was set aside for it must not pass a limit: in-flight work counts."""
        ledger, clock = self.session.ledger, self.session.clock
        begun, meter, accelerators = clock(), Meter(), _accelerators(wanted.projected)

        def stop() -> str:
            wall_s = clock() - begun
            # Of processes that share the steps, only this one's own time is known before they end.
            cpu_s = meter.spend().cpu_s if wanted.config.processes == 1 else wall_s * wanted.config.processes
            # Elapsed seconds count as they pass; of the others, what goes beyond the reservation does not yet.
            beyond: tuple[tuple[Literal["wall_s", "cpu_s", "gpu_s"], float, float], ...] = (
                ("wall_s", wall_s - bound.wall_s, 0.0),
                ("cpu_s", cpu_s - bound.cpu_s, cpu_s - bound.cpu_s),
                ("gpu_s", wall_s * accelerators - bound.gpu_s, wall_s * accelerators - bound.gpu_s),
            )
            for name, over, uncounted in beyond:
                left = ledger.left(name)
                if over > 0.0 and left is not None and left <= uncounted:
                    return f"budget.{name} leaves no room for the rest of this training"
            return ""

        return stop


def keep_part(recorder: Recorder, prefix: str, purpose: str, lost: Spend) -> None:
    """The event for what was paid, and counted, for a step that has no event of its own."""
    key = f"{prefix}{sum(one.startswith(prefix) for one in recorder.prepared)}"
    recorder.journal.append("prepared", Prepared(key=key, purpose=purpose, values={}, spend=lost))
    recorder.prepared[key] = Preparation(spend=lost)


def stopped_key(purpose: str, work: str) -> str:
    """How the keys of these events begin."""
    return f"stopped/{purpose}/{work}/"


def thinned(losses: tuple[float, ...]) -> tuple[float, ...]:
    """At most 200 of them, first and last included."""
    if len(losses) <= _CURVE:
        return losses
    places = [round(i * (len(losses) - 1) / (_CURVE - 1)) for i in range(_CURVE)]
    return tuple(losses[place] for place in places)


def _bound(trainer: Trainer, job: TrainingJob, wanted: Fit) -> Spend:
    """What to set aside: what a trainer foretells, or what the short run lets expect and a quarter more."""
    if getattr(trainer, "foretells", False):
        return cast(Foretelling, trainer).foretell(job)
    seconds = {name: CAREFUL * getattr(wanted.projected, name) for name in ("wall_s", "cpu_s", "gpu_s")}
    return Spend(**seconds)


def _less(whole: Spend, told: Spend) -> Spend:
    """The seconds of `whole` that `told` lacks."""
    rest = {name: max(0.0, value - getattr(told, name)) for name, value in whole if name.endswith("_s")}
    return whole.model_copy(update=rest)


def _until_now(meter: Meter, accelerators: float) -> Spend:
    """Of this process and of those that it started."""
    own = meter.spend()
    cpu_s = own.cpu_s + meter.spend(children=True).cpu_s
    return own.model_copy(update={"cpu_s": cpu_s, "gpu_s": own.wall_s * accelerators})


def _accelerators(projected: Spend) -> float:
    """In use all the time, as the short run found."""
    return projected.gpu_s / projected.wall_s if projected.wall_s else 0.0
