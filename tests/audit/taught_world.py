"""Tasks whose score under no skill, the start guide and a taught one is written down here, and runs on them.

No model, no sandbox. Train: t0 to t3; select: s0 to s3; audit: a0 to a7.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from heldout.config import ImproverConfig, RunConfig, load_config
from heldout.errors import ModelError
from heldout.harness.base import Episode, Preparation
from heldout.improvers.skill_roles import Attribution, DraftView, EditView, FaultView
from heldout.improvers.skill_texts import empty_skill, skill_edits
from heldout.loops import preset
from heldout.models.base import Model
from heldout.records import Candidate, Edit, EditProposal, Spend, Task, Trajectory
from heldout.rollouts.engine import paired_seed
from heldout.skills import NO_SKILL, kind_of, start_guide
from heldout.store import RunFolder, read_events
from heldout.tasks.base import Item
from heldout.workbench import Opening, run

__all__ = ["OUT", "PASSES", "RUNS", "SECOND", "config", "events", "of_kind", "ran"]

PASSES: Mapping[str, frozenset[str]] = {
    "none": frozenset({"t0", "a0", "a1"}),
    "start": frozenset({"t0", "t1", "s0", "a0", "a1", "a2"}),
    "taught": frozenset({"t0", "t1", "t2", "s0", "s1", "s2", "a0", "a1", "a2", "a3", "a4"}),
}

SECOND = "a5"
"""Passes under the taught guide in the second repeat alone."""

ROLES = {"train": "t", "select": "s", "audit": "a"}

OUT: list[Callable[[str, str], bool]] = []
"""(arm, task) -> whether the model is out; a test fills and empties it."""

RUNS: list[tuple[str, str]] = []
"""(arm, task) of every episode since the last `ran`."""

LINE = "TAUGHT"


class TaughtSource:
    """Four train and four select tasks, eight of audit."""

    description = "Do it."
    instruction = "Work."
    labels: ClassVar[tuple[str, ...]] = ()
    grader = "taught_world:grade"

    def __init__(self, *, path: str | None = None, seed: int = 0) -> None:
        del path, seed

    def items(self) -> Sequence[Item]:
        rng = random.Random("taught")
        made = []
        for role, letter in ROLES.items():
            for number in range(8 if role == "audit" else 4):
                text = " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(6))
                made.append(Item(id=f"{letter}{number}", input=text, reference="1", roles=(role,)))
        return made


def grade(answer: str | None, reference: str) -> float:
    """The answer is its own score."""
    del reference
    return float(answer or 0)


class TaughtHarness:
    """Passes what the table says."""

    prepares: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    fingerprint = "taught"

    def __init__(self, **_: Any) -> None:
        """It has no settings."""

    @classmethod
    def start_folder(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        return NO_SKILL if options.get("start") == "none" else start_guide()

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        del candidate, model
        return Preparation()

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        arm = arm_of(candidate)
        RUNS.append((arm, task.id))
        if any(out(arm, task.id) for out in OUT):
            raise ModelError("the endpoint is down", calls=1)
        second = (arm, task.id) == ("taught", SECOND) and episode.seed == paired_seed(0, SECOND, 1)
        score = float(second or task.id in PASSES[arm])
        return Trajectory(answer=str(score), spend=Spend(calls=1))

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        del candidate, task, model
        return Spend(calls=1)


def arm_of(candidate: Candidate) -> str:
    if kind_of(candidate) == "none":
        return "none"
    return "taught" if any(LINE in text for text in candidate.files.values()) else "start"


class Teacher:
    """Blames the skill construction, and adds the line; without `teach` it has nothing to add."""

    skills: ClassVar[bool] = True
    uses_model: ClassVar[bool] = False
    bound: ClassVar[Spend] = Spend()

    def __init__(self, config: ImproverConfig, model: Model | None) -> None:
        del model
        self.teaches = bool(config.options.get("teach", True))

    def attribute(self, view: FaultView) -> Attribution:
        del view
        return Attribution(step=0, stage="skill compilation", module="m3_skill.md", mechanism="it was not taught")

    def edit(self, view: EditView) -> EditProposal:
        if not self.teaches:
            return EditProposal()
        path = "m3_skill.md"
        return EditProposal(edits=(Edit(path=path, content=f"{view.head.files[path]}\n{LINE}\n"),), note="teaches")

    def draft(self, view: DraftView) -> EditProposal:
        del view
        return EditProposal()


class Drafter(Teacher):
    """Writes a first skill with the line in it, and nothing after that."""

    def edit(self, view: EditView) -> EditProposal:
        del view
        return EditProposal()

    def draft(self, view: DraftView) -> EditProposal:
        return EditProposal(edits=skill_edits(view.head, f"{empty_skill(view.description)}\n{LINE}\n"))


def config(*layers: Mapping[str, Any]) -> RunConfig:
    """One round that teaches, with further layers on top."""
    base = {
        "loop": "gso",
        "tasks": {"source": "taught_world:TaughtSource", "train": 4, "select": 4, "audit": 8, "stratify": False},
        "solver": {"model": {"name": "simulated"}, "harness": "taught_world:TaughtHarness", "options": {}},
        "improver": {"kind": "taught_world:Teacher"},
        "search": {"generations": 1},
        "noise": {"tasks": 0, "simulations": 100},
        "executor": {"kind": "inline"},
        "options": {"batch": 4, "sweep": {"retries": 0, "retry_wait_s": 0.0}},
    }
    return load_config([preset("gso", "small"), base, *layers])


def ran(folder: Path, *layers: Mapping[str, Any], out: Sequence[Callable[[str, str], bool]] = ()) -> RunFolder:
    """A run from its start to its retention, with these outages."""
    OUT[:] = out
    RUNS.clear()
    return run(config(*layers), Opening(folder, command="heldout run test"))


def events(folder: RunFolder) -> list[str]:
    """The kind of each event."""
    return [event.kind for event in read_events(folder.events)]


def of_kind(folder: RunFolder, kind: str) -> list[Mapping[str, Any]]:
    """The data of every event of a kind, in order."""
    return [event.data for event in read_events(folder.events) if event.kind == kind]
