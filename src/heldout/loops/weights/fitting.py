"""Trainings of a round: reserved before, stopped at the budget, resumed after a kill, and put on record."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from heldout import registry
from heldout.errors import BoundaryError, BudgetExhausted, SetupError, StoreError, TrainingError, boundary
from heldout.harness.base import Preparation
from heldout.loops.proposing import step_seed
from heldout.loops.session import TrainingGround
from heldout.loops.weights.options import ImproveOptions
from heldout.loops.weights.state import Prepared, WeightsSearch, instruction_of, weights_of
from heldout.records import Spend
from heldout.store.events import Prepared as PreparedEvent
from heldout.store.training_events import Preflighted, TrainingEnded
from heldout.store.weights import WeightsOrigin
from heldout.training import TRAINERS, Example, Fitted, TrainConfig, Trainer, TrainingJob, Watch
from heldout.training.base import Foretelling, Readying, Resuming
from heldout.training.metering import Meter, accidents
from heldout.training.preflight import cleared, template_digest

__all__ = [
    "CAREFUL",
    "Fit",
    "fit",
    "keep_part",
    "keep_stopped",
    "make_trainer",
    "run_trainer",
    "stopped_key",
    "thinned",
]

_CURVE = 200
"""Losses of a curve that go on record."""

CAREFUL = 1.25
"""A training is reserved at so many times its projected seconds."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One training that is asked for."""

    examples: tuple[Example, ...]
    config: TrainConfig
    seed: int
    work: Path
    purpose: str
    steps: int | None = None
    projected: Spend = field(default_factory=Spend)
    """Seconds that a short run lets expect; none where there was none."""


def fit(search: WeightsSearch, prepared: Prepared, number: int, *, repeat: int = 0) -> TrainingEnded:
    """Stage c: the full training from the head, whose weights go into the run's store; a death is on record too.

    The parent's weights are never written to, and `BudgetExhausted` leaves the checkpoints for a resumed run.
    """
    session, ground, attempt = search.session, search.ground, prepared.repairs
    work = ground.work / f"round-{number}-{attempt}-{repeat}"
    ended = session.recorder.find("training", f"{number}/{attempt}/{repeat}", TrainingEnded)
    if ended is None:
        parent = weights_of(search.head.candidate)
        _check_cleared(search, prepared, parent)
        wanted = Fit(
            examples=prepared.examples,
            config=prepared.config,
            seed=step_seed(session.config.seed, number, 100 + repeat),
            work=work,
            purpose="training",
            projected=prepared.projected,
        )
        known = {
            "round": number,
            "attempt": attempt,
            "repeat": repeat,
            "parent": parent,
            "data": prepared.dataset.digest or "",
            "config": prepared.dataset.config,
            "seed": wanted.seed,
        }
        ended = session.recorder.record("training", _trained(search, wanted, known))
    shutil.rmtree(work, ignore_errors=True)  # after the record: a kill between the two costs no second training
    return ended


def _trained(search: WeightsSearch, wanted: Fit, known: Mapping[str, object]) -> TrainingEnded:
    """How the training ended. Weights that descend from no allowed base are none of its own."""
    store = search.ground.store
    origin = WeightsOrigin.model_validate({name: known[name] for name in ("parent", "data", "config", "seed")})
    try:
        fitted = run_trainer(search, wanted)
        weights = store.add(Path(fitted.folder), origin)
    except (TrainingError, SetupError) as fault:
        spend = search.lost.pop(wanted.work, Spend())
        missing = isinstance(fault, TrainingError) and fault.missing
        told = {"error": str(fault)[:2000], "missing": missing, "spend": spend}
        return TrainingEnded.model_validate({**known, **told})
    try:
        search.check_ancestry(weights)
    except StoreError as fault:
        return TrainingEnded.model_validate({**known, "error": str(fault), "spend": fitted.spend})
    return _ended(known, fitted, weights)


def _check_cleared(search: WeightsSearch, prepared: Prepared, parent: str) -> None:
    """Nothing is spent on a full training before the ladder passed for the same data, template and config."""
    if not search.options.preflight.enabled:
        return
    template = template_digest(
        search.ground.store.path(parent), prepared.config, instruction=instruction_of(search.head.candidate)
    )
    ladder = search.session.recorder.every("preflight", Preflighted)
    data, config = prepared.dataset.digest or "", prepared.dataset.config
    if not cleared(ladder, data=data, template=template, config=config):
        raise StoreError(f"data {data[:12]} with config {config[:12]} never passed preflight; the journal was changed")


def run_trainer(search: WeightsSearch, wanted: Fit) -> Fitted:
    """Train within what the budget leaves. A fault carries on; what it had cost is in `search.lost`, or on record
    where the same training is begun again on resume."""
    session, trainer = search.session, make_trainer(search.ground, search.options)
    job = _job(search, wanted)
    _tell_earlier(search, wanted, trainer, job)
    bound = _bound(trainer, job, wanted)
    reservation = session.ledger.reserve(wanted.purpose, bound)
    wanted.work.mkdir(parents=True, exist_ok=True)
    meter, accelerators = Meter(), _accelerators(wanted.projected)
    watch = Watch(step=lambda _step, _loss: None, stop=_stop(search, wanted, bound))
    try:
        with boundary(TrainingError, "the trainer raised"), accidents("the trainer"):
            fitted = trainer.fit(job, watch)
    except (BoundaryError, SetupError, BudgetExhausted) as fault:
        lost = _until_now(meter, accelerators)
        reservation.settle(lost)
        search.lost[wanted.work] = lost
        if isinstance(fault, BudgetExhausted | StoreError):
            keep_stopped(search, wanted, search.lost.pop(wanted.work))
        raise
    fitted = fitted.model_copy(update={"spend": _not_yet_told(search, wanted, fitted)})
    reservation.settle(fitted.spend)
    return fitted


def keep_stopped(search: WeightsSearch, wanted: Fit, lost: Spend) -> None:
    """The event for what a training had cost that has none of its own; it was counted already."""
    keep_part(search, stopped_key(wanted.purpose, wanted.work.name), wanted.purpose, lost)


def keep_part(search: WeightsSearch, prefix: str, purpose: str, lost: Spend) -> None:
    """The event for what was paid, and counted, for a step that has no event of its own."""
    recorder = search.session.recorder
    key = f"{prefix}{sum(one.startswith(prefix) for one in recorder.prepared)}"
    recorder.journal.append("prepared", PreparedEvent(key=key, purpose=purpose, values={}, spend=lost))
    recorder.prepared[key] = Preparation(spend=lost)


def stopped_key(purpose: str, work: str) -> str:
    """How the keys of these events begin."""
    return f"stopped/{purpose}/{work}/"


def _bound(trainer: Trainer, job: TrainingJob, wanted: Fit) -> Spend:
    """What to set aside: what a trainer foretells, or what the short run lets expect and a quarter more."""
    if getattr(trainer, "foretells", False):
        return cast(Foretelling, trainer).foretell(job)
    seconds = {name: CAREFUL * getattr(wanted.projected, name) for name in ("wall_s", "cpu_s", "gpu_s")}
    return Spend(**seconds)


def _job(search: WeightsSearch, wanted: Fit) -> TrainingJob:
    store, parent = search.ground.store, weights_of(search.head.candidate)
    return TrainingJob(
        parent=store.check(parent),
        examples=wanted.examples,
        config=wanted.config,
        seed=wanted.seed,
        work=wanted.work,
        steps=wanted.steps,
        bases={digest: store.path(digest) for digest in store.ancestry(parent)},
    )


def _tell_earlier(search: WeightsSearch, wanted: Fit, trainer: Trainer, job: TrainingJob) -> None:
    """A killed process put its part of this training on no record; it counts before anything is set aside."""
    if not hasattr(trainer, "spent"):
        return
    with boundary(TrainingError, "the trainer raised when it was asked for what it had spent"):
        earlier = cast(Resuming, trainer).spent(job)
    untold = _less(earlier, _told(search, wanted))
    if untold != Spend():
        search.session.ledger.record(wanted.purpose, untold)
        keep_stopped(search, wanted, untold)


def _told(search: WeightsSearch, wanted: Fit) -> Spend:
    """What is on record of the parts of this training that were stopped."""
    prefix = stopped_key(wanted.purpose, wanted.work.name)
    entries = search.session.recorder.prepared.items()
    return sum((one.spend for key, one in entries if key.startswith(prefix)), start=Spend())


def _less(whole: Spend, told: Spend) -> Spend:
    """The seconds of `whole` that `told` lacks."""
    rest = {name: max(0.0, value - getattr(told, name)) for name, value in whole if name.endswith("_s")}
    return whole.model_copy(update=rest)


def _until_now(meter: Meter, accelerators: float) -> Spend:
    """Of this process and of those that it started."""
    own = meter.spend()
    cpu_s = own.cpu_s + meter.spend(children=True).cpu_s
    return own.model_copy(update={"cpu_s": cpu_s, "gpu_s": own.wall_s * accelerators})


def _not_yet_told(search: WeightsSearch, wanted: Fit, fitted: Fitted) -> Spend:
    """What a training cost, without those earlier parts of it that are on record: it was stopped by a budget or
    killed, and has gone on from its checkpoint."""
    return _less(fitted.spend, _told(search, wanted)) if fitted.resumed_from else fitted.spend


def _accelerators(projected: Spend) -> float:
    """In use all the time, as the short run found."""
    return projected.gpu_s / projected.wall_s if projected.wall_s else 0.0


def thinned(losses: tuple[float, ...]) -> tuple[float, ...]:
    """At most 200 of them, first and last included."""
    if len(losses) <= _CURVE:
        return losses
    places = [round(i * (len(losses) - 1) / (_CURVE - 1)) for i in range(_CURVE)]
    return tuple(losses[place] for place in places)


def make_trainer(ground: TrainingGround, options: ImproveOptions) -> Trainer:
    """The trainer that the options name, or that fits the model; `SetupError` for one that is not there, or lacks a
    library that a training by these options needs."""
    name = options.backend or ground.trainer
    trainer: Trainer = registry.load(name, among=TRAINERS, what="trainer")()
    if hasattr(trainer, "ready"):
        cast(Readying, trainer).ready(options.train)
    return trainer


def _stop(search: WeightsSearch, wanted: Fit, bound: Spend) -> Callable[[], str]:
    """A training that takes more than was set aside for it must not pass a limit: in-flight work counts."""
    ledger, clock = search.session.ledger, search.session.clock
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


def _ended(known: Mapping[str, object], fitted: Fitted, weights: str) -> TrainingEnded:
    return TrainingEnded.model_validate(
        {
            **known,
            "weights": weights,
            "losses": thinned(fitted.losses),
            "steps": fitted.steps,
            "tokens": fitted.tokens,
            "trained_tokens": fitted.trained_tokens,
            "seconds_per_step": fitted.seconds_per_step,
            "peak_memory_mb": fitted.peak_memory_mb,
            "spend": fitted.spend,
        }
    )
