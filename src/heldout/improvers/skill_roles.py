"""The seam to improvers of skills: they read failed train traces, blame a module, and edit a guide or a skill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from heldout.harness.steps import Step
from heldout.records import Candidate, EditProposal, Record, Spend, TrainTask

__all__ = ["Attribution", "DraftView", "EditView", "FaultView", "SkillImprover", "SkillNote", "SkillTrace"]


@dataclass(frozen=True, slots=True)
class SkillTrace:
    """One train episode, in full."""

    task: TrainTask
    visible: str
    """What the task shows besides its text: files, sheets, headers."""
    skill: str
    """The skill that the solver was given; empty for none. A fresh one is this task's own, and of no other."""
    steps: tuple[Step, ...]
    answer: str | None
    score: float
    feedback: str
    """What the grader says of the answer."""
    first_fault: str
    """What the solver itself recorded as the first fault; empty where its own checks passed."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """`recoveries`, turns, …"""


class Attribution(Record):
    """What an attributor answers; see `heldout.store.skill_events.FaultAttributed` for the fields."""

    step: int | None = None
    stage: str = ""
    """One of `heldout.skills.Stage`; empty: non-learnable."""
    module: str | None = None
    """File of the module; None: non-learnable, or to be taken from the stage."""
    mechanism: str = ""
    evidence: str = ""
    preserve: str = ""
    spend: Spend = Spend()


class SkillNote(Record):
    """What became of an earlier edit, as the editor is told it."""

    round: int
    edited: tuple[str, ...] = ()
    note: str = ""
    verdict: str = ""
    """`accept`, `reject`, `undecided`, or `refused` where it was never run."""
    reason: str = ""
    repairs: tuple[str, ...] = ()
    """Select ids."""
    regressions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FaultView:
    """What an attributor is given: one failed train trace."""

    round: int
    seed: int
    head: Candidate
    """A copy of the guide, or of the skill."""
    target: Literal["guide", "skill"]
    trace: SkillTrace
    description: str
    run_seed: int


@dataclass(frozen=True, slots=True)
class EditView:
    """What an editor is given. No select, audit or test body is reachable from it."""

    round: int
    seed: int
    head: Candidate
    """A copy."""
    target: Literal["guide", "skill"]
    module: str | None
    """The file to rewrite; None: a skill's only file, or any module."""
    faults: tuple[Attribution, ...]
    """Of the traces, in the same order; one, except where several are merged."""
    traces: tuple[SkillTrace, ...]
    """Failed train traces; for a merge of trajectory patches, passed ones too."""
    history: tuple[SkillNote, ...]
    description: str
    run_seed: int
    forbidden: tuple[str, ...] = ()
    """Literals that a guide's module may not hold (train ids, file, column and sheet names); empty for a skill."""


@dataclass(frozen=True, slots=True)
class DraftView:
    """What a skill for all tasks is first written from: train tasks and what they show, no traces."""

    seed: int
    head: Candidate
    """The candidate without a skill, or what the run began with."""
    tasks: tuple[tuple[TrainTask, str], ...]
    """Train tasks, each with what it shows."""
    description: str
    run_seed: int


class SkillImprover(Protocol):
    """Attributor, editor and first writer. A class says `skills = True`, and is called with (config, model).

    Same view, same answer, where it can. `ModelError` where its model did not answer; any other exception is an
    improver fault.
    """

    uses_model: bool
    bound: Spend
    """The most that one call of a role may cost, `wall_s` aside."""

    def attribute(self, view: FaultView) -> Attribution:
        """The first actionable fault of a failed trace; an empty stage where nothing can be learned from it."""

    def edit(self, view: EditView) -> EditProposal:
        """Whole-file edits of the module, or of the skill; none when there is nothing left to try."""

    def draft(self, view: DraftView) -> EditProposal:
        """One skill for all tasks: an edit of `SKILL.md`."""
