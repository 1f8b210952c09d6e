"""The typer application, and the one place where an error becomes an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.exceptions import TyperException

from heldout.errors import BudgetExhausted, HeldoutError, SetupError, TaskError

__all__ = ["app", "exit_code", "main"]

app = typer.Typer(
    name="heldout",
    help="Improve an LLM agent with a published self-improvement loop, and hear how much of the gain is real.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DONE, FAILED, WRONG_USE, OUT_OF_BUDGET, INTERRUPTED = 0, 1, 2, 3, 130


def exit_code(error: HeldoutError) -> int:
    """0 done, 1 failed, 2 wrong use, 3 stopped by the budget."""
    if isinstance(error, BudgetExhausted):
        return OUT_OF_BUDGET
    return WRONG_USE if isinstance(error, (SetupError, TaskError)) else FAILED


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. Deliberate errors are one message on standard error, without a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _load_commands()
    try:
        code: Any = app(words, standalone_mode=False)
    except HeldoutError as error:
        _tell(str(error), words)
        sys.exit(exit_code(error))
    except TyperException as error:
        _tell(getattr(error, "message", "") or str(error), words)
        sys.exit(WRONG_USE)
    except (typer.Abort, KeyboardInterrupt):
        _tell("interrupted; what was recorded is kept, and --resume continues it", words)
        sys.exit(INTERRUPTED)
    sys.exit(code if isinstance(code, int) else DONE)


def _tell(message: str, words: Sequence[str]) -> None:
    if "--json" in words:
        sys.stdout.write(json.dumps({"error": message}) + "\n")
    sys.stderr.write(f"heldout: {message}\n")


def _load_commands() -> None:
    """Importing a command module adds its commands to `app`."""
    import heldout.cli.inspecting
    import heldout.cli.machine
    import heldout.cli.outcomes
    import heldout.cli.running
    import heldout.cli.sources  # noqa: F401 - imported for the commands that it adds
