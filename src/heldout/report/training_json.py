"""What a program reads of a loop over model weights: the key `training` of a run's JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from heldout.records import Record, Spend
from heldout.report.summary import RunSummary
from heldout.report.training_budget import TrainingBudget, budget_of
from heldout.report.training_history import TrainingHistory
from heldout.report.training_rounds import TrainingRound
from heldout.store.agent_events import Finalist
from heldout.store.events import FamilyResult
from heldout.store.training_events import AbilitiesMeasured, Check, TrainingNoise, WeighedStrategy

__all__ = [
    "AssetJson",
    "BudgetJson",
    "CheckedJson",
    "DatasetJson",
    "ModelJson",
    "TrainedJson",
    "TrainingJson",
    "TrainingRoundJson",
    "WasteJson",
    "training_json",
]

_R = TypeVar("_R", bound=Record)


class DatasetJson(Record):
    """One data set after the contamination check; a repair has the next attempt's number. So has an entry without a
    digest, where the builder gave up or did not answer (`error` says why): it is none of the round's `repairs`."""

    attempt: int
    digest: str | None
    blob: str
    """Digest of its folder in `blobs/`."""
    config: str
    built: int
    size: int
    removed: Mapping[str, int]
    """Examples removed, by reason."""
    hits: float
    voided: str
    builders: Mapping[str, int]
    error: str | None


class CheckedJson(Record):
    """One stage of the preflight ladder."""

    attempt: int
    stage: str
    passed: bool
    checks: tuple[Check, ...]
    losses: tuple[float, ...]


class TrainedJson(Record):
    """One full training; `repeat` 1 is the same recipe with another seed."""

    attempt: int
    repeat: int
    parent: str
    weights: str | None
    data: str
    config: str
    seed: int
    steps: int
    tokens: int
    losses: tuple[float, ...]
    """Thinned to at most 200."""
    error: str | None
    spend: Spend


class TrainingRoundJson(Record):
    """One round; what was not measured is null."""

    round: int
    status: str
    """`accepted`, `rejected`, `preflight_failed`, … (`AttemptEnded.status`), `cut` where the budget ended the run in
    the round, or `open`."""
    reason: str
    diagnosed: int | None
    """Diagnosis tasks measured."""
    diagnosis_score: float | None
    faults: Mapping[str, int]
    """Failed tasks by first fault."""
    dominant: str | None
    focal: str
    strategy: str
    strategies: tuple[WeighedStrategy, ...]
    datasets: tuple[DatasetJson, ...]
    preflight: tuple[CheckedJson, ...]
    trainings: tuple[TrainedJson, ...]
    candidate: str | None
    select_gain: float | None
    """Child minus parent on the tasks that decide, paired."""
    interval: tuple[float, float] | None
    repairs: int
    spend: Spend | None
    """Of the whole attempt, or of what the budget left of it."""


class ModelJson(Record):
    """One model of the lineage."""

    round: int
    kind: str
    candidate: str
    weights: str | None
    parent: str | None
    """Digest of the weights that it was trained from."""
    method: str
    score: float | None
    fate: str


class AssetJson(Record):
    """What a full training proved."""

    name: str
    kind: str
    blob: str
    validated_on: str
    """Digest of the weights of that training."""


class WasteJson(Record):
    """Attempts that left the model as it was, by where they ended."""

    where: str
    attempts: int
    seconds: float


class BudgetJson(Record):
    """Seconds of work."""

    search_s: float
    """Everything before the audit and the report roles."""
    wasted_s: float
    wasted_share: float | None
    wasted: tuple[WasteJson, ...]
    seconds: Mapping[str, float]
    """By purpose of the ledger."""


class TrainingJson(Record):
    """Rounds, models, other abilities, noise, trusted parts, budget."""

    decides_on: str
    """`select`, or `train` where the diagnosed tasks decide too."""
    dominant_errors: tuple[str, ...]
    rounds: tuple[TrainingRoundJson, ...]
    models: tuple[ModelJson, ...]
    start_weights: str | None
    final_weights: str | None
    """Digest of the folder `weights/<digest>` in the run's folder."""
    noise: TrainingNoise | None
    floor_role: str | None
    """The report role that a floor opened during the search; null where none did."""
    abilities: tuple[AbilitiesMeasured, ...]
    """Of children that the floor was asked about."""
    families: Mapping[str, tuple[FamilyResult, ...]]
    """Report role to start against final by family."""
    assets: tuple[AssetJson, ...]
    trusted_parts: tuple[str, ...]
    trusted_changed: Mapping[int, tuple[str, ...]]
    """Round to the trusted parts that changed in it, or between the one before and it."""
    trusted_changed_between: tuple[int, ...] = ()
    """Those of these rounds before which they changed: not in the round, but after the one before it."""
    budget: BudgetJson
    finalists: tuple[Finalist, ...]
    rule: str


def training_json(whole: RunSummary, training: TrainingHistory) -> TrainingJson:
    """The object; rates and gains are fractions of one, times are seconds."""
    chosen, trusted, floor = training.selected, training.trusted, training.floor
    return TrainingJson(
        decides_on=training.decides_on,
        dominant_errors=training.dominant,
        rounds=tuple(_round(one) for one in training.rounds),
        models=tuple(_copied(one, ModelJson) for one in training.models),
        start_weights=training.weights_of(whole.start.digest),
        final_weights=training.weights_of(whole.final.digest),
        noise=training.noise,
        floor_role=None if floor is None else floor.role,
        abilities=() if floor is None else floor.measured,
        families={one.role: one.families for one in whole.reports if one.families},
        assets=tuple(
            AssetJson(name=asset.name, kind=asset.kind, blob=asset.blob, validated_on=asset.validated_on)
            for one in training.rounds
            for asset in one.assets
        ),
        trusted_parts=() if trusted is None else trusted.parts,
        trusted_changed={} if trusted is None else trusted.changed,
        trusted_changed_between=() if trusted is None else trusted.between,
        budget=_budget(budget_of(whole, training)),
        finalists=() if chosen is None else chosen.finalists,
        rule="" if chosen is None else chosen.rule,
    )


def _round(one: TrainingRound) -> TrainingRoundJson:
    diagnosed = one.diagnosed
    return TrainingRoundJson(
        round=one.number,
        status=one.status,
        reason=one.reason,
        diagnosed=None if diagnosed is None else diagnosed.n,
        diagnosis_score=None if diagnosed is None else diagnosed.score,
        faults={} if diagnosed is None else {cluster.code: cluster.count for cluster in diagnosed.clusters},
        dominant=None if one.dominant is None else one.dominant.code,
        focal=one.focal,
        strategy=one.strategy,
        strategies=one.weighed.table if one.weighed else (),
        datasets=tuple(_copied(found, DatasetJson) for found in one.datasets),
        preflight=tuple(_copied(found, CheckedJson) for found in one.ladder),
        trainings=tuple(_copied(found, TrainedJson) for found in one.trainings),
        candidate=one.attempt.candidate if one.attempt else None,
        select_gain=one.gain,
        interval=one.interval,
        repairs=one.repairs,
        spend=one.spend,
    )


def _budget(found: TrainingBudget) -> BudgetJson:
    return BudgetJson(
        search_s=found.search.wall_s,
        wasted_s=found.lost.wall_s,
        wasted_share=found.wasted_share,
        wasted=tuple(
            WasteJson(where=one.where, attempts=one.attempts, seconds=one.spend.wall_s) for one in found.wasted
        ),
        seconds={one.purpose: one.spend.wall_s for one in found.purposes},
    )


def _copied(found: object, record: type[_R]) -> _R:
    """The fields that the two have in common."""
    return record(**{name: getattr(found, name) for name in record.model_fields})
