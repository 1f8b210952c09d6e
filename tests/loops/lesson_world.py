"""Tasks of four kinds that a text teaches or spoils, an improver that says what a test wrote down, and small runs.

No model, no sandbox: an episode passes where its kind is known from the start (`alpha`) or taught, and not spoilt.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from heldout.config import ImproverConfig, RunConfig, load_config
from heldout.errors import HarnessError, ModelError
from heldout.harness.base import Episode, Preparation
from heldout.improvers.skill_roles import Attribution, DraftView, EditView, FaultView
from heldout.improvers.skill_texts import empty_skill, skill_edits
from heldout.loops import load_loop, preset
from heldout.models.base import Model
from heldout.records import Candidate, Edit, EditProposal, Spend, Task, Trajectory
from heldout.skills.guide import NO_SKILL, check_guide, kind_of, start_guide
from heldout.skills.modules import SKILL_FILE
from heldout.store import RunFolder
from heldout.tasks import load_tasks
from heldout.tasks.base import Item
from heldout.workbench import Opening, run
from heldout.workbench.opening import open_run

KINDS = ("alpha", "beta", "gamma", "delta")

Play = Callable[[Candidate, Task, int], float | None]
"""(candidate, task, seed of the episode) -> its score instead, or None."""

PLAYS: list[Play] = []
"""What overrides the world; `start` sets it."""

OUTAGES: list[Callable[[Candidate, Task, int], bool]] = []
"""Where the model is out; `start` sets it."""

RUNS: list[tuple[str, str, int]] = []
"""(candidate, task, seed) of every episode since the last `start`."""


class LessonSource:
    """`count` tasks, of each kind as many."""

    description = "Do what the lesson says."
    instruction = "Work."
    labels: ClassVar[tuple[str, ...]] = ()
    grader = "lesson_world:grade"

    def __init__(self, *, path: str | None = None, seed: int = 0, count: int = 80) -> None:
        del path
        self.count, self.seed = count, seed

    def items(self) -> Sequence[Item]:
        rng = random.Random(f"lessons {self.seed}")
        made = []
        for number in range(self.count):
            kind = KINDS[number % len(KINDS)]
            words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(8)]
            text = f"{kind} {' '.join(words)}"
            made.append(Item(id=f"lesson-{number:04d}", input=text, reference="1.0", family=kind, stratum=kind))
        return made


def grade(answer: str | None, reference: str) -> float:
    """The answer is its own score."""
    del reference
    return 0.0 if answer is None else float(answer)


class LessonHarness:
    """Plays the world; guides leave a transient skill that carries its task's mark."""

    prepares: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    fingerprint = "lessons"

    def __init__(self, **_: Any) -> None:
        """It has no settings."""

    @classmethod
    def start_folder(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        return NO_SKILL if options.get("start") == "none" else start_guide()

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        del candidate, model
        return Preparation()

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        RUNS.append((candidate.digest, task.id, episode.seed))
        if any(out(candidate, task, episode.seed) for out in OUTAGES):
            raise ModelError("the endpoint is down", calls=1)
        guided = kind_of(candidate) == "guide"
        score = next((said for play in PLAYS if (said := play(candidate, task, episode.seed)) is not None), None)
        score = lessons(candidate, task) if score is None else score
        recovers = score < 1.0 and guided
        return Trajectory(
            answer=str(score),
            steps=({"kind": "command", "text": "I work.", "command": "work", "output": "done", "exit_code": 0},),
            measures={"skill_calls": float(guided), "recoveries": float(recovers)},
            artifacts={SKILL_FILE: f"skill of {mark(task)}"} if guided else {},
            spend=Spend(calls=1 + guided + recovers, tokens_in=10, tokens_out=5),
        )

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        del task, model
        if kind_of(candidate) == "guide":
            check_guide(candidate.files)
        if any("UNUSABLE" in text for text in candidate.files.values()):
            raise HarnessError("the folder says that it is not usable")
        return Spend(calls=3, tokens_in=10, tokens_out=5)


def lessons(candidate: Candidate, task: Task) -> float:
    """What the texts alone say of a task."""
    text = "\n".join(candidate.files.values())
    known = task.family == "alpha" or f"TEACH {task.family}" in text
    return float(known and f"SPOIL {task.family}" not in text)


def mark(task: Task) -> str:
    """What only this task's own transient skill holds."""
    return f"MARK<{task.id}>"


def blame(view: FaultView) -> Attribution:
    """Every failure is the skill construction's."""
    return Attribution(step=0, stage="skill compilation", module="m3_skill.md", mechanism=view.trace.task.family)


def teach(view: EditView) -> EditProposal:
    """Teaches the kind of every trace that failed, in the module that is asked for."""
    blamed = [trace for trace, fault in zip(view.traces, view.faults, strict=True) if fault.stage]
    kinds = list(dict.fromkeys(trace.task.family for trace in blamed))
    return write(view, *(f"TEACH {kind}" for kind in kinds))


def write(view: EditView, *lines: str, module: str | None = None, **further: Any) -> EditProposal:
    """An edit that adds these lines to the module, or to the skill."""
    said = "".join(f"\n{line}\n" for line in lines)
    if view.target == "skill":
        base = view.head.files.get(SKILL_FILE, empty_skill(view.description))
        return EditProposal(edits=skill_edits(view.head, base + said), note="; ".join(lines), **further)
    path = module or view.module or "m3_skill.md"
    return EditProposal(
        edits=(Edit(path=path, content=view.head.files[path] + said),), note="; ".join(lines), **further
    )


def first_skill(view: DraftView) -> EditProposal:
    """Teaches the kind of the first task that is none of `alpha`."""
    kind = next((task.family for task, _ in view.tasks if task.family != "alpha"), "beta")
    text = empty_skill(view.description) + f"\nTEACH {kind}\n"
    return EditProposal(edits=skill_edits(view.head, text), note=f"drafted for {kind}")


@dataclass
class Script:
    """What the improver says, and what it was shown."""

    attribute: Callable[[FaultView], Any] = blame
    edit: Callable[[EditView], Any] = teach
    draft: Callable[[DraftView], Any] = first_skill
    faults: list[FaultView] = field(default_factory=list)
    views: list[EditView] = field(default_factory=list)
    drafts: list[DraftView] = field(default_factory=list)


SCRIPT = Script()
"""The script of the next run; `start` replaces what it says."""


class ScriptedSkills:
    """Calls the script of the test."""

    skills: ClassVar[bool] = True
    uses_model: ClassVar[bool] = False
    bound: ClassVar[Spend] = Spend(calls=1)

    def __init__(self, config: ImproverConfig, model: Model | None) -> None:
        del config, model

    def attribute(self, view: FaultView) -> Any:
        SCRIPT.faults.append(view)
        return SCRIPT.attribute(view)

    def edit(self, view: EditView) -> Any:
        SCRIPT.views.append(view)
        return SCRIPT.edit(view)

    def draft(self, view: DraftView) -> Any:
        SCRIPT.drafts.append(view)
        return SCRIPT.draft(view)


def small(loop: str, *layers: Mapping[str, Any]) -> RunConfig:
    """Two rounds on a few lessons, with further layers on top."""
    base = {
        "tasks": {"source": "lesson_world:LessonSource", "train": 12, "select": 8, "audit": 8},
        "solver": {"model": {"name": "simulated"}, "harness": "lesson_world:LessonHarness"},
        "improver": {"kind": "lesson_world:ScriptedSkills"},
        "search": {"generations": 2},
        "noise": {"tasks": 2, "simulations": 100},
        "executor": {"kind": "inline"},
        "options": {"sweep": {"retry_wait_s": 0.0}},
    }
    return load_config([preset(loop, "small"), {"loop": loop}, base, *layers])


def say(*, plays: Sequence[Play] = (), outages: Sequence[Any] = (), **says: Any) -> None:
    """From now on the improver says this, and episodes end so; what was shown and run is counted anew."""
    fresh = Script(**says)
    for one in fields(Script):
        setattr(SCRIPT, one.name, getattr(fresh, one.name))
    PLAYS[:], OUTAGES[:] = plays, outages
    RUNS.clear()


def start(folder: Path, config: RunConfig, **says: Any) -> RunFolder:
    """Run a config with a fresh script; returns the run's folder."""
    say(**says)
    return run(config, Opening(folder, command="heldout run test"))


def search(folder: Path, config: RunConfig, **says: Any) -> RunFolder:
    """The search alone, with a fresh script: no audit, no report."""
    say(**says)
    return searched(Opening(folder, command="heldout run test"), config)


def searched(opening: Opening, config: RunConfig) -> RunFolder:
    """The search alone, with the script as it is."""
    with open_run(config, opening) as opened:
        load_loop(config.loop)(opened.session).run(opened.start)
        return opened.folder


def select_ids(config: RunConfig) -> list[str]:
    return [task.id for task in load_tasks(config.tasks).select]


def train_ids(config: RunConfig) -> list[str]:
    return [task.id for task in load_tasks(config.tasks).train]


def only_on(task_ids: Sequence[str], passed: Mapping[str, Sequence[str]]) -> Play:
    """Of these tasks, a candidate whose text holds a key of `passed` passes those that it lists, any other those that
    are listed under the empty key."""

    def play(candidate: Candidate, task: Task, seed: int) -> float | None:
        del seed
        if task.id not in task_ids:
            return None
        text = "\n".join(candidate.files.values())
        key = next((key for key in passed if key and key in text), "")
        return float(task.id in passed[key])

    return play
