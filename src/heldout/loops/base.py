"""The seam to loops: a program that moves track heads forward under gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from heldout import registry
from heldout.config import RunConfig, read_toml
from heldout.errors import SetupError
from heldout.improvers import (
    AGENT_IMPROVERS,
    IMPROVERS,
    SKILL_IMPROVERS,
    TRAINING_IMPROVERS,
    edits_skills,
    edits_weights,
    improver_class,
    is_agent,
)
from heldout.loops.session import Scored, Session
from heldout.options import read_options
from heldout.records import Candidate, Record

__all__ = [
    "LOOPS",
    "SKILL_LOOPS",
    "Edits",
    "Found",
    "Loop",
    "NoOptions",
    "check_loop",
    "edits_of",
    "load_loop",
    "preset",
]

LOOPS: Mapping[str, str] = {
    "winners_curse": "heldout.loops.winners_curse:WinnersCurse",
    "verse": "heldout.loops.verse:Verse",
    "gso": "heldout.loops.gso:Gso",
    "one_shot_skill": "heldout.loops.one_shot_skill:OneShotSkill",
    "persistent_skill": "heldout.loops.persistent_skill:PersistentSkill",
    "skill_frontier": "heldout.loops.skill_frontier:SkillFrontier",
    "merged_patches": "heldout.loops.merged_patches:MergedPatches",
    "gepa": "heldout.loops.gepa:GepaLoop",
    "improve_any_task": "heldout.loops.improve_any_task:ImproveAnyTask",
}
"""Short names of the built-in loops."""

SKILL_LOOPS = frozenset({"gso", "one_shot_skill", "persistent_skill", "skill_frontier", "merged_patches", "gepa"})
"""Of them, those over skills and guides, which share `loops.skills.options.SkillOptions`."""

Edits = Literal["candidates", "folders", "skills", "weights"]

PRESETS = ("small", "default", "paper")

_CHANGED: Mapping[str, str] = {
    "candidates": "whole prompts",
    "folders": "the folders of agents",
    "skills": "skills and guides for writing them",
    "weights": "the weights of a model",
}
_BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "candidates": IMPROVERS,
    "folders": AGENT_IMPROVERS,
    "skills": SKILL_IMPROVERS,
    "weights": TRAINING_IMPROVERS,
}
_FLAG: Mapping[str, str] = {
    "candidates": "",
    "folders": " with agent = True",
    "skills": " with skills = True",
    "weights": " with trains = True",
}


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a search ends with; `final` is `start` when nothing improved."""

    start: Scored
    final: Scored
    ended: str = "every generation was run"
    """Why the search was over, where no budget ended it."""


class NoOptions(Record):
    """`options` of a loop that has none."""


class Loop(Protocol):
    """A loop is made with a session and runs once; it is deterministic given the session's recorded steps."""

    options_model: ClassVar[type[Record]]
    """What `options` of the config may hold; checked before a run's folder is made."""
    edits: ClassVar[Edits]
    """What its improver changes: whole `candidates` (`session.improver`), an agent's `folders` (`session.agent`),
    `skills` (`session.skills`), or `weights` (`session.trainer`)."""

    def __init__(self, session: Session) -> None: ...

    def run(self, start: Candidate) -> Found:
        """Search. `BudgetExhausted` passes through, and `found` then says what there is."""

    def found(self, start: Candidate) -> Found:
        """The final selection among the heads and the start, with what is measured so far."""


def edits_of(improver: object) -> Edits:
    """What an improver class changes."""
    if edits_weights(improver):
        return "weights"
    return "skills" if edits_skills(improver) else "folders" if is_agent(improver) else "candidates"


def load_loop(name: str) -> Any:
    """The loop class that `name` means: a built-in, or `package.module:Class`."""
    return registry.load(name, among=LOOPS, what="loop")


def check_loop(loop: Any, config: RunConfig) -> None:
    """`SetupError` for options that a loop does not have, and for an improver that does not fit it.

    A plug-in may lack both flags: it takes any options, and its improver proposes whole candidates.
    """
    model = getattr(loop, "options_model", None)
    if model is not None:
        read_options(model, config.options, where=f"the loop {config.loop!r}")
    wants, has = getattr(loop, "edits", "candidates"), edits_of(improver_class(config.improver.kind))
    if wants != has:
        raise SetupError(
            f"improver.kind = {config.improver.kind!r} changes {_CHANGED[has]}, and the loop {config.loop!r} needs one "
            f"that changes {_CHANGED[wants]}: use {', '.join(sorted(_BUILT_IN[wants]))}, or your own "
            f"package.module:Class{_FLAG[wants]}"
        )


def preset(loop: str, name: str, *over: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a built-in loop's preset, for the layers that come over it.

    Report roles are the preset's own source's: tables merge, so tasks of another source could not get rid of them.
    """
    if name not in PRESETS:
        raise SetupError(f"no preset {name!r}; there is {', '.join(PRESETS)}")
    if loop not in LOOPS:
        return {}
    table: dict[str, Any] = read_toml(Path(__file__).with_name("presets") / f"{loop}.toml")[name]
    tasks = table.get("tasks", {})
    given = [layer["tasks"] for layer in over if isinstance(layer.get("tasks"), Mapping)]
    if any(layer.get("source", tasks.get("source")) != tasks.get("source") for layer in given):
        tasks.pop("reports", None)
    return table
