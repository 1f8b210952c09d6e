"""Payloads of the events that loops over model weights write; see `events` for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from heldout.records import Record, Spend

__all__ = [
    "TRAINING_PAYLOADS",
    "AbilitiesMeasured",
    "AssetAdded",
    "AttemptEnded",
    "Check",
    "Cluster",
    "DatasetBuilt",
    "Diagnosed",
    "Preflighted",
    "StrategiesWeighed",
    "TrainingEnded",
    "TrainingNoise",
    "TrustedHash",
    "WeighedStrategy",
]


class Cluster(Record):
    """Failures of one mechanical signature on the diagnosis tasks."""

    code: str
    """The fault that hides the others: `stop`, `wrapper`, `no answer`, …"""
    count: int
    """Tasks whose first fault this is."""
    share: float
    """f: of all measured diagnosis tasks."""
    also: int = 0
    """Further tasks that have it behind another fault."""
    fix_rate: float = 0.0
    """q: estimated share of these tasks that training on them makes right."""
    recoverable: float = 0.0
    """f · q · 100, in points."""
    examples: tuple[str, ...] = ()
    """Train ids, the first few."""


class Diagnosed(Record):
    """kind `diagnosis`: what is wrong with the model of a round, and the one focal problem."""

    round: int
    head: str
    """Digest of the diagnosed candidate."""
    n: int
    """Diagnosis tasks measured."""
    missing: int = 0
    score: float | None
    stopped: float | None = None
    """Share of the answers that ended by themselves."""
    answer_tokens: float | None = None
    """Mean length of the answers."""
    clusters: tuple[Cluster, ...] = ()
    """Largest first."""
    focal: str | None = None
    """Code of the focal cluster; None where nothing fails, or nothing could be diagnosed."""
    cited: tuple[str, ...] = ()
    """Train ids of the failures that were read: at least five, or all that there are."""
    why: str = ""
    error: str | None = None
    unanswered: bool = False
    """The diagnostician's model did not answer; asked again on resume where no decision has rested on it."""
    spend: Spend = Spend()


class WeighedStrategy(Record):
    """One strategy in the table of a round."""

    id: str
    source: str
    """Where it was found: paper, catalogue, a model's own idea."""
    mechanism: str
    reported_gain: float
    """Points, as its source reports."""
    reported_on: str
    """Model and data of that report."""
    fits: float
    """0 to 1: how well it fits the focal problem."""
    reproduces: float
    """P: that the reported gain shows here."""
    data: str
    """What data it needs."""
    data_available: bool = True
    implementation: str = ""
    """`low`, `medium` or `high`."""
    cost_s: float
    """Seconds of processor (or accelerator) time that it is expected to take."""
    risk: str = ""
    score: float | None = None
    """fits · reported gain · P(reproduces) / hours; None where it was not weighed."""
    lost: str = ""
    """Why it was not chosen; empty for the chosen one."""


class StrategiesWeighed(Record):
    """kind `strategies`: the whole table of a round, and the choice."""

    round: int
    focal: str
    table: tuple[WeighedStrategy, ...]
    chosen: str | None = None
    """Id; None where none is left or affordable."""
    recipe: Mapping[str, Any] = {}
    """The chosen strategy's recipe (`improvers.training_roles.Recipe`)."""
    rule: str = ""
    why: str = ""
    error: str | None = None
    unanswered: bool = False
    spend: Spend = Spend()


class DatasetBuilt(Record):
    """kind `dataset`: what a builder made, after the contamination check. The examples lie in `blobs/<digest>/`."""

    round: int
    attempt: int = 0
    """0, and then the repairs."""
    digest: str | None = None
    """Of the examples that are trained on, in order; None where there are none."""
    blob: str = ""
    """Digest of the folder `examples.jsonl` in `blobs/`."""
    built: int = 0
    """Examples that the builder returned."""
    size: int = 0
    """Examples that are kept."""
    removed: Mapping[str, int] = {}
    """Examples removed, by reason: `id`, `text`, `near`, `13-gram`, …"""
    hits: float = 0.0
    """Share of the built examples that met a sealed or select task."""
    voided: str = ""
    """Why the whole data set is refused."""
    recipe: Mapping[str, Any] = {}
    """What was built (`improvers.training_roles.Recipe`), as the builder left it."""
    builders: Mapping[str, int] = {}
    """Examples by data builder."""
    roles: Mapping[str, int] = {}
    """Examples by role of their provenance."""
    config: str = ""
    """Digest of the training config that goes with it."""
    settings: Mapping[str, Any] = {}
    """That config (`training.TrainConfig`)."""
    error: str | None = None
    missing: bool = False
    """A sandbox failed, or the builder's model did not answer: nothing is known about the recipe."""
    unanswered: bool = False
    spend: Spend = Spend()


class Check(Record):
    """One check of the preflight ladder."""

    name: str
    passed: bool
    found: str
    """What was found, in words with a number."""
    wanted: str
    """What would pass."""


class Preflighted(Record):
    """kind `preflight`: one stage of the ladder, `a` on tiny data or `b`, a short run."""

    round: int
    attempt: int = 0
    stage: Literal["a", "b"]
    checks: tuple[Check, ...]
    passed: bool
    data: str
    """Digest of the data set; with `template` and `config` what the verdict holds for."""
    template: str
    config: str
    losses: tuple[float, ...] = ()
    seconds_per_step: float | None = None
    peak_memory_mb: float | None = None
    projected_s: float | None = None
    """Seconds that the full run would take."""
    answered_by: str = ""
    """Digest of the candidate with the short run's weights, under which its answers are on record."""
    spend: Spend = Spend()


class TrainingEnded(Record):
    """kind `training`: a full run that ended, with weights or without."""

    round: int
    attempt: int = 0
    repeat: int = 0
    """0; 1 is the same recipe with another seed, for the training noise."""
    parent: str
    """Digest of the weights that it began with."""
    weights: str | None = None
    """None where it died."""
    data: str
    config: str
    seed: int
    losses: tuple[float, ...] = ()
    """Of each step, thinned to at most 200 values."""
    steps: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    seconds_per_step: float = 0.0
    peak_memory_mb: float = 0.0
    error: str | None = None
    missing: bool = False
    """It ended by an accident of the machine: nothing is known about the recipe."""
    spend: Spend = Spend()


class TrainingNoise(Record):
    """kind `training.noise`: one recipe trained twice, with two seeds, on the same select tasks."""

    round: int
    first: str
    second: str
    """Digests of the candidates."""
    n: int
    difference: float
    """Mean paired difference second − first, a fraction of one."""
    flips: float | None
    """Share of the tasks on which the two differ."""
    standard_error: float
    """Of the gain of one training over no change, from training noise alone: |difference| / √2, pooled where there are
    several."""


class TrustedHash(Record):
    """kind `trusted.hash`: grader, template, division, evaluator and limits, before or after an attempt."""

    round: int
    moment: Literal["before", "after"]
    digests: Mapping[str, str]
    """By name of the trusted part."""
    changed: tuple[str, ...] = ()
    """Parts that differ from `before`; they void the run."""


class AttemptEnded(Record):
    """kind `attempt`: how a round ended, for the history that the next round reads."""

    round: int
    focal: str = ""
    strategy: str = ""
    status: Literal[
        "accepted",
        "rejected",
        "undecided",
        "preflight_failed",
        "contaminated",
        "no_data",
        "training_failed",
        "not_measured",
        "no_strategy",
        "repeated",
    ]
    reason: str
    candidate: str | None = None
    data: str | None = None
    config: str | None = None
    select_gain: float | None = None
    """Mean paired difference to the parent on select."""
    repairs: int = 0
    spend: Spend = Spend()
    """Everything that the attempt cost; a view, not counted again."""
    noise_spend: Spend = Spend()
    """The part of it that trained and measured the recipe a second time, for the noise of training."""


class AssetAdded(Record):
    """kind `asset.added`: a builder, config, check or note that ran through a full training."""

    round: int
    name: str
    kind: Literal["data_builder", "config", "check", "note"]
    blob: str
    """Digest of its folder in `blobs/`."""
    validated_on: str
    """Digest of the weights of the completed training."""
    strategy: str = ""
    focal: str = ""


class AbilitiesMeasured(Record):
    """kind `abilities`: a candidate on the retain role during the search, where a floor may veto it."""

    candidate: str
    n: int
    missing: int
    mean: float | None
    families: Mapping[str, float] = {}
    """Mean score of each family."""
    gain: float | None = None
    """Mean paired difference to the start."""
    worst: float | None = None
    """The same, with a failure for every score that the candidate alone lacks."""


TRAINING_PAYLOADS: Mapping[str, type[Record]] = {
    "diagnosis": Diagnosed,
    "strategies": StrategiesWeighed,
    "dataset": DatasetBuilt,
    "preflight": Preflighted,
    "training": TrainingEnded,
    "training.noise": TrainingNoise,
    "trusted.hash": TrustedHash,
    "attempt": AttemptEnded,
    "asset.added": AssetAdded,
    "abilities": AbilitiesMeasured,
}
"""Kind of event to the record that its data validates against."""
