"""Every model of a run over weights: the start, each child, and the second seed of a recipe."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from heldout.report.queries import SELECT, Means, payloads
from heldout.report.training_rounds import TrainingRound
from heldout.store.events import CandidateAdded
from heldout.store.training_events import TrainingEnded

__all__ = ["ModelRow", "lineage", "weights_of"]


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model."""

    round: int
    """0 is the start."""
    kind: Literal["start", "child", "second seed"]
    candidate: str
    """Digest of the candidate."""
    weights: str | None
    """Digest of its folder in `weights/`; None where nothing was trained from it, or it from nothing."""
    parent: str | None
    """Digest of the weights that its training began with."""
    note: str
    training: TrainingEnded | None
    method: str
    """`full`, `lora`, or empty for the start."""
    score: float | None
    """On the tasks that decide."""
    gain: float | None
    """Child minus parent, paired; None for the start and for a second seed, which no gate weighs."""
    interval: tuple[float, float] | None
    fate: str
    """`start`, the state of its round (`TrainingRound.state`), or `not weighed` for a second seed."""


def lineage(connection: sqlite3.Connection, rounds: Sequence[TrainingRound], known: Means) -> tuple[ModelRow, ...]:
    """Start first, then by round. `known` has the scores that the decisions rested on."""
    by_number = {one.number: one for one in rounds}
    added = payloads(connection, CandidateAdded)
    heads = _weights_of_heads(rounds)
    return tuple(_row(one, by_number.get(one.generation), heads, known) for one in added if one.track == "model")


def weights_of(models: Sequence[ModelRow], candidate: str) -> str | None:
    """Digest of a candidate's weights, as far as the journal says it."""
    return next((one.weights for one in models if one.candidate == candidate), None)


def _row(added: CandidateAdded, found: TrainingRound | None, heads: Mapping[str, str], known: Means) -> ModelRow:
    mean = known.get((SELECT, added.digest))
    trained = _training_of(added, found)
    settings = None if trained is None or found is None else found.dataset_of(trained.attempt)
    own = found if added.index == 0 and added.parent is not None else None
    kind: Literal["start", "child", "second seed"] = "second seed" if added.index else "child"
    return ModelRow(
        round=added.generation,
        kind="start" if added.parent is None else kind,
        candidate=added.digest,
        weights=trained.weights if trained is not None else heads.get(added.digest),
        parent=None if trained is None else trained.parent,
        note=added.note,
        training=trained,
        method="" if settings is None else str(settings.settings.get("method", "")),
        score=None if mean is None else mean.value,
        gain=None if own is None else own.gain,
        interval=None if own is None else own.interval,
        fate=_fate(added, own),
    )


def _training_of(added: CandidateAdded, found: TrainingRound | None) -> TrainingEnded | None:
    """A child has the index of its training's repeat."""
    if added.parent is None or found is None:
        return None
    trained = [one for one in found.trainings if one.repeat == added.index and one.weights is not None]
    return trained[-1] if trained else None


def _weights_of_heads(rounds: Sequence[TrainingRound]) -> dict[str, str]:
    """What trainings of a round began with is its head's."""
    return {
        one.diagnosed.head: training.parent for one in rounds if one.diagnosed is not None for training in one.trainings
    }


def _fate(added: CandidateAdded, own: TrainingRound | None) -> str:
    if added.parent is None:
        return "start"
    if added.index:
        return "not weighed"
    return "open" if own is None else own.state
