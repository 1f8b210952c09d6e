"""The one place where an error becomes a message and an exit code."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.exceptions import TyperException

from heldout.cli import inspecting, machine, outcomes, running, skills, sources
from heldout.cli.app import DONE, FAILED, INTERRUPTED, OUT_OF_BUDGET, WRONG_USE, app
from heldout.errors import BudgetExhausted, GateError, HeldoutError, SetupError, TaskError

__all__ = ["COMMANDS", "exit_code", "main"]

COMMANDS = (running, inspecting, skills, outcomes, sources, machine)
"""Modules whose commands are on `app` once they are imported."""


def exit_code(error: HeldoutError) -> int:
    """0 done, 1 failed, 2 wrong use, 3 stopped by the budget."""
    if isinstance(error, BudgetExhausted):
        return OUT_OF_BUDGET
    return WRONG_USE if isinstance(error, (SetupError, TaskError, GateError)) else FAILED


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. Deliberate errors are one message on standard error, without a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _terminated_like_interrupted():
            code: Any = app(words, standalone_mode=False)
    except HeldoutError as error:
        _tell(str(error), words)
        sys.exit(exit_code(error))
    except TyperException as error:
        _tell(getattr(error, "message", "") or str(error), words)
        sys.exit(WRONG_USE)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    if code == INTERRUPTED:  # to which typer turns most interruptions, without a word
        kept = "; what was recorded is kept, and --resume continues it" if words[:1] == ["run"] else ""
        _tell(f"interrupted{kept}", words)
    sys.exit(code if isinstance(code, int) else DONE)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM, which service managers and schedulers send, ends a command as Ctrl-C does: servers are stopped."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(message: str, words: Sequence[str]) -> None:
    if "--json" in words:
        sys.stdout.write(json.dumps({"error": message}) + "\n")
    sys.stderr.write(f"heldout: {message}\n")
