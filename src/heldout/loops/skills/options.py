"""What loops over skills are told beyond the common config: the table `options` of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator

from heldout.config import ModelConfig
from heldout.records import Record
from heldout.skills.modules import MODULES, Stage

__all__ = [
    "AttributionOptions",
    "DraftedOptions",
    "FinalPool",
    "FrontierOptions",
    "GepaOptions",
    "GsoOptions",
    "JudgeOptions",
    "MergedOptions",
    "SkillOptions",
    "SweepOptions",
]

FinalPool = Literal["start", "last"]


class SweepOptions(Record):
    """The paired select sweeps of a round."""

    rerun_parent: bool = True
    """Run parent and candidate in each round, at the round's own seeds; False compares with recorded outcomes."""
    confirm_flips: bool = False
    """Run both once more on each flipped task; a flip that does not show again counts as none. It does not mend the
    gate's false accepts, because it hides breaks too."""
    coverage: float = Field(default=0.9, ge=0.0, le=1.0)
    """Share of select tasks measured on both sides; below it a round decides nothing."""
    missing: Literal["exclude", "fail"] = "exclude"
    """What an infrastructure failure counts for: nothing, or (the paper) a failed task."""
    critical: tuple[str, ...] = ()
    """Select ids, or families, that are safety-critical: a break there costs `gate.options.safety`."""
    retries: int = Field(default=4, ge=0, le=20)
    """Further attempts at tasks that could not be measured."""
    retry_wait_s: float = Field(default=30.0, ge=0.0)
    """Wait before the second further attempt; it doubles after that, and the first comes at once."""


class AttributionOptions(Record):
    """From a failed train task to the module that is edited."""

    map: Mapping[str, str] = Field(default_factory=dict)
    """Stage to file of the module, where it differs from `heldout.skills.MODULE_OF_STAGE`."""
    fails_below: float = Field(default=0.5, gt=0.0, le=1.0)
    """Score below which a train task has failed."""
    tries: int = Field(default=8, ge=1, le=1000)
    """Failed tasks of a batch that the attributor is asked about, until one can be learned from."""

    @field_validator("map")
    @classmethod
    def _names_modules(cls, given: Mapping[str, str]) -> Mapping[str, str]:
        stages = [stage.value for stage in Stage]
        for stage, module in given.items():
            if stage not in stages or module not in MODULES:
                raise ValueError(
                    f"maps {stage!r} to {module!r}; stages: {', '.join(stages)}; modules: {', '.join(MODULES)}"
                )
        return given


class JudgeOptions(Record):
    """Who scores the finished texts by a rubric, after the audit. It accepts nothing."""

    kind: Literal["none", "rules", "model"] = "rules"
    """`rules` counts sentences and needs no model; `model` asks one."""
    model: ModelConfig | None = None
    """The judging model, with the keys of `solver.model`; better another one than the solver's, which None means."""


class SkillOptions(Record):
    """`options` of every loop over skills."""

    batch: int = Field(default=8, ge=1, le=10000)
    """Train tasks run in a round (b)."""
    stop_after: int = Field(default=6, ge=0, le=10000)
    """Rounds in a row without an acceptance that end the search (S); 0 never does."""
    sweep: SweepOptions = SweepOptions()
    """Select sweeps."""
    attribution: AttributionOptions = AttributionOptions()
    """Attribution."""
    final: tuple[FinalPool, ...] = ("start", "last")
    """Who competes in the final selection, on a fresh paired sweep; the start wins ties."""
    literals: bool = True
    """Refuse a guide's module that holds a name of the train tasks, before it is run; a skill may hold them."""
    retention: bool = True
    """Measure no skill, the start and the final on train and audit at the end, for the retention of the gain."""
    judge: JudgeOptions = JudgeOptions()
    """The judge of finished texts."""

    @field_validator("final")
    @classmethod
    def _holds_the_start(cls, pool: tuple[FinalPool, ...]) -> tuple[FinalPool, ...]:
        if "start" not in pool:
            raise ValueError("the start always competes: final must hold 'start'")
        return pool


class GsoOptions(SkillOptions):
    """`options` of the loop `gso` (arXiv 2609.39148)."""

    modules: Literal["attributed", "any"] = "attributed"
    """`any`: the editor may rewrite any module, and the gate does not ask which (an ablation)."""


class DraftedOptions(SkillOptions):
    """`options` of the loops that begin with a drafted skill: `one_shot_skill` and `persistent_skill`."""

    drafted_from: int = Field(default=4, ge=1, le=1000)
    """Train tasks that the draft is written from; `persistent_skill` drafts nothing where its start is a skill."""


class FrontierOptions(SkillOptions):
    """`options` of the loop `skill_frontier`. Its children are scored once, at the seeds of the start, so that
    `sweep.rerun_parent` and `sweep.confirm_flips` change nothing here."""

    frontier: int = Field(default=3, ge=1, le=1000)
    """Skills that are kept as parents."""


class MergedOptions(SkillOptions):
    """`options` of the loop `merged_patches`. It runs the whole train role and asks about every failed task, so that
    `batch` and `attribution.tries` change nothing here."""

    passes: int = Field(default=20, ge=1, le=10000)
    """Passes over the train role; never more than `search.generations`."""
    examples: int = Field(default=4, ge=0, le=1000)
    """Passed traces that are shown beside the failed ones."""


class GepaOptions(DraftedOptions):
    """`options` of the loop `gepa`. GEPA scores a candidate once, at the seeds of the start, so that
    `sweep.rerun_parent` and `sweep.confirm_flips` change nothing here."""

    stop_after: int = Field(default=0, ge=0, le=10000)
    """GEPA's iterations in a row without a new candidate that end the search; 0 leaves it to the budget of calls."""
    target: Literal["guide", "skill"] = "skill"
    """What its components are: the six modules of a guide, or a drafted skill's file."""
