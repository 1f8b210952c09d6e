"""What one turn of an agent's episode was; the element of `Trajectory.steps` of every harness that runs commands."""

from __future__ import annotations

from typing import Literal

from heldout.records import Record, Trajectory

__all__ = ["Step", "commands_of", "steps_of"]


class Step(Record):
    """One assistant turn and what came back."""

    kind: Literal["command", "format_error", "blocked", "submit"]
    """`blocked`: a hook answered instead of the shell. `submit`: the episode ended on the agent's own word."""
    text: str = ""
    """What the model said, in full."""
    command: str | None = None
    """The shell command as it was run (hooks may have rewritten the model's)."""
    output: str = ""
    """What the model was shown."""
    exit_code: int | None = None
    killed: str = ""
    """Limit of the sandbox that ended the command; see `heldout.sandbox.Completed.killed`."""
    hook_faults: tuple[str, ...] = ()
    """What hooks did wrong in this turn; an episode keeps the first few, and counts all in its measures."""


def steps_of(trajectory: Trajectory) -> tuple[Step, ...]:
    """The turns of a trajectory that a tool loop made."""
    return tuple(Step.model_validate(step) for step in trajectory.steps)


def commands_of(trajectory: Trajectory) -> tuple[str, ...]:
    """The commands that were really run, in order: what a replay runs again."""
    steps = steps_of(trajectory)
    return tuple(step.command for step in steps if step.kind == "command" and step.command is not None)
