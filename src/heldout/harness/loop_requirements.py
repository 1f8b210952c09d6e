"""What every harness that takes turns in a sandbox asks of its settings before it is made."""

from __future__ import annotations

from heldout.errors import SetupError
from heldout.sandbox import Sandboxes, make_sandboxes
from heldout.tasks.environment import Environment

__all__ = ["LEAST_REPLY_TOKENS", "agents_environment", "usable_sandboxes"]

LEAST_REPLY_TOKENS = 256
"""An agent's turn, with its command, does not fit in less."""


def agents_environment(
    harness: str, environment: Environment | None, *, answer: str, max_tokens: int, source: str
) -> Environment:
    """The environment; `SetupError` for settings with which no agent works. `source` is one that fits the harness."""
    if answer != "generate":
        raise SetupError(f"solver.answer = {answer!r} is not for agents; use 'generate' with harness {harness!r}")
    if environment is None:
        raise SetupError(
            f"the harness {harness!r} needs tasks that begin in a work folder, and this task source has none; "
            f"use a source such as tasks.source = {source!r}, or solver.harness = 'prompt'"
        )
    if max_tokens < LEAST_REPLY_TOKENS:
        raise SetupError(
            f"solver.model.max_tokens = {max_tokens} is too short for an agent's turn; "
            f"set at least {LEAST_REPLY_TOKENS}, better 2048: solver.model.max_tokens=2048"
        )
    return environment


def usable_sandboxes(harness: str, kind: str) -> Sandboxes:
    """Sandboxes of this kind; `SetupError` where they do not work on this machine."""
    sandboxes = make_sandboxes(kind)
    fault = sandboxes.fault()
    if fault is not None:
        raise SetupError(f"the harness {harness!r} cannot use the sandbox {kind!r}: {fault}")
    return sandboxes
