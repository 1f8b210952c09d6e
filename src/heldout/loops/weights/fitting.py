"""Stage c of a round: the full training, whose weights become a candidate's."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from heldout.errors import SetupError, StoreError, TrainingError
from heldout.loops.proposing import step_seed
from heldout.loops.trainings import Fit, thinned
from heldout.loops.weights.state import Prepared, WeightsSearch, instruction_of, weights_of
from heldout.records import Spend
from heldout.store.training_events import Preflighted, TrainingEnded
from heldout.store.weights import WeightsOrigin
from heldout.training import Fitted
from heldout.training.preflight import cleared, template_digest

__all__ = ["fit"]


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
            parent=parent,
            examples=prepared.examples,
            config=prepared.config,
            seed=step_seed(session.config.seed, number, 100 + repeat),
            work=work,
            purpose="training",
            projected=prepared.projected,
            endless=True,
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
        fitted = search.trainings.run(wanted)
        weights = store.add(Path(fitted.folder), origin)
    except (TrainingError, SetupError) as fault:
        spend = search.trainings.lost(wanted.work) or Spend()
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
