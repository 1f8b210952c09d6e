"""Payloads of the events that loops over skills write; see `events` for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from heldout.records import EditProposal, Record, Spend

__all__ = [
    "SKILL_PAYLOADS",
    "ArmRetention",
    "Cell",
    "FaultAttributed",
    "Judged",
    "ModuleEdited",
    "Retention",
    "SelectTable",
    "SkillRoundStarted",
]

Cell = Literal["repair", "regression", "both", "neither", "missing", "better", "worse", "equal"]
"""What became of a task from parent to candidate. `repair`, `regression`, `both` and `neither` are of binary scores
(failed to passed, passed to failed, passed twice, failed twice); the last three of graded ones."""


class SkillRoundStarted(Record):
    """kind `skill.round`: the train batch of a round."""

    round: int
    """From 1."""
    head: str
    """Digest of the guide or skill that the batch was run with."""
    batch: tuple[str, ...]
    """Train ids, in the order in which they were drawn."""
    failed: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """Not measured: nothing can be learned from them."""


class FaultAttributed(Record):
    """kind `fault.attributed`: the first actionable fault of one failed train task, as the attributor reads it."""

    round: int
    index: int = 0
    """Which of the round's attributions, from 0."""
    task: str
    step: int | None = None
    """The first wrong step, from 0."""
    stage: str = ""
    """One of `heldout.skills.Stage`; empty where nothing can be learned."""
    module: str | None = None
    """The file of the module that should have prevented it; None: non-learnable."""
    mechanism: str = ""
    evidence: str = ""
    preserve: str = ""
    """What an edit must not lose."""
    error: str | None = None
    """Why there is no attribution: the attributor failed, or returned nothing usable."""
    unanswered: bool = False
    """Its model did not answer; asked again on resume where no decision has rested on it."""
    spend: Spend = Spend()


class ModuleEdited(Record):
    """kind `skill.edit`: what the editor returned for a round, and the candidate that it makes."""

    round: int
    index: int = 0
    """Which of the round's edits, from 0."""
    target: Literal["guide", "skill"]
    head: str
    """Digest of what was edited."""
    attributed: str | None = None
    """File of the module that the fault was attributed to; None for a skill, or where any module may be edited."""
    edited: tuple[str, ...] = ()
    """Files that differ from the head."""
    proposal: EditProposal
    digest: str | None = None
    """The candidate; None for an edit that is refused before it is run."""
    fault: str = ""
    """Why it is not run: no edit, a broken guide, another module than the attributed one, a train literal, a repeat."""
    unanswered: bool = False


class SelectTable(Record):
    """kind `skill.table`: the paired select table of a round, task by task; never just totals."""

    round: int
    index: int = 0
    parent: str
    candidate: str
    cells: Mapping[str, Cell]
    """By select id, flips confirmed where that is asked for."""
    unconfirmed: tuple[str, ...] = ()
    """Flips that a second run of both did not show again; they count as no flip."""
    n: int
    """Tasks measured on both sides."""
    coverage: float
    repairs: float
    """R: repaired tasks; of graded scores the sum of what was gained."""
    regressions: float
    """B: broken tasks; of graded scores the sum of what was lost."""
    utility: float
    """u = R − weight · B."""
    families: Mapping[str, float] = {}
    """Mean paired difference of each family."""


class ArmRetention(Record):
    """One candidate's gains over no skill, in fractions of one, each with an interval over tasks."""

    arm: str
    """`start`, `final`, or the name of another method."""
    candidate: str
    train_gain: float
    train_interval: tuple[float, float]
    audit_gain: float
    audit_interval: tuple[float, float]
    retention: float
    """audit_gain − train_gain."""
    retention_interval: tuple[float, float]
    verdict: str
    """`kept`, `partly kept`, `lost`, `harmful`, `no train gain`, or `undecided`."""


class Retention(Record):
    """kind `retention`: how much of the gain over no skill on train is there on tasks that no decision saw."""

    role: str = "audit"
    none: str
    """Digest of the candidate without a skill."""
    n_train: int
    n_audit: int
    none_train: float | None
    """Mean score without a skill."""
    none_audit: float | None
    arms: tuple[ArmRetention, ...]
    """Empty where it is refused."""
    refused: str = ""
    """Why there is no retention: an arm without a skill is absent on a role."""
    confidence: float = 0.95


class Judged(Record):
    """kind `judge`: a rubric's score of a finished text; computed after the audit, never used to accept anything."""

    candidate: str
    judge: str
    """`rules`, or the name of the judging model."""
    scores: Mapping[str, float]
    """1 to 5 for each of: generalizability, applicability, executability, robustness, clarity."""
    total: float | None
    """Weighted mean, 1 to 5; None where the judge gave none, and `error` says why."""
    excerpts: Mapping[str, str] = {}
    reasons: Mapping[str, str] = {}
    capped: str = ""
    """Why generalizability is capped, where it is."""
    error: str | None = None
    unanswered: bool = False
    """Its model did not answer: no verdict, and asked again when the run is opened again."""
    spend: Spend = Spend()


SKILL_PAYLOADS: Mapping[str, type[Record]] = {
    "skill.round": SkillRoundStarted,
    "fault.attributed": FaultAttributed,
    "skill.edit": ModuleEdited,
    "skill.table": SelectTable,
    "retention": Retention,
    "judge": Judged,
}
"""Kind of event to the record that its data validates against."""
