"""The seam to improvers of weights: they diagnose a model's failures, compare strategies, and say what to train on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import Field

from heldout.records import Record, Spend, TrainTask
from heldout.store.training_events import AttemptEnded, Check, Cluster, WeighedStrategy
from heldout.training.settings import TrainConfig

__all__ = [
    "Asset",
    "BuildView",
    "Diagnosis",
    "DiagnosisView",
    "Failed",
    "Recipe",
    "RecipePlan",
    "Research",
    "ResearchView",
    "TrainingImprover",
]


@dataclass(frozen=True, slots=True)
class Failed:
    """A train task that the current model failed."""

    task: TrainTask
    answer: str | None
    faults: tuple[str, ...]
    """Codes, the one that hides the others first."""
    feedback: str
    """What the grader says of the answer."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """`stopped` (0 or 1), `tokens_out`, …"""
    solution: str = ""
    """An answer that is right, where one is known: a reference may be the grader's rule instead."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A builder, config, check or note that a completed training validated."""

    name: str
    kind: str
    files: Mapping[str, str]
    validated_on: str
    strategy: str
    focal: str


@dataclass(frozen=True, slots=True)
class DiagnosisView:
    """What a diagnostician is given. No select, audit or report body is reachable from it."""

    round: int
    seed: int
    description: str
    n: int
    """Diagnosis tasks measured."""
    score: float | None
    clusters: tuple[Cluster, ...]
    """By mechanical signature, `fix_rate` and `recoverable` not yet filled in; largest first."""
    failures: tuple[Failed, ...]
    history: tuple[AttemptEnded, ...]


class Diagnosis(Record):
    """What a diagnostician answers."""

    fix_rates: Mapping[str, float] = {}
    """q of each cluster, 0 to 1; a cluster that is not named keeps 0.5."""
    focal: str | None = None
    """Code of the cluster to work on; None: the one with the most recoverable points."""
    cited: tuple[str, ...] = ()
    """Train ids of the failures that were read."""
    why: str = ""
    spend: Spend = Spend()


class Recipe(Record):
    """What a strategy trains on and how."""

    builder: str = ""
    """Data builder: a name in `heldout.training.builders`, `package.module:function`, or empty for `script`."""
    count: int = Field(default=1024, ge=1)
    """Examples wanted."""
    params: Mapping[str, Any] = {}
    """Arguments of the builder."""
    script: str = ""
    """A Python program, run in the sandbox, that writes `examples.jsonl` (prompt, completion) from `train.jsonl`."""
    replay: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of the examples that comes from the world's plain mixture, against forgetting."""
    train: Mapping[str, Any] = {}
    """Changes to the run's `TrainConfig`, nested as there."""


@dataclass(frozen=True, slots=True)
class ResearchView:
    """What a researcher is given."""

    round: int
    seed: int
    description: str
    diagnosis: Diagnosis
    clusters: tuple[Cluster, ...]
    focal: str
    failures: tuple[Failed, ...]
    """Those of the focal cluster first."""
    history: tuple[AttemptEnded, ...]
    tried: tuple[tuple[str, str], ...]
    """(data digest, config digest) of every attempt so far."""
    assets: tuple[Asset, ...]
    budget_s: float | None
    """Seconds of training time that are left; None without a limit."""
    min_strategies: int
    settings: TrainConfig = field(default_factory=TrainConfig)
    """The run's own, which a recipe changes."""


class Research(Record):
    """What a researcher answers: the whole table, whatever was chosen."""

    table: tuple[WeighedStrategy, ...] = ()
    """At least `min_strategies`, losers with their reason."""
    chosen: str | None = None
    recipe: Recipe | None = None
    rule: str = ""
    why: str = ""
    too_dear: bool = False
    """Nothing was chosen, and with a larger budget something could have been: the run stops there, and may go on."""
    spend: Spend = Spend()


@dataclass(frozen=True, slots=True)
class BuildView:
    """What a builder is given, first for a new recipe and then for each repair after a failed preflight."""

    round: int
    seed: int
    strategy: str
    focal: str
    recipe: Recipe
    """The researcher's, or the last one that failed."""
    repair: int
    """0, or which repair this is."""
    failed_checks: tuple[Check, ...]
    """Of the preflight that is to be repaired."""
    errors: tuple[str, ...]
    """What the sandbox, the contamination check or the trainer said."""
    failures: tuple[Failed, ...]
    assets: tuple[Asset, ...]
    settings: TrainConfig = field(default_factory=TrainConfig)
    """The run's own, which a recipe changes."""


class RecipePlan(Record):
    """What a builder answers: the recipe to run, or None where it cannot repair it."""

    recipe: Recipe | None
    note: str = ""
    spend: Spend = Spend()


class TrainingImprover(Protocol):
    """Diagnostician, researcher and builder. A class says `trains = True`, and is called with (config, model).

    Same view, same answer, where it can. `ModelError` where its model did not answer; any other exception is an
    improver fault. It never touches weights or sealed tasks.
    """

    uses_model: bool
    bound: Spend
    """The most that one call of a role may cost, `wall_s` aside."""

    def diagnose(self, view: DiagnosisView) -> Diagnosis:
        """Fix rates and one focal problem, from metrics and at least five failures that were read."""

    def research(self, view: ResearchView) -> Research:
        """At least `min_strategies` strategies weighed, one chosen, or none where nothing is left to try."""

    def build(self, view: BuildView) -> RecipePlan:
        """The recipe to run; for a repair one that the failed checks should pass."""
