"""How a round ends: its attempt on record, what was proven kept as assets, and the trusted parts compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from heldout.errors import SetupError
from heldout.improvers.training_roles import Asset, Recipe
from heldout.loops.session import Scored
from heldout.loops.weights.accounting import attempt_spend, noise_spend
from heldout.loops.weights.state import Direction, Grounded, Prepared, WeightsSearch, weights_of
from heldout.models.base import DAMAGED_WEIGHTS
from heldout.records import Candidate, Decision, Verdict
from heldout.store.training_events import AssetAdded, AttemptEnded, TrainingEnded, TrustedHash
from heldout.training.trusted import TrustedParts, trusted_hash

__all__ = ["end_attempt", "guard", "keep_assets", "note_of", "recall"]


def guard(search: WeightsSearch, number: int, *, after: bool = False) -> None:
    """Hash what no training may change, after a round with the template of its child, where there is one; `SetupError`,
    which ends the run, where anything differs from the moment before: a run may have been stopped between rounds."""
    session = search.session
    moment: Literal["before", "after"] = "after" if after else "before"
    recorded = session.recorder.find("trusted.hash", f"{number}/{moment}", TrustedHash)
    if recorded is None:
        last = f"{number}/before" if after else f"{number - 1}/after"
        before = session.recorder.find("trusted.hash", last, TrustedHash)
        # The first child of the round is the one that may be head; a second training is for the noise alone.
        children = [scored for round_, scored in search.pool if round_ == number] if after else []
        judged = children[0] if children else search.head
        weights = search.ground.store.path(weights_of(judged.candidate))
        made = trusted_hash(_trusted(search), weights, round=number, moment=moment, before=before)
        recorded = session.recorder.record("trusted.hash", made)
    if recorded.changed:
        when = f"during round {number}" if after else f"between rounds {number - 1} and {number}"
        raise SetupError(
            f"the trusted parts {', '.join(recorded.changed)} changed {when}: what was measured after that cannot be "
            "compared with what was measured before, and the run is void. Restore them and start again"
        )


def _trusted(search: WeightsSearch) -> TrustedParts:
    session = search.session
    engine, config = session.engine, session.config
    limits = {
        "harness": engine.harness.fingerprint,
        "model": engine.model.fingerprint,
        "max_tokens": config.solver.model.max_tokens,
        "temperature": config.solver.model.temperature,
        "repeats": session.gate.repeats,
        "seed": engine.seed,
    }
    return TrustedParts(session.tasks, (engine.harness, engine.model, session.gate), limits)


def end_attempt(
    search: WeightsSearch,
    direction: Direction,
    *,
    grounded: Grounded | None = None,
    prepared: Prepared | None = None,
    trained: TrainingEnded | None = None,
    decision: Decision | None = None,
    child: Scored | None = None,
) -> AttemptEnded:
    """Put on record how the round ended; the next rounds read it."""
    recorded = search.session.recorder.find("attempt", str(direction.number), AttemptEnded)
    if recorded is not None:
        return recall(search, recorded)
    status, reason = _status(direction, grounded, trained, decision)
    if status == "undecided" and child is not None and child.mean is None:
        status, reason = _unmeasured(search, child.candidate, reason)
    dataset = prepared.dataset if prepared is not None else None if grounded is None else grounded.dataset
    ended = AttemptEnded(
        round=direction.number,
        focal=direction.attributed.diagnosed.focal or "",
        strategy=_strategy(direction),
        status=status,  # type: ignore[arg-type]
        reason=reason,
        candidate=None if child is None else child.candidate.digest,
        data=None if dataset is None else dataset.digest,
        config=None if dataset is None else dataset.config or None,
        select_gain=None if decision is None else decision.effect,
        repairs=prepared.repairs if prepared is not None else 0 if grounded is None else grounded.repairs,
        spend=attempt_spend(search, direction.number),
        noise_spend=noise_spend(search, direction.number),
    )
    return recall(search, search.session.recorder.record("attempt", ended))


def _unmeasured(search: WeightsSearch, child: Candidate, reason: str) -> tuple[str, str]:
    """The evaluator failed on every task. Weights that it can do nothing with are the recipe's own fault; of any other
    error nothing is known about the recipe."""
    outcomes = search.session.engine.recorded.values()
    errors = (one.error or "" for one in outcomes if one.candidate == child.digest)
    if any(DAMAGED_WEIGHTS in error for error in errors):
        return "training_failed", f"the training ended, but {DAMAGED_WEIGHTS}"
    return "not_measured", reason


def recall(search: WeightsSearch, ended: AttemptEnded) -> AttemptEnded:
    """Remember an attempt for the rounds after it."""
    search.history.append(ended)
    if ended.data is not None and ended.config is not None and ended.status != "not_measured":
        search.tried.append((ended.data, ended.config))
    return ended


def keep_assets(search: WeightsSearch, direction: Direction, prepared: Prepared, trained: TrainingEnded) -> None:
    """What ran through a full training: its data builder and its config, whatever became of the model."""
    recipe = Recipe.model_validate(prepared.dataset.recipe)
    builder = {"recipe.json": recipe.model_dump_json(indent=2) + "\n"}
    if recipe.script:
        builder["build.py"] = recipe.script
    config = {"train.json": json.dumps(prepared.dataset.settings, indent=2, sort_keys=True) + "\n"}
    _keep(search, direction, trained, kind="data_builder", files=builder)
    _keep(search, direction, trained, kind="config", files=config)


def note_of(direction: Direction) -> str:
    """What a child is, in the lineage."""
    return f"{_strategy(direction)} for {direction.attributed.diagnosed.focal or ''}"


def _strategy(direction: Direction) -> str:
    return "" if direction.weighed is None else direction.weighed.chosen or ""


def _keep(
    search: WeightsSearch,
    direction: Direction,
    trained: TrainingEnded,
    *,
    kind: Literal["data_builder", "config"],
    files: Mapping[str, str],
) -> None:
    blob = Candidate(files=files)
    search.session.store.save(blob)
    added = AssetAdded(
        round=trained.round,
        name=f"{_strategy(direction)}-{kind}",
        kind=kind,
        blob=blob.digest,
        validated_on=trained.weights or "",
        strategy=_strategy(direction),
        focal=direction.attributed.diagnosed.focal or "",
    )
    search.session.recorder.record("asset.added", added)
    search.assets.append(Asset(added.name, kind, files, added.validated_on, added.strategy, added.focal))


def _status(
    direction: Direction, grounded: Grounded | None, trained: TrainingEnded | None, decision: Decision | None
) -> tuple[str, str]:
    if grounded is not None:
        return grounded.status, grounded.reason
    if trained is not None and trained.weights is None:
        return ("not_measured" if trained.missing else "training_failed"), trained.error or "the training ended"
    if decision is None:
        error = direction.attributed.diagnosed.error
        return ("not_measured", error) if error else ("no_strategy", "nothing fails on the diagnosis tasks")
    status = {Verdict.ACCEPT: "accepted", Verdict.REJECT: "rejected"}.get(decision.verdict, "undecided")
    return status, decision.reason
