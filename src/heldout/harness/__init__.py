"""Harnesses: how a candidate folder and a model solve a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heldout import registry
from heldout.config import SolverConfig
from heldout.harness.base import BatchHarness, Episode, Harness, Preparation, Replayed, Replayer
from heldout.harness.completion import CompletionHarness
from heldout.harness.loop_episode import ended_by
from heldout.harness.prompt import CONTENT_FREE, PromptHarness, fixed_messages
from heldout.harness.prompt_files import (
    DEMONSTRATIONS_FILE,
    INSTRUCTION_FILE,
    Demonstration,
    Prompt,
    check_candidate,
    read_prompt,
)
from heldout.harness.steps import Step, commands_of, steps_of
from heldout.harness.tool_loop import ToolLoopHarness
from heldout.harness.workspace import assemble, check_workspace, component_fingerprints
from heldout.records import Candidate
from heldout.tasks.environment import Environment

__all__ = [
    "CONTENT_FREE",
    "HARNESSES",
    "BatchHarness",
    "CompletionHarness",
    "Demonstration",
    "Episode",
    "Harness",
    "Preparation",
    "Prompt",
    "PromptHarness",
    "Replayed",
    "Replayer",
    "Step",
    "ToolLoopHarness",
    "assemble",
    "check_candidate",
    "check_workspace",
    "commands_of",
    "component_fingerprints",
    "dry_run_hooks",
    "ended_by",
    "fixed_messages",
    "make_harness",
    "read_prompt",
    "shortened",
    "start_files",
    "steps_of",
]

HARNESSES: Mapping[str, str] = {
    "completion": "heldout.harness.completion:CompletionHarness",
    "prompt": "heldout.harness.prompt:PromptHarness",
    "skilled": "heldout.skills.harness:SkilledHarness",
    "tool_loop": "heldout.harness.tool_loop:ToolLoopHarness",
}
"""Short names of the built-in harnesses."""


def make_harness(config: SolverConfig, *, labels: Sequence[str], environment: Environment | None = None) -> Harness:
    """The harness that `solver.harness` names; a plug-in is made with the same keywords as the built-in ones.

    `options` and `environment` are handed over only where there are any: older plug-ins do not know them.
    """
    found = registry.load(config.harness, among=HARNESSES, what="harness")
    further: dict[str, Any] = {"options": config.options} if config.options else {}
    if environment is not None:
        further["environment"] = environment
    made: Harness = found(answer=config.answer, labels=tuple(labels), max_tokens=config.model.max_tokens, **further)
    return made


def start_files(config: SolverConfig, instruction: str) -> dict[str, str]:
    """The folder that a run begins with: the instruction, in the file where the harness reads it.

    A class says so with `start_file`; one that does not is taken to read what the prompt harness reads. A class with
    `start_folder` brings its own folder for its options, or None, and the instruction is then not used.
    """
    harness = registry.load(config.harness, among=HARNESSES, what="harness")
    start_folder = getattr(harness, "start_folder", None)
    own = None if start_folder is None else start_folder(config.options)
    if own is not None:
        return dict(own)
    file = str(getattr(harness, "start_file", INSTRUCTION_FILE))
    files = {file: instruction.strip() + "\n"}
    return files | {DEMONSTRATIONS_FILE: ""} if file == INSTRUCTION_FILE else files


def shortened(harness: Harness, turns: int) -> Harness:
    """The harness with episodes of at most this many turns, where it takes turns."""
    return harness.short(turns) if isinstance(harness, ToolLoopHarness) else harness


def dry_run_hooks(candidate: Candidate, harness: Harness) -> list[str]:
    """What goes wrong when a candidate's hooks are called once on inert input; nothing where the harness has none."""
    return harness.dry_run(candidate) if isinstance(harness, ToolLoopHarness) else []
